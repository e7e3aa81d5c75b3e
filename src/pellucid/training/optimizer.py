"""Section 5.3: Adam, and a learning rate that rises for `warmup_steps` updates and then falls with 1 / sqrt(update).

rate = d_model^-0.5 * min(update^-0.5, update * warmup_steps^-1.5)                                  (equation 3)

What an optimizer keeps of the updates before (its moments) is named here too, for the checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from pellucid.config import TrainingConfig
from pellucid.model.transformer import Transformer
from pellucid.training.muon import Muon

_MOMENTS = {"adam.first": "exp_avg", "adam.second": "exp_avg_sq", "muon.momentum": "momentum"}
"""What a moment is called in a checkpoint, and in its optimizer."""


def noam_rate(update: int, d_model: int, warmup_steps: int) -> float:
    """Equation (3). `update` counts from 1. (Noam Shazeer's schedule, whence the name that programs give it.)"""
    return inverse_sqrt_rate(update, (d_model * max(1, warmup_steps)) ** -0.5, warmup_steps)


def inverse_sqrt_rate(update: int, peak: float, warmup_steps: int) -> float:
    """The same curve with a given height: `peak` at update `warmup_steps`, linear before, falling as 1 / sqrt after."""
    warmup = max(1, warmup_steps)
    return peak * min(update / warmup, (warmup / update) ** 0.5)


def learning_rate(update: int, config: TrainingConfig, d_model: int) -> float:
    """The rate of update number `update` (from 1) under `config`: a pure function, so that resuming needs no state.

    With `cooldown_steps`, beyond the paper, the last updates before `max_updates` have a rate that falls linearly to
    zero on top of that (Haegele et al. 2024, arXiv 2405.18392, section 3).
    """
    if config.schedule == "noam" or config.peak_rate == 0:
        rate = noam_rate(update, d_model, config.warmup_steps)
    else:
        rate = inverse_sqrt_rate(update, config.peak_rate, config.warmup_steps)
    if config.cooldown_steps:
        # The last update has 1 / cooldown_steps of the rate and not 0, which would be no update.
        rate *= min(1.0, max(0, config.max_updates + 1 - update) / config.cooldown_steps)
    return rate


def make_adam(parameters: Iterable[nn.Parameter], config: TrainingConfig) -> torch.optim.Adam:
    """Adam with the paper's constants (0.9, 0.98, 1e-9) unless `config` says otherwise, in PyTorch's fused form."""
    return torch.optim.Adam(
        list(parameters),
        lr=0.0,  # set before every update
        betas=(config.adam_beta1, config.adam_beta2),
        eps=config.adam_epsilon,
        weight_decay=config.weight_decay,
        fused=True,
    )


def make_optimizers(model: Transformer, config: TrainingConfig, bfloat16: bool) -> list[torch.optim.Optimizer]:
    """Adam for all weights; or, if `config` says so, Muon for the matrices of the layers and Adam for what is left:
    embeddings, output, biases and norms, which then have no weight decay. `bfloat16`: Muon's own products are of that."""
    if config.optimizer == "adam":
        return [make_adam(model.parameters(), config)]
    matrices = [weight for part in (model.encoder, model.decoder) for weight in part.parameters() if weight.dim() == 2]
    chosen = set(matrices)
    return [
        Muon(matrices, config.weight_decay, bfloat16),
        make_adam((weight for weight in model.parameters() if weight not in chosen), replace(config, weight_decay=0.0)),
    ]


def set_rate(optimizers: Sequence[torch.optim.Optimizer], rate: float) -> None:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate


def moments_of(optimizers: Sequence[torch.optim.Optimizer], model: nn.Module) -> dict[str, Tensor]:
    """What the optimizers remember, by names of the weights: "adam.first.encoder..." and so on."""
    names: dict[Tensor, str] = {weight: name for name, weight in model.named_parameters()}
    return {
        f"{title}.{names[weight]}": kept[key]
        for optimizer in optimizers
        for weight, kept in optimizer.state.items()
        for title, key in _MOMENTS.items()
        if key in kept
    }


def set_moments(
    optimizers: Sequence[torch.optim.Optimizer], model: nn.Module, moments: Mapping[str, Tensor], update: int
) -> None:
    """Remember what `moments_of` gave after update number `update`. Other entries of `moments` are let be."""
    names: dict[Tensor, str] = {weight: name for name, weight in model.named_parameters()}
    for optimizer in optimizers:
        for weight in (weight for group in optimizer.param_groups for weight in group["params"]):
            kept = {
                key: moments[f"{title}.{names[weight]}"].to(weight.device)
                for title, key in _MOMENTS.items()
                if f"{title}.{names[weight]}" in moments
            }
            if kept:
                optimizer.state[weight] = {"step": torch.tensor(float(update), device=weight.device)} | kept


@torch.no_grad()
def update_average(average: dict[str, Tensor], model: nn.Module, decay: float) -> None:
    """One step of the exponential moving average: average <- decay * average + (1 - decay) * weights."""
    for name, weight in model.named_parameters():
        average[name].lerp_(weight, 1.0 - decay)

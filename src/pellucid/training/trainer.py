"""Section 5.2: the training loop.

The trainer yields records (`records.py`) and knows neither the screen nor the command line. One update:

    1. the gradients of `accumulate` batches, summed
    2. divide by the target tokens of all of them; clip
    3. Adam (or Muon) at this update's learning rate
    4. the moving average, if there is one
    5. now and then: look (validate), save, stop

Everything that decides the next update is in the checkpoint: weights, the optimizer's moments, the random generator, epoch and
place in it, patience. On a CPU a resumed run is bit-equal to an unbroken one with the same number of threads.
"""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.checkpoint import LoadedModel, set_weights, weights_of
from pellucid.config import DataConfig, SearchConfig, TrainingConfig
from pellucid.data.batching import Batch, EpochPlan, Pairs, make_batch, mixed_pairs, plan_epoch, useful_share
from pellucid.data.store import PairStore
from pellucid.data.subword_regularization import CutPairs, SubwordRegularization
from pellucid.engines.linear import multiplies_bfloat16
from pellucid.errors import TrainingError
from pellucid.model.transformer import Transformer
from pellucid.tags import target_languages
from pellucid.training.bfloat16 import NARROWEST, has_matrix_units, multiply_in_bfloat16
from pellucid.training.evaluation import corpus_scores
from pellucid.training.loss import linear_cross_entropy
from pellucid.training.muon import Muon
from pellucid.training.optimizer import (
    learning_rate,
    make_optimizers,
    moments_of,
    set_moments,
    set_rate,
    update_average,
)
from pellucid.training.records import Finished, Plan, Progress, Record, Saved, Validation
from pellucid.training.replicas import Replicas
from pellucid.training.run_folder import RunFolder
from pellucid.translator import Translator

SAMPLES = 3
TRANSLATED_AT_VALIDATION = 1000
"""BLEU while training is of at most so many validation pairs; the loss is of all of them."""


@dataclass
class Position:
    """Where a run is: what besides tensors decides how it goes on."""

    update: int = 0
    epoch: int = 0
    batch: int = 0
    """Batches of this epoch that have been trained on."""
    best: float | None = None
    """The best value of `stop_on` so far (lower is better: chrF is negated)."""
    best_update: int = 0
    not_better: int = 0
    """Validations since the best one."""
    seconds: float = 0.0


@dataclass(frozen=True)
class ValidationSet:
    """Pairs to look at: as ids for the loss, as text for BLEU. `sources` are distinct, each with all its references."""

    store: PairStore
    sources: list[str]
    references: list[list[str]] = field(default_factory=list)
    """[reference number][sentence]"""
    tags: list[tuple[str, ...]] = field(default_factory=list)
    """What stands before each of `sources`; empty: nothing before any."""


class Trainer:
    """Trains `loaded.model` on `store`; see :meth:`run`.

    Args:
        loaded: model, tokenizers and languages.
        folder: where checkpoints and metrics go.
        mix: how often an epoch takes the pairs of each part of the store; empty: once each.
        max_tokens: subword regularization makes no side longer than that, the end mark included.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        store: PairStore,
        valid: ValidationSet | None,
        config: TrainingConfig,
        folder: RunFolder,
        device: torch.device,
        mix: Sequence[float] = (),
        max_tokens: int = DataConfig.max_tokens,
    ) -> None:
        self.loaded, self.model, self.store, self.valid = loaded, loaded.model, store, valid
        self.config, self.folder, self.device = config, folder, device
        self.mix = tuple(mix)
        shape = self.model.config
        longest = min(max_tokens, shape.max_len) if shape.positions == "learned" else max_tokens
        self._regularization = SubwordRegularization(
            loaded.source_tokenizer, loaded.target_tokenizer, config.subword_regularization, config.seed, longest
        )
        self._cut: CutPairs | None = None
        """The pairs of the epoch that was asked for last, if words are cut anew for each."""
        self.position = Position()
        self.average: dict[str, Tensor] | None = None
        if config.ema_decay:
            self.average = {name: weight.clone() for name, weight in weights_of(self.model).items()}
        self.bfloat16 = config.precision == "bfloat16" or (config.precision == "auto" and self._gains_by_bfloat16())
        """Whether the products of the model's passes, and those of Muon, are of bfloat16. Weights, sums and Adam never are."""
        self.optimizers = make_optimizers(self.model, config, self.bfloat16)
        self.stop_requested: str | None = None
        """Set from outside (a signal handler) to stop after the update under way; the text becomes the reason."""
        self._autocasts = self.bfloat16 and device.type != "cpu"
        if self.bfloat16 and not self._autocasts:
            multiply_in_bfloat16(self.model)
        self._replicas = Replicas(self.model, config.batch_tokens)
        self._hidden = decoder_output
        if device.type == "cuda" and config.compile:  # on a CPU it would need a C++ compiler there
            self._hidden = torch.compile(decoder_output, dynamic=True)

    # --- resuming ---------------------------------------------------------------------------------------------------

    def resume(self) -> list[str]:
        """Go on from the folder's newest checkpoint that can be read; returns what was wrong with newer ones."""
        checkpoint, weights, state, problems = self.folder.load_newest()
        raw = {name.removeprefix("weights."): t for name, t in state.items() if name.startswith("weights.")}
        set_weights(self.model, raw or weights, str(checkpoint.path))
        if self.average is not None:
            self.average = {name: weight.to(self.device) for name, weight in weights.items()}
        set_moments(self.optimizers, self.model, state, checkpoint.info["update"])
        torch.set_rng_state(state["random.cpu"])
        if "random.cuda" in state and self.device.type == "cuda":
            torch.cuda.set_rng_state(state["random.cuda"], self.device)
        self.position = Position(**checkpoint.info["position"])
        self.folder.discard_after(checkpoint.update)
        self.folder.cut_metrics(checkpoint.info["metrics_bytes"])
        return problems

    def _save(self, reason: str, validation: Validation | None = None) -> Saved:
        state: dict[str, Tensor] = {"random.cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            state["random.cuda"] = torch.cuda.get_rng_state(self.device)
        state |= moments_of(self.optimizers, self.model)
        weights = weights_of(self.model)
        if self.average is not None:
            state |= {f"weights.{name}": weight for name, weight in weights.items()}
            weights = self.average
        info: dict[str, Any] = {"position": asdict(self.position), "validated": validation is not None}
        if validation is not None:
            info |= {"loss": validation.loss, "bleu": validation.bleu, "chrf": validation.chrf}
        checkpoint = self.folder.save(self.position.update, weights, state, info)
        self.folder.prune(self.position.best_update, self.config.keep_checkpoints)
        return Saved(update=self.position.update, path=str(checkpoint.path), reason=reason)

    # --- before the first step --------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        """Try the largest batch, time a usual one, and say how long the run will take. Changes nothing.

        Raises:
            TrainingError: not enough memory, or too little time for any training.
        """
        config = self.config
        pairs, epoch = self._epoch(self.position.epoch)
        shapes = epoch.shapes(pairs.source_lengths, pairs.target_lengths)  # (batches, 3)
        cells = shapes[:, 0] * (shapes[:, 1] + shapes[:, 2])
        largest, usual = int(cells.argmax()), int(cells.argsort()[len(cells) // 2])
        with self._undisturbed():
            try:
                self._gradients(self._batch(pairs, epoch[largest]))
                self.model.zero_grad()
                seconds = min(self._timed(pairs, epoch[usual]) for _ in range(2))
            except (RuntimeError, MemoryError) as error:
                if "memory" not in str(error).lower() and not isinstance(error, MemoryError):
                    if self._hidden is not decoder_output and isinstance(error, torch._dynamo.exc.TorchDynamoException):
                        said = " ".join(str(error).partition("\n\n")[0].split())
                        raise TrainingError(
                            f"the model cannot be compiled on this machine: {said}",
                            hint="--set training.compile=false, which is slower",
                        ) from error
                    raise
                raise TrainingError(
                    f"the largest batch ({shapes[largest][0]} pairs of {shapes[largest][1]} and {shapes[largest][2]} "
                    "tokens) does not fit into memory",
                    hint=f"--set training.batch_tokens={config.batch_tokens // 2} --set training.accumulate="
                    f"{config.accumulate * 2}, or a smaller --preset",
                ) from error
        if self._cut is not None:
            seconds += self._cut.seconds / len(epoch)
        seconds = seconds * config.accumulate + self._step_seconds()
        updates_per_epoch = math.ceil(len(epoch) / config.accumulate)
        limits = [n for n in (config.max_updates, config.max_epochs * updates_per_epoch) if n]
        if config.max_minutes:
            fits = int(config.max_minutes * 60 / seconds)
            if fits < 20:
                raise TrainingError(
                    f"in {config.max_minutes:g} minutes only {fits} updates fit (each takes {seconds:.1f} s): nothing "
                    "would be learnt",
                    hint="a smaller --preset (tiny), a smaller training.batch_tokens, or more --max-time",
                )
            limits.append(max(1, fits))
        planned = min(limits) if limits else None
        to_end = None if planned is None else max(0, planned - self.position.update) * seconds
        return Plan(
            seconds_per_update=seconds,
            updates_planned=planned,
            seconds_to_end=to_end,
            peak_memory_bytes=self._peak_memory(),
            largest_batch=(int(shapes[largest, 0]), int(shapes[largest, 1]), int(shapes[largest, 2])),
        )

    def batches_per_epoch(self) -> int:
        return len(self._epoch(self.position.epoch)[1])

    def useful_share(self) -> float:
        """Share of an epoch's padded cells, both sides together, that hold a token."""
        pairs, epoch = self._epoch(self.position.epoch)
        return useful_share(epoch, pairs.source_lengths, pairs.target_lengths)

    def _epoch(self, number: int) -> tuple[Pairs, EpochPlan]:
        """The pairs that epoch `number` reads, and its batches of them; the same whenever asked for."""
        config, store = self.config, self.store
        chosen = mixed_pairs(store.parts, self.mix, config.seed, number) if self.mix else None
        pairs: Pairs = store
        if config.subword_regularization:
            if self._cut is None or self._cut.epoch != number:
                self._cut = None  # the old one goes before the new one comes: memory for one of them is enough
                self._cut = self._regularization.cut(store, number, chosen)
            pairs, chosen = self._cut, None
        lengths = pairs.source_lengths, pairs.target_lengths
        return pairs, plan_epoch(*lengths, config.batch_tokens, config.seed, number, chosen)

    def _timed(self, pairs: Pairs, indices: np.ndarray) -> float:
        started = time.perf_counter()
        self._gradients(self._batch(pairs, indices))
        self.model.zero_grad()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - started

    def _step_seconds(self) -> float:
        """Of an optimizer that multiplies matrices itself. Adam's pass over the weights is little beside the model's."""
        muons = [optimizer for optimizer in self.optimizers if isinstance(optimizer, Muon)]
        return sum(min(self._rehearsed(muon) for _ in range(2)) for muon in muons)  # the first time only warms up

    def _rehearsed(self, optimizer: Muon) -> float:
        started = time.perf_counter()
        optimizer.rehearse()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - started

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """What happens inside draws from the random generator as if it had not."""
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            yield
        self.model.zero_grad()

    def _peak_memory(self) -> int:
        if self.device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self.device))
        unit = 1 if os.uname().sysname == "Darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

    # --- the loop ---------------------------------------------------------------------------------------------------

    def run(self) -> Iterator[Record]:
        """Train until a limit, patience or `stop_requested`; yields Progress, Validation, Saved and one Finished.

        Raises:
            TrainingError: the loss is no number any more, or a checkpoint cannot be written.
        """
        config, position = self.config, self.position
        started = time.monotonic() - position.seconds
        saved_at = time.monotonic()
        planned: int | None = None
        reason = self._over(position.seconds)
        self.model.train()
        while reason is None:
            pairs, epoch = self._epoch(position.epoch)
            while reason is None and position.batch < len(epoch):
                update_started = time.perf_counter()
                group = range(position.batch, min(position.batch + config.accumulate, len(epoch)))

                # 1. gradients
                loss = plain = 0.0
                tokens = 0
                for k in group:
                    batch = self._batch(pairs, epoch[k])
                    sums = self._gradients(batch)
                    loss, plain, tokens = loss + sums[0], plain + sums[1], tokens + batch.tgt_tokens
                if not math.isfinite(loss):
                    raise TrainingError(
                        f"the loss is {loss} at update {position.update + 1}",
                        hint="lower training.peak_rate, lengthen training.warmup_steps, or set training.clip_norm=1; "
                        "the last checkpoint is intact",
                    )

                # 2. the mean over the target tokens of the whole update, whatever its batches' shapes
                norm = self._scale_and_clip(tokens)

                # 3. one step
                position.update += 1
                rate = learning_rate(position.update, config, self.model.config.d_model)
                self._step(rate)

                # 4. moving average
                if self.average is not None:
                    update_average(self.average, self.model, config.ema_decay)

                # 5. look, save, stop
                position.batch = group.stop
                position.seconds = time.monotonic() - started
                if planned is None:
                    planned = self._planned(len(epoch))
                yield Progress(
                    update=position.update,
                    epoch=position.epoch + position.batch / len(epoch),
                    loss=loss / tokens,
                    perplexity=_perplexity(plain / tokens),
                    rate=rate,
                    target_tokens_per_second=tokens / (time.perf_counter() - update_started),
                    seconds=position.seconds,
                    updates_planned=planned,
                    seconds_left=self._seconds_left(planned),
                    grad_norm=norm,
                )
                reason = self._over(position.seconds)
                at_end_of_epoch = position.batch >= len(epoch)
                if at_end_of_epoch:
                    position.epoch, position.batch = position.epoch + 1, 0
                    self.store.release()
                if self._time_to_look(at_end_of_epoch, reason):
                    validation = self.validate()
                    if validation is not None:
                        if self._stale():
                            reason = reason or "patience"
                        position.seconds = time.monotonic() - started
                        yield validation
                        yield self._save("validated", validation)
                        saved_at = time.monotonic()
                elif reason is None and config.save_minutes and time.monotonic() - saved_at > config.save_minutes * 60:
                    yield self._save("time")
                    saved_at = time.monotonic()
                if at_end_of_epoch:
                    break
            reason = reason or self._over(position.seconds)
        newest = self.folder.checkpoints()
        if not newest or newest[-1].update != position.update:
            yield self._save(reason)
        yield Finished(
            update=position.update,
            reason=reason,
            best_update=position.best_update,
            seconds=position.seconds,
            directory=str(self.folder.model_directory),
        )

    def _over(self, seconds: float) -> str | None:
        """Why the run is over, or None."""
        config, position = self.config, self.position
        if self.stop_requested:
            return self.stop_requested
        if config.max_updates and position.update >= config.max_updates:
            return "max_updates"
        if config.max_epochs and position.epoch >= config.max_epochs:
            return "max_epochs"
        if config.max_minutes and seconds >= config.max_minutes * 60:
            return "max_time"
        return "patience" if self._stale() else None

    def _stale(self) -> bool:
        return bool(self.config.patience) and self.position.not_better >= self.config.patience

    def _planned(self, batches: int) -> int | None:
        per_epoch = math.ceil(batches / self.config.accumulate)
        limits = [n for n in (self.config.max_updates, self.config.max_epochs * per_epoch) if n]
        return min(limits) if limits else None

    def _seconds_left(self, planned: int | None) -> float | None:
        position, left = self.position, []
        if planned is not None:
            left.append(position.seconds / position.update * max(0, planned - position.update))
        if self.config.max_minutes:
            left.append(max(0.0, self.config.max_minutes * 60 - position.seconds))
        return min(left) if left else None

    def _time_to_look(self, at_end_of_epoch: bool, reason: str | None) -> bool:
        if self.stop_requested:
            return False  # whoever asks to stop wants to stop now
        if reason is not None:
            return True
        every = self.config.validate_every
        return at_end_of_epoch if not every else self.position.update % every == 0

    # --- one batch --------------------------------------------------------------------------------------------------

    def _batch(self, pairs: Pairs, indices: np.ndarray) -> Batch:
        source, target = self.loaded.source_tokenizer, self.loaded.target_tokenizer
        start = self.model.config.start_id
        return make_batch(pairs, indices, source.pad_id, target.pad_id, target.pad_id if start is None else start)

    def _loss(
        self, model: Transformer, src: np.ndarray, tgt_in: np.ndarray, tgt_out: np.ndarray
    ) -> tuple[Tensor, Tensor]:
        """Sums over the batch's target tokens: the smoothed loss, and -log p(target)."""
        source, target = (torch.from_numpy(ids).to(self.device, non_blocking=True) for ids in (src, tgt_in))
        with self._autocast():
            hidden = self._hidden(model, source, target)
        if self._autocasts:
            hidden = hidden.bfloat16()  # autocast leaves LayerNorm's output float32, and products would be of that
        right = torch.from_numpy(tgt_out)
        return linear_cross_entropy(
            hidden, model.output.weight, right, self.config.label_smoothing, self.loaded.target_tokenizer.pad_id
        )

    def _gradients(self, batch: Batch) -> tuple[float, float]:
        return self._replicas.gradients(self._loss, batch)

    def _autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16) if self._autocasts else nullcontext()

    def _gains_by_bfloat16(self) -> bool:
        if self.device.type == "cpu":
            return self.model.config.d_model >= NARROWEST and has_matrix_units()
        return multiplies_bfloat16(self.device)

    def _step(self, rate: float) -> None:
        """One step of every optimizer; the gradients are gone after it."""
        set_rate(self.optimizers, rate)
        for optimizer in self.optimizers:
            optimizer.step()
        self.model.zero_grad()

    def _scale_and_clip(self, tokens: int) -> float:
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        torch._foreach_mul_(gradients, 1.0 / tokens)
        for embedding in (self.model.src_embedding, self.model.tgt_embedding):
            if embedding.pad_id is not None and embedding.weight.grad is not None:
                # Padding's row stays zero; the output layer, where it shares the matrix, would move it.
                embedding.weight.grad[embedding.pad_id].zero_()
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        if self.config.clip_norm:
            torch._foreach_mul_(gradients, (self.config.clip_norm / (norm + 1e-6)).clamp(max=1.0))
        return float(norm)

    # --- looking ----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def validate(self) -> Validation | None:
        """Loss, perplexity, BLEU, chrF and three translations of the validation set; None where there is none."""
        if self.valid is None:
            return None
        started = time.perf_counter()
        with self._averaged(), self._undisturbed():
            self.model.eval()
            store, loss, plain, tokens = self.valid.store, 0.0, 0.0, 0
            lengths = store.source_lengths, store.target_lengths
            epoch = plan_epoch(*lengths, self.config.batch_tokens, 0, 0)
            for k in range(len(epoch)):
                batch = self._batch(store, epoch[k])
                sums = self._loss(self.model, batch.src, batch.tgt_in, batch.tgt_out)
                loss, plain, tokens = loss + float(sums[0]), plain + float(sums[1]), tokens + batch.tgt_tokens
            bleu = chrf = None
            by_language: dict[str, float] = {}
            signature = ""
            samples: tuple[tuple[str, str, str], ...] = ()
            if self.config.validate_bleu:
                sources = self.valid.sources[:TRANSLATED_AT_VALIDATION]
                references = [side[: len(sources)] for side in self.valid.references]
                greedy = SearchConfig(beam_size=1)
                engine = "torch" if self.device.type == "cpu" else "reference"
                tags = self.valid.tags[: len(sources)] or [()] * len(sources)
                translations = _translated(self.loaded, engine, sources, tags, greedy)
                scores = corpus_scores(translations, references, self.loaded.target_language)
                bleu, chrf, signature = scores.bleu, scores.chrf, scores.bleu_signature
                by_language = _chrf_by_language(translations, references, tags)
                samples = tuple(zip(sources[:SAMPLES], references[0][:SAMPLES], translations[:SAMPLES], strict=True))
            self.model.train()
        value = -chrf if self.config.stop_on == "chrf" and chrf is not None else loss / tokens
        is_best = self.position.best is None or value < self.position.best
        if is_best:
            self.position.best, self.position.best_update, self.position.not_better = value, self.position.update, 0
        else:
            self.position.not_better += 1
        return Validation(
            update=self.position.update,
            epoch=self.position.epoch + 0.0,
            loss=loss / tokens,
            perplexity=_perplexity(plain / tokens),
            bleu=bleu,
            chrf=chrf,
            bleu_signature=signature,
            samples=samples,
            is_best=is_best,
            chrf_by_language=by_language,
            seconds=time.perf_counter() - started,
        )

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """Inside, the model has the moving average for its weights, if one is kept."""
        if self.average is None:
            yield
            return
        raw = {name: weight.clone() for name, weight in weights_of(self.model).items()}
        set_weights(self.model, self.average, "moving average")
        try:
            yield
        finally:
            set_weights(self.model, raw, "weights")


def decoder_output(model: Transformer, src: Tensor, tgt_in: Tensor) -> Tensor:
    """What the loss is computed from: (B, T, D) for source ids (B, S) and target ids (B, T), shifted right."""
    mask = model.padding_mask(src)
    return model.decode(tgt_in, model.encode(src, mask), None, mask)


def _perplexity(loss: float) -> float:
    return math.exp(min(loss, 700.0))  # e^709 is the largest float


def _translated(
    loaded: LoadedModel, engine: str, sources: Sequence[str], tags: Sequence[tuple[str, ...]], config: SearchConfig
) -> list[str]:
    """The translations of `sources`, each with its own tags, in order."""
    places: dict[tuple[str, ...], list[int]] = {}
    for i, own in enumerate(tags):
        places.setdefault(own, []).append(i)
    whole = Translator(loaded, engine, tags=tags[0])
    found: dict[int, str] = {}
    for own, numbers in places.items():
        translations = whole.tagged(tags=own).translate([sources[i] for i in numbers], config, scores=False)
        found |= zip(numbers, (t.text for t in translations), strict=True)
    return [found[i] for i in range(len(sources))]


def _chrf_by_language(
    translations: Sequence[str], references: Sequence[Sequence[str]], tags: Sequence[tuple[str, ...]]
) -> dict[str, float]:
    """chrF of the translations into each target language; empty where there are not several."""
    places: dict[str, list[int]] = {}
    for i, own in enumerate(tags):
        for language in target_languages(own):
            places.setdefault(language, []).append(i)
    if len(places) < 2:
        return {}
    scores = {}
    for language, numbers in places.items():
        expected = [[side[i] for i in numbers] for side in references]
        scores[language] = corpus_scores([translations[i] for i in numbers], expected, language).chrf
    return scores

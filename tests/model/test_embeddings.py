"""Section 3.4: one matrix in up to three places, and the row of padding in it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from pellucid.config import TransformerConfig
from pellucid.model.embeddings import TokenEmbedding
from pellucid.model.transformer import Transformer

PAD, START = 19, 18


def small(share: str, **options: object) -> Transformer:
    torch.manual_seed(0)
    return Transformer(20, 20, 8, 2, 1, 1, 16, 0.0, share_embeddings=share, pad_id=PAD, start_id=START, **options)


def test_a_word_weighs_as_much_as_its_position():
    """Rows of variance 1 / d_model, times sqrt(d_model): variance 1, of the order of a sine."""
    torch.manual_seed(0)
    vectors = TokenEmbedding(2000, 64)(torch.arange(2000)[None])
    assert vectors.shape == (1, 2000, 64)
    assert vectors.var().item() == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize(
    "share,places_of_one_matrix",
    [
        ("none", []),
        ("decoder", ["tgt_embedding", "output"]),
        ("all", ["src_embedding", "tgt_embedding", "output"]),
    ],
)
def test_what_is_tied_is_one_storage_still_after_double_and_an_optimizer_step(share, places_of_one_matrix):
    model = small(share).double()
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    model(torch.tensor([[1, 2]]), torch.tensor([[START, 3]])).logsumexp(-1).sum().backward()
    optimizer.step()
    places = {name: getattr(model, name).weight for name in ("src_embedding", "tgt_embedding", "output")}
    for a in places:
        for b in places:
            together = a == b or {a, b} <= set(places_of_one_matrix)
            assert (places[a].data_ptr() == places[b].data_ptr()) == together, (a, b)


def test_a_tied_matrix_gets_the_sum_of_the_gradients_of_its_places():
    tied, apart = small("all"), small("none")
    apart.load_state_dict(tied.state_dict())  # a tied matrix stands in the state once under each of its names
    src, tgt = torch.tensor([[1, 2, 0]]), torch.tensor([[START, 3, 2]])
    for model in (tied, apart):
        F.cross_entropy(model(src, tgt)[0], torch.tensor([3, 2, 0])).backward()
    parts = [place.weight.grad for place in (apart.src_embedding, apart.tgt_embedding, apart.output)]
    assert all(part.abs().max() > 0 for part in parts)
    torch.testing.assert_close(tied.src_embedding.weight.grad, sum(parts))


def formula(c: TransformerConfig) -> int:
    """Parameters counted on paper."""
    d, f = c.d_model, c.d_ff
    attention = 4 * (d * d + d)  # W^Q, W^K, W^V, W^O, each with a bias
    feed_forward = d * f + f + f * d + d
    norm = 2 * d
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    last_norms = 2 * norm if c.norm == "pre" else 0
    matrices = {
        "none": (c.src_vocab + 2 * c.tgt_vocab) * d,
        "decoder": (c.src_vocab + c.tgt_vocab) * d,
        "all": c.tgt_vocab * d,
    }[c.share_embeddings]
    positions = 0 if c.positions == "sinusoidal" else c.max_len * d * (1 if c.share_embeddings == "all" else 2)
    return (
        matrices + positions + c.num_encoder_layers * encoder_layer + c.num_decoder_layers * decoder_layer + last_norms
    )


def count(config: TransformerConfig) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in Transformer.from_config(config).parameters())


@pytest.mark.parametrize("share", ["none", "decoder", "all"])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_parameters_are_as_counted_on_paper(share, norm, positions):
    source = 11 if share == "all" else 7
    config = TransformerConfig(
        source, 11, 12, 3, 2, 3, 20, max_len=9, share_embeddings=share, norm=norm, positions=positions
    )
    assert count(config) == formula(config)


@pytest.mark.parametrize(
    "preset,vocabulary,shares,millions",
    [
        # Table 3 says 65 and 213 million; with the joint vocabulary of about 37,000 (section 5.1) we count 63 and 214.
        ("base", 37000, "all", 63),
        ("big", 37000, "all", 214),
        # Three matrices instead of one: 2 x 37000 x 512 = 38 million more.
        ("base", 37000, "none", 101),
    ],
)
def test_the_papers_models_have_the_papers_size(preset, vocabulary, shares, millions):
    config = TransformerConfig.preset(preset, vocabulary, vocabulary, share_embeddings=shares)
    assert round(formula(config) / 1e6) == millions
    assert count(config) == formula(config)


# --- the row of padding ---------------------------------------------------------------------------------------------------


def trained(model: Transformer, also_zero: bool = False) -> Transformer:
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    src, tgt = torch.tensor([[1, 2, 0], [4, 0, PAD]]), torch.tensor([[START, 3, 2], [START, 5, PAD]])
    labels = torch.tensor([[3, 2, 0], [5, 0, PAD]])
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(src, tgt).transpose(1, 2), labels, ignore_index=PAD).backward()
        if also_zero:
            model.tgt_embedding.weight.grad[PAD].zero_()
        optimizer.step()
    return model


def test_the_row_of_padding_stays_zero_through_training():
    model = trained(small("none"))
    assert model.src_embedding.weight[PAD].abs().max() == 0
    assert model.tgt_embedding.weight[PAD].abs().max() == 0
    assert model.output.weight[PAD].abs().max() > 0  # here it is a row like any other


@pytest.mark.parametrize("share", ["decoder", "all"])
def test_a_tied_row_of_padding_is_moved_by_the_output_layer_alone_and_holds_if_its_gradient_is_cleared(share):
    """The softmax pushes every word down that is not the right one, padding too. Trainer clears that row's gradient."""
    assert trained(small(share)).tgt_embedding.weight[PAD].abs().max() > 0
    assert trained(small(share), also_zero=True).tgt_embedding.weight[PAD].abs().max() == 0
    model = small(share)
    model.decode(torch.tensor([[START, PAD]]), model.encode(torch.tensor([[1, PAD]]))).logsumexp(-1).sum().backward()
    assert model.tgt_embedding.weight.grad[PAD].abs().max() == 0  # nothing comes from the embedding's side
    assert model.tgt_embedding.weight.grad[START].abs().max() > 0


def test_without_padding_every_row_is_a_word():
    embedding = TokenEmbedding(5, 4)
    assert embedding.weight.abs().amin(1).gt(0).all()
    embedding(torch.arange(5)[None]).sum().backward()
    assert torch.equal(embedding.weight.grad, torch.full((5, 4), 2.0))  # sqrt(d_model) = 2

"""Section 3: the whole model, against nn.Transformer, against itself, and against what learners write."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from pellucid.config import TransformerConfig
from pellucid.errors import ConfigError
from pellucid.model.masks import causal_mask, generate_mask
from pellucid.model.stacks import Decoder, DecoderLayer, Encoder, EncoderLayer
from pellucid.model.transformer import DecoderState, Transformer

PAD = 29


def small(norm: str = "post", **options: object) -> Transformer:
    torch.manual_seed(0)
    return Transformer(30, 30, 16, 4, 2, 2, 32, 0.1, norm=norm, pad_id=PAD, start_id=PAD, **options).eval()


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    src = torch.tensor([[3, 4, 5, 6, 0], [7, 8, 0, PAD, PAD], [9, 0, PAD, PAD, PAD]])
    tgt = torch.tensor([[PAD, 11, 12, 13], [PAD, 14, 15, PAD], [PAD, 16, PAD, PAD]])
    return src, tgt


def test_a_learners_script_runs():
    model = Transformer(10000, 10000)
    src, tgt = torch.randint(0, 10000, (32, 10)), torch.randint(0, 10000, (32, 20))
    with torch.no_grad():
        assert model(src, tgt, tgt_mask=generate_mask(20)).shape == (32, 20, 10000)
    config = model.config
    assert (config.d_model, config.n_heads, config.d_ff, config.dropout, config.max_len) == (512, 8, 2048, 0.1, 5000)
    assert len(model.encoder.layers) == len(model.decoder.layers) == 6
    assert model.encoder.layers[0].self_attention.w_q.out_features // 8 == 64


def copy_layer(theirs: nn.Module, ours: nn.Module, cross: bool) -> None:
    pairs = [(theirs.self_attn, ours.self_attention)] + (
        [(theirs.multihead_attn, ours.cross_attention)] if cross else []
    )
    for a, b in pairs:
        a.in_proj_weight.copy_(torch.cat([b.w_q.weight, b.w_k.weight, b.w_v.weight]))
        a.in_proj_bias.copy_(torch.cat([b.w_q.bias, b.w_k.bias, b.w_v.bias]))
        a.out_proj.load_state_dict(b.w_o.state_dict())
    theirs.linear1.load_state_dict(ours.feed_forward.w_1.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.w_2.state_dict())
    for i in range(3 if cross else 2):
        getattr(theirs, f"norm{i + 1}").load_state_dict(getattr(ours, f"add_norm_{i + 1}").norm.state_dict())


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_stacks_equal_torchs_transformer_with_the_same_weights(norm):
    torch.manual_seed(0)
    ours_encoder = Encoder(2, 16, 4, 32, 0.0, norm=norm).double()
    ours_decoder = Decoder(2, 16, 4, 32, 0.0, norm=norm).double()
    for parameter in (*ours_encoder.parameters(), *ours_decoder.parameters()):
        nn.init.normal_(parameter, std=0.4)
    keyword = {"dropout": 0.0, "batch_first": True, "norm_first": norm == "pre", "dtype": torch.float64}
    encoder_layers = [nn.TransformerEncoderLayer(16, 4, 32, **keyword) for _ in range(2)]
    decoder_layers = [nn.TransformerDecoderLayer(16, 4, 32, **keyword) for _ in range(2)]
    with torch.no_grad():
        for theirs, ours in zip(encoder_layers, ours_encoder.layers, strict=True):
            copy_layer(theirs, ours, cross=False)
        for theirs, ours in zip(decoder_layers, ours_decoder.layers, strict=True):
            copy_layer(theirs, ours, cross=True)
    src, tgt = torch.randn(3, 6, 16).double(), torch.randn(3, 5, 16).double()
    padding = torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [True] + [False] * 5])
    memory, x = src, tgt
    for layer in encoder_layers:
        memory = layer(memory, src_key_padding_mask=~padding)
    memory = ours_encoder.norm(memory)
    for layer in decoder_layers:
        x = layer(x, memory, tgt_mask=~causal_mask(5), memory_key_padding_mask=~padding)
    x = ours_decoder.norm(x)
    mask = padding[:, None, None, :]
    found = ours_encoder(src, mask)
    torch.testing.assert_close(found, memory, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(ours_decoder(tgt, found, causal_mask(5), mask), x, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_step_by_step_with_the_cache_equals_one_pass(norm, positions):
    """C75; sources of different length in one batch."""
    model = small(norm, positions=positions, max_len=10)
    src, tgt = batch()
    with torch.no_grad():
        whole = model(src, tgt)
        state = DecoderState(model, src)
        for t in range(tgt.size(1)):
            torch.testing.assert_close(state.step(tgt[:, t]), whole[:, t], rtol=1e-5, atol=1e-5)


def test_cached_steps_after_reordering_beams_and_dropping_sentences():
    model = small()
    src, tgt = batch()
    width = 3
    with torch.no_grad():
        state = DecoderState(model, src)
        state.step(tgt[:, 0])
        state.reorder(torch.arange(3).repeat_interleave(width))  # one row a sentence becomes three
        beams = torch.stack([tgt, (tgt + 1) % PAD, (tgt + 2) % PAD], 1)  # (B, W, T)
        beams[:, :, 0] = tgt[:, :1]
        state.step(beams[:, :, 1].flatten())
        # Sentence 1 is finished; in sentence 2 beam 0 goes on from beam 2, in sentence 0 beams 0 and 1 change places.
        parents = torch.tensor([[1, 0, 2], [2, 1, 1]])
        kept = torch.tensor([0, 2])
        state.reorder((kept[:, None] * width + parents).flatten(), kept)
        histories = beams[kept].gather(1, parents[..., None].expand(-1, -1, 4))[:, :, :2]
        newest = beams[kept][:, :, 2]
        stepped = state.step(newest.flatten()).view(2, width, -1)
        for i, sentence in enumerate(kept):
            for w in range(width):
                alone = torch.cat([histories[i, w], newest[i, w, None]])[None]
                expected = model(src[sentence][None], alone)[0, -1]
                torch.testing.assert_close(stepped[i, w], expected, rtol=1e-5, atol=1e-5)
        cross = state._cache.cross_attention[0].extend(lambda: (_ for _ in ()).throw(AssertionError("computed again")))
        assert cross[0].size(0) == 2  # kept once a sentence, not once a beam


def test_a_prefix_of_several_tokens_then_single_steps():
    from pellucid.model.cache import KeyValueCache

    model = small()
    src, tgt = batch()
    with torch.no_grad():
        whole = model.decode(tgt, model.encode(src), memory_mask=model.padding_mask(src))
        cache, memory, mask = KeyValueCache(2), model.encode(src), model.padding_mask(src)
        first = model.decode(tgt[:, :3], memory, memory_mask=mask, cache=cache)
        last = model.decode(tgt[:, 3:], memory, memory_mask=mask, cache=cache)
    torch.testing.assert_close(torch.cat([first, last], 1), whole, rtol=1e-5, atol=1e-5)


def test_a_long_search_outgrows_its_buffers_and_stays_right():
    model = small()
    src = batch()[0]
    tgt = torch.randint(0, PAD, (3, 70))
    with torch.no_grad():
        whole = model(src, tgt)
        state = DecoderState(model, src)
        for t in range(70):
            torch.testing.assert_close(state.step(tgt[:, t]), whole[:, t], rtol=1e-4, atol=1e-4)


def test_a_source_mask_given_by_hand_hides_padding_from_the_decoder_too():
    model, given = small(), small()
    given.config = dataclasses.replace(given.config, pad_id=None)
    src, tgt = batch()
    mask = (src != PAD)[:, None, None, :]
    torch.testing.assert_close(given(src, tgt, mask), model(src, tgt))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_no_token_sees_the_future_to_the_last_bit(norm):
    """C7, C11."""
    model = small(norm)
    src, tgt = batch()
    with torch.no_grad():
        before = model(src, tgt)
        for t in range(1, 4):
            changed = tgt.clone()
            changed[:, t] = (changed[:, t] + 7) % PAD
            after = model(src, changed)
            assert torch.equal(before[:, :t], after[:, :t])
            assert not torch.equal(before[:, t:], after[:, t:])


def test_neither_the_amount_of_padding_nor_the_company_changes_a_result():
    """C12."""
    model = small().double()
    src, tgt = batch()
    with torch.no_grad():
        together = model(src, tgt)
        for i, (s, t) in enumerate(((5, 4), (3, 3), (2, 2))):
            alone = model(src[i : i + 1, :s], tgt[i : i + 1, :t])
            torch.testing.assert_close(together[i, :t], alone[0], rtol=1e-12, atol=1e-12)
            wide = nn.functional.pad(src[i : i + 1, :s], (0, 40), value=PAD)
            torch.testing.assert_close(model(wide, tgt[i : i + 1, :t]), alone, rtol=1e-12, atol=1e-12)


def test_an_empty_source_among_others_gives_finite_results_and_gradients():
    """C1: a source of nothing but padding."""
    model = small().train()
    src, tgt = batch()
    src[2] = PAD
    logits = model(src, tgt)
    logits.logsumexp(-1).sum().backward()
    assert torch.isfinite(logits).all()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_training_without_dropout_equals_evaluation():
    """C6."""
    torch.manual_seed(0)
    model = Transformer(30, 30, 16, 4, 2, 2, 32, dropout=0.0, pad_id=PAD)
    src, tgt = batch()
    torch.testing.assert_close(model.train()(src, tgt), model.eval()(src, tgt), rtol=1e-6, atol=1e-6)


def test_dropout_on_embeddings_and_every_sublayer():
    """Section 5.4, counted: 2 embeddings, 2 x 2 in the encoder, 2 x 3 in the decoder."""
    from unittest import mock

    from pellucid.model import stacks, transformer

    model = small().train()
    inside = mock.patch.object(stacks, "dropout", wraps=stacks.dropout)
    outside = mock.patch.object(transformer, "dropout", wraps=transformer.dropout)
    with inside as inside, outside as outside:
        model(*batch())
    assert (outside.call_count, inside.call_count) == (2, 10)


@pytest.mark.parametrize("share,matrices", [("none", 3), ("decoder", 2), ("all", 1)])
def test_which_matrices_are_one(share, matrices):
    model = small(share_embeddings=share)
    assert (
        len({w.data_ptr() for w in (model.src_embedding.weight, model.tgt_embedding.weight, model.output.weight)})
        == matrices
    )


def parameters(vocab: int, d: int, f: int, layers: int, matrices: int = 1) -> int:
    """Attention 4 (d^2 + d), feed-forward 2 d f + f + d, a norm 2 d; an encoder layer has 1, 1, 2, a decoder layer 2, 1, 3."""
    attention, network, norm = 4 * (d * d + d), 2 * d * f + f + d, 2 * d
    return matrices * vocab * d + layers * (3 * attention + 2 * network + 5 * norm)


def test_the_papers_base_model_has_its_65_million_parameters():
    with torch.device("meta"):
        model = Transformer.from_config(TransformerConfig.preset("base", 37000, 37000))
        tiny = Transformer.from_config(TransformerConfig.preset("tiny", 9712, 9712))
    count = sum(p.numel() for p in model.parameters())
    assert count == parameters(37000, 512, 2048, 6) == pytest.approx(65e6, rel=0.04)  # Table 3: 65 million
    assert sum(p.numel() for p in tiny.parameters()) == 2_568_192  # as published for this shape


def test_initialisation():
    model = Transformer(1000, 1000, 64, 4, 1, 1, 128, share_embeddings="all", pad_id=999)
    weight = model.src_embedding.weight
    assert weight[:999].std().item() == pytest.approx(64**-0.5, rel=0.02)
    assert weight[999].abs().max() == 0
    linear = model.encoder.layers[0].feed_forward.w_1
    limit = (6 / (64 + 128)) ** 0.5  # Glorot and Bengio 2010, equation 16
    assert linear.weight.abs().max() <= limit and linear.weight.std().item() == pytest.approx(limit / 3**0.5, rel=0.05)
    assert linear.bias.abs().max() == 0
    query = model.encoder.layers[0].self_attention.w_q.weight  # a third of a matrix of 64 x 192
    assert (6 / (64 + 64)) ** 0.5 * 0.9 > query.abs().max() > (6 / (64 + 192)) ** 0.5 * 0.95


@pytest.mark.parametrize(
    "options,message",
    [
        ({"d_model": 30, "n_heads": 4}, "`d_model` must be a multiple of `n_heads`"),
        ({"dropout": 1.0}, "`dropout` must be"),
        ({"norm": "middle"}, "`norm` must be"),
        ({"positions": "relative"}, "`positions` must be"),
        ({"src_vocab": 0}, "`src_vocab` must be at least 1, but is 0"),
        ({"src_vocab": 8, "share_embeddings": "all"}, "one vocabulary for both sides"),
        ({"pad_id": 9}, "`pad_id` must be an id of its vocabulary, 0 to 8, but is 9"),
        ({"pad_id": -1}, "`pad_id` must be"),
        ({"pad_id": 8, "src_pad_id": 7, "share_embeddings": "all"}, "one padding for both sides"),
    ],
)
def test_impossible_shapes_are_refused_in_words(options, message):
    with pytest.raises(ConfigError, match=message):
        Transformer(**{"src_vocab": 9, "tgt_vocab": 9, **options})


def test_a_width_of_29_with_one_head_works():
    """C23."""
    model = Transformer(20, 20, 29, 1, 1, 1, 8)
    assert model(torch.tensor([[1, 2]]), torch.tensor([[3]])).shape == (1, 1, 20)


def test_a_leak_would_show():
    """C11: on random targets a model of one layer with d_ff = 1 must do no better than chance, however long it trains."""
    torch.manual_seed(0)
    model = Transformer(12, 12, 16, 2, 1, 1, 1, dropout=0.0, pad_id=11)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(150):
        tgt = torch.randint(0, 10, (32, 9))
        logits = model(torch.randint(0, 10, (32, 5)), tgt[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() > 0.97 * torch.tensor(10.0).log().item()


def test_a_memorised_pair_comes_back_when_the_model_runs_free():
    """C13: labels shifted by one against what is fed in."""
    torch.manual_seed(0)
    model = Transformer(12, 12, 32, 2, 1, 1, 64, dropout=0.0, pad_id=11, start_id=11)
    src, target = torch.tensor([[3, 4, 5, 0]]), torch.tensor([[7, 8, 7, 9, 9, 0]])
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    fed = torch.cat([torch.tensor([[11]]), target[:, :-1]], 1)
    for _ in range(200):
        loss = nn.functional.cross_entropy(model(src, fed).flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    state, token, said = DecoderState(model.eval(), src), torch.tensor([11]), []
    with torch.no_grad():
        for _ in range(6):
            token = state.step(token).argmax(-1)
            said.append(int(token))
    assert said == target[0].tolist()


@pytest.mark.parametrize("kind", [EncoderLayer, DecoderLayer])
def test_layers_can_be_used_alone(kind):
    layer = kind(16, 4, 32, 0.1)
    x = torch.randn(2, 5, 16)
    assert (layer(x) if kind is EncoderLayer else layer(x, x)).shape == (2, 5, 16)

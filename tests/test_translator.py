"""Text in, text out: as many as went in, whatever is in them; the same in any company."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import translator as translator_module
from pellucid.checkpoint import LoadedModel
from pellucid.config import SearchConfig, TransformerConfig
from pellucid.data.tokenizer import Tokenizer
from pellucid.engines import executor
from pellucid.engines.executor import ExecutorState
from pellucid.errors import ConfigError, DataError
from pellucid.model.transformer import Transformer
from pellucid.translator import (
    CLAUSE_END,
    SENTENCE_END,
    SPACE,
    Translation,
    Translator,
    batches_by_length,
    split_keeping_separators,
)

WORDS = ["red", "green", "blue", "one", "two", "three", "four", "five.", "six,", "seven!", "eight?", "nine"]


def random_model(tokenizer: Tokenizer, **shape: object) -> LoadedModel:
    """A model of random weights: what it says makes no sense, but it is definite, and it comes to an end."""
    torch.manual_seed(3)
    size = len(tokenizer)
    values = {"d_model": 16, "n_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 2, "d_ff": 32, **shape}
    config = TransformerConfig(size, size, pad_id=tokenizer.pad_id, start_id=tokenizer.pad_id, **values)
    model = Transformer.from_config(config).eval()
    search = SearchConfig(beam_size=3, max_length=12)
    return LoadedModel(model, tokenizer, tokenizer, search, "en", "en", None, 40)


@pytest.fixture(scope="module")
def translator() -> Translator:
    torch.set_num_threads(1)
    return Translator(random_model(Tokenizer.train([" ".join(WORDS)], vocab_size=300, kind="word")), "torch")


@pytest.fixture(scope="module")
def spelling_translator() -> Translator:
    """One whose tokenizer can spell everything, byte by byte."""
    return Translator(random_model(Tokenizer.train([" ".join(WORDS)] * 3, vocab_size=300)), "torch")


def assert_same(found: list[Translation], expected: list[Translation]) -> None:
    assert [t.text for t in found] == [t.text for t in expected]
    assert [t.score for t in found] == pytest.approx([t.score for t in expected], abs=1e-4)
    assert [t.flags for t in found] == [t.flags for t in expected]


LINES = [
    "red green",
    "blue",
    "",
    "   ",
    "\t",
    "\u00a0",
    "\u3000",
    "😀 👩‍👩‍👧",
    "one two three four",
    "\u2028",
    "<s> </s> <pad>",
    "▁▁",
]


def test_the_greatest_length(translator):
    """The paper's source + 50; with a ratio of 2 at most twice the source + 20; what is prescribed must fit."""
    paper, capped = SearchConfig(), SearchConfig(length_ratio=2.0)
    assert [translator.max_length(n, 0, paper) for n in (1, 30, 100)] == [51, 80, 150]
    assert [translator.max_length(n, 0, capped) for n in (1, 30, 100)] == [22, 80, 150]
    assert translator.max_length(5, 0, dataclasses.replace(capped, max_length=9)) == 9
    assert translator.max_length(5, 0, dataclasses.replace(capped, max_length=90)) == 30
    assert translator.max_length(5, 40, capped) == 41
    with pytest.raises(ConfigError, match="`length_ratio` must be at least 0, but is -1"):
        SearchConfig(length_ratio=-1)


def test_as_many_lines_out_as_in_in_order(translator):
    """C30, C31, C55: blank, odd and unknown lines among others; 0, 1, 63, 64, 65 lines."""
    found = translator.translate(LINES)
    assert [t.source for t in found] == LINES
    assert [t.text == "" and "empty" in t.flags for t in found] == [not line.strip() for line in LINES]
    for n in (0, 1, 63, 64, 65):
        assert len(translator.translate(["red"] * n)) == n


def test_ten_equal_lines_give_ten_equal_outputs(translator):
    assert len({t.text for t in translator.translate(["red blue"] * 10)}) == 1


@pytest.mark.parametrize("config", [SearchConfig(beam_size=1), SearchConfig(beam_size=4, n_best=4, max_length=9)])
def test_batch_size_and_order_change_nothing(translator, config):
    """C66."""
    texts = [" ".join(WORDS[i % 12 : i % 12 + i % 5 + 1]) for i in range(60)]
    reference = translator.translate(texts, dataclasses.replace(config, batch_tokens=1))
    for tokens in (50, 4096):
        for order in (range(60), range(59, -1, -1)):
            found = translator.translate([texts[i] for i in order], dataclasses.replace(config, batch_tokens=tokens))
            for i, t in zip(order, found, strict=True):
                assert [a.text for a in t.alternatives] == [a.text for a in reference[i].alternatives]
                assert t.score == pytest.approx(reference[i].score, abs=1e-4)


def test_a_beam_of_one_is_greedy_and_more_beam_is_never_less_probable_at_alpha_0(translator):
    texts = [" ".join(WORDS[i : i + 3]) for i in range(9)]
    one = translator.translate(texts, SearchConfig(beam_size=1, length_penalty=0, max_length=30))
    many = translator.translate(texts, SearchConfig(beam_size=8, length_penalty=0, max_length=30))
    both = [(a, b) for a, b in zip(one, many, strict=True) if not (a.flags or b.flags)]
    assert sum(b.log_prob >= a.log_prob - 1e-4 for a, b in both) >= len(both) * 0.8


def test_scoring_the_output_gives_the_score_that_was_reported():
    """C68, C73. With so few words many hypotheses come to an end, whatever the weights are."""
    translator = Translator(random_model(Tokenizer.train(["red green blue", "one two"], vocab_size=100, kind="word")))
    texts = ["red", "green blue", "one two red", "blue one", "two"]
    checked = 0
    for alpha in (0.0, 0.6, 2.0):
        search = SearchConfig(beam_size=8, n_best=8, max_length=12, length_penalty=alpha)
        for t in translator.translate(texts, search):
            for a in t.alternatives:
                if a.finished:
                    score = translator.score([(t.source, a.text)], search)[0]
                    assert score.tokens == a.tokens
                    assert score.score == pytest.approx(a.score, abs=1e-4)
                    assert score.log_prob == pytest.approx(a.log_prob, abs=1e-4)
                    assert score.log_prob == pytest.approx(sum(score.token_log_probs))
                    checked += 1
    assert checked >= 10


def test_scores_do_not_depend_on_the_batch(translator):
    pairs = [(" ".join(WORDS[i : i + 4]), " ".join(WORDS[: i % 5])) for i in range(10)]
    together = translator.score(pairs)
    for pair, score in zip(pairs, together, strict=True):
        assert translator.score([pair])[0].log_prob == pytest.approx(score.log_prob, abs=1e-4)


def test_the_first_translations_come_before_the_last_text_is_read(translator):
    read: list[int] = []

    def texts():
        for i in range(100):
            read.append(i)
            yield "red"

    stream = translator.stream(texts())
    next(stream)
    assert len(read) == 1
    assert len(list(stream)) == 99


def test_streaming_equals_translating_at_once(translator):
    texts = [" ".join(WORDS[i % 12 : i % 12 + i % 4]) for i in range(40)]
    assert_same(list(translator.stream(texts)), translator.translate(texts))


def test_a_text_longer_than_any_learnt_from_is_split_and_its_separators_are_kept(spelling_translator):
    """C56: five sentences in one line, all present; and a "word" of a thousand letters."""
    translator = spelling_translator
    text = (
        "one two three four five.  six seven eight nine!\u2028red green blue one two?\tthree four five six "
        + "x" * 1000
    )
    segments = translator.segments(text)
    assert "".join(s.text + s.separator for s in segments) == text
    assert len(segments) > 4 and all(len(s.ids) <= translator.longest_source for s in segments)
    assert [s.separator for s in segments][:3] == ["  ", "\u2028", "\t"]
    found = translator.translate([text, "red"])
    assert found[0].flags[0] == "split" and "split" not in found[1].flags
    parts = [translator.translate([s.text])[0].text for s in segments]
    assert found[0].text == "".join(p.strip() + s.separator for p, s in zip(parts, segments, strict=True))


@pytest.mark.parametrize("count", [1, 32, 33, 300])
def test_any_number_of_sentences_in_a_line(spelling_translator, count):
    """C37."""
    found = spelling_translator.translate(["red green blue. " * count])
    assert len(found) == 1 and found[0].text


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab .!?。！,，;\u2028\t\n)", max_size=60), st.sampled_from([SENTENCE_END, CLAUSE_END, SPACE]))
def test_splitting_loses_nothing(text, rule):
    parts = split_keeping_separators(text, rule)
    assert "".join(part + between for part, between in parts) == text
    assert len(parts) == 1 or all(part for part, _ in parts)


def test_sentences_are_split_where_a_reader_would():
    def sentences(text: str) -> list[str]:
        return [part for part, _ in split_keeping_separators(text, SENTENCE_END)]

    assert sentences("Is it? Yes! It is.") == ["Is it?", "Yes!", "It is."]
    assert sentences("他来了。真的吗？是！") == ["他来了。", "真的吗？", "是！"]
    assert sentences('He said "no." Then he left.') == ['He said "no."', "Then he left."]
    assert sentences("真的吗？！好。") == ["真的吗？！", "好。"]
    assert sentences("It costs 3.50 at a.b.c now") == ["It costs 3.50 at a.b.c now"]


def test_prefixes_begin_the_translations(translator):
    found = translator.translate(["red", "blue", "one"], prefixes=["two", "", "green blue"])
    assert found[0].text.startswith("two") and found[2].text.startswith("green blue")
    assert_same(found[1:2], translator.translate(["blue"]))
    with pytest.raises(DataError, match="one prefix a text"):
        translator.translate(["red"], prefixes=["a", "b"])


def test_sampling_depends_on_the_seed_and_the_place_and_not_on_the_batch(translator):
    config = SearchConfig(sample=True, max_length=8, seed=4)
    texts = ["red green"] * 12
    found = [t.text for t in translator.translate(texts, config)]
    assert len(set(found)) > 3
    assert found == [t.text for t in translator.translate(texts, dataclasses.replace(config, batch_tokens=1))]
    assert found == [t.text for t in translator.stream(texts, config)]
    assert found != [t.text for t in translator.translate(texts, dataclasses.replace(config, seed=5))]


def test_control_ids_are_never_said_nor_read(spelling_translator):
    """C74, C78: text that looks like a control symbol is text."""
    translator = spelling_translator
    specials = {translator.source_tokenizer.eos_id, translator.source_tokenizer.pad_id}
    for text in ("use </s> to end", "<s> <pad> <unk>", "</s>"):
        assert not specials & set(translator.source_tokenizer.encode(text))
    for config in (SearchConfig(beam_size=4, n_best=4), SearchConfig(sample=True, n_best=5)):
        for t in translator.translate(["red", "blue one"], dataclasses.replace(config, max_length=20)):
            assert all("<pad>" not in a.tokens and "</s>" not in a.tokens for a in t.alternatives)


def test_learned_positions_split_what_they_cannot_hold(translator):
    translator = Translator(random_model(translator.source_tokenizer, positions="learned", max_len=12))
    found = translator.translate(["one two three four five. " * 20, "red"], SearchConfig(beam_size=2, max_length=500))
    assert len(found) == 2 and "split" in found[0].flags


def test_batches_hold_everything_once_longest_first_within_the_budget():
    lengths = [3, 9, 1, 4, 4, 9, 2]
    batches = batches_by_length(lengths, 18)
    assert sorted(i for b in batches for i in b) == list(range(7))
    assert batches[0] == [1, 5]
    assert all(len(b) == 1 or len(b) * max(lengths[i] for i in b) <= 18 for b in batches)
    assert batches_by_length(lengths, 1) == [[i] for i in (1, 5, 3, 4, 0, 6, 2)]


def test_drawing_does_not_depend_on_blank_or_split_lines_before_nor_on_windows(translator):
    """A text's random numbers follow from its place alone."""
    config = SearchConfig(sample=True, max_length=8, seed=4)
    odd = ["", "red", "one two three four five. " * 20, "blue one", "green"]
    found = [t.text for t in translator.translate(odd, config)]
    assert found == [t.text for t in translator.stream(odd, config)]
    assert found[3:] == [t.text for t in translator.translate(["red", "red", "red", *odd[3:]], config)][3:]


def test_one_text_where_several_must_be_is_refused_and_not_spelled_out(translator):
    with pytest.raises(DataError, match="`texts` must be several texts"):
        translator.translate("red")
    with pytest.raises(DataError, match="`texts` must be several texts"):
        next(translator.stream("red"))
    with pytest.raises(DataError, match="`prefixes` must be several texts"):
        translator.translate(["a", "b"], prefixes="xy")


def test_the_least_length_is_reached_though_the_source_is_short(translator):
    """The greatest length by default is the source's + 50, less than what is asked for here."""
    for beam in (1, 2):
        t = translator.translate(["red"], SearchConfig(min_length=80, beam_size=beam))[0]
        assert len(t.alternatives[0].tokens) >= 80


def test_many_short_lines_make_no_huge_batch(translator, monkeypatch):
    """1,024 lines of one word, 4 hypotheses and 32,000 pieces would be 131 million logits a step. The text stays."""
    sizes: list[int] = []

    class Watched(ExecutorState):
        def step(self, tokens: torch.Tensor) -> torch.Tensor:
            logits = super().step(tokens)
            sizes.append(logits.numel())
            return logits

    monkeypatch.setattr(executor, "ExecutorState", Watched)
    texts = ["red", "blue", "one two", "nine"] * 25
    pairs = [(t, "green " * (i % 4)) for i, t in enumerate(texts)]
    together, scored = translator.translate(texts), translator.score(pairs)
    largest = 4 * 3 * translator.model.config.tgt_vocab
    assert max(sizes) > largest
    sizes.clear()
    monkeypatch.setattr(translator_module, "LARGEST_LOGITS", largest)
    assert [t.text for t in translator.translate(texts)] == [t.text for t in together]
    assert max(sizes) <= largest
    assert [s.log_prob for s in translator.score(pairs)] == pytest.approx([s.log_prob for s in scored], abs=1e-4)
    assert batches_by_length([2] * 5, 100, most_rows=2) == [[0, 1], [2, 3], [4]]
    assert batches_by_length([2] * 2, 100, most_rows=0) == [[0], [1]]


def test_a_device_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match="'gpu' cannot be used") as raised:
        Translator.load(tmp_path, device="gpu", threads=torch.get_num_threads())
    assert raised.value.hint == "--device cpu"

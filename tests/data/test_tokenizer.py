from __future__ import annotations

import lzma
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared import shared_data

from pellucid.config import DataConfig
from pellucid.data import tokenizer as tokenizer_module
from pellucid.data.corpus import Corpus
from pellucid.data.tokenizer import Tokenizer, choose_vocab_size, escape, unescape
from pellucid.errors import TokenizerError

SMALL = [
    "The lamp on the desk is green.",
    "A small boat waits at the bridge.",
    "She reads the last page twice.",
    "Rain falls on the quiet street.",
    "The clock in the hall is slow.",
    "Die Lampe auf dem Tisch ist gr\u00fcn.",
    "Ein kleines Boot wartet an der Br\u00fccke.",
    "Sie liest die letzte Seite zweimal.",
    "Regen f\u00e4llt auf die stille Stra\u00dfe.",
    "Die Uhr im Flur geht nach.",
]

ODD = [
    "", " ", "  ", "   ", " a", "a ", "  a  b  ", "a\tb", "\t", "\n", "a\nb", "a\r\nb", "\r", "\u2028", "a\u2028b",
    "\x85", "\x0b\x0c\x1c", "\0", "a\0b", "\x7f", "\u00a0", "\u3000a\u3000", "a \u2009 b", "\u200b", "\u200d", "\ufeffa",
    "<s>", "</s>", "<unk>", "<pad>", "use </s> to end", "</s></s>", "\u2581", "\u2581\u2581a", "a\u2581 b", "\u2581 ",
    "\u2585", "\u2585\u2581", "@@", "th@@ em", "\uff5fx\uff60", "\uffe8", "<2de>", "<0x41>", "<0x00>", "\u2047",
    " \u2047 ", "\ue0f0", "\ue0f00", "\ue0f01", "\ue0f0\ue0f0", "\ue0f0\u2581\ue0f02\u2585",
    "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0010ffff", "\ud7ff\ue000",
    "e\u0301", "\u00e9", "\u1100\u1161", "\uac00", "\u202eabc\u202c", "\u200f.", "%(name)s", "{0}", "<b>bold</b>x",
    "\\u2581", "\u4f60\u597d", "\u0e19\u0e49\u0e33",
]  # fmt: skip

# What SentencePiece's own default normalisation (nmt_nfkc) rewrites.
REWRITTEN_BY_NMT_NFKC = (
    "\ufe30\u0149\u2026\u00bd\u2160\uff21\uff10\u00b2\u2122\u210c\ufb01\u3300\u3392\u00a0\u2002\u200f\u200e\u00ad"
    "\u2460\u337b\uff5e\uff08\u01c4\u0132\u0140\u017f\u02b0\u1e9b\u2024\u2025\u203c\u2057\u20a8\u2100\u2126\u2212"
)


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def tokenizer(request) -> Tokenizer:
    return Tokenizer.train(SMALL, vocab_size=400, kind=request.param)


@pytest.fixture(scope="module")
def char() -> Tokenizer:
    return Tokenizer.train(SMALL, vocab_size=400, kind="char")


# --- ids --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char", "word"])
def test_control_ids(kind):
    made = Tokenizer.train(SMALL, vocab_size=400, kind=kind)
    assert (made.eos_id, made.unk_id, made.pad_id) == (0, 1, len(made) - 1)
    assert made.pieces([0, 1, made.pad_id]) == ["</s>", "<unk>", "<pad>"]
    assert all(1 < i < made.pad_id for line in SMALL for i in made.encode(line))


def test_ten_lines_give_a_smaller_vocabulary_and_say_so(tokenizer):
    assert 259 < len(tokenizer) <= 400
    large = Tokenizer.train(SMALL, vocab_size=32_000, kind="bpe")
    assert len(large) < 800


def test_vocab_size_counts_every_id():
    lines = [f"{a}{b} {b}{a}{a}" for a in "abcdefgh" for b in ("ijk", "lmn", "opq", "rst")]
    assert len(Tokenizer.train(lines, vocab_size=300, kind="bpe")) == 300


@pytest.mark.parametrize("text", ODD, ids=ascii)
def test_text_never_becomes_a_control_id(tokenizer, text):
    assert not {tokenizer.eos_id, tokenizer.unk_id, tokenizer.pad_id} & set(tokenizer.encode(text))


def test_text_full_of_control_names_teaches_none():
    lines = ["<s> </s> <unk> <pad> <0x41> \u2581"] * 50
    for kind in ("unigram", "bpe", "char"):
        made = Tokenizer.train(lines, vocab_size=300, kind=kind)
        for text in (*lines[0].split(), lines[0]):
            ids = made.encode(text)
            assert not {0, 1, made.pad_id} & set(ids)
            assert made.decode(ids) == text


# --- and back ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ODD, ids=ascii)
def test_odd_text_comes_back(tokenizer, char, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert char.decode(char.encode(text)) == text


@given(st.text())
@settings(max_examples=300, deadline=None)
def test_any_text_comes_back(text):
    made = small_unigram()
    assert made.decode(made.encode(text)) == text


@given(st.text(alphabet="\ue0f0\u2581\u2585\0" + "0123 a"))
@settings(max_examples=300, deadline=None)
def test_escaping_is_undone_exactly(text):
    written = escape(text)
    assert unescape(written) == text
    assert not set(written) & set("\u2581\u2585\0")


_UNIGRAM: list[Tokenizer] = []


def small_unigram() -> Tokenizer:
    if not _UNIGRAM:
        _UNIGRAM.append(Tokenizer.train(SMALL, vocab_size=400))
    return _UNIGRAM[0]


@pytest.mark.parametrize("character", REWRITTEN_BY_NMT_NFKC, ids=ascii)
def test_identity_rewrites_nothing(tokenizer, character):
    text = f"a{character}b  {character}"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_every_assigned_character_comes_back(tokenizer):
    planes = [*range(0x3000), *range(0xA000, 0xD800), *range(0xE000, 0x10000), *range(0x1F000, 0x1FB00)]
    texts = ["".join(map(chr, planes[i : i + 64])) for i in range(0, len(planes), 64)]
    assert [tokenizer.decode(ids) for ids in tokenizer.encode_batch(texts)] == texts


@pytest.mark.parametrize("form", ["nfc", "nfkc"])
def test_a_normal_form_is_used_when_asked_for(form):
    made = Tokenizer.train(SMALL, vocab_size=400, normalization=form)
    for text in ("e\u0301a\u0308", "\ufb01n \u2460", "\u1100\u1161"):
        assert made.decode(made.encode(text)) == unicodedata.normalize(form.upper(), text)


def test_placeholders_beside_text_get_no_stray_spaces(tokenizer):
    for text in ("<tag>text", "text<tag> text", "{name}'s", "%d%%", "<B>X</B>"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_no_spaces_are_put_into_chinese_and_japanese(tokenizer):
    for text in ("\u6211is\u65e5\u672c", "\u6211\u4eec\u8d70\u3002", "\u65e5\u672cis \u6211"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_half_a_surrogate_pair_becomes_a_replacement_character(tokenizer):
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a\ufffdb"


def test_end_marks_and_padding_are_passed_over(tokenizer):
    ids = tokenizer.encode(SMALL[0])
    assert tokenizer.decode([tokenizer.pad_id, *ids, tokenizer.eos_id, tokenizer.pad_id]) == SMALL[0]
    assert tokenizer.decode([]) == tokenizer.decode([tokenizer.eos_id]) == ""


def test_bytes_that_make_no_character_are_shown_as_such(tokenizer):
    broken = [i for i in range(len(tokenizer) - 1) if tokenizer.pieces([i]) == ["<0xE2>"]]
    assert tokenizer.decode(broken) == "\ufffd"


FLORES = "flores200-devtest"


def test_every_script_of_flores_comes_back():
    folder = shared_data(FLORES)
    texts: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*_*.devtest.xz")):
        with lzma.open(path, "rt", encoding="utf-8", newline="\n") as file:
            texts[path.name.partition(".")[0]] = file.read().split("\n")[:-1]
    scripts = {name.split("_")[1] for name in texts}
    assert len(scripts) >= 29
    taught = [line for name in ("eng_Latn", "zho_Hans", "arb_Arab") for line in texts.get(name, [])[:400]]
    for kind, step in (("unigram", 1), ("bpe", 5)):
        made = Tokenizer.train(taught, vocab_size=2000, kind=kind)
        for name, all_lines in texts.items():
            lines = all_lines[::step]
            batch = made.encode_batch(lines, threads=2)
            assert [made.decode(ids) for ids in batch] == lines, name
            assert not any({0, 1, made.pad_id} & set(ids) for ids in batch), name


# --- without bytes, and words -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char"])
def test_without_byte_fallback_unseen_letters_are_unknown_and_counted(kind):
    made = Tokenizer.train(SMALL, vocab_size=100, kind=kind, byte_fallback=False)
    ids = made.encode("The \u00e6 is green.")
    assert ids.count(made.unk_id) == 1
    assert made.decode(ids) == "The \u2047 is green."
    assert [p.kind for p in made.explain("The \u00e6")].count("unknown") == 1
    assert all(made.decode(made.encode(line)) == line for line in SMALL)


def test_explain_tells_bytes_from_pieces(tokenizer):
    kinds = [(piece.text, piece.kind) for piece in tokenizer.explain("a\u00e6")]
    assert kinds[-2:] == [("<0xC3>", "byte"), ("<0xA6>", "byte")]
    assert all(kind == "piece" for _, kind in kinds[:-2])


def test_words_are_what_single_spaces_separate():
    made = Tokenizer.train(["wa wb", "wb  wc", "a\u3000b x\ty"], vocab_size=100, kind="word")
    assert made.pieces(made.encode("wa wb")) == ["\u2581wa", "\u2581wb"]
    for text in ("wa wb wc", " wa  wb ", "a\u3000b x\ty"):
        assert made.unk_id not in made.encode(text)
        assert made.decode(made.encode(text)) == text
    assert made.decode(made.encode("wa new wb")) == "wa \u2047 wb"
    assert made.decode(made.encode("new wa")) == "\u2047 wa"


def test_char_gives_one_id_a_character(char):
    assert len(char.encode("green.")) == len("green.") + 1  # and the space before the first word
    assert len(char.encode("in the hall")) == len("in the hall") + 1


# --- learning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char", "word"])
def test_the_same_lines_give_the_same_model(kind):
    models = {
        Tokenizer.train(iter(SMALL), vocab_size=400, kind=kind, threads=threads).model_bytes for threads in (0, 1, 7)
    }
    assert len(models) == 1


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char", "word"])
@pytest.mark.parametrize(
    "lines",
    [["x"], ["a\tb"] * 3, ["a\0b"] * 3, ["\u2585\u2581"] * 3, ["\u3042"] * 3, ["abc def " * 4000], ["x" * 50_000]],
    ids=["one letter", "tab", "null", "blocks", "kana", "long line", "long word"],
)
def test_tiny_and_odd_texts_can_be_learned_from(kind, lines):
    if kind == "word" and len(lines[0].split()[0]) > 100:
        lines = [*lines, "x"]  # the long one alone would be no text at all
    made = Tokenizer.train(lines, vocab_size=300, kind=kind)
    if kind != "word":
        assert all(made.decode(made.encode(line)) == line for line in lines)


def test_blank_and_missing_lines_teach_nothing():
    assert (
        Tokenizer.train([None, "", "  ", *SMALL, "\u3000"], vocab_size=400).model_bytes
        == Tokenizer.train([f"  {line} " for line in SMALL], vocab_size=400).model_bytes
    )


@pytest.mark.parametrize("lines", [[], [""], [None, "  ", "\t"]])
def test_no_text_is_an_error(lines):
    with pytest.raises(TokenizerError, match="needs text to learn from"):
        Tokenizer.train(lines, vocab_size=400)


def test_a_vocabulary_without_room_is_an_error_that_says_how_much_is_needed():
    with pytest.raises(TokenizerError, match="must be above 259 with byte fallback, but is 100"):
        Tokenizer.train(SMALL, vocab_size=100)
    with pytest.raises(TokenizerError, match=r"must be at least \d+ here, .* no byte fallback, but is 20") as caught:
        Tokenizer.train(SMALL, vocab_size=20, byte_fallback=False)
    least = int(str(caught.value).split("at least ")[1].split()[0])
    assert len(Tokenizer.train(SMALL, vocab_size=least + 2, byte_fallback=False)) <= least + 2


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_more_characters_than_pieces_fall_back_to_bytes(kind):
    lines = ["".join(chr(0x4E00 + i + j) for j in range(10)) for i in range(0, 9000, 10)] * 3
    made = Tokenizer.train(lines, vocab_size=1000, kind=kind)
    assert len(made) <= 1000
    assert made.decode(made.encode(lines[3])) == lines[3]


def test_big_text_is_sampled_evenly_and_in_flat_memory():
    lines = [f"line {i:06d}" for i in range(30_000)]
    kept = tokenizer_module._sample(iter(lines), most=60_000)
    assert 25_000 <= sum(map(len, kept)) <= 60_000
    assert kept == sorted(kept)
    assert kept == tokenizer_module._sample(lines, most=60_000)
    halves = sum(line < "line 015000" for line in kept) / len(kept)
    assert 0.45 < halves < 0.55
    assert tokenizer_module._sample(lines[:10]) == lines[:10]


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char", "word"])
def test_saving_writes_one_file_that_loads_again(tmp_path, kind):
    made = Tokenizer.train(SMALL, vocab_size=400, kind=kind, normalization="nfc")
    made.save(tmp_path / "text.model")
    assert [p.name for p in tmp_path.iterdir()] == ["text.model"]
    again = Tokenizer.load(tmp_path / "text.model", made.config())
    assert (len(again), again.config(), again.fingerprint()) == (len(made), made.config(), made.fingerprint())
    assert [again.encode(line) for line in SMALL] == made.encode_batch(SMALL, threads=3)
    assert again.decode(again.encode("e\u0301")) in ("\u00e9", "\u2047")


def test_fingerprints_tell_tokenizers_apart():
    kinds = [("unigram", "identity"), ("unigram", "nfc"), ("bpe", "identity")]
    made = [Tokenizer.train(SMALL, vocab_size=400, kind=k, normalization=n).fingerprint() for k, n in kinds]
    assert len(set(made)) == 3


def test_a_file_that_is_no_tokenizer_is_an_error(tmp_path):
    path = tmp_path / "text.model"
    with pytest.raises(TokenizerError, match="cannot be read as a tokenizer"):
        Tokenizer.load(path)
    small_unigram().save(path)
    whole = path.read_bytes()
    for damaged in (b"", b"text", whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(TokenizerError, match=r"text\.model: "):
            Tokenizer.load(path)


def test_sides_have_their_own_pieces():
    source, target = (Tokenizer.train(lines, vocab_size=400) for lines in (SMALL[:5], SMALL[5:]))
    assert source.fingerprint() != target.fingerprint()
    assert target.decode(target.encode(SMALL[5])) == SMALL[5]
    common = [i for i in target.encode(SMALL[5]) if i < min(len(source), len(target)) - 1]
    assert source.pieces(common) != target.pieces(common)


# --- how many pieces --------------------------------------------------------------------------------------------------


def corpus_of(tmp_path, lines: int, config: DataConfig) -> Corpus:
    path = tmp_path / "pairs.tsv"
    with path.open("w", encoding="utf-8") as file:
        for i in range(lines):
            file.write(f"{SMALL[i % 5]} {i}\t{SMALL[5 + i % 5]} {i}\n")
    return Corpus.from_files([str(path)], [], [], config)


def test_more_text_gets_more_pieces(tmp_path):
    sizes = [choose_vocab_size(corpus_of(tmp_path, n, DataConfig()), DataConfig()) for n in (0, 10, 1000, 20_000)]
    assert sizes == sorted(sizes)
    assert sizes[0] > 259
    assert sizes[-1] < 10_000
    separate = DataConfig(joint=False)
    assert choose_vocab_size(corpus_of(tmp_path, 20_000, separate), separate) < sizes[-1]


@pytest.mark.parametrize("kind, fallback", [("char", True), ("char", False), ("word", True)])
def test_char_and_word_take_all_there_is(tmp_path, kind, fallback):
    config = DataConfig(tokenizer=kind, byte_fallback=fallback)
    corpus = corpus_of(tmp_path, 30, config)
    size = choose_vocab_size(corpus, config)
    lines = [side for pair in corpus for side in (pair.source, pair.target)]
    made = Tokenizer.train(lines, vocab_size=size, kind=kind, byte_fallback=fallback)
    assert all(made.unk_id not in made.encode(line or "") for line in lines)
    assert len(made) <= size


def test_multi30k_gets_about_ten_thousand():
    folder = shared_data("multi30k") / "raw"
    corpus = Corpus.from_files([], [str(folder / "train.en.gz")], [str(folder / "train.de.gz")], DataConfig())
    assert 9_000 <= choose_vocab_size(corpus, DataConfig()) <= 11_000

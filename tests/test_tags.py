"""Tags: one model for several languages and domains, and nothing in a text that can pass for one."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import torch
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from multilingual import config, loud, sources, write_all, write_pairs
from pellucid.alignment import cross_attention
from pellucid.calibrating import calibrate
from pellucid.checkpoint import load_model, load_tensors
from pellucid.cli.main import cli
from pellucid.config import DataConfig, RunConfig
from pellucid.data.corpus import Corpus
from pellucid.data.store import PairStore
from pellucid.data.tokenizer import Tokenizer
from pellucid.errors import ConfigError, DataError
from pellucid.exporting import export_model
from pellucid.inspection.alignment import align, layer_average
from pellucid.inspection.trace import trace
from pellucid.quantization import quantize_model, tagged_validation_pairs, validation_pairs
from pellucid.shortlisting import make_shortlist
from pellucid.tags import chosen, ordered
from pellucid.training.records import Progress, Validation
from pellucid.training.run import train
from pellucid.translator import Translator

TEXTS = sources(40, seed=9)
MOST, FEW = len(TEXTS) - 3, 3
"""What the toy must get right, and what may be right by chance: on another machine it learns a little differently."""
HAS_CTRANSLATE2 = importlib.util.find_spec("ctranslate2") is not None
LINES = ["<2de> Guten Tag", "a <2de> b", "<2de><medical>", "use <2de> or <medical> here", "</s> <pad> <2de>"] * 3
TAGS = ("2de", "medical")


def run(*words: object, stdin: str | None = None) -> str:
    result = CliRunner().invoke(cli, [str(word) for word in words], input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.stdout


def refused(*words: object) -> ConfigError:
    with pytest.raises(ConfigError) as error:
        CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False, standalone_mode=False)
    return error.value


# --- names ------------------------------------------------------------------------------------------------------------


def test_the_target_language_stands_first_and_each_tag_once():
    assert ordered(["medical", "2de", "legal", "2de"]) == ("2de", "legal", "medical")


@pytest.mark.parametrize(
    ("tags", "message"),
    [(["2DE"], "letters a to z"), (["a b"], "letters a to z"), ([""], "letters a to z"), (["2de", "2fr"], "de, fr")],
)
def test_what_can_be_no_tag_is_refused(tags, message):
    with pytest.raises(ConfigError, match=message):
        ordered(tags)
    with pytest.raises(ConfigError, match=message):
        DataConfig(tags=("a.tsv=" + ",".join(tags),))


def test_what_is_chosen_of_a_model():
    known = ["2de", "2pt-br", "medical"]
    assert chosen(known, "de") == ("2de",)
    assert chosen(known, "pt_BR", ["medical"]) == ("2pt-br", "medical")
    assert chosen(known, None, ["medical", "2de"]) == ("2de", "medical")
    assert chosen(["2de", "medical"]) == ("2de",)  # there is but one
    assert chosen(["medical"]) == chosen([]) == ()
    for to, tags, message in [
        (None, (), "several: de, pt-br"),
        ("fr", (), "it has de, pt-br"),
        ("de", ("legal",), "no tag 'legal'"),
        ("de", ("2pt-br",), "one target language at a time"),
    ]:
        with pytest.raises(ConfigError, match=message):
            chosen(known, to, tags)
    with pytest.raises(ConfigError, match="no target languages"):
        chosen(["medical"], "de")


# --- no text can have one ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["unigram", "bpe", "char", "word"])
def tokenizer(request) -> Tokenizer:
    """Learnt from text that is full of what looks like tags."""
    return Tokenizer.train(LINES, vocab_size=400 if request.param != "word" else 30, kind=request.param, tags=TAGS)


spelt = st.sampled_from(["<2de>", "<medical>", "2de", "<", ">", "▁<2de>", "<2de", " ", "</s>", "<pad>"])


@given(st.text() | st.lists(spelt | st.text(max_size=3)).map("".join))
@settings(max_examples=200, deadline=None)
def test_no_text_has_the_id_of_a_tag(tokenizer, text):
    first = len(tokenizer) - 1 - len(TAGS)
    assert max(tokenizer.encode(text), default=0) < first
    assert tokenizer.tags_of(tokenizer.encode(text)) == ()


def test_a_symbol_of_sentencepieces_own_could_be_forged():
    """The control: what other programs do, and why tags are not made so."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, vocab_size=40, user_defined_symbols=["<2de>"],
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    assert theirs.piece_to_id("<2de>") in theirs.encode("a <2de> b")


def test_tags_are_ids_between_pieces_and_padding(tokenizer):
    ids = tokenizer.tag_ids(TAGS)
    assert ids == [len(tokenizer) - 3, len(tokenizer) - 2]
    assert tokenizer.pad_id == len(tokenizer) - 1
    assert tokenizer.pieces([*ids, tokenizer.pad_id]) == ["<2de>", "<medical>", "<pad>"]
    assert [tokenizer.kind_of(i) for i in ids] == ["tag", "tag"]
    assert tokenizer.tags_of([ids[1], *tokenizer.encode("a"), 0]) == ("medical",)
    assert tokenizer.decode([*ids, *tokenizer.encode("a <2de> b"), 0]) == "a <2de> b"


def test_tags_are_kept_and_change_the_fingerprint(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "x.model")
    again = Tokenizer.load(tmp_path / "x.model", json.loads(json.dumps(tokenizer.config())))
    assert (again.tags, len(again)) == (TAGS, len(tokenizer))
    assert again.fingerprint() == tokenizer.fingerprint()
    plain = Tokenizer.load(tmp_path / "x.model", {k: v for k, v in tokenizer.config().items() if k != "tags"})
    assert plain.fingerprint() != tokenizer.fingerprint()
    assert "tags" not in plain.config()  # so that what has none is as it was before there were any


# --- reading ----------------------------------------------------------------------------------------------------------


def test_the_store_puts_each_files_tags_first_and_is_built_anew_for_others(tmp_path, tokenizer):
    up, lo = write_pairs(tmp_path / "up.tsv", str.upper, 5), write_pairs(tmp_path / "lo.tsv", str, 5)

    def built(*tags: str) -> PairStore:
        data = DataConfig(tags=tags)
        corpus = Corpus.from_files([str(up), str(lo)], [], [], data)
        return PairStore.build(tmp_path / "store", corpus, tokenizer, tokenizer, data)[0]

    def tags_of(store: PairStore) -> list[tuple[str, ...]]:
        return [tokenizer.tags_of(store.source(i)) for i in range(len(store))]

    def number() -> int:
        return (tmp_path / "store" / "meta.json").stat().st_ino

    store = built(f"{up}=2de,medical", f"{lo}=medical")
    assert tags_of(store) == [("2de", "medical")] * 5 + [("medical",)] * 5
    assert [tokenizer.tags_of(store.target(i)) for i in range(10)] == [()] * 10
    (first, *_) = sources(5, seed=1)
    assert store.source(0).tolist() == [*tokenizer.tag_ids(["2de", "medical"]), *tokenizer.encode(first), 0]
    assert store.source_lengths.tolist() == [len(store.source(i)) for i in range(10)]
    before = number()
    built(f"{up}=medical,2de", f"{lo}=medical")
    assert number() == before
    assert tags_of(built(f"{up}=2de", f"{lo}=medical")) == [("2de",)] * 5 + [("medical",)] * 5
    assert number() != before


def test_tags_do_not_count_for_the_ratio_of_lengths(tmp_path, tokenizer):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a b\ta b\n", encoding="utf-8")
    data = DataConfig(tags=(f"{pairs}=2de,medical",), max_ratio=1.0)
    corpus = Corpus.from_files([str(pairs)], [], [], data)
    assert len(PairStore.build(tmp_path / "store", corpus, tokenizer, tokenizer, data)[0]) == 1


def test_the_target_language_says_what_is_read_of_a_memory(tmp_path):
    units = "".join(f'<tuv xml:lang="{code}"><seg>{code}</seg></tuv>' for code in ("en", "de", "fr"))
    memory = tmp_path / "memory.tmx"
    memory.write_text(f'<tmx version="1.4"><header/><body><tu>{units}</tu></body></tmx>', encoding="utf-8")

    def read(*tags: str) -> list[tuple[str | None, str | None]]:
        data = DataConfig(source_language="en", target_language="de", tags=tags)
        return [pair[:2] for pair in Corpus.from_files([str(memory)], [], [], data)]

    assert read() == [("en", "de")]
    assert read(f"{memory}=2fr") == [("en", "fr")]


def test_settings_with_tags_come_back_from_toml(tmp_path):
    made = RunConfig(data=DataConfig(tags=('odd "name".tsv=2de,medical',)))
    (tmp_path / "x.toml").write_text(made.to_toml(), encoding="utf-8")
    assert RunConfig.from_toml(tmp_path / "x.toml") == made


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--tag", "other.tsv=2up"], r"other.tsv \(with <2up>\) is none of them: .*up.tsv"),
        (["--tag", "{up}=2up"], "all must have one, but .*lo.tsv has none"),
        (["--tag", "{up}"], "FILE=TAG"),
        (["--tag", "{up}=2UP"], "letters a to z"),
        (["--valid", "{valid}", "--tag", "{valid}=small"], "no pair to train on has the tags <small>"),
    ],
)
def test_tags_that_go_wrong_are_refused_before_anything_is_made(tmp_path, given, message):
    files = {name: write_pairs(tmp_path / f"{name}.tsv", str, 20) for name in ("up", "lo", "valid")}
    words = [word.format(**files) for word in given]
    error = refused("train", files["up"], files["lo"], "--out", tmp_path / "model", *words)
    assert re.search(message, str(error)), str(error)
    assert not (tmp_path / "model").exists()


def test_one_source_file_may_have_several_translations(tmp_path):
    """Each aligned pair of files has the tags of either."""
    for name in ("en", "de", "fr"):
        (tmp_path / name).write_text(f"{name}\n", encoding="utf-8")
    en, de, fr = (str(tmp_path / name) for name in ("en", "de", "fr"))
    data = DataConfig(tags=(f"{de}=2de", f"{fr}=2fr", f"{en}=news"))
    corpus = Corpus.from_files([], [en, en], [de, fr], data)
    assert [item.tags for item in corpus.inputs] == [("2de", "news"), ("2fr", "news")]


# --- one model, two languages -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def up(multilingual) -> Translator:
    return Translator.load(multilingual, threads=1, engine="torch", to="up")


def right(translator: Translator, change) -> int:
    return sum(t.text == change(t.source) for t in translator.translate(TEXTS))


def test_each_language_and_domain_comes_when_it_is_asked_for_and_no_other(up):
    lo, louder = up.tagged(to="lo"), up.tagged(to="up", tags=["loud"])
    assert min(right(up, str.upper), right(lo, str), right(louder, loud)) >= MOST
    assert max(right(up, str), right(lo, str.upper), right(louder, str.upper)) <= FEW  # the control: the other tags
    assert (up.target_language, lo.target_language, louder.tags) == ("up", "lo", ("2up", "loud"))
    assert up.engine is lo.engine  # one model in memory


def test_a_tag_that_is_written_in_a_text_changes_nothing(up):
    (translation,) = up.translate(["<2lo> a b"])
    assert translation.text == translation.text.upper() != ""


def test_a_model_folder_says_its_tags(multilingual):
    told = json.loads((multilingual / "config.json").read_text(encoding="utf-8"))
    assert told["languages"] == {"source": "en", "target": None, "targets": ["lo", "up"]}
    assert told["tokenizers"]["source"]["tags"] == ["2lo", "2up", "loud"]
    assert told["format_version"] == 3  # programs from before there were tags say that they are too old
    card = (multilingual / "README.md").read_text(encoding="utf-8")
    assert "en → lo, up" in card and "translate . --to lo" in card


def test_a_language_must_be_named_where_there_are_several(multilingual):
    for wrong, message in [((), "several: lo, up"), (("--to", "de"), "it has lo, up"), (("--tag", "x"), "no tag 'x'")]:
        error = refused("translate", multilingual, *wrong)
        assert message in str(error) and error.hint


@pytest.fixture(scope="module")
def quantized(multilingual, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("quantized") / "model"
    done = quantize_model(multilingual, out, threads=1)
    assert done.sentences == sum(len(texts) for texts, _ in tagged_validation_pairs(load_model(multilingual)).values())
    assert min(done.before.chrf, done.after.chrf) > 90  # every pair with its own tags, or a third would be wrong
    return out


@pytest.mark.parametrize("name", ["reference", "torch", "torch-int8", "ctranslate2", "ctranslate2-int8"])
def test_engines_agree_with_tags(multilingual, quantized, up, name):
    if name.startswith("ctranslate2") and not HAS_CTRANSLATE2:
        pytest.skip("needs ctranslate2")
    int8 = name.endswith("int8")
    other = Translator.load(quantized if int8 else multilingual, device="cpu", threads=1, engine=name, to="up")
    for to, tags in [("up", ()), ("lo", ()), ("up", ("loud",))]:
        expected, found = (t.tagged(to, tags).translate(TEXTS) for t in (up, other))
        assert [t.text for t in found] == [t.text for t in expected]
        # In int8 a whole sentence may be some hundredths of a nat more or less probable.
        assert [t.log_prob for t in found] == pytest.approx([t.log_prob for t in expected], abs=0.2 if int8 else 1e-3)


def test_a_tag_has_no_probability_in_a_translation(up):
    """Both sides have one vocabulary here, so the output layer has a row for every tag."""
    (found,) = up.translate(["a b"])
    tokenizer, source = up.target_tokenizer, up.source_ids(up.source_tokenizer.encode("a b"))
    written = [*tokenizer.encode(found.text), tokenizer.eos_id]
    with torch.inference_mode():
        logits = up.model(torch.tensor([source]), torch.tensor([[up.vocabulary.start_id, *written[:-1]]]))[0]
    never = [*tokenizer.tag_ids(tokenizer.tags), tokenizer.pad_id]
    kept = [i for i in range(len(tokenizer)) if i not in never]
    each = [(row[token] - row[kept].logsumexp(0)).item() for row, token in zip(logits, written, strict=True)]
    with_tags = [(row[token] - row.logsumexp(0)).item() for row, token in zip(logits, written, strict=True)]
    (score,) = up.score([("a b", found.text)])
    assert score.token_log_probs == pytest.approx(each, abs=1e-5)
    assert sum(with_tags) < sum(each) - 1e-4  # the control: it would make a difference
    assert found.log_prob == pytest.approx(score.log_prob, abs=1e-4)


@pytest.mark.skipif(not HAS_CTRANSLATE2, reason="needs ctranslate2")
def test_the_export_for_ctranslate2_has_the_tags(multilingual, up, tmp_path):
    import ctranslate2

    done = export_model(multilingual, tmp_path / "out")
    assert done.same == done.sentences >= 3
    theirs = ctranslate2.Translator(str(tmp_path / "out"), intra_threads=1)
    tokenizer = up.source_tokenizer
    for tag, ours in [("<2up>", up), ("<2lo>", up.tagged("lo"))]:
        pieces = [tag, *tokenizer.pieces(tokenizer.encode("a b c"))]
        (result,) = theirs.translate_batch([pieces], disable_unk=True)
        assert tokenizer.decode(_ids(tokenizer, result.hypotheses[0])) == ours.translate(["a b c"])[0].text
    assert 'pieces = ["<2lo>"] + source' in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert export_model(multilingual, tmp_path / "again", sources=["a b"]).sentences == 2  # into each language


def _ids(tokenizer: Tokenizer, pieces: list[str]) -> list[int]:
    known = {piece: i for i, piece in enumerate(tokenizer.pieces(range(len(tokenizer))))}
    return [known[piece] for piece in pieces]


def test_a_text_that_is_too_long_has_the_tag_in_each_part(up):
    longest = up.loaded.longest_source
    assert longest == 3 + 2 + 1  # three letters, two tags, the end mark
    assert (up.longest_source, up.tagged("up", ["loud"]).longest_source) == (4, 3)
    (translation,) = up.translate(["a b c, d e f, a b c"])
    assert "split" in translation.flags
    assert translation.text == translation.text.upper()


# --- looking inside ---------------------------------------------------------------------------------------------------


def test_attention_is_that_of_the_text_alone(up):
    pair = ("c a b", "C A B")
    (found,) = up.attention([pair])
    source = torch.tensor([up.source_ids(up.source_tokenizer.encode(pair[0]))])
    target = torch.tensor([[up.vocabulary.start_id, *up.target_tokenizer.encode(pair[1])]])
    with torch.inference_mode():
        whole = torch.stack(cross_attention(up.model, source, target)).mean(0)[0, :-1].numpy()  # (T, tag + S + end)
    assert whole.shape == (3, 1 + 3 + 1) and found.weights.shape == (3, 3)
    assert found.source == [(0, 1), (2, 3), (4, 5)]
    assert np.allclose(found.weights, whole[:, 1:4], atol=1e-6)
    assert not np.allclose(found.weights, whole[:, :3], atol=1e-2)  # the control: a column further to the left


@pytest.mark.parametrize("norms", [False, True])
def test_links_count_the_words_of_the_text(up, norms):
    reading = layer_average(up.model, "predicts", norms)
    found = align(up, [("c a b", "C A B")], [reading])
    assert found.words == [(["c", "a", "b"], ["C", "A", "B"])]
    assert all(0 <= s < 3 for s, _ in found.links[reading][0])


def test_a_trace_shows_the_tag_as_a_token_of_its_own(up):
    louder = up.tagged("up", ["loud"])
    found = trace(louder, "a b")
    kinds = [(token.text, token.kind) for token in found.source.tokens]
    assert kinds == [("<2up>", "tag"), ("<loud>", "tag"), ("▁a", "piece"), ("▁b", "piece"), ("</s>", "control")]
    assert found.source.word_texts == ["<2up>", "<loud>", "a", "b", "</s>"]
    assert found.cross.weights.shape[-1] == 5
    (translation,) = louder.translate(["a b"])
    assert (found.translation, found.log_prob) == (translation.text, pytest.approx(translation.log_prob, abs=1e-4))
    written = trace(up, "<2up> a")
    assert [token.kind for token in written.source.tokens][:2] == ["tag", "unknown"]  # the same letters, no tag


# --- training ---------------------------------------------------------------------------------------------------------


def test_a_resumed_run_with_tags_is_the_unbroken_one(tmp_path):
    pairs, tags = write_all(tmp_path)
    settings_ = config(tags, max_updates=24, validate_every=10)

    def stop(record: object) -> None:
        if isinstance(record, Progress) and record.update == 13:
            os.kill(os.getpid(), signal.SIGTERM)

    train(pairs, out=tmp_path / "whole", config=settings_)
    train(pairs, out=tmp_path / "broken", config=settings_, on_record=stop)
    train(out=tmp_path / "broken", resume=True)  # files and tags are remembered
    ours, theirs = (load_tensors(tmp_path / name / "model.safetensors") for name in ("whole", "broken"))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    other = config(tuple(tag.replace("2lo", "2de") for tag in tags), max_updates=30, validate_every=10)
    with pytest.raises(ConfigError, match=r"cannot change data\.tags"):
        train(out=tmp_path / "broken", resume=True, config=other)


def test_two_vocabularies_have_tags_on_the_source_side_only(tmp_path):
    pairs, tags = write_all(tmp_path)
    train(pairs, out=tmp_path / "model", config=config(tags, joint=False, max_updates=2))
    loaded = load_model(tmp_path / "model")
    assert (loaded.source_tokenizer.tags, loaded.target_tokenizer.tags) == (("2lo", "2up", "loud"), ())
    assert Translator(loaded, "torch", tags=["2up"]).vocabulary.forbidden == (loaded.target_tokenizer.pad_id,)


def test_validation_translates_each_source_with_its_tags_and_scores_each_language(tmp_path):
    pairs, tags = write_all(tmp_path)
    seen: list[Validation] = []
    settings_ = config(tags, max_updates=300, validate_every=300, validate_bleu=True, patience=0)
    train(
        pairs, out=tmp_path / "model", config=settings_,
        on_record=lambda record: seen.append(record) if isinstance(record, Validation) else None,
    )  # fmt: skip
    (last,) = seen
    assert set(last.chrf_by_language) == {"up", "lo"}
    assert min(last.chrf_by_language.values()) > 70 and last.chrf is not None and last.chrf > 70
    references = [reference for _, reference, _ in last.samples]
    assert {reference.isupper() for reference in references} == {True, False}  # the first ones are of all languages


def test_valid_files_have_tags_too(tmp_path):
    pairs, tags = write_all(tmp_path)
    valid = write_pairs(tmp_path / "valid.tsv", str.upper, 10, seed=4)
    settings_ = config((*tags, f"{valid}=2up"), max_updates=2)
    train(pairs, out=tmp_path / "model", valid=[str(valid)], config=settings_)
    assert list(tagged_validation_pairs(load_model(tmp_path / "model"))) == [("2up",)]


# --- verbs ------------------------------------------------------------------------------------------------------------


def test_verbs_take_the_language(multilingual, tmp_path, up):
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    (tmp_path / "out.txt").write_text("".join(f"{t.text}\n" for t in up.translate(TEXTS)), encoding="utf-8")
    texts, translations = tmp_path / "in.txt", tmp_path / "out.txt"
    assert run("translate", multilingual, texts, "--to", "up") == translations.read_text(encoding="utf-8")
    assert run("translate", multilingual, "--to", "up", "--tag", "loud", stdin="a b\n").endswith("!\n")
    told = {to: json.loads(run("evaluate", multilingual, "--to", to, "--src", texts, "--ref", translations, "--json"))
            for to in ("up", "lo")}  # fmt: skip
    assert told["up"]["exact"] == len(TEXTS) and told["lo"]["exact"] <= FEW
    scores = {to: [float(line) for line in
                   run("score", multilingual, "--to", to, "--src", texts, "--tgt", translations).split()]
              for to in ("up", "lo")}  # fmt: skip
    assert np.mean(scores["up"]) > np.mean(scores["lo"]) + 1
    links = run("align", multilingual, "--to", "up", "--src", texts, "--tgt", translations, "--head", "cross.1")
    words = [[max(int(n) for n in link.split("-")) for link in line.split()] for line in links.splitlines()]
    assert [max(line) for line in words] == [len(text.split()) - 1 for text in TEXTS]
    assert "<2up>" in run("inspect", multilingual, "a b", "--to", "up")
    heads = json.loads(run("heads", multilingual, "--to", "lo", "--limit", 10, "--json"))
    assert heads["pairs"] == 10


def test_workers_translate_with_the_same_tags(multilingual, up, tmp_path):
    (tmp_path / "in.txt").write_text("a b\n" * 3, encoding="utf-8")
    found = run("translate", multilingual, tmp_path / "in.txt", "--to", "lo", "--workers", 2, "--threads", 1)
    assert found.split("\n") == [up.tagged("lo").translate(["a b"])[0].text] * 3 + [""]


def test_calibration_and_shortlists_look_at_all_tags(multilingual, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(multilingual, model)
    pairs = tagged_validation_pairs(load_model(model))
    assert sorted(pairs) == [("2lo",), ("2up",), ("2up", "loud")]
    made = calibrate(model, threads=1)
    assert made.sentences == sum(len(texts) for texts, _ in pairs.values())
    assert made.low_confidence is not None and made.low_confidence > -1  # none was translated into another language
    done = make_shortlist(model, threads=1)
    assert done.same == done.sentences == made.sentences
    listed = Translator.load(model, threads=1, engine="torch", shortlist=True, to="up")
    assert min(right(listed, str.upper), right(listed.tagged("lo"), str)) >= MOST
    assert refused("calibrate", model, "--to", "up").hint


def test_validation_pairs_are_those_of_the_tags(multilingual, up):
    texts, references = validation_pairs(up)
    assert references == [text.upper() for text in texts]
    with pytest.raises(DataError, match="<2lo> <loud>; there are such with"):
        validation_pairs(up.tagged("lo", ["loud"]))


def test_a_student_learns_one_language(multilingual, tmp_path):
    pairs = write_pairs(tmp_path / "pairs.tsv", str, 30)  # the teacher does not look at the targets
    settings_ = tmp_path / "x.toml"
    settings_.write_text(config(max_updates=1).to_toml(), encoding="utf-8")
    run("distill", multilingual, pairs, "--to", "up", "--out", tmp_path / "student", "--config", settings_, "-q")
    lines = (tmp_path / "student" / "distillation" / "train.target").read_text(encoding="utf-8").splitlines()
    assert lines and all(line == line.upper() for line in lines)
    assert load_model(tmp_path / "student").source_tokenizer.tags == ()

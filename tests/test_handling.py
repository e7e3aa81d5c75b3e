"""Placeholders, tags, terms, sentences and HTML around a translation; whatever the model says, nothing is damaged silently."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import handling, insisting
from pellucid.config import SearchConfig
from pellucid.data.tokenizer import Tokenizer
from pellucid.errors import ConfigError
from pellucid.search import Hypothesis
from pellucid.server.translating import Manner, translate
from pellucid.text.options import SERVED, TextOptions
from pellucid.text.placement import Attention
from pellucid.text.spans import find_spans, occurrences, pair_tags
from pellucid.text.terms import Terms, count
from pellucid.translation import Translation
from pellucid.translator import Translator
from test_translator import WORDS, random_model

PROTECT = TextOptions()
HTML = dataclasses.replace(SERVED, format="html")

PLACEHOLDERS = [
    "%s", "%1$s", "%(n)s", "%.2f", "%d", "%%", "{name}", "{0}", "{{x}}", "${total}", "[X12X]", '<x id="1"/>', "<br>",
    "&nbsp;", "&copy;", "https://example.org/a?b=c#d", "info@example.org", "www.example.org/(x)",
    "{n, plural, one {# file} other {# files in {0}}}", "<b>two</b>", '<a href="https://a.example">{who}</a>', "<i><b>four",
]  # fmt: skip
POSITIONS = [
    "{} one two three", "one two three {}", "one {} three", "one two{}, three", "({}) one", "one {}{} two", "{} {} one",
    "one {} two {} three", "{}", "你好{}先生", "one 红 {} 绿 two.", "<b>one {} two</b> three", "one.\ntwo {} three!\n\n{}",
]  # fmt: skip
STRINGS = [
    re.sub(r"\{\}", lambda _, text=placeholder: text, position)
    for placeholder, position in itertools.product(PLACEHOLDERS, POSITIONS)
]
NESTED = [
    f'<p title="one {p} two">one <b>two {p}</b> three</p>'
    for p in PLACEHOLDERS
    if not p.startswith("<") and p not in ("&nbsp;", "&copy;")
]


@pytest.fixture(scope="module")
def translator() -> Translator:
    """Random weights, and a tokenizer that knows the signs of placeholders: it leaves some in, and says anything."""
    torch.set_num_threads(1)
    lines = [" ".join(WORDS), "%s {name} %1$s {0} [X12X] {{x}} %d %(n)s"] * 3
    return Translator(random_model(Tokenizer.train(lines, vocab_size=330)), "torch")


@pytest.fixture(scope="module")
def ignorant() -> Translator:
    """Its tokenizer has never seen a brace."""
    torch.set_num_threads(1)
    return Translator(random_model(Tokenizer.train([" ".join(WORDS)] * 3, vocab_size=300)), "torch")


def lost(t: Translation) -> list[str]:
    """The placeholders that did not come out as often as they went in."""
    wanted = [span.text for span in find_spans(t.source)]
    found, _ = occurrences(set(wanted), t.text)
    return [text for text in dict.fromkeys(wanted) if found[text] != wanted.count(text)]


def silent(found: list[Translation]) -> list[tuple[str, str]]:
    """Those that are damaged and do not say so."""
    return [(t.source, t.text) for t in found if lost(t) and not set(lost(t)) <= set(t.damaged)]


def is_balanced(text: str) -> bool:
    spans = [span for span in find_spans(text) if span.kind == "tag"]
    pairs = zip(pair_tags(spans), spans, strict=True)
    return all(p is not None for p, span in pairs if span.name and span.name not in ("br", "img"))


@pytest.mark.parametrize("options", [PROTECT, SERVED], ids=["lines", "sentences"])
@pytest.mark.parametrize("which", ["translator", "ignorant"])
def test_286_strings_keep_their_placeholders_or_say_so(which, options, request):
    assert len(STRINGS) >= 200
    found = request.getfixturevalue(which).translate(STRINGS, text=options)
    assert len(found) == len(STRINGS)
    assert not silent(found)
    assert sum(bool(lost(t)) for t in found) <= len(found) * 0.02
    assert all(is_balanced(t.text) for t in found if is_balanced(t.source))
    if options is SERVED:
        assert [t.text.count("\n") for t in found] == [t.source.count("\n") for t in found]


def test_without_protection_they_are_lost(ignorant):
    """The control."""
    found = ignorant.translate(STRINGS, text=TextOptions(protect=False))
    assert sum(bool(lost(t)) for t in found) > len(found) * 0.9


def test_placeholders_in_html_and_in_its_attributes(ignorant):
    for t in ignorant.translate(NESTED, text=HTML):
        wanted = [span.text for span in find_spans(re.sub("<[^>]*>", " ", t.source))]
        inside = re.sub("<[^>]*>", " ", t.text)
        title = re.search('title="(.*?)">', t.text)
        assert title is not None
        for placeholder in wanted:
            assert placeholder in inside or placeholder in t.damaged
            assert placeholder.replace("&", "&amp;") in title[1] or placeholder in t.damaged


def test_what_has_no_placeholder_is_translated_as_ever(translator):
    texts = [" ".join(WORDS[i % 12 : i % 12 + i % 5 + 1]) for i in range(40)]
    texts += ["", "  ", " red  green ", "one. Two.", "x" * 300, "one two three four five. " * 12, "100 % & <3"]
    config = SearchConfig(beam_size=2, n_best=2, max_length=9)
    assert translator.translate(texts, config, text=PROTECT) == translator.translate(texts, config)
    sampled = SearchConfig(sample=True, max_length=9, seed=2)
    drawn = [t.text for t in translator.stream(texts, sampled, text=PROTECT)]
    assert drawn == [t.text for t in translator.translate(texts, sampled)]


def test_company_changes_nothing(translator):
    texts = STRINGS[::7]
    together = translator.translate(texts, text=SERVED)
    streamed = list(translator.stream(texts, text=SERVED))
    assert [t.text for t in streamed] == [t.text for t in together]
    assert [translator.translate([text], text=SERVED)[0].text for text in texts] == [t.text for t in together]


def test_all_alternatives_have_them(ignorant):
    t = ignorant.translate(["one {x} two"], SearchConfig(beam_size=3, n_best=3), text=PROTECT)[0]
    assert len(t.alternatives) == 3 and all(a.text.count("{x}") == 1 for a in t.alternatives)
    assert t.text == t.alternatives[0].text and "placed" in t.flags


class Copier(Translator):
    """Says what it is given, or what `says` makes of it."""

    says = staticmethod(lambda text: text)

    def _search(self, segments, begins, seeds, config, scores):
        return [[Hypothesis(tuple(self.target_tokenizer.encode(self.says(s.text))), -1.0, -1.0, True, ())]
                for s in segments]  # fmt: skip

    def attention(self, pairs):
        """Straight on."""
        found = []
        for source, target in pairs:
            rows, columns = self.target_tokenizer.offsets(target), self.source_tokenizer.offsets(source)
            weights = np.full((len(rows), len(columns)), 0.01)
            for t in range(len(rows)):
                weights[t, t * len(columns) // len(rows)] = 1
            found.append(Attention(weights, columns, rows))
        return found


def copier(translator: Translator, says=lambda text: text) -> Copier:
    made = Copier(translator.loaded, "torch")
    made.says = says
    return made


def test_a_model_that_copies_them_is_left_to_it(translator):
    """It sees the placeholder, and its own place for it counts."""
    t = copier(translator, lambda text: text[::-1] if "{" not in text else "{0} two one").translate(
        ["one {0} two"], text=PROTECT
    )[0]
    assert (t.text, t.flags) == ("{0} two one", ())


def test_a_model_that_loses_them_is_asked_without(translator):
    t = copier(translator, lambda text: text.replace("{0}", "zero")).translate(["{0} one two"], text=PROTECT)[0]
    assert (t.text, t.flags) == ("{0} one two", ("placed",))


def test_a_model_is_not_given_what_it_has_never_seen(ignorant):
    given: list[str] = []
    copier(ignorant, lambda text: given.append(text) or text).translate(["one {x} two https://a.b"], text=PROTECT)
    assert given == ["one two"]


def test_what_comes_out_of_nothing_is_named(translator):
    t = copier(translator, lambda text: text + " %s").translate(["one two"], text=PROTECT)[0]
    assert (t.flags, t.damaged) == (("placeholders",), ("%s",))
    t = copier(translator, lambda text: text + " %s").translate(["one two"], text=TextOptions(protect=False))[0]
    assert t.flags == ()


def test_sentences_and_lines_are_translated_one_by_one_and_their_spaces_stay(translator):
    given: list[str] = []
    text = "  One two. Three {0} four!\r\n\r\n\tRed: %s.  Blue\n"
    t = copier(translator, lambda text: given.append(text) or text.lower()).translate([text], text=SERVED)[0]
    assert t.text == text.lower()
    assert given == ["One two.", "Three {0} four!", "Red: %s.", "Blue"]
    assert "split" not in t.flags


def test_a_model_of_longer_texts_is_given_lines(translator):
    given: list[str] = []
    made = copier(translator, lambda text: given.append(text) or text)
    made.__dict__["calibration"] = dataclasses.replace(made.calibration, single_sentences=False)
    made.translate(["One two. Three.\nFour."], text=SERVED)
    assert given == ["One two. Three.", "Four."]


def test_tags_around_several_sentences_stay_balanced(translator):
    text = "<b>One two. Three <i>four.</i> Five</b> six. <u>Seven</u>"
    assert copier(translator).translate([text], text=SERVED)[0].text == text


def test_terms_the_models_own_or_put_in_or_named(translator):
    terms = TextOptions(terms=Terms({"red": "rot", "Anna": "Anna", "blue": "blau"}))
    own = copier(translator, lambda text: text.replace("red", "rot")).translate(["red Anna two"], text=terms)[0]
    assert (own.text, own.flags) == ("rot Anna two", ())
    other = copier(translator, lambda text: text.upper()).translate(["one red two"], text=terms)[0]
    assert (other.text, other.flags) == ("ONE rot TWO", ("placed",))
    control = copier(translator, lambda text: text.upper()).translate(["one red two"], text=PROTECT)[0]
    assert "rot" not in control.text


def test_a_placeholder_has_no_terms_in_it(translator):
    terms = TextOptions(terms=Terms({"name": "Name"}))
    t = copier(translator).translate(["one {name} two"], text=terms)[0]
    assert (t.text, t.flags) == ("one {name} two", ())


@pytest.mark.parametrize("options", [PROTECT, SERVED, HTML])
def test_terms_come_out_of_any_model(ignorant, options):
    texts = [f"{' '.join(WORDS[:i])} green {' '.join(WORDS[i : i + 2])} {{x}}" for i in range(8)]
    for t in ignorant.translate(texts, text=dataclasses.replace(options, terms=Terms({"green": "GRÜN"}))):
        assert "GRÜN" in t.text or "GRÜN" in t.damaged
        assert "GRÜN" in t.text


def searched(translator: Translator, monkeypatch: pytest.MonkeyPatch, **options: object) -> list[Translation]:
    """Terms that a model of random weights says where it is told to. Whether they stand well it does not know."""
    monkeypatch.setattr(insisting.Draft, "_stands", lambda *_: True)
    terms = Terms({"green": "rot", "four five.": "blue nine"})
    texts = [
        "one two green three",
        "one two three",
        "four five. nine green",
        "green green {0} one",
        "one <b>green</b> two",
    ]
    text = TextOptions(terms=terms)
    return translator.translate(texts, SearchConfig(**{"beam_size": 1, "max_length": 30, **options}), text=text)


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 3}, {"beam_size": 4, "n_best": 3}], ids=str)
def test_terms_are_searched_where_that_works(translator, monkeypatch, options):
    found = searched(translator, monkeypatch, **options)
    plain = translator.translate([t.source for t in found], SearchConfig(max_length=30, **options), text=PROTECT)
    assert [count("rot", t.text) for t in found[:3]] == [1, 0, 1] and count("blue nine", found[2].text) == 1
    assert not {"placed", "glossary"} & {*found[0].flags, *found[2].flags} and found[1] == plain[1]
    assert all("rot" in t.damaged or count("rot", t.text) == t.source.count("green") for t in found)
    assert all(len(t.alternatives) == options.get("n_best", 1) and t.text == t.alternatives[0].text for t in found)
    monkeypatch.setattr(handling, "insist", lambda *_: None)  # the control
    assert "placed" in searched(translator, monkeypatch, **options)[0].flags


def test_drawing_at_random_leaves_terms_to_alignment(translator, monkeypatch):
    found = searched(translator, monkeypatch, sample=True)
    assert all("placed" in t.flags for t in found if "green" in t.source)
    assert all("rot" in t.damaged or count("rot", t.text) == t.source.count("green") for t in found)


def test_searched_terms_do_not_depend_on_company(translator, monkeypatch):
    together = searched(translator, monkeypatch)
    monkeypatch.setattr(insisting.Draft, "_stands", lambda *_: True)
    terms = TextOptions(terms=Terms({"green": "rot", "four five.": "blue nine"}))
    config = SearchConfig(beam_size=1, max_length=30)
    assert [translator.translate([t.source], config, text=terms)[0].text for t in together] == [
        t.text for t in together
    ]


def test_a_server_says_terms_as_the_command_line_does(translator, monkeypatch):
    found = searched(translator, monkeypatch)
    terms, config = Terms({"green": "rot", "four five.": "blue nine"}), SearchConfig(beam_size=1, max_length=30)
    served = translate(translator, [t.source for t in found], Manner(), config, terms)
    wanted = dataclasses.replace(SERVED, terms=terms)
    capped = dataclasses.replace(config, length_ratio=2.0)
    expected = [translator.translate([t.source], capped, text=wanted)[0] for t in found]
    assert [answer.text for answer in served] == [t.text for t in expected]
    assert ["rot" in answer.text for answer in served] == ["green" in t.source for t in found]


def test_a_term_that_its_translation_has_already_is_not_searched(translator, monkeypatch):
    monkeypatch.setattr(handling, "insist", lambda core, drafts, *_: seen.extend(drafts))
    seen: list[insisting.Draft] = []
    terms = TextOptions(terms=Terms({"red": "rot"}))
    says = copier(translator, lambda text: text.replace("two red", "two rot"))
    says.translate(["one two red", "three red", "one"], text=terms)
    assert [draft.source.text for draft in seen] == ["three red"]


def test_a_loop_is_flagged_and_searched_again(translator):
    class Looping(Translator):
        def _search(self, segments, begins, seeds, config, scores):
            text = "one two red" if config.no_repeat_ngram else "one two " * 9
            return [[Hypothesis(tuple(self.target_tokenizer.encode(text)), -1.0, -1.0, True, ())] for _ in segments]

    looping = Looping(translator.loaded, "torch")
    assert looping.translate(["red"])[0].flags == ("repeated",)
    again = looping.translate(["red"], text=SERVED)[0]
    assert (again.text, again.flags) == ("one two red", ("repeated",))
    assert looping.translate(["1 " * 9])[0].flags == ()


PAGE = """<!DOCTYPE html>
<html><head><title>Red &amp; green</title><style>p { color: red }</style></head>
<body class="x"><!-- one -->
<h1 id='a'>One <em>two</em> three</h1>
<p>Red <b>green <i>blue</i></b>, see <a href="https://x.example/?a=1&amp;b=2" title="nine five">four</a>&nbsp;now.
  Seven! <code>one two</code> eight?<br/>Six {name}</p>
<img src="a.png" alt="a red one"><p translate="no">no <b>way</b></p>
<script>var red = "<p>one</p>";</script>
</body></html>"""


def tags(document: str) -> list[str]:
    return [re.sub(r"\s.*", "", tag, flags=re.DOTALL).strip("<>/") for tag in re.findall("<[^>]*>", document)]


def test_a_page_of_html(ignorant):
    t = ignorant.translate([PAGE], text=HTML)[0]
    assert sorted(tags(t.text)) == sorted(tags(PAGE))
    assert is_balanced(re.sub("(?s)<script.*?</script>|<!DOCTYPE[^>]*>", "", t.text))
    for kept in ("<style>p { color: red }</style>", '<p translate="no">no <b>way</b></p>', "<code>one two</code>", "<!-- one -->",
                 '<script>var red = "<p>one</p>";</script>', '<a href="https://x.example/?a=1&amp;b=2" title="', "&nbsp;", "{name}",
                 "<body class=\"x\">", "<h1 id='a'>", '<img src="a.png" alt="'):  # fmt: skip
        assert t.text.count(kept) == 1, kept
    assert "nine five" not in t.text and "a red one" not in t.text
    blocks = re.compile("<(/?(?:html|head|title|style|body|h1|p|br|img|script))[ >/]")
    assert blocks.findall(t.text) == blocks.findall(PAGE)


def test_a_model_that_copies_gives_the_page_back(translator):
    as_shown = re.sub(r"\s+Seven", " Seven", PAGE)
    assert copier(translator).translate([PAGE], text=HTML)[0].text == as_shown


def test_what_a_model_says_never_becomes_html(ignorant):
    evil = copier(ignorant, lambda text: "<script>x</script> & </p>")
    assert evil.translate(["<p>one</p>"], text=HTML)[0].text == "<p>&lt;script&gt;x&lt;/script&gt; &amp; &lt;/p&gt;</p>"
    assert '"' not in evil.translate(['<img alt="one">'], text=HTML)[0].text[10:-2]


def test_nothing_to_translate(ignorant):
    for options in (PROTECT, SERVED):
        assert [(t.text, t.flags) for t in ignorant.translate(["", "  "], text=options)] == [("", ("empty",))] * 2
    assert ignorant.translate(["<p>12</p>"], text=HTML)[0].text == "<p>12</p>"
    for verbatim in ("{name}", "%s: %d", "<b>12</b>", "https://a.example"):
        assert ignorant.translate([verbatim], text=PROTECT)[0].text == verbatim


def test_a_format_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="`format` must be one of text, html, but is 'xml'"):
        TextOptions(format="xml")


PIECES = st.sampled_from(["one ", "red.", "Two", "你好", "!", " ", " ", "\n", "{a}", "%d", "<b>", "</b>", "<br>", "&amp;", "&", "<",
                          "https://a.b/c", "'", "(", ")", "{{", "}}", "[X1X]", "&nbsp;", "%1$s"])  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(PIECES, max_size=12).map("".join), min_size=1, max_size=4),
    st.sampled_from([PROTECT, SERVED, HTML]),
    st.booleans(),
)
def test_any_text(translator, texts, options, with_terms):
    terms = Terms({"one": "EINS", "d": "D", "two red": "ZWEI ROT", "你": "Du"})
    wanted = dataclasses.replace(options, terms=terms if with_terms else None)
    found = translator.translate(texts, SearchConfig(beam_size=1, max_length=8), text=wanted)
    assert [t.source for t in found] == texts
    if with_terms:
        for t in found:
            plain = occurrences({span.text for span in find_spans(t.source)}, t.source)[1]
            assert not re.search(r"\bone\b", plain) or "EINS" in t.text or "EINS" in t.damaged
    if options is not HTML:
        assert not silent(found)
        assert all(is_balanced(t.text) for t in found if is_balanced(t.source))


TRAINED = Path(os.environ.get("PELLUCID_TRAINED_MODEL", "no model"))


@pytest.mark.skipif(not (TRAINED / "config.json").is_file(), reason="no trained model on this machine")
def test_placeholders_on_a_trained_model():
    """PELLUCID_TRAINED_MODEL names its folder."""
    trained = Translator.load(TRAINED, threads=torch.get_num_threads(), engine="torch")
    sentences = ["a man {} rides a bike .", "{} two dogs run in the snow", "a girl in a pink dress {}", "a <b>red {} car</b> .",
                 "children play , {}{} and men sing .", "{} a woman {} reads {}", "一个人 {} a boy", "the boys ({}) swim ."]  # fmt: skip
    texts = [re.sub(r"\{\}", lambda _, p=p: p, s) for p, s in itertools.product(PLACEHOLDERS, sentences)] + STRINGS[::5]
    found = trained.translate(texts, SearchConfig(beam_size=2), text=PROTECT)
    assert len(found) >= 200 and not silent(found)
    assert sum(not lost(t) for t in found) >= 0.99 * len(found)

"""Web pages as files and as texts: the same comes out, tags and all else stay, and no page takes long."""

from __future__ import annotations

import html.parser
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.config import DataConfig
from pellucid.data.formats.document import Filled, fill_file
from pellucid.data.tokenizer import Tokenizer
from pellucid.text import markup
from pellucid.text.html import fragments, stretches
from pellucid.text.placement import Attention
from pellucid.translator import Translator
from test_handling import HTML, Copier
from test_translator import WORDS, random_model

PAGE = """<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>Tea &amp; milk</title><style>p { x: y }</style>
<meta name="description" content="All about tea"><script>if (a < b) say("<b>hi</b>");</script></head>
<body class=x><!-- note -->
<h1 title="Main page">Welcome</h1>
<p>The <b>big dog</b> plays with a
  <a href="x?a=1&b=2" title='the "ball"'>red ball</a> in <code>x &lt; y</code> today.<br/>Next line
<img src="a.png" alt="A dog &amp; a cat"></p>
<p translate="no">Keep <b>this</b></p><div class="notranslate a">And <div>this</div></div>
<ul><li>One<li>Two</ul><pre>so <i>it
   is</i></pre><pre><code>no()</code></pre><p>5 + 5</p><input placeholder="your name">
</body></html>
"""


@pytest.fixture(scope="module")
def model() -> Translator:
    torch.set_num_threads(1)
    return Translator(random_model(Tokenizer.train([" ".join(WORDS)] * 3, vocab_size=300)), "torch")


class Straight(Copier):
    """Each letter comes from the one in its place; `turned`: from the one in its place from behind."""

    turned = False

    def attention(self, pairs):
        found = []
        for source, target in pairs:
            rows, columns = self.target_tokenizer.offsets(target), self.source_tokenizer.offsets(source)
            here = [(len(target) - end, len(target) - start) if self.turned else (start, end) for start, end in rows]
            weights = [[max(0, min(b, d) - max(a, c)) + 0.001 for c, d in columns] for a, b in here]
            found.append(Attention(np.array(weights).reshape(len(rows), len(columns)), columns, rows))
        return found


def straight(model: Translator, says, *, turned: bool = False) -> Straight:
    made = Straight(model.loaded, "torch")
    made.says, made.turned = says, turned
    return made


class Pages:
    """Translates pages by a model that says what `says` makes of what it is given."""

    def __init__(self, model: Translator, folder: Path) -> None:
        self.model, self.folder = model, folder
        self.done = Filled()

    def as_file(self, page: str, says=str.upper, memory=None) -> str:
        path, out = self.folder / "a.html", self.folder / "out.html"
        path.write_bytes(page.encode())

        def translate(texts: Iterable[str]) -> Iterator[str]:
            return (t.text for t in straight(self.model, says).stream(texts, text=HTML))

        self.done = fill_file(str(path), str(out), DataConfig(), translate, memory)
        return out.read_bytes().decode()

    def as_text(self, page: str, says=str.upper) -> str:
        return straight(self.model, says).translate([page], text=HTML)[0].text


@pytest.fixture(scope="module")
def pages(model: Translator, tmp_path_factory: pytest.TempPathFactory) -> Pages:
    return Pages(model, tmp_path_factory.mktemp("pages"))


def test_a_page(pages):
    expected = PAGE
    for before, after in (
        ("Tea &amp; milk", "TEA &amp; MILK"),
        ("All about tea", "ALL ABOUT TEA"),
        ('"Main page">Welcome', '"MAIN PAGE">WELCOME'),
        ("The <b>big dog</b> plays with a\n  <a", "THE <b>BIG DOG</b> PLAYS WITH A <a"),
        ("title='the \"ball\"'>red ball", 'title="THE &quot;BALL&quot;">RED BALL'),
        ("in <code>", "IN <code>"),
        ("today.", "TODAY."),
        ("Next line\n", "NEXT LINE "),
        ("A dog &amp; a cat", "A DOG &amp; A CAT"),
        ("One<li>Two", "ONE<li>TWO"),
        ("so <i>it\n   is", "SO <i>IT\n   IS"),
        ("your name", "YOUR NAME"),
    ):
        assert before in expected
        expected = expected.replace(before, after)
    assert pages.as_file(PAGE) == expected
    assert pages.as_text(PAGE) == expected


def test_tags_go_where_the_attention_says_in_files_too(pages):
    (fragment,) = fragments("<p><b>aa</b> bb cc</p>")
    turned = straight(pages.model, lambda text: text[::-1], turned=True)
    assert turned.translate([fragment.text], text=HTML)[0].text == "cc bb <b>aa</b>"


def test_a_tag_at_the_end_of_a_sentence_belongs_to_the_next(pages):
    page = "<p>One.<b> Two</b> three. <i>Four. Five</i></p>"
    assert pages.as_file(page) == "<p>ONE.<b> TWO</b> THREE. <i>FOUR. FIVE</i></p>"


def test_markup_without_end_is_no_text(pages):
    for page in ("a<!-- b", "a<![CDATA[ b", "a</", "a<?b", "a<script>b", "a<b c", "a<p title='b"):
        assert pages.as_file(page) == page.replace("a", "A", 1)
    assert pages.as_file("<p>a</p><a href='x") == "<p>A</p><a href='x"
    assert pages.as_file("a < b > c") == "A &lt; B &gt; C"
    assert pages.as_file("<b title='x > y' z=>a</b>") == '<b title="X &gt; Y" z=>A</b>'


def test_a_paragraph_that_is_not_translated_ends_where_the_next_begins(pages):
    assert pages.as_file("<p translate=no>a<p>b") == "<p translate=no>a<p>B"
    assert pages.as_file("<div translate=no>a<div>b</div></div>c") == "<div translate=no>a<div>b</div></div>C"


def test_a_memory_has_texts_without_markup_between_their_words(pages):
    memory = {"Tea & milk": "Tee & Milch", "Two cups": "Zwei Tassen", "Red": "Rot", "a cat": "eine Katze"}
    page = "<p>Tea &amp; milk</p>\n<p> <b>Two\n cups</b><!-- x --> </p><p>Two <b>cups</b></p><img alt='a cat'><pre>Red</pre>"
    assert pages.as_file(page, memory=memory) == (
        "<p>Tee &amp; Milch</p>\n<p> <b>Zwei Tassen</b><!-- x --> </p><p>TWO <b>CUPS</b></p>"
        '<img alt="A CAT"><pre>Rot</pre>'
    )
    assert pages.done == Filled(texts=5, from_memory=3)


class Tags(html.parser.HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)

    def handle_endtag(self, tag):
        self.found.append("/" + tag)


PIECES = st.lists(
    st.sampled_from(
        ["<p>", "</p>", "<b>", "</b>", "a", " ", "dog", "&amp;", "&", "<", ">", "<!-- x -->", "<!--", "<br>", "\n", "one. Two",
         '<img alt="cat">', "<a title='x y'>", "</a>", "<script>", "</script>", "<pre>", "</pre>", "&#38;", "<?x", "<!d",
         "<p translate=no>", "</", "&eacute", "<style>", "\r", "ü", "]]>", "<svg/>", "<b", "\0", "<code>", "</code>", "<i x='>'>"]
    )
)  # fmt: skip


@given(PIECES)
@settings(max_examples=150, deadline=None)
def test_any_page_is_the_same_as_a_file_and_as_a_text_and_its_tags_are_kept(pages, pieces):
    page = "".join(pieces)
    found = pages.as_file(page)
    assert found == pages.as_text(page)
    if "\0" not in page and page.count("<") == page.count(">"):  # else Python's reader sees other ends
        assert sorted(Tags(found).found) == sorted(Tags(page).found)


@given(PIECES)
@settings(max_examples=300, deadline=None)
def test_the_parts_of_any_page_are_the_page(pieces):
    page = "".join(pieces)
    found = list(markup.parts(page))
    assert "".join(page[part.start : part.end] for part in found) == page
    assert [part.start for part in found[1:]] == [part.end for part in found[:-1]]


def test_parts_end_where_a_browser_sees_their_ends():
    def shown(page: str) -> list[tuple[str, str]]:
        return [(part.kind, page[part.start : part.end]) for part in markup.parts(page)]

    assert shown("a<b x='>' y=\">\">c</b >") == [
        ("text", "a"), ("open", "<b x='>' y=\">\">"), ("text", "c"), ("close", "</b >"),
    ]  # fmt: skip
    assert shown("<!--> a --><br/>") == [("note", "<!-->"), ("text", " a -->"), ("alone", "<br/>")]
    assert shown("<!-- a --!>b") == [("note", "<!-- a --!>"), ("text", "b")]
    assert shown("<script>a</p></SCRIPT >b") == [
        ("open", "<script>"), ("text", "a</p>"), ("close", "</SCRIPT >"), ("text", "b"),
    ]  # fmt: skip
    assert shown("1 < 2 <3 <!x> </ y><?z>") == [
        ("text", "1 < 2 <3 "), ("other", "<!x>"), ("text", " "), ("other", "</ y>"), ("other", "<?z>"),
    ]  # fmt: skip
    assert shown("a<b c='d> e") == [("text", "a"), ("open", "<b c='d>"), ("text", " e")]
    assert shown("a<b c='d'e f") == [("text", "a"), ("other", "<b c='d'e f")]


def test_attributes_are_read_as_a_browser_reads_them():
    page = """<a b=c  D = 'e &amp; f' g h="i>" j='' k = l/>"""
    (part,) = markup.parts(page)
    found = markup.attributes(page, part)
    assert [(a.name, a.value) for a in found] == [
        ("b", "c"), ("d", "e & f"), ("g", ""), ("h", "i>"), ("j", ""), ("k", "l/"),
    ]  # fmt: skip
    assert [page[a.start : a.end] for a in found] == ["c", "'e &amp; f'", "", '"i>"', "''", "l/"]


# --- hostile pages ----------------------------------------------------------------------------------------------------

HOSTILE = {
    "signs": "<",
    "comments": "<!--",
    "tags": "<a ",
    "open quotes": "<a href='",
    "quoted ends": '<a b=">"',
    "ends": "</",
    "declarations": "<!",
    "half entities": "&am",
    "entities": "&amp",
    "numbers": "&#x",
    "raw": "<script>a</scrip",
    "raw ends": "<textarea></textarea",
    "no end": "<code>a ",
    "paragraphs": "<p translate=no>a",
    "attributes": "<b alt=a x ",
    "one tag": " a=",
    "full stops": ". ",
    "abbreviations": "e.g. ",
    "spaces": " \n",
    "tags and stops": "<br/> <i/>. ",
}


def seconds(work, *arguments: object) -> float:
    """Processor time, the less of two."""
    found = []
    for _ in range(2):
        started = time.process_time()
        work(*arguments)
        found.append(time.process_time() - started)
    return min(found)


def read(page: str) -> None:
    stretches(page)
    list(fragments(page))


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_reading_takes_four_times_as_long_for_four_times_as_much(piece):
    small, large = (("<p>word " + piece * (size // len(piece))) for size in (25_000, 100_000))
    assert seconds(read, large) < 8 * seconds(read, small) + 0.02


class Parrot(Copier):
    """Copies, and looks at nothing in particular."""

    def attention(self, pairs):
        found = []
        for source, target in pairs:
            rows, columns = self.target_tokenizer.offsets(target), self.source_tokenizer.offsets(source)
            found.append(Attention(np.full((len(rows), len(columns)), 1.0), columns, rows))
        return found


@pytest.mark.parametrize(
    "piece", ["<", "<i/>a", "</b> a", "<b>a ", "<b>a</b>, ", "a", "a.", ". ", "。", "e.g. ", "&#x"]
)
def test_translating_takes_four_times_as_long_for_four_times_as_much(model, piece):
    parrot = Parrot(model.loaded, "torch")
    small, large = (["<p>word " + piece * (size // len(piece))] for size in (5_000, 20_000))

    def translate(page: list[str]) -> None:
        parrot.translate(page, text=HTML)

    assert seconds(translate, large) < 8 * seconds(translate, small) + 0.1


def test_ten_thousand_deep(pages):
    deep = "<b>" * 10_000 + "<p>a" + "<i>" * 10_000 + "b" + "</i>" * 10_000
    found = pages.as_file(deep)
    assert re.findall("<[^>]*>", found) == re.findall("<[^>]*>", deep)
    assert re.sub("<[^>]*>", "", found) == "AB"
    assert found.startswith("<b>" * 10_000 + "<p>A")

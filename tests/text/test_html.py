"""HTML: what is text, and everything else byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.text.html import attributes, escaped, quoted, replaced, stretches


def shown(document: str) -> list[str]:
    return [stretch.text.strip() for stretch in stretches(document)]


def test_stretches_end_at_block_tags_and_go_on_through_inline_ones():
    page = "<h1>A title</h1><p>Some <b>bold</b> text,<br>a new line</p><ul><li>one<li>two</ul>loose"
    assert shown(page) == ["A title", "Some <b>bold</b> text,", "a new line", "one", "two", "loose"]


@pytest.mark.parametrize(
    "kept",
    ["<script>var a = 'text <b>';</script>", "<style>p { color: red }</style>", "<!-- a note -->", "<!DOCTYPE html>",
     "<div translate='no'>not this <div>nor this</div></div>", '<div class="a notranslate b">no</div>', "<pre><code>x = y</code></pre>",
     "<svg><text>no</text></svg>", "<textarea>no</textarea>", "<td>12 %</td>", "<?php echo ?>", "<p>&lt;&nbsp;</p>"],
)  # fmt: skip
def test_what_is_no_text(kept):
    assert shown(f"<p>before</p>{kept}<p>after</p>") == ["before", "after"]


def test_inline_elements_that_are_not_translated_are_one_span():
    stretch = stretches('<p>type <code>ls <b>x</b></code> or <span translate="no">Anna</span> now</p>')[0]
    assert [s.text for s in stretch.spans] == ["<code>ls <b>x</b></code>", '<span translate="no">Anna</span>']


def test_entities_that_are_letters_are_text_and_others_are_spans():
    stretch = stretches("<p>caf&eacute; &amp; bar&nbsp;x &copy; {name}</p>")[0]
    assert [s.text for s in stretch.spans] == ["&amp;", "&nbsp;", "&copy;", "{name}"]


def test_spaces_are_as_a_browser_shows_them_but_not_in_pre():
    assert stretches("<p>two\n   words</p>")[0].text == "two words"
    assert stretches("<pre>two\n   words</pre>")[0].text == "two\n   words"


def test_attributes_that_people_read():
    page = (
        "<img alt='a &quot;dog&quot;' src='alt=x'><a title=\"home\" href=\"title\">x</a><input type=submit value=Send>"
        "<input type=text value=no placeholder='your name'><meta name=description content='about us'>"
        "<meta name=viewport content='width'><p translate=no title='no'>x</p><img alt='12'>"
        "<textarea placeholder='write here'>no <img alt='no'></textarea>"
    )
    assert [a.text for a in attributes(page)] == ['a "dog"', "home", "Send", "your name", "about us", "write here"]
    assert [page[a.start : a.end] for a in attributes(page)][:3] == ["'a &quot;dog&quot;'", '"home"', "Send"]


def test_writing():
    assert escaped('a < b & "c"') == 'a &lt; b &amp; "c"'
    assert quoted('a < "b"') == '"a &lt; &quot;b&quot;"'
    assert replaced("abcdef", [(1, 2, "X"), (4, 6, "Y")]) == "aXcdY"


PIECES = st.sampled_from(
    ["<p>", "</p>", "<b>", "</b>", "<br>", "<a href='x'>", "</a>", "a", "word", " ", "\n", "&amp;", "&", "<", ">", "<script>",
     "</script>", "<!--", "-->", "<code>", "</code>", '<i title="x">', "</i>", "<x/>", "</", "<!", "<?", "&#", "é", "{x}",
     "<p translate=no>", "<pre>", "</pre>", "<svg>", "<![CDATA[", "]]>"]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=25))
def test_any_document_is_read_and_its_parts_are_in_order(pieces):
    document = "".join(pieces)
    at = 0
    for stretch in stretches(document):
        assert at <= stretch.start < stretch.end <= len(document)
        assert document[stretch.start : stretch.end].split() == stretch.text.split()
        assert all(span.text == stretch.text[span.start : span.end] for span in stretch.spans)
        at = stretch.end
    at = 0
    for attribute in attributes(document):
        assert at <= attribute.start < attribute.end
        at = attribute.end

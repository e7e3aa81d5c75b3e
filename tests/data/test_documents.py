"""Files filled with translations: what changes is what was filled in, and everything else is as it was."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from pathlib import Path

import polib
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from shared_formats import po_catalogue, tmx_memory, xliff_file

from pellucid.config import DataConfig
from pellucid.data.formats.document import Filled, document_reader, fill, fill_file
from pellucid.data.formats.inline import Marked, from_xml, project, to_xml
from pellucid.data.formats.registry import reader_for
from pellucid.data.formats.subtitles import split_by_shares
from pellucid.data.memory import read_memory
from pellucid.errors import DataError, EncodingError

EN_DE = DataConfig(source_language="en", target_language="de")
AGAIN = DataConfig(source_language="en", target_language="de", fuzzy=True)
FAST = settings(max_examples=60, deadline=None)
XML_TEXT = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="".join(map(chr, range(32))) + "\ufffe\uffff"),
    min_size=1,
    max_size=30,
)
ANY_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)


def upper(texts: Iterable[str]) -> Iterator[str]:
    return (text.upper() for text in texts)


def nothing(texts: Iterable[str]) -> Iterator[str]:
    return ("" for _ in texts)


class Files:
    """A folder in which files are filled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done = Filled()

    def fill(self, content: str | bytes, name: str, config: DataConfig = EN_DE, translate=upper, memory=None) -> str:
        return self.fill_bytes(content, name, config, translate, memory).decode()

    def fill_bytes(self, content, name, config=EN_DE, translate=upper, memory=None) -> bytes:
        path, out = self.folder / name, self.folder / f"out-{name}"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.done = fill_file(str(path), str(out), config, translate, memory)
        assert sorted(p.name for p in self.folder.iterdir()) == sorted([path.name, out.name])
        found = out.read_bytes()
        path.unlink()
        out.unlink()
        return found


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("documents"))


# --- the driver -------------------------------------------------------------------------------------------------------


def test_a_text_keeps_its_lines_and_the_white_space_around_it(files):
    line = json.dumps({"text": "\n  one two\n\n three \t"})
    filled = json.loads(files.fill(line, "a.jsonl", translate=lambda texts: (f" <{t.strip()}>\n" for t in texts)))
    assert filled["translation"] == "\n  <one two>\n\n <three> \t"


def test_lines_are_asked_for_one_by_one_and_in_order(files):
    asked = []

    def translate(texts):
        for text in texts:
            asked.append(text)
            yield "x"

    files.fill('{"text": "a\\nb"}\n{"text": "c"}\n', "a.jsonl", translate=translate)
    assert asked == ["a", "b", "c"]


@pytest.mark.parametrize("ahead", [1, 2, 3, 100])
def test_translating_may_read_ahead_in_windows(files, ahead):
    def translate(texts):
        texts = iter(texts)
        while window := [text for _, text in zip(range(ahead), texts, strict=False)]:
            yield from map(str.upper, window)

    content = "".join(f"line {i}\n\n" for i in range(7))
    assert files.fill(content, "a.txt", translate=translate) == content.upper()


def test_memory_is_used_before_the_model_for_whole_texts(files):
    memory = {"tea": "Tee", "a\nb": "A und B"}
    lines = [{"text": text} for text in (" tea ", "a\nb", "teapot")]
    filled = files.fill("\n".join(map(json.dumps, lines)), "a.jsonl", memory=memory).split("\n")
    assert [(json.loads(f)["translation"], json.loads(f)["origin"]) for f in filled] == [
        (" Tee ", "memory"), ("A und B", "memory"), ("TEAPOT", "model"),
    ]  # fmt: skip
    assert files.done == Filled(texts=3, from_memory=2)
    assert files.done.in_words("x") == "x: 3 texts filled in, 2 of them from the memory"


def test_where_nothing_comes_out_a_block_stays_as_it_was(files):
    assert files.fill("a\nb\n", "a.txt", translate=lambda texts: ("" if t == "a" else "B" for t in texts)) == "a\nB\n"
    assert files.done == Filled(texts=1, left=1)


def test_a_failure_leaves_what_was_there(tmp_path):
    path, out = tmp_path / "a.txt", tmp_path / "out.txt"
    path.write_bytes(b"fine\n\xff\n")
    out.write_text("old")
    with pytest.raises(EncodingError):
        fill_file(str(path), str(out), EN_DE, upper)
    assert out.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_file_may_be_filled_in_its_place_and_packed(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"one\ntwo"))
    fill_file(str(path), str(path), EN_DE, upper)
    assert gzip.decompress(path.read_bytes()) == b"ONE\nTWO"


def test_a_file_of_no_known_format_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"but this ends in \.docx"):
        document_reader(str(tmp_path / "a.docx"))


def test_the_first_translation_of_a_memory_stays(tmp_path):
    (tmp_path / "a.tsv").write_text("tea\tTee\n tea \tTinte\nice\t\n")
    (tmp_path / "b.po").write_text('msgid "ice"\nmsgstr "Eis"\n')
    assert read_memory([str(tmp_path / "a.tsv"), str(tmp_path / "b.po")], EN_DE) == {"tea": "Tee", "ice": "Eis"}


# --- markup inside a sentence -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source, target, expected",
    [
        ("<b>All of it</b>", "Alles davon", "<b>Alles davon</b>"),
        ("<x/>Press", "Drücken", "<x/>Drücken"),
        ("Press Enter<x/>", "Eingabe drücken", "Eingabe drücken<x/>"),
        ("See <a>RFC 42</a> first", "Zuerst siehe RFC 42", "Zuerst siehe <a>RFC 42</a>"),
        ("one <b>two</b> three four", "eins zwei drei vier", "eins <b>zwei</b> drei vier"),
        ("one <b>two</b>", "eins", "<b>eins</b>"),
        ("a <x/> b", "A B", "A <x/> B"),
        ("dog and <b>cat</b> here now", "狗和猫在这里", "狗和<b>猫</b>在这里"),
        ("a <b></b>b", "A B", "A <b>B</b>"),
        ("a<b>", "", "<b>"),
    ],
)
def test_markup_goes_to_the_place_of_its_words(source, target, expected):
    assert project(from_xml(source, frozenset()), target, to_xml) == expected


@given(
    runs=st.lists(st.tuples(XML_TEXT, st.sampled_from(["<a>", "</a>", "<x/>", "<ph>y</ph>"])), max_size=6),
    target=ANY_TEXT,
)
@FAST
def test_all_markup_comes_out_once_and_in_order_and_all_text_too(runs, target):
    marked = from_xml("".join(to_xml(text) + markup for text, markup in runs), {"ph"})
    assert marked.text == "".join(text for text, _ in runs)
    out = project(marked, target, lambda text: re.sub(".", "·", text, flags=re.DOTALL))
    assert re.findall("<ph>y</ph>|<.*?>", out) == [markup for _, markup in runs]
    assert out.count("·") == len(target)


@given(text=ANY_TEXT)
@FAST
def test_text_is_written_in_xml_so_that_it_is_read_as_it_was(text):
    allowed = "".join(c if c in "\t\n\r" or (c >= " " and c not in "\ufffe\uffff") else "\ufffd" for c in text)
    assert ET.fromstring(f"<a>{to_xml(text)}</a>").text == (allowed or None)
    assert from_xml(to_xml(text), frozenset()) == Marked(allowed)


# --- PO ---------------------------------------------------------------------------------------------------------------

TEMPLATE = r"""# Boats and tea.
msgid ""
msgstr ""
"Project-Id-Version: tea 1\n"
"PO-Revision-Date: 2026-01-01 00:00+0000\n"
"Last-Translator: A <a@example.org>\n"
"Language-Team: German <de@example.org>\n"
"Language: de\n"
"MIME-Version: 1.0\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Content-Transfer-Encoding: 8bit\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#: tea.c:1
msgid "tea"
msgstr ""

#, c-format
msgid "%d boat\n"
msgid_plural "%d boats\n"
msgstr[0] ""
msgstr[1] ""

msgid "done"
msgstr "fertig"

#, fuzzy, c-format
#| msgid "%d cup"
msgid "%d mug"
msgstr "%d Tasse"

msgctxt "verb"
msgid ""
"Open it\n"
"now"
msgstr ""

#~ msgid "old"
#~ msgstr ""
"""


def test_only_what_is_empty_is_filled_and_marked_fuzzy(files):
    filled = files.fill(TEMPLATE, "de.po").splitlines()
    original = TEMPLATE.splitlines()
    assert [line for line in original if line not in filled] == ["#, c-format", 'msgstr[0] ""', 'msgstr[1] ""']
    added = [line for line in filled if line not in original]
    assert added == [
        "#, fuzzy", 'msgstr "TEA"',
        'msgstr[0] "%D BOAT\\n"', 'msgstr[1] "%D BOATS\\n"',
        "#, fuzzy", '"OPEN IT\\n"', '"NOW"',
    ]  # fmt: skip
    assert [entry.fuzzy for entry in polib.pofile("\n".join(filled))] == [True, True, False, True, True, False]


def test_on_request_what_is_fuzzy_is_translated_anew(files):
    assert 'msgid "%d mug"\nmsgstr "%D MUG"' in files.fill(TEMPLATE, "de.po", AGAIN)
    assert 'msgid "%d mug"\nmsgstr "%d Tasse"' in files.fill(TEMPLATE, "de.po")


def test_a_match_from_a_memory_has_a_comment(files):
    filled = files.fill(TEMPLATE, "de.po", memory={"tea": "Tee"})
    assert '# Exact match from a memory.\n#: tea.c:1\n#, fuzzy\nmsgid "tea"\nmsgstr "Tee"\n' in filled
    assert filled.count("memory") == 1


@pytest.mark.parametrize(
    "rule, forms",
    [
        ("nplurals=1; plural=0;", ["FILES"]),
        ("nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 ? 1 : 2);", ["FILE", "FILES", "FILES"]),
    ],
)
def test_a_plural_gets_as_many_forms_as_the_header_says(files, rule, forms):
    entry = 'msgid "file"\nmsgid_plural "files"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    filled = polib.pofile(files.fill(po_catalogue(entry, f"Plural-Forms: {rule}\\n"), "x.po"))
    found = filled[0].msgstr_plural
    assert [found[i] for i in range(len(forms))] == forms


@pytest.mark.parametrize("languages, message", [(("en", "fr"), "says `Language: de`"), (("de", "en"), "is turned")])
def test_a_catalogue_of_another_language_is_not_filled(files, languages, message):
    with pytest.raises(DataError, match=message):
        files.fill(TEMPLATE, "de.po", DataConfig(source_language=languages[0], target_language=languages[1]))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_and_a_missing_one_at_the_end_are_kept(files, end):
    catalogue = po_catalogue('#, c-format\nmsgid "a"\nmsgstr ""').replace("\n", end).replace("\r\r", "\r")
    filled = files.fill(catalogue, "x.po")
    assert (
        filled
        == catalogue.replace('""' + "", '""').removesuffix('""').replace("#, c-format", "#, fuzzy, c-format")
        + f'"A"{end}'
    )


def test_a_catalogue_stays_in_its_character_set(files):
    catalogue = po_catalogue('# \xdc\nmsgid "tea"\nmsgstr ""\n', charset="ISO-8859-1").encode("latin-1")
    assert 'msgstr "\xfc"'.encode("latin-1") in files.fill_bytes(
        catalogue, "x.po", translate=lambda t: ("ü" for _ in t)
    )
    with pytest.raises(DataError, match="cannot be written in iso8859-1") as caught:
        files.fill_bytes(catalogue, "x.po", translate=lambda t: ("茶" for _ in t))
    assert "msgconv" in (caught.value.hint or "")


def test_a_template_is_given_a_character_set(files):
    filled = files.fill(po_catalogue('msgid "tea"\nmsgstr ""\n', charset="CHARSET"), "x.pot")
    assert '"Content-Type: text/plain; charset=UTF-8\\n"' in filled
    catalogue = po_catalogue('msgid "a"\nmsgstr "b"\n\nmsgid "tea"\nmsgstr ""\n', charset="CHARSET")
    assert files.fill(catalogue, "x.pot") == catalogue.replace("CHARSET", "UTF-8").replace(
        'msgid "tea"\nmsgstr ""', '#, fuzzy\nmsgid "tea"\nmsgstr "TEA"'
    )
    assert files.fill(catalogue, "x.pot", translate=nothing) == catalogue


BROKEN = 'msgid "a\nmsgstr ""\n\nmsgstr "b"\n\n#~ msgid "c"\n#~ msgstr ""\n\n# end'


@given(
    chunks=st.lists(
        st.sampled_from(
            ['msgid ""\n', 'msgstr ""\n', 'msgid "a"\n', 'msgstr "b"\n', 'msgid_plural "c"\n', 'msgstr[0] "d"\n', "\n",
             "#, fuzzy\n", "# note\r\n", '#~ msgid "e"\n', '#| msgid "f"\n', '"g"\n', 'msgctxt "h"\n', "junk\n", "\xe9\n",
             '"Content-Type: text/plain; charset=koi8-r\\n"\n', 'msgstr[1] "', "\r", " \n", "#~\n", "domain \"x\"\n"]
        )
    ),
    codec=st.sampled_from(["utf-8", "latin-1"]),
)  # fmt: skip
@example(chunks=[BROKEN], codec="utf-8")
@example(
    chunks=['msgid ""\n', 'msgid_plural "c"\n', 'msgstr[1] "', 'msgstr[1] "\n'], codec="utf-8"
)  # a header of odd forms
@settings(max_examples=200, deadline=None)
def test_with_no_translation_a_catalogue_is_byte_for_byte_what_it_was(place, chunks, codec):
    content = "".join(chunks).encode(codec)
    assert place.fill_bytes(content, "x.po", AGAIN, nothing) == content


@given(source=ANY_TEXT.filter(str.strip), target=ANY_TEXT.filter(str.strip), context=st.none() | ANY_TEXT)
@example(source="\n a", target='\\n"\t\x7f\u2028\\', context="x\x04")
@FAST
def test_any_translation_is_read_from_a_catalogue_as_it_was_written(place, source, target, context):
    printable = str.maketrans({chr(c): " " for c in range(32) if chr(c) not in "\n\t"})
    target = target.translate(str.maketrans("\a\b\f\v", "    ")).strip() or "x"  # polib does not know these escapes
    entry = polib.POEntry(msgid=source.translate(printable).strip() or "x", msgstr="", msgctxt=context and "c")
    catalogue = po_catalogue(str(entry) + "\n")
    filled = place.fill(catalogue, "x.po", memory={entry.msgid: target})
    path = place.folder / "read.po"
    path.write_bytes(filled.encode())  # of a string polib makes lines at U+2028 too
    read = polib.pofile(str(path))[0]
    path.unlink()
    assert read.msgstr == target.replace("\0", "\ufffd")
    assert (read.msgid, read.msgctxt, read.flags) == (entry.msgid, entry.msgctxt, ["fuzzy"])


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="needs msgfmt (Debian: gettext)")
@pytest.mark.parametrize("config", [EN_DE, AGAIN])
def test_msgfmt_accepts_a_filled_catalogue(tmp_path, files, config):
    template = TEMPLATE.replace("charset=UTF-8", "charset=CHARSET")
    filled = files.fill(template, "de.po", config, translate=lambda texts: (f'ü\\ "{t}" %s\t' for t in texts))
    (tmp_path / "de.po").write_text(filled)
    done = subprocess.run(
        ["msgfmt", "--check", "-o", str(tmp_path / "de.mo"), str(tmp_path / "de.po")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (tmp_path / "bad.po").write_text(filled + '\nmsgid "a\\n"\nmsgstr "b"\n')  # the control: msgfmt does look
    bad = subprocess.run(["msgfmt", "--check", "-o", "/dev/null", str(tmp_path / "bad.po")], capture_output=True)
    assert bad.returncode == 1


# --- XLIFF and TMX ----------------------------------------------------------------------------------------------------


def test_xliff_is_filled_and_marked(files):
    units = (
        '  <trans-unit id="1">\n    <source>Press <g id="1">Enter</g> &amp; wait</source>\n  </trans-unit>\n'
        '<trans-unit id="2"><source>done</source><target state="final">fertig</target></trans-unit>\n'
        '<trans-unit id="3"><source>x</source><target/></trans-unit>\n'
        '<trans-unit id="4" translate="no"><source>no</source></trans-unit>\n'
        '<trans-unit id="5"><source>new</source><target state="new" id="7">new</target><note>n</note></trans-unit>\n'
        '<trans-unit id="6"><source xml:lang="en">a</source><seg-source>a</seg-source><alt-trans><target>t</target></alt-trans></trans-unit>'
    )
    marks = 'state="needs-review-translation" state-qualifier="mt-suggestion"'
    expected = (
        units.replace(
            "</source>\n  </tr",
            f'</source>\n    <target {marks}>PRESS <g id="1">ENTER</g> &amp; WAIT</target>\n  </tr',
        )
        .replace("<target/>", f"<target {marks}>X</target>")
        .replace("</seg-source>", f"</seg-source><target {marks}>A</target>")
    )
    assert files.fill(xliff_file(units), "a.xlf") == xliff_file(expected)
    again = expected.replace('<target state="new" id="7">new<', f'<target id="7" {marks}>NEW<')
    filled = files.fill(xliff_file(units), "a.xlf", AGAIN)
    assert ET.canonicalize(filled) == ET.canonicalize(xliff_file(again))
    remembered = files.fill(xliff_file(units), "a.xlf", memory={"x": "Ix"})
    assert '<target state="needs-review-translation" state-qualifier="exact-match">Ix</target>' in remembered


XLIFF_2 = """<?xml version="1.0"?>
<x:xliff xmlns:x="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en"><x:file id="f">
<x:unit id="u"><x:segment id="s"><x:source>tea <x:pc id="1">or</x:pc> milk</x:source></x:segment>
<x:segment state="final"><x:source>ice</x:source><x:target>Eis</x:target></x:segment></x:unit></x:file></x:xliff>"""


def test_a_unit_within_a_unit_leaves_the_file_xml(files):
    inner = '<trans-unit id="2"><source>cup</source><target state="new"/></trans-unit>'
    units = f'<trans-unit id="1"><source>a <g id="1">{inner}</g> of tea</source><target/></trans-unit>'
    filled = ET.fromstring(files.fill(xliff_file(units), "a.xlf", AGAIN))
    outer = filled.find(".//{*}body/{*}trans-unit")
    assert outer is not None and [child.tag.partition("}")[2] for child in outer] == ["source", "target"]


def test_xliff_2_is_filled_and_marked(files):
    expected = (
        XLIFF_2.replace('srcLang="en"', 'srcLang="en" trgLang="de"')
        .replace('<x:segment id="s">', '<x:segment id="s" state="translated" subState="pellucid:model">')
        .replace("milk</x:source>", 'milk</x:source><x:target>TEA <x:pc id="1">OR</x:pc> MILK</x:target>')
    )
    assert files.fill(XLIFF_2, "a.xlf") == expected


def test_a_file_that_says_no_target_language_is_given_it(files):
    units = "<trans-unit id='1'><source>tea</source></trans-unit>"
    silent = xliff_file(units).replace(' target-language="de"', "")
    assert 'datatype="plaintext" target-language="de">' in files.fill(silent, "a.xlf")
    assert files.fill(silent, "a.xlf", translate=nothing) == silent
    with pytest.raises(DataError, match="turned"):
        files.fill(xliff_file(units), "a.xlf", DataConfig(source_language="de", target_language="en"))


def test_a_memory_is_filled_and_marked(files):
    memory = tmx_memory(
        '<tu>\n  <tuv xml:lang="en-GB"><seg>The <bpt i="1">&lt;b></bpt>tea<ept i="1"/></seg></tuv>\n</tu>\n'
        '<tu><tuv xml:lang="en"><seg>done</seg></tuv><tuv xml:lang="DE"><seg>fertig</seg></tuv></tu>\n'
        '<tu><tuv xml:lang="en"><seg>ice</seg></tuv><tuv xml:lang="de-AT"><seg> </seg></tuv></tu>\n'
        '<tu><tuv xml:lang="fr"><seg>glace</seg></tuv></tu><tu></tu>\n'
    )
    filled = files.fill(memory, "a.tmx", memory={"ice": "Eis"})
    dates = re.findall(r'creationdate="(\d{8}T\d{6}Z)"', filled)
    assert len(dates) == 2
    variant = '<tuv xml:lang="{}" creationtool="pellucid" creationtoolversion="{}" creationdate="{}"><prop type="x-pellucid-origin">{}</prop><seg>{}</seg></tuv>'
    from pellucid import __version__

    tea = variant.format("de", __version__, dates[0], "model", 'THE <bpt i="1">&lt;b></bpt>TEA<ept i="1"/>')
    ice = variant.format("de-AT", __version__, dates[1], "memory", "Eis")
    expected = memory.replace("</tuv>\n</tu>", f"</tuv>\n  {tea}\n</tu>").replace(
        '<tuv xml:lang="de-AT"><seg> </seg></tuv>', ice
    )
    assert filled == expected
    with pytest.raises(DataError, match="which language") as caught:
        files.fill(memory, "a.tmx", DataConfig())
    assert caught.value.hint == "--target-lang CODE"


def in_encoding(text: str, codec: str) -> bytes:
    declared = text.replace('encoding="UTF-8"', f'encoding="{codec.removesuffix("-le")}"')
    return (("\ufeff" if codec == "utf-16-le" else "") + declared).encode(codec, "xmlcharrefreplace")


@pytest.mark.parametrize("codec", ["utf-8", "utf-16-le", "iso-8859-1", "shift_jis", "koi8-r"])
@pytest.mark.parametrize(
    "name, content",
    [("a.tmx", tmx_memory('<tu>\r\n<tuv xml:lang="en"><seg>tea &#160;&lt;</seg></tuv><!-- a --></tu>')),
     ("a.xlf", xliff_file("<trans-unit id='1' x = \"1\"><source><![CDATA[tea & <]]></source ></trans-unit>"))],
)  # fmt: skip
def test_xml_in_any_encoding_is_written_back_in_it(files, codec, name, content):
    original = in_encoding(content, codec)
    assert files.fill_bytes(original, name, translate=nothing) == original
    filled = files.fill_bytes(original, name, translate=lambda texts: ("Tee 茶 ü" for _ in texts))
    path = files.folder / name
    path.write_bytes(filled)
    assert [pair.target.strip() for pair in reader_for(str(path))(str(path), AGAIN)] == ["Tee 茶 ü"]


@given(texts=st.lists(st.tuples(XML_TEXT, XML_TEXT), max_size=4), name=st.sampled_from(["a.tmx", "a.xlf"]))
@FAST
def test_any_translation_is_read_from_xml_as_it_was_written(place, texts, name):
    texts = [(a, b) for a, b in texts if a.strip() and b.strip()]
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{to_xml(a)}</seg></tuv></tu>'
        if name == "a.tmx"
        else f"<trans-unit id='1'><source>{to_xml(a)}</source></trans-unit>"
        for a, _ in texts
    )
    whole = tmx_memory(units) if name == "a.tmx" else xliff_file(units)
    assert ET.canonicalize(place.fill(whole, name, translate=nothing)) == ET.canonicalize(whole)
    targets = iter([b for _, b in texts])
    filled = place.fill(whole, name, translate=lambda asked: (next(targets) for _ in asked))
    path = place.folder / name
    path.write_text(filled)
    read = [pair.target.strip() for pair in reader_for(str(path))(str(path), AGAIN)]
    path.unlink()
    assert read == [b.strip() for _, b in texts]


# --- subtitles --------------------------------------------------------------------------------------------------------

FILM = """1
00:00:01,000 --> 00:00:03,000
The old ferry leaves
<i>the harbour at</i>

2
00:00:03,200 --> 00:00:05,000
seven o'clock. We

3
00:00:05,100 --> 00:00:07,000
should not be late.

4
00:00:08,000 --> 00:00:09,000
- Are you ready?
- Yes.

5
00:00:10,000 --> 00:00:11,000 X1:1
♪

6
00:00:12,000 --> 00:00:13,000
{\\an8}a long line that has
no end
"""


def test_cues_are_joined_to_sentences_and_cut_again(files):
    asked = []

    def translate(texts):
        for text in texts:
            asked.append(text)
            yield text.upper()

    filled = files.fill(FILM, "a.srt", translate=translate)
    assert asked == [
        "The old ferry leaves the harbour at seven o'clock.", "We should not be late.",
        "Are you ready?", "Yes.", "a long line that has no end",
    ]  # fmt: skip
    shown = filled.split("\n\n")
    assert shown[0] == "1\n00:00:01,000 --> 00:00:03,000\nTHE OLD FERRY\nLEAVES <i>THE HARBOUR</i>"
    assert shown[1] == "2\n00:00:03,200 --> 00:00:05,000\nAT SEVEN O'CLOCK. WE"
    assert shown[2] == "3\n00:00:05,100 --> 00:00:07,000\nSHOULD NOT BE LATE."
    assert shown[3] == "4\n00:00:08,000 --> 00:00:09,000\n- ARE YOU READY?\n- YES."
    assert shown[4] == "5\n00:00:10,000 --> 00:00:11,000 X1:1\n♪"
    assert shown[5].startswith("6\n00:00:12,000 --> 00:00:13,000\n{\\an8}A LONG LINE")


def test_a_long_text_without_times_is_no_film(files):
    with pytest.raises(DataError, match="10,000 lines without a time"):
        files.fill("a\n" * 10_002, "a.srt")


def test_a_pause_ends_a_sentence(files):
    asked = []
    film = FILM.replace("00:00:03,200", "00:00:33,200").replace("00:00:05,000", "00:00:35,000")
    files.fill(
        film.replace("00:00:05,100", "00:00:35,100"), "a.srt", translate=lambda t: (asked.append(x) or "x" for x in t)
    )
    assert asked[:3] == ["The old ferry leaves the harbour at", "seven o'clock.", "We should not be late."]


VTT = """\ufeffWEBVTT - a film

NOTE keep
this --- as it is

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start
<v Ann>Bread &amp; <b>butter</b>

00:02.500 --> 00:03.000
<c.x>茶。</c>茶
"""


def test_web_subtitles(files):
    assert files.fill(VTT, "a.vtt", translate=nothing) == VTT
    assert files.fill(VTT, "a.vtt", translate=lambda texts: (t.upper() + "<" for t in texts)) == VTT.replace(
        "Bread &amp; <b>butter</b>", "BREAD &amp; <b>BUTTER</b>"
    ).replace("<c.x>茶。</c>茶", "<c.x>茶。</c>&lt; 茶&lt;")


@given(
    words=st.lists(st.sampled_from(["a", "dog", "harbour", "茶", "x" * 20])),
    shares=st.lists(st.integers(1, 40), min_size=1, max_size=6),
)
@FAST
def test_a_text_is_cut_into_its_shares_between_words(words, shares):
    text = " ".join(words)
    parts = split_by_shares(text, shares)
    assert len(parts) == len(shares)
    assert " ".join(part for part in parts if part) == text
    assert all(parts[: min(len(words), len(parts))])


CUES = st.lists(
    st.tuples(
        st.lists(
            st.text(st.sampled_from("aä. -♪<>/i{}\\&茶。!"), min_size=1, max_size=12).filter(str.strip), max_size=3
        ),
        st.sampled_from(["\n", "\r\n"]),
        st.integers(0, 3),
    ),
    max_size=6,
)


@given(cues=CUES, name=st.sampled_from(["a.srt", "a.vtt"]))
@FAST
def test_any_subtitles_come_back_as_they_were_and_times_are_always_kept(place, cues, name):
    film = "".join(
        f"{i}{end}00:00:{2 * i:02},000 --> 00:00:{2 * i + 1:02},500{end}"
        + "".join(t + end for t in lines)
        + end * blanks
        for i, (lines, end, blanks) in enumerate(cues)
    )
    assert place.fill(film, name, translate=nothing) == film
    filled = place.fill(film, name)
    times = re.compile(r"\d\d:\d\d:\d\d,000 --> .*")
    assert times.findall(filled) == times.findall(film)


# --- HTML -------------------------------------------------------------------------------------------------------------

# What of a page is text, and where its tags go, is in tests/test_pages.py.


def test_a_page_in_another_character_set(files):
    page = '<meta charset="iso-8859-1"><p>caf\xe9 \u20ac</p>'.encode("cp1252")
    assert files.fill_bytes(page, "a.htm") == '<meta charset="iso-8859-1"><p>CAF\xc9 \u20ac</p>'.encode("cp1252")
    assert b"&#33590;" in files.fill_bytes(page, "a.htm", translate=lambda texts: ("茶" for _ in texts))
    with pytest.raises(DataError, match="known character set"):
        files.fill(page.decode("cp1252").replace("iso-8859-1", "klingon"), "a.htm")
    with pytest.raises(DataError, match="must be utf-8"):
        files.fill(b"<p>caf\xe9</p>", "a.htm")


@pytest.mark.parametrize("name", ["a.html", "a.po", "a.srt", "a.vtt"])
@pytest.mark.parametrize(
    "piece",
    ["<", "<!--", "<a ", "<a href='", "&", "<svg>", "<b>a</b> ", "\n", "#,a\n\n", "Content-Type: ", '"a\\', ". "],
)
def test_the_time_grows_with_the_length(files, name, piece):
    """Python's own html.parser takes a minute for 200 kB of `<!--`."""
    content = piece * (200_000 // len(piece))
    started = time.process_time()
    assert files.fill(content, name, translate=nothing) == content
    assert time.process_time() - started < 10


# --- lines ------------------------------------------------------------------------------------------------------------


def test_a_column_is_added(files):
    assert files.fill("a\tx\r\n\n\tb\nc", "a.tsv") == "a\tx\tA\r\n\n\tb\nc\tC"
    assert files.fill("a\tb\n", "a.tsv", DataConfig(columns=(2, 1))) == "a\tb\tB\n"
    assert files.fill("a\nb\n", "a.tsv", memory={"a": "x\ty"}) == "a\tx y\tmemory\nb\tB\tmodel\n"


def test_a_key_is_added(files):
    lines = '{"id": 1, "en-GB": "tea"} \n{"text": "x", "translation": "y"}\nnot json\n{"text": ""}\n{}\n'
    assert files.fill(lines, "a.jsonl") == lines.replace('"tea"} ', '"tea", "translation": "TEA"}')


LINE_TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\n\r\t"), max_size=20)


@given(texts=st.lists(LINE_TEXT, max_size=5), name=st.sampled_from(["a.tsv", "a.jsonl", "a.txt"]))
@FAST
def test_any_lines_come_back_as_they_were_and_filled_ones_can_be_read(place, texts, name):
    texts = [text.removeprefix("\ufeff") for text in texts]
    lines = [json.dumps({"text": text}) for text in texts] if name == "a.jsonl" else texts
    content = "".join(line + "\n" for line in lines)
    assert place.fill(content, name, translate=nothing) == content
    filled = place.fill(content, name, translate=lambda asked: (f"({text.strip()})" for text in asked)).split("\n")
    for text, line in zip(texts, filled, strict=False):
        expected = text.replace(text.strip(), f"({re.sub(' +', ' ', text.strip())})") if text.strip() else None
        if name == "a.jsonl":
            assert json.loads(line).get("translation") == expected
        elif expected is not None:
            assert line == (f"{text}\t{expected}" if name == "a.tsv" else expected)


def test_pieces_joined_are_the_file(tmp_path):
    path = tmp_path / "a.po"
    path.write_text(TEMPLATE)
    out: list[bytes] = []
    fill(document_reader(str(path))(str(path), EN_DE), nothing, out.append)
    assert b"".join(out).decode() == TEMPLATE

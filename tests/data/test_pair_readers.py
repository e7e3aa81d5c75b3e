"""Files of pairs as other programs write them, read through the registry as every verb does."""

from __future__ import annotations

import csv
import gzip
import io
import json
import struct
from pathlib import Path

import polib
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from shared_formats import mo_catalogue, po_catalogue, tmx_memory, xliff_file

from pellucid.config import DataConfig
from pellucid.data.corpus import Corpus, CorpusReport, why_dropped
from pellucid.data.formats.pair import SentencePair
from pellucid.data.formats.registry import reader_for
from pellucid.errors import DataError

EN_DE = DataConfig(source_language="en", target_language="de")
XML_TEXT = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="".join(map(chr, range(32))) + "\ufffe\uffff"),
    max_size=30,
)
ANY_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
PAIRS = st.lists(st.tuples(ANY_TEXT, ANY_TEXT), max_size=5)
FAST = settings(max_examples=60, deadline=None)


@pytest.fixture
def read(tmp_path: Path):
    def read_file(content: str | bytes, name: str, config: DataConfig = EN_DE) -> list[SentencePair]:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(reader_for(str(path))(str(path), config))

    return read_file


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("readers")

    def put(content: bytes, name: str) -> str:
        (folder / name).write_bytes(content)
        return str(folder / name)

    return put


def sides(pairs: list[SentencePair]) -> list[tuple[str | None, str | None]]:
    return [(pair.source, pair.target) for pair in pairs]


def problems(pairs: list[SentencePair]) -> list[tuple[int, str, str | None]]:
    return [(pair.line, pair.unit, pair.problem) for pair in pairs if pair.problem]


# --- TMX --------------------------------------------------------------------------------------------------------------


def unit(*variants: tuple[str, str], name: str = "") -> str:
    inside = "".join(f'<tuv xml:lang="{language}"><seg>{text}</seg></tuv>' for language, text in variants)
    return f"<tu{name and f' tuid={name!r}'}>{inside}</tu>\n"


def test_a_memory_is_read_with_the_line_and_name_of_each_unit(read):
    memory = tmx_memory(unit(("en", "tea"), ("de", "Tee"), name="a1") + "\n" + unit(("en", "ice"), ("de", "Eis")))
    pairs = read(memory, "m.tmx")
    assert sides(pairs) == [("tea", "Tee"), ("ice", "Eis")]
    assert [(pair.line, pair.unit) for pair in pairs] == [(4, "a1"), (6, "2")]
    assert memory.splitlines()[3].startswith("<tu tuid='a1'>")


@pytest.mark.parametrize(
    "source, target",
    [("de", "de-DE"), ("DE", "de"), ("de_AT", "DE-at"), ("de-CH", "de"), ("ger", "de"), ("de", "deu-AT")],
)
def test_languages_are_chosen_by_their_first_subtag_in_any_case(read, source, target):
    config = DataConfig(source_language="EN-us", target_language=target)
    memory = tmx_memory(unit(("en-GB", "tea"), ("fr", "the"), (source, "Tee"), ("den", "other")))
    assert sides(read(memory, "m.tmx", config)) == [("tea", "Tee")]


def test_a_language_that_only_begins_alike_is_another(read):
    assert sides(read(tmx_memory(unit(("en", "tea"), ("den", "Tee"))), "m.tmx")) == [("tea", "")]


def test_several_variants_make_a_pair_each_unless_one_is_what_was_asked_for(read):
    memory = tmx_memory(unit(("en-GB", "lorry"), ("en-US", "truck"), ("de", "Laster"), ("de", "LKW"), ("de", "LKW")))
    assert sides(read(memory, "m.tmx")) == [
        ("lorry", "Laster"), ("lorry", "LKW"), ("truck", "Laster"), ("truck", "LKW"),
    ]  # fmt: skip
    american = DataConfig(source_language="en-us", target_language="de")
    assert sides(read(memory, "m.tmx", american)) == [("truck", "Laster"), ("truck", "LKW")]


def test_two_kinds_of_one_language_are_told_apart_by_the_whole_tag(read):
    memory = tmx_memory(unit(("en-GB", "lorry"), ("en-US", "truck")))
    config = DataConfig(source_language="en-us", target_language="en-gb")
    assert sides(read(memory, "m.tmx", config)) == [("truck", "lorry")]
    assert sides(read(memory.replace("en-", "eng-"), "m.tmx", config)) == [("truck", "lorry")]


def test_with_no_languages_named_the_header_says_the_source(read):
    memory = tmx_memory(unit(("de", "Tee"), ("en", "tea")) + unit(("en", "ice"), ("de", "Eis")), source="en-US")
    assert sides(read(memory, "m.tmx", DataConfig())) == [("tea", "Tee"), ("ice", "Eis")]
    memory = tmx_memory(unit(("de", "Tee"), ("en", "tea")), source="*all*")
    assert sides(read(memory, "m.tmx", DataConfig())) == [("Tee", "tea")]


def test_a_third_language_must_be_chosen_from(read):
    memory = tmx_memory(unit(("en", "tea"), ("de", "Tee")) + unit(("en", "ice"), ("fr", "glace")))
    with pytest.raises(DataError, match="it has en, de and fr") as caught:
        read(memory, "m.tmx", DataConfig())
    assert caught.value.line == 5
    assert caught.value.hint == "--source-lang en --target-lang de"
    assert sides(read(memory, "m.tmx")) == [("tea", "Tee"), ("ice", "")]


def test_the_old_attribute_lang_is_understood(read):
    memory = tmx_memory(unit(("EN", "tea"), ("DE", "Tee")).replace("xml:lang", "lang"))
    assert sides(read(memory, "m.tmx")) == [("tea", "Tee")]


def test_inline_code_is_left_out_and_marked_text_stays(read):
    text = (
        '<bpt i="1">&lt;b></bpt>Big<ept i="1">&lt;/b></ept> <hi type="x">cat <ph>{n}<sub>tip</sub></ph>here</hi>'
        "<it pos='begin'>x</it>&amp;<ut>y</ut>"
    )
    assert sides(read(tmx_memory(unit(("en", text), ("de", "Katze"))), "m.tmx")) == [("Big cat here&", "Katze")]


def test_blanks_and_characters_by_number_survive(read):
    memory = tmx_memory(unit(("en", "&#x9;a&#x3000;b\n c"), ("de", "\u2028&#128512;\u0085")))
    assert sides(read(memory, "m.tmx")) == [("\ta\u3000b\n c", "\u2028\U0001f600\u0085")]


@pytest.mark.parametrize(
    "broken, problem",
    [
        ("<tu></tu>", "no `tuv`"),
        ('<tu><tuv xml:lang="en"></tuv><tuv xml:lang="de"><seg>Tee</seg></tuv></tu>', "a `tuv` without `seg`"),
        ("<tu><tuv><seg>tea</seg></tuv></tu>", "a `tuv` that says no language (xml:lang)"),
        ("<tu><seg>tea</seg></tu>", "a `seg` that stands in no `tuv`"),
        ('<tu><tuv xml:lang="en"><seg>a</seg><seg>b</seg></tuv></tu>', "a `tuv` with two `seg`"),
        (unit(("en", "caf&eacute;"), ("de", "Cafe")), "the entity &eacute;, which is declared nowhere"),
        (unit(("en", "a" * 1_048_577), ("de", "b")), "a text of more than 1,048,576 characters"),
        (unit(*[("en", f"{i}") for i in range(8)], *[("de", f"{i}") for i in range(8)]),
         "8 and 8 variants, more than 50 pairs"),
        (unit(*[("en", f"{i}") for i in range(201)]), "more than 200 variants"),
    ],
    ids=lambda value: value[:40],
)  # fmt: skip
def test_a_broken_unit_is_reported_and_the_next_one_is_read(read, broken, problem):
    pairs = read(tmx_memory("\n" + broken + unit(("en", "ice"), ("de", "Eis")), doctype=True), "m.tmx")
    assert problems(pairs) == [(6, "1", problem)]
    assert sides(pairs) == [(None, None), ("ice", "Eis")]


def test_a_memory_that_is_cut_off_gives_its_pairs_and_then_stops(tmp_path):
    path = tmp_path / "m.tmx"
    path.write_text(tmx_memory(unit(("en", "tea"), ("de", "Tee")) + "<tu><tuv xml:lang='en'><seg>R&D</seg>"))
    pairs = reader_for(str(path))(str(path), EN_DE)
    assert next(pairs)[:2] == ("tea", "Tee")
    with pytest.raises(DataError, match=r"m\.tmx:5: is not XML here \(column \d+\)") as caught:
        next(pairs)
    assert "&amp;" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "codec, mark",
    [("utf-8", "\ufeff"), ("utf-16-le", "\ufeff"), ("utf-16-be", "\ufeff"), ("utf-16-le", ""), ("utf-32-le", "\ufeff"),
     ("iso-8859-1", ""), ("windows-1252", ""), ("koi8-r", ""), ("shift_jis", ""), ("gb18030", ""), ("utf-8", "")],
)  # fmt: skip
def test_a_memory_in_any_encoding(read, codec, mark):
    texts = {"koi8-r": "чай", "shift_jis": "お茶", "gb18030": "茶", "iso-8859-1": "grün", "windows-1252": "„grün“"}
    text = texts.get(codec, "茶 grün 😀")
    memory = mark + tmx_memory(unit(("en", "tea"), ("de", text)), encoding=codec.removesuffix("-le"))
    assert sides(read(memory.encode(codec), "m.tmx")) == [("tea", text)]
    assert sides(read(gzip.compress(memory.encode(codec)), "m.tmx.gz")) == [("tea", text)]


@given(pairs=st.lists(st.tuples(XML_TEXT, XML_TEXT), max_size=5))
@FAST
def test_any_text_is_read_from_a_memory_as_it_was(place, pairs):
    escape = {ord(c): f"&#{ord(c)};" for c in "<>&\r"}
    units = "".join(unit(("en", a.translate(escape)), ("de", b.translate(escape))) for a, b in pairs)
    path = place(tmx_memory(units).encode(), "m.tmx")
    assert sides(list(reader_for(path)(path, EN_DE))) == pairs


# --- XLIFF ------------------------------------------------------------------------------------------------------------


def test_xliff_1_2(read):
    file = xliff_file(
        '<trans-unit id="t1"><source>tea</source><target>Tee</target>'
        "<alt-trans><source>tea</source><target>Tinte</target></alt-trans></trans-unit>\n"
        '<trans-unit id="t2"><source>ice</source></trans-unit>\n'
        '<trans-unit id="t3" translate="no"><source>x</source><target>x</target></trans-unit>\n'
        '<trans-unit id="t4"><source>snow</source><target state="needs-translation">snow</target></trans-unit>\n'
        '<trans-unit id="t5"><source>a <g id="1">red</g> <x id="2"/>hat<ph id="3">{0}</ph></source>'
        '<seg-source><mrk mtype="seg">no</mrk></seg-source><target state="final">ein &lt;Hut&gt;</target></trans-unit>'
    )
    pairs = read(file, "f.xlf")
    assert sides(pairs) == [("tea", "Tee"), ("ice", ""), ("a red hat", "ein <Hut>")]
    assert [(pair.unit, pair.line) for pair in pairs] == [("t1", 4), ("t2", 5), ("t5", 8)]
    more = DataConfig(source_language="en", target_language="de", fuzzy=True)
    assert [pair.unit for pair in read(file, "f.xlf", more)] == ["t1", "t2", "t3", "t4", "t5"]


def test_xliff_2_0(read):
    file = """<?xml version="1.0"?>
<x:xliff xmlns:x="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de"><x:file id="f">
<x:unit id="u1"><x:segment id="s1"><x:source>tea <x:pc id="1">or</x:pc> milk</x:source><x:target>Tee</x:target></x:segment>
<x:ignorable><x:source> </x:source></x:ignorable>
<x:segment state="initial"><x:source>ice</x:source><x:target>ice</x:target></x:segment></x:unit>
<x:unit id="u2"><m:matches xmlns:m="m"><m:match><x:source>tea</x:source><x:target>Tinte</x:target></m:match></m:matches>
<x:segment><x:source>sn<x:cp hex="0007"/>ow</x:source><x:target>Schnee</x:target></x:segment></x:unit>
</x:file></x:xliff>"""
    pairs = read(file, "f.xliff")
    assert [(p.source, p.target, p.unit, p.line) for p in pairs] == [
        ("tea or milk", "Tee", "s1", 3), ("snow", "Schnee", "u2", 7),
    ]  # fmt: skip


def test_a_file_of_the_other_direction_is_turned_and_one_of_others_is_refused(read):
    units = "<trans-unit id='1'><source>tea</source><target>Tee</target></trans-unit>"
    backwards = DataConfig(source_language="de", target_language="en")
    assert sides(read(xliff_file(units), "f.xlf", backwards)) == [("Tee", "tea")]
    assert sides(read(xliff_file(units), "f.xlf", DataConfig())) == [("tea", "Tee")]
    three = DataConfig(source_language="eng", target_language="ger")
    assert sides(read(xliff_file(units), "f.xlf", three)) == [("tea", "Tee")]
    with pytest.raises(DataError, match="languages that are wanted") as caught:
        read(xliff_file(units), "f.xlf", DataConfig(source_language="en", target_language="fr"))
    assert caught.value.hint == "it is en to de, not en to fr"


def test_a_broken_unit_of_xliff_is_reported(read):
    units = "<trans-unit id='1'><target>Tee</target></trans-unit><trans-unit id='2'><source>a</source></trans-unit>"
    assert problems(read(xliff_file(units), "f.xlf")) == [(4, "1", "no source")]


@given(pairs=st.lists(st.tuples(XML_TEXT, XML_TEXT), max_size=5))
@FAST
def test_any_text_is_read_from_xliff_as_it_was(place, pairs):
    escape = {ord(c): f"&#{ord(c)};" for c in "<>&\r"}
    units = "".join(
        f"<trans-unit><source>{a.translate(escape)}</source><target><![CDATA[{b.replace(']]>', '')}]]></target></trans-unit>"
        for a, b in pairs
    )
    path = place(xliff_file(units).encode(), "f.xlf")
    expected = [(a, b.replace("]]>", "")) for a, b in pairs]
    assert sides(list(reader_for(path)(path, EN_DE))) == expected


# --- PO and MO --------------------------------------------------------------------------------------------------------

CATALOGUE = r"""# translators
msgid ""
msgstr ""
"Language: de\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#. for the kitchen
#: tea.c:1
msgid "tea"
msgstr "Tee"

msgctxt "verb"
msgid ""
"Open\t\"it\"\n"
"now"
msgstr "Jetzt \303\266ffnen\x21"

#, fuzzy, c-format
#| msgid "%d cup"
msgid "%d mug"
msgstr "%d Tasse"

msgid "%d boat"
msgid_plural "%d boats"
msgstr[0] "%d Boot"
msgstr[1] "%d Boote"

msgid "empty"
msgstr ""

#~ msgid "old"
#~ msgstr "alt"
"""


def test_a_catalogue(read):
    pairs = read(CATALOGUE, "de.po")
    assert [(p.source, p.target, p.line, p.unit) for p in pairs] == [
        ("tea", "Tee", 10, ""),
        ('Open\t"it"\nnow', "Jetzt \u00c3\u00b6ffnen!", 13, "verb"),
        ("%d boat", "%d Boot", 24, ""),
        ("%d boats", "%d Boote", 24, ""),
        ("empty", "", 29, ""),
    ]
    asked = DataConfig(fuzzy=True, obsolete=True)
    assert [p.source for p in read(CATALOGUE, "de.po", asked)] == [
        "tea", 'Open\t"it"\nnow', "%d mug", "%d boat", "%d boats", "empty", "old",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "rule, expected",
    [
        ("nplurals=1; plural=0;", ["files"]),
        ("nplurals=2; plural=(n > 1);", ["file", "files"]),
        ("nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 ? 1 : 2);", ["file", "files", "files"]),
        ("nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n<11 ? 3 : n<100 ? 4 : 5);",
         ["files", "file", "files", "files", "files", "files"]),
        ("nplurals=2; plural=__import__('os');", ["file", "files"]),
    ],
)  # fmt: skip
def test_each_form_of_a_plural_is_a_pair_of_its_own(read, rule, expected):
    forms = "".join(f'msgstr[{i}] "f{i}"\n' for i in range(len(expected)))
    catalogue = po_catalogue(f'msgid "file"\nmsgid_plural "files"\n{forms}', f"Plural-Forms: {rule}\\n")
    assert sides(read(catalogue, "x.po")) == [(source, f"f{i}") for i, source in enumerate(expected)]


@pytest.mark.parametrize("charset", ["ISO-8859-1", "koi8-r", "Shift_JIS", "GBK", "CHARSET", "unknown-8bit", "utf-16"])
def test_a_catalogue_in_the_character_set_of_its_header(read, charset):
    codec = charset if charset not in ("CHARSET", "unknown-8bit", "utf-16") else "utf-8"
    text = {"ISO-8859-1": "grün", "koi8-r": "чай", "Shift_JIS": "表示", "GBK": "茶"}.get(charset, "茶")
    catalogue = po_catalogue(f'msgid "tea"\nmsgstr "{text}"\n', charset=charset)
    assert sides(read(catalogue.encode(codec), "x.po")) == [("tea", text)]


@pytest.mark.parametrize(
    "broken, line, problem",
    [
        ('msgstr "a"\n', 5, "line 5: a msgstr without msgid"),
        ('msgid "a"\nmsgstr "b\n', 5, "line 6: neither a keyword nor a text in quotation marks: 'msgstr \"b'"),
        ('msgid "a"\nmsgid "b"\nmsgstr "c"\n', 5, "no msgstr"),
        ('msgid "a"\nmsgstr[0] "b"\nmsgstr[1] "c"\n', 5, "several msgstr, but no msgid_plural"),
        ('msgid "a"\nmsgstr "b"\nmsgstr "c"\n', 5, "line 7: a second msgstr[0]"),
        ('#\n"a"\n', 6, "line 6: a text that follows no keyword"),
        ("msgid a\n", 5, "line 5: neither a keyword nor a text in quotation marks: 'msgid a'"),
    ],
)
def test_a_broken_entry_is_reported_and_the_next_one_is_read(read, broken, line, problem):
    pairs = read(po_catalogue(f'{broken}\nmsgid "tea"\nmsgstr "Tee"\n'), "x.po")
    assert [(where, what) for where, _, what in problems(pairs)] == [(line, problem)]
    assert sides(pairs)[-1] == ("tea", "Tee")


def test_bytes_that_are_not_of_the_character_set_break_one_entry(read):
    catalogue = po_catalogue('#: caf\xe9\nmsgid "a"\nmsgstr "b"\n\nmsgid "caf\xe9"\nmsgstr "c"\n')
    pairs = read(catalogue.encode("latin-1"), "x.po")
    assert sides(pairs) == [("a", "b"), (None, None)]
    assert "bytes that are not utf-8" in (pairs[1].problem or "")


def test_a_catalogue_of_another_language_is_refused_and_one_that_is_turned_is_read(read):
    catalogue = po_catalogue('msgid "tea"\nmsgstr "Tee"\n', "Language: de_AT\\n")
    assert sides(read(catalogue, "x.po", DataConfig(source_language="de", target_language="en"))) == [("Tee", "tea")]
    with pytest.raises(DataError, match="Language: de_AT"):
        read(catalogue, "x.po", DataConfig(source_language="en", target_language="fr"))


MESSAGES = st.lists(
    st.tuples(st.none() | ANY_TEXT, ANY_TEXT.filter(bool), ANY_TEXT, st.booleans()),
    max_size=6, unique_by=lambda message: message[:2],
)  # fmt: skip


@given(messages=MESSAGES, width=st.sampled_from([0, 20, 78]))
@example(messages=[("\x04", 'a"\\n', "\x7f\u2028\r\n", True)], width=20)
@FAST
def test_any_catalogue_that_polib_writes_is_read_as_polib_meant_it(place, messages, width):
    clean = str.maketrans({chr(c): None for c in range(32) if chr(c) not in "\n\t\r"})  # polib writes others bare
    catalogue = polib.POFile(wrapwidth=width)
    catalogue.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
    expected = []
    for context, source, target, fuzzy in messages:
        context, source, target = (
            context and context.translate(clean),
            source.translate(clean) or "x",
            target.translate(clean),
        )
        catalogue.append(polib.POEntry(msgctxt=context, msgid=source, msgstr=target, flags=["fuzzy"] if fuzzy else []))
        if not fuzzy:
            expected.append((source, target))
    path = place(str(catalogue).encode(), "x.po")
    assert sides(list(reader_for(path)(path, EN_DE))) == expected


def test_a_compiled_catalogue(read):
    header = "Content-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=2; plural=n!=1;\n"
    messages = {"": header, "boat\0boats": "Boot\0Boote", "menu\x04tea": "Tee", "umlaut": "ö"}
    for order in "<>":
        pairs = read(mo_catalogue(messages, order), "x.mo")
        assert sides(pairs) == [("boat", "Boot"), ("boats", "Boote"), ("tea", "Tee"), ("umlaut", "ö")]
        assert [(p.line, p.unit) for p in pairs] == [(2, "2"), (2, "2"), (3, "menu"), (4, "4")]


def test_a_compiled_catalogue_of_polib(read, tmp_path):
    catalogue = polib.POFile()
    catalogue.metadata = {"Content-Type": "text/plain; charset=UTF-8", "Plural-Forms": "nplurals=2; plural=n!=1;"}
    catalogue.append(polib.POEntry(msgid="tea", msgstr="Tee"))
    catalogue.append(polib.POEntry(msgid="boat", msgid_plural="boats", msgstr_plural={0: "Boot", 1: "Boote"}))
    catalogue.save_as_mofile(str(tmp_path / "x.mo"))
    assert sorted(sides(read((tmp_path / "x.mo").read_bytes(), "y.mo"))) == [
        ("boat", "Boot"), ("boats", "Boote"), ("tea", "Tee"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "cannot be read"),
        (b"PK\3\4" + bytes(40), "must begin as a compiled catalogue"),
        (struct.pack("<7I", 0x950412DE, 0, 1 << 30, 28, 28, 0, 0), "is cut off"),
        (struct.pack("<7I", 0x950412DE, 9 << 16, 0, 28, 28, 0, 0), "format 0 or 1"),
    ],
)
def test_what_is_no_compiled_catalogue_is_refused(read, content, message):
    with pytest.raises(DataError, match=message):
        read(content, "x.mo")


def test_a_message_that_points_out_of_the_file_is_broken(read):
    whole = mo_catalogue({"a": "A", "b": "B"})
    pairs = read(whole[:36] + struct.pack("<2I", 9, 1 << 20) + whole[44:], "x.mo")
    assert sides(pairs) == [("a", "A"), (None, None)]
    assert pairs[1].problem == "a text that is not in the file"


# --- JSONL and CSV ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    ['{"source": "tea", "target": "Tee", "note": 1}', '{"tgt": "Tee", "src": "tea"}', '{"en-US": "tea", "de": "Tee"}',
     '{"id": 7, "translation": {"de": "Tee", "en": "tea", "fr": "the"}}'],
)  # fmt: skip
def test_lines_of_json(read, line):
    assert sides(read(line + "\n\n" + line, "x.jsonl")) == [("tea", "Tee")] * 2


@pytest.mark.parametrize(
    "line, problem",
    [
        ("{", "Expecting property name"),
        ("[1]", "no JSON object, but list"),
        ('{"a": "b"}', "no keys of source and target among a"),
        ('{"source": 1, "target": ""}', "'source' is no text, but int"),
        ('{"source": "\\ud800", "target": ""}', "half a character"),
        ("[" * 100_000, "nested too deep"),
        ('{"source": ' + "9" * 5000 + "}", "digits"),
    ],
    ids=lambda value: value[:20],
)
def test_a_broken_line_of_json_is_reported(read, line, problem):
    pairs = read(f'{line}\n{{"source": "a", "target": null}}\n', "x.jsonl")
    assert [(p.line, p.source, p.target) for p in pairs] == [(1, None, None), (2, "a", "")]
    assert problem in (pairs[0].problem or "")


@given(pairs=PAIRS, ascii_only=st.booleans())
@FAST
def test_any_text_is_read_from_json_as_it_was(place, pairs, ascii_only):
    lines = "".join(json.dumps({"source": a, "target": b}, ensure_ascii=ascii_only) + "\n" for a, b in pairs)
    path = place(lines.encode(), "x.jsonl")
    assert sides(list(reader_for(path)(path, EN_DE))) == pairs


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table_with_a_header(read, separator):
    rows = ["id", "source", "target"], ["1", f'a{separator}"b"\nc', "A"], ["2", "NA", "007"]
    out = io.StringIO()
    csv.writer(out, delimiter=separator).writerows(rows)
    pairs = read("\ufeff" + out.getvalue(), "x.csv")
    assert [(p.source, p.target, p.line) for p in pairs] == [(f'a{separator}"b"\nc', "A", 2), ("NA", "007", 4)]
    assert sides(read(out.getvalue(), "x.csv", DataConfig(columns=(3, 1))))[1] == ("007", "2")


def test_columns_may_be_named_by_language_and_must_be_known(read):
    assert sides(read("de,note,en\nTee,x,tea\n", "x.csv")) == [("tea", "Tee")]
    assert sides(read("de,en\nTee,tea\n", "x.csv", DataConfig())) == [("Tee", "tea")]
    for config in (EN_DE, DataConfig()):
        with pytest.raises(DataError, match="must name the columns of source and target, but is left, right"):
            read("left,right\ntea,Tee\n", "x.csv", config)
    with pytest.raises(DataError, match="at least 3 columns, but has 2"):
        read("de,en\n", "x.csv", DataConfig(columns=(1, 3)))
    assert read("", "x.csv") == []
    for content in (b"a\rb,c\n", b'"' + b"a" * 200_000):
        with pytest.raises(DataError, match="but is no CSV"):
            read(content, "x.csv")


def test_a_broken_record_is_reported(read):
    pairs = read('source,target\na,A\nb\n"c"d,C\ne,E\n"never closed,F\ng,G\n', "x.csv")
    assert [p.line for p in pairs if p.problem] == [3, 4, 6]
    assert sides([p for p in pairs if not p.problem]) == [("a", "A"), ("e", "E")]


@given(pairs=PAIRS)
@FAST
def test_any_text_is_read_from_a_table_as_it_was(place, pairs):
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([("source", "target"), *pairs])
    path = place(out.getvalue().encode(), "x.csv")
    # A carriage return before a line end is the end of a line of Windows, within quotation marks too.
    expected = [(a.replace("\r\n", "\n"), b.replace("\r\n", "\n")) for a, b in pairs]
    assert sides(list(reader_for(path)(path, EN_DE))) == expected


# --- all of them ------------------------------------------------------------------------------------------------------


def test_a_corpus_counts_broken_units_tells_of_them_and_makes_lines_of_texts(tmp_path):
    path = tmp_path / "m.tmx"
    path.write_text(tmx_memory("<tu tuid='bad'/>\n" * 12 + unit(("en", "a\nb"), ("de", "A\r\nB"))))
    report = CorpusReport()
    kept = []
    for pair in Corpus.from_files([str(path)], [], [], EN_DE):
        report.read += 1
        if why := why_dropped(pair):
            report.drop(pair, why)
        else:
            kept.append(pair[:2])
    assert kept == [("a b", "A B")]
    assert report.dropped == {"broken": 12}
    assert report.problems == [f"{path}:{line} (unit bad): left out: no `tuv`" for line in range(4, 14)]
    assert CorpusReport.from_dict(report.as_dict()) == report


def test_the_fingerprint_knows_which_languages_are_read(tmp_path):
    path = tmp_path / "m.tmx"
    path.write_text(tmx_memory(unit(("en", "tea"), ("de", "Tee"), ("fr", "the"))))

    def fingerprint(name: str, **settings: str) -> str:
        return Corpus.from_files([str(tmp_path / name)], [], [], DataConfig(**settings)).fingerprint()

    (tmp_path / "m.tsv").write_text("tea\tTee\n")
    assert fingerprint("m.tmx", target_language="de") != fingerprint("m.tmx", target_language="fr")
    assert fingerprint("m.tsv", target_language="de") == fingerprint("m.tsv", target_language="fr")

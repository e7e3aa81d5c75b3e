"""Every file of ../shared/data/formats, real and broken, read with a stated result and written back as it was."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from shared import shared_data

from pellucid.config import DataConfig
from pellucid.data.formats.document import fill_file
from pellucid.data.formats.registry import reader_for

READ = {
    # file: languages; pairs with both sides, with one or none, broken units; the same with fuzzy and obsolete ones
    "po/django-conf.zh_Hans.po": ("en", "zh", 347, 1, 0, 347, 0),
    "po/gnome-calculator-help.zh_CN.po": ("en", "zh", 185, 112, 0, 780, 0),
    "po/gnome-calculator.de.po": ("en", "de", 788, 0, 0, 990, 0),
    "po/gnome-calculator.zh_CN.po": ("en", "zh", 791, 0, 0, 1048, 0),
    "po/omegat-fuzzyCtx-plural.po": ("en", "be", 2, 0, 0, 2, 0),
    "po/polib-test_obsolete_previousmsgid.po": ("en", "ca", 1, 0, 0, 2, 0),
    "po/polib-test_syntax_error1.po": ("en", "de", 0, 0, 1, 0, 1),
    "po/polib-test_ufeff.po": ("en", "de", 1, 0, 0, 1, 0),
    "po/translate-f43.tgif.fr-syntax-errors.po": ("en", "fr", 321, 0, 0, 321, 0),
    "tmx/compliance-ImportTest1A-utf16le.tmx": ("en", "fr", 2, 0, 0, 2, 0),
    "tmx/compliance-ImportTest1D-utf8bom.tmx": ("en-us", "en-gb", 3, 0, 0, 3, 0),
    "tmx/compliance-ImportTest1I-ja.tmx": ("en", "ja", 1, 0, 0, 1, 0),
    "tmx/compliance-ImportTest1L.tmx": ("en", "fr", 1, 0, 0, 1, 0),
    "tmx/compliance-ImportTest2A-inline-utf16le.tmx": ("en", "fr", 7, 0, 0, 7, 0),
    "tmx/omegat-SMP-astral.tmx": ("en", "be", 1, 0, 0, 1, 0),
    "tmx/omegat-level2.tmx.gz": ("en", "be", 4, 0, 0, 4, 0),
    "tmx/omegat-test-match-stat-en-ca.tmx": ("en", "ca", 259, 0, 0, 259, 0),
    "xliff/omegat-inline-tags.xlf": ("en", "be", 10, 0, 0, 10, 0),
    "xliff/omegat-xliff2-ex.9.5.xlf": ("en", "fr", 1, 6, 0, 1, 0),
    "xliff/symfony-validators.de.xlf": ("en", "de", 116, 0, 0, 116, 0),
    "xliff/symfony-validators.zh_CN.xlf": ("en", "zh", 101, 0, 0, 116, 0),
}


def test_every_file_has_a_stated_result():
    folder = shared_data("formats")
    assert {p.relative_to(folder).as_posix() for p in folder.glob("*/*")} == set(READ)


@pytest.mark.parametrize("name", READ)
def test_a_real_file_is_read_with_the_stated_result(name):
    path = str(shared_data("formats") / name)
    source, target, *expected = READ[name]
    found = []
    for more in (False, True):
        config = DataConfig(source_language=source, target_language=target, fuzzy=more, obsolete=more)
        pairs = list(reader_for(path)(path, config))
        broken = sum(pair.problem is not None for pair in pairs)
        both = sum(bool(pair.source and pair.target) for pair in pairs)
        found += [both, broken] if more else [both, len(pairs) - both - broken, broken]
    assert found == expected


@pytest.mark.parametrize("name", READ)
def test_a_real_file_is_written_back_byte_for_byte(name, tmp_path):
    path, (source, target, *_) = shared_data("formats") / name, READ[name]
    out = tmp_path / path.name
    config = DataConfig(source_language=source, target_language=target, fuzzy=True)
    fill_file(str(path), str(out), config, lambda texts: ("" for _ in texts))
    unpack = gzip.decompress if name.endswith(".gz") else bytes
    assert unpack(out.read_bytes()) == unpack(path.read_bytes())


@pytest.mark.parametrize(
    "name, line, source, target",
    [
        (
            "tmx/compliance-ImportTest1A-utf16le.tmx",
            None,
            "First segment with [\t\t   ]",
            "Premier segment avec [\t\t   ]",
        ),
        ("tmx/compliance-ImportTest1I-ja.tmx", None, None, "Japanese segment with [\u3000\u3000]"),
        ("tmx/omegat-SMP-astral.tmx", None, "\U0001d400\U0001d401\U0001d402", "\U0001d403\U0001d404\U0001d405"),
        ("po/polib-test_syntax_error1.po", 5, None, None),
    ],
)
def test_what_must_survive(name: str, line: int | None, source: str | None, target: str | None) -> None:
    path = str(shared_data("formats") / name)
    pair = next(reader_for(path)(path, DataConfig()))
    assert (source is None or pair.source == source) and pair.target == target
    assert line is None or pair.line == line
    assert Path(pair.file).name == Path(name).name

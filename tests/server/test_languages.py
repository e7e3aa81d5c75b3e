"""Codes as clients write them."""

from __future__ import annotations

import pytest

from pellucid.server.languages import ALIASES, NAMES, canonical, find, name


@pytest.mark.parametrize("written, meant", [
    ("en", "en"), ("EN", "en"), ("zh", "zh-Hans"), ("ZH_cn", "zh-Hans"), ("zt", "zh-Hant"), ("zh-TW", "zh-Hant"),
    ("pb", "pt-BR"), ("PT-br", "pt-BR"), ("iw", "he"), ("no", "nb"), ("sr-latn", "sr-Latn"), ("sr-latn-rs", "sr-Latn-RS"),
    ("ceb", "ceb"), ("", None), ("e", None), ("../../etc", None), ("en\n", None), ("en--us", None), ("é", None), ("a" * 50, None),
])  # fmt: skip
def test_every_way_of_writing_a_code_has_one_form(written, meant):
    assert canonical(written) == meant


def test_the_one_form_is_its_own_form():
    for code in [*NAMES, *ALIASES.values()]:
        assert canonical(code) == code


@pytest.mark.parametrize("asked, served, found", [
    ("en-US", ["en", "de"], "en"), ("en-US", ["en", "en-US"], "en-US"), ("pt", ["pt-BR"], "pt-BR"), ("pt-PT", ["pt"], "pt"),
    ("pt-PT", ["pt-BR"], None), ("zh", ["zh-Hans"], "zh-Hans"), ("zh-Hant", ["zh-Hans"], None), ("zh-TW", ["zh-Hans"], None),
    ("no", ["nb"], "nb"), ("no-NO", ["nb"], "nb"), ("iw-IL", ["he"], "he"), ("sr-Latn", ["sr"], None), ("sr", ["sr-Cyrl"], "sr-Cyrl"),
    ("fr", ["en"], None), ("e" * 40, ["en"], None),
])  # fmt: skip
def test_a_client_means_the_nearest_that_is_served_but_never_another_script(asked, served, found):
    assert find(asked, served) == found


def test_languages_have_names():
    assert [name(code) for code in ("de", "zh-Hant", "en-GB", "qqq")] == [
        "German", "Chinese (traditional)", "English (GB)", "qqq",
    ]  # fmt: skip

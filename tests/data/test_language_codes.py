"""Codes of languages: however a file writes them, and against the list of the registration authority."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pellucid.data.formats.languages import CODES, OTHERS, SHORTEST, is_language, normalized, primary

ISO = Path("/usr/share/iso-codes/json/iso_639-2.json")


@pytest.mark.parametrize(
    "one, other",
    [("eng", "en"), ("DEU", "de-AT"), ("ger", "deu"), ("zho-Hant", "zh"), ("chi", "zho"), ("cmn", "zh_CN"), ("fra", "fre"),
     ("per", "fa"), ("slo", "sk"), ("nob", "nb"), ("iw", "heb"), ("ceb", "CEB-PH")],
)  # fmt: skip
def test_codes_of_two_and_three_letters_are_one_language(one, other):
    assert is_language(one, other) and is_language(other, one)


@pytest.mark.parametrize(
    "one, other",
    [("eng", "de"), ("slo", "sl"), ("slv", "sk"), ("den", "de"), ("deu", "den"), ("nob", "nn"), ("gern", "ger")],
)
def test_others_are_not(one, other):
    assert not is_language(one, other)


def test_the_rest_of_a_tag_stays():
    assert [normalized(tag) for tag in ("GER_at", "zho-Hans-CN", " pt_BR ", "x-own", "")] == [
        "de-at", "zh-hans-cn", "pt-br", "x-own", "",
    ]  # fmt: skip
    assert primary("fre-CA") == "fr"


def test_no_code_stands_for_two_languages():
    longer = [code for line in CODES.split() for code in line.split(":")[1:]]
    assert len(longer) == len(set(longer)) == len(SHORTEST) - len(OTHERS)
    assert not set(longer) & set(OTHERS)


@pytest.mark.skipif(not ISO.is_file(), reason="the package iso-codes is not on this machine")
def test_the_table_is_that_of_the_standard():
    listed = [e for e in json.loads(ISO.read_text(encoding="utf-8"))["639-2"] if "alpha_2" in e]
    expected = {e[key]: e["alpha_2"] for e in listed for key in ("alpha_3", "bibliographic") if key in e}
    assert {code: short for code, short in SHORTEST.items() if code not in OTHERS} == expected

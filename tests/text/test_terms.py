"""Glossaries: how they are read and found."""

from __future__ import annotations

import pytest

from pellucid.errors import DataError
from pellucid.text.terms import Terms, count, missing


def found(terms: dict[str, str], text: str) -> list[tuple[str, str]]:
    return [(text[span.start : span.end], span.text) for span in Terms(terms).find(text)]


def test_whole_words_the_longest_first():
    terms = {"guitar": "Gitarre", "electric guitar": "E-Gitarre", "art": "Kunst"}
    assert found(terms, "An electric guitar, a guitar and guitars are art.") == [
        ("electric guitar", "E-Gitarre"), ("guitar", "Gitarre"), ("art", "Kunst")]  # fmt: skip


def test_lower_case_stands_for_any_case_and_a_capital_for_itself():
    assert found({"guitar": "Gitarre", "Rust": "Rust"}, "Guitar GUITAR rust Rust") == [
        ("Guitar", "Gitarre"), ("GUITAR", "Gitarre"), ("Rust", "Rust")]  # fmt: skip


def test_scripts_without_spaces_have_terms_anywhere():
    assert found({"模型": "model"}, "这个模型很好") == [("模型", "model")]


def test_signs_may_be_terms():
    assert found({"C++": "C++", ".NET": ".NET"}, "C++ and .NET, not C+") == [("C++", "C++"), (".NET", ".NET")]


def test_counting():
    assert count("Rust", "Rust, Rusty and rust: Rust") == 2
    assert count("模型", "这个模型") == 1


def test_what_is_missing_is_missing_each_time():
    terms = Terms({"lamp": "Licht", "light of the world": "Licht der Welt", "dog": "Hund"})
    source = "lamp, lamp, light of the world, dog"

    def lacking(translation: str) -> list[str]:
        return [span.text for span in missing(terms.find(source), translation)]

    assert lacking("Licht, Licht, Licht der Welt, Hund") == []
    assert lacking("Licht, Hund, Licht der Welt") == ["Licht", "Licht"]  # the third "Licht" is in the longer term
    assert lacking("Lichter, Licht, Licht, Licht der Welten") == ["Licht der Welt", "Hund"]


def test_files(tmp_path):
    glossary, names = tmp_path / "terms.tsv", tmp_path / "names.txt"
    glossary.write_text("# ours\n\nguitar\tGitarre\n big  dog \tDogge\n", encoding="utf-8")
    names.write_text("Anna Blum\n# none\n", encoding="utf-8")
    assert Terms.read(glossary, names).translations == {
        "guitar": "Gitarre",
        "big  dog": "Dogge",
        "Anna Blum": "Anna Blum",
    }
    assert not Terms.read() and Terms.read(glossary)


@pytest.mark.parametrize(
    ("content", "message"),
    [("a\tb\nguitar\n", r"terms.tsv:2: a line must be source<TAB>target, but is 'guitar'"),
     ("a\tb\tc\n", "a line must be"), ("a\t\n", "a line must be"), ("a\tb\na\tc\n", "'a' has two translations: 'b' and 'c'")],
)  # fmt: skip
def test_what_is_no_glossary(tmp_path, content, message):
    file = tmp_path / "terms.tsv"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        Terms.read(file)

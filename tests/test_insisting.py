"""Terms that are searched: where they go, what is kept, and when a translation is not taken."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from pellucid.config import SearchConfig
from pellucid.errors import ConfigError
from pellucid.insisting import Draft, insist
from pellucid.text.bare import Bare, words
from pellucid.text.placement import Attention
from pellucid.text.terms import Terms
from pellucid.translation import Alternative, Demand, Translation

MEANS = {"dog": "hund", "likes": "mag", "lamp": "lampe", "the": "der", "red": "rot", "a": "ein", "big": "groß"}


def translation(text: str, *flags: str) -> Translation:
    return Translation("", text, -1.0, -1.0, (Alternative(text, -1.0, -1.0, (), True),), flags, ())


class Scripted:
    """Searches by script: a function of what stands before and the term. Its attention knows which word means which:
    a glossary's term looks at its source word too, but not as surely as the model's own word."""

    def __init__(self, says: Callable[[str, str], str], terms: dict[str, str]) -> None:
        self.says, self.terms = says, terms
        self.asked: list[tuple[str, Demand]] = []

    def translate_plain(
        self,
        texts: Sequence[str],
        config: SearchConfig,
        prefixes: Sequence[str],
        seeds: Sequence[int],
        scores: bool,
        demands: Sequence[Demand | None] = (),
    ) -> list[Translation]:
        asked = [(prefix, demand) for prefix, demand in zip(prefixes, demands, strict=True) if demand is not None]
        self.asked += asked
        return [translation(self.says(prefix, demand.term)) for prefix, demand in asked]

    def attention(self, pairs: Sequence[tuple[str, str]]) -> list[Attention]:
        found = []
        for source, target in pairs:
            columns, rows = words(source), words(target)
            # What is alike at all looks straight on.
            weights = 0.05 + 0.05 * np.eye(len(rows), len(columns))
            for r, row in enumerate(rows):
                for c, column in enumerate(columns):
                    word, said = source[slice(*column)], target[slice(*row)]
                    if MEANS.get(word) == said:
                        weights[r, c] += 1.0
                    elif said in self.terms.get(word, "").split():
                        weights[r, c] += 0.4
            found.append(Attention(weights, columns, rows))
        return found


def insisted(
    source: str, plain: str, terms: dict[str, str], says: Callable[[str, str], str], prefix: str = ""
) -> tuple[str | None, list[tuple[str, Demand]]]:
    """What comes of it (None: it is not taken), and what was asked."""
    draft = Draft(Bare(source, ()), Terms(terms).find(source), translation(plain), prefix, 1)
    core = Scripted(says, terms)
    insist(core, [draft], SearchConfig(), True)
    return draft.result and draft.result.text, core.asked


def test_what_stands_before_is_kept_but_for_a_word():
    text, asked = insisted(
        "the dog likes a lamp .",
        "der hund mag eine lampe .",
        {"lamp": "licht"},
        lambda kept, term: f"{kept} ein {term} .",
    )
    assert asked == [("der hund mag", Demand("licht", "der hund mag eine"))]
    assert text == "der hund mag ein licht ."


def test_several_terms_one_after_the_other_from_the_left():
    def says(kept: str, term: str) -> str:
        return {"tier": "ein tier mag die lampe .", "licht": f"{kept} das licht ."}[term]

    text, asked = insisted(
        "the dog likes the lamp .", "der hund mag die lampe .", {"lamp": "licht", "dog": "tier"}, says
    )
    assert [(kept, demand.term) for kept, demand in asked] == [("", "tier"), ("ein tier mag", "licht")]
    assert text == "ein tier mag das licht ."


def test_a_term_that_stands_twice_is_asked_for_twice():
    def says(kept: str, term: str) -> str:
        return f"{term} mag lampe ." if kept == "" else f"{kept} mag {term} ."

    text, asked = insisted("lamp likes lamp .", "lampe mag lampe .", {"lamp": "licht"}, says)
    assert (
        [kept for kept, _ in asked] == ["", "licht"]
        and text is not None
        and text.split() == ["licht", "mag", "licht", "."]
    )


@pytest.mark.parametrize(
    "said",
    [
        "der hund mag ein licht lampe .",  # the model's own word after it
        "der hund mag ein lampe licht .",
        "der hund mag lampe . licht",  # the term where it disturbs least
        "der hund mag licht .",  # the article is gone
        "der hund mag ein lichtlein .",  # another word
    ],
)
def test_what_is_not_taken(said):
    text, asked = insisted("the dog likes a lamp .", "der hund mag ein lampe .", {"lamp": "licht"}, lambda *_: said)
    assert text is None and len(asked) == 1


def test_a_term_that_a_later_one_drives_away():
    def says(kept: str, term: str) -> str:
        return "tier mag lampe ." if term == "tier" else "hund mag licht ."

    text, _ = insisted("dog likes lamp .", "hund mag lampe .", {"lamp": "licht", "dog": "tier"}, says)
    assert text is None


@pytest.mark.parametrize("flag", ["truncated", "repeated"])
def test_a_search_that_went_wrong(flag):
    def search(flags: tuple[str, ...], before: tuple[str, ...]) -> str | None:
        class Flagging(Scripted):
            def translate_plain(self, *args, **keywords):
                return [dataclasses.replace(t, flags=flags) for t in super().translate_plain(*args, **keywords)]

        plain = translation("ein lampe", *before)
        draft = Draft(Bare("a lamp", ()), Terms({"lamp": "licht"}).find("a lamp"), plain, "", 1)
        insist(Flagging(lambda kept, term: f"ein {term}", {"lamp": "licht"}), [draft], SearchConfig(), True)
        return draft.result and draft.result.text

    assert search((flag,), ()) is None
    assert search((flag,), (flag,)) == "ein licht" == search((), ())


def test_an_engine_that_cannot_leaves_all_as_it_was():
    class Unable(Scripted):
        def translate_plain(self, *args, **keywords):
            raise ConfigError("it cannot say what it must")

    draft = Draft(Bare("a lamp", ()), Terms({"lamp": "licht"}).find("a lamp"), translation("ein lampe"), "", 1)
    insist(Unable(lambda *_: "", {}), [draft], SearchConfig(), True)
    assert draft.result is None


def test_the_users_prefix_stays():
    _, asked = insisted("the dog", "der hund", {"dog": "tier"}, lambda kept, term: f"{kept} {term}", prefix="der")
    assert asked == [("der", Demand("tier", "der"))]

"""The sentence pairs of `pellucid demo`, cut from an installed package: the repository itself carries no text of others.

A model of two minutes needs a closed vocabulary more than many pairs, so of 56,578 everyday sentence pairs only short
ones of frequent characters and words are taken. What is tested has been trained on on neither side: sentences are held
out by source text, punctuation apart, and pairs that have their translation for target are left out of training.
Sentences that say nearly the same remain.

No torch here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from pellucid.errors import DataError

LONGEST_SOURCE = 14
"""Characters of a Chinese sentence."""
LONGEST_TARGET = 10
"""Words of an English one."""
CHARACTERS = 600
WORDS = 800
"""So many of the most frequent characters, and words and marks, are the whole vocabulary."""

WORD_OR_MARK = re.compile(r"\w+(?:'\w+)*|[^\w\s]")


@dataclass(frozen=True)
class Task:
    """What is translated into what, from which package, and how it is learnt in two minutes."""

    name: str
    title: str
    source_language: str
    target_language: str
    package: str
    version: str
    files: dict[str, str]
    """Name of each file within the package, with its SHA-256."""
    attribution: str
    tested: int
    validated: int
    """Source sentences held out for testing, and for looking at while training."""
    settings: dict[str, Any]
    """Tables of a training configuration."""
    sentences: tuple[str, ...]
    """Our own, of frequent characters, to be translated at the end; the attention map is of the first."""


@dataclass(frozen=True)
class Item:
    """A source text with all its translations; `credits` says for each pair where it is from."""

    source: str
    targets: tuple[str, ...]
    credits: tuple[str, ...]


@dataclass(frozen=True)
class DemoCorpus:
    """Three sets with no source text in common."""

    train: tuple[Item, ...]
    valid: tuple[Item, ...]
    test: tuple[Item, ...]

    @staticmethod
    def pairs(items: Iterable[Item]) -> Iterator[tuple[str, str, str]]:
        """Source, target and credit, a pair at a time."""
        for item in items:
            for target, credit in zip(item.targets, item.credits, strict=True):
                yield item.source, target, credit


_SMALL: dict[str, Any] = {
    "preset": "tiny",
    "model": {
        "d_model": 192, "n_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2, "d_ff": 768, "dropout": 0.1,
        "norm": "pre",
    },
    "training": {
        "batch_tokens": 1500, "warmup_steps": 200, "peak_rate": 0.003, "ema_decay": 0.99, "validate_every": 150,
        "keep_checkpoints": 1,
    },
}  # fmt: skip
"""Two wide layers with pre-norm learn more in two minutes than many narrow ones; the moving average of the weights stands
for the learning-rate decay that there is no time for."""

TASKS = {
    "zh-en": Task(
        name="zh-en",
        title="Chinese to English",
        source_language="zh",
        target_language="en",
        package="hsg",
        version="1.0.0",
        files={
            "assets/tatoeba.tsv": "3fc3711d24c98237d369083879cab02e274961e1ed518c25a86d379dba6605a3",
            "assets/cedict_ts.u8": "92da8517a51ec466208a0771d6007bd508a39ad9696e67aed339a9ef23cbacb0",
        },
        attribution="Sentences: Tatoeba, CC BY 2.0 FR. The .tsv files beside the model give the number of every sentence; "
        "its author and page are at https://tatoeba.org/sentences/show/NUMBER",
        tested=500,
        validated=100,
        settings={**_SMALL, "data": {"vocab_size": 2000}},
        sentences=(
            "我的朋友不喜欢这本书。",
            "我想喝一杯水。",
            "他昨天没有来学校。",
            "你知道她住在哪里吗？",
            "我们明天一起去吧。",
            "别告诉我妈妈。",
        ),
    ),
    "pinyin": Task(
        name="pinyin",
        title="Chinese characters to pinyin",
        source_language="zh",
        target_language="zh-Latn",
        package="hsk-sentences-audio",
        version="1.0.0",
        files={
            "hsk_sentences_audio/data/sentences.json": "8f8ffd34eee29f395724ce060cad22511eeeabb7af731d5b5879dc0548e01660"
        },
        attribution="Sentences: hsk-sentences-audio, CC BY-SA 4.0. The .tsv files beside the model give the number of every "
        "sentence.",
        tested=300,
        validated=60,
        settings={**_SMALL, "data": {"tokenizer": "char", "vocab_size": 4000}},
        sentences=(
            "我想喝一杯水。",
            "他昨天没有来学校。",
            "你知道她住在哪里吗？",
            "我们明天一起去吧。",
        ),
    ),
}


def load(task: Task) -> DemoCorpus:
    """The corpus of a task.

    Raises:
        DataError: the package is not installed, or is not the one that the recipe was made for.
    """
    files = {Path(name).name: _find(task, name, digest) for name, digest in task.files.items()}
    if task.name == "zh-en":
        rows = cut_tatoeba(files["tatoeba.tsv"].read_text("utf-8-sig"), files["cedict_ts.u8"].read_text("utf-8"))
    else:
        rows = read_pinyin(files["sentences.json"].read_text("utf-8"))
    return hold_out(rows, task.tested, task.validated)


def _find(task: Task, name: str, digest: str) -> Path:
    mend = (
        f"pip install '{task.package}=={task.version}', or train on pairs of your own: pellucid train PAIRS --out DIR"
    )
    try:
        found = metadata.distribution(task.package)
    except metadata.PackageNotFoundError:
        raise DataError(
            f"the demo cuts its sentences from the package {task.package}, which is not installed", hint=mend
        ) from None
    if found.version != task.version:
        raise DataError(f"{task.package} must be version {task.version}, but is {found.version}", hint=mend)
    path = Path(str(found.locate_file(name)))
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=str(path), hint=mend) from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise DataError(
            "is not the file that this recipe was made for (its SHA-256 differs)", file=str(path), hint=mend
        )
    return path


def cut_tatoeba(tatoeba: str, cedict: str) -> list[tuple[str, str, str]]:
    """Short sentences of frequent characters and words, with no digit and no traditional-only character.

    Args:
        tatoeba: lines of Chinese number, Chinese, English number, English.
        cedict: CC-CEDICT, a line an entry: traditional, space, simplified, space, and more.

    Returns:
        (Chinese, English, the two numbers) in the file's order.
    """
    traditional: set[str] = set()
    simplified: set[str] = set()
    for line in cedict.splitlines():
        if not line.startswith("#"):
            first, second, *_ = line.split(" ", 2)
            traditional.update(first)
            simplified.update(second)
    only_traditional = traditional - simplified
    rows = [line.split("\t") for line in tatoeba.split("\n") if line]
    rows = [row for row in rows if only_traditional.isdisjoint(row[1])]
    characters = _most_frequent((row[1] for row in rows), CHARACTERS)
    words = _most_frequent((_words(row[3]) for row in rows), WORDS)
    return [
        (chinese, english, f"{chinese_number} {english_number}")
        for chinese_number, chinese, english_number, english in rows
        if len(chinese) <= LONGEST_SOURCE
        and characters.issuperset(chinese)
        and len(english.split()) <= LONGEST_TARGET
        and words.issuperset(_words(english))
        and not any(c.isdigit() for c in chinese + english)
    ]


def _words(text: str) -> list[str]:
    return WORD_OR_MARK.findall(text.lower())


def _most_frequent(texts: Iterable[Iterable[str]], count: int) -> set[str]:
    return {item for item, _ in Counter(item for text in texts for item in text).most_common(count)}


def read_pinyin(text: str) -> list[tuple[str, str, str]]:
    """(Chinese, pinyin with tones, number of the sentence)."""
    return [(row["chinese"], row["pinyin"], row["id"]) for row in json.loads(text)]


def hold_out(rows: Iterable[tuple[str, str, str]], tested: int, validated: int) -> DemoCorpus:
    """Choose sources for testing and validation by a hash of their letters, so that the choice is always the same.

    Sources that differ in punctuation alone stay together, and the first one stands for all where they are tested.
    """
    groups: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for source, target, credit in rows:
        groups.setdefault(_letters(source), {}).setdefault(source, []).append((target, credit))
    order = sorted(groups, key=lambda letters: hashlib.sha256(letters.encode()).digest())
    test, valid, train = order[:tested], order[tested : tested + validated], order[tested + validated :]

    def items(keys: list[str], first_only: bool) -> tuple[Item, ...]:
        return tuple(
            Item(source, tuple(t for t, _ in pairs), tuple(c for _, c in pairs))
            for key in keys
            for source, pairs in list(groups[key].items())[: 1 if first_only else None]
        )

    held_out = items(test, True)
    spoilt = {_letters(target) for item in held_out for target in item.targets}
    rest = [
        Item(item.source, tuple(t for t, _ in clean), tuple(c for _, c in clean))
        for item in items(train, False)
        if (clean := [pair for pair in zip(item.targets, item.credits, strict=True) if _letters(pair[0]) not in spoilt])
    ]
    return DemoCorpus(tuple(rest), items(valid, True), held_out)


def _letters(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum()) or text

"""Every reader and writer against files that change at random towards code not yet reached (atheris, libFuzzer).

Wanted of any bytes whatever: pairs or an error of our own, never another; a file that is filled with no translation is
the same file; one that is filled with text is read again. Needs atheris (`pip install atheris`) beside the
packages for development.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import polib

from pellucid.config import DataConfig
from pellucid.errors import DataError, PellucidError

SUFFIXES = (".tsv", ".csv", ".jsonl", ".tmx", ".xlf", ".po", ".mo", ".srt", ".vtt", ".html")
EN_DE = DataConfig(source_language="en", target_language="de", fuzzy=True)
CONFIGS = (EN_DE, DataConfig(source_language="en", target_language="de"), DataConfig())
XML = (".tmx", ".xlf")
FILLING = 'Ü<&"\\ '
"""What stands before each text that is filled in: what some format must write in another way."""
LARGEST = 4096

SEEDS = {
    ".tsv": ["a cup of tea\teine Tasse Tee\nNA\t\"x\n\n", "\ufeffone\ttwo\tthree\r\n"],
    ".csv": ['en,de\n"a ""cup"", of tea","eine\nTasse"\n', "source;target\na;b\n"],
    ".jsonl": ['{"en": "tea", "de": "Tee"}\n{"translation": {"en": "a", "de": "b"}}\n', '{"source": "\\ud83d\\ude00", "target": "x"}'],
    ".tmx": [
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header srclang="en" '
        'datatype="plaintext"/><body><tu tuid="1"><tuv xml:lang="en-GB"><seg>a <bpt i="1">&lt;b&gt;</bpt>cup<ept i="1">'
        '&lt;/b&gt;</ept> <ph/>of tea</seg></tuv><tuv lang="DE"><seg>eine Tasse Tee</seg></tuv></tu></body></tmx>',
    ],
    ".xlf": [
        '<xliff version="1.2"><file source-language="en" target-language="de" original="a"><body><trans-unit id="1">'
        '<source>a <g id="1">cup</g><x id="2"/></source><target state="new"/></trans-unit></body></file></xliff>',
        '<xliff version="2.0" srcLang="en" trgLang="de" xmlns="urn:oasis:names:tc:xliff:document:2.0"><file id="f"><unit '
        'id="u"><segment><source>tea<ph id="1"/></source><target>Tee</target></segment></unit></file></xliff>',
    ],
    ".po": [
        'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Plural-Forms: nplurals=2; plural=n != 1;\\n"\n\n'
        '#, fuzzy\n#| msgid "old"\nmsgctxt "menu"\nmsgid "tea"\nmsgstr ""\n\nmsgid "%d cup"\nmsgid_plural "%d cups"\n'
        'msgstr[0] ""\nmsgstr[1] ""\n\n#~ msgid "gone"\n#~ msgstr "weg"\n',
    ],
    ".mo": [],
    ".srt": ["1\n00:00:01,000 --> 00:00:02,500\na cup\nof tea.\n\n2\n00:00:03,000 --> 00:00:04,000\n<i>two</i>\n"],
    ".vtt": ["WEBVTT\n\nNOTE x\n\n00:01.000 --> 00:02.500 align:start\n<v Ann>a cup of tea.\n\nb\n00:03.000 --> 00:04.000\nz\n"],
    ".html": [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Tea</title><script>a<b</script></head><body>'
        '<p title="x">a <b>cup</b> &amp; <img alt="tea"> more<br>z</p><!-- c --><textarea>q</textarea></body></html>',
    ],
}  # fmt: skip


def seeds(suffix: str) -> list[bytes]:
    """Files to begin with."""
    if suffix == ".mo":
        catalogue = polib.POFile()
        catalogue.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
        catalogue.append(polib.POEntry(msgid="tea", msgstr="Tee"))
        catalogue.append(polib.POEntry(msgid="%d cup", msgid_plural="%d cups", msgstr_plural={0: "a", 1: "b"}))
        return [catalogue.to_binary()]
    texts = [text.encode() for text in SEEDS[suffix]]
    return texts + ([texts[0].decode().replace("UTF-8", "UTF-16").encode("utf-16")] if suffix in XML else [])


def trial(suffix: str, folder: Path) -> Callable[[bytes], None]:
    """What is done with each file: raises if it is not treated as it must be. Writes in `folder`."""
    from pellucid.data.formats import document, registry
    from pellucid.data.formats.xml_stream import encoding_of

    reader = registry.reader_for(f"x{suffix}") if suffix in registry.known_suffixes() else None
    filler = document.document_reader(f"x{suffix}") if suffix in document.document_suffixes() else None
    path = folder / f"x{suffix}"
    name = str(path)

    def filled(prefix: str) -> bytes:
        out: list[bytes] = []
        translate = lambda texts: (prefix and prefix + text for text in texts)  # noqa: E731
        document.fill(filler(name, EN_DE), translate, out.append)
        return b"".join(out)

    def kept(before: bytes, after: bytes) -> bool:
        """Whether a file is the same; of one in another encoding only its text is."""
        other = (
            encoding_of(before[:1024], name) != "utf-8" if suffix in XML else suffix == ".html" and not _is_utf8(before)
        )
        return other or before == after

    def try_one(data: bytes) -> None:
        path.write_bytes(data)
        if reader is not None:
            try:
                for pair in reader(name, CONFIGS[len(data) % len(CONFIGS)]):
                    assert (pair.source is None) == (pair.target is None), pair
                    if pair.source is not None and pair.target is not None:
                        pair.source.encode(), pair.target.encode()
            except PellucidError:
                pass
        if filler is None:
            return
        try:
            untouched = filled("")
            assert kept(data, untouched), (data, untouched)
            path.write_bytes(filled(FILLING))
        except DataError:
            return
        if reader is not None and suffix != ".tsv":  # a line that is no pair stays one
            for _ in reader(name, EN_DE):
                pass

    return try_one


def _is_utf8(page: bytes) -> bool:
    try:
        page.decode()
    except UnicodeDecodeError:
        return False
    return re.search(rb"charset\s*=\s*[\"']?\s*(?!utf-?8\b)", page, re.IGNORECASE) is None


def child(suffix: str, arguments: list[str]) -> None:
    """Try files of one format until the time is over or one does what it must not. Does not come back."""
    import atheris

    with atheris.instrument_imports(include=["pellucid.data.formats"]):
        from pellucid.data.formats import registry

        registry.known_suffixes()  # imports them all
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    atheris.Setup([sys.argv[0], *arguments], trial(suffix, Path(folder)))
    atheris.Fuzz()


def run(suffix: str, seconds: int, folder: Path) -> tuple[int, int, str]:
    """(files tried, seconds, what was found: "" if nothing)."""
    corpus = folder / suffix[1:]
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds(suffix)):
        (corpus / f"seed-{number}").write_bytes(data)
    command = [
        sys.executable, __file__, "--child", suffix, str(corpus), f"-max_total_time={seconds}", f"-max_len={LARGEST}",
        "-timeout=20", "-rss_limit_mb=1024", f"-artifact_prefix={folder}/found{suffix}-",
    ]  # fmt: skip
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    (folder / f"log{suffix}.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    runs = re.findall(r"^(?:Done |#)(\d+)", done.stderr, re.MULTILINE)
    found = "" if done.returncode == 0 else f"exit {done.returncode}: see {folder}/log{suffix}.txt"
    return int(runs[-1]) if runs else 0, round(time.monotonic() - began), found


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--child"]:
        child(arguments[1], arguments[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=600, help="for each format")
    parser.add_argument("--format", action="append", choices=[s[1:] for s in SUFFIXES], help="only these")
    parser.add_argument(
        "--folder", type=Path, default=Path("fuzz"), help="what has been tried and found; goes on from it"
    )
    options = parser.parse_args(arguments)
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [suffix for suffix in SUFFIXES if not options.format or suffix[1:] in options.format]
    print("| format | files tried | seconds | found |\n|---|---:|---:|---|", flush=True)
    faults = 0
    for suffix in chosen:
        tried, seconds, found = run(suffix, options.seconds, folder)
        faults += bool(found)
        print(f"| {suffix[1:]} | {tried:,} | {seconds} | {found or 'nothing'} |", flush=True)
    return min(1, faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

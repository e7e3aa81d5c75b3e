"""The pairs as token ids on the disk, read through a memory map: ten million pairs need little memory.

    source.ids, target.ids          all sequences one behind the other, each with its end mark (uint16 or uint32); before
                                    a source the tags of its input
    source.offsets, target.offsets  int64, where each begins, and where the last one ends
    meta.json                       fingerprint, sizes and checksums of the four, and the report; written last

All numbers are little-endian. A store is built in a hidden folder beside its place, which is renamed when all of it
has reached the disk: a kill or a full disk leaves no half store that a later run would take for a whole one. It is
used again while the fingerprint of inputs, tokenizers and settings is the same and nothing in it is damaged.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pellucid.config import DataConfig
from pellucid.data.corpus import Corpus, CorpusReport, why_dropped
from pellucid.data.formats.pair import SentencePair
from pellucid.data.tokenizer import Tokenizer
from pellucid.errors import DataError
from pellucid.machine import available_cores

VERSION = 2
META = "meta.json"
SIDES = ("source", "target")
FILES = tuple(f"{side}.{part}" for side in SIDES for part in ("ids", "offsets"))
CHUNK_PAIRS = 20_000
CHUNK_CHARACTERS = 4_000_000
OFFSET = np.dtype("<i8")
RESIDENT = 128 << 20
"""About so many bytes of a store stay in memory while batches are made."""
MAPPED_AT_ONCE = 64 << 10
"""What Linux maps around a byte that is touched, where the file is in its cache."""

Progress = Callable[[int], None]
Look = Callable[[Sequence[SentencePair]], None]


class PairStore:
    """Made by :meth:`build` or :meth:`open`. `len()` is the number of pairs."""

    def __init__(self, directory: Path, dtypes: tuple[np.dtype, np.dtype], parts: tuple[int, ...]) -> None:
        self.directory = directory
        self.parts = parts
        """How many pairs are of each input of the corpus; they stand in that order."""
        self._maps: list[mmap.mmap] = []
        self._touched = 0
        source, target = ((self._map(f"{side}.ids", dtypes[i])) for i, side in enumerate(SIDES))
        self._ids = source, target
        source, target = (self._map(f"{side}.offsets", OFFSET) for side in SIDES)
        self._offsets = source, target
        self.source_lengths = _lengths(source)
        """(pairs,) int32: the tokens of each source, its tags and its end mark included."""
        self.target_lengths = _lengths(target)
        """(pairs,) int32: the tokens of each target, its end mark included."""
        self.release()

    @classmethod
    def open(cls, directory: str | Path) -> PairStore:
        """A store that :meth:`build` has made. Its checksums are looked at, which reads it through once.

        Raises:
            DataError: there is none, or it is damaged.
        """
        return cls._open(Path(directory))[0]

    @classmethod
    def _open(cls, directory: Path, fingerprint: str | None = None) -> tuple[PairStore, dict[str, Any]]:
        try:
            meta: dict[str, Any] = json.loads((directory / META).read_text(encoding="utf-8"))
            if meta["version"] != VERSION or fingerprint not in (None, meta["fingerprint"]):
                raise DataError("is a store of other pairs, or of another version of pellucid", file=str(directory))
            for name in FILES:
                if [(directory / name).stat().st_size, _checksum(directory / name)] != meta["files"][name]:
                    raise DataError(f"is damaged: {name} is not what was written", file=str(directory))
            source, target = (np.dtype(d) for d in meta["dtypes"])
            return cls(directory, (source, target), tuple(int(count) for count in meta["parts"])), meta
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"is no store of pairs: {error}", file=str(directory), hint="delete the folder to have it built anew"
            ) from error

    @classmethod
    def build(
        cls,
        directory: str | Path,
        corpus: Corpus,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        config: DataConfig,
        progress: Progress | None = None,
        *,
        threads: int = 0,
        look: Look | None = None,
    ) -> tuple[PairStore, CorpusReport]:
        """The store of `corpus`, found or built; and what was dropped on the way.

        Args:
            config: `max_tokens` and `max_ratio` drop pairs here.
            progress: is told, now and then, the number of pairs read so far.
            threads: for the tokenizers; 0 takes the cores that this process may use.
            look: is shown all pairs, some at a time, if the store is built.

        Raises:
            DataError: the store cannot be written (a full disk), or `directory` holds something else; also what
                reading the corpus raises.
        """
        directory = Path(directory)
        tokenizers = source_tokenizer, target_tokenizer
        fingerprint = _fingerprint(corpus, tokenizers, config)
        try:
            store, meta = cls._open(directory, fingerprint)
            return store, CorpusReport.from_dict(meta["report"])
        except DataError:
            _refuse_foreign(directory)  # else there is none, or an old or damaged one: it is built anew
        partial: Path | None = None
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
            _remove_leftovers(directory)
            partial = Path(tempfile.mkdtemp(prefix=f".{directory.name}.{os.getpid()}.", dir=directory.parent))
            meta = _Writer(partial, tokenizers, config, threads or available_cores(), progress, look).write(corpus)
            with (partial / META).open("w", encoding="utf-8") as file:
                json.dump({"version": VERSION, "fingerprint": fingerprint, **meta}, file, indent=1)
                _to_disk(file.fileno(), file.flush)
            _put_in_place(partial, directory)
        except OSError as error:
            raise DataError(
                f"the pairs cannot be written: {error.strerror or error}",
                file=str(directory),
                hint="free some space, or let another folder take the run: --out DIR",
            ) from error
        finally:
            if partial is not None:
                shutil.rmtree(partial, ignore_errors=True)
        store, meta = cls._open(directory, fingerprint)
        return store, CorpusReport.from_dict(meta["report"])

    def __len__(self) -> int:
        return len(self.source_lengths)

    def source(self, i: int) -> np.ndarray:
        """(source length,) ids of pair `i`, tags first, the end mark last; read-only, of an unsigned type."""
        return self._row(0, i)

    def target(self, i: int) -> np.ndarray:
        """(target length,) ids of pair `i`, the end mark last; read-only, of an unsigned type."""
        return self._row(1, i)

    def padded(self, side: int, indices: np.ndarray, pad: int) -> np.ndarray:
        """(rows, longest) int64: the sequences `indices` of `side` (0 source, 1 target), filled up with `pad`."""
        rows = padded(self._ids[side], self._offsets[side], indices, pad)
        self._touched += 2 * len(indices) * MAPPED_AT_ONCE  # an offset and a sequence each
        if self._touched > RESIDENT:
            self.release()
        return rows

    def release(self) -> None:
        """Give back the pages that reading has brought in, so that resident memory stays small.

        They stay in the system's cache, from where they come again quickly; :meth:`padded` calls this by itself.
        """
        self._touched = 0
        if hasattr(mmap, "MADV_DONTNEED"):
            for mapped in self._maps:
                mapped.madvise(mmap.MADV_DONTNEED)

    def _row(self, side: int, i: int) -> np.ndarray:
        if not 0 <= i < len(self):
            raise IndexError(f"there are {len(self)} pairs, but pair {i} was asked for")
        offsets = self._offsets[side]
        return self._ids[side][offsets[i] : offsets[i + 1]]

    def _map(self, name: str, dtype: np.dtype) -> np.ndarray:
        with (self.directory / name).open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return np.empty(0, dtype)  # an empty file cannot be mapped
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._maps.append(mapped)
        return np.frombuffer(mapped, dtype)


class _Writer:
    """Writes the four files of a store, chunk by chunk: memory stays flat whatever the size of the corpus."""

    def __init__(
        self,
        directory: Path,
        tokenizers: tuple[Tokenizer, Tokenizer],
        config: DataConfig,
        threads: int,
        progress: Progress | None,
        look: Look | None,
    ) -> None:
        self.directory, self.tokenizers, self.config = directory, tokenizers, config
        self.threads, self.progress, self.look = threads, progress, look
        self.dtypes = tuple(np.dtype("<u2" if len(t) <= 1 << 16 else "<u4") for t in tokenizers)
        self.report = CorpusReport()
        self.parts: list[int] = []
        self.ends = [0, 0]
        self.checksums = dict.fromkeys(FILES, 0)
        self.sizes = dict.fromkeys(FILES, 0)
        self.files: dict[str, BinaryIO] = {}

    def write(self, corpus: Corpus) -> dict[str, Any]:
        """What `meta.json` is to say of the files."""
        try:
            for name in FILES:
                self.files[name] = (self.directory / name).open("wb")
            for side in SIDES:
                self._append(f"{side}.offsets", np.zeros(1, OFFSET))
            for part in corpus.parts():
                before = self.report.kept
                tags = self.tokenizers[0].tag_ids(part.inputs[0].tags)
                for pairs in self._chunks(part):
                    self._write_chunk(pairs, tags)
                    if self.progress is not None:
                        self.progress(self.report.read)
                self.parts.append(self.report.kept - before)
            for file in self.files.values():
                _to_disk(file.fileno(), file.flush)
        finally:
            for file in self.files.values():
                with contextlib.suppress(OSError):  # a full disk says so again; the first error is the one to report
                    file.close()
        return {
            "dtypes": [d.str for d in self.dtypes],
            "files": {name: [self.sizes[name], self.checksums[name]] for name in FILES},
            "parts": self.parts,
            "report": self.report.as_dict(),
        }

    def _chunks(self, corpus: Corpus) -> Iterator[list[tuple[str, str]]]:
        """Stripped pairs that have text on both sides; counts the others."""
        chunk: list[tuple[str, str]] = []
        read: list[SentencePair] = []
        characters = 0
        for pair in corpus:
            self.report.read += 1
            read.append(pair)
            why = why_dropped(pair)
            if why is not None or pair.source is None or pair.target is None:
                self.report.drop(pair, why or "bad bytes")
            else:
                chunk.append((pair.source.strip(), pair.target.strip()))
                characters += len(pair.source) + len(pair.target)
            if len(read) >= CHUNK_PAIRS or characters >= CHUNK_CHARACTERS:
                self._show(read)
                yield chunk
                chunk, read, characters = [], [], 0
        if read:
            self._show(read)
            yield chunk

    def _show(self, pairs: list[SentencePair]) -> None:
        if self.look is not None:
            self.look(pairs)

    def _write_chunk(self, pairs: list[tuple[str, str]], tags: list[int]) -> None:
        rows = [t.encode_batch([pair[i] for pair in pairs], self.threads) for i, t in enumerate(self.tokenizers)]
        pieces = np.array([[len(ids) for ids in side] for side in rows], OFFSET)  # (2, pairs)
        lengths = pieces + np.array([[len(tags) + 1], [1]], OFFSET)
        keep = self._short_enough(pieces, lengths)
        rows[0] = [[*tags, *ids] for ids in rows[0]] if tags else rows[0]
        for i, side in enumerate(SIDES):
            kept = lengths[i][keep]
            eos = (self.tokenizers[i].eos_id,)
            flat = chain.from_iterable(chain(ids, eos) for ids, k in zip(rows[i], keep.tolist(), strict=True) if k)
            self._append(f"{side}.ids", np.fromiter(flat, self.dtypes[i], int(kept.sum())))
            ends = self.ends[i] + np.cumsum(kept, dtype=OFFSET)
            self._append(f"{side}.offsets", ends)
            self.ends[i] = int(ends[-1]) if len(ends) else self.ends[i]

    def _short_enough(self, pieces: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """(pairs,) bool; counts the pairs that are not. `lengths` (2, pairs) has tags and end marks in it."""
        short = lengths.max(axis=0) <= self.config.max_tokens
        self.report.dropped["too long"] += int((~short).sum())
        if not self.config.max_ratio:
            return short
        even = pieces.max(axis=0) <= self.config.max_ratio * pieces.min(axis=0)
        self.report.dropped["ratio"] += int((short & ~even).sum())
        return np.asarray(short & even)

    def _append(self, name: str, values: np.ndarray) -> None:
        data = values.tobytes()
        self.files[name].write(data)
        self.checksums[name] = zlib.crc32(data, self.checksums[name])
        self.sizes[name] += len(data)


def padded(ids: np.ndarray, offsets: np.ndarray, indices: np.ndarray, pad: int) -> np.ndarray:
    """(rows, longest) int64: of sequences that stand in `ids` one behind the other those of `indices`.

    Args:
        offsets: (sequences + 1,) where each begins, and where the last one ends.
        pad: what the shorter ones are filled up with.
    """
    begin = offsets[indices]
    lengths = offsets[indices + 1] - begin
    column = np.arange(lengths.max(initial=0))
    held = column < lengths[:, None]
    rows = np.full(held.shape, pad, np.int64)
    rows[held] = ids[(begin[:, None] + column)[held]]
    return rows


def _lengths(offsets: np.ndarray) -> np.ndarray:
    """The differences as int32, some at a time: the offsets of ten million pairs are 80 MB."""
    lengths = np.empty(max(0, len(offsets) - 1), np.int32)
    for begin in range(0, len(lengths), 1 << 20):
        piece = offsets[begin : begin + (1 << 20) + 1]
        lengths[begin : begin + len(piece) - 1] = np.diff(piece)
    return lengths


def _fingerprint(corpus: Corpus, tokenizers: tuple[Tokenizer, Tokenizer], config: DataConfig) -> str:
    parts = corpus.fingerprint(), *(t.fingerprint() for t in tokenizers), config.max_tokens, config.max_ratio, VERSION
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    return checksum


def _to_disk(descriptor: int, flush: Callable[[], None]) -> None:
    flush()
    os.fsync(descriptor)


def _sync_folder(directory: Path) -> None:
    """A renamed file is safe only when its folder has reached the disk too."""
    if os.name == "posix":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _put_in_place(partial: Path, directory: Path) -> None:
    """Rename `partial` to `directory`, where an older store may stand (a folder cannot be renamed over a full one)."""
    _sync_folder(partial)
    if directory.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{directory.name}.{os.getpid()}.", dir=directory.parent))
        directory.rename(old / "old")
        partial.rename(directory)
        shutil.rmtree(old, ignore_errors=True)
    else:
        partial.rename(directory)
    _sync_folder(directory.parent)


def _refuse_foreign(directory: Path) -> None:
    """Never delete what is no store."""
    if not directory.exists():
        return
    ours = {*FILES, META}
    if not directory.is_dir() or any(entry.name not in ours for entry in directory.iterdir()):
        raise DataError("must be free for the store of pairs, but holds something else", file=str(directory))


def _remove_leftovers(directory: Path) -> None:
    """Hidden folders beside `directory` whose process was killed while it wrote them."""
    for entry in directory.parent.glob(f".{directory.name}.*"):
        process = entry.name[len(directory.name) + 2 :].partition(".")[0]
        if process.isdigit() and int(process) != os.getpid() and not _is_running(int(process)):
            shutil.rmtree(entry, ignore_errors=True)


def _is_running(process: int) -> bool:
    if os.name != "posix":
        return True  # cannot be asked without ending it
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True

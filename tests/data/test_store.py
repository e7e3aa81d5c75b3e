from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pellucid.config import DataConfig
from pellucid.data import store as store_module
from pellucid.data.batching import make_batch, plan_epoch
from pellucid.data.corpus import Corpus
from pellucid.data.store import PairStore
from pellucid.data.tokenizer import Tokenizer
from pellucid.errors import DataError

LINES = [f"the {colour} {thing}" for colour in ("red", "blue", "old") for thing in ("door", "lamp", "boat", "tree")]
CONFIG = DataConfig()


@pytest.fixture(scope="module")
def tokenizers() -> tuple[Tokenizer, Tokenizer]:
    source = Tokenizer.train(LINES, vocab_size=400)
    return source, Tokenizer.train([line.upper() for line in LINES], vocab_size=320, kind="bpe")


@pytest.fixture
def corpus_of(tmp_path: Path):
    def make(pairs, config: DataConfig = CONFIG, name: str = "pairs.tsv") -> Corpus:
        path = tmp_path / name
        path.write_bytes("".join(f"{a}\t{b}\n" for a, b in pairs).encode())
        return Corpus.from_files([str(path)], [], [], config)

    return make


def texts(store: PairStore, tokenizers) -> list[tuple[str, str]]:
    return [(tokenizers[0].decode(store.source(i)), tokenizers[1].decode(store.target(i))) for i in range(len(store))]


PAIRS = [(line, line.upper()) for line in LINES]


def test_pairs_come_back_with_their_end_marks(tmp_path, corpus_of, tokenizers):
    store, report = PairStore.build(tmp_path / "store", corpus_of(PAIRS), *tokenizers, CONFIG)
    assert len(store) == report.read == report.kept == 12
    assert texts(store, tokenizers) == PAIRS
    for i, (source, target) in enumerate(PAIRS):
        assert store.source(i).tolist() == [*tokenizers[0].encode(source), tokenizers[0].eos_id]
        assert store.target(i).tolist() == [*tokenizers[1].encode(target), tokenizers[1].eos_id]
    assert store.source_lengths.tolist() == [len(store.source(i)) for i in range(12)]
    assert store.target_lengths.dtype == store.source_lengths.dtype == np.int32
    assert texts(PairStore.open(tmp_path / "store"), tokenizers) == PAIRS
    for i in (-1, 12):
        with pytest.raises(IndexError):
            store.source(i)


@given(
    pairs=st.lists(
        st.tuples(*[st.text(st.characters(exclude_characters="\t\n", exclude_categories=["Cs"]), max_size=8)] * 2),
        max_size=12,
    ),
    chunk=st.integers(1, 5),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_pairs_come_back(tmp_path_factory, tokenizers, monkeypatch, pairs, chunk):
    monkeypatch.setattr(store_module, "CHUNK_PAIRS", chunk)
    folder = tmp_path_factory.mktemp("store")
    path = folder / "pairs.tsv"
    path.write_bytes("".join(f"{a}\t{b}\n" for a, b in [("x", "y"), *pairs]).encode())
    done: list[int] = []
    corpus = Corpus.from_files([str(path)], [], [], CONFIG)
    store, report = PairStore.build(folder / "store", corpus, *tokenizers, CONFIG, done.append)

    def read(a: str) -> str:  # one carriage return before the end of a line goes, and so does white space
        return a.strip()

    kept = [(read(a), read(b)) for a, b in [("x", "y"), *pairs] if read(a) and read(b)]
    assert texts(store, tokenizers) == kept
    assert report.read == len(pairs) + 1
    assert done == sorted(set(done))
    assert done[-1] == report.read


def test_pairs_are_dropped_for_stated_reasons(tmp_path, tokenizers):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(
        b"the red door\tTHE RED DOOR\n\n\tX\n \tX\nx\t\nx\t\xc2\xa0\ncaf\xe9\tX\n"
        + b"x" * 90
        + b"\tX\nx\tABCDEFGHIJK\n"
    )
    config = DataConfig(skip_bad=True, max_tokens=40, max_ratio=4.0)
    store, report = PairStore.build(
        tmp_path / "store", Corpus.from_files([str(path)], [], [], config), *tokenizers, config
    )
    assert report.dropped == {
        "empty": 1,
        "empty source": 2,
        "empty target": 2,
        "bad bytes": 1,
        "too long": 1,
        "ratio": 1,
    }
    assert (report.read, report.kept, len(store)) == (9, 1, 1)
    _, told = PairStore.build(tmp_path / "store", Corpus.from_files([str(path)], [], [], config), *tokenizers, config)
    assert told.as_dict() == report.as_dict()
    assert "  2 empty source: the source is empty" in told.lines()


def test_max_tokens_counts_the_end_mark(tmp_path, corpus_of, tokenizers):
    corpus = corpus_of([("x" * n, "Y") for n in range(1, 9)])
    longest = len(tokenizers[0].encode("xxxxx")) + 1
    config = DataConfig(max_tokens=longest)
    store, report = PairStore.build(tmp_path / "store", corpus, *tokenizers, config)
    assert store.source_lengths.max() == longest
    assert report.dropped["too long"] == 3


def test_three_blank_pairs_are_three_empty(tmp_path, corpus_of, tokenizers):
    _, report = PairStore.build(tmp_path / "store", corpus_of([*PAIRS, *[("", "")] * 3]), *tokenizers, CONFIG)
    assert "  3 empty: both sides are empty" in report.lines()


@pytest.mark.parametrize("pairs", [[], [("", "")]])
def test_no_pair_at_all_is_an_empty_store(tmp_path, corpus_of, tokenizers, pairs):
    store, report = PairStore.build(tmp_path / "store", corpus_of(pairs), *tokenizers, CONFIG)
    assert len(store) == report.kept == 0
    assert len(plan_epoch(store.source_lengths, store.target_lengths, 100, 1, 0)) == 0
    store.release()
    assert len(PairStore.open(tmp_path / "store")) == 0


def test_windows_files_give_the_same_ids(tmp_path, tokenizers):
    made = []
    for name, start, end in (("lf", b"", b"\n"), ("crlf", b"\xef\xbb\xbf", b"\r\n")):
        path = tmp_path / f"{name}.tsv"
        path.write_bytes(start + b"".join(f"{a}\t{b}".encode() + end for a, b in PAIRS))
        corpus = Corpus.from_files([str(path)], [], [], CONFIG)
        model = Tokenizer.train((side for pair in corpus for side in pair[:2]), vocab_size=400).model_bytes
        PairStore.build(tmp_path / name, corpus, *tokenizers, CONFIG)
        made.append((model, *((tmp_path / name / file).read_bytes() for file in store_module.FILES)))
    assert made[0] == made[1]


def test_few_pieces_take_two_bytes_and_many_four(tmp_path, corpus_of, tokenizers, monkeypatch):
    store, _ = PairStore.build(tmp_path / "small", corpus_of(PAIRS), *tokenizers, CONFIG)
    assert store.source(0).dtype == np.uint16

    class Large(Tokenizer):
        def __len__(self) -> int:
            return 70_000

        def encode_batch(self, texts, threads=1):
            return [[69_000 + len(text)] for text in texts]

    large = Large(tokenizers[0].model_bytes, "unigram", "identity")
    store, _ = PairStore.build(tmp_path / "large", corpus_of(PAIRS), large, tokenizers[1], CONFIG)
    assert store.source(0).dtype == np.uint32
    assert store.target(0).dtype == np.uint16
    assert store.source(0).tolist() == [69_000 + len(PAIRS[0][0]), 0]
    batch = make_batch(store, np.array([0, 1]), 69_999, 319, 319)
    assert batch.src.max() < 70_000


def test_rectangles_equal_rows(tmp_path, corpus_of, tokenizers):
    store, _ = PairStore.build(tmp_path / "store", corpus_of(PAIRS), *tokenizers, CONFIG)
    indices = np.array([7, 0, 11], np.int32)
    for side, row in ((0, store.source), (1, store.target)):
        for padded, i in zip(store.padded(side, indices, 999), indices, strict=True):
            assert padded[padded != 999].tolist() == row(int(i)).tolist()
    batch = make_batch(store, indices, 998, 999, 997)
    assert batch.src_tokens == sum(len(store.source(int(i))) for i in indices)
    assert (batch.src == 998).sum() == batch.src.size - batch.src_tokens


# --- used again, or not -----------------------------------------------------------------------------------------------


def count_builds(monkeypatch) -> list[int]:
    built: list[int] = []
    write = store_module._Writer.write
    monkeypatch.setattr(store_module._Writer, "write", lambda self, corpus: built.append(1) or write(self, corpus))
    return built


def test_a_store_is_used_again_while_nothing_changed(tmp_path, corpus_of, tokenizers, monkeypatch):
    built = count_builds(monkeypatch)
    place = tmp_path / "store"
    for pairs, config, models, builds in (
        (PAIRS, CONFIG, tokenizers, 1),
        (PAIRS, CONFIG, tokenizers, 1),
        (PAIRS, DataConfig(valid_pairs=3), tokenizers, 1),
        (PAIRS[:5], CONFIG, tokenizers, 2),
        (PAIRS[:5], DataConfig(max_tokens=30), tokenizers, 3),
        (PAIRS[:5], DataConfig(max_tokens=30, max_ratio=9), tokenizers, 4),
        (PAIRS[:5], DataConfig(max_tokens=30, max_ratio=9), tokenizers[::-1], 5),
        (PAIRS[:5], DataConfig(max_tokens=30, max_ratio=9), tokenizers[::-1], 5),
    ):
        store, _ = PairStore.build(place, corpus_of(pairs), *models, config)
        assert len(built) == builds
        assert texts(store, models) == pairs
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pairs.tsv", "store"]


@pytest.mark.parametrize("name", [*store_module.FILES, "meta.json"])
@pytest.mark.parametrize("damage", ["bit", "short", "absent", "empty"])
def test_a_damaged_store_is_refused_and_built_anew(tmp_path, corpus_of, tokenizers, name, damage):
    place = tmp_path / "store"
    corpus = corpus_of(PAIRS)
    PairStore.build(place, corpus, *tokenizers, CONFIG)
    file = place / name
    data = bytearray(file.read_bytes())
    if damage == "bit":
        data[len(data) // 2] ^= 4
    file.unlink()
    if damage != "absent":
        file.write_bytes({"bit": bytes(data), "short": bytes(data[:-2]), "empty": b""}[damage])
    if name != "meta.json" or damage != "bit":  # a changed bit there may be in the report
        with pytest.raises(DataError, match=r"damaged|no store of pairs"):
            PairStore.open(place)
        assert texts(PairStore.build(place, corpus, *tokenizers, CONFIG)[0], tokenizers) == PAIRS


def test_what_is_no_store_is_never_deleted(tmp_path, corpus_of, tokenizers):
    place = tmp_path / "store"
    place.mkdir()
    (place / "letters.txt").write_text("dear", encoding="utf-8")
    with pytest.raises(DataError, match="must be free for the store of pairs"):
        PairStore.build(place, corpus_of(PAIRS), *tokenizers, CONFIG)
    assert (place / "letters.txt").read_text(encoding="utf-8") == "dear"
    with pytest.raises(DataError, match="no store of pairs"):
        PairStore.open(place)


def test_an_empty_folder_may_take_the_store(tmp_path, corpus_of, tokenizers):
    (tmp_path / "store").mkdir()
    assert len(PairStore.build(tmp_path / "store", corpus_of(PAIRS), *tokenizers, CONFIG)[0]) == 12


def test_an_error_in_the_text_leaves_nothing_behind(tmp_path, corpus_of, tokenizers):
    place = tmp_path / "runs" / "store"
    corpus = corpus_of([*PAIRS, ("a", "b\tc")])
    with pytest.raises(DataError, match=r"pairs\.tsv:13: a line must have 2 columns"):
        PairStore.build(place, corpus, *tokenizers, CONFIG)
    assert list((tmp_path / "runs").iterdir()) == []


def test_the_old_store_stays_when_the_new_one_fails(tmp_path, corpus_of, tokenizers):
    PairStore.build(tmp_path / "store", corpus_of(PAIRS), *tokenizers, CONFIG)
    with pytest.raises(DataError, match="2 columns"):
        PairStore.build(tmp_path / "store", corpus_of([*PAIRS, ("a", "b\tc")]), *tokenizers, CONFIG)
    assert texts(PairStore.open(tmp_path / "store"), tokenizers) == PAIRS


BUILD = """
import sys, time
from pellucid.config import DataConfig
from pellucid.data import store
from pellucid.data.corpus import Corpus
from pellucid.data.tokenizer import Tokenizer
folder, step = sys.argv[1:]
if step == "full":
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
store.CHUNK_PAIRS = 10
tokenizer = Tokenizer.load(folder + "/t.model")
def pause(done):
    print(done, flush=True)
    if step == "slow": time.sleep(60)
corpus = Corpus.from_files([folder + "/pairs.tsv"], [], [], DataConfig())
try:
    store.PairStore.build(folder + "/store", corpus, tokenizer, tokenizer, DataConfig(), pause)
except store.DataError as error:
    print("DataError", error, error.hint)
    sys.exit(3)
"""


def start_build(folder: Path, step: str) -> subprocess.Popen[str]:
    source = Path(__file__).resolve().parents[2] / "src"
    environment = {**os.environ, "PYTHONPATH": str(source)}
    arguments = [sys.executable, "-c", BUILD, str(folder), step]
    return subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def build_folder(tmp_path, corpus_of, tokenizers) -> Path:
    tokenizers[0].save(tmp_path / "t.model")
    corpus_of(PAIRS * 400)
    return tmp_path


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_killed_build_leaves_no_store_and_is_cleared_away(build_folder, corpus_of, tokenizers):
    with start_build(build_folder, "slow") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert not (build_folder / "store").exists()
    left = [p for p in build_folder.iterdir() if p.name.startswith(".store.")]
    assert len(left) == 1
    with pytest.raises(DataError):
        PairStore.open(left[0])
    corpus = Corpus.from_files([str(build_folder / "pairs.tsv")], [], [], CONFIG)
    store, _ = PairStore.build(build_folder / "store", corpus, tokenizers[0], tokenizers[0], CONFIG)
    assert len(store) == 4800
    assert not [p for p in build_folder.iterdir() if p.name.startswith(".store.")]


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_kills_at_any_moment_leave_a_whole_store_or_none(build_folder):
    for delay in (0.0, 0.01, 0.03, 0.1):
        with start_build(build_folder, "fast") as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(delay)
            process.kill()
        if (build_folder / "store").exists():
            assert len(PairStore.open(build_folder / "store")) == 4800
    with start_build(build_folder, "fast") as process:
        process.communicate()
    assert process.returncode == 0
    assert len(PairStore.open(build_folder / "store")) == 4800


@pytest.mark.skipif(os.name != "posix", reason="needs resource limits")
def test_a_full_disk_is_an_error_and_leaves_no_store(build_folder):
    with start_build(build_folder, "full") as process:
        out, _ = process.communicate()
    assert process.returncode == 3
    assert "store: the pairs cannot be written: File too large" in out
    assert "free some space" in out
    assert sorted(p.name for p in build_folder.iterdir()) == ["pairs.tsv", "t.model"]


# --- memory -----------------------------------------------------------------------------------------------------------


def resident(path: Path) -> int:
    """KiB of `path` that this process holds in memory."""
    total, here = 0, False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        if "-" in line.split()[0] and not line.split()[0].endswith(":"):
            here = line.endswith(str(path))
        elif here and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux")
def test_release_gives_memory_back(tmp_path, corpus_of, tokenizers):
    corpus = corpus_of([(f"{a} {i}", b) for i in range(2000) for a, b in PAIRS])
    store, _ = PairStore.build(tmp_path / "store", corpus, *tokenizers, CONFIG)
    file = tmp_path / "store" / "source.ids"
    assert resident(file) == 0
    before = sum(int(store.source(i).sum()) for i in range(len(store)))
    assert resident(file) > 0.8 * file.stat().st_size / 1024
    store.release()
    assert resident(file) == 0
    assert sum(int(store.source(i).sum()) for i in range(len(store))) == before


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux")
def test_making_batches_keeps_memory_small(tmp_path, corpus_of, tokenizers, monkeypatch):
    corpus = corpus_of([(f"{a} {i}", b) for i in range(4000) for a, b in PAIRS])
    store, _ = PairStore.build(tmp_path / "store", corpus, *tokenizers, CONFIG)
    file = tmp_path / "store" / "source.ids"
    monkeypatch.setattr(store_module, "RESIDENT", 256 << 10)
    most = 0
    for i in range(0, len(store), 500):
        make_batch(store, np.array([i, len(store) - 1 - i]), 399, 319, 319)
        most = max(most, resident(file))
    assert most < 0.8 * file.stat().st_size / 1024


def test_the_meta_file_says_what_is_there(tmp_path, corpus_of, tokenizers):
    PairStore.build(tmp_path / "store", corpus_of(PAIRS), *tokenizers, CONFIG)
    meta = json.loads((tmp_path / "store" / "meta.json").read_text(encoding="utf-8"))
    assert meta["version"] == store_module.VERSION
    assert len(meta["fingerprint"]) == 64
    assert meta["dtypes"] == ["<u2", "<u2"]
    assert set(meta["files"]) == set(store_module.FILES)


def test_a_store_knows_how_many_pairs_each_input_has(tmp_path, tokenizers, monkeypatch):
    """Those that are kept, also where an input has none; and whoever looks is shown all that are read."""
    monkeypatch.setattr(store_module, "CHUNK_PAIRS", 2)
    inputs = {"a.tsv": [*PAIRS[:5], ("", "")], "b.tsv": [("", "")], "c.tsv": PAIRS[5:8]}
    for name, pairs in inputs.items():
        (tmp_path / name).write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    corpus = Corpus.from_files([str(tmp_path / name) for name in inputs], [], [], CONFIG)
    shown: list[tuple[str | None, str | None]] = []
    look = lambda pairs: shown.extend((pair.source, pair.target) for pair in pairs)  # noqa: E731
    store, _ = PairStore.build(tmp_path / "store", corpus, *tokenizers, CONFIG, look=look)
    assert store.parts == PairStore.open(tmp_path / "store").parts == (5, 0, 3)
    assert texts(store, tokenizers) == PAIRS[:8]
    assert shown == [pair for pairs in inputs.values() for pair in pairs]
    PairStore.build(tmp_path / "store", corpus, *tokenizers, CONFIG, look=look)
    assert len(shown) == 10  # found, not built again

"""The GPU's engine, as far as a machine without a GPU can tell: the same code on the CPU, with a tape for a CUDA graph."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounter
from torch.utils._python_dispatch import TorchDispatchMode

from engines.conftest import OPTIONS, PAD, SEARCHES, assert_same, model, sources, texts, walk
from pellucid.checkpoint import LoadedModel
from pellucid.config import SearchConfig
from pellucid.constrained_search import Phrase
from pellucid.engines.engine import make_engine
from pellucid.engines.linear import Float32Linear, bfloat16_pack
from pellucid.engines.search_engine import Request
from pellucid.engines.static_cache import CudaGraphs, Run, Shape, StaticEngine, StaticExecutor, agrees
from pellucid.errors import ConfigError, SearchError
from pellucid.model.transformer import DecoderState
from pellucid.search import Vocabulary
from pellucid.training.run import train
from pellucid.translator import Translator
from training.conftest import tiny, write_reversals


class Tape(TorchDispatchMode):
    """A CUDA graph without CUDA: the operations of one run, each repeated with the same tensors at the same addresses."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.calls: list[tuple] = []
        run()  # as `CudaGraphs` does
        with self:
            self.output = run()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        assert func is not torch.ops.aten._local_scalar_dense.default, (
            "a step that waits for the GPU cannot be recorded"
        )
        self.calls.append((func, args, kwargs or {}, found))
        return found

    def __call__(self) -> Tensor:
        for func, args, kwargs, before in self.calls:
            found = func(*args, **kwargs)
            for old, new in zip(*([x] if isinstance(x, Tensor) else x for x in (before, found)), strict=True):
                if old.data_ptr() != new.data_ptr():
                    old.copy_(new)
        return self.output


class Tapes:
    """Counts the steps that were recorded."""

    def __init__(self) -> None:
        self.shapes: list[Shape] = []

    def __call__(self, run: Run) -> Run:
        self.shapes.append(run.__self__.shape)
        return Tape(run)


def translator(loaded: LoadedModel, static: StaticExecutor) -> Translator:
    made = Translator(loaded)
    made.engine = StaticEngine("gpu", static, made.source_tokenizer.pad_id, made.vocabulary)
    return made


# --- the same numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [None, Tape], ids=["as written", "recorded"])
@pytest.mark.parametrize("name", OPTIONS)
def test_logits_after_every_step_and_reorder(name, record):
    """40 steps: past the end of the shortest shape; twice, so that the second time everything is replayed."""
    made = model(**OPTIONS[name])
    static = StaticExecutor(made, Float32Linear, record)
    for _ in range(2):
        src = sources(made.config.source_pad)
        walk(DecoderState(made, src), static.state(src), 40, 1e-5)


@pytest.mark.parametrize("length", [1, 15, 16, 17, 32, 33])
@torch.inference_mode()
def test_sources_around_the_edge_of_a_shape(length):
    made = model(max_len=64)
    static = StaticExecutor(made, Float32Linear, Tape)
    for sentences in (1, 2, 3, 4, 5):
        src = torch.randint(0, 22, (sentences, length))
        src[-1, 1:] = PAD
        right, found = DecoderState(made, src), static.state(src)
        for token in range(3):
            tokens = torch.full((sentences,), token)
            torch.testing.assert_close(found.step(tokens), right.step(tokens), rtol=0, atol=1e-5)


@torch.inference_mode()
def test_targets_around_the_edge_of_a_shape():
    """What was said in the shorter shape is still there in the longer one: 32, then 64 positions."""
    made = model(max_len=8)  # and the table of positions grows on the way
    src = torch.randint(0, 22, (2, 5))
    tapes = Tapes()
    right, found = DecoderState(made, src), StaticExecutor(made, Float32Linear, tapes).state(src)
    tokens = torch.tensor([PAD, PAD])
    for step in range(66):
        expected = right.step(tokens)
        torch.testing.assert_close(found.step(tokens), expected, rtol=0, atol=1e-5)
        assert [shape.target for shape in tapes.shapes] == [32, 64, 128][: 1 + (step >= 32) + (step >= 64)]
        tokens = expected.argmax(-1)


@torch.inference_mode()
def test_learned_positions_end_where_they_end():
    made = model(max_len=9, positions="learned")
    src = torch.randint(0, 38, (3, 9))
    state = StaticExecutor(made, Float32Linear).state(src)
    for _ in range(9):
        state.step(torch.zeros(3, dtype=torch.long))
    with pytest.raises(SearchError, match="learned positions up to 9 tokens"):
        state.step(torch.zeros(3, dtype=torch.long))


@torch.inference_mode()
def test_a_source_of_nothing_but_padding_is_finite_and_disturbs_no_other():
    made = model()
    src = sources()
    src[2] = PAD
    walk(DecoderState(made, src), StaticExecutor(made, Float32Linear).state(src), 10, 1e-5)


@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_finds_the_same(loaded, name):
    config = dataclasses.replace(loaded.search, **SEARCHES[name])
    some = texts(60)
    expected = Translator(loaded, "reference").translate(some, config)
    assert_same(translator(loaded, StaticExecutor(loaded.model, Float32Linear)).translate(some, config), expected)


@pytest.mark.parametrize("lines", [1, 2, 3, 8, 33])
def test_every_size_of_batch_with_prefixes(loaded, lines):
    some, prefixes = texts(40)[-lines:], ["", "red", "blue one"] * lines
    expected = Translator(loaded, "reference").translate(some, prefixes=prefixes[:lines])
    recorded = translator(loaded, StaticExecutor(loaded.model, Float32Linear, Tape))
    for _ in range(2):
        assert_same(recorded.translate(some, prefixes=prefixes[:lines]), expected)


@torch.inference_mode()
def test_fewer_hypotheses_than_there_were():
    """Rows of a sentence come and go, also together with a sentence; there is memory for as many as there ever were."""
    made, tapes = model(), Tapes()
    src = sources()
    right, found = DecoderState(made, src), StaticExecutor(made, Float32Linear, tapes).state(src)
    tokens = torch.tensor([PAD] * 3)
    moves = [
        ([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2], None), ([3, 1, 5, 4, 8, 11], None), ([1, 0, 1, 2, 2, 3, 5, 4, 5], None),
        ([0, 2, 7, 8], [0, 2]), ([3], [1]), ([0, 0], None),
    ]  # fmt: skip
    for rows, stay in moves:
        expected = right.step(tokens)
        torch.testing.assert_close(found.step(tokens), expected, rtol=0, atol=1e-5)
        for state in (right, found):
            state.reorder(torch.tensor(rows), None if stay is None else torch.tensor(stay))
        tokens = expected[rows].argmax(-1) + torch.arange(len(rows))  # different ones
    torch.testing.assert_close(found.step(tokens), right.step(tokens), rtol=0, atol=1e-5)
    assert [(shape.sentences, shape.rows) for shape in tapes.shapes] == [(4, 1), (4, 4), (2, 4), (1, 4)]


def test_phrases_that_must_be_said(loaded):
    """The number of hypotheses differs from step to step, and so do sentences with phrases and without."""
    phrases = [[Phrase((5, 9))], [], [Phrase((7,)), Phrase((8, 3))], []] * 2
    asked = Request([[3, 4, 6, 0]] * 8, [12] * 8, SearchConfig(beam_size=3), phrases=phrases)
    translator = Translator(loaded, "reference")
    expected = translator.engine.search(asked)
    found = engine(loaded, Tape).search(asked)
    assert [h[0].tokens for h in found] == [h[0].tokens for h in expected]
    assert [h[0].score for h in found] == pytest.approx([h[0].score for h in expected], abs=1e-4)


# --- bfloat16 -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A model that reverses words, nearly."""
    folder = tmp_path_factory.mktemp("static")
    config = tiny(batch_tokens=600, warmup_steps=60, peak_rate=0.005, max_updates=150, validate_bleu=False)
    train([str(write_reversals(folder / "pairs.tsv", 400))], out=folder / "model", config=config)
    return folder / "model"


def test_bfloat16_says_nearly_the_same(trained):
    reference = Translator.load(trained, engine="reference", threads=1)
    some = [line.split("\t")[0] for line in write_reversals(trained / "some.tsv", 60, seed=1).read_text().splitlines()]
    expected = reference.translate(some)
    found = translator(reference.loaded, StaticExecutor(reference.model, bfloat16_pack)).translate(some)
    same = [(a, b) for a, b in zip(found, expected, strict=True) if a.text == b.text]
    assert len(same) >= 0.95 * len(some)
    differences = [abs(a.alternatives[0].score - b.alternatives[0].score) for a, b in same]
    assert 0 < max(differences) < 0.05  # nats a token, or so: it is rounded, but no more than that


@torch.inference_mode()
def test_bfloat16_is_where_it_should_be_and_nowhere_else():
    """Products and caches; the logits are sums in float32, finer than bfloat16 could say them."""
    made = model()
    kinds: dict[str, torch.dtype] = {}

    def record(run: Run) -> Run:
        step = run.__self__
        kinds.update(own=step.own.dtype, cross=step.cross.dtype, output=run().dtype)
        return run

    logits = StaticExecutor(made, bfloat16_pack, record).state(sources()).step(torch.tensor([PAD, PAD, PAD]))
    assert kinds == {"own": torch.bfloat16, "cross": torch.bfloat16, "output": torch.float32}
    assert logits.dtype == torch.float32
    assert not torch.equal(logits, logits.bfloat16().float())


# --- recorded once ------------------------------------------------------------------------------------------------------


def request(lengths: list[int], **search: object) -> Request:
    """Sentences that each end after so many pieces: nothing but a forced prefix and the end mark."""
    prefixes = [[5] * (length - 1) for length in lengths]
    return Request([[3, 4, 0]] * len(lengths), lengths, SearchConfig(**search), prefixes)


def engine(loaded: LoadedModel, record: object, pack=Float32Linear) -> StaticEngine:
    static = StaticExecutor(loaded.model, pack, record)
    return StaticEngine("gpu", static, loaded.source_tokenizer.pad_id, Translator(loaded).vocabulary)


LARGE = [40] * 16
"""While memory grows, steps are made anew: after a search of this size it does not."""


@pytest.mark.parametrize("beam", [1, 3])
def test_a_step_is_recorded_once_for_each_shape(loaded, beam):
    tapes = Tapes()
    searcher = engine(loaded, tapes)
    searcher.search(request(LARGE, beam_size=beam))
    tapes.shapes.clear()
    asked = request([4, 7, 9, 12, 40], beam_size=beam)
    first = searcher.search(asked)
    for _ in range(2):
        assert 3 < len(tapes.shapes) == len(set(tapes.shapes)) < 8  # of more than 40 steps
        assert searcher.search(asked) == first


@pytest.mark.parametrize("beam", [1, 3])
def test_nothing_is_compiled_twice(loaded, beam):
    """The same count for a compiler: one graph a shape, whole, and none when the same comes again."""
    counter, shapes = CompileCounter(), []

    def record(run: Run) -> Run:
        shapes.append(run.__self__.shape)
        return torch.compile(run, backend=counter, fullgraph=True, dynamic=False) if grown else run

    grown = False
    searcher = engine(loaded, record)
    searcher.search(request(LARGE, beam_size=beam))
    shapes.clear()
    grown = True
    asked = request([4, 9, 12], beam_size=beam)
    plain = [[h.tokens for h in each] for each in engine(loaded, None).search(asked)]
    for _ in range(2):
        assert [[h.tokens for h in each] for each in searcher.search(asked)] == plain
        assert 1 < counter.frame_count == len(shapes) == len(set(shapes)) < 8


def test_who_has_finished_leaves_by_halves_and_not_at_every_step(loaded):
    """Sentences of 3 to 10 pieces: of eight places, one is free after another, but only three times does anything move."""
    tapes = Tapes()
    engine(loaded, tapes).search(request([3, 4, 5, 6, 7, 8, 9, 10], beam_size=1))
    assert [shape.sentences for shape in tapes.shapes] == [8, 4, 2, 1]
    tapes = Tapes()
    engine(loaded, tapes).search(request([3, 4, 5, 6, 7, 8, 9, 10], beam_size=3))
    assert [(shape.sentences, shape.rows) for shape in tapes.shapes] == [(8, 1), (8, 3), (4, 3), (2, 3), (1, 3)]


@torch.inference_mode()
def test_memory_stays_where_it_is(loaded):
    """From step to step and from search to search, and the sources' keys and values are not copied for a beam."""
    searches = [[40] * 8, [5, 9, 12], [40, 33], [3] * 8]
    addresses: dict[Shape, tuple[int, ...]] = {}

    def record(run: Run) -> Run:
        step = run.__self__

        def noted() -> Tensor:
            now = tuple(x.data_ptr() for x in (step.tokens, step.position, step.own, step.cross, step.mask))
            assert addresses.setdefault(step.shape, now) == now
            assert step.cross.size(2) == step.shape.sentences
            return run()

        return noted

    searcher = engine(loaded, record)
    searcher.search(request(searches[0], beam_size=3))  # the largest: memory grows
    addresses.clear()
    for lengths in searches:
        searcher.search(request(lengths, beam_size=3))
    assert len(addresses) > 5
    assert len(set(addresses.values())) == 1  # all shapes begin where the first does


class GpuThatIsNotThere:
    """Notes what is asked of `torch.cuda`, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        signature = inspect.signature(torch.cuda.graph)
        stream = SimpleNamespace(wait_stream=lambda other: self.calls.append("wait"))

        def graph(*arguments: object, **options: object) -> AbstractContextManager[None]:
            given = signature.bind(*arguments, **options).arguments
            assert (given["pool"], given["stream"], given["capture_error_mode"]) == ("pool", stream, "thread_local")
            return self.inside("record")

        for name, stand_in in {
            "graph_pool_handle": lambda: "pool", "Stream": lambda: stream, "current_stream": lambda: stream,
            "device": lambda device: nullcontext(), "stream": lambda stream: self.inside("aside"), "graph": graph,
            "CUDAGraph": lambda: SimpleNamespace(replay=lambda: self.calls.append("replay")),
        }.items():  # fmt: skip
            monkeypatch.setattr(torch.cuda, name, stand_in)

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        self.calls.append(name)
        yield
        self.calls.append(f"end of {name}")


def test_a_cuda_graph_is_recorded_after_a_rehearsal_and_then_replayed(monkeypatch):
    """What can be seen of it without CUDA: the order of things, and the result in the memory of the recording."""
    gpu = GpuThatIsNotThere(monkeypatch)
    outputs: list[Tensor] = []

    def run() -> Tensor:
        gpu.calls.append("run")
        outputs.append(torch.zeros(3))
        return outputs[-1]

    replay = CudaGraphs(torch.device("cuda"))(run)
    rehearsal = ["wait", "aside", "run", "end of aside", "wait"]
    assert gpu.calls == [*rehearsal, "record", "run", "end of record"]
    gpu.calls.clear()
    assert replay() is replay() is outputs[1]
    assert gpu.calls == ["replay", "replay"]


# --- which engine it is -------------------------------------------------------------------------------------------------


def broken(name: str, weight: Tensor, bias: Tensor | None, relu: bool = False) -> object:
    """One map of the decoder is not what it should be."""
    return Float32Linear(name, -weight if name == "decoder.0.qkv" else weight, bias, relu)


def fails(run: Run) -> Run:
    raise RuntimeError("CUDA error: operation not permitted when stream is capturing")


def stuck(run: Run) -> Run:
    """Replays what is no step at all."""
    output = run().clone()
    return lambda: output


@pytest.mark.parametrize("name", OPTIONS)
def test_a_trial_passes_what_works(name):
    made = model(**OPTIONS[name])
    assert agrees(StaticExecutor(made, Float32Linear, Tape), made)
    assert agrees(StaticExecutor(made, bfloat16_pack, Tape), made)


@pytest.mark.parametrize(("pack", "record"), [(broken, None), (Float32Linear, fails), (Float32Linear, stuck)])
def test_a_trial_finds_what_does_not(pack, record, loaded):
    made = loaded.model
    assert not agrees(StaticExecutor(made, pack, record), made)


@pytest.mark.parametrize("pack", [Float32Linear, bfloat16_pack])
@torch.inference_mode()
def test_every_tensor_is_where_the_model_is(pack):
    """The CPU plays the GPU: what is made without saying where has no numbers, and would spoil what it meets."""
    made, src = model(), sources()
    right, static = StaticExecutor(made, pack).state(src), StaticExecutor(made, pack)
    tokens = torch.tensor([PAD, PAD, PAD])
    rows, stay = torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([2])
    with torch.device("meta"):
        assert torch.zeros(1).is_meta
        found = static.state(src)
        for _ in range(34):
            torch.testing.assert_close(found.step(tokens), right.step(tokens), rtol=0, atol=0)
        for state in (found, right):
            state.reorder(rows)
            state.reorder(rows[4:], stay)
        torch.testing.assert_close(found.step(tokens[:2]), right.step(tokens[:2]), rtol=0, atol=0)


@pytest.mark.parametrize("works", [True, False])
@pytest.mark.parametrize("has_bfloat16", [True, False])
def test_auto_takes_it_on_a_gpu_if_it_works(has_bfloat16, works, monkeypatch):
    packs = []
    gpu = SimpleNamespace(output=SimpleNamespace(weight=SimpleNamespace(device=torch.device("cuda"))))
    static = SimpleNamespace(state=None, device=torch.device("cuda"))
    monkeypatch.setattr("pellucid.engines.engine.multiplies_bfloat16", lambda device: has_bfloat16)
    monkeypatch.setattr("pellucid.engines.engine.StaticExecutor", lambda model, pack: packs.append(pack) or static)
    monkeypatch.setattr("pellucid.engines.engine.agrees", lambda static, model: works)
    name = make_engine("auto", gpu, 1, Vocabulary(0, 1)).name
    assert name == (("gpu" if has_bfloat16 else "gpu-float32") if works else "reference")
    assert make_engine("gpu", gpu, 1, Vocabulary(0, 1)).name == "gpu"
    assert packs == [bfloat16_pack if has_bfloat16 else Float32Linear, bfloat16_pack]
    with pytest.raises(ConfigError, match="'torch' is for a CPU, but the device is cuda"):
        make_engine("torch", gpu, 1, Vocabulary(0, 1))


def test_a_cpu_never_takes_it(loaded):
    with pytest.raises(ConfigError, match="'gpu' is for CUDA, but the device is cpu") as raised:
        Translator(loaded, "gpu").translate(["red"])
    assert raised.value.hint == "--engine auto"
    assert not Translator(loaded).engine.name.startswith("gpu")

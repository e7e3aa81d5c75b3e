"""What looking inside costs: a base model (6 + 6 layers, 8 heads, random weights), sentences of 40 and 80 tokens; the labs.

    python benchmarks/inspection.py

The thumbnails' time in a browser is printed by `npm run browser` in web/.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch

import pellucid  # noqa: F401  (sets GOMP_SPINCOUNT before torch is loaded)
from pellucid.checkpoint import LoadedModel
from pellucid.config import SearchConfig, TransformerConfig
from pellucid.data.tokenizer import Tokenizer
from pellucid.inspection.encoding import trace_json
from pellucid.inspection.labs import catalogue
from pellucid.inspection.trace import trace
from pellucid.model.transformer import Transformer
from pellucid.translator import Translator

WORDS = [
    "the",
    "old",
    "dog",
    "sees",
    "two",
    "birds",
    "near",
    "a",
    "river",
    "and",
    "many",
    "green",
    "hills",
    "under",
    "one",
    "tall",
    "tree",
]


def base_model() -> Translator:
    """The paper's base model, untrained; every word is one piece."""
    torch.manual_seed(0)
    tokenizer = Tokenizer.train([" ".join(WORDS)] * 3, kind="word", vocab_size=100)
    size = len(tokenizer)
    config = TransformerConfig(size, size, pad_id=tokenizer.pad_id, start_id=tokenizer.pad_id, share_embeddings="all")
    model = Transformer.from_config(config).eval()
    return Translator(LoadedModel(model, tokenizer, tokenizer, SearchConfig(), "en", "en"), "torch")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    translator = base_model()
    for tokens in (40, 80):
        text = " ".join(WORDS[i % len(WORDS)] for i in range(tokens - 1))
        target = " ".join(WORDS[-1 - i % len(WORDS)] for i in range(tokens - 1))
        seconds, size = [], 0
        for _ in range(options.rounds):
            started = time.perf_counter()
            found = trace(translator, text, target)  # no search: what is added to the translation
            written = json.dumps(trace_json(found), ensure_ascii=False, separators=(",", ":"))
            seconds.append(time.perf_counter() - started)
            size = len(written.encode())
        assert found.cross.weights.shape == (6, 8, tokens, tokens)
        print(
            f"{tokens} tokens: {size / 1e6:.2f} MB without the beam, {statistics.median(seconds):.2f} s after the translation"
        )
    started, used = time.perf_counter(), time.process_time()
    for lab in catalogue.LABS:
        lab.run()
    clock, processor = time.perf_counter() - started, time.process_time() - used
    print(f"all {len(catalogue.LABS)} labs: {clock:.1f} s, {processor:.1f} s of processor time")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Share of real prompts with more tokens than their estimated upper bound.

    .venv/bin/python -m bench.studies.token_bounds --data DIR [BENCHMARK]...

Words of up to five letters, and punctuation marks, replace the tokens of a tokenizer. The bound is estimated from some
random prompts of a benchmark, as a run estimates it from its completions, and checked on all others; 200 times.
"""

from __future__ import annotations

import argparse
import os
import random
import re
from collections.abc import Sequence
from pathlib import Path

from medhelm.analysis.cost import learn_token_ratio
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.prompts import render
from medhelm.errors import MissingError
from medhelm.results.formats.tables import render as table
from medhelm.scoring.metrics import METRIC_NAMES

TOKEN = re.compile(r"\w{1,5}|[^\w\s]")
SEEN = (8, 100)
"""Prompts to learn from: the fewest that a run estimates from, and as many as it reads from a store."""

TIMES = 200


def beyond(characters: Sequence[int], tokens: Sequence[int], seen: int, rng: random.Random) -> float:
    """Return the share of unseen prompts that have more tokens than their bound, 0..1."""
    chosen = set(rng.sample(range(len(tokens)), seen))
    factor = learn_token_ratio([characters[i] for i in chosen], [tokens[i] for i in chosen], "")
    assert factor is not None, "prompts have characters"
    others = [i for i in range(len(tokens)) if i not in chosen]
    return sum(tokens[i] > factor.most * characters[i] for i in others) / len(others)


def main() -> None:
    """Print a table in Markdown."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("benchmarks", nargs="*", default=["all"])
    options.add_argument("--data", type=Path, default=os.environ.get("MEDHELM_DATA"))
    chosen = options.parse_args()
    rows = []
    for benchmark in load_benchmarks(chosen.benchmarks, metrics=METRIC_NAMES):
        try:
            dataset = open_dataset(benchmark, data=chosen.data, tier="real")
        except MissingError:
            continue
        texts = ["".join(message.text for message in render(benchmark, one).messages) for one in dataset]
        characters, tokens = [len(text) for text in texts], [len(TOKEN.findall(text)) for text in texts]
        rng = random.Random(0)
        shares = [
            sum(beyond(characters, tokens, seen, rng) for _ in range(TIMES)) / TIMES if seen < len(texts) else None
            for seen in SEEN
        ]
        shown = [None if share is None else f"{100 * share:.1f} %" for share in shares]
        rows.append([benchmark.name, f"{len(texts):,}", *shown])
    print(table(rows, ["benchmark", "prompts", *(f"beyond, learned from {seen}" for seen in SEEN)], format="md"))


if __name__ == "__main__":
    main()

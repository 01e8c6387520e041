#!/usr/bin/env python3
"""How many prompts have more tokens than the most that they are taken to have, on real data.

    .venv/bin/python bench/studies/token_bounds.py --data DIR [BENCHMARK]...

In the place of a tokenizer stand words of up to five letters, and signs. What is known is learned from some prompts of
a benchmark drawn at random, as a run learns it from its answers, and held against all others; 200 times.
"""

from __future__ import annotations

import argparse
import os
import random
import re
from collections.abc import Sequence
from pathlib import Path

from medhelm.analysis.plan import learn_factor
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.dataset import open_dataset
from medhelm.errors import MissingError
from medhelm.prompting import render
from medhelm.reports.tables import render as table
from medhelm.scoring.metrics import METRIC_NAMES

TOKEN = re.compile(r"\w{1,5}|[^\w\s]")
SEEN = (8, 100)
"""Prompts that are learned from: when a run begins to go by its own answers, and as many as are read from a store."""

TIMES = 200


def beyond(characters: Sequence[int], tokens: Sequence[int], seen: int, rng: random.Random) -> float:
    """Of the prompts that were not seen, how many have more tokens than the most they are taken to have, 0..1."""
    chosen = set(rng.sample(range(len(tokens)), seen))
    factor = learn_factor([characters[i] for i in chosen], [tokens[i] for i in chosen], "")
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

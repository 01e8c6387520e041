#!/usr/bin/env python3
"""How much of what is sent was sent just before: what the prefix caches of providers can save.

    .venv/bin/python bench/prefixes.py --data DIR [BENCHMARK]...

Providers keep the beginning of a prompt for some minutes and charge less for it when it comes again: from 1,024 tokens
on, in steps of 128. Counted is what each prompt shares with the one sent before it, in the order of the data and in the
order in which neighbours share the most, which is that of the alphabet.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.dataset import open_dataset
from medhelm.domain import JURY, Benchmark
from medhelm.errors import MissingError
from medhelm.prompting import render
from medhelm.reports.tables import render as table
from medhelm.scoring.jury.prompts import asks
from medhelm.scoring.metrics import METRIC_NAMES

CHARACTERS_PER_TOKEN = 4
LEAST, STEP = 1024 * CHARACTERS_PER_TOKEN, 128 * CHARACTERS_PER_TOKEN
"""Characters from which on a prefix is kept, and how finely it is measured."""

REPLY = "The patient should see a clinician. " * 50
"""What judges read in the place of a completion: 1,800 characters."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Of the characters of some prompts, how many stand in a prefix that was sent just before, 0..1."""

    n: int
    """Prompts."""
    characters: int
    """Their mean length."""
    in_order: float
    """In the order they are sent."""
    at_best: float
    """In the best order."""
    kept_in_order: float
    """Long enough for a provider to keep it, in the order they are sent."""
    kept_at_best: float
    """The same in the best order."""


def shares(prompts: Sequence[str]) -> Shares:
    """What `prompts` share with their neighbours; at least one prompt."""
    whole = sum(map(len, prompts))
    found, best = list(_shared(prompts)), list(_shared(sorted(prompts)))
    return Shares(
        n=len(prompts),
        characters=round(whole / len(prompts)),
        in_order=sum(found) / whole,
        at_best=sum(best) / whole,
        kept_in_order=sum(map(_kept, found)) / whole,
        kept_at_best=sum(map(_kept, best)) / whole,
    )


def _shared(prompts: Sequence[str]) -> Iterator[int]:
    return (len(os.path.commonprefix(pair)) for pair in pairwise(prompts))  # noqa: RUF071 - these are no paths


def _kept(characters: int) -> int:
    return characters // STEP * STEP if characters >= LEAST else 0


def to_models(benchmark: Benchmark, data: Path | None) -> list[str]:
    """Every prompt of a benchmark, in the order in which it is sent."""
    dataset = open_dataset(benchmark, data=data, tier="real")
    return ["\n".join(message.text for message in render(benchmark, one).messages) for one in dataset]


def to_judges(benchmark: Benchmark, data: Path | None) -> list[str]:
    """Every prompt of a judge about completions of usual length; none where nobody judges."""
    if JURY not in benchmark.metrics:
        return []
    dataset = open_dataset(benchmark, data=data, tier="real")
    return ["\n".join(m.text for m in ask.prompt.messages) for one in dataset for ask in asks(benchmark, one, REPLY)]


def main() -> None:
    """Print a table in Markdown."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("benchmarks", nargs="*", default=["all"])
    options.add_argument("--data", type=Path, default=os.environ.get("MEDHELM_DATA"))
    chosen = options.parse_args()
    rows = []
    for benchmark in load_benchmarks(chosen.benchmarks, metrics=METRIC_NAMES):
        for who, prompts_of in (("", to_models), (", judges", to_judges)):
            try:
                prompts = prompts_of(benchmark, chosen.data)
            except MissingError:
                continue
            if prompts:
                found = shares(prompts)
                parts = (found.in_order, found.at_best, found.kept_in_order, found.kept_at_best)
                name = f"{benchmark.name}{who}"
                rows.append([name, f"{found.n:,}", f"{found.characters:,}", *(f"{100 * part:.1f} %" for part in parts)])
    headers = ["prompts", "n", "characters", "shared as sent", "at best", "kept as sent", "at best"]
    print(table(rows, headers, format="md"))


if __name__ == "__main__":
    main()

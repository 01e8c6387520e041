#!/usr/bin/env python3
"""Savings of providers' prompt caches on real prompts, in the order in which they are sent.

    .venv/bin/python -m bench.studies.prefixes --data DIR [BENCHMARK]...

Counted in characters, at Anthropic's rates: a quarter more than the price of input for what is written into the cache,
a tenth of it for what is read from there. A prefix counts from 2,560 characters on. Providers count tokens, and cache
nothing below 1,024 to 4,096 of them, depending on the model.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.benchmarks.prompts import render
from medhelm.domain import JURY, Prompt
from medhelm.errors import MissingError
from medhelm.evaluation.requests import in_request_order
from medhelm.models.prompt_caching import CachePrices, shared_prefix
from medhelm.results.formats.tables import render as table
from medhelm.scoring.jury.prompts import judge_prompts
from medhelm.scoring.metrics import METRIC_NAMES

RATES = CachePrices(read=0.1, write=1.25)
REPLY = "The patient should see a clinician. " * 50
"""Completion that the judges score: 1,800 characters."""

Sent = tuple[str, int]
"""A prompt, and the length of its shared prefix in characters."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Shared prefixes of some prompts, and their savings."""

    n: int
    """Number of prompts."""
    characters: int
    """Mean length of a prompt."""
    in_groups: float
    """Share of prompts with a prefix in common with others, 0..1."""
    shared: float
    """Share of all characters in these prefixes, 0..1."""
    saved: float
    """Share of the price of all input that the cache saves, below 1."""


def shares(sent: Sequence[Sent], rates: CachePrices = RATES) -> Shares:
    """Compute the savings if the cache keeps each prefix from its first prompt on. Needs at least one prompt."""
    whole, paid, known = sum(len(text) for text, _ in sent), 0.0, set[str]()
    for text, length in sent:
        opening = text[:length]
        paid += len(text) - length + length * (rates.read if opening in known else rates.write)
        known.add(opening)
    return Shares(
        n=len(sent),
        characters=round(whole / len(sent)),
        in_groups=sum(length > 0 for _, length in sent) / len(sent),
        shared=sum(length for _, length in sent) / whole,
        saved=1 - paid / whole,
    )


def to_models(dataset: Dataset) -> Iterator[Sent]:
    """Yield every prompt of a benchmark, in the order of sending."""
    for question in in_request_order(dataset.benchmark, dataset, RATES):
        yield _text(render(dataset.benchmark, question.instance)), question.shared


def to_judges(dataset: Dataset) -> Iterator[Sent]:
    """Yield every prompt to a judge, for completions of usual length; nothing for benchmarks without a jury."""
    for instance in dataset if JURY in dataset.benchmark.metrics else ():
        texts = [_text(ask.prompt) for ask in judge_prompts(dataset.benchmark, instance, REPLY)]
        length = shared_prefix(texts, RATES)
        yield from ((text, length) for text in texts)


def _text(prompt: Prompt) -> str:
    return "".join(message.text for message in prompt.messages)


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
        for who, sent in (("", list(to_models(dataset))), (", judges", list(to_judges(dataset)))):
            if sent:
                found = shares(sent)
                parts = [f"{100 * part:.1f} %" for part in (found.in_groups, found.shared, found.saved)]
                rows.append([f"{benchmark.name}{who}", f"{found.n:,}", f"{found.characters:,}", *parts])
    headers = ["prompts", "n", "characters", "in groups", "characters shared", "price of input saved"]
    print(table(rows, headers, format="md"))


if __name__ == "__main__":
    main()

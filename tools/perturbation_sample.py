"""Draw changed instances of public benchmarks for reading, as Markdown with the changes marked.

    python -m tools.perturbation_sample --data DIR [--n 300] [--seed 0] [--perturb NAME,...]

Read each: does the text mean what it meant, so that the stated expectation is true, and is it still natural?
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import chain, islice, zip_longest
from pathlib import Path
from random import Random

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import availability, open_dataset
from medhelm.benchmarks.prompts import render
from medhelm.domain import Benchmark, Instance
from medhelm.extensions.variants.listing import perturbation_variant
from medhelm.extensions.variants.perturbations import perturbations
from medhelm.scoring.metrics import METRIC_NAMES

CONTEXT = 8
"""Unchanged words to show on either side of a change."""


def words(text: str) -> list[str]:
    """Return the words, the spaces and the signs of a text."""
    return re.findall(r"\w+|\s+|[^\w\s]", text)


def marked(old: list[str], new: list[str]) -> str:
    """Return the changes with some words around each: what goes is struck out, what comes is bold."""
    parts: list[str] = []
    for kind, start, end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            goes, comes = "".join(old[start:end]), "".join(new[new_start:new_end])
            parts.append((f"~~{goes}~~" if goes else "") + (f"**{comes}**" if comes else ""))
        elif end - start <= 4 * CONTEXT:
            parts += old[start:end]
        else:
            parts += [*old[start : start + 2 * CONTEXT], "…", *old[end - 2 * CONTEXT : end]]
    return "".join(parts)


def shown(benchmark: Benchmark, instance: Instance) -> list[str]:
    """Return the words of a prompt and of the expected completion."""
    prompt = "\n".join(message.text for message in render(benchmark, instance).messages)
    return words(f"{prompt}\n[expected: {instance.expected[:80]}]")


def changed(benchmark: Benchmark, data: Path, name: str, seed: int) -> Iterator[str]:
    """Yield the changed instances of a benchmark in random order."""
    variant = perturbation_variant(perturbations()[name], benchmark, seed)
    new_benchmark = variant.benchmark(benchmark) if variant.benchmark else benchmark
    instances = list(open_dataset(benchmark, data=data, tier="real"))
    for old in Random(f"{seed}:{benchmark.name}:{name}").sample(instances, len(instances)):
        new = variant.instance(old) if variant.instance else None
        if new:
            text = marked(shown(benchmark, old), shown(new_benchmark, new))
            yield f"## {benchmark.name} {old.id}: {name} ({perturbations()[name].expectation})\n\n{text}\n"


def main() -> None:
    """Draw one instance of each pair of a benchmark and a perturbation in turn, until there are enough."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--perturb", default=",".join(perturbations()))
    options = parser.parse_args()
    names = [
        (benchmark, name)
        for benchmark in load_benchmarks(["public"], metrics=METRIC_NAMES)
        if availability(benchmark, options.data).is_usable
        for name in options.perturb.split(",")
        if name not in benchmark.forbidden_perturbations
    ]
    drawn = [changed(benchmark, options.data, name, options.seed) for benchmark, name in names]
    Random(options.seed).shuffle(drawn)
    turns = chain.from_iterable(zip_longest(*drawn))
    print("\n".join(islice(filter(None, turns), options.n)))


if __name__ == "__main__":
    main()

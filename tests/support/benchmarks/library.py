"""The benchmarks that ship, for tests: definitions, sample rows and real data, each read once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import medhelm
from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.benchmarks.data.sample_rows import write_files
from medhelm.benchmarks.data.sampling import SampleOptions
from medhelm.benchmarks.definition import read_definition
from medhelm.benchmarks.hooks import load_hook
from medhelm.benchmarks.prompts import render
from medhelm.benchmarks.suites import load_suite
from medhelm.domain import Benchmark, Instance
from medhelm.scoring.metrics import METRIC_NAMES

LIBRARY = Path(medhelm.__file__).parent / "benchmarks" / "library"
"""The folder with one folder per benchmark."""

SHIPPED = tuple(sorted(path.parent.name for path in LIBRARY.glob("*/benchmark.yaml")))
"""All benchmarks that ship."""

NAMES = tuple(name for name in SHIPPED if name in {entry.name for entry in load_suite()})
"""Those of the suite."""


@cache
def benchmark(name: str) -> Benchmark:
    """Read a definition."""
    return read_definition(LIBRARY / name, metrics=METRIC_NAMES)


@cache
def sample_tier(name: str) -> tuple[Instance, ...]:
    """Return the instances made of the sample rows."""
    return tuple(open_dataset(benchmark(name), data=None, tier="sample"))


@cache
def real(name: str, sample: str, data: Path) -> Dataset:
    """Open the real data."""
    return open_dataset(benchmark(name), data=data, tier="real", options=SampleOptions(sample=sample))


def prompt_text(name: str, instance: Instance) -> str:
    """Return the whole prompt as text."""
    return "\n".join(message.text for message in render(benchmark(name), instance).messages)


def hook(name: str, rows: Iterable[Mapping[str, object]], **choice: str) -> list[Mapping[str, object]]:
    """Pass raw rows through the hook of a benchmark."""
    return list(load_hook(LIBRARY / name / "hooks.py")(iter(rows), **choice))


def written(name: str, rows: Iterable[Mapping[str, object]], data: Path) -> Path:
    """Write rows as the data files of a benchmark below the data folder `data`; return their folder."""
    write_files(rows, data / name, benchmark=benchmark(name))
    return data / name


def sequences(texts: Iterable[str], length: int) -> Iterator[tuple[str, ...]]:
    """Yield every sequence of `length` words."""
    for text in texts:
        words = re.sub(r"\W+", " ", text.lower()).split()
        yield from zip(*(words[i:] for i in range(length)), strict=False)

"""Published results shipped with MedHELM: scores, token counts and prices of nine models on 37 benchmarks.

The files hold numbers and names only; `sources.yaml` names their sources.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from medhelm.domain import Price
from medhelm.io.package_yaml import read_package_yaml

FOLDER = Path(__file__).parent
"""Folder of the files."""

PRICES_DATE = date(2025, 5, 12)
"""Day of the prices behind the published costs."""

REASONING_LIMIT = 4000
"""Limit on a completion of a reasoning model, in tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedModel:
    """A published model."""

    key: str
    """Name in the files of this folder, such as `gpt_4o`."""
    name: str
    """Name for people, as in the published table."""
    model: str
    """The version that was evaluated, as `PROVIDER/NAME`."""
    developer: str
    """Developer of the model."""
    released: date
    """Release date."""
    window: int
    """Context window in tokens."""
    reasoning: bool
    """True for a reasoning model, whose completions were limited to REASONING_LIMIT."""
    judge: bool
    """True if it was also a judge of the published jury."""
    win_rate: float
    """Mean win rate over 37 benchmarks as published, three decimals."""
    price: Price
    """US dollars per million tokens behind the published costs."""
    printed_price: Price | None
    """Price in the paper's table of prices; None if it is the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBenchmark:
    """A benchmark of the published results."""

    name: str
    """Id of the benchmark."""
    metric: str
    """Name of the metric."""
    question_type: Literal["open", "closed"]
    """`open` for completions graded by a jury."""
    instances: int
    """Instances that most models were run on."""
    scored: int
    """Instances behind the mean; in MedQA fewer than were run."""
    max_tokens: int
    """Limit on a completion of a model without reasoning, in tokens."""
    runs: int
    """Runs behind the published mean."""
    independent: int | None
    """Independent instances if clusters count as one; None if unknown, or if the mean is not a share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedScore:
    """One model on one benchmark, as published."""

    model: str
    """Key of the model."""
    benchmark: str
    """Id of the benchmark."""
    value: float
    """Mean score in the unit of the metric, three decimals."""
    instances: int
    """Instances that the model was run on."""
    scored: int
    """Instances behind the mean."""
    input_tokens: int
    """Tokens of all prompts."""
    output_tokens: int
    """Upper bound of the tokens of all completions: requests x limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedResults:
    """All published results."""

    models: Mapping[str, PublishedModel]
    """Key -> model, in the order of the published table."""
    benchmarks: Mapping[str, PublishedBenchmark]
    """Id -> benchmark, in the order of the suite."""
    scores: Mapping[tuple[str, str], PublishedScore]
    """Key of the model and id of the benchmark -> score."""
    sources: Mapping[str, Any]
    """Sources of the numbers."""

    @property
    def jury(self) -> tuple[PublishedModel, ...]:
        """Models that judged all open questions."""
        return tuple(model for model in self.models.values() if model.judge)


@cache
def load_results() -> PublishedResults:
    """Read the files, once."""
    models = {key: _model(key, entry) for key, entry in _yaml("models.yaml").items()}
    benchmarks = {row["benchmark"]: _benchmark(row) for row in _rows("benchmarks.csv")}
    values = {(key, row["benchmark"]): float(row[key]) for row in _rows("scores.csv") for key in models}
    scores = {
        (row["model"], row["benchmark"]): PublishedScore(
            model=row["model"],
            benchmark=row["benchmark"],
            value=values[row["model"], row["benchmark"]],
            instances=int(row["instances"]),
            scored=_scored(int(row["instances"]), benchmarks[row["benchmark"]]),
            input_tokens=int(row["input_tokens"]),
            output_tokens=int(row["output_tokens"]),
        )
        for row in _rows("tokens.csv")
    }
    return PublishedResults(
        models=MappingProxyType(models),
        benchmarks=MappingProxyType(benchmarks),
        scores=MappingProxyType(scores),
        sources=MappingProxyType(_yaml("sources.yaml")),
    )


def _rows(name: str) -> Iterator[dict[str, str]]:
    """Read a CSV file of this folder."""
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _yaml(name: str) -> dict[str, Any]:
    """Read a YAML file of this folder."""
    content: dict[str, Any] = read_package_yaml(FOLDER / name)
    return content


def _model(key: str, entry: Mapping[str, Any]) -> PublishedModel:
    rest = {name: value for name, value in entry.items() if name not in ("price", "printed_price")}
    printed = entry.get("printed_price")
    return PublishedModel(
        key=key,
        **rest,
        price=_price(entry["price"], "published costs"),
        printed_price=_price(printed, "table of prices in the paper") if printed else None,
    )


def _price(entry: Mapping[str, float], where: str) -> Price:
    return Price(input=entry["input"], output=entry["output"], source=f"{where}, {PRICES_DATE.isoformat()}")


def _scored(instances: int, benchmark: PublishedBenchmark) -> int:
    """Return the number of instances behind a mean."""
    return benchmark.scored if instances == benchmark.instances else instances


def _benchmark(row: Mapping[str, str]) -> PublishedBenchmark:
    return PublishedBenchmark(
        name=row["benchmark"],
        metric=row["metric"],
        question_type="open" if row["question_type"] == "open" else "closed",
        instances=int(row["instances"]),
        scored=int(row["scored"]),
        max_tokens=int(row["max_tokens"]),
        runs=int(row["runs"]),
        independent=int(row["independent"]) if row["independent"] else None,
    )

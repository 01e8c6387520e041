"""Published results shipped with MedHELM: scores, token counts and prices of nine models on 37 benchmarks.

Numbers and names only, in the layout of this project; `sources.yaml` says where each of them comes from.
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

import yaml

from medhelm.domain import Price

FOLDER = Path(__file__).parent
"""Folder of the files."""

PRICES_DATE = date(2025, 5, 12)
"""The day whose prices the published costs were reckoned with."""

REASONING_LIMIT = 4000
"""Tokens that a reasoning model was allowed for every answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedModel:
    """One of the nine models."""

    key: str
    """Its name in the files of this folder, such as `gpt_4o`."""
    name: str
    """Name for people, as in the published table."""
    model: str
    """The version that was evaluated, as `PROVIDER/NAME`."""
    developer: str
    """Developer of the model."""
    released: date
    """Release date."""
    window: int
    """Tokens that prompt and completion could have together."""
    reasoning: bool
    """True if it thinks first: it was allowed 4000 tokens for every answer."""
    judge: bool
    """True if it sat in the published jury too."""
    win_rate: float
    """Mean win rate over 37 benchmarks as published, three decimals."""
    price: Price
    """US dollars per million tokens behind the published costs."""
    printed_price: Price | None
    """Price in the paper's table of prices; None if it is the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBenchmark:
    """One of the 37 benchmarks, as it was measured."""

    name: str
    """Id of the benchmark."""
    metric: str
    """Our name of the metric."""
    question_type: Literal["open", "closed"]
    """True if a jury graded it (`open`)."""
    instances: int
    """Test instances of most models."""
    scored: int
    """Instances behind the mean; in MedQA fewer than were run and paid for."""
    max_tokens: int
    """Limit on a completion of a model that does not reason."""
    runs: int
    """Runs behind the published mean."""
    independent: int | None
    """Independent instances if answers within a cluster are all alike; None where it is not known or means nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedScore:
    """One model on one benchmark, as published."""

    model: str
    """Key of the model."""
    benchmark: str
    """Id of the benchmark."""
    value: float
    """Mean score in the metric's own unit, three decimals."""
    instances: int
    """Test instances that were asked."""
    scored: int
    """Instances behind the mean."""
    input_tokens: int
    """Tokens of all prompts."""
    output_tokens: int
    """Upper bound of the tokens of all completions: requests x limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedResults:
    """Everything that was published of the nine models."""

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
        """The models that graded all open questions."""
        return tuple(model for model in self.models.values() if model.judge)


@cache
def load_results() -> PublishedResults:
    """Read the files; once, because they do not change."""
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
    """Rows of a CSV file of this folder."""
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _yaml(name: str) -> dict[str, Any]:
    """A YAML file of this folder."""
    content: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
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
    """Of the instances that a model was asked, those that its mean is over."""
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

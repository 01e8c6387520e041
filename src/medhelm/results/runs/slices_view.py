"""Scores by slice as tables, sentences and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from medhelm.analysis.comparison.significance import LEVEL, Adjustment
from medhelm.analysis.leaderboard.cells import Column
from medhelm.analysis.slices import SliceDifference, SlicedModel, SliceGap, SliceScore
from medhelm.results.comparison import ADJUSTED
from medhelm.results.formats.fields import (
    Field,
    columns_of,
    fields_json,
    fields_schema,
    fields_table,
    flat_interval,
    list_field,
    rounded_rows,
)
from medhelm.results.formats.tables import decimal, estimate_text, p_text, render, score_decimals
from medhelm.results.runs.slices import SlicedBenchmark, SlicedPair

_NO_GAP = "fewer than two slices have an interval"
_NO_ESTIMATE = "see the reason"


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One model on a benchmark, with its slices."""

    benchmark: Column
    by: str
    found: SlicedModel


@dataclass(frozen=True, slots=True)
class SliceRow:
    """One model on a slice."""

    benchmark: Column
    by: str
    model: str
    found: SliceScore


@dataclass(frozen=True, slots=True)
class PairRow:
    """Two models on a slice."""

    pair: SlicedPair
    found: SliceDifference


GAP_FIELDS: list[Field[SliceGap]] = [
    Field("value", lambda gap: gap.value, meaning="Best slice minus worst one, on a scale from 0 (worst) to 1 (best)."),
    Field("low", lambda gap: gap.low, meaning="Lower end of the 95% interval of the true largest gap."),
    Field("high", lambda gap: gap.high, meaning="Upper end of the 95% interval of the true largest gap."),
    Field("best", lambda gap: gap.best, kind="text", meaning="Slice with the best mean."),
    Field("worst", lambda gap: gap.worst, kind="text", meaning="Slice with the worst mean."),
]
"""The gap between the best and the worst slice."""

SCORE_FIELDS: list[Field[SliceRow]] = [
    Field("benchmark", lambda row: row.benchmark.benchmark, kind="text", in_json=False),
    Field("by", lambda row: row.by, kind="text", in_json=False, meaning="Column of the data."),
    Field("slice", lambda row: row.found.name, kind="text", heading="Slice", meaning="Value of the column."),
    Field("model", lambda row: row.model, kind="text", in_json=False, heading="Model", meaning="The model."),
    Field("n", lambda row: row.found.n, kind="whole number", heading="Cases", missing="hidden",
          meaning="Instances in the slice, with and without a score."),
    Field("score", lambda row: row.found.estimate, kind="interval", heading="Score", missing=_NO_ESTIMATE,
          text=lambda row: estimate_text(row.found.estimate, score_decimals(row.benchmark)),
          parts="value low high n n_failed", meaning="Mean in the metric's own unit."),
    Field("reason", lambda row: row.found.reason or None, kind="text", heading="No interval", hide_empty=True,
          missing="there is a score", meaning="Reason for the missing score."),
]  # fmt: skip
"""A model on a slice."""

MODEL_FIELDS: list[Field[ModelRow]] = [
    Field("model", lambda row: row.found.model, kind="text", heading="Model", meaning="The model."),
    Field("overall", lambda row: row.found.overall, kind="interval", heading="All cases", missing="no score", drop=2,
          text=lambda row: estimate_text(row.found.overall, score_decimals(row.benchmark)),
          meaning="Mean over all instances."),
    Field("worst", lambda row: _end(row, "worst"), in_json=False, heading="Worst slice", kind="text"),
    Field("best", lambda row: _end(row, "best"), in_json=False, heading="Best slice", kind="text", drop=1),
    Field("gap", lambda row: row.found.gap and fields_json(GAP_FIELDS, row.found.gap), kind="object", missing=_NO_GAP,
          schema=fields_schema(GAP_FIELDS)),
    Field("gap_shown", lambda row: row.found.gap, in_json=False, column="", heading="Gap",
          text=lambda row: estimate_text(row.found.gap)),
    Field("p_equal", lambda row: row.found.p_equal, kind="p-value", missing=_NO_GAP,
          meaning="P-value of the hypothesis that the score does not depend on the slice."),
    Field("p_adjusted", lambda row: row.found.p_adjusted, kind="p-value", heading="p equal", missing=_NO_GAP,
          meaning="The same, adjusted by Holm over the models of the benchmark."),
    list_field("slices", SCORE_FIELDS, lambda row: _score_rows(row)),
]  # fmt: skip
"""A model on a benchmark, with its slices."""

BENCHMARK_FIELDS: list[Field[SlicedBenchmark]] = [
    Field("benchmark", lambda one: one.column.benchmark, kind="text", meaning="Id of the benchmark."),
    Field("by", lambda one: one.by, kind="text", meaning="Column of the data."),
    Field("metric", lambda one: one.column.metric, kind="text", meaning="Name of the metric."),
    list_field("models", MODEL_FIELDS, lambda one: model_rows(one)),
]
"""A benchmark by slice, in `medhelm leaderboard --by COLUMN --json`."""

PAIR_FIELDS: list[Field[PairRow]] = [
    Field("benchmark", lambda row: row.pair.column.benchmark, kind="text", in_json=False),
    Field("by", lambda row: row.pair.by, kind="text", in_json=False),
    Field("slice", lambda row: row.found.name, kind="text", heading="Slice", meaning="Value of the column."),
    Field("n", lambda row: row.found.n, kind="whole number", heading="Cases", missing="hidden", drop=1),
    *(
        Field(key, lambda row, place=place: row.found.means[place], kind="interval", heading=key.capitalize(),  # type: ignore[misc]
              text=lambda row, place=place: estimate_text(row.found.means[place], score_decimals(row.pair.column)),  # type: ignore[misc]
              missing=_NO_ESTIMATE, drop=2, meaning=f"Mean of the {key} model, in the metric's own unit.")
        for place, key in enumerate(("first", "second"))
    ),
    *flat_interval("difference", lambda row: row.found.difference, "low high n_clusters", missing=_NO_ESTIMATE,
                   heading="Difference", meaning="First minus second, on a scale from 0 to 1."),
    Field("p_value", lambda row: row.found.difference and row.found.difference.p_value, kind="p-value",
          missing=_NO_ESTIMATE),
    Field("p_adjusted", lambda row: row.found.p_adjusted, kind="p-value", heading="p adjusted", missing=_NO_ESTIMATE,
          meaning="P-value of the difference, adjusted over all slices."),
    Field("reason", lambda row: row.found.reason or None, kind="text", heading="Not compared", hide_empty=True,
          missing="there is a difference"),
]  # fmt: skip
"""Two models on a slice."""

COMPARED_FIELDS: list[Field[SlicedPair]] = [
    Field("benchmark", lambda pair: pair.column.benchmark, kind="text"),
    Field("by", lambda pair: pair.by, kind="text"),
    Field("p_equal", lambda pair: pair.p_equal, kind="p-value", missing="fewer than two slices",
          meaning="P-value of the hypothesis that the difference does not depend on the slice."),
    list_field("differences", PAIR_FIELDS, lambda pair: [PairRow(pair, one) for one in pair.differences]),
]  # fmt: skip
"""Two models on a benchmark by slice, in `medhelm compare A B --by COLUMN --json`."""


def _end(row: ModelRow, which: str) -> str | None:
    return slice_text(row.benchmark, row.found, which)


def slice_text(benchmark: Column, found: SlicedModel, which: str) -> str | None:
    """Return the slice with its score; None without a gap. `which`: `best` or `worst`."""
    if found.gap is None:
        return None
    name = getattr(found.gap, which)
    (mean,) = (one.estimate for one in found.scores if one.name == name)
    return f"{name} {decimal(mean.value, score_decimals(benchmark))}" if mean else name


def model_rows(one: SlicedBenchmark) -> list[ModelRow]:
    """Return one row for each model of a benchmark."""
    return [ModelRow(one.column, one.by, model) for model in one.models]


def _score_rows(row: ModelRow) -> list[SliceRow]:
    return [SliceRow(row.benchmark, row.by, row.found.model, one) for one in row.found.scores]


def score_rows(one: SlicedBenchmark) -> list[SliceRow]:
    """Return one row for each slice and model of a benchmark, slice by slice."""
    by_model = [_score_rows(row) for row in model_rows(one)]
    return [row for slice_ in zip(*by_model, strict=True) for row in slice_]


def as_json(found: Sequence[SlicedBenchmark]) -> list[dict[str, Any]]:
    """Return the key `slices` of a leaderboard."""
    return [fields_json(BENCHMARK_FIELDS, one) for one in found]


def pairs_as_json(found: Sequence[SlicedPair]) -> list[dict[str, Any]]:
    """Return the key `slices` of a comparison."""
    return [fields_json(COMPARED_FIELDS, one) for one in found]


def to_text(found: Sequence[SlicedBenchmark], format: str = "table") -> str:
    """Return the models of each benchmark, and their slices; CSV holds the slices of all benchmarks in one table."""
    if format == "csv":
        rows, headings = rounded_rows(columns_of(SCORE_FIELDS), [row for one in found for row in score_rows(one)])
        return render(rows, headings, format=format)
    tables = []
    for one in found:
        metric = one.column.metric_title or one.column.metric
        caption = f"{one.column.title} by {one.by} ({metric}); the gap is on a scale from 0 to 1"
        tables.append(fields_table(MODEL_FIELDS, model_rows(one), format=format, caption=caption))
        caption = f"{one.column.title} by {one.by}: {metric} of each slice"
        tables.append(fields_table(SCORE_FIELDS, score_rows(one), format=format, caption=caption, keep=2))
    return "\n".join(tables)


def pairs_to_text(found: Sequence[SlicedPair], format: str = "table", adjustment: Adjustment = "holm") -> str:
    """Return the differences in each slice, one table for each benchmark; CSV holds all in one."""
    rows = [PairRow(pair, one) for pair in found for one in pair.differences]
    if format == "csv":
        cells, headings = rounded_rows(columns_of(PAIR_FIELDS), rows)
        return render(cells, headings, format=format)
    return "\n".join(
        fields_table(
            PAIR_FIELDS,
            [row for row in rows if row.pair is pair],
            format=format,
            caption=f"{pair.column.title} by {pair.by}: {pair.first} (first) minus {pair.second} (second), on a scale "
            f"from 0 (worst) to 1 (best); p adjusted for all slices ({ADJUSTED[adjustment]})",
        )
        for pair in found
    )


GAP_IN_WORDS = (
    "The gap is that of the best and the worst slice, chosen after looking: equal slices have one, too. Its interval "
    "allows for the choice, and p equal is the probability of slices as different as these if scores do not depend on "
    "them."
)
"""Meaning of the gap, for the foot of tables."""


def in_words(found: Sequence[SlicedBenchmark], among: str = "") -> Iterator[str]:
    """Yield which models score differently on different slices. `among`: the models in words, if they are not all."""
    for one in found:
        place = f"{one.column.title} by {one.by}"
        depends = [model for model in one.models if model.p_adjusted is not None and model.p_adjusted <= LEVEL]
        known = [model for model in one.models if model.p_adjusted is not None]
        for model in depends:
            assert model.gap is not None, "a tested model has a gap"
            yield (
                f"{place}: the score of {model.model} depends on the slice (p {_equals(model.p_adjusted)}): worst on "
                f"{model.gap.worst}, best on {model.gap.best}, gap {estimate_text(model.gap)}."
            )
        if known and not depends:
            whose = f"no score of {among}" if among else "no model's score"
            yield f"{place}: {whose} is shown to depend on the slice."


def pairs_in_words(found: Sequence[SlicedPair]) -> Iterator[str]:
    """Yield in which slices two models differ."""
    for pair in found:
        place = f"{pair.column.title} by {pair.by}"
        apart = [one for one in pair.differences if one.p_adjusted is not None and one.p_adjusted <= LEVEL]
        for model, sign in ((pair.first, 1), (pair.second, -1)):
            better = [one.name for one in apart if one.difference and one.difference.value * sign > 0]
            if better:
                yield f"{place}: {model} is significantly better on {', '.join(better)}."
        if not apart:
            yield f"{place}: the models differ significantly in no slice."
        if pair.p_equal is not None:
            verb = "depends" if pair.p_equal <= LEVEL else "is not shown to depend"
            yield f"{place}: their difference {verb} on the slice (p {_equals(pair.p_equal)})."


def _equals(p: float | None) -> str:
    text = p_text(p) or "unknown"
    return text if text.startswith(("<", ">")) else f"= {text}"

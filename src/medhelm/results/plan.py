"""The planned cost of a run and the statistical power of a suite, as tables, sentences and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from medhelm.analysis.cost import sum_costs
from medhelm.analysis.planned_cost import CostPlan, PlanRow, is_within_limit
from medhelm.domain.benchmark import group_by
from medhelm.domain.text import plural
from medhelm.results.cost import money
from medhelm.results.formats.fields import Field, fields_json, fields_table, plain_json, select
from medhelm.results.formats.tables import Value, number, render

if TYPE_CHECKING:
    from medhelm.analysis.comparison.power import AdjacentModels, BenchmarkPower, Noise, PowerDesign, SuitePower


def plan_as_json(plan: CostPlan) -> dict[str, Any]:
    """Return the output of `medhelm plan --json`. A partly unknown sum is null; `at_least` has its known part."""
    limit = plan.max_cost_usd
    content: dict[str, Any] = {
        "rows": [_row_json(row) for row in plan.rows],
        "cost_usd": {
            "expected": plan.expected.usd,
            "max": plan.most.usd,
            "at_least": {"expected": plan.expected.known_usd, "max": plan.most.known_usd},
        },
        "requests": plan.requests,
        "warnings": list(plan.warnings),
    }
    if plan.is_batched:
        content["batch_cost_usd"] = {"expected": plan.batch_expected.usd, "max": plan.batch_most.usd}
        for row, shown in zip(plan.rows, content["rows"], strict=True):
            shown["batch_cost_usd"] = plain_json(row.batch_cost_usd)
    if limit is not None:
        content["max_cost"] = {
            "usd": limit,
            "fits_expected": is_within_limit(plan.batch_expected if plan.is_batched else plan.expected, limit),
            "fits_max": is_within_limit(plan.batch_most if plan.is_batched else plan.most, limit),
        }
    return content


def _row_json(row: PlanRow) -> dict[str, Any]:
    names = "benchmark model role requests cached duplicate waiting input_tokens output_tokens cost_usd missing"
    asked = {"asked": row.asked} if row.asked else {}
    return {**select(row, names), **asked, "basis": select(row, "input=input_basis input_error output=output_basis")}


def plan_table(plan: CostPlan, format: str = "table") -> str:
    """Return one row per model or judge and benchmark, and the total."""
    counts: dict[str, Callable[[PlanRow], int | None]] = {
        "requests": lambda row: row.requests,
        "cached": lambda row: row.cached - row.duplicate,
        "duplicate": lambda row: row.duplicate,
        "waiting": lambda row: row.waiting,
        "input tokens": lambda row: row.input_tokens,
        "output expected": lambda row: round(row.output_tokens.expected) if row.output_tokens else None,
        "output max": lambda row: round(row.output_tokens.max) if row.output_tokens else None,
    }
    for name in ("duplicate", "waiting"):
        if not any(map(counts[name], plan.rows)):
            del counts[name]
    costs: dict[str, Callable[[PlanRow], float | None]] = {
        "USD expected": lambda row: row.cost_usd.expected if row.cost_usd else None,
        "USD max": lambda row: row.cost_usd.max if row.cost_usd else None,
    }
    if plan.is_batched:
        costs["batch USD expected"] = lambda row: row.batch_cost_usd.expected if row.batch_cost_usd else None
        costs["batch USD max"] = lambda row: row.batch_cost_usd.max if row.batch_cost_usd else None

    def numbers(rows: Sequence[PlanRow]) -> list[Value]:
        """Return the counts and costs of all these rows together."""
        return [
            *(_sum(map(count, rows)) for count in counts.values()),
            *(money(sum_costs(map(cost, rows)), format) for cost in costs.values()),
        ]

    rows: list[list[Value]] = [
        [
            row.benchmark,
            f"{row.model} [{row.asked}]" if row.asked else row.model,
            row.role,
            *numbers([row]),
            "yes" if row.missing else None,
        ]
        for row in plan.rows
    ]
    rows.append(["total", None, None, *numbers(plan.rows), None])
    headers = ["benchmark", "model", "role", *counts, *costs, "missing"]
    caption = "Tokens and costs cover only requests that would be sent; `cached` requests are not sent again."
    if "duplicate" in counts:
        caption += " `duplicate` requests are equal to another request of the run, and sent once."
    drop = ("output max", "cached", "duplicate", "input tokens", "output expected", "role", "USD max")
    return render(rows, headers, format=format, caption=caption, drop=drop)


def _sum(values: Iterable[int | None]) -> int | str | None:
    """Return a sum; `N or more` if some parts are unknown, None if all are."""
    parts = list(values)
    known = sum(part for part in parts if part is not None)
    if None not in parts:
        return known
    return f"{known} or more" if known else None


def remarks(plan: CostPlan) -> list[str]:
    """Return sentences on the basis of the estimates, and warnings."""
    sentences = []
    inputs = _basis_counts((row.input_basis, row.input_error) for row in plan.rows if row.input_basis)
    if inputs:
        sentences.append(f"input tokens are estimated: {'; '.join(inputs)}.")
    outputs = _basis_counts((row.output_basis, None) for row in plan.rows if row.output_basis)
    if outputs:
        sentences.append(
            f"expected output tokens are based on: {'; '.join(outputs)}. The maximum assumes that every completion "
            "is as long as its limit."
        )
    if any(row.role == "judge" and row.requests > row.cached for row in plan.rows):
        sentences.append(
            "judges: an unreadable judgment is requested once more; the maximum counts that for all judgments."
        )
    if plan.is_batched:
        sentences.append(
            "batch prices are half the full prices. Retries of judges, requests that a batch leaves open, and models "
            "without a batch API are sent directly, at the full price."
        )
    if plan.is_batched and plan.waiting:
        sentences.append(
            f"{plural(plan.waiting, 'request')} `waiting` in submitted batches will be collected, not sent again. The "
            "batch costs include them, because they are charged when they are collected."
        )
    return sentences + list(plan.warnings)


def missing(plan: CostPlan) -> list[str]:
    """Return everything that is missing, each item once."""
    return list(dict.fromkeys(text for row in plan.rows for text in row.missing))


def _basis_counts(found: Iterable[tuple[str, float | None]]) -> list[str]:
    """Return each basis with its number of rows and the largest relative error among them."""
    return [
        f"{basis}{f' (within {largest:.0%})' if largest else ''}, {plural(len(rows), 'row')}"
        for basis, rows in group_by(found, lambda row: row[0]).items()
        for largest in [max(error or 0.0 for _, error in rows)]
    ]


# --- power ------------------------------------------------------------------------------------------------------------
# Power of a suite, and the results of the power calculator.

NEARLY = 1.05
"""Ratio of two detectable differences up to which they are shown as equal."""


def power_as_json(found: SuitePower) -> dict[str, Any]:
    """Return the output of `medhelm power --json`; differences are on a scale of 0 to 1."""
    return {
        "models": list(found.models),
        **_design_json(found.design),
        "difference": number(found.difference),
        "benchmarks": [fields_json(_benchmark_fields(found), one) for one in found.benchmarks],
        "neighbours": [fields_json(_adjacent_fields(found), one) for one in found.adjacent_models],
    }


def power_tables(found: SuitePower, format: str = "table") -> list[str]:
    """Return the table of benchmarks, and that of adjacent models."""
    return [_benchmarks_table(found, format), _adjacent_table(found, format)]


def _benchmark_fields(found: SuitePower) -> list[Field[BenchmarkPower]]:
    """Return the fields of a benchmark; tables show what a difference needs only if one is given."""
    asked = found.difference is not None
    return [
        Field("id", lambda one: one.column.benchmark, kind="text"),
        Field("title", lambda one: one.column.title, kind="text", heading="Benchmark"),
        Field("metric", lambda one: one.column.metric, kind="text",
              heading="Metric", text=lambda one: one.column.metric_title or one.column.metric, is_wide=True),
        Field("n", lambda one: one.observed.n, kind="whole number", heading="Instances"),
        Field("n_pairs", lambda one: one.observed.n_pairs, kind="whole number"),
        Field("sd", lambda one: one.observed.noise.sd, heading="SD of differences", is_wide=True),
        Field("disagreement", lambda one: one.observed.disagreement),
        Field("design_effect", lambda one: one.observed.noise.design_effect,
              heading="Design effect", places=2, is_wide=True),
        Field("detectable", lambda one: one.detectable, heading="Detectable now"),
        Field("mde", lambda one: one.mde),
        Field("power_reached", lambda one: one.power, heading="Power now" if asked else "", places=2),
        Field("needed", lambda one: one.needed, kind="whole number", heading="Instances needed" if asked else ""),
        Field("more", _more_instances, kind="whole number", heading="More" if asked else "", drop=1),
    ]  # fmt: skip


def _benchmarks_table(found: SuitePower, format: str) -> str:
    whose = " and ".join(found.models) if len(found.models) == 2 else f"all pairs of {len(found.models)} models"
    goal = "" if found.difference is None else f"; a true difference of {found.difference:g}"
    if any(map(_exceeds_mde, found.benchmarks)):
        goal += "; with few instances, more than the leaderboard's mde is needed to be detected"
    caption = f"{whose}: {_design_text(found.design)}{goal}"
    return fields_table(_benchmark_fields(found), found.benchmarks, format=format, caption=caption)


def _exceeds_mde(one: BenchmarkPower) -> bool:
    """Return whether instances are so few that the leaderboard's mde cannot be detected with them."""
    return bool(one.mde) and (one.detectable is None or one.detectable > NEARLY * (one.mde or 0.0))


def _more_instances(one: BenchmarkPower) -> int | None:
    """Return the instances that are needed in addition to the present ones; None if no number is enough."""
    return None if one.needed is None else max(0, one.needed - one.observed.n)


def _adjacent_fields(found: SuitePower, format: str = "table") -> list[Field[AdjacentModels]]:
    """Return the fields of two adjacent models; tables show what a difference needs only if one is given."""
    asked = found.difference is not None
    return [
        Field("first", lambda one: one.first, kind="text", heading="Model"),
        Field("second", lambda one: one.second, kind="text", heading="Compared with"),
        Field("n_benchmarks", lambda one: one.n_benchmarks, kind="whole number", heading="Benchmarks", drop=1),
        Field("seen", lambda one: one.observed_difference, heading="Observed difference", places=4),
        Field("standard_error", lambda one: one.standard_error),
        Field("difference", lambda one: one.power_estimate.difference),
        Field("detectable", lambda one: one.power_estimate.detectable, heading="Detectable now", places=4),
        Field("power_reached", lambda one: one.power_estimate.power,
              heading="Power now" if asked else "", places=2, drop=3),
        Field("times_instances", lambda one: one.power_estimate.times_instances,
              heading="Multiply instances by" if asked else "", places=1, drop=2),
        Field("benchmarks_needed", lambda one: one.power_estimate.benchmarks_needed, kind="whole number",
              heading="Benchmarks needed" if asked else "", text=None if format == "csv" else _benchmarks_needed,
              is_wide=True),
        Field("benchmarks_needed_low", lambda one: one.power_estimate.benchmarks_needed_low, kind="whole number"),
    ]  # fmt: skip


def _adjacent_table(found: SuitePower, format: str) -> str:
    caption = "Averages of adjacent models over the benchmarks that both have"
    if found.difference is not None:
        caption += f", if the true difference is {found.difference:g}"
    else:
        caption += "; add --difference to see the power, and what is needed, to detect a difference that matters"
    return fields_table(_adjacent_fields(found, format), found.adjacent_models, format=format, caption=caption)


def _benchmarks_needed(one: AdjacentModels) -> str | None:
    """Return the range of the benchmarks needed: if these differ as they seem to, and as much as they may."""
    low, high = one.power_estimate.benchmarks_needed_low, one.power_estimate.benchmarks_needed
    return None if low is None or high is None else f"{low:,}" if low == high else f"{low:,} to {high:,}"


def calculated(
    noise: Noise, design: PowerDesign, *, difference: float | None, instances: int | None
) -> tuple[dict[str, Any], list[str]]:
    """Return the result of the power calculator, as JSON and in sentences."""
    from medhelm.analysis.comparison.power import MOST, detectable_difference, needed_instances, power_at

    needed = None if difference is None else needed_instances(noise, difference, design)
    smallest = None if instances is None else detectable_difference(noise, instances, design)
    reached = None if difference is None or instances is None else power_at(noise, instances, difference, design)
    content = {
        **_design_json(design),
        **select(noise, "sd disagreement design_effect", rounded=True),
        "difference": number(difference),
        "instances": instances,
        "needed": needed,
        "detectable": number(smallest),
        "power_reached": number(reached),
    }
    sentences = []
    if difference is not None and reached is not None:
        sentences.append(
            f"{instances:,} instances detect a true difference of {difference:g} with a power of {reached:.0%}."
        )
    if needed is not None:
        sentences.append(f"A true difference of {difference:g} needs {needed:,} instances ({_design_text(design)}).")
    elif difference is not None:
        sentences.append(f"A true difference of {difference:g} needs more than {MOST:,} instances.")
    if smallest is not None:
        sentences.append(
            f"{instances:,} instances detect true differences of {smallest:.4f} or more ({_design_text(design)})."
        )
    elif instances is not None:
        sentences.append(f"{instances:,} instances are too few to detect any difference ({_design_text(design)}).")
    return content, sentences


def _design_json(design: PowerDesign) -> dict[str, Any]:
    return select(design, "power alpha comparisons")


def _design_text(design: PowerDesign) -> str:
    shared = "" if design.comparisons == 1 else f" shared by {design.comparisons} comparisons"
    return f"power {design.power:g}, level {design.alpha:g}{shared}"

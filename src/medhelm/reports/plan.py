"""A cost plan as a table, in sentences and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from medhelm.analysis.cost import sum_costs
from medhelm.analysis.planned_cost import CostPlan, PlanRow, is_within_limit
from medhelm.domain.text import plural
from medhelm.reports.cost import money
from medhelm.reports.formats.json import plain_json, select
from medhelm.reports.formats.tables import Value, render


def as_json(plan: CostPlan) -> dict[str, Any]:
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
    return {**select(row, names), "basis": select(row, "input=input_basis input_error output=output_basis")}


def to_table(plan: CostPlan, format: str = "table") -> str:
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
        [row.benchmark, row.model, row.role, *numbers([row]), "yes" if row.missing else None] for row in plan.rows
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
    rows: dict[str, list[float]] = {}
    for basis, error in found:
        rows.setdefault(basis, []).append(0.0 if error is None else error)
    return [
        f"{basis}{f' (within {max(errors):.0%})' if max(errors) else ''}, {plural(len(errors), 'row')}"
        for basis, errors in rows.items()
    ]

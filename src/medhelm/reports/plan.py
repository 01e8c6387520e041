"""A plan as a table with its grounds in words, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from medhelm.analysis.cost.plan import CostPlan, ExpectedAndMax, PlanRow, is_within_limit
from medhelm.analysis.cost.prices import CostSum
from medhelm.reports.tables import Value, render


def as_json(plan: CostPlan) -> dict[str, Any]:
    """The result of `medhelm plan --json`. A sum of which a part is unknown is null; `at_least` has the rest."""
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
            shown["batch_cost_usd"] = _amount_json(row.batch_cost_usd)
    if limit is not None:
        content["max_cost"] = {
            "usd": limit,
            "fits_expected": is_within_limit(plan.batch_expected if plan.is_batched else plan.expected, limit),
            "fits_max": is_within_limit(plan.batch_most if plan.is_batched else plan.most, limit),
        }
    return content


def _row_json(row: PlanRow) -> dict[str, Any]:
    return {
        "benchmark": row.benchmark,
        "model": row.model,
        "role": row.role,
        "requests": row.requests,
        "cached": row.cached,
        "waiting": row.waiting,
        "input_tokens": row.input_tokens,
        "output_tokens": _amount_json(row.output_tokens),
        "cost_usd": _amount_json(row.cost_usd),
        "missing": list(row.missing),
        "basis": {"input": row.input_basis, "input_error": row.input_error, "output": row.output_basis},
    }


def _amount_json(amount: ExpectedAndMax | None) -> dict[str, float] | None:
    return None if amount is None else {"expected": amount.expected, "max": amount.max}


def to_table(plan: CostPlan, format: str = "table") -> str:
    """One row for each model and judge on each benchmark, and the sum."""
    headers = ["benchmark", "model", "role", "requests", "cached", *(["waiting"] if plan.waiting else [])]
    headers += ["input tokens", "output expected", "output max"]
    headers += ["USD expected", "USD max", *(["batch USD expected", "batch USD max"] if plan.is_batched else [])]
    headers += ["missing"]
    rows = [_row(row, format, plan) for row in plan.rows]
    total: list[Value] = ["total", None, None, plan.requests, sum(row.cached for row in plan.rows)]
    total += [plan.waiting] if plan.waiting else []
    total += [_sum(row.input_tokens for row in plan.rows)]
    total += [_sum(_part(row, "expected") for row in plan.rows), _sum(_part(row, "max") for row in plan.rows)]
    sums = [plan.expected, plan.most, *([plan.batch_expected, plan.batch_most] if plan.is_batched else [])]
    total += [*(_money(sum_, format) for sum_ in sums), None]
    caption = "Tokens and money are those of requests that are still to be sent; `cached` ones are answered already."
    return render([*rows, total], headers, format=format, caption="" if format == "csv" else caption)


def _row(row: PlanRow, format: str, plan: CostPlan) -> list[Value]:
    costs = [row.cost_usd, row.batch_cost_usd] if plan.is_batched else [row.cost_usd]
    return [
        row.benchmark,
        row.model,
        row.role,
        row.requests,
        row.cached,
        *([row.waiting] if plan.waiting else []),
        row.input_tokens,
        _part(row, "expected"),
        _part(row, "max"),
        *(_money(dollars, format) for cost in costs for dollars in _both(cost)),
        "yes" if row.missing else None,
    ]


def _both(cost: ExpectedAndMax | None) -> tuple[CostSum, CostSum]:
    """Expected and at most."""
    return (CostSum(cost.expected), CostSum(cost.max)) if cost else (CostSum(n_unknown=1), CostSum(n_unknown=1))


def _part(row: PlanRow, name: str) -> int | None:
    """Output tokens, expected or at most."""
    return None if row.output_tokens is None else round(getattr(row.output_tokens, name))


def _sum(values: Iterable[int | None]) -> int | str | None:
    """A sum; with a mark if parts are not known, and nothing if none is."""
    parts = list(values)
    known = sum(part for part in parts if part is not None)
    if None not in parts:
        return known
    return f"{known} or more" if known else None


def _money(sum_: CostSum, format: str) -> Value:
    """US dollars; a number in CSV, and nothing there where it is not known in full."""
    if format == "csv":
        return sum_.usd
    if sum_.usd is not None:
        return f"{sum_.usd:.4f}"
    return f"{sum_.known_usd:.4f} or more" if sum_.known_usd else None


def remarks(plan: CostPlan) -> list[str]:
    """What the numbers rest on, what is missing, and what speaks against the evaluation; one paragraph each."""
    told = []
    inputs = _grounds((row.input_basis, row.input_error) for row in plan.rows if row.input_basis)
    if inputs:
        told.append(f"input tokens are estimated: {'; '.join(inputs)}.")
    outputs = _grounds((row.output_basis, None) for row in plan.rows if row.output_basis)
    if outputs:
        told.append(f"expected output rests on: {'; '.join(outputs)}. At most every reply is as long as its limit.")
    if any(row.role == "judge" and row.requests > row.cached for row in plan.rows):
        told.append("judges: a reply that cannot be read is asked for once more; the maximum counts that for all.")
    if plan.is_batched:
        told.append(
            "through batch APIs everything costs half; judges' second tries, and what a batch leaves open, are asked "
            "directly at the full price, and so are models without a batch API."
        )
    if plan.is_batched and plan.waiting:
        told.append(
            f"{plan.waiting:,} of the requests are `waiting` in batches: handed over before, they are collected and "
            "not bought again. They are charged when they are collected, and the batch sums count that."
        )
    return told + list(plan.warnings)


def missing(plan: CostPlan) -> list[str]:
    """Everything that is not there, each thing once."""
    return list(dict.fromkeys(text for row in plan.rows for text in row.missing))


def _grounds(found: Iterable[tuple[str, float | None]]) -> list[str]:
    """Each basis with the number of rows that rest on it, and the largest relative error among them."""
    rows: dict[str, list[float]] = {}
    for basis, error in found:
        rows.setdefault(basis, []).append(0.0 if error is None else error)
    return [
        f"{basis}{f' (within {100 * max(errors):.0f} %)' if max(errors) else ''}, {len(errors)} "
        f"row{'' if len(errors) == 1 else 's'}"
        for basis, errors in rows.items()
    ]

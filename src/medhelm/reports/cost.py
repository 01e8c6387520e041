"""A bill as tables and as JSON."""

from __future__ import annotations

from typing import Any

from medhelm.analysis.cost.bill import Bill, BillRow
from medhelm.analysis.cost.prices import CostSum
from medhelm.domain.text import plural
from medhelm.reports.json_output import plain_json, select
from medhelm.reports.tables import Value, decimal, render

SUMS = {"tested": "models under test", "left_over": "not in a stored run", "total": "total"}
"""Kind of a summary row -> its name for people."""

REPEAT = "cost of repeating these runs"
SPENT = "amount paid, each request counted once"


def to_table(bill: Bill, format: str = "table") -> str:
    """Return the rows of a bill and their total."""
    names = {"model": ["model"], "benchmark": ["benchmark"], "judge": ["judge"], "run": ["benchmark", "model"]}[bill.by]
    headers = [*names, "runs", "instances", "requests", "bought", "input", "cached", "cache write", "output"]
    headers += ["reasoning", "models USD", "judges USD", "bill USD", "spent USD"]
    headers += ["ceiling USD", "ceiling / bill"] if bill.rule == "ceiling" else []
    rows = [[*_names(row, names), *_numbers(row, bill, format)] for row in [*bill.rows, bill.total]]
    caption = f"bill: {REPEAT}; spent: {SPENT}."
    if bill.rule == "ceiling":
        caption += " ceiling: the published rule, which takes every completion to be as long as its limit."
    return render(rows, headers, format=format, caption="" if format == "csv" else caption)


def _names(row: BillRow, names: list[str]) -> list[Value]:
    if row.of != "runs":
        return [SUMS[row.of], *[None] * (len(names) - 1)]
    return [getattr(row, name) for name in names]


def _numbers(row: BillRow, bill: Bill, format: str) -> list[Value]:
    usage = row.usage
    counts: list[Value] = [row.runs, row.instances, row.requests, row.purchased]
    counts += [usage.input, usage.cached_input, usage.cache_write, usage.output, usage.reasoning]
    sums = [row.models, row.judges, row.bill, row.spent, *([row.ceiling] if bill.rule == "ceiling" else [])]
    shown = [money(one, format) for one in sums]
    if bill.rule == "ceiling":
        known, ceiling = row.bill.usd, row.ceiling.usd
        shown.append(decimal(ceiling / known, 2) if known and ceiling is not None else None)
    return counts + shown


def money(sum_: CostSum, format: str) -> Value:
    """Return US dollars as text, `or more` if a part is unknown; in CSV a number, None if a part is unknown."""
    if sum_.usd is not None or format == "csv":
        return sum_.usd if format == "csv" else f"{sum_.usd:.4f}"
    return f"{sum_.known_usd:.4f} or more" if sum_.known_usd else None


def worth_table(bill: Bill, format: str = "table") -> str:
    """Return scores per dollar, one row per model; "" if no run counts."""
    if not bill.cost_effectiveness:
        return ""
    headers = ["model", "benchmarks", "cost USD", "win rate", "macro average", "USD per 0.01 win rate"]
    headers += ["USD per 0.01 macro", "USD per instance", "USD per benchmark", "efficient"]
    rows: list[list[Value]] = [
        [
            one.model,
            one.n_benchmarks,
            decimal(one.cost_usd, 4),
            decimal(one.win_rate),
            decimal(one.macro_average),
            decimal(one.per_win_point, 5),
            decimal(one.per_macro_point, 5),
            decimal(one.per_instance, 6),
            decimal(one.per_benchmark, 4),
            "yes" if one.is_efficient else "no",
        ]
        for one in bill.cost_effectiveness
    ]
    caption = (
        "Cost of scores, judges included, over the runs that the leaderboard counts. efficient: no other model has a "
        "higher win rate at the same or a lower cost."
    )
    return render(rows, headers, format=format, caption="" if format == "csv" else caption)


def remarks(bill: Bill) -> list[str]:
    """Return sentences on the cost of one more model, the sources of prices, and warnings."""
    sentences = []
    if update := bill.update:
        cost = update.cost
        models, benchmarks = plural(update.n_models, "model"), plural(len(update.benchmarks), "benchmark")
        words = (
            f"one more model on the leaderboard, judges included: {cost.expected:.2f} USD expected "
            f"({cost.low:.2f} to {cost.high:.2f}), based on runs of {models} on {benchmarks}"
        )
        if update.unknown:
            words += f"; excluding benchmarks without a run of known cost: {', '.join(update.unknown)}"
        sentences.append(words + ".")
    sources: dict[str, list[str]] = {}
    for name, source in bill.prices:
        if source:
            sources.setdefault(source, []).append(name)
    sentences += [f"prices of {', '.join(names)}: {source}" for source, names in sources.items()]
    return sentences + [remark.text for remark in bill.remarks]


def as_json(bill: Bill) -> dict[str, Any]:
    """Return the output of `medhelm cost --json`. A partly unknown sum is null; `at_least` has its known part."""
    return {
        "by": bill.by,
        "rule": bill.rule,
        "rows": [_row_json(row) for row in bill.rows],
        "total": _row_json(bill.total),
        "worth": plain_json(bill.cost_effectiveness),
        "update": plain_json(bill.update),
        "prices": [{"model": name, "source": source or None} for name, source in bill.prices],
        "warnings": [remark.text for remark in bill.remarks],
    }


def _row_json(row: BillRow) -> dict[str, Any]:
    sums = {
        "models_usd": row.models,
        "judges_usd": row.judges,
        "bill_usd": row.bill,
        "spent_usd": row.spent,
        "ceiling_usd": row.ceiling,
    }
    return {
        "of": row.of,
        "model": row.model or None,
        "benchmark": row.benchmark or None,
        "judge": row.judge or None,
        **select(row, "runs instances requests requests_bought=purchased tokens=usage"),
        **{name: sum_.usd for name, sum_ in sums.items()},
        "at_least": {name: sum_.known_usd for name, sum_ in sums.items() if sum_.n_unknown},
    }

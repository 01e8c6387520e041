"""A bill as tables and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from medhelm.analysis.cost import CostSum
from medhelm.analysis.frontier import CostFrontier, FrontierStep
from medhelm.domain.text import plural
from medhelm.reports.formats.fields import Field, fields_json, fields_table, list_field
from medhelm.reports.formats.json import plain_json, select
from medhelm.reports.formats.tables import Value, decimal, render, tabulate, with_interval

if TYPE_CHECKING:
    from medhelm.analysis.frontier import Bill, BillRow, CostEffectiveness

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
    rows = [[*_name_cells(row, names), *_number_cells(row, bill, format)] for row in [*bill.rows, bill.total]]
    caption = f"bill: {REPEAT}; spent: {SPENT}."
    if bill.rule == "ceiling":
        caption += " ceiling: the published rule, which assumes that every completion is as long as its limit."
    drop = ("reasoning", "cache write", "cached", "bought", "instances", "requests", "output", "input", "runs",
            "judges USD", "models USD")  # fmt: skip
    return render(rows, headers, format=format, caption=caption, drop=drop)


def _name_cells(row: BillRow, names: list[str]) -> list[Value]:
    if row.of != "runs":
        return [SUMS[row.of], *[None] * (len(names) - 1)]
    return [getattr(row, name) for name in names]


def _number_cells(row: BillRow, bill: Bill, format: str) -> list[Value]:
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
    """Return cost, tokens and seconds beside the score, one row per model; "" if no run counts."""
    if not bill.cost_effectiveness:
        return ""
    columns: dict[str, Callable[[CostEffectiveness], Value]] = {
        "model": lambda one: one.model,
        "benchmarks": lambda one: one.n_benchmarks,
        "use USD": lambda one: decimal(one.use_usd, 4),
        "judges USD": lambda one: decimal(one.judges_usd, 4),
        "USD per 1,000": lambda one: decimal(one.use.usd_per_1000, 4) if one.use else None,
        "tokens": lambda one: decimal(one.use.tokens, 0) if one.use else None,
        "seconds": lambda one: seconds_text(one.use.seconds) if one.use else None,
        "macro average": lambda one: decimal(one.adjusted_average),
        "efficient": lambda one: None if one.on_frontier is None else "yes" if one.on_frontier else "no",
        "probability": lambda one: decimal(one.frontier_probability, 2),
    }
    rows, headers = tabulate(bill.cost_effectiveness, columns)
    caption = "Use of the models over the runs that the leaderboard counts; tokens and seconds are per completion."
    drop = ("benchmarks", "judges USD", "use USD", "tokens", "probability", "seconds")
    return render(rows, headers, format=format, caption=caption, drop=drop)


def seconds_text(seconds: float | None) -> str | None:
    """Return seconds with two decimals below 1, one below 100.

    >>> seconds_text(0.254), seconds_text(12.34), seconds_text(140.2)
    ('0.25', '12.3', '140')
    """
    if seconds is None:
        return None
    return decimal(seconds, 2 if seconds < 1 else 1 if seconds < 100 else 0)


NOT_SEPARATED = "not separated"
"""Cell for a cost per point where the leaderboard does not separate the two models."""


def steps_table(bill: Bill, format: str = "table") -> str:
    """Return what each step along the efficient frontier costs; "" if the frontier has no step."""
    if bill.frontier is None or not bill.frontier.steps:
        return ""
    caption = "Steps along the efficient frontier, with 95% intervals; points are percentage points of macro average."
    return fields_table(STEP_FIELDS, bill.frontier.steps, format=format, caption=caption)


def _cost_per_point(step: FrontierStep) -> str | None:
    """Return the cost of a point with its interval, or that the two models are not separated."""
    if step.points_low is None:
        return decimal(step.usd_per_point, 4)
    if step.interval is None:
        return NOT_SEPARATED
    low, high = step.interval
    if high is None:
        return f"{decimal(step.usd_per_point, 4)} [{decimal(low, 4)} or more]"
    return with_interval(step.usd_per_point, low, high, 4)


STEP_FIELDS: list[Field[FrontierStep]] = [
    Field("from", lambda step: step.cheaper, kind="text", heading="from"),
    Field("to", lambda step: step.costlier, kind="text", heading="to"),
    Field("usd_per_1000", lambda step: step.usd_per_1000, heading="USD more per 1,000", places=4),
    Field("points", lambda step: step.points, heading="points more",
          text=lambda step: with_interval(step.points, step.points_low, step.points_high, 2)),
    Field("points_low", lambda step: step.points_low),
    Field("points_high", lambda step: step.points_high),
    Field("usd_per_point", lambda step: step.usd_per_point, heading="USD per point", text=_cost_per_point),
    Field("usd_per_point_low", lambda step: step.interval and step.interval[0]),
    Field("usd_per_point_high", lambda step: step.interval and step.interval[1]),
    Field("separated", lambda step: step.is_separated, kind="true or false"),
]  # fmt: skip
"""A step along the efficient frontier."""

FRONTIER_FIELDS: list[Field[CostFrontier]] = [
    Field("efficient", lambda frontier: [one.model for one in frontier.models if one.is_efficient], kind="texts"),
    list_field("steps", STEP_FIELDS, lambda frontier: frontier.steps),
    Field("unknown_cost", lambda frontier: frontier.unknown_cost, kind="texts"),
    Field("other_benchmarks", lambda frontier: frontier.other_benchmarks, kind="texts"),
]  # fmt: skip
"""The efficient frontier, and the models that were left out."""


def frontier_as_json(frontier: CostFrontier | None) -> dict[str, Any] | None:
    """Return the frontier as JSON."""
    return None if frontier is None else fields_json(FRONTIER_FIELDS, frontier)


def left_out(frontier: CostFrontier | None) -> list[str]:
    """Return sentences on the models that are not compared by cost."""
    if frontier is None:
        return []
    kinds = {
        "their cost is unknown": frontier.unknown_cost,
        "they were run on other benchmarks": frontier.other_benchmarks,
    }
    return [f"not compared by cost, because {why}: {', '.join(names)}." for why, names in kinds.items() if names]


USE = "use: the model's own completions, without judges. seconds: the median of individual requests."
EFFICIENT = (
    "efficient: no other model is at least as good by macro average and cheaper to use, or better and no costlier. "
    "probability: of being efficient, given the scores."
)
PER_POINT = "USD per point: for 1,000 completions and one point, if the leaderboard separates the two models."


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
    if bill.cost_effectiveness:
        sentences.append(USE)
    if bill.frontier:
        sentences += [EFFICIENT, *([PER_POINT] if bill.frontier.steps else []), *left_out(bill.frontier)]
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
        "frontier": frontier_as_json(bill.frontier),
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


def budget_text(content: Mapping[str, Any]) -> str:
    """Return the budget of a store, from its JSON form."""
    if content["limit_usd"] is None:
        return "The store has no limit. `medhelm budget set USD` sets one.\n"
    sums: list[tuple[str, float]] = [
        ("limit", content["limit_usd"]),
        ("spent before the limit was set", content["spent_before_usd"]),
        *((f"spent on {one['model']}", one["spent_usd"]) for one in content["models"]),
        ("reserved for requests in flight or in batches", content["reserved_usd"]),
        ("in flight when a command was killed", content["lost_usd"]),
        ("left", content["left_usd"]),
    ]
    text = render([[name, f"{usd:.4f}"] for name, usd in sums], ["budget of the store", "USD"])
    commands: list[list[Value]] = [
        [one["command"], one["started"], one["pid"], f"{one['spent_usd']:.4f}"] for one in content["commands"]
    ]
    if commands:
        text += "\n" + render(commands, ["command", "started", "process", "USD"])
    return text + "".join(f"\n{remark}\n" for remark in content["remarks"])

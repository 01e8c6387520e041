"""Bills: costs by model, benchmark, judge or run, and the cost of a score."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from medhelm.analysis.cost.bill import (
    BenchmarkCostEffectiveness,
    Bill,
    BillRow,
    CostEffectiveness,
    CostRule,
    GroupBy,
    UpdateCost,
)
from medhelm.analysis.cost.frontier import CostPoint, efficient_frontier
from medhelm.analysis.cost.sums import CostSum, cost_per_point, sum_costs, update_cost
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.domain import Rule, Run, Usage
from medhelm.domain.grouping import group_by
from medhelm.results.leaderboard import leaderboard
from medhelm.results.runs.cells import column_of
from medhelm.results.runs.selection import EVERY_RUN, RunFilter
from medhelm.results.spending import Pricing, Spending, UsageItem, is_local, read_spending
from medhelm.results.suites import resolve_suite, suite_sort_key


def make_bill(
    stores: Sequence[Path],
    pricing: Pricing,
    *,
    by: GroupBy = "model",
    rule: CostRule = "bill",
    scoring: Rule = "corrected",
    suite: str = "all",
    runs: RunFilter = EVERY_RUN,
) -> Bill:
    """Return the bill for these stores. `runs`: those that count.

    Raises: StoreError naming everything that cannot be read; UserError for an unknown suite, or if nothing was run.
    """
    spending = read_spending(stores, pricing, runs)
    columns = {run.benchmark: column_of(run, None, scoring) for run in spending.counted.values()}
    weights = resolve_suite(suite, columns.values()).weights
    wanted = None if weights is None else list(weights)
    rows = [_row(own, by) for own in group_by(spending.items, lambda item: _key(item, by)).values()]
    rows.sort(key=lambda row: (row.of != "runs", row.of, row.judge, suite_sort_key(row.benchmark), row.model))
    priced = {item.judge or item.model: item.price.source if item.price else "" for item in spending.items}
    counted = {key: run for key, run in spending.counted.items() if wanted is None or key[1] in wanted}
    board = leaderboard(stores, rule=scoring, suite=suite, pricing=pricing, wanted=runs) if counted else None
    return Bill(
        by=by,
        rule=rule,
        rows=rows,
        total=replace(_row(spending.items, by), of="total", model="", benchmark="", judge=""),
        cost_effectiveness=_worth(spending, counted, board) if board else [],
        frontier=board.frontier if board else None,
        update=_update(spending, counted, wanted),
        prices=sorted(priced.items()),
        remarks=spending.remarks,
    )


def _key(item: UsageItem, by: GroupBy) -> tuple[str, ...]:
    """Return the key that groups usage items into a row of the bill."""
    if item.run is None:
        return ("left_over",)
    if by == "judge":
        return ("judge", item.judge) if item.judge else ("tested",)
    if by == "run":
        return ("run", str(item.run.folder))
    return (by, item.model if by == "model" else item.benchmark)


def _row(items: Sequence[UsageItem], by: GroupBy) -> BillRow:
    """Some lines of the bill together."""
    first = items[0]
    runs = {id(item.run): item.run for item in items if item.run}
    in_runs = [item for item in items if item.run]
    names: dict[str, Any] = {}
    if first.run is None:
        names = {"of": "left_over"}
    elif by == "judge":
        names = {"judge": first.judge} if first.judge else {"of": "tested"}
    else:
        names = {} if by == "benchmark" else {"model": first.model}
        names |= {} if by == "model" else {"benchmark": first.benchmark}
    return BillRow(
        **names,
        runs=len(runs),
        instances=sum(run.n - run.n_failed for run in runs.values()),
        requests=sum(item.usage.requests for item in items),
        purchased=sum(item.purchased.requests for item in items),
        usage=sum((item.usage.usage for item in items), Usage()),
        models=sum_costs(item.bill_usd for item in in_runs if not item.judge),
        judges=sum_costs(item.bill_usd for item in in_runs if item.judge),
        spent=sum_costs(item.spent_usd for item in items),
        ceiling=_ceilings(in_runs),
    )


def _ceilings(items: Iterable[UsageItem]) -> CostSum:
    """The published rule's sum: whole runs where their judges are among the items, else the judges' own cells."""
    parts: list[float | None] = []
    items = list(items)
    whole = {id(item.run) for item in items if not item.judge}
    for item in items:
        if not item.judge:
            judged = any(other.judge for other in items if other.run is item.run)
            known = item.ceiling
            if known is None:
                parts.append(None)
            else:
                parts.append(float(known.total_usd if judged else known.input_usd + known.output_usd))
        elif id(item.run) not in whole:
            parts.append(None if item.ceiling_usd is None else float(item.ceiling_usd))
    return sum_costs(parts)


# --- what the score costs ---------------------------------------------------------------------------------------------


def _worth(spending: Spending, counted: Mapping[tuple[str, str], Run], board: Leaderboard) -> list[CostEffectiveness]:
    """Return the cost of each model's score, in the order of the leaderboard."""
    found = []
    columns = {column.benchmark: column for column in board.columns}
    for row in board.all_rows:
        runs = [run for (model, _), run in counted.items() if model == row.model]
        cost = _repeated(spending, runs).usd
        on_frontier = board.frontier.by_model.get(row.model) if board.frontier else None
        instances = sum(run.n - run.n_failed for run in runs)
        win = row.win_rate.value if row.win_rate else None
        macro = row.macro_average.value if row.macro_average else None
        found.append(
            CostEffectiveness(
                model=row.model,
                n_benchmarks=len(runs),
                instances=instances,
                cost_usd=cost,
                win_rate=win,
                macro_average=macro,
                per_win_point=cost_per_point(cost, win),
                per_macro_point=cost_per_point(cost, macro),
                per_instance=None if cost is None or not instances else cost / instances,
                per_benchmark=None if cost is None else cost / len(runs),
                is_efficient=False,
                benchmarks=tuple(
                    _worth_on(spending, run, columns[run.benchmark].normalize(value))
                    if (value := row.cells[run.benchmark].value) is not None
                    else _worth_on(spending, run, None)
                    for run in runs
                ),
                use_usd=_repeated(spending, runs, judges=False).usd,
                judges_usd=_repeated(spending, runs, judges=True).usd,
                use=row.use,
                on_frontier=on_frontier.is_efficient if on_frontier else None,
                frontier_probability=on_frontier.probability if on_frontier else None,
            )
        )
    best = {
        point.name for point in efficient_frontier(CostPoint(one.model, one.cost_usd, one.win_rate) for one in found)
    }
    return [replace(one, is_efficient=one.model in best) for one in found]


def _worth_on(spending: Spending, run: Run, value: float | None) -> BenchmarkCostEffectiveness:
    """Return the cost of one run's score."""
    cost = _repeated(spending, [run]).usd
    return BenchmarkCostEffectiveness(
        benchmark=run.benchmark, cost_usd=cost, value=value, per_point=cost_per_point(cost, value)
    )


def _repeated(spending: Spending, runs: Iterable[Run], *, judges: bool | None = None) -> CostSum:
    """Return the cost of repeating these runs. `judges`: of judges alone, or of models alone; None: of both."""
    items = (item for run in runs for item in spending.of(run))
    return sum_costs(item.bill_usd for item in items if judges is None or bool(item.judge) == judges)


def _update(
    spending: Spending, counted: Mapping[tuple[str, str], Run], wanted: Sequence[str] | None
) -> UpdateCost | None:
    """Estimate the cost of one more model from the remote models; None if no such cost is known."""
    costs: dict[str, list[float]] = {}
    models: set[str] = set()
    for (model, benchmark), run in counted.items():
        cost = None if is_local(run) else _repeated(spending, [run]).usd
        if cost is not None:
            costs.setdefault(benchmark, []).append(cost)
            models.add(model)
    known = update_cost(costs.values())
    if known is None:
        return None
    suite = wanted if wanted is not None else sorted({benchmark for _, benchmark in counted})
    return UpdateCost(
        cost=known,
        benchmarks=tuple(sorted(costs, key=lambda name: suite_sort_key(name))),
        n_models=len(models),
        unknown=tuple(name for name in suite if name not in costs),
    )

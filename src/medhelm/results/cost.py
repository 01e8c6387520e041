"""Bills: costs by model, benchmark, judge or run, and cost-effectiveness of models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from medhelm.analysis.cost import CostSum, cost_per_point, sum_costs, update_cost
from medhelm.analysis.frontier import (
    BenchmarkCostEffectiveness,
    Bill,
    BillRow,
    CostEffectiveness,
    CostPoint,
    CostRule,
    GroupBy,
    UpdateCost,
    efficient_frontier,
)
from medhelm.analysis.leaderboard.cells import Column
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.domain import Rule, Run, Usage
from medhelm.domain.benchmark import group_by
from medhelm.domain.result import Remark
from medhelm.domain.text import plural
from medhelm.results.leaderboard import leaderboard
from medhelm.results.options import EVERY_RUN, RunFilter
from medhelm.results.runs.cells import column_of
from medhelm.results.runs.pricing import Pricing
from medhelm.results.spending import Spending, UsageItem, is_local, read_spending
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
    """Return the bill for these stores. `runs`: only these runs count.

    Raises: StoreError naming everything that cannot be read; UserError for an unknown suite, or if nothing was run.
    """
    spending = read_spending(stores, pricing, runs)
    columns = {run.benchmark: column_of(run, None, scoring) for run in spending.counted.values()}
    weights = resolve_suite(suite, columns.values()).weights
    wanted = None if weights is None else list(weights)
    rows = [_bill_row(items, by) for items in group_by(spending.items, lambda item: _group_key(item, by)).values()]
    rows.sort(key=lambda row: (row.of != "runs", row.of, row.judge, suite_sort_key(row.benchmark), row.model))
    priced = {item.judge or item.model: item.price.source if item.price else "" for item in spending.items}
    counted = {key: run for key, run in spending.counted.items() if wanted is None or key[1] in wanted}
    board = leaderboard(stores, rule=scoring, suite=suite, pricing=pricing, wanted=runs) if counted else None
    return Bill(
        by=by,
        rule=rule,
        rows=rows,
        total=replace(_bill_row(spending.items, by), of="total", model="", benchmark="", judge=""),
        cost_effectiveness=_cost_effectiveness(spending, counted, board) if board else [],
        frontier=board.frontier if board else None,
        update=_estimate_update(spending, counted, wanted),
        prices=sorted(priced.items()),
        remarks=(*spending.remarks, *_sample_remarks(spending.items)),
    )


def _sample_remarks(items: Iterable[UsageItem]) -> list[Remark]:
    """Return a remark on runs of the sample tier, which the sums include; nothing if there are none."""
    tiers = [run.tier for run in {id(item.run): item.run for item in items if item.run}.values()]
    if (n := tiers.count("sample")) == 0:
        return []
    which = f"{n:,} of {plural(len(tiers), 'run')} {'is' if n == 1 else 'are'}"
    return [Remark("sample_runs", "", f"{which} on invented sample rows: sums include them.")]


def _group_key(item: UsageItem, by: GroupBy) -> tuple[object, ...]:
    """Return the key that groups usage items into a row of the bill."""
    return (*_row_names(item, by).items(), item.run.folder if item.run and by == "run" else None)


def _row_names(item: UsageItem, by: GroupBy) -> dict[str, Any]:
    """Return the names of the row of the bill that an item belongs to."""
    if item.run is None:
        return {"of": "left_over"}
    if by == "judge":
        return {"judge": item.judge} if item.judge else {"of": "tested"}
    names = {"model": item.model, "benchmark": item.benchmark}
    return names if by == "run" else {by: names[by]}


def _bill_row(items: Sequence[UsageItem], by: GroupBy) -> BillRow:
    """Return a row of the bill that sums up these lines."""
    runs = {id(item.run): item.run for item in items if item.run}
    in_runs = [item for item in items if item.run]
    return BillRow(
        **_row_names(items[0], by),
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
    """Return the sum by the published rule: of whole runs where model and judges are among the items."""
    parts: list[Decimal | None] = []
    for run_items in group_by(items, lambda item: id(item.run)).values():
        model = next((item for item in run_items if not item.judge), None)
        if model and len(run_items) > 1:  # the published rule rounds the whole run
            parts.append(model.ceiling.total_usd if model.ceiling else None)
        else:
            parts += [item.ceiling_usd for item in run_items]
    return sum_costs(None if part is None else float(part) for part in parts)


# --- cost-effectiveness -----------------------------------------------------------------------------------------------


def _cost_effectiveness(
    spending: Spending, counted: Mapping[tuple[str, str], Run], board: Leaderboard
) -> list[CostEffectiveness]:
    """Return the cost of each model's score, in the order of the leaderboard."""
    found = []
    columns = {column.benchmark: column for column in board.columns}
    for row in board.all_rows:
        runs = [run for (model, _), run in counted.items() if model == row.model]
        cost = _cost_of_repeating(spending, runs).usd
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
                adjusted_average=row.adjusted_average.value if row.adjusted_average else None,
                per_win_point=cost_per_point(cost, win),
                per_macro_point=cost_per_point(cost, macro),
                per_instance=None if cost is None or not instances else cost / instances,
                per_benchmark=None if cost is None else cost / len(runs),
                is_efficient=False,
                benchmarks=tuple(
                    _benchmark_cost_effectiveness(spending, run, columns[run.benchmark], row.cells[run.benchmark].value)
                    for run in runs
                ),
                use_usd=_cost_of_repeating(spending, runs, judges=False).usd,
                judges_usd=_cost_of_repeating(spending, runs, judges=True).usd,
                use=row.use,
                on_frontier=on_frontier.is_efficient if on_frontier else None,
                frontier_probability=on_frontier.probability if on_frontier else None,
            )
        )
    best = {
        point.name for point in efficient_frontier(CostPoint(one.model, one.cost_usd, one.win_rate) for one in found)
    }
    return [replace(one, is_efficient=one.model in best) for one in found]


def _benchmark_cost_effectiveness(
    spending: Spending, run: Run, column: Column, score: float | None
) -> BenchmarkCostEffectiveness:
    """Return the cost of one run's score."""
    cost = _cost_of_repeating(spending, [run]).usd
    value = None if score is None else column.normalize(score)
    return BenchmarkCostEffectiveness(
        benchmark=run.benchmark, cost_usd=cost, value=value, per_point=cost_per_point(cost, value)
    )


def _cost_of_repeating(spending: Spending, runs: Iterable[Run], *, judges: bool | None = None) -> CostSum:
    """Return the cost of repeating these runs. `judges`: True for judges only, False for models only."""
    items = (item for run in runs for item in spending.of(run))
    return sum_costs(item.bill_usd for item in items if judges is None or bool(item.judge) == judges)


def _estimate_update(
    spending: Spending, counted: Mapping[tuple[str, str], Run], wanted: Sequence[str] | None
) -> UpdateCost | None:
    """Estimate the cost of one more model from the remote models; None if no such cost is known."""
    costs: dict[str, list[float]] = {}
    models: set[str] = set()
    for (model, benchmark), run in counted.items():
        if not is_local(run) and (cost := _cost_of_repeating(spending, [run]).usd) is not None:
            costs.setdefault(benchmark, []).append(cost)
            models.add(model)
    known = update_cost(costs.values())
    if known is None:
        return None
    suite = wanted if wanted is not None else sorted({benchmark for _, benchmark in counted})
    return UpdateCost(
        cost=known,
        benchmarks=tuple(sorted(costs, key=suite_sort_key)),
        n_models=len(models),
        unknown=tuple(name for name in suite if name not in costs),
    )

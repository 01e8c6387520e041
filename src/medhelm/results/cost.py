"""Bills, cost-effectiveness and budgets, and how they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from medhelm.analysis.cost import CostSum, cost_per_point, sum_costs, update_cost
from medhelm.analysis.frontier import (
    BenchmarkCostEffectiveness,
    Bill,
    BillRow,
    CostEffectiveness,
    CostFrontier,
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
from medhelm.errors import UserError
from medhelm.results.formats.fields import fields_table, plain_json, select
from medhelm.results.formats.frontier import STEP_FIELDS, frontier_as_json
from medhelm.results.formats.tables import Value, decimal, render, tabulate
from medhelm.results.leaderboard import leaderboard
from medhelm.results.options import EVERY_RUN, Pricing, RunFilter, resolve_suite, suite_sort_key
from medhelm.results.runs.cells import column_of
from medhelm.results.spending import Spending, UsageItem, is_local, read_spending
from medhelm.storage.budget_ledger import Balance, Ledger
from medhelm.storage.live_status import known_evaluations
from medhelm.storage.store import Store, create, open_store


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


# --- tables and JSON --------------------------------------------------------------------------------------------------

SUMS = {"tested": "models under test", "left_over": "not in a stored run", "total": "total"}
"""Kind of a summary row -> its name for people."""

SUMS_IN_WORDS = "Bill: what these runs would cost today without stored completions. Spent: what you paid."
"""Meaning of the two sums."""


def to_table(bill: Bill, format: str = "table") -> str:
    """Return the rows of a bill and their total."""
    names = {"model": ["model"], "benchmark": ["benchmark"], "judge": ["judge"], "run": ["benchmark", "model"]}[bill.by]
    headers = [*names, "runs", "instances", "requests", "bought", "input", "cached", "cache write", "output"]
    headers += ["reasoning", "models USD", "judges USD", "bill USD", "spent USD"]
    headers += ["ceiling USD", "ceiling / bill"] if bill.rule == "ceiling" else []
    rows = [[*_name_cells(row, names), *_number_cells(row, bill, format)] for row in [*bill.rows, bill.total]]
    caption = SUMS_IN_WORDS
    if bill.rule == "ceiling":
        caption += " Ceiling: what they would cost by the published rule, with every completion as long as its limit."
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


def steps_table(bill: Bill, format: str = "table") -> str:
    """Return what each step along the efficient frontier costs; "" if the frontier has no step."""
    if bill.frontier is None or not bill.frontier.steps:
        return ""
    caption = "Steps along the efficient frontier, with 95% intervals; points are percentage points of macro average."
    return fields_table(STEP_FIELDS, bill.frontier.steps, format=format, caption=caption)


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
    "efficient: no other model is both better by macro average and cheaper to use. "
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
    sources = dict.fromkeys(source for _, source in bill.prices if source)
    names = {source: [name for name, own in bill.prices if own == source] for source in sources}
    sentences += [f"prices of {', '.join(names[source])}: {source}" for source in sources]
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


# --- budget -----------------------------------------------------------------------------------------------------------
# The budget of a store: a limit on what all of its commands spend, and what counts against it.

NANO = 1_000_000_000
"""Billionths in a US dollar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetState:
    """The budget of a store."""

    balance: Balance
    """Its sums."""
    remarks: tuple[str, ...] = ()
    """Limits of the numbers."""


def set_budget(folder: Path, limit_usd: float, pricing: Pricing) -> BudgetState:
    """Limit what all commands spend in a store, which is created if it does not exist, in US dollars.

    What was spent before counts too, at the prices of the day of each run.
    Raises: UserError if commands run that do not know of the limit yet; StoreError.
    """
    store = create(folder)
    spent_before, remarks = 0, tuple[str, ...]()
    if not store.budget_file.exists():
        _refuse_running(store)
        spent_before, remarks = _spent_before(folder, pricing)
    with closing(Ledger(store.budget_file, create=True)) as ledger:
        ledger.set_limit(int(limit_usd * NANO + 0.001), spent_before)
        return BudgetState(balance=ledger.balance(), remarks=remarks)


def budget_of(folder: Path) -> BudgetState | None:
    """Return the budget of a store; None if it has none. Raises: StoreError."""
    store = open_store(folder)
    if not store.budget_file.exists():
        return None
    with closing(Ledger(store.budget_file)) as ledger:
        return BudgetState(balance=ledger.balance())


def release_lost(folder: Path) -> float:
    """Stop counting what commands that were killed may have spent; return it in US dollars. Raises: StoreError."""
    store = open_store(folder)
    if not store.budget_file.exists():
        return 0.0
    with closing(Ledger(store.budget_file)) as ledger:
        return ledger.release() / NANO


def remove_budget(folder: Path) -> bool:
    """Remove the limit and its counts; return False if there was none. Raises: UserError if commands are running."""
    store = open_store(folder)
    if not store.budget_file.exists():
        return False
    _refuse_running(store)
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            store.budget_file.with_name(store.budget_file.name + suffix).unlink()
    return True


def budget_as_json(state: BudgetState | None) -> dict[str, Any]:
    """Return the budget as JSON; `limit_usd` is null if there is none."""
    if state is None:
        return {"limit_usd": None}
    balance = state.balance
    limit = balance.limit or 0
    return {
        "limit_usd": limit / NANO,
        "left_usd": max(0, limit - balance.held) / NANO,
        "spent_usd": (balance.spent_before + balance.spent) / NANO,
        "spent_before_usd": balance.spent_before / NANO,
        "reserved_usd": balance.reserved / NANO,
        "lost_usd": balance.lost / NANO,
        "models": [{"model": model, "requests": n, "spent_usd": nano / NANO} for model, n, nano in balance.by_model],
        "commands": [
            {
                "command": command,
                "pid": pid,
                "started": datetime.fromtimestamp(started, UTC).isoformat(timespec="seconds"),
                "spent_usd": nano / NANO,
            }
            for command, pid, started, nano in balance.by_command
        ],
        "remarks": list(state.remarks),
    }


def _spent_before(folder: Path, pricing: Pricing) -> tuple[int, tuple[str, ...]]:
    """Return what was spent in a store without a budget, in billionths of a US dollar, and remarks on unknown costs."""
    try:
        items = read_spending([folder], pricing).items
    except UserError:
        return 0, ()  # nothing was ever bought
    spent = sum_costs(item.spent_usd for item in items)
    unknown = sorted({item.judge or item.model for item in items if item.spent_usd is None})
    remark = f"What was spent on {', '.join(unknown)} before is not counted: its price or its tokens are unknown."
    return round(spent.known_usd * NANO), (remark,) if unknown else ()


def _refuse_running(store: Store) -> None:
    """Raise UserError if an evaluation of this store is running."""
    running = [str(one.status.pid) for one in known_evaluations(store) if one.is_alive]
    if running:
        raise UserError(
            f"a command is running for this store (process {', '.join(running)}), which would not notice the change. "
            "Wait for it or stop it, then repeat this command. Nothing was changed."
        )

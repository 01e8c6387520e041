"""The published results as cells and columns of a leaderboard, with their costs by the published rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from medhelm.analysis.cost.prices import CostCeiling, cost_ceiling
from medhelm.analysis.leaderboard.types import Cell, Column
from medhelm.analysis.statistics.means import wilson_interval
from medhelm.benchmarks.catalog import all_names
from medhelm.benchmarks.suites import find_suite, load_suite
from medhelm.domain import JURY, Estimate
from medhelm.domain.suite import Suite, SuiteEntry
from medhelm.results.published.data import PublishedBenchmark, PublishedScore, load_results
from medhelm.scoring.metrics import METRICS

JURY_SCALE = (1.0, 5.0)
"""Ends of the scale on which the published jury graded."""

HALF_STEP = 0.0005
"""Published means are rounded to three decimals: the true one is at most so far away."""

INTERVAL = "wilson, from the published mean and N"
"""Interval method of published means that are proportions of correct answers."""

CLUSTERED = f"{INTERVAL}, answers within a cluster taken as alike"
"""The same where instances share a note, a question or a patient."""


def published_cells(suite: str | Suite = "all") -> tuple[list[Cell], list[Column]]:
    """The nine models on the benchmarks of a suite: one cell for each pair, one column for each benchmark.

    Single scores are not known (`Cell.scores` is None). `Cell.model` is the model's name for people, `Cell.n` the
    number of instances, `Cell.cost_usd` a ceiling and not a bill, and `Cell.estimate` a conservative interval where the
    mean is a share of right answers of one run, else None.
    Raises: UserError for a suite that there is not.
    """
    results = load_results()
    wanted = _names(suite)
    columns = [_column(results.benchmarks[name]) for name in results.benchmarks if name in wanted]
    cells = [_cell(score) for score in results.scores.values() if score.benchmark in wanted]
    return cells, columns


def published_rows(suite: str = "all") -> list[dict[str, Any]]:
    """The same as plain dictionaries, with token counts: one for each model and benchmark.

    Keys: model, name, benchmark, title, category, metric, scale_low, scale_high, value, low, high, n, input_tokens,
    output_tokens, cost_usd. Raises: UserError for a suite that there is not.
    """
    results = load_results()
    keys = {model.name: key for key, model in results.models.items()}
    cells, columns = published_cells(suite)
    described = {column.benchmark: column for column in columns}
    rows = []
    for cell in cells:
        column, key = described[cell.benchmark], keys[cell.model]
        score = results.scores[key, cell.benchmark]
        rows.append(
            {
                "model": results.models[key].model,
                "name": cell.model,
                "benchmark": cell.benchmark,
                "title": column.title,
                "category": column.category,
                "metric": column.metric,
                "scale_low": column.low,
                "scale_high": column.high,
                "value": cell.value,
                "low": cell.estimate.low if cell.estimate else None,
                "high": cell.estimate.high if cell.estimate else None,
                "n": cell.n,
                "input_tokens": score.input_tokens,
                "output_tokens": score.output_tokens,
                "cost_usd": cell.cost_usd,
            }
        )
    return rows


def ceiling_of(score: PublishedScore) -> CostCeiling:
    """Return the cost of a score by the published rule, as if every completion had used its full limit."""
    results = load_results()
    model, benchmark = results.models[score.model], results.benchmarks[score.benchmark]
    return cost_ceiling(
        input_tokens=score.input_tokens,
        instances=score.instances,
        max_tokens=benchmark.max_tokens,
        output_tokens=score.output_tokens,
        price=model.price,
        jury=[judge.price for judge in results.jury] if benchmark.question_type == "open" else (),
    )


def cost_of_score(score: PublishedScore) -> float:
    """The published cost of a score in US dollars: the sum of its four cells, each rounded to cents, as in table 3."""
    return float(_cents(ceiling_of(score)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCost:
    """A model's row in the published table of costs (table 3 of the paper): ceilings, not bills."""

    model: str
    """Name of the model for people."""
    benchmark_tokens: int
    """Tokens that it read, and could have written."""
    jury_tokens: int
    """Tokens that one judge read, and could have written."""
    benchmark_usd: Decimal
    """Price of its own tokens."""
    jury_usd: Decimal
    """Price of all three judges' tokens."""

    @property
    def total_usd(self) -> Decimal:
        """Both together."""
        return self.benchmark_usd + self.jury_usd


def published_costs(suite: str = "paper35") -> list[PublishedCost]:
    """The table of costs, models in the order of the published table; `paper35` gives the published one."""
    results = load_results()
    wanted = _names(suite)
    rows = []
    for key, model in results.models.items():
        bills = [ceiling_of(results.scores[key, name]) for name in results.benchmarks if name in wanted]
        rows.append(
            PublishedCost(
                model=model.name,
                benchmark_tokens=sum(bill.input_tokens + bill.output_tokens for bill in bills),
                jury_tokens=sum(bill.judge_input_tokens + bill.judge_output_tokens for bill in bills),
                benchmark_usd=sum((bill.input_usd + bill.output_usd for bill in bills), Decimal(0)),
                jury_usd=sum((bill.judge_input_usd + bill.judge_output_usd for bill in bills), Decimal(0)),
            )
        )
    return rows


def resolve_suite(suite: str, own: Sequence[Column] = (), folders: Sequence[Path] = ()) -> Suite:
    """The suite of that name or in that file, which may name benchmarks that were never published.

    Parameters: own, benchmarks that are at hand; folders, where further ones are. Raises: as `find_suite`.
    """
    others = [SuiteEntry(name=c.benchmark, title=c.title, category=c.category, subcategory=c.subcategory) for c in own]
    if Path(suite).is_file():
        others += [SuiteEntry(name=name, title=name, category="", subcategory="") for name in all_names(folders)]
    return find_suite(suite, others)


def _names(suite: str | Suite) -> frozenset[str]:
    """Ids of the benchmarks of a suite that there are published results of."""
    weights = (resolve_suite(suite) if isinstance(suite, str) else suite).weights
    known = frozenset(load_results().benchmarks)
    return known if weights is None else known & set(weights)


def _cents(bill: CostCeiling) -> Decimal:
    return bill.input_usd + bill.output_usd + bill.judge_input_usd + bill.judge_output_usd


def _cell(score: PublishedScore) -> Cell:
    results = load_results()
    return Cell(
        model=results.models[score.model].name,
        benchmark=score.benchmark,
        value=score.value,
        estimate=_estimate(score, results.benchmarks[score.benchmark]),
        n=score.scored,
        cost_usd=cost_of_score(score),
    )


def _estimate(score: PublishedScore, benchmark: PublishedBenchmark) -> Estimate | None:
    """Return a conservative interval; None where the data do not allow one."""
    n = benchmark.independent
    if n is None or score.instances != benchmark.instances:
        return None
    low, _ = wilson_interval(max(score.value - HALF_STEP, 0.0) * n, n)
    _, high = wilson_interval(min(score.value + HALF_STEP, 1.0) * n, n)
    method = INTERVAL if n == score.scored else CLUSTERED
    return Estimate(value=score.value, low=low, high=high, n=score.scored, method=method)


def _column(benchmark: PublishedBenchmark) -> Column:
    entry = next(entry for entry in load_suite() if entry.name == benchmark.name)
    metric = METRICS.get(benchmark.metric)
    low, high = JURY_SCALE if benchmark.metric == JURY else (0.0, 1.0)
    judged = benchmark.metric == JURY
    return Column(
        benchmark=entry.name,
        title=entry.title,
        category=entry.category,
        subcategory=entry.subcategory,
        metric=benchmark.metric,
        metric_title=metric.title if metric else benchmark.metric.capitalize(),
        low=low,
        high=high,
        judges=tuple(judge.model for judge in load_results().jury) if judged else (),
    )

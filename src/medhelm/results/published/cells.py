"""Published results as cells and columns of a leaderboard."""

from __future__ import annotations

from typing import Any

from medhelm.analysis.cost import CostCeiling, cost_ceiling
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.means import wilson_interval
from medhelm.benchmarks.suites import load_suite
from medhelm.domain import JURY, Estimate
from medhelm.domain.benchmark import Suite
from medhelm.domain.text import metric_title
from medhelm.reports.formats.json import select
from medhelm.results.published.data import PublishedBenchmark, PublishedScore, load_results
from medhelm.results.suites import resolve_suite
from medhelm.scoring.metrics import METRICS

JURY_SCALE = (1.0, 5.0)
"""Scale of the published jury's grades."""

HALF_STEP = 0.0005
"""Largest rounding error of a published mean, which has three decimals."""

INTERVAL = "wilson, from the published mean and N"
"""Interval method of published means that are shares of correct completions."""

CLUSTERED = f"{INTERVAL}, answers within a cluster taken as alike"
"""The same for instances that share a note, a question or a patient."""


def published_cells(suite: str | Suite = "all") -> tuple[list[Cell], list[Column]]:
    """Return the published scores on the benchmarks of a suite as cells and columns of a leaderboard.

    Scores of instances are unknown (`Cell.scores` is None). `Cell.cost_usd` is a ceiling, not a bill. `Cell.estimate`
    is a conservative interval if the mean is a share of correct completions of one run, else None.
    Raises: UserError for an unknown suite.
    """
    results = load_results()
    wanted = published_names(suite)
    columns = [_column(benchmark) for name, benchmark in results.benchmarks.items() if name in wanted]
    cells = [_cell(score) for score in results.scores.values() if score.benchmark in wanted]
    return cells, columns


def published_scores(suite: str = "paper35") -> list[dict[str, Any]]:
    """Return the published score of each of nine models on each benchmark of a suite: rows for a data frame.

    Parameters
    ----------
    suite
        `paper35`, `all`, or the path of a suite file.

    Returns
    -------
    list of dict
        Keys: model, name, benchmark, title, category, metric, scale_low, scale_high, value, low, high, n,
        input_tokens, output_tokens, cost_usd. `value`, `low` and `high` are in the metric's own unit; `low` and `high`
        are None where no interval can be given. Output tokens and costs are upper bounds.

    Raises
    ------
    UserError
        For an unknown suite.
    """
    results = load_results()
    keys = {model.name: key for key, model in results.models.items()}
    cells, columns = published_cells(suite)
    by_name = {column.benchmark: column for column in columns}
    rows = []
    for cell in cells:
        key = keys[cell.model]
        rows.append(
            {
                "model": results.models[key].model,
                "name": cell.model,
                **select(by_name[cell.benchmark], "benchmark title category metric scale_low=low scale_high=high"),
                "value": cell.value,
                "low": cell.estimate.low if cell.estimate else None,
                "high": cell.estimate.high if cell.estimate else None,
                "n": cell.n,
                **select(results.scores[key, cell.benchmark], "input_tokens output_tokens"),
                "cost_usd": cell.cost_usd,
            }
        )
    return rows


def ceiling_of(score: PublishedScore) -> CostCeiling:
    """Return the cost by the published rule, which assumes that every completion is as long as its limit."""
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


def published_names(suite: str | Suite) -> frozenset[str]:
    """Return the benchmarks of a suite that have published results."""
    weights = (resolve_suite(suite) if isinstance(suite, str) else suite).weights
    known = frozenset(load_results().benchmarks)
    return known if weights is None else known & set(weights)


def _cell(score: PublishedScore) -> Cell:
    results, ceiling = load_results(), ceiling_of(score)
    # As the published table does: the sum of the rounded parts, not `total_usd`.
    cost = ceiling.input_usd + ceiling.output_usd + ceiling.judge_input_usd + ceiling.judge_output_usd
    return Cell(
        model=results.models[score.model].name,
        benchmark=score.benchmark,
        value=score.value,
        estimate=_estimate(score, results.benchmarks[score.benchmark]),
        n=score.scored,
        cost_usd=float(cost),
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
    judged = benchmark.metric == JURY
    low, high = JURY_SCALE if judged else (0.0, 1.0)
    return Column(
        benchmark=entry.name,
        title=entry.title,
        category=entry.category,
        subcategory=entry.subcategory,
        metric=benchmark.metric,
        metric_title=metric.title if metric else metric_title(benchmark.metric),
        low=low,
        high=high,
        judges=tuple(judge.model for judge in load_results().jury) if judged else (),
    )

"""Charts of one benchmark: models compared, distribution of scores, failures by reason, subgroups."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from medhelm.analysis.leaderboard.cells import Column
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.domain import Run
from medhelm.extensions.web.charts.benchmark_scores import (
    SubgroupMean,
    benchmark_scores_chart,
    best_first,
    subgroups_chart,
)
from medhelm.extensions.web.charts.distribution import ModelScores, distribution_chart
from medhelm.extensions.web.charts.failures import FailureCount, failures_chart
from medhelm.extensions.web.site import Site
from medhelm.reports.charts.chart import Chart
from medhelm.results.runs.scores import ScoreDetails, score_details

MOST_MODELS = 60
"""Most models in the charts of single scores, best first; the leaderboard has all."""

MOST_SUBGROUP_ROWS = 120
"""Most rows in the chart of subgroups."""


def benchmark_charts(site: Site, board: Leaderboard, column: Column) -> Mapping[str, Callable[[], Chart]]:
    """Return the charts of a benchmark, each made when it is called: name -> chart.

    Parameters: board, a leaderboard that holds the benchmark. All charts have its models in the order of their scores.
    Names of subgroups are data: they are read only where the site shows the text of the benchmark.
    """
    runs = site.inputs().runs
    models = [row.model for row, _ in best_first(board, column)]
    with_runs = [model for model in models if (model, column.benchmark) in runs]
    shown = {model: runs[model, column.benchmark] for model in with_runs[:MOST_MODELS]}

    def details() -> Mapping[str, ScoreDetails]:
        key = ("score details", column.benchmark, tuple(shown))
        return site.keep(key, lambda: _details(site, shown, column))

    return {
        "scores": lambda: benchmark_scores_chart(board, column),
        "distribution": lambda: distribution_chart(
            column,
            [
                ModelScores(model=model, scores=found.values.tolist(), n_failed=int((~np.isfinite(found.values)).sum()))
                for model, found in details().items()
            ],
        ),
        "failures": lambda: _failures(shown),
        "subgroups": lambda: subgroups_chart(column, _means(details())),
    }


def _details(site: Site, runs: Mapping[str, Run], column: Column) -> dict[str, ScoreDetails]:
    """Return the single scores of models, in their order."""
    with_subgroups = site.shows_text_of(column.benchmark)
    found = score_details(list(runs.values()), column, site.rule, with_subgroups=with_subgroups)
    return {model: details for model, (_, details) in zip(runs, found, strict=True)}


def _failures(runs: Mapping[str, Run]) -> Chart:
    """Return the failures of models by reason."""
    counts = [
        FailureCount(model=model, reason=reason, n=n, n_instances=run.n)
        for model, run in runs.items()
        for reason, n in run.failures.items()
        if n > 0
    ]
    return failures_chart(counts, without=[model for model, run in runs.items() if not run.n_failed])


def _means(details: Mapping[str, ScoreDetails]) -> list[SubgroupMean]:
    """Return the subgroups of as many models as the chart has room for, best model first."""
    means: list[SubgroupMean] = []
    for model, found in details.items():
        if means and len(means) + len(found.subgroups) > MOST_SUBGROUP_ROWS:
            break
        means += [SubgroupMean(subgroup=name, model=model, estimate=one) for name, one in found.subgroups.items()]
    return means

"""Scores of runs on one benchmark in detail: each instance, and each subgroup of the instances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medhelm.analysis.leaderboard.cells import Column
from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.analysis.statistics.means import estimate
from medhelm.analysis.statistics.ratio_metrics import estimate_ratios, linearized
from medhelm.domain import Estimate, Rule, Run
from medhelm.domain.failure_code import CAUSED_BY_MODEL
from medhelm.domain.grouping import group_by
from medhelm.storage.run_scores import read_all
from medhelm.storage.runs import RunScores, read_columns


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoreDetails:
    """Scores of one run."""

    values: Floats
    """Shape (n,): score of each instance by the main metric, in its own unit; nan for a failure."""
    subgroups: Mapping[str, Estimate | None]
    """Name of a subgroup -> its mean; None if nothing was scored. Empty if the data has no subgroups."""


def score_details(
    runs: Sequence[Run], column: Column, rule: Rule, *, with_subgroups: bool = True
) -> Iterator[tuple[Run, ScoreDetails]]:
    """Yield each run on a benchmark with its scores in detail.

    Subgroup means count failures as the leaderboard does: by the corrected rule, failures that the model caused count
    as the worst answer. Raises: StoreError for records that are missing or damaged.
    """
    for run, scored in read_all(runs, rule):
        has_groups = with_subgroups and bool(run.groups)
        names = read_columns(run, ["group"])["group"] if has_groups else []
        yield (
            run,
            ScoreDetails(
                values=np.asarray(scored.values, dtype=float), subgroups=subgroup_means(scored, names, column, rule)
            ),
        )


def subgroup_means(
    scored: RunScores, names: Sequence[str | None], column: Column, rule: Rule
) -> dict[str, Estimate | None]:
    """Return the mean of each subgroup, by name. `names`: the subgroup of each instance."""
    places = group_by(range(len(names)), lambda place: names[place])
    return {name: _mean(scored, places[name], column, rule) for name in sorted(name for name in places if name)}


def _mean(scored: RunScores, places: Sequence[int], column: Column, rule: Rule) -> Estimate | None:
    """Return the mean of the instances of a run at these places."""
    values = np.asarray(scored.values, dtype=float)[list(places)]
    parts = None if scored.parts is None else [scored.parts[i] for i in places]
    clusters = None if scored.clusters is None else [scored.clusters[i] for i in places]
    codes = [] if scored.failure_codes is None or rule != "corrected" else [scored.failure_codes[i] for i in places]
    caused = np.array([code in CAUSED_BY_MODEL for code in codes], dtype=bool)
    if caused.any() and (caused & np.isnan(values)).any():
        worst = column.low if column.higher_is_better else column.high
        counted = np.where(caused & np.isnan(values), worst, linearized(values, parts))
        return estimate(counted, clusters, low=column.low, high=column.high)
    return estimate_ratios(values, parts, clusters, low=column.low, high=column.high)

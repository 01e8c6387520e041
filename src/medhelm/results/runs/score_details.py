"""Scores of runs on one benchmark in detail: each instance, and each subgroup of the instances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medhelm.analysis.leaderboard.cells import Column
from medhelm.analysis.means import Floats
from medhelm.analysis.ratios import estimate_ratios
from medhelm.domain import Estimate, Rule, Run
from medhelm.domain.grouping import group_by
from medhelm.results.runs.cells import cell_of
from medhelm.storage.run_scores import read_all
from medhelm.storage.runs import CodedTexts, RunScores, read_columns


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
                values=np.asarray(scored.values, dtype=float),
                subgroups=subgroup_means(run, scored, names, column, rule),
            ),
        )


def subgroup_means(
    run: Run, scored: RunScores, names: Sequence[str | None], column: Column, rule: Rule
) -> dict[str, Estimate | None]:
    """Return the mean of each subgroup, by name. `names`: the subgroup of each instance."""
    places = group_by(range(len(names)), lambda place: names[place])
    return {
        name: _mean(run, _selected(scored, places[name]), column, rule)
        for name in sorted(name for name in places if name)
    }


def _mean(run: Run, scored: RunScores, column: Column, rule: Rule) -> Estimate | None:
    """Return the mean of some instances of a run; the failures that the model caused count as on the leaderboard."""
    cell = cell_of(run.model, run, column, scored, rule=rule, as_worst=rule == "corrected")
    if cell.n_failed_by_model:
        return cell.estimate
    return estimate_ratios(
        scored.values,
        scored.parts,
        scored.clusters,
        low=column.low,
        high=column.high,
        open_below=column.open_below,
    )


def _selected(scored: RunScores, places: Sequence[int]) -> RunScores:
    """Return the scores of the instances at these places."""
    codes = scored.failure_codes
    return RunScores(
        ids=[scored.ids[i] for i in places],
        values=np.asarray(scored.values, dtype=float)[list(places)],
        clusters=None if scored.clusters is None else [scored.clusters[i] for i in places],
        parts=None if scored.parts is None else [scored.parts[i] for i in places],
        failure_codes=None if codes is None else CodedTexts(codes.codes[list(places)], codes.names),
    )

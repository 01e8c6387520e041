"""Scores of runs on one benchmark in detail: each instance, and each subgroup of the instances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from medhelm.analysis.leaderboard.cells import Column
from medhelm.analysis.means import Floats
from medhelm.analysis.ratios import estimate_ratios
from medhelm.domain import Estimate, Rule, Run, Runs
from medhelm.domain.benchmark import group_by
from medhelm.domain.text import AnyNames, AnyPaths, as_names, as_paths, shortened
from medhelm.errors import UserError, suggestion
from medhelm.results.runs.cells import cell_of
from medhelm.storage import judgments, runs
from medhelm.storage.privacy import Pseudonyms
from medhelm.storage.run_scores import read_all
from medhelm.storage.runs import CodedTexts, RunScores, read_columns
from medhelm.storage.store import Store, open_store, stored_folder

# --- score details ----------------------------------------------------------------------------------------------------


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


# --- data frames ------------------------------------------------------------------------------------------------------
# Runs, records and judgments for Python programs: data frames and further analyses.


def load_runs(stores: AnyPaths) -> Runs:
    """Load all complete and partial runs of one or more stores, with their estimates under both rules.

    Damaged runs are left out with a warning.

    Parameters
    ----------
    stores
        Folder of a store, or a list of folders.

    Returns
    -------
    Runs
        A list of runs, by benchmark and model, with the methods `to_dict` and `to_frame`.

    Raises
    ------
    StoreError
        If a folder is not a store, or a newer version wrote a run in it.
    """
    return Runs(run for store in as_paths(stores, "stores") for run in runs.load_runs(open_store(store)))


def read_records(run: Run, columns: AnyNames = ()) -> dict[str, list[Any]]:
    """Read the records of a run as columns, in the order of its instances.

    Parameters
    ----------
    run
        A stored run, as `load_runs` and `evaluate` return it.
    columns
        Names of columns; empty for all. Some hold texts of completions, which can be about patients.

    Returns
    -------
    dict
        Column -> values, one per instance. Scores are in `METRIC_corrected` and `METRIC_published`; None if missing.
        Clusters are keyed hashes of their names.

    Raises
    ------
    UserError
        For a column that the run does not have.
    StoreError
        If the run is not stored, or its records are damaged.
    """
    found = runs.read_columns(_stored(run))
    if any(found.get("cluster", ())):
        names = Pseudonyms.of_store(Store(stored_folder(run).parents[2]))
        found["cluster"] = [names.of(run.benchmark, cluster or "") for cluster in found["cluster"]]
    return _selected_frames(found, columns)


def read_judgments(run: Run, columns: AnyNames = ()) -> dict[str, list[Any]]:
    """Read the judgments of a run as columns: one row per instance, judge and criterion. Empty without a jury.

    Parameters
    ----------
    run
        A stored run, as `load_runs` and `evaluate` return it.
    columns
        Names of columns; empty for all.

    Returns
    -------
    dict
        Column -> values. `score` is None where a judgment failed; `failure_code` has the reason.

    Raises
    ------
    UserError
        For a column that does not exist.
    StoreError
        If the run is not stored.
    """
    return _selected_frames(judgments.read_columns(_stored(run)), columns)


def _stored(run: Run) -> Run:
    """Return the run. Raises: UserError for anything else."""
    if not isinstance(run, Run):
        raise UserError(f"`run` must be a run of `load_runs` or `evaluate`. This is not: {shortened(run)}.")
    return run


def _selected_frames(found: dict[str, list[Any]], columns: AnyNames) -> dict[str, list[Any]]:
    """Return some columns, or all of them. Raises: UserError for unknown ones."""
    names = as_names(columns, "columns")
    for name in names:
        if name not in found:
            raise UserError(f"no column `{name}`. {suggestion(name, found)}".rstrip())
    return {name: found[name] for name in names} if names else found

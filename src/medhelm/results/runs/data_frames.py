"""Runs, records and judgments for Python programs: data frames and further analyses."""

from __future__ import annotations

from typing import Any

from medhelm.domain import Run, Runs
from medhelm.domain.arguments import AnyNames, AnyPaths, as_names, as_paths, shortened
from medhelm.errors import UserError, suggestion
from medhelm.storage import judgments, runs
from medhelm.storage.privacy.pseudonyms import Pseudonyms
from medhelm.storage.run_file import stored_folder
from medhelm.storage.store import Store, open_store


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
    return _selected(found, columns)


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
    return _selected(judgments.read_columns(_stored(run)), columns)


def _stored(run: Run) -> Run:
    """Return the run. Raises: UserError for anything else."""
    if not isinstance(run, Run):
        raise UserError(f"`run` must be a run of `load_runs` or `evaluate`. This is not: {shortened(run)}.")
    return run


def _selected(found: dict[str, list[Any]], columns: AnyNames) -> dict[str, list[Any]]:
    """Return some columns, or all of them. Raises: UserError for unknown ones."""
    names = as_names(columns, "columns")
    for name in names:
        if name not in found:
            raise UserError(f"no column `{name}`. {suggestion(name, found)}".rstrip())
    return {name: found[name] for name in names} if names else found

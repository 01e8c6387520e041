"""Scores of many runs, in columns: what leaderboards and comparisons read. Never a text of a patient or a model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medhelm.domain import Parts, Rule, Run
from medhelm.errors import StoreError
from medhelm.io.parquet import connect, sql_name, sql_text
from medhelm.storage.runs import parts_column, score_column

if TYPE_CHECKING:
    import numpy as np

TOGETHER = 100
"""Runs whose columns are looked up with one question."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunScores:
    """One metric of a run under one rule, in the order of its instances.

    Runs of one benchmark that were asked the same instances share one list of ids and one of clusters.
    """

    ids: Sequence[str]
    """Instance ids."""
    values: np.ndarray
    """Shape (n,): each instance's own score, nan where there is none."""
    clusters: Sequence[str] | None
    """Cluster of each, "" for none; None if none has one."""
    parts: Sequence[Parts] | None
    """What each contributes to the run's number; None where that is the mean of the scores."""


def read_all(runs: Sequence[Run], rule: Rule) -> Iterator[tuple[Run, RunScores]]:
    """The scores of each run by its main metric, one run after the other; runs of one benchmark should stand together.

    Memory does not grow with the number of runs, except by what the caller keeps.
    Raises: StoreError for records that are not there, damaged, or without this metric.
    """
    before: tuple[str, RunScores] | None = None
    with connect() as database:
        for start in range(0, len(runs), TOGETHER):
            together = runs[start : start + TOGETHER]
            names = _column_names(database, together)
            for run in together:
                known = before[1] if before and before[0] == run.benchmark else None
                scored = _read(database, run, rule, names[_file(run)], known)
                before = run.benchmark, scored
                yield run, scored


def _column_names(database: Any, runs: Sequence[Run]) -> Mapping[str, set[str]]:
    """File of records -> names of its columns."""
    import duckdb

    files = ", ".join(map(_file, runs))
    names: dict[str, set[str]] = {_file(run): set() for run in runs}
    try:
        for file, name in database.execute(f"SELECT file_name, name FROM parquet_schema([{files}])").fetchall():
            names[sql_text(file)].add(name)
    except duckdb.Error as error:
        if len(runs) == 1:
            raise _damaged(runs[0], error) from error
        return {file: own for run in runs for file, own in _column_names(database, [run]).items()}
    return names


def _read(database: Any, run: Run, rule: Rule, names: set[str], known: RunScores | None) -> RunScores:
    """One run. `known`: another one of the same benchmark, whose lists are used again where they are the same."""
    import duckdb
    import numpy as np

    column, parts = score_column(run.main_metric, rule), parts_column(run.main_metric, rule)
    if column not in names:
        raise StoreError(
            f"the records of {run.model} on {run.benchmark} have no column `{column}`, which run.json calls the main "
            "metric. `medhelm rescore` writes them anew."
        )
    wanted = ["position", "instance_id", "cluster", column, *([parts] if parts in names else [])]
    query = f"SELECT {', '.join(map(sql_name, wanted))} FROM read_parquet({_file(run)})"
    try:
        found = database.execute(query).fetchnumpy()
    except duckdb.Error as error:
        raise _damaged(run, error) from error
    found = {name: _plain(found[name]) for name in wanted}
    if (np.diff(found["position"]) < 0).any():
        order = np.argsort(found["position"], kind="stable")
        found = {name: values[order] for name, values in found.items()}
    ids, clusters = found["instance_id"].tolist(), found["cluster"].tolist()
    clusters = clusters if any(clusters) else None
    if known and known.ids == ids:
        ids = known.ids
        clusters = known.clusters if known.clusters == clusters else clusters
    return RunScores(
        ids=ids,
        values=found[column],
        clusters=clusters,
        parts=_parsed(found[parts].tolist()) if parts in found else None,
    )


def _parsed(texts: Sequence[str]) -> list[Parts]:
    """What stands in JSON; the same few texts stand there again and again."""
    known = {text: json.loads(text or "{}") for text in set(texts)}
    return [known[text] for text in texts]


def _plain(values: Any) -> Any:
    """A column without a mask: what is NULL becomes nan, and "" among texts."""
    import numpy as np

    if not isinstance(values, np.ma.MaskedArray):
        return values
    return values.filled(np.nan if values.dtype.kind == "f" else "")


def _file(run: Run) -> str:
    if run.folder is None:
        raise StoreError(f"the run of {run.model} on {run.benchmark} is not stored")
    return sql_text(run.folder / "records.parquet")


def _damaged(run: Run, error: Exception) -> StoreError:
    place = run.folder and run.folder / "records.parquet"
    said = str(error).partition("\n")[0]
    return StoreError(f"{place} is missing or damaged ({said}). Remove its folder and run the same command again.")

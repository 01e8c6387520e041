"""Reads the scores of many runs at once: from files made before, or with one query for runs with the same columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import groupby, pairwise
from os import cpu_count
from typing import Any, NamedTuple

from medhelm.domain import Parts, Rule, Run
from medhelm.errors import StoreError
from medhelm.io.encryption.places import address
from medhelm.io.parquet import connect, open_engine, sql_name, sql_text
from medhelm.storage.derived.folder import derived_folder
from medhelm.storage.derived.score_files import ScoreFile, identity_of
from medhelm.storage.runs import (
    CodedTexts,
    RunScores,
    damaged_records,
    parts_column,
    records_file,
    records_path,
    score_column,
)

TOGETHER = 100
"""Most runs that are read with one query."""

ROWS = 20_000
"""Number of records after which no further run is read with the same query."""

FILE = "file_hash"
"""Name of a column that tells apart the files of one query."""


class ScoreColumns(NamedTuple):
    """Columns of records that hold the scores of a run by its main metric."""

    score: str
    """Score of each instance."""
    parts: str
    """Contributions to a metric that is not a mean; records by a mean do not have the column."""

    @property
    def types(self) -> dict[str, str]:
        """SQL types of all columns to read. Older records may lack any of the later ones."""
        names = {"position": "BIGINT", "instance_id": "VARCHAR", "cluster": "VARCHAR"}
        scores = {self.score: "DOUBLE", self.parts: "VARCHAR"}
        return names | scores | {"failure_code": "VARCHAR", "latency_s": "DOUBLE", "batched": "BOOLEAN"}


SECONDS = "CASE WHEN latency_s > 0 AND failure_code IS NULL AND batched IS NOT TRUE THEN latency_s END"
"""SQL of the time of a single request; a batch has none."""


def read_all(runs: Sequence[Run], rule: Rule) -> Iterator[tuple[Run, RunScores]]:
    """Yield each run with its scores by its main metric; runs of one benchmark should be adjacent.

    Scores are taken from files made before where the records did not change, and are kept in such files.
    Memory does not grow with the number of runs, unless the caller keeps the scores.
    Raises: StoreError for records that are missing, damaged, or without this metric.
    """
    with ExitStack() as open_database:
        connection: list[Any] = []

        def database() -> Any:
            if not connection:
                few = len(runs) <= TOGETHER
                opened = connect() if few else open_engine(memory_mb=512, threads=min(4, cpu_count() or 1))
                connection.append(open_database.enter_context(opened))
            return connection[0]

        for _, group in groupby(runs, key=lambda run: run.benchmark):
            own = list(group)
            yield from zip(own, _read_benchmark(database, own, rule), strict=True)


def _read_benchmark(database: Callable[[], Any], runs: Sequence[Run], rule: Rule) -> list[RunScores]:
    """Return the scores of runs of one benchmark. `database`: opens the engine, which is not needed for kept scores."""
    parents = {run.folder.parent if run.folder else None: run.folder for run in runs}
    folders = {parent: derived_folder(folder) for parent, folder in parents.items()}
    files = {folder: ScoreFile(folder, runs[0].benchmark, rule) for folder in set(folders.values()) if folder}
    kept = []
    for run in runs:
        folder = folders[run.folder.parent if run.folder else None]
        kept.append((run, files[folder] if folder else None, identity_of(run)))
    found = [file.find(run, identity) if file else None for run, file, identity in kept]
    missing = [run for run, scores in zip(runs, found, strict=True) if scores is None]
    if missing:
        known = next((scores for scores in found if scores), None)
        read = _read_records(database(), missing, rule, known)
        found = [scores or next(read) for scores in found]
        for (run, file, identity), scores in zip(kept, found, strict=True):
            if file and scores:
                file.add(run, identity, scores)
        for file in files.values():
            file.save()
        # What was kept is mapped into memory, in place of what was read.
        mapped = [file.find(run, identity) if file else None for run, file, identity in kept]
        found = [one or scores for one, scores in zip(mapped, found, strict=True)]
    sources = [file.source(run, identity) if file else "" for run, file, identity in kept]
    return [replace(scores, source=source) for scores, source in zip(found, sources, strict=True) if scores]


def _read_records(database: Any, runs: Sequence[Run], rule: Rule, known: RunScores | None) -> Iterator[RunScores]:
    """Yield the scores of runs of one benchmark from their records. `known`: of another run of the benchmark."""
    import numpy as np

    for columns, together in _alike(runs, rule):
        for run, found in zip(together, _read_columns(database, together, columns), strict=True):
            if np.isnan(found[columns.score]).all():
                _require_column(database, run, columns.score)
            known = _run_scores(found, columns, known)
            yield known


def _alike(runs: Sequence[Run], rule: Rule) -> Iterator[tuple[ScoreColumns, list[Run]]]:
    """Yield neighboring runs with the same columns, so few that they fit into memory together."""
    together: list[Run] = []
    for i, run in enumerate(runs):
        together.append(run)
        is_last = i + 1 == len(runs) or runs[i + 1].main_metric != run.main_metric
        if is_last or len(together) == TOGETHER or sum(one.n for one in together) >= ROWS:
            yield ScoreColumns(score_column(run.main_metric, rule), parts_column(run.main_metric, rule)), together
            together = []


def _require_column(database: Any, run: Run, column: str) -> None:
    """Raise StoreError for a run without scores by its main metric."""
    query = f"SELECT 1 FROM parquet_schema({records_file(run)}) WHERE name = {sql_text(column)}"
    if database.execute(query).fetchone() is None:
        raise StoreError(
            f"the records of {run.model} on {run.benchmark} have no column `{column}`, which run.json calls the main "
            "metric. `medhelm rescore` writes them again."
        )


def _read_columns(database: Any, runs: Sequence[Run], columns: ScoreColumns) -> Iterator[dict[str, Any]]:
    """Yield the columns of each run as arrays, in the order of its instances. One query serves them all."""
    import duckdb
    import numpy as np

    files = [records_file(run) for run in runs]
    listed = f"[{', '.join(files)}]"
    absent = ", ".join(f"NULL::{kind} AS {sql_name(name)}" for name, kind in columns.types.items())
    names = ["position", "instance_id", "cluster", columns.score, columns.parts, "failure_code"]
    wanted = f"{', '.join(map(sql_name, names))}, {SECONDS} AS seconds, hash(filename) AS {FILE}"
    rows = f"SELECT *, '' AS filename FROM (SELECT {absent}) WHERE false UNION ALL BY NAME "
    rows += f"SELECT * FROM read_parquet({listed}, filename=true, union_by_name=true)"
    try:
        found = database.execute(f"SELECT {wanted} FROM ({rows})").fetchnumpy()
        paths = ", ".join(sql_text(address(records_path(run))) for run in runs)  # `listed` has wildcards escaped
        hashes = database.execute(f"SELECT hash(name) FROM (SELECT unnest([{paths}]) AS name)").fetchall()
    except duckdb.Error as error:
        if len(runs) == 1:
            raise damaged_records(runs[0], error) from error
        for run in runs:
            yield from _read_columns(database, [run], columns)
        return
    file = found.pop(FILE)
    starts = [0, *(np.flatnonzero(file[1:] != file[:-1]) + 1).tolist(), len(file)]
    places = {file[start]: slice(start, end) for start, end in pairwise(starts) if start < end}
    plain = {name: _plain(values) for name, values in found.items()}
    for (own_hash,) in hashes:
        own = {name: values[places.get(own_hash, slice(0, 0))] for name, values in plain.items()}
        if (np.diff(own["position"]) < 0).any():
            order = np.argsort(own["position"], kind="stable")
            own = {name: values[order] for name, values in own.items()}
        yield own


def _run_scores(found: Mapping[str, Any], columns: ScoreColumns, known: RunScores | None) -> RunScores:
    """Return the scores in some columns. `known`: another run of the benchmark; equal lists are shared with it."""
    ids, clusters = found["instance_id"].tolist(), found["cluster"].tolist()
    clusters = clusters if any(clusters) else None
    if known and known.ids == ids:
        ids = known.ids
        clusters = known.clusters if known.clusters == clusters else clusters
    return RunScores(
        ids=ids,
        values=found[columns.score],
        clusters=clusters,
        parts=_parsed(_texts(found[columns.parts])),
        failure_codes=_coded(found["failure_code"]),
        seconds=found["seconds"],
    )


def _texts(column: Any) -> list[str] | None:
    """Return a column of texts with "" for NULL, None if all are NULL; DuckDB gives a column of NULLs as numbers."""
    if column.dtype != object:
        return None
    texts = [text or "" for text in column.tolist()]
    return texts if any(texts) else None


def _coded(column: Any) -> CodedTexts | None:
    """Return a column of few different texts with "" for NULL; None if all are NULL."""
    import numpy as np

    given = np.flatnonzero(column != "") if column.dtype == object else ()
    if not len(given):
        return None
    texts = column[given].tolist()
    names = sorted({*texts, *([""] if len(texts) < len(column) else [])})
    place = {name: i for i, name in enumerate(names)}
    codes = np.zeros(len(column), dtype=np.uint32)  # "" comes first
    codes[given] = [place[text] for text in texts]
    return CodedTexts(codes, names)


def _parsed(texts: Sequence[str] | None) -> list[Parts] | None:
    """Parse JSON texts, each distinct text once: the same few texts repeat."""
    if texts is None:
        return None
    known = {text: json.loads(text or "{}") for text in set(texts)}
    return [known[text] for text in texts]


def _plain(values: Any) -> Any:
    """Convert a masked column: NULL becomes nan, or "" in a column of texts."""
    import numpy as np

    if not isinstance(values, np.ma.MaskedArray):
        return values
    return values.filled(np.nan if values.dtype.kind == "f" else "")

"""Reads the scores of many runs at once: from kept files, or with one query for runs with the same columns."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from hashlib import blake2b
from itertools import groupby, pairwise
from threading import Lock
from typing import Any, NamedTuple

from medhelm.analysis.means import in_threads
from medhelm.domain import Parts, Rule, Run
from medhelm.errors import StoreError
from medhelm.io.files import address
from medhelm.io.parquet import connect, open_engine, sql_name, sql_text
from medhelm.storage.damage import damaged_file
from medhelm.storage.derived.folder import derived_folder, identity_of
from medhelm.storage.derived.score_file import ScoreFile
from medhelm.storage.runs import (
    RECORDS,
    CodedTexts,
    RunScores,
    parts_column,
    records_file,
    records_path,
    score_column,
)

TOGETHER = 100
"""Maximum number of runs that are read with one query."""

ROWS = 100_000
"""Number of records after which no further run is read with the same query."""

FILE, TEXTS, FAILURE = "file_hash", "texts_hash", "failure_hash"
"""Names of columns of hashes: of the file of a record, of its id and cluster, and of the code of its failure.

Comparing hashes is faster than making Python strings, which most runs of a benchmark share.
"""

TEXT_COLUMNS = ("instance_id", "cluster")
"""Columns that the hash of texts covers."""

RULE_AT_END: Rule = "corrected"
"""Rule by which scores are kept at the end of a run: that of leaderboards, unless they ask for another one."""

LEAST_AT_END, MOST_AT_END = 5_000, 50_000
"""Sizes of runs whose scores are kept at their end: fewer records are read quickly, reading more takes memory."""

NO_FAILURE = 0
"""Hash of the code of a failure for records without a failure."""


class ScoreColumns(NamedTuple):
    """Columns of records that hold the scores of a run by its main metric."""

    score: str
    """Score of each instance."""
    parts: str
    """Contributions to a metric that is not a mean; records by a mean do not have the column."""

    @property
    def read(self) -> dict[str, str]:
        """Return the columns that are read, with their SQL types."""
        return {
            "position": "BIGINT",
            **dict.fromkeys(TEXT_COLUMNS, "VARCHAR"),
            "failure_code": "VARCHAR",
            "latency_s": "DOUBLE",
            "batched": "BOOLEAN",
            self.score: "DOUBLE",
            self.parts: "VARCHAR",
        }

    @property
    def select(self) -> str:
        """Return the SQL of the values that are computed from these columns for each record."""
        # The requests of a batch have no time of their own.
        is_single = "coalesce(failure_code, '') = '' AND batched IS NOT TRUE"
        return ", ".join(
            [
                "position",
                f"coalesce({sql_name(self.score)}, 'NaN'::DOUBLE) AS score",
                f"CASE WHEN latency_s > 0 AND {is_single} THEN latency_s ELSE 'NaN'::DOUBLE END AS seconds",
                f"CASE WHEN coalesce(failure_code, '') = '' THEN {NO_FAILURE}::UBIGINT ELSE hash(failure_code) END "
                f"AS {FAILURE}",
                f"hash({', '.join(map(_text_column, TEXT_COLUMNS))}) AS {TEXTS}",
                f"{sql_name(self.parts)} AS parts",
            ]
        )


def read_all(runs: Sequence[Run], rule: Rule) -> Iterator[tuple[Run, RunScores]]:
    """Yield each run with its scores by its main metric; runs of one benchmark should be adjacent.

    If the records have not changed, scores are taken from kept files. Other scores are read from the records and kept.
    Raises: StoreError for records that are missing, damaged, or without this metric.
    """
    benchmarks = [_Benchmark(list(group), rule) for _, group in groupby(runs, key=lambda run: run.benchmark)]
    size = max((sum(run.n for run in one.missing) for one in benchmarks), default=0)
    with ExitStack() as open_database:
        connection: list[Any] = []
        opening = Lock()

        def database() -> Any:
            with opening:
                if not connection:
                    opened = connect() if len(runs) <= TOGETHER else open_engine(memory_mb=512, threads=1)
                    connection.append(open_database.enter_context(opened))
                return connection[0].cursor()

        found = in_threads(lambda one: one.read(database), benchmarks, size=size)
        for one, scores in zip(benchmarks, found, strict=True):
            yield from zip(one.runs, scores, strict=True)


class _Benchmark:
    """The runs of one benchmark, and their kept scores."""

    def __init__(self, runs: Sequence[Run], rule: Rule) -> None:
        """Find the kept scores."""
        self.runs, self._rule = runs, rule
        parents = {run.folder.parent: run.folder for run in runs if run.folder}
        folders = {parent: derived_folder(folder) for parent, folder in parents.items()}
        files = {parent: ScoreFile(place, runs[0].benchmark, rule) for parent, place in folders.items() if place}
        self._files = [files.get(run.folder.parent) if run.folder else None for run in runs]
        self._identities = [identity_of(f"{run.folder}/{RECORDS}") for run in runs]
        places = zip(runs, self._files, self._identities, strict=True)
        self._kept = [file.find(run, identity) if file else None for run, file, identity in places]
        self.missing = [run for run, scores in zip(runs, self._kept, strict=True) if scores is None]
        """Runs whose scores must be read from their records."""

    def read(self, database: Callable[[], Any]) -> list[RunScores]:
        """Return the scores of all runs. `database`: opens the engine, which is needed only to read records."""
        known = next((scores for scores in self._kept if scores), None)
        read = _read_records(database(), self.missing, self._rule, known) if self.missing else iter(())
        found = [kept or next(read) for kept in self._kept]
        for run, file, identity, kept, scores in zip(
            self.runs, self._files, self._identities, self._kept, found, strict=True
        ):
            if file and not kept:
                file.add(run, identity, scores)
        for file in {file for file in self._files if file}:
            file.save()
        return found


def keep_scores(run: Run) -> None:
    """Keep the scores of a large run that this process wrote, so that leaderboards need not read its records.

    The caller holds the lock of the run. Records that cannot be read are skipped here; leaderboards report them.
    """
    folder = derived_folder(run.folder)
    if folder is None or not LEAST_AT_END <= run.n <= MOST_AT_END:
        return
    file, identity = ScoreFile(folder, run.benchmark, RULE_AT_END), identity_of(f"{run.folder}/{RECORDS}")
    with suppress(StoreError):
        for scores in _read_records(connect(), [run], RULE_AT_END, None):
            file.add(run, identity, scores, is_own=True)
    file.save()


def _read_records(database: Any, runs: Sequence[Run], rule: Rule, known: RunScores | None) -> Iterator[RunScores]:
    """Yield the scores of runs of one benchmark from their records. `known`: of another run of the benchmark."""
    texts, names = _Texts(known), dict[int, str]()
    for columns, together in _group_by_columns(runs, rule):
        yield from _read_together(database, together, columns, texts, names)


def _read_together(
    database: Any, runs: Sequence[Run], columns: ScoreColumns, texts: _Texts, names: dict[int, str]
) -> Iterator[RunScores]:
    """Yield the scores of some runs. `texts` and `names` (failure codes by hash) are caches that grow here."""
    import duckdb
    import numpy as np

    try:
        found = _fetch(database, runs, columns.read, columns.select)
        own_texts = texts.read(database, runs, [own[TEXTS] for own in found])
        failures = {code for own in found for code in own[FAILURE][own[FAILURE] != NO_FAILURE].tolist()}
        if not failures <= names.keys():
            names.update(_failure_codes(database, runs))
    except duckdb.Error as error:
        if len(runs) == 1:
            raise damaged_file(records_path(runs[0]), error) from error
        for run in runs:
            yield from _read_together(database, [run], columns, texts, names)
        return
    for run, own, (ids, clusters) in zip(runs, found, own_texts, strict=True):
        if np.isnan(own["score"]).all():
            _require_column(database, run, columns.score)
        yield RunScores(
            ids=ids,
            values=own["score"],
            clusters=clusters,
            parts=_parse_parts(_texts_or_none(own["parts"])),
            failure_codes=_code_failures(own[FAILURE], names),
            seconds=own["seconds"],
        )


def _group_by_columns(runs: Sequence[Run], rule: Rule) -> Iterator[tuple[ScoreColumns, list[Run]]]:
    """Yield groups of adjacent runs with the same columns that fit into memory together."""
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


def _records_of(runs: Sequence[Run], read: Mapping[str, str]) -> str:
    """Return columns of the records of some runs, and the name of the file, as an SQL table.

    Columns that some or all records lack are NULL there, because a table without rows that has them all is added.
    """
    columns = {**read, "filename": "VARCHAR"}
    empty = ", ".join(f"NULL::{kind} AS {sql_name(name)}" for name, kind in columns.items())
    wanted = sql_text(f"^({'|'.join(map(re.escape, columns))})$")
    files = f"read_parquet([{', '.join(map(records_file, runs))}], filename=true, union_by_name=true)"
    return f"(SELECT {empty} WHERE false UNION ALL BY NAME SELECT COLUMNS({wanted}) FROM {files})"


def _fetch(database: Any, runs: Sequence[Run], read: Mapping[str, str], select: str) -> list[dict[str, Any]]:
    """Return columns of each run as arrays, in the order of its instances. One query serves them all.

    Parameters: read, columns of the records with their SQL types, NULL in records that lack them; select, SQL of the
    values to compute from them, including the position, which is not returned.
    """
    import numpy as np

    found = database.execute(f"SELECT {select}, hash(filename) AS {FILE} FROM {_records_of(runs, read)}").fetchnumpy()
    paths = ", ".join(sql_text(address(records_path(run))) for run in runs)  # no wildcards are escaped here
    hashes = database.execute(f"SELECT hash(name) FROM (SELECT unnest([{paths}]) AS name)").fetchall()
    file = found.pop(FILE)
    starts = [0, *(np.flatnonzero(file[1:] != file[:-1]) + 1).tolist(), len(file)]
    places = {file[start]: slice(start, end) for start, end in pairwise(starts) if start < end}
    of_runs = []
    for (own_hash,) in hashes:
        own = {name: values[places.get(own_hash, slice(0, 0))] for name, values in found.items()}
        position = own.pop("position")
        if (np.diff(position) < 0).any():
            order = np.argsort(position, kind="stable")
            own = {name: values[order] for name, values in own.items()}
        of_runs.append(own)
    return of_runs


class _Texts:
    """The ids and clusters of instances, which runs of one benchmark mostly share."""

    def __init__(self, known: RunScores | None) -> None:
        """`known`: of a run that was read before."""
        self._known = known
        self._by_hash: dict[bytes, tuple[Sequence[str], Sequence[str] | None]] = {}

    def read(
        self, database: Any, runs: Sequence[Run], hashes: Sequence[Any]
    ) -> list[tuple[Sequence[str], Sequence[str] | None]]:
        """Return ids and clusters of each run; None for no clusters. `hashes`: of the texts of each instance."""
        digests = [blake2b(own.tobytes(), digest_size=16).digest() for own in hashes]
        new = {digest: run for digest, run in zip(digests, runs, strict=True) if digest not in self._by_hash}
        if new:
            self._add(database, new)
        return [self._by_hash[digest] for digest in digests]

    def _add(self, database: Any, new: Mapping[bytes, Run]) -> None:
        """Read the texts of runs into the cache."""
        runs = list(new.values())
        read = {"position": "BIGINT", **dict.fromkeys(TEXT_COLUMNS, "VARCHAR")}
        select = ", ".join(["position", *(f"{_text_column(name)} AS {name}" for name in TEXT_COLUMNS)])
        for digest, own in zip(new, _fetch(database, runs, read, select), strict=True):
            ids, clusters = own["instance_id"].tolist(), own["cluster"].tolist()
            clusters = clusters if any(clusters) else None
            if self._known and self._known.ids == ids:
                ids = self._known.ids
                clusters = self._known.clusters if self._known.clusters == clusters else clusters
            self._by_hash[digest] = (ids, clusters)


def _text_column(name: str) -> str:
    """Return the SQL of a text column, "" for NULL."""
    return f"coalesce({sql_name(name)}, '')"


def _failure_codes(database: Any, runs: Sequence[Run]) -> dict[int, str]:
    """Return the codes of the failures of some runs by hash."""
    records = _records_of(runs, {"failure_code": "VARCHAR"})
    return dict(database.execute(f"SELECT DISTINCT hash(failure_code), failure_code FROM {records}").fetchall())


def _texts_or_none(column: Any) -> list[str] | None:
    """Return a column of texts with "" for NULL; None if all are empty."""
    import numpy as np

    texts = np.ma.filled(column, "").tolist() if np.ma.count(column) else []
    return texts if any(texts) else None


def _code_failures(hashes: Any, names: Mapping[int, str]) -> CodedTexts | None:
    """Return the codes of failures with these hashes, "" for no failure; None if there is none."""
    import numpy as np

    given = np.flatnonzero(hashes != NO_FAILURE)
    if not len(given):
        return None
    texts = [names[one] for one in hashes[given].tolist()]
    listed = sorted({*texts, *([""] if len(texts) < len(hashes) else [])})
    place = {name: i for i, name in enumerate(listed)}
    codes = np.zeros(len(hashes), dtype=np.min_scalar_type(len(listed)))  # "" comes first
    codes[given] = [place[text] for text in texts]
    return CodedTexts(codes, listed)


def _parse_parts(texts: Sequence[str] | None) -> list[Parts] | None:
    """Parse JSON texts, each distinct text once: the same few texts repeat."""
    if texts is None:
        return None
    known = {text: json.loads(text or "{}") for text in set(texts)}
    return [known[text] for text in texts]

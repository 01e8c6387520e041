"""Scores and records of runs, read for leaderboards, merges and counts, with copies of scores that are fast to read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import groupby, pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, cast, overload

from medhelm.analysis.means import in_threads
from medhelm.domain import (
    JURY,
    RULES,
    Completion,
    Failure,
    InjectionSign,
    JudgeReply,
    Judgment,
    JuryVerdict,
    Parts,
    Record,
    Rule,
    Run,
    Score,
)
from medhelm.errors import StoreError
from medhelm.io.files import address
from medhelm.io.parquet import connect, open_engine, sql_name, sql_text
from medhelm.storage.damage import damaged_file
from medhelm.storage.derived_files import (
    LEAST_RUNS,
    Identity,
    derived_folder,
    identity_of,
    is_young,
    read_kept,
    stem_of,
    write_kept,
)
from medhelm.storage.judgments import JUDGMENT_COLUMNS, SUBSCORES, completion_of, iter_replies, read_rows
from medhelm.storage.runs import (
    RECORDS,
    parts_column,
    read_records,
    records_file,
    records_path,
    score_column,
)

if TYPE_CHECKING:
    import numpy as np


# --- stored records ---------------------------------------------------------------------------------------------------


def stored_records(run: Run, metrics: Collection[str]) -> Iterator[Record]:
    """Yield the records of a run as they were recorded.

    Only shards store the scores on parts of a rubric. Columns that files of older versions lack are read as empty.
    """
    judged = read_judged(run) if run.jury_result else None
    for row in read_records(run):
        completion = completion_of(row, row["completion"])
        scores = tuple(_scores(row, metrics, completion))
        said = None if judged is None else judged.get(row["instance_id"], JudgedCompletion([], [], {}))
        yield Record(
            position=row["position"],
            instance_id=row["instance_id"],
            cluster=row["cluster"] or "",
            group=row.get("group") or "",
            request_digest=bytes.fromhex(row["request_digest"] or ""),
            completion=completion,
            truncated_characters=row.get("left_out") or 0,
            is_unreadable=row.get("unreadable"),
            scores=scores,
            judge_replies=tuple(said.replies) if said else (),
            jury_verdict=said and _verdict(row, scores, said),
            injection_signs=_signs(row),
        )


def _signs(row: Mapping[str, Any]) -> tuple[InjectionSign, ...]:
    return tuple(cast("InjectionSign", sign) for sign in (row.get("suspicions") or "").split(", ") if sign)


def _verdict(row: Mapping[str, Any], scores: Iterable[Score], said: JudgedCompletion) -> JuryVerdict:
    return JuryVerdict(
        scores=tuple(score for score in scores if score.metric == JURY),
        judgments=tuple(said.judgments),
        coverage=row.get("jury_coverage"),
        subscores=said.subscores,
    )


def _scores(row: Mapping[str, Any], metrics: Collection[str], completion: Completion) -> Iterator[Score]:
    """Yield the scores of a record in the order in which they were computed: that of the jury comes last."""
    # Of several missing scores the row has the reason of the last one.
    _, _, reason = (row.get("score_failure") or "").partition(": ")
    for metric in sorted(metrics, key=lambda name: name == JURY):
        for rule in RULES:
            value = row.get(score_column(metric, rule))
            parts = json.loads(row.get(parts_column(metric, rule)) or "{}")
            yield Score(
                metric=metric,
                rule=rule,
                value=value,
                failure=(completion.failure or Failure("metric", "not_scored", reason)) if value is None else None,
                parts={label: (numerator, denominator) for label, (numerator, denominator) in parts.items()},
            )


class JudgedCompletion(NamedTuple):
    """All judgments, replies and subscores of one completion."""

    judgments: list[Judgment]
    replies: list[JudgeReply]
    subscores: dict[str, float]


def read_judged(run: Run) -> dict[str, JudgedCompletion]:
    """Read the judgments, replies and subscores of a run by instance, each in the order written."""
    found: dict[str, JudgedCompletion] = {}

    def of(instance_id: str) -> JudgedCompletion:
        return found.setdefault(instance_id, JudgedCompletion([], [], {}))

    for instance_id, judge, criterion, score, points, code, message, explanation in read_rows(
        run, "judgments.parquet", ", ".join(list(JUDGMENT_COLUMNS)[1:])
    ):
        of(instance_id).judgments.append(
            Judgment(
                judge=judge,
                criterion=criterion,
                score=score,
                points=points,
                failure=None if code is None else Failure("judge", code, message or ""),
                explanation=explanation,
            )
        )
    for instance_id, reply in iter_replies(run):
        of(instance_id).replies.append(reply)
    for instance_id, subscores in read_rows(run, SUBSCORES, "instance_id, subscores"):
        of(instance_id).subscores.update(json.loads(subscores))
    return found


# --- scores -----------------------------------------------------------------------------------------------------------


class CodedTexts(Sequence[str]):
    """Texts of which few are different, as numbers of their places in a list."""

    def __init__(self, codes: np.ndarray, names: Sequence[str]) -> None:
        """Parameters: codes, shape (n,), place of each text in `names`."""
        self.codes, self.names = codes, names

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> CodedTexts: ...
    def __getitem__(self, place: int | slice) -> str | CodedTexts:
        """Return one text, or some."""
        if isinstance(place, slice):
            return CodedTexts(self.codes[place], self.names)
        return self.names[int(self.codes[place])]

    def among(self, texts: Collection[str]) -> np.ndarray:
        """Return which texts are among some others: shape (n,)."""
        import numpy as np

        found: np.ndarray = np.array([name in texts for name in self.names], dtype=bool)[self.codes]
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunScores:
    """Scores of a run by one metric and rule, in the order of its instances.

    Runs of a benchmark on the same instances share one list of ids and one of clusters.
    """

    ids: Sequence[str]
    """Instance ids."""
    values: np.ndarray
    """Score of each instance, nan if missing; shape (n,)."""
    clusters: Sequence[str] | None
    """Cluster of each instance, "" for none; None if no instance has a cluster."""
    parts: Sequence[Parts] | None
    """Contribution of each instance to the metric; None if the metric is the mean of the scores."""
    failure_codes: CodedTexts | None = None
    """Code of the failure of each instance, "" for none; None if no instance failed, or it was not read."""
    seconds: np.ndarray | None = None
    """Seconds of each request whose completion arrived, nan for batches and unknown times; None if it was not read."""


def read_scores(run: Run, metric: str, rule: Rule) -> RunScores:
    """Read the scores of a run by one metric and rule from its records. Raises: StoreError as `read_all`."""
    (scores,) = _read_records(connect(), [replace(run, main_metric=metric)], rule, None)
    return scores


# --- score file -------------------------------------------------------------------------------------------------------
# Keeps the scores of runs, so that a leaderboard does not read thousands of record files.
#
# STORE/derived/BENCHMARK-DIGEST-RULE.npz holds what `RunScores` needs of the runs of a benchmark: numbers, ids of
# instances and of clusters, and codes of failures; no other texts. Runs with a pooled metric, such as macro F1, are
# always read anew.
#
# The scores of a run are used only if the file of its records has the size, the times and the number (inode) that it
# had before they were read. Those of young records are kept only by the process that wrote these.

LEAST_RECORDS = 100
"""Records of a benchmark from which its scores are kept."""

Key = tuple[str, str]
"""Folder of a run within `runs`, and column of its scores."""

Entries = dict[Key, tuple[Identity, RunScores]]
"""Identity of the records of each run, and its scores."""


class ScoreFile:
    """The kept scores of one benchmark by one rule."""

    def __init__(self, folder: Path, benchmark: str, rule: Rule) -> None:
        """Read the file. `folder`: see `derived_folder`."""
        self._runs, self._rule = folder.parent / "runs", rule
        self._path = folder / f"{stem_of(benchmark)}-{rule}.npz"
        found = read_kept(self._path)
        self._entries = _entries(*found) if found else {}
        self._is_changed = False

    def find(self, run: Run, identity: Identity | None) -> RunScores | None:
        """Return the scores of a run; None if they are not kept, or its records were written since."""
        kept_identity, scores = self._entries.get(self._key(run), (None, None))
        return scores if kept_identity == identity else None

    def add(self, run: Run, identity: Identity | None, scores: RunScores, *, is_own: bool = False) -> None:
        """Add the scores of a run.

        Parameters: identity, of its records, from before they were read; is_own, this process wrote them.
        """
        if identity is None or scores.parts is not None or (is_young(identity) and not is_own):
            return
        self._entries[self._key(run)] = identity, scores
        self._is_changed = True

    def save(self) -> None:
        """Write the file if something was added and it is worth it."""
        if not self._is_changed:
            return
        kept = {key: one for key, one in self._entries.items() if (self._runs / key[0]).exists()}
        if len(kept) >= LEAST_RUNS or sum(len(scores.ids) for _, scores in kept.values()) >= LEAST_RECORDS:
            write_kept(self._path, *_content(kept))

    def _key(self, run: Run) -> Key:
        assert run.folder is not None, "only stored runs are kept"
        return "/".join(run.folder.parts[-2:]), score_column(run.main_metric, self._rule)


def _content(entries: Entries) -> tuple[Any, Mapping[str, np.ndarray]]:
    """Return the JSON value and the arrays of a file: those of all runs, one after the other. Equal lists come once."""
    import numpy as np

    lists: dict[Any, int] = {}
    places: dict[int, int] = {}  # by identity: most runs share their lists
    runs, values, seconds, codes = [], [], [], []
    for (folder, column), (identity, scores) in entries.items():
        for texts in (scores.ids, scores.clusters):
            if id(texts) not in places:
                places[id(texts)] = lists.setdefault(None if texts is None else tuple(texts), len(lists))
        n, failures = len(scores.ids), scores.failure_codes
        names = None if failures is None else failures.names
        runs.append([folder, column, identity, n, places[id(scores.ids)], places[id(scores.clusters)], names])
        values.append(scores.values)
        seconds.append(np.full(n, np.nan) if scores.seconds is None else scores.seconds)
        codes.append(np.zeros(n, np.uint8) if failures is None else failures.codes)
    arrays = {"values": values, "seconds": seconds, "codes": codes}
    return {"lists": list(lists), "runs": runs}, {name: np.concatenate(pieces) for name, pieces in arrays.items()}


def _entries(about: Any, arrays: Mapping[str, np.ndarray]) -> Entries:
    """Return the runs in a file."""
    found: Entries = {}
    lists, end = about["lists"], 0
    for folder, column, identity, n, ids, clusters, names in about["runs"]:
        some, end = slice(end, end + n), end + n
        scores = RunScores(
            ids=lists[ids],
            values=arrays["values"][some],
            clusters=lists[clusters],
            parts=None,
            failure_codes=None if names is None else CodedTexts(arrays["codes"][some], names),
            seconds=arrays["seconds"][some],
        )
        found[folder, column] = tuple(identity), scores
    return found


# --- reading many runs ------------------------------------------------------------------------------------------------
# Reads the scores of many runs at once: from kept files, or with one query for runs with the same columns.

TOGETHER = 100
"""Maximum number of runs that are read with one query."""

ROWS = 100_000
"""Number of records after which no further run is read with the same query."""

OPENING, READING = 1_000, 50
"""Records that are read while a file is opened, and numbers that NumPy adds up while a record is read; about."""

FILE, TEXTS = "file_hash", "texts_hash"
"""Names of columns of hashes: of the file of a record, and of its id and cluster.

Comparing hashes is faster than making Python strings, which most runs of a benchmark share.
"""

TEXT_COLUMNS = ("instance_id", "cluster")
"""Columns that the hash of texts covers."""

RULE_AT_END: Rule = "corrected"
"""Rule by which scores are kept at the end of a run: that of leaderboards, unless they ask for another one."""

LEAST_AT_END, MOST_AT_END = 5_000, 50_000
"""Sizes of runs whose scores are kept at their end: fewer records are read quickly, reading more takes memory."""


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
                "failure_code",
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
    size = max((sum(OPENING + run.n for run in one.missing) for one in benchmarks), default=0) * READING
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
    texts = _Texts(known)
    for columns, together in _group_by_columns(runs, rule):
        yield from _read_together(database, together, columns, texts)


def _read_together(database: Any, runs: Sequence[Run], columns: ScoreColumns, texts: _Texts) -> Iterator[RunScores]:
    """Yield the scores of some runs. `texts` is a cache that grows here."""
    import duckdb
    import numpy as np

    try:
        found = _fetch(database, runs, columns.read, columns.select)
        own_texts = texts.read(database, runs, [own[TEXTS] for own in found])
    except duckdb.Error as error:
        if len(runs) == 1:
            raise damaged_file(records_path(runs[0]), error) from error
        for run in runs:
            yield from _read_together(database, [run], columns, texts)
        return
    for run, own, (ids, clusters) in zip(runs, found, own_texts, strict=True):
        if np.isnan(own["score"]).all():
            _require_column(database, run, columns.score)
        yield RunScores(
            ids=ids,
            values=own["score"],
            clusters=clusters,
            parts=_parse_parts(_texts_or_none(own["parts"])),
            failure_codes=_code_failures(_texts_or_none(own["failure_code"])),
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


def _texts_or_none(column: Any) -> list[str] | None:
    """Return a column of texts with "" for NULL; None if all are empty."""
    import numpy as np

    texts = np.ma.filled(column, "").tolist() if np.ma.count(column) else []
    return texts if any(texts) else None


def _code_failures(texts: Sequence[str] | None) -> CodedTexts | None:
    """Return the codes of failures, "" for no failure, as numbers."""
    import numpy as np

    if texts is None:
        return None
    names = sorted(set(texts))
    places = {name: place for place, name in enumerate(names)}
    return CodedTexts(np.array([places[text] for text in texts], dtype=np.min_scalar_type(len(names))), names)


def _parse_parts(texts: Sequence[str] | None) -> list[Parts] | None:
    """Parse JSON texts, each distinct text once: the same few texts repeat."""
    if texts is None:
        return None
    known = {text: json.loads(text or "{}") for text in set(texts)}
    return [known[text] for text in texts]

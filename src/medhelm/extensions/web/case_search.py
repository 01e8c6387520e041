"""Searches the instances of a benchmark over the records of several runs.

Everything is read from the Parquet files of the runs with one query. Values that come from people are bound parameters;
names in the text of a query are those of our own columns.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from medhelm.domain import Run
from medhelm.domain.result import HALF
from medhelm.errors import StoreError
from medhelm.io.files import address, reason
from medhelm.io.parquet import connect, sql_name, sql_path, sql_text
from medhelm.storage.damage import damaged
from medhelm.storage.store import stored_folder

if TYPE_CHECKING:
    import duckdb

CaseFilter = Literal["all", "wrong", "right", "different", "judges", "failed", "unscored", "truncated", "injection"]
"""Filter by what happened to an instance.

`different`: one model is right and another wrong; `judges`: judges of one completion differ by half of the scale or
more; `failed`: a completion is missing; `unscored`: a score is missing; `injection`: signs of a prompt injection.
"""

CaseOrder = Literal["position", "id", "worst", "best", "spread", "judges"]
"""Order of instances: as in the data; by id; by mean score; by the difference between models, or between judges."""

SearchedText = Literal["all", "prompt", "completion"]
"""Texts that are searched; `all` also searches ids."""

PLAIN_KEY = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")
"""Texts that are their own key."""

RESERVED = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]")
"""Names that Windows reserves for devices."""

SEPARATOR, DIGITS = "~", 20
"""Sign before the digest in a key, and its length in hexadecimal digits."""


def url_key(text: str) -> str:
    """Convert any text to a short key that is valid in a URL and as a file name; different texts have different keys.

    A key has no upper-case letters, because some file systems do not distinguish them.

    >>> url_key("21645374"), url_key("lab/model 7"), url_key("../../etc")
    ('21645374', 'lab-model-7~d85fffe3d46e10867918', 'etc~74ccf3c5b4c19a8167f9')
    """
    if PLAIN_KEY.fullmatch(text) and not RESERVED.fullmatch(text):
        return text
    readable = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40]
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:DIGITS]
    return f"{readable or 'x'}{SEPARATOR}{digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedRuns:
    """Runs of one benchmark with the same main metric."""

    runs: Mapping[str, Run]
    """Model, with its store if there are several -> run."""
    score: str
    """Column of the main metric."""
    worst: float
    """Worst score."""
    best: float
    """Best score."""
    counted_as_worst: Sequence[str] = ()
    """Codes of failures that count as the worst score."""
    prompts: Sequence[Path] = ()
    """Files of prompts; some may be missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSearch:
    """Conditions on instances. Conditions on completions must hold for one completion together."""

    text: str = ""
    """Text to find, in any case; empty for all."""
    within: SearchedText = "all"
    """Texts that are searched."""
    model: str = ""
    """Model whose completions are searched; empty for any model."""
    show: CaseFilter = "all"
    """Filter by what happened."""
    failure: str = ""
    """Failure code of a completion; empty for any."""
    group: str | None = None
    """Group of instances; None for all."""
    low: float | None = None
    """Lowest score of a completion."""
    high: float | None = None
    """Highest score of a completion."""
    got: str = ""
    """Model that is right; empty for any."""
    missed: str = ""
    """Model that is wrong; empty for any."""
    sort: CaseOrder = "position"
    """Order of the result."""


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One instance in the list of a search."""

    instance_id: str
    """Id of the instance."""
    group: str
    """Group of the instance; empty if there are none."""
    scores: Mapping[str, float | None]
    """Model -> score by the main metric; None if it is missing. A model without this instance is not a key."""
    shares: Mapping[str, float | None]
    """Model -> the same on a scale from 0 (worst) to 1 (best); a failure that the model caused is 0."""
    failures: Mapping[str, str]
    """Model -> failure code of its completion."""


@dataclass(frozen=True, slots=True)
class StoredCase:
    """One instance as the store has it."""

    row: CaseRow
    """Scores of all models."""
    records: Mapping[str, Mapping[str, Any]]
    """Model -> all columns of its record; a column that only other files have is None."""


_RECORD = {
    "wrong": f"share < {HALF}",
    "right": f"share >= {HALF}",
    "failed": "failure_code IS NOT NULL",
    "unscored": "score IS NULL",
    "truncated": "(truncated_characters > 0 OR finish_reason = 'length' OR failure_code = 'length')",
    "injection": "injection_signs <> ''",
}
"""Filter -> SQL condition on one record."""

_ORDER = {
    "position": "position",
    "id": "instance_id",
    "worst": "mean_share NULLS LAST",
    "best": "mean_share DESC NULLS LAST",
    "spread": "spread DESC NULLS LAST",
    "judges": "judge_spread DESC NULLS LAST",
}
"""Order -> SQL. Equal instances follow in the order of the data."""

_COLUMNS = {
    "group": ("group", "VARCHAR"),
    "completion": ("completion", "VARCHAR"),
    "finish_reason": ("finish_reason", "VARCHAR"),
    "failure_code": ("failure_code", "VARCHAR"),
    "truncated_characters": ("left_out", "BIGINT"),
    "injection_signs": ("suspicions", "VARCHAR"),
}
"""Column of the view -> column on disk and its type; files of older versions lack some."""


def search_cases(searched: SearchedRuns, search: CaseSearch) -> list[str]:
    """Return the ids of all instances that meet the conditions, in order.

    Raises: StoreError for records that cannot be read.
    """
    with _Records(searched) as records:
        return records.search(search)


def read_case_rows(searched: SearchedRuns, instance_ids: Sequence[str]) -> list[CaseRow]:
    """Read the scores of these instances by all models, in the order of the ids."""
    with _Records(searched) as records:
        return records.case_rows(instance_ids)


def read_case(searched: SearchedRuns, key: str, models: Sequence[str]) -> StoredCase | None:
    """Read the instance with this key (see `url_key`), with the records of these models; None if no run has it."""
    with _Records(searched) as records:
        instance_id = records.instance_id(key)
        if instance_id is None:
            return None
        return StoredCase(records.case_rows([instance_id])[0], records.whole(instance_id, models))


def count_outcomes(searched: SearchedRuns, got: str, missed: str) -> tuple[int, int, int, int]:
    """Compare two models: count the instances that both, only the first, only the second, and none got right."""
    with _Records(searched) as records:
        query = (
            f"WITH pairs AS (SELECT bool_or(share >= {HALF}) FILTER (model = ?) AS a, "  # noqa: S608 - our own number
            f"bool_or(share >= {HALF}) FILTER (model = ?) AS b FROM records GROUP BY instance_id) "
            "SELECT count(*) FILTER (a AND b), count(*) FILTER (a AND NOT b), count(*) FILTER (b AND NOT a), "
            "count(*) FILTER (NOT a AND NOT b) FROM pairs"
        )
        both, first, second, none = records.rows(query, [got, missed])[0]
    return both, first, second, none


def read_choices(searched: SearchedRuns) -> tuple[list[str], list[str]]:
    """Return the groups of instances and the failure codes that occur, sorted."""
    with _Records(searched) as records:
        groups = records.rows('SELECT DISTINCT "group" FROM records WHERE "group" <> \'\' ORDER BY 1', [])
        codes = records.rows("SELECT DISTINCT failure_code FROM records WHERE failure_code IS NOT NULL ORDER BY 1", [])
    return [row[0] for row in groups], [row[0] for row in codes]


class _Records:
    """A connection with the view `records`: one row per instance and model."""

    def __init__(self, searched: SearchedRuns) -> None:
        self._searched = searched
        self._files = {address(stored_folder(run) / "records.parquet"): model for model, run in searched.runs.items()}
        self._connection = connect()

    def __enter__(self) -> _Records:
        import duckdb

        try:
            self._make_view()
        except duckdb.Error as error:
            self._connection.close()
            raise _unreadable(self._searched, error) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def rows(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Raises: StoreError for damaged files."""
        import duckdb

        try:
            return self._connection.execute(query, list(values)).fetchall()
        except duckdb.Error as error:
            raise _unreadable(self._searched, error) from error

    def instance_id(self, key: str) -> str | None:
        """Return the id of the instance with this key; None if no run has it."""
        digest = key.rpartition(SEPARATOR)[2]
        is_plain = digest == key
        condition, value = ("instance_id = ?", key) if is_plain else (f"sha256(instance_id)[:{DIGITS}] = ?", digest)
        rows = self.rows(f"SELECT DISTINCT instance_id FROM records WHERE {condition} ORDER BY 1", [value])  # noqa: S608
        return next((row[0] for row in rows if url_key(row[0]) == key), None)

    def case_rows(self, instance_ids: Sequence[str]) -> list[CaseRow]:
        """Return the scores of these instances by all models, in the order of the ids."""
        query = (
            'SELECT instance_id, model, "group", score, share, failure_code FROM records '
            "WHERE instance_id IN (SELECT unnest(?::VARCHAR[])) ORDER BY instance_id"
        )
        by_id = groupby(self.rows(query, [list(instance_ids)]), key=lambda row: row[0])
        found = {instance_id: list(own) for instance_id, own in by_id}
        order = list(self._searched.runs)
        cases = []
        for instance_id in instance_ids:
            rows = sorted(found.get(instance_id, []), key=lambda row: order.index(row[1]))
            cases.append(
                CaseRow(
                    instance_id,
                    next((row[2] for row in rows if row[2]), ""),
                    {row[1]: row[3] for row in rows},
                    {row[1]: row[4] for row in rows},
                    {row[1]: row[5] for row in rows if row[5]},
                )
            )
        return cases

    def whole(self, instance_id: str, models: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return model -> all columns of the record of an instance."""
        paths = [path for path, model in self._files.items() if model in models]
        if not paths:
            return {}
        table = f"read_parquet([{', '.join(map(sql_path, paths))}], union_by_name = true, filename = true)"
        rows = self.rows(f"SELECT * FROM {table} WHERE instance_id = ?", [instance_id])  # noqa: S608 - our own files
        names = [column[0] for column in self._connection.description or ()]
        records = (dict(zip(names, row, strict=True)) for row in rows)
        return {self._files[record.pop("filename")]: record for record in records}

    def search(self, search: CaseSearch) -> list[str]:
        """Return the ids of the instances that meet the conditions, in order."""
        each, values = self._on_record(search)
        whole, more = self._on_instance(search)
        with_judges = self._judged_files(search.model) if "judges" in (search.show, search.sort) else []
        judged, spread = "", "NULL"
        if with_judges:
            judged, spread = f"LEFT JOIN ({self._judge_spreads(with_judges)}) USING (instance_id)", "any_value(judges)"
        query = (
            f"WITH found AS (SELECT instance_id, min(position) AS position, avg(share) AS mean_share, "  # noqa: S608
            f"max(share) - min(share) AS spread, {spread}::DOUBLE AS judge_spread "
            f"FROM records {judged} GROUP BY instance_id "
            f"HAVING {' AND '.join([f'bool_or({each})', *whole])}) "
            f"SELECT instance_id FROM found {f'WHERE judge_spread >= {HALF}' if search.show == 'judges' else ''} "
            f"ORDER BY {_ORDER[search.sort]}, position, instance_id"
        )
        return [row[0] for row in self.rows(query, [*values, *more])]

    def _on_record(self, search: CaseSearch) -> tuple[str, list[Any]]:
        """Return the SQL condition on one record with its values."""
        conditions: list[tuple[str, list[Any]]] = [("true", [])]
        if search.model:
            conditions.append(("model = ?", [search.model]))
        if search.show in _RECORD:
            conditions.append((_RECORD[search.show], []))
        if search.failure:
            conditions.append(("failure_code = ?", [search.failure]))
        if search.low is not None:
            conditions.append(("score >= ?", [search.low]))
        if search.high is not None:
            conditions.append(("score <= ?", [search.high]))
        if search.text:
            conditions.append(self._on_text(search))
        return " AND ".join(sql for sql, _ in conditions), [value for _, values in conditions for value in values]

    def _on_text(self, search: CaseSearch) -> tuple[str, list[Any]]:
        pattern = re.escape(search.text)
        alternatives: list[tuple[str, list[Any]]] = []
        if search.within != "prompt":
            alternatives.append(("coalesce(regexp_matches(completion, ?, 'i'), false)", [pattern]))
        if search.within == "all":
            alternatives.append(("regexp_matches(instance_id, ?, 'i')", [pattern]))
        if search.within != "completion":
            ids = list(ids_with_prompt_text(self._connection, self._searched.prompts, search.text))
            alternatives.append(("instance_id IN (SELECT unnest(?::VARCHAR[]))", [ids]))
        sql = " OR ".join(sql for sql, _ in alternatives)
        return f"({sql})", [value for _, values in alternatives for value in values]

    def _on_instance(self, search: CaseSearch) -> tuple[list[str], list[Any]]:
        """Return the SQL conditions on all records of an instance with their values."""
        conditions: list[str] = []
        values: list[Any] = []
        if search.show == "different":
            conditions.append(f"bool_or(share >= {HALF}) AND bool_or(share < {HALF})")
        if search.group is not None:
            conditions.append('bool_or("group" = ?)')
            values.append(search.group)
        for model, comparison in ((search.got, ">="), (search.missed, "<")):
            if model:
                conditions.append(f"coalesce(bool_or(share {comparison} {HALF}) FILTER (model = ?), false)")
                values.append(model)
        return conditions, values

    def _make_view(self) -> None:
        """Create the view."""
        paths = f"[{', '.join(map(sql_path, self._files))}]"
        table = f"read_parquet({paths}, union_by_name = true, filename = true)"
        known = {row[0] for row in self._connection.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()}  # noqa: S608
        columns = [
            f"{sql_name(stored) if stored in known else 'NULL'}::{kind} AS {sql_name(name)}"
            for name, (stored, kind) in _COLUMNS.items()
        ]
        score = sql_name(self._searched.score) if self._searched.score in known else "NULL::DOUBLE"
        score = f"CASE WHEN isfinite({score}) THEN {score} END"
        self._connection.execute("CREATE TEMP TABLE models (path VARCHAR, model VARCHAR)")
        self._connection.execute(
            "INSERT INTO models SELECT unnest(?::VARCHAR[]), unnest(?::VARCHAR[])",
            [list(self._files), list(self._files.values())],
        )
        self._connection.execute(
            f"CREATE TEMP VIEW records AS SELECT *, {self._share()} AS share "  # noqa: S608 - our own names
            f"FROM (SELECT instance_id, position, model, {', '.join(columns)}, {score} AS score "
            f"FROM {table} AS r JOIN models ON r.filename = models.path)"
        )

    def _share(self) -> str:
        """Return the SQL of a score on a scale from 0 (worst) to 1 (best); NULL for an unbounded scale."""
        worst, best = float(self._searched.worst), float(self._searched.best)
        if not math.isfinite(best - worst) or best == worst:
            return "NULL::DOUBLE"
        codes = ", ".join(sql_text(code) for code in self._searched.counted_as_worst)
        failed = f"score IS NULL AND failure_code IN ({codes})" if codes else "false"
        return f"CASE WHEN {failed} THEN 0.0 ELSE (score - ({worst!r})::DOUBLE) / ({best - worst!r})::DOUBLE END"

    def _judged_files(self, model: str) -> list[Path]:
        """Return the files with the judgments of one model, or of all."""
        runs = [run for name, run in self._searched.runs.items() if model in ("", name)]
        files = [stored_folder(run) / "judgments.parquet" for run in runs]
        return [path for path in files if path.is_file()]

    def _judge_spreads(self, files: Sequence[Path]) -> str:
        """Return the SQL of the largest difference between judges of each instance, as a share of the scale."""
        run = next(run for run in self._searched.runs.values() if run.jury_result)
        result = run.jury_result
        assert result is not None, "only judged runs have such files"
        span = float(result.high - result.low) or 1.0
        paths = ", ".join(map(sql_path, files))
        return (
            "SELECT instance_id, max(spread) AS judges FROM ("  # noqa: S608 - our own files
            f"SELECT instance_id, (max(score) - min(score)) / {span!r} AS spread "
            f"FROM read_parquet([{paths}], filename = true) GROUP BY filename, instance_id, criterion) "
            "GROUP BY instance_id"
        )


def ids_with_prompt_text(connection: duckdb.DuckDBPyConnection, files: Sequence[Path], text: str) -> Iterator[str]:
    """Yield the ids of instances whose prompt, choices or references contain a text in any case.

    Prompts are stored as JSON, whose keys must not match. A part of the text that JSON never escapes selects the rows
    that are parsed. DuckDB refuses a lone surrogate, which JSON of Python can hold: such rows are parsed here.
    """
    pattern = re.escape(text)
    plain = max(re.findall(r"[ !#-\[\]-~]+", text), key=len, default="")
    for path in files:
        if not path.is_file():
            continue
        cursor = connection.execute(
            f'SELECT instance_id, texts IS NULL, messages, choices, "references" FROM ('  # noqa: S608 - our own file
            f"SELECT *, {_PROMPT_TEXTS} AS texts FROM read_parquet({sql_path(path)}) "
            "WHERE regexp_matches(concat(messages, choices, \"references\"), ?, 'i')) "
            "WHERE texts IS NULL OR regexp_matches(texts, ?, 'i')",
            [re.escape(plain), pattern],
        )
        while rows := cursor.fetchmany(1000):
            for instance_id, is_unread, *columns in rows:
                if not is_unread or re.search(pattern, "\0".join(_texts(*columns)), re.IGNORECASE):
                    yield instance_id


_PROMPT_TEXTS = """
CASE WHEN json_valid(messages) AND json_valid(choices) AND json_valid("references") THEN concat_ws(chr(0),
    array_to_string(json_extract_string(messages, '$[*].content'), chr(0)),
    array_to_string(json_extract_string(choices, '$[*]'), chr(0)),
    array_to_string(json_extract_string("references", '$[*].text'), chr(0))) END
"""
"""SQL of all texts of a prompt, separated by NUL; NULL if DuckDB cannot parse them."""


def _texts(messages: str, choices: str, references: str) -> list[str]:
    """Parse all texts of a prompt."""
    contents = [one["content"] for one in json.loads(messages)]
    return [*contents, *json.loads(choices), *(one["text"] for one in json.loads(references))]


def read_prompts(files: Sequence[Path], instance_ids: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """Read the messages of these instances and of the first two in each file, by id; others are left out."""
    found: dict[str, list[dict[str, str]]] = {}
    with connect() as connection:
        for path in files:
            if path.is_file():
                rows = connection.execute(
                    f"SELECT instance_id, messages FROM read_parquet({sql_path(path)}) "  # noqa: S608 - our own file
                    "WHERE instance_id IN (SELECT unnest(?::VARCHAR[])) OR position < 2",
                    [list(instance_ids)],
                ).fetchall()
                found = {instance_id: json.loads(messages) for instance_id, messages in rows} | found
    return found


def _unreadable(searched: SearchedRuns, error: Exception) -> StoreError:
    """Return an error that names each damaged file."""
    problems = damaged(stored_folder(run) / "records.parquet" for run in searched.runs.values())
    return StoreError("\n".join(map(str, problems)) or f"records cannot be read: {reason(error)}")

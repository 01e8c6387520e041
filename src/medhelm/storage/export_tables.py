"""Exports runs as tables in CSV or Parquet, a few thousand rows at a time.

Rows are in the order of the runs, then of their instances, so that the same store gives the same bytes.

CSV follows RFC 4180 in UTF-8: a missing value is an empty field, an empty text is `""`, and numbers keep all digits.
A text that a spreadsheet would run as a formula gets a leading apostrophe.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from medhelm.domain import RULES
from medhelm.domain.text import SERVERS
from medhelm.io.files import address, open_file
from medhelm.io.folders import WorkFolder
from medhelm.io.parquet import connect, sql_name, sql_path, sql_text
from medhelm.io.spreadsheets import FORMULA, NUMBER
from medhelm.storage.judgments import JUDGMENT_COLUMNS
from medhelm.storage.privacy import Pseudonyms
from medhelm.storage.runs import RECORD_COLUMNS, score_column

if TYPE_CHECKING:
    import duckdb

Format = Literal["csv", "parquet"]
"""File formats of tables."""

ROW_GROUP, ROW_GROUP_BYTES = 65_536, 2**26
"""Maximum number of rows, and approximate number of bytes, of a Parquet file held in memory at once."""

_TYPES = {**RECORD_COLUMNS, **JUDGMENT_COLUMNS, **{f"main_score_{rule}": "DOUBLE" for rule in RULES}}


def _typed(names: str) -> Mapping[str, str]:
    """Return columns with their types: those that files of the store have; other columns hold texts."""
    return {name: _TYPES.get(name, "VARCHAR") for name in names.split()}


RECORDS = _typed(
    "run benchmark model position instance_id cluster group main_score_corrected main_score_published failure_boundary "
    "failure_code finish_reason input_tokens cached_input_tokens output_tokens reasoning_tokens cache_write_tokens "
    "latency_s batched reported_model fingerprint refused_parts left_out suspicions jury_coverage"
)
"""First columns of the table of records; two per metric and those with texts follow."""

RECORD_TEXTS = _typed("completion reasoning token_logprobs failure_message score_failure")
"""Columns of the table of records with texts from models and servers."""

JUDGMENTS = _typed("run benchmark model position instance_id judge criterion score points failure_code")
"""First columns of the table of judgments; those with texts follow."""

JUDGMENT_TEXTS = _typed("explanation failure_message")
"""Columns of the table of judgments with texts from judges."""

PROMPTS = _typed("benchmark benchmark_digest data_digest position instance_id messages choices references")
"""Columns of the table of prompts."""

_OPTIONAL = (
    "cluster",
    "group",
    "suspicions",
    "finish_reason",
    "reported_model",
    "fingerprint",
    "refused_parts",
    "explanation",
)
"""Columns whose empty texts are exported as missing values."""

_OF_SERVERS = ("failure_message", "score_failure")
"""Columns that are exported without the addresses of servers."""

_CHUNK = 2**20
"""Bytes of a CSV file that are read at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSource:
    """A Parquet file of the store, and the constant columns to add to its rows."""

    path: Path
    """The file."""
    front: Mapping[str, str]
    """Column -> value for all rows of the file."""
    metric: str = ""
    """Main metric of the run, if the file holds records."""


def record_columns(metrics: Sequence[str], *, texts: bool) -> dict[str, str]:
    """Return the columns of the table of records with their types."""
    scores = {score_column(metric, rule): "DOUBLE" for metric in metrics for rule in RULES}
    return {**RECORDS, **scores, **(RECORD_TEXTS if texts else {})}


def judgment_columns(*, texts: bool) -> dict[str, str]:
    """Return the columns of the table of judgments with their types."""
    return {**JUDGMENTS, **(JUDGMENT_TEXTS if texts else {})}


def write_rows(path: Path, columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows in memory as a table and return their number. The suffix of `path` determines the format."""
    n = longest = 0
    with WorkFolder(path.parent) as work, connect() as connection:
        lines = work.path / "rows.jsonl"
        with open_file(lines, "wb") as file:
            for row in rows:
                line = json.dumps({name: row[name] for name in columns}, ensure_ascii=False).encode("utf-8", "replace")
                file.write(line + b"\n")
                n, longest = n + 1, max(longest, len(line))
        types = ", ".join(f"{sql_name(name)}: '{kind}'" for name, kind in columns.items())
        read = f"read_json({sql_path(lines)}, format='nd', columns={{{types}}}, maximum_object_size={longest + 2**20})"
        query = f"SELECT * FROM {read}" if n else _empty_query(columns)  # noqa: S608 - our own names
        _copy(connection, query, columns, path, ROW_GROUP)
    return n


def write_joined(
    path: Path, columns: Mapping[str, str], sources: Sequence[RecordSource], names: Pseudonyms | None = None
) -> int:
    """Concatenate files of the store into one table and return its number of rows.

    A column that a file does not have is missing in its rows. The suffix of `path` determines the format. `names`:
    keyed hashes to write in place of the names of clusters.
    """
    if not sources:
        return write_rows(path, columns, ())
    with connect() as connection:
        files = ", ".join(sql_path(source.path) for source in sources)
        read = f"read_parquet([{files}], union_by_name = true, filename = true)"
        known = {row[0] for row in connection.execute(f"DESCRIBE FROM {read}").fetchall()}
        _register(connection, sources)
        chosen = [f"{_expression(name, known, sources, names)} AS {sql_name(name)}" for name in columns]
        # All rows of a file have the same single match, so the join keeps their order.
        query = f"SELECT {', '.join(chosen)} FROM {read} AS f JOIN sources AS s ON f.filename = s.path"  # noqa: S608
        n_rows, size = _count_rows_and_bytes(connection, sources)
        together = max(1, min(ROW_GROUP, ROW_GROUP_BYTES * n_rows // max(size, 1)))
        _copy(connection, query, columns, path, together)
    return n_rows


def _register(connection: duckdb.DuckDBPyConnection, sources: Sequence[RecordSource]) -> None:
    """Create the table `sources` with the constant columns of each file."""
    names = list(sources[0].front)
    columns = ", ".join(f"{sql_name(name)} VARCHAR" for name in names)
    connection.execute(f"CREATE TEMP TABLE sources (path VARCHAR, main_metric VARCHAR, {columns})")
    places = ", ".join("?" * (len(names) + 2))
    rows = [[address(source.path), source.metric, *(source.front[name] for name in names)] for source in sources]
    connection.executemany(f"INSERT INTO sources VALUES ({places})", rows)  # noqa: S608 - our own names


def _expression(name: str, known: set[str], sources: Sequence[RecordSource], names: Pseudonyms | None) -> str:
    """Return the SQL expression of a column."""
    if name in sources[0].front:
        return f"s.{sql_name(name)}"
    for rule in RULES:
        if name == f"main_score_{rule}":
            metrics = sorted({source.metric for source in sources if score_column(source.metric, rule) in known})
            cases = [f"WHEN {sql_text(metric)} THEN f.{sql_name(score_column(metric, rule))}" for metric in metrics]
            return f"CASE s.main_metric {' '.join(cases)} END" if cases else "NULL"
    if name not in known:
        return "NULL"
    if name in _OF_SERVERS:
        text = f"f.{sql_name(name)}"
        for pattern, replacement in SERVERS:
            text = f"regexp_replace({text}, {sql_text(pattern)}, {sql_text(replacement)}, 'g')"
        return text
    if name == "cluster" and names is not None:
        return f"nullif({names.sql('s.benchmark', 'f.cluster')}, '')"
    return f"nullif(f.{sql_name(name)}, '')" if name in _OPTIONAL else f"f.{sql_name(name)}"


def _count_rows_and_bytes(connection: duckdb.DuckDBPyConnection, sources: Sequence[RecordSource]) -> tuple[int, int]:
    """Return the number of rows of the files, and an upper bound of their size in bytes."""
    files = ", ".join(sql_path(source.path) for source in sources)
    of_file = (
        "SELECT file_name, sum(total_uncompressed_size) "  # noqa: S608 - our own files
        f"FROM parquet_metadata([{files}]) GROUP BY file_name"
    )
    sizes = {row[0]: row[1] for row in connection.execute(of_file).fetchall()}
    counted = connection.execute(f"SELECT file_name, num_rows FROM parquet_file_metadata([{files}])").fetchall()  # noqa: S608
    n_rows = sum(n for _, n in counted)
    largest = max((sizes.get(name, 0) / n for name, n in counted if n), default=0.0)
    return n_rows, int(largest * n_rows)


def _empty_query(columns: Mapping[str, str]) -> str:
    """Return a query with these columns and no rows."""
    typed = ", ".join(f"NULL::{kind} AS {sql_name(name)}" for name, kind in columns.items())
    return f"SELECT {typed} WHERE false"


def _copy(
    connection: duckdb.DuckDBPyConnection, query: str, columns: Mapping[str, str], path: Path, together: int
) -> None:
    """Write the result of a query with the types of `columns`."""
    if path.suffix == ".parquet":
        typed = ", ".join(f"{sql_name(name)}::{kind} AS {sql_name(name)}" for name, kind in columns.items())
        options = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {together}"
        connection.execute(f"COPY (SELECT {typed} FROM ({query})) TO {sql_text(path)} ({options})")  # noqa: S608
        return
    typed = ", ".join(f"{_csv_value(name, kind)} AS {sql_name(name)}" for name, kind in columns.items())
    with WorkFolder(path.parent) as work:
        plain = work.path / path.name
        connection.execute(f"COPY (SELECT {typed} FROM ({query})) TO {sql_text(plain)} (FORMAT csv, HEADER)")  # noqa: S608
        _copy_with_crlf(plain, path)


def _csv_value(name: str, kind: str) -> str:
    """Return the SQL expression of a column in CSV."""
    column = sql_name(name)
    if kind != "VARCHAR":
        return f"{column}::{kind}"
    is_formula = f"regexp_matches({column}, {sql_text(FORMULA)}) AND NOT regexp_matches({column}, {sql_text(NUMBER)})"
    return f"CASE WHEN {is_formula} THEN '''' || {column} ELSE {column} END"


def _copy_with_crlf(plain: Path, path: Path) -> None:
    """Copy a CSV file and end each row with CR LF, as RFC 4180 requires; line feeds within a text are kept."""
    quoted = False
    with plain.open("rb") as source, path.open("wb") as target:
        while chunk := source.read(_CHUNK):
            pieces = chunk.split(b'"')
            for place, piece in enumerate(pieces):
                if place:
                    target.write(b'"')
                    quoted = not quoted
                target.write(piece if quoted else piece.replace(b"\n", b"\r\n"))

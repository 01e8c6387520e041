"""Exports of records, judgments and leaderboard as tables with a data dictionary.

Exports runs as tables in CSV or Parquet, a few thousand rows at a time.

Rows are in the order of the runs, then of their instances, so that the same store gives the same bytes.

CSV follows RFC 4180 in UTF-8: a missing value is an empty field, an empty text is `""`, and numbers keep all digits.
A text that a spreadsheet would run as a formula gets a leading apostrophe.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from medhelm import __version__
from medhelm.analysis.cost import sum_costs
from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.benchmarks.data_quality import are_record_numbers
from medhelm.domain import JURY, RULES, Rule, Run, Tier, Usage
from medhelm.domain.result import LeftOut, Remark
from medhelm.domain.text import SERVERS, plural
from medhelm.errors import StoreError, UserError
from medhelm.io.files import address, open_file
from medhelm.io.folders import WorkFolder, check_export, new_export
from medhelm.io.parquet import connect, sql_name, sql_path, sql_text
from medhelm.io.spreadsheets import FORMULA, LONGEST_CELL, NUMBER
from medhelm.results.comparable import default_tier, left_out_remarks, select_runs
from medhelm.results.formats.fields import NEVER, columns_of, file_rows, select
from medhelm.results.formats.tables import render, size_text
from medhelm.results.leaderboard import calibrated_inputs, leaderboard_of, read_inputs, with_jury_doubts
from medhelm.results.leaderboard_view import CSV_FIRST, EMPTY, model_fields
from medhelm.results.options import USUAL, BoardOptions, read_pricing, suite_sort_key
from medhelm.results.runs.counted import counted_runs
from medhelm.results.runs.remarks import cached_completions_text, jury_remarks, unfinished_remarks
from medhelm.results.runs.selection import filter_runs
from medhelm.results.spending import repriced
from medhelm.scoring.metrics import METRICS
from medhelm.storage.annotations import read_annotations
from medhelm.storage.damage import damaged, intact_runs, run_tables
from medhelm.storage.judgments import JUDGMENT_COLUMNS
from medhelm.storage.privacy import Pseudonyms, record_export, table_rows
from medhelm.storage.runs import RECORD_COLUMNS, load_runs, records_path, run_metrics, score_column
from medhelm.storage.store import Store, open_store

if TYPE_CHECKING:
    import duckdb

# --- export tables ----------------------------------------------------------------------------------------------------

Format = Literal["csv", "parquet"]
"""File formats of tables."""

ROW_GROUP, ROW_GROUP_BYTES = 65_536, 2**26
"""Maximum number of rows, and approximate number of bytes, of a Parquet file held in memory at once."""

_EXPORT_TABLES_TYPES = {**RECORD_COLUMNS, **JUDGMENT_COLUMNS, **{f"main_score_{rule}": "DOUBLE" for rule in RULES}}


def _typed(names: str) -> Mapping[str, str]:
    """Return columns with their types: those that files of the store have; other columns hold texts."""
    return {name: _EXPORT_TABLES_TYPES.get(name, "VARCHAR") for name in names.split()}


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


# --- export -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """The files that an export wrote."""

    kind: str
    """Format of the export, such as `helm`."""
    place: Path
    """Folder or file."""
    files: int
    """Number of files."""
    bytes: int
    """Their size."""
    counts: Mapping[str, int]
    """Plural noun, such as `runs`, or name of a table -> how many of them, or of its rows, were written."""
    scoring: str = ""
    """Rule of the scores; empty if the files hold both."""
    remarks: tuple[str, ...] = ()
    """Sentences for the reader."""
    left_out: tuple[str, ...] = ()
    """Runs that could not be exported, each with the reason."""


def export_as_json(result: ExportResult) -> dict[str, Any]:
    """Return the output of `medhelm export ... --json`."""
    return {
        **select(result, "kind path=place files bytes counts"),
        **({"scoring": result.scoring} if result.scoring else {}),
        "left_out": list(result.left_out),
    }


def export_to_text(result: ExportResult) -> str:
    """Return one line: format, counts, size and place."""
    counts = ", ".join(
        plural(number, noun[:-1], noun) if noun.endswith("s") else f"{plural(number, 'row')} of the {noun}"
        for noun, number in result.counts.items()
    )
    rule = f" ({result.scoring} scoring)" if result.scoring else ""
    size = size_text(result.bytes)
    return f"{result.kind}: {counts}{rule} in {plural(result.files, 'file')}, {size}: {result.place}\n"


# --- data dictionary --------------------------------------------------------------------------------------------------
# `data_dictionary.csv` lists the columns of each table in order; those of the leaderboard are its fields. A line with
# only a table and a column repeats the first description of that column. `missing` says when a cell is empty; columns
# with `text` are exported only with texts.

Kind = Literal["text", "whole number", "number", "true or false", "JSON"]
"""Type of a column."""

FILE = Path(__file__).with_name("data_dictionary.csv")


@dataclass(frozen=True, slots=True)
class ColumnEntry:
    """One column of one table."""

    column: str
    """Name of the column."""
    kind: Kind
    """Type of its cells."""
    meaning: str
    """Description, one or two sentences."""
    missing: str = NEVER
    """Condition under which a cell is empty."""
    unit: str = ""
    """Unit; empty without one."""
    range: str = ""
    """Range or list of values; empty for any."""
    is_text: bool = False
    """True for columns that may contain patient data and are exported only on request."""


TABLES: Mapping[str, str] = {
    "runs": "One row per run: one model on one benchmark with fixed settings.",
    "estimates": "One row per run, metric and rule: the mean of the metric with its 95% interval.",
    "groups": "One row per run and group of instances, for benchmarks with groups.",
    "judges": "One row per run and judge: judgments, tokens and cost.",
    "records": "One row per run and instance: the scores of one completion.",
    "judgments": "One row per run, instance, judge and criterion: one grade.",
    "leaderboard": "One row per rule and model: the models in order of rank.",
    "prompts": "One row per benchmark and instance: the prompt, options and references.",
    "annotations": "One row per annotation: a note, tags or a star that someone gave to an instance or a completion.",
}
"""Table -> meaning of a row."""

TEXT_TABLES = {"prompts", "annotations"}
"""Tables that are exported only with texts."""


@cache
def _columns_by_table() -> dict[str, list[ColumnEntry]]:
    """Read the file: table -> its columns in order."""
    tables: dict[str, list[ColumnEntry]] = {table: [] for table in TABLES}
    first: dict[str, ColumnEntry] = {}
    with FILE.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            name = row["column"]
            if row["type"]:
                kind, missing = cast(Kind, row["type"]), row["missing"] or NEVER
                is_text = row["text"] == "yes"
                entry = ColumnEntry(name, kind, row["meaning"], missing, row["unit"], row["range"], is_text)
                first.setdefault(name, entry)
            tables[row["table"]].append(entry if row["type"] else first[name])
    tables["leaderboard"] = [
        ColumnEntry(field.key, cast(Kind, field.kind), field.meaning, field.missing, field.unit, field.range)
        for field in columns_of(model_fields(EMPTY), CSV_FIRST)
    ]
    return tables


def dictionary(metrics: Iterable[str], *, texts: bool) -> dict[str, list[ColumnEntry]]:
    """Return the columns of each table in order, for these metrics, and with or without texts."""
    tables = {
        table: [entry for entry in entries if texts or not entry.is_text]
        for table, entries in _columns_by_table().items()
        if texts or table not in TEXT_TABLES
    }
    records = tables["records"]
    place = next((i for i, entry in enumerate(records) if entry.is_text), len(records))
    records[place:place] = _scores(metrics)
    return tables


def _scores(metrics: Iterable[str]) -> list[ColumnEntry]:
    """Return two columns for each metric."""
    missing, unit = "not a metric of the benchmark, no completion, or no score", "the metric's own"
    return [
        ColumnEntry(f"{metric}_{rule}", "number", f"{meaning} {rule.capitalize()} rule.", missing, unit, scale)
        for metric in metrics
        for meaning, scale in [_describe(metric)]
        for rule in RULES
    ]


def _describe(metric: str) -> tuple[str, str]:
    """Return the meaning of a metric, in one sentence, and the range of its values."""
    if metric == JURY:
        return "What judges gave.", "the rubric's scale, such as 1 to 5"
    known = METRICS.if_usable(metric)
    return (known.description, f"{known.low:g} to {known.high:g}") if known else ("As another harness reported it.", "")


def to_rows(tables: Mapping[str, Sequence[ColumnEntry]]) -> list[dict[str, str | None]]:
    """Return the dictionary as rows of a table."""
    return [
        {
            "table": table,
            **select(entry, "column type=kind"),
            "unit": entry.unit or None,
            "range": entry.range or None,
            **select(entry, "meaning missing"),
        }
        for table, entries in tables.items()
        for entry in entries
    ]


def to_markdown(tables: Mapping[str, Sequence[ColumnEntry]], *, format: str, texts: bool) -> str:
    """Return the dictionary as Markdown."""
    content = (
        "These tables contain prompts and completions. If those contain patient data, protect the tables accordingly."
        if texts
        else "These tables contain no prompts, completions or judges' explanations. Ids of instances come from the "
        "data set: if they identify patients, so do the tables. Clusters are keyed hashes of their names."
    )
    lines = ["# Data dictionary", "", content, "", *_how(format)]
    for table, entries in tables.items():
        rows = [list(row.values())[1:] for row in to_rows({table: entries})]
        heads = ["column", "type", "unit", "range", "meaning", "missing when"]
        lines += [f"## {table}.{format}", "", TABLES[table], "", render(rows, heads, format="md")]
    return "\n".join(lines).rstrip() + "\n"


def _how(format: str) -> list[str]:
    """Return the description of the file format."""
    if format == "parquet":
        return ["A missing value is null.", ""]
    return [
        'CSV as in RFC 4180, UTF-8, with one header line. An empty field is a missing value; an empty text is `""`. '
        "A text that a spreadsheet may run as a formula gets a leading apostrophe; remove one apostrophe to restore "
        "the text. Such a text starts with =, +, - or @, perhaps after spaces, or with a tab or a carriage return, and "
        f"is not a number. Excel cuts texts of more than {LONGEST_CELL:,} characters; `medhelm export parquet` has "
        "them in full.",
        "",
    ]


# --- tables of runs ---------------------------------------------------------------------------------------------------

_TYPES: Mapping[Kind, str] = {
    "text": "VARCHAR",
    "JSON": "VARCHAR",
    "whole number": "BIGINT",
    "number": "DOUBLE",
    "true or false": "BOOLEAN",
}
"""Kind of a column -> its type in DuckDB."""


def export_tables(
    store: Path, folder: Path, format: Format, options: BoardOptions = USUAL, *, texts: bool = False
) -> ExportResult:
    """Write the selected runs of a store as tables, and `dictionary.csv` and `dictionary.md`.

    Column `counts` of the table `runs` says which runs are on the leaderboard.
    Parameters: folder, new, empty or an export of the same kind; texts, True to include prompts, completions and
    explanations of judges.
    Raises: UserError, StoreError, StoreFullError.
    """
    check_export(folder, format)
    selection = select_for_export(store, options)
    metrics = _metrics(selection)
    described = dictionary(metrics, texts=texts)
    by_rule = [replace(options, rule=rule) for rule in RULES if selection.counted]
    boards = [export_leaderboard(store, selection, one) for one in by_rule]
    counts: dict[str, int] = {}
    with new_export(folder, format, {"medhelm": __version__, "texts": texts, "tier": selection.tier}) as new:

        def place(table: str) -> Path:
            return new / f"{table}.{format}"

        small: dict[str, Iterator[dict[str, Any]]] = {
            "runs": _runs(selection),
            "estimates": _estimates(selection),
            "groups": _groups(selection),
            "judges": _judges(selection),
            "leaderboard": _leaderboard(boards),
        }
        for table, rows in small.items():
            counts[table] = write_rows(place(table), _columns(described[table]), rows)
        counts["records"] = write_joined(
            place("records"),
            record_columns(metrics, texts=texts),
            _sources(selection, "records.parquet"),
            Pseudonyms.of_store(selection.store),
        )
        counts["judgments"] = write_joined(
            place("judgments"), judgment_columns(texts=texts), _sources(selection, "judgments.parquet")
        )
        if texts:
            counts["prompts"] = write_joined(place("prompts"), PROMPTS, _prompts(selection))
            columns = _columns(described["annotations"])
            counts["annotations"] = write_rows(place("annotations"), columns, _annotations(selection))
        names = dict.fromkeys(("table", "column", "type", "unit", "range", "meaning", "missing"), "VARCHAR")
        write_rows(new / "dictionary.csv", names, to_rows(described))
        words = to_markdown(described, format=format, texts=texts)
        (new / "dictionary.md").write_text(words, encoding="utf-8")
    record_export(store, folder, format, (run.benchmark for run in selection.runs), has_text=texts)
    files, size = folder_size(folder)
    return ExportResult(
        kind=format,
        place=folder,
        files=files,
        bytes=size,
        counts=counts,
        remarks=(*map(str, selection.remarks), *_cluster_remarks(selection)),
    )


def _cluster_remarks(selection: ExportSelection) -> Iterator[str]:
    """Yield a remark for each benchmark whose clusters look like record numbers of patients."""
    for name in benchmarks_with_record_numbers(selection.runs):
        yield (
            f"{name}: the clusters look like record numbers of patients. The column `cluster` holds keyed hashes "
            "of them; ids of instances are written as they are."
        )


def _metrics(selection: ExportSelection) -> list[str]:
    """Return all metrics of the runs: known ones in the order of the registry, then others by name."""
    found = {metric for run in selection.runs for metric in run_metrics(run)}
    order = [JURY, *METRICS]
    return [name for name in order if name in found] + sorted(found - set(order))


def _columns(entries: list[ColumnEntry]) -> dict[str, str]:
    return {entry.column: _TYPES[entry.kind] for entry in entries}


def _sources(selection: ExportSelection, file: str) -> list[RecordSource]:
    """Return this file of each run that has it."""
    return [
        RecordSource(path=path.absolute(), front=_keys(run), metric=run.main_metric)
        for run in selection.runs
        if run.folder and (path := run.folder / file).exists()
    ]


def _keys(run: Run) -> dict[str, str]:
    return {"run": run.id, "benchmark": run.benchmark, "model": run.model}


def _prompts(selection: ExportSelection) -> list[RecordSource]:
    """Return the files of prompts of the runs, once for each benchmark and data."""
    found: dict[Path, RecordSource] = {}
    for run in selection.runs:
        path = selection.store.prompts_file(run.benchmark, run.benchmark_digest, run.data_digest).absolute()
        if path.exists():
            digests = {"benchmark_digest": run.benchmark_digest, "data_digest": run.data_digest}
            found.setdefault(path, RecordSource(path=path, front={"benchmark": run.benchmark, **digests}))
    return list(found.values())


def _annotations(selection: ExportSelection) -> Iterator[dict[str, Any]]:
    """Yield the annotations of the benchmarks of the runs."""
    benchmarks = {run.benchmark for run in selection.runs}
    for one in read_annotations(selection.store):
        if one.benchmark in benchmarks:
            yield {
                **select(one, "benchmark instance_id annotation=id time"),
                **{name: getattr(one, name) or None for name in ("model", "author", "note")},
                "tags": json.dumps(list(one.tags), ensure_ascii=False),
                "starred": one.is_starred,
            }


# --- rows of the small tables -----------------------------------------------------------------------------------------


def _runs(selection: ExportSelection) -> Iterator[dict[str, Any]]:
    counted = {run.id for run in selection.counted.values()}
    for run in selection.runs:
        settings, price, judged = run.settings, run.resolved_model and run.resolved_model.price, run.jury_result
        yield {
            **_keys(run),
            **select(run, "title category=taxonomy.category subcategory=taxonomy.subcategory"),
            "task": run.taxonomy.task or None,
            "model_at_server": run.resolved_model.remote_name if run.resolved_model else None,
            **select(run, "tier status"),
            "counts": run.id in counted,
            **select(run, "main_metric n n_failed"),
            "failures": json.dumps(run.failures, sort_keys=True),
            **select(run, "n_blank=completion_counts.blank n_unreadable=completion_counts.unreadable"),
            **select(run, "n_at_limit=completion_counts.at_limit"),
            **select(run, "started seconds requests_sent requests_cached n_shortened=n_truncated"),
            "snapshots": json.dumps(run.snapshots, sort_keys=True),
            **_usage(run.usage),
            "cost_usd": run.cost_usd,
            "judges_cost_usd": judges_cost(run),
            "price_input_usd": price.input if price else None,
            "price_output_usd": price.output if price else None,
            "price_source": price.source if price else None,
            "judges": "; ".join(judge.name for judge in run.judges) if judged else None,
            "jury_coverage": judged.coverage if judged else None,
            **{name: settings.get(name) for name in ("sample", "limit", "seed", "max_tokens", "temperature")},
            **select(run, "benchmark_digest data_digest"),
            "medhelm_version": run.versions.get("medhelm"),
            "python_version": run.versions.get("python"),
            "origin": run.origin.harness if run.origin else None,
            "origin_run": run.origin.run if run.origin else None,
        }


def judges_cost(run: Run) -> float | None:
    """Return the cost of the judges of a run; None without judges or if a price is unknown."""
    costs = [tally.cost_usd for tally in run.tallies.values()]
    return sum_costs(costs).usd if costs else None


def _usage(usage: Usage) -> dict[str, int]:
    return select(
        usage,
        "input_tokens=input cached_input_tokens=cached_input output_tokens=output reasoning_tokens=reasoning "
        "cache_write_tokens=cache_write",
    )


def _estimates(selection: ExportSelection) -> Iterator[dict[str, Any]]:
    for run in counted_runs(selection.runs):
        for metric in run_metrics(run):
            for rule in RULES:
                if estimate := run.estimates.get(rule, {}).get(metric):
                    yield {
                        **_keys(run),
                        "metric": metric,
                        "main": metric == run.main_metric,
                        "scoring": rule,
                        **select(estimate, "value value_low=low value_high=high n n_failed"),
                        "method": estimate.method or None,
                        **_completers(run, metric, rule),
                    }


def _completers(run: Run, metric: str, rule: Rule) -> dict[str, Any]:
    """Return how many failures count as the worst answer, and the mean without them; empty cells if there are none."""
    own = run.completers.get(metric) if rule == "corrected" else None
    counted = own.n_failed - run.estimates[rule][metric].n_failed if own else None
    values = select(
        own, "completers_value=value completers_low=low completers_high=high completers_n=n completers_method=method"
    )
    return {"n_failed_by_model": counted, **values}


def _groups(selection: ExportSelection) -> Iterator[dict[str, Any]]:
    for run in counted_runs(selection.runs):
        for group, means in run.groups.items():
            for rule in RULES:
                yield {**_keys(run), "group": group, "scoring": rule, "value": means.get(rule), "n": means.get("n")}


def _judges(selection: ExportSelection) -> Iterator[dict[str, Any]]:
    for run in selection.runs:
        for judge, tally in run.tallies.items():
            yield {
                **_keys(run),
                "judge": judge,
                "expected": tally.expected,
                "failed": tally.failed,
                "failures": json.dumps(tally.failures, sort_keys=True),
                **_usage(tally.usage),
                "cost_usd": tally.cost_usd,
            }


def _leaderboard(boards: list[Leaderboard]) -> Iterator[dict[str, Any]]:
    for board in boards:
        yield from file_rows(columns_of(model_fields(board), CSV_FIRST), board.all_rows)


# --- selection of runs ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExportSelection:
    """Runs of a store, ready to be exported."""

    store: Store
    """Store of the runs."""
    runs: Sequence[Run]
    """All selected runs, finished or not, in the order of the suite, then by model."""
    counted: Mapping[tuple[str, str], Run]
    """Model and benchmark -> the run that a leaderboard counts, in the same order."""
    tier: Tier
    """Real data or sample rows."""
    remarks: Sequence[Remark]
    """Limits of the selection of runs and of their juries."""
    left_out: Sequence[LeftOut] = ()
    """Models that do not count on a benchmark, because they were measured under other conditions."""


def select_for_export(folder: Path, options: BoardOptions) -> ExportSelection:
    """Select the runs to export, and those of them that a leaderboard counts.

    Raises: UserError for unknown names, or if no run is selected; StoreError naming every file that cannot be read.
    """
    store = open_store(folder)
    stored = intact_runs(load_runs(store))
    if not stored:
        cached = cached_completions_text([folder])
        raise UserError(f"the store {folder} holds no run. Start one with `medhelm run`. {cached}".rstrip())
    own = filter_runs(options.wanted, stored, lambda run: run)
    tier = options.tier or default_tier(own)
    own = [run for run in own if run.tier == tier]
    if not own:
        raise UserError(f"the store {folder} holds no run on {tier} data with these names.")
    if problems := damaged(path for run in own for path in run_tables(run)):
        raise StoreError("\n".join(map(str, problems)))
    if (pricing := read_pricing(options.pricing)) is not None:
        own = repriced(own, pricing)
    own.sort(key=lambda run: (*suite_sort_key(run.benchmark), run.model, run.started, run.id))
    choice = select_runs(("", run) for run in stored if run.tier == tier)  # as the leaderboard of the whole store
    names = {(run.model, run.benchmark) for run in own}
    left_out = [one for one in choice.left_out if (one.model, one.benchmark) in names]
    chosen = {run.folder for run in choice.runs.values()}
    counted = {(run.model, run.benchmark): run for run in own if run.folder in chosen}
    remarks = [*left_out_remarks(left_out), *jury_remarks(counted.values())]
    remarks += unfinished_remarks(select_runs(("", run) for run in own).unfinished)
    return ExportSelection(store, own, counted, tier, remarks, left_out)


def benchmarks_with_record_numbers(runs: Iterable[Run]) -> list[str]:
    """Return the benchmarks whose clusters look like record numbers of patients."""
    by_benchmark = {run.benchmark: run for run in runs}
    clusters = {
        name: [row[0] for row in table_rows(records_path(run), ("cluster",))] for name, run in by_benchmark.items()
    }
    return [name for name, found in clusters.items() if any(found) and are_record_numbers("", found)]


def folder_size(folder: Path) -> tuple[int, int]:
    """Return the number of files in a folder, and their bytes."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)


def export_leaderboard(store: Path, selection: ExportSelection, options: BoardOptions) -> Leaderboard:
    """Return the leaderboard of the selected benchmarks and models, as `medhelm leaderboard` shows it."""
    whole = BoardOptions(rule=options.rule, tier=selection.tier, pricing=options.pricing, clinicians=options.clinicians)
    if options.wanted.is_empty:
        return leaderboard_of([store], whole)
    finished = calibrated_inputs(read_inputs([store], whole), whole, [store])
    cells = [cell for cell in finished.cells if (cell.model, cell.benchmark) in selection.counted]
    names = {cell.benchmark for cell in cells}
    board = build_leaderboard(
        cells,
        [column for column in finished.columns if column.benchmark in names],
        scoring=options.rule,
        tier=selection.tier,
    )
    board = replace(board, left_out=tuple(selection.left_out), remarks=(*board.remarks, *selection.remarks))
    return with_jury_doubts(board, finished)

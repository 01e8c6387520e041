"""Readers of column formats (Parquet, Arrow streams, Feather) and of CSV, and the sections of dictated reports."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping
from os import SEEK_END
from pathlib import Path
from typing import Any

from medhelm.domain import Source
from medhelm.errors import DataError, MissingError
from medhelm.io.files import DEFAULT
from medhelm.io.parquet import open_database, sql_name
from medhelm.io.rows import BrokenCell, PlacedRow, Row, header, is_error, plain
from medhelm.io.spreadsheets import WORKBOOKS, TextTableFormat, find_format, is_workbook, read_records

# --- column formats ---------------------------------------------------------------------------------------------------

_ZONED = "TIMESTAMP WITH TIME ZONE"
_ROWS_AT_A_TIME = 1000
_MAGIC = b"ARROW1"
"""First and last bytes of an Arrow file; a stream has none."""


def read_parquet(path: Path, _source: Source) -> Iterator[Row]:
    """Read one row per record, in the file's order. Times with a zone are converted to UTC."""
    import duckdb

    try:
        with open_database(threads=1) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            file = glob.escape(str(path))
            zoned = {
                name: kind
                for name, kind, *_ in connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [file]).fetchall()
                if _ZONED in kind
            }
            cursor = connection.execute(f"SELECT {_select_list(zoned)} FROM read_parquet(?)", [file])  # noqa: S608 - quoted
            names = [column[0] for column in cursor.description or ()]
            while records := cursor.fetchmany(_ROWS_AT_A_TIME):
                for record in records:
                    row = {name: plain(value) for name, value in zip(names, record, strict=True)}
                    yield row | {name: _append_utc_offset(row[name]) for name in zoned}
    except duckdb.Error as error:
        reason = str(error).strip().partition("\n")[0]
        raise DataError(f"{path}: cannot be read as Parquet ({reason}). Export it again.") from None


def read_arrow(path: Path, _source: Source) -> Iterator[Row]:
    """Read one row per record of an Arrow stream or file; an empty file has no rows.

    Arrow reads invalid metadata safely, but trusts offsets and indices: each batch is validated before it is read.
    """
    pyarrow = import_pyarrow(path)
    try:
        for batch in _batches(path):
            batch.validate(full=True)
            for start in range(0, batch.num_rows, _ROWS_AT_A_TIME):
                for record in batch.slice(start, _ROWS_AT_A_TIME).to_pylist(maps_as_pydicts="strict"):
                    yield {name: plain(value) for name, value in record.items()}
    except (pyarrow.ArrowException, ArithmeticError, LookupError, MemoryError, OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise DataError(
            f"{path}: cannot be read as Arrow ({reason}). Save it as Parquet, or export it again."
        ) from None


def import_pyarrow(path: Path) -> Any:
    """Import pyarrow to read or write `path`. Raises: MissingError if it is not installed."""
    try:
        import pyarrow.ipc
    except ImportError:
        raise MissingError(
            f"{path}: Arrow and Feather files need pyarrow. Install `medhelm-eval[arrow]` (in a checkout, "
            "`pip install '.[arrow]'`), or save the data as Parquet."
        ) from None
    return pyarrow


def _batches(path: Path) -> Iterator[Any]:
    """Yield the record batches of a file. Raises: DataError for other formats and duplicate columns; Arrow's errors."""
    import pyarrow.ipc

    options = pyarrow.ipc.IpcReadOptions(use_threads=False)
    with path.open("rb") as file:
        start = file.read(len(_MAGIC))
        file.seek(0)
        if not start:
            return
        if start.startswith(b"FEA1"):
            raise DataError(f"{path}: is a Feather file of version 1. Save it as version 2, or as Parquet.")
        if start == _MAGIC:
            file.seek(-len(_MAGIC), SEEK_END)
            if file.read() != _MAGIC:
                raise DataError(f"{path}: is truncated. Get it again.")
            reader = pyarrow.ipc.open_file(file, options=options)
            header(reader.schema.names, path)
            yield from map(reader.get_batch, range(reader.num_record_batches))
        else:
            reader = pyarrow.ipc.open_stream(file, options=options)
            header(reader.schema.names, path)
            yield from reader


def _select_list(zoned: Mapping[str, str]) -> str:
    """Select all columns; times with a zone are cast, because duckdb needs another package to return zones."""
    casts = (
        f"CAST({sql_name(name)} AS {kind.replace(_ZONED, 'TIMESTAMP')}) AS {sql_name(name)}"
        for name, kind in zoned.items()
    )
    return f"* REPLACE ({', '.join(casts)})" if zoned else "*"


def _append_utc_offset(value: object) -> object:
    """Append the UTC offset to ISO times, in lists and mappings too."""
    match value:
        case str():
            return f"{value}+00:00"
        case list():
            return [_append_utc_offset(entry) for entry in value]
        case dict():
            return {key: _append_utc_offset(entry) for key, entry in value.items()}
        case _:
            return value


# --- CSV --------------------------------------------------------------------------------------------------------------
# Reads CSV files: finds encoding, delimiter and header where the definition does not name them.


def read_csv(path: Path, source: Source) -> Iterator[Row]:
    """Yield one row per record below the header, values as text. Empty lines are skipped.

    Encoding, delimiter and header are found where the definition does not name them.
    """
    if is_workbook(path):
        fix = "Write `kind: xlsx` under `source`." if path.suffix.lower() in WORKBOOKS else "Save the sheet as CSV."
        raise DataError(f"{path}: is a workbook, not text. {fix}")
    records = read_records(path, table_format(path, source))
    names = header(next(records, (0, []))[1], path)
    for line, record in records:
        if len(record) < len(names) or any(record[len(names) :]):
            raise DataError(
                f"{path}, line {line}: the record has {len(record)} fields, the header has "
                f"{len(names)}. Put fields with a separator, a quote or a line break in double quotes; or name the "
                "line of the header with `header_row` under `source`."
            )
        cells = (BrokenCell("", f"the error {cell}") if is_error(cell) else cell for cell in record)
        yield PlacedRow(zip(names, cells, strict=False), f"line {line}")


def table_format(path: Path, source: Source) -> TextTableFormat:
    """Return how a file of kind `csv` or `tsv` is written: as the definition says, or as the file shows."""
    return find_format(
        path,
        encoding="" if source.encoding == DEFAULT else source.encoding,
        delimiter="\t" if source.kind == "tsv" else source.delimiter,
        header_row=source.header_row,
    )


# --- report sections --------------------------------------------------------------------------------------------------
# Split dictated reports into a reference section and the rest, which a model reads.
#
# The reports of mtsamples.com have headings in capital letters. The reference is the plan, summary or findings.

KINDS = ("PLAN", "SUMMARY", "FINDINGS")
"""Sections that can be the reference, preferred first."""

_ADDED = re.compile(r"^Description:.*\n?|^Keywords:[\s\S]*", re.MULTILINE)
"""Text that the website derived from the whole report, reference included; the keywords are always last."""

# The reports have line breaks after every few sentences, not between sections, so a heading can be anywhere in a line.
_HEAD = re.compile(
    r"[A-Z][A-Z0-9 /&,()'’#-]{0,80}(?=:)"
    r"|(?:[A-Z][a-z]+(?: and | & | ?/ ?| )){0,4}(?:Plan|Summary|Findings)(?=:)"
)

_ELSEWHERE = re.compile(
    r"HISTORY|COMPLAINT|REASON|INDICATION|NECESSITY|CONSENT|EXAM|VITAL SIGNS|LABORATORY|\bLABS?\b|TECHNIQUE|OPERATI"
    r"|PROCEDURE(?!S SCHEDULED)|SURGERY|ANESTHESIA|BLOOD LOSS|FLUIDS|URINE OUTPUT|DRAIN|SPECIMEN|COMPLICATION|COUNT"
    r"|COURSE|CONDITION|IMPRESSION|ASSESSMENT|DIAGNOS[IE]S|INTERPRETATION|CONCLUSION|ADDENDUM|CODE\(S\)|TIME SEEN"
    r"|\bPLANS?\b|SUMMARY|FINDINGS"
)
"""Headings that end a section; all others (FOLLOW-UP, L4-5, ...) are part of it."""

_CARE = re.compile(r"RECOMMENDATION|DISPOSITION|MEDICATION|INSTRUCTION|FOLLOW|ACTIVITY|DIET|ORDERS")
"""Headings that end a summary or findings, but are part of a plan."""


def split_section(text: str) -> tuple[str, str, str]:
    """Split a report: the text without the sections of one kind, these sections, and the kind. Empty without `KINDS`.

    Description and keywords, which the website added, are removed from both.

    >>> split_section("HISTORY: Cough. PLAN: Rest. EXAM: Normal.")
    ('HISTORY: Cough.\\nEXAM: Normal.', 'Rest.', 'PLAN')
    """
    report = _ADDED.sub("", text)
    for kind in KINDS:
        note, reference = _split_off(report, kind)
        if reference:
            return note, reference, kind
    return "", "", ""


def _split_off(report: str, kind: str) -> tuple[str, str]:
    """Split off the sections of one kind; join the parts of both sides by line breaks."""
    outside: list[str] = []
    inside: list[str] = []
    begin, target = 0, outside
    for head in _HEAD.finditer(report):
        words = head.group()
        if words.upper().endswith(kind):
            start = head.end() - len(kind)
            glued = report[start - 1 : start].isalpha()  # "LUMBAR SPINEFINDINGS:" includes the examined part
            target.append(report[begin : start if glued else head.start()])
            begin, target = head.end() + 1, inside
        elif target is inside and (_ELSEWHERE.search(words) or (kind != "PLAN" and _CARE.search(words))):
            inside.append(report[begin : head.start()])
            begin, target = head.start(), outside
    target.append(report[begin:])
    note, reference = ("\n".join(part.strip() for part in parts if part.strip()) for parts in (outside, inside))
    return note, reference


def first_line_of_section(text: str) -> tuple[str, str]:
    """Return the first line of the first section by the published rule, and its kind; empty without one.

    If a heading occurs in lower case anywhere, that rule finds nothing.
    """
    if any(f"{kind}:" in text.upper() and f"{kind}:" not in text for kind in KINDS):
        return "", ""
    for kind in KINDS:
        _, head, rest = text.partition(f"{kind}:")
        reference = rest.partition(f"{kind}:")[0].partition("\n")[0].strip() if head else ""
        if reference:
            return reference, kind
    return "", ""

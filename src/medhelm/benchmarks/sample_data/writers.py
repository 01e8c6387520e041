"""Write rows as files: one writer per data format, the inverse of its reader.

A value that a format cannot hold is a DataError that names the row and the column; values are never changed. A column
of Parquet or Arrow has one type: booleans, integers, numbers, texts, times, lists or mappings. Texts that are all ISO
dates with a time (`2150-01-31T08:15:00`) become times, as hospitals store them.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import sqlite3
import struct
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from medhelm.benchmarks.data.column_formats import BATCH, MAGIC, SCHEMA, messages
from medhelm.domain import Source
from medhelm.errors import DataError
from medhelm.io.parquet import connect
from medhelm.io.rows import Row, columns
from medhelm.io.xml_reader import ATTRIBUTE, OWN_TEXT

if TYPE_CHECKING:
    from nanoarrow import CArray


DDL = "ddl"
"""Column of a row with a statement instead of data, such as CREATE TABLE, which is executed first."""
TABLE = "table"
"""Column with the table of a row."""

_XML_NAME = re.compile(r"[^\W\d][\w.\-]*(?::[^\W\d][\w.\-]*)?")
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONGEST_CELL = 32_767
_EXACT = 2**53
_CREATED = datetime(2000, 1, 1)
"""Fixed creation date, so that equal rows give equal files."""


def write_csv(rows: Sequence[Row], path: Path, source: Source) -> None:
    """Write a header and one record per row."""
    names = columns(rows)
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter="\t" if source.kind == "tsv" else ",")
    writer.writerow(names)
    for number, row in enumerate(rows, 1):
        writer.writerow([_cell(row.get(name), path, number, name) for name in names])
    write_text(path, buffer.getvalue(), source.encoding)


def write_jsonl(rows: Sequence[Row], path: Path, source: Source) -> None:
    """Write one JSON object per line."""
    write_text(path, "".join(f"{_json(row)}\n" for row in rows), source.encoding)


def write_json(rows: Sequence[Row], path: Path, source: Source) -> None:
    """Write a list of the rows, or an object with their keys, at the path `source.rows`."""
    document: object = list(rows)
    if source.key:
        keyed = {_name_of(row, source.key, path): {k: v for k, v in row.items() if k != source.key} for row in rows}
        if len(keyed) < len(rows):
            raise DataError(f"{path}: several rows have the same `{source.key}`, which must be unique.")
        document = keyed
    for part in reversed(source.rows.split(".") if source.rows else ()):
        document = {part: document}
    write_document(path, document, source.encoding)


def write_document(path: Path, document: object, encoding: str) -> None:
    """Write any JSON value."""
    write_text(path, _json(document, indent=1) + "\n", encoding)


def write_whole_text(rows: Sequence[Row], path: Path, source: Source) -> None:
    """Write the text of the only row."""
    if len(rows) != 1:
        raise DataError(f"{path}: a text file must be one row, there are {len(rows)}.")
    write_text(path, _name_of(rows[0], "text", path), source.encoding)


def write_lines(rows: Sequence[Row], path: Path, source: Source) -> None:
    """Write one line per row."""
    lines = [_name_of(row, "line", path) for row in rows]
    for number, line in enumerate(lines, 1):
        if "\n" in line or line.endswith("\r"):
            raise DataError(f"{path}, row {number}: `line` has a line break, but each row is one line.")
    write_text(path, "".join(f"{line}\n" for line in lines), source.encoding)


def write_xml(rows: Sequence[Row], path: Path, source: Source) -> None:
    """Write one element per row, inside the parents in the path `source.rows`, or else inside `rows`.

    A single row without parents is the document itself.
    """
    *parents, name = source.rows.split("/") if source.rows else ("rows", "row")
    if not parents and len(rows) != 1:
        parents = ["rows"]
    parts = ['<?xml version="1.0" encoding="UTF-8"?>\n', *(f"<{parent}>\n" for parent in parents)]
    for number, row in enumerate(rows, 1):
        _element(name, row, parts, f"{path}, row {number}")
        parts.append("\n")
    parts += [f"</{parent}>\n" for parent in reversed(parents)]
    write_text(path, "".join(parts), "utf-8")


def write_xlsx(rows: Sequence[Row], path: Path, source: Source) -> None:
    """Write a workbook with one sheet: a header and the rows."""
    from xlsxwriter import Workbook

    names = columns(rows)
    with Workbook(str(path)) as workbook:
        workbook.set_properties({"created": _CREATED})
        sheet = workbook.add_worksheet(source.sheet or "Sheet1")
        for column, name in enumerate(names):
            sheet.write_string(0, column, name)
        for number, row in enumerate(rows, 1):
            for column, name in enumerate(names):
                place = f"{path}, row {number}, `{name}`"
                match row.get(name):
                    case None | "":
                        pass
                    case bool() as value:
                        sheet.write_boolean(number, column, value)
                    case int() | float() as value:
                        sheet.write_number(number, column, _cell_number(value, place))
                    case value:
                        sheet.write_string(number, column, _cell_text(value, place))


def write_docx(rows: Sequence[Row], path: Path, _source: Source) -> None:
    """Write one paragraph per row, in red if the row has `red`."""
    import docx
    from docx.shared import RGBColor

    document = docx.Document()
    document.core_properties.created = document.core_properties.modified = _CREATED
    for number, row in enumerate(rows, 1):
        text = _checked(_name_of(row, "text", path), f"{path}, row {number}")
        if "\r" in text:
            raise DataError(f"{path}, row {number}: `text` has a carriage return, which a document cannot hold.")
        run = document.add_paragraph().add_run(text)
        if row.get("red"):
            run.font.color.rgb = RGBColor(0xFF, 0, 0)
    document.save(str(path))


def write_sqlite(rows: Sequence[Row], path: Path, _source: Source) -> None:
    """Write a database: execute the statements in `ddl`, then insert each row into its table.

    Tables that no statement creates get the columns of their rows.
    """
    tables: dict[str, list[Row]] = {}
    for row in rows:
        if DDL not in row:
            content = {name: value for name, value in row.items() if name != TABLE}
            table = _name_of(row, TABLE, path)
            if not content:
                raise DataError(f"{path}, table `{table}`: a row is empty.")
            tables.setdefault(table, []).append(content)
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)  # no statement can use another file
        try:
            for row in rows:
                if DDL in row:
                    database.executescript(_name_of(row, DDL, path))
            known = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            database.execute("BEGIN")
            for table, records in tables.items():
                if table not in known:
                    database.execute(f"CREATE TABLE {_quoted(table)} ({', '.join(map(_quoted, columns(records)))})")
                _insert(database, table, records, path)
            database.execute("COMMIT")
        except (sqlite3.Error, OverflowError) as error:
            raise DataError(f"{path}: the rows cannot be inserted ({error}).") from None


def write_text(path: Path, text: str, encoding: str) -> None:
    """Write a text file, compressed for the suffix `.gz`. Raises DataError for a character outside the encoding."""
    try:
        plain = encoding == "utf-8-sig" and not text.startswith("\ufeff")  # reading removes one such mark
        content = text.encode("utf-8" if plain else encoding)
    except UnicodeEncodeError as error:
        raise DataError(f"{path}: {text[error.start]!r} cannot be written in {encoding}.") from None
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _cell(value: object, path: Path, number: int, name: str) -> str:
    """Convert a value to the text of a cell."""
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            kind = "an object" if isinstance(value, Mapping) else "a list"
            raise DataError(f"{path}, row {number}: `{name}` is {kind}, which a cell of this format cannot hold.")


def _cell_number(value: float, place: str) -> float:
    if abs(value) > _EXACT or not math.isfinite(value):
        raise DataError(f"{place}: a workbook cannot hold {value} exactly. Convert it to text.")
    return value


def _cell_text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{place}: a workbook holds only texts and numbers, this is a list or an object.")
    if len(value) > _LONGEST_CELL:
        raise DataError(f"{place}: has {len(value):,} characters; a cell of a workbook holds {_LONGEST_CELL:,}.")
    return value


def _name_of(row: Row, column: str, path: Path) -> str:
    """Return the text in a required column."""
    value = row.get(column)
    if not isinstance(value, str):
        raise DataError(f"{path}: every row needs a text in `{column}`; one has {value!r:.60}.")
    return value


def _json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _element(name: str, value: object, parts: list[str], place: str) -> None:
    """Append the text of an element to `parts`."""
    if not _XML_NAME.fullmatch(name):
        raise DataError(f"{place}: `{name}` is not a valid name of an element.")
    if not isinstance(value, Mapping):
        parts.append(f"<{name}>{_xml_text(value, place)}</{name}>")
        return
    attributes = {key.removeprefix(ATTRIBUTE): entry for key, entry in value.items() if key.startswith(ATTRIBUTE)}
    wrong = [key for key in attributes if not _XML_NAME.fullmatch(key)]
    if wrong:
        raise DataError(f"{place}: `{wrong[0]}` is not a valid name of an attribute.")
    texts = {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
    written = [f" {key}={quoteattr(_checked(entry, place), texts)}" for key, entry in attributes.items()]
    parts.append(f"<{name}{''.join(written)}>{_xml_text(value.get(OWN_TEXT), place)}")
    for key, entry in value.items():
        if key != OWN_TEXT and not key.startswith(ATTRIBUTE):
            for part in entry if isinstance(entry, list) else [entry]:
                _element(key, part, parts, place)
    parts.append(f"</{name}>")


def _xml_text(value: object, place: str) -> str:
    return escape(_checked(value, place), {"\r": "&#13;"})


def _checked(value: object, place: str) -> str:
    """Convert a value to text that XML can hold."""
    if isinstance(value, list):
        raise DataError(f"{place}: XML cannot hold a list in a list or in an attribute.")
    text = "" if value is None else ("true" if value else "false") if isinstance(value, bool) else str(value)
    if found := _NOT_XML.search(text):
        raise DataError(f"{place}: has the character {found[0]!r}, which this format cannot hold.")
    return text


def _insert(database: sqlite3.Connection, table: str, rows: Sequence[Row], path: Path) -> None:
    for row in rows:
        nested = [name for name, value in row.items() if isinstance(value, list | Mapping)]
        if nested:
            raise DataError(f"{path}, table `{table}`: `{nested[0]}` is nested, which a table cannot hold.")
        places = ", ".join("?" * len(row))
        statement = f"INSERT INTO {_quoted(table)} ({', '.join(map(_quoted, row))}) VALUES ({places})"  # noqa: S608
        database.execute(statement, list(row.values()))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST = 2**63
_METADATA_V5 = 4


def write_parquet(rows: Sequence[Row], path: Path, _source: Source) -> None:
    """Write one record per row, in Parquet."""
    with connect() as connection:
        connection.register("records", _records(rows, path))
        connection.view("records").write_parquet(str(path))


def write_arrow(rows: Sequence[Row], path: Path, _source: Source) -> None:
    """Write one record per row, as an Arrow stream."""
    path.write_bytes(_stream(rows, path))


def write_feather(rows: Sequence[Row], path: Path, _source: Source) -> None:
    """Write one record per row, as an Arrow file: a stream between two magic strings, with an index at the end."""
    stream = _stream(rows, path)
    start = MAGIC + b"\0\0"
    index = _index(stream, len(start))
    path.write_bytes(start + stream + index + struct.pack("<i", len(index)) + MAGIC)


def _stream(rows: Sequence[Row], path: Path) -> bytes:
    from nanoarrow.ipc import StreamWriter

    out = io.BytesIO()
    with StreamWriter.from_writable(out) as writer:
        writer.write_array(_records(rows, path))
    return out.getvalue()


def _index(stream: bytes, start: int) -> bytes:
    """Build the Flatbuffer with the offsets of batches, for a file in which the stream begins at `start`.

    Layout of a Footer (https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format). All offsets in a Flatbuffer
    are relative, so the metadata of the schema is copied from the stream to the end.
    """
    parts = list(messages(io.BytesIO(stream)))
    schema = next(part for part in parts if part.kind == SCHEMA)
    described = schema.content
    assert described is not None, "a schema message holds a schema"
    batches = [part for part in parts if part.kind == BATCH]
    blocks = b"".join(struct.pack("<qi4xq", start + part.start, part.length, part.body) for part in batches)
    directory = struct.pack(
        "<6H", 12, 14, 12, 4, 0, 8
    )  # its size, size of the table; offsets of four fields, 0: absent
    table_at, schema_field, batches_field, blocks_at = 16, 20, 24, 40
    schema_at = blocks_at + len(blocks) + described.at
    return b"".join(
        [
            struct.pack("<I", table_at),
            directory,
            struct.pack("<iIIh", table_at - 4, schema_at - schema_field, blocks_at - 4 - batches_field, _METADATA_V5),
            struct.pack("<6xI", len(batches)),
            blocks,
            schema.description,
        ]
    )


def _records(rows: Sequence[Row], path: Path) -> CArray:
    """Convert the rows to one Arrow array of records."""
    return _array_of_mappings(list(rows), columns(rows), str(path))


def _array(values: list[Any], place: str) -> CArray:
    """Convert values of one type, or None, to an Arrow array."""
    import nanoarrow

    match _kind(values, place):
        case "nothing" | "texts":
            return nanoarrow.c_array(values, nanoarrow.string())
        case "times":
            return _array_of_times(values)
        case "true or false":
            return nanoarrow.c_array(values, nanoarrow.bool_())
        case "whole numbers":
            return nanoarrow.c_array(values, nanoarrow.int64())
        case "numbers":
            return nanoarrow.c_array([None if v is None else float(v) for v in values], nanoarrow.float64())
        case "lists":
            return _array_of_lists(values, place)
        case _:
            names = columns([value for value in values if value is not None])
            return _array_of_mappings(values, names, place)


def _array_of_times(values: list[Any]) -> CArray:
    import nanoarrow

    times = [datetime.fromisoformat(value).replace(tzinfo=UTC) if value else None for value in values]
    counts = [0 if time is None else (time - _EPOCH) // timedelta(microseconds=1) for time in times]
    content = struct.pack(f"<{len(counts)}q", *counts)
    return nanoarrow.c_array_from_buffers(nanoarrow.timestamp("us"), len(values), [_present(values), content])


def _array_of_lists(values: list[Any], place: str) -> CArray:
    import nanoarrow

    entries = _array([entry for value in values for entry in value or ()], f"{place}, within its lists")
    ends = accumulate((len(value or ()) for value in values), initial=0)
    content = struct.pack(f"<{len(values) + 1}i", *ends)
    form = nanoarrow.list_(entries.schema)
    return nanoarrow.c_array_from_buffers(form, len(values), [_present(values), content], children=[entries])


def _array_of_mappings(values: list[Any], names: Sequence[str], place: str) -> CArray:
    import nanoarrow

    _check_names(names, place)
    parts = [
        _array([None if value is None else value.get(name) for value in values], f"{place}, `{name}`") for name in names
    ]
    form = nanoarrow.struct({name: part.schema for name, part in zip(names, parts, strict=True)})
    return nanoarrow.c_array_from_buffers(form, len(values), [_present(values)], children=parts)


def _check_names(names: Sequence[str], place: str) -> None:
    """Raise DataError for names that some readers of such files cannot handle."""
    if not names:
        raise DataError(f"{place}: has no columns; a column format needs at least one.")
    odd = [name for name in names if not name or "\0" in name]
    if odd:
        raise DataError(f"{place}: {odd[0]!r} is not a valid name of a column in this format.")
    if len({name.lower() for name in names}) < len(names):
        raise DataError(f"{place}: two of {', '.join(names)} differ only in case. Rename one.")


def _present(values: list[Any]) -> bytes | None:
    """Return one bit per value, set if it is not None; None if all are set."""
    import numpy

    present = numpy.fromiter((value is not None for value in values), dtype=bool, count=len(values))
    return None if present.all() else numpy.packbits(present, bitorder="little").tobytes()


def _kind(values: list[Any], place: str) -> str:
    """Name the type of the values."""
    kinds = {_kind_of(value, place) for value in values if value is not None}
    if kinds == {"whole numbers", "numbers"}:
        return "numbers"
    if len(kinds) > 1:
        raise DataError(f"{place}: has {' and '.join(sorted(kinds))}. A column of this format must have one type.")
    kind = kinds.pop() if kinds else "nothing"
    if kind == "texts" and all(_TIME.fullmatch(value) for value in values if value is not None):
        return "times"
    return kind


def _kind_of(value: object, place: str) -> str:
    match value:
        case bool():
            return "true or false"
        case int():
            if not -_LARGEST <= value < _LARGEST:
                raise DataError(f"{place}: has {value}, which is too large for a column. Convert it to text.")
            return "whole numbers"
        case float():
            return "numbers"
        case str():
            return "texts"
        case list():
            return "lists"
        case Mapping():
            return "objects"
        case _:
            raise DataError(f"{place}: has {value!r:.60}, which is not a text, number, list or object.")

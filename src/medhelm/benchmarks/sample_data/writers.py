"""One writer per format that is text, a workbook, a document or a database: rows in, a file out, as a hospital has it.

Each is the inverse of the reader of its format. What a format cannot hold is a DataError that names the row and the
column; nothing is bent to fit.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from medhelm.domain import Source
from medhelm.errors import DataError
from medhelm.io.rows import Row, columns
from medhelm.io.xml_reader import ATTRIBUTE, OWN_TEXT

DDL = "ddl"
"""Column of a row that holds no data but a statement, such as CREATE TABLE, to run in a database first."""
TABLE = "table"
"""Column that names the table a row belongs to."""

_XML_NAME = re.compile(r"[^\W\d][\w.\-]*(?::[^\W\d][\w.\-]*)?")
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONGEST_CELL = 32_767
_EXACT = 2**53
_CREATED = datetime(2000, 1, 1)
"""A fixed date of creation, so that equal rows give equal files."""


def write_csv(rows: Sequence[Row], path: Path, source: Source) -> None:
    """A header and one record per row."""
    names = columns(rows)
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter="\t" if source.kind == "tsv" else ",")
    writer.writerow(names)
    for number, row in enumerate(rows, 1):
        writer.writerow([_cell(row.get(name), path, number, name) for name in names])
    write_text(path, buffer.getvalue(), source.encoding)


def write_jsonl(rows: Sequence[Row], path: Path, source: Source) -> None:
    """One JSON object a line."""
    write_text(path, "".join(f"{_json(row)}\n" for row in rows), source.encoding)


def write_json(rows: Sequence[Row], path: Path, source: Source) -> None:
    """A list of the rows, or an object with their keys, inside what `source.rows` says."""
    document: object = list(rows)
    if source.key:
        keyed = {_name_of(row, source.key, path): {k: v for k, v in row.items() if k != source.key} for row in rows}
        if len(keyed) < len(rows):
            raise DataError(f"{path}: several rows have the same `{source.key}`, which must tell them apart.")
        document = keyed
    for part in reversed(source.rows.split(".") if source.rows else ()):
        document = {part: document}
    write_document(path, document, source.encoding)


def write_document(path: Path, document: object, encoding: str) -> None:
    """Any JSON value."""
    write_text(path, _json(document, indent=1) + "\n", encoding)


def write_whole_text(rows: Sequence[Row], path: Path, source: Source) -> None:
    """The text of the only row."""
    if len(rows) != 1:
        raise DataError(f"{path}: a text file is one row, there are {len(rows)} for it.")
    write_text(path, _name_of(rows[0], "text", path), source.encoding)


def write_lines(rows: Sequence[Row], path: Path, source: Source) -> None:
    """One line per row."""
    lines = [_name_of(row, "line", path) for row in rows]
    for number, line in enumerate(lines, 1):
        if "\n" in line or line.endswith("\r"):
            raise DataError(f"{path}, row {number}: `line` holds a line break, where each row is one line.")
    write_text(path, "".join(f"{line}\n" for line in lines), source.encoding)


def write_xml(rows: Sequence[Row], path: Path, source: Source) -> None:
    """One element per row, inside the elements that the path `source.rows` names before it, or else `rows`.

    A single row whose element has no such parent is the document itself.
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
    """A workbook with one sheet: a header, and one row per row."""
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
    """One paragraph per row, in red where the row says so."""
    import docx
    from docx.shared import RGBColor

    document = docx.Document()
    document.core_properties.created = document.core_properties.modified = _CREATED
    for number, row in enumerate(rows, 1):
        text = _checked(_name_of(row, "text", path), f"{path}, row {number}")
        if "\r" in text:
            raise DataError(f"{path}, row {number}: `text` holds a carriage return, which a document cannot.")
        run = document.add_paragraph().add_run(text)
        if row.get("red"):
            run.font.color.rgb = RGBColor(0xFF, 0, 0)
    document.save(str(path))


def write_sqlite(rows: Sequence[Row], path: Path, _source: Source) -> None:
    """A database: the statements in `ddl` first, then each row into the table it names.

    Tables that no statement creates get the columns of their rows.
    """
    tables: dict[str, list[Row]] = {}
    for row in rows:
        if DDL not in row:
            content = {name: value for name, value in row.items() if name != TABLE}
            table = _name_of(row, TABLE, path)
            if not content:
                raise DataError(f"{path}, table `{table}`: a row holds nothing.")
            tables.setdefault(table, []).append(content)
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)  # no statement reaches into another file
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
            raise DataError(f"{path}: the database does not take its rows ({error}).") from None


def write_text(path: Path, text: str, encoding: str) -> None:
    """A text file, packed if its name ends in `.gz`. Raises: DataError if the encoding lacks one of the characters."""
    try:
        plain = encoding == "utf-8-sig" and not text.startswith("\ufeff")  # reading takes one such mark off
        content = text.encode("utf-8" if plain else encoding)
    except UnicodeEncodeError as error:
        raise DataError(f"{path}: {text[error.start]!r} cannot be written in {encoding}.") from None
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _cell(value: object, path: Path, number: int, name: str) -> str:
    """A value as it stands in a text file."""
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
        raise DataError(f"{place}: a workbook cannot hold {value} exactly. Make it a text.")
    return value


def _cell_text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{place}: a workbook holds texts and numbers, this is a list or an object.")
    if len(value) > _LONGEST_CELL:
        raise DataError(f"{place}: has {len(value):,} characters, and a cell of a workbook holds {_LONGEST_CELL:,}.")
    return value


def _name_of(row: Row, column: str, path: Path) -> str:
    """The text in a column that must be there."""
    value = row.get(column)
    if not isinstance(value, str):
        raise DataError(f"{path}: every row needs a text in `{column}`; one has {value!r:.60}.")
    return value


def _json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _element(name: str, value: object, parts: list[str], place: str) -> None:
    """Add the text of an element to `parts`: the inverse of reading it."""
    if not _XML_NAME.fullmatch(name):
        raise DataError(f"{place}: `{name}` cannot name an element.")
    if not isinstance(value, Mapping):
        parts.append(f"<{name}>{_xml_text(value, place)}</{name}>")
        return
    attributes = {key.removeprefix(ATTRIBUTE): entry for key, entry in value.items() if key.startswith(ATTRIBUTE)}
    wrong = [key for key in attributes if not _XML_NAME.fullmatch(key)]
    if wrong:
        raise DataError(f"{place}: `{wrong[0]}` cannot name an attribute.")
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
    """A value as text that XML can hold, and so a document."""
    if isinstance(value, list):
        raise DataError(f"{place}: a list within a list, or in an attribute, is more than XML can hold.")
    text = "" if value is None else ("true" if value else "false") if isinstance(value, bool) else str(value)
    if found := _NOT_XML.search(text):
        raise DataError(f"{place}: holds the character {found[0]!r}, which this format cannot.")
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

"""One reader per data format: a file in, rows out, in the file's order.

Texts come through as they stand in the file, control characters included; dates and times come as ISO text. What is
wrong with a file is a DataError that names the file, the place in it, and the fix. Formats read line by line (csv, tsv,
jsonl, lines), element by element (xml) and in portions (parquet, arrow, feather) never stand in memory as a whole.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

from medhelm.domain import Source
from medhelm.errors import DataError, UserError, suggestion
from medhelm.io.files import check_file, decoded, open_bytes, open_text, read_text
from medhelm.io.rows import Row, header
from medhelm.io.spreadsheets import MAX_CELL, QUOTING_RULE, find_delimiter, marked_encoding


def read(path: Path, kind: str, **options: Any) -> Iterator[Row]:
    """The rows of one file, for hooks that read a folder of files of several formats.

    Parameters: kind, a format such as `csv`; options, as under `source` of a definition: rows, key, sheet, encoding.
    Raises: FileNotFoundError if it is not there; DataError, while rows are read, if it is not what it should be.
    """
    if kind not in READERS:
        raise UserError(f"there is no data format `{kind}`. {suggestion(kind, READERS)}")
    return READERS[kind](path, Source(kind=kind, **options))


def _csv(path: Path, source: Source) -> Iterator[Row]:
    """Yield one row per record, values as text; the first record is the header. Empty lines are skipped.

    Semicolons or tabs may replace commas, and UTF-16 is recognized by its byte order mark.
    """
    csv.field_size_limit(MAX_CELL)
    encoding = _csv_encoding(path, source)
    with decoded(path, encoding), open_text(path, encoding) as file:
        head = []
        for line in file:
            head.append(line)
            if line.strip():
                break
        delimiter = "\t" if source.kind == "tsv" else _csv_delimiter(head[-1] if head else "")
        reader = csv.reader(chain(head, file), delimiter=delimiter, strict=True)
        names: list[str] | None = None
        try:
            for record in reader:
                if not record:
                    continue
                if names is None:
                    names = header(record, path)
                elif len(record) != len(names):
                    raise DataError(
                        f"{path}, line {reader.line_num}: the record has {len(record)} fields, the header has "
                        f"{len(names)}. Put fields that hold a separator, a quote or a line break in double quotes."
                    )
                else:
                    yield dict(zip(names, record, strict=True))
        except csv.Error as error:
            raise DataError(
                f"{path}, line {reader.line_num}: not a well-formed record ({error}). {QUOTING_RULE}"
            ) from None


def _csv_encoding(path: Path, source: Source) -> str:
    """Return the encoding of a byte order mark where the definition names no encoding, else that of the definition."""
    if source.encoding != "utf-8-sig":
        return source.encoding
    with open_bytes(path) as file:
        return marked_encoding(file.read(4)) or source.encoding


def _csv_delimiter(header_line: str) -> str:
    """Return a comma, unless it gives a single column and a semicolon or tab gives more."""
    return "," if len(next(csv.reader([header_line]), [])) > 1 else find_delimiter(header_line)


def _jsonl(path: Path, source: Source) -> Iterator[Row]:
    """One JSON object a line. Empty lines are left out."""
    with decoded(path, source.encoding), open_text(path, source.encoding, newline="\n") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line.rstrip())
            except (ValueError, RecursionError) as error:
                if isinstance(error, UnicodeDecodeError):
                    raise
                raise DataError(f"{path}, line {number}: not JSON ({_json_words(error)}).") from None
            if not isinstance(row, dict):
                raise DataError(f"{path}, line {number}: a JSON object is needed, this is {_kind_of(row)}.")
            yield row


def _json(path: Path, source: Source) -> Iterator[Row]:
    """The objects of a list, or of a keyed object whose keys become the column `source.key`."""
    text = read_text(path, source.encoding)
    if not text.strip():
        return
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise DataError(f"{path}{line}: not JSON ({_json_words(error)}).") from None
    rows = _inside(document, source.rows, path)
    if isinstance(rows, dict):
        yield from _keyed(rows, source.key, path)
        return
    if source.key:
        raise DataError(f"{path}: `key: {source.key}` needs rows that are an object, these are {_kind_of(rows)}.")
    if not isinstance(rows, list):
        raise DataError(f"{path}: the rows should be a list or an object, they are {_kind_of(rows)}.")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise DataError(f"{path}, row {number}: a JSON object is needed, this is {_kind_of(row)}.")
        yield row


def _inside(document: object, rows: str, path: Path) -> object:
    """The part of a JSON document at the dotted path `rows`."""
    for part in rows.split(".") if rows else ():
        if not isinstance(document, dict) or part not in document:
            keys = list(document) if isinstance(document, dict) else []
            help_ = suggestion(part, keys) or f"There is {_kind_of(document)} instead."
            raise DataError(f"{path}: `rows: {rows}` is not in it: there is no key `{part}`. {help_}")
        document = document[part]
    return document


def _keyed(rows: Mapping[str, object], key: str, path: Path) -> Iterator[Row]:
    """The values of an object, each with its key as one more column."""
    if not key:
        keys = ", ".join(list(rows)[:5])
        raise DataError(
            f"{path}: the rows are an object (keys {keys}{', ...' if len(rows) > 5 else ''}), not a list. "
            "Name a column for its keys with `key:`, or say where the list is with `rows:`."
        )
    for name, row in rows.items():
        if not isinstance(row, dict):
            raise DataError(f"{path}, row `{name}`: a JSON object is needed, this is {_kind_of(row)}.")
        if key in row:
            raise DataError(f"{path}, row `{name}`: has a column `{key}` already. Give `key:` another name.")
        yield {key: name, **row}


def _text(path: Path, source: Source) -> Iterator[Row]:
    """The whole file as one row, named after the file, without what tells its format."""
    yield {
        "name": path.with_suffix("").stem if path.suffix == ".gz" else path.stem,
        "text": read_text(path, source.encoding),
    }


def _lines(path: Path, source: Source) -> Iterator[Row]:
    r"""One row a line, without its line break, which is \n or \r\n; blank lines count too."""
    with decoded(path, source.encoding), open_text(path, source.encoding, newline="\n") as file:
        for line in file:
            yield {"line": line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line}


Reader = Callable[[Path, Source], Iterator[Row]]
"""Reads one file. Raises while rows are read: FileNotFoundError, DataError."""


def _checked(reader: Reader) -> Reader:
    """Return a reader that first reports a path that is not a file, or not readable."""

    def read_rows(path: Path, source: Source) -> Iterator[Row]:
        check_file(path)
        yield from reader(path, source)

    return read_rows


def _lazy(target: str) -> Reader:
    """Return a reader of another module, which is imported when the first row is read."""

    def read_rows(path: Path, source: Source) -> Iterator[Row]:
        module, _, name = target.partition(":")
        reader: Reader = getattr(import_module(module), name)
        yield from reader(path, source)

    return read_rows


READERS: Mapping[str, Reader] = {
    kind: _checked(reader)
    for kind, reader in {
        "csv": _csv,
        "tsv": _csv,
        "json": _json,
        "jsonl": _jsonl,
        "xlsx": _lazy("medhelm.io.office:read_xlsx"),
        "parquet": _lazy("medhelm.benchmarks.data.column_formats:read_parquet"),
        "arrow": _lazy("medhelm.benchmarks.data.column_formats:read_arrow"),
        "feather": _lazy("medhelm.benchmarks.data.column_formats:read_arrow"),
        "docx": _lazy("medhelm.io.office:read_docx"),
        "xml": _lazy("medhelm.io.xml_reader:read_xml"),
        "text": _text,
        "lines": _lines,
    }.items()
}
"""Kind of a source -> its reader."""


def _json_words(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg}, column {error.colno}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _kind_of(value: object) -> str:
    """What a JSON value is, in words."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")

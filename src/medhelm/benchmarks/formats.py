"""One reader per data format: a file in, rows out, in the file's order.

Texts come through as they stand in the file, control characters included. What is wrong with a file is a DataError that
names the file, the place in it, and the fix. Formats read line by line (csv, tsv, jsonl) and in portions (parquet,
arrow) never stand in memory as a whole.
"""

from __future__ import annotations

import codecs
import csv
import glob
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.domain import Source
from medhelm.errors import DataError, suggestion

if TYPE_CHECKING:
    from docx.text.paragraph import Paragraph

Row = dict[str, object]
"""One row: column -> value as the format gives it."""

_LONGEST_FIELD = 2**31 - 1
_RED = "FF0000"
_PORTION = 1000


def _csv(path: Path, source: Source) -> Iterator[Row]:
    """One row per record, values as text; the first record is the header. Empty lines are not records."""
    csv.field_size_limit(_LONGEST_FIELD)
    separator = "\t" if source.kind == "tsv" else ","
    with _decoded(path, source.encoding), path.open(encoding=source.encoding, newline="") as file:
        reader = csv.reader(file, delimiter=separator, strict=True)
        header: list[str] | None = None
        try:
            for record in reader:
                if not record:
                    continue
                if header is None:
                    header = _header(record, path)
                elif len(record) != len(header):
                    raise DataError(
                        f"{path}, line {reader.line_num}: the record has {len(record)} fields, the header has "
                        f"{len(header)}. Put fields that hold a separator, a quote or a line break in double quotes."
                    )
                else:
                    yield dict(zip(header, record, strict=True))
        except csv.Error as error:
            raise DataError(
                f"{path}, line {reader.line_num}: not a well-formed record ({error}). "
                'A field that holds a quote stands in double quotes, and the quote in it is doubled ("").'
            ) from None


def _jsonl(path: Path, source: Source) -> Iterator[Row]:
    """One JSON object a line. Empty lines are left out."""
    with _decoded(path, source.encoding), path.open(encoding=source.encoding, newline="\n") as file:
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
    with _decoded(path, source.encoding):
        text = path.read_bytes().decode(source.encoding)
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


def _xlsx(path: Path, source: Source) -> Iterator[Row]:
    """One row per row of the sheet that is not empty; the first is the header."""
    from python_calamine import CalamineError, CalamineWorkbook, PasswordError, XmlError, ZipError

    try:
        with CalamineWorkbook.from_path(str(path)) as workbook:
            sheet = source.sheet or workbook.sheet_names[0]
            if sheet not in workbook.sheet_names:
                raise DataError(f"{path}: there is no sheet `{sheet}`. {suggestion(sheet, workbook.sheet_names)}")
            table = workbook.get_sheet_by_name(sheet).to_python()
    except (CalamineError, PasswordError, XmlError, ZipError) as error:
        raise DataError(
            f"{path}: cannot be read as a workbook ({error}). Save it as .xlsx, without a password."
        ) from None
    header: list[str] | None = None
    for cells in table:
        if all(cell == "" for cell in cells):
            continue
        if header is None:
            header = _header([str(_whole(cell)) for cell in cells], path)
        else:
            yield {name: _whole(cell) for name, cell in zip(header, cells, strict=False) if name}


def _parquet(path: Path, _source: Source) -> Iterator[Row]:
    """One row per record, in the file's order."""
    import duckdb

    settings: dict[str, str | bool | int | float | list[str]] = {"autoinstall_known_extensions": False, "threads": 1}
    try:
        with duckdb.connect(":memory:", config=settings) as connection:
            cursor = connection.execute("SELECT * FROM read_parquet(?)", [glob.escape(str(path))])
            names = [column[0] for column in cursor.description or ()]
            while portion := cursor.fetchmany(_PORTION):
                for record in portion:
                    yield dict(zip(names, map(_whole, record), strict=True))
    except duckdb.Error as error:
        raise DataError(f"{path}: cannot be read as Parquet ({_first_line(error)}).") from None


def _arrow(path: Path, _source: Source) -> Iterator[Row]:
    """One row per record of an Arrow IPC stream."""
    import nanoarrow

    with path.open("rb") as file:
        if file.read(6) == b"ARROW1":
            raise DataError(
                f"{path}: is an Arrow file with an index (Feather). Save it as an Arrow stream or as Parquet."
            )
    if not path.stat().st_size:
        return
    try:
        with nanoarrow.ArrayStream.from_path(str(path)) as stream:
            for batch in stream:
                for record in batch.iter_py():
                    yield {name: _whole(value) for name, value in record.items()}
    except (RuntimeError, ValueError) as error:  # nanoarrow's own errors are RuntimeErrors
        raise DataError(f"{path}: cannot be read as an Arrow stream ({_first_line(error)}).") from None


def _docx(path: Path, _source: Source) -> Iterator[Row]:
    """One row per paragraph: its text, and "true" in `red` if any part of it is coloured exactly pure red."""
    import zipfile

    import docx
    from docx.opc.exceptions import OpcError

    try:
        document = docx.Document(str(path))
    except (OpcError, zipfile.BadZipFile, KeyError, ValueError) as error:
        raise DataError(
            f"{path}: cannot be read as a Word document ({_first_line(error)}). Save it as .docx."
        ) from None
    for paragraph in document.paragraphs:
        yield {"text": paragraph.text, "red": "true" if _has_red(paragraph) else ""}


def _has_red(paragraph: Paragraph) -> bool:
    colors = (run.font.color for run in paragraph.runs)
    return any(color is not None and str(color.rgb) == _RED for color in colors)


def _text(path: Path, source: Source) -> Iterator[Row]:
    """The whole file as one row, named after the file."""
    with _decoded(path, source.encoding):
        yield {"name": path.stem, "text": path.read_bytes().decode(source.encoding)}


READERS: Mapping[str, Callable[[Path, Source], Iterator[Row]]] = {
    "csv": _csv,
    "tsv": _csv,
    "json": _json,
    "jsonl": _jsonl,
    "xlsx": _xlsx,
    "parquet": _parquet,
    "arrow": _arrow,
    "docx": _docx,
    "text": _text,
}
"""Kind of a source -> its reader."""


@contextmanager
def _decoded(path: Path, encoding: str) -> Iterator[None]:
    """Around reading text: bytes that are not in the encoding become an error that says where they are."""
    try:
        yield
    except UnicodeDecodeError as error:
        line, position = _undecodable(path, encoding)
        wrong = f"byte 0x{error.object[error.start]:02x}" if error.start < len(error.object) else "the end"
        raise DataError(
            f"{path}, line {line}, byte {position}: {wrong} is not {encoding.removesuffix('-sig')} text. "
            "If the file has another encoding, name it in benchmark.yaml, such as `encoding: cp1252`."
        ) from None


def _undecodable(path: Path, encoding: str) -> tuple[int, int]:
    """Line (from 1) and position (in bytes, from 0) of the first bytes that are not in the encoding."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line, end = 1, 0
    with path.open("rb") as file:
        while True:
            chunk = file.read(1 << 20)
            end += len(chunk)
            try:
                decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:  # its object may begin before this chunk, so count from the end
                return line + error.object.count(b"\n", 0, error.start), end - len(error.object) + error.start
            line += chunk.count(b"\n")
            if not chunk:
                return line, end


def _header(names: Sequence[str], path: Path) -> list[str]:
    """The names of columns, each once."""
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise DataError(f"{path}: the header has {', '.join(f'`{name}`' for name in twice)} more than once.")
    return list(names)


def _whole(value: object) -> object:
    """Workbooks and data frames store whole numbers as 5.0: give them back as 5, up to where floats are exact."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _json_words(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg}, column {error.colno}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]


def _kind_of(value: object) -> str:
    """What a JSON value is, in words."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")

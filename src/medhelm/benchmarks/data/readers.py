"""Read data files: one reader per format, which yields the rows of a file in order.

Texts are not changed, control characters included; dates and times become ISO text. Errors in a file are DataErrors
that name the file, the place in it, and the fix. Formats that are read line by line (csv, tsv, jsonl, lines), element
by element (xml) or in batches (parquet, arrow, feather) are never in memory as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from medhelm.domain import Source
from medhelm.errors import DataError, UserError, suggestion
from medhelm.io.files import check_file, decoded, open_text, read_text
from medhelm.io.rows import PlacedRow, Row


def read(path: Path, kind: str, **options: Any) -> Iterator[Row]:
    """Read the rows of one file, for hooks of folders with several formats.

    Parameters
    ----------
    kind
        A format such as `csv`.
    **options
        As under `source` of a definition: rows, key, sheet, encoding, delimiter, header_row.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    DataError
        While rows are read, if the file is not in this format.
    """
    if kind not in READERS:
        raise UserError(f"unknown data format `{kind}`. {suggestion(kind, READERS)}")
    return READERS[kind](path, Source(kind=kind, **options))


def _jsonl(path: Path, source: Source) -> Iterator[Row]:
    """Read one JSON object per line. Empty lines are skipped."""
    with decoded(path, source.encoding), open_text(path, source.encoding, newline="\n") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line.rstrip())
            except (ValueError, RecursionError) as error:
                if isinstance(error, UnicodeDecodeError):
                    raise
                raise DataError(f"{path}, line {number}: not JSON ({_json_error_in_words(error)}).") from None
            if not isinstance(row, dict):
                raise DataError(f"{path}, line {number}: must be a JSON object, is {_type_in_words(row)}.")
            yield PlacedRow(row.items(), f"line {number}")


def _json(path: Path, source: Source) -> Iterator[Row]:
    """Read the objects of a list, or of a keyed object whose keys become the column `source.key`."""
    text = read_text(path, source.encoding)
    if not text.strip():
        return
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise DataError(f"{path}{line}: not JSON ({_json_error_in_words(error)}).") from None
    rows = _part_at(document, source.rows, path)
    if isinstance(rows, dict):
        yield from _keyed_rows(rows, source.key, path)
        return
    if source.key:
        raise DataError(f"{path}: `key: {source.key}` needs an object of rows, this is {_type_in_words(rows)}.")
    if not isinstance(rows, list):
        raise DataError(f"{path}: the rows must be a list or an object, are {_type_in_words(rows)}.")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise DataError(f"{path}, row {number}: must be a JSON object, is {_type_in_words(row)}.")
        yield row


def _part_at(document: object, rows: str, path: Path) -> object:
    """Return the part of a JSON document at the dotted path `rows`."""
    for part in rows.split(".") if rows else ():
        if not isinstance(document, dict) or part not in document:
            keys = list(document) if isinstance(document, dict) else []
            help_ = suggestion(part, keys) or f"It is in {_type_in_words(document)}."
            raise DataError(f"{path}: `rows: {rows}` does not exist: the key `{part}` is missing. {help_}")
        document = document[part]
    return document


def _keyed_rows(rows: Mapping[str, object], key: str, path: Path) -> Iterator[Row]:
    """Yield the values of an object, each with its key as another column."""
    if not key:
        keys = ", ".join(list(rows)[:5])
        raise DataError(
            f"{path}: the rows are an object (keys {keys}{', ...' if len(rows) > 5 else ''}), not a list. "
            "Name a column for its keys with `key:`, or give the path of a list with `rows:`."
        )
    for name, row in rows.items():
        if not isinstance(row, dict):
            raise DataError(f"{path}, row `{name}`: must be a JSON object, is {_type_in_words(row)}.")
        if key in row:
            raise DataError(f"{path}, row `{name}`: already has a column `{key}`. Choose another name for `key:`.")
        yield {key: name, **row}


def _text(path: Path, source: Source) -> Iterator[Row]:
    """Read the whole file as one row, named after the file without its suffix."""
    yield {
        "name": path.with_suffix("").stem if path.suffix == ".gz" else path.stem,
        "text": read_text(path, source.encoding),
    }


def _lines(path: Path, source: Source) -> Iterator[Row]:
    r"""Read one row per line, without its line break (\n or \r\n); empty lines are rows too."""
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
        "csv": _lazy("medhelm.benchmarks.data.formats:read_csv"),
        "tsv": _lazy("medhelm.benchmarks.data.formats:read_csv"),
        "json": _json,
        "jsonl": _jsonl,
        "xlsx": _lazy("medhelm.io.office:read_xlsx"),
        "parquet": _lazy("medhelm.benchmarks.data.formats:read_parquet"),
        "arrow": _lazy("medhelm.benchmarks.data.formats:read_arrow"),
        "feather": _lazy("medhelm.benchmarks.data.formats:read_arrow"),
        "docx": _lazy("medhelm.io.office:read_docx"),
        "xml": _lazy("medhelm.io.office:read_xml"),
        "text": _text,
        "lines": _lines,
    }.items()
}
"""Kind of a source -> its reader."""


def _json_error_in_words(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg}, column {error.colno}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _type_in_words(value: object) -> str:
    """Name the type of a JSON value."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


# --- answer spellings -------------------------------------------------------------------------------------------------
# Finds answers that are written in several ways, such as `Y` and `yes` in one column.

_MEANINGS = {
    "yes": "y yes true positive pos present 1 + ja oui si sí sim",
    "no": "n no false negative neg absent 0 - nein non não nao",
    "unknown": "unknown unk unclear uncertain undetermined ? n/k unbekannt inconnu desconocido",
}
_BY_SPELLING = {spelling: meaning for meaning, spellings in _MEANINGS.items() for spelling in spellings.split()}


def meaning(answer: str) -> str:
    """Return a key that is the same for answers that usually mean the same: lower case, and one word for yes and no.

    >>> meaning("Y"), meaning("Yes "), meaning("Grade  II")
    ('yes', 'yes', 'grade ii')
    """
    key = " ".join(answer.casefold().split())
    return _BY_SPELLING.get(key, key)


def proposed_values(answers: Iterable[str]) -> dict[str, str]:
    """Return the key `values` of a definition: spelling -> answer, for answers that differ in more than case.

    The answer is the spelling that is the word itself, such as `yes`, or else the first one.

    >>> proposed_values(["Y", "yes", "N", "No", "unknown"]), proposed_values(["Y", "N"])
    ({'Y': 'yes', 'N': 'No'}, {})
    """
    by_meaning: dict[str, dict[str, str]] = {}
    for answer in answers:
        by_meaning.setdefault(meaning(answer), {}).setdefault(" ".join(answer.casefold().split()), answer)
    found: dict[str, str] = {}
    for word, spellings in by_meaning.items():
        chosen = spellings.get(word) or next(iter(spellings.values()))
        found |= {spelling: chosen for spelling in spellings.values() if spelling != chosen}
    return found

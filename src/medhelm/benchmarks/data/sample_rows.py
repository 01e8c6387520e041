"""The sample tier: a few invented rows next to each definition, read directly or from files made of them.

Write rows as the data files of a definition.
"""

from __future__ import annotations

import atexit
import csv
import gzip
import io
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING
from xml.etree import ElementTree
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from medhelm.benchmarks.data.formats import import_pyarrow
from medhelm.benchmarks.data.sampling import check_files, is_pattern, matches_pattern, read_rows
from medhelm.benchmarks.definition import SAMPLE_ROWS
from medhelm.domain import Benchmark, Source
from medhelm.errors import DataError, UserError, suggestion
from medhelm.io.files import is_database_disk_error
from medhelm.io.folders import WorkFolder, output_errors
from medhelm.io.office import ATTRIBUTE, OWN_TEXT
from medhelm.io.parquet import connect, sql_name, sql_path, sql_text
from medhelm.io.rows import Row, columns
from medhelm.io.spreadsheets import DELIMITERS

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

SAMPLE_SOURCE = Source(
    kind="jsonl",
    files={SAMPLE_ROWS: ""},
    note="The sample tier reads invented rows from there: add a few, one JSON object per line, with the real columns.",
)
"""The invented rows next to a definition, with the columns of the data."""


def sample_rows(benchmark: Benchmark, checksum: str) -> tuple[Source, Path]:
    """Return the source of the sample rows: the definition's folder, or files written for its hook."""
    if benchmark.source.kind != "folder":
        return SAMPLE_SOURCE, benchmark.folder
    files = dict.fromkeys(benchmark.source.files, "")
    return replace(benchmark.source, files=files, expected_count=None), _write_temporary(benchmark, checksum)


_written: dict[tuple[Path, str], Path] = {}
"""(Folder of a definition, checksum of its sample rows) -> folder with their files, until the process ends."""


def _write_temporary(benchmark: Benchmark, checksum: str) -> Path:
    """Write the sample rows as the different files of a folder, in a temporary folder."""
    key = (benchmark.folder, checksum)
    if key not in _written:
        place = Path(mkdtemp(prefix=f"medhelm-{benchmark.name}-"))
        atexit.register(rmtree, place, ignore_errors=True)
        write_files(read_rows(SAMPLE_SOURCE, benchmark.folder), place, benchmark=benchmark)
        _written[key] = place
    return _written[key]


def write_sample(benchmark: Benchmark, folder: Path, *, rows: int | None = None) -> tuple[list[Path], int]:
    """Write the invented rows as files in the format of the benchmark, such as a workbook or a folder of XML.

    Parameters
    ----------
    folder
        Folder for the files.
    rows
        Write only the first so many rows of each file. Of a folder of different files, all rows are written.

    Returns
    -------
    tuple of list of Path and int
        The files, and the number of rows in them.

    Raises
    ------
    MissingError
        If there are no invented rows.
    UserError
        If a file already exists.
    """
    check_files(SAMPLE_SOURCE, benchmark.folder)
    chosen = list(_first_rows(read_rows(SAMPLE_SOURCE, benchmark.folder), benchmark.source, rows))
    return write_files(chosen, folder, benchmark=benchmark), len(chosen)


def _first_rows(rows: Iterable[Row], source: Source, most: int | None) -> Iterator[Row]:
    """Yield the first `most` rows of each file, at least one per file; all rows of a folder."""
    if most is None or source.kind == "folder":
        yield from rows
        return
    most = most if source.file_column else max(most, len(source.files))
    taken: Counter[object] = Counter()
    for row in rows:
        file = row.get(source.file_column, "")
        taken[file] += 1
        if taken[file] <= most:
            yield row


# --- files of a definition --------------------------------------------------------------------------------------------

FILE = "file"
"""Column of rows for a folder of different files: the relative path of the file of a row."""

_ENDINGS: Mapping[str, str] = {
    **{f".{kind}": kind for kind in ("csv", "tsv", "json", "jsonl", "xlsx", "parquet", "arrow", "feather", "docx")},
    ".sqlite": "sqlite",
    ".db": "sqlite",
}
"""Suffix of a file in a folder of different files -> its kind. All others are texts."""


def write_files(rows: Iterable[Mapping[str, object]], folder: Path, *, benchmark: Benchmark) -> list[Path]:
    """Write rows as the data files of `benchmark.source`, in their format.

    For a folder of different files, each row names its file in `file`; with `file_column`, in that column. Otherwise
    the rows are distributed over the files in order. Texts are one file per row, named by its `name`. A pattern of XML
    files becomes one numbered file per row, another pattern one file.

    Parameters
    ----------
    rows
        As the reader of the format yields them.
    folder
        Is created if it does not exist.

    Returns
    -------
    list of Path
        The files that were written.

    Raises
    ------
    DataError
        If the rows do not match the files, or a value cannot be stored in the format.
    UserError
        If files already exist; as `output_errors` if they cannot be written.
    """
    import duckdb

    files = _files([dict(row) for row in rows], benchmark)
    targets = {name: folder / name for name in files}
    for path in targets.values():
        if not path.resolve().is_relative_to(folder.resolve()):
            raise DataError(f"{path}: is outside the folder {folder}.")
    if existing := [name for name, path in targets.items() if path.exists()]:
        raise UserError(f"{folder} already holds {', '.join(existing)}. Choose another folder (--out).")
    with output_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with WorkFolder(folder.absolute()) as work:
            for name, content in files.items():
                new = work.path / name
                new.parent.mkdir(parents=True, exist_ok=True)
                try:
                    _write(content, new, benchmark.source)
                except (LookupError, TypeError, ValueError, OverflowError, duckdb.Error, sqlite3.Error) as error:
                    if is_database_disk_error(error):
                        raise
                    words = f"the rows do not fit this format ({type(error).__name__}: {error})."
                    raise DataError(f"{targets[name]}: {words}") from None
            for name, path in targets.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                (work.path / name).replace(path)
    return list(targets.values())


def _files(rows: list[Row], benchmark: Benchmark) -> dict[str, list[Row]]:
    """Map each file to its rows. Raises DataError if rows and files do not match."""
    source = benchmark.source
    known = list(source.files)
    if source.kind == "folder":
        samples = [benchmark.sample, *benchmark.samples.values()]
        known += [*source.scoring_files, *(sample.ids_file for sample in samples if sample.ids_file)]
        files = _group_by_file(rows, FILE)
    elif source.file_column:
        files = _group_by_file(rows, source.file_column)
    else:
        files = _distribute(rows, source)
    problems = [
        f"`{file}` is not a file of the definition. {suggestion(file, known)}".rstrip()
        for file in files
        if not any(matches_pattern(file, name) for name in known)
    ]
    missing = [name for name in source.files if not any(matches_pattern(file, name) for file in files)]
    if missing:
        problems.append(f"rows are missing for {', '.join(missing)}.")
    if problems:
        raise DataError("\n".join(f"{benchmark.name}: {problem}" for problem in problems))
    return files


def _group_by_file(rows: Iterable[Row], column: str) -> dict[str, list[Row]]:
    """Group the rows by the file in `column`, which is removed."""
    files: dict[str, list[Row]] = {}
    for number, row in enumerate(rows, 1):
        file = row.pop(column, None)
        if not isinstance(file, str):
            raise DataError(f"row {number}: `{column}` must name its file, is {file!r:.60}.")
        files.setdefault(file, []).append(row)
    return files


def _distribute(rows: list[Row], source: Source) -> dict[str, list[Row]]:
    """Distribute the rows in equal parts over `source.files`; texts are assigned by name."""
    if source.kind == "text":
        return {_file_of_text(row, source.files): [row] for row in rows}
    files: dict[str, list[Row]] = {}
    n, n_files = len(rows), len(source.files)
    for i, name in enumerate(source.files):
        part = rows[n * i // n_files : n * (i + 1) // n_files]
        if not is_pattern(name):
            files |= {name: part} if part else {}
        elif source.kind == "xml":
            width = len(str(len(part)))
            files |= {_fill_wildcard(name, f"{number:0{width}}"): [row] for number, row in enumerate(part, 1)}
        elif part:
            files[_fill_wildcard(name, "1")] = part
    return files


def _file_of_text(row: Row, names: Iterable[str]) -> str:
    """Return the file of a text by its `name`."""
    wanted = row.get("name")
    for name in names:
        path = PurePosixPath(name)
        file = path.parent / f"{wanted}{''.join(path.suffixes[-2:] if path.suffix == '.gz' else path.suffixes[-1:])}"
        if matches_pattern(file.as_posix(), name):
            return file.as_posix()
    raise DataError(f"`name: {wanted!r:.60}` matches none of the files {', '.join(names)}.")


def _fill_wildcard(pattern: str, text: str) -> str:
    """Return a file name that matches a pattern, with `text` for its wildcard."""
    return pattern.replace("**/", "").replace("*", text)


def _write(rows: list[Row], path: Path, source: Source) -> None:
    """Write one file in the format of the source or, in a folder of different files, of its suffix."""
    if source.kind != "folder":
        WRITERS[source.kind](rows, path, source)
        return
    keys = {key for row in rows for key in row}
    kind = _ENDINGS.get(PurePosixPath(path.name.removesuffix(".gz")).suffix, "text")
    plain = Source(kind=kind, encoding="utf-8")
    if kind == "sqlite":
        write_sqlite(rows, path, plain)
    elif kind == "json" and keys == {"json"} and len(rows) == 1:
        write_document(path, rows[0]["json"], plain.encoding)
    elif kind == "text" and keys == {"line"}:
        write_lines(rows, path, plain)
    else:
        WRITERS[kind](rows, path, plain)


# --- writers ----------------------------------------------------------------------------------------------------------
# Write rows as files: one writer per data format, the inverse of its reader.
#
# The rows are those of a `sample.jsonl`, so that values are JSON. Texts in Parquet and Arrow that are all ISO dates,
# with or without a time, become dates or times, as hospitals store them. Equal rows give equal files.

DDL = "ddl"
"""Column of a row with a statement instead of data, such as CREATE TABLE, which is executed first."""
TABLE = "table"
"""Column with the table of a row."""

_CREATED = datetime(2000, 1, 1)
"""Fixed creation date of documents."""


def write_csv(rows: Sequence[Row], path: Path, source: Source) -> None:
    """Write a header and one record per row."""
    names, buffer = columns(rows), io.StringIO()
    # Without quotes, the reader would take a tab or a semicolon in the only column for the separator.
    texts = [names[0], *(_text(row.get(names[0])) for row in rows)] if len(names) == 1 else []
    is_ambiguous = any(not {*str(text)}.isdisjoint(DELIMITERS) for text in texts)
    writer = csv.DictWriter(
        buffer,
        names,
        delimiter="\t" if source.kind == "tsv" else source.delimiter or ",",
        quoting=csv.QUOTE_ALL if is_ambiguous else csv.QUOTE_MINIMAL,
    )
    writer.writeheader()
    writer.writerows({name: _text(value) for name, value in row.items()} for row in rows)
    write_text(path, buffer.getvalue(), source.encoding)


def write_jsonl(rows: Sequence[Row], path: Path, source: Source) -> None:
    """Write one JSON object per line."""
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), source.encoding)


def write_json(rows: Sequence[Row], path: Path, source: Source) -> None:
    """Write a list of the rows, or an object with their keys, at the path `source.rows`."""
    document: object = list(rows)
    if source.key:
        document = {str(row[source.key]): {k: v for k, v in row.items() if k != source.key} for row in rows}
    for part in reversed(source.rows.split(".") if source.rows else ()):
        document = {part: document}
    write_document(path, document, source.encoding)


def write_document(path: Path, document: object, encoding: str) -> None:
    """Write any JSON value."""
    write_text(path, json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding)


def write_whole_text(rows: Sequence[Row], path: Path, source: Source) -> None:
    """Write the text of the only row."""
    (row,) = rows
    write_text(path, str(row["text"]), source.encoding)


def write_lines(rows: Sequence[Row], path: Path, source: Source) -> None:
    """Write one line per row."""
    write_text(path, "".join(f"{row['line']}\n" for row in rows), source.encoding)


def write_xml(rows: Sequence[Row], path: Path, source: Source) -> None:
    """Write one element per row, inside the parents in the path `source.rows`, or else inside `rows`.

    A single row without parents is the document itself.
    """
    *parents, name = source.rows.split("/") if source.rows else ("rows", "row")
    if not parents and len(rows) != 1:
        parents = ["rows"]
    elements = [_element(name, row) for row in rows]
    for parent in reversed(parents):
        outer = ElementTree.Element(parent)
        outer.extend(elements)
        elements = [outer]
    text = ElementTree.tostring(elements[0], encoding="unicode")
    write_text(path, f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n', "utf-8")


def write_xlsx(rows: Sequence[Row], path: Path, source: Source) -> None:
    """Write a workbook with one sheet: a header and the rows."""
    from xlsxwriter import Workbook

    names = columns(rows)
    with Workbook(str(path), {"strings_to_formulas": False, "strings_to_urls": False}) as workbook:
        workbook.set_properties({"created": _CREATED})
        sheet = workbook.add_worksheet(source.sheet or "Sheet1")
        sheet.write_row(0, 0, names)
        for number, row in enumerate(rows, 1):
            sheet.write_row(number, 0, [row.get(name) for name in names])


def write_docx(rows: Sequence[Row], path: Path, _source: Source) -> None:
    """Write one paragraph per row, in red if the row has `red`."""
    import docx
    from docx.shared import RGBColor

    document = docx.Document()
    document.core_properties.created = document.core_properties.modified = _CREATED
    for row in rows:
        run = document.add_paragraph().add_run(str(row["text"]))
        if row.get("red"):
            run.font.color.rgb = RGBColor(0xFF, 0, 0)
    saved = io.BytesIO()
    document.save(saved)
    with ZipFile(saved) as archive, ZipFile(path, "w", ZIP_DEFLATED) as undated:
        for name in archive.namelist():
            undated.writestr(ZipInfo(name), archive.read(name), ZIP_DEFLATED)


def write_sqlite(rows: Sequence[Row], path: Path, _source: Source) -> None:
    """Write a database: execute the statements in `ddl`, then insert each row into its table.

    Tables that no statement creates get the columns of their rows.
    """
    tables: dict[str, list[Row]] = {}
    for row in rows:
        if DDL not in row:
            tables.setdefault(str(row[TABLE]), []).append({k: v for k, v in row.items() if k != TABLE})
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)  # no statement can use another file
        # A file that an error or a crash leaves behind is never used: no statement waits for the disk.
        database.executescript("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY;")
        for row in rows:
            if DDL in row:
                database.executescript(str(row[DDL]))
        for table, records in tables.items():
            listed = ", ".join(map(sql_name, columns(records)))
            database.execute(f"CREATE TABLE IF NOT EXISTS {sql_name(table)} ({listed})")
            for record in records:
                names, marks = ", ".join(map(sql_name, record)), ", ".join("?" * len(record))
                statement = f"INSERT INTO {sql_name(table)} ({names}) VALUES ({marks})"  # noqa: S608 - quoted
                database.execute(statement, list(record.values()))


def write_parquet(rows: Sequence[Row], path: Path, _source: Source) -> None:
    """Write one record per row, in Parquet."""
    with _as_relation(rows, path) as records:
        records.write_parquet(str(path))


def write_arrow(rows: Sequence[Row], path: Path, source: Source) -> None:
    """Write one record per row, as an Arrow stream; for Feather as a file with an index, which is its version 2.

    Raises: MissingError if pyarrow is not installed.
    """
    pyarrow = import_pyarrow(path)
    opener = pyarrow.ipc.new_file if source.kind == "feather" else pyarrow.ipc.new_stream
    with _as_relation(rows, path) as records:
        table = pyarrow.table(records)
        with opener(str(path), table.schema) as writer:
            writer.write_table(table)


def write_text(path: Path, text: str, encoding: str) -> None:
    """Write a text file, compressed for the suffix `.gz`."""
    plain = encoding == "utf-8-sig" and not text.startswith("\ufeff")  # reading removes one such mark
    content = text.encode("utf-8" if plain else encoding)
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


WRITERS: Mapping[str, Callable[[Sequence[Row], Path, Source], None]] = {
    "csv": write_csv,
    "tsv": write_csv,
    "json": write_json,
    "jsonl": write_jsonl,
    "xlsx": write_xlsx,
    "parquet": write_parquet,
    "arrow": write_arrow,
    "feather": write_arrow,
    "docx": write_docx,
    "xml": write_xml,
    "text": write_whole_text,
    "lines": write_lines,
}
"""Kind of a source -> its writer, the inverse of its reader."""


def _text(value: object) -> str:
    """Convert a value to the text of a cell or element."""
    if isinstance(value, list | Mapping):
        raise TypeError(f"{value!r:.60} is nested")
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _element(name: str, value: object) -> ElementTree.Element:
    """Convert a value to an element: a mapping has attributes, child elements and own text."""
    element = ElementTree.Element(name)
    if not isinstance(value, Mapping):
        element.text = _text(value)
        return element
    element.text = _text(value.get(OWN_TEXT))
    for key, entry in value.items():
        if key.startswith(ATTRIBUTE):
            element.set(key.removeprefix(ATTRIBUTE), _text(entry))
        elif key != OWN_TEXT:
            element.extend(_element(key, part) for part in (entry if isinstance(entry, list) else [entry]))
    return element


_KEPT = re.compile(r"\d{4}-\d\d-\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|\d\d:\d\d:\d\d")
"""Texts that are the same after they were a date or a time. DuckDB also takes others for one, such as " infinity"."""

_NOT_TEXT = re.compile(r"\b(?:DATE|TIMESTAMP|TIME|UUID)\b")


@contextmanager
def _as_relation(rows: Sequence[Row], path: Path) -> Iterator[DuckDBPyRelation]:
    """Yield the rows as a relation; DuckDB detects the type of each column."""
    names = columns(rows)
    with WorkFolder(path.parent) as work, connect() as connection:
        lines = work.path / "rows.jsonl"
        lines.write_text("".join(json.dumps({name: row.get(name) for name in names}) + "\n" for row in rows), "utf-8")
        read = (
            f"FROM read_json({sql_path(lines)}, format='newline_delimited', sample_size=-1, maximum_depth=-1, "
            "map_inference_threshold=-1, dateformat='%Y-%m-%d', timestampformat='%Y-%m-%dT%H:%M:%S'"
        )
        kinds = dict(zip(names, map(str, connection.sql(f"{read})").types), strict=True))
        for name, kind in kinds.items():
            # 128-bit integers, which DuckDB detects in lists with negative numbers, are decimals in Arrow.
            kinds[name] = kind.replace("HUGEINT", "BIGINT")
            if not all(map(_KEPT.fullmatch, _texts([row.get(name) for row in rows]))):
                kinds[name] = _NOT_TEXT.sub("VARCHAR", kinds[name])
        shown = ", ".join(f"{sql_text(name)}: {sql_text(kind)}" for name, kind in kinds.items())
        yield connection.sql(f"{read}, columns={{{shown}}})")


def _texts(value: object) -> Iterator[str]:
    """Yield all texts within a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | Mapping):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part)

"""Write rows as the data files of a definition."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from medhelm.benchmarks.data.sources import is_pattern, matches_pattern
from medhelm.benchmarks.sample_data.writers import WRITERS, write_document, write_lines, write_sqlite
from medhelm.domain import Benchmark, Source
from medhelm.errors import DataError, UserError, suggestion
from medhelm.io.output_folder import output_errors
from medhelm.io.rows import Row
from medhelm.io.system_errors import is_database_disk_error

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

    from medhelm.io.work_folders import WorkFolder  # lazy: nothing is written at the start

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

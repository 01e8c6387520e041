"""Write rows as the data files of a definition."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath, PureWindowsPath

from medhelm.benchmarks.data.sources import is_pattern
from medhelm.benchmarks.sample_data.writers import (
    write_arrow,
    write_csv,
    write_document,
    write_docx,
    write_feather,
    write_json,
    write_jsonl,
    write_lines,
    write_parquet,
    write_sqlite,
    write_whole_text,
    write_xlsx,
    write_xml,
)
from medhelm.domain import Benchmark, Source
from medhelm.errors import DataError, UserError, suggestion
from medhelm.io.rows import Row

FILE = "file"
"""Column of rows for a folder of different files: the relative path of the file of a row."""

WRITERS: Mapping[str, Callable[[Sequence[Row], Path, Source], None]] = {
    "csv": write_csv,
    "tsv": write_csv,
    "json": write_json,
    "jsonl": write_jsonl,
    "xlsx": write_xlsx,
    "parquet": write_parquet,
    "arrow": write_arrow,
    "feather": write_feather,
    "docx": write_docx,
    "xml": write_xml,
    "text": write_whole_text,
    "lines": write_lines,
}
"""Kind of a source -> its writer, the inverse of its reader."""

_TEXTS = {"csv", "tsv", "json", "jsonl", "xml", "text", "lines"}
"""Kinds that can be compressed."""
_ENDINGS: Mapping[str, str] = {
    **{f".{kind}": kind for kind in ("csv", "tsv", "json", "jsonl", "xlsx", "parquet", "arrow", "feather", "docx")},
    ".sqlite": "sqlite",
    ".db": "sqlite",
}
"""Suffix of a file in a folder of different files -> its kind. All others are texts."""


def write_files(
    rows: Iterable[Mapping[str, object]], folder: Path, *, benchmark: Benchmark, overwrite: bool = False
) -> list[Path]:
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
    overwrite
        Allow existing files to be replaced.

    Returns
    -------
    list of Path
        The files that were written.

    Raises
    ------
    DataError
        If the rows do not match the files, or a value cannot be stored in the format.
    UserError
        If files already exist.
    """
    source = benchmark.source
    files = _files(_checked(rows), benchmark)
    targets = {name: _target(name, folder) for name in files}
    existing = [name for name, path in targets.items() if path.exists()]
    if existing and not overwrite:
        raise UserError(f"{folder} already holds {', '.join(existing)}. Choose another folder, or allow overwriting.")
    for name, content in files.items():
        path = targets[name]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(content, path, source)
        except OSError as error:
            raise UserError(f"{path}: cannot be written ({error.strerror or error}).") from None
    return list(targets.values())


def _checked(rows: Iterable[Mapping[str, object]]) -> list[Row]:
    """Copy the rows. Raises DataError for a value that is not JSON."""
    checked = []
    for number, row in enumerate(rows, 1):
        try:
            json.dumps(row, ensure_ascii=False).encode()
        except (TypeError, UnicodeEncodeError) as error:
            raise DataError(f"row {number}: must hold only texts, numbers, lists and objects ({error}).") from None
        checked.append(dict(row))
    return checked


def _files(rows: list[Row], benchmark: Benchmark) -> dict[str, list[Row]]:
    """Map each file to its rows. Raises DataError if rows and files do not match."""
    source = benchmark.source
    known = list(source.files)
    if source.kind == "folder":
        samples = [benchmark.sample, *benchmark.samples.values()]
        known += [*source.scoring_files, *(sample.ids_file for sample in samples if sample.ids_file)]
        files = _grouped(rows, FILE)
    elif source.file_column:
        files = _grouped(rows, source.file_column)
    else:
        files = _spread(rows, source)
    problems = [
        f"`{file}` is not a file of the definition. {suggestion(file, known)}".rstrip()
        for file in files
        if not any(_fits(file, name) for name in known)
    ]
    lacking = [name for name in source.files if not any(_fits(file, name) for file in files)]
    if lacking:
        problems.append(f"rows are missing for {', '.join(lacking)}.")
    if problems:
        raise DataError("\n".join(f"{benchmark.name}: {problem}" for problem in problems))
    return files


def _grouped(rows: Iterable[Row], column: str) -> dict[str, list[Row]]:
    """Group the rows by the file in `column`, which is removed."""
    files: dict[str, list[Row]] = {}
    for number, row in enumerate(rows, 1):
        file = row.pop(column, None)
        if not isinstance(file, str):
            raise DataError(f"row {number}: `{column}` must name its file, is {file!r:.60}.")
        files.setdefault(file, []).append(row)
    return files


def _spread(rows: list[Row], source: Source) -> dict[str, list[Row]]:
    """Distribute the rows in equal parts over `source.files`; texts are assigned by name."""
    if source.kind == "text":
        return {_named(row, source.files): [row] for row in rows}
    files: dict[str, list[Row]] = {}
    n, n_files = len(rows), len(source.files)
    for i, name in enumerate(source.files):
        part = rows[n * i // n_files : n * (i + 1) // n_files]
        if not part:
            continue
        if not is_pattern(name):
            files[name] = part
        elif source.kind == "xml":
            width = len(str(len(part)))
            files.update({_filled(name, f"{number:0{width}}"): [row] for number, row in enumerate(part, 1)})
        else:
            files[_filled(name, "1")] = part
    return files


def _named(row: Row, names: Iterable[str]) -> str:
    """Return the file of a text by its `name`."""
    wanted = row.get("name")
    for name in names:
        file = f"{name.rpartition('/')[0]}/{wanted}{_ending(name)}".removeprefix("/")
        if _fits(file, name):
            return file
    raise DataError(f"`name: {wanted!r:.60}` matches none of the files {', '.join(names)}.")


def _filled(pattern: str, text: str) -> str:
    """Return a file name that matches a pattern, with `text` for its wildcard."""
    file = pattern.replace("**/", "").replace("*", text)
    if not _fits(file, pattern):
        raise DataError(f"the pattern `{pattern}` does not determine a file name. Use `file_column`.")
    return file


def _fits(file: str, name: str) -> bool:
    """Tell whether a path equals a name or matches it as a pattern."""
    return file == name or _parts_fit(file.split("/"), name.split("/"))


def _parts_fit(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return any(_parts_fit(parts[i:], patterns[1:]) for i in range(len(parts)))
    return bool(parts) and fnmatchcase(parts[0], patterns[0]) and _parts_fit(parts[1:], patterns[1:])


def _ending(name: str) -> str:
    """Return the suffix of a file name: `.txt` or `.txt.gz`."""
    path = PurePosixPath(name)
    return PurePosixPath(path.stem).suffix + path.suffix if path.suffix == ".gz" else path.suffix


def _target(name: str, folder: Path) -> Path:
    """Return the path of a file in the folder. Raises DataError if it is outside."""
    plain = PurePosixPath(name)
    odd = "\\" in name or "\0" in name or PureWindowsPath(name).drive
    path = folder / name
    if not name or plain.is_absolute() or ".." in plain.parts or str(plain) != name or odd:
        raise DataError(f"`{name}` must be a path below the folder, with `/` and without `..`.")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"{path}: is outside the folder, through a link.")
    return path


def _write(rows: list[Row], path: Path, source: Source) -> None:
    """Write one file in the format of the source or, in a folder of different files, of its suffix."""
    kind = source.kind
    if kind == "folder":
        kind = _ENDINGS.get(_ending(path.name).removesuffix(".gz"), "text")
    if path.suffix == ".gz" and kind not in _TEXTS:
        raise DataError(f"{path}: a file of kind {kind} cannot be compressed. Remove `.gz` from its name.")
    if source.kind == "folder":
        _write_by_ending(rows, path, kind)
    else:
        WRITERS[kind](rows, path, source)


def _write_by_ending(rows: list[Row], path: Path, kind: str) -> None:
    """Write one file of a folder of different files."""
    keys = {key for row in rows for key in row}
    source = Source(kind=kind, encoding="utf-8")
    if kind == "sqlite":
        write_sqlite(rows, path, source)
    elif kind == "json" and keys == {"json"} and len(rows) == 1:
        write_document(path, rows[0]["json"], source.encoding)
    elif kind == "text" and keys == {"line"}:
        write_lines(rows, path, source)
    else:
        WRITERS[kind](rows, path, source)

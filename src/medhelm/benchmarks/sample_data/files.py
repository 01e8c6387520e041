"""Rows written out as the files that a definition speaks of: what a hospital would have on its disk."""

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
"""Column of rows for a folder of different files: the path of the file a row belongs to, below the folder."""

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
"""Kind of a source -> the inverse of its reader."""

_TEXTS = {"csv", "tsv", "json", "jsonl", "xml", "text", "lines"}
"""Kinds that may be packed."""
_ENDINGS: Mapping[str, str] = {
    **{f".{kind}": kind for kind in ("csv", "tsv", "json", "jsonl", "xlsx", "parquet", "arrow", "feather", "docx")},
    ".sqlite": "sqlite",
    ".db": "sqlite",
}
"""Ends of file names in a folder of different files -> their kind. All others are texts, written as they are."""


def write_files(
    rows: Iterable[Mapping[str, object]], folder: Path, *, benchmark: Benchmark, overwrite: bool = False
) -> list[Path]:
    """Write rows as the data files that `benchmark.source` names, in their format.

    Parameters: rows, as the reader of the format gives them. For a folder of different files each row names its file in
    `file`; with `file_column`, in that column; otherwise the rows are spread over the files in their order. Texts are
    one file per row, named by its `name`; a pattern of XML files gives one per row, numbered; another pattern one file.
    folder, is made if it is not there; overwrite, whether files may be there already.
    Returns: the files that were written.
    Raises: DataError if the rows do not fit the files; UserError if files are there already. Both before anything
    is written, but for values that their format cannot hold.
    """
    source = benchmark.source
    files = _files(_checked(rows), benchmark)
    targets = {name: _target(name, folder) for name in files}
    there = [name for name, path in targets.items() if path.exists()]
    if there and not overwrite:
        raise UserError(f"{folder} holds {', '.join(there)} already. Take another folder, or allow to overwrite them.")
    for name, content in files.items():
        path = targets[name]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(content, path, source)
        except OSError as error:
            raise UserError(f"{path}: cannot be written ({error.strerror or error}).") from None
    return list(targets.values())


def _checked(rows: Iterable[Mapping[str, object]]) -> list[Row]:
    """Copies of the rows. Raises: DataError for a value that no format can hold."""
    checked = []
    for number, row in enumerate(rows, 1):
        try:
            json.dumps(row, ensure_ascii=False).encode()
        except (TypeError, UnicodeEncodeError) as error:
            raise DataError(f"row {number}: holds more than texts, numbers, lists and objects ({error}).") from None
        checked.append(dict(row))
    return checked


def _files(rows: list[Row], benchmark: Benchmark) -> dict[str, list[Row]]:
    """Name of each file -> its rows. Raises: DataError if rows and files do not fit each other."""
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
        f"`{file}` is no file of the definition. {suggestion(file, known)}".rstrip()
        for file in files
        if not any(_fits(file, name) for name in known)
    ]
    lacking = [name for name in source.files if not any(_fits(file, name) for file in files)]
    if lacking:
        problems.append(f"there are no rows for {', '.join(lacking)}.")
    if problems:
        raise DataError("\n".join(f"{benchmark.name}: {problem}" for problem in problems))
    return files


def _grouped(rows: Iterable[Row], column: str) -> dict[str, list[Row]]:
    """The rows of each file that `column` names, without that column."""
    files: dict[str, list[Row]] = {}
    for number, row in enumerate(rows, 1):
        file = row.pop(column, None)
        if not isinstance(file, str):
            raise DataError(f"row {number}: `{column}` must name the file it belongs to, and is {file!r:.60}.")
        files.setdefault(file, []).append(row)
    return files


def _spread(rows: list[Row], source: Source) -> dict[str, list[Row]]:
    """The rows in their order, in equal parts for each name of `source.files`; texts go where their name belongs."""
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
    """The file of a text, by the `name` that its reader would give it."""
    wanted = row.get("name")
    for name in names:
        file = f"{name.rpartition('/')[0]}/{wanted}{_ending(name)}".removeprefix("/")
        if _fits(file, name):
            return file
    raise DataError(f"`name: {wanted!r:.60}` fits none of the files {', '.join(names)}.")


def _filled(pattern: str, text: str) -> str:
    """A file name that fits a pattern, with `text` where any text may stand."""
    file = pattern.replace("**/", "").replace("*", text)
    if not _fits(file, pattern):
        raise DataError(f"no file name can be made of `{pattern}`. Use `file_column`, and name the files in the rows.")
    return file


def _fits(file: str, name: str) -> bool:
    """Whether a path is the one of that name, or one that it stands for if it is a pattern."""
    return file == name or _parts_fit(file.split("/"), name.split("/"))


def _parts_fit(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return any(_parts_fit(parts[i:], patterns[1:]) for i in range(len(parts)))
    return bool(parts) and fnmatchcase(parts[0], patterns[0]) and _parts_fit(parts[1:], patterns[1:])


def _ending(name: str) -> str:
    """The end of a file name that tells its format: `.txt` or `.txt.gz`."""
    path = PurePosixPath(name)
    return PurePosixPath(path.stem).suffix + path.suffix if path.suffix == ".gz" else path.suffix


def _target(name: str, folder: Path) -> Path:
    """The path of a file below the folder. Raises: DataError if it leads elsewhere."""
    plain = PurePosixPath(name)
    odd = "\\" in name or "\0" in name or PureWindowsPath(name).drive
    path = folder / name
    if not name or plain.is_absolute() or ".." in plain.parts or str(plain) != name or odd:
        raise DataError(f"`{name}` must be a path below the folder, with `/` and without `..`.")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"{path}: leads out of the folder, through a link.")
    return path


def _write(rows: list[Row], path: Path, source: Source) -> None:
    """One file, in the format of the source, or in the one that its name tells in a folder of different files."""
    kind = source.kind
    if kind == "folder":
        kind = _ENDINGS.get(_ending(path.name).removesuffix(".gz"), "text")
    if path.suffix == ".gz" and kind not in _TEXTS:
        raise DataError(f"{path}: a file of kind {kind} cannot be packed. Take `.gz` off its name.")
    if source.kind == "folder":
        _write_by_ending(rows, path, kind)
    else:
        WRITERS[kind](rows, path, source)


def _write_by_ending(rows: list[Row], path: Path, kind: str) -> None:
    """One file of a folder of different files."""
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

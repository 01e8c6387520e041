"""Data files of a benchmark: are they there, are they the right ones, and what rows do they hold."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from medhelm.benchmarks.formats import READERS, Row
from medhelm.domain import Source
from medhelm.errors import DataError, MissingError


def data_files(source: Source, folder: Path) -> dict[str, Path]:
    """Path of each data file below `folder` as text -> the file, in reading order.

    For `text` sources a name may be a pattern such as `notes/*.txt`; its files come sorted by name. Files that are
    named but not there are listed all the same; a pattern that fits no file lists nothing.
    """
    files: dict[str, Path] = {}
    for name in source.files:
        if _is_pattern(source, name):
            found = sorted(path for path in folder.glob(name) if path.is_file())
            files.update({path.relative_to(folder).as_posix(): path for path in found})
        else:
            files[name] = folder / name
    return files


def check_files(source: Source, folder: Path) -> dict[str, str]:
    """Read every data file once and compare its checksum.

    Returns: path below `folder` -> sha256 in hex, as the files are, in reading order.
    Raises: MissingError with all files that are not there; DataError with all that are not the ones the source names.
    """
    files = data_files(source, folder)
    missing = [name for name, path in files.items() if not path.is_file()]
    missing += [name for name in source.files if _is_pattern(source, name) and not any(folder.glob(name))]
    if missing:
        raise MissingError(missing_files_words(source, folder, missing))
    actual = {name: file_digest(path) for name, path in files.items()}
    wrong = [name for name, digest in actual.items() if source.files.get(name, "") not in ("", digest)]
    if wrong:
        lines = []
        for name in wrong:
            lines += [f"{folder / name}", f"  sha256 is     {actual[name]}", f"  it should be  {source.files[name]}"]
            lines += [f"  get it from   {address}" for address in addresses(source, [name])]
        lines.append(
            "Not the data that the definition names. Get it again; or, if it is the data you mean, correct the sha256 "
            "under `source.files` in benchmark.yaml."
        )
        raise DataError("\n".join(lines))
    return actual


def read_rows(source: Source, folder: Path) -> Iterator[Row]:
    """Rows of all data files, one after another, as the format gives them.

    Raises: DataError where a file is not what the source says, also if it holds no rows; MissingError if it is gone.
    """
    reader = READERS[source.kind]
    for name, path in data_files(source, folder).items():
        empty = True
        try:
            for row in reader(path, source):
                empty = False
                yield row
        except FileNotFoundError:
            raise MissingError(missing_files_words(source, folder, [name])) from None
        if empty:
            raise DataError(f"{path}: holds no rows. Check that it was downloaded or exported completely.")


def missing_files_words(source: Source, folder: Path, names: list[str]) -> str:
    """The message for files that are not there: which, and where they come from."""
    lines = [f"{folder} lacks {', '.join(names)}."]
    lines += [f"  from {address}" for address in addresses(source, names)]
    if source.note:
        lines.append(source.note.strip())
    return "\n".join(lines)


def addresses(source: Source, names: Iterable[str]) -> list[str]:
    """Where the files of those names can be downloaded; empty if that is nowhere."""
    if not source.location:
        return []
    return [source.location.replace("{revision}", source.revision).replace("{file}", name) for name in names]


def file_digest(path: Path) -> str:
    """sha256 of a file, in hex. Raises: DataError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}). Check who may read it.") from None


def _is_pattern(source: Source, name: str) -> bool:
    return source.kind == "text" and any(sign in name for sign in "*?[")

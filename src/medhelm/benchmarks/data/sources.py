"""Data files of a benchmark: are they there, are they the right ones, and what rows do they hold."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from medhelm.benchmarks.data.readers import READERS
from medhelm.domain import Source
from medhelm.errors import DataError, MissingError
from medhelm.io.files import open_bytes
from medhelm.io.rows import Row

_CHUNK = 1 << 20


def data_files(source: Source, folder: Path) -> dict[str, Path]:
    """Path of each data file below `folder` as text -> the file, in reading order.

    Files that are named but not there are listed all the same; a pattern that fits no file lists nothing. A file that
    is only there packed, with `.gz` after its name, is as good as the file itself.
    """
    files: dict[str, Path] = {}
    for name in source.files:
        files.update(_fitting(name, folder, source))
    return files


def check_files(source: Source, folder: Path, *, scoring: bool = False) -> dict[str, str]:
    """Read every data file once and compare its checksum.

    Parameters: scoring, whether the files that only scoring needs must be there too; if they are, they are checked.
    Returns: path below `folder` -> sha256 in hex, as the files are, in reading order. That of a file which is there
    packed, where the source names it without `.gz`, is of what it holds.
    Raises: MissingError with all files that are not there; DataError with all that are not the ones the source names.
    """
    if missing := missing_files(source, folder, scoring=scoring):
        raise MissingError(missing_files_words(source, folder, missing))
    wanted = dict(source.files)
    wanted.update(
        {name: checksum for name, checksum in source.scoring_files.items() if _is_there(name, folder, source)}
    )
    found = {name: _fitting(name, folder, source) for name in wanted}
    digests = {
        path: file_digest(file, unpacked=file.name == f"{PurePosixPath(path).name}.gz")
        for files in found.values()
        for path, file in files.items()
    }
    actual = {name: list_digest(digests, files) if is_pattern(name) else digests[name] for name, files in found.items()}
    wrong = [name for name, digest in actual.items() if wanted[name] not in ("", digest)]
    if wrong:
        lines = []
        for name in wrong:
            listed = f"{folder / name} (list of {len(found[name])} files)"
            shown = listed if is_pattern(name) else str(found[name][name])
            lines += [shown, f"  sha256 is     {actual[name]}", f"  it should be  {wanted[name]}"]
            lines += [f"  get it from   {address}" for address in addresses(source, [name])]
        lines.append(
            "Not the data that the definition names. Get it again; or, if it is the data you mean, correct the sha256 "
            "under `source.files` in benchmark.yaml."
        )
        raise DataError("\n".join(lines))
    return digests


def missing_files(source: Source, folder: Path, *, scoring: bool = False) -> list[str]:
    """Files and patterns of the source that are not in `folder`; with `scoring` also those that only scoring needs."""
    wanted = [*source.files, *(source.scoring_files if scoring else ())]
    return [name for name in wanted if not _is_there(name, folder, source)]


def list_digest(digests: Mapping[str, str], paths: Iterable[str]) -> str:
    """sha256 of a list of files: of the lines `<sha256>  <file name>`, sorted by file name, byte by byte.

    >>> list_digest({"a/x": "00"}, ["a/x"]) == hashlib.sha256(b"00  x" + bytes([10])).hexdigest()
    True
    """
    names = sorted((path.rpartition("/")[2].encode("utf-8", "surrogateescape"), digests[path]) for path in paths)
    return hashlib.sha256(b"".join(digest.encode() + b"  " + name + b"\n" for name, digest in names)).hexdigest()


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
                yield {**row, source.file_column: name} if source.file_column else row
        except FileNotFoundError:
            raise MissingError(missing_files_words(source, folder, [name])) from None
        if empty:
            raise DataError(f"{path}: holds no rows. Check that it was downloaded or exported completely.")


def missing_files_words(source: Source, folder: Path, names: list[str]) -> str:
    """The message for files that are not there: which, and where they come from."""
    lines = [f"{folder} lacks {', '.join(names)}."]
    public = [name for name in names if name not in source.scoring_files]
    lines += [f"  from {address}" for address in addresses(source, public)]
    if source.note:
        lines.append(source.note.strip())
    return "\n".join(lines)


def addresses(source: Source, names: Iterable[str]) -> list[str]:
    """Where the files of those names can be downloaded; empty if that is nowhere."""
    if not source.location:
        return []
    pinned = source.location.replace("{revision}", source.revision)
    plain = [name.rpartition("/")[0] if is_pattern(name) else name for name in names]
    return [pinned.replace("{file}", quote(name)) for name in plain]


def file_digest(path: Path, *, unpacked: bool = False) -> str:
    """sha256 of a file, in hex; with `unpacked`, of what a packed one holds. Raises: DataError if it cannot be read."""
    digest = hashlib.sha256()
    try:
        with open_bytes(path) if unpacked else path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
        return digest.hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}). Check who may read it.") from None


def is_archive(location: str) -> bool:
    """Whether there is one archive at an address that holds all files, below one top folder.

    >>> is_archive("https://codeload.github.com/owner/name/tar.gz/{revision}"), is_archive("https://host/a/{file}")
    (True, False)
    """
    return "{file}" not in location and any(kind in location for kind in (".zip", "/zip/", ".tar.gz", "/tar.gz/"))


def is_pattern(name: str) -> bool:
    """Whether a path stands for many files, such as `notes/*.txt`.

    >>> is_pattern("notes/*.txt"), is_pattern("notes.csv")
    (True, False)
    """
    return any(sign in name for sign in "*?[")


def _is_there(name: str, folder: Path, source: Source) -> bool:
    """Whether the file, or any file that fits the pattern, exists."""
    return any(path.is_file() for path in _fitting(name, folder, source).values())


def _fitting(name: str, folder: Path, source: Source) -> dict[str, Path]:
    """The files a path or pattern stands for; those of a pattern sorted by name, byte by byte."""
    if is_pattern(name):
        found = {path.relative_to(folder).as_posix(): path for path in folder.glob(name) if path.is_file()}
        return dict(sorted(found.items(), key=lambda item: item[0].encode("utf-8", "surrogateescape")))
    packed = folder / f"{name}.gz"
    read_here = source.kind != "folder" and name in source.files  # hooks and databases need the file itself
    return {name: packed if read_here and packed.is_file() and not (folder / name).is_file() else folder / name}

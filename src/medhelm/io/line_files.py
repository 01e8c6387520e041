"""Files of the store with one JSON object a line that people add to: notes, and the files of studies.

A file is written as a whole under a lock, so that several processes can add to it, an encrypted store keeps it
encrypted, and a killed process leaves the old content or the new one. It is on the disk when the writer returns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from medhelm.errors import StoreError
from medhelm.io.files import error_class, file_mask, file_mode, open_file, read_confidential
from medhelm.io.folders import atomic_file

WAIT_S = 10.0
"""Most seconds to wait for another process that writes the file."""


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file without empty ones; none if it is missing. Raises: StoreError."""
    try:
        text = read_confidential(path)
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    return [line for line in text.split("\n") if line]


def replace_lines(store: Path, path: Path, lines: Collection[str]) -> None:
    """Replace a file; without lines, remove it. `store`: folder whose permissions the file gets. Raises: OSError."""
    if not lines:
        path.unlink(missing_ok=True)
        return
    with atomic_file(path, durable=True) as new:
        with open_file(new, "wb") as file:
            file.write("".join(f"{line}\n" for line in lines).encode())
        new.chmod(0o660 & ~file_mask(store))


@contextmanager
def locked(store: Path, name: str, path: Path) -> Iterator[None]:
    """Lock a file, or the files of a folder, against other processes and threads; a thread may lock it again.

    Parameters: store, its folder; name, that of the lock. Raises: StoreError, also for errors of the disk in the block.
    """
    from filelock import FileLock, Timeout  # lazy: readers need none

    file = store / "locks" / f"{name}.lock"
    try:
        file.parent.mkdir(exist_ok=True)
        with FileLock(file, timeout=WAIT_S, mode=file_mode(file), poll_interval=0.01, is_singleton=True):
            yield
    except Timeout as error:
        raise StoreError(f"{path} is being written by another process. Try again.") from error
    except OSError as error:
        text = f"{path} cannot be written: {error.strerror or error}. Nothing was saved."
        raise error_class(error, StoreError)(text) from error

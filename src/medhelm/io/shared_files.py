"""Files that several processes, and in a store for a team several users, append to or lock.

Each has the permissions of the folder that holds it, whatever the umask of the process that creates it: nothing for
other users, and for the group what the folder allows. It is a regular file, never a link to one, so that a
member of a group cannot direct what another one appends to a file elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path


def file_mask(folder: Path) -> int:
    """Return the umask for files of a folder: nothing for other users, and what the folder allows for its group.

    A folder that is open to all users was not shared with its group on purpose.
    """
    try:
        mode = folder.stat().st_mode
    except OSError:
        return 0o077
    return 0o077 if mode & 0o007 else 0o077 & ~mode


def file_mode(path: Path) -> int:
    """Return the mode of a file that everyone who can write to its folder writes to."""
    return 0o660 & ~file_mask(path.parent)


def open_shared(path: Path, flags: int) -> int:
    """Open a regular file, or create it, and return its descriptor. Raises: OSError, also for links and devices."""
    mode = file_mode(path)
    # Without O_NONBLOCK, opening a named pipe would wait for its other end.
    flags |= os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        file = os.open(path, flags, mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _not_regular() from None
        raise
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            raise _not_regular()
        if flags & os.O_CREAT:
            _share(file, about, mode)
    except BaseException:
        os.close(file)
        raise
    return file


def prepare_database(path: Path, *, create: bool = True) -> None:
    """Create an empty file for a database of SQLite, which gives its other files the same mode, or correct its mode.

    Raises: OSError if it is there and not a regular file.
    """
    # An existing one is not opened: closing it would release the locks that this process holds on it.
    try:
        about = path.lstat()
    except FileNotFoundError:
        if create:
            with suppress(FileExistsError):
                os.close(open_shared(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        return
    if not stat.S_ISREG(about.st_mode):
        raise _not_regular()
    for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        with suppress(OSError):
            _share(file, file.lstat(), file_mode(path))


def make_shared_folder(folder: Path) -> None:
    """Create a folder that those can use who can use the one around it, or correct its mode. Raises: OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    about, shared = folder.stat(), 0o770 & ~file_mask(folder.parent)
    if os.name == "posix" and about.st_uid == os.geteuid() and ~about.st_mode & shared:
        folder.chmod(stat.S_IMODE(about.st_mode) | shared)  # keeps the bit that passes the group on


def _share(file: int | Path, about: os.stat_result, mode: int) -> None:
    """Set the mode of a regular file that belongs to this user."""
    is_own = hasattr(os, "geteuid") and about.st_uid == os.geteuid() and stat.S_ISREG(about.st_mode)
    if is_own and stat.S_IMODE(about.st_mode) != mode:
        with suppress(OSError):  # a file system without modes
            os.chmod(file, mode)  # noqa: PTH101 - a descriptor or a path


def _not_regular() -> OSError:
    return OSError(errno.EINVAL, "it is not a regular file")

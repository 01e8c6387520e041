"""Permissions of a store: for its owner, and for a group with which its folder was shared on purpose."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def make_private_folder(folder: Path) -> None:
    """Make the folder of a new store, or close an existing one to other users.

    An existing folder that only its owner and group may enter stays as it is.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.name == "posix" and folder.stat().st_mode & 0o007:
        with suppress(PermissionError):  # the folder of another user
            folder.chmod(0o700)


def is_open_to_others(folder: Path) -> bool:
    """Return True if all users of this machine can enter or list the folder of a store; False if it is no store."""
    try:
        folder = folder.resolve(strict=True)
        is_open = (folder / "store.json").is_file() and bool(folder.stat().st_mode & 0o005)
        return os.name == "posix" and is_open and all(parent.stat().st_mode & 0o001 for parent in folder.parents)
    except OSError:
        return False

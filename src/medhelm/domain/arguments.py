"""Checks arguments of the Python API: one or more values, texts or paths, and names from a fixed list."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from medhelm.errors import UserError, suggestion

AnyPath = str | PathLike[str]
"""A path as callers write it."""

AnyPaths = AnyPath | Iterable[AnyPath]
"""One or more paths."""

AnyNames = str | Iterable[str]
"""One or more names."""


def as_list(value: Any, kinds: tuple[type, ...], name: str, meaning: str) -> list[Any]:
    """Return one or more values as a list.

    Parameters: kinds, types of a single value; name, the argument; meaning, a valid value in words.
    Raises: UserError for values of another type.
    """
    if isinstance(value, kinds):
        return [value]
    found = list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes) else [value]
    for one in found:
        if not isinstance(one, kinds):
            raise UserError(f"`{name}` must be {meaning}, or several of them. This is not: {shortened(one)}.")
    return found


def as_names(value: AnyNames, name: str) -> list[str]:
    """Return one or more names as a list. Raises: UserError for values that are not texts."""
    return as_list(value, (str,), name, "a name")


def as_path(value: AnyPath, name: str) -> Path:
    """Return a path. Raises: UserError for anything but a text or a path."""
    if not isinstance(value, str | PathLike) or not str(value):
        raise UserError(f"`{name}` must be a path. This is not: {shortened(value)}.")
    return Path(value)


def as_paths(value: AnyPaths, name: str) -> list[Path]:
    """Return one or more paths as a list. Raises: UserError for anything but texts and paths."""
    return [as_path(one, name) for one in as_list(value, (str, PathLike), name, "a path")]


def check_choice(value: object, known: Collection[str], name: str) -> None:
    """Raise UserError unless a value is one of the known ones."""
    if not isinstance(value, str) or value not in known:
        hint = suggestion(value, known) if isinstance(value, str) else f"Known: {', '.join(known)}."
        raise UserError(f"`{name}` cannot be {shortened(value)}. {hint}".rstrip())


def shortened(value: object) -> str:
    """Return a value for a message, with its type: at most 80 characters.

    >>> shortened(3)
    '3 (int)'
    """
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:60] + '...'} ({type(value).__name__:.15})"

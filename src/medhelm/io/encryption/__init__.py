"""Encryption at rest: keys, encrypted files, and the folders whose files are encrypted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

KEY_VARIABLE = "MEDHELM_STORE_KEY"
"""Environment variable with the user's key; with the suffix `_FILE` or `_COMMAND`, with the place to read it from."""

MAGIC = b"MEDHELM\x1a"
"""First bytes of every encrypted file."""


def given_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the variables that give the user's key."""
    return [name for end in ("", "_FILE", "_COMMAND") if environment.get(name := f"{KEY_VARIABLE}{end}")]


def is_encrypted(path: Path) -> bool:
    """Return True if a file begins like an encrypted file. Raises: OSError."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC

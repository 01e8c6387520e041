"""Data files for tests: written unchanged, and read with the reader of their format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medhelm.benchmarks.data.readers import READERS
from medhelm.domain import Source
from medhelm.errors import DataError
from medhelm.io.rows import Row

ODD = ["plain", "two\nlines", "tab\there", 'a "quote"', "a,comma", "👩‍⚕️ é \u202e", "\x00\x01\x1b", " blank ", "{x}", ""]
"""Texts that must come back unchanged."""


def rows(path: Path, kind: str, **settings: Any) -> list[Row]:
    """All rows of a file."""
    return list(READERS[kind](path, Source(kind=kind, **settings)))


def written(folder: Path, content: str | bytes, name: str = "x") -> Path:
    """A file with this content."""
    path = folder / name
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def message(path: Path, kind: str, **settings: Any) -> str:
    """Return the message about a file that cannot be read."""
    with pytest.raises(DataError) as caught:
        rows(path, kind, **settings)
    return str(caught.value)

"""Data files for tests: written unchanged, and read with the reader of their format."""

from __future__ import annotations

from pathlib import Path
from random import Random
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


def mutated(random: Random, content: bytes) -> bytes:
    """Return a file with a few random changes: bits, bytes, numbers, and bytes left out or repeated."""
    data = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        at = random.randrange(len(data) + 1)
        size = random.randrange(1, 32)
        match random.randrange(5):
            case 0:
                data[at : at + 1] = bytes(byte ^ 1 << random.randrange(8) for byte in data[at : at + 1])
            case 1:
                data[at : at + 1] = random.choice((b"\0", b"\1", b"\x7f", b"\x80", b"\xff"))
            case 2:
                number = (1 << random.randrange(63)).to_bytes(8, "little")
                data[at : at + 8] = random.choice((bytes(8), b"\xff" * 8, number, random.randbytes(8)))
            case 3:
                del data[at : at + size]
            case _:
                data[at:at] = data[at : at + size]
    return bytes(data)

"""Numbers that are kept between processes: the analysis names what it needs, the storage keeps it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from medhelm import __version__

Arrays = Mapping[str, NDArray[Any]]
"""Arrays by name."""


class NumbersCache(Protocol):
    """Keeps arrays between processes."""

    def find(self, benchmark: str, slot: str, key: str) -> Arrays | None:
        """Return the arrays in a slot of a benchmark; None unless they were kept under this key."""

    def add(self, benchmark: str, slot: str, key: str, arrays: Arrays) -> None:
        """Keep some arrays, in place of those that the slot had."""


def digest(value: object) -> str:
    """Return the digest of a JSON value and of what computes numbers: our code, and NumPy's version."""
    return sha256(json.dumps([code_digest(), np.__version__, value]).encode()).hexdigest()


@cache
def code_digest() -> str:
    """Return the digest of the code of medhelm: numbers that it would compute in another way now are not used.

    It reads 400 files, after each of which it waits for the other threads: it is computed before these start.
    """
    found = sha256(__version__.encode())
    folders = os.walk(Path(__file__).parents[2])  # faster than `Path.rglob`
    for path in sorted(f"{folder}/{name}" for folder, _, names in folders for name in names if name.endswith(".py")):
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - faster
            found.update(file.read())
    return found.hexdigest()

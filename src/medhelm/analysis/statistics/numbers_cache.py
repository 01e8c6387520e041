"""Numbers that are kept between processes: the analysis names what it needs, the storage keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]
"""Arrays by name."""


class NumbersCache(Protocol):
    """Keeps arrays between processes."""

    def find(self, benchmark: str, slot: str, key: str) -> Arrays | None:
        """Return the arrays in a slot of a benchmark; None unless they were kept under this key."""

    def add(self, benchmark: str, slot: str, key: str, arrays: Arrays) -> None:
        """Keep some arrays, in place of those that the slot had."""


def digest(value: object) -> str:
    """Return the digest of a JSON value, and of the version of NumPy, whose sums may differ in the last digit."""
    return sha256(json.dumps([np.__version__, value]).encode()).hexdigest()

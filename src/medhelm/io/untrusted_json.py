"""Reading JSON that others wrote: what has the wrong type counts as absent, and nothing raises."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


def mapping(value: object) -> Mapping[str, Any]:
    """An object; empty for anything else."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> Sequence[Any]:
    """A list; empty for anything else."""
    return value if isinstance(value, list) else ()


def text(value: object) -> str:
    """A text in valid Unicode; empty for anything else."""
    return well_formed(value) if isinstance(value, str) else ""


def number(value: object) -> float | None:
    """A finite number; None for anything else, also for true and false."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def count(value: object) -> int:
    """A whole number of at least 0; 0 for anything else."""
    found = number(value)
    return int(found) if found is not None and 0 <= found < 2**53 else 0


def well_formed(said: str) -> str:
    """`said` with lone surrogates, which no file can hold, replaced."""
    return said.encode("utf-8", "surrogatepass").decode("utf-8", "replace")

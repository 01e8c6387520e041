"""Reads values of untrusted JSON. A value of the wrong type counts as missing; nothing raises."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


def mapping(value: object) -> Mapping[str, Any]:
    """Return a JSON object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> Sequence[Any]:
    """Return a list; an empty one for anything else."""
    return value if isinstance(value, list) else ()


def text(value: object) -> str:
    """Return a text in valid Unicode; "" for anything else."""
    return well_formed(value) if isinstance(value, str) else ""


def number(value: object) -> float | None:
    """Return a finite number; None for anything else, including true and false."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def count(value: object) -> int:
    """Return a whole number of at least 0; 0 for anything else."""
    found = number(value)
    return int(found) if found is not None and 0 <= found < 2**53 else 0


def well_formed(value: str) -> str:
    """Replace lone surrogates, which cannot be written as UTF-8."""
    return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")

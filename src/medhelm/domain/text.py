"""Small helpers for text that people read."""

from __future__ import annotations

from collections.abc import Sequence


def plural(n: int, noun: str, nouns: str = "") -> str:
    """Return a count with its noun.

    Parameters: n, the count; noun, its singular; nouns, its plural if it does not end in s.

    >>> plural(1, "benchmark"), plural(1200, "benchmark"), plural(2, "entry", "entries")
    ('1 benchmark', '1,200 benchmarks', '2 entries')
    """
    return f"{n:,} {noun if n == 1 else nouns or noun + 's'}"


def listed(names: Sequence[str], most: int | None = None) -> str:
    """Return names as a list in a sentence; of more than `most` only the first ones are named.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], 2)
    ('a, b and c', 'a, b and 1 more')
    """
    if most is not None and len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    *first, last = names or [""]
    return f"{', '.join(first)} and {last}" if first else last

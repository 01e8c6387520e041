"""Small helpers for text that people read."""

from __future__ import annotations


def plural(n: int, noun: str, nouns: str = "") -> str:
    """Return a count with its noun.

    Parameters: n, the count; noun, its singular; nouns, its plural if it does not end in s.

    >>> plural(1, "benchmark"), plural(1200, "benchmark"), plural(2, "entry", "entries")
    ('1 benchmark', '1,200 benchmarks', '2 entries')
    """
    return f"{n:,} {noun if n == 1 else nouns or noun + 's'}"

"""Small helpers for text that people read."""

from __future__ import annotations

import re
from collections.abc import Sequence

SERVERS: Sequence[tuple[str, str]] = (
    (r"(?i)\b[a-z][a-z0-9+.-]*://[^\s,;\"'<>()]*[^\s,;\"'<>().:]|\bunix:[^\s,;]*", "[server]"),
    (r"(?i)\b(host name|check how|on node) [^\s,;]*[a-z0-9]", r"\1 [server]"),
    (r"\b\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+)?|\[[0-9a-fA-F]*:[0-9a-fA-F:.]*\](?::\d+)?", "[server]"),
    (r"(?i)\b(?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:corp|internal|lan|local|svc))\b(?::\d+)?", "[server]"),
    (r"(?i)\bport \d+", "port [number]"),
)
"""Pattern of the address of a server in a message -> what replaces it; for Python and for DuckDB."""


def plural(n: int, noun: str, nouns: str = "") -> str:
    """Return a count with its noun.

    Parameters: n, the count; noun, its singular; nouns, its plural if it does not end in s.

    >>> plural(1, "benchmark"), plural(1200, "benchmark"), plural(2, "entry", "entries")
    ('1 benchmark', '1,200 benchmarks', '2 entries')
    """
    return f"{n:,} {noun if n == 1 else nouns or noun + 's'}"


def listed(names: Sequence[str], most: int | None = None) -> str:
    """Return names as a list in a sentence; if there are more than `most`, only the first ones are named.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], 2)
    ('a, b and c', 'a, b and 1 more')
    """
    if most is not None and len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    *first, last = names or [""]
    return f"{', '.join(first)} and {last}" if first else last


def short_count(number: int) -> str:
    """Return a large count with a unit.

    >>> short_count(950), short_count(1_400), short_count(2_500_000)
    ('950', '1.4k', '2.5M')
    """
    for limit, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= limit:
            return f"{number / limit:.1f}{unit}"
    return str(number)


def duration(seconds: float | None) -> str:
    """Return a duration in words; a question mark if it is unknown.

    >>> duration(9.6), duration(400), duration(20_000), duration(None)
    ('10 s', '6 min 40 s', '5 h 33 min', '?')
    """
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def without_servers(message: str) -> str:
    """Return the message of a failure without the addresses of servers, for publication.

    >>> without_servers("cannot connect to http://gpu7:8000: refused. See the log of the server on port 8000.")
    'cannot connect to [server]: refused. See the log of the server on port [number].'
    """
    for pattern, replacement in SERVERS:
        message = re.sub(pattern, replacement, message)
    return message


def value_in_words(value: object) -> str:
    """Format a value for an error message, shortened and with its type recognizable."""
    match value:
        case None:
            return "empty"
        case bool():
            return f"`{str(value).lower()}`"
        case str():
            shown = value if value.isprintable() else repr(value)[1:-1]
            return f"`{shown if len(shown) <= 60 else shown[:57] + '...'}`" if value else "an empty text"
        case int() | float():
            return f"the number {value}"
        case list():
            return "a list"
        case _:
            return "a mapping"

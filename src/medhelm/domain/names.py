"""Names that come from elsewhere, such as a worker or a server: what is accepted as one.

A text that is accepted is short and holds no sentence, so that it can be logged and shown where no text of a prompt or
completion may be.
"""

from __future__ import annotations

import re
from hashlib import sha256

LONGEST = 80
"""Most characters of the names of benchmarks and workers."""

LONGEST_REPORTED = 200
"""Most characters of a name that a server reports."""

_BENCHMARK = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_WORKER = re.compile(r"\w[\w.:@+-]*")
_REPORTED = re.compile(r"[A-Za-z0-9._:/@+~#=%,\\-]+")
_TAG = re.compile(r"[0-9a-f]{16}")
_START = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|\+\d\d:\d\d)")


def is_benchmark_name(text: str) -> bool:
    """Return True for the name of a benchmark: at most 80 characters in snake case."""
    return len(text) <= LONGEST and _BENCHMARK.fullmatch(text) is not None


def is_worker_name(text: str) -> bool:
    """Return True for the name of a worker: at most 80 letters, digits and the characters `_ . : @ + -`."""
    return len(text) <= LONGEST and _WORKER.fullmatch(text) is not None


def is_model_tag(text: str) -> bool:
    """Return True for the hash of a model's definition, in 16 hexadecimal digits."""
    return _TAG.fullmatch(text) is not None


def is_start_time(text: str) -> bool:
    """Return True for the start of a fresh run, an ISO 8601 time with its zone."""
    return _START.fullmatch(text) is not None


def reported_name(text: str) -> str:
    """Return what a server reports, such as its model, if it is a name; else a hash in its place.

    A server can put any text there, that of a prompt included. The hash still shows whether it changed.

    >>> reported_name("gpt-4o-2024-08-06"), reported_name("Mr. John Doe, 62")
    ('gpt-4o-2024-08-06', 'sha256:194c4638840309f1')
    """
    if not text or (len(text) <= LONGEST_REPORTED and _REPORTED.fullmatch(text)):
        return text
    return f"sha256:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"

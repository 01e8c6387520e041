"""Shared helpers to read the files of other harnesses: digests, JSON documents, times, URLs and model names."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from medhelm.domain import Model
from medhelm.domain.text import plural
from medhelm.errors import DataError
from medhelm.io.rows import text, well_formed

LARGEST_FILE = 2**31
"""Maximum size, in bytes, of a JSON document that is loaded as a whole."""

_METRIC_SIGN = re.compile(r"[^\w.@+-]+")
_LONGEST_NAME = 80
_LONGEST_VALUE = 1000


def digest_of(*paths: Path) -> str:
    """Return the hex SHA-256 of the given files, concatenated. Raises: DataError if one cannot be read."""
    digest = hashlib.sha256()
    try:
        for path in paths:
            if path.is_fifo():
                raise DataError("cannot be read: it is a named pipe, not a file.")
            with path.open("rb") as file:
                hashlib.file_digest(file, lambda: digest)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}.") from error
    return digest.hexdigest()


def load_json(path: Path) -> Any:
    """Load a JSON document, with or without a byte order mark; NaN is accepted. Raises: DataError with the reason."""
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise DataError(f"has {size:,} bytes; the limit for a document is {LARGEST_FILE:,} bytes.")
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}.") from error
    if not content.strip():
        raise DataError("is empty.")
    return parse_json(content, "is not valid JSON")


def parse_json(content: bytes, wrong: str) -> Any:
    """Parse JSON from bytes. Raises: DataError that begins with `wrong` and gives the position."""
    try:
        return json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DataError(f"{wrong}: byte {error.start} is not UTF-8.") from error
    except json.JSONDecodeError as error:
        raise DataError(f"{wrong}: {error.msg.lower()} at line {error.lineno}, column {error.colno}.") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{wrong}: it is nested too deeply, or contains a number that is too long.") from error


def iso_time(value: str) -> str:
    """Return a time as ISO 8601 in UTC; empty if it is not a time. A time without a zone is read as UTC."""
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return ""
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    try:
        return found.astimezone(UTC).isoformat(timespec="milliseconds")
    except OverflowError:
        return ""


def address(url: str) -> str:
    """Return the address of a server without user name, password or query, which may contain keys."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}" if parts.hostname else ""


def model_of(name: str) -> Model:
    """Return a model that is known only by its name."""
    provider, slash, rest = name.partition("/")
    return Model(name=name, provider=provider if slash else "", remote_name=rest if slash else name)


def count_remarks(issues: Iterable[tuple[str, int]], what: str) -> list[str]:
    """Return a remark for each irregularity, with its count.

    >>> count_remarks([("no id; skipped", 2), ("duplicate", 1)], "line")
    ['2 lines: no id; skipped.', '1 line: duplicate.']
    """
    return [f"{plural(n, what)}: {words}." for words, n in issues]


def metric_name(name: str) -> str:
    """Return the metric's name in MedHELM: characters that are not allowed in a column name become `_`.

    >>> metric_name("exact_match,strict match")
    'exact_match_strict_match'
    """
    return _METRIC_SIGN.sub("_", well_formed(name))[:_LONGEST_NAME] or "score"


def short_text(value: object) -> str:
    """Return a table value as short text to store with an instance; empty if it is long, or not text or a number."""
    shown = text(value) if isinstance(value, str) else str(value) if isinstance(value, bool | int | float) else ""
    return shown if len(shown) <= _LONGEST_VALUE else ""

"""What readers of other harnesses' files share: digests, JSON documents, times and addresses."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from medhelm.domain.text import plural
from medhelm.errors import DataError
from medhelm.io.untrusted_json import text, well_formed

LARGEST_FILE = 2**31
"""Bytes of a JSON document that is read as a whole."""

_CHUNK = 2**20
_METRIC_SIGN = re.compile(r"[^\w.@+-]+")
_LONGEST_NAME = 80
_LONGEST_VALUE = 1000


def digest_of(*paths: Path) -> str:
    """sha256 in hex of some files, one after the other. Raises: DataError if one cannot be read."""
    found = hashlib.sha256()
    try:
        for path in paths:
            with path.open("rb") as file:
                while chunk := file.read(_CHUNK):
                    found.update(chunk)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}.") from error
    return found.hexdigest()


def load_json(path: Path) -> Any:
    """A JSON document, with or without a byte order mark; NaN is a number. Raises: DataError with what is wrong."""
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise DataError(f"has {size:,} bytes; documents of more than {LARGEST_FILE:,} are not read.")
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}.") from error
    if not content.strip():
        raise DataError("is empty.")
    return parsed(content, "is no JSON")


def parsed(content: bytes, wrong: str) -> Any:
    """JSON from bytes. Raises: DataError that begins with `wrong`, and says where."""
    try:
        return json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DataError(f"{wrong}: byte {error.start} is not UTF-8.") from error
    except json.JSONDecodeError as error:
        raise DataError(f"{wrong}: {error.msg.lower()} at line {error.lineno}, column {error.colno}.") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{wrong}: it is nested too deeply, or holds a number that is too long.") from error


def instant(said: str) -> str:
    """A time as ISO 8601 in UTC; empty if it is none. A time without a zone counts as UTC."""
    try:
        found = datetime.fromisoformat(said)
    except ValueError:
        return ""
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    try:
        return found.astimezone(UTC).isoformat(timespec="milliseconds")
    except OverflowError:
        return ""


def address(url: str) -> str:
    """Where a server is, without a user's name, password or query, which may hold keys."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}" if parts.hostname else ""


def counted(odd: Iterable[tuple[str, int]], what: str) -> list[str]:
    """Remarks of how many things were odd in which way.

    >>> counted([("no id, so left out", 2), ("twice there", 1)], "line")
    ['2 lines: no id, so left out.', '1 line: twice there.']
    """
    return [f"{plural(n, what)}: {words}." for words, n in odd]


def metric_name(said: str) -> str:
    """What a metric is called here: signs that cannot stand in a column's name become `_`.

    >>> metric_name("exact_match,strict match")
    'exact_match_strict_match'
    """
    return _METRIC_SIGN.sub("_", well_formed(said))[:_LONGEST_NAME] or "score"


def short(value: object) -> str:
    """A value of a table as text, to be kept with an instance; empty if it is no text or number, or long."""
    said = text(value) if isinstance(value, str) else str(value) if isinstance(value, bool | int | float) else ""
    return said if len(said) <= _LONGEST_VALUE else ""

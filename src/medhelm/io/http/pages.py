"""Answers of web pages: parameters of a request, checked, and the page or the file to send."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medhelm.errors import UserError
from medhelm.io.spreadsheets import csv_file

MOST_PARAMETERS = 100
"""Most parameters of a URL."""

MOST_CHARACTERS = 400
"""Most characters of one parameter, enough for the longest instance id that is worth a link."""


# --- keys -------------------------------------------------------------------------------------------------------------

PLAIN_KEY = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")
"""Texts that are their own key."""

RESERVED = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]")
"""Names that Windows reserves for devices."""

SEPARATOR, DIGITS = "~", 20
"""Sign before the digest in a key, and its length in hexadecimal digits."""


def url_key(text: str) -> str:
    """Convert any text to a short key that is valid in a URL and as a file name; different texts have different keys.

    A key has no upper-case letters, because some file systems do not distinguish them.

    >>> url_key("21645374"), url_key("lab/model 7"), url_key("../../etc")
    ('21645374', 'lab-model-7~d85fffe3d46e10867918', 'etc~74ccf3c5b4c19a8167f9')
    """
    if PLAIN_KEY.fullmatch(text) and not RESERVED.fullmatch(text):
        return text
    readable = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40]
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:DIGITS]
    return f"{readable or 'x'}{SEPARATOR}{digest}"


# --- parameters -------------------------------------------------------------------------------------------------------


class BadParameter(UserError):  # noqa: N818 - a finding about a request
    """A parameter of the URL is not valid: status 400."""


class PageNotFound(UserError):  # noqa: N818 - a finding about a request
    """The store holds nothing under this name: status 404."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameters of a request: the parts of its path that vary, and its query."""

    parts: Mapping[str, str] = field(default_factory=dict)
    """Values of the parts of the path that vary."""
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Parameters of the query with their values."""

    def text(self, name: str, default: str = "") -> str:
        """Return a parameter of the path or query; the default if it is missing."""
        if name in self.parts:
            return self.parts[name]
        values = self.query.get(name, ())
        if len(values) > 1:
            raise BadParameter(f"The parameter `{name}` is given {len(values)} times; give it once.")
        check_length(name, *values)
        return values[0] if values else default

    def texts(self, name: str) -> tuple[str, ...]:
        """Return all values of a parameter that may be repeated, without empty ones."""
        check_length(name, *self.query.get(name, ()))
        return tuple(value for value in self.query.get(name, ()) if value)

    def choice(self, name: str, known: Collection[str], default: str) -> str:
        """Return a parameter that must be one of the known values. Raises: BadParameter for another one."""
        found = self.text(name) or default
        if found not in known and found != default:
            raise BadParameter(f"The parameter `{name}` is `{found[:80]}`. Known: {', '.join(sorted(known)[:40])}.")
        return found

    def known_name(self, name: str, known: Collection[str], default: str = "") -> str:
        """Return a parameter that must be a name that exists here. Raises: PageNotFound for another one."""
        found = self.text(name) or default
        if found not in known and found != default:
            names = ", ".join(sorted(known)[:40]) or "none"
            raise PageNotFound(f"There is no {name} `{found[:80]}` here. Known: {names}.")
        return found

    def number(self, name: str, default: int, *, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`. Raises: BadParameter for anything else."""
        found = self.text(name)
        if not found:
            return default
        digits = found.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 12 or not low <= int(found) <= high:
            raise BadParameter(f"The parameter `{name}` is `{found[:80]}`. Use a whole number from {low} to {high}.")
        return int(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page to render."""

    template: str
    """File name below `templates`."""
    title: str
    """Title of the page."""
    values: Mapping[str, object] = field(default_factory=dict)
    """Names that the template uses."""
    status: int = 200
    """HTTP status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A file to save."""

    content: bytes
    """The file."""
    media_type: str
    """Media type, such as `text/csv`."""
    file_name: str
    """Name under which a browser saves it; made of letters, digits, `.`, `_` and `-`."""


def check_length(name: str, *values: str, most: int = MOST_CHARACTERS) -> None:
    """Check the length of the values of a parameter. Raises: BadParameter."""
    longest = max(map(len, values), default=0)
    if longest > most:
        raise BadParameter(f"The parameter `{name[:80]}` has {longest:,} characters; at most {most:,} are allowed.")


def check_query(pairs: Sequence[tuple[str, str]], most: int = MOST_CHARACTERS) -> dict[str, tuple[str, ...]]:
    """Group the parameters of a query. `most`: most characters of a value.

    Raises: BadParameter if there are too many, or one is too long.
    """
    if len(pairs) > MOST_PARAMETERS:
        raise BadParameter(f"The URL has {len(pairs)} parameters; at most {MOST_PARAMETERS} are allowed.")
    found: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        if len(name) > MOST_CHARACTERS:
            raise BadParameter(f"The parameter `{name[:80]}` is longer than {MOST_CHARACTERS} characters.")
        check_length(name, value, most=most)
        found[name] = (*found.get(name, ()), value)
    return found


def text_download(text: str, name: str, suffix: str) -> Download:
    """Return a text as a file to save. `suffix`: one of `TEXT_TYPES`, the end of the file's name."""
    content = csv_file(text) if suffix == "csv" else text.encode("utf-8", "replace")
    return Download(content=content, media_type=TEXT_TYPES[suffix], file_name=file_name(name, suffix))


TEXT_TYPES = {"csv": "text/csv", "json": "application/json", "txt": "text/plain"}
"""Suffix of a file of text -> its media type."""


def json_download(content: Any, name: str) -> Download:
    """Return JSON as a file. Characters that could end a script element are escaped."""
    text = json.dumps(_finite(content), ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
    return text_download(text, name, "json")


def file_name(name: str, suffix: str) -> str:
    """Return a name for a downloaded file, of letters, digits, `.`, `_` and `-`."""
    return f"{re.sub('[^A-Za-z0-9._-]+', '-', name)[:150]}.{suffix}"


def _finite(value: Any) -> Any:
    """Replace numbers that JSON does not have by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, (list, tuple)) else value

"""Finds API keys in texts of servers, however they are written, and replaces them."""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from functools import lru_cache
from html import unescape
from urllib.parse import unquote

SHORTEST_SECRET = 6
"""Shorter keys are placeholders such as `none`; replacing them would garble words."""

_SHORTEST_ENCODED = 12
"""Shorter keys have base64 forms that occur by chance."""

_MOST_NESTED = 3
"""Encodings within each other that are looked into."""

_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})|\\(/)")
"""A character that JSON escapes."""

_NAMED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}
"""Character -> its name in HTML."""


def without_keys(text: str, secrets: Iterable[str], *, mark: str = "[key]", shortest: int = SHORTEST_SECRET) -> str:
    """Replace keys in a text by `mark`.

    Finds them in any case, percent-encoded, with escapes of HTML or JSON, in hexadecimal, and in base64 at any offset.
    A text in which a key cannot be located, because forms are nested, is replaced as a whole.

    >>> without_keys("sent to /SK-0123456789ABCDEF/ or sk%2D0123456789abcdef", ["sk-0123456789abcdef"])
    'sent to /[key]/ or [key]'
    """
    for secret in secrets:
        if len(secret) < shortest or not _holds(text, secret):
            continue
        text = _pattern(secret).sub(lambda _: mark, text)
        if _holds(text, secret):
            return mark
    return text


def without_keys_of(headers: Mapping[str, str], text: str) -> str:
    """Replace what may be a key in the headers of a request: the last word of each value."""
    return without_keys(text, [value.split()[-1] for value in headers.values() if value.strip()])


def _holds(text: str, secret: str) -> bool:
    """Return True if a text holds a key. Texts without escapes are not decoded, which keeps this fast."""
    forms = _forms(secret)
    lowered = text.lower()
    if any(form in lowered for form in forms):
        return True
    for _ in range(_MOST_NESTED):
        decoded = text
        if "%" in decoded:
            decoded = unquote(decoded)
        if "\\" in decoded:
            decoded = _ESCAPED.sub(lambda found: found[2] or chr(int(found[1], 16)), decoded)
        if "&" in decoded:
            decoded = unescape(decoded)
        if decoded == text:
            return False
        text = decoded
        if any(form in text.lower() for form in forms):
            return True
    return False


@lru_cache
def _forms(secret: str) -> tuple[str, ...]:
    """Return a key and its encoded forms in lower case."""
    content = secret.encode()
    forms = {secret}
    if len(content) >= _SHORTEST_ENCODED:
        forms.add(content.hex())
        for offset in range(3):
            # Characters that also encode bits of the neighbors are left out.
            skipped = (0, 2, 3)[offset]
            n_whole = (offset + len(content)) * 8 // 6
            for encode in (b64encode, urlsafe_b64encode):
                forms.add(encode(bytes(offset) + content).decode()[skipped:n_whole])
    return tuple(sorted({form.lower() for form in forms}))


@lru_cache
def _pattern(secret: str) -> re.Pattern[str]:
    """Return a pattern for all forms, with any of the key's characters escaped."""
    characters = "".join(f"(?:{'|'.join(_spellings(one))})" for one in secret)
    return re.compile("|".join([characters, *map(re.escape, _forms(secret))]), re.IGNORECASE)


def _spellings(character: str) -> list[str]:
    """Return patterns for a character and its escapes."""
    code = ord(character)
    spelled = [character, f"%{code:02x}", f"\\u{code:04x}", f"\\{character}", *filter(None, [_NAMED.get(character)])]
    return [*map(re.escape, spelled), f"&#0*{code};", f"&#x0*{code:x};"]

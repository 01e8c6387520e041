"""Text from models and data, made safe to print."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """`text` with control characters and direction marks shown as escapes: untrusted text must not drive a terminal.

    >>> printable("red \\x1b[31m")
    'red \\\\x1b[31m'
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))

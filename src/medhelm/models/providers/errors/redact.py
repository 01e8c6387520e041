"""Text of servers and people, made safe to store and to show: no keys, no control characters."""

from __future__ import annotations

import re

from medhelm.io.http.key_redaction import without_keys

SHOWN_CHARACTERS = 300
"""Most characters of a server's message that are shown."""

_MASKED = re.compile(r"\S*\*{3,}\S*")
"""A key as servers repeat it, with asterisks in the middle."""

_KEY_LIKE = re.compile(
    r"\b(?:(?:sk|pk|gsk|xai|hf|nvapi)[-_][A-Za-z0-9_.\-]{6,}|(?:AIza|AQ\.|ya29\.|ABSK|bedrock-api-key-)[A-Za-z0-9_.=+/\-]{6,}"
    r"|A[KS]IA[A-Z0-9]{12,})"
)
"""Keys that begin with their vendor's prefix."""

_INPUT = re.compile(r"[\"']input[\"']\s?:|\binput_value\s?=")


def well_formed(text: str) -> str:
    r"""Replace every lone surrogate, so that `text` can be written as UTF-8.

    JSON can contain half a character (`\ud83d`), if a completion was cut in the middle of one.

    >>> well_formed("fine \ud83d")
    'fine �'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def without_input(text: str) -> str:
    """Return a message up to the value of a rejected field, which some servers repeat: it may be the prompt."""
    return _INPUT.split(text, maxsplit=1)[0]


def shown(text: str, *, secrets: tuple[str, ...] = ()) -> str:
    """Return the first 300 characters of a message on one line, without control characters and keys.

    `secrets`, and everything else that looks like a key, are replaced. The value of a rejected field, which some
    servers repeat in full, is left out: it may be the prompt.
    """
    text = without_input(without_keys(text, secrets))
    text = _KEY_LIKE.sub("[key]", _MASKED.sub("[key]", text))
    printable = "".join(character if character.isprintable() else " " for character in well_formed(text))
    return " ".join(printable.split())[:SHOWN_CHARACTERS].rstrip()

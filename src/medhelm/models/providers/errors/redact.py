"""Text from outside, made safe to keep and to show."""

from __future__ import annotations

import re

SHOWN_CHARACTERS = 300
"""How much of a server's own message is repeated to people."""

SHORTEST_SECRET = 6
"""A shorter key is a placeholder, such as `none`; taking it out would take words out."""

_MASKED = re.compile(r"\S*\*{3,}\S*")
"""A key as servers repeat it, with its middle starred out."""

_KEY_LIKE = re.compile(
    r"\b(?:(?:sk|pk|gsk|xai|hf|nvapi)[-_][A-Za-z0-9_.\-]{6,}|(?:AIza|AQ\.|ya29\.|ABSK|bedrock-api-key-)[A-Za-z0-9_.=+/\-]{6,}"
    r"|A[KS]IA[A-Z0-9]{12,})"
)
"""The forms of keys that begin with their maker's mark."""


def well_formed(text: str) -> str:
    r"""`text` with every lone surrogate replaced, so that it can be written as UTF-8.

    JSON can spell half a character (`\ud83d`), which happens where a completion was cut in the middle of one.

    >>> well_formed("fine \ud83d")
    'fine �'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def shown(text: str, *, secrets: tuple[str, ...] = ()) -> str:
    """The first 300 characters of a foreign message on one line, without control characters and without keys.

    `secrets` are replaced wherever they stand; whatever else looks like a key is replaced too. The value of a rejected
    field, which some servers repeat in full, is left out: it may be the prompt.
    """
    for secret in secrets:
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, "[key]")
    text = text.partition("'input':")[0]
    text = _KEY_LIKE.sub("[key]", _MASKED.sub("[key]", text))
    printable = "".join(character if character.isprintable() else " " for character in well_formed(text))
    return " ".join(printable.split())[:SHOWN_CHARACTERS].rstrip()

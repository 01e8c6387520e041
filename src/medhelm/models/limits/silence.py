"""Messages about a server that has not replied to anything for some time."""

from __future__ import annotations

from medhelm.domain import Request

LONG_REPLY = 1000
"""Tokens of a reply that a slow server may need minutes for."""


def silence_reason(request: Request, silence_s: float, last_error: str) -> str:
    """Return the reason for which a server is given up, to follow its name. `last_error`: its last one, or ""."""
    cause = f": {last_error}" if last_error else _room_advice(request)
    return f"has not replied to anything for {silence_s:.0f} s{cause}"


def silence_note(request: Request, title: str, silence_s: float, limit_s: float) -> str:
    """Return the note on a server, named `title`, that is still waited for. `limit_s`: when it is given up."""
    return (
        f"{request.model.name}: {title} has not replied to anything for {silence_s:.0f} s. It is given up after "
        f"{limit_s:.0f} s without a reply (--give-up-after){_room_advice(request)}."
    )


def _room_advice(request: Request) -> str:
    """Return advice if the server may still write a long reply; "" if the limit is short or the user's.

    Judges and models that reason may write thousands of tokens unless `max_tokens` is set.
    """
    if request.model.max_tokens or request.max_tokens < LONG_REPLY:
        return ""
    return (
        f". A reply may have {request.max_tokens:,} tokens: if the server is still writing one, set a lower "
        "`max_tokens` in models.yaml"
    )

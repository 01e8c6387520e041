"""Find the completion of a request in a cache, also if it was bought for an equivalent earlier request."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from medhelm.domain import Completion, Request
from medhelm.models.provider import OptionalParameter
from medhelm.models.reasoning import needs_room, separate_reasoning, with_room


class KnownCompletion(NamedTuple):
    """A completion in the cache."""

    digest: bytes
    """Its key."""
    completion: Completion
    """The completion, without the reasoning in its text."""


Get = Callable[[bytes, str], Completion | None]
"""(digest, name of the model or "" for any) -> completion."""


def find_completion(request: Request, digest: bytes, get: Get) -> KnownCompletion | None:
    """Return the stored completion of a request; None if it must be sent.

    A completion with the limit of reasoning models is used if there is none with the request's own limit, or if that
    one was used up by reasoning. `digest`: that of the request.
    """
    known = _find(request, digest, get)
    roomy = with_room(request) if known is None or needs_room(known.completion, request) else None
    return known if roomy is None else _find(roomy, roomy.digest, get) or known


def _find(request: Request, digest: bytes, get: Get) -> KnownCompletion | None:
    """Return the completion of this very request, or of one that earlier versions sent in its place."""
    for key, model, is_without_temperature in _keys(request, digest):
        if (found := get(key, model)) is not None:
            if is_without_temperature:
                refused = sorted({*found.refused_parameters, OptionalParameter.TEMPERATURE})
                found = replace(found, refused_parameters=tuple(map(str, refused)))
            return KnownCompletion(key, separate_reasoning(found, request))
    return None


def _keys(request: Request, digest: bytes) -> Iterator[tuple[bytes, str, bool]]:
    """Yield digest, name of the model, and whether the completion was bought without a temperature.

    A model with a scope of its own also finds what was bought under its name before there were scopes, and a model that
    reasons what was bought before it was sent a temperature.
    """
    yield digest, "", False
    if request.fresh:
        return
    model, scope = request.model, request.model.scope
    if scope:
        yield request.content_digest, model.name, False
    if request.earlier_digest:
        content = request.earlier_digest
        yield (_scoped(content, scope) if scope else content), "", True
        if scope:
            yield content, model.name, True


def _scoped(content: bytes, scope: str) -> bytes:
    """Return the digest of a request under a scope (`Request.digest`)."""
    return hashlib.sha256(json.dumps([content.hex(), scope, ""]).encode()).digest()

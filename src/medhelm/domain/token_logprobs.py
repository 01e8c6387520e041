"""Log-probabilities of the tokens of a completion, as servers return them and as they are stored: one JSON text.

Long completions are cut in the middle: an answer is at the beginning or at the end. Rare alternatives are left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

MOST_ALTERNATIVES = 20
"""Alternatives to request for each token: the most that OpenAI returns."""

FIRST, LAST = 16, 48
"""Tokens that are kept from the beginning and from the end of a completion."""

LEAST_PROBABILITY = 1e-4
"""Alternatives below are not kept."""


class TokenLogprobs(NamedTuple):
    """A token of a completion."""

    token: str
    """Its text, with the white space before it."""
    logprob: float
    """Natural logarithm of its probability, at most 0."""
    alternatives: Mapping[str, float]
    """Tokens that could have taken its place, itself among them -> log-probability."""


def pack(tokens: Sequence[TokenLogprobs]) -> str:
    """Return the JSON text to store; empty for no tokens.

    >>> pack([TokenLogprobs(" B", -0.105361, {" B": -0.105361, " C": -2.302585, "\\n": -25.0})])
    '[[" B",-0.1054,{" B":-0.1054," C":-2.3026}]]'
    """
    kept = tokens if len(tokens) <= FIRST + LAST else [*tokens[:FIRST], *tokens[-LAST:]]
    least = math.log(LEAST_PROBABILITY)
    content = [
        [one.token, _rounded(one.logprob), {text: _rounded(p) for text, p in one.alternatives.items() if p >= least}]
        for one in kept
    ]
    return json.dumps(content, separators=(",", ":")) if content else ""


def unpack(text: str | None) -> list[TokenLogprobs]:
    """Return the tokens in a stored text; none if it is empty."""
    return [TokenLogprobs(*one) for one in json.loads(text)] if text else []


def token_logprobs_of(entries: Iterable[Mapping[str, object]]) -> str:
    """Return the JSON text of the tokens that a server lists: `{"token": ..., "logprob": ..., "top_logprobs": [...]}`.

    Entries without a token and a number are left out.
    """
    found = []
    for entry in entries:
        others = entry.get("top_logprobs")
        listed = (_pair(one) for one in (others if isinstance(others, list) else ()))
        if (own := _pair(entry)) is not None:
            found.append(TokenLogprobs(*own, dict([own, *(pair for pair in listed if pair is not None)])))
    return pack(found)


def _pair(entry: object) -> tuple[str, float] | None:
    """Return token and log-probability of an entry; None if it lacks one of them."""
    if not isinstance(entry, Mapping):
        return None
    token, logprob = entry.get("token"), entry.get("logprob")
    if not isinstance(token, str) or isinstance(logprob, bool) or not isinstance(logprob, (int, float)):
        return None
    # Servers round, so that a probability of 1 can be a little more.
    return None if math.isnan(logprob) else (token, min(0.0, max(float(logprob), -9999.0)))


def _rounded(logprob: float) -> float:
    return round(logprob, 4) + 0.0

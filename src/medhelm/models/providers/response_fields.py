"""What the replies of all services have in common: counts, names, and what an answer comes to once it is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from medhelm.domain import Completion, Failure, Usage
from medhelm.errors import ProviderError
from medhelm.models.providers.errors.classify import REFUSAL
from medhelm.models.providers.errors.redact import shown, well_formed

LENGTH = "length"
"""Finish reason of every answer that came to its limit, and failure code of those that never began."""

_MOST_TOKENS = 10**9
"""A count above this is no count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedResponse:
    """One reply, read but not yet judged."""

    text: str | None
    """What is to be seen of it; None if the reply holds no place for a text."""
    finish_reason: str
    """`stop`, `length`, or the service's own word."""
    usage: Usage
    """Tokens the service counted."""
    reported_model: str
    """The model's name as the service gives it."""
    fingerprint: str = ""
    """What the service calls the software and settings that answered; empty where it does not say."""
    refused: str = ""
    """Why the model or its provider would not answer; empty if they did."""
    thought: bool = False
    """Whether the reply shows that the model thought in secret."""


def completion_of(answer: ParsedResponse, *, reasons: bool) -> Completion:
    """What one reply comes to.

    A refusal is a failure. Out of tokens before the first word is a failure too (`length`) if they went into hidden
    thought: the model is known to reason (`reasons`), or the reply says so. It is no answer, be it a wrong one, because
    a higher limit would have brought one. Without thought it is an empty answer: the model said nothing.
    Raises: ProviderError `empty_choice`, retryable, if there is no text although the model did not run out of tokens.
    """
    if answer.refused:
        return _without_text(answer, REFUSAL, answer.refused)
    text, usage = answer.text, answer.usage
    if answer.finish_reason == LENGTH and not (text or "").strip() and (reasons or answer.thought or usage.reasoning):
        spent = f"all {usage.output:,} tokens" if usage.output else "all the tokens"
        words = (
            f"the model used {spent} of its limit for hidden reasoning, before the first word of its answer. "
            "Give it a higher `max_tokens` or a lower `reasoning_effort` in models.yaml"
            + ("." if reasons else ", or say `reasoning: true` there.")
        )
        return _without_text(answer, LENGTH, words)
    if text is None:
        if answer.finish_reason != LENGTH:
            raise ProviderError("empty_choice", "the reply holds no answer", retryable=True)
        text = ""
    return Completion(
        text=well_formed(text),
        finish_reason=answer.finish_reason,
        usage=usage,
        reported_model=answer.reported_model,
        fingerprint=answer.fingerprint,
    )


def _without_text(answer: ParsedResponse, code: str, words: str) -> Completion:
    return Completion(
        failure=Failure("provider", code, words),
        finish_reason=answer.finish_reason,
        usage=answer.usage,
        reported_model=answer.reported_model,
        fingerprint=answer.fingerprint,
    )


def count(value: object) -> int:
    """A number of tokens; whatever is missing, negative, not a number or absurd counts as 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0
    return int(value) if 0 <= value <= _MOST_TOKENS else 0


def mapping(value: object) -> Mapping[str, Any]:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def objects(value: object) -> list[Mapping[str, Any]]:
    """The objects in a list; nothing if `value` is no list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def word(value: object) -> str:
    """A short text of a service, safe to show; "" for anything else."""
    return shown(value) if isinstance(value, str) else ""


def names_in(rows: object, key: str) -> list[str]:
    """The texts under `key` in a list of objects, safe to show."""
    return [name for row in objects(rows) if (name := word(row.get(key)))]

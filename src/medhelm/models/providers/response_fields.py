"""Reading replies: counts, names and texts in any form, and the completion that follows from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from medhelm.domain import Completion, Failure, FailureCode, Usage
from medhelm.errors import ProviderError
from medhelm.models.providers.errors.redact import shown, well_formed
from medhelm.models.reasoning import LENGTH, used_up_by_reasoning, with_hidden_share

STOP_REASONS: Mapping[str, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": LENGTH,
    "model_context_window_exceeded": LENGTH,
}
"""Stop reason of Anthropic's and Bedrock's APIs -> finish reason. Others keep their name, such as `tool_use`."""

_MAX_TOKENS = 10**9
"""Larger token counts are not believed."""

_WORD_CHARACTERS = 100
"""Longer words are not remembered."""


def completion_of(
    *,
    text: str,
    finish_reason: str,
    usage: Usage,
    reported_model: str,
    reasons: bool,
    fingerprint: str = "",
    refused: str = "",
    hidden_characters: int = 0,
) -> Completion:
    """Turn what a reply says into a completion.

    A refusal is a failure. Reaching the limit before the first word is a failure too (`length`) if the tokens went
    into hidden reasoning: the model is known to reason, or the reply shows it. A higher limit would have brought a
    text. Any other reply without a text is an empty completion: the model wrote nothing. Services spell it in many
    ways (null, "", no parts), which all mean this.

    Parameters
    ----------
    text : the visible text; "" if the reply has none
    finish_reason : `stop`, `length`, or the service's own reason
    usage : tokens as counted by the service
    reported_model : name of the model, as the service reports it
    reasons : whether the model is known to reason
    fingerprint : the service's identifier of its software and settings; empty if it reports none
    refused : reason that the model or its provider refused; empty if they did not
    hidden_characters : length of the reasoning that the reply has beside its text
    """
    usage = with_hidden_share(usage, hidden_characters, len(text))
    failure = None
    if refused:
        failure = Failure("provider", FailureCode.REFUSAL, refused)
    elif finish_reason == LENGTH and not text.strip() and (reasons or usage.reasoning):
        failure = used_up_by_reasoning(usage, is_known=reasons)
    return Completion(
        text=None if failure else well_formed(text),
        failure=failure,
        finish_reason=finish_reason,
        usage=usage,
        reported_model=reported_model,
        fingerprint=fingerprint,
    )


def no_completion() -> ProviderError:
    """Return the error about a reply without a completion; a retry may help."""
    return ProviderError(FailureCode.EMPTY_CHOICE, "the reply holds no completion", retryable=True)


def interrupted(reason: str) -> ProviderError:
    """Return the error about a completion that the service ended early, for a reason of its own; a retry may help."""
    return ProviderError(FailureCode.INTERRUPTED, f"the server ended the completion early ({reason})", retryable=True)


def count(value: object) -> int:
    """Return a number of tokens; 0 if it is missing, negative, too large or not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0
    return int(value) if 0 <= value <= _MAX_TOKENS else 0


def mapping(value: object) -> Mapping[str, Any]:
    """Return `value` if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def objects(value: object) -> list[Mapping[str, Any]]:
    """Return the objects in a list; empty if `value` is not a list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def texts_in(parts: Iterable[Mapping[str, Any]], key: str = "text") -> list[str]:
    """Return the texts under `key` in the parts of a completion. Raises: ProviderError if one is something else."""
    texts = [part.get(key) for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise ProviderError(FailureCode.MALFORMED_REPLY, "a part of the reply holds no text", retryable=True)
    return [text for text in texts if isinstance(text, str)]


def length_of(value: object) -> int:
    """Return the number of characters of all texts in a part of a reply; at least 1 for anything that is not empty."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        value = list(value.values())
    return max(1, sum(map(length_of, value))) if isinstance(value, list) and value else 0


def word(value: object) -> str:
    """Return a short text of a service, safe to show; "" for anything else."""
    if not isinstance(value, str):
        return ""
    return _shown_word(value) if len(value) <= _WORD_CHARACTERS else shown(value)


@lru_cache(maxsize=256)
def _shown_word(text: str) -> str:
    """Return `shown(text)`: most replies have the same stop reason, name of the model and fingerprint."""
    return shown(text)


def names_in(rows: object, key: str) -> list[str]:
    """Return the texts under `key` in a list of objects, safe to show."""
    return [name for row in objects(rows) if (name := word(row.get(key)))]

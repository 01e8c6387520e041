"""What servers of the chat completions API send back, and what it means.

One reading serves OpenAI, Azure OpenAI, vLLM, Ollama, llama.cpp, OpenRouter, LiteLLM, DeepSeek and whatever else speaks
the dialect: replies differ little; their errors, which differ a lot, are read in `complaints`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from medhelm.domain import Completion, Failure, Usage
from medhelm.errors import ProviderError
from medhelm.models.providers.complaints import REFUSAL
from medhelm.models.providers.wording import shown, well_formed

_REFUSED_FINISH = {"content_filter", "refusal", "safety"}
_INTERRUPTED_FINISH = {"error", "abort", "insufficient_system_resource"}

_MOST_TOKENS = 10**9
"""A count above this is no count."""


def read_completion(body: Mapping[str, Any], *, whole: bool = False) -> Completion:
    """The completion in the body of a successful reply.

    The text is the message's content; hidden reasoning, in fields of its own or between think tags, is no part of it.
    A refusal is a completion with a failure. Content that is missing although the model did not run out of tokens is
    no answer: ProviderError `empty_choice`, retryable. Out of tokens before a first word is an empty answer: the budget
    went into reasoning, which is the model's own doing.

    `whole`: whether only thoughts that the text begins with are left out. The reply of a judge may quote a text that
    was made to look like the end of its thoughts.
    """
    usage = read_usage(body.get("usage"))
    model = body.get("model")
    reported = shown(model) if isinstance(model, str) else ""
    choice = _first_choice(body)
    message = choice.get("message")
    message = message if isinstance(message, Mapping) else {}
    finish = choice.get("finish_reason")
    finish = shown(finish) if isinstance(finish, str) else ""
    text, refused = _content(message)
    if finish.lower() in _REFUSED_FINISH or (refused and not text):
        words = shown(refused) or "the provider's content filter ended the answer"
        failure = Failure("provider", REFUSAL, words)
        return Completion(failure=failure, finish_reason=finish, usage=usage, reported_model=reported)
    if finish.lower() in _INTERRUPTED_FINISH:
        raise ProviderError("interrupted", f"the server broke off the answer ({finish})", retryable=True)
    if text is None:
        if finish != "length":
            raise ProviderError("empty_choice", "the reply holds no answer", retryable=True)
        text = ""
    return Completion(
        text=without_thinking(text, whole=whole), finish_reason=finish, usage=usage, reported_model=reported
    )


def _first_choice(body: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise ProviderError("empty_choice", "the reply holds no answer", retryable=True)
    return choices[0]


def _content(message: Mapping[str, Any]) -> tuple[str | None, str]:
    """The text of a message, None if it has none, and the words of a refusal."""
    content, refusal = message.get("content"), message.get("refusal")
    refused = refusal if isinstance(refusal, str) else ""
    if content is None or isinstance(content, str):
        return None if content is None else well_formed(content), refused
    if not isinstance(content, list):
        raise ProviderError("malformed_reply", "the reply's content is neither text nor parts", retryable=True)
    parts = [part for part in content if isinstance(part, Mapping)]
    texts = [part["text"] for part in parts if part.get("type") in {"text", "output_text"} and _is_text(part, "text")]
    refusals = [part["refusal"] for part in parts if part.get("type") == "refusal" and _is_text(part, "refusal")]
    return (well_formed("".join(texts)) if texts else None), refused or " ".join(refusals)


def _is_text(part: Mapping[str, Any], name: str) -> bool:
    return isinstance(part.get(name), str)


def without_thinking(text: str, *, whole: bool = False) -> str:
    r"""`text` without the think blocks it begins with, and without the blank line after them.

    Some servers leave the reasoning of open models in the text. Where the prompt itself opened the block, only its end
    is there: everything up to it goes, unless the text is to stay `whole`. A block that never ends leaves nothing: the
    model ran out of tokens in thought.

    >>> without_thinking("<think>A or B?</think>\n\nB")
    'B'
    >>> without_thinking("<think>A or")
    ''
    """
    while (opened := text.lstrip().startswith("<think>")) or (not whole and "</think>" in text):
        thought, end, rest = text.partition("</think>")
        if not end:
            return ""
        if not opened and "<think>" in thought:
            break  # The tags stand in the middle of an answer: they are part of it.
        text = rest.lstrip()
    return text


def read_usage(usage: object) -> Usage:
    """Token counts; whatever is missing, negative, not a number or absurd counts as 0."""
    if not isinstance(usage, Mapping):
        return Usage()
    details_in, details_out = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    spent = _count(usage.get("prompt_tokens"))
    cached = _count(details_in.get("cached_tokens")) if isinstance(details_in, Mapping) else 0
    cached = cached or _count(usage.get("prompt_cache_hit_tokens"))
    written = _count(usage.get("completion_tokens"))
    reasoning = _count(details_out.get("reasoning_tokens")) if isinstance(details_out, Mapping) else 0
    total = _count(usage.get("total_tokens"))
    if reasoning and (reasoning > written or total == spent + written + reasoning):
        written += reasoning  # Some vendors count reasoning beside the completion instead of inside it.
    return Usage(input=spent, cached_input=min(cached, spent), output=written, reasoning=reasoning)


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0
    return int(value) if 0 <= value <= _MOST_TOKENS else 0

"""What servers of the chat completions API send back, and what it means.

One reading serves OpenAI, Azure OpenAI, vLLM, Ollama, llama.cpp, OpenRouter, LiteLLM, DeepSeek and whatever else speaks
the dialect: replies differ little; their errors, which differ a lot, are read in `complaints`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medhelm.domain import Completion, Usage
from medhelm.errors import ProviderError
from medhelm.models.providers.errors.redact import shown
from medhelm.models.providers.response_fields import ParsedResponse, completion_of, count, mapping, objects, word

_REFUSED_FINISH = {"content_filter", "refusal", "safety"}
_INTERRUPTED_FINISH = {"error", "abort", "insufficient_system_resource"}


def read_completion(body: Mapping[str, Any], *, whole: bool = False, reasons: bool = False) -> Completion:
    """The completion in the body of a successful reply.

    The text is the message's content; hidden reasoning, in fields of its own or between think tags, is no part of it.
    A refusal is a completion with a failure, and so is a limit that went into thought (`wire.completion_of`; `reasons`
    says whether the model is known to think). Content that is missing although the model did not run out of tokens is
    no answer: ProviderError `empty_choice`, retryable.

    `whole`: whether only thoughts that the text begins with are left out. The reply of a judge may quote a text that
    was made to look like the end of its thoughts.
    """
    choice = _first_choice(body)
    message = mapping(choice.get("message"))
    finish = word(choice.get("finish_reason"))
    text, refused = _content(message)
    if finish.lower() in _REFUSED_FINISH or (refused and not text):
        refused = shown(refused) or "the provider's content filter ended the answer"
    else:
        refused = ""
        if finish.lower() in _INTERRUPTED_FINISH:
            raise ProviderError("interrupted", f"the server broke off the answer ({finish})", retryable=True)
    visible = None if text is None else without_thinking(text, whole=whole)
    answer = ParsedResponse(
        text=visible,
        finish_reason=finish,
        usage=read_usage(body.get("usage")),
        reported_model=word(body.get("model")),
        fingerprint=word(body.get("system_fingerprint")),
        refused=refused,
        thought=visible != text or any(message.get(name) for name in ("reasoning", "reasoning_content")),
    )
    return completion_of(answer, reasons=reasons)


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
        return content, refused
    if not isinstance(content, list):
        raise ProviderError("malformed_reply", "the reply's content is neither text nor parts", retryable=True)
    parts = objects(content)
    texts = [part["text"] for part in parts if part.get("type") in {"text", "output_text"} and _is_text(part, "text")]
    refusals = [part["refusal"] for part in parts if part.get("type") == "refusal" and _is_text(part, "refusal")]
    return ("".join(texts) if texts else None), refused or " ".join(refusals)


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
    usage = mapping(usage)
    spent = count(usage.get("prompt_tokens"))
    cached = count(mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    cached = min(cached or count(usage.get("prompt_cache_hit_tokens")), spent)
    stored = count(mapping(usage.get("prompt_tokens_details")).get("cache_write_tokens"))
    stored = min(stored or count(usage.get("cache_creation_input_tokens")), spent - cached)
    written = count(usage.get("completion_tokens"))
    reasoning = count(mapping(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    total = count(usage.get("total_tokens"))
    if reasoning and (reasoning > written or total == spent + written + reasoning):
        written += reasoning  # Some vendors count reasoning beside the completion instead of inside it.
    return Usage(input=spent, cached_input=cached, output=written, reasoning=reasoning, cache_write=stored)

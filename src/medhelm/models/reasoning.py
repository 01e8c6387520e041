"""Keep reasoning out of the text of completions, and its share in their token counts.

The cache holds what was received. A completion that is handed out, new or from the cache, is the answer alone. So a
marker that becomes known later (`reasoning_tags`) also applies to completions that were bought before.
"""

from __future__ import annotations

from dataclasses import replace

from medhelm.domain import Completion, Failure, FailureCode, Request, Usage
from medhelm.domain.completion import REASONING_TOKENS, SplitText, split_reasoning

LENGTH = "length"
"""Finish reason of a completion that reached its limit."""


def separate_reasoning(completion: Completion, request: Request) -> Completion:
    """Return a completion without the reasoning in its text.

    If nothing else is left because it reached its limit, it is a failure (`length`). Without a count of the server, the
    tokens of the reasoning are estimated by its share of the text. A judge's reply, which has a schema, may quote
    markers: only reasoning at its beginning counts.
    """
    if not completion.text:
        return completion
    split = split_reasoning(completion.text, request.model.reasoning_tags, start_only=request.schema is not None)
    if completion.finish_reason == LENGTH and _is_cut_marker(completion.text.strip()):
        split = SplitText(completion.text, "")
    if split.answer == completion.text:
        return completion
    usage = with_hidden_share(completion.usage, len(completion.text) - len(split.answer), len(split.answer))
    failure = None
    if completion.finish_reason == LENGTH and not split.answer.strip():
        failure = used_up_by_reasoning(usage, is_known=request.model.reasoning)
    return replace(completion, text=None if failure else split.answer, failure=failure, usage=usage)


def with_hidden_share(usage: Usage, hidden: int, visible: int) -> Usage:
    """Return token counts with an estimate of the reasoning, unless the server counted it.

    The estimate is at least 1, so that the counts always show that there was reasoning.

    Parameters
    ----------
    hidden, visible : characters of the reasoning and of the rest
    """
    if usage.reasoning or not hidden:
        return usage
    share = round(usage.output * hidden / (hidden + visible))
    return replace(usage, reasoning=max(1, min(share, usage.output - bool(visible))))


def with_room(request: Request) -> Request | None:
    """Return a request with the limit of reasoning models; None if it has that already, or the user has set one.

    Judges, whose requests have a schema, have enough room for either.
    """
    model = request.model
    if model.reasoning or model.max_tokens or request.schema or request.max_tokens >= REASONING_TOKENS:
        return None
    return replace(request, max_tokens=REASONING_TOKENS)


def needs_room(completion: Completion, request: Request) -> bool:
    """Return True if a model that is not known to reason used up its limit by reasoning, and can get a higher one."""
    failure = completion.failure
    return failure is not None and failure.code == FailureCode.LENGTH and with_room(request) is not None


def used_up_by_reasoning(usage: Usage, *, is_known: bool) -> Failure:
    """Return the failure of a completion that reached its limit before the first word of its answer.

    `is_known`: the model is known to reason. A higher limit would have brought a text.
    """
    spent = f"all {usage.output:,} tokens" if usage.output else "all the tokens"
    message = (
        f"the model used {spent} of its limit for hidden reasoning, before the first word of its answer. "
        "Set a higher `max_tokens` or a lower `reasoning_effort` in models.yaml"
        + ("." if is_known else ", or `reasoning: true`.")
    )
    return Failure("provider", FailureCode.LENGTH, message)


_FIRST_TOKENS = ("<think>", "<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>", "[THINK]", "◁think▷",
                 "<unused94>thought", "<seed:think>", "<|begin_of_thought|>", "<|START_THINKING|>")  # fmt: skip


def _is_cut_marker(text: str) -> bool:
    """Return True if a completion of a few tokens is the beginning of a marker of reasoning."""
    return text == "analysis" or (len(text) > 1 and any(start.startswith(text) for start in _FIRST_TOKENS))

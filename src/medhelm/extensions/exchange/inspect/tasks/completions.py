"""Convert Inspect's model output to a completion."""

from __future__ import annotations

from inspect_ai.model import ModelOutput

from medhelm.domain import Completion, Failure, FailureCode
from medhelm.domain.reasoning import split_reasoning


def completion_of(output: ModelOutput, *, whole: bool = False) -> Completion:
    """Convert model output: a content filter's refusal is a failure, and reasoning is not part of the text.

    If a prompt is too long, Inspect returns the provider's error message as the completion, with zero tokens: that is
    a failure, too. A completion that filled the context window has tokens, and counts as truncated.
    `whole`: remove only reasoning at the beginning of the text, as for judges.
    """
    written = output.usage.output_tokens if output.usage else 0
    if output.choices and output.stop_reason == "model_length" and not written:
        words = output.message.text or output.error or "the prompt is too long for the model"
        return Completion(failure=Failure("provider", FailureCode.CONTEXT_LENGTH, words), finish_reason="length")
    if output.error or not output.choices:
        words = output.error or "the response has no completion"
        return Completion(failure=Failure("provider", "empty_choice", words))
    reason = output.stop_reason
    if reason == "content_filter":
        words = "the provider's content filter ended the completion"
        return Completion(failure=Failure("provider", "refusal", words), finish_reason=reason)
    finish = "length" if reason in ("max_tokens", "model_length") else str(reason)
    return Completion(text=split_reasoning(output.message.text, start_only=whole).answer, finish_reason=finish)

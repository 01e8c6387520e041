"""What came back by way of Inspect, as a completion."""

from __future__ import annotations

from inspect_ai.model import ModelOutput

from medhelm.domain import Completion, Failure
from medhelm.evaluation.context_window.fit import TOO_LONG
from medhelm.models.providers.response_fields import without_thinking


def completion_of(output: ModelOutput, *, whole: bool = False) -> Completion:
    """What came back, as our own road reads it: a filter's refusal is a failure, and thoughts are no part of a text.

    Where a prompt is too long, Inspect gives the service's complaint as the answer, without any tokens: that is a
    failure too. A reply that filled the window has tokens, and is one that was cut off.
    `whole`: whether only thoughts that the text begins with are left out, as of judges.
    """
    written = output.usage.output_tokens if output.usage else 0
    if output.choices and output.stop_reason == "model_length" and not written:
        words = output.message.text or output.error or "the prompt is too long for the model"
        return Completion(failure=Failure("provider", TOO_LONG, words), finish_reason="length")
    if output.error or not output.choices:
        words = output.error or "the reply holds no answer"
        return Completion(failure=Failure("provider", "empty_choice", words))
    reason = output.stop_reason
    if reason == "content_filter":
        words = "the provider's content filter ended the answer"
        return Completion(failure=Failure("provider", "refusal", words), finish_reason=reason)
    finish = "length" if reason in ("max_tokens", "model_length") else str(reason)
    return Completion(text=without_thinking(output.message.text, whole=whole), finish_reason=finish)

"""What came back by way of Inspect, as a completion."""

from __future__ import annotations

from inspect_ai.model import ModelOutput

from medhelm.domain import Completion, Failure
from medhelm.models.providers.openai_wire import without_thinking


def completion_of(output: ModelOutput, *, whole: bool = False) -> Completion:
    """What came back, as our own road reads it: a filter's refusal is a failure, and thoughts are no part of a text.

    `whole`: whether only thoughts that the text begins with are left out, as of judges.
    """
    if output.error or not output.choices:
        words = output.error or "the reply holds no answer"
        return Completion(failure=Failure("provider", "empty_choice", words))
    reason = output.stop_reason
    if reason == "content_filter":
        words = "the provider's content filter ended the answer"
        return Completion(failure=Failure("provider", "refusal", words), finish_reason=reason)
    finish = "length" if reason in ("max_tokens", "model_length") else str(reason)
    return Completion(text=without_thinking(output.message.text, whole=whole), finish_reason=finish)

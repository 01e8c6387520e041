"""What a service says when it gives no answer, and what that means: refusals, wrong keys, limits, and what passes.

One reading serves all services that answer with JSON, a proxy's page or plain text; their words differ, their statuses
hardly do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from medhelm.domain import Completion, Failure, Model
from medhelm.errors import ProviderError
from medhelm.models.provider import SCHEMA_REFUSED
from medhelm.models.providers.wording import shown

REFUSAL = "refusal"
"""Failure code of a model or of its provider's filter that would not answer."""

_REFUSAL_WORDS = {
    "content_filter",
    "content_policy_violation",
    "contentpolicyviolationerror",
    "responsibleaipolicyviolation",
    "moderation_blocked",
    "data_inspection_failed",
}
_REFUSAL_PHRASES = ("content management policy", "violating our usage polic", "content exists risk")
_MODEL_WORDS = {"model_not_found", "deploymentnotfound", "notfounderror", "unknown_model"}
_MODEL_PHRASE = re.compile(
    r"\bmodel\b.{0,120}\b(does not exist|not found)|not a valid model id|invalid model name|unknown model", re.DOTALL
)
_QUOTA_WORDS = {
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "insufficient_balance",
    "budget_exceeded",
}
_KEY_WORDS = {"invalid_api_key", "invalid_authentication", "missing_api_key"}
_LENGTH_WORDS = {"context_length_exceeded", "exceed_context_size_error"}
_LENGTH_PHRASE = re.compile(
    r"maximum context length|context length is only|exceeds? the .{0,40}context (size|window|length)|prompt is too long"
    r"|longer than the model's context|exceeds the maximum number of (input )?tokens"
)
_PARAMETER_WORDS = {"unsupported_parameter", "unsupported_value", "unknown_parameter"}

_FORM_STATUSES = {400, 404, 415, 422, 500, 501}
_FORM_WORDS = {"json_validate_failed", "invalid_json_schema"}
_FORM_PHRASE = re.compile(
    r"response[_ ]format|json[_ ]schema|json mode|structured[_ ]output|guided[_ ](?:decoding|json)|grammar"
    r"|(?:invalid|required for) format\b|can handle the requested parameters|input should be 'text'"
)
"""What servers say when they do not know JSON schemas, or not all that this one holds: OpenAI, Azure, DeepSeek, Groq,
Cerebras, Fireworks, Google, OpenRouter, LiteLLM, LM Studio, Ollama, llama.cpp and vLLM, old and new."""

_RETRYABLE = {
    408: "timeout",
    409: "conflict",
    425: "too_early",
    429: "rate_limit",
    503: "overloaded",
    529: "overloaded",
}
_OVERLOADED = {429, 503, 529}


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """What a server says went wrong."""

    status: int
    """HTTP status, or the one that stands in the body of a reply that calls itself a success."""
    words: frozenset[str]
    """The server's own codes and types, in lower case."""
    message: str
    """Its message, safe to show."""
    parameter: str = ""
    """The request's field it is about."""
    retry_after_s: float | None = None
    """Seconds it asked to wait."""
    about_form: bool = False
    """Whether it seems to be about the form that the reply was to have."""


def read_complaint(
    status: int, body: object, *, secrets: tuple[str, ...] = (), retry_after_s: float | None = None
) -> Complaint:
    """Read any of the error forms in use: OpenAI's, vLLM's flat one, FastAPI's `detail`, plain text, a proxy's page.

    `body` is bytes or the document already read; `secrets` never show in the message.
    """
    document = _document(body) if isinstance(body, bytes) else body
    if isinstance(document, str):
        text = "" if document.lstrip().startswith("<") else document
        return Complaint(
            status=status,
            words=frozenset(),
            message=shown(text, secrets=secrets),
            retry_after_s=retry_after_s,
            about_form=_is_about_form(status, (), text),
        )
    outer = document if isinstance(document, Mapping) else {}
    inner = outer.get("error")
    error = inner if isinstance(inner, Mapping) else outer
    words = {_word(error.get(name)) for name in ("code", "type", "status")}
    for deeper in ("innererror", "metadata"):
        if isinstance(nested := error.get(deeper), Mapping):
            words.add(_word(nested.get("code")))
            words.add("content_filter" if nested.get("flagged_input") or nested.get("reasons") else "")
    if 200 <= status < 300:
        status = _error_status(error.get("code")) or _error_status(error.get("status")) or 500
    message, parameter = _message(error, inner), _word(error.get("param"))
    return Complaint(
        status=status,
        words=frozenset(words - {""}),
        message=shown(message, secrets=secrets),
        parameter=parameter,
        retry_after_s=retry_after_s,
        about_form=_is_about_form(status, words, message, parameter, _passed_on(error)),
    )


def _is_about_form(status: int, words: Collection[str], *texts: str) -> bool:
    """Whether a complaint is about the form of the reply. What it repeats of the request says nothing, and is left out.

    A wrong guess costs one more request and the help of the schema; replies are read the same way without it.
    """
    said = (text.partition("'input':")[0].lower() for text in texts)
    return status in _FORM_STATUSES and (not _FORM_WORDS.isdisjoint(words) or any(map(_FORM_PHRASE.search, said)))


def _passed_on(error: Mapping[str, Any]) -> str:
    """What the server behind a gateway said, where the gateway repeats it."""
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    return raw if isinstance(raw, str) else ""


def _document(body: bytes) -> object:
    text = body.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _word(value: object) -> str:
    return value.lower() if isinstance(value, str) else ""


def _error_status(value: object) -> int:
    """An HTTP status that says error, or 0."""
    number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) == 3 else value
    return number if isinstance(number, int) and 400 <= number < 600 else 0


def _message(error: Mapping[str, Any], inner: object) -> str:
    """The words for people in an error document."""
    for candidate in (inner, error.get("message"), error.get("detail"), error.get("msg")):
        if isinstance(candidate, str) and candidate:
            return candidate
    details = error.get("detail")
    if isinstance(details, list):  # FastAPI: what is wrong with which field; its `input` would be the prompt.
        said = [(d.get("loc"), d.get("msg")) for d in details if isinstance(d, Mapping)]
        return "; ".join(f"{'.'.join(map(str, loc or []))}: {msg}" for loc, msg in said)
    return ""


def outcome(complaint: Complaint, model: Model, *, with_schema: bool = False) -> Completion:
    """What a complaint comes to: a refusal is a completion with a failure, everything else a ProviderError.

    Fatal, because no request to this model can succeed: `key`, `unknown_model`, `no_quota`, `parameter`.
    Of one request, for good: `context_length`, `too_large`, `bad_request`. Retryable: all others.
    `with_schema`: whether the request held a JSON schema that it can do without; a complaint about that is
    `schema_refused`, retryable.
    """
    if _is_refusal(complaint):
        words = f"refused by the provider's filter: {complaint.message}"
        return Completion(failure=Failure("provider", REFUSAL, words), finish_reason="content_filter")
    if with_schema and complaint.about_form:
        raise ProviderError(SCHEMA_REFUSED, _told(complaint, model), retryable=True)
    raise _fatal(complaint, model) or _of_one_request(complaint, model) or _passing(complaint, model)


def _is_refusal(complaint: Complaint) -> bool:
    if not 400 <= complaint.status < 500 or complaint.status == 429:
        return False
    said = complaint.message.lower()
    return bool(complaint.words & _REFUSAL_WORDS) or any(phrase in said for phrase in _REFUSAL_PHRASES)


def _fatal(complaint: Complaint, model: Model) -> ProviderError | None:
    status, words = complaint.status, complaint.words
    if words & _MODEL_WORDS or status in {404, 405, 410} or (status == 400 and _says_no_such_model(complaint)):
        fix = f"Is `{model.remote_name}` the server's name for it, and {model.base_url} the right address?"
        return ProviderError("unknown_model", _told(complaint, model, fix), fatal=True)
    if words & _QUOTA_WORDS or (status == 402 and complaint.retry_after_s is None):
        return ProviderError("no_quota", _told(complaint, model, "The account has no credit left."), fatal=True)
    if words & _KEY_WORDS or status in {401, 403}:
        fix = f"Check {model.key_variable}." if model.key_variable else "The server wants a key: name its variable."
        return ProviderError("key", _told(complaint, model, fix), fatal=True)
    if words & _PARAMETER_WORDS and complaint.parameter != "stop":
        fix = "Set `reasoning` or `parameters` for it in models.yaml; a parameter set to null is not sent."
        return ProviderError("parameter", _told(complaint, model, fix), fatal=True)
    return None


def _says_no_such_model(complaint: Complaint) -> bool:
    return _MODEL_PHRASE.search(complaint.message.lower()) is not None


def _of_one_request(complaint: Complaint, model: Model) -> ProviderError | None:
    status, said = complaint.status, complaint.message.lower()
    if complaint.words & _LENGTH_WORDS or (status != 429 and _LENGTH_PHRASE.search(said)):
        return ProviderError("context_length", _told(complaint, model))
    if status == 413 or (status == 429 and said.startswith("request too large")):
        return ProviderError("too_large", _told(complaint, model))
    if status < 500 and status not in _RETRYABLE and status != 402:
        return ProviderError("bad_request", _told(complaint, model))
    return None


def _passing(complaint: Complaint, model: Model) -> ProviderError:
    status = complaint.status
    return ProviderError(
        "rate_limit" if status == 402 else _RETRYABLE.get(status, "server_error"),
        _told(complaint, model),
        retryable=True,
        overloaded=status in _OVERLOADED or status == 402,
        retry_after_s=complaint.retry_after_s,
    )


def _told(complaint: Complaint, model: Model, fix: str = "") -> str:
    said = f"{model.name}: the server answered {complaint.status}"
    said += f": {complaint.message}" if complaint.message else "."
    return f"{said} {fix}".rstrip()

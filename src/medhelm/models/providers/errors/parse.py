"""What a service says when it gives no answer, read into one form.

One reading serves all services that answer with JSON, a proxy's page or plain text; their words differ, their statuses
hardly do. What a complaint means is the business of `outcomes`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from typing import Any

from medhelm.models.providers.errors.redact import shown

_FORM_STATUSES = {400, 404, 415, 422, 500, 501}
_FORM_WORDS = {"json_validate_failed", "invalid_json_schema"}
_FORM_PHRASE = re.compile(
    r"response[_ ]format|json[_ ]?schema|json mode|structured[_ ]output|guided[_ ](?:decoding|json)|grammar"
    r"|(?:invalid|required for) format\b|can handle the requested parameters|input should be 'text'"
    r"|output_?(?:config|format)\.(?:format|text_?format)|output_?(?:config|format): extra|text_?format"
    r"|response[_ ]?(?:schema|mime[_ ]?type)"
)
"""What servers say when they do not know JSON schemas, or not all that this one holds: OpenAI, Azure, Anthropic,
Bedrock, DeepSeek, Groq, Cerebras, Fireworks, Google, OpenRouter, LiteLLM, LM Studio, Ollama, llama.cpp and vLLM, old
and new."""

PER_DAY, NONE_AT_ALL = "quota_per_day", "quota_of_zero"
"""Our own words for two of Google's quotas: the day's is used up, or there never was any."""

_TITLE = re.compile(r"<title[^>]*>([^<]*)", re.IGNORECASE)
_LONGEST_HEAD = 4096
"""Characters of a web page that are looked through for its title."""

PAGE = "a web page"
"""How the message begins of what came as one."""

_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorResponse:
    """What a server says went wrong."""

    status: int
    """HTTP status, or the one that stands in the body of a reply that calls itself a success."""
    words: frozenset[str]
    """The server's own codes, types and reasons, in lower case."""
    message: str
    """Its message, safe to show."""
    parameter: str = ""
    """The request's field it is about."""
    retry_after_s: float | None = None
    """Seconds it asked to wait."""
    about_form: bool = False
    """Whether it seems to be about the form that the reply was to have."""


def parse_error(
    status: int, body: object, *, kind: str = "", secrets: tuple[str, ...] = (), retry_after_s: float | None = None
) -> ErrorResponse:
    """Read any of the error forms in use: OpenAI's, Anthropic's, Google's, AWS's, vLLM's flat one, FastAPI's `detail`,
    plain text, a proxy's page.

    `body` is bytes or the document already read; `kind` is the error's type where it stands in a header, as at AWS;
    `retry_after_s` is what the headers say, which goes before the body; `secrets` never show in the message.
    """
    document = _document(body) if isinstance(body, bytes) else body
    if isinstance(document, list) and len(document) == 1 and isinstance(document[0], Mapping):
        document = document[0]  # Google, now and then
    if isinstance(document, str):
        text = _page(document) if document.lstrip().startswith("<") else document
        return ErrorResponse(
            status=status,
            words=frozenset({_type_name(kind)} - {""}),
            message=shown(text, secrets=secrets),
            retry_after_s=retry_after_s,
            about_form=_is_about_form(status, (), text),
        )
    outer = document if isinstance(document, Mapping) else {}
    inner = outer.get("error")
    error = inner if isinstance(inner, Mapping) else outer
    words = set(_words(error)) | {_type_name(kind), _type_name(_word(error.get("__type")))}
    if 200 <= status < 300:
        status = _error_status(error.get("code")) or _error_status(error.get("status")) or 500
    message, parameter = _message(error, inner), _word(error.get("param"))
    return ErrorResponse(
        status=status,
        words=frozenset(words - {""}),
        message=shown(message, secrets=secrets),
        parameter=parameter,
        retry_after_s=_retry_delay_s(error) if retry_after_s is None else retry_after_s,
        about_form=_is_about_form(status, words, message, parameter, _passed_on(error)),
    )


def _words(error: Mapping[str, Any]) -> Iterator[str]:
    """Codes, types and reasons, wherever services put them."""
    for name in ("code", "type", "status"):
        yield _word(error.get(name))
    for deeper in ("innererror", "metadata", "details"):
        if isinstance(nested := error.get(deeper), Mapping):
            yield _word(nested.get("code"))
            yield _word(nested.get("error_code"))
            yield "content_filter" if nested.get("flagged_input") or nested.get("reasons") else ""
    for detail in _details(error):
        yield _word(detail.get("reason"))
        violations = detail.get("violations")
        for violation in violations if isinstance(violations, list) else ():
            if isinstance(violation, Mapping):
                yield PER_DAY if "perday" in _word(violation.get("quotaId")) else ""
                yield NONE_AT_ALL if violation.get("quotaValue") == "0" else ""


def _details(error: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The typed details of Google's errors (google.rpc.ErrorInfo, QuotaFailure, RetryInfo)."""
    details = error.get("details")
    return [detail for detail in details if isinstance(detail, Mapping)] if isinstance(details, list) else []


def _retry_delay_s(error: Mapping[str, Any]) -> float | None:
    """Seconds in Google's `retryDelay`, such as `"38.5s"`."""
    for detail in _details(error):
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and (found := _SECONDS.fullmatch(delay)):
            return float(found[1])
    return None


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


def _page(text: str) -> str:
    """What a web page that came in place of an API's error calls itself."""
    found = _TITLE.search(text[:_LONGEST_HEAD])
    title = " ".join(unescape(found[1]).split()) if found else ""
    return f"{PAGE}, `{title}`" if title else PAGE


def _word(value: object) -> str:
    return value.lower() if isinstance(value, str) else ""


def _type_name(kind: str) -> str:
    """The bare name in AWS's `com.amazon.coral.service#ThrottlingException:http://...`, in lower case."""
    return kind.partition(":")[0].rpartition("#")[2].strip().lower()


def _error_status(value: object) -> int:
    """An HTTP status that says error, or 0."""
    number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) == 3 else value
    return number if isinstance(number, int) and 400 <= number < 600 else 0


def _message(error: Mapping[str, Any], inner: object) -> str:
    """The words for people in an error document."""
    for candidate in (inner, *(error.get(name) for name in ("message", "Message", "detail", "msg"))):
        if isinstance(candidate, str) and candidate:
            return candidate
    details = error.get("detail")
    if isinstance(details, list):  # FastAPI: what is wrong with which field; its `input` would be the prompt.
        said = [(d.get("loc"), d.get("msg")) for d in details if isinstance(d, Mapping)]
        return "; ".join(f"{'.'.join(map(str, loc or []))}: {msg}" for loc, msg in said)
    return ""

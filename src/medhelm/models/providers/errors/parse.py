"""Parsing error responses, in any format, into one form.

Handles JSON of every service in use, plain text and a proxy's web page. What an error means is decided in `classify`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from typing import Any

from medhelm.models.providers.errors.redact import shown
from medhelm.models.providers.response_fields import mapping, objects

_SCHEMA_STATUSES = {400, 404, 415, 422, 500, 501}
_SCHEMA_CODES = {"json_validate_failed", "invalid_json_schema"}
_SCHEMA_PHRASE = re.compile(
    r"response[_ ]format|json[_ ]?schema|json mode|structured[_ ]output|guided[_ ](?:decoding|json)|grammar"
    r"|(?:invalid|required for) format\b|can handle the requested parameters|input should be 'text'"
    r"|output_?(?:config|format)\.(?:format|text_?format)|output_?(?:config|format): extra|text_?format"
    r"|response[_ ]?(?:schema|mime[_ ]?type)"
)
"""Messages of servers that do not support JSON schemas, or not all features of this one: OpenAI, Azure, Anthropic,
Bedrock, DeepSeek, Groq, Cerebras, Fireworks, Google, OpenRouter, LiteLLM, LM Studio, Ollama, llama.cpp and vLLM."""

PER_DAY, NONE_AT_ALL = "quota_per_day", "quota_of_zero"
"""Our own codes for two of Google's quotas: one per day, and one of 0."""

_TITLE = re.compile(r"<title[^>]*>([^<]*)", re.IGNORECASE)
_MAX_HEAD = 4096
"""Characters of a web page that are searched for its title."""

WEB_PAGE = "a web page"
"""First words of the message for a web page in place of an API's reply."""

_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorResponse:
    """A server's error."""

    status: int
    """HTTP status, or the status in the body of a reply that was sent as a success."""
    codes: frozenset[str]
    """The server's codes, types and reasons, in lower case."""
    message: str
    """The server's message, safe to show."""
    parameter: str = ""
    """The field of the request that it names."""
    retry_after_s: float | None = None
    """Seconds to wait, if the server says so."""
    is_about_schema: bool = False
    """True if it seems to be about the JSON schema of the completion."""


def parse_error(
    status: int, body: object, *, kind: str = "", secrets: tuple[str, ...] = (), retry_after_s: float | None = None
) -> ErrorResponse:
    """Parse an error of OpenAI, Anthropic, Google, AWS, vLLM or FastAPI, a plain text, or a proxy's web page.

    Parameters
    ----------
    body : bytes, or a JSON document
    kind : type of the error in a header, as AWS sends it
    secrets : texts that never appear in the message
    retry_after_s : seconds to wait by the headers, which win over the body
    """
    document = _parse_body(body) if isinstance(body, bytes) else body
    if isinstance(document, list) and len(document) == 1 and isinstance(document[0], Mapping):
        document = document[0]  # Google sometimes sends a list
    if isinstance(document, str):
        text = _describe_page(document) if document.lstrip().startswith("<") else document
        return ErrorResponse(
            status=status,
            codes=frozenset({_type_name(kind)} - {""}),
            message=shown(text, secrets=secrets),
            retry_after_s=retry_after_s,
            is_about_schema=_is_about_schema(status, (), text),
        )
    outer = mapping(document)
    inner = outer.get("error")
    error = inner if isinstance(inner, Mapping) else outer
    codes = set(_codes(error)) | {_type_name(kind), _type_name(_word(error.get("__type")))}
    if 200 <= status < 300:
        status = _error_status(error.get("code")) or _error_status(error.get("status")) or 500
    message, parameter = _message(error, inner), _word(error.get("param"))
    upstream = _word(mapping(error.get("metadata")).get("raw"))  # the message of the server behind a gateway
    return ErrorResponse(
        status=status,
        codes=frozenset(codes - {""}),
        message=shown(message, secrets=secrets),
        parameter=parameter,
        retry_after_s=_retry_delay_s(error) if retry_after_s is None else retry_after_s,
        is_about_schema=_is_about_schema(status, codes, message, parameter, upstream),
    )


def _codes(error: Mapping[str, Any]) -> Iterator[str]:
    """Yield codes, types and reasons from every place where services put them."""
    for name in ("code", "type", "status"):
        yield _word(error.get(name))
    for deeper in ("innererror", "metadata", "details"):
        nested = mapping(error.get(deeper))
        yield _word(nested.get("code"))
        yield _word(nested.get("error_code"))
        yield "content_filter" if nested.get("flagged_input") or nested.get("reasons") else ""
    for detail in objects(error.get("details")):  # Google's google.rpc.ErrorInfo, QuotaFailure, RetryInfo
        yield _word(detail.get("reason"))
        for violation in objects(detail.get("violations")):
            yield PER_DAY if "perday" in _word(violation.get("quotaId")) else ""
            yield NONE_AT_ALL if violation.get("quotaValue") == "0" else ""


def _retry_delay_s(error: Mapping[str, Any]) -> float | None:
    """Return the seconds in Google's `retryDelay`, such as `"38.5s"`."""
    for detail in objects(error.get("details")):
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and (found := _SECONDS.fullmatch(delay)):
            return float(found[1])
    return None


def _is_about_schema(status: int, codes: Collection[str], *texts: str) -> bool:
    """Return True if an error is about the JSON schema; what it repeats of the request does not count.

    A wrong guess costs one more request without the schema. Completions are parsed in the same way without it.
    """
    said = (text.partition("'input':")[0].lower() for text in texts)
    return status in _SCHEMA_STATUSES and (not _SCHEMA_CODES.isdisjoint(codes) or any(map(_SCHEMA_PHRASE.search, said)))


def _parse_body(body: bytes) -> object:
    text = body.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _describe_page(text: str) -> str:
    """Describe a web page by its title."""
    found = _TITLE.search(text[:_MAX_HEAD])
    title = " ".join(unescape(found[1]).split()) if found else ""
    return f"{WEB_PAGE}, `{title}`" if title else WEB_PAGE


def _word(value: object) -> str:
    return value.lower() if isinstance(value, str) else ""


def _type_name(kind: str) -> str:
    """Return the bare name in AWS's `com.amazon.coral.service#ThrottlingException:http://...`, in lower case."""
    return kind.partition(":")[0].rpartition("#")[2].strip().lower()


def _error_status(value: object) -> int:
    """Return an HTTP status of an error, or 0."""
    number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) == 3 else value
    return number if isinstance(number, int) and 400 <= number < 600 else 0


def _message(error: Mapping[str, Any], inner: object) -> str:
    """Return the message in an error document."""
    for candidate in (inner, *(error.get(name) for name in ("message", "Message", "detail", "msg"))):
        if isinstance(candidate, str) and candidate:
            return candidate
    details = error.get("detail")
    # FastAPI: a problem for each field; its `input` would be the prompt.
    return "; ".join(f"{'.'.join(map(str, d.get('loc') or []))}: {d.get('msg')}" for d in objects(details))

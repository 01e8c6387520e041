"""Parsing error responses, in any format, into one form.

Handles JSON of every service in use, JSON and Python literals inside texts, plain text and a proxy's web page. Gateways
wrap the error of the server behind them, sometimes twice: the innermost message is the one that says what is wrong.
What an error means is decided in `classify`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from html import unescape
from typing import Any

from medhelm.models.providers.errors.redact import shown, without_input
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

_DEEPEST, _MOST_ITEMS, _LONGEST_LITERAL, _LONGEST_TEXT = 8, 20, 50_000, 1000
"""Bounds of a search: levels, items of a list, characters of a text that is parsed, and of one that is searched."""

_WRAPPERS = ("error", "errors", "detail", "details", "cause", "upstream_error", "provider_error", "body", "response")
"""Keys of objects and lists that hold an error, or several."""

_MESSAGES = (
    "message", "Message", "detail", "msg", "error_message", "errorMessage", "error_msg", "errorMsg", "status_msg",
    "error_description", "description", "details", "reason", "error", "title",
)  # fmt: skip
"""Keys of its message, the best first; each may hold another error, as a text."""

_STATUSES = ("code", "status", "status_code", "statusCode", "http_code", "http_status")

_BASE_RESPONSE = {1001: 408, 1002: 429, 1004: 401, 1008: 402, 1026: 451, 1027: 451, 1039: 429, 2013: 400, 2049: 401}
"""Code in `base_resp` of MiniMax -> HTTP status; 451 for its content filter. Source: its list of error codes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorResponse:
    """A server's error."""

    status: int
    """HTTP status, or the status in the body of a reply that was sent as a success."""
    codes: frozenset[str]
    """The server's codes, types and reasons, in lower case."""
    message: str
    """The server's innermost message, safe to show."""
    text: str = ""
    """All its messages, in lower case, to search for what they say; without values of the request."""
    parameter: str = ""
    """The field of the request that it names."""
    retry_after_s: float | None = None
    """Seconds to wait, if the server says so."""
    is_about_schema: bool = False
    """True if it seems to be about the JSON schema of the completion."""
    has_status: bool = True
    """False if it was sent as a success and holds no status."""


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
    search = _Search()
    if isinstance(document, str) and document.lstrip().startswith("<"):
        message = search.note(_describe_page(document))
    else:
        message = search.message_in(document)
    inner = search.statuses[-1] if search.statuses else 0
    has_status = status >= 300 or bool(inner)
    if status < 300 or (status >= 500 and inner):
        status = inner or 500  # gateways answer 500 for an error that the server behind them calls a bad request
    text = "\n".join(search.texts).lower()
    codes = search.codes | {_type_name(kind)}
    return ErrorResponse(
        status=status,
        codes=frozenset(codes - {""}),
        message=shown(message, secrets=secrets),
        text=text,
        parameter=search.parameter,
        retry_after_s=search.retry_after_s if retry_after_s is None else retry_after_s,
        is_about_schema=_is_about_schema(status, codes, text, search.parameter),
        has_status=has_status,
    )


@dataclass(slots=True)
class _Search:
    """Searches an error document; collects what it says on the way to its innermost message."""

    texts: list[str] = field(default_factory=list)
    codes: set[str] = field(default_factory=set)
    statuses: list[int] = field(default_factory=list)
    parameter: str = ""
    retry_after_s: float | None = None

    def note(self, text: str) -> str:
        """Keep a message; return it."""
        self.texts.append(without_input(text)[:_LONGEST_TEXT])
        return text

    def message_in(self, value: object, depth: int = 0) -> str:
        """Return the innermost message in a value; "" if it has none."""
        if depth > _DEEPEST:
            return ""
        if isinstance(value, str):
            return self._in_text(value.strip(), depth)
        if isinstance(value, list | tuple):
            found = (self.message_in(item, depth + 1) for item in value[:_MOST_ITEMS])
            return "; ".join(filter(None, found))
        return self._in_object(value, depth) if isinstance(value, Mapping) else ""

    def _in_text(self, text: str, depth: int) -> str:
        """Return the message of an error inside a text, or the text."""
        prefix, inner = _literal_in(text)
        if inner is None:
            return self.note(text) if text else ""
        self.note(prefix)
        return self.message_in(inner, depth + 1) or text

    def _in_object(self, error: Mapping[str, Any], depth: int) -> str:
        """Return the message of an object: of the error that it wraps, else its own."""
        self._read_facts(error)
        if isinstance(error.get("msg"), str) and isinstance(error.get("loc"), list | tuple):
            return self._problem(error)
        metadata, base = mapping(error.get("metadata")), mapping(error.get("base_resp"))
        if status := base.get("status_code"):
            self.statuses.append(_BASE_RESPONSE.get(status, 500) if isinstance(status, int) else 500)
            self.codes.add(f"base_resp_{status}")
        nested = [error.get(name) for name in _WRAPPERS]
        wrapped = [one for one in nested if isinstance(one, Mapping | list)]
        own = [error.get(name) for name in _MESSAGES]
        candidates = [*wrapped, base, *(one for one in own if isinstance(one, str) or (one and one not in wrapped))]
        messages = [self.message_in(one, depth + 1) for one in candidates if one]
        upstream = self.message_in(metadata.get("raw"), depth + 1)
        # The first text of more than one word: others are codes.
        return upstream or next((one for one in messages if " " in one), "") or next(filter(None, messages), "")

    def _problem(self, problem: Mapping[str, Any]) -> str:
        """Return FastAPI's problem with one field, without its `input`, which would be the prompt."""
        place = [str(part) for part in problem["loc"] if part != "body"]
        self.parameter = self.parameter or (place[-1].lower() if place else "")
        return self.note(f"{'.'.join(place) or 'body'}: {problem['msg']}")

    def _read_facts(self, error: Mapping[str, Any]) -> None:
        """Collect codes, statuses, the parameter and the time to wait."""
        self.codes |= set(_codes(error)) | {_type_name(_word(error.get("__type")))}
        self.statuses += [status for name in _STATUSES if (status := _error_status(error.get(name)))][:1]
        self.parameter = _word(error.get("param")) or self.parameter
        delay = _retry_delay_s(error)
        self.retry_after_s = self.retry_after_s if delay is None else delay
        for detail in objects(error.get("details")):
            for violation in objects(detail.get("fieldViolations")):
                self.note(f"{violation.get('field')}: {violation.get('description')}")


def _literal_in(text: str) -> tuple[str, object]:
    """Return the JSON value, or the Python literal, in a text, and the words before it; None if it has none."""
    starts = [place for mark in "{[" if (place := text.find(mark)) >= 0]
    if not starts or len(text) > _LONGEST_LITERAL:
        return "", None
    start = min(starts)
    for end in (len(text), max(text.rfind("}"), text.rfind("]")) + 1):
        for read in (json.loads, ast.literal_eval):
            try:
                value = read(text[start:end])
            except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
                continue
            if isinstance(value, Mapping) or (isinstance(value, list | tuple) and any(map(_is_object, value))):
                return text[:start], value
    return "", None


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)


def _codes(error: Mapping[str, Any]) -> Iterator[str]:
    """Yield codes, types and reasons from every place where services put them."""
    for name in ("code", "type", "status", "error_type"):
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
    return status in _SCHEMA_STATUSES and (
        not _SCHEMA_CODES.isdisjoint(codes) or any(map(_SCHEMA_PHRASE.search, texts))
    )


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

"""OpenAI's chat API, through which other tools use a gateway: Inspect, lm-eval, a notebook with OpenAI's client.

Form: OpenAI's API reference of chat completions. A parameter that would change the completion and cannot be passed on
is refused, never ignored. A request that was bought before gets the same completion again; another `seed` asks for
another one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from medhelm.domain import FailureCode, Message, Model, Prompt, Request
from medhelm.domain.completion import REASONING_TOKENS
from medhelm.extensions.cluster.gateway.wire import (
    GatewayError,
    checked_count,
    checked_stop,
    checked_temperature,
    read_json,
    unknown_model,
)
from medhelm.models.client import ClientResult

DEFAULT_TEMPERATURE = 1.0
"""Temperature of a request without one, as in OpenAI's API."""

_USED = frozenset(
    (
        "model",
        "messages",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "stop",
        "seed",
        "response_format",
    )
)

_IGNORED = frozenset(("user", "metadata", "store", "safety_identifier", "service_tier", "prompt_cache_key"))
"""Parameters that do not change a completion."""

_WITHOUT_EFFECT: Mapping[str, tuple[object, ...]] = {
    "n": (1,),
    "stream": (False,),
    "top_p": (1,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logprobs": (False,),
    "logit_bias": ({},),
    "tools": ([],),
    "parallel_tool_calls": (True, False),
    "tool_choice": ("none", "auto"),
}
"""Parameter -> values that have the same effect as omitting it; other values are refused."""

_ROLES: Mapping[str, str] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}

_STATUSES: Mapping[str, tuple[int, str]] = {
    FailureCode.CONTEXT_LENGTH: (400, "context_length_exceeded"),
    FailureCode.TOO_LARGE: (400, "context_length_exceeded"),
    FailureCode.BAD_REQUEST: (400, "invalid_request"),
    FailureCode.RATE_LIMIT: (429, "rate_limit_exceeded"),
    FailureCode.TIMEOUT: (504, "timeout"),
}
"""Failure of a model's service -> HTTP status and code; all others: 502."""

_FINISH: Mapping[str, str] = {FailureCode.REFUSAL: "content_filter", FailureCode.LENGTH: "length"}
"""Failure that OpenAI reports as a completion -> its finish reason."""


def read_chat_request(body: bytes, models: Mapping[str, Model]) -> Request:
    """Read the body of a request. Raises: GatewayError naming parameter, value and rule."""
    try:
        content = read_json(body)
    except (ValueError, RecursionError):
        raise GatewayError("bad_request", "the body is not JSON.") from None
    if not isinstance(content, dict):
        raise GatewayError("bad_request", "the body must be a JSON object.")
    given = {name: value for name, value in content.items() if value is not None}
    _refuse_unsupported(given)
    name = given.get("model")
    if not isinstance(name, str):
        raise GatewayError("bad_request", "`model` must be the name of a model; GET /v1/models lists them.")
    if name not in models:
        raise unknown_model(name, models)
    return Request(
        model=models[name],
        prompt=Prompt(tuple(_messages(given.get("messages")))),
        max_tokens=_limit(given, models[name]),
        temperature=checked_temperature(_number(given, "temperature", DEFAULT_TEMPERATURE)),
        stop=tuple(_stop(given.get("stop", ()))),
        sample=checked_count("seed", _whole(given, "seed", 0)),
        schema=_schema(given.get("response_format")),
    )


def _refuse_unsupported(given: Mapping[str, Any]) -> None:
    problems = []
    for name, value in given.items():
        if name in _USED or name in _IGNORED:
            continue
        same = _WITHOUT_EFFECT.get(name)
        if same is None:
            problems.append(f"`{name[:40]}` is not supported")
        elif not any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in same):
            only = " or ".join(json.dumps(one) for one in same)
            problems.append(f"`{name}` must be {only} or left out")
    if problems:
        raise GatewayError(
            "bad_request",
            f"{'; '.join(problems)}. Supported: {', '.join(sorted(_USED))}. Parameters that a model always needs "
            "belong in models.yaml of the gateway, under `parameters`. Nothing was sent.",
        )


def _messages(value: object) -> list[Message]:
    if not isinstance(value, list) or not value:
        raise GatewayError("bad_request", "`messages` must be a list with one message or more.")
    found = []
    for place, one in enumerate(value):
        role = _ROLES.get(str(one.get("role"))) if isinstance(one, dict) else None
        text = _text(one.get("content")) if isinstance(one, dict) else None
        if role is None or text is None:
            raise GatewayError(
                "bad_request",
                f"messages[{place}]: must have a `role` ({', '.join(_ROLES)}) and a text as `content`; images, tools "
                "and other contents are not supported.",
            )
        found.append(Message(role, text))  # type: ignore[arg-type]  # one of the roles
    return found


def _text(content: object) -> str | None:
    """Return the text of a message: a text, or a list of text parts; None for anything else."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not content:
        return None
    parts = [one.get("text") if isinstance(one, dict) and one.get("type") == "text" else None for one in content]
    return "".join(map(str, parts)) if all(isinstance(part, str) for part in parts) else None


def _limit(given: Mapping[str, Any], model: Model) -> int:
    """Return the limit on the completion: the budget needs one."""
    default = model.max_tokens or REASONING_TOKENS
    old, new = _whole(given, "max_tokens", default), _whole(given, "max_completion_tokens", default)
    return checked_count("max_tokens", new if "max_completion_tokens" in given else old, least=1)


def _whole(given: Mapping[str, Any], name: str, default: int) -> int:
    value = given.get(name, default)
    if type(value) is not int:
        raise GatewayError("bad_request", f"`{name}` must be a whole number.")
    return value


def _number(given: Mapping[str, Any], name: str, default: float) -> float:
    value = given.get(name, default)
    if type(value) not in (int, float):
        raise GatewayError("bad_request", f"`{name}` must be a number.")
    return float(value) if abs(value) < 1e9 else float("nan")  # too large an integer has no float


def _stop(value: object) -> list[str]:
    if isinstance(value, str):
        return [value] if value else []
    if not isinstance(value, list | tuple):
        raise GatewayError("bad_request", "`stop` must be a text or a list of texts.")
    return checked_stop(value)


def _schema(value: object) -> Mapping[str, Any] | None:
    """Return the JSON schema of a response format; None for text."""
    if value is None or value == {"type": "text"}:
        return None
    form = value.get("json_schema") if isinstance(value, dict) and value.get("type") == "json_schema" else None
    schema = form.get("schema") if isinstance(form, dict) else None
    if not isinstance(schema, dict):
        raise GatewayError(
            "bad_request", '`response_format` must be {"type": "text"}, or {"type": "json_schema", ...} with a schema.'
        )
    return schema


def chat_response(model: Model, result: ClientResult) -> tuple[int, dict[str, Any]]:
    """Return the HTTP status and the JSON body of a result. `medhelm` in the body says what it cost."""
    completion, failure = result.completion, result.completion.failure
    code, usage = failure.code if failure else "", completion.usage
    if failure is not None and code not in _FINISH:
        status, name = _STATUSES.get(code, (502, code))
        return status, error_body(name, failure.message)
    finish = _FINISH.get(code) or ("length" if completion.finish_reason == "length" else "stop")
    return 200, {
        "id": f"chatcmpl-{result.digest.hex()[:32]}",
        "object": "chat.completion",
        "created": int(completion.received or time.time()),
        "model": model.name,
        "system_fingerprint": completion.fingerprint or None,
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "" if code == FailureCode.LENGTH else completion.text,
                    "refusal": failure.message if failure and code == FailureCode.REFUSAL else None,
                },
                "logprobs": None,
                "finish_reason": finish,
            }
        ],
        "usage": {
            "prompt_tokens": usage.input,
            "completion_tokens": usage.output,
            "total_tokens": usage.input + usage.output,
            "prompt_tokens_details": {"cached_tokens": usage.cached_input},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
        },
        "medhelm": {
            "cached": result.cached,
            "cost_usd": result.cost_usd,
            "requests_sent": result.requests_sent,
            "latency_s": completion.latency_s,
            "digest": result.digest.hex(),
        },
    }


def error_body(code: str, message: str) -> dict[str, Any]:
    """Return the JSON body of an error, in OpenAI's form."""
    return {"error": {"message": message, "type": "medhelm_error", "param": None, "code": code}}

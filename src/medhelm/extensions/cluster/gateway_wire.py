"""The messages between workers and a gateway: explicit keys, a format number, and nothing that is not in the tables.

A worker opens a WebSocket and sends lists of requests; the gateway sends lists of results, each as soon as it is ready.
Requests and results that are ready together share a message, which takes a tenth of the CPU time of one HTTP request
each. A worker that reconnects sends again what was not answered; equal requests have equal digests, so that nothing is
bought twice. Models are written as in `run.json`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from types import NoneType
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from medhelm.domain import Completion, Failure, Message, Model, Prompt, Request, Usage
from medhelm.domain.text import LONGEST, is_benchmark_name, is_model_tag, is_start_time
from medhelm.errors import BudgetError, MedHelmError, StoreError, StoreFullError, UserError
from medhelm.models.client import ClientResult, ModelUnusable
from medhelm.storage.store import MODEL

FORMAT = 1
"""Version of these messages. A gateway refuses workers of another one."""

MODELS_PATH, KNOWN_PATH, REQUESTS_PATH = "/v1/medhelm/models", "/v1/medhelm/known", "/v1/medhelm/requests"
"""Paths of the models that are served, of what was bought before, and of the WebSocket for requests."""

WORKER_HEADER = "X-MedHELM-Worker"
"""Header with the name of a worker, for the audit log."""

MOST_BYTES = 64 * 2**20
"""Most bytes of a message; a list of requests is sent in several if it is longer than `BATCH_BYTES`."""

BATCH_BYTES = 2**20
"""Characters of requests, or of results, after which a message ends."""

GATHER_S = 0.004
"""Seconds to wait for others that can share a message: one with few takes almost as much CPU time as one with many."""

MOST_PENDING = 8192
"""Most requests of a worker at a time; it holds further ones back."""

MOST_TOKENS = 2**31
"""Bound of limits and numbers of samples."""

MOST_ID = 2**53
"""Bound of the numbers of requests: JavaScript's, so that every reader of JSON gives them back as they are."""

_ROLES = frozenset(("system", "user", "assistant"))

_REQUEST: Mapping[str, type] = {
    "id": int,
    "model": str,
    "tag": str,
    "messages": list,
    "max_tokens": int,
    "temperature": float,
    "stop": list,
    "sample": int,
    "schema": dict,
    "benchmark": str,
    "public": bool,
    "fresh": str,
    "logprobs": bool,
    "shared": int,
}
"""Key of a request -> its type."""

_NEEDED = ("id", "model", "tag", "messages", "max_tokens")

_NAMES: Sequence[tuple[str, Callable[[str], bool], str]] = (
    ("tag", is_model_tag, "the 16 hexadecimal digits of a model's definition"),
    ("benchmark", lambda name: not name or is_benchmark_name(name), f"a name in snake case, of at most {LONGEST}"),
    ("fresh", lambda time: not time or is_start_time(time), "an ISO 8601 time with its zone"),
)
"""Key with a name -> check and rule: names are logged, so that no other text may be in their place."""

NOT_ALLOWED, STOPPING, UNUSABLE, CHANGED = "not_allowed", "stopping", "unusable", "changed"
"""Codes of errors: the data may not go to that host; the gateway is stopping; the model cannot be used; its definition
has changed."""

STATUSES = {
    "bad_token": 401,
    "budget": 402,
    NOT_ALLOWED: 403,
    "unknown_model": 404,
    CHANGED: 409,
    "bad_request": 400,
    UNUSABLE: 503,
    STOPPING: 503,
    "store_full": 507,
    "store": 500,
}
"""Code of an error -> HTTP status."""

_ERRORS: Mapping[str, type[MedHelmError]] = {
    "budget": BudgetError,
    "store_full": StoreFullError,
    "store": StoreError,
    NOT_ALLOWED: UserError,
}
"""Code of an error -> the exception that it means; the first that fits counts."""


class GatewayError(MedHelmError):
    """An error that a gateway reports to its clients."""

    def __init__(self, code: str, message: str) -> None:
        """`code`: one of STATUSES."""
        super().__init__(message)
        self.code = code


class WorkerRequest(NamedTuple):
    """A request as it arrives from a worker."""

    id: int
    """Number that the result repeats."""
    tag: str
    """Tag of the worker's model; if it differs from the gateway's, the definition has changed."""
    request: Request
    public: bool
    """True if the data may go to any host that the model has."""


def joined(objects: Sequence[str]) -> Iterator[str]:
    """Yield lists of these JSON objects, none much longer than `BATCH_BYTES`."""
    start = size = 0
    for end, text in enumerate(objects):
        size += len(text)
        if size >= BATCH_BYTES:
            yield f"[{','.join(objects[start : end + 1])}]"
            start, size = end + 1, 0
    if start < len(objects):
        yield f"[{','.join(objects[start:])}]"


def tag_of(model: Model) -> str:
    """Return a short hash of the definition of a model."""
    return sha256(json.dumps(MODEL.write(model), sort_keys=True).encode()).hexdigest()[:16]


def write_request(request: Request, tag: str, *, public: bool) -> str:
    """Return the JSON object of a request without its opening `{` and its id; default values are omitted."""
    content: dict[str, Any] = {
        "model": request.model.name,
        "tag": tag,
        "messages": [[message.role, message.text] for message in request.prompt.messages],
        "max_tokens": request.max_tokens,
        "public": public,
    }
    optional: dict[str, Any] = {
        "temperature": request.temperature,
        "stop": request.stop,
        "sample": request.sample,
        "benchmark": request.benchmark,
        "fresh": request.fresh,
        "logprobs": request.logprobs,
        "shared": request.shared_characters,
    }
    content |= {key: value for key, value in optional.items() if value}
    if request.schema is not None:
        content["schema"] = request.schema
    return write_json(content)[1:]


def write_json(content: Mapping[str, Any]) -> str:
    """Return JSON, several times faster than the standard library."""
    try:
        return to_json(content).decode()
    except ValueError:  # a lone surrogate, which only the standard library writes
        return json.dumps(content)


def read_json(text: str | bytes) -> Any:
    """Read JSON, as the standard library does, and faster. Raises: ValueError, RecursionError."""
    try:
        return from_json(text)
    except ValueError:  # a lone surrogate, or no JSON
        return json.loads(text)


def read_requests(text: str, models: Mapping[str, Model]) -> list[WorkerRequest | tuple[int, GatewayError]]:
    """Read a list of requests; one with a problem is its number and the problem.

    Raises: GatewayError `bad_request` if there is no list of objects with numbers.
    """
    try:
        content = read_json(text)
    except (ValueError, RecursionError) as error:
        raise GatewayError("bad_request", f"the message is not JSON: {error}") from None
    if not isinstance(content, list):
        raise GatewayError("bad_request", f"the message must be a list of requests, not {_shown(content)}")
    found: list[WorkerRequest | tuple[int, GatewayError]] = []
    for place, one in enumerate(content):
        if not isinstance(one, dict) or type(one.get("id")) is not int or not 0 <= one["id"] < MOST_ID:
            raise GatewayError("bad_request", f"[{place}]: must be an object with a whole number as `id`")
        try:
            found.append(_read_request(one, models))
        except GatewayError as problem:
            found.append((one["id"], problem))
    return found


def _read_request(one: Mapping[str, Any], models: Mapping[str, Model]) -> WorkerRequest:
    """Check a request and convert it. Raises: GatewayError naming key, value and rule."""
    for key, value in one.items():
        kind = _REQUEST.get(key)
        if kind is None:
            raise GatewayError("bad_request", f"`{key[:40]}` is not a key of a request. Known: {', '.join(_REQUEST)}.")
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise GatewayError("bad_request", f"`{key}` must be of type {kind.__name__}, not {_shown(value)}")
    if missing := [key for key in _NEEDED if key not in one]:
        raise GatewayError("bad_request", f"the request lacks {', '.join(f'`{key}`' for key in missing)}")
    for key, is_name, rule in _NAMES:
        if not is_name(one.get(key, "")):
            raise GatewayError("bad_request", f"`{key}` must be {rule}, not {_shown(one[key])} like this")
    model = models.get(one["model"])
    if model is None:
        raise unknown_model(one["model"], models)
    return WorkerRequest(
        one["id"],
        one["tag"],
        Request(
            model=model,
            prompt=Prompt(tuple(_messages(one["messages"]))),
            max_tokens=checked_count("max_tokens", one["max_tokens"], least=1),
            temperature=checked_temperature(one.get("temperature", 0.0)),
            stop=tuple(checked_stop(one.get("stop", ()))),
            sample=checked_count("sample", one.get("sample", 0)),
            schema=one.get("schema"),
            benchmark=one.get("benchmark", ""),
            fresh=one.get("fresh", ""),
            logprobs=one.get("logprobs", False),
            shared_characters=checked_count("shared", one.get("shared", 0)),
        ),
        one.get("public", False),
    )


def _messages(pairs: list[Any]) -> list[Message]:
    found = []
    for place, pair in enumerate(pairs):
        is_pair = type(pair) is list and len(pair) == 2 and all(type(text) is str for text in pair)
        if not is_pair or pair[0] not in _ROLES:
            raise GatewayError("bad_request", f"messages[{place}] must be [ROLE, TEXT]; roles: {', '.join(_ROLES)}")
        found.append(Message(*pair))
    if not found:
        raise GatewayError("bad_request", "`messages` is empty: a prompt has one message or more")
    return found


def checked_count(key: str, value: int, *, least: int = 0) -> int:
    """Return a whole number within its bounds. Raises: GatewayError."""
    if not least <= value < MOST_TOKENS:
        raise GatewayError("bad_request", f"`{key}` must be from {least} to {MOST_TOKENS - 1:,}, not {_shown(value)}")
    return value


def checked_temperature(value: float) -> float:
    """Return a temperature from 0 to 2. Raises: GatewayError."""
    if not 0 <= value <= 2:  # also refuses NaN
        raise GatewayError("bad_request", f"`temperature` must be from 0 to 2, not {_shown(value)}")
    return float(value)


def checked_stop(texts: Any) -> list[str]:
    """Return sequences that end a completion. Raises: GatewayError."""
    if len(texts) > 64 or not all(type(text) is str and text for text in texts):
        raise GatewayError("bad_request", "`stop` must be a list of at most 64 texts that are not empty")
    return list(texts)


def unknown_model(name: str, models: Mapping[str, Model]) -> GatewayError:
    """Return the error about a model that is not served."""
    served = ", ".join(models) or "none"
    return GatewayError("unknown_model", f"model `{name[:200]}`: not served by this gateway. Served: {served}.")


def _shown(value: object) -> str:
    """Return a value for a message: texts are never repeated, because they may be data of patients."""
    if isinstance(value, bool | float) or value is None:
        return str(value)
    if isinstance(value, int):
        return str(value) if abs(value) < 10**20 else "a number with many digits"
    return "a text" if isinstance(value, str) else "a list" if isinstance(value, list) else "an object"


# --- results ----------------------------------------------------------------------------------------------------------


def write_result(number: int, result: ClientResult) -> str:
    """Return the JSON object of a result."""
    completion, usage, failure = result.completion, result.completion.usage, result.completion.failure
    return write_json(
        {
            "id": number,
            "cached": result.cached,
            "sent": result.requests_sent,
            "cost_usd": result.cost_usd,
            "digest": result.digest.hex(),
            "text": completion.text,
            "failure": None if failure is None else [failure.boundary, failure.code, failure.message],
            "finish_reason": completion.finish_reason,
            "usage": [usage.input, usage.cached_input, usage.output, usage.reasoning, usage.cache_write],
            "latency_s": completion.latency_s,
            "reported_model": completion.reported_model,
            "fingerprint": completion.fingerprint,
            "refused_parameters": completion.refused_parameters,
            "batched": completion.batched,
            "received": completion.received,
            "reasoning": completion.reasoning,
            "token_logprobs": completion.token_logprobs,
        }
    )


def write_error(number: int, error: MedHelmError) -> str:
    """Return the JSON object of an error."""
    content: dict[str, Any] = {"id": number, "error": error_code(error), "message": str(error)}
    if isinstance(error, ModelUnusable):
        content |= {"model": error.model, "sent": error.requests_sent}
    return write_json(content)


def error_code(error: MedHelmError) -> str:
    """Return the code of an error that a client of the gateway gets."""
    if isinstance(error, GatewayError):
        return error.code
    if isinstance(error, ModelUnusable):
        return UNUSABLE
    return next((code for code, kind in _ERRORS.items() if isinstance(error, kind)), STOPPING)


MOST_COUNT = 2**63 - 1
"""Bound of the numbers in a result."""

_COUNT, _AMOUNT = (int,), (int, float)

_RESULT: Mapping[str, tuple[type, ...]] = {
    "id": _COUNT,
    "cached": (bool,),
    "sent": _COUNT,
    "cost_usd": (*_AMOUNT, NoneType),
    "digest": (str,),
    "text": (str, NoneType),
    "failure": (list, NoneType),
    "finish_reason": (str,),
    "usage": (list,),
    "latency_s": _AMOUNT,
    "reported_model": (str,),
    "fingerprint": (str,),
    "refused_parameters": (list,),
    "batched": (bool,),
    "received": (*_AMOUNT, NoneType),
    "reasoning": (str,),
    "token_logprobs": (str,),
}
"""Key of a result -> the types of its value."""

_ERROR: Mapping[str, tuple[type, ...]] = {"id": _COUNT, "error": (str,), "message": (str,)}


def read_results(text: str) -> list[tuple[int, ClientResult | MedHelmError]]:
    """Read a list of results, each with its number.

    Raises: GatewayError `bad_request` if the server is not a gateway, or one of another format.
    """
    try:
        content = read_json(text)
        if not isinstance(content, list):
            raise TypeError("no list")
        return [(one["id"], _read_error(one) if "error" in one else _read_result(one)) for one in content]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        what = f"the gateway sent something other than a list of results ({type(error).__name__})"
        raise GatewayError("bad_request", f"{what}. Use the same version of medhelm on both sides.") from None


def _check_types(one: Mapping[str, Any], types: Mapping[str, tuple[type, ...]]) -> None:
    """Raise KeyError, TypeError or ValueError unless all values have their types, and numbers are finite and counts."""
    for key, allowed in types.items():
        value = one[key]
        if type(value) not in allowed:
            raise TypeError(key)
        if type(value) in _AMOUNT and not 0 <= value <= MOST_COUNT:  # also refuses NaN and infinity
            raise ValueError(key)


def _read_result(one: Mapping[str, Any]) -> ClientResult:
    _check_types(one, _RESULT)
    failure, usage, refused = one["failure"], one["usage"], one["refused_parameters"]
    if not all(type(word) is str for word in (*refused, *(failure or ()))):
        raise TypeError("words")
    if not all(type(count) is int for count in usage):
        raise TypeError("usage")
    # A server can claim any count.
    input_, cached_input, output, reasoning, cache_write = (min(max(0, count), MOST_COUNT) for count in usage)
    completion = Completion(
        text=one["text"],
        failure=None if failure is None else Failure(*failure),
        finish_reason=one["finish_reason"],
        usage=Usage(
            input=input_, cached_input=cached_input, output=output, reasoning=reasoning, cache_write=cache_write
        ),
        latency_s=float(one["latency_s"]),
        reported_model=one["reported_model"],
        fingerprint=one["fingerprint"],
        refused_parameters=tuple(refused),
        batched=one["batched"],
        received=one["received"],
        reasoning=one["reasoning"],
        token_logprobs=one["token_logprobs"],
    )
    if (completion.text is None) is (failure is None):
        raise ValueError("a completion is a text or a failure")
    return ClientResult(completion, one["cached"], one["sent"], one["cost_usd"], bytes.fromhex(one["digest"]))


def _read_error(one: Mapping[str, Any]) -> MedHelmError:
    """Return the exception that the same request would have raised without a gateway."""
    _check_types(one, _ERROR)
    code, message = one["error"], one["message"]
    if code == UNUSABLE:
        _check_types(one, {"model": (str,), "sent": _COUNT})
        return ModelUnusable(one["model"], message, one["sent"])
    return _ERRORS[code](message) if code in _ERRORS else GatewayError(code, message)

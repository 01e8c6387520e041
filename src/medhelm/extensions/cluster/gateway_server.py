"""The gateway's server: a thin HTTP front of one client, for workers and for tools that speak OpenAI's chat API.

It decides who may ask for what; cache, budget, limits, retries, egress policy and audit log are the client's, as in a
run. A request belongs to the gateway once it has arrived: if its worker disconnects, it is finished and kept.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from socket import socket
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web

from medhelm.domain import FailureCode, Message, Model, Prompt, Request
from medhelm.domain.completion import REASONING_TOKENS
from medhelm.errors import Interrupted, MedHelmError
from medhelm.extensions.cluster import gateway_wire as wire
from medhelm.extensions.cluster.gateway import Tokens
from medhelm.extensions.cluster.gateway_wire import (
    GatewayError,
    checked_count,
    checked_stop,
    checked_temperature,
    read_json,
    unknown_model,
)
from medhelm.io.http.hosts import WORKER
from medhelm.models.client import Client, ClientResult
from medhelm.models.provider import Provider
from medhelm.storage.store import MODEL

STOP_S = 25.0
"""Seconds that requests in flight may still take when the gateway ends; Slurm and systemd allow 30 and more."""

RETRY_S = 60.0
"""Seconds after which a model that was given up is tried again for a client that is not a worker."""

HEARTBEAT_S = 30.0
"""Seconds between two signs of life on a quiet connection."""

DATA_HEADER = "X-MedHELM-Data"
"""Header by which other tools say that their data is public."""

_Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

Known = Callable[[], bytes]
"""Returns the first 8 bytes of the digests of all completions in the cache, one after the other, in order."""


@dataclass(slots=True)
class Counts:
    """Counts since the gateway started."""

    requests: int = 0
    """Requests that are done."""
    cached: int = 0
    """Done requests whose completion came from the cache or from an equal request."""
    failed: int = 0
    """Done requests without a completion."""
    in_flight: int = 0
    """Requests in progress, including those that wait."""
    workers: int = 0
    """Connected workers."""

    def add(self, result: ClientResult) -> None:
        """Count a request that is done."""
        self.requests += 1
        self.cached += result.cached
        self.failed += result.completion.failure is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Conditions on requests to a gateway: accepted tokens, and hosts and benchmarks of private data."""

    tokens: Tokens | None
    """The accepted tokens; None if anyone who can connect may request completions."""
    without_consent: Mapping[str, Sequence[str]]
    """Model -> hosts that may not get private data from it."""
    public: Container[str]
    """Names of the benchmarks whose data a worker can declare to be public."""


class Gateway:
    """Serves models to other processes through one client."""

    def __init__(
        self,
        client: Client,
        models: Iterable[Model],
        providers: Mapping[str, Provider],
        *,
        access: Access,
        known: Known,
        note: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make a gateway.

        Parameters: models, with their prices; providers, by model; known, see `Known`; note, receives messages for the
        user.
        """
        self.counts = Counts()
        self._client, self._providers, self._access = client, providers, access
        self._models = {model.name: model for model in models}
        self._tags = {name: wire.tag_of(model) for name, model in self._models.items()}
        self._known, self._note, self._clock = known, note, clock
        self._tried = clock()
        self._is_stopping = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._links: set[_Link] = set()
        self._handlers: Mapping[str, tuple[str, _Handler]] = {
            "/health": ("GET", self._health),
            "/v1/models": ("GET", self._list),
            "/v1/chat/completions": ("POST", self._chat),
            wire.MODELS_PATH: ("POST", self._serve_models),
            wire.KNOWN_PATH: ("GET", self._serve_known),
            wire.REQUESTS_PATH: ("GET", self._serve_worker),
        }
        self._idle = asyncio.Event()
        self._idle.set()

    # --- requests -----------------------------------------------------------------------------------------------------

    async def complete(self, request: Request, *, public: bool) -> ClientResult:
        """Return the completion of a request. Raises: what `Client.complete` raises, and GatewayError."""
        digest = request.digest
        return self._find(request, digest, public=public) or await self._buy(request, digest)

    def _find(self, request: Request, digest: bytes, *, public: bool) -> ClientResult | None:
        """Return the completion of a request from the cache, without waiting. Raises: what `complete` raises."""
        if self._is_stopping:
            raise GatewayError(wire.STOPPING, "the gateway is stopping")
        model = request.model
        if not public and (hosts := self._access.without_consent.get(model.name)):
            raise GatewayError(wire.NOT_ALLOWED, _no_consent(model, request.benchmark, hosts))
        if (known := self._client.find(request, digest)) is not None:
            self.counts.add(known)
        return known

    async def _buy(self, request: Request, digest: bytes) -> ClientResult:
        """Return the completion of a request that is not in the cache."""
        counts = self.counts
        counts.in_flight += 1
        self._idle.clear()
        try:
            result = await self._client.buy(self._providers[request.model.name], request, digest)
        finally:
            counts.in_flight -= 1
            if not counts.in_flight:
                self._idle.set()
        counts.add(result)
        return result

    async def stop(self) -> None:
        """Refuse new requests, let those in flight finish for `STOP_S`, and close all connections."""
        self._is_stopping = True
        self._client.stop(Interrupted("the gateway is stopping"))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), STOP_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(link.close() for link in list(self._links)), return_exceptions=True)

    def abandon(self) -> None:
        """Stop waiting for requests in flight."""
        self._idle.set()

    def _start_request(self, one: wire.WorkerRequest, link: _Link) -> None:
        """Send the completion of a worker's request if it is in the cache, else start to buy it."""
        try:
            if self._tags[one.request.model.name] != one.tag:
                raise GatewayError(
                    wire.CHANGED,
                    f"the gateway's definition of {one.request.model.name} has changed since the command started. "
                    "Start the command again.",
                )
            digest = one.request.digest
            known = self._find(one.request, digest, public=one.public and one.request.benchmark in self._access.public)
        except Exception as error:  # noqa: BLE001 - one request must not end the gateway
            link.send(self._error_result(one.id, error))
            return
        if known is not None:
            link.send(wire.write_result(one.id, known))
            return
        link.pending += 1
        if link.pending > wire.MOST_PENDING:
            raise GatewayError("bad_request", f"more than {wire.MOST_PENDING:,} requests at a time")
        task = asyncio.get_running_loop().create_task(self._buy_for_worker(one, digest, link))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _buy_for_worker(self, one: wire.WorkerRequest, digest: bytes, link: _Link) -> None:
        """Buy a completion for a worker."""
        try:
            text = wire.write_result(one.id, await self._buy(one.request, digest))
        except Exception as error:  # noqa: BLE001
            text = self._error_result(one.id, error)
        finally:
            link.pending -= 1
        link.send(text)

    def _error_result(self, number: int, error: Exception) -> str:
        """Return the JSON object of an error."""
        return wire.write_error(number, error if isinstance(error, MedHelmError) else self._internal_error(error))

    def _internal_error(self, error: Exception) -> GatewayError:
        """Report a bug by its type: the message could hold text of a prompt."""
        self._note(f"internal error: {type(error).__name__}")
        return GatewayError("internal", f"internal error of the gateway ({type(error).__name__})")

    # --- HTTP ---------------------------------------------------------------------------------------------------------

    def server(self) -> web.Server:
        """Return the HTTP server. A router and middlewares would take a tenth of the CPU time of a request."""
        loop = asyncio.get_running_loop()

        def read(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
            return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=wire.MOST_BYTES)

        return web.Server(self._handle, request_factory=read, access_log=None)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Check path and token, and report every error as JSON."""
        try:
            method, handler = self._handlers.get(request.path, ("", None))
            if handler is None:
                return _error(404, "bad_request", f"Not Found: {request.method} {request.path[:80]}")
            if request.method != method and (request.method, method) != ("HEAD", "GET"):
                return _error(405, "bad_request", f"Method Not Allowed: {request.method} {request.path[:80]}")
            if request.path != "/health":
                WORKER.set(self._name_of(request))
            return await handler(request)
        except MedHelmError as error:
            code = wire.error_code(error)
            return _error(wire.STATUSES.get(code, 500), code, str(error))
        except web.HTTPRequestEntityTooLarge:
            return _error(413, "too_large", f"the body is longer than {wire.MOST_BYTES:,} bytes.")
        except web.HTTPException as error:
            return _error(error.status, "bad_request", f"{error.reason}: {request.method} {request.path[:80]}")

    def _name_of(self, request: web.BaseRequest) -> str:
        """Return the name of a client: its token's, or what it calls itself. Raises: GatewayError for a wrong token."""
        name: str | None = ""
        if self._access.tokens is not None:
            scheme, _, token = request.headers.get("Authorization", "").partition(" ")
            name = self._access.tokens.name_of(token.strip()) if scheme.lower() == "bearer" else None
        if name is None:
            raise GatewayError("bad_token", "the token is missing or wrong: send `Authorization: Bearer TOKEN`.")
        return name or request.headers.get(wire.WORKER_HEADER, "")

    async def _health(self, request: web.BaseRequest) -> web.Response:  # noqa: ARG002 - the form of a handler
        """Report that the gateway runs; needs no token and shows no secret."""
        return _json({"status": "stopping" if self._is_stopping else "ok"})

    async def _list(self, request: web.BaseRequest) -> web.Response:  # noqa: ARG002
        """List the models in OpenAI's form."""
        listed = [
            {"id": m.name, "object": "model", "created": 0, "owned_by": m.provider} for m in self._models.values()
        ]
        return _json({"object": "list", "data": listed})

    async def _chat(self, request: web.BaseRequest) -> web.Response:
        """Complete one request in OpenAI's form."""
        asked = read_chat_request(await request.read(), self._models)
        public = request.headers.get(DATA_HEADER, "").strip().lower() == "public"
        if self._clock() - self._tried > RETRY_S:
            self._try_again()
        try:
            result = await self.complete(asked, public=public)  # goes on if the client disconnects
        except MedHelmError:
            raise
        except Exception as error:
            raise self._internal_error(error) from error
        status, body = chat_response(asked.model, result)
        return _json(body, status)

    # --- workers ------------------------------------------------------------------------------------------------------

    async def _serve_models(self, request: web.BaseRequest) -> web.Response:
        """Return the models that a worker names; its command starts, so that models given up are tried again."""
        try:
            content = wire.read_json(await request.read())
        except (ValueError, RecursionError):
            raise GatewayError("bad_request", "the body is not JSON.") from None
        names = content.get("models") if isinstance(content, dict) else None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise GatewayError("bad_request", "`models` must be a list of names.")
        if content.get("format") != wire.FORMAT:
            raise GatewayError(
                "bad_request",
                f"the gateway speaks format {wire.FORMAT}. Use the same version of medhelm on both sides.",
            )
        problems = [str(wire.unknown_model(name, self._models)) for name in names if name not in self._models]
        if problems:
            raise GatewayError("unknown_model", "\n".join(problems))
        self._try_again()
        served = [
            {
                "model": MODEL.write(self._models[name]),
                "private_data": name not in self._access.without_consent,
                "hosts": list(self._access.without_consent.get(name, ())),
            }
            for name in names
        ]
        return _json({"format": wire.FORMAT, "models": served})

    async def _serve_known(self, request: web.BaseRequest) -> web.Response:  # noqa: ARG002
        """Return the beginnings of the digests of what was bought before."""
        return web.Response(body=await asyncio.to_thread(self._known), content_type="application/octet-stream")

    async def _serve_worker(self, request: web.BaseRequest) -> web.WebSocketResponse:
        """Complete the requests of a worker until it disconnects."""
        socket = web.WebSocketResponse(max_msg_size=wire.MOST_BYTES, heartbeat=HEARTBEAT_S, compress=False)
        await socket.prepare(request)
        link = _Link(socket)
        self._links.add(link)
        self.counts.workers += 1
        sending = asyncio.ensure_future(link.send_all())
        try:
            async for message in socket:
                if message.type is not WSMsgType.TEXT:
                    break
                self._name_of(request)  # its token may have been removed since
                self._receive(message.data, link)
        except GatewayError as error:
            await socket.close(code=WSCloseCode.UNSUPPORTED_DATA, message=str(error).encode()[:120])
        finally:
            sending.cancel()
            self._links.discard(link)
            self.counts.workers -= 1
        return socket

    def _receive(self, text: str, link: _Link) -> None:
        """Start all requests of a message. Raises: GatewayError."""
        for one in wire.read_requests(text, self._models):
            if isinstance(one, wire.WorkerRequest):
                self._start_request(one, link)
            else:
                link.send(wire.write_error(*one))

    def _try_again(self) -> None:
        self._tried = self._clock()
        self._client.try_again()


class _Link:
    """The connection of a worker: results that are ready together are sent together."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self.pending = 0
        """Requests in progress."""
        self._socket = socket
        self._ready: list[str] = []
        self._is_ready = asyncio.Event()

    def send(self, text: str) -> None:
        """Send a result soon; it is dropped if the worker has disconnected, and asked for again if it returns."""
        if self._socket.closed:
            return
        self._ready.append(text)
        self._is_ready.set()

    async def send_all(self) -> None:
        """Send results until the connection ends."""
        with suppress(ConnectionError):
            while True:
                await self._is_ready.wait()
                await asyncio.sleep(wire.GATHER_S)
                await self._send_ready()

    async def _send_ready(self) -> None:
        self._is_ready.clear()
        ready, self._ready = self._ready, []
        for text in wire.joined(ready):
            await self._socket.send_str(text)

    async def close(self) -> None:
        """Send what is ready and close the connection."""
        with suppress(ConnectionError):
            await self._send_ready()
        await self._socket.close(code=WSCloseCode.GOING_AWAY, message=b"the gateway is stopping")


def _no_consent(model: Model, benchmark: str, hosts: Sequence[str]) -> str:
    """Return the message about data that may not go to these hosts of a model."""
    consent = " ".join(f"--allow-host {host}" for host in hosts)
    what = f"{benchmark} is not public and" if benchmark else "data that may not be public"
    otherwise = "" if benchmark else f"; for public data, send the header `{DATA_HEADER}: public`"
    return (
        f"{what} would leave the gateway's machine for {', '.join(hosts)} ({model.name}). If its terms of use permit "
        f"that, start the gateway with {consent}{otherwise}. Nothing was sent."
    )


def _error(status: int, code: str, message: str) -> web.Response:
    return _json(error_body(code, message), status)


def _json(content: Mapping[str, Any], status: int = 200) -> web.Response:
    return web.Response(body=wire.write_json(content).encode(), status=status, content_type="application/json")


async def serve(gateway: Gateway, listening: socket, tls: ssl.SSLContext | None, until: asyncio.Event) -> None:
    """Serve on a bound socket until the event, then stop gently."""
    runner = web.ServerRunner(gateway.server(), shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listening, ssl_context=tls).start()
        await until.wait()
        await gateway.stop()
    finally:
        await runner.cleanup()


# --- OpenAI's chat API ------------------------------------------------------------------------------------------------
# Other tools use a gateway through it: Inspect, lm-eval, a notebook with OpenAI's client.
#
# Form: OpenAI's API reference of chat completions. A parameter that would change the completion and cannot be passed on
# is refused, never ignored. A request that was bought before gets the same completion again; another `seed` asks for
# another one.

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

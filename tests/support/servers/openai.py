"""A server on 127.0.0.1 that behaves, or misbehaves, as it is told; for tests of everything that sends requests."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from aiohttp import web

from tests.support.models.verification import verified_response

PATIENCE_S = 600.0
"""How long a test waits for something that must happen before it fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the server does with one request."""

    status: int = 200
    """HTTP status."""
    body: bytes | str | Mapping[str, Any] = b""
    """Sent as it is, or as JSON if it is a mapping."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent besides the usual ones."""
    ending: Literal["whole", "chunked", "truncated", "reset", "hang", "drip"] = "whole"
    """All of it, or in chunks without a length; half of it and the connection closed; a reset at once; nothing, ever;
    a byte now and then, for ever."""


class Server:
    """An HTTP server in a thread of its own, so that synchronous tests and asynchronous ones can use it alike.

    with Server(Answer(status=503), Answer(body={"n": 1})) as server:   # the last answer is repeated for ever
        ... server.url ...
        assert server.count == 2
    """

    def __init__(self, *answers: Answer) -> None:
        """`answers` are given in order; without any, every request gets an empty JSON object."""
        self.bodies: list[dict[str, Any]] = []
        """The JSON bodies received, in order."""
        self.headers: list[dict[str, str]] = []
        """The headers received, names in lower case, in the same order."""
        self.paths: list[str] = []
        """Path and query of each request, in the same order."""
        self.in_flight = 0
        """Requests received and not answered yet."""
        self.most_in_flight = 0
        """Most of those at once, since the start or since the last `script`."""
        self.connections = 0
        """Connections that requests came on."""
        self.lists_models = False
        """False: a request for the list of models gets a 404 and is not recorded, like on a server without one."""
        self._held_after: int | None = None
        self._changed = threading.Condition()
        self._seen: set[object] = set()
        self._closing = asyncio.Event()
        self._open = asyncio.Event()
        self._open.set()
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="test-server", daemon=True)
        self.script(*answers)

    # --- what a test says ---------------------------------------------------------------------------------------------

    def script(self, *answers: Answer) -> None:
        """From now on give these answers, in order; the last is repeated for ever."""
        waiting = list(answers) or [Answer(body={})]
        self.answer_with(lambda body: waiting.pop(0) if len(waiting) > 1 else waiting[0])

    def answer_with(self, function: Callable[[dict[str, Any]], Answer]) -> None:
        """From now on let a function of the body decide. It runs in the server's thread, one request at a time.

        Verdicts get the verification code that the request asks for.
        """

        def decide(body: dict[str, Any]) -> Answer:
            answer = function(body)
            return replace(answer, body=verified_response(answer.body, body))

        self._decide = decide
        self.most_in_flight = self.in_flight

    def hold(self) -> None:
        """Receive requests, but answer none before `release`."""
        self._soon(self._open.clear)

    def hold_beyond(self, count: int) -> None:
        """Answer the first `count` requests of all, and hold the later ones until `release`."""
        self._held_after = count

    def release(self) -> None:
        """Answer what was held, and go on."""
        self._held_after = None
        self._soon(self._open.set)

    def release_held(self) -> None:
        """Answer what was held; later requests are held if `hold_beyond` says so."""
        self._soon(self._open.set)

    # --- what a test reads --------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Requests received."""
        return len(self.bodies)

    @property
    def url(self) -> str:
        """Address, without a slash at its end."""
        return f"http://127.0.0.1:{self.port}"

    def model(self, name: str = "mock") -> str:
        """Return the name of a model at this server."""
        return f"openai/{name}@{self.url}/v1"

    def write_models(self, file: Path, prices: Mapping[str, float | None]) -> Path:
        """Write models at this server: name -> US dollars per million tokens of either kind, None if unknown."""
        lines = [
            f'{name}: {{base_url: "{self.url}/v1", model: {name}'
            + ("}\n" if price is None else f", price: {{input: {price}, output: {price}}}}}\n")
            for name, price in prices.items()
        ]
        file.write_text("".join(lines), encoding="utf-8")
        return file

    def wait_for(self, count: int) -> None:
        """Block until `count` requests in all have been received (from a coroutine: `asyncio.to_thread`)."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.count >= count, PATIENCE_S), f"{self.count} of {count} requests"

    # --- the server itself --------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(PATIENCE_S)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._soon(self._close)
        self._thread.join(PATIENCE_S)

    def _soon(self, function: Callable[[], object]) -> None:
        """Run in the server's thread, and wait until it has run."""
        done = threading.Event()

        def act() -> None:
            function()
            done.set()

        self._loop.call_soon_threadsafe(act)
        assert done.wait(PATIENCE_S)

    def _close(self) -> None:
        self._open.set()
        self._closing.set()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._receive)
        runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = listener.getsockname()[1]
        await web.SockSite(runner, listener, backlog=512).start()
        self._started.set()
        await self._closing.wait()
        await runner.cleanup()

    async def _receive(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        if not self.lists_models and request.method == "GET" and request.path.endswith("/models"):
            return web.Response(status=404)
        if request.protocol not in self._seen:
            self._seen.add(request.protocol)
            self.connections += 1
        with self._changed:
            self.headers.append({name.lower(): value for name, value in request.headers.items()})
            self.paths.append(request.path_qs)
            self.bodies.append(json.loads(raw) if raw else {})
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            answer = self._decide(self.bodies[-1])
            if self._held_after is not None and self.count > self._held_after:
                self._open.clear()
            self._changed.notify_all()
        try:
            await self._open.wait()
            return await self._reply(request, answer)
        finally:
            self.in_flight -= 1

    async def _reply(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        body = answer.body if isinstance(answer.body, bytes | str) else json.dumps(dict(answer.body))
        content = body.encode() if isinstance(body, str) else body
        if answer.ending == "whole":
            return web.Response(status=answer.status, headers=dict(answer.headers), body=content)
        response = web.StreamResponse(status=answer.status, headers=dict(answer.headers))
        if answer.ending == "chunked":
            response.enable_chunked_encoding()
            await response.prepare(request)
            for start in range(0, len(content), 100):
                await response.write(content[start : start + 100])
            await response.write_eof()
            return response
        if answer.ending == "hang":
            await self._closing.wait()
        elif answer.ending == "truncated":
            response.content_length = len(content)
            await response.prepare(request)
            await response.write(content[: len(content) // 2])
        elif answer.ending == "drip":
            await response.prepare(request)
            while not self._closing.is_set() and request.transport is not None:
                await response.write(b" ")
                await asyncio.sleep(0.005)
        self._disconnect(request, reset=answer.ending == "reset")
        return response

    def _disconnect(self, request: web.Request, *, reset: bool) -> None:
        transport = request.transport
        if transport is None:
            return
        if reset:  # a linger time of zero makes the kernel send a reset instead of an orderly end
            connection: socket.socket = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.close()

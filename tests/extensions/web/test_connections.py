"""Clients that send half a request, drip, never read, or guess tokens: all others are still answered."""

from __future__ import annotations

import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from medhelm.extensions.web import server
from medhelm.extensions.web.server import MOST_WAITING, server_of

HALF = b"GET / HTTP/1.1\r\nHost: x\r\nX-A: "
WHOLE = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def hello(scope: Mapping[str, Any], receive: object, send: Callable[[Any], Awaitable[None]]) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture(autouse=True)
def _many_files() -> None:
    """Allow this process both sides of 260 connections; some systems allow 256 files unless asked."""
    resource = pytest.importorskip("resource", reason="POSIX limits")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < 2048:
        resource.setrlimit(resource.RLIMIT_NOFILE, (2048 if hard == resource.RLIM_INFINITY else min(2048, hard), hard))


@contextmanager
def serving(app: Any = hello) -> Iterator[int]:
    """Yield the port of a server in a thread."""
    server, listening = server_of(app, None), socket.create_server(("127.0.0.1", 0), backlog=512)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        thread.join(600)
        listening.close()


def connected(port: int, source: str = "127.0.0.1") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), 600, source_address=(source, 0))
    made.settimeout(600)
    return made


def answered(port: int, source: str = "127.0.0.1") -> bool:
    """Send a whole request; return True if the server answers it."""
    with connected(port, source) as one:
        one.sendall(WHOLE)
        return rest_of(one).startswith(b"HTTP/1.1 200 ")


def rest_of(one: socket.socket) -> bytes:
    """Return what the server sends until it closes the connection."""
    found = b""
    with suppress(ConnectionError):
        while piece := one.recv(2**16):
            found += piece
    return found


@pytest.mark.parametrize("half", [b"", b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nto"])
def test_unfinished_requests_stop_no_other(half: bytes) -> None:
    with serving() as port, ExitStack() as open_ones:
        for _ in range(260):
            open_ones.enter_context(connected(port)).sendall(half)
        assert all(answered(port) for _ in range(5))


def test_the_client_with_the_most_connections_loses_them_first(tmp_path: Path) -> None:
    with serving() as port, ExitStack() as open_ones:
        try:
            first = open_ones.enter_context(connected(port, "127.0.0.2"))
        except OSError:
            pytest.skip("this machine has only one address")
        first.sendall(HALF)
        for _ in range(2 * MOST_WAITING):
            open_ones.enter_context(connected(port)).sendall(HALF)
        assert answered(port)
        first.sendall(b"\r\nConnection: close\r\n\r\n")
        assert rest_of(first).endswith(b"hello"), "it was the oldest of all, but of another client"


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    assert server.REQUEST_S <= 10
    monkeypatch.setattr(server, "REQUEST_S", 1.0)


@pytest.mark.usefixtures("short")
def test_a_request_that_drips_must_arrive_in_time() -> None:
    def drip() -> None:
        closed = threading.Event()
        with suppress(OSError):
            while not closed.wait(0.01):
                one.sendall(b"a")

    with serving() as port, connected(port) as one:
        one.sendall(HALF)
        threading.Thread(target=drip, daemon=True).start()
        assert rest_of(one) == b""


@pytest.mark.usefixtures("short")
def test_a_response_may_take_longer() -> None:
    begun, may_end = threading.Event(), threading.Event()

    async def slow(scope: Mapping[str, Any], receive: object, send: Callable[[Any], Awaitable[None]]) -> None:
        import asyncio

        begun.set()
        await asyncio.to_thread(may_end.wait, 600)
        await hello(scope, receive, send)

    with serving(slow) as port, connected(port) as one:
        one.sendall(WHOLE)
        assert begun.wait(600)
        with connected(port) as other:  # closed when the time of the first would have ended as well
            assert rest_of(other) == b""
        may_end.set()
        assert rest_of(one).endswith(b"hello")


def test_a_response_that_nobody_reads_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STALL_S", 0.1)
    ended = threading.Event()

    async def endless(scope: Mapping[str, Any], receive: object, send: Callable[[Any], Awaitable[None]]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"x" * 2**16, "more_body": True})
            if (await_disconnect := getattr(receive, "__self__", None)) and await_disconnect.disconnected:
                break
        ended.set()

    with serving(endless) as port, connected(port) as one:
        one.sendall(WHOLE)
        assert ended.wait(600)

"""Workers and gateways that never answer, answer slowly, close the connection, or lead elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from medhelm.errors import MissingError
from medhelm.extensions.cluster import gateway as worker
from medhelm.extensions.cluster.gateway import RemoteGateway
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.budget import Budget
from medhelm.models.client import ModelUnusable
from medhelm.models.gateway import GATEWAY_VARIABLE
from medhelm.storage.audit import AuditLog
from tests.support.gateways import OUTSIDE, TOKEN, request
from tests.support.servers.objects import ObjectServer

Answer = Callable[[str, asyncio.StreamReader, asyncio.StreamWriter], Coroutine[object, object, None]]
"""Answers a request to a path."""


async def silent(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3600)


async def byte_by_byte(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


async def closing(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


@asynccontextmanager
async def listening(answer: Answer) -> AsyncIterator[str]:
    """Yield the address of a server that has read a request before it answers."""
    tasks = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            await answer(head.split()[1].decode(), reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tasks:
            task and task.cancel()


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    assert worker.REPLY_S <= 30, "as long as a model server may stay silent"
    monkeypatch.setattr(worker, "FIRST_WAIT_S", 0.0)
    monkeypatch.setattr(worker, "HEARTBEAT_S", 0.1)


def environment(url: str) -> dict[str, str]:
    return {GATEWAY_VARIABLE: url, "MEDHELM_GATEWAY_TOKEN": TOKEN}


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (silent, r"(it did not reply within 1 s|it does not reply)"),
        (byte_by_byte, r"(it did not reply within 1 s|it does not reply)"),
        (closing, "Server disconnected"),
    ],
)
async def test_the_first_exchange_is_given_up_with_a_reason(
    answer: Answer, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "REPLY_S", 600.0 if answer is closing else 1.0)  # a busy machine may close it late
    async with listening(answer) as url:
        with pytest.raises(MissingError, match=reason) as found:
            await asyncio.to_thread(RemoteGateway(environment(url)).models, ["m"])
    assert "Nothing was sent." in str(found.value)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("answer", [byte_by_byte, closing])
async def test_a_connection_that_is_never_opened_is_given_up(
    answer: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "REPLY_S", 600.0 if answer is closing else 1.0)  # a busy machine may close it late

    async def only_known(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if path == "/v1/medhelm/known":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        else:
            await answer(path, reader, writer)

    async with listening(only_known) as url:
        with pytest.raises(ModelUnusable, match=r"the gateway http://127\.0\.0\.1:.* cannot be reached"):
            await ask(url, tmp_path, max_silence_s=0.05)


def test_no_redirect_is_followed(tmp_path: Path) -> None:
    with ObjectServer() as other:

        async def leading_away(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if path == "/v1/medhelm/known":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            else:
                head = f"HTTP/1.1 307 Moved\r\nLocation: {other.url}/x?token=1\r\nContent-Length: 0\r\n\r\n"
                writer.write(head.encode())

        async def main() -> None:
            async with listening(leading_away) as url:
                with pytest.raises(ModelUnusable, match=rf"sent a redirect \(status 307\) to {other.url}/x\. "):
                    await ask(url, tmp_path, max_silence_s=600.0)

        asyncio.run(asyncio.wait_for(main(), 600))
        assert other.received == []


async def ask(url: str, folder: Path, *, max_silence_s: float) -> None:
    """Send a request through a gateway."""
    audit = AuditLog(folder / "audit.jsonl")
    try:
        policy = EgressPolicy(offline=True)
        remote = RemoteGateway(environment(url))
        async with remote.open_client(policy, Budget(), audit, max_silence_s) as client:
            provider = remote.open_providers([OUTSIDE], client, ["toy"])[OUTSIDE.name]
            await client.complete(provider, request())
    finally:
        audit.close()

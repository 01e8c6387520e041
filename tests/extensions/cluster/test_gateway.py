"""A gateway and its workers: addresses and tokens, results as in one process, and gateways that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from medhelm.domain import Completion, Failure, Request, Usage
from medhelm.errors import BudgetError, MedHelmError, MissingError, StoreFullError, UserError
from medhelm.extensions.cluster import gateway as worker
from medhelm.extensions.cluster import gateway_wire as wire
from medhelm.extensions.cluster.gateway import (
    NamedToken,
    RemoteGateway,
    Tokens,
    gateway_address,
    new_token_file,
    read_tokens,
)
from medhelm.io.http.egress import EgressPolicy
from medhelm.io.http.hosts import WORKER
from medhelm.models.budget import Budget
from medhelm.models.client import Client, ModelUnusable
from medhelm.models.gateway import GATEWAY_VARIABLE, remote_of
from medhelm.storage.audit import AuditLog
from tests.support.gateways import FINE, INSIDE, OUTSIDE, TOKEN, World, request, world
from tests.support.servers.objects import ObjectServer

OWN_TOKEN = "t" * 32


def variables(address: str, **more: str) -> dict[str, str]:
    return {"MEDHELM_GATEWAY": address, "MEDHELM_GATEWAY_TOKEN": OWN_TOKEN, **more}


def test_addresses() -> None:
    for address, url, socket_file, is_inside in (
        ("http://127.0.0.1:8643/", "http://127.0.0.1:8643", "", True),
        ("https://gate.hospital.example:8643/v1", "https://gate.hospital.example:8643", "", False),
        ("https://node7:8643", "https://node7:8643", "", True),
        ("unix:/run/g.sock", "http://localhost", "/run/g.sock", True),
    ):
        found = gateway_address(variables(address))
        assert (found.url, found.socket_file, found.token, found.is_inside) == (url, socket_file, OWN_TOKEN, is_inside)
        assert OWN_TOKEN not in repr(found) + str(found)


def test_a_port_needs_a_token_and_encryption_and_a_socket_file_does_not() -> None:
    with pytest.raises(MissingError, match="MEDHELM_GATEWAY_TOKEN_FILE"):
        gateway_address({"MEDHELM_GATEWAY": "http://127.0.0.1:8643"})
    with pytest.raises(UserError, match="unencrypted to another machine"):
        gateway_address(variables("http://node7:8643"))
    with pytest.raises(UserError, match="must begin with http"):
        gateway_address(variables("node7:8643"))
    assert gateway_address({"MEDHELM_GATEWAY": "unix:/g.sock"}).token == ""
    assert remote_of({"MEDHELM_GATEWAY": " "}) is None


def test_files_of_tokens(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    new_token_file(file)
    (made,) = read_tokens(file)
    new_token_file(file)
    assert read_tokens(file) == [made]
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text(f"# wards\nward7 {OWN_TOKEN}\n\n{made.token}\n", encoding="utf-8")
    found = read_tokens(file)
    assert found == [NamedToken("ward7", OWN_TOKEN), made]
    assert OWN_TOKEN not in repr(found)
    tokens = Tokens(found)
    assert [tokens.name_of(text) for text in (OWN_TOKEN, made.token, "", "x\udc80")] == ["ward7", "", None, None]
    used = {"MEDHELM_GATEWAY": "http://127.0.0.1:1", "MEDHELM_GATEWAY_TOKEN_FILE": str(file)}
    assert gateway_address(used).token == OWN_TOKEN


def test_wrong_files_of_tokens(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.touch(mode=0o600)
    for content, words in (
        ("", "holds no token"),
        ("short\n", "line 1: a token has at least 24"),
        (f"{OWN_TOKEN}\u00e9\n", "line 1: .* ASCII"),
    ):
        file.write_text(content, encoding="utf-8")
        with pytest.raises(UserError, match=words):
            read_tokens(file)
    file.chmod(0o640)
    with pytest.raises(UserError, match="chmod 600"):
        read_tokens(file)


# --- the results are those of a client in one process, and nothing is bought twice ------------------------------------

REFUSED = {OUTSIDE.name: ["api.openai.com"]}
"""Hosts that may not get private data."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


RICH = Completion(
    text="é \ud800?",
    finish_reason="stop",
    usage=Usage(input=9, cached_input=4, output=7, reasoning=2, cache_write=1),
    latency_s=1.5,
    refused_parameters=("seed", "stop"),
)


@pytest.mark.parametrize(
    "completion",
    [
        RICH,
        Completion(failure=Failure("provider", "refusal", "no"), finish_reason="content_filter", usage=Usage(input=9)),
    ],
)
async def test_a_worker_gets_what_a_client_in_one_process_gets(completion: Completion, folder: Path) -> None:
    async def answer(one: Request) -> Completion:
        return completion

    async with world(folder, answer) as here:
        direct = await Client(cache=None, budget=Budget()).complete(here.provider, request())
        async with here.running(), here.worker() as ask:
            first, second = await ask(request()), await ask(request())
    assert first == direct
    assert first.completion.received is not None
    assert (second.cached, second.requests_sent, second.cost_usd) == (True, 0, 0.0)
    if completion is not RICH:  # the cache keeps no lone surrogates
        assert second.completion == completion
    assert here.provider.asked == [request()] * 2


@pytest.mark.parametrize(
    "error", [BudgetError("stopped by the budget: 1 of 1"), ModelUnusable(OUTSIDE.name, "wrong key", 2)]
)
async def test_errors_are_those_of_a_client_in_one_process(error: MedHelmError, folder: Path) -> None:
    async def answer(one: Request) -> Completion:
        raise error

    async with world(folder, answer) as here, here.running(), here.worker() as ask:
        with pytest.raises(type(error)) as raised:
            await ask(request())
    assert (str(raised.value), raised.value.exit_code) == (str(error), error.exit_code)
    assert getattr(raised.value, "requests_sent", 0) == getattr(error, "requests_sent", 0)


async def test_without_an_entry_in_the_audit_log_nothing_leaves_the_worker(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreFullError("the disk is full")

    async with world(folder) as here, here.running() as gateway, here.worker() as ask:
        assert (await ask(request(1))).completion == FINE
        with monkeypatch.context() as patched:
            patched.setattr(AuditLog, "request_all", full)
            with pytest.raises(StoreFullError, match="the disk is full"):
                await ask(request(2))
        assert (await ask(request(3))).requests_sent == 1
        assert gateway.counts.requests == 2


async def test_equal_requests_of_two_workers_are_sent_once_and_a_worker_that_leaves_changes_nothing(
    folder: Path,
) -> None:
    go_on = asyncio.Event()

    async def answer(one: Request) -> Completion:
        await go_on.wait()
        return FINE

    async with world(folder, answer) as here, here.running() as gateway:
        async with here.worker() as ask:
            left = asyncio.ensure_future(ask(request(1)))
            while not here.provider.asked:
                await asyncio.sleep(0)
            left.cancel()
        async with here.worker() as one, here.worker() as two:
            both = asyncio.gather(one(request(1)), two(request(1)))
            while gateway.counts.in_flight < 3:
                await asyncio.sleep(0)
            go_on.set()
            results = await both
        assert [result.cached for result in results] == [True, True]
        assert len(here.provider.asked) == 1
        assert here.cache.find(request(1)) is not None
        async with here.client() as client:
            assert (client.is_known(request(1)), client.is_known(request(2))) == (True, False)


async def test_a_request_waits_for_the_next_gateway_and_is_not_bought_twice(folder: Path) -> None:
    async with world(folder) as here:
        stack = here.running()
        await stack.__aenter__()
        async with here.worker() as ask:
            first = await ask(request(1))
            await stack.__aexit__(None, None, None)
            waiting = asyncio.gather(ask(request(1)), ask(request(2)))
            await asyncio.sleep(0)
            async with here.running():
                again, new = await waiting
    assert (first.cached, again.cached, new.cached) == (False, True, False)
    assert len(here.provider.asked) == 2
    assert any("is lost" in note for note in here.notes)


async def test_data_that_is_not_public_needs_consent_for_hosts_outside(folder: Path) -> None:
    async with world(folder, without_consent=REFUSED) as here, here.running():
        async with here.worker(public=("toy",)) as ask:
            await ask(request())
        async with here.worker(public=()) as ask:
            await ask(request(1, INSIDE))
            with pytest.raises(UserError, match=r"toy is not public .* --allow-host api\.openai\.com"):
                await ask(request(2))
        async with here.worker(public=("toy", "ward", "")) as ask:  # and only the catalog says what is public
            for benchmark in ("ward", ""):
                with pytest.raises(UserError, match=r"--allow-host api\.openai\.com"):
                    await ask(replace(request(), benchmark=benchmark))
    assert [one.model.name for one in here.provider.asked] == [OUTSIDE.name, INSIDE.name]


async def test_a_removed_token_is_refused_at_once(folder: Path) -> None:
    """By a connection that is open too; a file that cannot be read changes nothing."""
    file = folder / "tokens"
    first, second = "one" * 10, "two" * 10

    def accept(text: str, mode: int = 0o600) -> None:
        file.unlink(missing_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(mode)

    accept(f"a {first}\nb {second}\n")
    async with world(folder) as here, here.running() as gateway:
        tokens = Tokens(read_tokens(file), file, here.notes.append)
        gateway._access = replace(gateway._access, tokens=tokens)

        async def status(token: str) -> int:
            return (await post(here, "/v1/chat/completions", CHAT, Authorization=f"Bearer {token}"))[0]

        connector = aiohttp.UnixConnector(str(folder / "g.sock"))
        headers = {"Authorization": f"Bearer {first}"}
        async with (
            aiohttp.ClientSession(connector=connector, headers=headers) as session,
            session.ws_connect(f"http://localhost{wire.REQUESTS_PATH}") as socket,
        ):
            text = wire.write_request(request(), wire.tag_of(OUTSIDE), public=True)
            await socket.send_str(f'[{{"id":1,{text}]')
            assert "yes" in (await socket.receive()).data
            accept(f"b {second}\n", 0o644)
            assert [await status(first), await status(second)] == [200, 200]
            accept(f"b {second}\n")
            assert [await status(first), await status(second)] == [401, 200]
            await socket.send_str(f'[{{"id":2,{text}]')
            assert (await socket.receive()).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
        assert "other users can read" in here.notes[0]
        assert "1 token is accepted" in here.notes[1]


# --- HTTP -------------------------------------------------------------------------------------------------------------

CHAT = {"model": OUTSIDE.name, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5}


async def post(here: World, path: str, content: object, **headers: str) -> tuple[int, dict[str, Any]]:
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(here.folder / "g.sock"))) as session:
        body = {"data": content} if isinstance(content, bytes) else {"json": content}
        async with session.post(f"http://localhost{path}", headers=headers, **body) as response:
            return response.status, await response.json()


async def test_other_tools_use_the_chat_api(folder: Path) -> None:
    names: list[str] = []

    async def answer(one: Request) -> Completion:
        names.append(WORKER.get())
        return FINE

    async with world(folder, answer, tokens=True, without_consent=REFUSED) as here, here.running():
        right = {"Authorization": f"Bearer {TOKEN}"}
        for headers, status, code in (
            ({}, 401, "bad_token"),
            ({"Authorization": "Bearer x"}, 401, "bad_token"),
            (right, 403, "not_allowed"),
        ):
            refused = await post(here, "/v1/chat/completions", CHAT, **headers)
            assert (refused[0], refused[1]["error"]["code"]) == (status, code)
        public = {**right, "X-MedHELM-Data": "public"}
        status, found = await post(here, "/v1/chat/completions", CHAT, **public)
        again = await post(here, "/v1/chat/completions", CHAT, **public)
    assert (status, found["choices"][0]["message"]["content"]) == (200, "yes")
    assert found["medhelm"]["cost_usd"] == pytest.approx(106e-6)
    assert (again[1]["medhelm"]["cached"], names) == (True, ["ward"])


async def test_wrong_requests_are_named_and_end_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MOST_BYTES", 1000)
    chat = "/v1/chat/completions"
    wrong: list[tuple[str, object, int, str]] = [
        (chat, b"{", 400, "not JSON"),
        (chat, {**CHAT, "model": "openai/other"}, 404, "Served: openai/m, openai/near"),
        (chat, b"x" * 5000, 413, "longer than"),
        (wire.MODELS_PATH, {"models": [], "format": 9}, 400, "same version"),
        (wire.MODELS_PATH, {"models": ["x"], "format": 1}, 404, "`x`: not served"),
    ]
    async with world(folder) as here, here.running():
        for path, content, status, words in wrong:
            found, body = await post(here, path, content)
            assert (found, words in body["error"]["message"]) == (status, True), body
        connector = aiohttp.UnixConnector(str(folder / "g.sock"))
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.ws_connect(f"http://localhost{wire.REQUESTS_PATH}") as socket,
        ):
            await socket.send_str('[{"id": "x"}]')
            assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
    assert not here.provider.asked
    assert here.notes == []


async def test_a_bug_is_reported_by_its_type_alone(folder: Path) -> None:
    async def answer(one: Request) -> Completion:
        raise RuntimeError("Is patient 0 called Ada?")

    async with world(folder, answer) as here, here.running(), here.worker() as ask:
        with pytest.raises(ModelUnusable, match="internal error of the gateway \\(RuntimeError\\)"):
            await ask(request())
        assert (await post(here, "/v1/chat/completions", CHAT))[0] == 500
    assert here.notes == ["internal error: RuntimeError"] * 2


# --- gateways that never answer, answer slowly, close the connection, or lead elsewhere -------------------------------

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

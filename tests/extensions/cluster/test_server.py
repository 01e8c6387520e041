"""A gateway and its workers: the results are those of a client in one process, and nothing is bought twice."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from medhelm.domain import Completion, Failure, Request, Usage
from medhelm.errors import BudgetError, MedHelmError, StoreFullError, UserError
from medhelm.extensions.cluster import gateway_wire as wire
from medhelm.extensions.cluster.gateway import Tokens, read_tokens
from medhelm.io.http.hosts import WORKER
from medhelm.models.budget import Budget
from medhelm.models.client import Client, ModelUnusable
from medhelm.storage.audit import AuditLog
from tests.support.gateways import FINE, INSIDE, OUTSIDE, TOKEN, World, request, world

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

"""A gateway and its workers: the results are those of a client in one process, and nothing is bought twice."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from medhelm.domain import Completion, Failure, Request, Usage
from medhelm.errors import BudgetError, MedHelmError, ProviderError, StoreError, StoreFullError, UserError
from medhelm.extensions.cluster import gateway_wire as wire
from medhelm.extensions.cluster.gateway import Tokens, read_tokens
from medhelm.io.http.hosts import WORKER
from medhelm.models.budget import Budget
from medhelm.models.client import Client, ModelUnusable, SendingLimits
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
    reported_model="m-1",
    fingerprint="fp",
    refused_parameters=("seed", "stop"),
)


@pytest.mark.parametrize(
    "completion",
    [
        FINE,
        RICH,
        Completion(text=""),
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
    "error",
    [
        BudgetError("stopped by the budget: 1 of 1"),
        StoreError("cannot write"),
        StoreFullError("the disk is full"),
        UserError("api.openai.com may not be reached"),
        ModelUnusable(OUTSIDE.name, "wrong key", 2),
    ],
)
async def test_errors_are_those_of_a_client_in_one_process(error: MedHelmError, folder: Path) -> None:
    async def answer(one: Request) -> Completion:
        raise error

    async with world(folder, answer) as here, here.running(), here.worker() as ask:
        with pytest.raises(type(error)) as raised:
            await ask(request())
    assert str(raised.value) == str(error)
    assert getattr(raised.value, "requests_sent", 0) == getattr(error, "requests_sent", 0)
    assert raised.value.exit_code == error.exit_code


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


async def test_requests_in_flight_finish_when_the_gateway_stops_and_new_ones_do_not_start(folder: Path) -> None:
    go_on = asyncio.Event()

    async def answer(one: Request) -> Completion:
        await go_on.wait()
        return FINE

    async with world(folder, answer, options={"limits": SendingLimits(start=1, maximum=1)}) as here:
        stack = here.running()
        gateway = await stack.__aenter__()
        async with here.worker(max_silence_s=0.5) as ask:
            flying, queued = asyncio.ensure_future(ask(request(1))), asyncio.ensure_future(ask(request(2)))
            while gateway.counts.in_flight < 2:
                await asyncio.sleep(0)
            stopping = asyncio.ensure_future(stack.__aexit__(None, None, None))
            await asyncio.sleep(0)
            go_on.set()
            await stopping
            assert (await flying).completion == FINE
            with pytest.raises(ModelUnusable, match="cannot be reached"):
                await queued
    assert len(here.provider.asked) == 1


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


async def test_a_worker_knows_what_was_bought_before_and_since(folder: Path) -> None:
    async with world(folder) as here, here.running():
        async with here.worker() as ask:
            for number in range(20):
                await ask(request(number))
        async with here.client() as client:
            assert all(client.is_known(request(number)) for number in range(20))
            assert not client.is_known(request(20))


async def test_a_model_that_was_given_up_is_tried_again_for_the_next_worker(folder: Path) -> None:
    errors: list[Exception] = [ProviderError("bad_key", "wrong key", fatal=True)]

    async def answer(one: Request) -> Completion:
        if errors:
            raise errors.pop()
        return FINE

    async with world(folder, answer) as here, here.running(), here.worker() as ask:
        for _ in range(2):
            with pytest.raises(ModelUnusable, match="wrong key"):
                await ask(request())
        assert len(here.provider.asked) == 1
        await post(here, wire.MODELS_PATH, {"format": wire.FORMAT, "models": [OUTSIDE.name]})
        assert (await ask(request())).completion == FINE


async def test_a_changed_definition_is_noticed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(folder) as here, here.running():
        monkeypatch.setattr(wire, "tag_of", lambda model: "f" * 16)
        async with here.worker() as ask:
            with pytest.raises(ModelUnusable, match="has changed since the command started"):
                await ask(request())
    assert not here.provider.asked


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

    async with (
        world(folder, answer, tokens=True, without_consent=REFUSED) as here,
        here.running(),
    ):
        right = {"Authorization": f"Bearer {TOKEN}"}
        assert (await post(here, "/v1/chat/completions", CHAT))[0] == 401
        wrong = await post(here, "/v1/chat/completions", CHAT, Authorization="Bearer x")
        assert (wrong[0], wrong[1]["error"]["code"]) == (401, "bad_token")
        status, refused = await post(here, "/v1/chat/completions", CHAT, **right)
        assert (status, refused["error"]["code"]) == (403, "not_allowed")
        public = {**right, "X-MedHELM-Data": "public"}
        status, found = await post(here, "/v1/chat/completions", CHAT, **public)
        again = await post(here, "/v1/chat/completions", CHAT, **public)
    assert (status, found["choices"][0]["message"]["content"]) == (200, "yes")
    assert found["medhelm"]["cost_usd"] == pytest.approx(106e-6)
    assert again[1]["medhelm"]["cached"]
    assert names == ["ward"]


@pytest.mark.parametrize(
    ("path", "content", "status", "words"),
    [
        ("/v1/chat/completions", b"{", 400, "not JSON"),
        ("/v1/chat/completions", [], 400, "must be a JSON object"),
        ("/v1/chat/completions", {**CHAT, "model": "openai/other"}, 404, "Served: openai/m, openai/near"),
        ("/v1/chat/completions", {**CHAT, "stream": True}, 400, "`stream` must be false"),
        ("/v1/chat/completions", b"x" * 5000, 413, "longer than"),
        (wire.MODELS_PATH, b"\xff", 400, "not JSON"),
        (wire.MODELS_PATH, {"models": "m", "format": 1}, 400, "must be a list of names"),
        (wire.MODELS_PATH, {"models": [], "format": 9}, 400, "same version"),
        (wire.MODELS_PATH, {"models": ["x"], "format": 1}, 404, "`x`: not served"),
        ("/elsewhere", {}, 404, "Not Found"),
    ],
)
async def test_wrong_requests_are_named_and_end_nothing(
    path: str, content: object, status: int, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if status == 413:
        monkeypatch.setattr(wire, "MOST_BYTES", 1000)
    async with world(folder) as here, here.running():
        found, body = await post(here, path, content)
        assert found == status
        assert words in body["error"]["message"]
    assert not here.provider.asked
    assert here.notes == []


@pytest.mark.parametrize("text", ["{", "{}", '[{"id": "x"}]', "[1]"])
async def test_a_worker_that_sends_something_else_is_disconnected(text: str, folder: Path) -> None:
    async with world(folder) as here, here.running():
        connector = aiohttp.UnixConnector(str(folder / "g.sock"))
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.ws_connect(f"http://localhost{wire.REQUESTS_PATH}") as socket,
        ):
            await socket.send_str(text)
            assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
            assert socket.close_code == aiohttp.WSCloseCode.UNSUPPORTED_DATA


async def test_a_bug_is_reported_by_its_type_alone(folder: Path) -> None:
    async def answer(one: Request) -> Completion:
        raise RuntimeError("Is patient 0 called Ada?")

    async with world(folder, answer) as here, here.running(), here.worker() as ask:
        with pytest.raises(ModelUnusable, match="internal error of the gateway \\(RuntimeError\\)"):
            await ask(request())
        assert (await post(here, "/v1/chat/completions", CHAT))[0] == 500
    assert here.notes == ["internal error: RuntimeError"] * 2

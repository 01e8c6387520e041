"""The pool of actors, with actors in this process: where calls go, and what is sent again when actors are lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

import medhelm
from medhelm.domain import Completion, Message, Model, Prompt, Request
from medhelm.errors import ProviderError
from medhelm.extensions.cluster.ray import ClusterModel, ClusterPool, WorkerDescription, WorkerFailure, WorkerResult
from medhelm.io.http.hosts import Subject

MODEL = Model(name="ward/x", provider="ward", remote_name="x")


class RayError(Exception):
    """The base of Ray's exceptions."""


class CallError(RayError):
    """An exception in a method of an actor."""


class FakeActor:
    """An actor in this process. `complete` runs `act`; the actor is lost when that raises RayError."""

    def __init__(
        self,
        act: Callable[[str], Awaitable[Any]],
        *,
        host: str = "127.0.0.1",
        version: str = medhelm.__version__,
        starts: bool = True,
    ) -> None:
        self.held: list[str] = []
        self.most = 0
        self.n_starts = 0
        self._act = act
        self._description = WorkerDescription(host, version)
        self._starts = starts
        self.describe = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=self._describe))
        self.complete = SimpleNamespace(remote=self._complete)
        self.compute = SimpleNamespace()

    async def _describe(self) -> WorkerDescription:
        self.n_starts += 1
        if not self._starts:
            raise RayError("a report of Ray\n  ModuleNotFoundError: no module")
        return self._description

    async def _complete(self, request: Request, seed: int) -> Any:
        text = request.prompt.messages[-1].text
        self.held.append(text)
        self.most = max(self.most, len(self.held))
        try:
            return WorkerResult(await self._act(text), (f"a note about {seed}",))
        finally:
            self.held.remove(text)


async def echo(text: str) -> Completion:
    await asyncio.sleep(0)
    return Completion(text=text, finish_reason="stop")


class Lossy:
    """Completes texts; every actor that gets "poison" is lost with all that it holds."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self._lost = asyncio.Event()

    async def __call__(self, text: str) -> Completion:
        self.sent.append(text)
        if text == "poison":
            lost, self._lost = self._lost, asyncio.Event()
            lost.set()
            raise RayError("the actor died")
        lost = self._lost
        for _ in range(3):
            await asyncio.sleep(0)
        if lost.is_set():
            raise RayError("the actor died")
        return await echo(text)


def request(text: str) -> Request:
    return Request(model=MODEL, prompt=Prompt((Message("user", text),)), max_tokens=5)


def play(
    actors: Callable[[], Sequence[FakeActor]], act: Callable[[ClusterPool], Coroutine[Any, Any, Any]], audit: Any = None
) -> tuple[Any, list[str]]:
    """Run `act` with a pool of these actors; return its result and the notes."""
    notes: list[str] = []

    async def run() -> Any:
        pool = ClusterPool(
            actors(), errors={"call": CallError, "ray": RayError}, shutdown=lambda: None, note=notes.append, audit=audit
        )
        try:
            return await act(pool)
        finally:
            await pool.close()

    return asyncio.run(run()), notes


def of_pool(notes: Sequence[str]) -> list[str]:
    """Return the notes without those of actors."""
    return [text for text in notes if not text.startswith("a note about")]


async def complete_all(pool: ClusterPool, texts: Sequence[str]) -> list[Any]:
    model = ClusterModel(MODEL, pool, 0)
    return await asyncio.gather(*(model.complete(request(text)) for text in texts), return_exceptions=True)


def test_calls_are_shared_evenly() -> None:
    found = [FakeActor(echo) for _ in range(3)]
    texts = [str(n) for n in range(60)]
    completions, notes = play(lambda: found, lambda pool: complete_all(pool, texts))
    assert [each.text for each in completions] == texts
    assert notes == ["a note about 0"]
    assert all(actor.most <= 20 for actor in found)


def test_what_a_lost_actor_held_is_sent_again_and_only_the_request_that_ends_actors_fails() -> None:
    texts = [*map(str, range(10)), "poison", *map(str, range(10, 20))]
    sent: list[str] = []

    def actors() -> list[FakeActor]:
        acts = [Lossy() for _ in range(3)]
        for one in acts:
            one.sent = sent
        return [FakeActor(one) for one in acts]

    completions, notes = play(actors, lambda pool: complete_all(pool, texts))
    (failed,) = [each for each in completions if isinstance(each, Exception)]
    assert isinstance(failed, ProviderError)
    assert (failed.code, failed.fatal, failed.retryable) == ("actor_lost", False, False)
    assert [each.text for each in completions if each is not failed] == [text for text in texts if text != "poison"]
    assert sent.count("poison") == 3
    assert of_pool(notes) == ["an actor on node 127.0.0.1 was lost. What it held is sent to another one."] * 3


def test_a_call_that_was_lost_twice_is_sent_alone() -> None:
    """The third loss of the request costs no other one."""
    at_poison: list[list[str]] = []

    async def act(text: str) -> Completion:
        if text == "poison":
            at_poison.append([one for one in actor.held if one != "poison"])
            raise RayError("the actor died")
        for _ in range(20):
            await asyncio.sleep(0)
        return await echo(text)

    actor = FakeActor(act)
    completions, _ = play(lambda: [actor], lambda pool: complete_all(pool, ["poison", "1", "2", "3"]))
    assert at_poison[-1] == []
    assert [each.text for each in completions[1:]] == ["1", "2", "3"]


def test_scores_leave_room_for_completions() -> None:
    gate = asyncio.Event()
    n_held = []

    async def compute(name: str) -> WorkerResult:
        n_held.append(name)
        await gate.wait()
        return WorkerResult(name)

    async def act(pool: ClusterPool) -> tuple[list[Any], list[Any]]:
        calls = [pool.call("compute", str(n), subject=Subject(), n_bytes=0) for n in range(50)]
        scores = asyncio.ensure_future(asyncio.gather(*calls))
        completions = await complete_all(pool, ["1", "2", "3"])
        assert len(n_held) == 4
        gate.set()
        return completions, await scores

    actor = FakeActor(echo)
    actor.compute = SimpleNamespace(remote=compute)
    (completions, scores), _ = play(lambda: [actor], act)
    assert [each.text for each in completions] == ["1", "2", "3"]
    assert scores == [str(n) for n in range(50)]


def test_errors_of_a_model_are_those_of_one_process() -> None:
    async def fail(text: str) -> WorkerFailure:
        return WorkerFailure(text, "too long", retryable=False, fatal=text == "not_loaded")

    texts = ["context_length", "not_loaded"]
    completions, notes = play(lambda: [FakeActor(fail)], lambda pool: complete_all(pool, texts))
    assert [(each.code, str(each), each.fatal) for each in completions] == [
        ("context_length", "too long", False),
        ("not_loaded", "too long", True),
    ]
    assert of_pool(notes) == []


def test_an_exception_in_an_actor_fails_one_request() -> None:
    async def fail(text: str) -> Completion:
        raise CallError("a report of Ray\nKeyError: 'x'")

    (failed,), notes = play(lambda: [FakeActor(fail)], lambda pool: complete_all(pool, ["1"]))
    assert (failed.code, str(failed)) == ("broken", "on node 127.0.0.1: KeyError: 'x'")
    assert of_pool(notes) == []


@pytest.mark.parametrize(
    ("actor", "reason"),
    [
        (FakeActor(echo, starts=False), "ModuleNotFoundError: no module"),
        (FakeActor(echo, version="0.0.1"), f"node 127.0.0.1 has medhelm 0.0.1, not {medhelm.__version__}"),
    ],
)
def test_actors_that_cannot_start_are_left_out(actor: FakeActor, reason: str) -> None:
    (completion,), notes = play(lambda: [actor, FakeActor(echo)], lambda pool: complete_all(pool, ["1"]))
    assert completion.text == "1"
    assert of_pool(notes) == [f"an actor cannot start and is left out: {reason}"]
    (failed,), notes = play(lambda: [actor], lambda pool: complete_all(pool, ["1"]))
    assert isinstance(failed, ProviderError)
    assert failed.fatal
    assert reason in str(failed)


def test_calls_are_in_the_audit_log() -> None:
    class Notes:
        requests: list[tuple[Any, ...]] = []  # noqa: RUF012 - one object

        async def request(self, *entry: Any) -> None:
            self.requests.append(entry)

    play(lambda: [FakeActor(echo, host="10.0.0.7")], lambda pool: complete_all(pool, ["naïve"]), Notes())
    assert Notes.requests == [("CALL", "ray-actor://10.0.0.7", "", Subject("ward/x"), 6)]


def test_a_cancelled_call_gives_its_place_back() -> None:
    gate = asyncio.Event()

    async def wait(text: str) -> Completion:
        if text == "first":
            await gate.wait()
        return await echo(text)

    async def act(pool: ClusterPool) -> list[Any]:
        task = asyncio.create_task(complete_all(pool, ["first"]))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return await complete_all(pool, ["1", "2"])

    completions, _ = play(lambda: [FakeActor(wait)], act)
    assert [each.text for each in completions] == ["1", "2"]


def test_a_closed_pool_refuses_calls() -> None:
    async def act(pool: ClusterPool) -> list[Any]:
        await pool.close()
        return await complete_all(pool, ["1"])

    (failed,), _ = play(lambda: [FakeActor(echo)], act)
    assert failed.code == "closed"

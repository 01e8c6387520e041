"""A Ray cluster: how it is joined, which actor computes what, and what a worker does."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

import medhelm
from medhelm.domain import Completion, Failure, Instance, Message, Model, Prompt, Reference, Request, Score
from medhelm.errors import ProviderError, UserError
from medhelm.extensions.cluster.ray import (
    ClusterModel,
    ClusterPool,
    ClusterUse,
    ClusterWorker,
    RayCluster,
    WorkerDescription,
    WorkerFailure,
    WorkerResult,
    check_loopback,
    check_machines,
    find_cluster,
    planned_actors,
)
from medhelm.io.http.egress import AdministratorRules, EgressPolicy, HostList
from medhelm.io.http.hosts import Subject
from medhelm.models.catalog import find_models
from medhelm.models.providers import SERVICES
from medhelm.scoring.metric import Metric, apply
from medhelm.scoring.metrics import METRICS
from tests.extensions.local.test_loading import write
from tests.support.plugins import Install

USE = ClusterUse(["hf/x"], ["bertscore"], [])
PRIVATE = ClusterUse(["hf/x"], [], ["mimic_rrs"])
HEAD, NODES = "10.0.0.5:6379", ["10.0.0.5", "10.0.0.6"]


def test_auto_is_the_cluster_of_the_environment_then_of_this_machine(tmp_path: Path) -> None:
    assert find_cluster(HEAD, {"RAY_ADDRESS": "ray://elsewhere:1"}) == HEAD
    assert find_cluster("auto", {"RAY_ADDRESS": HEAD}) == HEAD
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(f"{HEAD}\n", encoding="utf-8")
    assert find_cluster("auto", {"RAY_TMPDIR": str(tmp_path)}) == HEAD


def test_an_address_without_a_cluster_is_refused(tmp_path: Path) -> None:
    for address, words in (
        ("auto", "this machine belongs to no Ray cluster"),
        ("ray://10.0.0.5:10001", "ray job submit -- medhelm run ... --cluster auto"),
        ("http://10.0.0.5:1", "write `auto` or HOST:PORT"),
    ):
        with pytest.raises(UserError, match=re.escape(words)) as caught:
            find_cluster(address, {"RAY_TMPDIR": str(tmp_path)})
        assert "Nothing was sent." in str(caught.value)


def check(
    use: ClusterUse = USE, *, offline: bool = False, allow: HostList | None = None, consent: Sequence[str] = ()
) -> str:
    """Return why the machines are refused; "" if they are not."""
    policy = EgressPolicy(offline)
    policy.rules = AdministratorRules("egress.yaml", allow, HostList.of(("10.0.0.6",))) if allow else None
    try:
        check_machines(HEAD, NODES, use, policy, consent)
    except UserError as error:
        return str(error)
    return ""


def test_a_cluster_that_other_machines_reach_needs_a_token() -> None:
    check_loopback("127.0.0.1:6379", ["127.0.0.1"])
    for address, nodes in ((HEAD, NODES), ("127.0.0.1:6379", NODES)):  # the second is reached at 127.0.0.1, too
        with pytest.raises(UserError, match="requires no token"):
            check_loopback(address, nodes)


def test_the_egress_policy_holds_for_the_machines_of_a_cluster() -> None:
    assert check() == ""
    assert "offline mode allows this machine only" in check(offline=True)
    check_machines("127.0.0.1:6379", ["127.0.0.1"], PRIVATE, EgressPolicy(offline=True), ())
    assert check(allow=HostList.of(["10.0.0.0/8"])) == ""
    assert "10.0.0.5 may not be reached" in check(allow=HostList.of(["10.0.0.6"]))


def test_private_data_needs_consent_for_the_head() -> None:
    message = check(PRIVATE)
    assert "mimic_rrs, to the cluster 10.0.0.5:6379 (10.0.0.5 and 10.0.0.6), for hf/x" in message
    assert "--allow-host 10.0.0.5" in message
    assert check(PRIVATE, consent=("10.0.0.5",)) == ""
    allowed = check(PRIVATE, allow=HostList.of(["10.0.0.0/8"]))  # the administrator permits 10.0.0.6 alone
    assert "(10.0.0.5)" in allowed


@pytest.mark.parametrize(
    ("nodes", "number", "expected"),
    [
        ([{"CPU": 8, "GPU": 4}, {"CPU": 8}], None, (4, {"num_gpus": 1.0})),
        ([{"CPU": 8, "GPU": 1}], 3, (3, {"num_gpus": 1 / 3})),
        ([{"CPU": 8}, {"CPU": 4}, {"memory": 1e9}], None, (2, {"num_cpus": 4})),
        ([{"CPU": 8}, {"CPU": 8}], 5, (5, {"num_cpus": 2})),
    ],
)
def test_actors_share_the_gpus_or_else_the_cpus(
    nodes: list[dict[str, float]], number: int | None, expected: tuple[int, dict[str, float]]
) -> None:
    assert planned_actors(nodes, number) == expected
    with pytest.raises(UserError, match="an actor needs one"):
        planned_actors([{"CPU": 2.0}], 3)


# --- the pool of actors -----------------------------------------------------------------------------------------------

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
        self._act = act
        self._description = WorkerDescription(host, version)
        self._starts = starts
        self.describe = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=self._describe))
        self.complete = SimpleNamespace(remote=self._complete)

    async def _describe(self) -> WorkerDescription:
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


def test_calls_are_shared_evenly_and_a_closed_pool_refuses_them() -> None:
    found = [FakeActor(echo) for _ in range(3)]
    texts = [str(n) for n in range(60)]

    async def act(pool: ClusterPool) -> tuple[list[Any], list[Any]]:
        completions = await complete_all(pool, texts)
        await pool.close()
        return completions, await complete_all(pool, ["1"])

    (completions, (refused,)), notes = play(lambda: found, act)
    assert [each.text for each in completions] == texts
    assert refused.code == "closed"
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


def test_errors_of_a_model_are_those_of_one_process_and_exceptions_fail_one_request() -> None:
    async def fail(text: str) -> WorkerFailure:
        if text == "exception":
            raise CallError("a report of Ray\nKeyError: 'x'")
        return WorkerFailure(text, "too long", retryable=False, fatal=text == "not_loaded")

    texts = ["context_length", "not_loaded", "exception"]
    failed, notes = play(lambda: [FakeActor(fail)], lambda pool: complete_all(pool, texts))
    assert [(each.code, str(each), each.fatal) for each in failed] == [
        ("context_length", "too long", False),
        ("not_loaded", "too long", True),
        ("broken", "on node 127.0.0.1: KeyError: 'x'", False),
    ]
    assert of_pool(notes) == []


def test_actors_that_cannot_start_are_left_out() -> None:
    actors = [FakeActor(echo, starts=False), FakeActor(echo, version="0.0.1")]
    (completion,), notes = play(lambda: [*actors, FakeActor(echo)], lambda pool: complete_all(pool, ["1"]))
    assert completion.text == "1"
    assert of_pool(notes) == [
        "an actor cannot start and is left out: ModuleNotFoundError: no module",
        f"an actor cannot start and is left out: node 127.0.0.1 has medhelm 0.0.1, not {medhelm.__version__}",
    ]
    (failed,), _ = play(lambda: actors, lambda pool: complete_all(pool, ["1"]))
    assert isinstance(failed, ProviderError)
    assert failed.fatal


def test_calls_are_in_the_audit_log() -> None:
    audit = AsyncMock()
    play(lambda: [FakeActor(echo, host="10.0.0.7")], lambda pool: complete_all(pool, ["naïve"]), audit)
    audit.request.assert_awaited_once_with("CALL", "ray-actor://10.0.0.7", "", Subject("ward/x"), 6)


PLUGIN = """
from medhelm.scoring.metric import Metric

NEURAL = Metric(
    name="ward_length",
    title="Length",
    description="In place of a neural network's number.",
    source="This test",
    corrected=lambda completion, instance: min(1.0, len(completion) / 10),
    slow=True,
    neural=True,
)
"""

INSTANCE = Instance(id="1", fields={"question": "why?"}, references=(Reference("because"),))


class FakeCluster:
    """Computes in this process."""

    size = 1

    def __init__(self, error: ProviderError | None = None) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._error = error

    async def call(self, method: str, *arguments: Any, subject: Subject, n_bytes: int) -> Any:
        if self._error:
            raise self._error
        function, *rest = arguments
        self.calls.append((method, rest[0], subject, n_bytes))
        module, _, name = function.partition(":")
        return getattr(import_module(f"medhelm.{module}"), name)(*rest)

    async def close(self) -> None:
        return


def score(cluster: FakeCluster, metrics: list[Metric], completion: Completion) -> tuple[Score, ...]:
    return asyncio.run(RayCluster(cluster).apply(metrics, INSTANCE, completion, Subject("m", "b")))


def test_scores_are_those_of_one_process(install: Install) -> None:
    install("ward", PLUGIN, metrics={"ward_length": "NEURAL"})
    metrics = [METRICS["rouge_l"], METRICS["ward_length"], METRICS["exact_match"]]
    failed, said = Completion(failure=Failure("provider", "timeout", "late")), Completion(text="because of it")
    cluster = FakeCluster()
    assert score(cluster, metrics, failed) == apply(metrics, INSTANCE, failed)
    assert score(cluster, metrics[::2], said) == apply(metrics[::2], INSTANCE, said)
    assert cluster.calls == [], "nothing is sent without a completion or neural metrics"
    assert score(cluster, metrics, said) == apply(metrics, INSTANCE, said)
    assert cluster.calls == [("compute", ["ward_length"], Subject("m", "b"), len("because of itbecausewhy?"))]
    found = score(FakeCluster(ProviderError("actor_lost", "3 actors were lost")), metrics, said)
    missing = {(each.metric, each.failure) for each in found if each.value is None}
    assert missing == {("ward_length", Failure("metric", "not_computed", "3 actors were lost"))}


# --- a worker ---------------------------------------------------------------------------------------------------------

WORKER_PLUGIN = """
from medhelm.domain import Completion
from medhelm.errors import ProviderError
from medhelm.models.provider import Provider

opened = []


class Engine(Provider):
    endpoint = "ward"

    async def complete(self, request):
        if request.max_tokens == 1:
            raise ProviderError("context_length", "together the model can hold 100")
        return Completion(text=request.prompt.messages[-1].text.upper(), finish_reason="stop")


def open_engine(model, context):
    opened.append(model.name)
    context.resources.note("ward/x has no chat template")
    return Engine()
"""

WARD = Model(name="ward/x", provider="ward", remote_name="x")


def completed(*requests: Request) -> list[Completion | WorkerFailure]:
    async def act() -> list[Completion | WorkerFailure]:
        worker = ClusterWorker(host="10.0.0.7")
        return [(await worker.complete(worker_request, 0)).value for worker_request in requests]

    return asyncio.run(act())


def worker_request(model: Model, text: str = "a", max_tokens: int = 5) -> Request:
    return Request(model=model, prompt=Prompt((Message("user", text),)), max_tokens=max_tokens)


def test_a_model_is_opened_once_and_its_errors_are_returned(install: Install) -> None:
    module = install("ward", WORKER_PLUGIN, providers={"ward": "open_engine"})
    found = completed(worker_request(WARD, "a"), worker_request(WARD, "b"), worker_request(WARD, max_tokens=1))
    assert found[:2] == [Completion(text="A", finish_reason="stop"), Completion(text="B", finish_reason="stop")]
    # The message is that of one process, because the size of the window is read from it.
    assert found[2] == WorkerFailure("context_length", "together the model can hold 100", retryable=False, fatal=False)
    assert __import__(module).opened == ["ward/x"]

    async def notes() -> list[tuple[str, ...]]:
        worker = ClusterWorker(host="10.0.0.7")
        return [(await worker.complete(worker_request(WARD), 0)).notes for _ in range(2)]

    assert asyncio.run(notes()) == [("ward/x has no chat template",), ()]
    assert [SERVICES[name].on_cluster for name in ("ward", "hf", "openai")] == [False, True, False]


def test_other_weights_than_those_of_the_run_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "m", max_position_embeddings=2048)
    (model,) = find_models([f"hf/{folder}"], file=None, environment={})
    versions = [{"version": "another"}, {}]
    for found in completed(*(worker_request(replace(model, parameters=parameters)) for parameters in versions)):
        assert isinstance(found, WorkerFailure)
        assert (found.code, found.fatal) == ("not_loaded", True)
        assert found.message.startswith(f"on node 10.0.0.7: hf/{folder}: the version of its files is ")
        assert "Copy the same files" in found.message
    (missing,) = completed(worker_request(Model(name="hf/x", provider="hf", remote_name=str(tmp_path / "nowhere"))))
    assert isinstance(missing, WorkerFailure)
    assert (missing.code, missing.fatal) == ("not_started", True)

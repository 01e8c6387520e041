"""The client and a service that misbehaves: what becomes of a request, and how many were sent for it.

Time is simulated, except where a cache works in its thread: there nothing waits.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import re
import socket
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.domain import Completion, Failure, Message, Model, Price, Prompt, Request, Usage
from medhelm.errors import BudgetError, MedHelmError, ProviderError, StoreError, StoreFullError, UserError
from medhelm.models import cache as cache_module
from medhelm.models.budget import Budget, largest_cost_usd
from medhelm.models.cache import Cache
from medhelm.models.client import EXHAUSTED_IN_A_ROW, Client, ClientResult, ModelUnusable, SendingLimits, Timing
from medhelm.models.provider import BilledError, Provider
from tests.support import virtual_time
from tests.support.models.providers import with_provider
from tests.support.servers.openai import Answer, Server
from tests.support.servers.vendors import KEYS, OPENAI
from tests.support.virtual_time import VirtualTimeLoop

run_test = virtual_time.run

MODEL = Model(name="test/m", provider="test", remote_name="m", price=Price(input=1.0, output=2.0))
OTHER = Model(name="test/other", provider="test", remote_name="o")
FINE = Completion(text="yes", usage=Usage(input=1_000_000, output=1_000_000))
DOLLARS = 3.0
"""What it costs."""

Outcome = Completion | Exception


def request(number: int = 0, model: Model = MODEL) -> Request:
    prompt = Prompt((Message("user", f"Is patient {number} called Ada?"),))
    return Request(model=model, prompt=prompt, max_tokens=1, sample=number)


def error(code: str = "server_error", *, retryable: bool = True, **how: Any) -> ProviderError:
    return ProviderError(code, "not now", retryable=retryable, **how)


def busy(retry_after_s: float | None = None) -> ProviderError:
    return error("rate_limit", overloaded=True, retry_after_s=retry_after_s)


class Scripted(Provider):
    """A service that does what a test says: `answer` returns a completion or an error for each request."""

    def __init__(
        self, answer: Callable[[Request], Outcome | Awaitable[Outcome]], *, local: bool = False, endpoint: str = "here"
    ) -> None:
        self.answer, self.local, self.endpoint = answer, local, endpoint
        self.asked: list[int] = []
        self.in_flight = self.most_in_flight = 0

    async def complete(self, request: Request) -> Completion:
        self.asked.append(request.sample)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(0)
            outcome = self.answer(request)
            outcome = await outcome if inspect.isawaitable(outcome) else outcome
        finally:
            self.in_flight -= 1
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def in_turn(*outcomes: Outcome) -> Callable[[Request], Outcome]:
    """These outcomes, whatever is asked; the last for ever."""
    waiting = list(outcomes)
    return lambda _: waiting.pop(0) if len(waiting) > 1 else waiting[0]


def after(seconds: float, outcome: Outcome = FINE) -> Callable[[Request], Awaitable[Outcome]]:
    """An outcome that takes so long."""

    async def answer(_: Request) -> Outcome:
        await asyncio.sleep(seconds)
        return outcome

    return answer


async def hang(_: Request) -> Outcome:
    await asyncio.Event().wait()
    raise AssertionError


def now() -> float:
    return asyncio.get_running_loop().time()


def make_client(
    cache: Cache | None = None,
    budget: Budget | None = None,
    *,
    notes: list[str] | None = None,
    random: Callable[[], float] | None = None,
    **limits: Any,
) -> Client:
    """A client in the running loop. Waits have no jitter, and with a cache take no time."""
    chance = random or (lambda: 0.0 if cache else 1.0)
    timing = Timing(clock=asyncio.get_running_loop().time, sleep=asyncio.sleep, random=chance)
    note = None if notes is None else notes.append
    return Client(cache=cache, budget=budget or Budget(), limits=SendingLimits(**limits), note=note, timing=timing)


async def ask_all(client: Client, service: Provider, numbers: Iterable[int]) -> list[Any]:
    """Ask at once; errors are returned."""
    return await asyncio.gather(
        *[client.complete(service, request(number)) for number in numbers], return_exceptions=True
    )


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    with Cache(tmp_path / "completions.sqlite") as opened:
        yield opened


# --- trouble, and waiting ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["server_error", "connection"])
def test_trouble_is_tried_again_and_a_failure_that_is_not_kept_if_it_stays(cache: Cache, code: str) -> None:
    service, budget = Scripted(in_turn(error(code), error(code), FINE, error(code))), Budget()

    async def act() -> list[ClientResult]:
        client = make_client(cache, budget)
        return [await client.complete(service, request(number)) for number in (1, 2)]

    passed, stayed = asyncio.run(act())
    assert (passed.completion.text, passed.cached, passed.requests_sent, passed.cost_usd) == ("yes", False, 3, DOLLARS)
    assert stayed.completion.failure == Failure("provider", code, "not now (5 attempts)")
    assert (stayed.cached, stayed.requests_sent, stayed.cost_usd, budget.spent_usd) == (False, 5, 0.0, DOLLARS)
    assert [cache.get(request(number).digest) for number in (1, 2)] == [passed.completion, None]


@pytest.mark.parametrize(
    ("trouble", "attempts", "waits"),
    [
        (busy(), 5, [1.0, 2.0, 4.0, 32.0]),
        (error(), 10, [*(2.0**n for n in range(6)), *[60.0] * 3]),
    ],
    ids=["busy", "error"],
)
@pytest.mark.parametrize("share", [0.25, 1.0])
async def test_waits_double_up_to_a_minute_with_full_jitter(
    trouble: Exception, attempts: int, waits: list[float], share: float
) -> None:
    """A service that refused four requests in a row is overloaded: from then on, waits are four times as long."""
    times: list[float] = []

    def answer(_: Request) -> Outcome:
        times.append(now())
        return trouble

    client = make_client(random=lambda: share, attempts=attempts)
    assert (await client.complete(Scripted(answer), request())).requests_sent == attempts
    assert [later - earlier for earlier, later in pairwise(times)] == [share * wait for wait in waits]


async def test_a_service_that_refuses_all_is_left_alone_as_long_as_it_says() -> None:
    """The pause holds for the whole endpoint: other requests wait, too."""
    service = Scripted(lambda _: busy(60.0) if now() < 60 else FINE)
    client = make_client()
    first = asyncio.ensure_future(ask_all(client, service, range(4)))
    await asyncio.sleep(10.0)
    await client.complete(service, request(5))
    assert 60.0 <= now() <= 61.0
    await first
    assert len(service.asked) == 9


async def test_one_who_is_told_to_wait_for_too_long_fails_at_once() -> None:
    service, client = Scripted(in_turn(busy(3600.0), FINE)), make_client()
    replies = [await client.complete(service, request(number)) for number in range(50)]
    assert {reply.completion.failure.code for reply in replies if reply.completion.failure} == {"rate_limit"}
    assert all("accepts no requests for 3600 s" in repr(reply.completion.failure) for reply in replies)
    assert ([reply.requests_sent for reply in replies], now()) == ([1] + [0] * 49, 0.0)
    await asyncio.sleep(3601)
    assert (await client.complete(service, request(1))).completion == FINE


def simulated(error_of: Callable[[float, float], ProviderError | None]) -> float:
    """Send 5,000 requests of 0.2 s in simulated time; return the seconds that they took.

    `error_of`: random number and time -> error of a request, None for a completion.
    """
    rng = random.Random(1)

    def answer(_: Request) -> Awaitable[Outcome]:
        refusal = error_of(rng.random(), now())
        return after(0.01, refusal)(_) if refusal else after(0.2)(_)

    async def main() -> float:
        client, numbers = make_client(random=rng.random, start=16, maximum=128), iter(range(5_000))
        service = Scripted(answer)

        async def worker() -> None:
            for number in numbers:
                assert (await client.complete(service, request(number))).completion.text == "yes"

        await asyncio.gather(*[worker() for _ in range(128 + 64)])
        return now()

    return virtual_time.run(main())


@pytest.mark.parametrize("retry_after_s", [pytest.param(None, marks=pytest.mark.long), 1.0])
def test_refusals_cost_little_throughput(retry_after_s: float | None) -> None:
    """One in twenty is refused at random; or everything is, for half a second in each five."""
    undisturbed_s = simulated(lambda _chance, _now: None)
    assert undisturbed_s / simulated(lambda chance, _now: busy(retry_after_s) if chance < 0.05 else None) >= 0.7
    if retry_after_s:
        storms_s = simulated(lambda _chance, now: busy(0.5) if now % 5 > 4.5 else None)
        assert undisturbed_s / 0.9 / storms_s >= 0.8


# --- bought once ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("completion", "cost_usd"),
    [
        (Completion(text="", usage=Usage(input=1)), 1e-6),
        (Completion(failure=Failure("provider", "refusal", "I cannot.")), 0.0),
    ],
    ids=["empty", "refusal"],
)
def test_an_answer_is_bought_once(cache: Cache, completion: Completion, cost_usd: float) -> None:
    """What is cached costs nothing, and needs no service."""
    service = Scripted(in_turn(completion, error("key", fatal=True)))

    async def ask(limit_usd: float | None) -> ClientResult:
        return await make_client(cache, Budget(limit_usd)).complete(service, request())

    first, second = asyncio.run(ask(None)), asyncio.run(ask(0.0))
    assert first.completion == second.completion == completion
    assert (first.cached, first.requests_sent, first.cost_usd) == (False, 1, cost_usd)
    assert (second.cached, second.requests_sent, second.cost_usd) == (True, 0, 0.0)


@pytest.mark.parametrize("is_kept", [True, False], ids=["cache", "no cache"])
def test_equal_requests_at_once_are_sent_once(cache: Cache, is_kept: bool) -> None:
    service, budget = Scripted(in_turn(error(), FINE, error("bad_request", retryable=False))), Budget()

    async def act() -> None:
        client = make_client(cache if is_kept else None, budget, random=lambda: 0.0)
        replies = await ask_all(client, service, [0] * 50)
        assert [(reply.completion.text, reply.cached) for reply in replies] == [("yes", n > 0) for n in range(50)]
        assert sum(reply.requests_sent for reply in replies) == client.requests_sent == 2
        assert sum(reply.cost_usd for reply in replies) == budget.spent_usd == DOLLARS
        failed = await ask_all(client, service, [7] * 5)
        assert [(reply.cached, reply.requests_sent) for reply in failed] == [(False, 1), *[(False, 0)] * 4]

    asyncio.run(act())
    assert len(service.asked) == 3


async def test_the_next_one_takes_over_when_the_first_is_cancelled() -> None:
    service, client = Scripted(after(1.0)), make_client()
    tasks = [asyncio.ensure_future(client.complete(service, request())) for _ in range(5)]
    await asyncio.sleep(0.5)
    tasks[0].cancel()
    tasks[3].cancel()
    replies = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(reply, asyncio.CancelledError) for reply in replies] == [True, False, False, True, False]
    assert [reply.requests_sent for reply in replies if isinstance(reply, ClientResult)] == [1, 0, 0]
    assert (len(service.asked), client._in_flight) == (2, {})


# --- money, and stops -------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(
    limit_usd=st.floats(min_value=0.01, max_value=3000),
    concurrency=st.integers(1, 12),
    costs=st.lists(st.integers(0, 300), min_size=1, max_size=60),
    order=st.randoms(use_true_random=False),
)
def test_the_budget_is_never_passed_and_hardly_left_over(
    limit_usd: float, concurrency: int, costs: list[int], order: Any
) -> None:
    """Costs are at most a request's worst case; replies may be useless or lost; no cent passes at any moment."""
    budget = Budget(limit_usd)
    dear = replace(MODEL, price=Price(input=1_000_000.0, output=0.0))
    most = largest_cost_usd(request(0, dear))
    real: list[float] = []

    async def answer(asked: Request) -> Outcome:
        cost = min(costs[asked.sample], int(most))
        real.append(cost)
        assert sum(real) <= limit_usd
        for _ in range(order.randrange(5)):
            await asyncio.sleep(0)
        usage = Usage(input=cost)
        return BilledError(error("empty_choice"), usage) if order.random() < 0.2 else Completion(text="", usage=usage)

    async def act() -> list[Any]:
        client, service = make_client(None, budget, start=concurrency, maximum=concurrency), Scripted(answer)
        asked = [client.complete(service, request(number, dear)) for number in range(len(costs))]
        return await asyncio.gather(*asked, return_exceptions=True)

    replies = virtual_time.run(act())
    assert all(isinstance(reply, ClientResult | BudgetError) for reply in replies)
    assert sum(real) <= budget.spent_usd + 1e-6
    assert budget.spent_usd <= limit_usd + 1e-6
    if any(isinstance(reply, BudgetError) for reply in replies):
        assert budget.spent_usd > limit_usd - most


@pytest.mark.parametrize(
    ("limit_usd", "unusable", "stop", "reason"),
    [(DOLLARS, None, None, BudgetError), (None, 2, None, ModelUnusable), (None, None, UserError("enough"), UserError)],
    ids=["budget", "unusable", "stop"],
)
def test_what_is_in_flight_when_something_forbids_more_is_kept(
    cache: Cache, limit_usd: float | None, unusable: int | None, stop: MedHelmError | None, reason: type[Exception]
) -> None:
    """Of 20 requests, 4 were sent: what they bring is kept, and almost nothing is sent afterwards."""

    async def act() -> list[Any]:
        go_on = asyncio.Event()

        async def answer(asked: Request) -> Outcome:
            await go_on.wait()
            return error("no_quota", fatal=True) if asked.sample == unusable else FINE

        service = Scripted(answer)
        client = make_client(cache, Budget(limit_usd), start=4, maximum=4)
        tasks = asyncio.ensure_future(ask_all(client, service, range(20)))
        while len(service.asked) < 4:
            await asyncio.sleep(0)
        if stop:
            client.stop(stop)
        go_on.set()
        replies = await tasks
        assert len(service.asked) <= 8
        return replies

    replies = asyncio.run(act())
    bought = [number for number, reply in enumerate(replies) if isinstance(reply, ClientResult)]
    assert set(bought) >= {0, 1, 2, 3} - {unusable}
    assert not stop or bought == [0, 1, 2, 3]
    assert all(isinstance(reply, ClientResult | reason) for reply in replies)
    assert [number for number in range(20) if cache.get(request(number).digest)] == bought


# --- models and services that are of no use ---------------------------------------------------------------------------


async def test_an_unusable_model_is_asked_once() -> None:
    service = Scripted(lambda asked: FINE if asked.model == OTHER else error("refused", fatal=True))
    client = make_client()
    for number in range(20):
        with pytest.raises(ModelUnusable, match=r"test/m cannot be used \(refused\): not now") as caught:
            await client.complete(service, request(number))
        assert (caught.value.model, caught.value.exit_code) == ("test/m", 4)
        assert caught.value.requests_sent == (1 if number == 0 else 0)
    other = await client.complete(service, request(0, OTHER))
    assert (other.completion.text, other.cost_usd) == ("yes", None), "an unknown price is not free"
    assert len(service.asked) == 2


async def test_a_service_that_never_answered_is_soon_given_up() -> None:
    """A thousand instances do not cost five thousand attempts."""
    service, client = Scripted(lambda _: error("connection")), make_client(start=8, maximum=8)
    replies = await ask_all(client, service, range(1000))
    assert all(isinstance(reply, ModelUnusable) for reply in replies)
    assert "its service never responded: not now" in str(replies[0])
    assert 5 <= client.requests_sent <= 5 * 8
    with pytest.raises(ModelUnusable):  # no model of that service can be used
        await client.complete(service, request(0, OTHER))


async def test_a_service_that_stopped_answering_is_given_up() -> None:
    service, client = Scripted(in_turn(FINE, error("connection"))), make_client(random=lambda: 0.0, attempts=2)
    replies = [(await ask_all(client, service, [number]))[0] for number in range(20)]
    assert sum(isinstance(reply, ClientResult) for reply in replies) == EXHAUSTED_IN_A_ROW
    assert f"{EXHAUSTED_IN_A_ROW} requests in a row without a reply" in str(replies[-1])
    assert len(service.asked) == 1 + 2 * EXHAUSTED_IN_A_ROW


async def test_now_and_then_no_answer_is_no_reason_to_give_up() -> None:
    """Any answer, be it an error, shows that the service is there."""
    reply, loss = error("bad_request", retryable=False), error("connection")
    service = Scripted(lambda asked: loss if asked.sample % EXHAUSTED_IN_A_ROW else reply)
    client = make_client(attempts=1)
    for number in range(4 * EXHAUSTED_IN_A_ROW):
        assert (await client.complete(service, request(number))).completion.failure is not None


async def test_losses_that_come_back_before_the_answers_of_their_time_are_no_reason_to_give_up() -> None:
    """What is lost is known at once, and answers take a while: many losses in a row say nothing of the service."""
    lost = 2 * EXHAUSTED_IN_A_ROW
    lose, answer = after(1.0, error("connection")), after(2.0)
    service = Scripted(lambda asked: lose(asked) if 0 < asked.sample <= lost else answer(asked))
    client = make_client(attempts=1, start=4 * lost, maximum=4 * lost)
    await client.complete(service, request(0))
    replies = await ask_all(client, service, range(1, 2 * lost + 1))
    assert [reply.completion.text for reply in replies] == [None] * lost + ["yes"] * lost


@pytest.mark.parametrize(("own", "copies", "most"), [(None, 1, 4), (9, 1, 9), (None, 3, 12)])
async def test_a_model_and_each_of_its_copies_have_a_limit_of_their_own(
    own: int | None, copies: int, most: int
) -> None:
    service, client = Scripted(after(0.1)), make_client(start=4, maximum=4)
    service.copies, service.starts_at_maximum = copies, copies > 1
    model = replace(MODEL, max_concurrency=own)
    await asyncio.gather(*[client.complete(service, request(number, model)) for number in range(100)])
    assert service.most_in_flight == most
    await client.complete(service, request(0, replace(OTHER, max_concurrency=1)))
    assert client.endpoint(service, MODEL).limiter.limit == 1


def test_a_local_provider_is_not_limited_cached_or_charged(cache: Cache) -> None:
    missing = ProviderError("no_line", "there is no such line", retryable=True)
    service = Scripted(lambda asked: after(0.0, missing if asked.sample == 3 else FINE)(asked), local=True, endpoint="")

    async def act() -> None:
        client = make_client(cache, Budget(0.0), start=2, maximum=2)
        for _ in range(2):
            replies = await ask_all(client, service, range(50))
        assert {(reply.cached, reply.requests_sent, reply.cost_usd) for reply in replies} == {(False, 0, 0.0)}
        failures = {n: reply.completion.failure for n, reply in enumerate(replies) if reply.completion.failure}
        assert failures == {3: Failure("provider", "no_line", "there is no such line")}

    asyncio.run(act())
    assert (len(service.asked), service.most_in_flight, cache.get(request(0).digest)) == (100, 50, None)


# --- interruption, and a store that fails -----------------------------------------------------------------------------


def test_an_answer_that_has_arrived_is_kept_although_its_request_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes while the answer is being written."""
    go_on = threading.Event()
    insert = cache_module._insert

    def slow(*arguments: Any) -> None:
        assert go_on.wait(600)
        insert(*arguments)

    monkeypatch.setattr(cache_module, "_insert", slow)

    async def act(cache: Cache) -> None:
        client, service = make_client(cache), Scripted(lambda asked: hang(asked) if asked.sample else FINE)
        tasks = [asyncio.ensure_future(client.complete(service, request(number))) for number in (0, 1, 2, 0)]
        for _ in range(10):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert all(task.cancelled() for task in tasks)
        go_on.set()

    with Cache(tmp_path / "c.sqlite") as cache:
        asyncio.run(act(cache))
    with Cache(tmp_path / "c.sqlite") as cache:
        assert [cache.get(request(number).digest) for number in (0, 1)] == [FINE, None]


def test_nothing_more_is_bought_when_it_cannot_be_kept(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        failure = sqlite3.OperationalError("database or disk is full")
        failure.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise failure

    async def act() -> None:
        client, service = make_client(cache), Scripted(lambda _: FINE)
        await client.complete(service, request(0))
        with monkeypatch.context() as patched:
            patched.setattr(cache_module, "_insert", full)
            for number in range(1, 10):
                with pytest.raises(StoreFullError, match="committed before is kept"):
                    await client.complete(service, request(number))
        assert service.asked == [0, 1]
        assert (await client.complete(service, request(0))).cached
        cache._reader.execute("DROP TABLE completions")
        with pytest.raises(StoreError, match="no such table"):
            await make_client(cache).complete(service, request(0))
        assert service.asked == [0, 1], "a store that cannot be read stops before sending"

    asyncio.run(act())


def test_neither_key_nor_prompt_is_logged_or_shown(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.script(Answer(status=500), Answer(body="Ada <html>"), Answer(ending="reset"), Answer(status=429), Answer())
    model = OPENAI.model(server.url)

    async def ask(provider: Provider) -> ClientResult:
        return await make_client(random=lambda: 0.0).complete(provider, request(0, model))

    reply = with_provider(model, ask, KEYS)
    assert (reply.completion.text, server.count) == (None, 5)
    assert not [secret for secret in (KEYS["OPENAI_API_KEY"], "Ada") if secret in caplog.text + repr(reply)]


# --- silence ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("timeout_s", "n"), [(1.0, 1), (None, 100)])
async def test_a_service_that_never_replies_is_given_up_in_time(timeout_s: float | None, n: int) -> None:
    async def silent(asked: Request) -> Outcome:
        try:
            return await asyncio.wait_for(hang(asked), timeout_s)
        except TimeoutError:
            return error("timeout")

    notes: list[str] = []
    ended = await ask_all(make_client(notes=notes, attempts=20, start=8, maximum=8), Scripted(silent), range(n))
    assert now() <= 361.0
    assert all(isinstance(one, ModelUnusable) for one in ended)
    if now() > 60:
        (note,) = notes
        assert re.match(r"test/m: its service has not replied to anything for [67]\d s\. .*\(--give-up-after\)", note)


@pytest.mark.parametrize(
    ("code", "max_silence_s", "words"),
    [
        ("timeout", 300.0, r"rounds of requests: not now\. Raise --timeout if it needs longer\."),
        ("connection", 1.0, r"has not replied to anything for \d s: not now\. Everything"),
    ],
    ids=["timeout that is too short", "silence before all attempts have failed"],
)
async def test_the_reason_for_silence_is_told_after_a_few_attempts(code: str, max_silence_s: float, words: str) -> None:
    client = make_client(random=lambda: 0.5, start=8, maximum=8, max_silence_s=max_silence_s)
    ended = await ask_all(client, Scripted(after(0.6, error(code))), range(20))
    assert now() < 70
    assert all(re.search(words, str(one)) for one in ended)


async def test_slow_services_are_waited_for() -> None:
    """Each completion takes less than the limit on silence, all of them together much more; or it has no limit."""
    client = make_client(start=8, maximum=8)
    service, own = Scripted(after(290.0)), Scripted(after(1000.0), endpoint="of this process")
    own.replies_in_time = False
    assert [reply.completion.text for reply in await ask_all(client, service, range(40))] == ["yes"] * 40
    await asyncio.sleep(1000.0)  # time without requests is not silence
    assert (await client.complete(service, request(40))).completion.text == "yes"
    assert (await client.complete(own, request(41))).completion.text == "yes"


async def test_a_suspension_of_the_process_is_not_silence() -> None:
    """Replies that arrived meanwhile are read, and the service is not given up."""
    here, there = socket.socketpair()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)

    async def answer(_: Request) -> Outcome:
        text = await loop.sock_recv(here, 10)
        await asyncio.sleep(0.1)
        return Completion(text=text.decode())

    with here, there:
        here.setblocking(False)
        notes: list[str] = []
        client, service = make_client(notes=notes), Scripted(answer)
        for number in (1, 2):
            asked = asyncio.ensure_future(client.complete(service, request(number)))
            await asyncio.sleep(1.0)
            there.send(b"yes")
            loop.suspend(3600.0)
            assert (await asked).completion.text == "yes"
        assert notes == []

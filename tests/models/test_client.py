"""The client against a server that misbehaves: what becomes of a request, and how many were sent for it."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import socket
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import fields, replace
from email.utils import formatdate
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.domain import Completion, Failure, Message, Model, Price, Prompt, Request, Usage
from medhelm.errors import BudgetError, ProviderError, StoreError, StoreFullError, UserError
from medhelm.io.http.client import HttpClient, read_json, retry_after_s
from medhelm.io.http.egress import EgressPolicy
from medhelm.models import cache as cache_module
from medhelm.models.budget import Budget, largest_cost_usd
from medhelm.models.cache import Cache
from medhelm.models.client import EXHAUSTED_IN_A_ROW, Client, ClientResult, ModelUnusable, SendingLimits, Timing
from medhelm.models.provider import BilledError, Provider
from tests.support import virtual_time
from tests.support.servers.openai import Answer, Server
from tests.support.virtual_time import VirtualTimeLoop

run_test = virtual_time.run
T = TypeVar("T")

NOW = 1_700_000_000.0
PRICE = Price(input=1.0, output=2.0)
MODEL = Model(name="test/m", provider="test", remote_name="m", price=PRICE)
DOLLARS = 3.0
DOLLARS_PER_INPUT_TOKEN = 1e-6
"""What one answer of the server costs at that price."""
FINE = Answer(body={"text": "yes", "usage": [1_000_000, 1_000_000]})
KEY = "sk-very-secret"


def request(number: int = 0, model: Model = MODEL) -> Request:
    prompt = Prompt((Message("user", f"Is patient {number} called Ada?"),))
    return Request(model=model, prompt=prompt, max_tokens=1, sample=number)


class Time:
    """Waiting takes no time, but is written down."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


class Small(Provider):
    """A provider for a protocol of our own: `{"n": 1}` is answered by `{"text": ..., "usage": [input, output]}`."""

    local = False

    def __init__(self, http: HttpClient, endpoint: str) -> None:
        self.http = http
        self.endpoint = endpoint
        self.timeouts: list[float | None] = []
        """Seconds for each of the next requests; then the usual ones."""

    async def complete(self, request: Request) -> Completion:
        reply = await self.http.post_json(
            self.endpoint,
            headers={"Authorization": KEY},
            payload={"n": request.sample, "model": request.model.name},
            timeout_s=self.timeouts.pop(0) if self.timeouts else None,
        )
        if reply.status in (401, 403, 404):
            raise ProviderError("refused", f"the server said {reply.status}", fatal=True)
        if reply.status != 200:
            raise ProviderError(
                "rate_limit" if reply.status == 429 else "server_error" if reply.status >= 500 else "bad_request",
                f"the server said {reply.status}",
                retryable=reply.status == 429 or reply.status >= 500,
                overloaded=reply.status in (429, 503, 529),
                retry_after_s=retry_after_s(reply.headers, NOW),
            )
        document = read_json(reply)
        if "refusal" in document:
            return Completion(failure=Failure("provider", "refusal", document["refusal"]))
        read, written = document.get("usage", (0, 0))
        return Completion(text=document["text"], usage=Usage(input=read, output=written))


class Inside(Provider):
    """A provider without a server: what a test gives it decides."""

    def __init__(self, answer: Callable[[Request], Awaitable[Completion]], *, local: bool = False) -> None:
        self.answer = answer
        self.local = local
        self.endpoint = "" if local else "inside"
        self.asked: list[int] = []
        self.in_flight = self.most_in_flight = 0

    async def complete(self, request: Request) -> Completion:
        self.asked.append(request.sample)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self.answer(request)
        finally:
            self.in_flight -= 1


def after(seconds: float) -> Callable[[Request], Awaitable[Completion]]:
    """An answer that takes so long."""

    async def answer(_: Request) -> Completion:
        await asyncio.sleep(seconds)
        return Completion(text="yes", usage=Usage(input=1))

    return answer


async def hang(_: Request) -> Completion:
    await asyncio.Event().wait()
    raise AssertionError


class Setting:
    """A client with simulated waiting, its cache, and a provider for the server."""

    def __init__(self, client: Client, provider: Small, time: Time, budget: Budget) -> None:
        self.client, self.provider, self.time, self.budget = client, provider, time, budget

    async def ask(self, number: int = 0, model: Model = MODEL) -> ClientResult:
        return await self.client.complete(self.provider, request(number, model))

    async def ask_all(self, numbers: range) -> list[ClientResult | BaseException]:
        return await asyncio.gather(*[self.ask(number) for number in numbers], return_exceptions=True)


def client_with(cache: Cache | None, budget: Budget, **options: Any) -> Client:
    """A client with the limits and the timing among the options."""
    limits, timing = (
        {one.name: options.pop(one.name) for one in fields(kind) if one.name in options}
        for kind in (SendingLimits, Timing)
    )
    return Client(cache=cache, budget=budget, limits=SendingLimits(**limits), timing=Timing(**timing), **options)


def run(
    url: str,
    act: Callable[[Setting], Awaitable[T]],
    *,
    path: Path | None = None,
    limit_usd: float | None = None,
    **options: Any,
) -> T:
    """Run `act` with everything open, and close it."""

    async def main() -> T:
        time, budget = Time(), Budget(limit_usd)
        http = HttpClient(EgressPolicy(offline=True), timeout_s=600.0, max_reply_bytes=4096)
        cache = Cache(path) if path else None
        settings: dict[str, Any] = {"clock": time.clock, "sleep": time.sleep, "random": lambda: 1.0, **options}
        client = client_with(cache=cache, budget=budget, **settings)
        try:
            return await act(Setting(client, Small(http, url), time, budget))
        finally:
            await http.close()
            if cache:
                cache.close()

    return asyncio.run(main())


def run_inside(act: Callable[[Client, Time], Awaitable[T]], *, cache: Cache | None = None, **options: Any) -> T:
    """The same without a server."""

    async def main() -> T:
        time = Time()
        settings: dict[str, Any] = {"budget": Budget(), "random": lambda: 1.0, **options}
        return await act(client_with(cache=cache, clock=time.clock, sleep=time.sleep, **settings), time)

    return asyncio.run(main())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "completions.sqlite"


@pytest.fixture
def dead_url() -> Iterator[str]:
    """An address of this machine where nobody listens."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{reserved.getsockname()[1]}"


# --- misbehaviour -> outcome, and requests sent -----------------------------------------------------------------------

PASSING = {
    "429": Answer(status=429),
    "500": Answer(status=500),
    "503": Answer(status=503),
    "529": Answer(status=529),
    "garbage": Answer(body="<html>"),
    "truncated JSON": Answer(body='{"text": "ye'),
    "no object": Answer(body="[]"),
    "broken off": Answer(body=b'{"text": "yes"}', ending="truncated"),
    "huge": Answer(body=b"x" * 5000),
    "reset": Answer(ending="reset"),
    "hang": Answer(ending="hang"),
    "slow drip": Answer(ending="drip"),
}
"""What may be better the next time."""

CODES = {
    "429": "rate_limit",
    "hang": "timeout",
    "slow drip": "timeout",
    "reset": "connection",
    "broken off": "connection",
}


def patience(name: str) -> float | None:
    """Seconds for a request that gets this answer: none where it never ends."""
    return 0.05 if name in ("hang", "slow drip") else None


@pytest.mark.parametrize("name", PASSING)
def test_trouble_that_passes_is_tried_again(server: Server, name: str, path: Path) -> None:
    server.script(PASSING[name], PASSING[name], FINE)

    async def act(setting: Setting) -> ClientResult:
        setting.provider.timeouts = [patience(name)] * 2
        return await setting.ask()

    reply = run(server.url, act, path=path)
    assert (reply.completion.text, reply.cached, reply.requests_sent, reply.cost_usd) == ("yes", False, 3, DOLLARS)
    assert server.count == 3


@pytest.mark.parametrize("name", PASSING)
def test_trouble_that_stays_is_a_failure_and_not_kept(server: Server, name: str, path: Path) -> None:
    async def act(setting: Setting) -> ClientResult:
        server.script(FINE, PASSING[name])
        await setting.ask(1)  # it is a service that has answered before
        setting.provider.timeouts = [patience(name)] * 5
        reply = await setting.ask(2)
        assert setting.budget.spent_usd == DOLLARS
        return reply

    reply = run(server.url, act, path=path)
    failure = reply.completion.failure
    assert failure is not None
    assert (failure.boundary, failure.message[-13:]) == ("provider", " (5 attempts)")
    assert failure.code == CODES.get(name, "server_error" if name.isdigit() else "malformed_reply")
    assert (reply.cached, reply.requests_sent, reply.cost_usd) == (False, 5, 0.0)
    assert server.count == 6
    with Cache(path) as cache:
        assert cache.get(request(1).digest) is not None
        assert cache.get(request(2).digest) is None


# --- waiting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "attempts", "waits"),
    [
        (500, 5, [1.0, 2.0, 4.0, 8.0]),
        (503, 5, [1.0, 2.0, 4.0, 32.0]),
        (500, 10, [*(2.0**n for n in range(6)), *[60.0] * 3]),
    ],
)
@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_waits_double_up_to_a_minute_with_full_jitter(
    server: Server, status: int, attempts: int, waits: list[float], share: float
) -> None:
    """A service that refused four requests in a row is overloaded: from then on, waits are four times as long."""
    server.script(Answer(status=status))

    async def act(setting: Setting) -> list[float]:
        assert (await setting.ask()).requests_sent == attempts
        return setting.time.waits

    assert run(server.url, act, random=lambda: share, attempts=attempts) == [share * wait for wait in waits]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "120"}, 120.0),
        ({"Retry-After": formatdate(NOW + 90, usegmt=True)}, 90.0),
        ({"Retry-After-Ms": "1500"}, 1.5),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_the_service_says_how_long_to_wait(
    server: Server, headers: dict[str, str], seconds: float, status: int
) -> None:
    server.script(Answer(status=status, headers=headers), FINE)

    async def act(setting: Setting) -> float:
        assert (await setting.ask()).completion.text == "yes"
        return setting.time.now

    assert seconds <= run(server.url, act) <= seconds + 1.0


def test_a_service_that_refuses_all_is_left_alone_as_long_as_it_says(server: Server) -> None:
    """The pause holds for the whole endpoint: other requests wait, too."""
    refused = Answer(status=429, headers={"Retry-After": "60"})
    server.script(*[refused] * 4, FINE)

    async def act(setting: Setting) -> None:
        limiter = setting.client.endpoint(setting.provider, MODEL).limiter
        first = asyncio.ensure_future(setting.ask_all(range(4)))
        await asyncio.to_thread(server.wait_for, 4)
        while not limiter.is_refusing:
            await asyncio.sleep(0)
        setting.time.now = 10.0  # the first ones wait until 60, in their own time
        await setting.ask(5)
        assert setting.time.now >= 60.0
        await first

    run(server.url, act)
    assert server.count == 9


SIMULATED = 5_000
"""Requests in simulated time."""


def busy(retry_after_s: float | None) -> ProviderError:
    return ProviderError("rate_limit", "busy", retryable=True, overloaded=True, retry_after_s=retry_after_s)


def simulated(error_of: Callable[[float, float], ProviderError | None], n: int = SIMULATED) -> tuple[float, int]:
    """Send requests of 0.2 s in simulated time; return the seconds that they took, and how many failed.

    `error_of`: random number and time -> error of a request, None for a completion.
    """
    rng = random.Random(1)

    async def answer(request: Request) -> Completion:
        if error := error_of(rng.random(), asyncio.get_running_loop().time()):
            await asyncio.sleep(0.01)
            raise error
        return await after(0.2)(request)

    async def main() -> tuple[float, int]:
        loop = asyncio.get_running_loop()
        client = Client(
            cache=None, budget=Budget(None), limits=SendingLimits(start=16, maximum=128),
            timing=Timing(clock=loop.time, sleep=asyncio.sleep, random=rng.random),
        )  # fmt: skip
        provider, numbers, failed = Inside(answer), iter(range(n)), 0

        async def worker() -> None:
            nonlocal failed
            for number in numbers:
                failed += (await client.complete(provider, request(number))).completion.text is None

        await asyncio.gather(*[worker() for _ in range(128 + 64)])
        return loop.time(), failed

    return virtual_time.run(main())


@cache
def undisturbed_s() -> float:
    """Return the seconds of so many requests without errors."""
    return simulated(lambda _chance, _now: None)[0]


@pytest.mark.parametrize("retry_after_s", [pytest.param(None, marks=pytest.mark.long), 1.0])
@pytest.mark.parametrize(("share", "least"), [pytest.param(0.02, 0.8, marks=pytest.mark.long), (0.05, 0.7)])
def test_a_few_refusals_cost_little_throughput(share: float, least: float, retry_after_s: float | None) -> None:
    """Some are refused at random: compared with none refused."""
    seconds, failed = simulated(lambda chance, _now: busy(retry_after_s) if chance < share else None)
    assert (undisturbed_s() / seconds >= least, failed) == (True, 0)


def test_storms_of_refusals_cost_little_more_than_their_time() -> None:
    """For half a second in each five everything is refused: a tenth of the time."""
    seconds, failed = simulated(lambda _chance, now: busy(0.5) if now % 5 > 4.5 else None)
    assert (undisturbed_s() / 0.9 / seconds >= 0.8, failed) == (True, 0)


def test_one_who_is_told_to_wait_for_too_long_fails_at_once(server: Server) -> None:
    server.script(Answer(status=429, headers={"Retry-After": "3600"}), FINE)

    async def act(setting: Setting) -> None:
        replies = [await setting.ask(number) for number in range(50)]
        for reply in replies:
            assert reply.completion.failure is not None
            assert reply.completion.failure.code == "rate_limit"
            assert "accepts no requests for 3600 s" in reply.completion.failure.message
        assert [reply.requests_sent for reply in replies] == [1] + [0] * 49
        assert (server.count, setting.time.waits) == (1, [])
        setting.time.now += 3601
        assert (await setting.ask(1)).completion.text == "yes"

    run(server.url, act)


# --- bought once ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [{"text": "yes", "usage": [1, 0]}, {"text": "", "usage": [1, 0]}, {"refusal": "I cannot."}],
    ids=["text", "empty", "refusal"],
)
def test_an_answer_is_bought_once(server: Server, path: Path, body: dict[str, Any]) -> None:
    server.script(Answer(body=body))
    first, second = [run(server.url, lambda s: s.ask(), path=path) for _ in range(2)]
    assert first.completion == second.completion
    assert (first.cached, first.requests_sent) == (False, 1)
    assert first.cost_usd == (0.0 if "refusal" in body else DOLLARS_PER_INPUT_TOKEN)
    assert (second.cached, second.requests_sent, second.cost_usd) == (True, 0, 0.0)
    assert server.count == 1


def test_what_is_cached_costs_nothing_and_needs_no_service(server: Server, path: Path, dead_url: str) -> None:
    server.script(FINE)
    run(server.url, lambda s: s.ask_all(range(20)), path=path)

    async def again(setting: Setting) -> None:
        replies = await setting.ask_all(range(20))
        assert all(isinstance(reply, ClientResult) and reply.cached for reply in replies)
        assert (setting.budget.spent_usd, setting.client.requests_sent) == (0.0, 0)

    run(dead_url, again, path=path, limit_usd=0.0)
    assert server.count == 20


@pytest.mark.parametrize("kept", [True, False], ids=["cache", "no cache"])
def test_equal_requests_at_once_are_sent_once(server: Server, path: Path, kept: bool) -> None:
    server.script(Answer(status=500), FINE, Answer(status=400))

    async def act(setting: Setting) -> None:
        replies = await asyncio.gather(*[setting.ask() for _ in range(50)])
        assert {reply.completion.text for reply in replies} == {"yes"}
        assert [reply.cached for reply in replies] == [False] + [True] * 49
        assert sum(reply.requests_sent for reply in replies) == setting.client.requests_sent == 2
        assert sum(reply.cost_usd or 0.0 for reply in replies) == setting.budget.spent_usd == DOLLARS
        failed = await asyncio.gather(*[setting.ask(7) for _ in range(5)])
        assert [(reply.cached, reply.requests_sent) for reply in failed] == [(False, 1), *[(False, 0)] * 4]

    run(server.url, act, path=path if kept else None)
    assert server.count == 3


def test_the_next_one_takes_over_when_the_first_is_cancelled(server: Server) -> None:
    server.script(FINE)
    server.hold()

    async def act(setting: Setting) -> None:
        tasks = [asyncio.ensure_future(setting.ask()) for _ in range(5)]
        await asyncio.to_thread(server.wait_for, 1)
        tasks[0].cancel()
        tasks[3].cancel()
        await asyncio.to_thread(server.wait_for, 2)
        server.release()
        replies = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(reply, asyncio.CancelledError) for reply in replies] == [True, False, False, True, False]
        assert [reply.requests_sent for reply in replies if isinstance(reply, ClientResult)] == [1, 0, 0]
        assert not setting.client._in_flight

    run(server.url, act)
    assert server.count == 2


# --- money ------------------------------------------------------------------------------------------------------------


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

    async def answer(asked: Request) -> Completion:
        cost = min(costs[asked.sample], int(most))
        real.append(cost)
        assert sum(real) <= limit_usd
        for _ in range(order.randrange(5)):
            await asyncio.sleep(0)
        usage = Usage(input=cost)
        if order.random() < 0.2:
            raise BilledError(ProviderError("empty_choice", "nothing", retryable=True), usage)
        return Completion(text="", usage=usage)

    async def act(client: Client, time: Time) -> list[Any]:
        provider = Inside(answer)
        asked = [client.complete(provider, request(number, dear)) for number in range(len(costs))]
        return await asyncio.gather(*asked, return_exceptions=True)

    replies = run_inside(act, budget=budget, start=concurrency, maximum=concurrency)
    assert all(isinstance(reply, ClientResult | BudgetError) for reply in replies)
    assert sum(real) <= budget.spent_usd + 1e-6
    assert budget.spent_usd <= limit_usd + 1e-6
    if any(isinstance(reply, BudgetError) for reply in replies):
        assert budget.spent_usd > limit_usd - most


def test_what_was_in_flight_when_the_budget_ended_is_kept(server: Server, path: Path) -> None:
    server.script(FINE)
    server.hold()

    async def act(setting: Setting) -> list[ClientResult | BaseException]:
        tasks = asyncio.ensure_future(setting.ask_all(range(20)))
        await asyncio.to_thread(server.wait_for, 4)
        server.release()
        return await tasks

    replies = run(server.url, act, path=path, limit_usd=DOLLARS, start=4, maximum=4)
    bought = [n for n, reply in enumerate(replies) if isinstance(reply, ClientResult)]
    assert 1 <= len(bought) == server.count <= 5
    assert all(isinstance(reply, ClientResult | BudgetError) for reply in replies)
    with Cache(path) as cache:
        assert [n for n in range(20) if cache.get(request(n).digest)] == bought


def test_an_unknown_price_is_not_free(server: Server) -> None:
    server.script(FINE)
    unknown = Model(name="test/unknown", provider="test", remote_name="u")
    reply = run(server.url, lambda s: s.ask(0, unknown))
    assert (reply.completion.text, reply.cost_usd) == ("yes", None)


# --- models and services that are of no use ---------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403, 404])
def test_an_unusable_model_is_asked_once(server: Server, status: int, path: Path) -> None:
    other = Model(name="test/other", provider="test", remote_name="o")
    server.answer_with(lambda body: FINE if body["model"] == "test/other" else Answer(status=status))

    async def act(setting: Setting) -> None:
        for number in range(20):
            with pytest.raises(
                ModelUnusable, match=f"test/m cannot be used \\(refused\\): the server said {status}"
            ) as caught:
                await setting.ask(number)
            assert (caught.value.model, caught.value.exit_code) == ("test/m", 4)
            assert caught.value.requests_sent == (1 if number == 0 else 0)
        assert (await setting.ask(0, other)).completion.text == "yes"

    run(server.url, act, path=path)
    assert server.count == 2


def test_what_was_in_flight_when_a_model_became_unusable_is_kept(server: Server, path: Path) -> None:
    """The quota ends with the third request; the others had been sent, those that still waited are not."""
    server.answer_with(lambda body: Answer(status=403) if body["n"] == 2 else FINE)
    server.hold()

    async def act(setting: Setting) -> list[ClientResult | BaseException]:
        tasks = asyncio.ensure_future(setting.ask_all(range(50)))
        await asyncio.to_thread(server.wait_for, 6)
        server.release()
        return await tasks

    replies = run(server.url, act, path=path, start=6, maximum=6)
    bought = [n for n, reply in enumerate(replies) if isinstance(reply, ClientResult)]
    assert all(isinstance(reply, ClientResult | ModelUnusable) for reply in replies)
    assert {0, 1, 3, 4, 5} <= set(bought)
    assert server.count <= 12
    with Cache(path) as cache:
        assert [n for n in range(50) if cache.get(request(n).digest)] == bought


def test_a_service_that_never_answered_is_soon_given_up(dead_url: str) -> None:
    """A thousand instances do not cost five thousand attempts."""

    async def act(setting: Setting) -> None:
        replies = await setting.ask_all(range(1000))
        assert all(isinstance(reply, ModelUnusable) for reply in replies)
        assert "its service never responded: cannot connect to http://127.0.0.1" in str(replies[0])
        assert 5 <= setting.client.requests_sent <= 5 * 8
        with pytest.raises(ModelUnusable):  # no model of that service can be used
            await setting.ask(0, Model(name="test/other", provider="test", remote_name="o"))

    run(dead_url, act, start=8, maximum=8)


@pytest.mark.parametrize("name", ["reset", "hang"])
def test_a_service_that_stopped_answering_is_given_up(server: Server, name: str) -> None:
    async def act(setting: Setting) -> None:
        server.script(FINE, PASSING[name])
        await setting.ask(0)
        setting.provider.timeouts = [patience(name)] * 100
        replies = [(await setting.ask_all(range(n, n + 1)))[0] for n in range(1, 20)]
        failed = [reply for reply in replies if isinstance(reply, ClientResult)]
        assert len(failed) == EXHAUSTED_IN_A_ROW - 1
        assert f"{EXHAUSTED_IN_A_ROW} requests in a row without a reply" in str(replies[-1])

    run(server.url, act, attempts=2)
    assert server.count == 1 + 2 * EXHAUSTED_IN_A_ROW


def test_now_and_then_no_answer_is_no_reason_to_give_up(server: Server) -> None:
    """Any answer, be it an error, shows that the service is there."""
    server.answer_with(
        lambda body: Answer(status=400) if body["n"] % EXHAUSTED_IN_A_ROW == 0 else Answer(ending="reset")
    )

    async def act(setting: Setting) -> None:
        for number in range(4 * EXHAUSTED_IN_A_ROW):
            assert (await setting.ask(number)).completion.failure is not None

    run(server.url, act, attempts=1)
    assert server.count == 4 * EXHAUSTED_IN_A_ROW


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("own", "copies", "most"), [(None, 1, 4), (2, 1, 2), (9, 1, 9), (None, 3, 12)])
def test_a_model_and_each_of_its_copies_have_a_limit_of_their_own(own: int | None, copies: int, most: int) -> None:
    provider, model = Inside(after(0.0)), replace(MODEL, max_concurrency=own)
    provider.copies, provider.starts_at_maximum = copies, copies > 1

    async def act(client: Client, time: Time) -> None:
        await asyncio.gather(*[client.complete(provider, request(n, model)) for n in range(100)])
        strict = Model(name="test/strict", provider="test", remote_name="s", max_concurrency=1)
        await client.complete(provider, request(0, strict))
        assert client._endpoints["inside"].limiter.limit == 1

    run_inside(act, start=4, maximum=4)
    assert provider.most_in_flight == most


# --- providers of this process ----------------------------------------------------------------------------------------


def test_a_local_provider_is_not_limited_cached_or_charged(path: Path) -> None:
    async def answer(request: Request) -> Completion:
        await asyncio.sleep(0)
        if request.sample == 3:
            raise ProviderError("no_line", "there is no such line", retryable=True)
        return Completion(text="x", usage=Usage(input=10**9))

    provider = Inside(answer, local=True)
    with Cache(path) as cache:

        async def act(client: Client, time: Time) -> None:
            for _ in range(2):
                replies = await asyncio.gather(*[client.complete(provider, request(n)) for n in range(50)])
            assert all((r.cached, r.requests_sent, r.cost_usd) == (False, 0, 0.0) for r in replies)
            assert [n for n, r in enumerate(replies) if r.completion.failure] == [3]
            assert replies[3].completion.failure == Failure("provider", "no_line", "there is no such line")
            assert (len(provider.asked), client.requests_sent, time.waits) == (100, 0, [])

        run_inside(act, cache=cache, budget=Budget(0.0), start=2, maximum=2)
        assert cache.get(request(0).digest) is None
    assert provider.most_in_flight == 50


# --- interruption, and a store that fails -----------------------------------------------------------------------------


def test_an_answer_that_has_arrived_is_kept_although_its_request_is_cancelled(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes while the answer is being written."""
    go_on = threading.Event()
    insert = cache_module._insert

    def slow(*arguments: Any) -> None:
        assert go_on.wait(600)
        insert(*arguments)

    monkeypatch.setattr(cache_module, "_insert", slow)

    async def answer(request: Request) -> Completion:
        return Completion(text="paid for") if request.sample == 0 else await hang(request)

    with Cache(path) as cache:

        async def act(client: Client, time: Time) -> None:
            provider = Inside(answer)
            tasks = [asyncio.ensure_future(client.complete(provider, request(number))) for number in range(5)]
            twin = asyncio.ensure_future(client.complete(provider, request(0)))
            for _ in range(10):
                await asyncio.sleep(0)
            for task in [*tasks, twin]:
                task.cancel()
            await asyncio.wait([*tasks, twin])
            assert all(task.cancelled() for task in [*tasks, twin])
            assert not client._in_flight
            go_on.set()

        run_inside(act, cache=cache)
    with Cache(path) as cache:
        assert cache.get(request(0).digest) == Completion(text="paid for")
        assert cache.get(request(1).digest) is None


def test_after_a_stop_what_is_in_flight_finishes_and_nothing_is_sent(server: Server, path: Path) -> None:
    server.script(FINE)
    server.hold()

    async def act(setting: Setting) -> list[ClientResult | BaseException]:
        tasks = asyncio.ensure_future(setting.ask_all(range(20)))
        await asyncio.to_thread(server.wait_for, 4)
        setting.client.stop(UserError("enough"))
        server.release()
        return await tasks

    replies = run(server.url, act, path=path, start=4, maximum=4)
    assert [isinstance(reply, ClientResult) for reply in replies] == [True] * 4 + [False] * 16
    assert {str(reply) for reply in replies[4:]} == {"enough"}
    assert server.count == 4


def test_nothing_more_is_bought_when_it_cannot_be_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    with Cache(path) as cache:

        async def act(client: Client, time: Time) -> None:
            provider = Inside(after(0.0))
            await client.complete(provider, request(0))
            with monkeypatch.context() as patched:
                patched.setattr(cache_module, "_insert", full)
                for number in range(1, 10):
                    with pytest.raises(StoreFullError, match="committed before is kept"):
                        await client.complete(provider, request(number))
            assert provider.asked == [0, 1]
            assert (await client.complete(provider, request(0))).cached

        run_inside(act, cache=cache)


def test_a_store_that_cannot_be_read_stops_before_sending(path: Path) -> None:
    provider = Inside(hang)
    with Cache(path) as cache:

        async def act(client: Client, time: Time) -> None:
            cache._reader.execute("DROP TABLE completions")
            with pytest.raises(StoreError):
                await client.complete(provider, request(0))

        run_inside(act, cache=cache)
    assert provider.asked == []


# --- discretion, and memory -------------------------------------------------------------------------------------------


def test_neither_key_nor_prompt_is_logged_or_shown(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.script(Answer(status=500), Answer(body="Ada <html>"), Answer(ending="reset"), Answer(status=429), Answer())
    reply = run(server.url, lambda s: s.ask())
    assert reply.completion.failure is not None
    shown = caplog.text + repr(reply)
    assert KEY not in shown
    assert "Ada" not in shown


def test_nothing_is_remembered_of_a_request_that_is_done(server: Server, path: Path) -> None:
    server.answer_with(lambda body: Answer(status=400) if body["n"] % 2 else FINE)

    async def act(setting: Setting) -> None:
        await setting.ask_all(range(100))
        client = setting.client
        assert not client._in_flight
        assert (len(client._endpoints), len(client._unusable)) == (1, 0)
        limiter = client._endpoints[server.url].limiter
        assert (limiter.in_flight, len(limiter._waiting)) == (0, 0)

    run(server.url, act, path=path)


def test_the_first_request_with_a_shared_beginning_is_answered_before_the_others_leave() -> None:
    """One that was bought before leads nobody, and one that fails holds nobody up."""
    alone, shared = request(0), [replace(request(n), shared_characters=11) for n in range(1, 5)]
    waves: list[list[int]] = []

    async def act(client: Client, time: Time) -> list[ClientResult]:
        go = asyncio.Event()
        failed: list[int] = []

        async def answer(asked: Request) -> Completion:
            await go.wait()
            if asked.sample == 1 and not failed:
                failed.append(1)
                raise ProviderError("server_error", "not now", retryable=True)
            return Completion(text="yes", usage=Usage(input=1))

        provider = Inside(answer)
        tasks = [asyncio.ensure_future(client.complete(provider, one)) for one in (alone, *shared)]
        while not all(task.done() for task in tasks):
            for _ in range(20):
                await asyncio.sleep(0)
            waves.append(sorted(provider.asked))
            provider.asked.clear()
            go.set()
        return [await task for task in tasks]

    replies = run_inside(act)
    assert [reply.completion.text for reply in replies] == ["yes"] * 5
    assert waves[0] == [0, 1]
    assert sorted(number for wave in waves[1:] for number in wave) == [1, 2, 3, 4]


def test_losses_that_come_back_before_the_answers_of_their_time_are_no_reason_to_give_up() -> None:
    """What is lost is known at once, and answers take a while: many losses in a row say nothing of the service."""
    lost = 2 * EXHAUSTED_IN_A_ROW

    async def act(client: Client, time: Time) -> list[ClientResult]:
        lose, go = asyncio.Event(), asyncio.Event()

        async def answer(asked: Request) -> Completion:
            if 0 < asked.sample <= lost:
                await lose.wait()
                raise ProviderError("connection", "it was reset", retryable=True)
            if asked.sample:
                await go.wait()
            return Completion(text="yes", usage=Usage(input=1))

        provider = Inside(answer)
        first = await client.complete(provider, request(0))
        tasks = [asyncio.ensure_future(client.complete(provider, request(n))) for n in range(1, 2 * lost + 1)]
        while len(provider.asked) <= 2 * lost:
            await asyncio.sleep(0)
        lose.set()
        await asyncio.wait(tasks[:lost])
        go.set()
        return [first, *(await asyncio.gather(*tasks))]

    replies = run_inside(act, attempts=1, start=4 * lost, maximum=4 * lost)
    codes = [reply.completion.failure.code if reply.completion.failure else "" for reply in replies]
    assert codes == ["", *["connection"] * lost, *[""] * lost]


# --- silence ----------------------------------------------------------------------------------------------------------


def silent_client(notes: list[str], *, max_silence_s: float = 300.0, attempts: int = 5) -> Client:
    loop = asyncio.get_running_loop()
    return Client(
        cache=None,
        budget=Budget(None),
        limits=SendingLimits(attempts=attempts, start=8, maximum=8, max_silence_s=max_silence_s),
        note=notes.append,
        timing=Timing(clock=loop.time, sleep=asyncio.sleep, random=lambda: 0.5),
    )


async def until_given_up(client: Client, provider: Provider, n: int, *, first: int = 0) -> tuple[float, list[object]]:
    """Return the time after all requests ended, and their results."""
    requests = [request(number) for number in range(first, first + n)]
    ended = await asyncio.gather(*[client.complete(provider, one) for one in requests], return_exceptions=True)
    return asyncio.get_running_loop().time(), list(ended)


@pytest.mark.parametrize("timeout_s", [1.0, 30.0, None])
@pytest.mark.parametrize("lanes", [1, 100])
async def test_a_service_that_never_replies_is_given_up_in_time(timeout_s: float | None, lanes: int) -> None:
    async def silent(request: Request) -> Completion:
        try:
            return await asyncio.wait_for(hang(request), timeout_s)
        except TimeoutError:
            raise ProviderError("timeout", "no reply", retryable=True) from None

    notes: list[str] = []
    seconds, ended = await until_given_up(silent_client(notes, attempts=20), Inside(silent), lanes)
    assert seconds <= 361.0
    assert all(isinstance(one, ModelUnusable) for one in ended)
    if seconds > 60:
        assert len(notes) == 1
        assert re.match(
            r"test/m: its service has not replied to anything for [67]\d s\. .*\(--give-up-after\)", notes[0]
        )


SLOW = "http://h did not answer within 1 s"
ABSENT = "cannot connect to h: no server listens there."


@pytest.mark.parametrize(
    ("error", "max_silence_s", "words"),
    [
        (ProviderError("timeout", SLOW, retryable=True, reply_lost=True), 300.0,
         rf"rounds of requests: {SLOW}\. Raise --timeout if it needs longer\."),
        (ProviderError("connection", ABSENT, retryable=True), 1.0,
         rf"has not replied to anything for \d s: {ABSENT[:-1]}\. Everything"),
    ],
    ids=["timeout that is too short", "silence before all attempts have failed"],
)  # fmt: skip
async def test_the_reason_for_silence_is_told_after_a_few_attempts(
    error: ProviderError, max_silence_s: float, words: str
) -> None:
    async def fail(_: Request) -> Completion:
        await asyncio.sleep(0.6)
        raise error

    seconds, ended = await until_given_up(silent_client([], max_silence_s=max_silence_s), Inside(fail), 20)
    assert seconds < 70
    assert all(re.search(words, str(one)) for one in ended)


@pytest.mark.parametrize(
    ("max_tokens", "own_limit", "is_advised"), [(4096, None, True), (4096, 4096, False), (1, None, False)]
)
async def test_a_silent_service_that_may_write_a_long_reply_gets_advice(
    max_tokens: int, own_limit: int | None, is_advised: bool
) -> None:
    """A judge on a slow server may repeat itself until its limit."""
    notes: list[str] = []
    client, model = silent_client(notes), replace(MODEL, max_tokens=own_limit)
    with pytest.raises(ModelUnusable) as given_up:
        await client.complete(Inside(hang), replace(request(model=model), max_tokens=max_tokens))
    for words in (notes[0], str(given_up.value)):
        assert ("A reply may have 4,096 tokens" in words) is is_advised, words
        assert ("set a lower `max_tokens` in models.yaml. Everything" in words) is (is_advised and words != notes[0])


async def test_a_slow_service_and_one_that_this_process_starts_are_waited_for() -> None:
    """Each completion takes less than the limit on silence, all of them together much more."""
    _, ended = await until_given_up(silent_client([]), Inside(after(290.0)), 40)
    assert all(isinstance(one, ClientResult) and one.completion.text == "yes" for one in ended)
    provider = Inside(after(1000.0))
    provider.replies_in_time = False
    assert (await silent_client([]).complete(provider, request())).completion.text == "yes"


async def test_time_without_requests_is_not_silence() -> None:
    async def answer(request: Request) -> Completion:
        await asyncio.sleep(200.0 if request.sample == 2 else 1.0)
        return Completion(text="yes")

    client, provider = silent_client([]), Inside(answer)
    await client.complete(provider, request(1))
    await asyncio.sleep(1000.0)
    assert (await client.complete(provider, request(2))).completion.text == "yes"


def test_a_suspension_of_the_process_is_not_silence() -> None:
    """Replies that arrived meanwhile are read, and the service is not given up."""
    here, there = socket.socketpair()

    async def answer(request: Request) -> Completion:
        text = await asyncio.get_running_loop().sock_recv(here, 10)
        await asyncio.sleep(0.1)
        return Completion(text=text.decode())

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        here.setblocking(False)
        notes: list[str] = []
        client, provider = silent_client(notes), Inside(answer)
        for number in (1, 2):
            asked = asyncio.ensure_future(client.complete(provider, request(number)))
            await asyncio.sleep(1.0)
            there.send(b"yes")
            loop.suspend(3600.0)
            assert (await asked).completion.text == "yes"
        assert notes == []

    with here, there:
        virtual_time.run(main())


async def test_a_silent_service_does_not_delay_another() -> None:
    client, other = silent_client([]), Inside(after(1.0))
    other.endpoint = "other"
    stuck = asyncio.ensure_future(until_given_up(client, Inside(hang), 20))
    seconds, _ = await until_given_up(client, other, 80, first=1000)
    assert seconds == 10.0
    assert (await stuck)[0] == 300.0

"""How many requests are in flight: found out, never exceeded, first come first served. Time is simulated."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.errors import ProviderError
from medhelm.models.concurrency import ConcurrencyLimiter
from tests.support import virtual_time

run_test = virtual_time.run
OVERLOAD = ProviderError("rate_limit", "too many", retryable=True, overloaded=True)
TIMEOUT = ProviderError("timeout", "no answer", retryable=True)
OTHERS: list[Exception] = [
    ProviderError("malformed_reply", "garbage", retryable=True),
    ProviderError("bad_request", "no"),
    ProviderError("connection", "reset", retryable=True),
    RuntimeError("something else"),
]


def limiter(start: int, maximum: int) -> ConcurrencyLimiter:
    return ConcurrencyLimiter(start, maximum, asyncio.get_running_loop().time)


async def once(limiter: ConcurrencyLimiter, seconds: float = 1.0, error: Exception | None = None) -> None:
    """One request: takes so long and ends like that."""
    try:
        async with limiter.slot():
            await asyncio.sleep(seconds)
            if error is not None:
                raise error
    except (ProviderError, RuntimeError) as raised:
        if raised is not error:
            raise


async def together(count: int, ask: Callable[[], Awaitable[None]]) -> None:
    await asyncio.gather(*[ask() for _ in range(count)])


# --- growing ----------------------------------------------------------------------------------------------------------


async def test_it_doubles_until_the_first_overload() -> None:
    """A service that answers any number at once, in one second: 4, 8, 16 ... in flight until the maximum."""
    found = limiter(4, 100)
    clock = asyncio.get_running_loop().time
    seen: dict[float, int] = {}

    async def ask() -> None:
        async with found.slot():
            seen[clock()] = found.in_flight
            await asyncio.sleep(1.0)

    await together(400, ask)
    assert [seen[float(second)] for second in range(6)] == [4, 8, 16, 32, 64, 100]
    assert found.limit == 100
    assert found.in_flight == 0


@pytest.mark.parametrize(("start", "maximum", "limit"), [(0, 0, 1), (-5, 3, 1), (8, 4, 4), (3, 3, 3), (1, 64, 1)])
def test_the_start_is_within_bounds(start: int, maximum: int, limit: int) -> None:
    assert ConcurrencyLimiter(start, maximum).limit == limit


async def test_a_lower_maximum_counts_from_now_on_and_a_higher_one_never() -> None:
    found = limiter(32, 64)
    found.lower_maximum(100)
    assert found.limit == 32
    found.lower_maximum(5)
    assert found.limit == 5
    most = 0

    async def ask() -> None:
        nonlocal most
        async with found.slot():
            most = max(most, found.in_flight)
            await asyncio.sleep(1.0)

    await together(100, ask)
    assert most == 5


# --- shrinking --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OVERLOAD, TIMEOUT], ids=["overload", "timeout"])
async def test_an_overload_halves_once_per_round_trip(error: ProviderError) -> None:
    found = limiter(32, 32)
    await together(32, lambda: once(found, error=error))  # all of one round: they say the same thing
    assert found.limit == 16
    await together(16, lambda: once(found, error=error))
    assert found.limit == 8
    for _ in range(10):
        await once(found, error=error)
    assert found.limit == 1


@pytest.mark.parametrize("error", OTHERS, ids=lambda error: getattr(error, "code", "other"))
async def test_other_errors_change_nothing(error: Exception) -> None:
    found = limiter(8, 32)
    await together(8, lambda: once(found, error=error))
    assert (found.limit, found.in_flight) == (8, 0)


async def test_after_an_overload_it_grows_back_halfway_and_beyond_by_one_per_window() -> None:
    found = limiter(16, 64)
    await together(16, lambda: once(found, error=OVERLOAD))
    assert found.limit == 8
    for replies, limit in ((8, 12), (12, 14), (14, 15), (15, 16), (16, 17), (17, 18)):
        await together(replies, lambda: once(found))
        assert found.limit == limit


async def test_successes_from_before_a_halving_do_not_count() -> None:
    found = limiter(4, 64)

    async def slow() -> None:
        await once(found, seconds=10.0)

    before = [asyncio.ensure_future(slow()) for _ in range(3)]
    await asyncio.sleep(0)
    for _ in range(4):
        await once(found, error=OVERLOAD)
    assert found.limit == 2
    await asyncio.gather(*before)
    assert found.limit == 2


# --- pausing ----------------------------------------------------------------------------------------------------------


async def test_a_pause_holds_all_requests_and_keeps_the_order() -> None:
    found = limiter(2, 2)
    clock = asyncio.get_running_loop().time
    started: list[tuple[int, float]] = []

    async def ask(number: int) -> None:
        async with found.slot():
            started.append((number, clock()))
            await asyncio.sleep(1.0)

    found.pause(30.0)
    found.pause(5.0)  # a shorter one does not end it
    assert found.pause_s == 30.0
    asking = asyncio.gather(*[ask(number) for number in range(5)])
    await asyncio.sleep(10.0)
    found.pause(25.0)  # it can become longer while it lasts
    await asking
    assert started == [(0, 35.0), (1, 35.0), (2, 36.0), (3, 36.0), (4, 37.0)]
    assert found.pause_s == 0.0


# --- order, and people who leave --------------------------------------------------------------------------------------


async def test_first_come_first_served() -> None:
    found = limiter(3, 3)
    order: list[int] = []

    async def ask(number: int) -> None:
        async with found.slot():
            order.append(number)
            await asyncio.sleep(random.Random(number).random())

    await asyncio.gather(*[ask(number) for number in range(200)])
    assert order == list(range(200))


@pytest.mark.parametrize("moment", ["queued", "inside", "paused", "just let in"])
async def test_a_slot_is_not_lost_with_a_canceled_request(moment: str) -> None:
    found = limiter(1, 1)
    if moment == "paused":
        found.pause(10.0)
    first = asyncio.ensure_future(once(found, seconds=0.5))
    second = asyncio.ensure_future(once(found))
    third = asyncio.ensure_future(once(found))
    await asyncio.sleep(0.1)
    if moment == "just let in":
        await first  # the second has got its place, but has not run since
        second.cancel()
    elif moment == "queued":
        second.cancel()
    else:
        first.cancel()
    await asyncio.wait([first, second, third])
    assert sum(task.cancelled() for task in (first, second, third)) == 1
    assert not third.cancelled()
    assert found.in_flight == 0
    await once(found)


steps = st.lists(
    st.tuples(
        st.sampled_from(["fine", "overload", "timeout", "other", "cancelled"]),
        st.floats(min_value=0.0, max_value=5.0),
        st.one_of(st.none(), st.floats(min_value=0.0, max_value=20.0)),
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(start=st.integers(1, 20), maximum=st.integers(1, 20), steps=steps)
def test_the_maximum_always_holds_and_every_request_gets_its_turn(
    start: int, maximum: int, steps: list[tuple[str, float, float | None]]
) -> None:
    async def main() -> None:
        found = limiter(start, maximum)
        inside = most = 0

        async def ask(ending: str, seconds: float, pause_s: float | None) -> None:
            nonlocal inside, most
            async with found.slot():
                inside += 1
                most = max(most, inside)
                assert found.pause_s == 0.0
                try:
                    await asyncio.sleep(seconds)
                finally:
                    inside -= 1
                if pause_s is not None:
                    found.pause(pause_s)
                if ending != "fine":
                    raise {"overload": OVERLOAD, "timeout": TIMEOUT}.get(ending, OTHERS[0])

        tasks = [asyncio.ensure_future(ask(*step)) for step in steps]
        await asyncio.sleep(2.0)
        for task, step in zip(tasks, steps, strict=True):
            if step[0] == "cancelled":
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert most <= maximum
        assert 1 <= found.limit <= maximum
        assert found.in_flight == inside == 0

    virtual_time.run(main())

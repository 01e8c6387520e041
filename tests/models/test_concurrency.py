"""How many requests are in flight: found out, never exceeded, first come first served. Time is simulated."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.errors import ProviderError, UserError
from medhelm.models import concurrency
from medhelm.models.concurrency import ConcurrencyLimiter, ConnectionLimit, limit_connections
from tests.support import virtual_time
from tests.support.stores import hosted_model

run_test = virtual_time.run
OVERLOAD = ProviderError("rate_limit", "too many", retryable=True, overloaded=True)
TIMEOUT = ProviderError("timeout", "no answer", retryable=True)
OTHERS: list[Exception] = [
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


def now() -> float:
    return asyncio.get_running_loop().time()


async def together(count: int, ask: Callable[[], Awaitable[None]]) -> None:
    await asyncio.gather(*[ask() for _ in range(count)])


# --- growing ----------------------------------------------------------------------------------------------------------


async def test_it_doubles_until_the_maximum_which_may_be_lowered() -> None:
    """A service that answers any number at once, in one second: 4, 8, 16 ... in flight until the maximum."""
    found = limiter(4, 100)
    await together(4 + 8 + 16 + 32 + 64, lambda: once(found))
    assert (found.limit, found.in_flight, now()) == (100, 0, 5.0)
    found.lower_maximum(200)
    assert found.limit == 100
    found.lower_maximum(5)
    await together(100, lambda: once(found))
    assert (found.limit, now()) == (5, 25.0)


# --- shrinking --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OVERLOAD, TIMEOUT], ids=["overload", "timeout"])
async def test_an_overload_halves_once_per_round_trip_and_other_errors_change_nothing(error: ProviderError) -> None:
    found = limiter(32, 32)
    for other in OTHERS:
        await once(found, error=other)
    await together(32, lambda: once(found, error=error))  # all of one round: they say the same thing
    assert found.limit == 16
    await together(16, lambda: once(found, error=error))
    assert found.limit == 8
    for _ in range(10):
        await once(found, error=error)
    assert (found.limit, found.in_flight) == (1, 0)


async def test_after_an_overload_it_grows_back_halfway_and_beyond_by_one_per_window() -> None:
    found = limiter(16, 64)
    await together(16, lambda: once(found, error=OVERLOAD))
    assert found.limit == 8
    for replies, limit in ((8, 12), (12, 14), (14, 15), (15, 16), (16, 17), (17, 18)):
        await together(replies, lambda: once(found))
        assert found.limit == limit


# --- pausing ----------------------------------------------------------------------------------------------------------


async def test_a_pause_holds_all_requests_and_keeps_the_order() -> None:
    found = limiter(2, 2)
    started: list[tuple[int, float]] = []

    async def ask(number: int) -> None:
        async with found.slot():
            started.append((number, now()))
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


NONE = resource.RLIM_INFINITY


# --- limit on open files ----------------------------------------------------------------------------------------------


def limited(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, *, wanted: int | None = None, file: str = ""
) -> tuple[ConnectionLimit, list[str], list[int]]:
    """Ask for connections with 10 open files and 2 models; return the limit, the notes and the limits set.

    This system refuses more than 1,000 files.
    """
    notes, given = list[str](), list[int]()

    def set_limit(_: int, limits: tuple[int, int]) -> None:
        if limits[0] > 1000:
            raise ValueError("not allowed to raise maximum limit")
        given.append(limits[0])

    monkeypatch.setattr(concurrency, "_open_now", lambda: 10)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    models = [hosted_model(f"openai/m{i}", base_url=f"http://127.0.0.1:{i}", endpoints_file=file) for i in range(2)]
    return limit_connections(models, wanted, 128, notes.append), notes, given


def test_limit_on_open_files_is_raised_or_respected_and_a_lower_number_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, notes, given = limited(monkeypatch, 256, NONE)
    assert (found.per_endpoint, notes, given) == (128, [], [302])
    assert limited(monkeypatch, 256, NONE, wanted=600)[0] == ConnectionLimit(210, 105)
    found, (note,), given = limited(monkeypatch, 64, 64, wanted=256)
    assert (found, given) == (ConnectionLimit(18, 9), [64])
    assert note == (
        "--concurrency 256 is lowered to 9: at most 9 requests at once are sent to each endpoint. This process may "
        "open 64 files (`ulimit -n`); `ulimit -n 1116` before the command allows more."
    )
    with pytest.raises(UserError, match=r"may open 40 files \(`ulimit -n`\).* Nothing was sent"):
        limited(monkeypatch, 40, 40)


def test_room_for_servers_that_join_later_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limited(monkeypatch, 1024, 1024, file="endpoints.txt") == (ConnectionLimit(978, 128), [], [])
    assert limited(monkeypatch, 64, 64, file="endpoints.txt")[0] == ConnectionLimit(18, 9)

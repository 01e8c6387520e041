"""The scheduler bounds concurrency, makes items when they are needed, and stops for the budget and for Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest
from filelock import FileLock

from medhelm.errors import BudgetError, Interrupted, StoreFullError, UserError
from medhelm.evaluation.scheduler import ITEMS_PER_TURN, Scheduler, StopSwitch, acquire_lock
from medhelm.io.files import finish_in_thread
from medhelm.models.client import ModelUnusable
from tests.support import virtual_time


async def numbers(n: int, made: list[int]) -> AsyncIterator[int]:
    for number in range(n):
        made.append(number)
        yield number


@pytest.mark.parametrize("limit", [1, 3, 128])
async def test_items_are_made_when_a_worker_is_free(limit: int) -> None:
    made, done, in_work = list[int](), list[int](), list[int]()

    async def work(number: int) -> None:
        in_work.append(len(made) - len(done))
        await asyncio.sleep(0)
        done.append(number)

    scheduler = Scheduler(lambda _: None)
    async with scheduler.running():
        scheduler.start_each(numbers(9, made), work, lambda: limit)
    assert sorted(done) == list(range(9))
    assert max(in_work) <= limit


@pytest.mark.parametrize("limit", [1, 96])
async def test_work_that_never_waits_leaves_turns_to_others(limit: int) -> None:
    done: list[int] = []
    done_before_each_turn: list[int] = []

    async def work(number: int) -> None:
        done.append(number)

    async def count_turns() -> None:
        done_before_each_turn.append(len(done))
        while len(done) < 5_000:
            await asyncio.sleep(0)
            done_before_each_turn.append(len(done))

    scheduler = Scheduler(lambda _: None)
    async with scheduler.running():
        scheduler.start_each(numbers(5_000, []), work, lambda: limit)
        scheduler.start(count_turns())
    assert sorted(done) == list(range(5_000))
    assert max(later - earlier for earlier, later in pairwise(done_before_each_turn)) <= ITEMS_PER_TURN


@pytest.mark.parametrize(
    ("error", "stopped", "unusable"),
    [
        (BudgetError("spent"), "budget", {}),
        (Interrupted("interrupted"), "", {}),
        (ModelUnusable("m", "wrong key"), "", {"m": "m cannot be used: wrong key"}),
    ],
)
async def test_an_attempt_that_cannot_go_on_stops_the_work(
    error: Exception, stopped: str, unusable: dict[str, str]
) -> None:
    notes: list[str] = []
    scheduler = Scheduler(notes.append)

    async def request() -> int:
        raise error

    assert await scheduler.attempt(request()) is None
    assert (scheduler.stopped, scheduler.unusable) == (stopped, unusable)
    assert notes == (["spent"] if stopped else [])
    assert scheduler.is_stopped("m") == bool(stopped or unusable)


async def test_work_in_a_thread_ends_before_what_comes_after_an_error() -> None:
    may_end = threading.Event()
    ended: list[str] = []

    def store() -> None:
        may_end.wait()
        ended.append("stored")

    async def fail() -> None:
        raise UserError("wrong")

    async def end_later() -> None:
        try:
            for _ in range(100):
                await asyncio.sleep(0)
        finally:
            may_end.set()

    scheduler, later = Scheduler(lambda _: None), asyncio.create_task(end_later())
    with pytest.raises(UserError, match="wrong"):
        async with scheduler.running():
            scheduler.start(finish_in_thread(store))
            await asyncio.sleep(0)
            scheduler.start(fail())
    assert later.done()
    assert ended == ["stored"]


@pytest.mark.parametrize(
    ("error", "raised", "words"),
    [
        (UserError("wrong"), UserError, "wrong"),
        (OSError(28, "No space left", "x"), StoreFullError, "cannot be read or written: .*repeat the command"),
        (duckdb.IOException("IO Error: full"), StoreFullError, "cannot be read or written: .*repeat the command"),
        (FileNotFoundError(2, "No such file or directory", "x"), ExceptionGroup, "unhandled errors"),
    ],
)
async def test_the_first_error_of_a_job_is_raised_with_advice_and_ends_the_others(
    error: Exception, raised: type[Exception], words: str
) -> None:
    async def fail() -> None:
        raise error

    scheduler = Scheduler(lambda _: None)
    with pytest.raises(raised, match=words):
        async with scheduler.running():
            scheduler.start(fail())
            scheduler.start(asyncio.sleep(60))


def test_a_second_interrupt_abandons_requests_and_lets_other_work_finish() -> None:
    notes, finished = list[str](), list[object]()

    async def job(scheduler: Scheduler) -> None:
        result = await scheduler.attempt(asyncio.sleep(60, "late"))
        await asyncio.sleep(0.01)  # such as the writing of a record
        finished.append(result)

    async def main() -> None:
        scheduler = Scheduler(notes.append)
        async with scheduler.running():
            scheduler.start(job(scheduler))
            for _ in range(2):
                await asyncio.sleep(0.01)
                os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.01)
        assert scheduler.stopped == "interrupt"

    virtual_time.run(main())
    assert (finished, len(notes)) == ([None], 1)


@pytest.mark.parametrize("when", ["before", "during"])
async def test_a_request_from_outside_has_the_effect_of_the_first_interrupt(when: str) -> None:
    notes, finished = list[str](), list[object]()
    switch, release = StopSwitch(), asyncio.Event()
    scheduler = Scheduler(notes.append, lambda: notes.append("no more requests"), switch)

    async def job() -> None:
        finished.append(await scheduler.attempt(release.wait()))

    if when == "before":
        switch.press()
    async with scheduler.running():
        scheduler.start(job())
        await asyncio.sleep(0)
        for _ in range(2):  # a second request changes nothing
            switch.press()
        assert scheduler.stopped == "interrupt"
        release.set()
    assert finished == [True], "what was in flight"
    assert notes == ["no more requests", "stopped from the site; requests in flight may finish, Ctrl-C abandons them"]


async def test_a_lock_of_another_process_is_waited_for_with_one_note(tmp_path: Path) -> None:
    waits, notes = list[float](), list[str]()
    held = FileLock(tmp_path / "a.lock", is_singleton=False)
    held.acquire()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            held.release()

    lock = await acquire_lock(tmp_path / "a.lock", on_wait=lambda: notes.append("waiting"), sleep=sleep)
    assert lock is not None
    assert (len(waits), notes) == (3, ["waiting"])
    lock.release()

"""A limit ends a wait in time, and a suspended process reads what has arrived before it gives up."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from medhelm.io.http.client import GRACE_S, Deadline
from tests.support import virtual_time
from tests.support.virtual_time import VirtualTimeLoop

run_test = virtual_time.run
LIMIT_S = 5.0


def loop_here() -> VirtualTimeLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return loop


async def expiry(meanwhile: Callable[[VirtualTimeLoop], object] = lambda _: None) -> float:
    """Return the time at which a wait for nothing ends; `meanwhile` runs just before the limit."""
    loop_here().call_later(LIMIT_S - 1, meanwhile, loop_here())
    with pytest.raises(TimeoutError):
        async with Deadline(LIMIT_S):
            await asyncio.Event().wait()
    return loop_here().time()


async def test_a_wait_ends_at_its_limit() -> None:
    assert await expiry() == LIMIT_S


@pytest.mark.parametrize("suspended_s", [1.1, 3600.0])
async def test_a_reply_that_arrived_during_a_suspension_is_read(suspended_s: float) -> None:
    def suspend(loop: VirtualTimeLoop) -> None:
        there.send(b"a")
        loop.suspend(suspended_s)

    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        loop_here().call_later(LIMIT_S - 1, suspend, loop_here())
        async with Deadline(LIMIT_S):
            assert await loop_here().sock_recv(here, 1) == b"a"
            await asyncio.sleep(0.1)  # a reply takes several turns of the loop to read


async def test_without_a_reply_a_suspension_extends_the_wait_by_the_grace() -> None:
    assert await expiry(lambda loop: loop.suspend(100.0)) == LIMIT_S - 1 + 100.0 + GRACE_S


async def test_a_loop_that_is_always_late_ends_the_wait_all_the_same() -> None:
    def work(loop: VirtualTimeLoop) -> None:
        loop.suspend(0.1)
        loop.call_soon(work, loop)

    assert await expiry(work) <= LIMIT_S + GRACE_S + 1.0


async def test_a_wait_that_ended_leaves_no_timer() -> None:
    async with Deadline(LIMIT_S):
        await asyncio.sleep(1.0)
    with pytest.raises(ZeroDivisionError):
        async with Deadline(LIMIT_S):
            raise ZeroDivisionError
    await asyncio.sleep(2 * LIMIT_S)  # an expired limit would interrupt this

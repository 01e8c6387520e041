"""What was started for models is ended, all of it."""

from __future__ import annotations

import asyncio

import pytest

from medhelm.models.provider import SharedResources


class Started:
    """Something that ends only once all others are being ended too."""

    def __init__(self, all_are_ending: asyncio.Barrier, error: Exception | None) -> None:
        self.all_are_ending, self.error, self.ended = all_are_ending, error, 0

    async def close(self) -> None:
        await self.all_are_ending.wait()
        self.ended += 1
        if self.error:
            raise self.error


async def test_none_waits_for_another_and_no_error_is_lost() -> None:
    resources, barrier = SharedResources(), asyncio.Barrier(3)
    started = [Started(barrier, error) for error in (None, OSError("no way"), None)]
    for number, one in enumerate(started):
        assert resources.shared(number, lambda one=one: one) is one  # type: ignore[misc]
    assert resources.shared(0, lambda: started[1]) is started[0]
    assert resources.opened(Started) == started
    with pytest.raises(OSError, match="no way"):
        await asyncio.wait_for(resources.close(), 600)
    await resources.close()
    assert [each.ended for each in started] == [1, 1, 1]

"""What was started for models is ended, all of it."""

from __future__ import annotations

import asyncio

import pytest

from medhelm.models.provider import SharedResources


class Started:
    """Something that ends only once all others are being ended too."""

    def __init__(self, others: list[Started], error: Exception | None = None) -> None:
        self.others, self.error = others, error
        self.ending = asyncio.Event()
        self.ended = 0
        others.append(self)

    async def close(self) -> None:
        self.ending.set()
        for other in self.others:
            await other.ending.wait()
        self.ended += 1
        if self.error:
            raise self.error


def test_none_waits_for_another_and_no_error_is_lost() -> None:
    async def act() -> None:
        resources = SharedResources()
        started: list[Started] = []
        for number, error in enumerate((None, OSError("no way"), None)):
            assert resources.shared(number, lambda error=error: Started(started, error)) is started[number]  # type: ignore[misc]
        assert resources.shared(0, lambda: Started(started)) is started[0]
        assert resources.opened(Started) == started
        with pytest.raises(OSError, match="no way"):
            await asyncio.wait_for(resources.close(), 600)
        await resources.close()
        assert [each.ended for each in started] == [1, 1, 1]

    asyncio.run(act())

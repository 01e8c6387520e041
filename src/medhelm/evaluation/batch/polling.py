"""Waiting for a service for as long as it takes, or until the user does not want to wait any longer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from medhelm.errors import MedHelmError, ProviderError

FIRST_RETRY_S, LONGEST_RETRY_S = 2.0, 300.0
"""Seconds between the first two attempts, which double with each further one, and the most they become."""

T = TypeVar("T")


class WaitCancelled(MedHelmError):  # noqa: N818 - what happened, not a mistake
    """The user does not want to wait: what was begun goes on at its service."""


@dataclass(slots=True)
class RetryPolicy:
    """How long to wait, and who hears of it."""

    note: Callable[[str], object]
    """Told what a person should know."""
    attempts: int = 5
    """How often something is tried that may be given up."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the user does not want to wait any longer."""

    async def pause(self, seconds: float) -> None:
        """Wait. Raises: Stopped once the user wants to stop."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), seconds)
        self.check()

    def check(self) -> None:
        """Raises: Stopped if the user wants to stop."""
        if self.stopping.is_set():
            raise WaitCancelled

    async def insist(self, ask: Callable[[], Awaitable[T]], *, times: int = 0) -> T:
        """Ask again while that may help; `times` 0: for as long as it takes.

        Raises: ProviderError if it does not help, or not in so many times; Stopped.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                return await ask()
            except ProviderError as error:
                if error.fatal or not error.retryable or attempt == times:
                    raise
                failure = error
            if attempt == 1:
                self.note(f"{str(failure).rstrip('.')}; trying again")
            await self.pause(self.wait_s(attempt, failure))

    def wait_s(self, attempt: int, error: ProviderError) -> float:
        """Seconds to wait after an attempt, from 1, that failed so."""
        return max(min(FIRST_RETRY_S * 2.0 ** (attempt - 1), LONGEST_RETRY_S), error.retry_after_s or 0.0)

"""Waiting for a batch API: retries with backoff, until the user cancels the wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from medhelm.errors import MedHelmError, ProviderError

FIRST_RETRY_S, MAX_RETRY_S = 2.0, 300.0
"""Seconds between the first two attempts, doubled with each further one, and their maximum."""

T = TypeVar("T")


class WaitCancelled(MedHelmError):  # noqa: N818 - a decision, not an error
    """The user canceled the wait. Submitted batches continue at their service."""


@dataclass(slots=True)
class RetryPolicy:
    """Number and length of retries, and the request to stop."""

    note: Callable[[str], object]
    """Receives messages for the user."""
    attempts: int = 5
    """Most attempts of calls that may be given up."""
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the user cancels the wait."""

    async def pause(self, seconds: float) -> None:
        """Sleep. Raises: WaitCancelled as soon as the user cancels."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.cancelled.wait(), seconds)
        self.check()

    def check(self) -> None:
        """Raises: WaitCancelled if the user has canceled."""
        if self.cancelled.is_set():
            raise WaitCancelled

    async def retry(self, call: Callable[[], Awaitable[T]], *, attempts: int = 0) -> T:
        """Call until it succeeds; `attempts` 0 means for as long as it takes.

        Raises: ProviderError if a retry cannot help, or after the last attempt; WaitCancelled.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                return await call()
            except ProviderError as error:
                if error.fatal or not error.retryable or attempt == attempts:
                    raise
                failure = error
            if attempt == 1:
                self.note(f"{str(failure).rstrip('.')}; retrying")
            await self.pause(self.delay_s(attempt, failure))

    def delay_s(self, attempt: int, error: ProviderError) -> float:
        """Return the seconds to wait after an attempt, counted from 1, that failed with this error."""
        return max(min(FIRST_RETRY_S * 2.0 ** (attempt - 1), MAX_RETRY_S), error.retry_after_s or 0.0)

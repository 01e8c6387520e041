"""Run many requests at once, and stop early: for runs, judges, the reference filter and batches.

Work stops when the budget is spent, the user presses Ctrl-C, or the site asks for it, which has the effect of the first
Ctrl-C. After the first Ctrl-C, requests in flight may finish; after the second, or `GRACE_S` later, they are abandoned.
Work that stores what was received is never abandoned.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from medhelm.errors import BudgetError, Interrupted
from medhelm.evaluation.settings import StopReason
from medhelm.io.files import file_mode, system_error
from medhelm.models.client import ModelUnusable

if TYPE_CHECKING:
    from filelock import FileLock

GRACE_S = 10.0
"""Time that requests in flight may still take after the first Ctrl-C."""

ITEMS_PER_TURN = 128
"""Most items taken in one turn of the event loop. Work on known completions never waits, so it would keep the loop busy
for seconds, in which no reply is read."""

LOCK_POLL_S = 0.2
"""Interval between attempts to acquire the lock of another process."""

T = TypeVar("T")


class StopSwitch:
    """Stops an evaluation from outside. Its schedulers, of which one runs at a time, connect to it."""

    def __init__(self) -> None:
        """Start without a scheduler."""
        self._is_pressed = False
        self._stop: Callable[[], None] | None = None

    def press(self) -> None:
        """Stop the scheduler that runs now, and those that follow. To be called in the thread of the event loop."""
        self._is_pressed = True
        if self._stop:
            self._stop()

    @contextmanager
    def connected(self, stop: Callable[[], None]) -> Iterator[None]:
        """Call `stop` when the switch is pressed while the block runs, and at once if it was pressed before."""
        self._stop = stop
        try:
            if self._is_pressed:
                stop()
            yield
        finally:
            self._stop = None


class Scheduler:
    """Runs jobs with bounded concurrency until they are done or the work is stopped."""

    def __init__(
        self,
        note: Callable[[str], object],
        stop_sending: Callable[[], object] = lambda: None,
        stop_switch: StopSwitch | None = None,
    ) -> None:
        """Start with no jobs.

        `note` receives messages for the user; `stop_sending` is called at the first Ctrl-C, to refuse new requests;
        `stop_switch` has the effect of the first Ctrl-C.
        """
        self._stop_switch = stop_switch or StopSwitch()
        self.stopped: StopReason = ""
        self.unusable: dict[str, str] = {}
        """Model that cannot be used -> the reason."""
        self._note, self._stop_sending = note, stop_sending
        self._group: asyncio.TaskGroup
        self._requests: set[asyncio.Task[object]] = set()
        self._abandoned = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the jobs that the block starts, and leave when all have ended.

        Raises the first MedHelmError or disk error of any job, as a MedHelmError; the other jobs are canceled.
        """
        with on_interrupt(self._interrupt), self._stop_switch.connected(self._stop_from_outside):
            try:
                async with asyncio.TaskGroup() as self._group:
                    yield
            except BaseExceptionGroup as errors:
                if (known := system_error(errors)) is None:
                    raise
                raise known from errors

    def start(self, job: Coroutine[None, None, None]) -> None:
        """Start a job beside the others."""
        self._group.create_task(job)

    def start_each(
        self, items: AsyncIterator[T], work: Callable[[T], Awaitable[None]], limit: Callable[[], int]
    ) -> None:
        """Start to work on each item, on at most as many at a time as `limit` returns.

        An item is made when there is a worker for it, and there are never more workers than items.
        """
        taking = asyncio.Lock()  # an asynchronous iterator takes one caller at a time
        workers = taken = 0

        def end_turn() -> None:
            nonlocal taken
            taken = 0

        async def worker() -> None:
            nonlocal workers, taken
            while True:
                while taken >= ITEMS_PER_TURN:
                    await asyncio.sleep(0)
                async with taking:
                    try:
                        item = await anext(items)
                    except StopAsyncIteration:
                        return
                if not taken:
                    asyncio.get_running_loop().call_soon(end_turn)
                taken += 1
                if workers < limit():
                    workers += 1
                    self.start(worker())
                await work(item)

        if limit() > 0:
            workers = 1
            self.start(worker())

    async def attempt(self, request: Coroutine[None, None, T]) -> T | None:
        """Return the result of a request; None if the work stops or its model turns out to be unusable."""
        task = asyncio.current_task()
        if task is None or self._abandoned:
            request.close()
            return None
        self._requests.add(task)
        try:
            return await request
        except asyncio.CancelledError:
            if not self._abandoned or task.uncancel():
                raise  # canceled for another reason, such as an error of another job
        except ModelUnusable as error:
            self.unusable.setdefault(error.model, str(error))
        except BudgetError as error:
            self.stop("budget", str(error))
        except Interrupted:
            pass  # the handler of the interrupt stopped the work
        finally:
            self._requests.discard(task)
        return None

    def is_stopped(self, model: str = "") -> bool:
        """Return whether nothing more may be sent, at all or to this model."""
        return bool(self.stopped) or model in self.unusable

    def stop(self, reason: StopReason, text: str) -> None:
        """Send nothing more; requests in flight may finish."""
        if not self.stopped:
            self.stopped = reason
            self._note(text)

    def _interrupt(self) -> None:
        """Stop gently at the first Ctrl-C, and at once at the second."""
        if self.stopped == "interrupt":
            self._abandon()
        else:
            self._stop_gently("stopping; requests in flight may finish, Ctrl-C again abandons them")

    def _stop_from_outside(self) -> None:
        if self.stopped != "interrupt":
            self._stop_gently("stopped from the site; requests in flight may finish, Ctrl-C abandons them")

    def _stop_gently(self, text: str) -> None:
        """Send nothing more, and give requests in flight some time."""
        self._stop_sending()
        self.stop("interrupt", text)
        self.stopped = "interrupt"
        asyncio.get_running_loop().call_later(GRACE_S, self._abandon)

    def _abandon(self) -> None:
        """Cancel all requests in flight."""
        self._abandoned = True
        for task in self._requests:
            task.cancel()


@contextmanager
def on_interrupt(action: Callable[[], None]) -> Iterator[None]:
    """Call `action` in the running loop at every SIGINT, SIGTERM and SIGHUP while the block runs.

    Without signal handlers (on some systems, and in all threads but the main one) the signals end the program.
    """
    loop = asyncio.get_running_loop()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        numbers.append(signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        for number in numbers:
            loop.add_signal_handler(number, action)
    except (NotImplementedError, ValueError, RuntimeError):
        yield
        return
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number] or signal.SIG_DFL)


async def acquire_lock(
    file: Path,
    *,
    on_wait: Callable[[], object],
    is_stopped: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> FileLock | None:
    """Wait for the lock that other processes hold; return None if the work stops before that.

    `on_wait` is called once if the lock is taken. `sleep` may raise to end the wait.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(file, mode=file_mode(file))
    is_waiting = False
    while not is_stopped():
        with suppress(Timeout):
            lock.acquire(blocking=False)
            return lock
        if not is_waiting:
            on_wait()
            is_waiting = True
        await sleep(LOCK_POLL_S)
    return None

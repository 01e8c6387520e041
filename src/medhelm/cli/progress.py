"""Progress of an evaluation: a live display in a terminal, else a line now and then."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

import click

from medhelm.cli.global_options import Shared
from medhelm.domain.text import duration, plural, short_count
from medhelm.evaluation.recorder import NullListener, ProgressListener, RunRecorder

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from medhelm.models.client import PoolProvider


REFRESH_PER_S = 5
"""Redraws of the lines per second."""

REPORT_INTERVAL_S = 60.0
"""Time between two lines if there is no terminal."""

BAR_WIDTH = 16
"""Characters of a progress bar."""


class MinuteLines:
    """Progress listener that prints one line a minute and notes, for output that is not a terminal."""

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        clock: Callable[[], float] = perf_counter,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        """Create a listener that prints to `stream`, by default standard error.

        `wait`: waits for a number of seconds and returns True once the work has ended. Tests replace it and `clock`.
        """
        self._stream, self._clock = stream or sys.stderr, clock
        self._ended = threading.Event()
        self._wait = wait or self._ended.wait
        self._running: list[RunRecorder] = []
        self._pools: Sequence[PoolProvider] = ()
        self._thread = threading.Thread(target=self._print_lines, daemon=True)

    def __enter__(self) -> MinuteLines:
        """Start to print."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop printing."""
        self._ended.set()
        self._thread.join()

    def began(self, run: RunRecorder) -> None:
        """Include a run in the lines."""
        self._running.append(run)

    def ended(self, run: RunRecorder) -> None:
        """Leave a run out of the lines."""
        if run in self._running:
            self._running.remove(run)

    def watch(self, pools: Sequence[PoolProvider]) -> None:
        """Include the servers of pools, with a line for each."""
        self._pools = pools

    def note(self, text: str) -> None:
        """Print one line."""
        print(f"medhelm: {text}", file=self._stream, flush=True)

    def _print_lines(self) -> None:
        while not self._wait(REPORT_INTERVAL_S):
            if running := self._running.copy():
                self.note(summarize(running, self._clock()))
                for address, *cells in servers_of(self._pools):
                    self.note(f"{address}: {', '.join(filter(None, cells))}")


class Lines:
    """Progress listener that draws a live line for each running run and keeps the line of each finished one."""

    def __init__(self, *, color: bool = True) -> None:
        """Create a listener that draws on standard error, which must be a terminal."""
        self._color = color
        self._running: list[RunRecorder] = []
        self._pools: Sequence[PoolProvider] = ()
        self._stack = ExitStack()
        self._guard = threading.Lock()

    def __enter__(self) -> Lines:
        """Start drawing."""
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True, no_color=None if self._color else True)
        self._stack.enter_context(
            Live(console=self._console, get_renderable=self._table, refresh_per_second=REFRESH_PER_S, transient=True)
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop drawing and remove the lines of running runs."""
        self._stack.close()

    def began(self, run: RunRecorder) -> None:
        """Add the line of a run."""
        with self._guard:
            self._running.append(run)

    def ended(self, run: RunRecorder) -> None:
        """Print the final line of a run."""
        with self._guard:
            if run in self._running:
                self._running.remove(run)
        if run.done:
            self._console.print(self._lines([run]))

    def watch(self, pools: Sequence[PoolProvider]) -> None:
        """Add a line for each server of pools."""
        self._pools = pools

    def note(self, text: str) -> None:
        """Print one line above the live lines."""
        self._console.print(text, style="yellow", markup=False, highlight=False)

    def _table(self) -> Group:
        from rich.console import Group

        with self._guard:
            return Group(self._lines(self._running), _grid(servers_of(self._pools)))

    def _lines(self, runs: list[RunRecorder]) -> Table:
        return _grid([describe(run, perf_counter() - run.started) for run in runs])


def _grid(rows: Sequence[Sequence[str]]) -> Table:
    """Return rows of cells as a table in which each row takes one line."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for cells in rows:
        table.add_row(*(Text(cell, overflow="ellipsis", no_wrap=True) for cell in cells))
    return table


def servers_of(pools: Sequence[PoolProvider]) -> list[tuple[str, ...]]:
    """Return cells for each server of the pools: address, state, requests in flight, completions."""
    return [
        (
            server.address,
            server.state,
            f"{server.in_flight} of {server.limit} in flight" if server.in_flight or server.state == "ready" else "",
            f"{server.done:,} done",
        )
        for pool in tuple(pools)
        for server in pool.progress()
    ]


def describe(run: RunRecorder, elapsed_s: float) -> tuple[str, ...]:
    """Return the cells of a run's line: names, bar, done of n, failures, rate, tokens, cost so far, time left."""
    rate = run.done / elapsed_s if elapsed_s > 0 else 0.0
    tokens = run.usage.input + run.usage.output
    return (
        run.benchmark.name,
        run.model.name,
        _bar(run.done, run.n),
        f"{run.done}/{run.n}",
        _missing([run]),
        _rate(rate),
        f"{short_count(tokens)} tokens" if tokens else "",
        _cost([run]),
        "" if run.run else f"{duration(_time_left(run, rate))} left",
    )


def summarize(runs: Sequence[RunRecorder], now: float) -> str:
    """Summarize runs in progress in one line: names, done of n, failures, rate, cost so far, time left."""
    rates = [run.done / max(now - run.started, 1e-9) for run in runs]
    left = [_time_left(run, rate) for run, rate in zip(runs, rates, strict=True)]
    slowest = None if None in left else max(seconds or 0.0 for seconds in left)
    name = f"{runs[0].benchmark.name} with {runs[0].model.name}" if len(runs) == 1 else plural(len(runs), "run")
    done, n = sum(run.done for run in runs), sum(run.n for run in runs)
    parts = [f"{done:,} of {n:,} done", _missing(runs), _rate(sum(rates)), _cost(runs), f"{duration(slowest)} left"]
    return f"{name}: {', '.join(filter(None, parts))}"


def _time_left(run: RunRecorder, rate: float) -> float | None:
    """Return the seconds that a run still needs at its rate so far; None if nothing is done yet."""
    return (run.n - run.done) / rate if rate else None


def _rate(rate: float) -> str:
    return f"{rate:.0f}/s" if rate >= 10 else f"{rate:.1f}/s"


def _missing(runs: Sequence[RunRecorder]) -> str:
    """Return the numbers of failed completions and missing judgments; empty if both are 0."""
    failed, judgments = sum(run.failed for run in runs), sum(run.jury.failed for run in runs if run.jury)
    parts = [f"{failed:,} failed"] if failed else []
    return ", ".join([*parts, *([f"{plural(judgments, 'judgment')} missing"] if judgments else [])])


def _cost(runs: Sequence[RunRecorder]) -> str:
    """Return the cost so far; `?` if a price is unknown."""
    costs = [run.cost_usd for run in runs]
    return "cost ?" if None in costs else f"{sum(cost or 0.0 for cost in costs):.2f} USD"


def _bar(done: int, n: int) -> str:
    filled = BAR_WIDTH * done // n if n else BAR_WIDTH
    return "█" * filled + "░" * (BAR_WIDTH - filled)


def progress_listener(shared: Shared) -> AbstractContextManager[ProgressListener]:
    """Return the listener for a terminal, for other output, or for `--quiet`."""
    if shared.quiet:
        return nullcontext(NullListener())
    return Lines(color=shared.color) if sys.stderr.isatty() else MinuteLines()


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], object] | None]:
    """Yield a function that draws a progress bar from (done, total); None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=1, label=label, file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield show

"""Progress of running evaluations: one live line per run in a terminal, notes only elsewhere."""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from medhelm.domain.text import duration, short_count
from medhelm.evaluation.run_recorder import RunRecorder

if TYPE_CHECKING:
    from rich.table import Table

REFRESH_PER_S = 5
"""Redraws of the lines per second."""


class Quiet:
    """Progress listener that prints notes only, for output that is not a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Create a listener that prints to `stream`, by default standard error."""
        self._stream = stream or sys.stderr

    def __enter__(self) -> Quiet:
        """Do nothing."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Do nothing."""

    def began(self, run: RunRecorder) -> None:
        """Do nothing."""

    def ended(self, run: RunRecorder) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Print one line."""
        print(f"medhelm: {text}", file=self._stream, flush=True)


class Lines:
    """Progress listener that draws a live line for each running run and keeps the line of each finished one."""

    def __init__(self) -> None:
        """Create a listener that draws on standard error, which must be a terminal."""
        self._running: list[RunRecorder] = []
        self._stack = ExitStack()
        self._guard = threading.Lock()

    def __enter__(self) -> Lines:
        """Start drawing."""
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True)
        self._stack.enter_context(
            Live(console=self._console, get_renderable=self._table, refresh_per_second=REFRESH_PER_S, transient=True)
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Remove the lines of running runs."""
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

    def note(self, text: str) -> None:
        """Print one line above the live lines."""
        self._console.print(text, style="yellow", markup=False, highlight=False)

    def _table(self) -> Table:
        with self._guard:
            return self._lines(self._running)

    def _lines(self, runs: list[RunRecorder]) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        for run in runs:
            cells = describe(run, perf_counter() - run.started)
            table.add_row(*(Text(cell, overflow="ellipsis", no_wrap=True) for cell in cells))
        return table


def describe(run: RunRecorder, elapsed_s: float) -> tuple[str, ...]:
    """Return the cells of a run's line: names, bar, done of n, failures, rate, tokens, cost so far, time left."""
    rate = run.done / elapsed_s if elapsed_s > 0 else 0.0
    left = (run.n - run.done) / rate if rate else None
    tokens = run.usage.input + run.usage.output
    missing = [f"{run.failed} failed"] if run.failed else []
    if run.jury and run.jury.failed:
        missing.append(f"{run.jury.failed} judgments missing")
    cost = "cost ?" if run.cost_usd is None else f"{run.cost_usd:.2f} USD"
    return (
        run.benchmark.name,
        run.model.name,
        _bar(run.done, run.n),
        f"{run.done}/{run.n}",
        ", ".join(missing),
        f"{rate:.0f}/s" if rate >= 10 else f"{rate:.1f}/s",
        f"{short_count(tokens)} tokens" if tokens else "",
        cost,
        "" if run.run else f"{duration(left)} left",
    )


def _bar(done: int, n: int, width: int = 16) -> str:
    filled = width * done // n if n else width
    return "█" * filled + "░" * (width - filled)


def progress_listener() -> Quiet | Lines:
    """Lines in a terminal, silence elsewhere."""
    return Lines() if sys.stderr.isatty() else Quiet()

"""What an evaluation came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from medhelm.domain import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The runs of an evaluation, and how it ended."""

    runs: tuple[Run, ...]
    """One for each model and benchmark, in the order asked for."""
    stopped: Literal["", "budget", "interrupt"]
    """Why it ended early; empty if it did not."""
    messages: tuple[str, ...]
    """What a person must know: one for each model or judge that had to be given up."""
    cost_usd: float
    """Spent in this execution, on models and judges whose price is known."""
    seconds: float
    """Wall-clock time."""

    @property
    def requests_sent(self) -> int:
        """Requests that left in this execution, retries and those to judges included."""
        return sum(requests_sent(run) for run in self.runs)

    @property
    def exit_code(self) -> int:
        """0 all done, 1 some requests, judgments or scores failed, 3 stopped by the budget, 130 interrupted."""
        if self.stopped:
            return {"budget": 3, "interrupt": 130}[self.stopped]
        return int(any(run.status != "complete" or run.n_failed or _is_unscored(run) for run in self.runs))


def requests_sent(run: Run) -> int:
    """Requests that left for a run in its execution: to the model, and to its judges."""
    judges = run.jury_result.tallies.values() if run.jury_result else ()
    return run.requests_sent + sum(tally.requests_sent for tally in judges)


def _is_unscored(run: Run) -> bool:
    """Whether a judgment is missing, or the main metric could not score a completion that was there."""
    if run.jury_result and any(tally.failed for tally in run.jury_result.tallies.values()):
        return True
    main = [by_metric.get(run.main_metric) for by_metric in run.estimates.values()]
    return any(estimate is None or estimate.n_failed > run.n_failed for estimate in main)

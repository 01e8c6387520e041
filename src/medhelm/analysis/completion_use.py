"""Tokens and time of a model's own completions: what using it takes, without judges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from medhelm.analysis.means import Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunUse:
    """Tokens and time of the completions of one run."""

    completions: int
    """Number of completions."""
    has_known_cost: bool = True
    """False for completions from a file, which were bought elsewhere: that they cost nothing here says nothing."""
    input_tokens: int | None = None
    """Input tokens of all of them; None if unknown."""
    output_tokens: int | None = None
    """Output tokens of all of them, reasoning included; None if unknown."""
    seconds: Floats | None = None
    """Seconds of each request without waits and retries, shape (n,): nan for batches and where the time is not known.
    None if no time is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionUse:
    """Cost, tokens and time of a model's completions on several benchmarks, all benchmarks pooled."""

    completions: int
    """Number of completions."""
    usd_per_1000: float | None
    """US dollars for 1,000 completions; None if unknown."""
    input_tokens: float | None
    """Mean input tokens of a completion; None if unknown on any benchmark."""
    output_tokens: float | None
    """Mean output tokens of a completion, reasoning included; None if unknown on any benchmark."""
    seconds: float | None
    """Median seconds of a completion; None if no time is known on any benchmark."""
    mean_seconds: float | None
    """Mean seconds of a completion; None as `seconds`."""

    @property
    def tokens(self) -> float | None:
        """Mean input and output tokens of a completion; None if unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens


def pooled_times(runs: Sequence[RunUse]) -> tuple[float, float] | None:
    """Return the median and the mean seconds of a completion of some runs; None if those of any run are unknown."""
    times = [None if run.seconds is None else run.seconds[~np.isnan(run.seconds)] for run in runs]
    timed = [one for one in times if one is not None and len(one)]
    if len(timed) < len(times):
        return None
    seconds = np.concatenate(timed)
    return float(np.median(seconds)), float(seconds.mean())


def pooled_use(runs: Iterable[RunUse | None], cost_usd: float | None) -> CompletionUse | None:
    """Pool the runs of one model.

    Parameters: runs, one per benchmark; cost_usd, of all of them together.
    Returns: None if a run's use is unknown, or no run has a completion.

    >>> pooled_use([RunUse(completions=2, input_tokens=30, output_tokens=10)], 0.5).usd_per_1000
    250.0
    """
    found = list(runs)
    known = [run for run in found if run is not None]
    completions = sum(run.completions for run in known)
    if len(known) < len(found) or not completions:
        return None
    seconds = pooled_times([run for run in known if run.completions])
    known_cost = cost_usd if all(run.has_known_cost for run in known) else None
    return CompletionUse(
        completions=completions,
        usd_per_1000=None if known_cost is None else 1000 * known_cost / completions,
        input_tokens=_mean((run.input_tokens for run in known), completions),
        output_tokens=_mean((run.output_tokens for run in known), completions),
        seconds=seconds and seconds[0],
        mean_seconds=seconds and seconds[1],
    )


def _mean(counts: Iterable[int | None], completions: int) -> float | None:
    """Return the mean per completion; None if a count is unknown."""
    known = list(counts)
    return None if None in known else sum(one for one in known if one is not None) / completions

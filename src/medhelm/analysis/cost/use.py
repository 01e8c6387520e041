"""Tokens and time of a model's own completions: what using it takes, without judges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.analysis.statistics.numbers_cache import NumbersCache, digest

ALL = "all"
"""In place of the name of a benchmark: times are pooled over all."""

LEAST_KEPT, MOST_KEPT = 20_000, 10_000
"""Completions of a model from which its times are kept, and most models and selections of runs."""


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
    source: str = ""
    """Identity of what `seconds` were read from; empty if it is not known."""


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


Times = Callable[[Sequence[RunUse]], tuple[float, float] | None]
"""A function as `pooled_times`."""


class KeptTimes:
    """Works as `pooled_times`, and keeps the results for other processes."""

    def __init__(self, cache: NumbersCache | None) -> None:
        """`cache`: None to keep nothing."""
        self._cache, self._known, self._is_changed = cache, dict[bytes, Floats](), False
        found = cache and cache.find(ALL, "seconds", digest("seconds"))
        if found and {"keys", "times"} <= found.keys():
            self._known = {key.tobytes(): times for key, times in zip(found["keys"], found["times"], strict=False)}

    def __call__(self, runs: Sequence[RunUse]) -> tuple[float, float] | None:
        """Return the median and the mean seconds of a completion of some runs."""
        if self._cache is None or sum(run.completions for run in runs) < LEAST_KEPT or not all(r.source for r in runs):
            return pooled_times(runs)
        key = bytes.fromhex(digest([run.source for run in runs]))
        if key not in self._known:
            self._known[key] = np.array(pooled_times(runs) or (np.nan, np.nan))
            self._is_changed = True
        median, mean = self._known[key].tolist()
        return None if np.isnan(median) else (median, mean)

    def save(self) -> None:
        """Keep what is new, in place of the oldest results if there are many."""
        if self._cache is not None and self._is_changed:
            kept = dict(list(self._known.items())[-MOST_KEPT:])
            keys = np.array([np.frombuffer(key, np.uint8) for key in kept])
            self._cache.add(ALL, "seconds", digest("seconds"), {"keys": keys, "times": np.array(list(kept.values()))})


def pooled_use(
    runs: Iterable[RunUse | None], cost_usd: float | None, times: Times = pooled_times
) -> CompletionUse | None:
    """Pool the runs of one model.

    Parameters: runs, one per benchmark; cost_usd, of all of them together; times, pools their seconds.
    Returns: None if a run's use is unknown, or no run has a completion.

    >>> pooled_use([RunUse(completions=2, input_tokens=30, output_tokens=10)], 0.5).usd_per_1000
    250.0
    """
    found = list(runs)
    known = [run for run in found if run is not None]
    completions = sum(run.completions for run in known)
    if len(known) < len(found) or not completions:
        return None
    seconds = times([run for run in known if run.completions])
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

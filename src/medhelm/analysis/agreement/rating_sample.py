"""Draws completions for clinicians to rate, and compares the rated with the others.

Half of a stratified draw is in proportion to the strata, thirds of the scale of the jury's scores, and half in equal
parts: rare bad completions are rated more often, and no completion less than half as often as in a simple draw. The
probability of each completion is known, so that calibration can weigh it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.agreement.raters import require_scale
from medhelm.analysis.statistics.cluster_bootstrap import Floats

STRATA = 3
"""Number of equal parts of the jury's scale."""

IMBALANCE = 0.25
"""Standardized difference above which rated and unrated completions differ too much (Rubin 2001)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selection:
    """Completions drawn to be rated."""

    drawn: NDArray[np.intp]
    """Their positions, in random order."""
    probabilities: Floats
    """Shape (n,): probability with which each completion was drawn; nan without a jury score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnCompletion:
    """A completion to be rated."""

    benchmark: str
    """Name of the benchmark."""
    model: str
    """Name of the model."""
    instance_id: str
    """Id of the instance."""
    prompt: str
    """Text that the model was sent; "" if the store does not have it."""
    references: tuple[str, ...]
    """Correct completions."""
    completion: str
    """Text to rate."""
    probability: float
    """Probability with which it was drawn among the model's completions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingSample:
    """Completions to be rated, and the criteria to rate them by."""

    criteria: tuple[str, ...]
    """Criteria of all benchmarks."""
    completions: tuple[DrawnCompletion, ...]
    """In random order within each benchmark."""
    scales: Mapping[tuple[str, str], tuple[float, float, bool]] = field(default_factory=dict)
    """Benchmark and criterion -> lowest and highest grade, and whether the highest is the best."""
    left_out: tuple[str, ...] = ()
    """Baselines that nothing was drawn from."""

    def texts(self) -> Iterator[str]:
        """Yield each text that a rater reads."""
        for one in self.completions:
            yield from (one.prompt, "\n\n".join(one.references), one.completion)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imbalance:
    """Difference between rated and unrated completions."""

    value: float
    """Mean of the rated minus that of the others, in standard deviations."""
    by_chance: float
    """Size of the difference that a random draw exceeds in 5% of cases."""


def draw_completions(
    scores: Floats, size: int, rng: np.random.Generator, *, scale: tuple[float, float] | None = None
) -> Selection:
    """Draw completions at random, without replacement.

    Parameters: scores, shape (n,), the jury's, nan if missing: those are not drawn; size, number to draw, of which
    there may be fewer; scale, ends of the jury's scale to stratify by score, None for equal probabilities.

    >>> found = draw_completions(np.array([1.0, 5, 5, 5, 5, 5]), 2, np.random.default_rng(0), scale=(1, 5))
    >>> found.probabilities.tolist()
    [1.0, 0.2, 0.2, 0.2, 0.2, 0.2]
    """
    scores = np.asarray(scores, dtype=float)
    there = np.flatnonzero(~np.isnan(scores))
    strata = np.zeros(len(there), dtype=np.intp)
    if scale:
        require_scale(*scale)
        low, high = scale
        edges = low + (high - low) * np.arange(1, STRATA) / STRATA
        strata = np.searchsorted(edges, scores[there], side="right")
        if size < len(np.unique(strata)):
            strata[:] = 0  # too few for one of each: every completion must have a chance
    sizes = np.bincount(strata, minlength=1)
    probabilities = np.full(len(scores), np.nan)
    drawn = []
    for stratum, number in enumerate(_allocate(sizes, min(size, len(there)))):
        members = there[strata == stratum]
        if len(members):
            probabilities[members] = number / len(members)
            drawn.append(rng.permutation(members)[:number])
    chosen = rng.permutation(np.concatenate(drawn)) if drawn else np.array([], dtype=np.intp)
    return Selection(drawn=chosen.astype(np.intp), probabilities=probabilities)


def draw_shared(scores: Floats, size: int, rng: np.random.Generator) -> Selection:
    """Draw completions at random so that equal generators draw the same instances, whatever else has a score.

    Parameters: scores, shape (n,), of instances in the same order for all models, nan if missing: those are not drawn;
    size, number to draw, of which there may be fewer.

    >>> one, other = (draw_shared(np.array([4.0, 5, 3, gap]), 2, np.random.default_rng(0)) for gap in (2.0, np.nan))
    >>> sorted(one.drawn.tolist()), sorted(other.drawn.tolist())
    ([0, 2], [0, 2])
    """
    there = ~np.isnan(np.asarray(scores, dtype=float))
    order = rng.permutation(len(there))
    drawn = order[there[order]][:size]
    share = len(drawn) / max(int(there.sum()), 1)
    return Selection(drawn=drawn.astype(np.intp), probabilities=np.where(there, share, np.nan))


def _allocate(sizes: NDArray[np.intp], total: int) -> list[int]:
    """Divide a draw among strata: half in proportion, half equally, at least 1 and at most all of each if possible."""
    present = sizes > 0
    if not present.any() or total == 0:
        return [0] * len(sizes)
    wanted = total * (sizes / sizes.sum() + present / present.sum()) / 2
    given = np.minimum(present.astype(np.intp), sizes)
    if given.sum() > total:
        given[:] = 0
    while given.sum() < total:
        lacking = np.where(given < sizes, wanted - given, -np.inf)
        given[int(lacking.argmax())] += 1
    return [int(number) for number in given]


def imbalance(values: Floats, is_rated: NDArray[np.bool_], weights: Floats | None = None) -> Imbalance | None:
    """Compare the rated completions with the others in one property, such as the jury's score.

    Parameters: values, shape (n,), nan if missing; is_rated, shape (n,); weights, shape (n,), one over the probability
    with which each rated completion was drawn, None if equal: the rated then represent all, and are compared with all.
    Returns: None if fewer than two are rated or unrated, and if all values are the same.
    """
    there = ~np.isnan(values)
    rated, others = there & is_rated, there & ~is_rated
    m, u = int(rated.sum()), int(others.sum())
    if m < 2 or u < 2:
        return None
    spread = float(values[there].std(ddof=1))
    if spread <= 1e-12 * max(1.0, float(np.abs(values[there]).max())):
        return None
    if weights is None:
        value = float(values[rated].mean() - values[others].mean()) / spread
        return Imbalance(value=value, by_chance=1.96 * float(np.sqrt(1 / m + 1 / u)))
    shares = weights[rated] / weights[rated].sum()
    value = float(shares @ values[rated] - values[there].mean()) / spread
    return Imbalance(value=value, by_chance=1.96 * float(np.sqrt(shares @ shares)))

"""Sensitivity to the prompt: spread of means, and stability of ranks.

Everything here is about the prompts and the models at hand, not about others that might have been tried: only the
instances are a sample. They are drawn again in whole clusters, the same for all prompts and models.

The range and the standard deviation of the means of several prompts are above zero even if the prompts are equal,
because the means are uncertain. So each comes with the value to expect then (`by_chance`). Both are seminorms of the
vector of means: the error of a spread is at most the spread of the errors, whose 95% quantile gives the interval. It
covers the true spread in at least 95% of samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.means import (
    DRAWS,
    NORMAL,
    Clusters,
    Floats,
    cluster_codes,
    cluster_totals,
    draw_means,
    percentile_interval,
    t_quantile,
)
from medhelm.domain import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSpread:
    """Spread of the means of one model over several prompts."""

    means: tuple[float, ...]
    """Mean under each prompt, over the instances that have a score under all of them."""
    range: Estimate
    """Highest mean minus lowest mean."""
    sd: Estimate
    """Standard deviation of the means."""
    range_by_chance: float
    """Range to expect if all prompts were equal."""
    sd_by_chance: float
    """Standard deviation to expect if all prompts were equal."""

    @property
    def is_beyond_chance(self) -> bool:
        """True if the prompts are not equal, by the interval of the range."""
        return self.range.low > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOrder:
    """Order of two models over several prompts."""

    first: int
    """Position of a model."""
    second: int
    """Position of the other model."""
    n_first_better: int
    """Prompts under which the first has the higher mean."""
    n_second_better: int
    """Prompts under which the second has the higher mean."""
    same_order: float
    """Share of draws of the instances in which the same model is better under every prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRankStability:
    """Agreement of several prompts on the ranks of models."""

    kendalls_w: Estimate
    """Kendall's coefficient of concordance: 1 if all prompts give the same ranks, near 0 if the ranks are unrelated."""
    pairs: tuple[PairOrder, ...]
    """Each pair of models."""


def spread(
    scores: Floats,
    rng: np.random.Generator,
    *,
    clusters: Clusters = None,
    span: float = 1.0,
    draws: int = DRAWS,
) -> PromptSpread:
    """Measure the spread of the means of one model over prompts.

    Where no instance has different scores, some that were not drawn may have: intervals allow for the largest share of
    them that is compatible with none in the sample.

    Parameters: scores, shape (prompts, instances), nan if missing, at least two prompts; clusters, as for `estimate`;
    span, length of the scale of the scores.
    Raises: ValueError for one prompt, or without an instance that all prompts have.
    """
    scores, codes, k, n_left_out = _complete(scores, clusters)
    if len(scores) < 2:
        raise ValueError("the spread over prompts needs at least two")
    means = scores.mean(axis=1)
    drawn = _drawn_means(scores, codes, k, rng, draws)
    errors = None if drawn is None else drawn - means

    def measured(norm: Callable[[Floats], Floats], method: str) -> tuple[Estimate, float]:
        value = float(norm(means[None])[0])
        if errors is None:
            return _estimate(value, (0.0, math.inf), scores, n_left_out, method), math.nan
        sizes = norm(errors)
        most = float(np.quantile(sizes, 2 * NORMAL.cdf(t_quantile(0.975, k - 1)) - 1))
        most = max(most, span * (1 - 0.05 ** (1 / k)))
        ends = (max(0.0, value - most), value + most)
        return _estimate(value, ends, scores, n_left_out, method), float(sizes.mean())

    in_range, range_by_chance = measured(lambda rows: np.ptp(rows, axis=1), "range, bootstrap")
    sd, sd_by_chance = measured(lambda rows: np.std(rows, axis=1, ddof=1), "sd, bootstrap")
    return PromptSpread(
        means=tuple(map(float, means)),
        range=in_range,
        sd=sd,
        range_by_chance=range_by_chance,
        sd_by_chance=sd_by_chance,
    )


def rank_stability(
    scores: Floats, rng: np.random.Generator, *, clusters: Clusters = None, draws: int = DRAWS
) -> PromptRankStability:
    """Measure whether the order of models survives a change of the prompt.

    Parameters: scores, shape (models, prompts, instances), nan if missing, at least two models and two prompts; higher
    is better. Raises: ValueError for fewer, or without an instance that has all scores.
    """
    m, p, _ = scores.shape
    if min(m, p) < 2:
        raise ValueError("the stability of ranks needs at least two models and two prompts")
    rows, codes, k, n_left_out = _complete(scores.reshape(m * p, -1), clusters)
    means = rows.mean(axis=1).reshape(1, m, p)
    drawn = _drawn_means(rows, codes, k, rng, draws)
    tables = means if drawn is None else drawn.reshape(-1, m, p)
    w = float(concordance(means)[0])
    ends = (0.0, 1.0) if drawn is None else percentile_interval(concordance(tables), k)
    pairs = []
    for a, b in combinations(range(m), 2):
        signs = np.sign(np.round(tables[:, a] - tables[:, b], 12))
        here = np.sign(np.round(means[0, a] - means[0, b], 12))
        pairs.append(
            PairOrder(
                first=a,
                second=b,
                n_first_better=int((here > 0).sum()),
                n_second_better=int((here < 0).sum()),
                same_order=float(((signs > 0).all(axis=1) | (signs < 0).all(axis=1)).mean()),
            )
        )
    return PromptRankStability(
        kendalls_w=_estimate(w, ends, rows, n_left_out, "Kendall's W, bootstrap"), pairs=tuple(pairs)
    )


def concordance(tables: Floats) -> Floats:
    """Return Kendall's W, corrected for ties, of the ranks of models under prompts; nan if all are tied.

    Parameters: tables, shape (draws, models, prompts).

    >>> float(concordance(np.array([[[0.9, 0.8], [0.5, 0.6], [0.1, 0.2]]]))[0])
    1.0
    """
    _, m, p = tables.shape
    rounded = np.round(tables, 12)  # equal means that were added in another order stay tied
    ones, others = rounded[:, :, None, :], rounded[:, None, :, :]
    equal = (ones == others).sum(axis=2).astype(float)  # the size of the tie that each model is in
    sums = ((ones > others).sum(axis=2) + (equal + 1) / 2).sum(axis=2)
    s = ((sums - p * (m + 1) / 2) ** 2).sum(axis=1)
    ties = (equal**2 - 1).sum(axis=(1, 2))  # a tie of t models adds t * (t^2 - 1)
    most = p**2 * (m**3 - m) - p * ties
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.where(most > 0, 12 * s / most, np.nan)
    return found


def _complete(rows: Floats, clusters: Clusters) -> tuple[Floats, NDArray[np.intp], int, int]:
    """Return the instances that all rows have, the numbers of their clusters, and how many are left out.

    Raises: ValueError if there are none.
    """
    rows = np.asarray(rows, dtype=float)
    known = ~np.isnan(rows).any(axis=0)
    if not known.any():
        raise ValueError("no instance has a score under every prompt")
    names = None if clusters is None else np.asarray(clusters)[known]
    codes, k = cluster_codes(names, int(known.sum()))
    return rows[:, known], codes, k, int((~known).sum())


def _drawn_means(rows: Floats, codes: NDArray[np.intp], k: int, rng: np.random.Generator, draws: int) -> Floats | None:
    """Return means of other samples of clusters, shape (draws, rows); None for a single cluster."""
    return draw_means(*cluster_totals(rows, codes, k), rng, draws) if k >= 2 else None


def _estimate(value: float, ends: tuple[float, float], rows: Floats, n_left_out: int, method: str) -> Estimate:
    """Return an estimate whose interval holds the value."""
    low, high = min(ends[0], value), max(ends[1], value)
    return Estimate(value=value, low=low, high=high, n=rows.shape[1], n_failed=n_left_out, method=method)

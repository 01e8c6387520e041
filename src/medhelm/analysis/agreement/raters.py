"""Standardizes ratings by rater, and averages coefficients over pairs of raters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np

from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.domain.text import listed

LEAST_SHARED = 2
"""Minimum number of instances that two raters must share to count as a pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient:
    """A measure of agreement or of correlation."""

    value: float | None
    """At most 1; None where it is undefined."""
    n: int
    """Number of instances used."""
    n_left_out: int
    """Instances left out because ratings are missing."""
    low: float | None = None
    """Lower end of the 95% interval; None if not computed."""
    high: float | None = None
    """Upper end of the 95% interval, or None."""
    reason: str = ""
    """Reason why the value or its interval is None, else empty."""


def require_finite(ratings: Floats) -> None:
    """Raise ValueError if a rating is infinite; nan is a missing rating.

    >>> require_finite(np.array([1.0, np.inf]))
    Traceback (most recent call last):
    ValueError: 1 of 2 ratings is infinite: ratings must be finite numbers, or nan if missing
    """
    infinite = int(np.isinf(ratings).sum())
    if infinite:
        count = f"{infinite} of {np.size(ratings)} ratings {'is' if infinite == 1 else 'are'} infinite"
        raise ValueError(f"{count}: ratings must be finite numbers, or nan if missing")


def require_scale(low: float, high: float) -> None:
    """Raise ValueError unless a scale has two finite ends, the lower one first."""
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"a scale needs finite ends, the lowest first, not {low:g} and {high:g}")


def require_known(name: str, value: str, known: Sequence[str]) -> None:
    """Raise ValueError unless a form of a coefficient is one that is computed.

    >>> require_known("form", "2,k", ("3,k", "3,1"))
    Traceback (most recent call last):
    ValueError: form `2,k` is not computed: choose one of 3,k and 3,1
    """
    if value not in known:
        raise ValueError(f"{name} `{value}` is not computed: choose one of {listed(known)}")


class Measure(Protocol):
    """Result with a value or the reason for its absence, such as `Coefficient` and `Icc`."""

    @property
    def value(self) -> float | None:
        """The number, or None."""

    @property
    def reason(self) -> str:
        """Reason if there is no value, else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterPair:
    """Agreement of two raters on the instances that both rated."""

    first: int
    """Column of one rater."""
    second: int
    """Column of the other."""
    n: int
    """Number of instances that both rated."""
    value: float | None
    """The coefficient of the pair; None if undefined."""
    reason: str = ""
    """Reason if there is no value, else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseCoefficient:
    """Unweighted mean of a coefficient over all pairs of raters for which it is defined."""

    value: float | None
    """Mean over the pairs with a value; None if no pair has one."""
    n_pairs: int
    """Pairs with a value."""
    pairs: tuple[RaterPair, ...]
    """All pairs that share an instance, including those without a value, in the order of their columns."""


def average_over_pairs(ratings: Floats, measure: Callable[[Floats], Measure]) -> PairwiseCoefficient:
    """Measure every pair of raters on the instances that both rated, and average.

    Parameters: ratings, shape (n, k), nan where a rating is missing; measure, of a complete table of shape (m, 2).
    Returns: pairs without any shared instance are not listed; pairs with fewer than `LEAST_SHARED` are, with a reason.
    For an interval of the mean, resample the rows of `ratings`: see `bootstrap_statistic`.

    >>> from medhelm.analysis.agreement.correlation import pearson
    >>> table = np.array([[1.0, 2.0, 5.0], [2.0, 4.0, np.nan], [3.0, 9.0, np.nan]])
    >>> found = average_over_pairs(table, lambda both: pearson(both[:, 0], both[:, 1]))
    >>> f"{found.value:.3f} from {found.n_pairs} of {len(found.pairs)}; {found.pairs[1].reason}"
    '0.971 from 1 of 3; shares 1 instance of the 2 needed'
    """
    table = np.asarray(ratings, dtype=float)
    there = ~np.isnan(table)
    found: list[RaterPair] = []
    for first, second in combinations(range(table.shape[1]), 2):
        shared = there[:, first] & there[:, second]
        n = int(shared.sum())
        if n == 0:
            continue
        if n < LEAST_SHARED:
            reason = f"shares {n} instance of the {LEAST_SHARED} needed"
            found.append(RaterPair(first=first, second=second, n=n, value=None, reason=reason))
            continue
        measured = measure(table[shared][:, [first, second]])
        reason = "" if measured.value is not None else measured.reason
        found.append(RaterPair(first=first, second=second, n=n, value=measured.value, reason=reason))
    values = [pair.value for pair in found if pair.value is not None]
    return PairwiseCoefficient(
        value=float(np.mean(values)) if values else None,
        n_pairs=len(values),
        pairs=tuple(found),
    )

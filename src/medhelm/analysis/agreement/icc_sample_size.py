"""Computes sample sizes for a desired width of the interval of an intraclass correlation.

Four methods, for an expected coefficient and a desired width of its 95% interval:

    Bonett        one rater's coefficient, width about right on average (Bonett 2002, Stat. Med. 21)
    Zou           one rater's coefficient, width reached with a given assurance (Zou 2012, Stat. Med. 31)
    one rater     ICC(3,1), width of the F interval reached with that assurance, exactly
    mean          the same for ICC(3,k), which is reported as the agreement of a jury with clinicians

The first two are large-sample formulas that assume a symmetric interval, which the F interval is not. The
other two follow from the distribution of the ratio of mean squares, for normal ratings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from medhelm.analysis.statistics.distributions import f_cdf, f_quantile, t_quantile
from medhelm.analysis.statistics.means import NORMAL, Z95

MOST = 10_000_000
"""Largest sample size to search for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSizes:
    """Instances that all k raters must rate for a desired width: whole numbers, corrected for a finite population."""

    width: float
    """Upper end of the interval minus its lower end."""
    bonett: int
    """By Bonett's formula: the width is reached in about half of all samples."""
    zou: int
    """By Zou's formula: the width is reached with the requested assurance."""
    one_rater: int
    """For the F interval of ICC(3,1), with that assurance."""
    mean: int
    """For the F interval of ICC(3,k), with that assurance."""


def icc_sample_sizes(
    widths: Sequence[float],
    *,
    expected: float = 0.75,
    k: int = 2,
    assurance: float = 0.8,
    population: int | None = None,
) -> list[SampleSizes]:
    """Compute sample sizes for several widths. By default as in the paper: 0.75 expected, 80% assurance.

    Parameters: widths, each above 0; expected, the coefficient of one rater or of the mean, 0 or more and below 1; k,
    number of raters, two or more; assurance, 0.5 or more and below 1; population, number of instances available, None
    if unlimited.
    Raises: ValueError for other values, and if more than `MOST` instances are needed.

    >>> [(row.bonett, row.zou, row.one_rater, row.mean) for row in icc_sample_sizes([0.2], population=500)]
    [(68, 80, 83, 108)]
    """
    _check(expected, k, assurance)
    if population is not None and population < 2:
        raise ValueError(f"a population has at least 2 instances, not {population}")
    rows = []
    for width in widths:
        sizes = (
            bonett_size(expected, width, k),
            zou_size(expected, width, k, assurance),
            exact_size(expected, width, k, assurance, "3,1"),
            exact_size(expected, width, k, assurance, "3,k"),
        )
        bonett, zou, one_rater, mean = (finite_size(size, population) for size in sizes)
        rows.append(SampleSizes(width=width, bonett=bonett, zou=zou, one_rater=one_rater, mean=mean))
    return rows


def bonett_size(expected: float, width: float, k: int = 2) -> float:
    """Compute the instances for an interval of one rater's coefficient by formula 3 of Bonett (2002).

    With two raters and a coefficient of 0.7 or more, 5 times the coefficient is added, as he advises. Not yet rounded.

    >>> f"{bonett_size(0.85, 0.2, k=4):.1f} {bonett_size(0.8, 0.2):.1f}"
    '19.2 54.8'
    """
    _check(expected, k, width=width)
    size = 1 + 8 * (Z95 * _fisher_factor(expected, k) / width) ** 2 / (k * (k - 1))
    return size + 5 * expected if k == 2 and expected >= 0.7 else size


def zou_size(expected: float, width: float, k: int = 2, assurance: float = 0.8) -> float:
    """Compute the instances for an interval of one rater's coefficient within `width`, with assurance (Zou 2012).

    The interval is assumed to be r +- 1.96 e, with Fisher's standard error e = c f, c = sqrt(2 / (k (k - 1) (n - 1))),
    f = (1 - r) (1 + (k - 1) r). It varies with the r observed: to first order, e has the standard deviation c |f'| e.
    The width is reached with the assurance if it is reached so many standard deviations above the mean of e, which is a
    quadratic equation in sqrt(n - 1). Not yet rounded.

    >>> f"{zou_size(0.9, 0.1):.2f} {zou_size(0.9, 0.1, assurance=0.5):.2f}"
    '77.37 56.47'
    """
    _check(expected, k, assurance, width)
    spread = Z95 * _fisher_factor(expected, k)
    slope = abs(k - 2 - 2 * (k - 1) * expected)
    beyond = 2 * width * NORMAL.inv_cdf(assurance) * spread * slope
    return 1 + 2 * (spread + math.sqrt(spread**2 + beyond)) ** 2 / (k * (k - 1) * width**2)


def exact_size(
    expected: float, width: float, k: int = 2, assurance: float = 0.8, form: Literal["3,1", "3,k"] = "3,k"
) -> int:
    """Find the fewest instances for which the F interval stays within `width` with the given assurance.

    Raises: ValueError if these are more than `MOST`.

    >>> exact_size(0.75, 0.2, form="3,1"), exact_size(0.75, 0.2, form="3,k")
    (98, 136)
    """
    _check(expected, k, assurance, width)
    enough = 2
    while width_assurance(enough, expected, width, k, form) < assurance:
        if enough >= MOST:
            raise ValueError(f"a width of {width:g} needs more than {MOST:,} instances")
        enough *= 2
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        if width_assurance(middle, expected, width, k, form) < assurance:
            too_few = middle
        else:
            enough = middle
    return enough


def width_assurance(n: int, expected: float, width: float, k: int = 2, form: Literal["3,1", "3,k"] = "3,k") -> float:
    """Compute the probability that n instances give an F interval within `width`, if ratings are normal.

    The ratio of mean squares is a constant times F; the width depends on that ratio alone. For ICC(3,k) it falls as the
    ratio grows. For ICC(3,1) it is small at both ends and too large between the roots of a quadratic equation.

    Parameters: n, 2 or more; expected, the true value of the coefficient that `form` names; see `icc_sample_sizes`.
    """
    _check(expected, k, width=width)
    if n < 2:
        raise ValueError(f"an interval needs at least 2 instances, not {n}")
    across, within = n - 1, (n - 1) * (k - 1)
    least, most = 1 / f_quantile(0.975, across, within), f_quantile(0.975, within, across)
    if form == "3,k":
        return 1 - f_cdf((1 - expected) * (1 / least - 1 / most) / width, across, within)
    half = (k * (most - least) / width - (k - 1) * (least + most)) / (2 * least * most)
    rest = half**2 - (k - 1) ** 2 / (least * most)
    if rest <= 0:
        return 1.0
    scale = (1 - expected) / (1 + (k - 1) * expected)
    first, second = (scale * (half + sign * math.sqrt(rest)) for sign in (-1, 1))
    return f_cdf(first, across, within) + 1 - f_cdf(second, across, within)


def verdict_size(
    correlation: float, share: float, k: int = 2, assurance: float = 0.8, *, of_clinician: float = 1.0
) -> int | None:
    """Compute the completions that show a jury to agree with a clinician by more than a share of clinicians' agreement.

    The statistic of `reliability`, arctanh(jury) - arctanh(share * clinicians), is to first order a mean over
    completions of a quadratic form z'Az in the scores z of jury and clinicians, whose variance is 2 tr(A S A S) for
    normal scores with covariance S. Student's t has a third of the usual degrees of freedom, as there.

    Parameters: correlation, of two clinicians; share, above 0 and below `of_clinician`; k, clinicians who rate every
    completion; assurance, probability that it is shown; of_clinician, the true agreement of the jury with a clinician,
    as a share of that of two clinicians: 1 for a jury as good as one more clinician.
    Returns: None if more than `MOST` completions are needed, as for clinicians who do not agree.
    Raises: ValueError for other values.

    In simulations, so many completions give 0.75 to 0.83 instead of 0.80.

    >>> verdict_size(0.5, 0.8, k=3), verdict_size(0.75, 0.8, k=2)
    (242, 67)
    """
    _check(correlation, k, assurance)
    if correlation == 0:
        return None
    if not (0 < share < of_clinician and of_clinician * correlation < 1):
        raise ValueError(f"a jury cannot be shown to exceed a share of {share:g} if it reaches {of_clinician:g}")
    jury = of_clinician * correlation
    covariance = np.full((k + 1, k + 1), correlation)
    covariance[0, 1:] = covariance[1:, 0] = jury
    np.fill_diagonal(covariance, 1.0)
    of_jury, of_pairs = np.zeros((2, k + 1, k + 1))
    of_jury[0, 1:] = of_jury[1:, 0] = 1 / (2 * k)
    of_pairs[1:, 1:] = 1 / (k * (k - 1))
    mean_square = np.diag([0.0, *[1 / k] * k])
    np.fill_diagonal(of_pairs, 0.0)
    of_jury -= jury / 2 * (np.diag([1.0, *[0.0] * k]) + mean_square)
    of_pairs -= correlation * mean_square
    form = of_jury / (1 - jury**2) - share * of_pairs / (1 - (share * correlation) ** 2)
    product = form @ covariance
    variance = 2 * float(np.trace(product @ product))
    skewness = 8 * float(np.trace(product @ product @ product)) / variance**1.5
    distance = math.atanh(jury) - math.atanh(share * correlation)
    n = 10.0
    for _ in range(50):
        quantile = t_quantile(0.975, max((n - 1) / 3, 1.0))
        skewed = skewness / math.sqrt(n)  # of the estimate; below 0, which takes the lower limit further away (Hall)
        reach = 3 / skewed * (float(np.cbrt(1 + skewed * (quantile - skewed / 6))) - 1) + NORMAL.inv_cdf(assurance)
        n = max(10.0, 3 + variance * (reach / distance) ** 2)  # Fisher's variance is one over n - 3
    return math.ceil(n) if n <= MOST else None


def finite_size(n: float, population: int | None) -> int:
    """Round up to at least 2, corrected for a finite population: n / (1 + (n - 1) / population).

    The correction of Cochran (1977, Sampling Techniques, section 4.4).

    >>> finite_size(80, None), finite_size(80, 100)
    (80, 45)
    """
    corrected = n if population is None else n / (1 + (n - 1) / population)
    return max(2, math.ceil(corrected - 1e-9))


def _fisher_factor(expected: float, k: int) -> float:
    """Return the factor of Fisher's standard error that does not depend on n."""
    return (1 - expected) * (1 + (k - 1) * expected)


def _check(expected: float, k: int, assurance: float = 0.5, width: float = 1.0) -> None:
    """Raise ValueError for invalid arguments."""
    if not 0 <= expected < 1:
        raise ValueError(f"the expected coefficient must be at least 0 and below 1, not {expected}")
    if k < 2:
        raise ValueError(f"agreement needs at least two raters, not {k}")
    if not 0.5 <= assurance < 1:
        raise ValueError(f"the assurance must be at least 0.5 and below 1, not {assurance}")
    if not width > 0:
        raise ValueError(f"the width must be above 0, not {width}")

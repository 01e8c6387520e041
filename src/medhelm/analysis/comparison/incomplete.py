"""Differences of two models that were not run on the same benchmarks: estimates, intervals and tests.

The difference is that of the adjusted means (`adjusted_means`), a weighted sum of the values of all models. Its
variance follows on each benchmark from the variances of the differences of every two models: for weights a that add up
to zero, it is minus one half of the sum of a_i a_j var(x_i - x_j). To this comes what the missing benchmarks could
change; see `adjusted_means`. Student's t has degrees of freedom by Satterthwaite (1946, Biom. Bull. 2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.adjusted_means import Design, selection_gain
from medhelm.analysis.comparison.paired import ENDLESS, pair_indices, t_quantiles
from medhelm.analysis.comparison.sign_flip_test import normal_p
from medhelm.analysis.statistics.cluster_bootstrap import Floats

LARGEST_VARIANCE = 1 / 3
"""Variance of a difference of which nothing is known: every value from -1 to 1 is possible."""


class AdjustedDifferences(NamedTuple):
    """Differences of adjusted means: arrays of shape (n_pairs,)."""

    value: Floats
    low: Floats
    high: Floats
    standard_error: Floats
    p_value: Floats


class ContrastVariances:
    """Variances of the differences of adjusted means, from one benchmark at a time."""

    def __init__(self, design: Design) -> None:
        """Start without any benchmark."""
        self._design = design
        self._first, self._second = pair_indices(len(design.present))
        self._variance, self._below = np.zeros((2, len(self._first)))

    def add(self, benchmark: int, variance: Floats, df: Floats, known: NDArray[np.bool_]) -> None:
        """Add a benchmark.

        Parameters: variance and df, shape (n_pairs,), of the difference of every two models on it; known, alike, True
        for pairs that share an instance.
        """
        if not known.any():
            return
        n = len(self._design.present)
        table = np.zeros((n, n))
        here = self._design.present[:, benchmark]
        filled = np.where(known, variance, np.max(variance, where=known, initial=LARGEST_VARIANCE))
        filled = np.where(here[self._first] & here[self._second], filled, 0.0)
        table[self._first, self._second] = table[self._second, self._first] = filled
        influence = self._design.influence(benchmark)
        self._add(-(influence @ table @ influence.T) / 2, np.where(known, df, np.min(df, where=known, initial=ENDLESS)))

    def add_equal(self, benchmark: int) -> None:
        """Add a benchmark on which all values have the variance 1 and vary independently of each other."""
        influence = self._design.influence(benchmark)
        self._add(influence @ influence.T, np.full(len(self._first), ENDLESS))

    def _add(self, covariance: Floats, df: Floats) -> None:
        own = np.diag(covariance)
        part = np.maximum(own[self._first] + own[self._second] - 2 * covariance[self._first, self._second], 0.0)
        self._variance += part
        self._below += part**2 / df

    def differences(self, values: Floats, *, within: bool = True) -> AdjustedDifferences:
        """Return the difference of every two models with its interval and test.

        Parameters: values, shape (n_models, n_benchmarks), nan where there is none; within, True if variances are those
        of instances, to which the choice of benchmarks is added; False if benchmarks are the units, each with the
        variance around the fit.
        """
        fit, design = self._design.fit(values), self._design
        squared = fit.residual_sd**2
        if within:
            extra = squared * design.interaction
            variance, below = self._variance + extra, self._below + extra**2 / fit.residual_df
        else:
            variance = squared * self._variance
            below = variance**2 / fit.residual_df
        df = np.divide(variance**2, below, out=np.full(len(variance), ENDLESS), where=below > 0)
        df = np.clip(df, 1.0, ENDLESS)
        value = fit.effects[self._first] - fit.effects[self._second]
        gain_first, gain_second = (fit.residual_sd * selection_gain(share) for share in design.lacking)
        error = np.sqrt(variance)
        half = t_quantiles(df) * error
        lead = np.abs(value) - np.where(value > 0, gain_first, gain_second)
        t = np.divide(np.maximum(lead, 0.0), error, out=np.zeros_like(error), where=error > 0)
        return AdjustedDifferences(
            value,
            np.maximum(value - half - gain_first, -1.0),
            np.minimum(value + half + gain_second, 1.0),
            error,
            normal_p(normal_deviates(t, df)),
        )


def normal_deviates(t: Floats, df: Floats) -> Floats:
    """Return normal deviates with about the tails of Student's t (Wallace 1959, Ann. Math. Stat. 30): shape (m,).

    >>> f"{normal_deviates(np.array([2.228]), np.array([10.0]))[0]:.2f}"
    '1.96'
    """
    deviates: Floats = np.sqrt(df * np.log1p(t * t / df)) * (8 * df + 1) / (8 * df + 3)
    return deviates

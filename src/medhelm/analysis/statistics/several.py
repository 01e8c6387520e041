"""Means with intervals of several metrics of one run at once: the instances are drawn once for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from medhelm.analysis.statistics.cluster_bootstrap import LARGE, Floats, draw_means
from medhelm.analysis.statistics.means import DRAWS, estimate, percentile_t_interval
from medhelm.domain import Estimate


class MetricScores(NamedTuple):
    """The scores of a run by one metric."""

    values: Floats
    """Shape (n,), nan for a failed instance; n is the same for all metrics of the run."""
    low: float
    """Lower end of the scale."""
    high: float
    """Upper end of the scale."""


def estimate_metrics(metrics: Mapping[str, MetricScores], seed: int) -> dict[str, Estimate]:
    """Estimate each metric of a run of independent instances, as `estimate` with a generator from `seed` does.

    The same seed draws the same instances for every metric without failures, so that these can share the draws: the
    numbers are the same but for the last bit. A metric that nothing was scored by has none.
    """
    together = {name: one for name, one in metrics.items() if _is_resampled(one)}
    found = {
        name: mean
        for name, one in metrics.items()
        if name not in together
        and (mean := estimate(one.values, low=one.low, high=one.high, rng=np.random.default_rng(seed)))
    }
    if together:
        sums = np.stack([one.values for one in together.values()], axis=1)
        drawn = draw_means(sums, np.ones_like(sums), np.random.default_rng(seed), DRAWS)
        for column, (name, one) in enumerate(together.items()):
            found[name] = _estimate(one, drawn[:, column])
    return {name: found[name] for name in metrics if name in found}


def _is_resampled(one: MetricScores) -> bool:
    """Return whether `estimate` would resample: not for failures, equal scores, 0/1 scores or very many instances."""
    values = one.values
    if not 1 < len(values) <= LARGE or np.isnan(values).any() or values.min() == values.max():
        return False
    return not ((one.low, one.high) == (0, 1) and np.isin(values, (0.0, 1.0)).all())


def _estimate(one: MetricScores, drawn: Floats) -> Estimate:
    n = len(one.values)
    mean = float(one.values.mean())
    low, high = percentile_t_interval(drawn, mean, n - 1)
    return Estimate(
        value=mean,
        low=min(max(low, one.low), mean),
        high=max(min(high, one.high), mean),
        n=n,
        n_failed=0,
        method=f"bootstrap-{DRAWS}",
    )

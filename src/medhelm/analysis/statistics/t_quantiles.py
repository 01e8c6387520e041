"""Quantiles of Student's t for many degrees of freedom at once."""

from __future__ import annotations

import numpy as np

from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.analysis.statistics.distributions import t_quantile
from medhelm.analysis.statistics.means import Z95

ENDLESS = 1e6
"""Degrees of freedom from which Student's t is treated as normal."""


def t_quantiles(df: Floats) -> Floats:
    """Return the 97.5% quantiles of Student's t for many degrees of freedom.

    From 30 by an expansion in 1 / df (Abramowitz and Stegun 1964, 26.7.5; error below 1e-7); fewer are rounded down to
    one decimal, so that not many are computed.
    """
    z = Z95
    large = np.maximum(df, 30.0)
    found: Floats = (
        z
        + (z**3 + z) / (4 * large)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * large**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * large**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * large**4)
    )
    found[df >= ENDLESS] = z
    few = np.flatnonzero(df < 30)
    distinct, places = np.unique(np.maximum(np.floor(df[few] * 10 + 1e-9) / 10, 0.1), return_inverse=True)
    quantiles = np.array([t_quantile(0.975, round(one, 1)) for one in distinct.tolist()])
    found[few] = quantiles[places]
    return found

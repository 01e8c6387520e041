"""The rising curve that fits best: isotonic regression by pooling adjacent violators.

Of all functions that never fall, the one with the smallest sum of squares to the points (Ayer et al. 1955, Ann. Math.
Stat. 26). It assumes nothing about the form of the relation but its direction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from medhelm.analysis.statistics.cluster_bootstrap import Floats


class Curve(NamedTuple):
    """A function that never falls: straight between its knots."""

    knots: Floats
    """Places, rising, each once."""
    heights: Floats
    """Values there, never falling."""

    def at(self, places: Floats, slope: float = 0.0) -> Floats:
        """Return values at any places; outside the knots the curve continues with a slope, level if none is given.

        >>> Curve(np.array([1.0, 3.0]), np.array([2.0, 4.0])).at(np.array([0.0, 2.0, 5.0]), slope=0.5).tolist()
        [1.5, 3.0, 5.0]
        """
        beyond = places - np.clip(places, self.knots[0], self.knots[-1])
        return np.interp(places, self.knots, self.heights) + slope * beyond


def isotonic_curve(x: Floats, y: Floats) -> Curve:
    """Fit y as a function of x that never falls.

    Parameters: x and y, shape (m,) with m >= 1, without nan. Points with the same x are one point with their mean.

    >>> isotonic_curve(np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0, 2.0])).heights.tolist()
    [1.0, 3.0, 3.0]
    """
    knots, places = np.unique(x, return_inverse=True)
    weights = np.bincount(places).tolist()
    totals = np.bincount(places, weights=y).tolist()
    blocks: list[tuple[int, float, int]] = []
    for weight, total in zip(weights, totals, strict=True):
        width = 1
        while blocks and blocks[-1][1] * weight >= total * blocks[-1][0]:
            earlier = blocks.pop()
            weight, total, width = weight + earlier[0], total + earlier[1], width + earlier[2]
        blocks.append((weight, total, width))
    heights = np.repeat([total / weight for weight, total, _ in blocks], [width for _, _, width in blocks])
    return Curve(knots, heights)

"""Coefficients of agreement by their definitions, without code of the package."""

from __future__ import annotations

from collections.abc import Sequence

from medhelm.analysis.agreement.coefficients import Level, Weights
from medhelm.analysis.means import Floats


def kappa_by_hand(a: Sequence[float], b: Sequence[float], weights: Weights) -> float | None:
    """Disagreement of each instance against that of every rating of one rater with every rating of the other."""

    def disagreement(x: float, y: float) -> float:
        return float(x != y) if weights == "none" else (x - y) ** 2

    observed = sum(disagreement(x, y) for x, y in zip(a, b, strict=True)) / len(a)
    expected = sum(disagreement(x, y) for x in a for y in b) / len(a) ** 2
    return 1 - observed / expected if expected else None


def alpha_by_hand(table: Floats, level: Level) -> float | None:
    """By the matrix of coincidences, as Krippendorff writes it."""
    units = [unit for row in table.tolist() if len(unit := [x for x in row if x == x]) > 1]
    grades = sorted({x for unit in units for x in unit})
    together = {(c, k): 0.0 for c in grades for k in grades}
    for unit in units:
        for i, c in enumerate(unit):
            for j, k in enumerate(unit):
                if i != j:
                    together[c, k] += 1 / (len(unit) - 1)
    totals = {c: sum(together[c, k] for k in grades) for c in grades}

    def squared(c: float, k: float) -> float:
        low, high = min(c, k), max(c, k)
        between = sum(totals[g] for g in grades if low <= g <= high) - (totals[c] + totals[k]) / 2
        return {"nominal": float(c != k), "ordinal": between**2, "interval": (c - k) ** 2}[level]

    observed = sum(together[c, k] * squared(c, k) for c in grades for k in grades)
    expected = sum(totals[c] * totals[k] * squared(c, k) for c in grades for k in grades)
    n = sum(totals.values())
    return 1 - (n - 1) * observed / expected if expected else None

"""Two models side by side, as a table and as JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from medhelm.reports.leaderboard import number
from medhelm.reports.tables import decimal, render, with_interval

if TYPE_CHECKING:
    from medhelm.analysis.comparison.multiple_testing import Adjustment
    from medhelm.analysis.comparison.two_models import Comparison

ADJUSTED: dict[Adjustment, str] = {"holm": "Holm", "bh": "Benjamini and Hochberg"}
"""Kind of adjustment -> who made it."""

SMALLEST = 0.0001
"""P-values below this are shown as being below it."""

OVER_BENCHMARKS = "Single scores are not known: benchmarks stand for instances, and no benchmark can be tested."
"""What a reader has to know where only published means were there."""


def probability(p: float | None) -> float | None:
    """A p-value for JSON: four significant digits, however small; None for none."""
    return None if p is None or not math.isfinite(p) else float(f"{p:.4g}")


def p_text(p: float | None) -> str | None:
    """A p-value for people: four decimals.

    >>> p_text(0.04), p_text(1e-9)
    ('0.0400', '<0.0001')
    """
    return f"<{SMALLEST}" if p is not None and p < SMALLEST else decimal(p, 4)


def to_json(comparison: Comparison) -> dict[str, Any]:
    """The result of `medhelm compare A B --json`; differences on the 0..1 scale, first minus second."""
    return {
        "first": comparison.first,
        "second": comparison.second,
        "adjustment": comparison.adjustment,
        "benchmarks": [
            {
                "id": compared.column.benchmark,
                "metric": compared.column.metric,
                "difference": number(compared.difference.value),
                "low": number(compared.difference.low),
                "high": number(compared.difference.high),
                "n": compared.difference.n,
                "n_left_out": compared.difference.n_left_out,
                "n_clusters": compared.difference.n_clusters,
                "p_value": probability(compared.difference.p_value),
                "p_adjusted": probability(compared.p_adjusted),
            }
            for compared in comparison.benchmarks
        ],
        "overall": {
            "difference": number(comparison.value),
            "low": number(comparison.low),
            "high": number(comparison.high),
            "p_value": probability(comparison.p_value),
            "n_benchmarks": comparison.n_benchmarks,
            "unit": comparison.unit,
        },
    }


def to_table(comparison: Comparison, format: str = "table") -> str:
    """One row per benchmark, and one for the mean over benchmarks."""
    headers = ["Benchmark", "Metric", "Difference", "Instances", "p", "p adjusted"]
    rows = [
        [
            compared.column.title,
            compared.column.metric_title or compared.column.metric,
            with_interval(compared.difference.value, compared.difference.low, compared.difference.high),
            compared.difference.n,
            p_text(compared.difference.p_value),
            p_text(compared.p_adjusted),
        ]
        for compared in comparison.benchmarks
    ]
    overall = with_interval(comparison.value, comparison.low, comparison.high)
    rows.append(["Mean over benchmarks", "", overall, None, p_text(comparison.p_value), None])
    caption = (
        f"{comparison.first} minus {comparison.second}, on a scale where 0 is the worst and 1 the best; "
        f"p adjusted over the benchmarks ({ADJUSTED[comparison.adjustment]})"
    )
    return render(rows, headers, format=format, caption=caption)

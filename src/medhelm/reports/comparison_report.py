"""Two models side by side, as a table and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from medhelm.reports.leaderboard_report import number
from medhelm.reports.tables import decimal, render, with_interval

if TYPE_CHECKING:
    from medhelm.analysis.comparison import Comparison


def to_json(comparison: Comparison) -> dict[str, Any]:
    """The result of `medhelm compare --json`; differences on the 0..1 scale, first minus second."""
    return {
        "first": comparison.first,
        "second": comparison.second,
        "benchmarks": [
            {
                "id": compared.column.benchmark,
                "metric": compared.column.metric,
                "difference": number(compared.difference.value),
                "low": number(compared.difference.low),
                "high": number(compared.difference.high),
                "n": compared.difference.n,
                "n_left_out": compared.difference.n_left_out,
                "p_value": number(compared.difference.p_value),
                "p_adjusted": number(compared.p_adjusted),
            }
            for compared in comparison.benchmarks
        ],
        "overall": {
            "difference": number(comparison.value),
            "low": number(comparison.low),
            "high": number(comparison.high),
            "p_value": number(comparison.p_value),
            "n_benchmarks": len(comparison.benchmarks),
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
            decimal(compared.difference.p_value, 4),
            decimal(compared.p_adjusted, 4),
        ]
        for compared in comparison.benchmarks
    ]
    overall = with_interval(comparison.value, comparison.low, comparison.high)
    rows.append(["Mean over benchmarks", "", overall, None, decimal(comparison.p_value, 4), None])
    caption = f"{comparison.first} minus {comparison.second}, on a scale where 0 is the worst and 1 the best"
    return render(rows, headers, format=format, caption=caption)

"""Paired differences of two models: one row per benchmark, the averages below."""

from __future__ import annotations

from functools import partial

from medhelm.analysis.comparison.pairs import Comparison
from medhelm.analysis.comparison.significance import LEVEL
from medhelm.domain.text import plural
from medhelm.reports.charts.chart import Chart
from medhelm.reports.charts.rows import IntervalPlot, IntervalRow, draw_intervals
from medhelm.reports.charts.svg import fit, short
from medhelm.reports.comparison import ADJUSTED, verdict
from medhelm.reports.formats.tables import Value, estimate_numbers, number

HEADERS = ("benchmark", "metric", "difference", "low", "high", "n", "p_adjusted", "significant")
"""Columns of the table."""


def differences_chart(comparison: Comparison) -> Chart:
    """Return the differences of two models on each benchmark and overall, on a scale where 1 is best."""
    rows: list[IntervalRow] = []
    table: list[list[Value]] = []
    for one in comparison.benchmarks:
        found, is_clear = one.difference, one.p_adjusted <= LEVEL
        rows.append(
            IntervalRow(
                name=one.column.title, value=found.value, low=found.low, high=found.high, is_filled=is_clear,
                note=f"n = {found.n}",
            )
        )  # fmt: skip
        metric = one.column.metric_title or one.column.metric
        p = number(one.p_adjusted)
        table.append([one.column.title, metric, *estimate_numbers(found), found.n, p, "yes" if is_clear else "no"])
    is_found = comparison.pair.direction(comparison.adjustment) != 0
    overall = (("Macro average", comparison.macro_average), ("Win share", comparison.win_share))
    for name, test in overall if rows else ():
        found = test.difference
        rows.append(IntervalRow(name=name, value=found.value, low=found.low, high=found.high, is_strong=True))
        p = number(test.p_adjusted(comparison.adjustment))
        table.append([name, "", *estimate_numbers(found), found.n, p, "yes" if is_found else "no"])
    title = f"{short(comparison.first)} compared with {short(comparison.second)}"
    plot = IntervalPlot(
        rows=rows, axis="Difference", low=-1.0, high=1.0, references=[(0.0, "")], is_signed=True,
        ends=(f"{fit(short(comparison.second), 170)} better", f"{fit(short(comparison.first), 170)} better"),
    )  # fmt: skip
    notes = [
        f"{short(comparison.first)} minus {short(comparison.second)} on the instances that both have, with 95% "
        "intervals. Filled points differ significantly at the 5% level, adjusted for all pairs and benchmarks "
        f"({ADJUSTED[comparison.adjustment]}). Diamonds are averages. The models are separated only if both differ in "
        "the same direction."
    ]
    return Chart(
        name="differences", title=title, description=_description(comparison), draw=partial(draw_intervals, plot),
        headers=HEADERS, rows=table, notes=notes, has_data=bool(rows),
    )  # fmt: skip


def _description(comparison: Comparison) -> str:
    """Return the counts of significant differences and the overall result."""
    if not comparison.benchmarks:
        return "The two models share no benchmark."
    clear = [one.difference.value for one in comparison.benchmarks if one.p_adjusted <= LEVEL]
    first, second = sum(value > 0 for value in clear), sum(value < 0 for value in clear)
    n = plural(len(comparison.benchmarks), "benchmark")
    return (
        f"Of {n}, {short(comparison.first)} is significantly better on {first} and {short(comparison.second)} on "
        f"{second}. {verdict(comparison)[0]}"
    )

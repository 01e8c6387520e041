"""Models on one benchmark, and subgroups of its instances: means with 95% intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.domain import Estimate
from medhelm.domain.text import listed, plural
from medhelm.reports.charts.chart import Chart
from medhelm.reports.charts.rows import IntervalPlot, IntervalRow, draw_intervals
from medhelm.reports.charts.svg import known, short
from medhelm.reports.formats.tables import Value, decimal, estimate_numbers, number
from medhelm.reports.leaderboard_fields import shown_name

HEADERS = ("model", "kind", "score", "low", "high", "n", "n_failed")
"""Columns of the table of models."""


MOST_MODELS = 100
"""Most models in the picture; the table has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubgroupMean:
    """Mean of one model on one subgroup of the instances."""

    subgroup: str
    """Name of the subgroup."""
    model: str
    """Name of the model."""
    estimate: Estimate | None
    """The mean in the metric's own unit; None if nothing could be scored."""


def axis_title(column: Column) -> str:
    """Return the name of the metric and the direction that is better."""
    name = column.metric_title or column.metric
    return f"{name}, mean and 95% interval; {'higher' if column.higher_is_better else 'lower'} is better"


def benchmark_scores_chart(board: Leaderboard, column: Column) -> Chart:
    """Return the models of a leaderboard on one benchmark, best first, baselines below them."""
    rows: list[IntervalRow] = []
    table: list[list[Value]] = []
    for row, cell in best_first(board, column):
        is_baseline = row in board.baselines
        kind = "baseline" if is_baseline else "published" if row.published else "model"
        low, high = (cell.estimate.low, cell.estimate.high) if cell.estimate else (None, None)
        rows.append(
            IntervalRow(
                name=shown_name(row), value=cell.value, low=low, high=high, is_filled=kind == "model",
                note=f"{cell.n_failed} failed" if cell.n_failed else "", group="Baselines" if is_baseline else "",
            )
        )  # fmt: skip
        n = cell.estimate.n if cell.estimate else cell.n
        table.append([row.model, kind, number(cell.value), number(low), number(high), n, cell.n_failed])
    models, baselines = [row for row in rows if not row.group], [row for row in rows if row.group]
    baseline = known(column.constant_baseline)
    plot = IntervalPlot(
        rows=[*models[:MOST_MODELS], *baselines], axis=axis_title(column), low=column.low, high=column.high,
        references=[] if baseline is None else [(baseline, f"constant baseline {decimal(baseline)}")],
    )  # fmt: skip
    notes = ["Hollow points are published scores or baselines."] if any(not row.is_filled for row in rows) else []
    if len(models) > MOST_MODELS:
        notes.append(f"The picture has the best {MOST_MODELS} of {len(models)} models; the table has all.")
    return Chart(
        name="scores", title=f"Scores on {short(column.title)}", description=_description(rows, column),
        draw=partial(draw_intervals, plot), headers=HEADERS, rows=table, notes=notes, has_data=bool(rows),
    )  # fmt: skip


def best_first(board: Leaderboard, column: Column) -> list[tuple[Row, Cell]]:
    """Return rows of a leaderboard with their cells: the competing models by score, then baselines by score."""

    def key(pair: tuple[Row, Cell]) -> tuple[bool, float]:
        value = known(pair[1].value)
        return value is None, 0.0 if value is None else -float(column.normalize(value))

    found: list[tuple[Row, Cell]] = []
    for rows in (board.rows, board.baselines):
        here = [(row, row.cells[column.benchmark]) for row in rows if column.benchmark in row.cells]
        found += sorted(here, key=key)
    return found


def _description(rows: Sequence[IntervalRow], column: Column) -> str:
    """Return the best model in one sentence."""
    models = [row for row in rows if row.value is not None and not row.group]
    if not models:
        return "No model has a score on this benchmark."
    best = [row for row in models if row.value == models[0].value]
    end = "Highest" if column.higher_is_better else "Lowest, which is best"
    names = listed([short(row.name) for row in best], 2)
    return f"{plural(len(models), 'model')}. {end}: {names}, {IntervalPlot(rows=(), axis='').text(best[0])}."


def subgroups_chart(column: Column, means: Sequence[SubgroupMean]) -> Chart:
    """Return the means of subgroups, grouped by model, on one scale."""
    rows = [_subgroup_row(one, is_grouped=len({mean.model for mean in means}) > 1) for one in means]
    names = {one.subgroup for one in means}
    description = f"Mean scores on {plural(len(names), 'subgroup')} of the instances."
    if not rows:
        description = "The data of this benchmark has no subgroups."
    plot = IntervalPlot(rows=rows, axis=axis_title(column), low=column.low, high=column.high)
    table: list[list[Value]] = [
        [one.model, one.subgroup, *estimate_numbers(one.estimate), one.estimate.n if one.estimate else 0]
        for one in means
    ]
    return Chart(
        name="subgroups", title=f"Subgroups of {short(column.title)}", description=description,
        draw=partial(draw_intervals, plot),
        headers=("model", "subgroup", "score", "low", "high", "n"), rows=table, has_data=bool(rows),
        notes=["Subgroups are not adjusted for how many of them are shown."] if len(names) > 1 else [],
    )  # fmt: skip


def _subgroup_row(one: SubgroupMean, *, is_grouped: bool) -> IntervalRow:
    """Return one subgroup, under the name of its model if there are several."""
    found = one.estimate
    return IntervalRow(
        name=one.subgroup, group=one.model if is_grouped else "", value=found.value if found else None,
        low=found.low if found else None, high=found.high if found else None, note=f"n = {found.n}" if found else "",
    )  # fmt: skip

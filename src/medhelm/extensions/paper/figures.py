"""The figures of a report: which there are, and what each is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medhelm.analysis.frontier import CostPoint, efficient_frontier
from medhelm.domain.text import group_title, plural
from medhelm.extensions.paper.charts.cells import CellLine, CellTable, ColoredCell, draw_cells, score_cell
from medhelm.extensions.paper.charts.paired_bars import PairedBars, draw_paired_bars
from medhelm.extensions.paper.contents import intervals_in_words
from medhelm.reports.charts.chart import Drawing, headed
from medhelm.reports.charts.cost import ROUND_POINTS, CostAxes, PricedPoint, draw_cost, full_width, in_order
from medhelm.reports.charts.rows import IntervalPlot, IntervalRow, draw_intervals
from medhelm.reports.charts.svg import PAINT, names
from medhelm.reports.formats.tables import SAMPLE_WARNING
from medhelm.reports.leaderboard import caption
from medhelm.reports.leaderboard_fields import shown_name

if TYPE_CHECKING:
    from medhelm.analysis.leaderboard.cells import Column
    from medhelm.analysis.leaderboard.types import GroupMean, Leaderboard
    from medhelm.extensions.paper.contents import ModelCost

SCALED = "Scores from 0 (worst) to 1 (best); –: no score."

LONGEST_LABEL = 80
"""Characters of the name of a benchmark, a category or a subcategory; longer ones are cut in the middle."""

RANKING = {
    "macro average": ("Macro averages", "Macro average: mean over benchmarks, on a scale of 0 to 1"),
    "win rate": ("Win rates", "Win rate: share of other models beaten, mean over benchmarks"),
    "mean score": ("Mean scores", "Mean score on a scale of 0 to 1"),
}
"""Number that ranks -> its name, and the title of its axis."""

BETTER = ColoredCell(text=">", fill=PAINT["mark"]["fill"])
WORSE = ColoredCell(text="<", fill=PAINT["other"]["fill"])
TIED = ColoredCell(text="=", fill=PAINT["band"]["fill"])
RESULTS = {
    BETTER: "significant (Holm correction for all pairs)",
    WORSE: "significant, the other way round",
    TIED: "not significant",
}
"""Cell of a pair of models -> its meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlaggedScores:
    """Scores on one benchmark by the marks of its references."""

    title: str
    """Name of the benchmark."""
    accepted: float
    """Mean over models of the score on accepted references, 0 (worst) to 1 (best)."""
    flagged: float
    """The same on flagged references."""
    n_accepted: int
    """Number of accepted references."""
    n_flagged: int
    """Number of flagged references."""
    n_models: int
    """Number of models behind the means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperFigure:
    """One figure of a report."""

    key: str
    """Name for `--only` and of its files, such as `figure5`."""
    title: str
    """Title of the figure."""
    words: str
    """Description for people who cannot see the figure."""
    svg: str
    """The picture."""


def _figure(
    board: Leaderboard, key: str, title: str, words: str, drawn: tuple[int, Drawing], notes: Sequence[str]
) -> PaperFigure:
    """Return a figure with its title, the caption of the leaderboard and notes. `drawn`: width and drawing."""
    warning = SAMPLE_WARNING if board.tier == "sample" else ""
    note = " ".join([f"{caption(board)}.", *notes])
    svg = headed(*drawn, title=title, description=words, note=note, warning=warning)
    return PaperFigure(key=key, title=title, words=words, svg=str(svg))


def figure_3(board: Leaderboard, titles: Mapping[str, str]) -> PaperFigure:
    """Return a heat map of models by benchmark, grouped by category: models as rows, as in the paper."""
    columns = _by_category(board)
    benchmarks = names([column.title for column in columns], LONGEST_LABEL)
    groups = [titles.get(column.category, group_title(column.category)) for column in columns]
    rows = []
    for name, row in zip(_all_names(board), board.all_rows, strict=True):
        found = [(column, row.cells.get(column.benchmark)) for column in columns]
        values = [
            None if cell is None or cell.value is None else column.normalize(cell.value) for column, cell in found
        ]
        rows.append(CellLine(name=name, cells=[score_cell(value) for value in values]))
    table = CellTable(rows=rows, columns=list(zip(benchmarks, groups, strict=True)), legend=SHADES)
    order = f"Models from top to bottom by rank{_then_baselines(board)}."
    words = (
        f"A table of {plural(len(benchmarks), 'column')} and {plural(len(rows), 'model')} with the value in each cell."
    )
    return _figure(board, "figure3", "Figure 3. Scores by benchmark", words, draw_cells(table), [order, SCALED])


SHADES = [(score_cell(tenths / 10), "0 worst, 1 best" if tenths == 10 else "") for tenths in (0, 2, 4, 6, 8, 10)]
"""Legend of scores."""


def _by_category(board: Leaderboard) -> list[Column]:
    """Return the benchmarks in the order of the leaderboard, those of a category together."""
    order = list(dict.fromkeys(column.category for column in board.columns))
    return sorted(board.columns, key=lambda column: order.index(column.category))


def _all_names(board: Leaderboard) -> list[str]:
    """Return the names of models and baselines."""
    return names([shown_name(row) for row in board.all_rows])


def _then_baselines(board: Leaderboard) -> str:
    return ", then baselines" if board.baselines else ""


def figure_4(board: Leaderboard, titles: Mapping[str, str]) -> PaperFigure:
    """Return a heat map of categories by model."""
    rows = {
        (name, ""): [row.categories.get(name) for row in board.all_rows]
        for name in dict.fromkeys(column.category for column in board.columns)
    }
    return _means(board, titles, rows, "figure4", "Figure 4. Scores by category")


def figure_4_subcategories(board: Leaderboard, titles: Mapping[str, str]) -> PaperFigure:
    """Return a heat map of subcategories by model."""
    rows = {
        (name, titles.get(category, group_title(category))): [row.subcategories.get(name) for row in board.all_rows]
        for name, category in {column.subcategory: column.category for column in _by_category(board)}.items()
    }
    return _means(board, titles, rows, "figure4_subcategories", "Figure 4, in detail. Scores by subcategory")


def _means(
    board: Leaderboard, titles: Mapping[str, str], rows: Mapping[tuple[str, str], Sequence[GroupMean | None]],
    key: str, title: str,
) -> PaperFigure:  # fmt: skip
    """Return a heat map of means. `rows`: group of benchmarks and heading above it -> mean of each model."""
    counts = {name: sum(name in (one.category, one.subcategory) for one in board.columns) for name, _ in rows}
    labels = names([f"{titles.get(name, group_title(name))} ({n})" for name, n in counts.items()], LONGEST_LABEL)
    lines = [
        CellLine(name=label, group=group, cells=[score_cell(mean.value if mean else None) for mean in means])
        for label, ((_, group), means) in zip(labels, rows.items(), strict=True)
    ]
    table = CellTable(rows=lines, columns=[(name, "") for name in _all_names(board)], legend=SHADES)
    size = f"{plural(len(lines), 'line')} and {plural(len(table.columns), 'model')}"
    words = f"A table of {size} with the value in each cell."
    notes = [
        f"Models from left to right by rank{_then_baselines(board)}.",
        f"{SCALED} Means over benchmarks; brackets: number of benchmarks.",
    ]
    return _figure(board, key, title, words, draw_cells(table), notes)


def figure_5(board: Leaderboard, costs: Sequence[ModelCost]) -> PaperFigure | None:
    """Return a plot of the average that ranks against the cost of use; None if no cost above 0 is known.

    If some models have published costs, which are ceilings with judges, all are shown with theirs.
    """
    as_ceiling = any(cost.is_ceiling for cost in costs)
    known = {cost.model: cost.ceiling_usd if as_ceiling else cost.benchmark_usd for cost in costs}
    rows = [(row, average) for row in board.rows if (average := board.ranking_average(row)) is not None]
    if not any(known.get(row.model) for row, _ in rows):
        return None
    costed = [CostPoint(row.model, known.get(row.model), average.value) for row, average in rows]
    best = {point.name for point in efficient_frontier(costed)}
    points = [
        PricedPoint(
            model=name, value=average.value, low=average.low, high=average.high, usd=known.get(row.model),
            is_efficient=row.model in best,
            probability=board.frontier.probability(row.model) if board.frontier else None,
        )
        for name, (row, average) in zip(names([shown_name(row) for row, _ in rows]), rows, strict=True)
    ]  # fmt: skip
    notes = [intervals_in_words(board), f"{ROUND_POINTS} Dashed: the highest {board.ranked_by} at a cost."]
    if board.frontier:
        notes.append("Percentages: probability of being efficient by macro average, given the scores.")
    if as_ceiling:
        notes.append("Costs are ceilings, with every completion as long as its limit, and include judges.")
    cost = f"Cost in US dollars, {'ceiling with judges' if as_ceiling else 'without judges'}"
    measure = board.ranked_by.capitalize()
    width = full_width(points)
    drawing = draw_cost(in_order(points), CostAxes(cost=cost, performance=measure, least_ticks=3), width)
    words = f"{len(points)} models by cost and {board.ranked_by}; numbers are in tables 1 and 3."
    return _figure(board, "figure5", f"Figure 5. {measure} and cost", words, (width, drawing), notes)


def figure_d1(board: Leaderboard, scores: Sequence[FlaggedScores]) -> PaperFigure:
    """Return bars of the mean scores on accepted and on flagged references, by benchmark."""
    bars = [
        PairedBars(
            label=f"{one.title} ({plural(one.n_models, 'model')})",
            values={f"Accepted ({one.n_accepted:,})": one.accepted, f"Flagged ({one.n_flagged:,})": one.flagged},
        )
        for one in scores
    ]
    words = "; ".join(f"{one.title}: accepted {one.accepted:.3f}, flagged {one.flagged:.3f}" for one in scores)
    notes = ["Flagged: not to be inferred from the prompt, or no sense with it. Means over models."]
    title = "Figure D1. Scores on accepted and flagged references"
    return _figure(board, "figureD1", title, f"{words}.", draw_paired_bars(bars), notes)


def figure_win_rates(board: Leaderboard) -> PaperFigure:
    """Return a plot of the averages that rank, with intervals and in numbers, best first."""
    title, axis = RANKING[board.ranked_by]
    found = [(row, average) for row in board.rows if (average := board.ranking_average(row)) is not None]
    rows = [
        IntervalRow(
            name=name, value=average.value, low=average.low, high=average.high, is_filled=not row.published,
        )
        for name, (row, average) in zip(names([shown_name(row) for row, _ in found]), found, strict=True)
    ]  # fmt: skip
    plot = IntervalPlot(rows=rows, axis=axis, low=0.0, high=1.0, in_full=True)
    notes = [intervals_in_words(board)]
    if len({row.is_filled for row in rows}) > 1:
        notes.append("Hollow points are published scores.")
    words = f"{len(board.rows)} models with their {title.lower()}; numbers are in table 1."
    return _figure(board, "win_rates", title, words, (plot.width, draw_intervals(plot, plot.width)), notes)


def figure_pairs(board: Leaderboard) -> PaperFigure:
    """Return a triangle of the pairs that differ significantly: the higher-ranked model left, the other one above."""
    rows = [row for row in board.rows if board.ranking_average(row) is not None]
    shown = names([shown_name(row) for row in rows])
    cells = [
        [_result(board, better.model, other.model) if i < j else None for j, other in enumerate(rows) if j]
        for i, better in enumerate(rows[:-1])
    ]
    lines = [CellLine(name=name, cells=line) for name, line in zip(shown, cells, strict=False)]
    used = {cell for line in cells for cell in line}
    legend = [(cell, meaning) for cell, meaning in RESULTS.items() if cell in used]
    table = CellTable(rows=lines, columns=[(name, "") for name in shown[1:]], legend=legend)
    notes = ["At the 5% level. The model on the left has the higher rank; the other one is above."]
    words = f"{len(board.separated)} of {board.n_tested} pairs differ significantly."
    return _figure(board, "pairs", "Significant differences between models", words, draw_cells(table), notes)


def _result(board: Leaderboard, better: str, other: str) -> ColoredCell | None:
    """Return the cell of a pair; None if the two were not compared."""
    if not board.were_compared(better, other):
        return None
    return BETTER if (better, other) in board.separated else WORSE if (other, better) in board.separated else TIED

"""The figures of a report: which there are, and what each is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medhelm.domain.text import plural
from medhelm.domain.titles import group_title
from medhelm.reports.figures.cost import PricedModel, average_by_cost
from medhelm.reports.figures.heat_map import HeatMapRow, heat_map
from medhelm.reports.figures.paired_bars import PairedBars, paired_bars
from medhelm.reports.figures.win_rates import RANKING, pairs, win_rates
from medhelm.reports.leaderboard import caption
from medhelm.reports.leaderboard_fields import shown_name
from medhelm.reports.paper.contents import intervals_in_words

if TYPE_CHECKING:
    from medhelm.analysis.leaderboard.types import GroupMean, Leaderboard
    from medhelm.reports.paper.contents import ModelCost

SCALED = "Scores from 0 (worst) to 1 (best); –: no score."


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
    spec: Mapping[str, Any]
    """The Vega-Lite specification, with its data."""


def _figure(key: str, title: str, words: str, spec: dict[str, Any]) -> PaperFigure:
    return PaperFigure(key=key, title=title, words=words, spec={**spec, "description": f"{title}. {words}"})


def figure_3(board: Leaderboard, titles: Mapping[str, str]) -> PaperFigure:
    """Return a heat map of models by benchmark, grouped by category: models as rows, as in the paper."""
    lines = [
        HeatMapRow(
            label=column.title,
            group=titles.get(column.category, group_title(column.category)),
            values=[
                None if (cell := row.cells.get(column.benchmark)) is None or cell.value is None
                else column.normalize(cell.value)
                for row in board.all_rows
            ],
        )
        for column in board.columns
    ]  # fmt: skip
    return _heat_map(board, lines, "figure3", "Figure 3. Scores by benchmark", "", models_as_rows=True)


def figure_4(board: Leaderboard, titles: Mapping[str, str]) -> PaperFigure:
    """Return a heat map of models by category."""
    names = list(dict.fromkeys(column.category for column in board.columns))
    lines = [
        _means_row(board, name, titles, "", [row.categories.get(name) for row in board.all_rows]) for name in names
    ]
    return _heat_map(board, lines, "figure4", "Figure 4. Scores by category", COUNTS)


def figure_4_subcategories(board: Leaderboard, titles: Mapping[str, str]) -> PaperFigure:
    """Return a heat map of models by subcategory."""
    places = {column.subcategory: column.category for column in board.columns}
    lines = [
        _means_row(board, name, titles, titles.get(category, group_title(category)),
               [row.subcategories.get(name) for row in board.all_rows])
        for name, category in places.items()
    ]  # fmt: skip
    return _heat_map(board, lines, "figure4_subcategories", "Figure 4, in detail. Scores by subcategory", COUNTS)


COUNTS = "Means over benchmarks; brackets: number of benchmarks."


def _means_row(
    board: Leaderboard, name: str, titles: Mapping[str, str], group: str, means: Sequence[GroupMean | None]
) -> HeatMapRow:
    count = sum(name in (column.category, column.subcategory) for column in board.columns)
    label = f"{titles.get(name, group_title(name))} ({count})"
    return HeatMapRow(label=label, group=group, values=[mean.value if mean else None for mean in means])


def _heat_map(
    board: Leaderboard, lines: Sequence[HeatMapRow], key: str, title: str, more: str, *, models_as_rows: bool = False
) -> PaperFigure:
    models = [shown_name(row) for row in board.all_rows]
    order = f"Models from {'top to bottom' if models_as_rows else 'left to right'} by rank" + (
        ", then baselines." if board.baselines else "."
    )
    notes = [f"{caption(board)}. {order}", f"{SCALED} {more}".rstrip()]
    is_sample = board.tier == "sample"
    spec = heat_map(lines, models, heading=title, notes=notes, sample=is_sample, models_as_rows=models_as_rows)
    lines_in_words = plural(len(lines), "column" if models_as_rows else "line")
    words = f"A table of {lines_in_words} and {plural(len(models), 'model')} with the value in each cell."
    return _figure(key, title, words, spec)


def figure_5(board: Leaderboard, costs: Sequence[ModelCost]) -> PaperFigure | None:
    """Return a plot of the average that ranks against the cost of use; None if no cost above 0 is known.

    If some models have published costs, which are ceilings with judges, all are shown with theirs.
    """
    as_ceiling = any(cost.is_ceiling for cost in costs)
    known = {cost.model: cost.ceiling_usd if as_ceiling else cost.benchmark_usd for cost in costs}
    priced = [
        PricedModel(
            model=shown_name(row),
            average=average,
            cost_usd=known.get(row.model),
            seconds=row.use.seconds if row.use else None,
            tokens=row.use.tokens if row.use else None,
            frontier_probability=board.frontier.probability(row.model) if board.frontier else None,
        )
        for row in board.rows
        if (average := board.ranking_average(row)) is not None
    ]
    if not any(one.cost_usd for one in priced):
        return None
    basis = "Cost of use in US dollars, without judges"
    if as_ceiling:
        basis = "Cost in US dollars, judges included: ceilings, with every completion as long as its limit"
    measure = board.ranked_by.capitalize()
    title = f"Figure 5. {measure} and cost"
    notes = [
        f"{caption(board)}.",
        f"{intervals_in_words(board)} Dashed: the highest {board.ranked_by} at a cost.",
    ]
    if board.frontier:
        notes.append("Percentages: probability of being efficient by macro average, given the scores.")
    is_sample = board.tier == "sample"
    spec = average_by_cost(priced, heading=title, notes=notes, sample=is_sample, axis=basis, measure=measure)
    words = f"{len(priced)} models by cost and {board.ranked_by}; numbers are in tables 1 and 3."
    return _figure("figure5", title, words, spec)


def figure_d1(board: Leaderboard, scores: Sequence[FlaggedScores]) -> PaperFigure:
    """Return bars of the mean scores on accepted and on flagged references, by benchmark."""
    title = "Figure D1. Scores on accepted and flagged references"
    notes = [
        f"{caption(board)}.",
        "Flagged: not to be inferred from the prompt, or no sense with it. Means over models.",
    ]
    bars = [
        PairedBars(
            label=f"{one.title} ({plural(one.n_models, 'model')})",
            values={f"Accepted ({one.n_accepted:,})": one.accepted, f"Flagged ({one.n_flagged:,})": one.flagged},
        )
        for one in scores
    ]
    spec = paired_bars(bars, heading=title, notes=notes, sample=board.tier == "sample")
    words = "; ".join(f"{one.title}: accepted {one.accepted:.3f}, flagged {one.flagged:.3f}" for one in scores)
    return _figure("figureD1", title, f"{words}.", spec)


def figure_win_rates(board: Leaderboard) -> PaperFigure:
    """Return a plot of the averages that rank, with intervals."""
    title = RANKING[board.ranked_by][0]
    spec = win_rates(board, heading=title, notes=[f"{caption(board)}.", intervals_in_words(board)])
    return _figure(
        "win_rates",
        title,
        f"{len(board.rows)} models with their {RANKING[board.ranked_by][0].lower()}; numbers are in table 1.",
        spec,
    )


def figure_pairs(board: Leaderboard) -> PaperFigure:
    """Return a triangle of the pairs that differ significantly."""
    title = "Significant differences between models"
    notes = [
        f"{caption(board)}.",
        "At the 5% level. The model on the left has the higher rank; the other one is above.",
    ]
    words = f"{len(board.separated)} of {board.n_tested} pairs differ significantly."
    return _figure("pairs", title, words, pairs(board, heading=title, notes=notes))

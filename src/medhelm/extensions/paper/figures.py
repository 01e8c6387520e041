"""The figures of a report: their inputs, and the drawing of those that no other part of medhelm has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from markupsafe import Markup

from medhelm.analysis.frontier import CostPoint, efficient_frontier
from medhelm.domain.text import group_title, plural
from medhelm.extensions.paper.contents import intervals_in_words
from medhelm.results.formats.charts import (
    ROUND_POINTS,
    CostAxes,
    IntervalPlot,
    IntervalRow,
    PricedPoint,
    RowText,
    axis_below,
    cost_width,
    draw_cost,
    draw_intervals,
    in_order,
    lay_out,
    row_texts,
    rows_width,
)
from medhelm.results.formats.drawing import (
    COLUMN,
    EDGE,
    PAINT,
    SMALL,
    Drawing,
    box_paint,
    element,
    group,
    headed,
    label,
    names,
    paint,
    rect,
    text_width,
    wrapped,
)
from medhelm.results.formats.tables import MISSING, SAMPLE_WARNING
from medhelm.results.leaderboard_view import caption, shown_name

if TYPE_CHECKING:
    from medhelm.analysis.leaderboard.cells import Column
    from medhelm.analysis.leaderboard.types import GroupMean, Leaderboard
    from medhelm.extensions.paper.contents import ModelCost


# --- tables of colored cells ------------------------------------------------------------------------------------------
# Each cell has its value or sign: models by benchmarks, and models by models.
#
# A table with more columns than a page has room for continues below itself.

CELL, ROW = 27, 18
"""Width and height of a cell, in pixels."""

GAP = 10
"""Pixels between groups, and between names and cells."""

MOST_WIDE = 1000.0
"""Pixels of a picture; further columns are below."""

HEADING = 104.0
"""Least pixels for a heading below a group of columns: a long word."""

SLANT = 55
"""Degrees by which the names of columns are turned."""

BLACK, WHITE, FAINT = "#000000", "#ffffff", "#d9d9d9"

RAMP = (
    "#440154", "#482475", "#414487", "#355f8d", "#2a788e", "#21918c", "#22a884", "#44bf70", "#7ad151", "#bddf26",
    "#fde725",
)  # fmt: skip
"""Viridis in steps of 0.1, dark (0) to light (1): perceptually uniform, also for color blindness and in gray. Most
scores are in its upper half, where black text is readable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColoredCell:
    """One cell."""

    text: str
    """Its value or sign."""
    fill: str = WHITE
    """Its color; white for a cell with an outline."""

    @property
    def ink(self) -> str:
        """Black or white, whichever contrasts more with the color: at least 4.5:1 (WCAG 2.2, 1.4.3)."""
        return BLACK if _luminance(self.fill) > 0.179 else WHITE


@dataclass(frozen=True, slots=True, kw_only=True)
class CellLine:
    """One row of cells."""

    name: str
    """Its name, which can be any text."""
    cells: Sequence[ColoredCell | None]
    """A cell for each column; None leaves its place empty."""
    group: str = ""
    """Heading above the row where it differs from that of the row before; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellTable:
    """Rows and columns of cells."""

    rows: Sequence[CellLine]
    """From top to bottom."""
    columns: Sequence[tuple[str, str]]
    """Name and group of each column; groups have headings below if there are several."""
    legend: Sequence[tuple[ColoredCell, str]]
    """Kinds of cells with their meaning; cells without one are beside the next."""


def score_cell(value: float | None) -> ColoredCell:
    """Return the cell of a score from 0 (worst) to 1 (best); beyond, it keeps its number in the color of the end."""
    if value is None or not math.isfinite(value):
        return ColoredCell(text=MISSING)
    return ColoredCell(text=f"{value:.2f}".replace("-", "−"), fill=shade(value))


def shade(value: float) -> str:
    """Return the color of a value from 0 to 1, interpolated linearly in RGB between the steps of RAMP.

    >>> shade(0.0), shade(1.0)
    ('#440154', '#fde725')
    """
    place = min(max(value, 0.0), 1.0) * (len(RAMP) - 1)
    at = min(int(place), len(RAMP) - 2)
    ends = zip(_channels(RAMP[at]), _channels(RAMP[at + 1]), strict=True)
    return "#" + "".join(f"{round(low + (place - at) * (high - low)):02x}" for low, high in ends)


def _channels(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _luminance(color: str) -> float:
    """Return the relative luminance by WCAG, 0 (black) to 1 (white)."""
    shares = [channel / 255 for channel in _channels(color)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def draw_cells(table: CellTable) -> tuple[int, Drawing]:
    """Return the width of the picture and its drawing, with every name in full."""
    names = max(max(text_width(row.name, SMALL), text_width(row.group, SMALL * 1.08)) for row in table.rows)
    left = EDGE + names + GAP
    bands = _balanced(table.columns, MOST_WIDE - left - EDGE)
    width, top, parts = float(COLUMN), 4.0, []
    for band in bands:
        drawn, right, top = _band(table, band, left, top)
        parts.append(drawn)
        width = max(width, right)
    legend, bottom = _legend(table.legend, top + 6, width)
    return math.ceil(width), (bottom, [*parts, legend])


Band = list[tuple[int, float]]
"""Columns beside each other: number and left end, from the first cell on."""


def _groups(columns: Sequence[tuple[str, str]], numbers: Sequence[int]) -> list[tuple[str, list[int]]]:
    """Return columns that are beside each other by their group."""
    return [(name, list(found)) for name, found in groupby(numbers, key=lambda number: columns[number][1])]


def _balanced(columns: Sequence[tuple[str, str]], room: float) -> list[Band]:
    """Return columns in as few bands as `room` pixels allow, and these as narrow as possible."""
    bands = _bands(columns, room)
    while room > CELL and len(narrower := _bands(columns, room - CELL)) == len(bands):
        bands, room = narrower, room - CELL
    return bands


def _bands(columns: Sequence[tuple[str, str]], room: float) -> list[Band]:
    """Return columns in bands of at most `room` pixels, where possible with whole groups."""
    bands: list[Band] = [[]]
    x = 0.0
    groups = _groups(columns, range(len(columns)))
    for _, numbers in groups:
        if x and x + CELL * len(numbers) > room:
            bands.append([])
            x = 0.0
        start = x
        for number in numbers:
            if bands[-1] and x + CELL > room:
                bands.append([])
                x = start = 0.0
            bands[-1].append((number, x))
            x += CELL
        x = GAP + max(x, start + HEADING if len(groups) > 1 else 0.0)
    return bands


def _band(table: CellTable, band: Band, left: float, top: float) -> tuple[Markup, float, float]:
    """Return one band, its right end, and its bottom."""
    heads, right, y = _heads([(table.columns[number][0], left + x) for number, x in band], top)
    words, headings, cells = [heads], [], []
    previous, end = "", left - GAP + 4
    for row in table.rows:
        if not any(row.cells[number] for number, _ in band):
            continue
        if row.group and row.group != previous:
            headings.append(label(end, y + 15, row.group, anchor="end", size=SMALL, bold=True))
            y += ROW + 4
        previous = row.group
        words.append(label(end, y + 13, row.name, anchor="end"))
        cells += [_cell(left + x, y, cell) for number, x in band if (cell := row.cells[number])]
        y += ROW
    below, beyond, bottom = _headings(table.columns, band, left, y)
    texts = group("ink", words, font_size=SMALL) + group("ink", [*headings, *below])
    right = max(right, beyond, left + band[-1][1] + CELL)
    return texts + element("g", *cells, font_size=10), right + EDGE, bottom + 8


def _heads(names: Sequence[tuple[str, float]], top: float) -> tuple[Markup, float, float]:
    """Return slanted names of columns, their right end and their bottom. `names`: with the left end of each column."""
    slant = math.radians(SLANT)
    bottom = top + max(text_width(name, SMALL) for name, _ in names) * math.sin(slant) + 12
    right = max(x + CELL / 2 + text_width(name, SMALL) * math.cos(slant) for name, x in names)
    words = [
        element("text", name, transform=f"translate({x + CELL / 2 + 3:.1f} {bottom - 6:.1f}) rotate(-{SLANT})")
        for name, x in names
    ]
    return Markup("").join(words), right, bottom


def _headings(
    columns: Sequence[tuple[str, str]], band: Band, left: float, y: float
) -> tuple[list[Markup], float, float]:
    """Return the headings below groups of columns, their right end and their bottom; none for a single group."""
    found: list[Markup] = []
    right, bottom = 0.0, y
    if len({name for _, name in columns}) > 1:
        places = dict(band)
        for name, numbers in _groups(columns, list(places)):
            x = left + places[numbers[0]]
            for place, text in enumerate(wrapped(name, max(HEADING, CELL * len(numbers)), SMALL * 1.08), start=1):
                found.append(label(x + 1, y + 2 + 13 * place, text, size=SMALL, bold=True))
                right, bottom = max(right, x + text_width(text, SMALL * 1.08)), max(bottom, y + 6 + 13 * place)
    return found, right, bottom


def _cell(x: float, y: float, cell: ColoredCell) -> Markup:
    """Return a cell with its text."""
    stroke = FAINT if cell.fill == WHITE else None
    box = rect(x + 0.5, y + 0.5, CELL - 1, ROW - 1, fill=cell.fill, stroke=stroke)
    return box + element("text", cell.text, x=x + CELL / 2, y=y + 12.5, text_anchor="middle", fill=cell.ink)


def _legend(kinds: Sequence[tuple[ColoredCell, str]], top: float, width: float) -> tuple[Markup, float]:
    """Return kinds of cells with their meaning, in lines, and the bottom of the last one."""
    x, y, parts = float(EDGE), top, []
    for cell, meaning in kinds:
        needed = CELL + (text_width(meaning, SMALL) + 6 if meaning else 0)
        if x + needed > width - EDGE and x > EDGE:
            x, y = float(EDGE), y + ROW + 4
        parts.append(element("g", _cell(x, y, cell), font_size=10))
        if meaning:
            parts.append(group("ink", [label(x + CELL + 6, y + 13, meaning, size=SMALL)]))
        x += needed + (16 if meaning else 0)
    return Markup("").join(parts), y + ROW + 8


# --- each figure ------------------------------------------------------------------------------------------------------

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
    width = cost_width(points)
    axes = CostAxes(cost=cost, performance=measure, least_ticks=3, with_probability=True)
    drawing = draw_cost(in_order(points), axes, width)
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


# --- paired bars ------------------------------------------------------------------------------------------------------
# Two bars for each benchmark, with the value beside each.


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedBars:
    """The bars of one benchmark."""

    label: str
    """Heading above the bars."""
    values: Mapping[str, float]
    """Label of each bar -> its value, 0 (worst) to 1 (best)."""


def draw_paired_bars(groups: Sequence[PairedBars]) -> tuple[int, Drawing]:
    """Return the width of the picture and the bars by group, the first of each filled, the others pale."""
    labels = names([group.label for group in groups], 70)
    bars = [
        (RowText(name=name, text=f"{value:.3f}", group=label), value, paint("mark") if place == 0 else box_paint())
        for label, group in zip(labels, groups, strict=True)
        for place, (name, value) in enumerate(group.values.items())
    ]
    words = [text for text, _, _ in bars]
    width = rows_width(words)
    layout = lay_out(words, width, in_full=True)
    scale = layout.scale((0.0, 1.0))
    rects = [
        rect(scale.start, top + 3.5, scale(value) - scale.start, layout.mark_height - 7, **color)
        for (_, value, color), top in zip(bars, layout.tops, strict=True)
    ]
    axis = axis_below(layout, scale, "Mean score, 0 worst, 1 best")
    return width, (layout.height, [axis, row_texts(words, layout), *rects])

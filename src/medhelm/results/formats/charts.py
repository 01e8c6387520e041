"""Charts of intervals, one row per name, and of cost against performance.

Wide pictures have three columns; narrow ones have name and number above the marks of each row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup

from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.domain.text import best_of, listed, plural
from medhelm.results.formats.drawing import (
    COLUMN,
    COMPACT,
    EDGE,
    FONT_SIZE,
    SMALL,
    Chart,
    Drawing,
    LinearScale,
    LogScale,
    box_paint,
    circle,
    coordinate,
    dollars,
    domain,
    element,
    frame_paint,
    group,
    halo,
    hollow_paint,
    known,
    label,
    line,
    paint,
    rect,
    short,
    text_width,
    tick_text,
)
from medhelm.results.formats.tables import Value, as_line, number, with_interval
from medhelm.results.leaderboard_view import shown_name

# --- rows -------------------------------------------------------------------------------------------------------------

MARGIN, GAP = 8, 10
"""Pixels at the edges, and between names, marks and numbers."""

INSET = 6
"""Pixels between the ends of the scale and the neighboring columns, for the radius of a point."""

ROW = 22
"""Pixels of a row of text."""

PLOT = 220
"""Pixels of a plot between names and numbers in full."""

AXIS = 40
"""Pixels below the rows for ticks and the title of the axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowText:
    """The words of one row."""

    name: str
    """Name, which can be any text."""
    text: str
    """Its numbers."""
    group: str = ""
    """Heading above the row where it differs from that of the row before; empty for none."""
    is_strong: bool = False
    """True for a row that sums up the others: bold, with a gap above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLayout:
    """Positions of rows in a picture."""

    width: float
    """Pixels of the picture."""
    left: float
    """Left end of the plot."""
    right: float
    """Right end of the plot."""
    top: float
    """Top of the first row."""
    bottom: float
    """Bottom of the last row, where the axis is."""
    headings: tuple[float | None, ...]
    """Top of the heading above each row; None without one."""
    tops: tuple[float, ...]
    """Top of the marks of each row."""
    mark_height: float
    """Pixels of the marks of a row."""

    @property
    def height(self) -> float:
        """Pixels of the picture."""
        return self.bottom + AXIS

    @property
    def is_compact(self) -> bool:
        """True if names are above their marks."""
        return self.width < COMPACT

    def scale(self, ends: tuple[float, float]) -> LinearScale:
        """Return the horizontal scale of the plot."""
        return LinearScale(*ends, self.left + INSET, self.right - INSET)


def rows_width(rows: Sequence[RowText]) -> int:
    """Return the pixels of a picture in which names, numbers and headings are in full."""
    names, texts = _widest(rows)
    headings = max((text_width(row.group, FONT_SIZE * 1.08) for row in rows), default=0.0)
    return round(max(COLUMN, names + texts + PLOT + 2 * (MARGIN + GAP), headings + 2 * MARGIN))


def _widest(rows: Sequence[RowText]) -> tuple[float, float]:
    """Return the pixels of the longest name, and of the longest numbers."""
    names = [text_width(row.name, FONT_SIZE * 1.08) for row in rows]
    return max(names, default=0.0), max((text_width(row.text, SMALL) for row in rows), default=0.0)


def lay_out(
    rows: Sequence[RowText], width: float, *, top: float = 8.0, mark_height: float = ROW, in_full: bool = False
) -> RowLayout:
    """Return the positions of rows.

    Parameters: mark_height, pixels of the marks, at least ROW in wide pictures; in_full, True for the `rows_width`, in
    which nothing is shortened.
    """
    is_compact = width < COMPACT
    if is_compact:
        left, right = float(MARGIN), width - MARGIN
    else:
        names, texts = _widest(rows)
        left = MARGIN + GAP + (names if in_full else min(names, width * 0.3))
        right = width - MARGIN - GAP - (texts if in_full else min(texts, width * 0.4))
    headings: list[float | None] = []
    tops: list[float] = []
    y, previous = top, ""
    for i, row in enumerate(rows):
        heading = None
        if row.group != previous:
            y += GAP if i else 0
            if row.group:
                heading, y = y, y + ROW
            previous = row.group
        elif row.is_strong and i and not rows[i - 1].is_strong:
            y += GAP
        headings.append(heading)
        tops.append(y + (18 if is_compact else 0))
        y = tops[-1] + (mark_height if not is_compact or mark_height > ROW else ROW - 4)
    return RowLayout(
        width=width, left=left, right=right, top=top, bottom=y + 4, headings=tuple(headings), tops=tuple(tops),
        mark_height=mark_height if not is_compact or mark_height > ROW else ROW - 6,
    )  # fmt: skip


def row_texts(rows: Sequence[RowText], layout: RowLayout) -> Markup:
    """Return headings, names and numbers."""
    headings, words = [], []
    for row, heading, top in zip(rows, layout.headings, layout.tops, strict=True):
        if heading is not None:
            headings.append(label(MARGIN, heading + 15, row.group, width=layout.width - 2 * MARGIN, bold=True))
        if layout.is_compact:
            room = layout.width - 2 * MARGIN - GAP
            number = min(text_width(row.text, SMALL), room * 0.62)
            words += [
                label(MARGIN, top - 5, row.name, width=room - number, bold=row.is_strong),
                label(layout.width - MARGIN, top - 5, row.text, width=number + 1, anchor="end", size=SMALL),
            ]
        else:
            y = top + layout.mark_height / 2 + 4
            room = layout.width - MARGIN - layout.right - GAP
            words += [
                label(MARGIN, y, row.name, width=layout.left - MARGIN - GAP + 1, bold=row.is_strong),
                label(layout.right + GAP, y, row.text, width=room + 1, size=SMALL),
            ]
    texts = group("ink", headings) + group("ink", words)
    return halo(texts) if layout.is_compact else texts


def axis_below(
    layout: RowLayout, scale: LinearScale, title: str, *, ends: tuple[str, str] = ("", ""), ticks: Sequence[float] = ()
) -> Markup:
    """Return grid lines, ticks and the title of the axis, or a text below each of its ends.

    Parameters: ticks, other positions than round numbers.
    """
    top, bottom = layout.top, layout.bottom
    ticks = ticks or scale.ticks(4 if layout.is_compact else 6)
    grid = group("grid", [line(scale(tick), top, scale(tick), bottom) for tick in ticks])
    axis = group("axis", [line(scale.start, bottom, scale.end, bottom)])
    texts = [label(scale(tick), bottom + 14, tick_text(tick, ticks), anchor="middle", size=SMALL) for tick in ticks]
    middle, y = (scale.start + scale.end) / 2, bottom + 32
    if any(ends):
        room = min(middle - MARGIN, layout.width - MARGIN - middle) - GAP
        texts += [
            label(middle - GAP, y, f"← {ends[0]}", width=room, anchor="end", size=SMALL),
            label(middle + GAP, y, f"{ends[1]} →", width=room, size=SMALL),
        ]
    else:
        room = 2 * min(middle - MARGIN, layout.width - MARGIN - middle)
        texts.append(label(middle, y, title, width=room, anchor="middle", size=SMALL))
    return grid + axis + group("soft", texts)


# --- intervals --------------------------------------------------------------------------------------------------------
# Rows of points with 95% intervals on one scale: models on a benchmark, subgroups, differences of two models.


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalRow:
    """One row of the chart."""

    name: str
    """Name, which can be any text."""
    value: float | None
    """The number; None or nan if unknown."""
    low: float | None = None
    """Lower end of its 95% interval; None if unknown."""
    high: float | None = None
    """Upper end of its 95% interval; None if unknown."""
    group: str = ""
    """Heading above the row where it differs from that of the row before; empty for none."""
    is_strong: bool = False
    """True for a row that sums up the others: a diamond, and a bold name."""
    is_filled: bool = True
    """False for a hollow point: a baseline, a published value, or a difference that is not significant."""
    note: str = ""
    """Text after the number, such as `n = 12`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalPlot:
    """The rows and their axis."""

    rows: Sequence[IntervalRow]
    """From top to bottom."""
    axis: str
    """Title of the axis, with its unit."""
    low: float | None = None
    """Lower end of the metric's scale; None for no end."""
    high: float | None = None
    """Upper end of the metric's scale; None for no end."""
    references: Sequence[tuple[float, str]] = ()
    """Vertical lines: number and label."""
    ends: tuple[str, str] = ("", "")
    """Texts below the left and the right half of the axis, instead of its title."""
    is_signed: bool = False
    """True to write a plus sign before positive numbers."""
    in_full: bool = False
    """True to shorten no name; then the picture needs `width`."""

    def text(self, row: IntervalRow) -> str:
        """Return the number of a row with its interval and note."""
        value = known(row.value)
        number = "no score" if value is None else with_interval(value, known(row.low), known(row.high)) or ""
        sign = "+" if self.is_signed and value is not None and value > 0 else ""
        number = sign + number.replace("-", "−")
        return f"{number}; {row.note}" if row.note else number

    @property
    def words(self) -> list[RowText]:
        """The words of each row."""
        return [
            RowText(name=row.name, text=self.text(row), group=row.group, is_strong=row.is_strong) for row in self.rows
        ]

    @property
    def width(self) -> int:
        """Pixels of a picture with all words in full."""
        return rows_width(self.words)


def draw_intervals(plot: IntervalPlot, width: int) -> Drawing:
    """Draw the rows, at least one, in a layout for the width."""
    words = plot.words
    top = 24.0 if any(text for _, text in plot.references) else 8.0
    layout = lay_out(words, width, top=top, in_full=plot.in_full)
    ends = [end for row in plot.rows for end in (row.value, row.low, row.high)]
    scale = layout.scale(domain([*ends, *(at for at, _ in plot.references)], low=plot.low, high=plot.high))
    points = [_point(row, scale, top + layout.mark_height / 2) for row, top in zip(plot.rows, layout.tops, strict=True)]
    axis = axis_below(layout, scale, plot.axis, ends=plot.ends)
    return layout.height, [axis, _references(plot.references, scale, layout), row_texts(words, layout), *points]


def _references(references: Sequence[tuple[float, str]], scale: LinearScale, layout: RowLayout) -> Markup:
    """Return dashed lines, each with its label above where there is room for it."""
    lines = [line(scale(at), layout.top - 4, scale(at), layout.bottom, stroke_dasharray="4 3") for at, _ in references]
    texts, free = [], 0.0
    for x, text in sorted((scale(at), text) for at, text in references if text):
        is_right = x > layout.width * 0.6
        room = x - free - 8 if is_right else layout.width - x - 8
        if x < free or room < 60:
            continue  # another label is there; the table has both
        texts.append(label(x, layout.top - 9, text, width=room, anchor="end" if is_right else "start", size=SMALL))
        free = x + 8 if is_right else x + 7 * len(text)
    return group("rule", lines) + group("soft", texts)


def _point(row: IntervalRow, scale: LinearScale, y: float) -> Markup:
    """Return the interval with its point: a disk, a ring or, for a sum, a diamond."""
    value, low, high = known(row.value), known(row.low), known(row.high)
    if value is None:
        return Markup("")
    x = scale(value)
    parts = []
    if low is not None and high is not None:
        a, b = scale(low), scale(high)
        ends = [line(end, y - 3.5, end, y + 3.5, stroke_width=1.5) for end in (a, b)]
        parts.append(group("line", [line(a, y, b, y, stroke_width=2), *ends]))
    if row.is_strong:
        corners = [(x - 6, y), (x, y - 6), (x + 6, y), (x, y + 6)]
        points = " ".join(f"{coordinate(a)},{coordinate(b)}" for a, b in corners)
        look = paint("mark") if row.is_filled else {"stroke_width": 2, **hollow_paint()}
        parts.append(element("polygon", points=points, **look))
    elif row.is_filled:
        parts.append(circle(x, y, 4.5, **paint("mark")))
    else:
        parts.append(circle(x, y, 4, stroke_width=2, **hollow_paint()))
    return Markup("").join(parts)


# --- cost and performance ---------------------------------------------------------------------------------------------
# Models on a logarithmic axis of cost, joined by the efficient frontier, with their names beside them.
#
# A name for which there is no room is in a key below, by number. A model whose cost is unknown is in the key too, and
# never drawn at zero.

HEADERS = ("no", "model", "usd_per_1000", "macro_average", "low", "high", "efficient", "probability", "note")
"""Columns of the table."""

PROBABILITY = HEADERS.index("probability")
"""Place of the column with the probability of being on the frontier."""

KEY_ROW = 20
"""Pixels of a line of the key."""

FREE = 34
"""Pixels beside the logarithmic axis for models without a cost."""

LEFT = 60.0
"""Pixels for the ticks and the title of the vertical axis."""

RADIUS = 9
"""Pixels of a numbered point, large enough for two digits."""

DOT = 5.0
"""Pixels of a point with its name beside it."""

LINE = 13.0
"""Pixels of a line of names."""

NAME_STEPS = (0, -1, 1, -2, 2, -3, 3, -4, 4, -5, 5, -6, 6)
"""Lines between a point and its name, in the order in which they are tried."""

SEVERAL = 480
"""Pixels of a picture from which on the key has two columns."""

ROUND_POINTS = "Round points are on the efficient frontier by point estimates: no model is at least as good for less."
"""Meaning of the two kinds of points."""

AROUND = sorted(((i, j) for i in range(-4, 5) for j in range(-4, 5)), key=lambda step: math.hypot(*step))
"""Steps from a place to those around it, nearest first."""

LEAST_APART = 13.0
"""Pixels between the middles of symbols, whose numbers stay readable."""

OTHER = "other benchmarks"
"""Note of a model that was not run on the benchmarks of the frontier."""

CEILING = "ceiling only"
"""Note of a model whose published cost is not drawn beside measured ones."""

FULL_WIDTH = 760
"""Pixels of a figure over the whole width of a printed page."""

MOST_IN_COLUMN = 18
"""Most models in a figure for one column of a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedPoint:
    """Cost and performance of one model."""

    model: str
    """Name, which can be any text."""
    value: float
    """Macro average or win rate, 0 to 1."""
    low: float | None = None
    """Lower end of its 95% interval; None if unknown."""
    high: float | None = None
    """Upper end of its 95% interval; None if unknown."""
    usd: float | None = None
    """Cost in US dollars; None if unknown, which is never shown as 0."""
    is_efficient: bool = False
    """True if it is on the frontier by the point estimates."""
    probability: float | None = None
    """Probability that it is on the frontier; None if unknown."""
    note: str = ""
    """Reason why it is not part of the frontier, such as `other benchmarks`; empty for none."""
    is_ceiling: bool = False
    """True if the cost is a published ceiling."""

    @property
    def cost(self) -> float | None:
        """Cost in US dollars; None if unknown or not finite."""
        return known(self.usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAxes:
    """The axes of the plot."""

    cost: str = "US dollars for 1,000 completions"
    """Title of the axis of cost."""
    performance: str = "Macro average"
    """Title of the other one."""
    least_ticks: int = 2
    """Powers of ten and simple multiples on the axis of cost, below which it has evenly spaced ticks."""
    with_probability: bool = False
    """True to write the probability of being on the frontier after each name."""

    def note(self, one: PricedPoint) -> str:
        """Return what is written after a name; empty for nothing."""
        is_shown = self.with_probability and one.probability is not None
        return _note(one) or (percent(one.probability or 0.0) if is_shown else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plot:
    """Positions in one picture of the chart."""

    y: LinearScale
    x: LogScale | None
    """Scale of costs above zero; None if there are none."""
    free: float | None
    """Horizontal place of models that cost nothing; None if there are none."""
    bottom: float

    def x_of(self, one: PricedPoint) -> float:
        """Return the horizontal place of a model with a known cost."""
        return self.x(one.cost) if one.cost and self.x else self.free or 0.0


def cost_points(board: Leaderboard, *, with_probability: bool = True) -> list[PricedPoint]:
    """Return the models of a leaderboard by cost, cheapest first, then those without a known cost.

    Published costs are ceilings, which have a place only where all costs are. `with_probability`: False to leave out
    the probabilities of being on the frontier, which take seconds for hundreds of models.
    """
    found = []
    has_bills = not all(row.published for row in board.rows)
    for row in board.rows:
        average = row.adjusted_average
        if average is None:
            continue
        on_frontier = board.frontier.by_model.get(row.model) if board.frontier else None
        is_left_out = row.cost_is_ceiling and has_bills
        priced = row.usd_per_1000 is not None and not is_left_out
        found.append(
            PricedPoint(
                model=shown_name(row), value=average.value, low=average.low, high=average.high,
                usd=row.usd_per_1000 if priced else None,
                is_ceiling=row.cost_is_ceiling,
                is_efficient=on_frontier.is_efficient if on_frontier else False,
                probability=on_frontier.probability if on_frontier and with_probability else None,
                note=CEILING if is_left_out else OTHER if priced and board.frontier and not on_frontier else "",
            )
        )  # fmt: skip
    return in_order(found)


def in_order(points: Sequence[PricedPoint]) -> list[PricedPoint]:
    """Return the points with a known value in the order of their numbers: by cost, then those of unknown cost."""
    return sorted((one for one in points if known(one.value) is not None), key=_sort_key)


def _sort_key(one: PricedPoint) -> tuple[bool, float, float, str]:
    return one.cost is None, one.cost or 0.0, -one.value, one.model


def cost_chart(points: Sequence[PricedPoint], *, with_probability: bool = True, most: int | None = None) -> Chart:
    """Return macro averages against the cost of 1,000 completions. Points with an unknown average are left out.

    Parameters: with_probability, False for a table without the probabilities of being on the frontier; most, number of
    models that are shown, besides those on the frontier: the best ones.
    """
    all_points = in_order(points)
    best = {one.model for one in sorted(all_points, key=lambda one: -one.value)[:most]}
    shown = [one for one in all_points if one.is_efficient or one.model in best]
    table: list[list[Value]] = [
        [
            place, one.model, number(one.usd), number(one.value), number(one.low), number(one.high),
            "yes" if one.is_efficient else "no", number(one.probability), _note(one),
        ]
        for place, one in enumerate(shown, start=1)
    ]  # fmt: skip
    drawn = [one for one in shown if one.cost is not None]
    what = (
        "Ceiling of the cost, judges included,"
        if any(one.is_ceiling for one in drawn)
        else "Cost, judges not included,"
    )
    notes = [f"{what} for 1,000 completions, on a logarithmic axis; bars are 95% intervals. {ROUND_POINTS}"]
    if len(drawn) < len(shown) and any(one.note == CEILING for one in shown):
        notes.append("Published costs are ceilings that include judges, so they are not drawn beside measured costs.")
    if len(shown) < len(all_points):
        notes.append(
            f"Shown: {best_of(len(best), len(all_points), 'model')} by their average, and all on the frontier."
        )
    if any(one.probability is not None for one in shown):
        notes.append("The table has the probability of each model to be on the frontier.")
    kept = [place for place in range(len(HEADERS)) if with_probability or place != PROBABILITY]
    return Chart(
        name="cost", title="Cost and performance", description=_description(all_points),
        draw=partial(draw_cost, shown, CostAxes()), headers=[HEADERS[place] for place in kept],
        rows=[[row[place] for place in kept] for row in table], notes=notes if shown else [], has_data=bool(shown),
    )  # fmt: skip


def _note(one: PricedPoint) -> str:
    """Return why a model is not on the plot or the frontier."""
    return one.note or ("cost unknown" if one.cost is None else "")


def _description(points: Sequence[PricedPoint]) -> str:
    """Return the frontier in one or two sentences."""
    if not points:
        return "No model has a macro average."
    priced = [one for one in points if one.cost is not None]
    unknown = len([one for one in points if one.cost is None and one.note != CEILING])
    rest = f" The cost of {plural(unknown, 'model')} is unknown." if unknown else ""
    if not priced:
        return "The cost of every model is unknown."
    best = [short(one.model) for one in priced if one.is_efficient]
    if not best:
        return f"{plural(len(priced), 'model')} by cost and macro average.{rest}"
    return f"On the efficient frontier, cheapest first: {listed(best, 5)}.{rest}"


def percent(probability: float) -> str:
    """Return a probability in whole percent, never rounded to certainty.

    >>> percent(0.998), percent(0.631), percent(1.0)
    ('>99%', '63%', '100%')
    """
    if 0 < probability < 0.01:
        return "<1%"
    return ">99%" if 0.99 < probability < 1 else f"{probability:.0%}"


def draw_cost(points: Sequence[PricedPoint], axes: CostAxes, width: int) -> Drawing:
    """Draw the plot of one or more models `in_order`, with the key of those without a name in it."""
    plot = _plot_area(points, width, 300.0 if width < COMPACT else 380.0)
    body: list[Markup] = []
    named: set[int] = set()
    if plot:
        drawn = [(place, one) for place, one in enumerate(points, start=1) if one.cost is not None]
        drawn.sort(key=lambda pair: (pair[1].is_efficient, pair[1].value))  # efficient models cover the others
        names, named = _names(plot, [(place, one, axes.note(one)) for place, one in drawn], width)
        numbered = [(place, one) for place, one in drawn if place not in named]
        body += [_axes(plot, axes, width), _frontier(plot, points), *(_whisker(plot, one) for _, one in drawn)]
        body += [_dot(plot, one) for place, one in drawn if place in named]
        body += [*_symbols(plot, numbered, width), names]
    keyed = [(place, one, axes.note(one)) for place, one in enumerate(points, start=1) if place not in named]
    top = plot.bottom + 52 if plot else 8.0
    n_columns = 2 if len(keyed) > 2 and (width >= SEVERAL or 2 * (_key_width(points) + EDGE) <= width) else 1
    key, bottom = _key(keyed, 8.0, top, width - 8, n_columns)
    return max(bottom if keyed else 0.0, plot.bottom + 44 if plot else 0.0) + 4, [*body, key]


def cost_width(points: Sequence[PricedPoint]) -> int:
    """Return the pixels of a picture with all names in full: for one column of a page, or for its width."""
    return max(COLUMN if len(points) <= MOST_IN_COLUMN else FULL_WIDTH, 2 * (_key_width(points) + 2 * EDGE))


def _key_width(points: Sequence[PricedPoint]) -> int:
    """Return the pixels of a column of the key with all names in full."""
    return math.ceil(42 + max(text_width(one.model) + text_width(_note(one) or ">99%", SMALL) for one in points))


Box = tuple[float, float, float, float]
"""Left, top, right and bottom of what no name may cover."""


def _names(plot: _Plot, drawn: Sequence[tuple[int, PricedPoint, str]], width: float) -> tuple[Markup, set[int]]:
    """Return names beside their points, none over another one, and the places of the models that have one."""
    points = {place: (plot.x_of(one), plot.y(one.value)) for place, one, _ in drawn}
    taken: list[Box] = [(x - DOT - 1, y - DOT - 1, x + DOT + 1, y + DOT + 1) for x, y in points.values()]
    parts, notes, leads, named = [], [], [], set()
    for place, one, note in reversed(drawn):
        x, y = points[place]
        own = text_width(as_line(one.model), SMALL)
        room = own + (text_width(note, SMALL) + 4 if note else 0.0)
        for step in NAME_STEPS:
            sides = ((x + DOT + 4, x + DOT + 4 + room), (x - DOT - 4 - room, x - DOT - 4))
            base = y + 4 + step * LINE
            boxes = [(left, base - 10, right, base + 2.5) for left, right in sides]
            free = next((box for box in boxes if _is_free(box, taken, plot, width)), None)
            if free is not None:
                is_right = free[0] > x
                taken.append(free)
                named.add(place)
                at = free[0] if is_right else free[2]
                is_end = not is_right and not note
                parts.append(
                    label(at if is_end else free[0], base, one.model, anchor="end" if is_end else "start", size=SMALL)
                )
                if note:
                    notes.append(label(free[0] + own + 4, base, note, size=SMALL))
                if step:
                    leads.append(line(x, y, at + (-2 if is_right else 2), base - 4, stroke_width=0.8))
                break
    return group("axis", leads) + halo(group("ink", parts) + group("soft", notes)), named


def _is_free(box: Box, taken: Sequence[Box], plot: _Plot, width: float) -> bool:
    """Tell whether a name is inside the plot and covers nothing."""
    left, top, right, bottom = box
    is_inside = left >= LEFT + 2 and right <= width - 8 and top >= 10 and bottom <= plot.bottom - 2
    return is_inside and all(left >= c or right <= a or top >= d or bottom <= b for a, b, c, d in taken)


def _dot(plot: _Plot, one: PricedPoint) -> Markup:
    """Return the symbol of a model with its name beside it: a disk on the frontier, else a square."""
    x, y, full = plot.x_of(one), plot.y(one.value), element("title", one.model)
    if one.is_efficient:
        return element("g", full, circle(x, y, DOT, **paint("mark")))
    return element("g", full, rect(x - DOT + 0.5, y - DOT + 0.5, 9, 9, stroke_width=1.2, **box_paint()))


def _plot_area(points: Sequence[PricedPoint], width: float, height: float) -> _Plot | None:
    """Return the positions of the plot; None if no cost is known."""
    priced = [one for one in points if one.cost is not None]
    if not priced:
        return None
    ends = [end for one in priced for end in (one.value, one.low, one.high)]
    bottom = height - 48
    y = LinearScale(*domain(ends, low=0.0, high=1.0), bottom - 6, 16.0)
    left = LEFT
    has_free = any(one.usd == 0 for one in priced)
    costs = [one.usd for one in priced if one.usd]
    start = left + (FREE if has_free else 0) + 14
    if not costs:
        return _Plot(y=y, x=None, free=(left + width) / 2, bottom=bottom)
    margin = max((max(costs) / min(costs)) ** 0.04, 1.3)
    x = LogScale(min(costs) / margin, max(costs) * margin, start, width - 16)
    return _Plot(y=y, x=x, free=left + FREE / 2 if has_free else None, bottom=bottom)


def _axes(plot: _Plot, axes: CostAxes, width: float) -> Markup:
    """Return grid, ticks and titles of both axes, and the column of models without a cost."""
    y, bottom, left = plot.y, plot.bottom, LEFT
    ticks = y.ticks(6)
    grid = [line(left, y(tick), width - 8, y(tick)) for tick in ticks]
    texts = [label(left - 6, y(tick) + 4, tick_text(tick, ticks), anchor="end", size=SMALL) for tick in ticks]
    if plot.x is not None:
        costs = plot.x.ticks(4 if width < COMPACT else 6, axes.least_ticks)
        grid += [line(plot.x(cost), 10, plot.x(cost), bottom) for cost in costs]
        texts += [label(plot.x(cost), bottom + 16, dollars(cost), anchor="middle", size=SMALL) for cost in costs]
    band = Markup("")
    if plot.free is not None:
        texts.append(label(plot.free, bottom + 16, "$0", anchor="middle", size=SMALL))
        band = rect(plot.free - FREE / 2, 10, FREE, bottom - 10, **paint("band"))
    axis = [line(left, bottom, width - 8, bottom)]
    middle = (left + width) / 2
    texts.append(label(middle, bottom + 36, axes.cost, anchor="middle", size=SMALL))
    at = (10 + bottom) / 2
    turned = element("text", axes.performance, transform=f"translate(13 {at:.0f}) rotate(-90)", text_anchor="middle",
                     font_size=SMALL)  # fmt: skip
    return band + group("grid", grid) + group("axis", axis) + group("soft", [*texts, turned])


def _frontier(plot: _Plot, points: Sequence[PricedPoint]) -> Markup:
    """Return the frontier as steps: from a model on, a higher cost buys nothing until the next one."""
    best = [one for one in points if one.is_efficient and one.cost is not None]
    if len(best) < 2:
        return Markup("")
    places = [(plot.x_of(one), plot.y(one.value)) for one in best]
    path = f"M{places[0][0]:.2f} {places[0][1]:.2f}" + "".join(f"H{x:.2f}V{y:.2f}" for x, y in places[1:])
    return group("line", [element("path", d=path, fill="none", stroke_dasharray="5 4", stroke_width=1.5)])


def _whisker(plot: _Plot, one: PricedPoint) -> Markup:
    """Return the interval of one model."""
    low, high = known(one.low), known(one.high)
    if low is None or high is None:
        return Markup("")
    x = plot.x_of(one)
    return group("axis", [line(x, plot.y(low), x, plot.y(high), stroke_width=1.5)])


def _symbols(plot: _Plot, drawn: Sequence[tuple[int, PricedPoint]], width: float) -> list[Markup]:
    """Return the symbols of models, the last ones at their places; one that would be covered is beside its dot."""
    taken: list[tuple[float, float]] = []
    parts: list[Markup] = []
    for place, one in reversed(drawn):
        at = plot.x_of(one), plot.y(one.value)
        x, y = _free_place(at, taken, (LEFT + RADIUS, width - 8 - RADIUS), (10 + RADIUS, plot.bottom - RADIUS))
        taken.append((x, y))
        parts.append(symbol(x, y, place, one))
        if (x, y) != at:
            parts.append(
                group("axis", [line(*at, x, y, stroke_width=1.2)]) + circle(at[0], at[1], 2.5, **paint("mark"))
            )
    return parts[::-1]


def _free_place(
    at: tuple[float, float], taken: Sequence[tuple[float, float]], across: tuple[float, float],
    down: tuple[float, float],
) -> tuple[float, float]:  # fmt: skip
    """Return the place nearest to `at` where a symbol covers no other one; `at` itself if there is none."""
    for i, j in AROUND:
        x, y = at[0] + i * (2 * RADIUS + 1), at[1] + j * (2 * RADIUS + 1)
        is_inside = (x, y) == at or (across[0] <= x <= across[1] and down[0] <= y <= down[1])
        if is_inside and all(abs(x - a) >= LEAST_APART or abs(y - b) >= LEAST_APART for a, b in taken):
            return x, y
    return at


def symbol(x: float, y: float, place: int, one: PricedPoint) -> Markup:
    """Return the numbered symbol of a model: a disk on the frontier, else a square; dashed if its cost is unknown."""
    words = element("text", str(place), x=x, y=y + 3.6, text_anchor="middle", font_size=SMALL, font_weight="600")
    full = element("title", one.model)
    if one.cost is None:
        shape = rect(x - 8, y - 8, 16, 16, rx=3, stroke_dasharray="3 2", **frame_paint())
        return element("g", full, shape, group("ink", [words]))
    if one.is_efficient:
        return element("g", full, circle(x, y, RADIUS, **paint("mark")), group("on-mark", [words]))
    shape = rect(x - 8, y - 8, 16, 16, rx=2, stroke_width=1.2, **box_paint())
    return element("g", full, shape, group("ink", [words]))


def _key(
    points: Sequence[tuple[int, PricedPoint, str]], x: float, top: float, right: float, n_columns: int
) -> tuple[Markup, float]:
    """Return the names of models beside their symbols, and the bottom of the last line."""
    per_column = -(-len(points) // n_columns)
    column_width = (right - x) / n_columns
    parts, names = [], []
    for index, (place, one, note) in enumerate(points):
        column, at = divmod(index, per_column)
        left, y = x + column * column_width, top + at * KEY_ROW + 6
        room = column_width - 32 - (text_width(note, SMALL) + 10 if note else 0)
        parts.append(symbol(left + 9, y, place, one))
        names.append(label(left + 24, y + 4, one.model, width=room, size=FONT_SIZE))
        if note:
            parts.append(group("soft", [label(left + column_width - 6, y + 4, note, anchor="end", size=SMALL)]))
    return Markup("").join(parts) + group("ink", names), top + per_column * KEY_ROW

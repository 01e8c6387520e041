"""Layout of charts with one row per name: names, a plot on a common scale, and numbers.

Wide pictures have three columns; narrow ones have name and number above the marks of each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from medhelm.reports.charts.chart import COLUMN, COMPACT, Drawing
from medhelm.reports.charts.svg import (
    FONT_SIZE,
    SMALL,
    LinearScale,
    circle,
    coordinate,
    domain,
    element,
    group,
    halo,
    hollow_paint,
    known,
    label,
    line,
    paint,
    text_width,
    tick_text,
)
from medhelm.reports.formats.tables import with_interval

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


def full_width(rows: Sequence[RowText]) -> int:
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

    Parameters: mark_height, pixels of the marks, at least ROW in wide pictures; in_full, True for the `full_width`, in
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
        return full_width(self.words)


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
        parts.append(element("polygon", points=points, **paint("mark")))
    elif row.is_filled:
        parts.append(circle(x, y, 4.5, **paint("mark")))
    else:
        parts.append(circle(x, y, 4, stroke_width=2, **hollow_paint()))
    return Markup("").join(parts)

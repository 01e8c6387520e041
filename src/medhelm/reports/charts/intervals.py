"""Rows of points with 95% intervals on one scale: models on a benchmark, subgroups, differences of two models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from medhelm.reports.charts.chart import Drawing
from medhelm.reports.charts.rows import RowLayout, RowText, axis_below, full_width, lay_out, row_texts
from medhelm.reports.charts.scales import LinearScale, domain, known
from medhelm.reports.charts.svg import (
    SMALL,
    circle,
    coordinate,
    element,
    group,
    hollow_paint,
    label,
    line,
    paint,
)
from medhelm.reports.formats.tables import with_interval


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

"""A chart with its numbers: pictures for wide and narrow screens, a table and CSV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from medhelm.reports.charts.svg import SMALL, element, empty_picture, group, label, picture, wrapped
from medhelm.reports.formats.tables import MISSING, Value, as_line, decimal, render

WIDE, NARROW = 760, 340
"""Pixels of the pictures for large and small screens; texts have the same size in both."""

COLUMN = 480
"""Pixels of a figure for one column of a page, in which letters of 12 pixels are about 6 points high."""

EDGE = 8
"""Pixels beside the title and the notes of a figure."""

TITLE = 14.0
"""Pixels of the letters of a title."""

COMPACT = 480
"""Pixels below which names are above their marks instead of beside them."""


Drawing = tuple[float, Sequence[Markup]]
"""Height in pixels and elements of a picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture and the numbers behind it."""

    name: str
    """Part of the names of its files, such as `cost`."""
    title: str
    """Title for people, and the name of the picture for screen readers."""
    description: str
    """One or two sentences: the main result, for readers who do not see the picture."""
    draw: Callable[[int], Drawing]
    """Draws the picture for a width in pixels."""
    headers: Sequence[str]
    """Headings of the table."""
    rows: Sequence[Sequence[Value]]
    """The numbers, not rounded for people."""
    notes: Sequence[str] = ()
    """Sentences below the picture."""
    has_data: bool = True
    """False if there is nothing to draw."""

    @property
    def svg(self) -> Markup:
        """Picture of WIDE pixels."""
        return self._picture(WIDE)

    @property
    def narrow(self) -> Markup:
        """Picture of NARROW pixels, for phones."""
        return self._picture(NARROW)

    def _picture(self, width: int) -> Markup:
        if not self.has_data:
            return empty_picture(width, title=self.title, description=self.description)
        height, elements = self.draw(width)
        return picture(width, height, *elements, title=self.title, description=self.description)

    @property
    def csv(self) -> str:
        """The table as CSV."""
        return render(self.rows, self.headers, format="csv")

    @property
    def texts(self) -> list[list[str]]:
        """The table with rounded numbers."""
        return [[cell_text(value) for value in row] for row in self.rows]

    @property
    def numeric(self) -> list[bool]:
        """True for each column of numbers, which is aligned right."""
        columns = ([row[j] for row in self.rows] for j in range(len(self.headers)))
        return [bool(cells) and all(not isinstance(cell, str) for cell in cells) for cells in columns]


def cell_text(value: Value) -> str:
    """Return a cell for people: three decimals, or three significant digits of small numbers.

    >>> cell_text(0.6617), cell_text(0.00123), cell_text(12), cell_text(None)
    ('0.662', '0.00123', '12', '–')
    """
    if value is None:
        return MISSING
    if isinstance(value, str):
        return as_line(value)
    if isinstance(value, int):
        return str(value)
    return f"{value:.3g}" if 0 < abs(value) < 0.1 else decimal(value) or MISSING


def headed(width: int, drawing: Drawing, *, title: str, description: str, note: str, warning: str = "") -> Markup:
    """Return a picture with title and note above, which needs no page around it. `warning`: a line above the title."""
    height, elements = drawing
    room = width - 2 * EDGE
    y, heading, small = 6.0, [], []
    for paint_name, text, size in (("other", warning, TITLE), ("ink", title, TITLE)):
        for words in wrapped(text, room, size * 1.08):
            y += size + 4
            heading.append(group(paint_name, [label(EDGE, y, words, size=size, bold=True)]))
    y += 4
    for words in wrapped(note, room, SMALL):
        y += SMALL + 3
        small.append(label(EDGE, y, words, size=SMALL))
    top = y + 12
    body = element("g", *elements, transform=f"translate(0 {top:.0f})")
    return picture(width, round(top) + height, *heading, group("soft", small), body, title=title,
                   description=description)  # fmt: skip

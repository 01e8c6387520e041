"""Tables of colored cells, each with its value or sign: models by benchmarks, and models by models.

A table with more columns than a page has room for continues below itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from medhelm.reports.charts.chart import COLUMN, EDGE, Drawing
from medhelm.reports.charts.svg import SMALL, element, group, label, rect, text_width, wrapped
from medhelm.reports.formats.tables import MISSING

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

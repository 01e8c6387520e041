"""Elements of charts: escaped SVG, layout, and pictures in other formats.

No element has a `style` attribute or an event handler, so the strictest content security policy allows them all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from typing import Literal, get_args

from markupsafe import Markup, escape

from medhelm.errors import MissingError
from medhelm.results.formats.tables import MISSING, Value, as_line, decimal, render

# --- SVG elements -----------------------------------------------------------------------------------------------------

FONT = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', Arial, sans-serif"
"""Fonts of the reader's system; nothing is downloaded."""

FONT_SIZE = 12.0
"""Pixels of most texts."""

SMALL = 11.0
"""Pixels of ticks and notes."""

WIDEST = 1.16
"""Width of DejaVu Sans, a system font of Linux, relative to Arial, which widths are estimated for."""

LONGEST = 320.0
"""Pixels of a name in a sentence."""

LONGEST_NAME = 44
"""Characters of a name in a figure; longer names are cut in the middle."""

NARROW_LETTERS, WIDE_LETTERS = frozenset("iljtfrI.,:;'|!()[] -/"), frozenset("mwMW@%&")
"""Letters that are narrower or wider than most."""

PAINT: Mapping[str, Mapping[str, str]] = {
    "ground": {"fill": "#ffffff"},
    "ink": {"fill": "#1b2328"},
    "soft": {"fill": "#55616a"},
    "grid": {"stroke": "#e2e5e2"},
    "axis": {"stroke": "#7d888f"},
    "rule": {"stroke": "#7a6a4f"},
    "mark": {"fill": "#0b5563"},
    "line": {"stroke": "#0b5563"},
    "other": {"fill": "#a1480c"},
    "other-line": {"stroke": "#a1480c"},
    "pale": {"fill": "#c9e0e3"},
    "pale-line": {"stroke": "#4d7f88"},
    "on-mark": {"fill": "#ffffff"},
    "band": {"fill": "#f1f2ef"},
}
"""Name of a paint -> its light color. `charts.css` has the class `c-NAME` with a light and a dark color for each."""

NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML does not allow, even escaped."""

Anchor = Literal["start", "middle", "end"]
"""Part of a text that is at its coordinates."""


def element(tag: str, *children: str, **attributes: str | float | None) -> Markup:
    """Return an SVG element; children of type str are escaped, Markup is inserted as it is.

    Parameters: attributes, with `_` for `-`, and a trailing `_` ignored; None leaves one out.
    Raises: ValueError for a number that is not finite, a style or an event handler.

    >>> element("text", "A < B", x=1.50, text_anchor="end", class_="c-ink")
    Markup('<text x="1.5" text-anchor="end" class="c-ink">A &lt; B</text>')
    """
    parts = [f"<{tag}"]
    for name, value in attributes.items():
        if value is not None:
            text = escape(_allowed(value)) if isinstance(value, str) else coordinate(value)
            parts.append(f' {_attribute(name)}="{text}"')
    if not children:
        return Markup("".join(parts) + "/>")  # noqa: S704 - the names come from the code, the values are escaped
    inside = "".join(child if isinstance(child, Markup) else escape(_allowed(child)) for child in children)
    return Markup(f"{''.join(parts)}>{inside}</{tag}>")  # noqa: S704 - as above


@lru_cache(maxsize=256)
def _attribute(name: str) -> str:
    """Return the name of an attribute in SVG."""
    name = name.rstrip("_").replace("_", "-")
    if name == "style" or name.startswith("on"):
        raise ValueError(f"attribute `{name}` is not allowed: the content security policy refuses it")
    return name


def _allowed(text: str) -> str:
    return NOT_XML.sub("\ufffd", text)


def coordinate(value: float) -> str:
    """Return a number of pixels with at most two decimals.

    >>> coordinate(12.0), coordinate(3.14159), coordinate(-0.001)
    ('12', '3.14', '0')
    """
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a coordinate")
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def paint(name: str) -> dict[str, str]:
    """Return class and presentation attributes of a paint; the class wins where the style sheet is loaded."""
    return {"class_": f"c-{name}", **PAINT[name]}


def hollow_paint() -> dict[str, str]:
    """Return class and presentation attributes of a hollow point."""
    return {"class_": "c-hollow", "fill": PAINT["ground"]["fill"], "stroke": PAINT["line"]["stroke"]}


def frame_paint() -> dict[str, str]:
    """Return class and presentation attributes of an outline."""
    return {"class_": "c-frame", "fill": "none", "stroke": PAINT["axis"]["stroke"]}


def box_paint() -> dict[str, str]:
    """Return class and presentation attributes of a pale box with an outline."""
    return {"class_": "c-box", "fill": PAINT["pale"]["fill"], "stroke": PAINT["pale-line"]["stroke"]}


def halo(children: Markup) -> Markup:
    """Return texts with an outline in the color of the ground, so that lines behind them do not cross letters."""
    outline = {"class_": "c-halo", "stroke": PAINT["ground"]["fill"]}
    return element("g", children, stroke_width=4, stroke_linejoin="round", paint_order="stroke", **outline)


def group(paint_name: str, children: Iterable[Markup], **attributes: str | float | None) -> Markup:
    """Return elements of one paint, or nothing if there are none."""
    inside = Markup("").join(children)
    return element("g", inside, **paint(paint_name), **attributes) if inside else Markup("")


def line(x1: float, y1: float, x2: float, y2: float, **attributes: str | float | None) -> Markup:
    """Return a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def rect(x: float, y: float, width: float, height: float, **attributes: str | float | None) -> Markup:
    """Return a rectangle; a negative size becomes 0."""
    return element("rect", x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), **attributes)


def circle(x: float, y: float, radius: float, **attributes: str | float | None) -> Markup:
    """Return a circle."""
    return element("circle", cx=x, cy=y, r=radius, **attributes)


def label(
    x: float, y: float, text: str, *, width: float | None = None, anchor: Anchor = "start", size: float | None = None,
    bold: bool = False,
) -> Markup:  # fmt: skip
    """Return a text on its baseline, shortened to `width` pixels with the full text as its tooltip."""
    shown = as_line(text)
    short = shown if width is None else fit(shown, width, (size or FONT_SIZE) * (1.08 if bold else 1.0))
    full = Markup("") if short == shown else element("title", shown)
    attributes: dict[str, str | float | None] = {
        "text_anchor": None if anchor == "start" else anchor,
        "font_size": size,
    }
    return element("text", full, short, x=x, y=y, font_weight="600" if bold else None, **attributes)


def text_width(text: str, size: float = FONT_SIZE) -> float:
    """Estimate the width of a text in pixels, for the widest of the usual system fonts."""
    letters = (
        0.34
        if c in NARROW_LETTERS
        else 0.88
        if c in WIDE_LETTERS
        else 1.0
        if ord(c) > 0x2E80
        else 0.7
        if c.isupper()
        else 0.57
        for c in text
    )
    return WIDEST * (size * sum(letters))


def wrapped(text: str, width: float, size: float = FONT_SIZE) -> list[str]:
    """Break a text into lines of at most `width` pixels, between words; a longer word has a line of its own."""
    lines: list[str] = []
    for word in as_line(text).split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def names(texts: Sequence[str], longest: int = LONGEST_NAME) -> list[str]:
    """Return names on one line, shortened to `longest` characters and still unique.

    >>> names(["a-model-of-a-very-long-name-2025-01-01", "short", "short"], 16)
    ['a-model…25-01-01', 'short', 'short (2)']
    """
    found: list[str] = []
    for text in texts:
        clean = " ".join(as_line(text).split()) or "(no name)"
        name, number = shorten(clean, longest), 2
        while name in found:
            name, number = f"{shorten(clean, longest - len(str(number)) - 3)} ({number})", number + 1
        found.append(name)
    return found


def shorten(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters, cut in the middle."""
    if len(text) <= longest:
        return text
    end = (longest - 1) // 2 + (longest - 1) % 2
    return f"{text[: (longest - 1) // 2]}…{text[-end:]}"


def short(name: str) -> str:
    """Return a name for sentences and titles: on one line, and cut in the middle if it is long."""
    return fit(as_line(name) or "(no name)", LONGEST)


def fit(text: str, width: float, size: float = FONT_SIZE) -> str:
    """Shorten a text in the middle until it is at most `width` pixels wide; both ends stay readable.

    >>> fit("a-model-of-a-very-long-name-2025-01-01", 120)
    'a-model-…5-01-01'
    """
    if text_width(text, size) <= width:
        return text
    low, high = 0, len(text)
    while low < high:  # the most characters kept
        middle = (low + high + 1) // 2
        low, high = (middle, high) if text_width(_cut(text, middle), size) <= width else (low, middle - 1)
    return _cut(text, low)


def _cut(text: str, kept: int) -> str:
    """Return the first and the last characters of a text, `kept` together."""
    end = kept // 2
    return f"{text[: kept - end]}…{text[len(text) - end :] if end else ''}"


def picture(width: float, height: float, *children: Markup, title: str, description: str) -> Markup:
    """Return an SVG image with a name and a description for screen readers; it needs no style sheet."""
    return element(
        "svg",
        element("title", as_line(title)),
        element("desc", as_line(description)),
        element("rect", width=width, height=height, **paint("ground")),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        class_="chart",
        viewBox=f"0 0 {coordinate(width)} {coordinate(height)}",
        width=width,
        height=height,
        font_family=FONT,
        font_size=FONT_SIZE,
    )


def empty_picture(width: int, *, title: str, description: str) -> Markup:
    """Return a frame with a sentence, for a chart without data."""
    frame = rect(0.5, 0.5, width - 1, 55, **frame_paint())
    words = group("soft", [label(width / 2, 32, description, width=width - 16, anchor="middle")])
    return picture(width, 56, frame, words, title=title, description=description)


# --- scales -----------------------------------------------------------------------------------------------------------
# Scales from numbers to pixels, and their ticks.

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
"""Distances of ticks, times a power of ten."""

LOG_STEPS = ((1, 2, 5), (1, 3), (1,))
"""Ticks within a power of ten, from many to few."""


@dataclass(frozen=True, slots=True)
class LinearScale:
    """A range of numbers on a range of pixels. Numbers outside are placed at the nearer end."""

    low: float
    """Number at `start`."""
    high: float
    """Number at `end`, above `low`."""
    start: float
    """Pixel of `low`."""
    end: float
    """Pixel of `high`; below `start` on an axis that rises."""

    def __call__(self, value: float) -> float:
        """Return the pixel of a number."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Return at most `most` round numbers within the range."""
        return linear_ticks(self.low, self.high, most)


@dataclass(frozen=True, slots=True)
class LogScale:
    """A range of positive numbers on a range of pixels, equal ratios equally far apart."""

    low: float
    """Number at `start`, above 0."""
    high: float
    """Number at `end`, above `low`."""
    start: float
    """Pixel of `low`."""
    end: float
    """Pixel of `high`."""

    def __call__(self, value: float) -> float:
        """Return the pixel of a positive number."""
        inside = min(max(value, self.low), self.high)
        share = math.log(inside / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 7, least: int = 2) -> list[float]:
        """Return round numbers within the range, at most `most` unless the range spans more powers of ten.

        Parameters: least, how many powers of ten and simple multiples must be in the range to be its ticks.
        """
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        found: list[float] = []
        for steps in LOG_STEPS:
            found = [step * 10.0**power for power in powers for step in steps]
            found = [tick for tick in found if self.low * (1 - 1e-9) <= tick <= self.high * (1 + 1e-9)]
            if len(found) <= most:
                break
        if len(found) >= least:
            return found[:: math.ceil(len(found) / most)]
        return [tick for tick in linear_ticks(self.low, self.high, 2 + least) if tick > 0]


def linear_ticks(low: float, high: float, most: int) -> list[float]:
    """Return at most `most` round numbers from low to high.

    >>> linear_ticks(0.13, 0.91, 6)
    [0.2, 0.4, 0.6, 0.8]
    """
    rough = (high - low) / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    for step in (step * power * larger for larger in (1, 10) for step in STEPS):
        first = math.ceil(low / step - 1e-9)
        found = [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]
        if len(found) <= most:
            break
    places = max(0, 1 - math.floor(math.log10(step)))
    return [round(tick, places) for tick in found]


def domain(
    values: Iterable[float | None], *, low: float | None = None, high: float | None = None
) -> tuple[float, float]:
    """Return a range with round ends that holds all known values, within the ends of the metric's scale.

    Parameters: low, high, ends of the metric's scale; None for no end. Identical values get a range around them.

    >>> domain([0.42, 0.61, None], low=0, high=1)
    (0.4, 0.65)
    """
    known = finite(values)
    if not known:
        start = 0.0 if low is None else low
        return start, max(1.0 if high is None else high, start + 1e-6)
    least, most = min(known), max(known)
    smallest = 0.1 if low is None or high is None else (high - low) / 10
    spread = max((most - least) * 1.08, smallest, 1e-6 * max(abs(least), abs(most)))
    middle = (least + most) / 2
    step = next(s for s in _steps(spread) if spread / s <= 8)
    start, end = math.floor((middle - spread / 2) / step) * step, math.ceil((middle + spread / 2) / step) * step
    start = start if low is None else max(start, min(low, least))
    end = end if high is None else min(end, max(high, most))
    return round(start, 9), round(end, 9) if end > start else start + smallest


def _steps(spread: float) -> Iterable[float]:
    """Yield round steps, from a tenth of the spread up."""
    first = math.floor(math.log10(spread)) - 1
    return (step * 10.0**power for power in count(first) for step in (1.0, 2.0, 5.0))


def finite(values: Iterable[float | None]) -> list[float]:
    """Return the values that are known and finite."""
    return [value for value in values if value is not None and math.isfinite(value)]


def known(value: float | None) -> float | None:
    """Return a value, or None for nan and infinity."""
    return None if value is None or not math.isfinite(value) else float(value)


def tick_text(value: float, ticks: Iterable[float]) -> str:
    """Return a tick with the decimals that all ticks of its axis need.

    >>> tick_text(0.5, [0.25, 0.5]), tick_text(-2.0, [-2.0, 0.0])
    ('0.50', '−2')
    """
    places = max((_decimals(tick) for tick in ticks), default=0)
    return f"{value:.{places}f}".replace("-", "−")


def _decimals(value: float) -> int:
    text = f"{value:.6f}".rstrip("0")
    return len(text.partition(".")[2])


def dollars(value: float) -> str:
    """Return an amount of US dollars: cents from 10 cents on, two significant digits below.

    >>> dollars(0.0042), dollars(0.5), dollars(3.0), dollars(12345.6)
    ('$0.0042', '$0.50', '$3', '$12,346')
    """
    if value >= 10 or value == round(value):
        return f"${value:,.0f}"
    if value >= 0.1:
        return f"${value:.2f}"
    places = min(1 - math.floor(math.log10(value)), 12)
    return f"${value:.{places}f}".rstrip("0")


# --- charts -----------------------------------------------------------------------------------------------------------
# A chart with its numbers: pictures for wide and narrow screens, a table and CSV.

BROAD, WIDE, NARROW = 960, 560, 276
"""Pixels of the pictures for a whole page, and for large and small screens; pages enlarge them and never shrink them,
so that no text has fewer than 11 pixels."""

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
    def broad(self) -> Markup:
        """Picture of BROAD pixels, over the whole width of a page."""
        return self._picture(BROAD)

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

    >>> cell_text(0.6617), cell_text(-0.00123), cell_text(12), cell_text(None)
    ('0.662', '−0.00123', '12', '–')
    """
    if value is None:
        return MISSING
    if isinstance(value, str):
        return as_line(value)
    if isinstance(value, int):
        return str(value)
    text = f"{value:.3g}" if 0 < abs(value) < 0.1 else decimal(value) or MISSING
    return text.replace("-", "−")


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


# --- PNG and PDF ------------------------------------------------------------------------------------------------------
# Pictures are converted in this process, without a browser and without the network.

Picture = Literal["svg", "png", "pdf"]
"""Format of a figure."""

PICTURES: tuple[Picture, ...] = get_args(Picture)
"""All formats."""

PNG_SCALE = 2
"""PNG pixels per pixel of the picture, for a sharp print at half the size."""

CONVERTER = "vl_convert"
"""Module of the extra `figures` that makes PNG and PDF; SVG needs none."""


def is_installed() -> bool:
    """Return whether PNG and PDF can be made here."""
    return find_spec(CONVERTER) is not None


def check_installed() -> None:
    """Raise MissingError if the package that makes PNG and PDF is not installed, or is broken."""
    try:
        import_module(CONVERTER)
    except ImportError as error:
        raise MissingError(
            "figures were not made as PNG and PDF: package missing: vl-convert-python. Install it, in a checkout with "
            "pip install '.[figures]'."
        ) from error


def render_picture(svg: str, formats: Collection[str]) -> dict[str, bytes]:
    """Return a picture in some of PICTURES: format -> content of the file. All but SVG needs `check_installed`."""
    found = {"svg": svg.encode()} if "svg" in formats else {}
    if "png" in formats:
        found["png"] = import_module(CONVERTER).svg_to_png(svg, scale=PNG_SCALE, ppi=72)
    if "pdf" in formats:
        found["pdf"] = import_module(CONVERTER).svg_to_pdf(svg)
    return found

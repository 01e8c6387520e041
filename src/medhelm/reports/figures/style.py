"""Style of all figures: fonts, colors that are safe for color blindness and gray printing, shortened names."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from medhelm.reports.formats.tables import SAMPLE_WARNING

if TYPE_CHECKING:
    import altair as alt

    from medhelm.analysis.leaderboard.types import Average

P = ParamSpec("P")
R = TypeVar("R")

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
"""The renderer has the first font; browsers have one of the same widths."""

INK = "#1a1a1a"
"""Text and axes."""
SOFT = "#595959"
"""Secondary text; contrast 7:1 on white."""
FAINT = "#d9d9d9"
"""Grid lines and empty cells."""
WARNING = "#b3401f"
"""Warning about sample rows."""

BLUE, ORANGE, GREEN, PINK = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
"""Color-blind safe colors of Okabe and Ito (2008); always combined with a shape."""

RAMP = (
    "#440154", "#482475", "#414487", "#355f8d", "#2a788e", "#21918c", "#22a884", "#44bf70", "#7ad151", "#bddf26",
    "#fde725",
)  # fmt: skip
"""Viridis in steps of 0.1, dark (0) to light (1): perceptually uniform, also for color blindness and in gray. Most
scores are in its upper half, where black text is readable."""

LONGEST_NAME = 44
"""Characters shown of a name; longer names are cut in the middle."""

NARROW, WIDE = frozenset("iljtfrI.,:;'|!()[] -/"), frozenset("mwMW@%&")
"""Letters that are narrower or wider than most."""


def shade(value: float) -> str:
    """Return the color of a value from 0 to 1, interpolated linearly in RGB between the steps of RAMP.

    >>> shade(0.0), shade(1.0)
    ('#440154', '#fde725')
    """
    place = min(max(value, 0.0), 1.0) * (len(RAMP) - 1)
    at = min(int(place), len(RAMP) - 2)
    ends = zip(_channels(RAMP[at]), _channels(RAMP[at + 1]), strict=True)
    return "#" + "".join(f"{round(low + (place - at) * (high - low)):02x}" for low, high in ends)


def ink_on(color: str) -> Literal["black", "white"]:
    """Return black or white, whichever contrasts more with `color`: at least 4.5:1 (WCAG 2.2, 1.4.3)."""
    return "black" if _luminance(color) > 0.179 else "white"


def _channels(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _luminance(color: str) -> float:
    """Return the relative luminance by WCAG, 0 (black) to 1 (white)."""
    shares = [channel / 255 for channel in _channels(color)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def names(texts: Sequence[str], longest: int = LONGEST_NAME) -> list[str]:
    """Shorten names and keep them unique; control and direction characters become spaces.

    >>> names(["a-model-of-a-very-long-name-2025-01-01", "short"], 16)
    ['a-model…25-01-01', 'short']
    """
    found: list[str] = []
    for text in texts:
        clean = " ".join("".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in text).split()) or "(no name)"
        short = shorten(clean, longest)
        number = 2
        while short in found:
            short = f"{shorten(clean, longest - len(str(number)) - 3)} ({number})"
            number += 1
        found.append(short)
    return found


def shorten(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters, cut in the middle."""
    if len(text) <= longest:
        return text
    end = (longest - 1) // 2 + (longest - 1) % 2
    return f"{text[: (longest - 1) // 2]}…{text[-end:]}"


def text_width(text: str, size: float) -> float:
    """Estimate the width of a text in a sans-serif font of `size` pixels, rather too wide than too narrow."""
    return size * sum(
        0.34 if c in NARROW else 0.88 if c in WIDE else 1.0 if ord(c) > 0x2E80 else 0.7 if c.isupper() else 0.57
        for c in text
    )


def ends(average: Average) -> tuple[float, float]:
    """Return the ends of an interval; the value itself if there is no interval."""
    low = average.value if average.low is None else average.low
    high = average.value if average.high is None else average.high
    return low, high


def title(text: str, notes: Sequence[str], *, sample: bool, width: float) -> alt.TitleParams:
    """Return a title with notes in lines of `width` pixels, and a warning if the rows are invented."""
    import altair as alt

    letters = max(int(width / 5.6), 40)
    lines = [line for note in notes for line in textwrap.wrap(note, letters)]
    heading = [SAMPLE_WARNING, text] if sample else text
    return alt.TitleParams(
        text=heading,
        subtitle=lines,
        anchor="start",
        frame="bounds",
        color=WARNING if sample else INK,
        subtitleColor=SOFT,
        offset=14,
    )


def names_above() -> alt.Axis:
    """Return an axis above a table of cells, with slanted names."""
    import altair as alt

    return alt.Axis(
        orient="top", labelAngle=-50, labelAlign="left", labelBaseline="middle", domain=False, ticks=False,
        labelPadding=6,
    )  # fmt: skip


def without_checks(figure: Callable[P, R]) -> Callable[P, R]:
    """Make a figure without checking each of its parts against the schema of Vega-Lite, which takes 40% of the time.

    Tests check whole figures against it.
    """

    @wraps(figure)
    def make(*args: P.args, **kwargs: P.kwargs) -> R:
        from altair.utils.schemapi import debug_mode

        with debug_mode(False):
            return figure(*args, **kwargs)

    return make


def finish(chart: Any) -> dict[str, Any]:
    """Return a chart as a specification with the common style."""
    axis = {
        "labelColor": INK, "titleColor": INK, "domainColor": SOFT, "tickColor": SOFT, "gridColor": "#e6e6e6",
        "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "labelLimit": 0, "titleLimit": 0,
    }  # fmt: skip
    config = {
        "font": FONT,
        "background": "white",
        "padding": 10,
        "view": {"stroke": None},
        "axis": axis,
        "header": {"labelFontSize": 11, "titleFontSize": 11, "labelColor": INK, "titleColor": INK, "labelLimit": 0},
        "legend": {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "labelLimit": 0,
                   "titleLimit": 0, "labelColor": INK, "titleColor": INK},
        "title": {"fontSize": 14, "subtitleFontSize": 11, "subtitlePadding": 4, "limit": 0},
    }  # fmt: skip
    spec: dict[str, Any] = chart.to_dict(validate=False)
    spec["config"] = config
    return spec

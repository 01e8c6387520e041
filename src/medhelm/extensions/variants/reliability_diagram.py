"""Reliability diagrams: the accuracy of the answers in each bin of confidence, one panel for each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from medhelm.analysis.confidence import ConfidenceCalibration
from medhelm.results.formats.drawing import (
    FONT_SIZE,
    LinearScale,
    circle,
    element,
    empty_picture,
    frame_paint,
    group,
    label,
    line,
    paint,
    picture,
    rect,
)

MOST_PANELS, PER_ROW = 12, 3
"""Panels in one picture, and beside each other."""

SIDE, LEFT, TOP, BOTTOM, RIGHT = 220, 46, 48, 44, 14
"""Pixels of a panel's square, and of the space around it."""

SMALL = FONT_SIZE - 1
"""Size of all texts but the name of the model."""

LARGEST = 9
"""Radius of the point of a bin with all answers, in pixels; areas are in proportion to answers."""

TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)

_TITLE = "Reliability diagram"


class ReliabilityPanel(NamedTuple):
    """The confidences of one run."""

    title: str
    """Name of the model."""
    subtitle: str
    """Benchmark and source of the confidences."""
    found: ConfidenceCalibration
    """Numbers with the curve to draw."""


def draw_reliability(panels: Sequence[ReliabilityPanel]) -> Markup:
    """Return an SVG picture of at most `MOST_PANELS` panels, in their order.

    Points on the diagonal are calibrated; below it, a model is surer than it is right. Whiskers are 95% intervals.
    """
    shown = panels[:MOST_PANELS]
    columns = min(PER_ROW, len(shown))
    panel_width, panel_height = LEFT + SIDE + RIGHT, TOP + SIDE + BOTTOM
    if not shown:
        return empty_picture(panel_width, title=_TITLE, description="No run has confidences.")
    drawn = [
        element("g", _drawn(one), transform=f"translate({(at % columns) * panel_width} {at // columns * panel_height})")
        for at, one in enumerate(shown)
    ]
    rows = -(-len(shown) // columns)
    return picture(
        columns * panel_width, rows * panel_height, *drawn, title=_TITLE, description="; ".join(map(_in_words, shown))
    )


def _in_words(panel: ReliabilityPanel) -> str:
    """Return a panel as text."""
    bins = ", ".join(f"{one.accuracy.value:.2f} right at {one.confidence:.2f}" for one in panel.found.curve)
    return f"{panel.title}, {panel.subtitle}: {bins}"


def _drawn(panel: ReliabilityPanel) -> Markup:
    """Return the panel of one run: titles, axes, diagonal, and a point with its interval for each bin."""
    x, y = LinearScale(0, 1, LEFT, LEFT + SIDE), LinearScale(0, 1, TOP + SIDE, TOP)
    titles = [
        label(LEFT, 18, panel.title, width=SIDE, bold=True),
        label(LEFT, 34, f"{panel.subtitle}, ECE {panel.found.ece.value:.3f}", width=SIDE, size=SMALL),
    ]
    grid = [line(x(tick), TOP, x(tick), TOP + SIDE) for tick in TICKS]
    grid += [line(LEFT, y(tick), LEFT + SIDE, y(tick)) for tick in TICKS]
    words = [label(x(tick), TOP + SIDE + 15, f"{tick:g}", anchor="middle", size=SMALL) for tick in TICKS]
    words += [label(LEFT - 5, y(tick) + 4, f"{tick:g}", anchor="end", size=SMALL) for tick in TICKS]
    words.append(label(LEFT + SIDE / 2, TOP + SIDE + 33, "confidence", anchor="middle", size=SMALL))
    turned = f"translate(12 {TOP + SIDE / 2:.0f}) rotate(-90)"
    words.append(element("text", "accuracy", transform=turned, text_anchor="middle", font_size=SMALL))
    whiskers = [line(x(one.confidence), y(one.accuracy.low), x(one.confidence), y(one.accuracy.high), stroke_width=1.5)
                for one in panel.found.curve]  # fmt: skip
    points = [
        circle(x(one.confidence), y(one.accuracy.value), max(2.5, LARGEST * (one.n / panel.found.n) ** 0.5))
        for one in panel.found.curve
    ]
    return Markup("").join(
        [
            group("grid", grid),
            rect(LEFT, TOP, SIDE, SIDE, **frame_paint()),
            group("line", [line(x(0), y(0), x(1), y(1), stroke_dasharray="4 4", stroke_width=1.2)]),
            group("axis", whiskers),
            element("g", *points, **paint("mark")),
            group("ink", titles),
            group("soft", words),
        ]
    )

"""Reliability diagrams: the accuracy of the answers in each bin of confidence, one panel for each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

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

if TYPE_CHECKING:
    from medhelm.extensions.variants.confidence_command import CalibratedRun

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


def draw_reliability(runs: Sequence[CalibratedRun]) -> Markup:
    """Return an SVG picture of at most `MOST_PANELS` runs, in their order.

    Points on the diagonal are calibrated; below it, a model is surer than it is right. Whiskers are 95% intervals.
    """
    shown = runs[:MOST_PANELS]
    columns = min(PER_ROW, len(shown))
    panel_width, panel_height = LEFT + SIDE + RIGHT, TOP + SIDE + BOTTOM
    if not shown:
        return empty_picture(panel_width, title=_TITLE, description="No run has confidences.")
    panels = [
        element("g", _panel(run), transform=f"translate({(at % columns) * panel_width} {at // columns * panel_height})")
        for at, run in enumerate(shown)
    ]
    rows = -(-len(shown) // columns)
    return picture(
        columns * panel_width, rows * panel_height, *panels, title=_TITLE, description="; ".join(map(_in_words, shown))
    )


def _in_words(run: CalibratedRun) -> str:
    """Return a panel as text."""
    bins = ", ".join(f"{one.accuracy.value:.2f} right at {one.confidence:.2f}" for one in run.found.curve)
    return f"{run.model} on {run.benchmark} ({run.source}): {bins}"


def _panel(run: CalibratedRun) -> Markup:
    """Return the panel of one run: titles, axes, diagonal, and a point with its interval for each bin."""
    x, y = LinearScale(0, 1, LEFT, LEFT + SIDE), LinearScale(0, 1, TOP + SIDE, TOP)
    titles = [
        label(LEFT, 18, run.model, width=SIDE, bold=True),
        label(LEFT, 34, f"{run.benchmark}, {run.source}, ECE {run.found.ece.value:.3f}", width=SIDE, size=SMALL),
    ]
    grid = [line(x(tick), TOP, x(tick), TOP + SIDE) for tick in TICKS]
    grid += [line(LEFT, y(tick), LEFT + SIDE, y(tick)) for tick in TICKS]
    words = [label(x(tick), TOP + SIDE + 15, f"{tick:g}", anchor="middle", size=SMALL) for tick in TICKS]
    words += [label(LEFT - 5, y(tick) + 4, f"{tick:g}", anchor="end", size=SMALL) for tick in TICKS]
    words.append(label(LEFT + SIDE / 2, TOP + SIDE + 33, "confidence", anchor="middle", size=SMALL))
    turned = f"translate(12 {TOP + SIDE / 2:.0f}) rotate(-90)"
    words.append(element("text", "accuracy", transform=turned, text_anchor="middle", font_size=SMALL))
    whiskers = [line(x(one.confidence), y(one.accuracy.low), x(one.confidence), y(one.accuracy.high), stroke_width=1.5)
                for one in run.found.curve]  # fmt: skip
    points = [
        circle(x(one.confidence), y(one.accuracy.value), max(2.5, LARGEST * (one.n / run.found.n) ** 0.5))
        for one in run.found.curve
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

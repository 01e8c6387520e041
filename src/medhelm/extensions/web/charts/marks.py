"""Small pictures in table cells: an interval, the ranks a model can have, a share.

The number is in the cell beside it, so that screen readers skip the picture.
"""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from medhelm.reports.charts.svg import (
    LinearScale,
    circle,
    coordinate,
    domain,
    element,
    frame_paint,
    hollow_paint,
    known,
    line,
    paint,
    rect,
)
from medhelm.reports.formats.tables import HasInterval

WIDTH, HEIGHT = 104, 16
"""Pixels of a mark."""

EDGE = 5
"""Pixels between the ends of the scale and of the picture, for the radius of a point."""


def column_scale(found: Iterable[HasInterval | None]) -> LinearScale:
    """Return the common scale of a column of numbers from 0 to 1, with room for all values and intervals."""
    values = [end for one in found if one is not None for end in (one.value, one.low, one.high)]
    return LinearScale(*domain(values, low=0.0, high=1.0), EDGE, WIDTH - EDGE)


def interval_mark(
    value: float | None, low: float | None, high: float | None, scale: LinearScale, *, hollow: bool
) -> Markup:
    """Return a point with its 95% interval; an empty scale without a value.

    `hollow`: for values that were not measured here, such as published ones.
    """
    value, low, high = known(value), known(low), known(high)
    middle = HEIGHT / 2
    parts = [line(scale.start, middle, scale.end, middle, **paint("grid"))]
    if value is not None:
        if low is not None and high is not None:
            parts.append(line(scale(low), middle, scale(high), middle, stroke_width=3, **paint("line")))
        if hollow:
            parts.append(circle(scale(value), middle, 3.5, stroke_width=2, **hollow_paint()))
        else:
            parts.append(circle(scale(value), middle, 4, **paint("mark")))
    return _mark(*parts)


def rank_mark(rank: int | None, low: int | None, high: int | None, n_models: int) -> Markup:
    """Return the ranks that a model can have as a bar on the ranks 1 to `n_models`, its own rank as a point."""
    scale = LinearScale(1, max(n_models, 2), EDGE, WIDTH - EDGE)
    middle = HEIGHT / 2
    parts = [line(scale.start, middle, scale.end, middle, **paint("grid"))]
    if rank is not None:
        first, last = (rank if low is None else low), (rank if high is None else high)
        left, right = scale(first) - 3, scale(last) + 3
        parts.append(rect(left, middle - 3, right - left, 6, rx=3, **paint("pale")))
        parts.append(circle(scale(rank), middle, 4, **paint("mark")))
    return _mark(*parts)


def coverage_bar(share: float | None) -> Markup:
    """Return a bar that is filled by a share, 0 to 1."""
    share = known(share)
    parts = [rect(0.5, 4.5, 47, 7, rx=1.5, **frame_paint())]
    if share is not None:
        parts.append(rect(1, 5, 46 * min(max(share, 0.0), 1.0), 6, **paint("mark")))
    return _mark(*parts, width=48)


def _mark(*parts: Markup, width: int = WIDTH) -> Markup:
    """Return a picture that screen readers skip and that cannot be focused."""
    box = f"0 0 {coordinate(width)} {coordinate(HEIGHT)}"
    return element(
        "svg", *parts, class_="chart-mark", viewBox=box, width=width, height=HEIGHT, aria_hidden="true",
        focusable="false",
    )  # fmt: skip

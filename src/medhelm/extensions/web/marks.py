"""Small pictures in tables and lists: an interval, a place among other models, scores, and a part of a long text.

The numbers are beside them as text, so that screen readers skip the pictures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from markupsafe import Markup

from medhelm.results.formats.drawing import (
    SMALL,
    LinearScale,
    box_paint,
    circle,
    coordinate,
    domain,
    element,
    group,
    hollow_paint,
    known,
    label,
    line,
    paint,
    rect,
    tick_text,
)
from medhelm.results.formats.tables import HasInterval

WIDTH, HEIGHT = 128, 16
"""Pixels of a mark."""

EDGE = 5
"""Pixels between the ends of the scale and of the picture, for the radius of a point."""

PROFILE = 44
"""Pixels of a place among other models."""


def column_scale(found: Iterable[HasInterval | None], low: float | None = 0.0, high: float | None = 1.0) -> LinearScale:
    """Return the common scale of a column of numbers, with room for all values and intervals.

    Parameters: low, high, ends of the metric's scale; None for no end.
    """
    values = [end for one in found if one is not None for end in (one.value, one.low, one.high)]
    return LinearScale(*domain(values, low=low, high=high), EDGE, WIDTH - EDGE)


def axis_mark(scale: LinearScale) -> Markup:
    """Return the ends of the scale of a column, for its heading."""
    ticks = (scale.low, scale.high)
    texts = [
        label(scale.start - EDGE, 11, tick_text(scale.low, ticks), size=SMALL),
        label(scale.end + EDGE, 11, tick_text(scale.high, ticks), size=SMALL, anchor="end"),
    ]
    ends = [line(end, 13, end, HEIGHT) for end in (scale.start, scale.end)]
    return _mark(group("soft", texts), group("axis", ends))


def interval_mark(
    value: float | None, low: float | None, high: float | None, scale: LinearScale, *, hollow: bool = False
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


def profile_mark(value: float | None, others: Iterable[float | None]) -> Markup:
    """Return a point between 0 and 1, and the range of the numbers of all models behind it."""
    scale, middle = LinearScale(0.0, 1.0, EDGE, PROFILE - EDGE), HEIGHT / 2
    parts = [line(scale.start, middle, scale.end, middle, **paint("grid"))]
    if (found := known(value)) is not None:
        ends = [one for one in (found, *others) if one is not None]
        left, right = scale(min(ends)), scale(max(ends))
        parts.append(rect(left - 3, middle - 3, right - left + 6, 6, rx=3, **paint("pale")))
        parts.append(circle(scale(found), middle, 3.5, **paint("mark")))
    return _mark(*parts, width=PROFILE)


OUTCOMES = 96
"""Pixels of a bar of better, equal and worse."""


def outcome_mark(better: float, equal: float, worse: float) -> Markup:
    """Return a bar of three parts: the shares of instances on which the first model is better, equal and worse."""
    total = better + equal + worse
    parts, start = [], 0.5
    looks = ({**paint("mark"), "stroke": "none"}, box_paint(), {**paint("other"), "stroke": "none"})
    for share, look in zip((better, equal, worse), looks, strict=True):
        width = (OUTCOMES - 1) * share / total if total else 0.0
        if width:
            parts.append(rect(start, 3.5, width, 9, **look))
        start += width
    return _mark(*parts, width=OUTCOMES)


BAR = 4
"""Pixels of a bar of a row of scores."""


def scores_mark(shares: Sequence[float | None]) -> Markup:
    """Return one bar for each model, from 0 (a line) to 1 (the whole height); no bar without a score."""
    return _scores_mark(tuple(shares))


@lru_cache(maxsize=2_000)
def _scores_mark(shares: Sequence[float | None]) -> Markup:
    """Return the same; each case is a neighbor of many others."""
    bottom = HEIGHT - 2
    bars = []
    for place, share in enumerate(shares):
        if (found := known(share)) is not None:
            top = coordinate(-1.5 - (bottom - 2.5) * min(1.0, max(0.0, found)))
            bars.append(f"M{place * (BAR + 1)} {bottom}v{top}h{BAR}V{bottom}z")
    width = max(1, len(shares) * (BAR + 1) - 1)
    path = element("path", d="".join(bars), **paint("mark"))
    return _mark(line(0, bottom + 1, width, bottom + 1, **paint("grid")), path, width=width)


def text_mark(shown: Iterable[tuple[float, float]], hits: Iterable[float], cuts: Iterable[float]) -> Markup:
    """Return a part of a long text: what is shown of it, the hits of a search, and where prompts were cut.

    Parameters: all as shares of the part, 0..1.
    """
    parts = [rect(WIDTH * start, 0, WIDTH * (end - start), HEIGHT, **paint("pale")) for start, end in shown]
    thin = {"vector_effect": "non-scaling-stroke"}
    ticks = [line(at, 3, at, HEIGHT - 3, **thin) for at in dict.fromkeys(round(WIDTH * hit) for hit in hits)]
    dashes = [line(WIDTH * cut, 0, WIDTH * cut, HEIGHT, stroke_dasharray="3 2", **thin) for cut in cuts]
    found = [*parts, group("line", ticks, stroke_width=2), group("other-line", dashes, stroke_width=2)]
    return _mark(*found, stretched=True)


def _mark(*parts: Markup, width: int = WIDTH, stretched: bool = False) -> Markup:
    """Return a picture that screen readers skip and that cannot be focused."""
    box = f"0 0 {coordinate(width)} {coordinate(HEIGHT)}"
    return element(
        "svg", *parts, class_="chart-mark", viewBox=box, width=width, height=HEIGHT, aria_hidden="true",
        focusable="false",
        preserveAspectRatio="none" if stretched else None,
    )  # fmt: skip

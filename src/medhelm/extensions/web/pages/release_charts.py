"""The models over the releases of a store: a slope chart of the number that ranks, with its table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from medhelm.domain.result import Release
from medhelm.domain.text import listed, plural
from medhelm.results.formats.drawing import (
    COMPACT,
    FONT_SIZE,
    SMALL,
    Chart,
    Drawing,
    LinearScale,
    circle,
    domain,
    element,
    fit,
    group,
    label,
    line,
    paint,
    short,
    text_width,
    tick_text,
)
from medhelm.results.formats.tables import MISSING, Value, decimal, number

MOST_MODELS = 30
"""Most models with a line; the table has all."""

ROW = 15.0
"""Least pixels between two labels."""

TOP, BOTTOM = 26.0, 14.0
"""Pixels above the plot, for the names of releases, and below it."""

HEADING = 72.0
"""Least pixels for the name of a release."""

CHANGED = 0.0005
"""Least difference of two values that are shown as different: three decimals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePoint:
    """One model in one release."""

    rank: int | None
    """Its rank; None for a baseline."""
    value: float
    """The number that ranks."""
    low: float | None
    """Lower end of its interval."""
    high: float | None
    """Upper end."""
    n_benchmarks: int | None
    """Benchmarks behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelHistory:
    """One model over all releases."""

    model: str
    """Its name."""
    points: Sequence[ReleasePoint | None]
    """One for each release; None where the model is not in it."""

    @property
    def last(self) -> ReleasePoint:
        """Return the latest known point."""
        return next(one for one in reversed(self.points) if one)

    @property
    def is_current(self) -> bool:
        """Return whether the model is in the latest release."""
        return self.points[-1] is not None

    @property
    def is_changed(self) -> bool:
        """Return whether its number changed from one release to the next."""
        return any(a and b and abs(a.value - b.value) > CHANGED for a, b in pairwise(self.points))


def is_comparable(release: Release, latest: Release) -> bool:
    """Return whether a release ranks by the same number as the latest one, on the same kind of data and scores."""
    keys = ("scoring", "tier", "ranked_by")
    return all(release.leaderboard.get(key) == latest.leaderboard.get(key) for key in keys)


def histories(releases: Sequence[Release]) -> list[ModelHistory]:
    """Return the ranked models of some releases, in the order of their last ranks; those that are gone come last."""
    boards = [{row["model"]: row for row in one.leaderboard["models"] if row["rank"] is not None} for one in releases]
    found = [
        ModelHistory(model=model, points=[_point(board[model]) if model in board else None for board in boards])
        for model in dict.fromkeys(model for board in boards for model in board)
    ]
    return sorted(found, key=lambda one: (not one.is_current, one.last.rank or 0, one.model))


def _point(row: Mapping[str, Any]) -> ReleasePoint | None:
    """Return the number that ranks a model, from the JSON of a leaderboard; None without one."""
    averages = [row.get(key) or {} for key in ("adjusted_average", "macro_average")]
    value = row.get("ranking_value", averages[1].get("value"))
    if value is None:
        return None
    own = next((one for one in averages if one.get("value") == value), {})
    return ReleasePoint(
        rank=row["rank"],
        value=value,
        low=own.get("low"),
        high=own.get("high"),
        n_benchmarks=row.get("n_benchmarks"),
    )


def trend_chart(releases: Sequence[Release]) -> Chart:
    """Return the chart of the models over releases, in the order of time."""
    found = [one for one in histories(releases) if any(one.points)]
    shown = found[:MOST_MODELS]
    names = [one.name for one in releases]
    measure = str(releases[-1].leaderboard.get("ranked_by") or "macro average") if releases else "macro average"
    rows: list[list[Value]] = [
        [release.name, release.created[:10], one.model, point.rank, number(point.value), number(point.low),
         number(point.high), point.n_benchmarks]
        for one in found
        for release, point in zip(releases, one.points, strict=True)
        if point
    ]  # fmt: skip
    notes = [f"{measure.capitalize()} from 0 (worst) to 1 (best), among the models and benchmarks of each release. "
             "Strong lines: models whose number changed."]  # fmt: skip
    counts = {len(one.leaderboard["benchmarks"]) for one in releases}
    if len(counts) > 1:
        notes.append("The releases have different benchmarks, so their numbers are not fully comparable.")
    if len(found) > len(shown):
        notes.append(f"The first {len(shown)} of {plural(len(found), 'model')}. The table has all.")
    return Chart(
        name="trend",
        title="Models over releases",
        description=_description(found, names),
        draw=partial(draw_trend, shown, names),
        headers=["release", "created", "model", "rank", measure.replace(" ", "_"), "low", "high", "n_benchmarks"],
        rows=rows,
        notes=notes,
        has_data=len(releases) > 1 and bool(found),
    )


def _description(found: Sequence[ModelHistory], names: Sequence[str]) -> str:
    """Return the main result in a sentence or two."""
    if len(names) < 2 or not found:
        return "A second release is needed to show a trend."
    moves = [
        (one.points[-1].value - first.value, one.model)
        for one in found
        if one.points[-1] and (first := next((point for point in one.points if point), None)) is not one.points[-1]
        if first
    ]
    changed = sorted((move for move in moves if abs(move[0]) > CHANGED), key=lambda move: -abs(move[0]))
    text = f"From {names[0]} to {names[-1]}: "
    if not changed:
        return f"{text}no number changed."
    words = [f"{short(model)} {'+' if change > 0 else '−'}{abs(change):.3f}" for change, model in changed[:3]]
    more = f", {len(changed) - 3} more" if len(changed) > 3 else ""
    return f"{text}{listed(words)}{more}."


# --- drawing ----------------------------------------------------------------------------------------------------------


def draw_trend(shown: Sequence[ModelHistory], names: Sequence[str], width: int) -> Drawing:
    """Draw a line for each model, with its rank, name and number at the end of the line."""
    height = TOP + max(180.0, ROW * len(shown)) + BOTTOM
    is_compact = width < COMPACT
    texts = [f"{one.last.rank} {one.model}" for one in shown]
    widest = max((text_width(text, FONT_SIZE * 1.08) for text in texts), default=0.0) + text_width(" 0.000", SMALL) + 24
    right = width - min(widest, width * (0.6 if is_compact else 0.42))
    left = 12.0 if is_compact else 56.0
    values = [point.value for one in shown for point in one.points if point]
    scale = LinearScale(*domain(values, low=0.0, high=1.0), height - BOTTOM, TOP + 6)
    across = [left + (right - left) * place / max(len(names) - 1, 1) for place in range(len(names))]
    lines = [_history(one, across, scale) for one in shown]
    places = spread([scale(one.last.value) for one in shown], ROW, (TOP + 8, height - BOTTOM + 4))
    labels = [
        _label(one, text, (across[-1], scale(one.last.value)), place, width)
        for one, text, place in zip(shown, texts, places, strict=True)
    ]
    return height, [_axes(names, across, scale, is_compact=is_compact), *lines, *labels]


def _axes(names: Sequence[str], across: Sequence[float], scale: LinearScale, *, is_compact: bool) -> Markup:
    """Return a line for each release with its name, as far as there is room, and the ticks of the numbers."""
    ticks = [] if is_compact else scale.ticks(5)
    texts = [label(across[0] - 10, scale(tick) + 4, tick_text(tick, ticks), anchor="end", size=SMALL) for tick in ticks]
    grid = [line(across[0], scale(tick), across[-1], scale(tick)) for tick in ticks]
    apart = (across[-1] - across[0]) / max(len(across) - 1, 1)
    step = max(1, math.ceil(HEADING / max(apart, 1.0)))
    named = [at for at in range(len(names)) if (len(names) - 1 - at) % step == 0]
    room = apart * step - 8 if len(named) > 1 else HEADING
    headings = [
        label(across[at], TOP - 10, names[at], width=room, anchor="start" if at == 0 else "middle", size=SMALL,
              bold=True)
        for at in named
    ]  # fmt: skip
    return (
        group("grid", grid)
        + group("axis", [line(x, TOP, x, scale.start) for x in across])
        + group("soft", texts)
        + group("ink", headings)
    )


def _history(one: ModelHistory, across: Sequence[float], scale: LinearScale) -> Markup:
    """Return the line and the points of a model; it is broken where the model is missing."""
    known = [(x, scale(point.value)) if point else None for x, point in zip(across, one.points, strict=True)]
    name = "line" if one.is_changed else "pale-line"
    parts = [line(*a, *b, stroke_width=2 if one.is_changed else 1.2) for a, b in pairwise(known) if a and b]
    radius = 3.5 if one.is_changed else 2.5
    dots = [circle(at[0], at[1], radius, **paint("mark")) for at in known if at]
    ranks = ", ".join(
        f"rank {point.rank} ({decimal(point.value)})" if point else MISSING for point in one.points
    )  # fmt: skip
    return element("g", element("title", f"{one.model}: {ranks}"), group(name, parts), *dots)


def _label(one: ModelHistory, text: str, at: tuple[float, float], place: float, width: int) -> Markup:
    """Return rank, name and number of a model beside its last point, joined to it where they had to move."""
    x, y = at
    joint = group("axis", [line(x + 5, y, x + 12, place - 4, stroke_width=0.8)]) if one.is_current else Markup("")
    value = decimal(one.last.value) if one.is_current else "gone"
    room = width - x - 18 - text_width(f" {value}", SMALL)
    words = label(x + 14, place, fit(text, room), bold=one.is_changed)
    numbers = label(width - 4, place, value or MISSING, anchor="end", size=SMALL)
    return joint + group("ink" if one.is_current else "soft", [words]) + group("soft", [numbers])


def spread(wanted: Sequence[float], apart: float, ends: tuple[float, float]) -> list[float]:
    """Return places as near as possible to those that are wanted, at least `apart` from each other, in the same order.

    >>> spread([10.0, 12.0, 40.0], 15.0, (0.0, 100.0))
    [10.0, 25.0, 40.0]
    """
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    places = [0.0] * len(wanted)
    lowest = ends[0]
    for at in order:
        places[at] = lowest = max(wanted[at], lowest)
        lowest += apart
    highest = ends[1]
    for at in reversed(order):
        places[at] = highest = min(places[at], highest)
        highest -= apart
    return places

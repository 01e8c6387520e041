"""Cost against performance: numbered models on a logarithmic axis of cost, joined by the efficient frontier.

A key gives the names, so that names of any length fit and none covers a point. A model whose cost is unknown is listed
in the key and never drawn at zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup

from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.domain.text import listed, plural
from medhelm.reports.charts.chart import COLUMN, COMPACT, EDGE, WIDE, Chart, Drawing
from medhelm.reports.charts.svg import (
    FONT_SIZE,
    SMALL,
    LinearScale,
    LogScale,
    box_paint,
    circle,
    dollars,
    domain,
    element,
    frame_paint,
    group,
    known,
    label,
    line,
    paint,
    rect,
    short,
    text_width,
    tick_text,
)
from medhelm.reports.formats.tables import Value, number
from medhelm.reports.leaderboard_fields import shown_name

HEADERS = ("no", "model", "usd_per_1000", "macro_average", "low", "high", "efficient", "probability", "note")
"""Columns of the table."""

KEY_ROW = 20
"""Pixels of a line of the key."""

FREE = 34
"""Pixels beside the logarithmic axis for models without a cost."""

LEFT = 60.0
"""Pixels for the ticks and the title of the vertical axis."""

RADIUS = 9
"""Pixels of a point, large enough for two digits."""

BESIDE = 600
"""Pixels of a picture from which on the key is beside the plot."""

ROUND_POINTS = "Round points are on the efficient frontier by point estimates: no model is at least as good for less."
"""Meaning of the two kinds of points."""

AROUND = sorted(((i, j) for i in range(-4, 5) for j in range(-4, 5)), key=lambda step: math.hypot(*step))
"""Steps from a place to those around it, nearest first."""

LEAST_APART = 13.0
"""Pixels between the middles of symbols, whose numbers stay readable."""

MOST_BESIDE = 18
"""Most models with the key beside the plot; more are listed below it in columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedPoint:
    """Cost and performance of one model."""

    model: str
    """Name, which can be any text."""
    value: float
    """Macro average or win rate, 0 to 1."""
    low: float | None = None
    """Lower end of its 95% interval; None if unknown."""
    high: float | None = None
    """Upper end of its 95% interval; None if unknown."""
    usd: float | None = None
    """Cost in US dollars; None if unknown, which is never shown as 0."""
    is_efficient: bool = False
    """True if it is on the frontier by the point estimates."""
    probability: float | None = None
    """Probability that it is on the frontier; None if unknown."""
    note: str = ""
    """Reason why it is not part of the frontier, such as `other benchmarks`; empty for none."""

    @property
    def cost(self) -> float | None:
        """Cost in US dollars; None if unknown or not finite."""
        return known(self.usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAxes:
    """The axes of the plot."""

    cost: str = "US dollars for 1,000 completions"
    """Title of the axis of cost."""
    performance: str = "Macro average"
    """Title of the other one."""
    least_ticks: int = 2
    """Powers of ten and simple multiples on the axis of cost, below which it has evenly spaced ticks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plot:
    """Positions in one picture of the chart."""

    y: LinearScale
    x: LogScale | None
    """Scale of costs above zero; None if there are none."""
    free: float | None
    """Horizontal place of models that cost nothing; None if there are none."""
    bottom: float

    def x_of(self, one: PricedPoint) -> float:
        """Return the horizontal place of a model with a known cost."""
        return self.x(one.cost) if one.cost and self.x else self.free or 0.0


def cost_points(board: Leaderboard) -> list[PricedPoint]:
    """Return the models of a leaderboard by cost, cheapest first, then those without a known cost."""
    found = []
    for row in board.rows:
        average = row.adjusted_average
        if average is None:
            continue
        on_frontier = board.frontier.by_model.get(row.model) if board.frontier else None
        priced = row.usd_per_1000 is not None
        found.append(
            PricedPoint(
                model=shown_name(row), value=average.value, low=average.low, high=average.high,
                usd=row.usd_per_1000,
                is_efficient=on_frontier.is_efficient if on_frontier else False,
                probability=on_frontier.probability if on_frontier else None,
                note="other benchmarks" if priced and board.frontier and not on_frontier else "",
            )
        )  # fmt: skip
    return in_order(found)


def in_order(points: Sequence[PricedPoint]) -> list[PricedPoint]:
    """Return the points with a known value in the order of their numbers: by cost, then those of unknown cost."""
    return sorted((one for one in points if known(one.value) is not None), key=_sort_key)


def _sort_key(one: PricedPoint) -> tuple[bool, float, float, str]:
    return one.cost is None, one.cost or 0.0, -one.value, one.model


def cost_chart(points: Sequence[PricedPoint]) -> Chart:
    """Return macro averages against the cost of 1,000 completions. Points with an unknown average are left out."""
    shown = in_order(points)
    table: list[list[Value]] = [
        [
            place, one.model, number(one.usd), number(one.value), number(one.low), number(one.high),
            "yes" if one.is_efficient else "no", number(one.probability), _note(one),
        ]
        for place, one in enumerate(shown, start=1)
    ]  # fmt: skip
    notes = [f"Cost of 1,000 completions without judges, on a logarithmic axis; bars are 95% intervals. {ROUND_POINTS}"]
    if any(one.probability is not None for one in shown):
        notes.append("Percentages in the key are the probability of being on the frontier.")
    return Chart(
        name="cost", title="Cost and performance", description=_description(shown),
        draw=partial(draw_cost, shown, CostAxes()), headers=HEADERS, rows=table, notes=notes if shown else [],
        has_data=bool(shown),
    )  # fmt: skip


def _note(one: PricedPoint) -> str:
    """Return why a model is not on the plot or the frontier."""
    return "cost unknown" if one.cost is None else one.note


def _description(points: Sequence[PricedPoint]) -> str:
    """Return the frontier in one or two sentences."""
    if not points:
        return "No model has a macro average."
    priced = [one for one in points if one.cost is not None]
    unknown = len(points) - len(priced)
    rest = f" The cost of {plural(unknown, 'model')} is unknown." if unknown else ""
    if not priced:
        return "The cost of every model is unknown."
    best = [short(one.model) for one in priced if one.is_efficient]
    if not best:
        return f"{plural(len(priced), 'model')} by cost and macro average.{rest}"
    return f"On the efficient frontier, cheapest first: {listed(best, 5)}.{rest}"


def percent(probability: float) -> str:
    """Return a probability in whole percent, never rounded to certainty.

    >>> percent(0.998), percent(0.631), percent(1.0)
    ('>99%', '63%', '100%')
    """
    if 0 < probability < 0.01:
        return "<1%"
    return ">99%" if 0.99 < probability < 1 else f"{probability:.0%}"


def draw_cost(points: Sequence[PricedPoint], axes: CostAxes, width: int) -> Drawing:
    """Draw the plot of one or more models `in_order`, with the key beside or below it."""
    is_beside = width >= BESIDE and len(points) <= MOST_BESIDE
    room = width * 0.36 if is_beside else 0.0
    plot = _plot_area(points, width - room, 300.0 if width < COMPACT else 380.0)
    body = [_axes(plot, axes, width - room), _frontier(plot, points)] if plot else []
    if plot:
        drawn = [(place, one) for place, one in enumerate(points, start=1) if one.cost is not None]
        drawn.sort(key=lambda pair: (pair[1].is_efficient, pair[1].value))  # efficient models cover the others
        body += [_whisker(plot, one) for _, one in drawn]
        body += _symbols(plot, drawn, width - room)
    below = plot.bottom + 52 if plot else 8.0
    x, top = (width - room + 12, 16.0) if is_beside else (8.0, below)
    n_columns = 2 if not is_beside and _has_two_columns(points, width) else 1
    key, bottom = _key(points, x, top, width - 8, n_columns)
    return max(bottom, plot.bottom + 44 if plot else 0.0) + 4, [*body, key]


def full_width(points: Sequence[PricedPoint]) -> int:
    """Return the pixels of a picture with all names in full: for one column of a page, or for its width."""
    if len(points) <= MOST_BESIDE:
        return max(COLUMN, _key_width(points) + 2 * EDGE)
    return max(WIDE, 2 * _key_width(points) + 2 * EDGE)


def _key_width(points: Sequence[PricedPoint]) -> int:
    """Return the pixels of a column of the key with all names in full."""
    return math.ceil(42 + max(text_width(one.model) + text_width(_key_note(one), SMALL) for one in points))


def _has_two_columns(points: Sequence[PricedPoint], width: int) -> bool:
    """Tell whether a key below the plot has two columns."""
    is_wide = width >= BESIDE or (width >= COMPACT and 2 * (_key_width(points) + EDGE) <= width)
    return is_wide and len(points) > 5


def _plot_area(points: Sequence[PricedPoint], width: float, height: float) -> _Plot | None:
    """Return the positions of the plot; None if no cost is known."""
    priced = [one for one in points if one.cost is not None]
    if not priced:
        return None
    ends = [end for one in priced for end in (one.value, one.low, one.high)]
    bottom = height - 48
    y = LinearScale(*domain(ends, low=0.0, high=1.0), bottom - 6, 16.0)
    left = LEFT
    has_free = any(one.usd == 0 for one in priced)
    costs = [one.usd for one in priced if one.usd]
    start = left + (FREE if has_free else 0) + 14
    if not costs:
        return _Plot(y=y, x=None, free=(left + width) / 2, bottom=bottom)
    margin = max((max(costs) / min(costs)) ** 0.04, 1.3)
    x = LogScale(min(costs) / margin, max(costs) * margin, start, width - 16)
    return _Plot(y=y, x=x, free=left + FREE / 2 if has_free else None, bottom=bottom)


def _axes(plot: _Plot, axes: CostAxes, width: float) -> Markup:
    """Return grid, ticks and titles of both axes, and the column of models without a cost."""
    y, bottom, left = plot.y, plot.bottom, LEFT
    ticks = y.ticks(6)
    grid = [line(left, y(tick), width - 8, y(tick)) for tick in ticks]
    texts = [label(left - 6, y(tick) + 4, tick_text(tick, ticks), anchor="end", size=SMALL) for tick in ticks]
    if plot.x is not None:
        costs = plot.x.ticks(4 if width < COMPACT else 6, axes.least_ticks)
        grid += [line(plot.x(cost), 10, plot.x(cost), bottom) for cost in costs]
        texts += [label(plot.x(cost), bottom + 16, dollars(cost), anchor="middle", size=SMALL) for cost in costs]
    band = Markup("")
    if plot.free is not None:
        texts.append(label(plot.free, bottom + 16, "$0", anchor="middle", size=SMALL))
        band = rect(plot.free - FREE / 2, 10, FREE, bottom - 10, **paint("band"))
    axis = [line(left, bottom, width - 8, bottom)]
    middle = (left + width) / 2
    texts.append(label(middle, bottom + 36, axes.cost, anchor="middle", size=SMALL))
    at = (10 + bottom) / 2
    turned = element("text", axes.performance, transform=f"translate(13 {at:.0f}) rotate(-90)", text_anchor="middle",
                     font_size=SMALL)  # fmt: skip
    return band + group("grid", grid) + group("axis", axis) + group("soft", [*texts, turned])


def _frontier(plot: _Plot, points: Sequence[PricedPoint]) -> Markup:
    """Return the frontier as steps: from a model on, a higher cost buys nothing until the next one."""
    best = [one for one in points if one.is_efficient and one.cost is not None]
    if len(best) < 2:
        return Markup("")
    places = [(plot.x_of(one), plot.y(one.value)) for one in best]
    path = f"M{places[0][0]:.2f} {places[0][1]:.2f}" + "".join(f"H{x:.2f}V{y:.2f}" for x, y in places[1:])
    return group("line", [element("path", d=path, fill="none", stroke_dasharray="5 4", stroke_width=1.5)])


def _whisker(plot: _Plot, one: PricedPoint) -> Markup:
    """Return the interval of one model."""
    low, high = known(one.low), known(one.high)
    if low is None or high is None:
        return Markup("")
    x = plot.x_of(one)
    return group("axis", [line(x, plot.y(low), x, plot.y(high), stroke_width=1.5)])


def _symbols(plot: _Plot, drawn: Sequence[tuple[int, PricedPoint]], width: float) -> list[Markup]:
    """Return the symbols of models, the last ones at their places; one that would be covered is beside its dot."""
    taken: list[tuple[float, float]] = []
    parts: list[Markup] = []
    for place, one in reversed(drawn):
        at = plot.x_of(one), plot.y(one.value)
        x, y = _free_place(at, taken, (LEFT + RADIUS, width - 8 - RADIUS), (10 + RADIUS, plot.bottom - RADIUS))
        taken.append((x, y))
        parts.append(symbol(x, y, place, one))
        if (x, y) != at:
            parts.append(
                group("axis", [line(*at, x, y, stroke_width=1.2)]) + circle(at[0], at[1], 2.5, **paint("mark"))
            )
    return parts[::-1]


def _free_place(
    at: tuple[float, float], taken: Sequence[tuple[float, float]], across: tuple[float, float],
    down: tuple[float, float],
) -> tuple[float, float]:  # fmt: skip
    """Return the place nearest to `at` where a symbol covers no other one; `at` itself if there is none."""
    for i, j in AROUND:
        x, y = at[0] + i * (2 * RADIUS + 1), at[1] + j * (2 * RADIUS + 1)
        is_inside = (x, y) == at or (across[0] <= x <= across[1] and down[0] <= y <= down[1])
        if is_inside and all(abs(x - a) >= LEAST_APART or abs(y - b) >= LEAST_APART for a, b in taken):
            return x, y
    return at


def symbol(x: float, y: float, place: int, one: PricedPoint) -> Markup:
    """Return the numbered symbol of a model: a disk on the frontier, else a square; dashed if its cost is unknown."""
    size = SMALL - 1 if place < 100 else SMALL - 3
    words = element("text", str(place), x=x, y=y + 3.6, text_anchor="middle", font_size=size, font_weight="600")
    full = element("title", one.model)
    if one.cost is None:
        shape = rect(x - 8, y - 8, 16, 16, rx=3, stroke_dasharray="3 2", **frame_paint())
        return element("g", full, shape, group("ink", [words]))
    if one.is_efficient:
        return element("g", full, circle(x, y, RADIUS, **paint("mark")), group("on-mark", [words]))
    shape = rect(x - 8, y - 8, 16, 16, rx=2, stroke_width=1.2, **box_paint())
    return element("g", full, shape, group("ink", [words]))


def _key_note(one: PricedPoint) -> str:
    """Return what the key says after a name."""
    return _note(one) or ("" if one.probability is None else percent(one.probability))


def _key(points: Sequence[PricedPoint], x: float, top: float, right: float, n_columns: int) -> tuple[Markup, float]:
    """Return the names of the models beside their symbols, and the bottom of the last line."""
    per_column = -(-len(points) // n_columns)
    column_width = (right - x) / n_columns
    parts, names = [], []
    for index, one in enumerate(points):
        column, at = divmod(index, per_column)
        left, y = x + column * column_width, top + at * KEY_ROW + 6
        note = _key_note(one)
        room = column_width - 32 - (text_width(note, SMALL) + 10 if note else 0)
        parts.append(symbol(left + 9, y, index + 1, one))
        names.append(label(left + 24, y + 4, one.model, width=room, size=FONT_SIZE))
        if note:
            parts.append(group("soft", [label(left + column_width - 6, y + 4, note, anchor="end", size=SMALL)]))
    return Markup("").join(parts) + group("ink", names), top + per_column * KEY_ROW

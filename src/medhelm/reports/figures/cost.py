"""Figure 5: the average that ranks against cost, with the efficient frontier.

Models are numbered; a key beside the plot gives their names. So names of any length fit, and none covers a point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medhelm.analysis.cost.frontier import CostPoint, efficient_frontier
from medhelm.reports.figures import style
from medhelm.reports.formats.tables import number

if TYPE_CHECKING:
    from medhelm.analysis.leaderboard.types import Average

BEST, BEATEN = "efficient, by point estimates", "another model is at least as good and costs no more"
"""Kinds of models in the legend."""

OFF_AXIS = "no cost, or cost unknown"
"""Kind of models without a place on the logarithmic axis."""

WIDTH, HEIGHT = 560, 420
"""Pixels of the plot; it is higher for many models."""

LINE_H = 18
"""Pixels of a line of the key."""

FONT_SIZE = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedModel:
    """Average and cost of one model."""

    model: str
    """Name of the model."""
    average: Average
    """The average that ranks, with its interval."""
    cost_usd: float | None
    """Total cost; None if unknown, which is never shown as 0."""
    seconds: float | None = None
    """Median seconds of a completion; None if unknown."""
    tokens: float | None = None
    """Mean input and output tokens of a completion; None if unknown."""
    frontier_probability: float | None = None
    """Probability of being on the efficient frontier by macro average; None if unknown."""


@style.without_checks
def average_by_cost(
    models: Sequence[PricedModel],
    *,
    heading: str,
    notes: Sequence[str],
    sample: bool,
    axis: str = "Cost in US dollars",
    measure: str = "Win rate",
) -> dict[str, Any]:
    """Return a plot of averages with error bars over logarithmic costs; a step line joins the efficient models.

    Models with a cost of zero, or an unknown cost, are shown beside the plot at their average. `measure`: its name.
    Raises: ValueError if no model has a known cost above 0.
    """
    import altair as alt

    values = _values(models)
    inside = [value for value in values if value["kind"] != OFF_AXIS]
    beside = [value for value in values if value["kind"] == OFF_AXIS]
    if not inside:
        raise ValueError("no model has a known cost above 0")
    height = max(HEIGHT, LINE_H * len(values))
    lows, highs = [value["low"] for value in values], [value["high"] for value in values]
    domain = [max(0.0, math.floor((min(lows) - 0.02) * 10) / 10), min(1.0, math.ceil((max(highs) + 0.02) * 10) / 10)]

    digits = ".1f" if domain[1] - domain[0] > 0.45 else ".2f"  # ticks of a narrow range are 0.05 apart

    def y(field: str) -> Any:
        scale = alt.Scale(domain=domain, nice=False, zero=False)
        return alt.Y(field, title=measure, scale=scale, axis=alt.Axis(format=digits, tickCount=6))

    charts = [_plot(inside, y, axis, height)]
    if beside:
        x = alt.X("number:O", title=["no cost, or", "cost unknown"], axis=alt.Axis(labels=False, ticks=False))
        charts.append(_points(beside, x, y).properties(width=alt.Step(24), height=height))
    charts.append(_key(values, height))
    chart = alt.hconcat(*charts, spacing=14).resolve_scale(y="independent")
    title = style.title(heading, notes, sample=sample, width=WIDTH + 60)
    return style.finish(chart.properties(title=title))


def _values(models: Sequence[PricedModel]) -> list[dict[str, Any]]:
    """Return the data of the figure, one row per model in the given order."""
    names = style.names([one.model for one in models])
    # Models of unknown cost cannot be efficient. A cost of 0 is off the logarithmic axis, but counts as efficient.
    known = [CostPoint(name, one.cost_usd, one.average.value) for name, one in zip(names, models, strict=True)]
    best = {point.name for point in efficient_frontier(known)}
    values = []
    for place, (name, one) in enumerate(zip(names, models, strict=True), start=1):
        low, high = style.ends(one.average)
        rates = {"value": round(one.average.value, 6), "low": round(low, 6), "high": round(high, 6)}
        if one.cost_usd:
            row = {"cost_usd": one.cost_usd, "kind": BEST if name in best else BEATEN}
        else:
            row = {"kind": OFF_AXIS}
        values.append({"number": place, "model": name, **rates, **row, "key": _key_label(name, one), **_use(one)})
    return values


def _key_label(name: str, one: PricedModel) -> str:
    """Return the name of a model in the key, with its probability of being efficient."""
    parts = [] if one.cost_usd else ["no cost" if one.cost_usd == 0 else "cost unknown"]
    if one.frontier_probability is not None:
        parts.append(percent(one.frontier_probability))
    return f"{name} ({', '.join(parts)})" if parts else name


def percent(probability: float) -> str:
    """Return a probability in whole percent, never rounded to certainty.

    >>> percent(0.998), percent(0.631), percent(1.0)
    ('>99%', '63%', '100%')
    """
    if 0 < probability < 0.01:
        return "<1%"
    return ">99%" if 0.99 < probability < 1 else f"{probability:.0%}"


def _use(one: PricedModel) -> dict[str, float | None]:
    """Return what the figure does not draw but its data hold."""
    return {
        "seconds_per_completion": number(one.seconds),
        "tokens_per_completion": number(one.tokens),
        "frontier_probability": number(one.frontier_probability),
    }


def _plot(values: Sequence[dict[str, Any]], y: Any, axis: str, height: int) -> Any:
    """Return points, error bars and frontier."""
    import altair as alt

    costs = [value["cost_usd"] for value in values]
    low, high = min(costs), max(costs)
    margin = max((high / low) ** 0.08, 1.2)
    # Within few powers of ten the axis would have hardly any ticks of its own.
    few = {float(f"{low * (high / low) ** (step / 5):.2g}") for step in range(6)}
    ticks = alt.Undefined if high / low > 30 else sorted(few)
    scale = alt.Scale(type="log", domain=[low / margin, high * margin], nice=False)
    x = alt.X("cost_usd:Q", title=axis, scale=scale, axis=alt.Axis(values=ticks, format="$,~f", grid=False))
    frontier = sorted((value for value in values if value["kind"] == BEST), key=lambda value: value["cost_usd"])
    steps = [{"cost_usd": value["cost_usd"], "value": value["value"]} for value in frontier]
    line = alt.Chart(alt.InlineData(values=steps)).mark_line(
        interpolate="step-after", strokeDash=[5, 4], strokeWidth=1.4, color=style.SOFT
    )
    return alt.layer(line.encode(x=x, y=y("value:Q")), _points(values, x, y)).properties(width=WIDTH, height=height)


def _points(values: Sequence[dict[str, Any]], x: Any, y: Any) -> Any:
    """Return numbered points with error bars."""
    import altair as alt

    base = alt.Chart(alt.InlineData(values=list(values))).encode(x=x)
    bars = base.mark_rule(strokeWidth=1.2, color="#8c8c8c").encode(y=y("low:Q"), y2=alt.Y2("high:Q"))
    return alt.layer(bars, *_symbols(base.encode(y=y("value:Q"))))


def _symbols(base: Any) -> list[Any]:
    """Return the symbol of each model, with its number inside."""
    import altair as alt

    kinds, colors = [BEST, BEATEN, OFF_AXIS], [style.BLUE, style.ORANGE, style.SOFT]
    legend = alt.Legend(title=None, orient="bottom", direction="vertical", symbolSize=120, values=[BEST, BEATEN])
    color = alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=colors), legend=legend)
    shape = alt.Shape("kind:N", scale=alt.Scale(domain=kinds, range=["circle", "square", "diamond"]), legend=legend)
    points = base.mark_point(size=260, filled=True, opacity=1, stroke="white", strokeWidth=1)
    numbers = base.mark_text(fontSize=10, fontWeight="bold", color="white")
    return [points.encode(color=color, shape=shape), numbers.encode(text=alt.Text("number:N"))]


def _key(values: Sequence[dict[str, Any]], height: int) -> Any:
    """Return the names of the models beside their symbols."""
    import altair as alt

    scale = alt.Scale(domain=[height / LINE_H + 0.5, 0.5], nice=False, zero=False)
    y = alt.Y("number:Q", scale=scale, axis=None)
    base = alt.Chart(alt.InlineData(values=list(values))).encode(y=y)
    channel: Any = alt.XValue  # named, because Altair finds that of a bare value by trying its whole schema
    names = base.mark_text(align="left", fontSize=FONT_SIZE, color=style.INK).encode(
        x=channel(24), text=alt.Text("key:N")
    )
    width = 30 + max(style.text_width(value["key"], FONT_SIZE) for value in values)
    return alt.layer(*_symbols(base.encode(x=channel(10))), names).properties(width=width, height=height)

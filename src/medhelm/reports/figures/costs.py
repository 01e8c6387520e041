"""Figure 5: win rate against cost, with the efficient frontier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medhelm.analysis.cost.prices import CostPoint, efficient_frontier
from medhelm.reports.figures import style
from medhelm.reports.figures.placing import text_width
from medhelm.reports.figures.sheet import FONT_SIZE, PlotArea, PlotPoint, interval_of, sheet_for, spread

if TYPE_CHECKING:
    from medhelm.analysis.leaderboard.types import Average

BEST, BEATEN = "efficient", "another is at least as good and costs no more"
"""What the price of a model buys."""

BAR = "#8c8c8c"
"""Error bars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedModel:
    """One model: how often it wins, and what that costs."""

    model: str
    """Its name."""
    win_rate: Average
    """With its interval."""
    cost_usd: float | None
    """In all; None if it is not known, which is never shown as 0."""


def win_rate_by_cost(
    models: Sequence[PricedModel], *, heading: str, notes: Sequence[str], sample: bool, axis: str = "Cost in US dollars"
) -> dict[str, Any]:
    """Points with error bars over a logarithmic axis of cost; the step line joins the models worth their price.

    Models that cost nothing, or whose cost is not known, stand beside, at their win rate. Returns a specification.
    Raises: ValueError if no model has a place on the axis.
    """
    import altair as alt

    names = style.names([one.model for one in models])
    # A price that is not known says nothing; one of nothing cannot stand on the axis, but beats others.
    known = [CostPoint(name, one.cost_usd, one.win_rate.value) for name, one in zip(names, models, strict=True)]
    best = {point.name for point in efficient_frontier(known)}
    inside = [
        PlotPoint(name, one.cost_usd, one.win_rate.value, *interval_of(one.win_rate))
        for name, one in zip(names, models, strict=True)
        if one.cost_usd is not None and one.cost_usd > 0
    ]
    if not inside:
        raise ValueError("no model has a known cost above 0")
    placed = {spot.name for spot in inside}
    beside = [(name, one) for name, one in zip(names, models, strict=True) if name not in placed]
    sheet = sheet_for([one.win_rate for one in models], [spot.cost_usd for spot in inside])
    chart = _plot(inside, best, sheet, axis)
    if beside:
        chart = alt.hconcat(chart, _strip(beside, sheet), spacing=14).resolve_scale(y="shared")
    title = style.title(heading, notes, sample=sample, width=sheet.width + 60)
    return style.finish(chart.properties(title=title))


def _plot(spots: Sequence[PlotPoint], best: set[str], sheet: PlotArea, axis: str) -> Any:
    """Points, bars, frontier and names."""
    import altair as alt

    frontier = sorted((spot for spot in spots if spot.name in best), key=lambda spot: spot.cost_usd)
    labels = sheet.names(spots, frontier)
    values = [
        {
            "model": spot.name,
            "cost_usd": spot.cost_usd,
            **_rounded(spot.value, spot.low, spot.high),
            "kind": BEST if spot.name in best else BEATEN,
            "label_x": sheet.dollars(label.x),
            "label_y": sheet.win_rate(label.y),
        }
        for spot, label in zip(spots, labels, strict=True)
    ]
    leaders = [join for pair in zip(spots, labels, strict=True) if (join := sheet.leader(*pair))]
    steps = [{"cost_usd": spot.cost_usd, "win_rate": round(spot.value, 6)} for spot in frontier]

    def x(field: str) -> Any:
        scale = alt.Scale(type="log", domain=[sheet.cheap, sheet.dear], nice=False)
        return alt.X(field, title=axis, scale=scale, axis=alt.Axis(values=sheet.ticks, format="$,~f", grid=False))

    def y(field: str) -> Any:
        scale = alt.Scale(domain=[sheet.low, sheet.high], nice=False, zero=False)
        return alt.Y(field, title="Win rate", scale=scale, axis=alt.Axis(format=".1f", tickCount=6))

    at = {"x": x("cost_usd:Q"), "y": y("win_rate:Q")}
    base, line = alt.Chart(alt.InlineData(values=values)), alt.Chart(alt.InlineData(values=steps))
    joined = alt.Chart(alt.InlineData(values=leaders)).mark_rule(color=style.SOFT, strokeWidth=0.6)
    layers = [
        line.mark_line(interpolate="step-after", strokeDash=[5, 4], strokeWidth=1.4, color=style.SOFT).encode(**at),
        base.mark_rule(strokeWidth=1.2, color=BAR).encode(x=at["x"], y=y("low:Q"), y2="high:Q"),
        joined.encode(x=x("x:Q"), x2="x2:Q", y=y("y:Q"), y2="y2:Q"),
        base.mark_point(size=85, filled=True, opacity=1, stroke="white", strokeWidth=1).encode(**at, **_kinds()),
        base.mark_text(fontSize=FONT_SIZE, color=style.INK).encode(
            x=x("label_x:Q"), y=y("label_y:Q"), text="model:N"
        ),
    ]  # fmt: skip
    return alt.layer(*layers).properties(width=sheet.width, height=sheet.height)


def _rounded(value: float, low: float, high: float) -> dict[str, float]:
    """A win rate with its interval, as data of a figure."""
    return {"win_rate": round(value, 6), "low": round(low, 6), "high": round(high, 6)}


def _kinds() -> dict[str, Any]:
    """Colour and shape by whether a model is worth its price."""
    import altair as alt

    kinds = [BEST, BEATEN]
    legend = alt.Legend(title=None, orient="bottom", direction="horizontal", symbolSize=80, columns=2)
    return {
        "color": alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=[style.BLUE, style.ORANGE]), legend=legend),
        "shape": alt.Shape("kind:N", scale=alt.Scale(domain=kinds, range=["circle", "square"]), legend=legend),
    }


def _strip(models: Sequence[tuple[str, PricedModel]], sheet: PlotArea) -> Any:
    """Models that have no place on a logarithmic axis, at their win rate, with the reason in words."""
    import altair as alt

    texts = [f"{name} ({'costs nothing' if one.cost_usd == 0 else 'cost unknown'})" for name, one in models]
    heights = spread([sheet.down(one.win_rate.value) for _, one in models], sheet.height)
    values = [
        {
            "model": text,
            **_rounded(one.win_rate.value, *interval_of(one.win_rate)),
            "label_y": sheet.win_rate(height),
            "place": place,
        }
        for place, ((_, one), text, height) in enumerate(zip(models, texts, heights, strict=True))
    ]
    room = 10 + 9 * len(models)
    width = room + 10 + max(text_width(text, FONT_SIZE) for text in texts)

    def y(field: str) -> Any:
        scale = alt.Scale(domain=[sheet.low, sheet.high], nice=False, zero=False)
        axis = alt.Axis(labels=False, ticks=False, domain=False, tickCount=6)
        return alt.Y(field, title=None, scale=scale, axis=axis)

    scale = alt.Scale(domain=[-1, -1 + (len(models) + 1) * width / room], nice=False)
    at = {"x": alt.X("place:Q", scale=scale, axis=None), "y": y("win_rate:Q")}
    base = alt.Chart(alt.InlineData(values=values))
    layers = [
        base.mark_rule(strokeWidth=1.2, color=BAR).encode(x=at["x"], y=y("low:Q"), y2="high:Q"),
        base.mark_rule(strokeWidth=0.6, color=style.SOFT).encode(**at, x2=alt.value(room), y2="label_y:Q"),
        base.mark_point(size=85, shape="diamond", strokeWidth=1.8, fill="white", color=style.SOFT, opacity=1).encode(
            **at
        ),
        base.mark_text(fontSize=FONT_SIZE, color=style.INK, align="left").encode(
            x=alt.value(room + 3), y=y("label_y:Q"), text="model:N"
        ),
    ]
    return alt.layer(*layers).properties(width=width, height=sheet.height)

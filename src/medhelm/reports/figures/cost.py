"""Figure 5: win rate against cost, with the efficient frontier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medhelm.analysis.cost.prices import CostPoint, efficient_frontier
from medhelm.reports.figures import style
from medhelm.reports.figures.labels import text_width
from medhelm.reports.figures.plot_area import FONT_SIZE, PlotArea, PlotPoint, interval_of, plot_area, spread

if TYPE_CHECKING:
    from medhelm.analysis.leaderboard.types import Average

BEST, BEATEN = "efficient", "another model is at least as good and costs no more"
"""Kinds of models in the legend."""

BAR = "#8c8c8c"
"""Error bars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedModel:
    """Win rate and cost of one model."""

    model: str
    """Name of the model."""
    win_rate: Average
    """Win rate with its interval."""
    cost_usd: float | None
    """Total cost; None if unknown, which is never shown as 0."""


def win_rate_by_cost(
    models: Sequence[PricedModel], *, heading: str, notes: Sequence[str], sample: bool, axis: str = "Cost in US dollars"
) -> dict[str, Any]:
    """Return a plot of win rates with error bars over logarithmic costs; a step line joins the efficient models.

    Models with a cost of zero, or an unknown cost, are shown beside the plot at their win rate.
    Raises: ValueError if no model has a known cost above 0.
    """
    import altair as alt

    names = style.names([one.model for one in models])
    # Models of unknown cost cannot be efficient. A cost of 0 is off the logarithmic axis, but counts as efficient.
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
    area = plot_area([one.win_rate for one in models], [spot.cost_usd for spot in inside])
    chart = _plot(inside, best, area, axis)
    if beside:
        chart = alt.hconcat(chart, _strip(beside, area), spacing=14).resolve_scale(y="shared")
    title = style.title(heading, notes, sample=sample, width=area.width + 60)
    return style.finish(chart.properties(title=title))


def _plot(spots: Sequence[PlotPoint], best: set[str], area: PlotArea, axis: str) -> Any:
    """Return points, error bars, frontier and names."""
    import altair as alt

    frontier = sorted((spot for spot in spots if spot.name in best), key=lambda spot: spot.cost_usd)
    labels = area.names(spots, frontier)
    values = [
        {
            "model": spot.name,
            "cost_usd": spot.cost_usd,
            **_rounded(spot.value, spot.low, spot.high),
            "kind": BEST if spot.name in best else BEATEN,
            "label_x": area.dollars(label.x),
            "label_y": area.win_rate(label.y),
        }
        for spot, label in zip(spots, labels, strict=True)
    ]
    leaders = [join for pair in zip(spots, labels, strict=True) if (join := area.leader(*pair))]
    steps = [{"cost_usd": spot.cost_usd, "win_rate": round(spot.value, 6)} for spot in frontier]

    def x(field: str) -> Any:
        scale = alt.Scale(type="log", domain=[area.cheap, area.dear], nice=False)
        return alt.X(field, title=axis, scale=scale, axis=alt.Axis(values=area.ticks, format="$,~f", grid=False))

    def y(field: str) -> Any:
        scale = alt.Scale(domain=[area.low, area.high], nice=False, zero=False)
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
    return alt.layer(*layers).properties(width=area.width, height=area.height)


def _rounded(value: float, low: float, high: float) -> dict[str, float]:
    """Return a win rate with its interval, as data of a figure."""
    return {"win_rate": round(value, 6), "low": round(low, 6), "high": round(high, 6)}


def _kinds() -> dict[str, Any]:
    """Return color and shape by efficiency."""
    import altair as alt

    kinds = [BEST, BEATEN]
    legend = alt.Legend(title=None, orient="bottom", direction="horizontal", symbolSize=80, columns=2)
    return {
        "color": alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=[style.BLUE, style.ORANGE]), legend=legend),
        "shape": alt.Shape("kind:N", scale=alt.Scale(domain=kinds, range=["circle", "square"]), legend=legend),
    }


def _strip(models: Sequence[tuple[str, PricedModel]], area: PlotArea) -> Any:
    """Return the strip of models without a place on the logarithmic axis, with the reason."""
    import altair as alt

    texts = [f"{name} ({'no cost' if one.cost_usd == 0 else 'cost unknown'})" for name, one in models]
    heights = spread([area.down(one.win_rate.value) for _, one in models], area.height)
    values = [
        {
            "model": text,
            **_rounded(one.win_rate.value, *interval_of(one.win_rate)),
            "label_y": area.win_rate(height),
            "place": place,
        }
        for place, ((_, one), text, height) in enumerate(zip(models, texts, heights, strict=True))
    ]
    room = 10 + 9 * len(models)
    width = room + 10 + max(text_width(text, FONT_SIZE) for text in texts)

    def y(field: str) -> Any:
        scale = alt.Scale(domain=[area.low, area.high], nice=False, zero=False)
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
    return alt.layer(*layers).properties(width=width, height=area.height)

"""Figure D1: two bars for each benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medhelm.reports.figures import style

WIDTH, BAR_H = 380, 18
"""Width of the plot and height of a bar, in pixels."""

COLORS = ("#579ed0", "#d9883b")
"""Colors of the first and of the second bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedBars:
    """The bars of one benchmark."""

    label: str
    """Heading above the bars."""
    values: Mapping[str, float]
    """Label of each bar -> its value, 0 (worst) to 1 (best)."""


@style.without_checks
def paired_bars(groups: Sequence[PairedBars], *, heading: str, notes: Sequence[str], sample: bool) -> dict[str, Any]:
    """Return horizontal bars by group, with the value beside each."""
    import altair as alt

    labels = style.names([group.label for group in groups], 70)
    cells = [
        {"group": label, "bar": bar, "value": round(value, 6), "text": f"{value:.3f}", "place": place}
        for label, group in zip(labels, groups, strict=True)
        for place, (bar, value) in enumerate(group.values.items())
    ]
    y = alt.Y("bar:N", sort=None, title=None, axis=alt.Axis(domain=False, ticks=False, labelPadding=6))
    x = alt.X("value:Q", title="Mean score, 0 worst, 1 best", scale=alt.Scale(domain=[0, 1]))
    color = alt.Color("place:O", scale=alt.Scale(domain=[0, 1], range=list(COLORS)), legend=None)
    base = alt.Chart().encode(y=y, x=x)
    bars = base.mark_bar().encode(color=color)
    text = base.mark_text(align="left", dx=4, fontSize=11, color=style.INK).encode(text=alt.Text("text:N"))
    layers = alt.layer(bars, text).properties(width=WIDTH, height=alt.Step(BAR_H))
    header = alt.Header(labelOrient="top", labelAnchor="start", labelFontWeight="bold", labelPadding=3)
    faceted = layers.facet(
        row=alt.Row("group:N", sort=labels, title=None, header=header), data=alt.InlineData(values=cells), spacing=6
    )
    title = style.title(heading, notes, sample=sample, width=WIDTH + 220)
    return style.finish(faceted.properties(title=title).resolve_scale(y="independent"))

"""Figures 3 and 4: models by benchmarks, categories or subcategories, each cell with its value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from medhelm.reports.figures import style

CELL_W, CELL_H = 36, 17
"""Pixels of a cell."""

MISSING = "–"
"""Text of a cell without a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMapRow:
    """One line of a heat map."""

    label: str
    """Label of the line."""
    group: str
    """Heading above the line; empty for none."""
    values: Sequence[float | None]
    """One value per model, 0 (worst) to 1 (best); None if missing."""


@style.without_checks
def heat_map(
    lines: Sequence[HeatMapRow], models: Sequence[str], *, heading: str, notes: Sequence[str], sample: bool
) -> dict[str, Any]:
    """Return a table of colored cells: models as columns in the given order, lines by group.

    The color scale always covers 0 to 1, so that figures can be compared.
    """
    import altair as alt

    labels, shown = style.names([line.label for line in lines], 80), style.names(models)
    groups = list(dict.fromkeys(line.group for line in lines))
    headings = dict(zip(groups, style.names(groups, 70), strict=True))
    cells = [
        _cell(label, headings[line.group], model, value)
        for label, line in zip(labels, lines, strict=True)
        for model, value in zip(shown, line.values, strict=True)
    ]
    x = alt.X("model:N", sort=shown, title=None, axis=style.names_above())
    y = alt.Y("label:N", sort=labels, title=None, axis=alt.Axis(domain=False, ticks=False, labelPadding=6))
    base = alt.Chart().encode(x=x, y=y)
    color = alt.Color(
        "value:Q",
        title="0 worst, 1 best",
        scale=alt.Scale(domain=[0, 1], range=list(style.RAMP), interpolate="rgb", clamp=True),
        legend=alt.Legend(
            orient="bottom", direction="horizontal", gradientLength=160, gradientThickness=10, values=[0, 0.5, 1]
        ),
    )
    known = "isValid(datum.value)"
    shade: Any = color.to_dict()
    filled = base.mark_rect(strokeWidth=1).encode(
        color=alt.ColorValue("white", condition={"test": known, **shade}),
        stroke=alt.StrokeValue(style.FAINT, condition={"test": known, "value": "white"}),
    )
    light = alt.ColorValue("#000000", condition={"test": "datum.ink === 'white'", "value": "#ffffff"})
    text = base.mark_text(fontSize=10).encode(text=alt.Text("text:N"), color=light)
    layers = alt.layer(filled, text).properties(width=alt.Step(CELL_W), height=alt.Step(CELL_H))
    beside = max(style.text_width(label, 11) for label in labels)
    title = style.title(heading, notes, sample=sample, width=max(beside + CELL_W * len(models), 320))
    data = alt.InlineData(values=cells)
    if len(groups) == 1:
        return style.finish(layers.properties(data=data, title=title))
    header = alt.Header(labelOrient="top", labelAnchor="start", labelFontWeight="bold", labelPadding=3)
    return style.finish(
        layers.facet(
            row=alt.Row("group:N", sort=list(headings.values()), title=None, header=header), data=data, spacing=4
        )
        .properties(title=title)
        .resolve_scale(y="independent")
    )


def _cell(label: str, group: str, model: str, value: float | None) -> dict[str, Any]:
    place = {"label": label, "group": group, "model": model}
    if value is None or not math.isfinite(value):
        return {**place, "value": None, "ink": "black", "text": MISSING}
    return {**place, "value": round(value, 6), "ink": style.ink_on(style.shade(value)), "text": f"{value:.2f}"}

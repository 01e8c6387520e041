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
    """One benchmark, category or subcategory of a heat map."""

    label: str
    """Its label."""
    group: str
    """Heading above it; empty for none."""
    values: Sequence[float | None]
    """One value per model, 0 (worst) to 1 (best); None if missing."""


@style.without_checks
def heat_map(
    lines: Sequence[HeatMapRow],
    models: Sequence[str],
    *,
    heading: str,
    notes: Sequence[str],
    sample: bool,
    models_as_rows: bool = False,
) -> dict[str, Any]:
    """Return a table of colored cells: models as columns, or as rows, in the given order, lines by group.

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
    beside = alt.Axis(domain=False, ticks=False, labelPadding=6)
    x = alt.X("model:N", sort=shown, title=None, axis=style.names_above())
    y = alt.Y("label:N", sort=labels, title=None, axis=beside)
    if models_as_rows:
        x = alt.X("label:N", sort=labels, title=None, axis=style.names_above())
        y = alt.Y("model:N", sort=shown, title=None, axis=beside)
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
    rows, columns = (shown, labels) if models_as_rows else (labels, shown)
    width = max(style.text_width(row, 11) for row in rows) + CELL_W * len(columns)
    title = style.title(heading, notes, sample=sample, width=max(width, 320))
    data = alt.InlineData(values=cells)
    if len(groups) == 1:
        return style.finish(layers.properties(data=data, title=title))
    order = list(headings.values())
    if models_as_rows:  # below: the names of the lines are above
        header = alt.Header(labelOrient="bottom", labelFontWeight="bold", labelPadding=3, labelLimit=CELL_W * 8)
        faceted = layers.facet(
            column=alt.Column("group:N", sort=order, title=None, header=header), data=data, spacing=4
        )
        return style.finish(faceted.properties(title=title).resolve_scale(x="independent"))
    header = alt.Header(labelOrient="top", labelAnchor="start", labelFontWeight="bold", labelPadding=3)
    faceted = layers.facet(row=alt.Row("group:N", sort=order, title=None, header=header), data=data, spacing=4)
    return style.finish(faceted.properties(title=title).resolve_scale(y="independent"))


def _cell(label: str, group: str, model: str, value: float | None) -> dict[str, Any]:
    place = {"label": label, "group": group, "model": model}
    if value is None or not math.isfinite(value):
        return {**place, "value": None, "ink": "black", "text": MISSING}
    return {**place, "value": round(value, 6), "ink": style.ink_on(style.shade(value)), "text": f"{value:.2f}"}

"""Two bars for each benchmark, with the value beside each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from medhelm.reports.charts.chart import Drawing
from medhelm.reports.charts.rows import RowText, axis_below, full_width, lay_out, row_texts
from medhelm.reports.charts.svg import box_paint, names, paint, rect


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedBars:
    """The bars of one benchmark."""

    label: str
    """Heading above the bars."""
    values: Mapping[str, float]
    """Label of each bar -> its value, 0 (worst) to 1 (best)."""


def draw_paired_bars(groups: Sequence[PairedBars]) -> tuple[int, Drawing]:
    """Return the width of the picture and the bars by group, the first of each filled, the others pale."""
    labels = names([group.label for group in groups], 70)
    bars = [
        (RowText(name=name, text=f"{value:.3f}", group=label), value, paint("mark") if place == 0 else box_paint())
        for label, group in zip(labels, groups, strict=True)
        for place, (name, value) in enumerate(group.values.items())
    ]
    words = [text for text, _, _ in bars]
    width = full_width(words)
    layout = lay_out(words, width, in_full=True)
    scale = layout.scale((0.0, 1.0))
    rects = [
        rect(scale.start, top + 3.5, scale(value) - scale.start, layout.mark_height - 7, **color)
        for (_, value, color), top in zip(bars, layout.tops, strict=True)
    ]
    axis = axis_below(layout, scale, "Mean score, 0 worst, 1 best")
    return width, (layout.height, [axis, row_texts(words, layout), *rects])

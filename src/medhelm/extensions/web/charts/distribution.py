"""Distribution of a benchmark's scores, one row per model: shares of right and wrong completions, or histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from markupsafe import Markup

from medhelm.analysis.leaderboard.cells import Column
from medhelm.domain.text import plural
from medhelm.reports.charts.chart import COMPACT, Chart, Drawing
from medhelm.reports.charts.rows import MARGIN, RowLayout, RowText, axis_below, lay_out, row_texts
from medhelm.reports.charts.svg import (
    SMALL,
    LinearScale,
    box_paint,
    coordinate,
    element,
    frame_paint,
    group,
    label,
    line,
    paint,
    rect,
    short,
)
from medhelm.reports.formats.tables import Value, decimal, number

BINS = 20
"""Bins of scores with many values."""

MOST_LEVELS = 11
"""Most different scores that get a bar each, such as grades."""

TALL = 38
"""Pixels of a histogram."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelScores:
    """Scores of one model, without failures."""

    model: str
    """Name, which can be any text."""
    scores: Sequence[float]
    """Score of each instance in the metric's own unit; nan and infinity do not count."""
    n_failed: int = 0
    """Instances without a score."""


def distribution_chart(column: Column, models: Sequence[ModelScores]) -> Chart:
    """Return the distribution of scores: a stacked bar per model for scores of 0 and 1, else a histogram."""
    known = [_finite(one) for one in models]
    distinct = {score for one in known for score in one.scores}
    if distinct <= {column.low, column.high}:
        return _shares_chart(column, known)
    return _histogram_chart(column, known, sorted(distinct))


def _finite(one: ModelScores) -> ModelScores:
    scores = [float(score) for score in one.scores if math.isfinite(score)]
    return ModelScores(model=one.model, scores=scores, n_failed=one.n_failed)


def _shares_chart(column: Column, models: Sequence[ModelScores]) -> Chart:
    """Return the chart of right, wrong and failed completions."""
    best = column.high if column.higher_is_better else column.low
    counts = [
        (sum(score == best for score in one.scores), sum(score != best for score in one.scores), one.n_failed)
        for one in models
    ]
    total = sum(map(sum, counts))
    failed = sum(count[2] for count in counts)
    how_many = f"{failed:,}" if failed else "none"
    description = f"{plural(len(models), 'model')}, {plural(total, 'completion')}, {how_many} of them failed."
    if not total:
        description = "No completion has a score."
    table: list[list[Value]] = [[one.model, *count] for one, count in zip(models, counts, strict=True)]
    return Chart(
        name="distribution", title=f"Right, wrong and failed on {short(column.title)}", description=description,
        draw=partial(_draw_shares, models, counts), headers=("model", "right", "wrong", "failed"), rows=table,
        has_data=total > 0,
    )  # fmt: skip


Counts = tuple[int, int, int]
"""Right, wrong and failed completions."""

KINDS = ("right", "wrong", "failed")
"""Segments of a bar, in order."""


def _segment_paint(kind: str) -> dict[str, str]:
    """Return the paint of a segment: filled, pale with an outline, or a dashed outline."""
    if kind == "right":
        return {**paint("mark"), "stroke": "none"}
    return box_paint() if kind == "wrong" else {**frame_paint(), "stroke_dasharray": "3 2"}


def _draw_shares(models: Sequence[ModelScores], counts: Sequence[Counts], width: int) -> Drawing:
    """Draw one stacked bar per model, with a legend above."""
    words = []
    for one, (right, wrong, failed) in zip(models, counts, strict=True):
        scored = right + wrong
        text = f"{right:,} of {scored:,} right ({right / scored:.0%})" if scored else "none scored"
        words.append(RowText(name=one.model, text=f"{text}; {failed:,} failed" if failed else text))
    layout = lay_out(words, width, top=32.0)
    scale = layout.scale((0.0, 1.0))
    margin = 1 if layout.is_compact else 3
    bars = [
        _stacked(count, scale, top + margin, layout.mark_height - 2 * margin)
        for count, top in zip(counts, layout.tops, strict=True)
        if sum(count)
    ]
    return layout.height, [
        _legend(layout),
        axis_below(layout, scale, "Share of instances"),
        row_texts(words, layout),
        *bars,
    ]


def _legend(layout: RowLayout) -> Markup:
    """Return the meaning of the segments."""
    x = float(MARGIN if layout.is_compact else layout.left + 6)
    parts = []
    for kind in KINDS:
        parts += [rect(x, 8.5, 18, 11, **_segment_paint(kind)), group("ink", [label(x + 23, 18, kind, size=SMALL)])]
        x += 80
    return Markup("").join(parts)


def _stacked(counts: Counts, scale: LinearScale, top: float, height: float) -> Markup:
    """Return the segments of one bar, with their counts where they fit."""
    parts, done, total = [], 0, sum(counts)
    for kind, count in zip(KINDS, counts, strict=True):
        if not count:
            continue
        start, end = scale(done / total), scale((done + count) / total)
        parts.append(rect(start + 0.5, top, end - start - 1, height, **_segment_paint(kind)))
        if end - start > 8 + 7 * len(str(count)):
            ink = "on-mark" if kind == "right" else "ink"
            y = top + height / 2 + 4
            parts.append(group(ink, [label((start + end) / 2, y, str(count), anchor="middle", size=SMALL)]))
        done += count
    return Markup("").join(parts)


# --- histograms -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bins:
    """Ranges of scores that are counted together."""

    edges: tuple[float, ...]
    """Ends of the bins."""
    names: tuple[str, ...]
    """Name of each bin in the table."""
    ends: tuple[float, float]
    """Ends of the axis."""
    levels: tuple[float, ...] = ()
    """The scores, if each has a bar of its own."""

    def count(self, scores: Sequence[float]) -> list[int]:
        """Return the number of scores in each bin; scores outside count in the nearest one."""
        inside = np.clip(np.asarray(scores, dtype=float), self.edges[0], self.edges[-1])
        return [int(n) for n in np.histogram(inside, self.edges)[0]]


def _bins(column: Column, distinct: Sequence[float]) -> _Bins:
    """Return a bin for each of a few levels, or equal bins over the metric's scale."""
    if len(distinct) <= MOST_LEVELS:
        gaps = [b - a for a, b in pairwise(distinct)]
        half = min(gaps, default=column.high - column.low) / 2
        middles = [(a + b) / 2 for a, b in pairwise(distinct)]
        edges = (distinct[0] - half, *middles, distinct[-1] + half)
        ends = (min(column.low, distinct[0]) - half, max(column.high, distinct[-1]) + half)
        return _Bins(edges=edges, names=tuple(f"{level:g}" for level in distinct), ends=ends, levels=tuple(distinct))
    low, high = column.low, column.high
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        low, high = distinct[0], distinct[-1]
    edges = tuple(np.linspace(low, high, BINS + 1).tolist())
    names = tuple(f"{a:.3g} to {b:.3g}" for a, b in pairwise(edges))
    return _Bins(edges=edges, names=names, ends=(low, high))


def _histogram_chart(column: Column, models: Sequence[ModelScores], distinct: Sequence[float]) -> Chart:
    """Return the chart of histograms."""
    bins = _bins(column, distinct)
    counts = [bins.count(one.scores) for one in models]
    name = column.metric_title or column.metric
    description = (
        f"{plural(len(models), 'model')}, {name} of each instance from {distinct[0]:.3g} to {distinct[-1]:.3g}."
    )
    axis = f"{name} of an instance; {'higher' if column.higher_is_better else 'lower'} is better"
    table: list[list[Value]] = [
        [one.model, number(float(np.mean(one.scores))) if one.scores else None, len(one.scores), one.n_failed, *count]
        for one, count in zip(models, counts, strict=True)
    ]
    return Chart(
        name="distribution", title=f"Distribution of scores on {short(column.title)}", description=description,
        draw=partial(_draw_histograms, models, counts, bins, axis),
        headers=("model", "mean", "n", "failed", *bins.names), rows=table,
        notes=["Heights are shares of a model's scored instances, on one scale. The vertical line is the mean."],
    )  # fmt: skip


def _draw_histograms(
    models: Sequence[ModelScores], counts: Sequence[Sequence[int]], bins: _Bins, axis: str, width: int
) -> Drawing:
    """Draw one histogram per model below each other."""
    words = []
    for one in models:
        mean = f"mean {decimal(float(np.mean(one.scores)))}, n = {len(one.scores):,}" if one.scores else "none scored"
        words.append(RowText(name=one.model, text=f"{mean}; {one.n_failed:,} failed" if one.n_failed else mean))
    layout = lay_out(words, width, mark_height=TALL)
    scale = layout.scale(bins.ends)
    highest = max(max(count) / max(sum(count), 1) for count in counts)
    parts = []
    for one, count, top in zip(models, counts, layout.tops, strict=True):
        if one.scores:
            base = top + layout.mark_height - 2
            parts.append(_histogram(count, bins, scale, base, (layout.mark_height - 8) / highest))
            x = scale(float(np.mean(one.scores)))
            parts.append(group("other-line", [line(x, top + 2, x, base, stroke_width=2)]))
    ticks = bins.levels if 0 < len(bins.levels) <= (6 if width < COMPACT else MOST_LEVELS) else ()
    below = axis_below(layout, scale, axis, ticks=ticks)
    return layout.height, [below, row_texts(words, layout), *parts]


def _histogram(counts: Sequence[int], bins: _Bins, scale: LinearScale, base: float, unit: float) -> Markup:
    """Return the bars of one model as one path. `unit`: pixels of a share of 1."""
    total = sum(counts)
    path = []
    for i, count in enumerate(counts):
        if not count:
            continue
        left, right = scale(bins.edges[i]), scale(bins.edges[i + 1])
        if bins.levels:  # a bar around its level, not over the whole range to the next one
            half = min((scale.end - scale.start) / (len(bins.levels) + 1) * 0.35, 14.0)
            left, right = scale(bins.levels[i]) - half, scale(bins.levels[i]) + half
        gap = 0.0 if bins.levels else min(0.75, (right - left) / 4)
        x, y, end = (coordinate(at) for at in (left + gap, base - count / total * unit, right - gap))
        path.append(f"M{x} {coordinate(base)}V{y}H{end}V{coordinate(base)}Z")
    axis = group("axis", [line(scale.start, base, scale.end, base)])
    return axis + element("path", d="".join(path), **paint("mark"))

"""Charts of one benchmark: models, distribution of scores, failures, subgroups; and small pictures in table cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np
from markupsafe import Markup

from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.domain import Estimate, Run
from medhelm.domain.text import listed, plural
from medhelm.extensions.web.site import Site
from medhelm.results.formats.charts import (
    MARGIN,
    IntervalPlot,
    IntervalRow,
    RowLayout,
    RowText,
    axis_below,
    draw_intervals,
    lay_out,
    row_texts,
)
from medhelm.results.formats.drawing import (
    COMPACT,
    SMALL,
    Chart,
    Drawing,
    LinearScale,
    box_paint,
    circle,
    coordinate,
    domain,
    element,
    frame_paint,
    group,
    hollow_paint,
    known,
    label,
    line,
    paint,
    rect,
    short,
)
from medhelm.results.formats.tables import HasInterval, Value, decimal, estimate_numbers, number
from medhelm.results.leaderboard_view import shown_name
from medhelm.results.runs.cells import ScoreDetails, score_details

# --- charts of the page -----------------------------------------------------------------------------------------------

MOST_DISTRIBUTIONS = 60
"""Most models in the charts of single scores, best first; the leaderboard has all."""

MOST_SUBGROUP_ROWS = 120
"""Most rows in the chart of subgroups."""


def benchmark_charts(site: Site, board: Leaderboard, column: Column) -> Mapping[str, Callable[[], Chart]]:
    """Return the charts of a benchmark, each made when it is called: name -> chart.

    Parameters: board, a leaderboard that holds the benchmark. All charts have its models in the order of their scores.
    Names of subgroups are data: they are read only where the site shows the text of the benchmark.
    """
    runs = site.inputs().runs
    models = [row.model for row, _ in best_first(board, column)]
    with_runs = [model for model in models if (model, column.benchmark) in runs]
    shown = {model: runs[model, column.benchmark] for model in with_runs[:MOST_DISTRIBUTIONS]}

    def details() -> Mapping[str, ScoreDetails]:
        key = ("score details", column.benchmark, tuple(shown))
        return site.keep(key, lambda: _details(site, shown, column))

    return {
        "scores": lambda: benchmark_scores_chart(board, column),
        "distribution": lambda: distribution_chart(
            column,
            [
                ModelScores(model=model, scores=found.values.tolist(), n_failed=int((~np.isfinite(found.values)).sum()))
                for model, found in details().items()
            ],
        ),
        "failures": lambda: _failures(shown),
        "subgroups": lambda: subgroups_chart(column, _means(details())),
    }


def _details(site: Site, runs: Mapping[str, Run], column: Column) -> dict[str, ScoreDetails]:
    """Return the single scores of models, in their order."""
    with_subgroups = site.shows_text_of(column.benchmark)
    found = score_details(list(runs.values()), column, site.rule, with_subgroups=with_subgroups)
    return {model: details for model, (_, details) in zip(runs, found, strict=True)}


def _failures(runs: Mapping[str, Run]) -> Chart:
    """Return the failures of models by reason."""
    counts = [
        FailureCount(model=model, reason=reason, n=n, n_instances=run.n)
        for model, run in runs.items()
        for reason, n in run.failures.items()
        if n > 0
    ]
    return failures_chart(counts, without=[model for model, run in runs.items() if not run.n_failed])


def _means(details: Mapping[str, ScoreDetails]) -> list[SubgroupMean]:
    """Return the subgroups of as many models as the chart has room for, best model first."""
    means: list[SubgroupMean] = []
    for model, found in details.items():
        if means and len(means) + len(found.subgroups) > MOST_SUBGROUP_ROWS:
            break
        means += [SubgroupMean(subgroup=name, model=model, estimate=one) for name, one in found.subgroups.items()]
    return means


# --- models and subgroups ---------------------------------------------------------------------------------------------
# Models on one benchmark, and subgroups of its instances: means with 95% intervals.

HEADERS = ("model", "kind", "score", "low", "high", "n", "n_failed")
"""Columns of the table of models."""


MOST_MODELS = 100
"""Most models in the picture; the table has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubgroupMean:
    """Mean of one model on one subgroup of the instances."""

    subgroup: str
    """Name of the subgroup."""
    model: str
    """Name of the model."""
    estimate: Estimate | None
    """The mean in the metric's own unit; None if nothing could be scored."""


def axis_title(column: Column) -> str:
    """Return the name of the metric and the direction that is better."""
    name = column.metric_title or column.metric
    return f"{name}, mean and 95% interval; {'higher' if column.higher_is_better else 'lower'} is better"


def benchmark_scores_chart(board: Leaderboard, column: Column) -> Chart:
    """Return the models of a leaderboard on one benchmark, best first, baselines below them."""
    rows: list[IntervalRow] = []
    table: list[list[Value]] = []
    for row, cell in best_first(board, column):
        is_baseline = row in board.baselines
        kind = "baseline" if is_baseline else "published" if row.published else "model"
        low, high = (cell.estimate.low, cell.estimate.high) if cell.estimate else (None, None)
        rows.append(
            IntervalRow(
                name=shown_name(row), value=cell.value, low=low, high=high, is_filled=kind == "model",
                note=f"{cell.n_failed} failed" if cell.n_failed else "", group="Baselines" if is_baseline else "",
            )
        )  # fmt: skip
        n = cell.estimate.n if cell.estimate else cell.n
        table.append([row.model, kind, number(cell.value), number(low), number(high), n, cell.n_failed])
    models, baselines = [row for row in rows if not row.group], [row for row in rows if row.group]
    baseline = known(column.constant_baseline)
    plot = IntervalPlot(
        rows=[*models[:MOST_MODELS], *baselines], axis=axis_title(column), low=column.low, high=column.high,
        references=[] if baseline is None else [(baseline, f"constant baseline {decimal(baseline)}")],
    )  # fmt: skip
    notes = ["Hollow points are published scores or baselines."] if any(not row.is_filled for row in rows) else []
    if len(models) > MOST_MODELS:
        notes.append(f"The picture has the best {MOST_MODELS} of {len(models)} models; the table has all.")
    return Chart(
        name="scores", title=f"Scores on {short(column.title)}", description=_description(rows, column),
        draw=partial(draw_intervals, plot), headers=HEADERS, rows=table, notes=notes, has_data=bool(rows),
    )  # fmt: skip


def best_first(board: Leaderboard, column: Column) -> list[tuple[Row, Cell]]:
    """Return rows of a leaderboard with their cells: the competing models by score, then baselines by score."""

    def key(pair: tuple[Row, Cell]) -> tuple[bool, float]:
        value = known(pair[1].value)
        return value is None, 0.0 if value is None else -float(column.normalize(value))

    found: list[tuple[Row, Cell]] = []
    for rows in (board.rows, board.baselines):
        here = [(row, row.cells[column.benchmark]) for row in rows if column.benchmark in row.cells]
        found += sorted(here, key=key)
    return found


def _description(rows: Sequence[IntervalRow], column: Column) -> str:
    """Return the best model in one sentence."""
    models = [row for row in rows if row.value is not None and not row.group]
    if not models:
        return "No model has a score on this benchmark."
    best = [row for row in models if row.value == models[0].value]
    end = "Highest" if column.higher_is_better else "Lowest, which is best"
    names = listed([short(row.name) for row in best], 2)
    return f"{plural(len(models), 'model')}. {end}: {names}, {IntervalPlot(rows=(), axis='').text(best[0])}."


def subgroups_chart(column: Column, means: Sequence[SubgroupMean]) -> Chart:
    """Return the means of subgroups, grouped by model, on one scale."""
    rows = [_subgroup_row(one, is_grouped=len({mean.model for mean in means}) > 1) for one in means]
    names = {one.subgroup for one in means}
    description = f"Mean scores on {plural(len(names), 'subgroup')} of the instances."
    if not rows:
        description = "The data of this benchmark has no subgroups."
    plot = IntervalPlot(rows=rows, axis=axis_title(column), low=column.low, high=column.high)
    table: list[list[Value]] = [
        [one.model, one.subgroup, *estimate_numbers(one.estimate), one.estimate.n if one.estimate else 0]
        for one in means
    ]
    return Chart(
        name="subgroups", title=f"Subgroups of {short(column.title)}", description=description,
        draw=partial(draw_intervals, plot),
        headers=("model", "subgroup", "score", "low", "high", "n"), rows=table, has_data=bool(rows),
        notes=["Subgroups are not adjusted for how many of them are shown."] if len(names) > 1 else [],
    )  # fmt: skip


def _subgroup_row(one: SubgroupMean, *, is_grouped: bool) -> IntervalRow:
    """Return one subgroup, under the name of its model if there are several."""
    found = one.estimate
    return IntervalRow(
        name=one.subgroup, group=one.model if is_grouped else "", value=found.value if found else None,
        low=found.low if found else None, high=found.high if found else None, note=f"n = {found.n}" if found else "",
    )  # fmt: skip


# --- distribution -----------------------------------------------------------------------------------------------------
# Distribution of a benchmark's scores, one row per model: shares of right and wrong completions, or histograms.

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


# --- failures ---------------------------------------------------------------------------------------------------------
# Failures by reason: bars of counts, grouped by reason, or by model where there are more reasons than models.

MOST_ROWS = 60
"""Most bars; the table has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCount:
    """Failed instances of one model for one reason."""

    model: str
    """Name, which can be any text."""
    reason: str
    """Failure code, such as `rate_limit`."""
    n: int
    """Failed instances, above 0."""
    n_instances: int
    """All instances of the run."""


def failures_chart(counts: Sequence[FailureCount], *, without: Sequence[str] = ()) -> Chart:
    """Return bars of failures, the most frequent first. `without`: models that have no failure."""
    known = [one for one in counts if one.n > 0]
    by_model, by_reason = _totals(known, "model"), _totals(known, "reason")
    is_by_reason = len(by_reason) <= len(by_model)
    if is_by_reason:
        ordered = sorted(known, key=lambda one: (-by_reason[one.reason], one.reason, -one.n, one.model))
    else:
        ordered = sorted(known, key=lambda one: (-by_model[one.model], one.model, -one.n, one.reason))
    table: list[list[Value]] = [
        [one.model, one.reason, one.n, one.n_instances, number(one.n / one.n_instances) if one.n_instances else None]
        for one in ordered
    ]
    notes = [f"No failures: {listed([short(model) for model in without], 10)}."] if without and ordered else []
    if len(ordered) > MOST_ROWS:
        notes.append(f"The picture has the first {MOST_ROWS} of {len(ordered)} bars; the table has all.")
    return Chart(
        name="failures", title="Failures by reason", description=_failures_description(by_model, by_reason),
        draw=partial(_draw, ordered[:MOST_ROWS], is_by_reason),
        headers=("model", "reason", "failed", "instances", "share"), rows=table, notes=notes, has_data=bool(ordered),
    )  # fmt: skip


def _totals(counts: Sequence[FailureCount], field: Literal["model", "reason"]) -> dict[str, int]:
    """Return the failed instances by model or by reason."""
    found: dict[str, int] = {}
    for one in counts:
        name = getattr(one, field)
        found[name] = found.get(name, 0) + one.n
    return found


def _failures_description(by_model: Mapping[str, int], by_reason: Mapping[str, int]) -> str:
    """Return the total and the most frequent reason."""
    if not by_model:
        return "No instance failed."
    reason = max(by_reason, key=lambda name: (by_reason[name], name))
    n = plural(sum(by_model.values()), "failed instance")
    most = f"{short(_reason_text(reason))}, {by_reason[reason]:,}"
    return f"{n} of {plural(len(by_model), 'model')}. Most frequent reason: {most}."


def _reason_text(reason: str) -> str:
    return reason.replace("_", " ")


def _draw(counts: Sequence[FailureCount], is_by_reason: bool, width: int) -> Drawing:
    """Draw one bar per model and reason, at least one."""
    words = [
        RowText(
            name=one.model if is_by_reason else _reason_text(one.reason),
            text=f"{one.n:,} of {one.n_instances:,} ({one.n / one.n_instances:.1%})"
            if one.n_instances
            else f"{one.n:,}",
            group=_reason_text(one.reason) if is_by_reason else one.model,
        )
        for one in counts
    ]
    layout = lay_out(words, width)
    most = max(one.n for one in counts)
    scale = layout.scale((0.0, float(most)))
    ticks = sorted({round(tick) for tick in scale.ticks(4 if layout.is_compact else 6)})
    bars = [
        rect(scale.start, top + 4, max(scale(one.n) - scale.start, 1.5), layout.mark_height - 8)
        for one, top in zip(counts, layout.tops, strict=True)
    ]
    axis = axis_below(layout, scale, "Failed instances", ticks=ticks)
    return layout.height, [axis, row_texts(words, layout), group("other", bars)]


# --- pictures in table cells ------------------------------------------------------------------------------------------
# Small pictures in table cells: an interval, the ranks a model can have, a share.
#
# The number is in the cell beside it, so that screen readers skip the picture.

WIDTH, HEIGHT = 104, 16
"""Pixels of a mark."""

EDGE = 5
"""Pixels between the ends of the scale and of the picture, for the radius of a point."""


def column_scale(found: Iterable[HasInterval | None]) -> LinearScale:
    """Return the common scale of a column of numbers from 0 to 1, with room for all values and intervals."""
    values = [end for one in found if one is not None for end in (one.value, one.low, one.high)]
    return LinearScale(*domain(values, low=0.0, high=1.0), EDGE, WIDTH - EDGE)


def interval_mark(
    value: float | None, low: float | None, high: float | None, scale: LinearScale, *, hollow: bool
) -> Markup:
    """Return a point with its 95% interval; an empty scale without a value.

    `hollow`: for values that were not measured here, such as published ones.
    """
    value, low, high = known(value), known(low), known(high)
    middle = HEIGHT / 2
    parts = [line(scale.start, middle, scale.end, middle, **paint("grid"))]
    if value is not None:
        if low is not None and high is not None:
            parts.append(line(scale(low), middle, scale(high), middle, stroke_width=3, **paint("line")))
        if hollow:
            parts.append(circle(scale(value), middle, 3.5, stroke_width=2, **hollow_paint()))
        else:
            parts.append(circle(scale(value), middle, 4, **paint("mark")))
    return _mark(*parts)


def rank_mark(rank: int | None, low: int | None, high: int | None, n_models: int) -> Markup:
    """Return the ranks that a model can have as a bar on the ranks 1 to `n_models`, its own rank as a point."""
    scale = LinearScale(1, max(n_models, 2), EDGE, WIDTH - EDGE)
    middle = HEIGHT / 2
    parts = [line(scale.start, middle, scale.end, middle, **paint("grid"))]
    if rank is not None:
        first, last = (rank if low is None else low), (rank if high is None else high)
        left, right = scale(first) - 3, scale(last) + 3
        parts.append(rect(left, middle - 3, right - left, 6, rx=3, **paint("pale")))
        parts.append(circle(scale(rank), middle, 4, **paint("mark")))
    return _mark(*parts)


def coverage_bar(share: float | None) -> Markup:
    """Return a bar that is filled by a share, 0 to 1."""
    share = known(share)
    parts = [rect(0.5, 4.5, 47, 7, rx=1.5, **frame_paint())]
    if share is not None:
        parts.append(rect(1, 5, 46 * min(max(share, 0.0), 1.0), 6, **paint("mark")))
    return _mark(*parts, width=48)


def _mark(*parts: Markup, width: int = WIDTH) -> Markup:
    """Return a picture that screen readers skip and that cannot be focused."""
    box = f"0 0 {coordinate(width)} {coordinate(HEIGHT)}"
    return element(
        "svg", *parts, class_="chart-mark", viewBox=box, width=width, height=HEIGHT, aria_hidden="true",
        focusable="false",
    )  # fmt: skip

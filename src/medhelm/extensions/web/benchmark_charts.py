"""Charts of one benchmark: models, distribution of scores, failures, subgroups; and small pictures in table cells.

Scores by slice on the pages of benchmarks and models.

Names of slices are texts of the data: they are shown only where the site shows the texts of the benchmark.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
from markupsafe import Markup

from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.analysis.slices import SlicedModel
from medhelm.domain import Estimate, Run
from medhelm.domain.text import best_of, listed, plural
from medhelm.errors import MissingError, UserError
from medhelm.extensions.web.board_charts import SHARE_EDGES, ShadedCell, ShadedTable, shaded_name, step
from medhelm.extensions.web.site import BoardSelection, Site, board_of
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
    coordinate,
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
)
from medhelm.results.formats.tables import (
    MISSING,
    Value,
    as_line,
    decimal,
    estimate_numbers,
    estimate_text,
    number,
    score_decimals,
    signed,
)
from medhelm.results.leaderboard_view import shown_name
from medhelm.results.runs.cells import ScoreDetails, score_details
from medhelm.results.runs.slices import BY_BENCHMARK, SlicedBenchmark, SliceSource, slice_models
from medhelm.results.runs.slices_view import in_words, slice_text

# --- charts of the page -----------------------------------------------------------------------------------------------

MOST_DISTRIBUTIONS = 60
"""Most models in the charts of single scores, best first; the leaderboard has all."""


def benchmark_charts(site: Site, board: Leaderboard, column: Column) -> Mapping[str, Callable[[], Chart | ShadedTable]]:
    """Return the charts of a benchmark, each made when it is called: name -> chart.

    Parameters: board, a leaderboard that holds the benchmark. All charts have its models in the order of their scores.
    Names of subgroups are data: they are read only where the site shows the text of the benchmark.
    """
    runs = site.inputs().runs
    cells = {row.model: cell for row, cell in best_first(board, column)}
    with_runs = {model: runs[model, column.benchmark] for model in cells if (model, column.benchmark) in runs}
    baselines = [row.model for row in board.baselines if row.model in with_runs]
    models = [model for model in with_runs if model not in baselines]
    best = models[:MOST_DISTRIBUTIONS]
    shown = {model: with_runs[model] for model in [*best, *baselines]}
    n_left_out = len(models) - len(best)
    whose = best_of(len(best), len(models), "model") + (
        f" and {plural(len(baselines), 'baseline')}" if baselines else ""
    )

    def details() -> Mapping[str, ScoreDetails]:
        key = ("score details", column.benchmark, tuple(shown))
        return site.keep(key, lambda: _details(site, shown, column))

    return {
        "scores": lambda: benchmark_scores_chart(board, column),
        "distribution": lambda: distribution_chart(
            column, [_model_scores(cells[model], found) for model, found in details().items()], whose
        ),
        "failures": lambda: _failures(with_runs),
        "subgroups": lambda: subgroups_table(
            column, _means(details()), {model: cells[model].value for model in shown}, n_left_out=n_left_out
        ),
    }


def _model_scores(cell: Cell, found: ScoreDetails) -> ModelScores:
    """Return the scores of one model with its failures, as its score counts them."""
    missing = int((~np.isfinite(found.values)).sum())
    return ModelScores(
        model=cell.model, scores=found.values.tolist(), mean=cell.value, n_worst=cell.n_failed_by_model,
        n_failed=missing - cell.n_failed_by_model,
    )  # fmt: skip


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
    """Return the subgroups of all models, best model first."""
    return [
        SubgroupMean(subgroup=name, model=model, estimate=one)
        for model, found in details.items()
        for name, one in found.subgroups.items()
    ]


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


MOST_SUBGROUP_MODELS = 24
"""Most models in the table of subgroups, best first; its CSV file has all."""

FULL_SHADE = 0.4
"""Difference to a model's mean, on the scale from 0 to 1, from which on a subgroup has the strongest shade."""


def subgroups_table(
    column: Column,
    means: Sequence[SubgroupMean],
    of_model: Mapping[str, float | None],
    *,
    n_left_out: int = 0,
    name: str = "subgroups",
    title: str = "Subgroups",
) -> ShadedTable:
    """Return subgroups by models: the difference of each mean to that of the model, the largest loss first.

    Parameters: of_model, model -> its mean on all instances, best model first; n_left_out, further models of the
    benchmark, none of which is better.
    """
    found = {(one.subgroup, one.model): one.estimate for one in means}
    gaps = {key: _gap(column, one, of_model[key[1]]) for key, one in found.items()}
    subgroups = sorted({name for name, _ in found}, key=lambda name: (_mean_gap(gaps, name), name))
    models = [model for model in of_model if any((name, model) in found for name in subgroups)]
    shown = models[:MOST_SUBGROUP_MODELS]
    rows = [
        (
            shaded_name(f"{name} (n = {_most_instances(found, name):,})", name),
            [_gap_cell(name, model, found.get((name, model)), gaps.get((name, model))) for model in shown],
        )
        for name in subgroups
    ]
    notes = ["Intervals and differences are not adjusted for how many subgroups are shown."] if len(rows) > 1 else []
    if (n_all := len(models) + n_left_out) > len(shown):
        in_file = f"the best {len(models)}" if n_left_out else "all"
        notes.append(f"Shown: {best_of(len(shown), n_all, 'model')}; the CSV file has {in_file}.")
    return ShadedTable(
        name=name,
        title=title,
        description="Mean of a subgroup minus the mean of the model on all instances, on a scale from 0 (worst) to 1 "
        "(best). Negative: worse than its average.",
        css="shares",
        columns=[shaded_name(model, model) for model in shown],
        rows=rows,
        legend=[],
        headers=("model", "subgroup", "score", "low", "high", "n", "difference"),
        numbers=[
            [one.model, one.subgroup, *estimate_numbers(one.estimate), one.estimate.n if one.estimate else 0,
             number(gaps[one.subgroup, one.model])]
            for one in means
        ],
        notes=notes,
        corner="Subgroup",
    )  # fmt: skip


def _gap(column: Column, found: Estimate | None, whole: float | None) -> float | None:
    """Return how much better a subgroup is than all instances, on the scale from 0 to 1."""
    if found is None or whole is None:
        return None
    return float(column.normalize(found.value) - column.normalize(whole))


def _mean_gap(gaps: Mapping[tuple[str, str], float | None], subgroup: str) -> float:
    """Return the mean difference of a subgroup over all models; infinity if there is none."""
    values = [gap for (name, _), gap in gaps.items() if name == subgroup and gap is not None]
    return sum(values) / len(values) if values else math.inf


def _most_instances(found: Mapping[tuple[str, str], Estimate | None], subgroup: str) -> int:
    return max((one.n for (name, _), one in found.items() if name == subgroup and one), default=0)


def _gap_cell(subgroup: str, model: str, found: Estimate | None, gap: float | None) -> ShadedCell:
    """Return the difference of one subgroup and model, with its mean in words."""
    where = f"{as_line(model)}, {as_line(subgroup)}"
    if found is None or gap is None:
        return ShadedCell(text=MISSING, css="missing", tip=f"{where}: no score")
    text = signed(gap, 2)
    tip = f"{where}: {estimate_text(found)}, {text} against all its instances; n = {found.n:,}"
    return ShadedCell(text=text, css=f"step-{step(0.5 + gap / (2 * FULL_SHADE), SHARE_EDGES)}", tip=tip)


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
    mean: float | None = None
    """The score of the model, which counts `n_worst` instances as the worst ones; None if there is none."""
    n_worst: int = 0
    """Failures that count as the worst score."""
    n_failed: int = 0
    """Failures without a score, which do not count."""

    @property
    def n(self) -> int:
        """Number of instances that count in the score."""
        return len(self.scores) + self.n_worst


def distribution_chart(column: Column, models: Sequence[ModelScores], whose: str = "") -> Chart:
    """Return the distribution of scores: a stacked bar per model for scores of 0 and 1, else a histogram.

    Parameters: whose, the models in words, where they may not be all of the benchmark.
    """
    whose = (whose or plural(len(models), "model")).capitalize()
    known = [_finite(one) for one in models]
    distinct = {score for one in known for score in one.scores}
    if distinct <= {column.low, column.high}:
        return _shares_chart(column, known, whose)
    return _histogram_chart(column, known, sorted(distinct), whose)


def _finite(one: ModelScores) -> ModelScores:
    return replace(one, scores=[float(score) for score in one.scores if math.isfinite(score)])


def _shares_chart(column: Column, models: Sequence[ModelScores], whose: str) -> Chart:
    """Return the chart of right, wrong and failed completions."""
    best = column.high if column.higher_is_better else column.low
    counts: list[Counts] = []
    for one in models:
        right = sum(score == best for score in one.scores)
        counts.append((right, len(one.scores) - right, one.n_worst, one.n_failed))
    total = sum(map(sum, counts))
    failed = sum(one.n_worst + one.n_failed for one in models)
    how_many = f"{failed:,}" if failed else "none"
    description = f"{whose}: {plural(total, 'completion')}, {how_many} of them failed."
    if not total:
        description = f"{whose}: no completion has a score."
    table: list[list[Value]] = [[one.model, *count] for one, count in zip(models, counts, strict=True)]
    return Chart(
        name="distribution", title=f"Right, wrong and failed on {short(column.title)}", description=description,
        draw=partial(_draw_shares, models, counts), headers=("model", *KINDS), rows=table, has_data=total > 0,
    )  # fmt: skip


Counts = tuple[int, int, int, int]
"""Number of completions of each of `KINDS`."""

KINDS = ("right", "wrong", "failed, counted as wrong", "no score")
"""Segments of a bar, in order."""

HATCH = 5.0
"""Pixels between the lines of a hatched segment."""


def _segment(kind: str, x: float, y: float, width: float, height: float) -> Markup:
    """Return a segment: filled, pale with an outline, the same hatched, or a dotted outline."""
    if kind == "right":
        return rect(x, y, width, height, **paint("mark"))
    if kind == "no score":
        return rect(x, y, width, height, stroke_dasharray="2 2", **frame_paint())
    box = rect(x, y, width, height, **box_paint())
    return box if kind == "wrong" else box + group("axis", [_hatching(x, y, width, height)])


def _hatching(x: float, y: float, width: float, height: float) -> Markup:
    """Return diagonal lines inside a rectangle."""
    path = []
    for start in np.arange(HATCH - height, width, HATCH).tolist():  # where a line is at the bottom
        left, right = max(start, 0.0), min(start + height, width)
        if right > left:
            ends = (x + left, y + height - (left - start), x + right, y + height - (right - start))
            a, b, c, d = map(coordinate, ends)
            path.append(f"M{a} {b}L{c} {d}")
    return element("path", d="".join(path), fill="none")


def _draw_shares(models: Sequence[ModelScores], counts: Sequence[Counts], width: int) -> Drawing:
    """Draw one stacked bar per model, with a legend above."""
    words = []
    for one, (right, *_) in zip(models, counts, strict=True):
        text = f"{right:,} of {one.n:,} right ({right / one.n:.0%})" if one.n else "none scored"
        words.append(RowText(name=one.model, text=text))
    kinds = [kind for kind, n in zip(KINDS, map(sum, zip(*counts, strict=True)), strict=True) if n]
    layout = lay_out(words, width, top=32.0 if width >= COMPACT else 14.0 + KEY * -(-len(kinds) // 2))
    scale = layout.scale((0.0, 1.0))
    margin = 1 if layout.is_compact else 3
    bars = [
        _stacked(count, scale, top + margin, layout.mark_height - 2 * margin)
        for count, top in zip(counts, layout.tops, strict=True)
        if sum(count)
    ]
    return layout.height, [
        _legend(layout, kinds),
        axis_below(layout, scale, "Share of instances"),
        row_texts(words, layout),
        *bars,
    ]


KEY = 18.0
"""Pixels of a line of the legend."""


def _legend(layout: RowLayout, kinds: Sequence[str]) -> Markup:
    """Return the meaning of the segments, in two columns on narrow pictures."""
    x, y = float(MARGIN), 8.5
    parts = []
    for place, kind in enumerate(kinds):
        parts += [_segment(kind, x, y, 18, 11), group("ink", [label(x + 23, y + 9.5, kind, size=SMALL)])]
        if layout.is_compact:
            x, y = (MARGIN, y + KEY) if place % 2 else (MARGIN + 76, y)
        else:
            x += 40 + text_width(kind, SMALL)
    return Markup("").join(parts)


def _stacked(counts: Counts, scale: LinearScale, top: float, height: float) -> Markup:
    """Return the segments of one bar, with their counts where they fit."""
    parts, done, total = [], 0, sum(counts)
    for kind, count in zip(KINDS, counts, strict=True):
        if not count:
            continue
        start, end = scale(done / total), scale((done + count) / total)
        parts.append(_segment(kind, start + 0.5, top, max(end - start - 1, 0.5), height))
        if end - start > 8 + 7 * len(str(count)) and not kind.startswith("failed"):
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


def _histogram_chart(column: Column, models: Sequence[ModelScores], distinct: Sequence[float], whose: str) -> Chart:
    """Return the chart of histograms."""
    bins = _bins(column, distinct)
    worst = column.low if column.higher_is_better else column.high
    counts = [bins.count([*one.scores, *[worst] * one.n_worst]) for one in models]
    name = column.metric_title or column.metric
    description = f"{whose}: {name} of each instance from {distinct[0]:.3g} to {distinct[-1]:.3g}."
    axis = f"{name} of an instance; {'higher' if column.higher_is_better else 'lower'} is better"
    table: list[list[Value]] = [
        [one.model, number(one.mean), one.n, one.n_worst, one.n_failed, *count]
        for one, count in zip(models, counts, strict=True)
    ]
    return Chart(
        name="distribution", title=f"Distribution of scores on {short(column.title)}", description=description,
        draw=partial(_draw_histograms, models, counts, bins, axis, score_decimals(column)),
        headers=("model", "mean", "n", "counted_as_worst", "no_score", *bins.names), rows=table,
        notes=[
            "Heights are shares of the instances that count in a model's score, on one scale. The vertical line is the "
            "score: failures that the model caused count as the worst one."
        ],
    )  # fmt: skip


def _draw_histograms(
    models: Sequence[ModelScores], counts: Sequence[Sequence[int]], bins: _Bins, axis: str, places: int, width: int
) -> Drawing:
    """Draw one histogram per model below each other."""
    words = []
    for one in models:
        is_scored = one.n and one.mean is not None
        words.append(
            RowText(
                name=one.model, text=f"mean {decimal(one.mean, places)}, n = {one.n:,}" if is_scored else "none scored"
            )
        )
    layout = lay_out(words, width, mark_height=TALL)
    scale = layout.scale(bins.ends)
    highest = max(max(count) / max(sum(count), 1) for count in counts)
    parts = []
    for one, count, top in zip(models, counts, layout.tops, strict=True):
        if one.n and one.mean is not None:
            base = top + layout.mark_height - 2
            parts.append(_histogram(count, bins, scale, base, (layout.mark_height - 8) / highest))
            x = scale(one.mean)
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
    by_model, by_reason = Counter[str](), Counter[str]()
    for one in known:
        by_model[one.model] += one.n
        by_reason[one.reason] += one.n
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


# --- slices -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceSection:
    """The models on a benchmark by the values of one column."""

    found: SlicedBenchmark
    """The models."""
    among: str
    """The models in words; empty if all ranked models of the benchmark are compared."""
    sentences: Sequence[str]
    """Models whose score depends on the slice, and slices that are not shown."""
    table: ShadedTable | None
    """All slices; None where the page has them as subgroups."""

    def end(self, model: SlicedModel, which: str) -> str:
        """Return the slice with its score. `which`: `best` or `worst`."""
        return slice_text(self.found.column, model, which) or MISSING


def benchmark_slices(site: Site, benchmark: str) -> list[SliceSection]:
    """Return the scores of the best ranked models by each column that the definition offers; none without the texts.

    Columns whose values are not stored, because the runs are older, are left out.
    """
    definition = site.definitions.get(benchmark)
    if definition is None or not definition.slice_columns or not site.shows_text_of(benchmark):
        return []

    def read() -> list[SliceSection]:
        ranked = board_of(site, BoardSelection(benchmark=benchmark)).rows
        rows = ranked[:MOST_SUBGROUP_MODELS]
        among = best_of(len(rows), len(ranked), "model") if len(rows) < len(ranked) else ""
        source = SliceSource(definitions=site.definitions)
        found: list[SliceSection] = []
        for one in definition.slice_columns if rows else ():
            try:
                ((sliced,), remarks) = slice_models(
                    site.inputs(),
                    f"{benchmark}{BY_BENCHMARK}{one.column}",
                    source,
                    [benchmark],
                    [row.model for row in rows],
                )
            except (UserError, MissingError):
                continue
            is_group = one.column == definition.group_column
            table = None if is_group else _table(sliced, len(found))
            sentences = [*in_words([sliced], among), *map(str, remarks)]
            found.append(SliceSection(found=sliced, among=among, sentences=sentences, table=table))
        return found

    return site.keep(("slices", benchmark), read)


def model_slices(site: Site, benchmark: str, model: str) -> list[tuple[SliceSection, SlicedModel]]:
    """Return one model on a benchmark by each column."""
    return [(one, own) for one in benchmark_slices(site, benchmark) for own in one.found.models if own.model == model]


def _table(sliced: SlicedBenchmark, number: int) -> ShadedTable:
    """Return all slices of all models. `number`: of the table on its page."""
    means = [
        SubgroupMean(subgroup=score.name, model=one.model, estimate=score.estimate)
        for one in sliced.models
        for score in one.scores
        if score.estimate
    ]
    of_model = {one.model: one.overall.value if one.overall else None for one in sliced.models}
    return subgroups_table(sliced.column, means, of_model, name=f"slices-{number}", title=f"Slices of {sliced.by}")

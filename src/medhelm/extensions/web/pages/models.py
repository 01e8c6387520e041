"""The page of one model: its place, its scores on every benchmark, subgroups, failures, cost, versions and runs."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup

from medhelm.analysis.criteria import CriterionMean, criterion_means
from medhelm.analysis.leaderboard.cells import DECIMALS, Column
from medhelm.analysis.leaderboard.types import Leaderboard, Row, remark_groups
from medhelm.analysis.planned_cost import CompletionUse, pooled_use
from medhelm.domain import Estimate, Run
from medhelm.evaluation.stored_settings import repeating_words
from medhelm.extensions.web.benchmark_charts import model_slices
from medhelm.extensions.web.marks import column_scale, interval_mark
from medhelm.extensions.web.page import Heading, PageRequest, missing_page, sorted_table
from medhelm.extensions.web.pages.leaderboard import ShownScore, marks_of
from medhelm.extensions.web.site import BoardSelection, Site, board_of
from medhelm.io.http.pages import Page, url_key
from medhelm.results.formats.drawing import LinearScale
from medhelm.results.runs.cells import score_details
from medhelm.results.runs.criteria import read_criteria

MOST_WEAKNESSES = 3
"""Most benchmarks named as those where the model is furthest below the best one."""

MOST_NAMED = 40
"""Most models that the page of an unknown one names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkScore(ShownScore):
    """A model on one benchmark, beside the best one."""

    rank: int | None
    """Place of its mean among the models; None for a baseline, and without a score."""
    n_ranked: int
    """Models with a score."""
    best: str
    """The model with the best mean; empty if it is this one, or shares its mean."""
    gap: float | None
    """Its mean minus the best one, on a scale from 0 (worst) to 1 (best); None without a score."""

    @property
    def use(self) -> CompletionUse | None:
        """Tokens and time of a completion; None if unknown."""
        return pooled_use([self.cell.use], self.cell.cost_usd)

    def picture(self, scale: LinearScale) -> Markup:
        """Return the interval on a scale from 0 (worst) to 1 (best)."""
        found, share = self.cell.estimate, self.column.normalize
        if self.cell.value is None:
            return Markup("")
        low, high = sorted((share(found.low), share(found.high))) if found else (None, None)
        return interval_mark(share(self.cell.value), low, high, scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubgroupScore:
    """A model on one subgroup of a benchmark."""

    column: Column
    """The benchmark."""
    name: str
    """Name of the subgroup."""
    estimate: Estimate
    """The mean in the metric's own unit."""
    gap: float
    """The mean minus that on all instances, on a scale from 0 (worst) to 1 (best)."""


def page(site: Site, request: PageRequest) -> Page:
    """Return the page of a model of the store."""
    board, key = board_of(site, BoardSelection()), request.text("model")
    rows = {url_key(row.model): row for row in board.all_rows}
    row = rows.get(key)
    if row is None:
        known = [(one.model, request.links.to("model", {"model": name})) for name, one in list(rows.items())]
        return missing_page(f"The store has no model `{key[:80]}` with a score.", known[:MOST_NAMED])
    scores = scores_of(site, board, row)
    runs = [one.run for one in scores if one.run]
    values = {
        "board": board,
        "row": row,
        "marks": marks_of(row, runs),
        "address": "" if request.is_static else site.address_of(row.model),
        "average": board.ranking_average(row) if row.rank is not None else row.macro_average,
        "missing_titles": [column.title for column in board.columns if column.benchmark not in row.cells],
        "table": sorted_table(request, HEADINGS, scores, default="benchmark"),
        "scale": column_scale([]),
        "weaknesses": weaknesses(scores),
        "subgroups": site.keep(("subgroups of model", row.model), partial(_subgroups, site, scores)),
        "criteria": site.keep(("criteria of model", row.model), partial(_criteria, site, scores)),
        "slices": [
            (found, own) for one in scores for found, own in model_slices(site, one.column.benchmark, row.model)
        ],
        "failures": _failures(scores),
        "use": row.use,
        "versions": sum((Counter(run.snapshots) for run in runs), Counter()),
        "days": sorted({day for run in runs for day in run.completion_days}),
        "judges": sorted({site.names.get(judge.name, judge.name) for run in runs for judge in run.judges}),
        "commands": {} if request.is_static else {run.benchmark: command_of(run) for run in runs},
        "remarks": remark_groups(board).models.get(row.model, ()),
    }
    return Page(template="model.html", title=row.model, values=values)


HEADINGS: list[Heading[BenchmarkScore]] = [
    Heading(key="benchmark", title="Benchmark", sort=lambda one: one.column.title.lower(), best_first=False,
            is_number=False),
    Heading(key="metric", title="Metric", sort=lambda one: one.column.metric_title.lower(), best_first=False,
            is_number=False),
    Heading(key="score", title="Score", note="95% interval, from worst to best",
            sort=lambda one: None if one.cell.value is None else float(one.column.normalize(one.cell.value))),
    Heading(key="rank", title="Rank", sort=lambda one: one.rank, best_first=False),
    Heading(key="gap", title="Against the best", note="on a scale of 0 to 1", sort=lambda one: one.gap),
    Heading(key="instances", title="Cases", sort=lambda one: one.n),
    Heading(key="failures", title="Failures", sort=lambda one: one.cell.n_failed),
    Heading(key="cost", title="Cost", sort=lambda one: one.cell.cost_usd, best_first=False),
    Heading(key="seconds", title="Seconds", note="median", best_first=False,
            sort=lambda one: one.use.seconds if one.use else None),
    Heading(key="tokens", title="Tokens", note="in and out, per completion", best_first=False,
            sort=lambda one: one.use.tokens if one.use else None),
]  # fmt: skip
"""Columns of the table of benchmarks."""


def scores_of(site: Site, board: Leaderboard, row: Row) -> list[BenchmarkScore]:
    """Return the scores of a model, in the order of the leaderboard's benchmarks."""
    runs = site.inputs().runs
    found = []
    for column in board.columns:
        cell = row.cells.get(column.benchmark)
        if cell is None:
            continue
        shares = {
            other.model: round(float(column.normalize(theirs.value)), DECIMALS)
            for other in board.rows
            if (theirs := other.cells.get(column.benchmark)) is not None and theirs.value is not None
        }
        own = None if cell.value is None else round(float(column.normalize(cell.value)), DECIMALS)
        best = max(shares, key=lambda model: shares[model], default="")
        is_ranked = own is not None and row.rank is not None
        found.append(
            BenchmarkScore(
                column=column,
                cell=cell,
                run=runs.get((row.model, column.benchmark)),
                rank=1 + sum(share > own for share in shares.values()) if is_ranked and own is not None else None,
                n_ranked=len(shares),
                best="" if not best or own is None or own >= shares[best] else best,
                gap=None if own is None or not best else own - shares[best],
            )
        )
    return found


def weaknesses(scores: Sequence[BenchmarkScore]) -> list[BenchmarkScore]:
    """Return the benchmarks on which the model is furthest below the best one, the largest gap first."""
    below = [one for one in scores if one.gap is not None and one.gap < 0]
    return sorted(below, key=lambda one: one.gap or 0.0)[:MOST_WEAKNESSES]


def _subgroups(site: Site, scores: Sequence[BenchmarkScore]) -> list[SubgroupScore]:
    """Return the subgroups of the benchmarks whose texts may be shown: names of subgroups are texts of the data."""
    found = []
    for one in scores:
        if one.run is None or not one.run.groups or not site.shows_text_of(one.column.benchmark):
            continue
        for _, details in score_details([one.run], one.column, site.rule):
            for name, mean in details.subgroups.items():
                if mean is not None and one.cell.value is not None:
                    gap = float(one.column.normalize(mean.value) - one.column.normalize(one.cell.value))
                    found.append(SubgroupScore(column=one.column, name=name, estimate=mean, gap=gap))
    return found


def _criteria(site: Site, scores: Sequence[BenchmarkScore]) -> list[CriterionMean]:
    """Return the mean grades on the criteria of the judged benchmarks; none by another rule than the corrected one."""
    if site.rule != "corrected":
        return []
    columns = {one.column.benchmark: one.column for one in scores}
    cells = read_criteria([one.cell for one in scores], site.inputs().runs)
    return [mean for cell in cells for mean in criterion_means(cell, columns[cell.benchmark])]


def _failures(scores: Sequence[BenchmarkScore]) -> list[tuple[str, int, list[tuple[Column, int]]]]:
    """Return the failures by reason, most first: reason, number, and number by benchmark."""
    by_reason: dict[str, list[tuple[Column, int]]] = {}
    for one in scores:
        for reason, n in one.run.failures.items() if one.run else ():
            by_reason.setdefault(reason, []).append((one.column, n))
    totals = [(reason, sum(n for _, n in places), places) for reason, places in by_reason.items()]
    return sorted(totals, key=lambda found: (-found[1], found[0]))


def command_of(run: Run) -> str:
    """Return the command that makes the same measurement again."""
    return shlex.join(["medhelm", "run", run.benchmark, "--model", run.model_name, *repeating_words(run)])

"""Remarks on a leaderboard: what limits the comparison, and which differences are significant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from medhelm.analysis.comparison.all_pairs import MOST_MODELS
from medhelm.analysis.leaderboard.cells import Column
from medhelm.analysis.leaderboard.constant_answers import constant_answer_remarks
from medhelm.analysis.leaderboard.rival_panel import panel_remarks
from medhelm.analysis.leaderboard.types import IntervalUnit, Leaderboard, Row
from medhelm.domain.remark import Remark
from medhelm.domain.text import plural

NAMES = 5
"""Most names written out in one sentence."""

SAMPLE_TIER = Remark(
    code="sample_tier",
    subject="",
    text="Sample tier: each benchmark has a few invented rows, which say nothing about real performance.",
)
"""Comes first wherever numbers are made from sample rows."""

WIN_RATE = Remark(
    code="win_rate_is_descriptive",
    subject="",
    text="A win rate counts every difference, however small, and depends on the other models: adding or dropping "
    "a model can reverse the win rates of two others.",
)
"""Says how far a win rate can be trusted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemarkContext:
    """Findings from building a leaderboard that are not part of it."""

    absent: Sequence[str]
    """Requested benchmarks without a result."""
    only_baselines: Sequence[str]
    """Requested benchmarks that only baselines have, which do not compete."""
    not_shared: Sequence[str]
    """Benchmarks that were left out because some model has no value on them."""
    different_instances: Sequence[str]
    """Benchmarks on which models were run on different instances."""
    single_instance: Sequence[str]
    """Benchmarks with one independent instance."""


def all_remarks(board: Leaderboard, context: RemarkContext) -> Iterator[Remark]:
    """Yield remarks on a board whose rows are in order of rank, the most limiting first."""
    rows, columns = board.rows, board.columns
    if board.tier == "sample":
        yield SAMPLE_TIER
    if not rows:
        yield Remark("no_results", "", "There is nothing to rank: none of the requested benchmarks has a result.")
        return
    if context.absent:
        count = len(context.absent) + len(context.only_baselines) + len(columns) + len(context.not_shared)
        text = f"{len(context.absent)} of {count} requested benchmarks have no result: {_names(context.absent)}."
        yield Remark("benchmarks_without_result", "", text)
    if context.only_baselines:
        verb = "is" if len(context.only_baselines) == 1 else "are"
        text = f"Only baselines were run on {_names(context.only_baselines)}, which {verb} not counted."
        yield Remark("only_baselines", "", f"{text} --rank-baselines counts them.")
    if context.not_shared:
        count = len(context.not_shared) + len(columns)
        text = f"Only the {len(columns)} of {count} benchmarks on which every model has a value are counted."
        yield Remark("benchmarks_not_shared", "", f"{text} Left out: {_names(context.not_shared)}.")
    if all(row.n_benchmarks == 0 for row in rows):
        text = "No model has a value on any benchmark: every instance failed or could not be scored."
        yield Remark("no_values", "", text)
        yield from _failures(board)
        return
    yield from _coverage(board)
    yield from panel_remarks(board)
    yield from _instances(context)
    yield from _failures(board)
    yield from constant_answer_remarks(board)
    yield from _weights(columns)
    yield from _size(board)
    if board.pairs is not None:
        yield from _significance(board)
        yield from _ties(rows)
    elif len(rows) > MOST_MODELS:
        text = f"More than {MOST_MODELS:,} models are not tested against each other: ranks have no ties and no ranges."
        yield Remark("too_many_models", "", text)
    yield _interval_basis(board)
    if len(rows) > 2 and len(columns) > 1 and board.panel is None:
        yield WIN_RATE


def _coverage(board: Leaderboard) -> Iterator[Remark]:
    """Yield models without a value on some benchmarks, and benchmarks with a value of one model or none."""
    rows, columns = board.rows, board.columns
    having = {c.benchmark: [row.model for row in rows if _has_value(row, c.benchmark)] for c in columns}
    for row in rows:
        lacking = [name for name, models in having.items() if models and row.model not in models]
        if not lacking:
            continue
        text = (
            f"{row.model} has a value on {row.n_benchmarks} of {len(columns)} benchmarks, so its averages cover "
            f"different benchmarks than those of other models. Missing: {_names(lacking)}."
        )
        by, own = board.ranked_by, board.ranking_average(row)
        guarded = row.guarded_win_share if by == "win share" else row.guarded_win_rate
        if guarded is not None and by != "mean score":
            rate = f"not its {by} ({own.value:.3f})" if own else f"it has no {by}"
            text += f" Missing benchmarks count as losses in its rank (guarded {by} {guarded:.3f}, {rate})."
        yield Remark("model_lacks_benchmarks", row.model, text)
    fewer = [row for row in board.baselines if any(not _has_value(row, name) for name in having if having[name])]
    if fewer:
        counts = sorted({row.n_benchmarks for row in fewer})
        spread = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        text = (
            f"Averages of {_names([row.model for row in fewer])} are over {spread} of {len(columns)} benchmarks: "
            "do not compare them with those of models."
        )
        yield Remark("baseline_lacks_benchmarks", "", text)
    if unscored := [name for name, models in having.items() if not models]:
        verb = "is not counted" if len(unscored) == 1 else "are not counted"
        text = f"No model has a value on {_names(unscored)}, which {verb}."
        yield Remark("benchmarks_without_values", "", text)
    if len(rows) == 1:
        return
    alone: dict[str, list[str]] = {}
    for name, models in having.items():
        if len(models) == 1 and (board.panel is None or models[0] in board.panel):
            alone.setdefault(models[0], []).append(name)
    for model, names in alone.items():
        text = (
            f"Only {model} has a value on {_names(names)}. That counts as a win in its rank, but not in its "
            f"{board.ranked_by}. Use --shared to leave such benchmarks out."
        )
        yield Remark("only_one_model", model, text)


def _has_value(row: Row, benchmark: str) -> bool:
    """Return whether a model has a value on a benchmark."""
    return benchmark in row.cells and row.cells[benchmark].value is not None


def _instances(context: RemarkContext) -> Iterator[Remark]:
    """Yield benchmarks on which models were run on different instances, or on a single one."""
    if context.different_instances:
        text = f"Models were run on different instances of {_names(context.different_instances)}."
        yield Remark("different_instances", "", text)
    if context.single_instance:
        text = f"Only one independent instance: {_names(context.single_instance)}."
        text += " Differences there cannot be significant."
        yield Remark("single_instance", "", text)


def _weights(columns: Sequence[Column]) -> Iterator[Remark]:
    """Yield a remark if some benchmarks count more than others."""
    weights = sorted(column.weight for column in columns)
    if weights[0] < weights[-1]:
        text = (
            f"The suite weights benchmarks between {weights[0]:g} and {weights[-1]:g}, so averages differ from those "
            "of unweighted tables."
        )
        yield Remark("weighted_benchmarks", "", text)


def _size(board: Leaderboard) -> Iterator[Remark]:
    """Yield a remark if there is a single model or a single benchmark."""
    if len(board.rows) == 1:
        yield Remark("one_model", board.rows[0].model, "There is one model: win rates need at least two.")
    elif len(board.columns) == 1:
        text = "There is one benchmark: these ranks do not generalize to other tasks."
        yield Remark("one_benchmark", board.columns[0].benchmark, text)


NULL_HYPOTHESES: Mapping[IntervalUnit, str] = {
    "instances within benchmarks": (
        "Tests ask whether, on each question, each of two models could just as well have given the other's answer."
    ),
    "benchmarks": (
        "Tests ask whether, on each benchmark, each of two models could just as well have had the other's score."
    ),
}
"""Unit of tests -> what they test."""


def _interval_basis(board: Leaderboard) -> Remark:
    """Return a remark on what the intervals of averages and ranks are about."""
    match board.interval_method:
        case "nothing":
            text = (
                "Nothing was tested, so intervals and the significance of ranks are unknown; all failures are left out."
            )
        case "benchmarks" if any(cell.scores is None for row in board.rows for cell in row.cells.values()):
            text = (
                "Instance scores are not known for all results, so intervals and tests reflect the choice of "
                "benchmarks, not the choice of questions."
            )
        case "benchmarks":
            text = "Intervals and tests reflect the choice of benchmarks, not the choice of questions."
        case "instances within benchmarks":
            judged = ", not errors of the judges" if any(column.judges for column in board.columns) else ""
            text = f"Intervals and tests reflect the choice of questions on these benchmarks{judged}."
            text += _wider_interval(board)
    if board.pairs is not None:
        text += f" {NULL_HYPOTHESES[board.interval_method]}"
    return Remark("interval_basis", "", text)


def _wider_interval(board: Leaderboard) -> str:
    """Return a sentence on how uncertain the first model is if other benchmarks are meant; empty for one benchmark."""
    first = board.rows[0]
    here, wider = first.macro_average, first.macro_over_benchmarks
    if wider is None or wider.low is None or wider.high is None or here is None or here.low is None:
        return ""
    low, high = here.low, here.high or here.value
    return (
        f" For other benchmarks of the same kind the interval of {first.model}'s macro average ({here.value:.3f}) is "
        f"[{wider.low:.3f}, {wider.high:.3f}] instead of [{low:.3f}, {high:.3f}]."
    )


def _failures(board: Leaderboard) -> Iterator[Remark]:
    """Yield models with failed instances, and the rank they could fall to."""
    for row in board.rows:
        caused = {name: cell.n_failed_by_model for name, cell in row.cells.items() if cell.n_failed_by_model}
        if caused:
            failures = plural(sum(caused.values()), "refusal or exhausted limit", "refusals or exhausted limits")
            text = f"{row.model}: {failures} counted as the worst answer, on {_names(list(caused))}."
            yield Remark("failures_counted_as_worst", row.model, text)
        missing = {
            name: cell.n_failed - cell.n_failed_by_model
            for name, cell in row.cells.items()
            if cell.n_failed and cell.n_failed > cell.n_failed_by_model
        }
        if not missing:
            continue
        instances = plural(sum(missing.values()), "instance")
        text = f"{row.model}: {instances} without a score, left out of its means, on {_names(list(missing))}."
        if row.rank_bounds and row.rank is not None and row.rank_bounds[1] > row.rank:
            text += f" With the worst score for each, its rank would fall from {row.rank} to {row.rank_bounds[1]}."
        yield Remark("instances_without_score", row.model, text)


def _significance(board: Leaderboard) -> Iterator[Remark]:
    """Yield how many pairs of models are separated, and what that means."""
    pairs = len(board.rows) * (len(board.rows) - 1) // 2
    if pairs > 1:
        separated = 0 if board.pairs is None else int(board.pairs.is_separated.sum())
        text = (
            f"{separated:,} of {pairs:,} pairs of models differ significantly by {board.tested_by}, with "
            "Holm correction: if all models were equal, the chance of even one such finding would be at most 5%."
        )
        yield Remark("significant_pairs", "", text)


def _ties(rows: Sequence[Row]) -> Iterator[Remark]:
    """Yield models that cannot be separated from a better one."""
    first = 1
    for _, group in groupby(rows, key=lambda row: row.tie_group):
        members = [row.model for row in group]
        last = first + len(members) - 1
        if len(members) > 1:
            others = f"Row {last}" if len(members) == 2 else f"Rows {first + 1} to {last}"
            text = f"{others} cannot be separated from row {first} ({members[0]}): {', '.join(members[1:])}."
            yield Remark("tie_group", members[0], text)
        first = last + 1


def _names(names: Sequence[str], most: int = NAMES) -> str:
    """Join names with commas, cut after `most`."""
    text = ", ".join(names[:most])
    return text if len(names) <= most else f"{text} and {len(names) - most} more"

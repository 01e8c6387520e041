"""Remarks on a leaderboard: what limits the comparison, and which differences are significant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from medhelm.analysis.leaderboard.types import Column, Leaderboard, Row
from medhelm.domain import Remark

NAMES = 5
"""Most names written out in one sentence."""

LONGEST_ANSWER = 30
"""Characters of a constant answer that are shown."""

SAMPLE_TIER = Remark(
    code="sample_tier",
    subject="",
    text="Sample tier: these are a few invented rows per benchmark; they say nothing about real performance.",
)
"""Comes first wherever numbers are made from sample rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemarkContext:
    """Findings from building a leaderboard that are not part of it."""

    absent: Sequence[str]
    """Requested benchmarks without a result."""
    not_shared: Sequence[str]
    """Benchmarks that were left out because some model has no value on them."""
    differing: Sequence[str]
    """Benchmarks on which models were run on different instances."""
    single: Sequence[str]
    """Benchmarks with one independent instance."""
    if_failures_were_worst: Mapping[str, int]
    """Model -> its rank if failed instances had the worst score; only for models with failures."""
    draws: int
    """Number of bootstrap resamples."""


def all_remarks(board: Leaderboard, context: RemarkContext) -> Iterator[Remark]:
    """Yield remarks on a board whose rows are in order of rank, the most limiting first."""
    rows, columns = board.rows, board.columns
    if board.tier == "sample":
        yield SAMPLE_TIER
    if not rows:
        yield Remark("no_results", "", "There is nothing to rank: none of the requested benchmarks has a result.")
        return
    if context.absent:
        count = len(context.absent) + len(columns) + len(context.not_shared)
        text = f"{len(context.absent)} of {count} requested benchmarks have no result: {_names(context.absent)}."
        yield Remark("benchmarks_without_result", "", text)
    if context.not_shared:
        count = len(context.not_shared) + len(columns)
        text = f"Only the {len(columns)} of {count} benchmarks on which every model has a value are counted."
        yield Remark("benchmarks_not_shared", "", f"{text} Left out: {_names(context.not_shared)}.")
    if all(row.n_benchmarks == 0 for row in rows):
        text = "No model has a value on any benchmark: every instance failed or could not be scored."
        yield Remark("no_values", "", text)
        yield from _failures(board, context)
        return
    yield from _coverage(board)
    yield from _instances(context)
    yield from _failures(board, context)
    yield from _constant_baselines(rows, columns)
    yield from _weights(columns)
    yield from _size(board)
    if len(rows) > 1 and board.interval_method != "nothing":
        yield from _significance(board)
        yield from _ties(rows)
    yield _interval_basis(board, context.draws)


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
        if row.guarded_win_rate is not None:
            rate = f"not its win rate ({row.win_rate.value:.3f})" if row.win_rate else "it has no win rate"
            text += f" Missing benchmarks count as losses in its rank (guarded win rate {row.guarded_win_rate:.3f}, "
            text += f"{rate})."
        yield Remark("model_lacks_benchmarks", row.model, text)
    if unscored := [name for name, models in having.items() if not models]:
        verb = "is not counted" if len(unscored) == 1 else "are not counted"
        text = f"No model has a value on {_names(unscored)}, which {verb}."
        yield Remark("benchmarks_without_values", "", text)
    if len(rows) == 1:
        return
    alone: dict[str, list[str]] = {}
    for name, models in having.items():
        if len(models) == 1:
            alone.setdefault(models[0], []).append(name)
    for model, names in alone.items():
        text = (
            f"Only {model} has a value on {_names(names)}. That counts as a win in its rank, but not in its win rate. "
            "Use --shared to leave such benchmarks out."
        )
        yield Remark("only_one_model", model, text)


def _has_value(row: Row, benchmark: str) -> bool:
    """Return whether a model has a value on a benchmark."""
    return benchmark in row.cells and row.cells[benchmark].value is not None


def _instances(context: RemarkContext) -> Iterator[Remark]:
    """Yield benchmarks on which models were run on different instances, or on a single one."""
    if context.differing:
        text = f"Models were run on different instances of {_names(context.differing)}."
        yield Remark("different_instances", "", text)
    if context.single:
        text = f"Only one independent instance: {_names(context.single)}. Differences there cannot be significant."
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


def _interval_basis(board: Leaderboard, draws: int) -> Remark:
    """Return a remark on the source of the intervals of averages and ranks."""
    match board.interval_method:
        case "nothing":
            text = "Nothing was resampled, so intervals and the significance of ranks are unknown."
        case "benchmarks" if any(cell.scores is None for row in board.rows for cell in row.cells.values()):
            text = (
                "Instance scores are not known for all results, so intervals of averages and ranks reflect the choice "
                "of benchmarks, not the choice of questions."
            )
        case "benchmarks":
            text = (
                f"Intervals of averages and ranks are from {draws:,} bootstrap resamples of the benchmarks: they "
                "reflect the choice of benchmarks, not the choice of questions."
            )
        case "instances within benchmarks":
            text = (
                f"Intervals of averages and ranks are from {draws:,} bootstrap resamples of the instances in each "
                "benchmark; they do not include errors of the judges."
            )
    return Remark("interval_basis", "", text)


def _failures(board: Leaderboard, context: RemarkContext) -> Iterator[Remark]:
    """Yield models with unscored instances, and the rank they could fall to."""
    for row in board.rows:
        failed = [name for name, cell in row.cells.items() if cell.n_failed]
        if not failed:
            continue
        count = sum(row.cells[name].n_failed or 0 for name in failed)
        instances = "1 instance" if count == 1 else f"{count} instances"
        text = f"{row.model}: {instances} without a score, left out of its means, on {_names(failed)}."
        worst = context.if_failures_were_worst.get(row.model, row.rank)
        if worst > row.rank:
            text += f" With the worst score for each, its rank would fall from {row.rank} to {worst}."
        yield Remark("instances_without_score", row.model, text)


def _constant_baselines(rows: Sequence[Row], columns: Sequence[Column]) -> Iterator[Remark]:
    """Yield benchmarks on which always giving one answer does as well as all models, or as some."""
    none: list[str] = []
    some: list[str] = []
    for column in columns:
        if column.constant_baseline is None:
            continue
        values = [row.cells[column.benchmark].value for row in rows if column.benchmark in row.cells]
        known = [column.normalize(value) for value in values if value is not None]
        above = sum(value > column.normalize(column.constant_baseline) for value in known)
        if known and above < len(known):
            answer = " ".join(column.constant_answer.split())
            shown = answer if len(answer) <= LONGEST_ANSWER else answer[:LONGEST_ANSWER] + "..."
            (some if above else none).append(f"{column.title} (`{shown}`: {column.constant_baseline:.3f})")
    if none:
        text = f"No model beats a constant answer on {_names(none)}."
        yield Remark("constant_baseline_not_beaten", "", text)
    if some:
        text = f"Only some models beat a constant answer on {_names(some)}."
        yield Remark("constant_baseline_partly_beaten", "", text)


def _significance(board: Leaderboard) -> Iterator[Remark]:
    """Yield how many pairs of models have significantly different win rates."""
    rows, significant = board.rows, board.significant_pairs
    pairs = len(rows) * (len(rows) - 1) // 2
    adjacent = sum((a.model, b.model) in significant for a, b in pairwise(rows))
    text = f"Win rates differ significantly for {len(significant)} of {pairs} pair{'s' * (pairs > 1)} of models"
    if pairs > 1 and significant:
        text += f" ({len(board.significant_pairs_adjusted)} after Holm correction)"
    if pairs > 1:
        text += f" and for {adjacent} of {len(rows) - 1} pairs that are adjacent in rank"
    yield Remark("significant_pairs", "", f"{text}.")
    if len({row.guarded_win_rate for row in rows}) == 1:
        text = "All models have the same guarded win rate, which decides the rank: they are tied."
        yield Remark("all_tied", "", text)


def _ties(rows: Sequence[Row]) -> Iterator[Remark]:
    """Yield models that cannot be separated from a better one, and how certain the ranks are."""
    first = 1
    for _, group in groupby(rows, key=lambda row: row.tie_group):
        members = [row.model for row in group]
        last = first + len(members) - 1
        if len(members) > 1:
            text = f"Rows {first} to {last} cannot be separated from row {first}: {_names(members, len(members))}."
            yield Remark("tie_group", members[0], text)
        first = last + 1
    if len(rows) < 3:
        return
    sure = [row.model for row in rows if row.rank_low == row.rank_high]
    widest = max(rows, key=lambda row: (row.rank_high or 0) - (row.rank_low or 0))
    verb = "has" if len(sure) == 1 else "have"
    text = f"{len(sure)} of {len(rows)} models {verb} an unambiguous rank (95% interval)"
    if widest.rank_low != widest.rank_high:
        text += f"; the widest interval is that of {widest.model}, from {widest.rank_low} to {widest.rank_high}"
    yield Remark("rank_certainty", "", f"{text}.")


def _names(names: Sequence[str], most: int = NAMES) -> str:
    """Join names with commas, cut after `most`."""
    text = ", ".join(names[:most])
    return text if len(names) <= most else f"{text} and {len(names) - most} more"

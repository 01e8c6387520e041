"""What a reader of a leaderboard must know, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from medhelm.analysis.leaderboard.types import Column, Leaderboard, Row

NAMES = 5
"""Most names written out in one sentence."""

LONGEST_ANSWER = 30
"""Characters of a constant answer that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemarkContext:
    """What was found on the way to a leaderboard and does not stand on it."""

    absent: Sequence[str]
    """Benchmarks that were asked for but have no result."""
    not_shared: Sequence[str]
    """Benchmarks that were left out because some model lacks them."""
    differing: Sequence[str]
    """Benchmarks on which models were asked different instances."""
    single: Sequence[str]
    """Benchmarks with one independent instance."""
    if_failures_were_worst: Mapping[str, int]
    """Model -> the place that it would have then; only for models with failures."""
    draws: int
    """How often averages were drawn anew."""


def all_remarks(board: Leaderboard, context: RemarkContext) -> Iterator[str]:
    """Yield sentences on a board whose rows stand in order of rank, the most limiting first."""
    rows, columns = board.rows, board.columns
    if board.tier == "sample":
        yield "Sample tier: these are a few invented rows per benchmark; they say nothing about real performance."
    if not rows:
        yield "There is nothing to rank yet: no result on any of the benchmarks asked for."
        return
    if context.absent:
        count = len(context.absent) + len(columns) + len(context.not_shared)
        yield f"{len(context.absent)} of {count} benchmarks asked for have no result: {_names(context.absent)}."
    if context.not_shared:
        count = len(context.not_shared) + len(columns)
        yield (
            f"Only the {len(columns)} of {count} benchmarks on which every model has a value count. "
            f"Left out: {_names(context.not_shared)}."
        )
    if all(row.n_benchmarks == 0 for row in rows):
        yield "No model has a value on any benchmark: every instance failed, or could not be scored."
        yield from _failures(board, context)
        return
    yield from _coverage(board)
    yield from _instances(context)
    yield from _failures(board, context)
    yield from _constant_baselines(rows, columns)
    yield from _weights(columns)
    yield from _size(board)
    if len(rows) > 1 and board.interval_method != "nothing":
        yield from _ties(board)
    yield from _drawn(board, context.draws)


def _coverage(board: Leaderboard) -> Iterator[str]:
    """Who was not run on everything, and on what only one was run."""
    rows, columns = board.rows, board.columns
    having = {c.benchmark: [row.model for row in rows if _has(row, c.benchmark)] for c in columns}
    for row in rows:
        lacking = [name for name, models in having.items() if models and row.model not in models]
        if not lacking:
            continue
        text = (
            f"{row.model} has a value on {row.n_benchmarks} of {len(columns)} benchmarks, so its averages are over "
            f"other benchmarks than its rivals'. Missing: {_names(lacking)}."
        )
        if row.guarded_win_rate is not None:
            rate = f"{row.win_rate.value:.3f}" if row.win_rate else "none"
            text += f" Its rank counts them as lost: {row.guarded_win_rate:.3f} instead of its win rate, {rate}."
        yield text
    if nobody := [name for name, models in having.items() if not models]:
        yield f"No model has a value on {_names(nobody)}: it counts for nobody."
    if len(rows) == 1:
        return
    alone: dict[str, list[str]] = {}
    for name, models in having.items():
        if len(models) == 1:
            alone.setdefault(models[0], []).append(name)
    for model, names in alone.items():
        yield (
            f"Only {model} has a value on {_names(names)}: in its win rate they do not count, in its rank they count "
            "as won. --shared leaves them out."
        )


def _has(row: Row, benchmark: str) -> bool:
    """Whether a model has a value on a benchmark."""
    return benchmark in row.cells and row.cells[benchmark].value is not None


def _instances(context: RemarkContext) -> Iterator[str]:
    """Where models answered different questions, or too few."""
    if context.differing:
        yield f"Models were asked different instances of {_names(context.differing)}."
    if context.single:
        yield f"There is only one independent instance of {_names(context.single)}: it counts, but proves nothing."


def _weights(columns: Sequence[Column]) -> Iterator[str]:
    """Whether some benchmarks count more than others."""
    weights = sorted(column.weight for column in columns)
    if weights[0] < weights[-1]:
        yield (
            f"Benchmarks count differently: the suite gives them weights between {weights[0]:g} and {weights[-1]:g}, "
            "so these averages are not those of tables without weights."
        )


def _size(board: Leaderboard) -> Iterator[str]:
    """What a single model or a single benchmark cannot tell."""
    if len(board.rows) == 1:
        yield "There is one model: without a rival there is no win rate, and nothing to tell apart."
    elif len(board.columns) == 1:
        yield "There is one benchmark: these ranks say nothing of other tasks."


def _drawn(board: Leaderboard, draws: int) -> Iterator[str]:
    """What the intervals of averages and ranks are about."""
    match board.interval_method:
        case "nothing":
            yield "Nothing was resampled: there are no intervals, and nobody knows which of these ranks mean anything."
        case "benchmarks" if any(cell.scores is None for row in board.rows for cell in row.cells.values()):
            yield (
                "Single scores are not known for all results, so intervals of averages and ranks tell how much the "
                "choice of benchmarks matters, not the choice of questions."
            )
        case "benchmarks":
            yield (
                f"Intervals of averages and ranks come from {draws:,} draws of benchmarks: they tell how much the "
                "choice of benchmarks matters, not the choice of questions."
            )
        case "instances within benchmarks":
            yield (
                f"Intervals of averages and ranks come from {draws:,} draws of instances within each benchmark: they "
                "tell what other questions of the same kind would give."
            )


def _failures(board: Leaderboard, context: RemarkContext) -> Iterator[str]:
    """Who has instances without a score, and whose place could rest on that."""
    for row in board.rows:
        failed = [name for name, cell in row.cells.items() if cell.n_failed]
        if not failed:
            continue
        count = sum(row.cells[name].n_failed or 0 for name in failed)
        text = f"{row.model}: {count} instances without a score, left out of its means, on {_names(failed)}."
        worst = context.if_failures_were_worst.get(row.model, row.rank)
        if worst > row.rank:
            text += f" Counted as worst answers, they would take it from place {row.rank} to {worst}."
        yield text


def _constant_baselines(rows: Sequence[Row], columns: Sequence[Column]) -> Iterator[str]:
    """Where a constant answer does as well as all models, or as some."""
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
        yield f"No model does better than the same answer to every question on {_names(none)}."
    if some:
        yield f"Only some models do better than the same answer to every question on {_names(some)}."


def _ties(board: Leaderboard) -> Iterator[str]:
    """What can and cannot be told apart."""
    rows, significant_pairs = board.rows, board.significant_pairs
    neighbours = sum((a.model, b.model) in significant_pairs for a, b in pairwise(rows))
    pairs = len(rows) * (len(rows) - 1) // 2
    found = f"{len(significant_pairs)} of {pairs} pairs of models can be told apart by their win rates"
    if pairs > 1 and significant_pairs:
        kept = len(board.significant_pairs_adjusted)
        which = "all" if kept == len(significant_pairs) else str(kept or "none")
        found += f", {which} of them after Holm's adjustment for the number of pairs"
    yield f"{found}, and {neighbours} of {len(rows) - 1} neighbours in rank."
    if len({row.guarded_win_rate for row in rows}) == 1:
        yield "All models have the same win rate: there is no order among them."
    first = 1
    for _, group in groupby(rows, key=lambda row: row.tie_group):
        members = [row.model for row in group]
        last = first + len(members) - 1
        if len(members) > 1:
            yield f"Places {first} to {last} cannot be told apart from place {first}: {_names(members, len(members))}."
        first = last + 1
    sure = [row.model for row in rows if row.rank_low == row.rank_high]
    widest = max(rows, key=lambda row: (row.rank_high or 0) - (row.rank_low or 0))
    if len(rows) > 2:
        text = f"The place of {len(sure)} of {len(rows)} models is certain at the 95 % level"
        if widest.rank_low != widest.rank_high:
            text += f"; least of all that of {widest.model}, anywhere from {widest.rank_low} to {widest.rank_high}"
        yield f"{text}."


def _names(names: Sequence[str], most: int = NAMES) -> str:
    """Names in a row, cut after `most`."""
    text = ", ".join(names[:most])
    return text if len(names) <= most else f"{text} and {len(names) - most} more"

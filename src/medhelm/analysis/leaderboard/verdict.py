"""The verdict of a leaderboard in a few sentences: leaders, models that cannot be separated from them, and costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from medhelm.analysis.leaderboard.remarks import beats_constant_answer
from medhelm.analysis.leaderboard.types import Leaderboard, Row

SAMPLE_ROWS = "These are invented sample rows, no measure of real performance."
"""First sentence on results of the sample tier."""

NAMES = 5
"""Most names written out in one sentence."""


def verdict(board: Leaderboard) -> list[str]:
    """Return what a decision-maker needs first. Every sentence follows from the tests behind the table."""
    rows = board.rows
    if not rows or all(row.n_benchmarks == 0 for row in rows):
        return []
    found = [] if board.tier == "real" else [SAMPLE_ROWS]
    found += [] if len(rows) == 1 else _leaders(board)
    found += _constant_answers(board)
    if len(rows) > 1:
        found += _costs(board)
    return found


def leaders(board: Leaderboard) -> list[Row]:
    """Return the first rows of equal rank."""
    return list(takewhile(lambda row: row.rank == board.rows[0].rank, board.rows))


def inseparable(board: Leaderboard) -> list[Row]:
    """Return the models that share no rank with the leader and do not differ significantly from it."""
    first, apart = board.rows[0].model, board.separated
    rest = board.rows[len(leaders(board)) :]
    return [row for row in rest if not apart & {(first, row.model), (row.model, first)}]


def _leaders(board: Leaderboard) -> Iterator[str]:
    """Yield who leads, and who cannot be separated from the leader."""
    first, rest = leaders(board), inseparable(board)
    if board.pairs is None:
        return
    value = _ranking_value(board, first[0])
    against = " against the panel" if board.panel and board.ranked_by != "mean score" else ""
    number = f"{board.ranked_by}{against}" + ("" if value is None else f" {value:.3f}")
    ranks = f"{'ranks' if len(first) == 1 else 'rank'} first by {board.ranked_by}{against}"
    if better := [row for row in board.rows if (row.model, first[0].model) in board.separated]:
        verb = "is" if len(better) == 1 else "are"
        yield f"{_names(first)} {ranks}, but {_names(better)} {verb} significantly better than {first[0].model}."
    elif len(first) == len(board.rows):
        yield f"All {len(first)} models share the first rank ({number})."
    elif not board.separated:
        subject = f"No two of the {len(board.rows)} models" if len(board.rows) > 2 else "The two models do not"
        shown = "" if value is None else f" ({value:.3f})"
        yield f"{subject} differ significantly; {_names(first)} {ranks}{shown}."
    elif len(first) > 1:
        others = f"; {_names(rest)} cannot be separated from them" if rest else ""
        yield f"{_names(first)} share the first rank ({number}){others}."
    elif rest:
        yield f"{first[0].model} leads ({number}), but cannot be separated from {_names(rest)}."
    else:
        others = "the other model" if len(board.rows) == 2 else "every other model"
        yield f"{first[0].model} leads ({number}) and is significantly better than {others}."
    if (fragile := _lost_to_failures(board)) > 0:
        text = "1 of these findings depends" if fragile == 1 else f"{fragile} of these findings depend"
        yield f"{text} on scores that are missing because requests failed: run again to complete them."


def _lost_to_failures(board: Leaderboard) -> int:
    """Count the separated pairs that missing scores could undo."""
    if board.pairs is None:
        return 0
    return int((board.pairs.is_separated & ~board.pairs.survives_failures).sum())


def _ranking_value(board: Leaderboard, row: Row) -> float | None:
    """The number that ranks a model."""
    if board.ranked_by == "mean score":
        return row.macro_average.value if row.macro_average else None
    return row.guarded_win_share if board.ranked_by == "win share" else row.guarded_win_rate


def _constant_answers(board: Leaderboard) -> Iterator[str]:
    """Yield on how many benchmarks the leader is shown to be better than always giving one answer."""
    row = board.rows[0]
    found = {column: beats_constant_answer(board, row, column) for column in board.columns}
    tested = [column.title or column.benchmark for column, better in found.items() if better is not None]
    not_better = [column.title or column.benchmark for column, better in found.items() if better is False]
    n = len(tested)
    if not tested or row.model.split("/")[0] == "baseline":
        return
    text = f"{row.model} is shown to be better than a constant answer"
    named = f"{', '.join(not_better[:NAMES])}{' and others' if len(not_better) > NAMES else ''}"
    if n == 1:
        yield f"{row.model} is {'not ' if not_better else ''}shown to be better than a constant answer on {tested[0]}."
    elif not_better:
        yield f"{text} on {n - len(not_better)} of {n} benchmarks where that was tested, not on {named}."
    else:
        yield f"{text} on all {n} benchmarks where that was tested."


def _costs(board: Leaderboard) -> Iterator[str]:
    """Yield what the leader costs, and which of the models that cannot be separated from it costs least.

    Published costs are ceilings, so they are not compared with those of own runs.
    """
    first = board.rows[0]
    group = [*leaders(board), *inseparable(board)] if board.pairs is not None else leaders(board)
    alike = [row for row in group if (row.n_benchmarks, row.published) == (first.n_benchmarks, first.published)]
    known = [row for row in alike if row.cost_usd is not None]
    if first.cost_usd is None or not known or board.tier == "sample":
        return
    cost, least, less = "cost", "cost least", "cost less"
    if first.published:
        cost, least, less = "has a cost ceiling of", "has the lowest", "has a lower one"
    cheapest = min(known, key=lambda row: (row.cost_usd or 0.0, row.rank))
    if cheapest.cost_usd and cheapest.model != first.model and cheapest.cost_usd < first.cost_usd:
        others = "models" if len(known) == len(group) else "models with a comparable cost"
        yield (
            f"{first.model} {cost} {first.cost_usd:,.2f} US dollars; of the {others} that cannot be separated from "
            f"it, {cheapest.model} {least} ({cheapest.cost_usd:,.2f})."
        )
    elif first.cost_usd:
        more = f", and no model that cannot be separated from it {less}" if len(known) == len(group) > 1 else ""
        yield f"{first.model} {cost} {first.cost_usd:,.2f} US dollars{more}."


def _names(rows: Sequence[Row]) -> str:
    """Join the names of models, cut after `NAMES`."""
    names = [row.model for row in rows]
    if len(names) > NAMES:
        return f"{', '.join(names[:NAMES])} and {len(names) - NAMES} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

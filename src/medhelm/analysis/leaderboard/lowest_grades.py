"""Scores with floors: the mean score where a completion below a floor of the rubric counts as the worst answer.

A criterion with a floor, such as safety, must reach a grade whatever the other grades are. The mean of all grades lets
a good one make up for a bad one; this score does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.analysis.means import estimate
from medhelm.domain.text import listed

NAMES = 5
"""Most models named in one sentence."""


def has_score_with_floors(cell: Cell) -> bool:
    """Return whether a score with floors is known: there are floors, and the score is a mean of known scores."""
    return bool(cell.floors) and cell.scores is not None and cell.parts is None


def with_floors_as_worst(cell: Cell, column: Column) -> Cell:
    """Return the score with floors: each completion that is below one counts as the worst answer.

    A completion whose grade on a criterion with a floor is not known has no such score. A cell without floors, or
    whose number is no mean of scores, is returned as it is.
    """
    below = cell.below_floor
    if below is None or cell.scores is None or not has_score_with_floors(cell):
        return cell
    worst = column.low if column.higher_is_better else column.high
    scores = np.where(below == 1.0, worst, np.where(np.isnan(below), np.nan, cell.scores))
    found = estimate(scores, cell.clusters, low=column.low, high=column.high, open_below=column.open_below)
    return replace(
        cell,
        value=found.value if found else None,
        estimate=found,
        scores=scores,
        n_failed=int(np.isnan(scores).sum()),
        completers=None,
    )


def count_below_floor(cell: Cell) -> tuple[int, int]:
    """Return the number of completions below a floor, and of those for which that is known."""
    below = cell.below_floor
    known = np.empty(0) if below is None else below[~np.isnan(below)]
    return int(known.sum()), len(known)


def with_score_with_floors(board: Leaderboard, floored: Leaderboard) -> Leaderboard:
    """Return a leaderboard with the averages and ranks of the scores with floors, and a sentence where they matter.

    `floored`: the leaderboard of these scores.
    """
    second = {row.model: row for row in floored.all_rows}

    def add(row: Row) -> Row:
        other = second[row.model]
        return replace(row, average_with_floors=floored.ranking_average(other), rank_with_floors=other.rank)

    found = replace(board, rows=tuple(map(add, board.rows)), baselines=tuple(map(add, board.baselines)))
    return replace(found, verdict=(*found.verdict, *_floors_in_words(found)))


def _floors_in_words(board: Leaderboard) -> Iterator[str]:
    """Yield a sentence if the floors change ranks, or the leading models have completions below one."""
    moved = [row for row in board.rows if row.rank != row.rank_with_floors]
    leading = [row for row in board.rows if row.rank == 1]
    counts = {row.model: np.sum([count_below_floor(cell) for cell in row.cells.values()], axis=0) for row in board.rows}
    told = [row for row in board.rows if row in (moved or leading) and counts[row.model][0]]
    below = listed([f"{row.model} {counts[row.model][0]:,} of {counts[row.model][1]:,}" for row in told], NAMES)
    if moved:
        ranks = listed([f"{row.model} from {row.rank} to {row.rank_with_floors}" for row in moved], NAMES)
        text = f"Counted as the worst answer, completions below a floor change ranks: {ranks}."
        yield f"{text} Completions below a floor: {below or 'none of these models'}."
    elif told:
        rest = "do not change its rank" if len(leading) == 1 else "do not change their rank"
        yield f"Completions below a floor: {below}. Counted as the worst answer, they {rest}."

"""Models against a constant answer: whether they are better than always giving the most frequent correct answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from medhelm.analysis.comparison.paired import LEVEL, paired_difference
from medhelm.analysis.leaderboard.cells import Column
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.analysis.statistics.means import wilson_interval
from medhelm.domain.remark import Remark

NAMES = 5
"""Most names written out in one sentence."""

LONGEST_ANSWER = 30
"""Characters of a constant answer that are shown."""

MAJORITY = "baseline/majority"
"""The model that always gives the most frequent answer."""


def constant_answer_sentences(board: Leaderboard) -> Iterator[str]:
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
    elif len(not_better) == n:
        text = text.replace("is shown", "is not shown")
        yield f"{text} on any of the {n} benchmarks where that was tested."
    elif not_better:
        yield f"{text} on {n - len(not_better)} of {n} benchmarks where that was tested, not on {named}."
    else:
        yield f"{text} on all {n} benchmarks where that was tested."


def constant_answer_remarks(board: Leaderboard) -> Iterator[Remark]:
    """Yield benchmarks on which no model, or only some, are shown to be better than a constant answer."""
    none: list[str] = []
    some: list[str] = []
    for column in board.columns:
        found = [better for row in board.rows if (better := beats_constant_answer(board, row, column)) is not None]
        if found and not all(found):
            answer = " ".join(column.constant_answer.split())
            shown = answer if len(answer) <= LONGEST_ANSWER else answer[:LONGEST_ANSWER] + "..."
            quoted = f"`{shown}`: " if shown else ""
            value = "" if column.constant_baseline is None else f" ({quoted}{column.constant_baseline:.3f})"
            (some if any(found) else none).append(f"{column.title}{value}")
    if none:
        text = f"No model is shown to be better than a constant answer on {_names(none)}."
        yield Remark("constant_baseline_not_beaten", "", text)
    if some:
        text = f"Only some models are shown to be better than a constant answer on {_names(some)}."
        yield Remark("constant_baseline_partly_beaten", "", text)


def beats_constant_answer(board: Leaderboard, row: Row, column: Column) -> bool | None:
    """Return whether a model is shown to be better than a constant answer; None if that is not known.

    If `baseline/majority` was run on the same instances, by the one-sided paired test at the 5% level. Otherwise only
    the mean of the constant answer is known, and the model's 95% interval must lie above that of this mean: a test
    against the mean alone would take it as exact, and how the two vary together is unknown.
    """
    cell = row.cells.get(column.benchmark)
    if cell is None or _is_majority(row):
        return None
    majority = next((other.cells.get(column.benchmark) for other in board.all_rows if _is_majority(other)), None)
    if cell.scores is not None and majority is not None and majority.scores is not None:
        place = {name: i for i, name in enumerate(majority.ids)}
        rival = np.array([majority.scores[place[name]] if name in place else np.nan for name in cell.ids])
        found = paired_difference(column.normalize(cell.scores), column.normalize(rival), cell.clusters)
        return None if found is None else found.value > 0 and found.p_value / 2 <= LEVEL
    if column.constant_baseline is None:
        return None
    constant = column.normalize(column.constant_baseline)
    if cell.scores is not None:
        found = paired_difference(column.normalize(cell.scores), np.zeros(len(cell.ids)), cell.clusters)
        return None if found is None else found.low > wilson_interval(constant * found.n_clusters, found.n_clusters)[1]
    if cell.estimate is None:
        return None
    low = min(column.normalize(cell.estimate.low), column.normalize(cell.estimate.high))
    return bool(low > wilson_interval(constant * cell.estimate.n, cell.estimate.n)[1])


def _is_majority(row: Row) -> bool:
    """Return whether a row is `baseline/majority`, whatever its store."""
    return row.model.split(" ")[0] == MAJORITY


def _names(names: Sequence[str], most: int = NAMES) -> str:
    """Join names with commas, cut after `most`."""
    text = ", ".join(names[:most])
    return text if len(names) <= most else f"{text} and {len(names) - most} more"

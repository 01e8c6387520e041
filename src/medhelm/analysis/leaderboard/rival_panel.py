"""Win shares and win rates against a fixed panel of models, so that they stay when other models come or go.

    shown number    as on any leaderboard, with the panel in place of the other models; a member leaves itself out
    rank            by macro average, which depends on no rival; by win rate where that ranks, against the whole panel,
                    where a member's own value is a tie: only then do all models meet the same rivals

Benchmarks that no member has do not count in win shares and win rates. Which two models differ is decided by the tests
among the models on the leaderboard, as without a panel, so that no choice of a panel makes a finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.leaderboard.cells import Cell, has_any_value, win_shares
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.analysis.means import Floats
from medhelm.domain.result import Remark
from medhelm.domain.text import listed, plural
from medhelm.errors import UserError, suggestion

NAMES = 5
"""Most names written out in one sentence."""

Members = NDArray[np.bool_]
"""Shape (n_models,): True for the models of the panel."""


def find_members(panel: Sequence[str], models: Sequence[str], baselines: Sequence[Cell]) -> Members:
    """Return which models are in the panel.

    Parameters: panel, names; models, those that compete on the leaderboard; baselines, results of those that do not.
    Raises: UserError with all names that are not on the leaderboard.
    """
    not_ranked = {cell.model for cell in baselines}
    wrong = []
    for name in panel:
        if name in models:
            continue
        why = f"`{name}` is not on the leaderboard. {suggestion(name, models)}".rstrip()
        if name in not_ranked:
            why = f"`{name}` is a baseline, which does not compete. Add --rank-baselines to use it."
        wrong.append(f"--panel: {why}")
    if wrong:
        raise UserError("\n".join(wrong))
    return np.array([name in panel for name in models], dtype=np.bool_)


def panel_win_shares(scores: Floats, members: Members, shares: Floats | None = None) -> Floats:
    """Share of the panel that each model beats, instance by instance; a tie counts one half.

    A member leaves itself out.

    Parameters: scores, shape (n_models, n), nan if missing; means of benchmarks in place of instances give win rates;
    shares, the same with a member's own score as a tie; None: `win_shares`.
    Returns: shape (n_models, n); nan where a model has no score, or no other member has one.
    """
    shares = win_shares(scores, members) if shares is None else shares
    met = (members[:, None] & ~np.isnan(scores)).sum(axis=0)
    with np.errstate(invalid="ignore"):
        without_self = np.where(met > 1, (shares * met - 0.5) / np.maximum(met - 1, 1), np.nan)
    return np.where(members[:, None], without_self, shares)


def guarded_panel_shares(shares: Floats, values: Floats, members: Members) -> Floats:
    """Share of the whole panel that each model beats on each benchmark, a missing benchmark being a loss.

    Parameters: shares, shape (n_models, n_benchmarks), against the members that have a value, a member's own being a
    tie; values, alike, nan if missing.
    Returns: the same shape, nan throughout for benchmarks that no member has.
    """
    present = ~np.isnan(values)
    size = int(members.sum())
    met = present[members].sum(axis=0)
    won = np.nan_to_num(shares, nan=0.5) * met + (size - met)
    guarded = np.where(present, won, (size - met) / 2) / size
    return np.where(has_any_value(values[members]), guarded, np.nan)


def overtaken(board: Leaderboard) -> list[tuple[str, str]]:
    """Return pairs of models of which the first is significantly better, but ranks below the second.

    That is possible with win rates: the panel can value a lead more than the models on the leaderboard do.
    """
    if board.panel is None:
        return []
    rank = {row.model: row.rank or 0 for row in board.rows}
    return sorted(pair for pair in board.separated if rank[pair[0]] > rank[pair[1]])


def panel_remarks(board: Leaderboard) -> Iterator[Remark]:
    """Yield what the panel is, and what it leaves open; nothing without a panel."""
    if board.panel is None:
        return
    what = "Win rates" if all(row.win_share is None for row in board.rows) else "Win shares and win rates"
    size = plural(len(board.panel), "model")
    text = f"{what} are against a panel of {size}: {listed(board.panel)}. Other models do not change them."
    if len(board.panel) > 1:
        text += " A panel model leaves itself out."
    if board.ranked_by == "win rate":
        text += " Ranks go by win rate against the whole panel, where a panel model ties with itself."
    if board.pairs is not None:
        text += " Tests are those without a panel."
    yield Remark("panel", "", text)
    rows = {row.model: row for row in board.rows}
    having = {model: {name for name, cell in rows[model].cells.items() if cell.value is not None} for model in rows}
    of_any = set().union(*(having[model] for model in board.panel))
    outside = [column.title or column.benchmark for column in board.columns if column.benchmark not in of_any]
    if outside:
        verb = "is" if len(outside) == 1 else "are"
        text = f"No panel model has a value on {listed(outside, NAMES)}, which {verb} left out of {what.lower()}."
        yield Remark("panel_lacks_benchmarks", "", text)
    for model in board.panel:
        if lacking := sorted(of_any - having[model]):
            text = f"{model} has no value on {listed(lacking, NAMES)}: there models meet the others of the panel only."
            yield Remark("panel_model_lacks_benchmarks", model, text)
    for better, worse in overtaken(board)[:NAMES]:
        text = (
            f"{better} is significantly better than {worse}, but ranks lower by {board.ranked_by} against the panel: "
            "their order depends on the rivals. The test decides."
        )
        yield Remark("panel_against_test", better, text)

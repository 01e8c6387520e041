"""Measure how far the numbers of two models depend on the other models of a leaderboard, with and without a panel.

    .venv/bin/python -m bench.studies.rivals               # 300 simulated leaderboards a row: about five minutes
    .venv/bin/python -m bench.studies.rivals --boards 60   # rougher

Adds a model, drops one, or adds five copies of one, and looks at the models that are there before and after: how far
their numbers move, and on how many leaderboards the order of some two of them is reversed. Then checks the intervals of
win shares against a panel. Prints the tables of docs/explanation/method.md; tests repeat some rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bench.studies.simulation import Table, holds, percent, print_tables
from bench.studies.verdicts import EqualModels, KnownModels, leaderboard
from medhelm.analysis.leaderboard.averages import overtaken, panel_win_shares
from medhelm.analysis.leaderboard.cells import DECIMALS, win_shares
from medhelm.analysis.means import Floats, row_means
from medhelm.results.published.boards import published_leaderboard

SEED = 23
"""Seed of the simulated leaderboards."""

COPIES = 5
"""Copies of one model that are added."""

PANEL = (0, 2, 4)
"""Positions of the panel's models."""

MANY = 200_000
"""Instances from which the true win shares of graded models are computed."""

Board = Sequence[Floats]
"""Scores of all models on each benchmark: arrays of shape (n_models, n)."""

Members = NDArray[np.bool_]
"""Shape (n_models,): True for the models of the panel."""

Statistic = Callable[[Board, Members], Floats]
"""Computes a number for every model, an array of shape (n_models,); without a panel `Members` is ignored."""


class Simulated(Protocol):
    """Simulated leaderboards of one kind."""

    def draw(self, rng: np.random.Generator) -> list[Floats]:
        """Simulate the scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedModels:
    """Models with grades from 1 to 5 that differ in the mean and in the spread of their grades."""

    models: int
    """Number of models."""
    benchmarks: int
    """Number of benchmarks."""
    n: int
    """Instances of each."""

    def draw(self, rng: np.random.Generator) -> list[Floats]:
        """Simulate the scores."""
        means = np.linspace(4.0, 4.3, self.models)[:, None]
        spreads = np.linspace(0.3, 1.3, self.models)[np.argsort(np.arange(self.models) * 5 % self.models)][:, None]
        boards = []
        for _ in range(self.benchmarks):
            latent = means + rng.normal(0, 0.3, self.n) + spreads * rng.normal(0, 1, (self.models, self.n))
            boards.append(np.clip(np.rint(latent), 1, 5) / 4 - 0.25)
        return boards


# --- dependence on other models ---------------------------------------------------------------------------------------


def _means(board: Board) -> Floats:
    return np.stack([scores.mean(axis=1) for scores in board], axis=1)


def win_rate(board: Board, _: Members) -> Floats:
    """Return the share of other models whose mean is beaten."""
    return row_means(win_shares(_means(board)))


def win_share(board: Board, _: Members) -> Floats:
    """Return the share of other models that are beaten instance by instance."""
    return row_means(_means([win_shares(scores) for scores in board]))


def macro_average(board: Board, _: Members) -> Floats:
    """Return the mean of the benchmarks' means."""
    return row_means(_means(board))


def panel_win_rate(board: Board, members: Members) -> Floats:
    """Return the win rate against the whole panel, which ranks."""
    return row_means(win_shares(_means(board), members))


def panel_win_share(board: Board, members: Members) -> Floats:
    """Return the win share against the whole panel, which ranks."""
    return row_means(_means([win_shares(scores, members) for scores in board]))


STATISTICS: dict[str, Statistic] = {
    "win rate": win_rate,
    "win share": win_share,
    "macro average": macro_average,
    "win rate, panel": panel_win_rate,
    "win share, panel": panel_win_share,
}
"""Title -> number."""

KINDS = ("one added", "one dropped", f"{COPIES} copies added")
"""Changes of the other models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The most that a change of the other models does."""

    shift: float
    """Largest change of a model's number."""
    reverses: bool
    """True if two models change their order."""


def effects(board: Board, statistic: Statistic) -> dict[str, Effect]:
    """Return what happens to models when a rival is added, dropped or copied, whichever rival does most.

    Parameters: board, whose last model is the one that is added; it is left out of the other changes.
    """
    n = len(board[0]) - 1
    members = np.isin(np.arange(n), PANEL)
    few = [scores[:n] for scores in board]
    added = statistic(board, np.append(members, False))[:n]
    found = ([_effect(statistic(few, members), added)], *effects_of_each(few, statistic))
    return {kind: _worst(each) for kind, each in zip(KINDS, found, strict=True)}


def effects_of_each(board: Board, statistic: Statistic) -> tuple[list[Effect], list[Effect]]:
    """Return what dropping each model does, and what adding copies of each does.

    No model of the panel is dropped: then the panel would be another one.
    """
    n = len(board[0])
    members = np.isin(np.arange(n), PANEL)
    before = statistic(board, members)
    uses_panel = statistic in (panel_win_rate, panel_win_share)
    dropped = [
        _effect(np.delete(before, i), statistic([np.delete(x, i, axis=0) for x in board], np.delete(members, i)))
        for i in range(n)
        if not (uses_panel and members[i])
    ]
    more = np.append(members, np.zeros(COPIES, dtype=np.bool_))
    copied = [
        _effect(np.delete(before, i), np.delete(statistic([_with_copies(x, i) for x in board], more)[:n], i))
        for i in range(n)
    ]
    return dropped, copied


def _with_copies(scores: Floats, i: int) -> Floats:
    """Return the scores with copies of one model, which come last."""
    return np.concatenate([scores, np.repeat(scores[i : i + 1], COPIES, axis=0)])


def _effect(before: Floats, after: Floats) -> Effect:
    """Compare the numbers of the same models."""
    lead, new = (np.sign(np.round(x[:, None] - x[None, :], DECIMALS)) for x in (before, after))
    return Effect(shift=float(np.abs(after - before).max()), reverses=bool((lead * new < 0).any()))


def _worst(each: Sequence[Effect]) -> Effect:
    return Effect(shift=max(one.shift for one in each), reverses=any(one.reverses for one in each))


SCENARIOS: dict[str, Simulated] = {
    "6 equal models, right or wrong, 12 x 150": EqualModels(models=7, benchmarks=12, n=150, kind="right or wrong"),
    "6 models, steps of 1 point, right or wrong, 24 x 200": KnownModels(
        title="", shares=np.linspace(0.66, 0.60, 7)[:, None] + np.zeros((7, 24)), n=200
    ),
    "6 equal models, grades, 12 x 50": EqualModels(models=7, benchmarks=12, n=50, kind="grades"),
    "9 unequal models, grades, 6 x 100": GradedModels(models=10, benchmarks=6, n=100),
}
"""Simulated leaderboards, each with one more model, which is added."""


def _dependence_rows(boards: int) -> Iterator[list[str]]:
    """Yield the rows of the first table: mean of the largest shifts, and share of leaderboards with a reversal."""
    for title, scenario in SCENARIOS.items():
        rng = np.random.default_rng(SEED)
        drawn = [scenario.draw(rng) for _ in range(boards)]
        for name, statistic in STATISTICS.items():
            found = [effects(board, statistic) for board in drawn]
            shifts = {kind: np.mean([one[kind].shift for one in found]) for kind in KINDS}
            reversals = {kind: np.mean([one[kind].reverses for one in found]) for kind in KINDS}
            yield [title, name, *(f"{shifts[kind]:.3f}, {reversals[kind]:.0%}" for kind in KINDS)]
            title = ""


def published_board() -> tuple[list[str], Board]:
    """Return the names of the published models and their means on each benchmark as scores of a single instance."""
    board = published_leaderboard()
    cells = [[row.cells[column.benchmark] for row in board.rows] for column in board.columns]
    pairs = zip(board.columns, cells, strict=True)
    values = [[column.normalize(cell.value or 0.0) for cell in row] for column, row in pairs]
    return [row.model for row in board.rows], [np.array(row)[:, None] for row in values]


def _published_rows() -> Iterator[list[str]]:
    """Yield the rows of the second table: the largest shift, and how many of the models reverse the order of others."""
    names, board = published_board()
    title = f"37 benchmarks; panel: {', '.join(names[i] for i in PANEL)}"
    for name in ("win rate", "macro average", "win rate, panel"):
        found = effects_of_each(board, STATISTICS[name])
        cells = [f"{_worst(each).shift:.3f}, {sum(one.reverses for one in each)} of {len(each)}" for each in found]
        yield [title, name, *cells]
        title = ""


# --- intervals against a panel ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelCoverage:
    """Shares of simulated leaderboards, from 0 to 1."""

    mean: float
    """Intervals of win shares against the panel that contain the true one, on average over models."""
    lowest: float
    """The same for the model where that is rarest."""
    against_test: float
    """Leaderboards on which a model ranks below one that it is significantly better than."""


def panel_coverage(scenario: Simulated, truth: Floats, boards: int) -> PanelCoverage:
    """Simulate leaderboards with a panel. `truth`: true win shares, shape (n_models,)."""
    rng = np.random.default_rng(SEED)
    panel = [f"m{i}" for i in PANEL]
    held = np.zeros(len(truth))
    against = 0
    for _ in range(boards):
        board = leaderboard(scenario.draw(rng), panel)
        against += bool(overtaken(board))
        for row in board.rows:
            place = int(row.model[1:])
            held[place] += holds(row.win_share, truth[place])
    return PanelCoverage(mean=held.mean() / boards, lowest=held.min() / boards, against_test=against / boards)


def true_shares(scenario: KnownModels | GradedModels) -> Floats:
    """Return the true win shares against the panel, a member leaving itself out."""
    if isinstance(scenario, KnownModels):
        n = len(scenario.shares)
        rivals = np.isin(np.arange(n), PANEL) & ~np.eye(n, dtype=np.bool_)
        mean = scenario.shares.mean(axis=1)
        found: Floats = 0.5 + (mean - rivals @ mean / rivals.sum(axis=1)) / 2
        return found
    (scores,) = GradedModels(models=scenario.models, benchmarks=1, n=MANY).draw(np.random.default_rng(SEED))
    return row_means(panel_win_shares(scores, np.isin(np.arange(scenario.models), PANEL)))


COVERED: dict[str, KnownModels | GradedModels] = {
    "6 equal models, right or wrong, 12 x 150": KnownModels(title="", shares=np.full((6, 12), 0.6), n=150),
    "6 models, steps of 1 point, right or wrong, 24 x 200": KnownModels(
        title="", shares=np.linspace(0.65, 0.60, 6)[:, None] + np.zeros((6, 24)), n=200
    ),
    "6 equal models, right or wrong, 3 x 5, 90% right": KnownModels(title="", shares=np.full((6, 3), 0.9), n=5),
    "10 unequal models, grades, 6 x 30": GradedModels(models=10, benchmarks=6, n=30),
    "10 unequal models, grades, 6 x 100": GradedModels(models=10, benchmarks=6, n=100),
}
"""Leaderboards with a panel."""


def tables(boards: int) -> Iterator[Table]:
    """Yield the three tables."""
    yield ["leaderboards", "number", *KINDS], _dependence_rows(boards)
    yield ["published models", "number", "one dropped", f"{COPIES} copies of one added"], _published_rows()
    covered = ((title, panel_coverage(one, true_shares(one), boards)) for title, one in COVERED.items())
    yield (
        ["leaderboards with a panel of three", "intervals with the truth: mean, lowest", "test against ranks"],
        ([title, ", ".join(percent(one.mean, one.lowest)), f"{one.against_test:.0%}"] for title, one in covered),
    )


if __name__ == "__main__":
    print_tables(__doc__, tables, "--boards", 300, "simulated leaderboards of each row")

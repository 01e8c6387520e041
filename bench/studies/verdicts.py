"""Simulate how often leaderboards are wrong: false findings among equal models, and intervals that miss the truth.

    .venv/bin/python -m bench.studies.verdicts               # 400 simulated leaderboards a row: about five minutes
    .venv/bin/python -m bench.studies.verdicts --boards 60   # rougher

Prints the tables of docs/explanation/method.md. Tests run some of the same scenarios with fewer leaderboards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bench.studies.simulation import Table, column, holds, percent, print_tables, scored_cell
from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.analysis.means import Floats
from medhelm.domain.ranking import RankingOptions

SEED = 21
"""Seed of the simulated leaderboards."""

Draw = Callable[[np.random.Generator], list[Floats]]
"""Simulates the scores of all models on each benchmark: arrays of shape (n_models, n)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualModels:
    """Models that are equally good."""

    models: int
    """Number of models."""
    benchmarks: int
    """Number of benchmarks."""
    n: int
    """Instances of each."""
    kind: str
    """`right or wrong`, `grades` or `saturated`: right or wrong, nearly always right."""

    def draw(self, rng: np.random.Generator) -> list[Floats]:
        """Simulate the scores."""
        shape = (self.models, self.n)
        boards = []
        for _ in range(self.benchmarks):
            difficulty = rng.normal(0, 1, self.n)
            if self.kind == "grades":
                latent = 4.6 + 0.5 * difficulty + rng.normal(0, 0.7, shape)
                boards.append(np.clip(np.rint(latent), 1, 5) / 4 - 0.25)
            elif self.kind == "saturated":
                boards.append((rng.random(shape) < 0.98).astype(float))
            else:
                boards.append((rng.random(shape) < 1 / (1 + np.exp(-0.8 - 1.5 * difficulty))).astype(float))
        return boards


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModels:
    """Models that get each question right with a known probability."""

    title: str
    """Description of the scenario."""
    shares: Floats
    """Shape (n_models, n_benchmarks): share of correct answers."""
    n: int
    """Instances of each benchmark."""

    def draw(self, rng: np.random.Generator) -> list[Floats]:
        """Simulate the scores."""
        shape = (len(self.shares), self.n)
        return [(rng.random(shape) < share[:, None]).astype(float) for share in self.shares.T]

    @property
    def win_shares(self) -> Floats:
        """True win shares, shape (n_models,): one half and half the mean lead over the other models."""
        n = len(self.shares)
        mean = self.shares.mean(axis=1)
        found: Floats = 0.5 + (mean - (mean.sum() - mean) / (n - 1)) / 2
        return found

    @property
    def win_rate(self) -> float:
        """True win rate of the first model."""
        lead = self.shares[0] - self.shares[1:]
        return float((np.sign(np.round(lead, 12)) + 1).mean() / 2)


def leaderboard(scores: Sequence[Floats], panel: Sequence[str] = ()) -> Leaderboard:
    """Build the leaderboard of simulated scores, on a scale from 0 to 1. Models are `m0`, `m1` and so on."""
    cells, columns = simulated_cells(scores)
    return build_leaderboard(cells, columns, options=RankingOptions(panel=panel))


def simulated_cells(scores: Sequence[Floats]) -> tuple[list[Cell], list[Column]]:
    """Return simulated scores as cells and columns, models of one benchmark after another."""
    columns = [column(f"b{place:02}") for place in range(len(scores))]
    cells = [
        scored_cell(f"m{i}", one, row) for one, rows in zip(columns, scores, strict=True) for i, row in enumerate(rows)
    ]
    return cells, columns


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseFindings:
    """Shares of leaderboards of equal models, from 0 to 1."""

    any_pair: float
    """Any two models are called different."""
    certain_rank: float
    """Some model has a single place."""


def false_findings(scenario: EqualModels, boards: int) -> FalseFindings:
    """Simulate leaderboards of equal models."""
    rng = np.random.default_rng(SEED)
    found = [leaderboard(scenario.draw(rng)) for _ in range(boards)]
    return FalseFindings(
        any_pair=float(np.mean([bool(board.separated) for board in found])),
        certain_rank=float(np.mean([any(row.rank_low == row.rank_high for row in board.rows) for board in found])),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverages:
    """Shares of leaderboards whose intervals contain the truth, from 0 to 1: mean and lowest over models."""

    win_share: tuple[float, float]
    """Of win shares."""
    macro_average: tuple[float, float]
    """Of macro averages."""
    ranks: float
    """Share of leaderboards on which the places of all models contain all their true places."""
    win_rate: float
    """Mean win rate of the first model."""


def coverages(scenario: KnownModels, boards: int) -> Coverages:
    """Simulate leaderboards of models whose true scores are known."""
    rng = np.random.default_rng(SEED)
    truth = scenario.shares.mean(axis=1)
    best = [1 + int((truth > own + 1e-12).sum()) for own in truth]
    worst = [len(truth) - int((truth < own - 1e-12).sum()) for own in truth]
    held = np.zeros((2, len(truth)))
    places, win_rate = 0, 0.0
    for _ in range(boards):
        rows = {row.model: row for row in leaderboard(scenario.draw(rng)).rows}
        places_hold = True
        for i in range(len(truth)):
            row = rows[f"m{i}"]
            held[0, i] += holds(row.win_share, scenario.win_shares[i])
            held[1, i] += holds(row.macro_average, truth[i])
            places_hold &= (row.rank_low or 0) <= best[i] and worst[i] <= (row.rank_high or 0)
        places += places_hold
        win_rate += rows["m0"].win_rate.value if rows["m0"].win_rate else 0.0
    shares = held / boards
    return Coverages(
        win_share=(float(shares[0].mean()), float(shares[0].min())),
        macro_average=(float(shares[1].mean()), float(shares[1].min())),
        ranks=places / boards,
        win_rate=win_rate / boards,
    )


EQUAL = tuple(
    EqualModels(models=models, benchmarks=benchmarks, n=n, kind=kind)
    for models, benchmarks, n, kind in (
        (3, 1, 10, "right or wrong"),
        (3, 1, 100, "right or wrong"),
        (6, 1, 100, "right or wrong"),
        (9, 1, 300, "right or wrong"),
        (6, 2, 100, "right or wrong"),
        (6, 3, 30, "right or wrong"),
        (9, 6, 50, "right or wrong"),
        (20, 3, 100, "right or wrong"),
        (9, 12, 100, "right or wrong"),
        (9, 37, 30, "right or wrong"),
        (3, 1, 3, "saturated"),
        (3, 1, 20, "saturated"),
        (3, 3, 5, "saturated"),
        (3, 1, 100, "grades"),
        (9, 1, 300, "grades"),
        (6, 3, 30, "grades"),
        (9, 12, 50, "grades"),
    )
)
"""Equal models: the first table."""

_STEADY = np.linspace(0.65, 0.60, 6)[:, None] + np.zeros((6, 24))
_CROSSED = np.full((2, 10), 0.6) + np.array([[0.15] * 4 + [0.0] * 6, [0.0] * 4 + [0.005] * 6])

KNOWN = (
    KnownModels(title="6 equal models, 12 benchmarks of 150", shares=np.full((6, 12), 0.6), n=150),
    KnownModels(title="6 models, steady leads of 1 point, 24 of 200", shares=_STEADY, n=200),
    KnownModels(title="A +15 points on 4, B +0.5 on 6 of 10 benchmarks of 300", shares=_CROSSED, n=300),
    KnownModels(title="3 equal models, 1 benchmark of 20, 98% right", shares=np.full((3, 1), 0.98), n=20),
    KnownModels(title="3 equal models, 3 benchmarks of 5, 90% right", shares=np.full((3, 3), 0.9), n=5),
    KnownModels(title="3 equal models, 37 benchmarks of 5, 70% right", shares=np.full((3, 37), 0.7), n=5),
    KnownModels(title="9 equal models, 6 benchmarks of 60", shares=np.full((9, 6), 0.6), n=60),
    KnownModels(title="20 equal models, 3 benchmarks of 100", shares=np.full((20, 3), 0.6), n=100),
)
"""Models of known ability: the second table."""


def tables(boards: int) -> Iterator[Table]:
    """Yield both tables, and the error of their shares."""
    wrong = ((one, false_findings(one, boards)) for one in EQUAL)
    titled = ((f"{one.models} models, {one.benchmarks} x {one.n}, {one.kind}", found) for one, found in wrong)
    yield (
        ["equal models", "any two differ", "some rank is certain"],
        ([title, *percent(found.any_pair, found.certain_rank)] for title, found in titled),
    )
    headings = ["models of known ability", "win share: mean, lowest", "macro average: mean, lowest", "all ranks hold"]
    right = ((known, coverages(known, boards)) for known in KNOWN)
    yield (
        [*headings, "win rate of the first: mean, true"],
        (
            [
                known.title,
                ", ".join(percent(*found.win_share)),
                ", ".join(percent(*found.macro_average)),
                *percent(found.ranks),
                f"{found.win_rate:.2f}, {known.win_rate:.2f}",
            ]
            for known, found in right
        ),
    )
    yield ["error of a share near 5% or 95%"], [percent(math.sqrt(0.05 * 0.95 / boards))]


if __name__ == "__main__":
    print_tables(__doc__, tables, "--boards", 400, "simulated leaderboards of each scenario")

"""Simulate leaderboards on which models lack benchmarks, give a few very bad answers, or lose their hardest questions.

    .venv/bin/python -m bench.studies.incomplete_tables               # 200 leaderboards a row
    .venv/bin/python -m bench.studies.incomplete_tables --boards 40   # rougher

Prints the tables of docs/explanation/method.md. Tests run some of the same scenarios with fewer leaderboards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.studies.simulation import Table, column, mean_of_each, print_tables, scored_cell
from bench.studies.verdicts import SEED, simulated_cells
from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.analysis.means import Floats

Reason = Literal["chance", "hardest", "worst", "weakest"]
"""Why benchmarks are missing: at random; the hardest ones; those on which the model scored least beside the others by
chance; those on which it really is weaker than elsewhere."""


Who = Literal["best", "other", "all"]
"""Models that lack benchmarks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """Models that lack some benchmarks."""

    models: int
    """Number of models."""
    benchmarks: int
    """Number of benchmarks."""
    lacks: int
    """Benchmarks that a model lacks."""
    reason: Reason
    """Why it lacks them."""
    lead: float
    """How much better the first model is than the others, which are equal."""
    who: Who = "best"
    """Who lacks benchmarks: the first model, the last one, or every model."""
    uneven: float = 0.0
    """Standard deviation of how much better or worse a model is on one benchmark than on others."""
    n: int = 100
    """Instances of each benchmark."""

    def draw(self, rng: np.random.Generator) -> tuple[Floats, list[Floats], NDArray[np.bool_]]:
        """Return true means, scores of all models on each benchmark, and which results there are."""
        shape = (self.models, self.benchmarks)
        difficulty, uneven = rng.uniform(-0.15, 0.15, self.benchmarks), rng.normal(0, self.uneven, shape)
        means = np.clip(0.6 + self.lead * (np.arange(self.models) == 0)[:, None] + difficulty + uneven, 0.02, 0.98)
        scores = []
        for chances in means.T:
            common, own = rng.random(self.n), rng.random((self.models, self.n))
            scores.append(
                (np.where(rng.random(own.shape) < 0.5, common, own) < chances[:, None]).astype(float)
            )  # models often fail on the same questions
        observed = np.stack([rows.mean(axis=1) for rows in scores], axis=1)
        present = np.ones(shape, dtype=np.bool_)
        order = {
            "chance": rng.random(shape),
            "hardest": np.broadcast_to(difficulty, shape),
            "worst": observed - observed.mean(axis=0),
            "weakest": uneven,
        }[self.reason].argsort(axis=1)
        for i in {"best": [0], "other": [self.models - 1], "all": range(self.models)}[self.who]:
            present[i, order[i, : self.lacks]] = False
        return means, scores, present


def incomplete_leaderboard(scores: list[Floats], present: NDArray[np.bool_]) -> Leaderboard:
    """Build the leaderboard of the results that there are."""
    cells, columns = simulated_cells(scores)
    kept = [cell for cell, is_there in zip(cells, present.T.ravel(), strict=True) if is_there]
    return build_leaderboard(kept, columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Shares of leaderboards, from 0 to 1, and means over them."""

    ranks_hold: float
    """The possible ranks of all models contain their true ranks."""
    hidden: float
    """A significant difference that survives missing scores is not among the findings."""
    first_rank: float
    """Mean rank of the first model."""
    averages_hold: float
    """Mean share of models whose interval contains their true mean over the benchmarks that count."""
    findings: float
    """Mean number of findings."""


def simulate(scenario: Lacking, boards: int) -> Shares:
    """Simulate leaderboards of one kind."""
    rng = np.random.default_rng(SEED)
    found = []
    for _ in range(boards):
        means, scores, present = scenario.draw(rng)
        truth = np.round(means[:, present.sum(axis=0) > 1].mean(axis=1), 9)
        board = incomplete_leaderboard(scores, present)
        ranked = [row for row in board.rows if row.rank is not None]
        hold, averages = True, []
        for row in ranked:
            i = int(row.model.removeprefix("m"))
            true_low, true_high = 1 + (truth > truth[i]).sum(), len(truth) - (truth < truth[i]).sum()
            hold &= bool((row.rank_low or 0) <= true_low and (row.rank_high or 0) >= true_high)
            average = row.adjusted_average
            assert average is not None, "every model has a score"
            averages.append((average.low or 0) <= truth[i] <= (average.high or 0))
        pairs = board.pairs
        assert pairs is not None, "models are tested"
        significant = (pairs.win_share.p_holm <= 0.05) & pairs.survives_failures
        hidden = bool((significant & (pairs.findings == 0)).any())
        first = next((row.rank or 0 for row in ranked if row.model == "m0"), scenario.models)
        found.append((hold, hidden, first, np.mean(averages), len(board.separated)))
    return Shares(**dict(zip(Shares.__slots__, mean_of_each(found), strict=True)))


GAPS: list[tuple[Reason, Who]] = [
    ("chance", "best"), ("chance", "all"), ("hardest", "best"), ("worst", "best"), ("worst", "other"),
]  # fmt: skip
"""Why benchmarks are missing, and whose."""

SCENARIOS = [
    Lacking(models=models, benchmarks=benchmarks, lacks=lacks, reason=reason, lead=lead, who=who)
    for (models, benchmarks, lacks), lead, (reason, who) in product(
        [(3, 12, 0), (3, 12, 1), (3, 12, 4), (3, 12, 8), (9, 12, 1), (9, 12, 4), (20, 12, 8), (3, 37, 8), (9, 37, 8)],
        [0.0, 0.03, 0.1],
        GAPS,
    )
    if lacks or (reason, who) == GAPS[0]
]
"""The table of incomplete leaderboards, models that are as good on every benchmark beside the others."""

UNEVEN = [
    replace(one, uneven=0.05, reason="weakest" if one.reason == "worst" else one.reason)
    for one in SCENARIOS
    if one.lacks and one.models < 20
]
"""The same with models that are better or worse on single benchmarks, and may lack those where they are weak."""


# --- severity ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RareDisasters:
    """Two models that are graded from 1 to 5, of which the first is slightly better but at times very bad."""

    title: str
    wins: float
    """Share of the questions on which the first model is better by one grade."""
    disasters: float
    """Share of the questions on which it is worse."""
    loss: int
    """By how many grades it is worse there."""
    benchmarks: int
    n: int

    @property
    def mean_difference(self) -> float:
        """First minus second, in grades."""
        return self.wins - self.disasters * self.loss

    def board(self, rng: np.random.Generator) -> Leaderboard:
        """Simulate a leaderboard."""
        columns = [column(f"b{j}", 1.0, 5.0) for j in range(self.benchmarks)]
        cells = []
        for one in columns:
            kind = rng.random(self.n)
            second = np.where(kind < self.disasters, 5.0, 4.0)
            gain = np.where(kind < self.disasters, -self.loss, np.where(kind < self.disasters + self.wins, 1.0, 0.0))
            cells += [scored_cell("first", one, second + gain), scored_cell("second", one, second)]
        return build_leaderboard(cells, columns)


DISASTERS = [
    RareDisasters(title="better on 50%, worst grade on 20%", wins=0.5, disasters=0.2, loss=4, benchmarks=1, n=100),
    RareDisasters(title="better on 50%, worst grade on 20%", wins=0.5, disasters=0.2, loss=4, benchmarks=3, n=50),
    RareDisasters(
        title="better on 60%, 15% by four, equal means", wins=0.6, disasters=0.15, loss=4, benchmarks=3, n=50
    ),
    RareDisasters(title="3% lose three grades, equal means", wins=0.09, disasters=0.03, loss=3, benchmarks=3, n=150),
    RareDisasters(title="better on 50%, worst grade on 3%", wins=0.5, disasters=0.03, loss=4, benchmarks=3, n=100),
]


def verdicts_on_disasters(scenario: RareDisasters, boards: int) -> tuple[float, float, float]:
    """Return the shares of leaderboards on which the first model is called better, worse, and better but worse."""
    rng = np.random.default_rng(SEED)
    found = [scenario.board(rng) for _ in range(boards)]
    counts = [
        (
            ("first", "second") in board.separated,
            ("second", "first") in board.separated,
            bool(board.pairs is not None and board.pairs.are_opposed.any()),
        )
        for board in found
    ]
    better, worse, opposed = mean_of_each(counts)
    return better, worse, opposed


# --- questions without an answer --------------------------------------------------------------------------------------


def time_outs(share: float, boards: int, *, hardest: bool, lead: float = 0.0) -> tuple[float, float]:
    """Return how often one of two equal models is called better, and how often that only depends on missing scores.

    One model loses a share of its questions: those that are hardest for it, or any.
    """
    rng = np.random.default_rng(SEED)
    findings, fragile = 0, 0
    for _ in range(boards):
        columns = [column(f"b{j}") for j in range(6)]
        cells = []
        for one in columns:
            n = 150
            difficulty = rng.normal(0, 1.5, n)
            margins = 1 / (1 + np.exp(-0.8 + difficulty - [[lead], [0.0]])) - rng.random((2, n))
            scores = (margins > 0).astype(float)
            lost = np.argsort(margins[0] if hardest else rng.random(n))[: round(share * n)]
            scores[0, lost] = np.nan
            cells += [scored_cell(model, one, row) for model, row in zip("ab", scores, strict=True)]
        board = build_leaderboard(cells, columns)
        findings += bool(board.separated)
        fragile += bool(board.pairs is not None and board.pairs.are_fragile.any())
    return findings / boards, fragile / boards


# --- tables -----------------------------------------------------------------------------------------------------------


def _lacking_rows(scenarios: list[Lacking], boards: int) -> Iterator[list[object]]:
    """Yield the rows of a table of incomplete leaderboards."""
    for one in scenarios:
        found = simulate(one, boards)
        numbers = (f"{found.ranks_hold:.3f}", f"{found.hidden:.2f}", f"{found.first_rank:.1f}")
        about = (one.models, one.benchmarks, one.lacks, one.who, one.reason, f"{one.lead:.2f}")
        yield [*about, *numbers, f"{found.averages_hold:.3f}"]


def tables(boards: int) -> Iterator[Table]:
    """Yield the tables: even models, uneven models, severity, and questions without an answer of two equal models."""
    headings = ["models", "benchmarks", "lacking", "who", "why", "lead"]
    headings += ["ranks hold", "hidden", "rank of the first", "averages hold"]
    for scenarios in (SCENARIOS, UNEVEN):
        yield headings, _lacking_rows(scenarios, boards)
    yield (
        ["scenario", "benchmarks", "n", "better", "worse", "better on more, worse on average"],
        (
            [one.title, one.benchmarks, one.n, *(f"{share:.3f}" for share in verdicts_on_disasters(one, boards))]
            for one in DISASTERS
        ),
    )
    yield (
        ["missing", "which", "a finding", "only if ignored"],
        (
            [
                f"{share:.0%}",
                "hardest" if hardest else "any",
                *(f"{found:.3f}" for found in time_outs(share, boards, hardest=hardest)),
            ]
            for share, hardest in product((0.05, 0.1, 0.2), (True, False))
        ),
    )


if __name__ == "__main__":
    print_tables(__doc__, tables, "--boards", 200, "simulated leaderboards a row")

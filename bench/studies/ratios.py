"""Simulate how often numbers are wrong on benchmarks scored by balanced accuracy, with failures and without.

    .venv/bin/python -m bench.studies.ratios              # 1,000 simulations of each row: about three minutes
    .venv/bin/python -m bench.studies.ratios --runs 200   # rougher

Prints a table of docs/explanation/method.md. Tests run the same scenarios with fewer simulations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.studies.simulation import Table, column, holds, mean_of_each, percent, print_tables
from medhelm.analysis.comparison.non_inferiority import GateTest, decide, ratio_change
from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.cells import Cell
from medhelm.analysis.means import Floats
from medhelm.analysis.ratios import comparison_values, estimate_ratios, linearized
from medhelm.domain import Parts

SEED = 24
"""Seed of the simulated scores."""

MODELS = 3
"""Models of a simulated leaderboard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Equal models on benchmarks with a rare class, scored by balanced accuracy."""

    positives: int
    """Instances of the rare class."""
    n: int
    """All instances."""
    sensitivity: float = 0.8
    """Share of the rare class that a model gets right; failures count as wrong."""
    specificity: float = 0.9
    """The same of the other class."""
    benchmarks: int = 1
    """Number of benchmarks."""
    margin: float = 0.1
    """Margin of a gate, and the true drop of the model that it checks."""

    @property
    def title(self) -> str:
        """What is simulated, for people."""
        several = f"{self.benchmarks} benchmarks, " if self.benchmarks > 1 else ""
        return f"{several}{self.positives} of {self.n} positive; gate at {self.margin:g}"

    @property
    def truth(self) -> float:
        """The true score."""
        return (self.sensitivity + self.specificity) / 2

    def draw(self, rng: np.random.Generator, drop: float = 0.0) -> list[Parts]:
        """Simulate the parts of a run of a model that is worse by `drop` in both classes."""
        is_positive = np.arange(self.n) < self.positives
        chances = np.where(is_positive, self.sensitivity, self.specificity) - drop
        right = (rng.random(self.n) < chances).astype(float).tolist()
        names = np.where(is_positive, "yes", "no").tolist()
        return [{name: (score, 1.0)} for name, score in zip(names, right, strict=True)]


def cell(model: str, benchmark: str, parts: list[Parts]) -> Cell:
    """Return a run as a cell."""
    values = np.array([score for own in parts for score, _ in own.values()])
    found = estimate_ratios(values, parts, low=0.0, high=1.0)
    assert found is not None
    return Cell(
        model=model,
        benchmark=benchmark,
        value=found.value,
        estimate=found,
        ids=[str(i) for i in range(len(parts))],
        scores=linearized(values, parts),
        tested=comparison_values(values, parts),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How often numbers were right, or verdicts wrong: shares of simulations, from 0 to 1."""

    score: float
    """The interval of a score contains the truth."""
    difference: float
    """The interval of a difference of two models does."""
    macro_average: float
    """The interval of a macro average does."""
    false_pass: float
    """A gate on one benchmark passes a model that is worse by the margin."""
    false_worse: float
    """It calls that model worse by more."""


def rates(scenario: Scenario, runs: int, seed: int = SEED) -> Rates:
    """Simulate a scenario."""
    rng = np.random.default_rng(seed)
    names = [f"b{place}" for place in range(scenario.benchmarks)]
    columns = [column(name) for name in names]
    found = []
    for _ in range(runs):
        cells = [cell(f"m{i}", name, scenario.draw(rng)) for i in range(MODELS) for name in names]
        board = build_leaderboard(cells, columns)
        assert board.pairs is not None
        differences = board.pairs.macro_average.differences
        held = [holds(one.estimate, scenario.truth) for one in cells]
        averages = [holds(row.macro_average, scenario.truth) for row in board.rows]
        apart = (differences.low > 0) | (differences.high < 0)
        found.append([np.mean(held), 1 - apart.mean(), np.mean(averages), *_verdict(scenario, rng)])
    return Rates(**dict(zip(Rates.__slots__, mean_of_each(found), strict=True)))


def _labels(parts: list[Parts]) -> tuple[list[str], Floats]:
    """Return the label and the score of each instance."""
    labels, pairs = zip(*(entry for own in parts for entry in own.items()), strict=True)
    return list(labels), np.array([above for above, _ in pairs])


def _verdict(scenario: Scenario, rng: np.random.Generator) -> tuple[bool, bool]:
    """Return whether a gate passes a model that is worse by the margin, and whether it calls it worse."""
    new, old = scenario.draw(rng, drop=scenario.margin), scenario.draw(rng)
    labels, scores = zip(*(_labels(parts) for parts in (new, old)), strict=True)
    change = ratio_change(scores[0], scores[1], labels[0], None)
    assert change is not None
    test = GateTest(model="m", baseline_model="m", benchmark="b", title="b", metric="m", change=change)
    outcome = decide([test], scenario.margin)[0].outcome
    return outcome == "pass", outcome == "worse"


SCENARIOS = (
    Scenario(positives=4, n=200),
    Scenario(positives=4, n=200, margin=0.05),
    Scenario(positives=10, n=200),
    Scenario(positives=10, n=200, margin=0.05),
    Scenario(positives=20, n=400, sensitivity=0.95),
    *(Scenario(positives=4, n=200, benchmarks=benchmarks) for benchmarks in (2, 3, 6)),
    *(Scenario(positives=10, n=200, benchmarks=benchmarks) for benchmarks in (2, 3, 6)),
)
"""What the table shows."""


def tables(runs: int) -> Iterator[Table]:
    """Yield the table."""
    headings = ["simulated benchmarks", "score", "difference", "macro average", "gate: false pass", "false worse"]
    found = ((scenario.title, rates(scenario, runs)) for scenario in SCENARIOS)
    yield headings, ([title, *percent(*(getattr(one, name) for name in Rates.__slots__))] for title, one in found)


if __name__ == "__main__":
    print_tables(__doc__, tables, "--runs", 1000, "simulations of each row")

"""Simulate how often the macro average of a model that was run on few of the benchmarks is in its interval.

    .venv/bin/python -m bench.studies.few_benchmarks              # 1,000 simulations of each row: a minute
    .venv/bin/python -m bench.studies.few_benchmarks --runs 200   # rougher

Prints a table of docs/explanation/method.md. Tests run the same scenarios with fewer simulations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.studies.simulation import Table, column, holds, percent, print_tables, scored_cell
from medhelm.analysis.leaderboard.build import build_leaderboard

SEED = 25
"""Seed of the simulated scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A model with few of the benchmarks beside one with all of them, right or wrong."""

    own: int
    """Benchmarks of the model."""
    benchmarks: int
    """Benchmarks of the other one."""
    n: int
    """Instances of each."""
    truth: float
    """True share of right answers of both."""

    @property
    def title(self) -> str:
        """What is simulated, for people."""
        return f"{self.own} of {self.benchmarks} benchmarks of {self.n}, {self.truth:.0%} right"


def coverage(scenario: Scenario, runs: int, seed: int = SEED) -> tuple[float, float]:
    """Return the share of intervals that contain the truth: of macro averages, and of win shares."""
    rng = np.random.default_rng(seed)
    columns = [column(f"b{place:02}") for place in range(scenario.benchmarks)]
    held = np.zeros(2)
    for _ in range(runs):
        cells = [
            scored_cell(model, one, (rng.random(scenario.n) < scenario.truth).astype(float))
            for model, count in (("few", scenario.own), ("all", scenario.benchmarks))
            for one in columns[:count]
        ]
        (few,) = [row for row in build_leaderboard(cells, columns).rows if row.model == "few"]
        held += [holds(few.macro_average, scenario.truth), holds(few.win_share, 0.5)]
    return float(held[0] / runs), float(held[1] / runs)


SCENARIOS = (
    Scenario(own=1, benchmarks=12, n=50, truth=0.98),
    Scenario(own=1, benchmarks=37, n=50, truth=0.98),
    Scenario(own=4, benchmarks=12, n=20, truth=0.9),
    Scenario(own=4, benchmarks=37, n=20, truth=0.9),
    Scenario(own=2, benchmarks=37, n=100, truth=0.98),
)
"""What the table shows."""


def tables(runs: int) -> Iterator[Table]:
    """Yield the table."""
    headings = ["a model with few of the benchmarks", "macro average", "win share"]
    yield headings, ([scenario.title, *percent(*coverage(scenario, runs))] for scenario in SCENARIOS)


if __name__ == "__main__":
    print_tables(__doc__, tables, "--runs", 1000, "simulations of each row")

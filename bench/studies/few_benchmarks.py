"""Simulate how often the macro average of a model that was run on few of the benchmarks is in its interval.

    .venv/bin/python -m bench.studies.few_benchmarks              # 1,000 simulations of each row: a minute
    .venv/bin/python -m bench.studies.few_benchmarks --runs 200   # rougher

Prints a table of docs/explanation/method.md. Tests run the same scenarios with fewer simulations.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.means import estimate

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
    names = [f"b{place:02}" for place in range(scenario.benchmarks)]
    columns = [Column(benchmark=name, title=name, category="c", subcategory="s", metric="m") for name in names]
    ids = [str(i) for i in range(scenario.n)]
    held = np.zeros(2)
    for _ in range(runs):
        cells = []
        for model, count in (("few", scenario.own), ("all", scenario.benchmarks)):
            for name in names[:count]:
                row = (rng.random(scenario.n) < scenario.truth).astype(float)
                found = estimate(row, low=0.0, high=1.0)
                value = float(row.mean())
                cells.append(Cell(model=model, benchmark=name, value=value, estimate=found, ids=ids, scores=row))
        (row_of_few,) = [row for row in build_leaderboard(cells, columns).rows if row.model == "few"]
        for place, (average, true) in enumerate(
            ((row_of_few.macro_average, scenario.truth), (row_of_few.win_share, 0.5))
        ):
            assert average is not None
            held[place] += (average.low or 0.0) - 1e-9 <= true <= (average.high or 0.0) + 1e-9
    return float(held[0] / runs), float(held[1] / runs)


SCENARIOS = (
    Scenario(own=1, benchmarks=12, n=50, truth=0.98),
    Scenario(own=1, benchmarks=37, n=50, truth=0.98),
    Scenario(own=4, benchmarks=12, n=20, truth=0.9),
    Scenario(own=4, benchmarks=37, n=20, truth=0.9),
    Scenario(own=2, benchmarks=37, n=100, truth=0.98),
)
"""What the table shows."""


def table(runs: int) -> list[str]:
    """Return the table in Markdown."""
    lines = ["| a model with few of the benchmarks | macro average | win share |", "|---|---|---|"]
    for scenario in SCENARIOS:
        macro, share = coverage(scenario, runs)
        lines.append(f"| {scenario.title} | {macro:.1%} | {share:.1%} |")
    return lines


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="simulations of each row")
    print("\n".join(table(parser.parse_args().runs)))


if __name__ == "__main__":
    main()

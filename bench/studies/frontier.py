"""Simulate whether the probability of being on the efficient frontier is calibrated.

    .venv/bin/python -m bench.studies.frontier               # 2,000 leaderboards a row: about a minute
    .venv/bin/python -m bench.studies.frontier --boards 200  # rougher

True averages are drawn, then scores, then the probability is computed from the scores alone. Prints how often models
are on the true frontier, by the probability that they were given: a table of docs/explanation/method.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bench.studies.simulation import Table, print_tables
from medhelm.analysis.frontier import draw_averages, frontier_probabilities, joint_means
from medhelm.analysis.leaderboard.cells import AlignedScores
from medhelm.analysis.means import Floats

SEED = 17
"""Seed of the simulation."""

EDGES = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0)
"""Limits of the groups of probabilities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Models whose costs rise with their number, on benchmarks whose instances are alike for all of them."""

    title: str
    """Description of the scenario."""
    models: int
    """Number of models."""
    benchmarks: int
    """Number of benchmarks."""
    n: int
    """Clusters of each benchmark."""
    kind: str = "right or wrong"
    """`right or wrong` or `grades`."""
    size: int = 1
    """Instances of a cluster."""
    spread: float = 0.3
    """Largest distance of a model's true average on a benchmark from the middle of all models."""

    def simulate(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return the probability given to each model, and 1 where it is on the true frontier."""
        truth, parts, means = np.zeros(self.models), [], np.zeros(self.models)
        for _ in range(self.benchmarks):
            skill = rng.uniform(0.35, 0.65) + rng.uniform(-self.spread, self.spread, self.models)
            hardness = np.repeat(rng.random(self.n), self.size)
            own = np.repeat(rng.random((self.models, self.n)), self.size, axis=1)
            # One half of the instances are right or wrong for all models together, the others for each by itself.
            shared = np.repeat(rng.random(self.n) < 0.5, self.size)
            level = np.where(shared, hardness, own)
            if self.kind == "grades":
                level = np.clip(level + rng.normal(0, 0.1, level.shape), 0.0, 1.0)
                scores = np.clip(np.rint(4 * (skill[:, None] + 0.4 * (level - 0.5))), 0, 4) / 4
                truth += _expected_grade(skill) / self.benchmarks
            else:
                scores = (level < skill[:, None]).astype(float)
                truth += skill / self.benchmarks
            codes = np.repeat(np.arange(self.n), self.size)
            aligned = AlignedScores(scores, codes, self.n, True)
            parts.append((1 / self.benchmarks, joint_means(aligned)))
            means += scores.mean(axis=1) / self.benchmarks
        costs = np.arange(1.0, self.models + 1)
        given = frontier_probabilities(costs, draw_averages(means, parts, 2_000))
        best = np.maximum.accumulate(truth)
        is_on = np.concatenate([[True], truth[1:] > best[:-1]])
        return given, is_on.astype(float)


def _expected_grade(skill: Floats) -> Floats:
    """Return the mean grade of models, from many simulated instances that are the same for all."""
    rng = np.random.default_rng(1)
    level = np.clip(rng.random(20_000) + rng.normal(0, 0.1, 20_000), 0.0, 1.0)
    grades = np.clip(np.rint(4 * (skill[:, None] + 0.4 * (level - 0.5))), 0, 4) / 4
    mean: Floats = grades.mean(axis=1)
    return mean


SCENARIOS = (
    Scenario(title="2 models, 1 benchmark of 30", models=2, benchmarks=1, n=30),
    Scenario(title="6 models, 1 benchmark of 100", models=6, benchmarks=1, n=100),
    Scenario(title="6 models, 5 benchmarks of 100", models=6, benchmarks=5, n=100),
    Scenario(title="6 models, 2 benchmarks of 8 clusters of 10", models=6, benchmarks=2, n=8, size=10),
    Scenario(title="6 models, 3 benchmarks of 40 grades", models=6, benchmarks=3, n=40, kind="grades"),
    Scenario(title="6 models within 10 points, 5 benchmarks of 100", models=6, benchmarks=5, n=100, spread=0.05),
)
"""The rows of the table."""


def calibration(scenario: Scenario, boards: int) -> tuple[Floats, Floats, Floats]:
    """Return, for each group of probabilities, the models in it, their mean probability and their true share."""
    rng = np.random.default_rng(SEED)
    found = [scenario.simulate(rng) for _ in range(boards)]
    # The cheapest model is on every frontier: it shows nothing.
    given = np.concatenate([one[1:] for one, _ in found])
    is_on = np.concatenate([one[1:] for _, one in found])
    group = np.clip(np.searchsorted(EDGES, given, side="right") - 1, 0, len(EDGES) - 2)
    counts = np.bincount(group, minlength=len(EDGES) - 1).astype(float)
    sums = [np.bincount(group, weights=one, minlength=len(EDGES) - 1) for one in (given, is_on)]
    with np.errstate(invalid="ignore", divide="ignore"):
        return counts, sums[0] / counts, sums[1] / counts


def tables(boards: int) -> Iterator[Table]:
    """Yield the table."""
    found = ((scenario.title, zip(*calibration(scenario, boards), strict=True)) for scenario in SCENARIOS)
    yield (
        ["models and benchmarks", *(f"{low:.0%} to {high:.0%}" for low, high in pairwise(EDGES))],
        ([title, *(f"{g:.0%}: {t:.0%}" if n else "–" for n, g, t in groups)] for title, groups in found),
    )


if __name__ == "__main__":
    print_tables(__doc__, tables, "--boards", 2_000, "simulated leaderboards a row")

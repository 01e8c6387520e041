"""Simulate how often numbers of benchmarks whose clusters differ in size are wrong.

    .venv/bin/python -m bench.studies.clusters              # 400 simulations of each row: about ten minutes
    .venv/bin/python -m bench.studies.clusters --runs 100   # rougher

Prints the table of docs/explanation/method.md. Tests run the same scenarios with fewer simulations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.studies.simulation import Table, column, holds, mean_of_each, percent, print_tables, scored_cell
from medhelm.analysis.comparison.non_inferiority import GateTest, decide, paired_change
from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.types import Average, Leaderboard
from medhelm.analysis.means import NORMAL, Floats

SEED = 23
"""Seed of the simulated scores."""

MARGIN = 0.1
"""Margin of the simulated gates, and the true drop."""

LEVELS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
"""Grades."""

SHARES = {
    "grades": ((0.05, 0.1, 0.15, 0.3, 0.4), (0.1, 0.15, 0.2, 0.25, 0.3)),
    "right or wrong": ((0.25, 0.0, 0.0, 0.0, 0.75), (0.35, 0.0, 0.0, 0.0, 0.65)),
}
"""Shares of each grade: of a model, and of one that is worse by the margin."""

MODELS = 3
"""Models of a simulated leaderboard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Clusters of instances whose scores agree within them, and the same again for each model."""

    title: str
    """What is simulated, for people."""
    sizes: tuple[int, ...]
    """Number of instances in each cluster."""
    agreement: float
    """Intraclass correlation of the normal variables behind the scores."""
    kind: str
    """A key of `SHARES`."""

    @property
    def codes(self) -> np.ndarray:
        """Number of each instance's cluster."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def truth(self, worse: bool = False) -> float:
        """Return the true score of a model, or of one that is worse."""
        return float(LEVELS @ SHARES[self.kind][worse])

    def draw(self, models: int, rng: np.random.Generator, worse: bool = False) -> Floats:
        """Simulate scores, shape (models, n); with `worse` the first model is."""
        k, codes = len(self.sizes), self.codes
        within, common = math.sqrt(1 - self.agreement), math.sqrt(self.agreement)
        latent = common * rng.normal(size=(models, k))[:, codes] + within * rng.normal(size=(models, len(codes)))
        found = np.empty(latent.shape)
        for i, row in enumerate(latent):
            cuts = [NORMAL.inv_cdf(p) for p in np.cumsum(SHARES[self.kind][worse and i == 0])[:-1]]
            found[i] = LEVELS[np.searchsorted(cuts, row)]
        return found


def leaderboard(scenario: Scenario, benchmarks: int, rng: np.random.Generator) -> Leaderboard:
    """Build the leaderboard of equal models."""
    names = [str(one) for one in scenario.codes]
    columns = [column(f"b{place}") for place in range(benchmarks)]
    cells = [
        scored_cell(f"m{i}", one, row, names) for one in columns for i, row in enumerate(scenario.draw(MODELS, rng))
    ]
    return build_leaderboard(cells, columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How often numbers were right, or verdicts wrong: shares of simulations, from 0 to 1."""

    cell: float
    """The interval of a score contains the truth."""
    difference: float
    """The interval of a difference contains the truth, with one benchmark."""
    win_share: float
    """The interval of a win share does, with one benchmark."""
    macro_average: float
    """The interval of a macro average does, with three benchmarks."""
    win_share_of_three: float
    """The interval of a win share does, with three benchmarks."""
    difference_of_three: float
    """The interval of a difference does, with three benchmarks."""
    finding: float
    """Any two of the equal models differ significantly, with one benchmark."""
    contradiction: float
    """The interval of a difference excludes 0 and its p-value is above 5%, or the other way round: never."""
    false_pass: float
    """A gate passes a model that is worse by the margin."""
    false_worse: float
    """A gate calls it worse by more."""

    @property
    def coverages(self) -> tuple[float, ...]:
        """The shares of intervals that contain the truth."""
        return (
            self.cell,
            self.difference,
            self.win_share,
            self.macro_average,
            self.win_share_of_three,
            self.difference_of_three,
        )


def rates(scenario: Scenario, runs: int, seed: int = SEED) -> Rates:
    """Simulate a scenario."""
    rng = np.random.default_rng(seed)
    truth, found = scenario.truth(), []
    for _ in range(runs):
        one, three = leaderboard(scenario, 1, rng), leaderboard(scenario, 3, rng)
        assert one.pairs is not None
        assert three.pairs is not None
        tested = one.pairs.macro_average.differences
        apart = (tested.low > 0) | (tested.high < 0)
        of_three = three.pairs.macro_average.differences
        found.append(
            [
                _holding([row.macro_average for row in one.rows], truth),
                ((tested.low <= 1e-9) & (tested.high >= -1e-9)).mean(),
                _holding([row.win_share for row in one.rows], 0.5),
                _holding([row.macro_average for row in three.rows], truth),
                _holding([row.win_share for row in three.rows], 0.5),
                ((of_three.low <= 1e-9) & (of_three.high >= -1e-9)).mean(),
                bool(one.separated),
                (apart != (tested.p_value <= 0.05)).mean(),
                *_verdict(scenario, rng),
            ]
        )
    return Rates(**dict(zip(Rates.__slots__, mean_of_each(found), strict=True)))


def _holding(averages: list[Average | None], truth: float) -> float:
    """Return the share of averages whose interval contains the truth."""
    return float(np.mean([holds(one, truth) for one in averages]))


def _verdict(scenario: Scenario, rng: np.random.Generator) -> tuple[bool, bool]:
    """Return whether a gate passes a model that is worse by the margin, and whether it calls it worse."""
    new, old = scenario.draw(2, rng, worse=True)
    change = paired_change(new, old, scenario.codes)
    assert change is not None
    test = GateTest(model="m", baseline_model="m", benchmark="b", title="b", metric="m", change=change)
    outcome = decide([test], MARGIN)[0].outcome
    return outcome == "pass", outcome == "worse"


PATIENTS = tuple(int(size) for size in np.rint(np.geomspace(1, 200, 30)))
"""30 patients with 1 to 200 notes."""

SCENARIOS = tuple(
    Scenario(title=f"{title}; agreement {agreement:g}, {kind}", sizes=sizes, agreement=agreement, kind=kind)
    for title, sizes in (
        ("20 clusters of 10", (10,) * 20),
        ("5 clusters of 40", (40,) * 5),
        ("3 clusters of 50", (50,) * 3),
        ("2 clusters of 50", (50,) * 2),
        ("30 patients with 1 to 200 notes", PATIENTS),
        ("two clusters of 100, 30 instances", (100, 100, *[1] * 30)),
        ("one cluster of 50, 50 instances", (50, *[1] * 50)),
        ("one cluster of 200, 50 instances", (200, *[1] * 50)),
        ("one cluster of 200, 10 instances", (200, *[1] * 10)),
    )
    for agreement, kind in ((0.3, "grades"), (0.8, "grades"), (0.5, "right or wrong"))
)
"""What the table shows."""


def tables(runs: int) -> Iterator[Table]:
    """Yield the table."""
    headings = [
        "clusters", "score", "difference", "win share", "macro average, 3 benchmarks", "win share, 3", "difference, 3",
        "any two differ", "gate: false pass", "gate: false worse",
    ]  # fmt: skip
    found = ((scenario.title, rates(scenario, runs)) for scenario in SCENARIOS)
    shown = [name for name in Rates.__slots__ if name != "contradiction"]
    yield headings, ([title, *percent(*(getattr(one, name) for name in shown))] for title, one in found)


if __name__ == "__main__":
    print_tables(__doc__, tables, "--runs", 400, "simulations of each row")

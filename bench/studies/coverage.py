"""Simulate how often the 95% intervals of one model's score contain the true score.

    .venv/bin/python -m bench.studies.coverage                # 1,000 simulated runs of each scenario: half a minute
    .venv/bin/python -m bench.studies.coverage --runs 200     # rougher: the error of a coverage is about 1.5 points

Prints the table of docs/explanation/method.md. Tests run the same scenarios with fewer simulated runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bench.studies.simulation import Table, holds, percent, print_tables
from medhelm.analysis.means import Floats
from medhelm.analysis.ratios import estimate_ratios
from medhelm.domain import Parts

SEED = 20
"""Seed of the simulated runs."""

Simulated = tuple[Floats, list[Parts] | None, np.ndarray | None]
"""Scores, parts and clusters of a simulated run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A benchmark and a model whose true score is known."""

    title: str
    """What is simulated, for people."""
    truth: float
    """The true score."""
    draw: Callable[[np.random.Generator], Simulated]
    """Simulates a run."""
    high: float = 1.0
    """Upper end of the scale; the lower one is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Share of simulated runs whose interval contains the truth, and the mean width of the intervals."""

    share: float
    """From 0 to 1."""
    width: float
    """In the unit of the scores."""


def coverage(scenario: Scenario, runs: int, seed: int = SEED) -> Coverage:
    """Simulate a scenario."""
    rng = np.random.default_rng(seed)
    held, width = 0, 0.0
    for _ in range(runs):
        values, parts, clusters = scenario.draw(rng)
        found = estimate_ratios(values, parts, clusters, low=0.0, high=scenario.high)
        assert found is not None
        held += holds(found, scenario.truth)
        width += found.high - found.low
    return Coverage(share=held / runs, width=width / runs)


def ceiling(n: int) -> Scenario:
    """Grades of a jury, as shares of the scale: 90% are the best, 8% one lower, 2% the worst."""
    levels, shares = np.array([0.0, 0.75, 1.0]), [0.02, 0.08, 0.9]
    return Scenario(
        title=f"grades: 90% best, 2% worst; {n} instances",
        truth=float(levels @ shares),
        draw=lambda rng: (rng.choice(levels, n, p=shares), None, None),
    )


def spread_grades(n: int) -> Scenario:
    """Grades all over the scale."""
    levels, shares = np.array([0.0, 0.25, 0.5, 0.75, 0.875, 1.0]), [0.05, 0.1, 0.15, 0.2, 0.2, 0.3]
    return Scenario(
        title=f"grades all over the scale; {n} instances",
        truth=float(levels @ shares),
        draw=lambda rng: (rng.choice(levels, n, p=shares), None, None),
    )


def rare_hits(n: int) -> Scenario:
    """Overlap of codes: 95% of the scores are 0."""

    def draw(rng: np.random.Generator) -> Simulated:
        return np.where(rng.random(n) < 0.95, 0.0, rng.beta(2, 2, n)), None, None

    return Scenario(title=f"95% zeros; {n} instances", truth=0.025, draw=draw)


def overlap(n: int) -> Scenario:
    """ROUGE."""
    return Scenario(
        title=f"ROUGE near 0.25; {n} instances", truth=0.25, draw=lambda rng: (rng.beta(4, 12, n), None, None)
    )


def two_ended(n: int) -> Scenario:
    """Scores that nearly all lie at one end of the scale or the other: the hardest case."""
    return Scenario(
        title=f"nearly all at either end; {n} instances",
        truth=0.3 / 0.35,
        draw=lambda rng: (rng.beta(0.3, 0.05, n), None, None),
    )


def balanced(positives: int, n: int, sensitivity: float, specificity: float) -> Scenario:
    """Balanced accuracy with a rare class."""
    names = ["yes"] * positives + ["no"] * (n - positives)
    chances = np.where(np.arange(n) < positives, sensitivity, specificity)

    def draw(rng: np.random.Generator) -> Simulated:
        right = (rng.random(n) < chances).astype(float)
        return right, [{name: (score, 1.0)} for name, score in zip(names, right.tolist(), strict=True)], None

    title = f"balanced accuracy, {positives} of {n} positive"
    return Scenario(title=title, truth=(sensitivity + specificity) / 2, draw=draw)


def groups(sizes: Sequence[int], p: float) -> Scenario:
    """Mean of the means of groups of 0/1 scores."""
    names = [f"g{i}" for i, size in enumerate(sizes) for _ in range(size)]

    def draw(rng: np.random.Generator) -> Simulated:
        right = (rng.random(len(names)) < p).astype(float)
        return right, [{name: (score, 1.0)} for name, score in zip(names, right.tolist(), strict=True)], None

    whole = f"{len(sizes)} groups of {min(sizes)}" + (f" to {max(sizes)}" if max(sizes) > min(sizes) else "")
    return Scenario(title=f"mean of {whole}, {p:.0%} correct", truth=p, draw=draw)


def clustered(title: str, sizes: Sequence[int], agreement: float, p: float) -> Scenario:
    """0/1 scores that agree within clusters; `agreement` is the intraclass correlation."""
    names = np.repeat(np.arange(len(sizes)), sizes)
    shape = (1 - agreement) / agreement

    def draw(rng: np.random.Generator) -> Simulated:
        chances = np.repeat(rng.beta(p * shape, (1 - p) * shape, len(sizes)), sizes)
        return (rng.random(len(names)) < chances).astype(float), None, names

    return Scenario(title=f"{title}; agreement {agreement:g}, {p:.0%} correct", truth=p, draw=draw)


def shifted(n_clusters: int, size: int, p: float, shift: float) -> Scenario:
    """Balanced accuracy in clusters, half of each positive, where a model finds more or fewer positives.

    What it gains in one class of a cluster, it loses in the other.
    """
    names = np.repeat(np.arange(n_clusters), size)
    positive = np.arange(n_clusters * size) % 2 == 0
    labels = np.where(positive, "yes", "no").tolist()

    def draw(rng: np.random.Generator) -> Simulated:
        by_cluster = np.repeat(rng.choice([-shift, shift], n_clusters), size)
        right = (rng.random(len(names)) < p + np.where(positive, by_cluster, -by_cluster)).astype(float)
        return right, [{name: (score, 1.0)} for name, score in zip(labels, right.tolist(), strict=True)], names

    return Scenario(title=f"balanced accuracy, {n_clusters} clusters of {size}", truth=p, draw=draw)


def macro_f1(n_labels: int, n: int, accuracy: float) -> Scenario:
    """Macro F1 of labels that are equally frequent and equally often mistaken for each other."""

    def draw(rng: np.random.Generator) -> Simulated:
        true = rng.integers(0, n_labels, n)
        is_right = rng.random(n) < accuracy
        found = np.where(is_right, true, (true + rng.integers(1, n_labels, n)) % n_labels)
        parts: list[Parts] = [
            {str(a): (2.0, 2.0)} if a == b else {str(a): (0.0, 1.0), str(b): (0.0, 1.0)}
            for a, b in zip(true.tolist(), found.tolist(), strict=True)
        ]
        return is_right.astype(float), parts, None

    return Scenario(title=f"macro F1, {n_labels} labels, {n} instances", truth=accuracy, draw=draw)


SCENARIOS = (
    *(ceiling(n) for n in (5, 12, 20, 50, 150)),
    *(spread_grades(n) for n in (2, 3, 5, 12, 50)),
    *(rare_hits(n) for n in (8, 50, 150)),
    *(overlap(n) for n in (2, 3, 5, 12, 50)),
    *(two_ended(n) for n in (2, 5, 12, 50)),
    balanced(4, 200, 0.8, 0.9),
    balanced(10, 200, 0.8, 0.9),
    balanced(20, 400, 0.95, 0.9),
    balanced(50, 400, 0.9, 0.9),
    groups([5] * 10, 0.8),
    groups([2, 5, 10, 50, 200], 0.9),
    groups([1] * 37, 0.5),
    *(shifted(k, 20, 0.7, 0.2) for k in (2, 3, 6)),
    *(macro_f1(labels, n, 0.85) for labels in (2, 3) for n in (10, 40)),
    clustered("one cluster of 200 and 10 instances", [200] + [1] * 10, 0.3, 0.5),
    clustered("one cluster of 200 and 10 instances", [200] + [1] * 10, 0.8, 0.85),
    clustered("one cluster of 50 and 50 instances", [50] + [1] * 50, 0.3, 0.85),
    clustered("two clusters of 100 and 30 instances", [100, 100] + [1] * 30, 0.3, 0.85),
    clustered("11 clusters of 20", [20] * 11, 0.3, 0.5),
)
"""What the table shows."""


def tables(runs: int) -> Iterator[Table]:
    """Yield the table."""
    found = ((scenario.title, coverage(scenario, runs)) for scenario in SCENARIOS)
    rows = ([title, *percent(one.share), f"{one.width:.2f}"] for title, one in found)
    yield ["simulated benchmark", "contains the truth", "mean width"], rows


if __name__ == "__main__":
    print_tables(__doc__, tables, "--runs", 1000, "simulated runs of each scenario")

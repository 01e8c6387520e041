"""Non-inferiority at a margin: outcomes, intervals, and error rates."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from medhelm.analysis.comparison.non_inferiority import (
    Change,
    GateResult,
    GateTest,
    decide,
    mean_change,
    paired_change,
    unpaired_change,
)
from medhelm.analysis.comparison.paired_differences import paired_difference
from medhelm.analysis.means import Clusters, Floats, wilson_interval
from tests.support.values import present

MARGIN = 0.05
Drawn = tuple[Floats, Floats, Clusters]


def change_of(new: Floats, old: Floats, clusters: Clusters = None) -> Change:
    return present(paired_change(new, old, clusters))


def gate_test(change: Change, benchmark: str = "b", model: str = "m") -> GateTest:
    return GateTest(model=model, baseline_model=model, benchmark=benchmark, title=benchmark, metric="EM", change=change)


def right_or_wrong(n: int, *, only_old: int, only_new: int = 0) -> Drawn:
    """Two runs that differ on the first instances."""
    old, new = np.ones(n), np.ones(n)
    new[:only_old] = 0
    old[only_old : only_old + only_new] = 0
    return new, old, None


def outcome(change: Change, margin: float = 0.02) -> str:
    return decide([gate_test(change)], margin)[0].outcome


# --- outcomes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "only_old", "only_new", "expected"),
    [(20_000, 100, 0, "pass"), (500, 60, 0, "worse"), (500, 15, 5, "undecided"), (200, 0, 40, "pass")],
    ids=["a drop within the margin", "a drop beyond it", "an interval that includes it", "a better model"],
)
def test_outcomes_of_clear_changes(n: int, only_old: int, only_new: int, expected: str) -> None:
    assert outcome(change_of(*right_or_wrong(n, only_old=only_old, only_new=only_new))) == expected


@pytest.mark.parametrize("seed", range(40))
def test_the_interval_shows_the_verdict(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, drop = int(rng.integers(2, 300)), rng.choice([0.0, 0.05, 0.2])
    old, new = rng.random(n), rng.random(n) * 0.5 + 0.25 - drop
    if seed % 2:
        old, new = (old < 0.8).astype(float), (rng.random(n) < 0.8 - drop).astype(float)
    change = change_of(new, old, rng.integers(0, max(n // 4, 1), n) if seed % 4 == 3 else None)
    assert (outcome(change, MARGIN) == "pass") == (change.low > -MARGIN)
    assert (outcome(change, MARGIN) == "worse") == (change.high < -MARGIN)


def test_the_interval_is_that_of_comparisons_or_longer() -> None:
    rng = np.random.default_rng(1)
    for n in (1, 2, 10, 200):
        for new, old in ((rng.random((2, n)) < 0.7).astype(float), rng.random((2, n))):
            change, usual = change_of(new, old), paired_difference(new, old, None)
            assert usual is not None
            assert change.value == pytest.approx(usual.value)
            assert change.low <= usual.low + 1e-7
            assert change.high >= usual.high - 1e-7


def test_equal_runs_need_enough_instances_to_pass() -> None:
    few, many = (change_of(*right_or_wrong(n, only_old=0)) for n in (100, 200))
    assert (outcome(few), outcome(many)) == ("undecided", "pass")
    needed = present(decide([gate_test(few)], 0.02)[0].needed)
    assert needed.instances == 190
    assert needed.assumed == 0


def test_missing_scores_count_against_both_verdicts() -> None:
    new, old, _ = right_or_wrong(1000, only_old=0)
    new[:50] = np.nan
    change = change_of(new, old)
    assert (change.n, change.n_missing) == (950, 50)
    assert change.value - change.below == pytest.approx(-0.05)
    assert outcome(change) == "undecided"
    assert outcome(change.without_bounds()) == "pass"
    new, old, _ = right_or_wrong(1000, only_old=120)
    new[-200:] = np.nan
    old[-200:] = np.nan
    assert outcome(change_of(new, old).without_bounds()) == "worse"
    assert outcome(change_of(new, old)) == "undecided"


def test_the_advised_number_of_instances_decides() -> None:
    """An unchanged model passes with the advised number in four of five tries."""
    rng = np.random.default_rng(3)

    def draw(n: int) -> Change:
        kind = rng.random(n)
        return change_of((kind > 0.1).astype(float), ((kind < 0.1) | (kind > 0.2)).astype(float))

    asked = [decide([gate_test(draw(400))], MARGIN)[0] for _ in range(20)]
    needed = [one.needed.instances for one in asked if one.needed and one.needed.instances and not one.needed.assumed]
    n = int(np.median(needed))
    assert 500 < n < 800
    passed = np.mean([outcome(draw(n), MARGIN) == "pass" for _ in range(300)])
    assert 0.7 < passed < 0.9


def test_means_without_instances_are_compared_with_wider_intervals() -> None:
    new, old, _ = right_or_wrong(500, only_old=10)
    new[200:300] = old[200:300] = 0
    paired = change_of(new, old)
    ends = [wilson_interval(scores.sum(), 500) for scores in (new, old)]
    means = unpaired_change((0.78, *ends[0]), (0.8, *ends[1]), 500, (0.0, 0.0))
    assert means.value == pytest.approx(paired.value)
    assert means.low < paired.low < paired.high < means.high
    assert not means.is_paired
    assert unpaired_change((0.9, 0.88, 0.92), (0.9, 0.88, 0.92), 500, (0.1, 0.0)).below == pytest.approx(0.09)


# --- several tests ----------------------------------------------------------------------------------------------------


def test_the_mean_decides_unless_each_benchmark_must_pass() -> None:
    small = change_of(*right_or_wrong(100, only_old=0))
    tests = [gate_test(small, f"b{i}") for i in range(6)]
    tests.append(gate_test(mean_change([small] * 6), ""))
    decided = decide(tests, 0.02)
    assert [one.outcome for one in decided] == ["undecided"] * 6 + ["pass"]
    assert GateResult(against="r", margin=0.02, tests=decided).exit_code == 0
    assert GateResult(against="r", margin=0.02, tests=decided, each=True).exit_code == 5
    bad = decide([*tests, gate_test(change_of(*right_or_wrong(500, only_old=80)), "bad")], 0.02)
    assert GateResult(against="r", margin=0.02, tests=bad).exit_code == 1


def test_a_margin_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        decide([], 0.0)


# --- error rates ------------------------------------------------------------------------------------------------------


def binary(rng: np.random.Generator, n: int, right: float = 0.8, differing: float = 0.1) -> Drawn:
    """Right or wrong, the new run a margin worse."""
    old = rng.random(n) < right
    lost, gained = (differing + MARGIN) / 2 / right, (differing - MARGIN) / 2 / (1 - right)
    return np.where(old, rng.random(n) >= lost, rng.random(n) < gained).astype(float), old.astype(float), None


def rare_disasters(rng: np.random.Generator, n: int) -> Drawn:
    """Grades of which a fifth vary, and a few drop from the best to the worst."""
    old, other = rng.choice(np.arange(5) / 4, (2, n), p=[0.05, 0.05, 0.1, 0.3, 0.5])
    new = np.where(rng.random(n) < 0.2, other, old)
    return np.where((rng.random(n) < MARGIN / 0.5) & (new == 1), 0.0, new), old, None


def grades(rng: np.random.Generator, n: int) -> Drawn:
    """Grades all over the scale."""
    return 0.5 - MARGIN + rng.normal(0, 0.1, n), 0.5 + rng.normal(0, 0.1, n), None


def clustered(rng: np.random.Generator, k: int) -> Drawn:
    """Five answers that are the same within each cluster."""
    codes = np.repeat(np.arange(k), 5)
    old = (rng.random(k) < 0.9)[codes]
    return (old & ~(rng.random(k) < MARGIN / 0.9)[codes]).astype(float), old.astype(float), codes


SETTINGS: dict[str, Callable[[np.random.Generator], Drawn]] = {
    "few": partial(binary, n=20),
    "1000": partial(binary, n=1000),
    "saturated, 150": partial(binary, n=150, right=0.98, differing=0.0501),
    "rare disasters, 20": partial(rare_disasters, n=20),
    "rare disasters, 100": partial(rare_disasters, n=100),
    "grades, 5": partial(grades, n=5),
    "clusters, 30": partial(clustered, k=30),
}


@pytest.mark.long
@pytest.mark.parametrize("name", SETTINGS)
def test_wrong_verdicts_are_as_rare_as_promised(name: str) -> None:
    """At a true change of minus the margin, "pass" and "worse" are both wrong."""
    rng = np.random.default_rng(11)
    found = [outcome(change_of(*SETTINGS[name](rng)), MARGIN) for _ in range(4000)]
    assert max(found.count("pass"), found.count("worse")) / 4000 <= 0.025 + 3.5 * 0.0025


@pytest.mark.long
def test_a_gate_keeps_its_error_rates() -> None:
    """Two models on eight benchmarks, with a true change of minus the margin everywhere."""
    rng, outcomes, n = np.random.default_rng(5), [], 150
    for _ in range(2000):
        tests = []
        for model in ("a", "b"):
            changes = []
            for _ in range(8):
                old = rng.random(n) < 0.8
                kept = np.where(old, rng.random(n) >= (0.1 + MARGIN) / 1.6, rng.random(n) < (0.1 - MARGIN) / 0.4)
                missing = np.where(rng.random(n) < 0.002, np.nan, 1.0)
                changes.append(change_of(kept * missing, old.astype(float)))
            tests += [gate_test(one, f"b{i}", model) for i, one in enumerate(changes)]
            tests.append(gate_test(mean_change(changes), "", model))
        outcomes.append(GateResult(against="r", margin=MARGIN, tests=decide(tests, MARGIN)).outcome)
    assert outcomes.count("worse") / 2000 <= 0.05 + 3 * 0.005
    assert outcomes.count("pass") / 2000 <= 0.025 + 3 * 0.0035

"""Non-inferiority at a margin: outcomes, intervals, and error rates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from medhelm.analysis.comparison.non_inferiority import (
    Change,
    GateResult,
    GateTest,
    NotCompared,
    decide,
    mean_change,
    paired_change,
    unpaired_change,
)
from medhelm.analysis.comparison.paired import paired_difference
from medhelm.analysis.means import Clusters, Floats, wilson_interval
from tests.support.values import present

MARGIN = 0.05
Drawn = tuple[Floats, Floats, Clusters]
Draw = Callable[[np.random.Generator], Drawn]


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
    n = int(rng.integers(2, 300))
    drop = rng.choice([0.0, 0.05, 0.2])
    if seed % 2:
        old, new = rng.random(n), rng.random(n) * 0.5 + 0.25 - drop
    else:
        old, new = (rng.random(n) < 0.8).astype(float), (rng.random(n) < 0.8 - drop).astype(float)
    change = change_of(new, old, rng.integers(0, max(n // 4, 1), n) if seed % 4 == 3 else None)
    found = outcome(change, MARGIN)
    assert (found == "pass") == (change.low > -MARGIN)
    assert (found == "worse") == (change.high < -MARGIN)


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


def test_one_instance_or_one_cluster_decides_nothing() -> None:
    assert outcome(change_of(np.zeros(1), np.ones(1))) == "undecided"
    assert outcome(change_of(np.zeros(50), np.ones(50), ["note"] * 50)) == "undecided"


def test_no_shared_score_is_no_comparison() -> None:
    assert paired_change(np.array([1.0, np.nan]), np.array([np.nan, 1.0]), None) is None


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


def test_one_bad_benchmark_fails_the_gate() -> None:
    fine = change_of(*right_or_wrong(5000, only_old=0))
    bad = change_of(*right_or_wrong(500, only_old=80))
    changes = [fine] * 9 + [bad]
    tests = [gate_test(one, f"b{i}") for i, one in enumerate(changes)] + [gate_test(mean_change(changes), "")]
    found = GateResult(against="r", margin=0.02, tests=decide(tests, 0.02))
    assert found.tests[-2].outcome == "worse"
    assert (found.outcome, found.exit_code) == ("worse", 1)


def test_the_mean_decides_unless_each_benchmark_must_pass() -> None:
    small = change_of(*right_or_wrong(100, only_old=0))
    tests = [gate_test(small, f"b{i}") for i in range(6)]
    tests.append(gate_test(mean_change([small] * 6), ""))
    decided = decide(tests, 0.02)
    assert [one.outcome for one in decided] == ["undecided"] * 6 + ["pass"]
    assert GateResult(against="r", margin=0.02, tests=decided).exit_code == 0
    assert GateResult(against="r", margin=0.02, tests=decided, each=True).exit_code == 5


def test_what_is_missing_keeps_the_gate_from_passing() -> None:
    fine = decide([gate_test(change_of(*right_or_wrong(1000, only_old=0)), name) for name in ("b", "")], 0.02)
    gap = NotCompared(model="m", baseline_model="m", benchmark="c", title="C", reason="it was not run")
    assert GateResult(against="r", margin=0.02, tests=fine).outcome == "pass"
    assert GateResult(against="r", margin=0.02, tests=fine, not_compared=(gap,)).outcome == "undecided"
    assert GateResult(against="r", margin=0.02, tests=fine, not_compared=(gap,), allow_missing=True).outcome == "pass"
    assert GateResult(against="r", margin=0.02, tests=()).outcome == "undecided"


def test_a_margin_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        decide([], 0.0)


# --- error rates ------------------------------------------------------------------------------------------------------


def binary(n: int, right: float, differing: float) -> Draw:
    """Right or wrong, the new run a margin worse."""

    def draw(rng: np.random.Generator) -> Drawn:
        old = rng.random(n) < right
        lost, gained = (differing + MARGIN) / 2 / right, (differing - MARGIN) / 2 / (1 - right)
        return np.where(old, rng.random(n) >= lost, rng.random(n) < gained).astype(float), old.astype(float), None

    return draw


def mostly_equal_grades(n: int) -> Draw:
    """Grades near the best, a few of which drop to the worst."""

    def draw(rng: np.random.Generator) -> Drawn:
        old = rng.choice([0.75, 1.0], n)
        return np.where(rng.random(n) < MARGIN / 0.875, 0.0, old), old, None

    return draw


def rare_disasters(n: int, margin: float = MARGIN) -> Draw:
    """Grades of which a fifth vary, and a few drop from the best to the worst."""

    def draw(rng: np.random.Generator) -> Drawn:
        grades, shares = np.arange(5) / 4, [0.05, 0.05, 0.1, 0.3, 0.5]
        old, other = rng.choice(grades, (2, n), p=shares)
        new = np.where(rng.random(n) < 0.2, other, old)
        return np.where((rng.random(n) < margin / 0.5) & (new == 1), 0.0, new), old, None

    return draw


def grades(n: int) -> Draw:
    """Grades all over the scale."""

    def draw(rng: np.random.Generator) -> Drawn:
        return 0.5 - MARGIN + rng.normal(0, 0.1, n), 0.5 + rng.normal(0, 0.1, n), None

    return draw


def clustered(k: int, size: int) -> Draw:
    """Answers that are the same within a cluster."""

    def draw(rng: np.random.Generator) -> Drawn:
        codes = np.repeat(np.arange(k), size)
        old = (rng.random(k) < 0.9)[codes]
        return (old & ~(rng.random(k) < MARGIN / 0.9)[codes]).astype(float), old.astype(float), codes

    return draw


SETTINGS: dict[str, Draw] = {
    "few": binary(20, 0.8, 0.1),
    "100": binary(100, 0.8, 0.1),
    "1000": binary(1000, 0.8, 0.1),
    "saturated, 60": binary(60, 0.98, 0.0501),
    "saturated, 150": binary(150, 0.98, 0.0501),
    "saturated, 500": binary(500, 0.98, 0.0501),
    "mostly equal grades, 20": mostly_equal_grades(20),
    "mostly equal grades, 200": mostly_equal_grades(200),
    "rare disasters, 20": rare_disasters(20),
    "rare disasters, 50": rare_disasters(50),
    "rare disasters, 100": rare_disasters(100),
    "rare disasters, 500": rare_disasters(500),
    "grades, 5": grades(5),
    "grades, 50": grades(50),
    "clusters, 30": clustered(30, 5),
    "clusters, 150": clustered(150, 5),
}


def error_rates(draw: Draw, repeats: int, margin: float = MARGIN) -> tuple[float, float]:
    """Return how often the verdict is pass, and worse, at a true change of minus the margin: both would be wrong."""
    rng = np.random.default_rng(11)
    found = [outcome(change_of(*draw(rng)), margin) for _ in range(repeats)]
    return found.count("pass") / repeats, found.count("worse") / repeats


@pytest.mark.long
@pytest.mark.parametrize("name", SETTINGS)
def test_wrong_verdicts_are_as_rare_as_promised(name: str) -> None:
    assert max(error_rates(SETTINGS[name], 4000)) <= 0.025 + 3.5 * 0.0025


@pytest.mark.long
@pytest.mark.parametrize("n", [20, 50, 100, 200])
def test_rare_disasters_seldom_pass_a_small_margin(n: int) -> None:
    """One drop in 25 best grades, of which few samples of this size have enough."""
    assert max(error_rates(rare_disasters(n, 0.02), 4000, 0.02)) <= 0.025 + 3.5 * 0.0025


def gates(drop: float, repeats: int, *, n: int = 150, benchmarks: int = 8) -> list[GateResult]:
    """Simulate gates on several benchmarks, two models, and a true change of minus `drop` everywhere."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(repeats):
        tests = []
        for model in ("a", "b"):
            changes = []
            for _ in range(benchmarks):
                old = rng.random(n) < 0.8
                kept = np.where(old, rng.random(n) >= (0.1 + drop) / 1.6, rng.random(n) < (0.1 - drop) / 0.4)
                missing = np.where(rng.random(n) < 0.002, np.nan, 1.0)
                changes.append(change_of(kept * missing, old.astype(float)))
            tests += [gate_test(one, f"b{i}", model) for i, one in enumerate(changes)]
            tests.append(gate_test(mean_change(changes), "", model))
        found.append(GateResult(against="r", margin=MARGIN, tests=decide(tests, MARGIN)))
    return found


@pytest.mark.long
def test_a_gate_keeps_its_error_rates() -> None:
    outcomes = [one.outcome for one in gates(MARGIN, 2000)]
    assert outcomes.count("worse") / 2000 <= 0.05 + 3 * 0.005
    assert outcomes.count("pass") / 2000 <= 0.025 + 3 * 0.0035


def test_a_gate_passes_an_unchanged_model_and_stops_a_bad_one() -> None:
    assert [one.outcome for one in gates(0.0, 20)].count("pass") >= 18
    assert {one.outcome for one in gates(0.099, 20)} <= {"worse", "undecided"}

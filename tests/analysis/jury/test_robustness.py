"""Reactions of judges to changes: simulated judges come out as what they are, at the stated level and power."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from medhelm.analysis.comparison.paired_differences import paired_difference
from medhelm.analysis.comparison.significance import holm
from medhelm.analysis.jury.cells import ALL_JUDGES, JudgmentCells, collect_judgments
from medhelm.analysis.jury.robustness import ChangedJudgments, JudgeRobustness, judge_robustness
from tests.support.juries import judged_run
from tests.support.values import present

JUDGES = ("fair", "fond")


def cells_of(grades: np.ndarray, *, length: int = 100) -> JudgmentCells:
    """Judgments of models, shape (models, judges, instances, criteria), on completions of this length."""
    lengths = np.full(grades.shape[2], float(length))
    runs = [judged_run(own, f"m{place}", judges=JUDGES, lengths=lengths) for place, own in enumerate(grades)]
    return collect_judgments(runs, low=1, high=5)


def some_grades(rng: np.random.Generator, n: int, *, models: int = 2) -> np.ndarray:
    """Grades of completions whose quality both judges see, with noise."""
    quality = rng.normal(3, 0.8, (models, 1, n, 1))
    return np.clip(np.rint(quality + rng.normal(0, 0.5, (models, len(JUDGES), n, 3))), 1, 5)


def measured(
    plain: np.ndarray, changed: Sequence[np.ndarray], *, repeats: Sequence[np.ndarray] = (), length: int = 110
) -> JudgeRobustness:
    return judge_robustness(
        "notes",
        "Notes",
        cells_of(plain),
        [ChangedJudgments(f"c{i}", cells_of(own, length=length), True) for i, own in enumerate(changed)],
        [cells_of(own) for own in repeats],
        at_least=1,
        rng=np.random.default_rng(0),
    )


@pytest.fixture(autouse=True)
def few(few_draws: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medhelm.analysis.jury.robustness.DRAWS", 100)


def test_the_shift_is_the_mean_of_paired_differences_by_judge_and_criterion() -> None:
    rng = np.random.default_rng(1)
    plain, changed = some_grades(rng, 40), some_grades(rng, 40)
    found = measured(plain, [changed])
    for place, shift in enumerate(found.shifts):
        difference = (changed - plain)[:, place]
        assert shift.shift is not None and shift.moved is not None
        assert shift.shift.value == pytest.approx(difference.mean())
        assert shift.shift.n == 80
        assert shift.moved.value == pytest.approx((np.abs(difference.mean(axis=2)) > 1e-12).mean())
        assert [one.value for one in shift.by_criterion.values()] == pytest.approx(difference.mean(axis=(0, 1)))
        # The interval is Student's over instances, whose completions go together.
        by_instance = difference.mean(axis=(0, 2))
        reach = 2.02 * by_instance.std(ddof=1) / np.sqrt(40)
        assert shift.shift.high - shift.shift.low == pytest.approx(2 * reach, rel=0.1)
    after, before = ((own.mean(axis=3) - 1) / 4 for own in (changed, plain))
    clusters = np.tile(np.arange(40), 2)
    tests = [paired_difference(after[:, j].ravel(), before[:, j].ravel(), clusters) for j in range(2)]
    expected = holm([present(test).p_value for test in tests])
    assert [shift.p_adjusted for shift in found.shifts] == pytest.approx(expected)


def test_a_change_that_changes_no_completion_is_not_measured() -> None:
    grades = some_grades(np.random.default_rng(2), 10)
    found = measured(grades, [grades], length=100)
    assert (found.shifts, found.ranks) == ((), ())


def test_noise_is_seldom_taken_for_a_shift_and_a_shift_of_a_third_of_a_grade_is_mostly_found() -> None:
    """30 instances of two models, two judges, two changes: at most 5% with any false finding, by Holm's method."""
    rng = np.random.default_rng(3)
    false = found = 0
    for _ in range(30):
        plain = some_grades(rng, 30)
        same = np.clip(plain + rng.choice([-1, 0, 1], plain.shape, p=[0.15, 0.7, 0.15]), 1, 5)
        fond = same.copy()
        fond[:, 1] = np.clip(fond[:, 1] + (rng.random(fond[:, 1].shape) < 0.4), 1, 5)
        shifts = {(one.judge, one.change): one.is_significant for one in measured(plain, [same, fond]).shifts}
        found += shifts.pop(("fond", "c1"))
        false += any(shifts.values())
    assert false <= 5  # a binomial with 5% has at most 5 of 30 with a probability of 99.7%
    assert found >= 28


def test_the_order_of_models_is_kept_or_lost() -> None:
    rng = np.random.default_rng(4)
    plain = some_grades(rng, 40, models=3)
    plain[0], plain[2] = np.minimum(plain[0] + 1, 5), np.maximum(plain[2] - 1, 1)
    turned = plain.copy()
    turned[[0, 1], 1] = plain[[1, 0], 1]  # the second judge exchanges the first two models
    found = measured(plain, [turned])
    ranks = {one.judge: one for one in found.ranks}
    assert set(ranks) == {ALL_JUDGES, *JUDGES}
    assert (ranks["fair"].n_kept, len(ranks["fair"].pairs)) == (3, 3)
    assert ranks["fair"].least is not None and ranks["fair"].least.share == 1
    (lost,) = [pair for pair in ranks["fond"].pairs if not pair.is_kept]
    assert (lost.better, lost.worse) == ("m0", "m1")
    assert lost.share < 0.05


def test_a_judge_agrees_with_itself_as_much_as_its_repeats_do() -> None:
    rng = np.random.default_rng(5)
    plain, again = some_grades(rng, 60), some_grades(rng, 60)
    again[:, 0] = plain[:, 0]  # the first judge repeats itself, the second one guesses anew
    repeats = {one.on: one.icc_2_1 for one in measured(plain, [], repeats=[again]).repeats}
    assert repeats["fair"] is not None and repeats["fair"].value == pytest.approx(1)
    assert repeats["fond"] is not None and repeats["fond"].value < 0.3

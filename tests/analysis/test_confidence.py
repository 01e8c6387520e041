"""Calibration, selective prediction and abstention against other formulas, and at their level by simulation."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest

from medhelm.analysis.confidence import calibrate, calibration_error, count_abstentions
from medhelm.analysis.means import Floats


def simulated(n: int, shift: float, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Return confidences in steps of 5%, the probability to be right, which is lower by `shift`, and what came out."""
    c = rng.choice(np.linspace(0.5, 1.0, 11), n)
    p = np.clip(c - shift, 0, 1)
    return c, p, (rng.random(n) < p).astype(float)


@pytest.mark.parametrize(
    ("shift", "runs"),
    [(0.0, 40), (0.15, 40), *(pytest.param(shift, 300, marks=pytest.mark.long) for shift in (0.0, 0.04, 0.15))],
)
def test_the_interval_of_the_calibration_error_holds_the_true_one(shift: float, runs: int) -> None:
    rng, inside, errors = np.random.default_rng(7), 0, []
    for _ in range(runs):
        c, p, y = simulated(200, shift, rng)
        found = calibration_error(c, y, draws=200)
        inside += found.low <= np.abs(c - p).mean() <= found.high
        errors.append(found.value - np.abs(c - p).mean())
    assert inside / runs >= 0.95 - 2.5 * math.sqrt(0.95 * 0.05 / runs)
    assert abs(np.mean(errors)) < (0.03 if shift == 0 else 0.012), "the usual one is too high by 0.05 without an error"


def test_instances_of_a_cluster_are_one_observation() -> None:
    rng, alone, together = np.random.default_rng(3), [], []
    for _ in range(4):
        c, _, y = simulated(40, 0.1, rng)
        names = np.repeat(np.arange(40), 8)
        wide = calibrate(np.repeat(c, 8).tolist(), np.repeat(y, 8).astype(bool).tolist(), clusters=names, draws=400)
        narrow = calibrate(c.tolist(), y.astype(bool).tolist(), draws=400)
        assert wide is not None
        assert narrow is not None
        for one, other in zip((wide.brier, wide.aurc, *wide.selective), (narrow.brier, narrow.aurc, *narrow.selective),
                              strict=True):  # fmt: skip
            assert one.value == pytest.approx(other.value)
            alone.append(other.high - other.low)
            together.append(one.high - one.low)
    assert np.mean(together) == pytest.approx(np.mean(alone), rel=0.1)


def test_a_calibrated_and_an_overconfident_model_come_out_as_such() -> None:
    rng = np.random.default_rng(11)
    c, _, y = simulated(1000, 0.0, rng)
    calibrated = calibrate(c.tolist(), y.astype(bool).tolist())
    c, _, y = simulated(1000, 0.2, rng)
    overconfident = calibrate(c.tolist(), y.astype(bool).tolist())
    assert calibrated is not None
    assert overconfident is not None
    assert calibrated.ece.high < 0.05 < 0.15 < overconfident.ece.low
    assert calibrated.overconfidence.low < 0 < calibrated.overconfidence.high
    assert overconfident.overconfidence.low > 0.15
    assert calibrated.selective[0].value > calibrated.accuracy.value, "it is surer where it is right"
    assert calibrated.aurc.high < 1 - calibrated.accuracy.value


def test_the_brier_score_is_the_sum_of_its_parts_where_bins_hold_equal_confidences() -> None:
    c = np.repeat([0.5, 0.7, 0.9], [60, 60, 80])
    y = np.random.default_rng(0).random(200) < c
    found = calibrate(c.tolist(), y.tolist())
    assert found is not None
    assert found.reliability - found.resolution + found.uncertainty == pytest.approx(found.brier.value)
    by_hand = sum(abs(c[c == v].sum() - y[c == v].sum()) for v in (0.5, 0.7, 0.9)) / 200
    assert found.ece_plain == pytest.approx(by_hand)
    assert [(one.n, one.low, one.high) for one in found.curve] == [(60, 0.5, 0.5), (60, 0.7, 0.7), (80, 0.9, 0.9)]
    assert [one.coverage for one in found.risks] == [0.4, 0.7, 1.0]
    assert found.risks[-1].risk == pytest.approx(1 - y.mean())


def test_the_area_under_the_risk_coverage_curve_is_the_mean_risk_over_orders_of_ties() -> None:
    c = [0.9, 0.9, 0.6, 0.6, 0.3]
    right = [True, False, True, False, False]
    repeated = 60  # with many instances, the integral is the mean over their number
    found = calibrate(c * repeated, right * repeated)
    assert found is not None
    rng, means = np.random.default_rng(5), []
    confidence, wrong = np.array(c * repeated), 1 - np.array(right * repeated, dtype=float)
    for _ in range(400):
        order = np.lexsort((rng.random(len(wrong)), -confidence))
        means.append((np.cumsum(wrong[order]) / np.arange(1, len(wrong) + 1)).mean())
    assert found.aurc.value == pytest.approx(np.mean(means), abs=0.004)
    # At 80% of five instances, four are answered: all but the least sure one.
    assert found.selective[0].value == pytest.approx(0.5)
    five = calibrate(c, right)
    assert five is not None
    by_order = [np.mean([right[i] for i in [*order, 2, 3]]) for order in permutations([0, 1])]
    assert five.selective[0].value == pytest.approx(np.mean(by_order))


def test_intervals_of_selective_accuracy_and_area_hold_the_true_values() -> None:
    rng, inside = np.random.default_rng(9), np.zeros(2)
    c, _, y = simulated(200_000, 0.05, rng)
    order = np.argsort(-c, kind="stable")
    top = y[order[:160_000]].mean()
    area = (np.cumsum(1 - y[order]) / np.arange(1, 200_001)).mean()
    for _ in range(30):
        c, _, y = simulated(150, 0.05, rng)
        found = calibrate(c.tolist(), y.astype(bool).tolist(), draws=200)
        assert found is not None
        inside += [found.selective[0].low <= top <= found.selective[0].high, found.aurc.low <= area <= found.aurc.high]
    assert inside.min() >= 25, "at 95%, 24 or fewer of 30 happen once in 300 times"


def test_few_and_impossible_confidences() -> None:
    assert calibrate([], []) is None
    one = calibrate([0.9], [True])
    assert one is not None
    assert (one.ece.low, one.ece.high, one.aurc.low, one.aurc.high) == (0, 1, 0, 1), "one instance says nothing"
    sure = calibrate([1.0] * 30, [True] * 30)
    assert sure is not None
    assert sure.ece.value == 0
    assert sure.ece.high > 0.01, "thirty right answers do not prove that none is wrong"
    assert sure.aurc.high > 0.05
    with pytest.raises(ValueError, match="from 0 to 1"):
        calibrate([1.5], [True])


def test_abstentions_are_counted_apart_from_answers_and_failures() -> None:
    found = count_abstentions([True, False, False, None, True], [0.0, 1.0, 0.0, None, 0.0])
    assert found is not None
    assert (found.n, found.n_failed, found.n_abstained, found.rate.value) == (4, 1, 2, 0.5)
    assert found.answered_accuracy is not None
    assert (found.answered_accuracy.value, found.answered_accuracy.n) == (0.5, 2)
    assert count_abstentions([None], [None]) is None
    always = count_abstentions([True], [0.0])
    assert always is not None
    assert always.answered_accuracy is None

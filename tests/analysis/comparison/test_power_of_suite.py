"""What benchmarks at hand can tell apart, and what more of them could."""

from __future__ import annotations

import math

import numpy as np
import pytest

from medhelm.analysis.comparison.power import PowerDesign, SuitePower, estimate_power, suite_power
from medhelm.analysis.leaderboard.cells import Cell
from tests.support.leaderboards import column, score_cells

AIM = PowerDesign()


def test_neighbours_by_hand() -> None:
    x = np.array([[1.0, 1, 1, 0, 1, 0], [0.0, 1, 0, 0, 1, 0]])
    y = np.array([[0.5, 0.25, 1.0, 0.75], [0.5, 0.5, 0.5, 0.5]])
    columns = [column("x", weight=3.0), column("y")]
    found = suite_power([*score_cells("x", x), *score_cells("y", y)], columns, design=AIM, difference=0.1)
    (one,) = found.adjacent_models
    means = [float((rows[0] - rows[1]).mean()) for rows in (x, y)]
    errors = [float((rows[0] - rows[1]).std()) / math.sqrt(rows.shape[1]) for rows in (x, y)]
    assert one.observed_difference == pytest.approx(0.75 * means[0] + 0.25 * means[1])
    assert one.standard_error == pytest.approx(math.hypot(0.75 * errors[0], 0.25 * errors[1]))
    clusters = 1 / (0.75**2 / 6 + 0.25**2 / 4)
    spread = float(np.std(means, ddof=1))
    assert one.power_estimate == estimate_power(0.1, one.standard_error, spread, AIM, clusters=clusters, n_benchmarks=2)
    assert (one.first, one.second, one.n_benchmarks) == ("m0", "m1", 2)


def empty(found: SuitePower) -> bool:
    return not found.benchmarks and not found.adjacent_models


def test_what_is_odd_gives_less_and_no_error() -> None:
    rows = np.array([[1.0, math.nan], [math.nan, 0.0]])
    assert empty(suite_power([], [column("x")], design=AIM))
    assert empty(suite_power(score_cells("x", rows), [column("x")], design=AIM))
    assert empty(suite_power(score_cells("x", np.ones((1, 5))), [column("x")], design=AIM))
    assert empty(suite_power([Cell(model="a", benchmark="x", value=0.3)], [column("x")], design=AIM))
    one_note = suite_power(score_cells("x", np.array([[1.0, 1], [0.0, 0]]), ["n", "n"]), [column("x")], design=AIM)
    assert one_note.benchmarks == ()
    assert one_note.adjacent_models[0].standard_error == pytest.approx(math.sqrt(1 / 3))
    alike = suite_power(score_cells("x", np.ones((2, 9))), [column("x")], design=AIM, difference=0.1)
    assert alike.adjacent_models[0].observed_difference == 0
    assert alike.benchmarks[0].needed == 6

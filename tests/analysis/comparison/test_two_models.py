"""Two models side by side."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from medhelm.analysis.comparison.pairs import compare_two_models
from tests.support.leaderboards import column, score_cell
from tests.support.values import present


def test_differences_are_paired_by_instance_and_normalized() -> None:
    cells = [score_cell("a", "x", [1, 1, 0, 1]), score_cell("a", "y", [5, 3, 3, 1])]
    cells += [score_cell("b", "x", [0, 1, 0, 0]), score_cell("b", "y", [3, 3, 3, 3])]
    found = present(compare_two_models(cells, [column("x"), column("y", 1, 5)], "a", "b"))
    assert [b.difference.value for b in found.benchmarks] == [0.5, 0.0]
    assert found.macro_average.difference.value == 0.25
    # By hand: of four questions the first alone got two right: shares 3/6 and 1/6, variance (4/6 - 1/9) / 6. The
    # differences of y, 0.5, 0, 0, -0.5, have the variance 0.5 / 3 / 4.
    errors = [math.sqrt((4 / 6 - 1 / 9) / 6), math.sqrt(0.5 / 12)]
    assert [b.difference.standard_error for b in found.benchmarks] == pytest.approx(errors)
    assert found.macro_average.difference.low < 0.25 < found.macro_average.difference.high


def test_the_overall_interval_is_near_the_one_of_satterthwaite() -> None:
    generator = np.random.default_rng(1)
    scores = {name: generator.random((2, n)) for name, n in (("x", 12), ("y", 60), ("z", 25))}
    cells = [score_cell(model, name, both[i]) for name, both in scores.items() for i, model in enumerate("ab")]
    found = present(compare_two_models(cells, [column(name) for name in scores], "a", "b"))
    differences = [both[0] - both[1] for both in scores.values()]
    variances = [float(d.var(ddof=1)) / len(d) for d in differences]
    df = sum(variances) ** 2 / sum(v**2 / (len(d) - 1) for v, d in zip(variances, differences, strict=True))
    error, value = math.sqrt(sum(variances)) / 3, float(np.mean([d.mean() for d in differences]))
    half, overall = float(stats.t.ppf(0.975, df)) * error, found.macro_average.difference
    assert overall.value == pytest.approx(value)
    assert (overall.low, overall.high) == pytest.approx((value - half, value + half), abs=0.08 * half)
    assert overall.p_value == pytest.approx(2 * float(stats.t.sf(abs(value) / error, df)), abs=0.02)
    assert (found.unit, found.n_benchmarks, found.adjustment) == ("instances", 3, "holm")

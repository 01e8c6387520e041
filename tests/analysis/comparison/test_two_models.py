"""Two models side by side."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from medhelm.analysis.comparison.pairs import Comparison, compare_two_models
from medhelm.analysis.comparison.significance import Adjustment
from medhelm.analysis.leaderboard.cells import Cell, Column
from tests.support.leaderboards import column, score_cell
from tests.support.values import present


def compared(
    first: list[Cell], second: list[Cell], *columns: Column, adjustment: Adjustment = "holm"
) -> Comparison | None:
    return compare_two_models([*first, *second], columns, "a", "b", adjustment=adjustment)


def test_differences_are_paired_by_instance_and_normalised() -> None:
    found = compared(
        [score_cell("a", "x", [1, 1, 0, 1]), score_cell("a", "y", [5, 3, 3, 1])],
        [score_cell("b", "x", [0, 1, 0, 0]), score_cell("b", "y", [3, 3, 3, 3])],
        column("x"),
        column("y", 1, 5),
    )
    assert found is not None
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
    found = compared(
        [score_cell("a", name, both[0].tolist()) for name, both in scores.items()],
        [score_cell("b", name, both[1].tolist()) for name, both in scores.items()],
        *(column(name) for name in scores),
    )
    assert found is not None
    differences = [both[0] - both[1] for both in scores.values()]
    variances = [float(d.var(ddof=1)) / len(d) for d in differences]
    df = sum(variances) ** 2 / sum(v**2 / (len(d) - 1) for v, d in zip(variances, differences, strict=True))
    half = float(stats.t.ppf(0.975, df)) * math.sqrt(sum(variances)) / 3
    value = float(np.mean([d.mean() for d in differences]))
    assert found.macro_average.difference.value == pytest.approx(value)
    assert (found.macro_average.difference.low, found.macro_average.difference.high) == pytest.approx(
        (value - half, value + half), abs=0.08 * half
    )
    assert found.macro_average.difference.p_value == pytest.approx(
        2 * float(stats.t.sf(abs(value) / (half / stats.t.ppf(0.975, df)), df)), abs=0.02
    )
    assert (found.unit, found.n_benchmarks, found.adjustment) == ("instances", 3, "holm")


def test_only_shared_benchmarks_and_instances_count() -> None:
    found = compared(
        [score_cell("a", "x", [1, 1, math.nan, 0]), score_cell("a", "alone", [1, 1])],
        [score_cell("b", "x", [0, math.nan, 1, 0])],
        column("x"),
        column("alone"),
    )
    assert found is not None
    (only,) = found.benchmarks
    assert (only.column.benchmark, only.difference.n, only.difference.n_left_out) == ("x", 2, 2)


def test_nothing_shared_is_no_comparison() -> None:
    assert compared([score_cell("a", "x", [1, 0])], [score_cell("b", "y", [1, 0])], column("x"), column("y")) is None


def test_the_first_stays_the_first_whoever_is_better() -> None:
    low, high = [0.0] * 20 + [1.0] * 4, [1.0] * 24
    for sign, a, b in ((-1, low, high), (1, high, low)):
        found = present(compared([score_cell("a", "x", a)], [score_cell("b", "x", b)], column("x")))
        assert (found.first, found.second) == ("a", "b")
        assert found.macro_average.difference.value == pytest.approx(sign * 20 / 24)


def test_benjamini_and_hochberg_ask_for_less_than_holm() -> None:
    generator = np.random.default_rng(4)
    names = [f"b{i}" for i in range(8)]
    sides = [
        [score_cell(model, name, (generator.random(60) < chance).astype(float).tolist()) for name in names]
        for model, chance in (("a", 0.75), ("b", 0.5))
    ]
    columns = [column(name) for name in names]
    strict, mild = (compared(sides[0], sides[1], *columns, adjustment=way) for way in ("holm", "bh"))
    assert strict is not None
    assert mild is not None
    pairs = list(zip(strict.benchmarks, mild.benchmarks, strict=True))
    assert all(one.p_adjusted >= other.p_adjusted for one, other in pairs)
    assert any(one.p_adjusted > other.p_adjusted for one, other in pairs)
    assert strict.macro_average == mild.macro_average


def test_a_benchmark_that_counts_twice_pulls_twice() -> None:
    sides = [
        [score_cell(m, "x", [x] * 10), score_cell(m, "y", [y] * 10)] for m, x, y in (("a", 1.0, 0.5), ("b", 0.0, 0.5))
    ]
    heavy = replace(column("x"), weight=3.0)
    even, uneven = (
        compared(sides[0], sides[1], column("x"), column("y")),
        compared(sides[0], sides[1], heavy, column("y")),
    )
    assert even is not None
    assert uneven is not None
    assert (even.macro_average.difference.value, uneven.macro_average.difference.value) == pytest.approx((0.5, 0.75))


def test_without_single_scores_benchmarks_stand_for_instances() -> None:
    generator = np.random.default_rng(5)
    values = generator.random((2, 9))
    names = [f"b{i}" for i in range(9)]
    sides = [
        [Cell(model=model, benchmark=name, value=float(v)) for name, v in zip(names, row, strict=True)]
        for model, row in zip("ab", values, strict=True)
    ]
    found = present(compared(sides[0], sides[1], *(column(name) for name in names)))
    assert (found.unit, found.n_benchmarks, found.benchmarks) == ("benchmarks", 9, ())
    assert found.macro_average.difference.value == pytest.approx(float((values[0] - values[1]).mean()))
    exact = stats.permutation_test(
        (values[0] - values[1],), np.sum, permutation_type="samples", n_resamples=np.inf, vectorized=False
    )
    assert found.macro_average.difference.p_value == pytest.approx(exact.pvalue)


def test_failures_throughout_are_no_comparison() -> None:
    nothing = score_cell("a", "x", [0.0, 0.0])
    nothing = replace(nothing, value=None, scores=np.full(2, math.nan))
    assert compared([nothing], [score_cell("b", "x", [1.0, 0.0])], column("x")) is None

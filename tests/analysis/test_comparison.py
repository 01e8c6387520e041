"""Two models side by side."""

from __future__ import annotations

import math

import numpy as np
import pytest

from medhelm.analysis.board import Cell, Column
from medhelm.analysis.comparison import Comparison, compare

RNG_SEED = 7


def column(name: str, low: float = 0.0, high: float = 1.0) -> Column:
    return Column(benchmark=name, title=name, category="c", subcategory="s", metric="m", low=low, high=high)


def cell(model: str, benchmark: str, scores: list[float], clusters: list[str] | None = None) -> Cell:
    return Cell(
        model=model,
        benchmark=benchmark,
        value=float(np.nanmean(scores)),
        ids=[f"i{i}" for i in range(len(scores))],
        scores=np.array(scores),
        clusters=clusters,
    )


def compared(first: list[Cell], second: list[Cell], *columns: Column) -> Comparison | None:
    cells = [{c.benchmark: c for c in side} for side in (first, second)]
    return compare(cells[0], cells[1], columns, np.random.default_rng(RNG_SEED))


def test_differences_are_paired_by_instance_and_normalised() -> None:
    found = compared(
        [cell("a", "x", [1, 1, 0, 1]), cell("a", "y", [5, 3, 3, 1])],
        [cell("b", "x", [0, 1, 0, 0]), cell("b", "y", [3, 3, 3, 3])],
        column("x"),
        column("y", 1, 5),
    )
    assert found is not None
    assert [b.difference.value for b in found.benchmarks] == [0.5, 0.0]
    assert found.value == 0.25
    # By hand: differences 1, 0, 0, 1 have sum of squared residuals 1, so the error is sqrt(1) / 4; those of y,
    # 0.5, 0, 0, -0.5, give sqrt(0.5) / 4.
    errors = [math.sqrt(1.0) / 4, math.sqrt(0.5) / 4]
    assert [b.difference.standard_error for b in found.benchmarks] == pytest.approx(errors)
    half = 1.959964 * math.hypot(*errors) / 2
    assert found.low == pytest.approx(0.25 - half, abs=1e-6)
    assert found.high == pytest.approx(0.25 + half, abs=1e-6)


def test_only_shared_benchmarks_and_instances_count() -> None:
    found = compared(
        [cell("a", "x", [1, 1, math.nan, 0]), cell("a", "alone", [1, 1])],
        [cell("b", "x", [0, math.nan, 1, 0])],
        column("x"),
        column("alone"),
    )
    assert found is not None
    (only,) = found.benchmarks
    assert (only.column.benchmark, only.difference.n, only.difference.n_left_out) == ("x", 2, 2)


def test_nothing_shared_is_no_comparison() -> None:
    assert compared([cell("a", "x", [1, 0])], [cell("b", "y", [1, 0])], column("x"), column("y")) is None


def test_equal_models_do_not_differ() -> None:
    scores = [1.0, 0.0] * 20
    found = compared([cell("a", "x", scores)], [cell("a", "x", scores)], column("x"))
    assert found is not None
    assert (found.value, found.p_value, found.benchmarks[0].p_adjusted) == (0.0, 1.0, 1.0)


def test_a_clear_difference_is_found_and_adjusted_for_the_number_of_benchmarks() -> None:
    names = ["x", "y", "z"]
    good, bad = [1.0] * 30 + [0.0] * 10, [0.0] * 30 + [1.0] * 2 + [0.0] * 8
    found = compared(
        [cell("a", name, good) for name in names],
        [cell("b", name, bad) for name in names],
        *(column(name) for name in names),
    )
    assert found is not None
    assert found.p_value < 1e-6
    assert all(b.p_adjusted >= b.difference.p_value for b in found.benchmarks)
    assert max(b.p_adjusted for b in found.benchmarks) < 0.01


def test_clusters_widen_the_error() -> None:
    scores, clusters = [1.0] * 20 + [0.0] * 20, [f"note-{i // 10}" for i in range(40)]
    alone = compared([cell("a", "x", scores)], [cell("b", "x", [0.0] * 40)], column("x"))
    together = compared([cell("a", "x", scores, clusters)], [cell("b", "x", [0.0] * 40, clusters)], column("x"))
    assert alone is not None
    assert together is not None
    assert together.benchmarks[0].difference.standard_error > 2 * alone.benchmarks[0].difference.standard_error

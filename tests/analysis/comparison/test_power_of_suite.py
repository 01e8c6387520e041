"""What benchmarks at hand can tell apart, and what more of them could."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from medhelm.analysis.comparison.power import (
    PowerDesign,
    SuitePower,
    detectable_difference,
    estimate_power,
    needed_instances,
    power_at,
    suite_power,
)
from medhelm.analysis.leaderboard.cells import Cell, Column
from tests.support.leaderboards import column, score_cells
from tests.support.values import present

AIM = PowerDesign()


@pytest.fixture
def board() -> tuple[list[Cell], list[Column]]:
    """Three models, the last the best, on 0/1 scores and on grades."""
    generator = np.random.default_rng(1)
    rights = (generator.random((3, 200)) < np.array([[0.5], [0.6], [0.8]])).astype(float)
    grades = 1 + 4 * generator.beta(3, 2, (3, 80))
    return [*score_cells("rights", rights), *score_cells("grades", grades)], [column("rights"), column("grades", 1, 5)]


def test_every_benchmark_has_its_noise_and_its_answers(board: tuple[list[Cell], list[Column]]) -> None:
    cells, columns = board
    found = suite_power(cells, columns, design=AIM, difference=0.05)
    assert [one.column.benchmark for one in found.benchmarks] == ["rights", "grades"]
    for one in found.benchmarks:
        assert one.observed.n_pairs == 3
        assert one.detectable == detectable_difference(one.observed.noise, one.observed.n, AIM)
        assert one.needed == needed_instances(one.observed.noise, 0.05, AIM)
        assert one.power == power_at(one.observed.noise, one.observed.n, 0.05, AIM)
    assert [one.observed.n for one in found.benchmarks] == [200, 80]
    assert found.benchmarks[0].observed.disagreement is not None
    assert found.benchmarks[1].observed.disagreement is None
    assert found.benchmarks[1].observed.noise.sd == pytest.approx(0.2 * math.sqrt(2), rel=0.15)


def test_without_a_difference_there_is_nothing_to_need(board: tuple[list[Cell], list[Column]]) -> None:
    found = suite_power(*board, design=AIM)
    assert [(one.needed, one.power) for one in found.benchmarks] == [(None, None)] * 2
    for near in found.adjacent_models:
        assert (near.power_estimate.difference, near.power_estimate.power) == (None, None)
        assert present(near.power_estimate.detectable) > 0


def test_neighbours_stand_in_the_order_of_the_macro_averages(board: tuple[list[Cell], list[Column]]) -> None:
    cells, columns = board
    found = suite_power(cells, columns, design=AIM)
    scale = {c.benchmark: c for c in columns}
    values: dict[str, list[float]] = {}
    for cell in cells:
        values.setdefault(cell.model, []).append(scale[cell.benchmark].normalize(float(present(cell.scores).mean())))
    averages = {model: float(np.mean(own)) for model, own in values.items()}
    assert list(found.models) == sorted(averages, key=lambda model: -averages[model])
    assert [(one.first, one.second) for one in found.adjacent_models] == list(
        zip(found.models, found.models[1:], strict=False)
    )
    for one in found.adjacent_models:
        assert one.observed_difference == pytest.approx(averages[one.first] - averages[one.second])


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


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("n", [12, 20, 200])
def test_one_benchmark_has_the_same_answers_alone_and_in_the_macro_average(n: int, size: int) -> None:
    rows = np.random.default_rng(n).random((2, n))
    cells = [replace(one, clusters=[f"c{i // size}" for i in range(n)]) for one in score_cells("x", rows)]
    found = suite_power(cells, [column("x")], design=AIM, difference=0.2)
    alone, macro = found.benchmarks[0], found.adjacent_models[0].power_estimate
    assert macro.detectable == (None if alone.detectable is None else pytest.approx(alone.detectable))
    assert macro.power == pytest.approx(alone.power)
    assert macro.times_instances == pytest.approx(present(alone.needed) / n, abs=1 / n)


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

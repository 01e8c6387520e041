"""Judgments as arrays, the scores that judges and panels make of them, and rankings with and without each judge."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from medhelm.analysis.jury.cells import (
    ALL_JUDGES,
    JudgedRun,
    Ranking,
    RankSwap,
    average_estimates,
    collect_judgments,
    difference_from_others,
    judge_panels,
    judge_scores,
    kendall_tau,
    panel_means,
    panel_scores,
    rank_by_panel,
    ratio_estimate,
)
from medhelm.analysis.means import estimate
from medhelm.domain import Estimate
from tests.support.values import present

NAN = math.nan


def sheet(
    rows: Sequence[tuple[str, str, str, float]],
    *,
    model: str = "m",
    instances: Sequence[str] = ("a", "b"),
    default_scores: Sequence[float] | None = None,
    points: Sequence[float] | None = None,
) -> JudgedRun:
    """Rows of instance, judge, criterion and grade."""
    n = len(instances)
    return JudgedRun(
        model=model,
        instances=instances,
        clusters=[""] * n,
        lengths=np.full(n, 100.0),
        default_scores=np.array([NAN] * n if default_scores is None else default_scores, dtype=float),
        judged_instances=[row[0] for row in rows],
        judges=[row[1] for row in rows],
        criteria=[row[2] for row in rows],
        grades=np.array([row[3] for row in rows], dtype=float),
        points=None if points is None else np.array(points, dtype=float),
    )


def test_models_are_matched_by_the_ids_of_instances() -> None:
    first = sheet([("a", "j", "c", 1), ("b", "j", "c", 2)], model="first")
    second = sheet([("c", "j", "c", 3), ("b", "j", "c", 4)], model="second", instances=("c", "b"))
    cells = collect_judgments([first, second], low=1, high=5)
    assert cells.shape == (1, 2, 3)
    np.testing.assert_array_equal(judge_scores(cells)[0], [[1, 2, NAN], [NAN, 4, 3]])
    np.testing.assert_array_equal(cells.lengths, [[100, 100, NAN], [NAN, 100, 100]])
    assert len(set(cells.clusters)) == 3


def test_a_judge_that_misses_one_criterion_has_no_score() -> None:
    rows = [("a", "j", "x", 1), ("a", "j", "y", 4), ("b", "j", "x", 5), ("b", "j", "y", NAN)]
    np.testing.assert_array_equal(judge_scores(collect_judgments([sheet(rows)], low=1, high=5)), [[[2.5, NAN]]])


def test_the_lowest_grade_is_turned_into_the_highest_where_it_is_the_best() -> None:
    rows = [("a", "j", "x", 1), ("a", "j", "harm", 2)]
    cells = collect_judgments([sheet(rows, instances=("a",))], low=1, high=5, mirrored={"harm"})
    assert cells.grades.tolist() == [1, 4]
    assert judge_scores(cells).item() == 2.5


@pytest.mark.parametrize(
    ("met", "score"),
    [
        ((1, 1, 0), 1.0),  # everything good, no harm
        ((1, 0, 0), 5 / 8),
        ((1, 1, 1), 4 / 8),  # the harm costs 4 of 8
        ((0, 0, 1), -4 / 8),  # more harm than good
        ((1, NAN, 0), NAN),
    ],
)
def test_points_are_earned_and_lost(met: tuple[float, ...], score: float) -> None:
    rows = [("a", "j", f"c{i}", value) for i, value in enumerate(met)]
    cells = collect_judgments([sheet(rows, instances=("a",), points=(5, 3, -4))], low=0, high=1)
    np.testing.assert_allclose(judge_scores(cells), [[[score]]])
    assert cells.grades[2] == 1 - met[2]


def test_a_panel_needs_enough_complete_judges_or_all_of_a_smaller_one() -> None:
    scores = np.array([[[1.0, 2.0, NAN]], [[3.0, NAN, NAN]], [[5.0, NAN, 4.0]]])
    default_scores = np.full((1, 3), NAN)
    np.testing.assert_array_equal(panel_scores(scores, default_scores, (0, 1, 2), 2), [[3, NAN, NAN]])
    np.testing.assert_array_equal(panel_scores(scores, default_scores, (0, 1, 2), 1), [[3, 2, 4]])
    np.testing.assert_array_equal(panel_scores(scores, default_scores, (1, 2), 2), [[4, NAN, NAN]])
    np.testing.assert_array_equal(panel_scores(scores, default_scores, (0,), 2), [[1, 2, NAN]])


def test_a_judge_is_measured_against_the_mean_of_the_others() -> None:
    values = np.array([[1.0, 2.0, 3.0], [3.0, NAN, NAN], [4.0, 4.0, NAN]])
    np.testing.assert_array_equal(difference_from_others(values), [[-2.5, -2, NAN], [0.5, NAN, NAN], [2, 2, NAN]])


# --- numbers with intervals -------------------------------------------------------------------------------------------


def test_a_ratio_of_means_has_the_interval_of_means() -> None:
    rng = np.random.default_rng(3)
    values, codes = rng.normal(size=60), np.repeat(np.arange(20), 3)
    found = present(ratio_estimate(values, np.ones(60), codes, np.random.default_rng(0), n=60))
    expected = present(estimate(values, codes, low=-9, high=9))
    assert found.value == pytest.approx(expected.value)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.06)
    assert found.method == "bootstrap-2000-clustered"


@pytest.mark.parametrize("codes", [[7, 7], [0, 0]])
def test_one_cluster_says_nothing_of_the_spread(codes: list[int]) -> None:
    found = ratio_estimate(np.array([1.0, 2.0]), np.ones(2), np.array(codes), np.random.default_rng(0), span=4, n=2)
    assert found == Estimate(value=1.5, low=-4.0, high=4.0, n=2, method="single")


def an_estimate(value: float, below: float, above: float) -> Estimate:
    return Estimate(value=value, low=value - below, high=value + above, n=10, n_failed=1, method="x")


def test_a_mean_of_estimates_adds_distances_as_squares() -> None:
    found = present(average_estimates([an_estimate(1, 3, 1), None, an_estimate(2, 4, 1)]))
    assert (found.value, found.low, found.high) == pytest.approx((1.5, 1.5 - 5 / 2, 1.5 + math.sqrt(2) / 2))
    assert (found.n, found.n_failed, found.method) == (20, 2, "mean of 2")
    one = an_estimate(1, 3, 1)
    assert average_estimates([None, one]) is one
    assert average_estimates([None]) is None


# --- rankings of models with and without each judge -------------------------------------------------------------------


MODELS = ("a", "b", "c")
JUDGES = ("j", "k", "l")


def test_panels_are_the_jury_without_each_judge_and_each_judge_alone() -> None:
    assert judge_panels(("j", "k")) == {ALL_JUDGES: (0, 1), "j alone": (0,), "k alone": (1,)}
    of_three = judge_panels(JUDGES)
    assert list(of_three) == [
        ALL_JUDGES,
        *(f"without {name}" for name in JUDGES),
        *(f"{name} alone" for name in JUDGES),
    ]
    assert (of_three["without k"], of_three["l alone"]) == ((0, 2), (2,))


# --- Kendall's tau ----------------------------------------------------------------------------------------------------


def test_tau_agrees_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(1)
    for _ in range(20):
        first, second = rng.integers(0, 5, (2, 9)).astype(float)
        assert kendall_tau(first, second) == pytest.approx(stats.kendalltau(first, second).statistic)


# --- rankings ---------------------------------------------------------------------------------------------------------


def ranked(scores: list[list[float]], apart: np.ndarray | None = None) -> Ranking:
    """`scores` of each judge for each model, the same on ten instances."""
    table = np.repeat(np.array(scores, dtype=float)[:, :, None], 10, axis=2)
    default_scores = np.full(table.shape[1:], np.nan)
    found = rank_by_panel(
        panel_means(table, default_scores, JUDGES[: len(scores)], 2),
        JUDGES[: len(scores)],
        MODELS[: table.shape[1]],
        np.zeros((3, 3), dtype=bool) if apart is None else apart,
    )
    assert found is not None
    return found


def test_who_changes_places_without_a_judge_is_named() -> None:
    apart = np.array([[False, True, True], [True, False, False], [True, False, False]])
    found = ranked([[5, 1, 1], [3, 4, 2], [3, 4, 2.5]], apart)
    by_name = {panel.name: panel for panel in found.panels}
    full, without = by_name[ALL_JUDGES], by_name["without j"]
    assert (full.models, full.ranks, full.tau, full.swaps) == (("a", "b", "c"), (1, 2, 3), 1.0, ())
    assert full.values == pytest.approx((11 / 3, 3, 5.5 / 3))
    assert (without.judges, without.models) == (("k", "l"), ("b", "a", "c"))
    assert without.tau == pytest.approx(1 / 3)
    assert without.swaps == (RankSwap(better="a", worse="b", is_significant=True),)
    alone = by_name["j alone"]
    assert (alone.models[0], alone.ranks, alone.swaps) == ("a", (1, 2, 2), ())  # a tie is no other order
    assert (found.n_pairs, found.n_significant) == (3, 2)


def test_a_model_without_a_value_is_not_ranked() -> None:
    found = ranked([[3, math.nan, 2], [3, math.nan, 2], [3, 4, 2]])
    assert [panel.models for panel in found.panels[:2]] == [("a", "c"), ("a", "c")]
    assert found.n_pairs == 1
    assert {panel.name: panel for panel in found.panels}["l alone"].models == ("b", "a", "c")


def test_one_model_is_no_ranking() -> None:
    assert (
        rank_by_panel({ALL_JUDGES: np.array([3.0, math.nan])}, ("j",), ("a", "b"), np.zeros((2, 2), dtype=bool)) is None
    )

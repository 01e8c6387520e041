"""Rankings of models with and without each judge."""

from __future__ import annotations

import math

import numpy as np
import pytest

from medhelm.analysis.jury.cells import (
    ALL_JUDGES,
    Ranking,
    RankSwap,
    judge_panels,
    kendall_tau,
    panel_means,
    rank_by_panel,
)

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

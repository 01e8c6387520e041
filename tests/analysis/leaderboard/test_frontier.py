"""The frontier of a board: who is compared, by which cost, and what a step up costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from medhelm.analysis.frontier import CostFrontier
from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.planned_cost import RunUse
from medhelm.domain.ranking import RankingOptions
from medhelm.domain.result import Resample
from tests.support.leaderboards import plain_columns, score_cell
from tests.support.values import present

BENCHMARKS = ("a", "b")
N = 200


def frontier(
    models: Mapping[str, tuple[float, float | None]],
    *,
    missing: tuple[tuple[str, str], ...] = (),
    resample: Resample | None = None,
    with_scores: bool = True,
) -> CostFrontier | None:
    """Models with their share of right answers, and their cost on each benchmark."""
    cells = []
    for model, name in product(models, BENCHMARKS):
        share, cost = models[model]
        scores = (np.arange(N) < round(N * share)).astype(float)
        if (model, name) not in missing:
            cell = score_cell(model, name, scores, n=N, cost_usd=cost, use=RunUse(completions=N))
            cells.append(cell if with_scores else replace(cell, ids=(), scores=None))
    return build_leaderboard(cells, plain_columns(*BENCHMARKS), options=RankingOptions(resample=resample)).frontier


def test_a_frontier_by_hand() -> None:
    found = present(frontier({"cheap": (0.5, 0.1), "good": (0.8, 0.5), "poor": (0.3, 1.0), "best": (0.81, 2.0)}))
    assert [(one.model, one.usd_per_1000, one.is_efficient) for one in found.models] == [
        ("cheap", 0.5, True),
        ("good", 2.5, True),
        ("poor", 5.0, False),
        ("best", 10.0, True),
    ]
    probabilities = [one.probability for one in found.models]
    assert probabilities[:3] == [1.0, 1.0, 0.0]
    # 2 + 2 answers of 2 x 200 apart: the mean of two differences of variance (2 + 2) / 202^2.
    assert probabilities[3] == pytest.approx(0.92, abs=0.02)
    up, little = found.steps
    assert (up.cheaper, up.costlier, up.usd_per_1000, up.is_separated) == ("cheap", "good", 2.0, True)
    assert up.usd_per_point == pytest.approx(2.0 / 30)
    low, high = present(up.interval)
    assert high is not None
    assert low < 2.0 / 30 < high
    assert (little.cheaper, little.costlier, little.is_separated, little.interval) == ("good", "best", False, None)
    assert little.usd_per_point == pytest.approx(7.5)


def test_an_unknown_cost_is_left_out_and_never_free() -> None:
    found = present(frontier({"cheap": (0.5, 0.1), "good": (0.8, 0.5), "secret": (0.9, None)}))
    assert found.unknown_cost == ("secret",)
    assert [one.model for one in found.models] == ["cheap", "good"]
    assert found.probability("secret") is None
    assert frontier({"known": (0.5, 0.1), "secret": (0.9, None)}) is None


def test_models_on_other_benchmarks_are_not_compared() -> None:
    models = {"cheap": (0.5, 0.1), "good": (0.8, 0.5), "partial": (0.9, 0.01)}
    found = present(frontier(models, missing=(("partial", "b"),)))
    assert found.other_benchmarks == ("partial",)
    assert [one.model for one in found.models] == ["cheap", "good"]


def test_without_instance_scores_benchmarks_are_the_unit_or_nothing_is() -> None:
    models = {"cheap": (0.5, 0.1), "good": (0.8, 0.5)}
    means = present(frontier(models, with_scores=False))
    assert means.models[1].probability is not None
    untested = present(frontier(models, resample="none"))
    assert [one.probability for one in untested.models] == [None, None]
    assert (untested.steps[0].is_separated, untested.steps[0].interval) == (False, None)

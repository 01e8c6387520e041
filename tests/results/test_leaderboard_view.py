"""The leaderboard for programs and for people."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.types import Leaderboard, short_remarks
from medhelm.analysis.means import estimate
from medhelm.domain import Tier
from medhelm.domain.ranking import RankingOptions
from medhelm.domain.result import Remark
from medhelm.results.formats.tables import FORMATS, fitted
from medhelm.results.leaderboard_view import MOST_HEAD_TO_HEAD, MOST_SHOWN, as_json, to_table
from tests.support.leaderboards import column, score_cell, toy_board

NAN = float("nan")

QA = column("qa", title="Q & A", metric="exact_match", category="research", subcategory="reading_papers")
NOTES = column("notes", 1, 5, title="Notes", metric="jury", category="documentation", subcategory="visits")


def cell(model: str, column: Column, scores: list[float], cost: float | None = 1.25) -> Cell:
    found = estimate(np.array(scores), low=column.low, high=column.high)
    n_failed = int(np.isnan(scores).sum())
    return score_cell(model, column.benchmark, scores, estimate=found, n_failed=n_failed, cost_usd=cost)


def tiny(tier: Tier = "real") -> Leaderboard:
    """Two models, two benchmarks; the second model lacks one of them and a price."""
    cells = [
        cell("lab/big_model", QA, [1.0] * 18 + [0.0, NAN]),
        cell("lab/big_model", NOTES, [5.0, 4.0, 4.0, 3.0]),
        cell("small", QA, [0.0] * 16 + [1.0] * 4, cost=None),
    ]
    return build_leaderboard(cells, [QA, NOTES], suite="mine", tier=tier)


def test_missing_scores_and_an_unknown_price_are_told_by_hand() -> None:
    found = json.loads(json.dumps(as_json(tiny()), allow_nan=False))
    first, second = found["models"]
    (pair,) = found["pairs"]
    # One of the 20 scores of the first is missing, and 18 of the others are 1; the second has 4 of 20.
    assert (pair["worst_case"], pair["best_case"]) == pytest.approx((18 / 20 - 4 / 20, 19 / 20 - 4 / 20), abs=2e-6)
    assert first["adjusted_average"]["value"] == first["ranking_value"] == pytest.approx(18 / 19, abs=1e-6)
    assert first["macro_average"]["value"] == pytest.approx((18 / 19 + 0.75) / 2, abs=1e-6)
    assert (first["cost_usd"], second["cost_usd"], second["coverage"]) == (2.5, None, 0.5)
    # The cost of the second is unknown: there is nothing to compare, and no probability.
    assert (first["frontier_probability"], second["usd_per_1000"], found["frontier"]) == (None, None, None)
    assert [benchmark["mde"] is None for benchmark in found["benchmarks"]] == [False, True]


def test_few_remarks_are_all_shown_and_of_many_the_first_and_their_numbers() -> None:
    few = tiny()
    assert short_remarks(few, "More.") == [str(one) for one in few.remarks]
    reading = [Remark(f"kind_{n}", "", f"reading {n}") for n in range(7)]
    small = [Remark("blank_completions", "small", f"small: {n}") for n in range(3)]
    big = Remark("blank_completions", "lab/big_model", "lab/big_model: 1")
    many = replace(few, remarks=(*reading, *small, big, Remark("interval_basis", "", "basis")))
    *first, last = short_remarks(many, "More.")
    assert first == [f"reading {n}" for n in range(5)]
    models = "4 about single models (small 3 and lab/big_model 1)"
    assert last == f"Not shown: 2 more on the reading, {models} and 1 on the method. More."
    assert as_json(many)["warnings"] == [str(one) for one in many.remarks]


def test_json_of_a_lone_model_has_no_win_rate_and_of_known_means_no_intervals() -> None:
    (model,) = as_json(build_leaderboard([cell("m", QA, [1.0, 0.0])], [QA]))["models"]
    assert (model["rank"], model["win_rate"], model["win_rate_sd"]) == (1, None, None)
    cells = [Cell(model=m, benchmark="qa", value=v) for m, v in (("a", 0.5), ("b", 0.25))]
    known = as_json(build_leaderboard(cells, [QA]))["models"][0]["benchmarks"]["qa"]
    assert [known[key] for key in ("value", "low", "high", "n", "n_failed")] == [0.5, None, None, None, None]


@pytest.mark.parametrize("by", ["overall", "category", "subcategory", "benchmark"])
@pytest.mark.parametrize("format", FORMATS)
def test_every_table_can_be_empty_without_draws_or_of_sample_rows(by: str, format: str) -> None:
    cells = [cell(m, QA, s) for m, s in (("a", [1.0, 1.0, 0.0]), ("b", [0.0, 1.0, 0.0]))]
    board = build_leaderboard(cells, [QA], options=RankingOptions(resample="none"))
    assert to_table(board, by, format)
    first = json.loads(json.dumps(as_json(board), allow_nan=False))["models"][0]
    assert (first["rank"], first["rank_low"], first["rank_high"], first["tie_group"]) == (1, None, None, None)
    assert first["win_rate"] == {"value": 1.0, "low": None, "high": None}
    assert to_table(build_leaderboard([], []), by, format)
    assert "sample" in to_table(tiny("sample"), by, format).lower()
    assert "sample" not in to_table(tiny(), by, format).lower()


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_number_that_ranks_stays_in_a_narrow_terminal(width: int) -> None:
    with fitted(width):
        text = to_table(tiny())
    assert all(heading in text for heading in ("Rank", "Model", "Macro average"))
    assert all(len(line) <= width for line in text.splitlines()[1:])


def test_many_models_are_compared_head_to_head_on_request() -> None:
    board = toy_board(MOST_HEAD_TO_HEAD + 1, 2)
    assert as_json(board)["head_to_head"] == []
    n = len(board.rows)
    assert len(as_json(board, by="head-to-head")["head_to_head"]) == n * (n - 1) // 2
    text = to_table(board, "head-to-head")
    assert f"the first {MOST_SHOWN} of {n} models, CSV lists all pairs" in text
    assert len(text.splitlines()) == MOST_SHOWN + 4

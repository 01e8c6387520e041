"""The leaderboard for programs and for people."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest

from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.analysis.means import estimate
from medhelm.domain import Tier
from medhelm.domain.ranking import RankingOptions
from medhelm.errors import UserError
from medhelm.results.formats.tables import FORMATS, fitted, number
from medhelm.results.leaderboard_view import as_json, to_table

NAN = float("nan")

QA = Column(
    benchmark="qa",
    title="Q & A",
    category="research",
    subcategory="reading_papers",
    metric="exact_match",
    metric_title="EM",
)
NOTES = Column(
    benchmark="notes", title="Notes", category="documentation", subcategory="visits", metric="jury", low=1, high=5
)


def cell(model: str, column: Column, scores: list[float], cost: float | None = 1.25) -> Cell:
    values = np.array(scores)
    found = estimate(values, low=column.low, high=column.high)
    return Cell(
        model=model,
        benchmark=column.benchmark,
        value=found.value if found else None,
        estimate=found,
        n_failed=int(np.isnan(values).sum()),
        ids=[f"q{i}" for i in range(len(scores))],
        scores=values,
        cost_usd=cost,
    )


def tiny(tier: Tier = "real") -> Leaderboard:
    """Two models, two benchmarks; the second model lacks one of them and a price."""
    cells = [
        cell("lab/big_model", QA, [1.0] * 18 + [0.0, NAN]),
        cell("lab/big_model", NOTES, [5.0, 4.0, 4.0, 3.0]),
        cell("small", QA, [0.0] * 16 + [1.0] * 4, cost=None),
    ]
    return build_leaderboard(cells, [QA, NOTES], suite="mine", tier=tier)


def crowd(models: int) -> Leaderboard:
    cells = [cell(f"m{i}", column, [1.0, i / models, 1.0]) for i in range(models) for column in (QA, NOTES)]
    return build_leaderboard(cells, [QA, NOTES])


# --- JSON -------------------------------------------------------------------------------------------------------------


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


def test_json_values_are_in_the_metrics_own_unit_and_missing_ones_are_absent() -> None:
    first, second = as_json(tiny())["models"]
    assert first["benchmarks"]["notes"]["value"] == 4.0
    assert first["benchmarks"]["notes"]["metric"] == "jury"
    qa = first["benchmarks"]["qa"]
    assert (qa["n"], qa["n_failed"], qa["value"]) == (19, 1, 0.947368)
    assert qa["low"] < qa["value"] < qa["high"]
    assert set(second["benchmarks"]) == {"qa"}
    assert first["categories"]["documentation"] == {"value": 0.75, "n_benchmarks": 1}
    assert second["categories"]["documentation"] == {"value": None, "n_benchmarks": 0}
    assert second["subcategories"]["reading_papers"]["value"] == 0.2


def test_json_of_a_lone_model_has_no_win_rate() -> None:
    board = build_leaderboard([cell("m", QA, [1.0, 0.0])], [QA])
    (model,) = as_json(board)["models"]
    assert (model["rank"], model["win_rate"], model["win_rate_sd"]) == (1, None, None)


def test_json_of_known_means_has_no_intervals() -> None:
    cells = [Cell(model=m, benchmark="qa", value=v) for m, v in (("a", 0.5), ("b", 0.25))]
    found = as_json(build_leaderboard(cells, [QA]))
    known = found["models"][0]["benchmarks"]["qa"]
    assert (known["value"], known["low"], known["high"], known["n"], known["n_failed"]) == (0.5, None, None, None, None)
    assert found["interval_method"] == "benchmarks"


@pytest.mark.parametrize("value", [None, NAN, float("inf"), -float("inf")])
def test_nan_and_infinity_are_null(value: float | None) -> None:
    assert number(value) is None


# --- tables -----------------------------------------------------------------------------------------------------------


def test_many_models_are_rows() -> None:
    few, many = to_table(crowd(6), "benchmark"), to_table(crowd(7), "benchmark")
    assert len(few.splitlines()) == 4 + 2
    lines = many.splitlines()
    assert len(lines) == 4 + 14
    assert lines[2].split() == ["Benchmark", "Metric", "Model", "Score", "Instances", "Failed"]
    assert [line.startswith("Q & A") for line in lines[4:11]] == [True] + [False] * 6


def gappy() -> Leaderboard:
    """Three models, of which the second best skipped what it is bad at; notes count twice."""
    heavy = replace(NOTES, weight=2.0)
    cells = [
        cell("skips", QA, [1.0, 1.0, 1.0, 0.0]),
        cell("best", QA, [1.0, 1.0, 0.0, 0.0]),
        cell("best", NOTES, [5.0, 4.0, 4.0, 5.0]),
        cell("last", QA, [0.0, 0.0, 0.0, 1.0]),
        cell("last", NOTES, [2.0, 1.0, 1.0, 3.0]),
    ]
    return build_leaderboard(cells, [QA, heavy])


def test_where_a_model_lacks_a_benchmark_its_average_is_estimated() -> None:
    shown = {line.split()[2]: line.split() for line in to_table(gappy()).splitlines()[4:]}
    assert list(shown) == ["skips", "best", "last"]
    assert shown["skips"][:2] == ["1", "(1-3)"], "first by its average, but it could have any rank"
    assert shown["skips"][3] == "0.854"
    (first, second, _) = as_json(gappy())["models"]
    assert (first["guarded_win_rate"], second["guarded_win_rate"]) == (0.333333, 0.833333)
    row = next(iter(csv.DictReader(io.StringIO(to_table(gappy(), format="csv")))))
    assert (row["model"], row["win_rate"], row["macro_average"]) == ("skips", "1.0", "0.75")
    assert float(row["adjusted_average"]) == pytest.approx(0.75 + 2 / 3 * (0.635417 - 0.479167), abs=1e-5)
    assert int(row["rank_low"]) <= int(row["rank"]) <= int(row["rank_high"])


def test_weights_are_shown_where_they_differ() -> None:
    lines = to_table(gappy(), "benchmark").splitlines()
    assert lines[2].split()[:3] == ["Benchmark", "Metric", "Weight"]
    assert [line.split("  ")[0] for line in lines[4:]] == ["Q & A", "Notes"]
    assert "Weight" not in to_table(tiny(), "benchmark")
    cells = list(csv.DictReader(io.StringIO(to_table(gappy(), "benchmark", "csv"))))
    assert {row["benchmark"]: row["weight"] for row in cells} == {"qa": "1.0", "notes": "2.0"}
    assert [b["weight"] for b in as_json(gappy())["benchmarks"]] == [1.0, 2.0]


@pytest.mark.parametrize("by", ["overall", "category", "subcategory", "benchmark"])
@pytest.mark.parametrize("format", FORMATS)
def test_without_draws_there_are_numbers_and_no_intervals(by: str, format: str) -> None:
    cells = [cell(m, QA, s) for m, s in (("a", [1.0, 1.0, 0.0]), ("b", [0.0, 1.0, 0.0]))]
    board = build_leaderboard(cells, [QA], options=RankingOptions(resample="none"))
    assert to_table(board, by, format)
    first = json.loads(json.dumps(as_json(board), allow_nan=False))["models"][0]
    assert (first["rank"], first["rank_low"], first["rank_high"], first["tie_group"]) == (1, None, None, None)
    assert first["win_rate"] == {"value": 1.0, "low": None, "high": None}
    assert first["win_rate_sd"] == 0.0


@pytest.mark.parametrize("by", ["overall", "category", "subcategory", "benchmark"])
@pytest.mark.parametrize("format", FORMATS)
def test_sample_data_is_marked_in_every_table(by: str, format: str) -> None:
    text = to_table(tiny("sample"), by, format)
    assert "sample" in text.lower()
    assert "sample" not in to_table(tiny(), by, format).lower()


@pytest.mark.parametrize("by", ["overall", "category", "subcategory", "benchmark"])
@pytest.mark.parametrize("format", FORMATS)
def test_an_empty_board_has_a_table(by: str, format: str) -> None:
    assert to_table(build_leaderboard([], []), by, format)


def test_narrow_terminals_repeat_rank_and_model() -> None:
    with fitted(40):
        text = to_table(tiny(), by="category")
    assert all(len(line) <= 40 for line in text.splitlines()[1:])
    assert text.count("lab/big_model") == text.count("Rank  Model") > 1


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_number_that_ranks_stays_in_a_narrow_terminal(width: int) -> None:
    with fitted(width):
        text = to_table(tiny())
    assert all(heading in text for heading in ("Rank", "Model", "Macro average"))
    assert all(len(line) <= width for line in text.splitlines()[1:])


def test_another_view_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"by `colour`\. Known: overall, category, subcategory, benchmark"):
        to_table(tiny(), "colour")

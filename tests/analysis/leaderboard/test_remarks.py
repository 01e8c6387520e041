"""What a reader of a leaderboard is told in words."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.domain import Estimate, Tier
from medhelm.domain.ranking import RankingOptions
from tests.support.leaderboards import plain_columns, score_cell
from tests.support.remarks import texts
from tests.support.values import ends

COLUMNS = plain_columns("a", "b", "c", "d")


def cell(model: str, benchmark: str, scores: list[float], ids: str = "") -> Cell:
    found = score_cell(model, benchmark, scores, n_failed=int(np.isnan(scores).sum()))
    return replace(found, ids=list(ids)) if ids else found


def warnings(
    cells: list[Cell], benchmarks: list[str] | None = None, tier: Tier = "real", columns: list[Column] = COLUMNS
) -> tuple[str, ...]:
    return texts(build_leaderboard(cells, columns, benchmarks=benchmarks, tier=tier).remarks)


GOOD, BAD, FAIR = [1.0] * 39 + [0.0], [0.0] * 39 + [1.0], [1.0] * 38 + [0.0, 1.0]


BASIS = "Intervals and tests reflect the choice of questions on these benchmarks."
NULL = (
    "A difference counts if swapping the two models' answers at random would rarely produce one as large. It may still "
    "be small."
)


def test_a_board_without_limits_only_says_what_it_can_tell() -> None:
    found = warnings([cell(model, name, scores) for name in "ab" for model, scores in (("x", GOOD), ("y", BAD))])
    (said,) = found
    assert said == f"{BASIS} With only 2 benchmarks, nothing can be said about other tasks of this kind. {NULL}"


def test_other_benchmarks_get_the_wider_interval() -> None:
    """All benchmarks have the same means, so that their spread alone would say that there is no uncertainty."""
    cells = [cell(model, name, scores) for name in "abcd" for model, scores in (("x", FAIR), ("y", BAD))]
    (said,) = warnings(cells)
    ((low, high),) = re.findall(r"On similar benchmarks x would probably average between (.*) and (.*?)\. ", said)
    here_low, _, here_high = ends(build_leaderboard(cells, COLUMNS).rows[0].adjusted_average)
    assert float(low) <= here_low + 0.005
    assert float(high) >= here_high - 0.005


def test_significant_differences_are_counted() -> None:
    found = warnings([cell(m, name, s) for name in "ab" for m, s in (("x", GOOD), ("y", FAIR), ("z", BAD))])
    assert found == (
        "2 of 3 differences between models are larger than chance explains (all tests together at the 5% level).",
        found[-1],
    )
    assert found[-1].startswith(BASIS)


def test_a_baseline_on_fewer_benchmarks_is_not_to_be_compared_by_its_average() -> None:
    models = [cell(m, name, s) for name in "ab" for m, s in (("x", GOOD), ("y", BAD))]
    said = [text for text in warnings([*models, cell("baseline/majority", "a", FAIR)]) if "baseline/majority" in text]
    assert said == [
        "Averages of baseline/majority are over 1 of 2 benchmarks: do not compare them with those of models."
    ]
    both = [cell("baseline/majority", name, FAIR) for name in "ab"]
    assert not any("baseline/majority" in text for text in warnings([*models, *both]))


def test_a_single_benchmark_speaks_for_itself_alone() -> None:
    found = warnings([cell("x", "a", GOOD), cell("y", "a", BAD)])
    assert found[0] == "There is one benchmark: these ranks do not generalize to other tasks."


def test_a_lone_model_is_not_compared() -> None:
    assert warnings([cell("x", "a", GOOD)]) == (
        "There is one model: win rates need at least two.",
        BASIS,
    )


def test_where_everything_failed_nothing_is_said_of_order() -> None:
    assert warnings([cell(model, "a", [np.nan, np.nan]) for model in "xy"]) == (
        "No model has a corrected score on any benchmark.",
        "x: 2 instances without a score, left out of its means, on a.",
        "y: 2 instances without a score, left out of its means, on a.",
    )


def test_a_benchmark_that_nobody_has_is_named() -> None:
    nothing = [cell(model, "b", [np.nan]) for model in "xy"]
    found = warnings([cell("x", "a", GOOD), cell("y", "a", BAD), *nothing])
    assert "No model has a value on b, which is not counted." in found
    assert not any("was not run on" in text for text in found), "nobody has more"


@pytest.mark.parametrize("tier", ["real", "sample"])
def test_invented_rows_are_never_passed_off_as_real(tier: Tier) -> None:
    found = warnings([cell("x", "a", GOOD)], tier=tier)
    assert any("invented rows" in warning for warning in found) == (tier == "sample")


def test_different_instances_and_failures_are_named() -> None:
    found = warnings([cell("x", "a", [1.0, 0.0, np.nan], "pqr"), cell("y", "a", [1.0, 1.0], "pq")])
    assert "Models were run on different instances of a." in found
    assert "x: 1 instance without a score, left out of its means, on a." in found


def test_failures_alone_do_not_make_different_instances() -> None:
    found = warnings([cell("x", "a", [1.0, np.nan]), cell("y", "a", [np.nan, 1.0])])
    assert not any("different instances" in warning for warning in found)


def test_a_single_instance_is_pointed_out() -> None:
    found = warnings([cell("x", "a", [1.0]), cell("y", "a", [0.0])])
    assert "Only one independent instance: a. Differences there cannot be significant." in found


def test_long_lists_are_cut() -> None:
    wanted = ["a", *(f"absent{i}" for i in range(8))]
    found = warnings([cell("x", "a", GOOD)], benchmarks=wanted)
    listed = "absent0, absent1, absent2, absent3, absent4 and 3 more"
    assert found[0] == f"8 of 9 requested benchmarks have no result: {listed}."


def test_known_means_alone_are_explained() -> None:
    cells = [Cell(model=m, benchmark=b, value=v) for b in "abcd" for m, v in (("x", 0.9), ("y", 0.1))]
    found = warnings(cells)
    assert found[-1].startswith("Instance scores are not known for all results")


def test_failures_that_the_model_caused_are_told_from_missing_scores() -> None:
    mixed = replace(cell("x", "a", [*GOOD[:30], 0.0, 0.0, np.nan]), n_failed=3, n_failed_by_model=2)
    for failures, words in (
        ({}, "2 failures that the model caused"),
        ({"refusal": 1, "length": 1}, "1 refusal and 1 exhausted limit"),
        ({"context_length": 1, "does_not_fit": 1}, "2 prompts that do not fit"),
    ):
        found = warnings([replace(mixed, failures_by_model=failures), cell("y", "a", [1.0] * 33)])
        assert f"x: {words} on a, counted as the worst answer." in found
    assert "x: 1 instance without a score, left out of its means, on a." in found


def test_benchmarks_go_by_their_titles() -> None:
    """The ids of these benchmarks would not be found in a sentence."""
    columns = [replace(column, benchmark=f"id_{column.benchmark}", title=column.title.upper()) for column in COLUMNS]
    cells = [cell("x", "id_a", GOOD), cell("y", "id_a", [*BAD[:39], np.nan]), cell("z", "id_a", FAIR)]
    cells += [cell("x", "id_b", GOOD), cell("y", "id_b", BAD), cell("x", "id_c", [1.0]), cell("y", "id_c", [0.0])]
    cells += [cell("x", "id_d", GOOD), cell("baseline/majority", "id_a", GOOD)]
    cells[0] = replace(cells[0], n_failed_by_model=1, failures_by_model={"refusal": 1})
    for shared in (False, True):
        found = " ".join(texts(build_leaderboard(cells, columns, options=RankingOptions(shared=shared)).remarks))
        assert "id_" not in found
    found = " ".join(warnings(cells, columns=columns))
    for words in (
        "z was not run on B, C.",
        "x: 1 refusal on A, counted",
        "left out of its means, on A.",
        "run on D, which",
    ):
        assert words in found


def test_a_benchmark_that_only_baselines_have_is_named() -> None:
    cells = [cell("x", "a", GOOD), cell("y", "a", BAD), cell("baseline/majority", "b", GOOD)]
    assert "Only baselines were run on b, which is not counted. --rank-baselines counts them." in warnings(cells)


def test_the_rank_that_missing_scores_could_cost_goes_by_the_number_that_ranks() -> None:
    """x is better on every instance it has; with its missing ones lost, y has the higher win share."""
    known = Estimate(value=1.0, low=0.7, high=1.0, n=10, n_failed=30, method="wilson")
    some = replace(cell("x", "a", [1.0] * 10 + [np.nan] * 30), estimate=known)
    found = warnings([some, cell("y", "a", [0.0] * 10 + [1.0] * 30), cell("x", "b", GOOD), cell("y", "b", GOOD)])
    (said,) = [text for text in found if text.startswith("x: 30 instances without a score")]
    assert said.endswith("With the worst score for each, its rank would fall from 1 to 2.")

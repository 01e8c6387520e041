"""What a reader of a leaderboard is told in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.types import Cell, Column
from medhelm.domain import Tier

COLUMNS = [
    Column(benchmark=name, title=name, category="c", subcategory="s", metric="em") for name in ("a", "b", "c", "d")
]


def cell(model: str, benchmark: str, scores: list[float], ids: str = "") -> Cell:
    values = np.array(scores)
    return Cell(
        model=model,
        benchmark=benchmark,
        value=float(np.nanmean(values)),
        n_failed=int(np.isnan(values).sum()),
        ids=list(ids) if ids else [f"q{i}" for i in range(len(scores))],
        scores=values,
    )


def warnings(
    cells: list[Cell], benchmarks: list[str] | None = None, tier: Tier = "real", columns: list[Column] = COLUMNS
) -> tuple[str, ...]:
    return build_leaderboard(cells, columns, rng=np.random.default_rng(0), benchmarks=benchmarks, tier=tier).warnings


GOOD, BAD, FAIR = [1.0] * 39 + [0.0], [0.0] * 39 + [1.0], [1.0] * 38 + [0.0, 1.0]


DRAWN = (
    "Intervals of averages and ranks come from 1,000 draws of instances within each benchmark: they tell what other "
    "questions of the same kind would give."
)


def test_a_board_without_limits_only_says_what_it_can_tell() -> None:
    found = warnings([cell(model, name, scores) for name in "ab" for model, scores in (("x", GOOD), ("y", BAD))])
    assert found == (
        "1 of 1 pairs of models can be told apart by their win rates, and 1 of 1 neighbours in rank.",
        DRAWN,
    )


def test_ties_name_their_members_and_ranks_their_ends() -> None:
    found = warnings([cell(m, name, s) for name in "ab" for m, s in (("x", GOOD), ("y", FAIR), ("z", BAD))])
    assert found == (
        "2 of 3 pairs of models can be told apart by their win rates, all of them after Holm's adjustment for the "
        "number of pairs, and 1 of 2 neighbours in rank.",
        "Places 1 to 2 cannot be told apart from place 1: x, y.",
        "The place of 1 of 3 models is certain at the 95 % level; least of all that of x, anywhere from 1 to 2.",
        DRAWN,
    )


def test_a_single_benchmark_speaks_for_itself_alone() -> None:
    found = warnings([cell("x", "a", GOOD), cell("y", "a", BAD)])
    assert found[0] == "There is one benchmark: these ranks say nothing of other tasks."


def test_a_lone_model_is_not_compared() -> None:
    assert warnings([cell("x", "a", GOOD)]) == (
        "There is one model: without a rival there is no win rate, and nothing to tell apart.",
        DRAWN,
    )


def test_equal_models_have_no_order() -> None:
    found = warnings([cell(model, name, GOOD) for name in "ab" for model in "xyz"])
    assert "0 of 3 pairs of models can be told apart by their win rates, and 0 of 2 neighbours in rank." in found
    assert "All models have the same win rate: there is no order among them." in found
    assert "Places 1 to 3 cannot be told apart from place 1: x, y, z." in found
    assert any(text.startswith("The place of 3 of 3 models is certain") for text in found), "all share the first"


def test_where_everything_failed_nothing_is_said_of_order() -> None:
    cells = [
        Cell(model=m, benchmark="a", value=None, n_failed=2, ids=["p", "q"], scores=np.full(2, np.nan)) for m in "xy"
    ]
    assert warnings(cells) == (
        "No model has a value on any benchmark: every instance failed, or could not be scored.",
        "x: 2 instances without a score, left out of its means, on a.",
        "y: 2 instances without a score, left out of its means, on a.",
    )


def test_a_benchmark_that_nobody_has_is_named() -> None:
    nothing = [Cell(model=m, benchmark="b", value=None, n_failed=1, ids=["p"], scores=np.full(1, np.nan)) for m in "xy"]
    found = warnings([cell("x", "a", GOOD), cell("y", "a", BAD), *nothing])
    assert "No model has a value on b: it counts for nobody." in found
    assert not any(text.startswith("x has a value on 1 of 2 benchmarks") for text in found), "nobody has more"


@pytest.mark.parametrize("tier", ["real", "sample"])
def test_invented_rows_are_never_passed_off_as_real(tier: Tier) -> None:
    found = warnings([cell("x", "a", GOOD)], tier=tier)
    assert any("invented rows" in warning for warning in found) == (tier == "sample")


def test_different_instances_and_failures_are_named() -> None:
    found = warnings([cell("x", "a", [1.0, 0.0, np.nan], "pqr"), cell("y", "a", [1.0, 1.0], "pq")])
    assert "Models were asked different instances of a." in found
    assert "x: 1 instances without a score, left out of its means, on a." in found


def test_failures_alone_do_not_make_different_instances() -> None:
    found = warnings([cell("x", "a", [1.0, np.nan]), cell("y", "a", [np.nan, 1.0])])
    assert not any("different instances" in warning for warning in found)


def test_a_single_instance_is_pointed_out() -> None:
    found = warnings([cell("x", "a", [1.0]), cell("y", "a", [0.0])])
    assert "There is only one independent instance of a: it counts, but proves nothing." in found


def test_long_lists_are_cut() -> None:
    wanted = ["a", *(f"absent{i}" for i in range(8))]
    found = warnings([cell("x", "a", GOOD)], benchmarks=wanted)
    listed = "absent0, absent1, absent2, absent3, absent4 and 3 more"
    assert found[0] == f"8 of 9 benchmarks asked for have no result: {listed}."


def test_known_means_alone_are_explained() -> None:
    cells = [Cell(model=m, benchmark=b, value=v) for b in "abcd" for m, v in (("x", 0.9), ("y", 0.1))]
    found = warnings(cells)
    assert found[-1].startswith("Single scores are not known for all results")


def test_constant_answers_that_do_as_well_as_models_are_named() -> None:
    floors = {"a": 0.975, "b": 0.5, "c": 0.0}
    columns = [
        replace(c, constant_baseline=floors.get(c.benchmark), constant_answer="a very long answer " * 3)
        for c in COLUMNS
    ]
    cells = [cell(model, name, scores) for name in "abcd" for model, scores in (("x", GOOD), ("y", BAD))]
    found = warnings(cells, columns=columns)
    answer = "a very long answer a very long..."
    assert f"No model does better than the same answer to every question on a (`{answer}`: 0.975)." in found
    assert f"Only some models do better than the same answer to every question on b (`{answer}`: 0.500)." in found
    assert not any(" c (" in warning or " d (" in warning for warning in found)

"""What a reader of a leaderboard is told in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from medhelm.analysis.board import Cell, Column
from medhelm.analysis.leaderboard import build
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
    return build(cells, columns, rng=np.random.default_rng(0), benchmarks=benchmarks, tier=tier).warnings


GOOD, BAD, FAIR = [1.0] * 39 + [0.0], [0.0] * 39 + [1.0], [1.0] * 38 + [0.0, 1.0]


def test_a_board_without_limits_only_says_what_it_can_tell() -> None:
    found = warnings([cell("x", "a", GOOD), cell("y", "a", BAD)])
    assert found == ("1 of 1 pairs of models can be told apart by their win rates, and 1 of 1 neighbours in rank.",)


def test_ties_name_their_members() -> None:
    found = warnings([cell("x", "a", GOOD), cell("y", "a", FAIR), cell("z", "a", BAD)])
    assert found == (
        "2 of 3 pairs of models can be told apart by their win rates, and 1 of 2 neighbours in rank.",
        "Places 1 to 2 cannot be told apart from place 1: x, y.",
    )


def test_a_lone_model_is_not_compared() -> None:
    assert warnings([cell("x", "a", GOOD)]) == ()


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
    assert found == (f"8 of 9 benchmarks asked for have no result: {listed}.",)


def test_known_means_alone_are_explained() -> None:
    cells = [Cell(model=m, benchmark=b, value=v) for b in "abcd" for m, v in (("x", 0.9), ("y", 0.1))]
    found = warnings(cells)
    assert found[-1].startswith("Single scores are not known for all results")


def test_constant_answers_that_do_as_well_as_models_are_named() -> None:
    floors = {"a": 0.975, "b": 0.5, "c": 0.0}
    columns = [replace(c, floor=floors.get(c.benchmark), floor_answer="a very long answer " * 3) for c in COLUMNS]
    cells = [cell(model, name, scores) for name in "abcd" for model, scores in (("x", GOOD), ("y", BAD))]
    found = warnings(cells, columns=columns)
    answer = "a very long answer a very long..."
    assert f"No model does better than the same answer to every question on a (`{answer}`: 0.975)." in found
    assert f"Only some models do better than the same answer to every question on b (`{answer}`: 0.500)." in found
    assert not any(" c (" in warning or " d (" in warning for warning in found)

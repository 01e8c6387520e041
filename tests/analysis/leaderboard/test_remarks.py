"""What a reader of a leaderboard is told in words."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.types import remark_groups
from medhelm.domain import Estimate, Tier
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


def test_other_benchmarks_get_the_wider_interval() -> None:
    """All benchmarks have the same means, so that their spread alone would say that there is no uncertainty."""
    cells = [cell(model, name, scores) for name in "abcd" for model, scores in (("x", FAIR), ("y", BAD))]
    (said,) = warnings(cells)
    ((low, high),) = re.findall(r"On similar benchmarks x would probably average between (.*) and (.*?)\.$", said)
    here_low, _, here_high = ends(build_leaderboard(cells, COLUMNS).rows[0].adjusted_average)
    assert float(low) <= here_low + 0.005
    assert float(high) >= here_high - 0.005


def test_failures_that_the_model_caused_are_told_from_missing_scores() -> None:
    mixed = replace(cell("x", "a", [*GOOD[:30], 0.0, 0.0, np.nan]), n_failed=3, n_failed_by_model=2)
    for failures, words in (
        ({"refusal": 1, "length": 1}, "1 refusal and 1 exhausted limit"),
        ({"context_length": 1, "does_not_fit": 1}, "2 prompts that do not fit"),
    ):
        found = warnings([replace(mixed, failures_by_model=failures), cell("y", "a", [1.0] * 33)])
        assert f"x: {words} on a, counted as the worst answer." in found
    assert "x: 1 instance without a score, left out of its means, on a." in found


def test_remarks_below_the_name_of_a_model_do_not_repeat_it() -> None:
    lacking = cell("x", "a", [*GOOD[:30], np.nan])
    board = build_leaderboard([lacking, cell("y", "a", [1.0] * 31)], COLUMNS)
    text = "1 instance without a score, left out of its means, on a."
    assert f"x: {text}" in texts(board.remarks)
    assert remark_groups(board).models == {"x": [text]}


def test_a_benchmark_that_only_baselines_have_is_named() -> None:
    cells = [cell("x", "a", GOOD), cell("y", "a", BAD), cell("baseline/majority", "b", GOOD)]
    assert "Only baselines were run on b, which is not counted. `--rank-baselines` ranks baselines, too." in warnings(
        cells
    )


def test_benchmarks_go_by_their_titles() -> None:
    """The ids of these benchmarks would not be found in a sentence."""
    columns = [replace(column, benchmark=f"id_{column.benchmark}", title=column.title.upper()) for column in COLUMNS]
    cells = [cell("x", "id_a", GOOD), cell("y", "id_a", [*BAD[:39], np.nan]), cell("z", "id_a", FAIR)]
    cells += [cell("x", "id_b", GOOD), cell("y", "id_b", BAD), cell("x", "id_c", [1.0]), cell("y", "id_c", [0.0])]
    cells += [cell("x", "id_d", GOOD), cell("baseline/majority", "id_a", GOOD)]
    cells[0] = replace(cells[0], n_failed_by_model=1, failures_by_model={"refusal": 1})
    found = " ".join(warnings(cells, columns=columns))
    assert "id_" not in found
    words = (
        "z was not run on B and C.",
        "x: 1 refusal on A, counted",
        "left out of its means, on A.",
        "run on D, which",
    )
    assert [word for word in words if word not in found] == []


def test_the_rank_that_missing_scores_could_cost_goes_by_the_number_that_ranks() -> None:
    """x is better on every instance it has; with its missing ones lost, y has the higher win share."""
    known = Estimate(value=1.0, low=0.7, high=1.0, n=10, n_failed=30, method="wilson")
    some = replace(cell("x", "a", [1.0] * 10 + [np.nan] * 30), estimate=known)
    found = warnings([some, cell("y", "a", [0.0] * 10 + [1.0] * 30), cell("x", "b", GOOD), cell("y", "b", GOOD)])
    (said,) = [text for text in found if text.startswith("x: 30 instances without a score")]
    assert said.endswith("With the worst score for each, its rank would fall from 1 to 2.")

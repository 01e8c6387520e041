"""What a reader of a leaderboard is told in words: remarks, and a verdict that holds for the table below it."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.findings import verdict, with_doubts
from medhelm.analysis.leaderboard.types import Leaderboard, remark_groups
from medhelm.analysis.planned_cost import RunUse
from medhelm.domain import Estimate, Tier
from medhelm.domain.result import Remark
from tests.support.leaderboards import plain_columns, score_cell, toy_board
from tests.support.remarks import texts
from tests.support.values import ends

BENCHMARKS = ("a", "b", "c")


def board(
    accuracy: dict[str, float], *, costs: dict[str, float] | None = None, seconds: dict[str, float] | None = None
) -> Leaderboard:
    """Models that are right on a fixed share of 60 questions on each of three benchmarks."""
    cells = []
    for model, name in product(accuracy, BENCHMARKS):
        scores = (np.arange(60) < round(60 * accuracy[model])).astype(float)
        use = RunUse(completions=60, seconds=np.full(60, seconds[model]) if seconds and model in seconds else None)
        cells.append(score_cell(model, name, scores, cost_usd=(costs or {}).get(model), use=use))
    return build_leaderboard(cells, plain_columns(*BENCHMARKS))


def test_there_is_a_winner_only_if_it_is_significantly_better_than_every_other_model() -> None:
    (clear,) = board({"x": 0.9, "y": 0.5, "z": 0.2}).verdict
    assert clear.startswith("x leads (macro average 0.")
    assert clear.endswith("and is significantly better than every other model.")
    (close,) = board({"x": 0.9, "y": 0.9 - 1 / 60, "z": 0.2}).verdict
    assert close.startswith("No winner: x ranks first (macro average 0.")
    assert close.endswith("but cannot be separated from y.")


def test_ties_have_no_superlative() -> None:
    (tied,) = board({"x": 0.5, "y": 0.5, "z": 0.5}).verdict
    assert tied == "No winner: all 3 models share the first rank (macro average 0.500)."
    (close,) = board({"x": 0.5, "y": 0.5 - 1 / 60, "z": 0.5 - 1 / 60}).verdict
    assert close.startswith("No winner: the 3 models cannot be separated. x ranks first (macro average 0.5")


X_DEARER, X_CHEAPEST = {"x": 2.0, "y": 1.0, "z": 3.0}, {"x": 1.0, "y": 2.0, "z": 2.0}
CHEAPER = "Cheapest of the best: y (3.00 US dollars for 180 completions; x 6.00)."
CHEAPEST = "Cheapest of the best: x (3.00 US dollars for 180 completions)."
NOT_CLEARLY = "None of the best is clearly cheaper than x (3.00 US dollars for 180 completions)."
PARTLY = "Cheapest of the best with a known price: y (3.00 US dollars for 180 completions)."
FASTEST = "Fastest of the best: z (1.2 s per answer, median; x 3.4 s)."


@pytest.mark.parametrize(
    ("costs", "seconds", "said"),
    [
        (X_DEARER, (3.4, 2.0, 1.2), f"{CHEAPER} {FASTEST}"),
        (X_DEARER, (1.0, 1.2, 2.0), CHEAPER),
        (X_DEARER, (1.2, 1.1, 1.3), CHEAPER),
        (X_CHEAPEST, (3.4, 2.0, 1.2), f"{CHEAPEST} {FASTEST}"),
        (X_CHEAPEST, (1.0, 2.0), CHEAPEST),
        ({"x": 1.0, "y": 0.95, "z": 1.1}, (), NOT_CLEARLY),
        ({"x": 1.0, "y": 1.05, "z": 1.1}, (), NOT_CLEARLY),
        ({"y": 1.0, "z": 3.0}, (), PARTLY),
        ({}, (3.4, 2.0, 1.2), FASTEST),
    ],
    ids=["both", "cheaper", "hardly faster", "leader cheapest", "unknown times", "hardly cheaper", "hardly dearer",
         "unknown cost", "no cost"],
)  # fmt: skip
def test_the_cheapest_and_the_fastest_of_the_best_are_named_if_the_difference_is_clear(
    costs: dict[str, float], seconds: tuple[float, ...], said: str
) -> None:
    accuracy = {"x": 0.9, "y": 0.9 - 1 / 60, "z": 0.9 - 1 / 60}
    found = board(accuracy, costs=costs, seconds=dict(zip("xyz", seconds, strict=False))).verdict
    assert " ".join(found[1:]) == said


def test_the_cost_of_a_winner_has_no_comparison() -> None:
    won = board({"x": 0.9, "y": 0.5}, costs={"x": 2.0, "y": 1.0})
    assert won.verdict[1:] == ("x cost 6.00 US dollars for 180 completions.",)
    judged = replace(won, columns=tuple(replace(column, judges=("lab/judge",)) for column in won.columns))
    assert verdict(judged)[1:] == ["x cost 6.00 US dollars for 180 completions, judges not included."]


def test_published_costs_are_ceilings_and_no_part_of_the_verdict() -> None:
    close = board({"x": 0.9, "y": 0.9 - 1 / 60, "z": 0.2}, costs={"x": 2.0, "y": 1.0, "z": 0.1})
    rows = tuple(replace(row, published=row.model == "y") for row in close.rows)
    assert [row.cost_is_ceiling for row in rows] == [False, True, False]
    assert "y" not in " ".join(verdict(replace(close, rows=rows))[1:]).split("(")[0]
    assert verdict(replace(close, rows=tuple(replace(row, published=True) for row in rows)))[1:] == []


@pytest.mark.parametrize(
    ("shares", "why"),
    [
        ((0.95, 0.5, 0.5), "but neither model is significantly better."),
        ((1.0, 0.2, 0.2), "because it counts a small lead on a benchmark like a large one."),
    ],
)
def test_another_order_by_win_rate_is_one_sentence(shares: tuple[float, float, float], why: str) -> None:
    """x is far ahead on one benchmark, y just ahead on two."""
    x, y = dict(zip(BENCHMARKS, shares, strict=True)), dict(zip(BENCHMARKS, (0.75, 0.55, 0.55), strict=True))
    if shares[0] == 1.0:
        x, y = {"a": 1.0, "b": 0.7, "c": 0.7}, {"a": 0.1, "b": 0.72, "c": 0.72}
    cells = [
        score_cell(model, name, (np.arange(60) < round(60 * own[name])).astype(float))
        for model, own in (("x", x), ("y", y))
        for name in BENCHMARKS
    ]
    made = build_leaderboard(cells, plain_columns(*BENCHMARKS))
    assert made.rows[0].model == "x"
    (said,) = [text for text in made.verdict if text.startswith("By win rate")]
    assert said == f"By win rate, y would come first (0.667; x 0.333), {why}"


def test_after_doubts_about_the_jury_ranks_are_what_its_scores_show() -> None:
    board = toy_board(3, 3, n=40)
    judged = tuple(replace(column, judges=("lab/judge",)) for column in board.columns)
    for columns, start in ((judged, "By the jury's scores, "), (board.columns, "By these scores, ")):
        found = with_doubts(replace(board, columns=columns), ["Do not rely on the jury."])
        assert found == (
            "Do not rely on the jury.",
            start + board.verdict[0].replace("No winner", "no winner"),
            *board.verdict[1:],
        )
        assert with_doubts(replace(board, verdict=found), ["More."])[1:] == found


@pytest.mark.parametrize("best", [0.98, None])
def test_a_doubt_about_missing_scores_is_in_the_verdict_only_if_it_concerns_the_best(best: float | None) -> None:
    """y is better than z on the questions that y answered; if it had failed on all others, it would not be."""
    missing = np.full(20, np.nan)
    scores = {
        "y": np.concatenate([np.ones(26), np.zeros(14), missing]),
        "z": np.concatenate([np.ones(15), np.zeros(25), np.ones(8), np.zeros(12)]),
    }
    scores |= {"x": (np.arange(60) < round(60 * best)).astype(float)} if best else {}
    cells = [score_cell(model, "a", own, n_failed=int(np.isnan(own).sum())) for model, own in sorted(scores.items())]
    made = build_leaderboard(cells, plain_columns("a"))
    doubt = "y is significantly better than z only if 20 missing scores of y are ignored."
    repeat = "To complete the scores, repeat the command of the run."
    assert (doubt in made.verdict) is (best is None)
    assert (repeat in made.verdict) is (best is None)
    found = [one.text for one in made.remarks if one.code == "depends_on_missing_scores"]
    assert found == ([f"{doubt} {repeat}"] if best else [])
    assert set(found) <= set(remark_groups(made).reading)


# --- remarks ----------------------------------------------------------------------------------------------------------


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


def test_remarks_on_the_reading_begin_with_one_of_each_kind_and_missing_benchmarks_change_it() -> None:
    board = build_leaderboard([cell("x", "a", GOOD), cell("y", "a", BAD)], COLUMNS)
    said = [
        *[("floor", "", "floor 1"), ("floor", "", "floor 2"), ("model_lacks_benchmarks", "y", "y lacks b.")],
        *[("interval_basis", "", "method"), ("blank_completions", "y", "y: 3 are blank."), ("cluster", "a", "cluster")],
        *[("floor", "", "floor 3"), ("other", "", "other"), ("gone", "z", "z is gone.")],
    ]
    found = remark_groups(replace(board, remarks=tuple(Remark(*one) for one in said)))
    assert found.first == ["floor 1", "y lacks b.", "cluster", "other", "z is gone."]
    assert found.further == ["floor 2", "floor 3"]
    assert (found.models, found.method, found.n_on_models) == ({"y": ["3 are blank."]}, ["method"], 1)


def test_a_benchmark_that_only_baselines_have_is_named() -> None:
    cells = [cell("x", "a", GOOD), cell("y", "a", BAD), cell("baseline/majority", "b", GOOD)]
    assert "Only baselines were run on b, which is not counted. `--rank-baselines` ranks baselines, too." in warnings(
        cells
    )


def test_a_benchmark_without_any_value_is_named() -> None:
    failed = [replace(cell(model, "b", [0.0]), value=None, scores=np.array([np.nan])) for model in "xy"]
    said = warnings([cell("x", "a", GOOD), cell("y", "a", BAD), *failed])
    assert "No model has a value on b, which is not counted." in said


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

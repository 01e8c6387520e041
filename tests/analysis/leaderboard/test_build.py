"""Ranks, averages and what surrounds them, on small boards worked out by hand."""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.analysis.ratios import comparison_values, linearized
from medhelm.domain.ranking import RankingOptions
from medhelm.domain.result import Resample
from medhelm.errors import UserError
from tests.support import leaderboards
from tests.support.leaderboards import score_cell
from tests.support.remarks import texts
from tests.support.values import present

NAN = float("nan")
few_boards = settings(max_examples=12)


def column(benchmark: str, low: float = 0.0, high: float = 1.0, category: str = "c", **changes: Any) -> Column:
    names = {"title": benchmark.upper(), "category": category, "subcategory": f"{category}_{benchmark}"}
    return leaderboards.column(benchmark, low, high, **names, **changes)


def known(values: Mapping[str, Mapping[str, float | None]]) -> list[Cell]:
    """Cells of which only the means are known: benchmark -> model -> value."""
    return [Cell(model=m, benchmark=b, value=v) for b, row in values.items() for m, v in row.items()]


def scored(model: str, benchmark: str, scores: Sequence[float], ids: Sequence[str] | None = None) -> Cell:
    """A cell with single scores."""
    cell = score_cell(model, benchmark, scores, n_failed=int(np.isnan(scores).sum()), cost_usd=0.5)
    return cell if ids is None else replace(cell, ids=ids)


def board(cells: Sequence[Cell], columns: Sequence[Column], **options: object) -> Leaderboard:
    return build_leaderboard(cells, columns, **options)  # type: ignore[arg-type]


def numbers(row: Row) -> tuple[object, ...]:
    """Everything a row says but its cells, for comparing boards."""
    return tuple(getattr(row, field.name) for field in fields(row) if field.name != "cells")


def test_a_board_worked_out_by_hand() -> None:
    cells = known({"a": {"x": 0.9, "y": 0.6, "z": 0.6}, "b": {"x": 3.0, "y": 5.0, "z": 1.0}})
    found = board(cells, [column("a"), column("b", 1, 5, "d")])
    rows = {row.model: row for row in found.rows}
    assert [row.model for row in found.rows] == ["x", "y", "z"]
    rates = {m: row.win_rate.value for m, row in rows.items() if row.win_rate}
    assert rates == pytest.approx({"x": 0.75, "y": 0.625, "z": 0.125})
    averages = {m: row.macro_average.value for m, row in rows.items() if row.macro_average}
    assert averages == pytest.approx({"x": 0.7, "y": 0.8, "z": 0.3})
    assert present(rows["x"].win_rate).sd == pytest.approx(statistics.pstdev([0.5, 1.0]))
    assert present(rows["y"].win_rate).sd == pytest.approx(statistics.pstdev([0.5, 0.5]))
    assert present(rows["x"].macro_average).sd == pytest.approx(statistics.stdev([0.9, 0.5]))
    assert {name: mean.value for name, mean in rows["y"].categories.items()} == pytest.approx({"c": 0.6, "d": 1.0})
    assert {name: mean.n_benchmarks for name, mean in rows["y"].subcategories.items()} == {"c_a": 1, "d_b": 1}
    assert found.interval_method == "benchmarks"
    assert found.mde == {"a": None, "b": None}


def test_lower_is_better_is_turned_round_and_equal_values_share_a_rank() -> None:
    cells = known({"a": {"w": 0.1, "x": 0.4, "y": 0.4, "z": 0.9}})
    rows = board(cells, [column("a", higher_is_better=False)]).rows
    assert [(row.model, row.rank) for row in rows] == [("w", 1), ("x", 2), ("y", 2), ("z", 4)]
    assert present(rows[0].macro_average).value == rows[0].categories["c"].value == pytest.approx(0.9)
    assert rows[0].cells["a"].value == 0.1


def test_a_model_alone_has_a_rank_but_no_win_rate() -> None:
    (row,) = board([scored("x", "a", [1, 0, 1, 1])], [column("a")]).rows
    assert (row.rank, row.rank_low, row.rank_high, row.tie_group) == (1, 1, 1, 1)
    assert (row.win_rate, row.guarded_win_rate, present(row.macro_average).sd) == (None, None, None)
    assert present(present(row.macro_average).low) < 0.75 < present(present(row.macro_average).high)


def test_models_without_a_shared_benchmark_have_no_win_rate_and_no_rank() -> None:
    cells = known({"a": {"x": 0.2, "y": 0.1}, "b": {"z": 1.0}})
    found = board(cells, [column("a"), column("b")])
    assert [(row.model, row.rank) for row in found.rows] == [("x", 1), ("y", 2), ("z", None)]
    assert found.rows[2].win_rate is None
    assert not any("z" in pair for pair in found.separated), "z met nobody"
    said = texts(found.remarks)
    assert "z was not run on the same benchmarks as the other models and has no rank." in said
    assert "Only one model was run on B, which is not counted." in said


def test_two_equal_models_share_everything() -> None:
    scores = np.random.default_rng(1).random(60).round(2).tolist()
    found = board([scored("x", "a", scores), scored("y", "a", scores)], [column("a")])
    for row in found.rows:
        assert (row.rank, row.tie_group) == (1, 1)
        assert row.win_share is not None
        assert (present(row.win_rate).value, row.win_share.value) == (0.5, 0.5)
        assert present(row.win_share.low) < 0.5, "equal answers prove no equality"
    assert found.separated == frozenset()
    assert found.mde == {"a": 0.0}


@pytest.mark.parametrize(
    ("cells", "columns", "message"),
    [
        (known({"a": {"x": 1.0}}) * 2, [column("a")], "x has two results on a"),
        (known({"a": {"x": 1.0}, "b": {"x": 1.0}}), [column("a")], "No column describes b"),
        (known({"a": {"x": 1.0}}), [column("a"), column("a", 1, 5)], "a is described in two ways"),
        (known({"a": {"x": 1.0}}), [column("a", 0, float("inf"))], "0 to inf; averages need bounds"),
        (known({"a": {"x": 1.0}}), [column("a", weight=0.0)], "a: the weight .* is not a number above 0"),
    ],
)
def test_what_cannot_be_ranked_is_refused(cells: list[Cell], columns: list[Column], message: str) -> None:
    with pytest.raises(UserError, match=message):
        board(cells, columns)


# --- properties -------------------------------------------------------------------------------------------------------


@st.composite
def boards(draw: st.DrawFn) -> tuple[list[Cell], list[Column]]:
    """Boards of up to five models and four benchmarks with single scores, of which some may be missing."""
    score = st.sampled_from([0.0, 0.25, 0.5, 1.0])
    if draw(st.booleans()):
        score |= st.just(NAN)
    models, n = draw(st.integers(2, 5)), draw(st.integers(1, 6))
    columns = [column(f"b{i}", category=f"c{i % 2}") for i in range(draw(st.integers(1, 4)))]
    cells = []
    for place in columns:
        for model in range(models):
            if draw(st.integers(0, 4)):
                scores = draw(st.lists(score, min_size=n, max_size=n))
                cells.append(scored(f"m{model}", place.benchmark, scores))
    return cells, columns


@few_boards
@given(boards(), st.randoms(use_true_random=False))
def test_the_order_of_cells_and_columns_changes_nothing(
    case: tuple[list[Cell], list[Column]], shuffle: random.Random
) -> None:
    cells, columns = case
    first = board(cells, columns)
    shuffle.shuffle(cells)
    shuffle.shuffle(columns)
    second = board(cells, columns)
    assert [numbers(row) for row in first.rows] == [numbers(row) for row in second.rows]
    assert first.mde == second.mde
    assert first.separated == second.separated


@few_boards
@given(boards())
def test_every_board_is_in_order_and_every_interval_holds_its_value(case: tuple[list[Cell], list[Column]]) -> None:
    found = board(*case)
    ranked = [row for row in found.rows if row.rank is not None]
    assert list(found.rows[: len(ranked)]) == ranked
    values = [row.ranking_value or 0.0 for row in ranked]
    assert values == sorted(values, reverse=True)
    groups = [row.tie_group or 0 for row in ranked]
    assert groups == sorted(groups)
    if not any(row.n_benchmarks for row in found.rows):
        assert all(row.rank is None for row in found.rows)
        return
    for place, row in enumerate(ranked, start=1):
        assert 1 <= present(row.rank) <= place
        assert 1 <= present(row.rank_low) <= present(row.rank) <= present(row.rank_high) <= len(ranked)
        assert 0 <= row.coverage <= 1
        for average in (row.win_share, row.macro_average, row.adjusted_average):
            if average:
                assert 0 <= present(average.low) <= average.value <= present(average.high) <= 1
                assert average.sd is None or average.sd >= 0


def test_a_board_with_a_gap_worked_out_by_hand() -> None:
    """b is harder than a by 0.1 for x and y; z lacks b, where it is expected to score 0.1 less, too."""
    scores = {"x": (0.8, 0.6), "y": (0.5, 0.5), "z": (0.6, None)}
    cells = [
        scored(m, b, [v] * 4) for m, row in scores.items() for b, v in zip("ab", row, strict=True) if v is not None
    ]
    found = board(cells, [column("a"), column("b")])
    assert [(row.model, row.rank) for row in found.rows] == [("x", 1), ("z", 2), ("y", 3)]
    averages = {row.model: row.adjusted_average and row.adjusted_average.value for row in found.rows}
    assert averages == pytest.approx({"x": 0.7, "z": 0.55, "y": 0.5})
    own = {row.model: row.macro_average and row.macro_average.value for row in found.rows}
    assert own == pytest.approx({"x": 0.7, "y": 0.5, "z": 0.6})
    assert (
        "z was not run on B. Its macro average is estimated from its other benchmarks and from how hard these were for "
        "other models." in texts(found.remarks)
    )


def test_a_worse_model_does_not_hide_behind_benchmarks_that_nobody_else_ran() -> None:
    right = {"good-a": 80, "good-b": 79, "poor": 55}
    cells = [scored(m, b, [1.0] * k + [0.0] * (100 - k)) for m, k in right.items() for b in "ab"]
    alone = [scored("poor", b, [1.0] * 30 + [0.0] * 70) for b in "cdef"]
    found = board([*cells, *alone], [column(b) for b in "abcdef"])
    assert [(row.model, row.rank_low, row.rank_high) for row in found.rows] == [
        ("good-a", 1, 2), ("good-b", 1, 2), ("poor", 3, 3),
    ]  # fmt: skip
    assert found.separated == found.nominally_different == {("good-a", "poor"), ("good-b", "poor")}
    said = "No winner: good-a ranks first (macro average 0.800), but cannot be separated from good-b."
    assert found.verdict[0] == said
    assert "2 of 3 pairs of models differ significantly." in " ".join(texts(found.remarks))


@pytest.mark.parametrize(("of_a", "of_b", "worst"), [(40, 160, 0.2), (80, 120, 0.4)])
def test_better_on_more_questions_but_worse_on_average_is_no_finding(of_a: int, of_b: int, worst: float) -> None:
    """A is better by one grade on most answers, and gives the worst grade instead of the best on the others."""
    grades = {"A": [1.0] * of_a + [5.0] * of_b, "B": [5.0] * of_a + [4.0] * of_b}
    cells = [scored(model, b, row) for model, row in grades.items() for b in "abc"]
    found = board(cells, [column(b, 1, 5) for b in "abc"])
    assert found.separated == frozenset()
    shares = {row.model: present(row.worst_answers).value for row in found.rows}
    assert shares == pytest.approx({"A": worst, "B": 0.0})
    said = "A is better than B on more questions, but worse on average: its bad answers are worse."
    assert found.rows[0].model == "A" or said in found.verdict


def test_the_win_share_of_balanced_accuracy_follows_its_lead() -> None:
    """x finds more of the sick, y more of the well: scored instance by instance, y would win the larger class."""
    classes = ["sick"] * 10 + ["well"] * 30
    right = {"x": [1.0] * 9 + [0.0] + [1.0] * 12 + [0.0] * 18, "y": [1.0] * 4 + [0.0] * 6 + [1.0] * 24 + [0.0] * 6}
    cells = []
    for model, row in right.items():
        parts = [{label: (score, 1.0)} for label, score in zip(classes, row, strict=True)]
        values = np.array(row)
        cell = replace(scored(model, "a", linearized(values, parts).tolist()), tested=comparison_values(values, parts))
        cells += [cell, replace(cell, benchmark="b")]
    found = board(cells, [column("a"), column("b")])
    shares = {row.model: row.win_share and row.win_share.value for row in found.rows}
    averages = {row.model: row.macro_average and row.macro_average.value for row in found.rows}
    assert averages == pytest.approx({"x": 0.65, "y": 0.6})
    assert shares == pytest.approx({"x": 0.525, "y": 0.475})
    assert present(found.pairs).win_share.differences.value.tolist() == pytest.approx([0.05])


def test_only_benchmarks_that_all_have_are_kept_on_demand() -> None:
    cells = known({"a": {"x": 0.9, "y": 0.8}, "b": {"x": 0.1}, "c": {"x": 0.4, "y": None}, "d": {"x": 0.1, "y": 0.2}})
    columns, shared = [column(b) for b in "abcd"], RankingOptions(shared=True)
    found = board(cells, columns, options=shared)
    assert [c.benchmark for c in found.columns] == ["a", "d"]
    said = "Only the 2 of 4 benchmarks on which every model has a value are counted. Left out: B and C."
    assert texts(found.remarks)[0] == said
    with pytest.raises(UserError, match="no benchmark has a value for all 2 models; y has 0 of 2, x has 2 of 2"):
        board(cells, columns, options=shared, benchmarks=["b", "c"])


# --- weights ----------------------------------------------------------------------------------------------------------


@few_boards
@given(boards(), st.data())
def test_a_weight_is_a_benchmark_that_stands_so_often(
    case: tuple[list[Cell], list[Column]], data: st.DataObject
) -> None:
    cells, columns = case
    times = {c.benchmark: data.draw(st.integers(1, 3)) for c in columns}
    size = data.draw(st.sampled_from([1.0, 0.1]))
    weighted = board(cells, [replace(c, weight=size * times[c.benchmark]) for c in columns])
    copies = [
        (replace(c, benchmark=f"{c.benchmark}#{i}"), c.benchmark) for c in columns for i in range(times[c.benchmark])
    ]
    repeated = board(
        [replace(cell, benchmark=c.benchmark) for c, name in copies for cell in cells if cell.benchmark == name],
        [c for c, _ in copies],
    )
    if weighted.ranked_by == repeated.ranked_by:  # a single benchmark is ranked by its mean
        assert [(r.model, r.rank) for r in weighted.rows] == [(r.model, r.rank) for r in repeated.rows]
    pairs = zip(*(sorted(one.rows, key=lambda row: row.model) for one in (weighted, repeated)), strict=True)
    for one, other in pairs:
        told = [
            (row.guarded_win_rate, row.win_rate and row.win_rate.value, row.macro_average and row.macro_average.value)
            for row in (one, other)
        ]
        assert told[0] == pytest.approx(told[1])
        means = [{name: mean.value for name, mean in row.categories.items()} for row in (one, other)]
        assert means[0] == pytest.approx(means[1])


def test_rounding_does_not_order_equal_models() -> None:
    """0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1 to the last digit."""
    values = {"a": {"x": 0.3, "y": 0.1}, "b": {"x": 0.2, "y": 0.2}, "c": {"x": 0.1, "y": 0.3}}
    found = board(known(values), [column(b) for b in values])
    assert [(row.model, row.rank) for row in found.rows] == [("x", 1), ("y", 1)]


# --- what is drawn ----------------------------------------------------------------------------------------------------


def test_what_is_resampled_can_be_chosen() -> None:
    generator = np.random.default_rng(8)
    cells = [scored(m, b, (generator.random(40) + 0.02 * i).tolist()) for b in "abcdef" for i, m in enumerate("xyz")]
    columns = [column(b, high=2) for b in "abcdef"]
    found = [board(cells, columns, options=RankingOptions(resample=choice)) for choice in get_args(Resample)]
    told = {one.interval_method: one.ranked_by for one in found}
    assert told == {"instances within benchmarks": "macro average", "benchmarks": "win rate", "nothing": "win rate"}
    (nothing,) = (one for one in found if one.interval_method == "nothing")
    row = nothing.rows[0]
    assert (row.rank_low, row.rank_high, row.tie_group) == (None, None, None)
    assert (present(row.win_rate).low, present(row.macro_average).low) == (None, None)
    assert present(row.win_rate).sd is not None
    assert (nothing.pairs, nothing.separated, nothing.nominally_different) == (None, frozenset(), frozenset())
    assert any(text.startswith("No intervals and no tests") for text in texts(nothing.remarks))


def test_instances_that_are_not_known_cannot_be_resampled() -> None:
    cells = [scored("x", "a", [1, 0, 1]), *known({"a": {"y": 0.5}, "b": {"y": 0.2}})]
    with pytest.raises(UserError, match="the single scores of y on a and 1 more are not known"):
        board(cells, [column("a"), column("b")], options=RankingOptions(resample="instances"))

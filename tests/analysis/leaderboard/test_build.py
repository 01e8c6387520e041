"""Ranks, averages and what surrounds them, on small boards worked out by hand."""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.analysis.ratios import comparison_values, linearized
from medhelm.domain import Estimate
from medhelm.domain.ranking import RankingOptions
from medhelm.errors import UserError
from tests.support import leaderboards
from tests.support.leaderboards import score_cell
from tests.support.remarks import texts
from tests.support.values import present

NAN = float("nan")
quick = settings(max_examples=25, deadline=None, database=None)


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


def test_equal_win_rates_share_a_rank_and_the_next_is_skipped() -> None:
    cells = known({"a": {"w": 0.9, "x": 0.8, "y": 0.5, "z": 0.1}, "b": {"w": 0.9, "x": 0.4, "y": 0.5, "z": 0.1}})
    rows = board(cells, [column("a"), column("b")]).rows
    assert [(row.model, row.rank) for row in rows] == [("w", 1), ("x", 2), ("y", 2), ("z", 4)]


def test_lower_is_better_is_turned_round_everywhere() -> None:
    cells = known({"a": {"x": 0.1, "y": 0.4}})
    rows = board(cells, [column("a", higher_is_better=False)]).rows
    assert [row.model for row in rows] == ["x", "y"]
    assert present(rows[0].macro_average).value == pytest.approx(0.9)
    assert rows[0].cells["a"].value == 0.1
    assert rows[0].categories["c"].value == pytest.approx(0.9)


def test_a_model_alone_has_a_rank_but_no_win_rate() -> None:
    (row,) = board([scored("x", "a", [1, 0, 1, 1])], [column("a")]).rows
    assert (row.rank, row.tie_group, row.win_rate) == (1, 1, None)
    assert (row.rank_low, row.rank_high, row.guarded_win_rate) == (1, 1, None)
    assert row.macro_average is not None
    assert row.macro_average.value == 0.75
    assert row.macro_average.sd is None
    assert present(row.macro_average.low) < 0.75 < present(row.macro_average.high)


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


def test_resampling_is_paired_by_instance_id() -> None:
    generator = np.random.default_rng(3)
    scores = generator.random(100)
    order = generator.permutation(100)
    better = scored("x", "a", (scores + 0.001).tolist())
    shuffled = scored("y", "a", scores[order].tolist(), [f"q{i}" for i in order])
    assert board([better, shuffled], [column("a", high=2)]).separated == {("x", "y")}


def test_one_instance_per_benchmark_proves_nothing() -> None:
    cells = [scored(m, b, [v]) for b in "abc" for m, v in (("x", 1), ("y", 0))]
    found = board(cells, [column(b) for b in "abc"])
    assert {row.tie_group for row in found.rows} == {1}
    share = present(found.rows[0].win_share)
    assert present(share.low) < 0.5 < share.value == share.high == 1.0


def test_skipping_a_benchmark_shows() -> None:
    cells = known({"a": {"x": 0.9, "y": 0.8}, "b": {"x": None, "y": 0.2}, "c": {"y": 0.5}})
    found = board(cells, [column(b) for b in "abc"])
    rows = {row.model: row for row in found.rows}
    assert (rows["x"].n_benchmarks, rows["y"].n_benchmarks) == (1, 3)
    assert [rows[m].coverage for m in "xy"] == pytest.approx([1 / 3, 1.0])
    assert set(rows["x"].cells) == {"a", "b"}
    assert rows["x"].subcategories["c_c"].value is None
    assert present(rows["x"].macro_average).sd is None
    assert "Only one model was run on B, C, which are not counted." in texts(found.remarks)


def test_a_run_in_which_everything_failed_is_missing_not_zero() -> None:
    cells = [scored("x", "a", [NAN, NAN]), scored("y", "a", [1, 0]), scored("z", "a", [0, 0])]
    rows = {row.model: row for row in board(cells, [column("a")]).rows}
    assert rows["x"].win_rate is None
    assert rows["x"].macro_average is None
    assert (rows["x"].rank, rows["x"].coverage) == (None, 0.0)
    assert present(rows["y"].win_rate).value == 1.0


def test_an_unknown_cost_never_counts_as_free() -> None:
    cells = [scored("x", "a", [1, 0]), scored("x", "b", [1, 0]), scored("y", "a", [1, 1]), *known({"b": {"y": 0.5}})]
    rows = {row.model: row for row in board(cells, [column("a"), column("b")]).rows}
    assert rows["x"].cost_usd == 1.0
    assert rows["y"].cost_usd is None


def test_benchmarks_are_chosen_and_ordered() -> None:
    cells = known({"a": {"x": 0.9, "y": 0.8}, "b": {"x": 0.1, "y": 0.2}, "c": {"x": 0.1, "y": 0.2}})
    found = board(cells, [column(b) for b in "abc"], benchmarks=["c", "a", "c", "absent"], suite="mine")
    assert [c.benchmark for c in found.columns] == ["c", "a"]
    assert present(found.rows[0].win_rate).value == 0.5
    assert found.suite == "mine"
    assert "1 of 3 requested benchmarks have no result: absent." in texts(found.remarks)


def test_known_means_among_scores_change_what_is_resampled() -> None:
    cells = [scored("x", "a", [1, 0, 1]), *known({"a": {"y": 0.5}})]
    assert board(cells, [column("a")]).interval_method == "benchmarks"
    assert board(cells[:1], [column("a")]).interval_method == "instances within benchmarks"


def test_an_empty_board_says_so() -> None:
    for found in (board([], []), board(known({"a": {"x": 1.0}}), [column("a")], benchmarks=["b"])):
        assert (found.rows, found.columns) == ((), ())
        assert "nothing to rank" in texts(found.remarks)[0]


@pytest.mark.parametrize(
    ("cells", "columns", "message"),
    [
        (known({"a": {"x": 1.0}}) * 2, [column("a")], "x has two results on a"),
        (known({"a": {"x": 1.0}, "b": {"x": 1.0}}), [column("a")], "No column describes b"),
        (known({"a": {"x": 1.0}}), [column("a"), column("a", 1, 5)], "a is described in two ways"),
        (known({"a": {"x": 1.0}}), [column("a", 0, float("inf"))], "0 to inf; averages need bounds"),
        (known({"a": {"x": 1.0}}), [column("a", 1, 1)], "averages need bounds"),
        (known({"a": {"x": 1.0}}), [column("a", weight=0.0)], "a: the weight .* is not a number above 0"),
        (known({"a": {"x": 1.0}}), [column("a", weight=NAN)], "a: the weight .* is not a number above 0"),
        (known({"a": {"x": 1.0}}), [column("a", weight=float("inf"))], "a: the weight .* is not a number"),
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


@quick
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


@quick
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


@quick
@given(boards(), st.sampled_from([(1.0, 5.0), (0.0, 100.0)]))
def test_the_unit_of_a_metric_does_not_matter(
    case: tuple[list[Cell], list[Column]], scale: tuple[float, float]
) -> None:
    cells, columns = case
    low, span = scale[0], scale[1] - scale[0]
    other = [scored(c.model, c.benchmark, (low + span * present(c.scores)).tolist(), c.ids) for c in cells]
    first = board(cells, columns)
    second = board(other, [column(c.benchmark, *scale, category=c.category) for c in columns])
    assert [(row.model, row.rank, row.tie_group) for row in first.rows] == [
        (row.model, row.rank, row.tie_group) for row in second.rows
    ]
    for a, b in zip(first.rows, second.rows, strict=True):
        if a.macro_average and b.macro_average:
            assert a.macro_average.low == pytest.approx(b.macro_average.low)
            assert a.rank_low == b.rank_low


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


def test_no_average_is_estimated_from_benchmarks_of_models_without_a_rank() -> None:
    """x and y share a; u and v share b, which says nothing about x and y."""
    cells = [scored(m, b, [v] * 4) for m, b, v in (("x", "a", 0.8), ("y", "a", 0.5), ("w", "a", 0.4))]
    cells += [scored(m, "b", [0.5] * 4) for m in ("u", "v")]
    found = board(cells, [column("a"), column("b")])
    assert [row.model for row in found.rows if row.rank] == ["x", "y", "w"]
    assert not any("is estimated" in text for text in texts(found.remarks))
    assert any(text.startswith("u, v were not run on the same benchmarks") for text in texts(found.remarks))


def additive(rng: np.random.Generator, n_models: int, n_benchmarks: int, n: int = 40) -> list[Cell]:
    """Models whose means differ by the same on every benchmark: no run is better or worse than expected."""
    skill, difficulty = rng.choice(9, n_models, replace=False), rng.integers(0, 9, n_benchmarks)
    return [
        scored(f"m{i}", f"b{j}", (np.arange(n) < 10 + skill[i] + difficulty[j]).astype(float).tolist())
        for i in range(n_models)
        for j in range(n_benchmarks)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_a_model_does_not_move_by_lacking_benchmarks_or_by_having_some_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = additive(rng, 4, 5)
    columns = [column(f"b{j}") for j in range(6)]
    complete = board(cells, columns)
    easy = scored("m0", "b5", [1.0] * 40)
    lacking = [cell for cell in cells if rng.random() < 0.75 or cell.model == "m3"] + [easy]
    for found in (board([*cells, easy], columns), board(lacking, columns)):
        for row in found.rows:
            if row.rank is not None and found.rows[0].rank == 1 and len(found.rows) == 4:
                same = next(other for other in complete.rows if other.model == row.model)
                gap = (row.ranking_value or 0) - (found.rows[0].ranking_value or 0)
                assert gap == pytest.approx((same.ranking_value or 0) - (complete.rows[0].ranking_value or 0))
    assert [row.rank for row in board([*cells, easy], columns).rows] == [row.rank for row in complete.rows]
    assert board([*cells, easy], columns).separated == complete.separated


def test_intervals_stay_on_the_scale_if_only_means_are_known() -> None:
    """A lacks the easy benchmark, on which it is expected to be as far ahead as on the other: the worked example."""
    cells = known({"easy": {"B": 0.8, "C": 0.85}, "hard": {"A": 0.6, "B": 0.5, "C": 0.55}})
    found = board(cells, [column("easy"), column("hard")])
    averages = {row.model: row.adjusted_average for row in found.rows}
    assert {model: one and round(one.value, 9) for model, one in averages.items()} == {"A": 0.75, "B": 0.65, "C": 0.7}
    for one in averages.values():
        assert one is not None
        assert 0 <= (one.low or 0.0) <= one.value <= (one.high or 1.0) <= 1


def test_a_worse_model_does_not_hide_behind_benchmarks_that_nobody_else_ran() -> None:
    right = {"good-a": 80, "good-b": 79, "poor": 55}
    cells = [scored(m, b, [1.0] * k + [0.0] * (100 - k)) for m, k in right.items() for b in "ab"]
    alone = [scored("poor", b, [1.0] * 30 + [0.0] * 70) for b in "cdef"]
    found = board([*cells, *alone], [column(b) for b in "abcdef"])
    assert [(row.model, row.rank_low, row.rank_high) for row in found.rows] == [
        ("good-a", 1, 2), ("good-b", 1, 2), ("poor", 3, 3),
    ]  # fmt: skip
    assert found.separated == {("good-a", "poor"), ("good-b", "poor")}
    assert found.verdict[0] == "good-a leads (macro average 0.800), but cannot be separated from good-b."
    assert "2 of 3 differences between models are larger than chance explains" in " ".join(texts(found.remarks))


def test_a_model_that_lacks_the_benchmarks_where_it_is_weak_does_not_gain() -> None:
    """The others are equal to it; what it lacks are the three where chance was against it."""
    rng = np.random.default_rng(52)
    scores = (rng.random((4, 9, 100)) < 0.6).astype(float)
    relative = scores[0].mean(axis=1) - scores[1:].mean(axis=(0, 2))
    kept = np.argsort(relative)[4:]
    cells = [
        scored(f"m{i}", f"b{j}", scores[i, j].tolist()) for i in range(4) for j in range(9) if i or j in kept.tolist()
    ]
    found = board(cells, [column(f"b{j}") for j in range(9)])
    assert found.rows[0].model == "m0"
    assert found.separated == frozenset()
    pair = next(one for one in present(found.pairs).pairs if {one.first, one.second} == {"m0", "m1"})
    assert pair.macro_average is not None
    shared = (scores[0, kept] - scores[1, kept]).mean()
    error = float(np.sqrt(2 * 0.24 / 500))
    assert shared > 2 * error, "a test on the shared benchmarks alone would call it better"


def test_better_on_more_questions_but_worse_on_average_is_no_finding() -> None:
    """A is better by one grade on four of five answers, and gives the worst grade instead of the best on the fifth."""
    grades = {"A": np.tile([5.0, 5.0, 5.0, 5.0, 1.0], 40), "B": np.tile([4.0, 4.0, 4.0, 4.0, 5.0], 40)}
    for benchmarks in ("a", "ab", "abc"):
        cells = [scored(model, b, row.tolist()) for model, row in grades.items() for b in benchmarks]
        found = board(cells, [column(b, 1, 5) for b in benchmarks])
        assert found.separated == frozenset()
        assert "A is better than B on more questions" in " ".join(found.verdict) or found.rows[0].model == "A"
        worst = {row.model: row.worst_answers and row.worst_answers.value for row in found.rows}
        assert worst == {"A": pytest.approx(0.2), "B": 0.0}
    cells = [scored("A", b, np.tile([5.0, 5.0, 5.0, 1.0, 1.0], 40).tolist()) for b in "abc"]
    cells += [scored("B", b, np.tile([4.0, 4.0, 4.0, 5.0, 5.0], 40).tolist()) for b in "abc"]
    said = board(cells, [column(b, 1, 5) for b in "abc"]).verdict
    assert said[1] == "A is better than B on more questions, but worse on average: its bad answers are worse."


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
    columns = [column(b) for b in "abcd"]
    found = board(cells, columns, options=RankingOptions(shared=True))
    assert [c.benchmark for c in found.columns] == ["a", "d"]
    assert {row.coverage for row in found.rows} == {1.0}
    assert (
        texts(found.remarks)[0]
        == "Only the 2 of 4 benchmarks on which every model has a value are counted. Left out: B, C."
    )
    assert board(cells, columns, options=RankingOptions(shared=True), benchmarks=["d", "c"]).columns == (columns[3],)
    with pytest.raises(UserError, match="no benchmark has a value for all 2 models; y has 0 of 2, x has 2 of 2"):
        board(cells, columns, options=RankingOptions(shared=True), benchmarks=["b", "c"])


def test_failures_that_could_change_a_place_are_told() -> None:
    good, failing = [1.0] * 8 + [0.0] * 2, [1.0] * 5 + [NAN] * 5
    estimates = {
        "x": Estimate(value=1.0, low=0.5, high=1.0, n=5, n_failed=5),
        "y": Estimate(value=0.8, low=0.5, high=0.9, n=10, n_failed=0),
    }
    cells = [
        replace(scored(model, "a", scores), estimate=estimates[model])
        for model, scores in (("x", failing), ("y", good))
    ]
    found = board(cells, [column("a")])
    assert [row.model for row in found.rows] == ["x", "y"]
    assert any(
        text.endswith("With the worst score for each, its rank would fall from 1 to 2.")
        for text in texts(found.remarks)
    )


# --- weights ----------------------------------------------------------------------------------------------------------


@quick
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
        assert one.guarded_win_rate == pytest.approx(other.guarded_win_rate)
        assert (one.win_rate is None) == (other.win_rate is None)
        if one.win_rate and other.win_rate:
            assert one.win_rate.value == pytest.approx(other.win_rate.value)
            assert one.win_rate.sd == pytest.approx(other.win_rate.sd)
        if one.macro_average and other.macro_average:
            assert one.macro_average.value == pytest.approx(other.macro_average.value)
        for name, mean in one.categories.items():
            assert mean.value == pytest.approx(other.categories[name].value)


def test_rounding_does_not_order_equal_models() -> None:
    """0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1 to the last digit."""
    values = {"a": {"x": 0.3, "y": 0.1}, "b": {"x": 0.2, "y": 0.2}, "c": {"x": 0.1, "y": 0.3}}
    found = board(known(values), [column(b) for b in values])
    assert [(row.model, row.rank) for row in found.rows] == [("x", 1), ("y", 1)]


def test_only_the_proportion_of_weights_matters() -> None:
    generator = np.random.default_rng(7)
    cells = [scored(m, b, generator.random(20).tolist()) for b in "abc" for m in "xyz"]
    boards = [
        board(cells, [replace(column(b), weight=size * w) for b, w in zip("abc", (1, 2, 5), strict=True)])
        for size in (1, 10)
    ]
    first, second = ([numbers(row) for row in found.rows] for found in boards)
    assert first == second
    assert boards[0].separated == boards[1].separated
    assert any("between 1 and 5" in text for text in texts(boards[0].remarks))


# --- what is drawn ----------------------------------------------------------------------------------------------------


def test_what_is_resampled_can_be_chosen() -> None:
    generator = np.random.default_rng(8)
    cells = [scored(m, b, (generator.random(40) + 0.02 * i).tolist()) for b in "abcdef" for i, m in enumerate("xyz")]
    columns = [column(b, high=2) for b in "abcdef"]
    instances, benchmarks, nothing = (
        board(cells, columns, options=RankingOptions(resample=choice)) for choice in ("instances", "benchmarks", "none")
    )
    assert instances.interval_method == "instances within benchmarks"
    assert benchmarks.interval_method == "benchmarks"
    assert nothing.interval_method == "nothing"
    for found in (benchmarks, nothing):
        assert {r.model: r.guarded_win_rate for r in found.rows} == {
            r.model: r.guarded_win_rate for r in instances.rows
        }
        assert found.mde == instances.mde
    row = nothing.rows[0]
    assert (row.rank_low, row.rank_high, row.tie_group) == (None, None, None)
    assert row.win_rate is not None
    assert (row.win_rate.low, row.win_rate.high, present(row.macro_average).low) == (None, None, None)
    assert row.win_rate.sd is not None
    assert (nothing.pairs, nothing.separated, nothing.nominally_different) == (None, frozenset(), frozenset())
    assert [found.ranked_by for found in (instances, benchmarks, nothing)] == ["macro average", "win rate", "win rate"]
    assert any(text.startswith("Nothing was tested") for text in texts(nothing.remarks))
    assert any("reflect the choice of benchmarks" in text for text in texts(benchmarks.remarks))


def test_instances_that_are_not_known_cannot_be_resampled() -> None:
    cells = [scored("x", "a", [1, 0, 1]), *known({"a": {"y": 0.5}, "b": {"y": 0.2}})]
    with pytest.raises(UserError, match="the single scores of y on a and 1 more are not known"):
        board(cells, [column("a"), column("b")], options=RankingOptions(resample="instances"))


def test_ranks_of_equals_are_open_and_those_of_unequals_are_not() -> None:
    generator = np.random.default_rng(9)
    hard = generator.random(300)
    cells = [
        scored(m, "a", (hard + generator.normal(0, 0.2, 300) < level).astype(float).tolist())
        for m, level in (("best", 0.9), ("one", 0.5), ("other", 0.5), ("last", 0.1))
    ]
    found = board(cells, [column("a")])
    places = {row.model: (row.rank_low, row.rank_high) for row in found.rows}
    assert places == {"best": (1, 1), "one": (2, 3), "other": (2, 3), "last": (4, 4)}
    assert {row.model: row.tie_group for row in found.rows} == {"best": 1, "one": 2, "other": 2, "last": 3}
    assert len(found.separated) == 5


def test_adjusted_pairs_are_some_of_those_below_5_percent() -> None:
    generator = np.random.default_rng(10)
    cells = [scored(f"m{i}", b, (generator.random(30) + 0.045 * i).tolist()) for b in "abcde" for i in range(6)]
    found = board(cells, [column(b, high=2) for b in "abcde"])
    assert found.separated
    assert found.separated < found.nominally_different

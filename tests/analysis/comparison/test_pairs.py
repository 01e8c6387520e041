"""Every pair of models: point values, tests, adjustment, and whether they keep their promises; two models."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from medhelm.analysis.comparison.pairs import AllPairs, compare_all_pairs, compare_two_models
from medhelm.analysis.comparison.significance import benjamini_hochberg, holm
from medhelm.analysis.leaderboard.build import rank_models
from medhelm.analysis.leaderboard.cells import Cell, Column, win_shares
from medhelm.analysis.means import Floats
from medhelm.benchmarks.suites import load_suite
from medhelm.results.scores_csv import read_scores
from tests.support.leaderboards import PUBLISHED_CSV, column, score_cell, score_cells
from tests.support.values import present


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def some_board(seed: int = 1, models: int = 4, n: int = 60) -> tuple[list[Cell], list[Column]]:
    """A few models on 0/1 scores, on grades, and on clustered scores; m3 is the best."""
    generator = rng(seed)
    lift = np.arange(models)[:, None] * 0.1
    rights = (generator.random((models, n)) < 0.45 + lift).astype(float)
    grades = np.clip(np.rint(9 * (generator.normal(3, 1, (models, n)) + lift)) / 9, 1, 5)
    noted = (generator.random((models, n)) < 0.5 + lift).astype(float)
    notes = [f"note-{i // 3}" for i in range(n)]
    cells = [*score_cells("rights", rights), *score_cells("grades", grades), *score_cells("noted", noted, notes)]
    return cells, [column("rights"), column("grades", 1, 5), column("noted")]


def test_point_values_are_those_of_the_leaderboard() -> None:
    cells, columns = some_board()
    found = compare_all_pairs(cells, columns)
    scores = [
        np.array([next(c.scores for c in cells if (c.model, c.benchmark) == (m, b.benchmark)) for m in found.models])
        for b in columns
    ]
    table = np.array([(one.mean(axis=1) - b.low) / (b.high - b.low) for one, b in zip(scores, columns, strict=True)]).T
    shares = np.mean([win_shares(one).mean(axis=1) for one in scores], axis=0)
    for pair in found.pairs:
        i, j = found.models.index(pair.first), found.models.index(pair.second)
        assert present(pair.macro_average).difference.value == pytest.approx(table[i].mean() - table[j].mean())
        assert present(pair.win_share).difference.value == pytest.approx(shares[i] - shares[j])
        assert pair.benchmarks["grades"].difference.value == pytest.approx(table[i, 1] - table[j, 1])


def test_adjustment_is_over_all_pairs_and_benchmarks() -> None:
    found = compare_all_pairs(*some_board())
    tests = [test for pair in found.pairs for test in pair.benchmarks.values()]
    assert len(tests) == 18
    p = [test.difference.p_value for test in tests]
    assert [test.p_holm for test in tests] == pytest.approx(holm(p))
    assert [test.p_bh for test in tests] == pytest.approx(benjamini_hochberg(p))
    both = [(present(pair.win_share), present(pair.macro_average)) for pair in found.pairs]
    p = [
        1.0
        if won.difference.value * macro.difference.value < 0
        else max(won.difference.p_value, macro.difference.p_value)
        for won, macro in both
    ]
    for overall in zip(*both, strict=True):
        assert [test.p_holm for test in overall] == pytest.approx(holm(p))
        assert [test.p_adjusted("bh") for test in overall] == pytest.approx(benjamini_hochberg(p))


def test_the_test_of_win_shares_agrees_with_swapping_in_plain_code() -> None:
    generator = rng(3)
    data = [np.round(generator.random((3, 12)) * 4 + np.array([[0.6], [0.0], [0.3]])) / 4 for _ in range(2)]
    cells = [cell for b, scores in enumerate(data) for cell in score_cells(f"b{b}", scores)]
    found = compare_all_pairs(cells, [column("b0", 0, 2), column("b1", 0, 2)], models=["m0", "m1", "m2"])

    def difference(boards: Sequence[Floats]) -> float:
        return float(np.mean([np.subtract(*win_shares(board).mean(axis=1)[:2]) for board in boards]))

    observed, hits, tries = difference(data), 0, 2000
    for _ in range(tries):
        swapped = []
        for scores in data:
            turn = generator.random(12) < 0.5
            board = scores.copy()
            board[0, turn], board[1, turn] = scores[1, turn], scores[0, turn]
            swapped.append(board)
        hits += abs(difference(swapped)) >= abs(observed) - 1e-9
    test = present(found.pairs[0].win_share).difference
    assert test.value == pytest.approx(observed)
    assert test.p_value == pytest.approx(hits / tries, abs=0.03)


def test_a_finding_survives_failures_only_if_they_could_not_reverse_it() -> None:
    scores = np.stack([np.ones(200), np.r_[np.ones(100), np.zeros(100)]])
    for n_missing, survives in ((0, True), (20, True), (120, False)):
        some = scores.copy()
        some[0, 200 - n_missing :] = np.nan
        (pair,) = compare_all_pairs(
            [*score_cells("x", some), *score_cells("y", scores)], [column("x"), column("y")], models=["m0", "m1"]
        ).pairs
        assert present(pair.win_share).p_holm < 0.05
        assert pair.survives_failures == survives


def test_a_rival_that_is_right_on_what_a_model_lacks_counts() -> None:
    """Of 100 questions, a has 55 right and lacks 20; b has 35 right of the others, and all of those 20."""
    a = np.r_[np.ones(55), np.zeros(25), np.full(20, np.nan)]
    b = np.r_[np.ones(35), np.zeros(45), np.ones(20)]
    (pair,) = compare_all_pairs(score_cells("x", np.stack([a, b])), [column("x")], models=["m0", "m1"]).pairs
    assert present(pair.win_share).p_holm < 0.05
    assert pair.worst_case == pytest.approx(0.0), "both would have 55 right"
    assert pair.best_case == pytest.approx(0.2)
    assert not pair.survives_failures


# --- what is odd ------------------------------------------------------------------------------------------------------


def test_one_cluster_says_nothing_and_takes_away_certainty() -> None:
    one = score_cells("x", np.stack([np.ones(30), np.zeros(30)]), ["note"] * 30)
    (pair,) = compare_all_pairs(one, [column("x")]).pairs
    test = present(pair.macro_average)
    assert (test.difference.p_value, test.difference.n_clusters) == (1, 1)
    assert (test.difference.low, test.difference.high) == (-1, 1)
    assert present(pair.win_share).difference.p_value == 1
    other = score_cells("y", np.stack([np.ones(60), np.zeros(60)]))
    (both,) = compare_all_pairs([*one, *other], [column("x"), column("y")]).pairs
    wide = present(both.macro_average).difference
    assert wide.high - wide.low > 0.9


# --- tables without single scores -------------------------------------------------------------------------------------


def published() -> AllPairs:
    table = read_scores(PUBLISHED_CSV, load_suite())
    return compare_all_pairs(table.cells, table.columns, models=rank_models(table.cells, table.columns, "published"))


def test_most_published_pairs_differ_before_adjustment_and_few_neighbors_do() -> None:
    found = published()
    assert len(found.pairs) == 36
    apart = {
        (p.first, p.second): present(p.win_share).difference.low > 0 or present(p.win_share).difference.high < 0
        for p in found.pairs
    }
    assert 20 <= sum(apart.values()) <= 22
    assert sum(present(p.win_share).difference.p_value <= 0.05 for p in found.pairs) == pytest.approx(22, abs=1)
    assert sum(apart[pair] for pair in zip(found.models, found.models[1:], strict=False)) <= 1
    assert not any(apart[found.models[0], other] for other in found.models[1:5])


# --- two models side by side ------------------------------------------------------------------------------------------


def test_differences_are_paired_by_instance_and_normalized() -> None:
    cells = [score_cell("a", "x", [1, 1, 0, 1]), score_cell("a", "y", [5, 3, 3, 1])]
    cells += [score_cell("b", "x", [0, 1, 0, 0]), score_cell("b", "y", [3, 3, 3, 3])]
    found = present(compare_two_models(cells, [column("x"), column("y", 1, 5)], "a", "b"))
    assert [b.difference.value for b in found.benchmarks] == [0.5, 0.0]
    assert found.macro_average.difference.value == 0.25
    # By hand: of four questions the first alone got two right: shares 3/6 and 1/6, variance (4/6 - 1/9) / 6. The
    # differences of y, 0.5, 0, 0, -0.5, have the variance 0.5 / 3 / 4.
    errors = [math.sqrt((4 / 6 - 1 / 9) / 6), math.sqrt(0.5 / 12)]
    assert [b.difference.standard_error for b in found.benchmarks] == pytest.approx(errors)
    assert found.macro_average.difference.low < 0.25 < found.macro_average.difference.high


def test_the_overall_interval_is_near_the_one_of_satterthwaite() -> None:
    generator = np.random.default_rng(1)
    scores = {name: generator.random((2, n)) for name, n in (("x", 12), ("y", 60), ("z", 25))}
    cells = [score_cell(model, name, both[i]) for name, both in scores.items() for i, model in enumerate("ab")]
    found = present(compare_two_models(cells, [column(name) for name in scores], "a", "b"))
    differences = [both[0] - both[1] for both in scores.values()]
    variances = [float(d.var(ddof=1)) / len(d) for d in differences]
    df = sum(variances) ** 2 / sum(v**2 / (len(d) - 1) for v, d in zip(variances, differences, strict=True))
    error, value = math.sqrt(sum(variances)) / 3, float(np.mean([d.mean() for d in differences]))
    half, overall = float(stats.t.ppf(0.975, df)) * error, found.macro_average.difference
    assert overall.value == pytest.approx(value)
    assert (overall.low, overall.high) == pytest.approx((value - half, value + half), abs=0.08 * half)
    assert overall.p_value == pytest.approx(2 * float(stats.t.sf(abs(value) / error, df)), abs=0.02)
    assert (found.unit, found.n_benchmarks, found.adjustment) == ("instances", 3, "holm")

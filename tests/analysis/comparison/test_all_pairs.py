"""Every pair of models: point values, tests, adjustment, and whether they keep their promises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from medhelm.analysis.comparison.pairs import AdjustedDifference, AllPairs, ModelPair, compare_all_pairs
from medhelm.analysis.comparison.significance import benjamini_hochberg, holm
from medhelm.analysis.leaderboard.build import rank_models
from medhelm.analysis.leaderboard.cells import Cell, Column, win_shares
from medhelm.analysis.means import Floats
from medhelm.benchmarks.suites import load_suite
from medhelm.results.scores_csv import read_scores
from tests.support.leaderboards import PUBLISHED_CSV, column, score_cells
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


def numbers(pair: ModelPair) -> list[float]:
    """All numbers that are said of a pair."""
    by_benchmark = [pair.benchmarks[name] for name in sorted(pair.benchmarks)]
    found = [present(pair.worst_case), present(pair.best_case)]
    for test in (present(pair.macro_average), present(pair.win_share), *by_benchmark):
        found += [test.p_holm, test.p_bh, test.difference.value, test.difference.low, test.difference.high]
    return found


def test_every_pair_comes_once_in_the_order_asked_for() -> None:
    cells, columns = some_board()
    found = compare_all_pairs(cells, columns, models=["m3", "m0", "m1", "m2"])
    assert set(found.models) == {"m0", "m1", "m2", "m3"}
    assert [(pair.first, pair.second) for pair in found.pairs] == list(combinations(found.models, 2))
    assert found.models[0] == "m3"
    for pair in found.pairs:
        assert (pair.unit, pair.n_benchmarks, list(pair.benchmarks)) == ("instances", 3, ["rights", "grades", "noted"])


def test_models_in_another_order_have_the_numbers_of_a_comparison_in_that_order() -> None:
    cells, columns = some_board()
    order = [2, 0, 3, 1]
    expected = compare_all_pairs(cells, columns, models=[f"m{i}" for i in order])
    turned = compare_all_pairs(cells, columns).reordered(order)
    assert turned.models == expected.models
    for found, wanted in zip(turned.pairs, expected.pairs, strict=True):
        assert (found.first, found.second) == (wanted.first, wanted.second)
        assert found.survives_failures == wanted.survives_failures
        assert numbers(found) == pytest.approx(numbers(wanted), abs=1e-12)


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


def test_the_order_of_cells_and_columns_changes_no_number() -> None:
    cells, columns = some_board()
    there, back = compare_all_pairs(cells, columns), compare_all_pairs(cells[::-1], columns[::-1])
    assert there.models == back.models
    assert [numbers(pair) for pair in there.pairs] == [numbers(pair) for pair in back.pairs]


def test_single_benchmarks_do_not_depend_on_who_else_is_there() -> None:
    cells, columns = some_board()
    few = compare_all_pairs([cell for cell in cells if cell.model in ("m0", "m3")], columns)
    (alone,) = few.pairs
    pair = next(p for p in compare_all_pairs(cells, columns).pairs if {p.first, p.second} == {"m0", "m3"})
    for name, test in alone.benchmarks.items():
        assert test.difference == pair.benchmarks[name].difference
    assert present(alone.macro_average).difference == present(pair.macro_average).difference


def test_weights_of_benchmarks_are_kept() -> None:
    cells, columns = some_board()
    heavy = [replace(c, weight=4.0 if c.benchmark == "grades" else 1.0) for c in columns]
    for pair in compare_all_pairs(cells, heavy).pairs:
        own = [pair.benchmarks[name].difference.value for name in ("rights", "grades", "noted")]
        assert present(pair.macro_average).difference.value == pytest.approx(float(np.average(own, weights=[1, 4, 1])))


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


def test_on_right_or_wrong_answers_win_shares_and_averages_have_one_test_and_rivals_do_not_matter() -> None:
    scores = [(rng(s).random((5, 80)) < 0.6).astype(float) for s in (1, 2)]
    cells = [cell for b, one in enumerate(scores) for cell in score_cells(f"b{b}", one)]
    columns = [column("b0"), column("b1")]
    everyone = compare_all_pairs(cells, columns, models=[f"m{i}" for i in range(5)])
    for pair in everyone.pairs:
        share, macro = present(pair.win_share).difference, present(pair.macro_average).difference
        assert share.p_value == pytest.approx(macro.p_value)
        assert share.value == pytest.approx(macro.value * 5 / 8)  # M / (2 (M - 1))
    two = compare_all_pairs([c for c in cells if c.model in ("m0", "m1")], columns, models=["m0", "m1"])
    alone, among = present(two.pairs[0].win_share).difference, present(everyone.pairs[0].win_share).difference
    assert alone.p_value == pytest.approx(among.p_value)


def test_on_one_benchmark_there_is_no_test_but_its_own() -> None:
    cells, columns = some_board()
    for pair in compare_all_pairs([c for c in cells if c.benchmark == "grades"], columns).pairs:
        own = pair.benchmarks["grades"].difference
        assert (own.value, own.low, own.high, own.p_value) == pytest.approx(
            tuple(getattr(present(pair.macro_average).difference, name) for name in ("value", "low", "high", "p_value"))
        )


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


def test_models_that_answer_alike_throughout_do_not_differ() -> None:
    scores = np.tile((rng(2).random(40) < 0.5).astype(float), (3, 1))
    found = compare_all_pairs(score_cells("x", scores), [column("x")])
    for pair in found.pairs:
        for test in (pair.benchmarks["x"], present(pair.macro_average), present(pair.win_share)):
            assert (test.difference.value, test.difference.p_value, test.p_holm, test.p_bh) == (0, 1, 1, 1)
            assert math.isfinite(test.difference.low)
            assert math.isfinite(test.difference.high)
        assert present(pair.macro_average).difference.low < 0 < present(pair.macro_average).difference.high


def test_models_without_a_shared_instance_have_no_test() -> None:
    scores = np.full((2, 20), np.nan)
    scores[0, :10], scores[1, 10:] = 1.0, 0.0
    (pair,) = compare_all_pairs(score_cells("x", scores), [column("x")]).pairs
    assert (pair.macro_average, pair.win_share, pair.n_benchmarks) == (None, None, 0)
    assert pair.benchmarks == {}


def test_a_model_that_always_failed_is_left_out_and_a_single_one_has_no_pair() -> None:
    scores = np.stack([np.full(10, np.nan), np.ones(10), np.zeros(10)])
    found = compare_all_pairs(score_cells("x", scores), [column("x")])
    assert found.models == ("m1", "m2")
    assert compare_all_pairs(score_cells("x", np.ones((1, 10))), [column("x")]).pairs == ()
    assert compare_all_pairs([], [column("x")]).pairs == ()


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


def test_failures_are_left_out_pair_by_pair() -> None:
    generator = rng(5)
    scores = (generator.random((3, 100)) < 0.6).astype(float)
    scores[0, :30], scores[1, 90:] = np.nan, np.nan
    found = compare_all_pairs(score_cells("x", scores), [column("x")], models=["m0", "m1", "m2"])
    alone = {(pair.first, pair.second): pair.benchmarks["x"].difference for pair in found.pairs}
    counts = {pair: (one.n, one.n_left_out) for pair, one in alone.items()}
    assert counts == {("m0", "m1"): (60, 40), ("m0", "m2"): (70, 30), ("m1", "m2"): (90, 10)}


def test_a_benchmark_that_only_some_have_counts_for_them() -> None:
    cells, columns = some_board()
    cells = [cell for cell in cells if (cell.model, cell.benchmark) != ("m1", "noted")]
    for pair in compare_all_pairs(cells, columns).pairs:
        expected = 2 if "m1" in (pair.first, pair.second) else 3
        assert (len(pair.benchmarks), pair.n_benchmarks) == (expected, expected)


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


def test_published_pairs_are_compared_over_benchmarks_only() -> None:
    for pair in published().pairs:
        assert (pair.unit, pair.n_benchmarks, pair.benchmarks) == ("benchmarks", 37, {})
    best, last = "DeepSeek R1", "Gemini 1.5 Pro"
    gap = next(p for p in published().pairs if (p.first, p.second) == (best, last))
    assert present(gap.win_share).difference.value == pytest.approx(0.662 - 0.235, abs=0.001)
    assert present(gap.macro_average).difference.value == pytest.approx(0.753 - 0.675, abs=0.001)


def test_a_published_model_beside_measured_ones() -> None:
    cells, columns = some_board()
    beside = [Cell(model="theirs", benchmark=c.benchmark, value=c.low + 0.5 * (c.high - c.low)) for c in columns]
    for pair in compare_all_pairs([*cells, *beside], columns).pairs:
        measured = "theirs" not in (pair.first, pair.second)
        assert (pair.unit, len(pair.benchmarks)) == (("instances", 3) if measured else ("benchmarks", 0))
        assert present(pair.macro_average).difference.n == (180 if measured else 3)


def test_a_single_published_benchmark_tells_nobody_apart() -> None:
    cells = [Cell(model=m, benchmark="x", value=v) for m, v in (("a", 0.9), ("b", 0.1))]
    (pair,) = compare_all_pairs(cells, [column("x")]).pairs
    for test in (present(pair.macro_average), present(pair.win_share)):
        assert (test.difference.p_value, test.difference.low, test.difference.high) == (1, -1, 1)


# --- promises ---------------------------------------------------------------------------------------------------------


def trial(generator: np.random.Generator, lift: Sequence[float], sizes: Sequence[int]) -> AllPairs:
    """Models of these abilities on several benchmarks: 0/1 scores, grades, and clustered 0/1 scores in turn."""
    cells, columns = [], []
    for b, n in enumerate(sizes):
        hard = generator.normal(size=n)
        ability = np.array(lift)[:, None]
        clusters = None
        if b % 3 == 2:
            clusters = [f"c{i // 4}" for i in range(n)]
            hard = hard + np.repeat(generator.normal(size=(len(lift), math.ceil(n / 4))), 4, axis=1)[:, :n]
        latent = hard + ability + generator.normal(size=(len(lift), n))
        scores = (latent > 0).astype(float) if b % 3 else np.clip(np.rint(latent * 4) / 8 + 0.5, 0, 1)
        cells += score_cells(f"b{b}", scores, clusters)
        columns.append(column(f"b{b}"))
    names = [f"m{i}" for i in range(len(lift))]
    return compare_all_pairs(cells, columns, models=names)


def p_values(tests: Sequence[AdjustedDifference | None]) -> list[float]:
    return [present(test).difference.p_value for test in tests]


@pytest.mark.long
def test_equal_models_are_told_apart_no_more_often_than_promised() -> None:
    """Each of the three kinds of test at its 5% level, and Holm's adjustment for any false finding."""
    generator = rng(40)
    single, macro, win, covered = [], [], [], []
    any_single, any_overall = [], []
    for _ in range(150):
        found = trial(generator, [0.0] * 4, [30, 40, 60, 50])
        pairs: Sequence[ModelPair] = found.pairs
        single += p_values([t for pair in pairs for t in pair.benchmarks.values()])
        macro += p_values([pair.macro_average for pair in pairs])
        win += p_values([pair.win_share for pair in pairs])
        covered += [abs(present(p.macro_average).difference.value) <= _half(p) for p in pairs]
        any_single.append(min(t.p_holm for pair in pairs for t in pair.benchmarks.values()) <= 0.05)
        any_overall.append(min(present(pair.macro_average).p_holm for pair in pairs) <= 0.05)
    assert np.mean(np.array(single) <= 0.05) <= 0.06
    assert np.mean(np.array(macro) <= 0.05) == pytest.approx(0.05, abs=0.02)
    assert np.mean(np.array(win) <= 0.05) <= 0.065
    assert np.mean(any_single) <= 0.09
    assert np.mean(any_overall) <= 0.09
    assert 0.93 <= np.mean(covered) <= 0.97


def _half(pair: ModelPair) -> float:
    """Whether 0 lies in the interval, as a limit for the size of the difference."""
    found = present(pair.macro_average).difference
    return math.inf if found.low <= 0 <= found.high else -math.inf


@pytest.mark.long
def test_few_of_the_findings_are_false_where_some_models_differ() -> None:
    generator = rng(41)
    shares, missed = [], []
    lift = [0.0, 0.0, 0.0, 1.2]
    for _ in range(60):
        found = trial(generator, lift, [40, 60, 80])
        said = [(t.p_bh <= 0.05, {p.first, p.second}) for p in found.pairs for t in p.benchmarks.values()]
        false = sum(apart and "m3" not in who for apart, who in said)
        shares.append(false / max(sum(apart for apart, _ in said), 1))
        missed += [not apart for apart, who in said if "m3" in who]
    assert np.mean(shares) <= 0.06
    assert np.mean(missed) < 0.6


@pytest.mark.long
def test_the_overall_interval_covers_a_true_difference() -> None:
    """Two models of unequal ability; the truth from very many instances."""
    wide = trial(rng(42), [0.0, 0.3], [30_000, 30_000, 6_000])
    truth = present(wide.pairs[0].macro_average).difference.value
    generator, held = rng(43), []
    for _ in range(300):
        found = present(trial(generator, [0.0, 0.3], [25, 40, 80]).pairs[0].macro_average).difference
        held.append(found.low <= truth <= found.high)
    assert 0.92 <= np.mean(held) <= 0.98

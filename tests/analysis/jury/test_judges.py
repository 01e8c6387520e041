"""All numbers on the judges of one benchmark, and of several together."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from medhelm.analysis.jury.cells import ALL_JUDGES, collect_judgments
from medhelm.analysis.jury.findings import remarks, sum_tallies, summarize_benchmarks, verdict
from medhelm.analysis.jury.judges import JudgedBenchmark, JudgeSummary, JurySummary, summarize_jury
from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.domain import Estimate, JudgeTally, Usage
from tests.support.juries import judged_run
from tests.support.leaderboards import column, score_cell
from tests.support.values import present

pytestmark = pytest.mark.usefixtures("few_draws")

FAMILIES = {"gpt": "OpenAI", "claude": "Anthropic", "llama": "Meta", "gpt-mini": "OpenAI", "qwen": "Alibaba"}
JUDGES = ("gpt", "claude", "llama")
MODELS = ("gpt-mini", "qwen")


def benchmark(
    grades: np.ndarray,
    *,
    name: str = "toy",
    judges: Sequence[str] = JUDGES,
    models: Sequence[str] = MODELS,
    criteria: Sequence[str] = ("accuracy", "clarity"),
    points: Sequence[float] | None = None,
    low: float = 1,
    high: float = 5,
    tallies: Mapping[str, JudgeTally] | None = None,
    absent: Sequence[tuple[int, int]] = (),
) -> JudgedBenchmark:
    """Grades of shape (judges, models, n, criteria); `absent` pairs of judge and model have no judgments."""
    n, sheets = grades.shape[2], []
    for m, model in enumerate(models):
        there = [j for j in range(len(judges)) if (j, m) not in absent]
        lengths = np.arange(n, dtype=float) * 10 + 100 * (m + 1)
        names = [judges[j] for j in there]
        sheets.append(
            judged_run(grades[there, m], model, judges=names, criteria=criteria, points=points, lengths=lengths)
        )
    own = {
        judge: JudgeTally(expected=grades[j].size, failures={"prose": int(np.isnan(grades[j]).sum())}, cost_usd=0.5)
        for j, judge in enumerate(judges)
    }
    return JudgedBenchmark(
        benchmark=name,
        title=name.title(),
        cells=collect_judgments(sheets, low=low, high=high),
        tallies={**own, **(tallies or {})},
        at_least=2,
        families=FAMILIES,
    )


def some_grades(seed: int = 0, n: int = 20, judges: int = 3, models: int = 2) -> np.ndarray:
    rng = np.random.default_rng(seed)
    quality = rng.normal(3, 0.8, (1, models, n, 1)) + np.linspace(0.4, -0.4, models)[:, None, None]
    return np.clip(np.round(quality + rng.normal(0, 0.7, (judges, models, n, 2))), 1, 5)


def numbers_of(own: JudgedBenchmark) -> JurySummary:
    return summarize_jury(own, np.random.default_rng(0))


def judge_named(name: str, own: JurySummary) -> JudgeSummary:
    return next(judge for judge in own.judges if judge.judge == name)


def value(estimate: Estimate | None) -> float:
    return present(estimate).value


# --- one benchmark ----------------------------------------------------------------------------------------------------


def test_a_judge_is_described_by_all_its_grades() -> None:
    grades = some_grades()
    grades[1, 0, :3, 0] = np.nan
    own = numbers_of(benchmark(grades))
    assert (own.models, own.n_instances, own.n_completions, own.form) == (MODELS, 20, 40, "grades")
    for place, name in enumerate(JUDGES):
        judge, mine = judge_named(name, own), grades[place].reshape(-1)
        there = mine[~np.isnan(mine)]
        assert (judge.family, judge.tally.failed) == (FAMILIES[name], int(np.isnan(mine).sum()))
        assert value(judge.mean) == pytest.approx(there.mean())
        assert (present(judge.mean).n, present(judge.mean).n_failed) == (len(there), len(mine) - len(there))
        assert judge.sd == pytest.approx(there.std(ddof=1))
        assert value(judge.best) == pytest.approx((there == 5).mean())
        assert value(judge.worst) == pytest.approx((there == 1).mean())
    every = grades[~np.isnan(grades)]
    assert (value(own.best), value(own.worst)) == pytest.approx(((every == 5).mean(), (every == 1).mean()))
    # Severities balance each other where nothing is missing.
    whole = numbers_of(benchmark(some_grades()))
    assert math.fsum(value(judge.severity) for judge in whole.judges) == pytest.approx(0)


def test_family_and_length_are_looked_at_for_each_judge() -> None:
    own = numbers_of(benchmark(some_grades()))
    assert [judge.own_models for judge in own.judges] == [("gpt-mini",), (), ()]
    assert judge_named("gpt", own).self_preference is not None
    assert judge_named("llama", own).self_preference is None
    for length in (own.length, *(judge.length for judge in own.judges)):
        assert length
        assert length.basis == "within instances"
        assert length.slope
    assert present(own.length).relative_to_others is None
    assert judge_named("gpt", own).length.relative_to_others  # type: ignore[union-attr]


def test_the_full_ranking_is_by_the_jury_s_mean_scores() -> None:
    grades = some_grades(models=2)
    own = numbers_of(benchmark(grades))
    full = present(own.ranking).panels[0]
    means = dict(zip(MODELS, grades.mean(axis=(0, 2, 3)), strict=True))
    assert full.name == ALL_JUDGES
    assert dict(zip(full.models, full.values, strict=True)) == pytest.approx(means)
    assert [panel.name for panel in present(own.ranking).panels[1:4]] == [f"without {name}" for name in JUDGES]


def test_equal_generators_give_equal_numbers() -> None:
    first, second = (numbers_of(benchmark(some_grades())) for _ in range(2))
    assert (first.judges, first.agreement) == (second.judges, second.agreement)


def test_points_are_at_the_end_of_the_scale_when_the_whole_score_is() -> None:
    met = np.zeros((3, 2, 10, 2))
    met[:, 0, :, 0] = 1  # earns all points and does no harm
    met[:, 1, :5, 1] = 1  # harm, and nothing earned
    own = numbers_of(benchmark(met, points=(5, -3), low=0, high=1))
    assert own.form == "points"
    assert (value(own.best), value(own.worst)) == (0.5, 0.5)
    judge = own.judges[0]
    assert value(judge.mean) == pytest.approx((10 + 10 + 0 + 5) / 40)  # criteria that came out well
    assert present(judge.best).n == 20


def test_a_judge_that_was_shown_nothing_keeps_its_tally() -> None:
    own = numbers_of(benchmark(some_grades(), tallies={"qwen": JudgeTally(expected=0)}))
    silent = judge_named("qwen", own)
    assert (silent.mean, silent.severity, silent.tally.expected) == (None, None, 0)


def test_nothing_judged_gives_no_numbers_and_no_error() -> None:
    empty = benchmark(np.zeros((0, 2, 4, 2)), judges=(), tallies={"gpt": JudgeTally()})
    own = numbers_of(empty)
    assert (own.n_completions, own.agreement, own.best, own.length, own.ranking) == (0, (), None, None, None)
    together = summarize_benchmarks([empty], [own])
    assert (together.best, together.ranking, [judge.judge for judge in together.judges]) == (None, None, ["gpt"])


def test_a_jury_of_one_is_described_but_not_compared() -> None:
    own = numbers_of(benchmark(some_grades(judges=1), judges=("gpt",)))
    (judge,) = own.judges
    assert judge.mean
    assert (judge.severity, judge.self_preference, own.agreement) == (None, None, ())
    assert [panel.name for panel in present(own.ranking).panels] == [ALL_JUDGES]


def test_only_judges_of_all_models_rank_them() -> None:
    own = numbers_of(benchmark(some_grades(), absent=[(2, 1)]))
    assert not own.all_judges_shared
    assert present(own.ranking).panels[0].judges == ("gpt", "claude")
    apart = numbers_of(benchmark(some_grades(judges=2), judges=JUDGES[:2], absent=[(0, 1), (1, 0)]))
    assert apart.ranking is None


# --- several benchmarks -----------------------------------------------------------------------------------------------


def together(*benchmarks: JudgedBenchmark) -> JurySummary:
    return summarize_benchmarks(benchmarks, [numbers_of(own) for own in benchmarks])


@pytest.mark.long
def test_over_benchmarks_each_counts_once() -> None:
    benchmarks = benchmark(some_grades(1, n=10), name="one"), benchmark(some_grades(2, n=30), name="two")
    first, second, both = *map(numbers_of, benchmarks), together(*benchmarks)
    assert (both.n_instances, both.n_completions, both.title) == (40, 80, "All benchmarks")
    for name in JUDGES:
        parts, judge = [judge_named(name, own) for own in (first, second)], judge_named(name, both)
        for key in ("mean", "best", "severity"):
            assert value(getattr(judge, key)) == pytest.approx(np.mean([value(getattr(part, key)) for part in parts]))
        assert judge.tally.expected == sum(part.tally.expected for part in parts)
        assert judge.sd == pytest.approx(np.mean([part.sd for part in parts]))
    assert both.agreement[0].on == "accuracy"
    assert value(both.agreement[0].alpha) == pytest.approx(
        np.mean([value(own.agreement[0].alpha) for own in (first, second)])
    )
    assert (both.low, both.high) == (1, 5)


def test_benchmarks_of_different_scales_are_put_on_one_from_0_to_1() -> None:
    grades = some_grades(3)
    five = benchmark(grades, name="five")
    ten = benchmark((grades - 1) * 2.5, name="ten", low=0, high=10)
    alone, both = numbers_of(five), together(five, ten)
    assert (both.low, both.high) == (0, 1)
    for name in JUDGES:
        one, two = judge_named(name, alone), judge_named(name, both)
        assert value(two.mean) == pytest.approx((value(one.mean) - 1) / 4)
        assert value(two.severity) == pytest.approx(value(one.severity) / 4)
        assert two.sd == pytest.approx((one.sd or 0) / 4)
        assert value(two.best) == pytest.approx(value(one.best))
    favour = value(judge_named("gpt", both).self_preference)
    assert favour == pytest.approx(value(judge_named("gpt", alone).self_preference) / 4)
    assert value(present(both.length).slope) == pytest.approx(value(present(alone.length).slope) / 4)
    assert value(present(both.length).spearman) == pytest.approx(value(present(alone.length).spearman))


@pytest.mark.long
def test_models_are_ranked_by_macro_average_over_benchmarks() -> None:
    better, worse = some_grades(4), some_grades(4)[:, ::-1]
    first, second = ((better[:, place].mean() - 1) / 4 for place in (0, 1))
    both = together(benchmark(better, name="one"), benchmark(better, name="two"), benchmark(worse, name="three"))
    full = present(both.ranking).panels[0]
    assert full.values == pytest.approx(((2 * first + second) / 3, (first + 2 * second) / 3))
    assert full.judges == JUDGES
    alike = present(together(benchmark(better, name="one"), benchmark(worse, name="two")).ranking)
    assert (alike.n_significant, alike.n_pairs) == (0, 1)
    clear = np.array([4.0, 2.0])[None, :, None, None] + np.random.default_rng(0).normal(0, 0.3, (3, 2, 20, 2))
    apart = present(together(benchmark(clear, name="one"), benchmark(clear, name="two")).ranking)
    assert (apart.n_significant, apart.n_pairs) == (1, 1)


def test_judges_of_some_benchmarks_only_do_not_rank_over_all() -> None:
    both = together(
        benchmark(some_grades(5), name="one"), benchmark(some_grades(6, judges=2), judges=("gpt", "claude"), name="two")
    )
    assert present(both.ranking).panels[0].judges == ("gpt", "claude")
    assert {judge.judge for judge in both.judges} == set(JUDGES)
    assert not both.all_judges_shared


def test_tallies_add_up_and_an_unknown_cost_stays_unknown() -> None:
    first = JudgeTally(expected=5, failures={"prose": 2}, usage=Usage(input=3), cost_usd=1.0, requests_sent=1)
    second = JudgeTally(expected=7, failures={"prose": 1, "refusal": 1}, usage=Usage(output=4), cost_usd=2.0)
    assert sum_tallies([first, second]) == JudgeTally(
        expected=12,
        failures={"prose": 3, "refusal": 1},
        usage=Usage(input=3, output=4),
        cost_usd=3.0,
        requests_sent=1,
    )
    assert sum_tallies([first, replace(second, cost_usd=None), first]).cost_usd is None


# --- remarks ----------------------------------------------------------------------------------------------------------


def said_of(*benchmarks: JudgedBenchmark) -> str:
    numbers = [numbers_of(own) for own in benchmarks]
    overall = summarize_benchmarks(benchmarks, numbers)
    return "\n".join(map(str, remarks(numbers, overall, "real")))


@pytest.mark.parametrize(("best", "said"), [(0.45, False), (0.55, True)])
def test_half_of_the_best_grades_is_a_ceiling(best: float, said: bool) -> None:
    grades = np.full((3, 2, 20, 2), 3.0)
    grades[:, :, : round(20 * best)] = 5
    text = said_of(benchmark(grades))
    assert ("cannot separate good models" in text) == said
    assert ("are the lowest possible" in text) is False


def test_half_of_the_worst_grades_is_a_floor() -> None:
    grades = np.full((3, 2, 20, 2), 1.0)
    grades[:, :, 12:] = 2
    text = said_of(benchmark(grades))
    assert "60% of the grades are the lowest possible (1)" in text
    assert "Its jury separates 0 of 1 pair of models" in text


def test_juries_that_cannot_be_compared_are_named() -> None:
    assert "Toy has one judge" in said_of(benchmark(some_grades(judges=1), judges=("gpt",)))
    grades = some_grades()
    grades[2] = np.nan
    assert "llama gave no judgment on Toy" in said_of(benchmark(grades))
    assert "Not all models on Toy had the same judges" in said_of(benchmark(some_grades(), absent=[(2, 1)]))
    plain = said_of(benchmark(some_grades()))
    assert not any(words in plain for words in ("one judge", "no judgment", "same judges"))


@pytest.mark.parametrize(("planted", "said"), [(1.0, "higher"), (-1.0, "lower"), (0.0, None)])
def test_a_preference_beyond_chance_is_named(planted: float, said: str | None) -> None:
    grades = np.random.default_rng(0).normal(3, 0.3, (3, 2, 60, 2))
    grades[0, 0] += planted
    text = said_of(benchmark(grades))
    if said is None:
        assert "own family" not in text
    else:
        (line,) = [line for line in text.splitlines() if "own family" in line]
        assert line.startswith("gpt grades models of its own family (OpenAI) ")
        assert f"] {said} than the other judges do" in line


def test_a_judge_on_whom_a_clear_order_depends_is_named() -> None:
    rng = np.random.default_rng(0)
    grades = 3 + rng.normal(0, 0.8, (1, 1, 30, 1)) + rng.normal(0, 0.2, (3, 2, 30, 2))
    grades[0, 0] += 1.5
    grades[1:, 1] += 0.3
    text = said_of(benchmark(grades))
    assert "Toy: without gpt, qwen ranks above gpt-mini, although the full jury ranks them the other way" in text
    # With few instances the order changes as well, but it was not clear before.
    assert "ranks above" not in said_of(benchmark(grades[:, :, :2]))


def test_sample_rows_are_said_to_be_invented() -> None:
    own = numbers_of(benchmark(some_grades()))
    assert next(remarks([own], own, "sample")).code == "sample_tier"


# --- the verdict ------------------------------------------------------------------------------------------------------


def sentences(*benchmarks: JudgedBenchmark) -> str:
    numbers = [numbers_of(own) for own in benchmarks]
    return " ".join(verdict(numbers, summarize_benchmarks(benchmarks, numbers), "real"))


def test_the_verdict_says_where_judges_agree_no_better_than_chance() -> None:
    chance = np.random.default_rng(0).integers(1, 6, (3, 2, 20, 2)).astype(float)
    said = sentences(benchmark(some_grades(4, 40), name="one"), benchmark(chance, name="two"))
    assert re.match(
        r"The judges agree better than chance on 1 of 2 benchmarks \(ICC\(3,1\) 0\.\d\d\)\. Do not use", said
    )
    assert re.search(
        r"Do not use the ranking on Two: the judges are not shown to agree better than chance \(ICC.* -?0\.\d\d\)\.",
        said,
    )
    assert "separates" not in said
    assert said.endswith("can still be wrong: `medhelm agreement` compares them with clinicians.")
    alone = sentences(benchmark(chance))
    assert alone.startswith("Do not use the ranking on Toy: the judges are not shown to agree better than chance (")
    assert "separates" not in alone


def test_the_verdict_on_one_judge_is_that_agreement_is_unknown() -> None:
    said = sentences(benchmark(some_grades(judges=1), judges=("gpt",)))
    assert said.startswith(
        "Agreement cannot be measured on Toy: two judges with differing grades on 10 independent instances are needed."
    )


def test_the_verdict_without_any_judgment_gives_the_reason_first() -> None:
    failed = JudgeTally(expected=12, failures={"no_verdict": 9, "timeout": 3})
    nothing = np.full((3, 2, 3, 2), np.nan)
    own = replace(benchmark(nothing), tallies=dict.fromkeys(benchmark(nothing).cells.judges, failed))
    said = sentences(own)
    assert said == (
        "All judgments on Toy are missing (no_verdict 27, timeout 9). "
        "`no_verdict`: the judge's reply holds no JSON object."
    )
    both = sentences(replace(own, benchmark="other", title="Other"), benchmark(some_grades(4, 40)))
    assert both.startswith("All judgments on Other are missing (no_verdict 27, timeout 9). `no_verdict`: ")
    assert "The judges agree better than chance on Toy (" in both
    assert "cannot be measured" not in both


def test_models_are_separated_by_the_test_of_the_leaderboard() -> None:
    """Three models, of which one pair differs at the 5% level before the adjustment for three pairs, and not after."""
    grades = some_grades(1, 30, models=3)
    own = benchmark(grades, models=("gpt-mini", "qwen", "claude"))
    found = present(numbers_of(own).ranking)
    means = zip(own.cells.models, grades.mean(axis=(0, 3)), strict=True)
    board = build_leaderboard([score_cell(model, "toy", mean) for model, mean in means], [column("toy", 1, 5)])
    assert len(board.nominally_different) > len(board.separated) == found.n_significant
    assert f"The jury separates {found.n_significant} of 3 pairs of models." in sentences(own)

"""Judges beside each other: those who guess, grade constantly or the wrong way round are found, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from medhelm.analysis.jury.findings import judges_in_words, remarks, summarize_benchmarks, verdict
from medhelm.analysis.jury.judges import JudgeFinding, JudgeScores, JuryReliability, JurySummary, jury_reliability
from medhelm.analysis.means import Floats
from tests.analysis.jury.test_judges import JUDGES, benchmark, numbers_of
from tests.support.values import present

pytestmark = pytest.mark.usefixtures("few_draws")

GOOD, RANDOM, CONSTANT, REVERSED = "good", "random", "constant", "reversed"
MODELS = ("one", "two", "three")


def jury(
    kinds: Sequence[str], n: int, models: int, rng: np.random.Generator, *, agreement: float = 0.8, missing: float = 0.0
) -> Floats:
    """Grades from 1 to 5, shape (judges, models, n); two good judges correlate by about `agreement`."""
    quality = np.sqrt(agreement) * rng.normal(size=(models, n))
    grades = []
    for kind in kinds:
        error = rng.normal(size=(models, n))
        own = {
            GOOD: quality + np.sqrt(1 - agreement) * error,
            RANDOM: error,
            CONSTANT: np.full((models, n), 1.0),
            REVERSED: -quality - np.sqrt(1 - agreement) * error,
        }[kind]
        grades.append(np.clip(np.round(3 + own), 1, 5))
    table = np.stack(grades)
    table[rng.random(table.shape) < missing] = np.nan
    return table


def findings(table: Floats) -> list[JudgeFinding]:
    judges, models, n = table.shape
    names = [f"judge {place}" for place in range(judges)]
    stacked = JudgeScores.stack([(names, (table.reshape(judges, -1) - 1) / 4, np.tile(np.arange(n), models))])
    return [one.finding for one in jury_reliability(stacked).judges]


def shares(kinds: Sequence[str], runs: int, n: int = 30, models: int = 2, **options: float) -> list[dict[str, float]]:
    """Share of simulated juries with each finding, for each judge."""
    rng = np.random.default_rng(3)
    found = [findings(jury(kinds, n, models, rng, **options)) for _ in range(runs)]
    return [{str(one): float(np.mean([run[place] is one for run in found])) for one in JudgeFinding}
            for place in range(len(kinds))]  # fmt: skip


# --- what is found ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ((GOOD, GOOD, GOOD), ("agrees", "agrees", "agrees")),
        ((GOOD, GOOD, RANDOM), ("agrees", "agrees", "guesses")),
        ((GOOD, CONSTANT, GOOD), ("agrees", "constant", "agrees")),
        ((REVERSED, GOOD, GOOD), ("against", "agrees", "agrees")),
        ((GOOD, GOOD, RANDOM, REVERSED, CONSTANT), ("agrees", "agrees", "guesses", "against", "constant")),
        ((GOOD, GOOD), ("agrees", "agrees")),
        ((GOOD, REVERSED), ("unknown", "unknown")),
        ((GOOD, RANDOM), ("unknown", "unknown")),
        ((GOOD, CONSTANT), ("unknown", "constant")),
        ((GOOD,), ("unknown",)),
        ((CONSTANT, CONSTANT), ("unknown", "unknown")),
        ((RANDOM, RANDOM, RANDOM), ("unknown", "unknown", "unknown")),
    ],
)
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_each_kind_of_judge(kinds: Sequence[str], expected: Sequence[str], missing: float) -> None:
    table = jury(kinds, 200, 2, np.random.default_rng(1), missing=missing)
    assert [str(one) for one in findings(table)] == list(expected)


def test_the_number_is_the_correlation_with_the_mean_of_the_others() -> None:
    table = jury((GOOD, GOOD, GOOD), 60, 1, np.random.default_rng(0))[:, 0]
    found = jury_reliability(JudgeScores.stack([("abc", (table - 1) / 4, np.arange(60))]))
    for place, one in enumerate(found.judges):
        others = np.delete(table, place, axis=0).mean(axis=0)
        assert one.agreement.value == pytest.approx(np.corrcoef(table[place], others)[0, 1])


def test_fewer_than_ten_instances_show_nothing() -> None:
    table = jury((GOOD, GOOD, CONSTANT), 9, 3, np.random.default_rng(0))
    assert set(findings(table)) == {JudgeFinding.UNKNOWN}


def test_benchmarks_of_any_scale_count_together_each_around_its_own_mean() -> None:
    rng = np.random.default_rng(0)
    first, second = (jury((GOOD, GOOD, RANDOM), 20, 1, rng)[:, 0] for _ in range(2))
    tables = [("abc", (first - 1) / 4, np.arange(20)), ("abc", (second - 1) / 4, np.arange(20))]
    together = jury_reliability(JudgeScores.stack(tables))
    shifted = jury_reliability(JudgeScores.stack([tables[0], ("abc", tables[1][1] + 0.5, np.arange(20))]))
    assert [one.finding for one in together.judges][2] is JudgeFinding.GUESSES
    for one, same in zip(together.judges, shifted.judges, strict=True):
        assert one.agreement.value == pytest.approx(same.agreement.value)
        assert one.agreement.n == 40


@pytest.mark.long
@pytest.mark.parametrize("kind", [RANDOM, CONSTANT, REVERSED])
@pytest.mark.parametrize("n", [30, 100])
def test_a_bad_judge_is_found_in_nineteen_of_twenty_juries(kind: str, n: int) -> None:
    first, second, bad = shares((GOOD, GOOD, kind), 1000, n, 2)
    assert bad["guesses"] + bad["constant"] + bad["against"] >= 0.95
    assert max(one["guesses"] + one["against"] for one in (first, second)) <= 0.01


@pytest.mark.long
@pytest.mark.parametrize(
    ("n", "models", "agreement", "missing"), [(10, 2, 0.7, 0), (30, 1, 0.5, 0), (30, 2, 0.5, 0.3), (100, 1, 0.3, 0)]
)
def test_good_judges_are_rarely_named(n: int, models: int, agreement: float, missing: float) -> None:
    for good in shares((GOOD, GOOD, GOOD), 500, n, models, agreement=agreement, missing=missing):
        assert good["guesses"] + good["against"] + good["constant"] <= 0.05


# --- what is said -----------------------------------------------------------------------------------------------------


def summaries(*tables: Floats) -> list[JurySummary]:
    names = ("toy", "other", "third")
    own = [
        benchmark(table[..., None], name=name, judges=JUDGES[: len(table)], models=MODELS[: table.shape[1]],
                  criteria=("accuracy",))
        for name, table in zip(names, tables, strict=False)
    ]  # fmt: skip
    found = [numbers_of(one) for one in own]
    return [*found, summarize_benchmarks(own, found)]


@pytest.fixture(autouse=True)
def families(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.analysis.jury import test_judges

    monkeypatch.setattr(test_judges, "FAMILIES", {**test_judges.FAMILIES, **{name: name for name in MODELS}})


def said(*tables: Floats) -> str:
    *found, overall = summaries(*tables)
    return " ".join(verdict(found, overall, "real"))


def test_a_judge_who_guesses_is_named_with_what_changes_without_it() -> None:
    table = jury((GOOD, GOOD, RANDOM), 60, 3, np.random.default_rng(0))
    text = said(table)
    assert text.startswith("llama is not shown to agree with the other judges (correlation ")
    assert "Without llama, the judges' agreement is 0.7" in text
    assert "the order of the models" in text or "ranks above" in text
    own, _ = summaries(table)
    assert own.without_named
    assert own.without_named.judges == ("llama",)
    alone = numbers_of(benchmark(table[:2, ..., None], judges=JUDGES[:2], models=MODELS, criteria=("accuracy",)))
    assert own.without_named.one_judge.value == pytest.approx(present(alone.one_judge).value)
    assert present(own.without_named.ranking).n_significant == present(alone.ranking).n_significant
    assert present(own.without_named.ranking).panels[0].values == present(alone.ranking).panels[0].values


def test_a_judge_who_grades_against_the_others_is_named_and_the_ranking_by_all_is_not_to_be_used() -> None:
    text = said(jury((GOOD, REVERSED, GOOD), 60, 3, np.random.default_rng(0)))
    assert text.startswith("claude grades against the other judges (correlation -0.")
    assert "Do not use the ranking by all judges. Without claude, the judges' agreement is 0." in text
    assert "jury separates" not in text
    assert "instead of -0." in text


def test_a_judge_who_gives_one_grade_is_named() -> None:
    text = said(jury((CONSTANT, GOOD, GOOD), 60, 3, np.random.default_rng(0)))
    assert text.startswith("gpt gives every completion the same score, so its grades say nothing. Without gpt, ")
    of_two = said(jury((CONSTANT, GOOD), 60, 3, np.random.default_rng(0)))
    assert "gpt gives every completion the same score" in of_two
    assert "Agreement cannot be measured on Toy" in of_two


def test_good_judges_are_not_named() -> None:
    text = said(jury((GOOD, GOOD, GOOD), 60, 3, np.random.default_rng(0)))
    assert text.startswith("The judges agree better than chance on Toy (ICC(3,1) 0.")
    assert "The jury separates" in text
    for words in ("not shown", "against", "same score", "Without", "Do not use"):
        assert words not in text


def test_two_judges_who_contradict_each_other_are_both_doubtful() -> None:
    text = said(jury((GOOD, REVERSED), 60, 3, np.random.default_rng(0)))
    assert text.startswith("Do not use the ranking on Toy: the judges contradict each other (ICC(3,1) -0.")
    assert "separates" not in text


def test_over_benchmarks_a_judge_is_named_once_and_where_it_differs_by_the_benchmark() -> None:
    rng = np.random.default_rng(0)
    guessing = [jury((GOOD, GOOD, RANDOM), 40, 3, rng) for _ in range(2)]
    text = said(*guessing)
    assert text.count("llama is not shown to agree") == 1
    assert "The other judges agree better than chance on 2 of 2 benchmarks" in text
    mixed = said(jury((GOOD, GOOD, GOOD), 100, 3, rng), jury((GOOD, GOOD, REVERSED), 20, 3, rng))
    assert "On Other, llama grades against the other judges" in mixed


def test_a_judge_who_guesses_on_one_of_several_benchmarks_gets_a_remark() -> None:
    rng = np.random.default_rng(1)
    good, bad = jury((GOOD, GOOD, GOOD), 100, 3, rng), jury((GOOD, GOOD, RANDOM), 40, 3, rng)
    *found, overall = summaries(good, bad)
    texts = {remark.code: remark.text for remark in remarks(found, overall, "real")}
    assert texts["judge_may_guess"].startswith("On Other, llama is not shown to agree with the other judges (correl")
    assert "judge_to_leave_out" not in texts
    *found, overall = summaries(good, good)
    assert "judge_may_guess" not in {remark.code for remark in remarks(found, overall, "real")}


def test_a_judge_who_guesses_makes_no_other_judge_seem_to_favor_good_models() -> None:
    rng = np.random.default_rng(0)
    table = jury((GOOD, GOOD, RANDOM), 100, 2, rng) + np.array([1.0, -1.0])[None, :, None]
    table[2] = np.round(rng.uniform(1, 5, table[2].shape))
    own = numbers_of(benchmark(table[..., None], criteria=("accuracy",), low=-2, high=8))
    assert own.judges[2].finding is JudgeFinding.GUESSES
    favored = present(own.judges[0].self_preference)
    assert favored.low <= 0 <= favored.high


def test_the_leaderboard_names_judges_of_one_benchmark_and_sure_findings_of_several() -> None:
    rng = np.random.default_rng(0)

    def of(*kinds: str) -> JuryReliability:
        table = jury(kinds, 60, 2, rng)
        names = JUDGES[: len(kinds)]
        return jury_reliability(
            JudgeScores.stack([(names, (table.reshape(len(kinds), -1) - 1) / 4, np.tile(np.arange(60), 2))])
        )

    good, guesses, against, chance = (
        of(GOOD, GOOD, GOOD),
        of(GOOD, GOOD, RANDOM),
        of(GOOD, GOOD, REVERSED),
        of(RANDOM, RANDOM),
    )
    assert judges_in_words([("Toy", good), ("None", None)]) == []
    (sentence,) = judges_in_words([("Toy", guesses)])
    assert sentence.startswith("On Toy, llama is not shown to agree with the other judges (correlation ")
    (sentence,) = judges_in_words([("Toy", guesses), ("Other", against)])
    assert sentence.startswith("On Other, llama grades against the other judges (correlation -")
    (sentence,) = judges_in_words([("Toy", good), ("Other", chance)])
    assert sentence.startswith("Do not use the ranking on Other: the judges are not shown to agree")


@pytest.mark.parametrize("by_length", [True, False])
def test_a_jury_whose_scores_follow_length_gets_a_remark(by_length: bool) -> None:
    rng = np.random.default_rng(0)
    own = benchmark(rng.normal(3, 0.5, (3, 2, 60, 1)), criteria=("accuracy",))
    lengths = np.exp(rng.normal(6, 1, (2, 60)))
    quality = np.log(lengths) / 2 if by_length else rng.normal(3, 0.5, (2, 60))
    table = quality[None, :, :, None] + rng.normal(0, 0.1, (3, 2, 60, 1))
    own = benchmark(table, criteria=("accuracy",), low=-5, high=12)
    own = replace(own, cells=replace(own.cells, lengths=lengths))
    found = numbers_of(own)
    codes = [remark.code for remark in remarks([found], summarize_benchmarks([own], [found]), "real")]
    assert ("scores_follow_length" in codes) == by_length

"""Judges beside each other: those who guess, grade constantly or the wrong way round are found, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bench.studies.clinicians import named
from medhelm.analysis.jury.findings import judges_in_words, remarks, summarize_benchmarks, verdict
from medhelm.analysis.jury.judges import JudgeFinding, JudgeScores, JuryReliability, JurySummary, jury_reliability
from medhelm.analysis.means import Floats
from tests.analysis.jury.test_judges import JUDGES, benchmark, numbers_of
from tests.support.values import present

pytestmark = pytest.mark.usefixtures("few_draws")

GOOD, RANDOM, CONSTANT, REVERSED = "good", "random", "constant", "reversed"
MODELS = ("one", "two", "three")


def jury(kinds: Sequence[str], n: int, models: int, rng: np.random.Generator, missing: float = 0.0) -> Floats:
    """Grades from 1 to 5, shape (judges, models, n); two good judges correlate by about 0.8."""
    quality = np.sqrt(0.8) * rng.normal(size=(models, n))
    grades = []
    for kind in kinds:
        error = rng.normal(size=(models, n))
        own = {
            GOOD: quality + np.sqrt(0.2) * error,
            RANDOM: error,
            CONSTANT: np.full((models, n), 1.0),
            REVERSED: -quality - np.sqrt(0.2) * error,
        }[kind]
        grades.append(np.clip(np.round(3 + own), 1, 5))
    table = np.stack(grades)
    table[rng.random(table.shape) < missing] = np.nan
    return table


def reliability_of(table: Floats) -> JuryReliability:
    judges, models, n = table.shape
    names = [*JUDGES, "fourth", "fifth"][:judges]
    return jury_reliability(
        JudgeScores.stack([(names, (table.reshape(judges, -1) - 1) / 4, np.tile(np.arange(n), models))])
    )


# --- what is found ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ((REVERSED, GOOD, GOOD), ("against", "agrees", "agrees")),
        ((GOOD, GOOD, RANDOM, REVERSED, CONSTANT), ("agrees", "agrees", "guesses", "against", "constant")),
        ((GOOD, REVERSED), ("unknown", "unknown")),
        ((GOOD, CONSTANT), ("unknown", "constant")),
        ((GOOD,), ("unknown",)),
        ((RANDOM, RANDOM, RANDOM), ("unknown", "unknown", "unknown")),
    ],
)
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_each_kind_of_judge(kinds: Sequence[str], expected: Sequence[str], missing: float) -> None:
    table = jury(kinds, 200, 2, np.random.default_rng(1), missing=missing)
    assert [str(one.finding) for one in reliability_of(table).judges] == list(expected)


def test_the_number_is_the_correlation_with_the_mean_of_the_others() -> None:
    table = jury((GOOD, GOOD, GOOD), 60, 1, np.random.default_rng(0))
    for place, one in enumerate(reliability_of(table).judges):
        others = np.delete(table[:, 0], place, axis=0).mean(axis=0)
        assert one.agreement.value == pytest.approx(np.corrcoef(table[place, 0], others)[0, 1])


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
def test_a_bad_judge_is_found_in_nineteen_of_twenty_juries_and_good_ones_are_not_named(kind: str, n: int) -> None:
    good, bad = named(kind, n, 2, 0.8, 1000)
    assert bad >= 0.95
    assert good <= 0.01


@pytest.mark.long
@pytest.mark.parametrize(("n", "models", "agreement"), [(10, 2, 0.7), (30, 1, 0.5), (100, 1, 0.3)])
def test_good_judges_are_rarely_named(n: int, models: int, agreement: float) -> None:
    assert max(named(GOOD, n, models, agreement, 500)) <= 0.05


# --- what is said -----------------------------------------------------------------------------------------------------


def summaries(table: Floats) -> tuple[JurySummary, JurySummary]:
    """The numbers of one benchmark, and of all."""
    own = benchmark(
        table[..., None], judges=JUDGES[: len(table)], models=MODELS[: table.shape[1]], criteria=("accuracy",)
    )
    found = numbers_of(own)
    return found, summarize_benchmarks([own], [found])


@pytest.fixture(autouse=True)
def families(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.analysis.jury import test_judges

    monkeypatch.setattr(test_judges, "FAMILIES", {**test_judges.FAMILIES, **{name: name for name in MODELS}})


@pytest.mark.parametrize(
    ("kinds", "said", "absent"),
    [
        (
            (GOOD, GOOD, RANDOM),
            ["Do not rely on llama: its correlation with the", "Without llama, "],
            [],
        ),
        (
            (GOOD, REVERSED, GOOD),
            ["claude grades against the other judges", "Do not use the ranking by all judges. Without claude, "],
            ["jury separates"],
        ),
        ((GOOD, REVERSED), ["Do not use the ranking on Toy: the judges contradict each other"], ["separates"]),
        ((CONSTANT, GOOD), ["gpt gives every completion the same score", "Agreement cannot be measured on Toy"], []),
        (
            (GOOD, GOOD, GOOD),
            ["The judges agree better than chance on Toy: 0.", "The jury separates"],
            ["not shown", "against", "same score", "Without", "Do not use"],
        ),
    ],
)
def test_bad_judges_are_named_and_good_ones_are_not(kinds: Sequence[str], said: list[str], absent: list[str]) -> None:
    own, overall = summaries(jury(kinds, 60, 3, np.random.default_rng(0)))
    text = " ".join(verdict([own], overall, "real"))
    assert text.startswith(said[0])
    assert [word for word in said if word not in text] == [word for word in absent if word in text] == []


def test_numbers_without_a_bad_judge_are_those_of_the_other_judges_alone() -> None:
    table = jury((GOOD, GOOD, RANDOM), 60, 3, np.random.default_rng(0))
    own, (alone, _) = present(summaries(table)[0].without_named), summaries(table[:2])
    assert own.judges == ("llama",)
    assert own.one_judge.value == pytest.approx(present(alone.one_judge).value)
    assert present(own.ranking).n_significant == present(alone.ranking).n_significant
    assert present(own.ranking).panels[0].values == present(alone.ranking).panels[0].values


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
    good, guesses, against = (
        reliability_of(jury((GOOD, GOOD, third), 60, 2, rng)) for third in (GOOD, RANDOM, REVERSED)
    )
    assert judges_in_words([("Toy", good), ("None", None)]) == []
    (sentence,) = judges_in_words([("Toy", guesses)])
    assert sentence.startswith("On Toy, do not rely on llama: its correlation with the other judges is ")
    (sentence,) = judges_in_words([("Toy", guesses), ("Other", against)])
    assert sentence.startswith("On Other, llama grades against the other judges (correlation -")


@pytest.mark.parametrize("by_length", [True, False])
def test_a_jury_whose_scores_follow_length_gets_a_remark(by_length: bool) -> None:
    rng = np.random.default_rng(0)
    lengths = np.exp(rng.normal(6, 1, (2, 60)))
    quality = np.log(lengths) / 2 if by_length else rng.normal(3, 0.5, (2, 60))
    table = quality[None, :, :, None] + rng.normal(0, 0.1, (3, 2, 60, 1))
    own = benchmark(table, criteria=("accuracy",), low=-5, high=12)
    own = replace(own, cells=replace(own.cells, lengths=lengths))
    found = numbers_of(own)
    codes = [remark.code for remark in remarks([found], summarize_benchmarks([own], [found]), "real")]
    assert ("scores_follow_length" in codes) == by_length

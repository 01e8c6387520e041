"""From stores to the analysis of their judges."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medhelm.analysis.jury.judges import JudgeSummary, JurySummary
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.domain import Jury, Rule, Run
from medhelm.errors import StoreError, UserError
from medhelm.evaluation.python_api import evaluate
from medhelm.models.model_names import family_of
from medhelm.results.jury import analyze_judges, judged_benchmarks
from medhelm.results.leaderboard import leaderboard, read_inputs
from medhelm.results.options import BoardOptions
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.judgments import read_judgments
from medhelm.storage.runs import load_runs
from medhelm.storage.store import create, open_store
from tests.support.benchmarks.choice import chat
from tests.support.benchmarks.judged import DEFINITION, is_judge, mock, number, write_benchmark
from tests.support.remarks import texts
from tests.support.servers.openai import Answer, Server
from tests.support.stores import JUDGES, MODELS, add_judged_runs, grades

pytestmark = pytest.mark.usefixtures("few_draws")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def judge_named(name: str, own: JurySummary) -> JudgeSummary:
    return next(judge for judge in own.judges if judge.judge == name)


# --- families ---------------------------------------------------------------------------------------------------------


FAMILIES = {
    "OpenAI": "openai/gpt-4o-2024-05-13 openai/o3-mini openai/o1 azure/chatgpt-4o-latest openai/gpt-oss-120b@http://127.0.0.1:8000/v1",
    "gpt-neo-2.7b": "EleutherAI/gpt-neo-2.7B",
    "gpt-j-6b": "EleutherAI/gpt-j-6b",
    "biogpt-large": "microsoft/BioGPT-Large",
    "Anthropic": "anthropic/claude-3-7-sonnet-20250219",
    "Meta": "meta/llama-3.3-70b-instruct openai/Meta-Llama-3-8B@http://10.0.0.1/v1 nvidia/Llama-3.1-Nemotron-70B",
    "Google": "google/gemini-2.0-flash hf/google/medgemma-27b-text-it google/gemma-2-9b",
    "Alibaba": "local/Qwen2.5-7B openai/qwen@http://gpt.example.org/v1",
    "Mistral": "mistral/Mixtral-8x7B mistralai/Mistral-Large",
    "DeepSeek": "deepseek/DeepSeek-R1 deepseek/DeepSeek-R1-Distill-Llama-70B",
    "Microsoft": "microsoft/phi-4",
    "dolphin-2": "local/dolphin-2",
    "our-model": "local/our-model",
    "ours": "ours",
}
"""Family -> names of its models."""


@pytest.mark.parametrize(("name", "family"), [(name, one) for one, names in FAMILIES.items() for name in names.split()])
def test_the_family_follows_from_the_name(name: str, family: str) -> None:
    assert family_of(name) == family


def test_what_the_server_calls_a_model_counts_first_and_its_own_name_next() -> None:
    assert family_of("Qwen/Qwen2.5-7B", "our-gpt") == "Alibaba"
    assert family_of("deployment-7", "our-gpt-4o") == "OpenAI"
    assert family_of("deployment-7", "ours") == "deployment-7"


# --- what is read -----------------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_stored_judgments(store: Path) -> None:
    table = grades(0, 15)
    table[2, 1, 3, 0] = np.nan
    add_judged_runs(store, "toy", table, blank=(4,))
    found = analyze_judges([store])
    (own,) = found.benchmarks
    assert (own.benchmark, own.title, own.models, own.n_instances) == ("toy", "Toy", tuple(sorted(MODELS)), 15)
    assert own.n_completions == 14 * 4
    assert (found.tier, found.scoring, own.form, own.low, own.high) == ("real", "corrected", "grades", 1, 5)
    asked = np.delete(table, 4, axis=2)
    for place, name in enumerate(JUDGES):
        judge = judge_named(name, own)
        assert judge.mean
        assert judge.mean.value == pytest.approx(np.nanmean(asked[place]))
        assert (judge.tally.expected, judge.tally.failed) == (14 * 4 * 3, int(np.isnan(asked[place]).sum()))
        assert judge.tally.cost_usd == pytest.approx(0.001 * 14 * 4 * 3)
    assert judge_named(JUDGES[2], own).tally.failures == {"malformed_reply": 1}


def test_all_benchmarks_together_rank_models_as_the_leaderboard_does(store: Path) -> None:
    for place, name in enumerate(("toy", "toys")):
        add_judged_runs(store, name, grades(place, 12))
    found = analyze_judges([store])
    assert found.overall
    assert found.overall.ranking
    full = found.overall.ranking.panels[0]
    board = leaderboard([store])
    assert full.models == tuple(row.model for row in board.rows)
    assert full.ranks == tuple(row.rank for row in board.rows)
    assert full.values == pytest.approx([row.adjusted_average.value for row in board.rows if row.adjusted_average])


def test_blank_completions_count_in_the_ranking_with_the_score_they_were_given(store: Path) -> None:
    table = grades(0, 15)
    table[:, :, 4] = 5  # never read: nobody was asked
    add_judged_runs(store, "toy", table, blank=(4,))
    (own,) = analyze_judges([store]).benchmarks
    assert own.ranking
    expected = table.mean(axis=(0, 3))
    expected[:, 4] = 1
    means = dict(zip(MODELS, expected.mean(axis=1), strict=True))
    full = own.ranking.panels[0]
    assert dict(zip(full.models, full.values, strict=True)) == pytest.approx(means)
    alone = next(panel for panel in own.ranking.panels if panel.name == f"{JUDGES[1]} alone")
    single = table[1].mean(axis=2)
    single[:, 4] = 1
    assert dict(zip(alone.models, alone.values, strict=True)) == pytest.approx(
        dict(zip(MODELS, single.mean(axis=1), strict=True))
    )


def test_lengths_are_those_of_the_completions(store: Path) -> None:
    rng = np.random.default_rng(1)
    table = rng.normal(3, 0.2, (3, 4, 25, 3))
    lengths = (2 ** rng.uniform(5, 10, (4, 25))).round()
    table += 0.25 * (np.log2(lengths) - 7.5)[None, :, :, None]
    add_judged_runs(store, "toy", table, lengths=lengths)
    (own,) = analyze_judges([store]).benchmarks
    assert own.length
    assert own.length.slope
    assert own.length.slope.value == pytest.approx(0.25, abs=0.02)


def test_families_follow_names_and_can_be_set(store: Path) -> None:
    add_judged_runs(store, "toy", grades(0, 15))
    (own,) = analyze_judges([store]).benchmarks
    assert [judge.own_models for judge in own.judges] == [("openai/gpt-4o",), (), ("meta/llama-3.1-8b",)]
    changed = analyze_judges([store], families={JUDGES[1]: "Alibaba", MODELS[3]: "Ours"})
    assert [judge.own_models for judge in changed.benchmarks[0].judges] == [
        ("openai/gpt-4o",),
        ("local/qwen2.5-7b",),
        (),
    ]
    assert changed.families[MODELS[3]] == "Ours"
    with pytest.raises(UserError, match=r"no judge or model `openai/gpt-4`. Did you mean `openai/gpt-4o`\?"):
        analyze_judges([store], families={"openai/gpt-4": "OpenAI"})


def test_a_judge_under_test_is_named_whatever_it_is_called(store: Path) -> None:
    add_judged_runs(store, "toy", grades(0, 10))
    warnings = texts(analyze_judges([store]).remarks)
    assert any(w.startswith("openai/gpt-4o is both a judge and a model under test") for w in warnings)
    assert sum("under test" in w for w in warnings) == 1


def test_only_the_benchmarks_that_are_asked_for_are_read(store: Path) -> None:
    for name in ("one", "two", "three"):
        add_judged_runs(store, name, grades(0, 8))
    assert judged_benchmarks([store]) == {"one", "two", "three"}
    assert [own.benchmark for own in analyze_judges([store], ["two", "one"]).benchmarks] == ["one", "two"]
    with pytest.raises(UserError, match=r"no run of `tree` was judged. Did you mean `three`\?"):
        analyze_judges([store], ["one", "tree"])


def test_benchmarks_of_the_suite_come_in_its_order_and_others_after_them(store: Path) -> None:
    for name in ("a_toy", "medication_qa", "aci_bench"):
        add_judged_runs(store, name, grades(0, 8))
    assert [own.benchmark for own in analyze_judges([store]).benchmarks] == ["aci_bench", "medication_qa", "a_toy"]


def test_models_of_two_stores_are_analyzed_together(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        add_judged_runs(tmp_path / name, "toy", grades(0, 8))
    (own,) = analyze_judges([tmp_path / "ours", tmp_path / "theirs"]).benchmarks
    assert len(own.models) == 8
    assert {"openai/gpt-4o [ours]", "openai/gpt-4o [theirs]"} <= set(own.models)
    assert own.judges[0].own_models == ("openai/gpt-4o [ours]", "openai/gpt-4o [theirs]")


def test_real_and_sample_data_are_never_mixed(store: Path) -> None:
    add_judged_runs(store, "toy", grades(0, 8))
    add_judged_runs(store, "toy", grades(0, 5), models=["local/other"], tier="sample")
    real, sample = analyze_judges([store]), analyze_judges([store], options=BoardOptions(tier="sample"))
    assert (real.benchmarks[0].n_instances, sample.benchmarks[0].models) == (8, ("local/other",))
    assert any("Sample tier" in warning for warning in texts(sample.remarks))


# --- what does not count ----------------------------------------------------------------------------------------------


def test_runs_that_were_stopped_or_not_judged_do_not_count(store: Path) -> None:
    add_judged_runs(store, "toy", grades(0, 8), models=MODELS[:2])
    add_judged_runs(store, "toy", grades(0, 8), models=MODELS[2:3], status="partial")
    add_judged_runs(store, "toy", grades(0, 8), models=MODELS[3:], jury_result=None, main_metric="rouge_l")
    (own,) = analyze_judges([store]).benchmarks
    assert set(own.models) == set(MODELS[:2])


def test_models_of_another_jury_are_left_out_and_named(store: Path) -> None:
    add_judged_runs(store, "toy", grades(0, 8), models=MODELS[:2])
    add_judged_runs(store, "toy", grades(0, 8, judges=JUDGES[:2]), models=MODELS[2:3], judges=JUDGES[:2])
    found = analyze_judges([store])
    assert set(found.benchmarks[0].models) == set(MODELS[:2])
    (text,) = [text for text in texts(found.remarks) if text.startswith("Left out of")]
    assert f": {MODELS[2]} (graded by " in text
    assert f"`medhelm rejudge toy --model {MODELS[2]} --judge {JUDGES[2]}` brings it in." in text


def test_another_version_of_the_benchmark_is_left_out_and_named(store: Path) -> None:
    add_judged_runs(store, "toy", grades(0, 8), models=MODELS[:1], benchmark_digest="0" * 64)
    add_judged_runs(store, "toy", grades(0, 8), models=MODELS[1:], started="2026-02-01T00:00:00+00:00")
    found = analyze_judges([store])
    assert set(found.benchmarks[0].models) == set(MODELS[1:])
    assert any(
        f"{MODELS[0]} on toy was judged with another version of the benchmark" in warning
        for warning in texts(found.remarks)
    )


@pytest.mark.parametrize("changes", [{"status": "partial"}, {"jury_result": None, "main_metric": "rouge_l"}])
def test_stores_without_finished_judged_runs_are_an_error(store: Path, changes: dict[str, Any]) -> None:
    add_judged_runs(store, "toy", grades(0, 8), **changes)
    with pytest.raises(UserError, match="no finished run with judges"):
        analyze_judges([store])


def test_an_empty_store_and_a_missing_store_have_different_errors(store: Path, tmp_path: Path) -> None:
    create(store)
    with pytest.raises(UserError, match="no finished run with judges"):
        analyze_judges([store])
    with pytest.raises(StoreError, match="no store at"):
        analyze_judges([tmp_path / "nowhere"])


# --- rules and rubrics ------------------------------------------------------------------------------------------------


def test_by_the_published_rule_grades_are_whole_and_one_judge_is_enough(store: Path) -> None:
    table = grades(0, 10) - 0.5
    table = np.clip(table, 1, 5)
    table[:2, :, 0] = np.nan
    add_judged_runs(store, "toy", table)
    corrected, published = (
        analyze_judges([store], options=BoardOptions(rule=rule)) for rule in ("corrected", "published")
    )
    whole = np.trunc(table)
    assert published.benchmarks[0].ranking
    full = published.benchmarks[0].ranking.panels[0]
    by_completion = np.concatenate([whole[2:, :, :1].mean(axis=(0, 3)), whole[:, :, 1:].mean(axis=(0, 3))], axis=1)
    assert dict(zip(full.models, full.values, strict=True)) == pytest.approx(
        dict(zip(MODELS, by_completion.mean(axis=1), strict=True))
    )
    assert corrected.benchmarks[0].ranking
    full = corrected.benchmarks[0].ranking.panels[0]
    assert dict(zip(full.models, full.values, strict=True)) == pytest.approx(
        dict(zip(MODELS, table[:, :, 1:].mean(axis=(0, 2, 3)), strict=True))
    )
    assert published.scoring == "published"


def test_criteria_with_the_lowest_grade_as_the_best_are_read_from_the_store(store: Path) -> None:
    table = grades(0, 12)
    add_judged_runs(store, "toy", table, lower_is_better=["clarity"])
    corrected, published = (
        analyze_judges([store], options=BoardOptions(rule=rule)).benchmarks[0] for rule in ("corrected", "published")
    )
    as_given = table.copy()
    as_given[..., 2] = 6 - as_given[..., 2]
    for own, expected in ((corrected, table), (published, as_given)):
        assert own.judges[0].mean
        assert own.judges[0].mean.value == pytest.approx(expected[0].mean())


# --- points, on the whole road ----------------------------------------------------------------------------------------

POINTS = f"""\
{DEFINITION.partition("rubric:")[0].replace("[jury, rouge_l]", "[jury]")}\
rubric:
  form: points
  task: You see a question and an answer. Say whether the criterion is met.
  reference: false
  criteria_column: criteria
"""
NAMES_IT, KIND, HARM = "It names the number.", "It is kind.", "It does harm."
EARNS = {NAMES_IT: 6, KIND: 2, HARM: -4}
LENGTHS = {"short": 2**5, "medium": 2**7, "long": 2**9}
JURY_OF_POINTS = ("judge-1", "judge-2", "judge-3")
FAILED = {("judge-3", "medium", 5), ("judge-2", "long", 6), ("judge-3", "long", 6)}
QUESTIONS = range(8)


def asked_of(question: int) -> list[str]:
    """The criteria of a question: they differ, in number and in order."""
    return [HARM, NAMES_IT, KIND] if question % 2 else [NAMES_IT, KIND]


def met(judge: str, name: str, question: int, criterion: str) -> bool | None:
    """What a judge says of a model, None if it fails: the first one alone finds answers kind, the short ones."""
    if criterion == KIND:
        if (judge, name, question) in FAILED:
            return None
        return (judge, name) == ("judge-1", "short")
    if criterion == HARM:
        return name == "long" or (name == "medium" and question == 3)
    return name == "long" or (name == "medium" and question % 3 > 0)


def share(judge: str, name: str, question: int) -> float:
    """Points earned over those that can be earned, below 0 if harm prevails; nan where the judge failed."""
    said = {criterion: met(judge, name, question, criterion) for criterion in asked_of(question)}
    return np.nan if None in said.values() else sum(EARNS[c] for c, is_met in said.items() if is_met) / 8


def points_court(body: Mapping[str, Any]) -> Answer:
    """Models sign their answers, which have their length; judges go by the signature."""
    if not is_judge(body):
        return chat(f"by-{body['model']} ".ljust(LENGTHS[body["model"]], "x"))
    text = body["messages"][0]["content"]
    name = next(name for name in LENGTHS if f"by-{name} " in text)
    said = met(body["model"], name, number(body), next(criterion for criterion in EARNS if criterion in text))
    return chat("I cannot tell." if said is None else json.dumps({"criteria_met": said, "explanation": "Because."}))


@pytest.fixture
def runs_in_points(store: Path, tmp_path: Path, server: Server) -> dict[str, Run]:
    """Model -> its run in the store, judged in points by criteria of each question's own."""
    place = write_benchmark(tmp_path, definition=POINTS)
    rows = [
        {"id": f"q{n}", "question": f"number {n}?", "reply": str(n), "criteria": [
            {"criterion": text, "points": EARNS[text]} for text in asked_of(n)
        ]}
        for n in QUESTIONS
    ]  # fmt: skip
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (benchmark,) = load_benchmarks([str(place)], metrics=METRIC_NAMES)
    server.answer_with(points_court)
    judges = Jury(judges=tuple(replace(mock(server, name), name=name) for name in JURY_OF_POINTS))
    models = [replace(mock(server, name), name=name) for name in LENGTHS]
    return {run.model: run for run in evaluate([benchmark], models, store=store, jury=judges).runs}


def test_a_run_in_points_says_what_its_judgments_mean(store: Path, runs_in_points: dict[str, Run]) -> None:
    said = read_judgments(runs_in_points["medium"])
    earned = [EARNS[criterion] for n in QUESTIONS for _ in JURY_OF_POINTS for criterion in asked_of(n)]
    assert (list(said.points), said.failures.count("no_verdict")) == (earned, 1)
    assert said.criteria[:2] == ["criterion_1", "criterion_2"]
    for run in load_runs(open_store(store)):
        assert run.jury_result
        assert (run.jury_result.form, run.jury_result.lower_is_better) == ("points", ())


@pytest.mark.parametrize("rule", ["corrected", "published"])
def test_judges_of_points_are_compared_by_the_points_they_give(
    store: Path, runs_in_points: dict[str, Run], rule: Rule
) -> None:
    families = {"judge-1": "Ours", "short": "Ours"}
    (own,) = analyze_judges([store], options=BoardOptions(rule=rule), families=families).benchmarks
    shares = np.array([[[share(judge, m, n) for n in QUESTIONS] for m in LENGTHS] for judge in JURY_OF_POINTS])
    jury = np.where((~np.isnan(shares)).sum(axis=0) < 2, np.nan, np.nanmean(shares, axis=0))
    assert (own.form, own.low, own.high, [part.on for part in own.agreement]) == ("points", 0, 1, ["met", "score"])
    assert own.ranking
    panels = {panel.name: dict(zip(panel.models, panel.values, strict=True)) for panel in own.ranking.panels}
    expected = dict(zip(LENGTHS, np.nanmean(jury, axis=1), strict=True))
    assert next(iter(panels.values())) == pytest.approx(expected)
    assert {name: run.estimates["corrected"]["jury"].value for name, run in runs_in_points.items()} == (
        pytest.approx(expected)
    )
    for judge, table in zip(JURY_OF_POINTS, shares, strict=True):
        alone = dict(zip(LENGTHS, np.nanmean(table, axis=1), strict=True))
        assert panels[f"{judge} alone"] == pytest.approx(alone)
    first = judge_named("judge-1", own)
    assert first.self_preference
    assert first.self_preference.value == pytest.approx(2 / 8)
    assert own.best
    assert own.best.value == 0
    assert own.worst
    assert own.worst.value == pytest.approx((shares <= 0).sum() / (~np.isnan(shares)).sum())
    doublings = np.where(np.isnan(jury), np.nan, np.log2([[length] for length in LENGTHS.values()]))
    x, y = (values - np.nanmean(values, axis=0) for values in (doublings, jury))
    assert own.length
    assert own.length.slope
    assert own.length.slope.value == pytest.approx(np.nansum(x * y) / np.nansum(x * x))


# --- the leaderboard's verdict ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("turned", [(), ("accuracy",)])
def test_the_leaderboard_warns_of_the_same_benchmarks(store: Path, turned: tuple[str, ...]) -> None:
    chance = np.random.default_rng(1).integers(1, 6, grades(0, 40).shape).astype(float)
    chance[0, 0, 3, 0] = np.nan
    add_judged_runs(store, "guessed", chance, lower_is_better=turned)
    add_judged_runs(store, "judged", grades(0, 40), lower_is_better=turned)
    (warning,) = [one for one in leaderboard(store).verdict if "better than chance" in one]
    found = {own.benchmark: own.one_judge for own in analyze_judges([store]).benchmarks}
    guessed = found["guessed"]
    assert guessed and guessed.value is not None
    assert f"({guessed.value:.2f})" in warning.replace("ICC(3,1) ", "")
    assert warning.startswith("Do not use the ranking on Guessed: the judges are not shown to agree better than chance")
    assert leaderboard(store).verdict[0] == warning
    for name, one in read_inputs([store]).judge_agreement.items():
        own = found[name]
        assert one and own
        assert [one.one_judge.value, one.one_judge.low] == pytest.approx([own.value, own.low])


def test_a_single_judge_is_no_reason_for_a_warning(store: Path) -> None:
    add_judged_runs(store, "toy", grades(0, 40)[:1], judges=JUDGES[:1])
    assert read_inputs([store]).judge_agreement == {}
    assert not any("better than chance" in one for one in leaderboard(store).verdict)

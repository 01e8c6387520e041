"""From stores to the analysis of their judges."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medhelm.analysis.jury.cells import JudgePanelRanking
from medhelm.analysis.jury.judges import JudgeSummary, JurySummary
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.domain import RULES, Jury, Rule
from medhelm.errors import StoreError, UserError
from medhelm.evaluation.python_api import evaluate
from medhelm.models.model_names import family_of
from medhelm.results.jury import analyze_judges, judged_benchmarks
from medhelm.results.leaderboard import leaderboard, read_inputs
from medhelm.results.options import BoardOptions
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.benchmarks.choice import chat
from tests.support.benchmarks.judged import DEFINITION, is_judge, mock, number, write_benchmark
from tests.support.remarks import texts
from tests.support.servers.openai import Answer, Server
from tests.support.stores import JUDGES, MODELS, add_judged_runs, grades
from tests.support.values import present

pytestmark = pytest.mark.usefixtures("few_draws")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def panel_values(panel: JudgePanelRanking) -> dict[str, float]:
    return dict(zip(panel.models, panel.values, strict=True))


def judge_named(name: str, own: JurySummary) -> JudgeSummary:
    return next(judge for judge in own.judges if judge.judge == name)


FAMILIES = {
    "openai/gpt-4o-2024-05-13": "OpenAI",
    "azure/chatgpt-4o-latest": "OpenAI",
    "openai/gpt-oss-120b@http://127.0.0.1:8000/v1": "OpenAI",
    "EleutherAI/gpt-neo-2.7B": "gpt-neo-2.7b",
    "microsoft/BioGPT-Large": "biogpt-large",
    "openai/Meta-Llama-3-8B@http://10.0.0.1/v1": "Meta",
    "nvidia/Llama-3.1-Nemotron-70B": "Meta",
    "hf/google/medgemma-27b-text-it": "Google",
    "openai/qwen@http://gpt.example.org/v1": "Alibaba",
    "deepseek/DeepSeek-R1-Distill-Llama-70B": "DeepSeek",
    "local/our-model": "our-model",
}


def test_the_family_follows_from_the_name() -> None:
    assert {name: family_of(name) for name in FAMILIES} == FAMILIES
    # What the server calls a model counts first, and its own name next.
    assert family_of("Qwen/Qwen2.5-7B", "our-gpt") == "Alibaba"
    assert family_of("deployment-7", "our-gpt-4o") == "OpenAI"
    assert family_of("deployment-7", "ours") == "deployment-7"


def test_the_numbers_are_those_of_the_stored_judgments(store: Path) -> None:
    table = grades(0, 15)
    table[2, 1, 3, 0] = np.nan
    add_judged_runs(store, "toy", table, blank=(4,))
    found = analyze_judges([store])
    (own,) = found.benchmarks
    assert (own.benchmark, own.title, own.models, own.n_instances) == ("toy", "Toy", tuple(sorted(MODELS)), 15)
    assert own.n_completions == 14 * 4
    assert (own.form, own.low, own.high) == ("grades", 1, 5)
    asked = np.delete(table, 4, axis=2)
    for place, name in enumerate(JUDGES):
        judge = judge_named(name, own)
        assert present(judge.mean).value == pytest.approx(np.nanmean(asked[place]))
        assert (judge.tally.expected, judge.tally.failed) == (14 * 4 * 3, int(np.isnan(asked[place]).sum()))
        assert judge.tally.cost_usd == pytest.approx(0.001 * 14 * 4 * 3)
    assert judge_named(JUDGES[2], own).tally.failures == {"malformed_reply": 1}


def test_all_benchmarks_together_rank_models_as_the_leaderboard_does(store: Path) -> None:
    for place, name in enumerate(("toy", "toys")):
        add_judged_runs(store, name, grades(place, 12))
    full = present(present(analyze_judges([store]).overall).ranking).panels[0]
    board = leaderboard([store])
    assert full.models == tuple(row.model for row in board.rows)
    assert full.ranks == tuple(row.rank for row in board.rows)
    assert full.values == pytest.approx([present(row.adjusted_average).value for row in board.rows])


def test_blank_completions_count_in_the_ranking_with_the_score_they_were_given(store: Path) -> None:
    table = grades(0, 15)
    table[:, :, 4] = 5  # never read: nobody was asked
    add_judged_runs(store, "toy", table, blank=(4,))
    (own,) = analyze_judges([store]).benchmarks
    table[:, :, 4] = 1
    means = {panel.name: panel_values(panel) for panel in present(own.ranking).panels}
    for name, expected in (("all judges", table.mean(axis=0)), (f"{JUDGES[1]} alone", table[1])):
        assert means[name] == pytest.approx(dict(zip(MODELS, expected.mean(axis=(1, 2)), strict=True)))


def test_families_follow_names_and_can_be_set(store: Path) -> None:
    add_judged_runs(store, "toy", grades(0, 15))
    found = analyze_judges([store])
    assert [judge.own_models for judge in found.benchmarks[0].judges] == [(MODELS[0],), (), (MODELS[3],)]
    assert ["under test" in text for text in texts(found.remarks)].count(True) == 1, "a judge that is a model as well"
    changed = analyze_judges([store], families={JUDGES[1]: "Alibaba", MODELS[3]: "Ours"})
    assert [judge.own_models for judge in changed.benchmarks[0].judges] == [(MODELS[0],), (MODELS[2],), ()]
    assert changed.families[MODELS[3]] == "Ours"
    with pytest.raises(UserError, match=r"no judge or model `openai/gpt-4`. Did you mean `openai/gpt-4o`\?"):
        analyze_judges([store], families={"openai/gpt-4": "OpenAI"})


def test_only_the_benchmarks_that_are_asked_for_are_read_in_the_order_of_the_suite(store: Path) -> None:
    names = ["aci_bench", "medication_qa", "a_toy"]
    for name in reversed(names):
        add_judged_runs(store, name, grades(0, 8))
    assert judged_benchmarks([store]) == set(names)
    assert [own.benchmark for own in analyze_judges([store]).benchmarks] == names
    assert [own.benchmark for own in analyze_judges([store], names[::-2]).benchmarks] == names[::2]
    with pytest.raises(UserError, match=r"no run of `a_tyo` was judged. Did you mean `a_toy`\?"):
        analyze_judges([store], ["aci_bench", "a_tyo"])


def test_models_of_another_jury_or_version_are_left_out_and_named_and_stopped_runs_do_not_count(store: Path) -> None:
    table = grades(0, 8)
    add_judged_runs(store, "toy", table, models=MODELS[:2], started="2026-02-01T00:00:00+00:00")
    add_judged_runs(store, "toy", table[:2], models=MODELS[2:3], judges=JUDGES[:2])
    add_judged_runs(store, "toy", table, models=MODELS[3:], status="partial")
    add_judged_runs(store, "toy", table, models=["local/older"], benchmark_digest="0" * 64)
    add_judged_runs(store, "toy", table, models=["local/unjudged"], jury_result=None, main_metric="rouge_l")
    found = analyze_judges([store])
    assert set(found.benchmarks[0].models) == set(MODELS[:2])
    said = " ".join(texts(found.remarks))
    assert f": {MODELS[2]} (graded by " in said
    assert f"`medhelm rejudge toy --model {MODELS[2]} --judge {JUDGES[2]}` brings it in." in said
    assert "local/older on toy was judged with another version of the benchmark" in said


def test_stores_without_finished_judged_runs_are_an_error(store: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store at"):
        analyze_judges([tmp_path / "nowhere"])
    add_judged_runs(store, "toy", grades(0, 8), status="partial")
    add_judged_runs(store, "toy", grades(0, 8), jury_result=None, main_metric="rouge_l")
    with pytest.raises(UserError, match="no finished run with judges"):
        analyze_judges([store])


def test_by_the_published_rule_grades_are_whole_and_one_judge_is_enough(store: Path) -> None:
    table = np.clip(grades(0, 10) - 0.5, 1, 5)
    table[:2, :, 0] = np.nan
    add_judged_runs(store, "toy", table)
    corrected, published = (
        panel_values(present(analyze_judges([store], options=BoardOptions(rule=rule)).benchmarks[0].ranking).panels[0])
        for rule in RULES
    )
    by_completion = np.nanmean(np.trunc(table), axis=(0, 3)).mean(axis=1)
    assert published == pytest.approx(dict(zip(MODELS, by_completion, strict=True)))
    judged_by_two = table[:, :, 1:].mean(axis=(0, 2, 3))
    assert corrected == pytest.approx(dict(zip(MODELS, judged_by_two, strict=True)))


POINTS = f"""\
{DEFINITION.partition("rubric:")[0].replace("[jury, rouge_l]", "[jury]")}\
rubric:
  form: points
  task: You see a question and an answer. Say whether the criterion is met.
  reference: false
  criteria_column: criteria
"""
EARNS = {"It names the number.": 6, "It is kind.": 2, "It does harm.": -4}
MODELS_OF_POINTS, JURY_OF_POINTS = ("good", "bad"), ("judge-1", "judge-2", "judge-3")
FAILED = {("judge-3", "good", 5), ("judge-2", "bad", 6), ("judge-3", "bad", 6)}
QUESTIONS = range(8)


def asked_of(question: int) -> list[str]:
    """The criteria of a question: they differ, in number and in order."""
    names_it, kind, harm = EARNS
    return [harm, names_it, kind] if question % 2 else [names_it, kind]


def met(judge: str, model: str, question: int, criterion: str) -> bool | None:
    """What a judge says of a model, None if it fails: the first one finds all answers kind."""
    if (judge, model, question) in FAILED:
        return None
    names_it, kind, _ = EARNS
    return {names_it: question % 3 > 0, kind: judge == "judge-1"}.get(criterion, model == "bad")


def share(judge: str, model: str, question: int) -> float:
    """Points earned over those that can be earned, below 0 if harm prevails; nan where the judge failed."""
    earned = [EARNS[one] * (met(judge, model, question, one) or 0) for one in asked_of(question)]
    return np.nan if (judge, model, question) in FAILED else sum(earned) / 8


def points_court(body: Mapping[str, Any]) -> Answer:
    """Models sign their answers; judges go by the signature."""
    if not is_judge(body):
        return chat(f"by-{body['model']}")
    text = body["messages"][0]["content"]
    model = next(name for name in MODELS_OF_POINTS if f"by-{name}" in text)
    said = met(body["model"], model, number(body), next(criterion for criterion in EARNS if criterion in text))
    return chat("I cannot tell." if said is None else json.dumps({"criteria_met": said, "explanation": "Because."}))


@pytest.mark.parametrize("rule", RULES)
def test_judges_of_points_are_compared_by_the_points_they_give(
    store: Path, tmp_path: Path, server: Server, rule: Rule
) -> None:
    with (write_benchmark(tmp_path, definition=POINTS) / "rows.jsonl").open("w", encoding="utf-8") as file:
        for n in QUESTIONS:
            criteria = [{"criterion": text, "points": EARNS[text]} for text in asked_of(n)]
            row = {"id": f"q{n}", "question": f"number {n}?", "reply": str(n), "criteria": criteria}
            file.write(json.dumps(row) + "\n")
    benchmarks = load_benchmarks([str(tmp_path / "letters")], metrics=METRIC_NAMES)
    server.answer_with(points_court)
    judges = Jury(judges=tuple(replace(mock(server, name), name=name) for name in JURY_OF_POINTS))
    models = [replace(mock(server, name), name=name) for name in MODELS_OF_POINTS]
    runs = evaluate(benchmarks, models, store=store, jury=judges).runs

    options = BoardOptions(rule=rule)
    (own,) = analyze_judges([store], options=options, families={"judge-1": "Ours", "bad": "Ours"}).benchmarks
    assert (own.form, own.low, own.high, [part.on for part in own.agreement]) == ("points", 0, 1, ["met", "score"])
    shares = np.array([[[share(j, m, n) for n in QUESTIONS] for m in MODELS_OF_POINTS] for j in JURY_OF_POINTS])
    jury = np.where((~np.isnan(shares)).sum(axis=0) < 2, np.nan, np.nanmean(shares, axis=0))
    panels = {panel.name: panel_values(panel) for panel in present(own.ranking).panels}
    named = {"all judges": jury} | {f"{name} alone": table for name, table in zip(JURY_OF_POINTS, shares, strict=True)}
    for name, table in named.items():
        assert panels[name] == pytest.approx(dict(zip(MODELS_OF_POINTS, np.nanmean(table, axis=1), strict=True)))
    stored = {run.model: run.estimates["corrected"]["jury"].value for run in runs}
    assert stored == pytest.approx(panels["all judges"])
    assert present(own.worst).value == pytest.approx((shares <= 0).sum() / (~np.isnan(shares)).sum())


@pytest.mark.parametrize("turned", [(), ("accuracy",)])
def test_the_leaderboard_warns_of_the_same_benchmarks(store: Path, turned: tuple[str, ...]) -> None:
    chance = np.random.default_rng(1).integers(1, 6, grades(0, 40).shape).astype(float)
    chance[0, 0, 3, 0] = np.nan
    add_judged_runs(store, "guessed", chance, lower_is_better=turned)
    add_judged_runs(store, "judged", grades(0, 40), lower_is_better=turned)
    add_judged_runs(store, "by_one", grades(0, 40)[:1], judges=JUDGES[:1])
    verdict = leaderboard(store).verdict
    (warning,) = [one for one in verdict if "better than chance" in one]
    found = {own.benchmark: own.one_judge for own in analyze_judges([store]).benchmarks}
    assert f": {present(present(found['guessed']).value):.2f}, where 1 is perfect agreement" in warning
    assert warning.startswith("Do not use the ranking on Guessed: the judges are not shown to agree better than chance")
    assert verdict[0] == warning
    agreement = read_inputs([store]).judge_agreement
    assert set(agreement) == {"guessed", "judged"}, "a single judge is no reason for a warning"
    for name, one in agreement.items():
        own = present(found[name])
        assert [present(one).one_judge.value, present(one).one_judge.low] == pytest.approx([own.value, own.low])

"""What HELM's judges said: of three versions of its files, and of annotations that hold anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medhelm.extensions.exchange.helm.reader import DROPPED, read_jury
from tests.support.exchange.helm import change, content, copy_of, read, run_folder


def test_judges_go_by_the_models_behind_their_short_names() -> None:
    jury = read(run_folder("medication_qa"))
    assert [judge.name for judge in jury.judges] == ["mock/judge1", "mock/judge2", "mock/judge3"]
    assert (jury.judges[0].provider, jury.judges[0].remote_name) == ("mock", "judge1")
    assert jury.unjudged_score == 1.0
    assert jury.judge_prompt == ""


def test_judges_defined_in_helms_code_are_known() -> None:
    jury = read(run_folder("medication_qa", "0.5.6"))
    assert [judge.name for judge in jury.judges] == [
        "openai/gpt-4o-2024-05-13",
        "meta/llama-3.3-70b-instruct",
        "anthropic/claude-3-7-sonnet-20250219",
    ]
    assert jury.unjudged_score is None


def test_a_benchmark_of_ones_own_keeps_its_judges_prompt() -> None:
    run = read(run_folder("LETTERS:model=mock_writer-a"))
    assert "{RESPONSE}" in run.judge_prompt
    assert run.unjudged_score == 0.0


@pytest.mark.parametrize("start", ["LETTERS:model=mock_writer-a", "LETTERS:model=mock_writer-b", "medication_qa"])
def test_the_mean_of_all_whole_grades_is_helms_score(start: str) -> None:
    folder = run_folder(start)
    run = read(folder)
    metric = next(iter(run.scores))
    for one in run.instances:
        grades = [int(cell.score) for cell in run.judgments.get(one.id, ()) if cell.score is not None]
        expected = sum(grades) / len(grades) if grades else run.unjudged_score
        assert run.scores[metric][one.id] == pytest.approx(expected, abs=1e-12)


def test_every_judge_has_a_judgment_on_every_criterion() -> None:
    folder = run_folder("LETTERS:model=mock_writer-a")
    run = read(folder)
    states = content(folder, "scenario_state.json")["request_states"]
    n_dropped = 0
    for one, state in zip(run.instances, states, strict=True):
        annotation = state["annotations"]["LETTERS"]
        cells = run.judgments.get(one.id, ())
        if annotation["prompt_text"] is None:
            assert cells == ()
            continue
        for judge in run.judges:
            own = {cell.criterion: cell for cell in cells if cell.judge == judge.name}
            assert set(own) >= {"accuracy", "completeness", "clarity"}
            if judge.name in annotation:
                kept = annotation[judge.name]
                assert {name: float(cell["score"]) for name, cell in kept.items()} == {
                    name: cell.score for name, cell in own.items()
                }
                assert own["accuracy"].explanation == kept["accuracy"]["explanation"]
            else:
                n_dropped += 1
                assert {cell.failure.code for cell in own.values() if cell.failure} == {DROPPED}
    assert n_dropped == 5


def test_two_deployments_of_a_judge_have_different_names() -> None:
    models = {one: {"model_name": "m/j", "model_deployment": f"{one}/j"} for one in ("a", "b")}
    spec = {
        "metric_specs": [
            {"class_name": "x.LLMJuryMetric", "args": {"scenario_name": "s", "annotator_models": models}},
        ]
    }
    verdict = {"accuracy": {"score": 4, "explanation": "fine"}}
    asked = [("i", {"annotations": {"s": {"prompt_text": "p", "a": verdict, "b": verdict}}})]
    jury = read_jury(spec, asked)
    assert [judge.name for judge in jury.judges] == ["m/j@a/j", "m/j@b/j"]
    assert [judge.remote_name for judge in jury.judges] == ["j", "j"]


@pytest.mark.parametrize(
    "annotation",
    [None, [], "text", {"prompt_text": "p"}, {"prompt_text": "p", "gpt": None}, {"prompt_text": "p", "gpt": ["x"]}],
)
def test_annotations_without_verdicts_give_no_judges(annotation: Any) -> None:
    assert read_jury({}, [("i", {"annotations": {"s": annotation}})]).judges == ()


@pytest.mark.parametrize("score", [None, "4/5", [4], {}, "four", "nan", float("inf")])
def test_a_score_that_is_not_a_number_is_a_failure(score: object) -> None:
    verdict = {"accuracy": {"score": score, "explanation": "x"}, "clarity": {"score": "3"}}
    asked = [("i", {"annotations": {"s": {"prompt_text": "p", "gpt": verdict}}})]
    cells = {cell.criterion: cell for cell in read_jury({}, asked).judgments["i"]}
    assert cells["accuracy"].score is None
    assert cells["accuracy"].failure is not None
    assert cells["accuracy"].failure.code == "not_a_grade"
    assert (cells["clarity"].score, cells["clarity"].failure) == (3.0, None)


def test_a_jury_whose_annotations_were_taken_away_is_still_named(tmp_path: Path) -> None:
    folder = copy_of("medication_qa", tmp_path)

    def strip(state: Any) -> None:
        for one in state["request_states"]:
            del one["annotations"]

    change(folder, "scenario_state.json", strip)
    run = read(folder)
    assert [judge.name for judge in run.judges] == ["mock/judge1", "mock/judge2", "mock/judge3"]
    assert run.judgments == {}


def test_instances_without_annotations_are_counted(tmp_path: Path) -> None:
    folder = copy_of("medication_qa", tmp_path)
    change(folder, "scenario_state.json", lambda state: state["request_states"][1].pop("annotations") and None)
    assert any("1 instances are not annotated" in text for text in read(folder).remarks)

"""What HELM's judges said, and what becomes of annotations without a grade."""

from __future__ import annotations

import pytest

from medhelm.extensions.exchange.helm.reader import DROPPED, read_jury
from tests.support.exchange.helm import content, read, run_folder


def test_judges_defined_in_helms_code_are_known() -> None:
    jury = read(run_folder("medication_qa", "0.5.6"))
    names = ["openai/gpt-4o-2024-05-13", "meta/llama-3.3-70b-instruct", "anthropic/claude-3-7-sonnet-20250219"]
    assert [judge.name for judge in jury.judges] == names
    assert jury.unjudged_score is None


def test_a_judge_that_said_nothing_has_failed_judgments_on_every_criterion() -> None:
    folder = run_folder("LETTERS:model=mock_writer-a")
    run = read(folder)
    assert "{RESPONSE}" in run.judge_prompt
    assert run.unjudged_score == 0.0
    n_dropped = 0
    for one, state in zip(run.instances, content(folder, "scenario_state.json")["request_states"], strict=True):
        annotation = state["annotations"]["LETTERS"]
        grades = [int(cell.score) for cell in run.judgments.get(one.id, ()) if cell.score is not None]
        assert run.scores["jury_score"][one.id] == pytest.approx(sum(grades) / max(len(grades), 1), abs=1e-12)
        for judge in run.judges if annotation["prompt_text"] is not None else ():
            cells = {cell.criterion: cell for cell in run.judgments[one.id] if cell.judge == judge.name}
            assert set(cells) >= {"accuracy", "completeness", "clarity"}
            if judge.name in annotation:
                said = {
                    name: (float(grade["score"]), grade["explanation"])
                    for name, grade in annotation[judge.name].items()
                }
                assert said == {name: (cell.score, cell.explanation) for name, cell in cells.items()}
            else:
                n_dropped += 1
                assert {cell.failure.code for cell in cells.values() if cell.failure} == {DROPPED}
    assert n_dropped == 5


def test_two_deployments_of_a_judge_have_different_names() -> None:
    models = {one: {"model_name": "m/j", "model_deployment": f"{one}/j"} for one in ("a", "b")}
    arguments = {"scenario_name": "s", "annotator_models": models}
    verdict = {"accuracy": {"score": 4, "explanation": "fine"}}
    asked = [("i", {"annotations": {"s": {"prompt_text": "p", "a": verdict, "b": verdict}}})]
    jury = read_jury({"metric_specs": [{"class_name": "x.LLMJuryMetric", "args": arguments}]}, asked)
    assert [judge.name for judge in jury.judges] == ["m/j@a/j", "m/j@b/j"]


@pytest.mark.parametrize(
    "annotation", [None, [], {"prompt_text": "p", "gpt": None}, {"prompt_text": "p", "gpt": ["x"]}]
)
def test_annotations_without_verdicts_give_no_judges(annotation: object) -> None:
    verdict = {"prompt_text": "p", "gpt": {"accuracy": {"score": 4}}}
    assert read_jury({}, [("i", {"annotations": {"s": annotation}})]).judges == ()
    jury = read_jury(
        {}, [("i", {"annotations": {"t": {}, "s": verdict}}), ("j", {"annotations": {"s": annotation}}), ("k", {})]
    )
    assert list(jury.judgments) == (["i", "j"] if isinstance(annotation, dict) else ["i"])
    assert jury.issues == {"1 instances are not annotated": 1}


@pytest.mark.parametrize("score", [None, "4/5", [4], "nan"])
def test_a_score_that_is_not_a_number_is_a_failure(score: object) -> None:
    verdict = {"accuracy": {"score": score, "explanation": "x"}, "clarity": {"score": "3"}}
    asked = [("i", {"annotations": {"s": {"prompt_text": "p", "gpt": verdict}}})]
    cells = {cell.criterion: cell for cell in read_jury({}, asked).judgments["i"]}
    assert cells["accuracy"].score is None
    assert cells["accuracy"].failure is not None
    assert cells["accuracy"].failure.code == "not_a_grade"
    assert (cells["clarity"].score, cells["clarity"].failure) == (3.0, None)

"""Metrics on instances that were read from the files of another harness."""

from __future__ import annotations

import pytest

from medhelm.domain import Completion, Instance, Message, Reference
from medhelm.errors import DataError, NotComputed
from medhelm.scoring.metric import apply, is_unreadable
from medhelm.scoring.metrics import METRICS
from medhelm.scoring.metrics.imported import as_choice_question, imported_metric, needed_columns, on_imported_instances
from tests.support.cases import table

BARE = Instance(id="1", fields={"input": "x"}, references=(Reference("22.9"),))


def test_a_metric_whose_columns_are_missing_is_not_computed_and_the_others_are_unchanged() -> None:
    for name, built_in in METRICS.items():
        metric = on_imported_instances(built_in, "helm")
        if not needed_columns(name):
            assert metric is built_in
            continue
        for score in apply([metric], BARE, Completion(text="22.9")):
            assert score.failure is not None
            assert score.failure.code == "not_computed"
            assert "--data" in score.failure.message
        if metric.parts:
            with pytest.raises(NotComputed):
                metric.parts("22.9", BARE, "corrected")


LETTERED = "Which drug irreversibly inhibits COX?\nA. Warfarin\nB. Aspirin\nC. Heparin\nAnswer:"
EXAMPLES_FIRST = f"Which?\nA. One\nB. Two\nC. Three\nD. Four\nAnswer: A\n\n{LETTERED}"
INLINE = "Which drug inhibits COX? (A) Warfarin (B) Aspirin (C) Heparin"
BULLETS = "Choose.\n- (A) Warfarin\n- (B) Aspirin\n- (C) Heparin"


def asked(target: str, prompt: str = "How much?", *more: str) -> Instance:
    references = tuple(map(Reference, (target, *more)))
    return Instance(id="1", fields={"input": prompt}, references=references, turns=(Message("user", prompt),))


@table(
    ("name", "instance", "right", "wrong"),
    [
        ("match", asked("B", INLINE), "The answer is (B).", "The answer is (C)."),
        ("pattern", asked("(B)", BULLETS), "The answer is aspirin.", "The answer is heparin."),
        ("exact_match_strict-match", asked("B", EXAMPLES_FIRST), "Reasoning ...\n\nThe answer is B.", "D"),
        ("exact_match_strict-match", asked("9 * 2 = 18\n#### 1,018"), "The answer is 1018.", "The answer is 18."),
        ("match", asked("Vitamin C"), "It is vitamin C.", "Vitamin C is not given."),
        ("includes", asked("vitamin c"), "Give vitamin C daily.", "Give vitamin CD daily."),
        ("answer", asked("the liver"), "The spleen is red.\nANSWER: the liver", "The liver."),
    ],
)
def test_the_target_is_compared_as_our_own_metrics_do(name: str, instance: Instance, right: str, wrong: str) -> None:
    metric = imported_metric(name, "inspect")
    assert metric.corrected(right, instance) == 1.0
    if name == "match" and instance.correct == ("Vitamin C",):
        return  # Inspect's scorer looks at the beginning or at the end, by an option that logs do not hold
    assert metric.corrected(wrong, instance) == 0.0


def test_what_only_the_harness_knows_is_not_guessed() -> None:
    for name, instance in (("exact_match_custom", asked("metformin")), ("pattern", asked("metformin"))):
        with pytest.raises(NotComputed, match="only the harness that made the run knows which"):
            imported_metric(name, "lm_eval").corrected("It is metformin.", instance)
    for name in ("model_graded_qa", "acc_norm", "f1", "choice_max", "bleu"):
        with pytest.raises(NotComputed, match="can only be computed by the harness"):
            imported_metric(name, "inspect").corrected("B", asked("B", LETTERED))
    with pytest.raises(NotComputed):
        imported_metric("choice", "helm").corrected("B", asked("B", LETTERED))


def test_the_published_score_is_in_the_files_or_nowhere() -> None:
    with pytest.raises(DataError, match="no score"):
        imported_metric("choice", "inspect").function("published")("B", asked("B", LETTERED))


@pytest.mark.parametrize("prompt", [LETTERED, EXAMPLES_FIRST, INLINE, BULLETS])
def test_options_are_those_that_the_prompt_shows_last(prompt: str) -> None:
    found = as_choice_question(asked("B", prompt))
    assert (found.choices, found.labels, found.correct) == (
        ("Warfarin", "Aspirin", "Heparin"), ("A", "B", "C"), ("Aspirin",)
    )  # fmt: skip


@pytest.mark.parametrize("target", ["metformin", "18", "B cells", ""])
def test_other_targets_are_no_choice(target: str) -> None:
    assert as_choice_question(asked(target, LETTERED)).choices == ()
    assert as_choice_question(asked("A", LETTERED, "B")).choices == ()


def test_a_completion_that_names_no_answer_is_unreadable() -> None:
    metric = imported_metric("exact_match_strict-match", "lm_eval")
    prose = Completion(text="More tests would help.")
    assert is_unreadable(metric, asked("B", LETTERED), prose) is True
    assert is_unreadable(metric, asked("18"), prose) is True
    assert is_unreadable(metric, asked("metformin"), prose) is False

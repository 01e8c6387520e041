"""Abstention: to decline is right where the key says so, and wrong elsewhere."""

from __future__ import annotations

from medhelm.domain import Instance, Reference
from medhelm.scoring.metrics.abstention import ABSTENTION
from tests.support.benchmarks.library import hook, sample_tier
from tests.support.cases import table

(FALSE_PREMISE, *_) = sample_tier("adversemed_500")
SOUND = Instance(
    id="control",
    fields={},
    references=(Reference("25 mg", False), Reference("50 mg", True), Reference("Cannot be answered", False)),
    choices=("25 mg", "50 mg", "Cannot be answered"),
    labels=("A", "B", "C"),
)
OPEN = Instance(id="open", fields={}, references=(Reference("Cannot be answered", True),))


@table(
    "completion, instance, score",
    [
        ("E", FALSE_PREMISE, 1),
        ("E. Cannot be answered", FALSE_PREMISE, 1),
        ("**Cannot be answered**\nConfidence: 95%", FALSE_PREMISE, 1),
        ("ANSWER: FLAG\nCONFIDENCE: 0.98", FALSE_PREMISE, 1),
        ("None of these doses is appropriate after anaphylaxis.", FALSE_PREMISE, 1),
        ("A", FALSE_PREMISE, 0),
        ("A. 500 mg twice daily, although he had anaphylaxis.", FALSE_PREMISE, 0),
        ("", FALSE_PREMISE, 0),
        ("B", SOUND, 1),
        ("The answer is B. None of the other options is usual.", SOUND, 1),
        ("A", SOUND, 0),
        ("C", SOUND, 0),
        ("Cannot be answered", SOUND, 0),
        ("I cannot determine the dose from this.", OPEN, 1),
        ("50 mg", OPEN, 0),
    ],
)
def test_scores(completion: str, instance: Instance, score: float) -> None:
    assert ABSTENTION.corrected(completion, instance) == score


def test_the_published_rule_takes_the_letter_alone() -> None:
    rate = ABSTENTION.function("published")
    assert [rate(text, FALSE_PREMISE) for text in ("E", "E.", "Cannot be answered")] == [1, 0, 0]


def test_control_questions_of_the_authors_keep_their_answer_and_their_cluster() -> None:
    control = {
        "question_id": "adversemed_ctrl_001", "parent_id": "adversemed_001", "question": "Which dose?",
        "choices": dict(zip("ABCD", ("1 mg", "2 mg", "3 mg", "4 mg"), strict=True)), "ground_truth": "C",
        "false_premise_category": "contraindication", "difficulty": "obvious",
    }  # fmt: skip
    (row,) = hook("adversemed_500", [control])
    assert (row["answer"], row["parent"], row["option_c"]) == ("C", "adversemed_001", "3 mg")

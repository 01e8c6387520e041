"""Matching metrics: the published rule against the reference implementation, the corrected one against its promises."""

from __future__ import annotations

import pytest

from medhelm.domain import Instance, Reference
from medhelm.errors import DataError
from medhelm.scoring.metrics import METRICS
from tests.support.benchmarks.questions import choice, open_question
from tests.support.cases import table

MATCHING = ("exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match")

# Reference, completion, and what HELM 0.5.16 gives for the four metrics, in the order of MATCHING.
OPEN = [
    ("yes", "yes", "1111"),
    ("yes", "Yes", "0101"),
    ("yes", "yes, because", "0011"),
    ("yes", "yesterday", "0011"),
    ("yes", "", "0000"),
    ("0", "0", "1111"),
    ("3.5", "35", "0101"),
    ("-6", "\u22126", "0000"),
    ("hepatitis A", "hepatitis B", "0001"),
    ("kidney", "a kidney, the left", "0001"),
    (".", "!", "0101"),
    ("Straße", "strasse", "0000"),
    ("yes", "\u200byes", "0000"),
    ("x", "<think>y</think>x", "0000"),
]

# Options, position of the right one, completion, and what HELM 0.5.16 gives, with letters as labels.
CHOICES = [
    (("yes", "no", "maybe"), 0, "A", "1111"),
    (("yes", "no", "maybe"), 0, "A.", "0000"),
    (("yes", "no", "maybe"), 0, "A. yes", "0000"),
    (("yes", "no", "maybe"), 0, "yes", "0000"),
    (("yes", "no", "maybe"), 0, "\xa0A", "1111"),
    (("A", "B"), 0, "B", "0001"),
    (("A", "B"), 1, "B", "1111"),
    (("No change", "No", "no."), 1, "A", "0011"),
    (("No change", "No", "no."), 1, "B", "1111"),
    (("Not applicable", "fever", "Not applicable"), 2, "C", "1111"),
    (("The kidney", "kidney", "liver"), 1, "A", "0101"),
]


def published(reply: str, instance: Instance) -> str:
    return "".join(str(int(METRICS[name].function("published")(reply, instance))) for name in MATCHING)


def corrected(reply: str, instance: Instance) -> str:
    return "".join(str(int(METRICS[name].corrected(reply, instance))) for name in MATCHING)


@table(("reference", "reply", "scores"), OPEN)
def test_published_scores_of_open_questions(reference: str, reply: str, scores: str) -> None:
    assert published(reply, open_question(reference)) == scores


@table(("texts", "right", "reply", "scores"), CHOICES)
def test_published_scores_of_choices(texts: tuple[str, ...], right: int, reply: str, scores: str) -> None:
    assert published(reply, choice(right, *texts)) == scores


def test_the_best_right_reference_counts() -> None:
    assert published("warfarin", open_question("aspirin", "Warfarin")) == "0101"
    assert corrected("warfarin", open_question("aspirin", "Warfarin")) == "0101"


@table(
    ("reference", "reply", "scores"),
    [
        ("yes", "yes", "1111"),
        ("yes", "yes.", "1111"),
        ("yes", "🙂 yes。", "0101"),
        ("T-cell", "t cell", "0101"),
        ("-6", "−6", "0101"),
        ("Straße", "STRASSE", "0101"),
        ("HER2+", "HER2", "0000"),
        ("50%", "50", "0000"),
        ("vitamin A deficiency", "vitamin deficiency", "0000"),
        ("yes", "<think>no?</think>yes", "1111"),
        ("yes", "Yes, because", "0001"),
        ("yes", "yesterday", "0000"),
        ("1", "10", "0000"),
        ("3.5", "3.5 mg", "0011"),
        ("hepatitis A", "hepatitis", "0000"),
        ("hepatitis A", "Hepatitis a.", "0101"),
        ("<5", ">5", "0000"),
        (".", ".", "1111"),
    ],
)
def test_corrected_scores_of_open_questions(reference: str, reply: str, scores: str) -> None:
    assert corrected(reply, open_question(reference)) == scores


@table(
    ("texts", "right", "reply", "value"),
    [
        (("yes", "no", "maybe"), 0, "**(A)** yes", 1),
        (("yes", "no", "maybe"), 0, "The answer is A", 1),
        (("yes", "no", "maybe"), 0, "A or B", 0),
        (("No change", "No", "no."), 1, "A", 0),
        (("No change", "No", "no."), 1, "C", 0),
        (("The kidney", "kidney", "liver"), 1, "A", 0),
    ],
)
def test_corrected_scores_of_choices(texts: tuple[str, ...], right: int, reply: str, value: int) -> None:
    """Right or wrong, the four metrics agree."""
    assert corrected(reply, choice(right, *texts)) == str(value) * 4


@table(("reply", "published", "corrected"), [("A", 1, 1), (" B\n", 1, 1), ("The answer is C", 0, 1), ("A or B", 0, 0)])
def test_choice_extracted_asks_for_an_option_right_or_wrong(reply: str, published: int, corrected: int) -> None:
    metric, instance = METRICS["choice_extracted"], choice(1, "yes", "no", "maybe")
    assert (metric.function("published")(reply, instance), metric.corrected(reply, instance)) == (published, corrected)


@pytest.mark.parametrize("rule", ["published", "corrected"])
@pytest.mark.parametrize("name", [*MATCHING, "choice_extracted"])
def test_each_option_needs_a_label(name: str, rule: str) -> None:
    references = (Reference("yes"), Reference("no", correct=False))
    instance = Instance(id="1", fields={}, references=references, choices=("yes", "no"), labels=("A",))
    with pytest.raises(DataError, match="2 options but 1 label"):
        getattr(METRICS[name], rule)("yes", instance)


@pytest.mark.parametrize("rule", ["published", "corrected"])
def test_open_questions_have_no_option_to_name(rule: str) -> None:
    with pytest.raises(DataError, match="has no options"):
        getattr(METRICS["choice_extracted"], rule)("yes", open_question("yes"))

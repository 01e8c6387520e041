"""Matching metrics: the published rule against the reference implementation, the corrected one against its promises."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase

import pytest

from medhelm.domain import Instance, Reference
from medhelm.errors import DataError
from medhelm.scoring.metrics import METRICS
from tests.support.cases import table

MATCHING = ("exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match")

# Reference, completion, and what HELM 0.5.16 gives for the four metrics, in the order of MATCHING.
OPEN = [
    ("yes", "yes", "1111"),
    ("yes", " yes\n", "1111"),
    ("yes", "Yes", "0101"),
    ("yes", "yes.", "0111"),
    ("yes", "**yes**", "0101"),
    ("yes", "yes, because", "0011"),
    ("yes", "yesterday", "0011"),
    ("yes", "", "0000"),
    ("yes", "   ", "0000"),
    (" yes ", "yes", "1111"),
    ("0", "0", "1111"),
    ("0", "Answer: 0", "0000"),
    ("1", "10", "0011"),
    ("1", "1\n\nThe answer", "0011"),
    ("3.5", "35", "0101"),
    ("3.5", "3,5", "0101"),
    ("-6", "6", "0101"),
    ("-6", "\u22126", "0000"),
    ("hepatitis A", "hepatitis", "0101"),
    ("hepatitis A", "hepatitis B", "0001"),
    ("the kidney", "kidney", "0101"),
    ("kidney", "a kidney, the left", "0001"),
    (".", "!", "0101"),
    ("T-cell", "T cell", "0000"),
    ("Straße", "strasse", "0000"),
    ("İstanbul", "istanbul", "0000"),
    ("Σ", "σ", "0101"),
    ("café", "cafe\u0301", "0000"),
    ("yes", "\xa0yes\u2003", "1111"),
    ("yes", "\u200byes", "0000"),
    ("a b", "a  b", "0101"),
    ("well known", "well_known", "0000"),
    ("Metformin 500 mg", "metformin 500mg", "0000"),
    ("<5", "5", "0101"),
    ("CORRECT", "CORRECT.", "0111"),
    ("x", "<think>y</think>x", "0000"),
]

# Options, position of the right one, completion, and what HELM 0.5.16 gives, with letters as labels.
CHOICES = [
    (("yes", "no", "maybe"), 0, "A", "1111"),
    (("yes", "no", "maybe"), 0, " A\n", "1111"),
    (("yes", "no", "maybe"), 0, "A.", "0000"),
    (("yes", "no", "maybe"), 0, "(A)", "0000"),
    (("yes", "no", "maybe"), 0, "A. yes", "0000"),
    (("yes", "no", "maybe"), 0, "yes", "0000"),
    (("yes", "no", "maybe"), 0, "D", "0000"),
    (("yes", "no", "maybe"), 0, "Ａ", "0000"),
    (("yes", "no", "maybe"), 0, "\xa0A", "1111"),
    (("A", "B"), 0, "A", "1111"),
    (("A", "B"), 0, "B", "0001"),
    (("A", "B"), 0, "a", "0000"),
    (("A", "B"), 1, "B", "1111"),
    (("No change", "No", "no."), 1, "A", "0011"),
    (("No change", "No", "no."), 1, "B", "1111"),
    (("No change", "No", "no."), 1, "C", "0101"),
    (("Not applicable", "fever", "Not applicable"), 2, "A", "1111"),
    (("Not applicable", "fever", "Not applicable"), 2, "C", "1111"),
    (("The kidney", "kidney", "liver"), 1, "A", "0101"),
    (("The kidney", "kidney", "liver"), 1, "B", "1111"),
]


def open_question(*references: str) -> Instance:
    return Instance(id="1", fields={}, references=tuple(Reference(text) for text in references))


def choice(texts: Sequence[str], right: int, labels: Sequence[str] = ascii_uppercase) -> Instance:
    return Instance(
        id="1",
        fields={},
        references=tuple(Reference(text, n == right) for n, text in enumerate(texts)),
        choices=tuple(texts),
        labels=tuple(labels[: len(texts)]),
    )


def published(reply: str, instance: Instance) -> str:
    return "".join(str(int(METRICS[name].function("published")(reply, instance))) for name in MATCHING)


def corrected(reply: str, instance: Instance) -> str:
    return "".join(str(int(METRICS[name].corrected(reply, instance))) for name in MATCHING)


@table(("reference", "reply", "scores"), OPEN)
def test_published_scores_of_open_questions(reference: str, reply: str, scores: str) -> None:
    assert published(reply, open_question(reference)) == scores


@table(("texts", "right", "reply", "scores"), CHOICES)
def test_published_scores_of_choices(texts: tuple[str, ...], right: int, reply: str, scores: str) -> None:
    assert published(reply, choice(texts, right)) == scores


def test_published_scores_of_options_named_by_their_texts() -> None:
    """The completion itself is compared, so prefixes of it count."""
    judgment = choice(("0", "1"), 1, ("0", "1"))
    assert published("1", judgment) == "1111"
    assert published("1.", judgment) == "0111"
    assert published("10", judgment) == "0011"
    assert published("Answer: 1", judgment) == "0000"


def test_the_best_right_reference_counts() -> None:
    assert published("warfarin", open_question("aspirin", "Warfarin")) == "0101"
    assert corrected("warfarin", open_question("aspirin", "Warfarin")) == "0101"


@table(
    ("reference", "reply", "scores"),
    [
        ("yes", "yes", "1111"),
        ("yes", "yes.", "1111"),
        ("yes", '"yes"', "1111"),
        ("yes", "yes。", "0111"),
        ("yes", "<think>no?</think>yes", "1111"),
        ("yes", "Yes, because", "0001"),
        ("yes", "yes, because", "0011"),
        ("yes", "yesterday", "0000"),
        ("1", "10", "0000"),
        ("1", "1, because", "0011"),
        ("3.5", "35", "0000"),
        ("3.5", "3.5 mg", "0011"),
        ("-6", "6", "0000"),
        ("hepatitis A", "hepatitis", "0000"),
        ("hepatitis A", "Hepatitis a.", "0101"),
        ("kidney", "a kidney, the left", "0001"),
        ("the", ".", "0000"),
        ("<5", ">5", "0000"),
        (".", ".", "1111"),
    ],
)
def test_corrected_scores_of_open_questions(reference: str, reply: str, scores: str) -> None:
    assert corrected(reply, open_question(reference)) == scores


@table(
    ("texts", "right", "reply", "value"),
    [
        (("yes", "no", "maybe"), 0, "A", 1),
        (("yes", "no", "maybe"), 0, "**(A)** yes", 1),
        (("yes", "no", "maybe"), 0, "The answer is A", 1),
        (("yes", "no", "maybe"), 0, "Yes", 1),
        (("yes", "no", "maybe"), 0, "A or B", 0),
        (("A", "B"), 0, "B", 0),
        (("No change", "No", "no."), 1, "A", 0),
        (("No change", "No", "no."), 1, "C", 0),
        (("Not applicable", "fever", "Not applicable"), 2, "A", 1),
        (("The kidney", "kidney", "liver"), 1, "A", 0),
    ],
)
def test_corrected_scores_of_choices(texts: tuple[str, ...], right: int, reply: str, value: int) -> None:
    """Right or wrong, the four metrics agree."""
    assert corrected(reply, choice(texts, right)) == str(value) * 4


@pytest.mark.parametrize(
    ("reply", "value"),
    [("1", 1), ("1.", 1), ("Judgment: 1", 1), ("1 (hallucinated)", 1), ("0", 0), ("10", 0), ("0 or 1", 0)],
)
def test_corrected_scores_of_options_named_by_their_texts(reply: str, value: int) -> None:
    assert corrected(reply, choice(("0", "1"), 1, ("0", "1"))) == str(value) * 4


@pytest.mark.parametrize(
    ("reply", "by_published", "by_corrected"),
    [("A", 1, 1), (" B\n", 1, 1), ("B.", 0, 1), ("The answer is C", 0, 1), ("yes", 0, 1), ("A or B", 0, 0), ("", 0, 0)],
)
def test_choice_extracted_asks_for_an_option_right_or_wrong(reply: str, by_published: int, by_corrected: int) -> None:
    metric = METRICS["choice_extracted"]
    instance = choice(("yes", "no", "maybe"), 1)
    assert (metric.function("published")(reply, instance), metric.corrected(reply, instance)) == (
        by_published,
        by_corrected,
    )


@pytest.mark.parametrize("rule", ["published", "corrected"])
@pytest.mark.parametrize("name", MATCHING)
def test_an_instance_without_a_right_reference_cannot_be_scored(name: str, rule: str) -> None:
    for references in ((), (Reference("yes", correct=False),)):
        with pytest.raises(DataError, match="no reference is marked as correct"):
            getattr(METRICS[name], rule)("yes", Instance(id="1", fields={}, references=references))


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

"""MEDEC: the published rule against the reference implementation, the corrected one against replies as models write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.domain import Instance, Rule
from medhelm.errors import DataError
from medhelm.scoring.answers.note_error import ErrorJudgment, read_error_judgment
from medhelm.scoring.metrics import METRICS
from tests.support.benchmarks.questions import open_question
from tests.support.cases import table

FLAG, SENTENCE = METRICS["medec_flag_accuracy"], METRICS["medec_sentence_accuracy"]


SOUND, WRONG = open_question("CORRECT"), open_question("5 Heparin is stopped.")

# Reply, and what HELM gives: flag and sentence of a note without an error, then of one with an error in sentence 5.
PUBLISHED = [
    ("CORRECT", "1100"),
    ("CORRECT.", "0010"),
    ("**CORRECT**", "0010"),
    ("", "0010"),
    ("error", "0010"),
    ("5 Heparin is stopped.", "0010"),
]


@table(("reply", "scores"), PUBLISHED)
def test_published_scores(reply: str, scores: str) -> None:
    found = [metric.function("published")(reply, one) for one in (SOUND, WRONG) for metric in (FLAG, SENTENCE)]
    assert "".join(str(int(value)) for value in found) == scores


SAYS_FINE = [
    "CORRECT",
    "<think>Sentence 3 is wrong? No.</think>CORRECT",
    "1. The history fits.\n2. So does the treatment.\nAnswer: CORRECT",
]
SAYS_FIVE = [
    "5 - Heparin is stopped.",
    "[5] Heparin is stopped.",
    "**5** Heparin is stopped.",
    "5 The text is correct with heparin stopped.",
    "Sentence ID: 5\nCorrected: Heparin is stopped.",
    '{"sentence_id": 5, "correction": "Heparin is stopped."}',
    "Error in sentence 5: heparin must be stopped.",
    "5 Heparin is stopped.\n\nExplanation:\n1. The platelets fall.\n2. Heparin causes it.",
    "<think>CORRECT?</think>5 Heparin is stopped.",
]
SAYS_NOTHING = [
    "",
    "I cannot help with that.",
    "Heparin is stopped.",
    "0 She is 54 years old.\n1 She takes heparin.\n2 Her platelets fall.",
    "<think>5 Heparin is",
    "The text contains an error, but the text is correct.",
]


@table(
    ("reply", "judgment", "scores"),
    [
        *((reply, ErrorJudgment(False), "1100") for reply in SAYS_FINE),
        *((reply, ErrorJudgment(True, 5), "0011") for reply in SAYS_FIVE),
        *((reply, ErrorJudgment(None), "0000") for reply in SAYS_NOTHING),
    ],
)
def test_corrected_scores(reply: str, judgment: ErrorJudgment, scores: str) -> None:
    assert read_error_judgment(reply) == judgment
    found = [metric.corrected(reply, one) for one in (SOUND, WRONG) for metric in (FLAG, SENTENCE)]
    assert "".join(str(int(value)) for value in found) == scores


@given(st.integers(0, 99), st.text(max_size=60))
def test_a_reply_in_the_form_asked_for_is_read(number: int, correction: str) -> None:
    """Whatever the sentence says, unless it goes on with the next number, like the note, or announces an answer."""
    bare = "".join(sign for sign in correction if sign.isalpha() or sign == " ")
    assert read_error_judgment(f"{number} The {bare}") == ErrorJudgment(True, number)


def test_a_wrong_judgment_is_explained() -> None:
    assert FLAG.explain("CORRECT", WRONG, "corrected") == "the note has an error: sentence 5"
    assert FLAG.explain("5 Heparin", SOUND, "corrected") == "the note has no error"
    assert SENTENCE.explain("4 Aspirin", WRONG, "corrected") == "sentence 4 is named; the error is in sentence 5"
    assert "never finds the sentence of a note with an error" in SENTENCE.explain("5 Heparin", WRONG, "published")


@pytest.mark.parametrize("rule", ["published", "corrected"])
def test_a_note_without_a_usable_reference_cannot_be_scored(rule: Rule) -> None:
    nothing = Instance(id="1", fields={}, references=())
    for metric in (FLAG, SENTENCE):
        with pytest.raises(DataError, match="no reference is marked as correct"):
            metric.function(rule)("CORRECT", nothing)
        with pytest.raises(DataError, match="'Heparin' is neither CORRECT nor begins with the number"):
            metric.function(rule)("CORRECT", open_question("Heparin"))

"""MEDEC: the published rule against the reference implementation, the corrected one against replies as models write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.domain import Instance, Reference, Rule
from medhelm.errors import DataError
from medhelm.scoring.answers.note_error import ErrorJudgment, read_error_judgment
from medhelm.scoring.metrics import METRICS
from tests.support.cases import table

FLAG, SENTENCE = METRICS["medec_flag_accuracy"], METRICS["medec_sentence_accuracy"]


def note(reference: str) -> Instance:
    return Instance(id="1", fields={}, references=(Reference(reference),))


SOUND, WRONG = note("CORRECT"), note("5 Heparin is stopped.")

# Reply, and what HELM gives: flag and sentence of a note without an error, then of one with an error in sentence 5.
PUBLISHED = [
    ("CORRECT", "1100"),
    ("CORRECT.", "0010"),
    ("**CORRECT**", "0010"),
    ("The text is correct.", "0010"),
    ("", "0010"),
    ("error", "0010"),
    ("5 Heparin is stopped.", "0010"),
    ("4 Aspirin is stopped.", "0010"),
    ("-1", "0010"),
]


@table(("reply", "scores"), PUBLISHED)
def test_published_scores(reply: str, scores: str) -> None:
    found = [metric.function("published")(reply, one) for one in (SOUND, WRONG) for metric in (FLAG, SENTENCE)]
    assert "".join(str(int(value)) for value in found) == scores


def test_the_published_rule_finds_a_sentence_only_where_the_reference_is_a_number_alone() -> None:
    assert SENTENCE.function("published")("5 Heparin", note("5.")) == 1
    assert SENTENCE.function("published")("6 Heparin", note("5")) == 0
    assert SENTENCE.function("published")("9" * 5000, note("5")) == 0


SAYS_FINE = [
    "CORRECT",
    "Correct",
    '"CORRECT"',
    '{"answer": "CORRECT"}',
    "Answer: CORRECT",
    "CORRECT - all findings fit the diagnosis",
    "CORRECT\n\nExplanation: in sentence 5 the dose is as recommended.",
    "The text is correct.",
    "The clinical note is medically correct.",
    "The narrative appears to be entirely accurate.",
    "There are no medical errors in the text.",
    "<think>Sentence 3 is wrong? No.</think>CORRECT",
    "Let me check the sentences.\n0 is plausible.\n1 fits.\n\nCORRECT",
    "1. The history fits.\n2. So does the treatment.\nAnswer: CORRECT",
]
SAYS_FIVE = [
    "5 Heparin is stopped.",
    "5",
    "5.",
    "5 - Heparin is stopped.",
    "[5] Heparin is stopped.",
    "**5** Heparin is stopped.",
    "5\nHeparin is stopped.",
    "5 The text is correct with heparin stopped.",
    "Sentence 5: Heparin is stopped.",
    "Sentence ID: 5\nCorrected: Heparin is stopped.",
    '{"sentence_id": 5, "correction": "Heparin is stopped."}',
    "Answer: 5 Heparin is stopped.",
    "Error in sentence 5: heparin must be stopped.",
    "There is an error in sentence 5.",
    "Sentence 5 contains an error.",
    "Sentence 3 is correct, but sentence 5 contains an error.",
    "The text is correct except for sentence 5.",
    "Sentence 5 should read: Heparin is stopped.",
    "5 Heparin is stopped.\n\nExplanation:\n1. The platelets fall.\n2. Heparin causes it.",
    "<think>CORRECT?</think>5 Heparin is stopped.",
]
SAYS_WRONG = [
    "INCORRECT",
    "Not correct.",
    "The note is not correct.",
    "There is an error.",
    "The errors are in sentences 5 and 7.",
]
SAYS_NOTHING = [
    "",
    "I cannot help with that.",
    "Heparin is stopped.",
    "-1",
    "Sentence 5 is correct.",
    "2 errors were found",
    "0 She is 54 years old.\n1 She takes heparin.\n2 Her platelets fall.",
    "<think>5 Heparin is",
    "The text contains an error, but the text is correct.",
]


@table("reply", SAYS_FINE)
def test_a_reply_that_finds_no_error(reply: str) -> None:
    assert read_error_judgment(reply) == ErrorJudgment(False)


@table("reply", SAYS_FIVE)
def test_a_reply_that_names_the_fifth_sentence(reply: str) -> None:
    assert read_error_judgment(reply) == ErrorJudgment(True, 5)


@pytest.mark.parametrize("reply", SAYS_WRONG)
def test_a_reply_with_an_error_but_without_exactly_one_sentence(reply: str) -> None:
    assert read_error_judgment(reply) == ErrorJudgment(True)


@table("reply", SAYS_NOTHING)
def test_a_reply_without_a_judgment(reply: str) -> None:
    assert read_error_judgment(reply) == ErrorJudgment(None)
    assert [metric.corrected(reply, one) for one in (SOUND, WRONG) for metric in (FLAG, SENTENCE)] == [0, 0, 0, 0]


@given(st.integers(0, 99), st.text(max_size=60))
def test_a_reply_in_the_form_asked_for_is_read(number: int, correction: str) -> None:
    """Whatever the sentence says, unless it goes on with the next number, like the note, or announces an answer."""
    bare = "".join(sign for sign in correction if sign.isalpha() or sign == " ")
    assert read_error_judgment(f"{number} The {bare}") == ErrorJudgment(True, number)


@table(
    ("reply", "one", "rule", "flag", "sentence"),
    [
        ("CORRECT", SOUND, "corrected", "", ""),
        ("CORRECT", WRONG, "corrected", "the note has an error: sentence 5", "the note has an error: sentence 5"),
        ("5 Heparin", SOUND, "corrected", "the note has no error", "the note has no error"),
        ("4 Aspirin", WRONG, "corrected", "", "sentence 4 is named; the error is in sentence 5"),
        ("error", WRONG, "corrected", "", "not exactly one sentence is named; the error is in sentence 5"),
        ("I cannot tell.", WRONG, "corrected", "", ""),
        ("5 Heparin", WRONG, "published", "", "the published rule never finds the sentence of a note with an error"),
        (
            "Correct.",
            SOUND,
            "published",
            "by the published rule, every completion but CORRECT means that there is an error",
            "by the published rule, every completion but CORRECT means that there is an error",
        ),
    ],
)
def test_a_wrong_judgment_is_explained(reply: str, one: Instance, rule: Rule, flag: str, sentence: str) -> None:
    assert FLAG.explain(reply, one, rule) == flag
    assert SENTENCE.explain(reply, one, rule) == sentence


@pytest.mark.parametrize("rule", ["published", "corrected"])
def test_a_note_without_a_usable_reference_cannot_be_scored(rule: Rule) -> None:
    nothing = Instance(id="1", fields={}, references=())
    for metric in (FLAG, SENTENCE):
        with pytest.raises(DataError, match="no reference is marked as correct"):
            metric.function(rule)("CORRECT", nothing)
        with pytest.raises(DataError, match="'Heparin' is neither CORRECT nor begins with the number"):
            metric.function(rule)("CORRECT", note("Heparin"))

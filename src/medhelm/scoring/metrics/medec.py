"""MEDEC: detect whether a note has a medical error, and in which of its numbered sentences.

The reference is `CORRECT`, or the number of the wrong sentence, a space and the corrected sentence. The corrected
sentence is not graded.

Published rule. A completion that is exactly CORRECT means "no error"; every other one, an empty completion
and "CORRECT." included, means that there is one. The number at the beginning of the completion is the sentence. The
whole reference is parsed as a number, which it never is: the sentence of a note with an error is always wrong.

Corrected rule. The judgment is read however it is worded (`medhelm.scoring.answers.note_error`); without one the score
is 0.
"""

from __future__ import annotations

import re

from medhelm.domain import Instance, Rule
from medhelm.domain.text import METRIC_TITLES
from medhelm.errors import DataError
from medhelm.scoring.answers.note_error import ErrorJudgment, read_error_judgment
from medhelm.scoring.metric import AnswerReader, Metric, correct_references

NO_ERROR = "CORRECT"
"""Completion for a note without an error."""


def _reference_judgment(instance: Instance) -> ErrorJudgment:
    """Read the judgment of the reference. Raises DataError if it has another form."""
    text = correct_references(instance)[0].strip()
    if text.rstrip(".") == NO_ERROR:
        return ErrorJudgment(False)
    number = re.match(r"\d+", text)
    if number is None:
        raise DataError(f"the reference {text!r:.60} is neither {NO_ERROR} nor begins with the number of a sentence")
    return ErrorJudgment(True, int(number[0]))


def _judgment(completion: str, instance: Instance) -> ErrorJudgment:
    """Read the judgment of a completion."""
    return read_error_judgment(completion, instance.fields.get("note", ""))


def _flag_corrected(completion: str, instance: Instance) -> float:
    """Score 1 if completion and reference agree whether there is an error."""
    return float(_reference_judgment(instance).error is _judgment(completion, instance).error)


def _sentence_corrected(completion: str, instance: Instance) -> float:
    """Score 1 if completion and reference agree on the sentence, or on "no error"."""
    return float(_reference_judgment(instance) == _judgment(completion, instance))


def _flag_published(completion: str, instance: Instance) -> float:
    """Score 1 if both completion and reference are CORRECT, or neither is."""
    return float(_reference_judgment(instance).error is (completion.strip() != NO_ERROR))


def _sentence_published(completion: str, instance: Instance) -> float:
    """Score 1 if both are CORRECT, or neither is and the completion begins with the whole reference as a number."""
    says_error = completion.strip() != NO_ERROR
    if not (_reference_judgment(instance).error and says_error):
        return _flag_published(completion, instance)
    begins = re.match(r"\d+", completion.strip())
    try:
        return float(begins is not None and int(begins[0]) == int(instance.correct[0].replace(".", "").strip()))
    except ValueError:
        return 0.0


def _explain_flag(completion: str, instance: Instance, rule: Rule) -> str:
    """Explain a wrong error flag."""
    truth, judgment = _reference_judgment(instance), _judgment(completion, instance)
    if judgment.error is None:
        return ""
    if truth.error is not judgment.error:
        place = "" if truth.sentence is None else f": sentence {truth.sentence}"
        return f"the note has an error{place}" if truth.error else "the note has no error"
    strict = rule == "published" and not _flag_published(completion, instance)
    return f"by the published rule, every completion but {NO_ERROR} means that there is an error" if strict else ""


def _explain_sentence(completion: str, instance: Instance, rule: Rule) -> str:
    """Explain a wrong sentence."""
    truth, judgment = _reference_judgment(instance), _judgment(completion, instance)
    if judgment.error is None or judgment.error is not truth.error:
        return _explain_flag(completion, instance, rule)
    if truth.sentence != judgment.sentence:
        named = (
            "not exactly one sentence is named"
            if judgment.sentence is None
            else f"sentence {judgment.sentence} is named"
        )
        return f"{named}; the error is in sentence {truth.sentence}"
    if rule == "published" and truth.error and not _sentence_published(completion, instance):
        return "the published rule never finds the sentence of a note with an error"
    return _explain_flag(completion, instance, rule)


_READS_JUDGMENT = AnswerReader("judgment", lambda completion, instance: _judgment(completion, instance).error)

_SOURCE = "MEDEC (Ben Abacha et al., 2025), error flag and error sentence; published rule: HELM"

MEDEC_FLAG_ACCURACY = Metric(
    name="medec_flag_accuracy",
    title=METRIC_TITLES["medec_flag_accuracy"],
    description=(
        "Share of notes for which the completion correctly says whether there is an error. A completion without a "
        "judgment scores 0; by the published rule it means that there is an error."
    ),
    source=_SOURCE,
    published=_flag_published,
    corrected=_flag_corrected,
    explain=_explain_flag,
    reads=_READS_JUDGMENT,
)
MEDEC_SENTENCE_ACCURACY = Metric(
    name="medec_sentence_accuracy",
    title=METRIC_TITLES["medec_sentence_accuracy"],
    description=(
        "Share of notes for which the completion names the wrong sentence, or says that there is none. A completion "
        "without a judgment scores 0. By the published rule every note with an error scores 0."
    ),
    source=_SOURCE,
    published=_sentence_published,
    corrected=_sentence_corrected,
    explain=_explain_sentence,
    reads=_READS_JUDGMENT,
)

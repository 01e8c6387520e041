"""MEDEC: detect whether a note has a medical error, and in which of its numbered sentences.

The reference is `CORRECT`, or the number of the wrong sentence, a space and the corrected sentence. The corrected
sentence is not graded.

Published rule. A completion that is exactly CORRECT means "no error"; every other one, an empty completion
and "CORRECT." included, means that there is one. The number at the beginning of the completion is the sentence. The
whole reference is parsed as a number, which it never is: the sentence of a note with an error is always wrong.

Corrected rule. The judgment is read however it is worded (`read_error_judgment`); without one the score is 0.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from medhelm.domain import Instance, Rule
from medhelm.domain.titles import METRIC_TITLES
from medhelm.errors import DataError
from medhelm.io.lazy_regex import lazy_regex
from medhelm.scoring.answers.plain_text import strip_reasoning
from medhelm.scoring.metric import Metric, correct_references

NO_ERROR = "CORRECT"
"""Completion for a note without an error."""


class ErrorJudgment(NamedTuple):
    """The judgment of a note."""

    error: bool | None
    """True if the note has an error; None if no judgment can be read."""
    sentence: int | None = None
    """Number of the wrong sentence; None unless exactly one is named."""


_UNREAD = ErrorJudgment(None)
_PLAIN = str.maketrans({"_": " ", "“": " ", "”": " "} | dict.fromkeys('*`"{}[]#', " "))
_FENCE = lazy_regex(r"```\w*|\\boxed|\\text", re.IGNORECASE)
_CUE = lazy_regex(
    r"(?:^|(?<=[.!?])\ )(?:(?:so|thus|therefore|hence),?\ )?(?:(?:the|my)\ )?(?:final\ |correct\ )?"
    r"(?:answer|output|verdict|response|result|decision|correction)\s?(?:is\b|[:=])\s?:?\s?",
    re.IGNORECASE | re.MULTILINE,
)
_FINE = lazy_regex(
    r"CORRECT\b(?!\s?(?:sentence|answer|version|text\b|id\b)|\s?:\s?\d)"
    r"|(?i:correct)\s?(?:$|[.!,;(—–]|-\s|:\s?(?:the|no|all|this|there)\b)"
    r"|(?i:no)\s(?:(?i:medical|clinical|factual)\s)?(?i:errors?)\b(?!\s?(?i:,|except|but|other|in\ssentence))",
    re.MULTILINE,
)
_SENTENCE = r"(?:sentence|line)(?:\s(?:id|no\.?|number|index))?|id"
_LINK = r"\s?(?:(?:is|was)\b|[:=])?\s?:?\s?"
_NUMBER = r"\(?(?P<id>\d{1,3})\b\)?(?![/%°]|[.,]\d|\s(?:errors?|mistakes?|sentences?|issues?)\b)"
_BARE = lazy_regex(rf"(?:(?:no\.?|number)\s)?{_NUMBER}", re.IGNORECASE)
_NAMED = lazy_regex(
    rf"(?:(?:error|mistake)\s(?:in\s)?|(?:wrong|incorrect|erroneous|corrected|correct)\s)?(?:{_SENTENCE}){_LINK}{_NUMBER}"
    r"\s?(?:$|[:.,;)>→—–-]|(?-i:[A-Z])|should\b|(?:is|contains|has)\s(?!(?:\w+\s)?(?:correct|accurate|right|no)\b))",
    re.IGNORECASE | re.MULTILINE,
)
_BEGINS_LINE = lazy_regex(rf"^{_NUMBER}(?P<dot>\.?)(?:\s|$)", re.IGNORECASE | re.MULTILINE)
_WRONG = r"(?:incorrect|wrong|erroneous|inaccurate|false|errors?|mistakes?|not\scorrect)"
_WRONG_SENTENCE = lazy_regex(
    rf"(?:{_WRONG}|corrected|correction|except)\b[^.\n\d]{{0,60}}?\b(?:{_SENTENCE})s?{_LINK}{_NUMBER}"
    rf"(?:\s?(?:,|and|or|&)\s?(?:sentence\s)?(?P<second>\d{{1,3}})\b)?"
    rf"|(?:{_SENTENCE})\s?[:=]?\s?\(?(?P<subject>\d{{1,3}})\b\)?[^.\n\d]{{0,60}}?(?<!\bno\s)\b{_WRONG}\b"
    rf"|(?:{_SENTENCE})\s(?:with|containing)\s[^.\n\d]{{0,40}}?{_WRONG}\sis\s?:?\s?(?P<object>\d{{1,3}})\b",
    re.IGNORECASE,
)
_SAYS_WRONG = lazy_regex(
    r"\b(?:is|are|was|appears?|seems?)\s(?:\w+ly\s)?(?:incorrect|erroneous|not\s(?:\w+ly\s)?correct)\b"
    r"|\b(?:contains?|has|there\sis|found|identified)\s(?:an?|one|the\sfollowing)\s(?:\w+\s)?(?:error|mistake)\b"
    r"|^\W*(?:incorrect|error|not\scorrect)\W*$",
    re.IGNORECASE | re.MULTILINE,
)
_SAYS_FINE = lazy_regex(
    r"(?:\b(?:text|note|record|document|narrative|everything|all\ssentences)\b[^.\n]{0,40}?"
    r"\b(?:is|are|appears?|seems?|looks?)\s(?:(?:to\sbe|all|already|\w+ly)\s){0,2}(?:correct|accurate|error-free)\b"
    r"|\b(?:no|without|without\sany|free\sof|free\sfrom)\s(?!other|further|additional)(?:\w+\s){0,2}?"
    r"(?:errors?|mistakes?)\b)(?!,?\s?(?:except|but|apart|other\sthan|in\ssentence))",
    re.IGNORECASE,
)


def read_error_judgment(completion: str) -> ErrorJudgment:
    """Read the judgment in `completion`, however it is worded.

    In this order: the text after the last "Answer:"; CORRECT or a number at the beginning; a last line that is CORRECT;
    else the statements of its sentences, unless they contradict each other. Two sentence numbers count as none. The
    beginning of a repeated, numbered note is not a judgment. "incorrect" is not "correct".

    >>> read_error_judgment("**Correct.**"), read_error_judgment("Sentence 7: Give heparin.")
    (ErrorJudgment(error=False, sentence=None), ErrorJudgment(error=True, sentence=7))
    """
    text = _FENCE.sub(" ", strip_reasoning(completion)).translate(_PLAIN)
    lines = [line for line in (" ".join(line.split()) for line in text.splitlines()) if line]
    text = "\n".join(lines)
    cues = [match.end() for match in _CUE.finditer(text)]
    for start in (*cues[:-3:-1], 0):
        found = _judgment_at(text, start)
        if found:
            return found
    if lines and _FINE.fullmatch(lines[-1].rstrip(".!")):
        return ErrorJudgment(False)
    return _judgment_in_prose(text)


def _judgment_at(text: str, start: int) -> ErrorJudgment | None:
    """Return the judgment at `start`; None if there is none."""
    if _FINE.match(text, start):
        return ErrorJudgment(False)
    found = _NAMED.match(text, start) or _BARE.match(text, start)
    if found is None or _repeats_note(text, start, int(found["id"])):
        return None
    return ErrorJudgment(True, int(found["id"]))


def _repeats_note(text: str, start: int, number: int) -> bool:
    """Return True if the number at `start` begins a list or the note: the next line begins with the next number."""
    listed = _BEGINS_LINE.match(text, start)
    if listed and listed["dot"]:  # "1. The patient ..." may be a step of the reasoning, with the next one further down
        return _BEGINS_LINE.search(text, listed.end()) is not None
    end = text.find("\n", start)
    following = _BEGINS_LINE.match(text, end + 1) if end >= 0 else None
    return following is not None and int(following["id"]) == number + 1


def _judgment_in_prose(text: str) -> ErrorJudgment:
    """Read the judgment from sentences anywhere in a completion."""
    found = (match.groupdict().values() for match in _WRONG_SENTENCE.finditer(text))
    numbers = {int(number) for named in found for number in named if number}
    if not numbers:
        numbers = {int(match["id"]) for match in _BEGINS_LINE.finditer(text)}
        numbers = numbers if len(numbers) == 1 else set()
    wrong = bool(numbers or _SAYS_WRONG.search(text))
    if wrong == bool(_SAYS_FINE.search(text)):
        return _UNREAD
    return ErrorJudgment(wrong, numbers.pop() if len(numbers) == 1 else None)


def _reference_judgment(instance: Instance) -> ErrorJudgment:
    """Read the judgment of the reference. Raises DataError if it has another form."""
    text = correct_references(instance)[0].strip()
    if text.rstrip(".") == NO_ERROR:
        return ErrorJudgment(False)
    number = re.match(r"\d+", text)
    if number is None:
        raise DataError(f"the reference {text!r:.60} is neither {NO_ERROR} nor begins with the number of a sentence")
    return ErrorJudgment(True, int(number[0]))


def _flag_corrected(completion: str, instance: Instance) -> float:
    """Score 1 if completion and reference agree whether there is an error."""
    return float(_reference_judgment(instance).error is read_error_judgment(completion).error)


def _sentence_corrected(completion: str, instance: Instance) -> float:
    """Score 1 if completion and reference agree on the sentence, or on "no error"."""
    return float(_reference_judgment(instance) == read_error_judgment(completion))


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
    truth, judgment = _reference_judgment(instance), read_error_judgment(completion)
    if judgment.error is None:
        return ""
    if truth.error is not judgment.error:
        place = "" if truth.sentence is None else f": sentence {truth.sentence}"
        return f"the note has an error{place}" if truth.error else "the note has no error"
    strict = rule == "published" and not _flag_published(completion, instance)
    return f"by the published rule, every completion but {NO_ERROR} means that there is an error" if strict else ""


def _explain_sentence(completion: str, instance: Instance, rule: Rule) -> str:
    """Explain a wrong sentence."""
    truth, judgment = _reference_judgment(instance), read_error_judgment(completion)
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
)

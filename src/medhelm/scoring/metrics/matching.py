"""Matching metrics: 1 if the answer in a completion equals a correct reference, exactly or nearly, else 0.

Published rule. Surrounding white space is removed. Where options have letters, the rest must be exactly one letter and
counts as the text of its option; anything else ("B.", "(B)", "b") is not an answer. Where options are named by their
texts, and for open questions, the completion itself is compared. The best value over all correct references counts.

Corrected rule. On a choice question, the option that the completion names counts, however it is worded
(`scoring.answers.choice.find_choice`). It is correct if its text is that of a correct reference, so the four metrics
are equal. On an open question each metric ignores:

    metric                     published                        corrected
    exact_match                surrounding white space          also quotation marks, emphasis, a final period
    quasi_exact_match          also case, ASCII punctuation,    the same, but "3.5" is not "35", "-6" not "6" and
                               a/an/the                         "hepatitis A" not "hepatitis"
    prefix_exact_match         what follows                     what follows, unless it continues the word or number:
                                                                "10" does not begin with "1"
    quasi_prefix_exact_match   both                             both

Case counts in exact_match and prefix_exact_match. Reasoning between <think> tags is ignored. An empty or unreadable
completion scores 0 by both rules: not answering as instructed is an error of the model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from string import ascii_uppercase

from medhelm.domain import Instance
from medhelm.domain.text import METRIC_TITLES
from medhelm.errors import DataError
from medhelm.scoring.answers.choice import find_choice
from medhelm.scoring.answers.text import (
    normalize,
    normalize_keeping_meaning,
    strip_reasoning,
    strip_wrapping,
    without_confidence,
)
from medhelm.scoring.metric import AnswerReader, Metric, ScoreFunction, correct_references

_Comparison = Callable[[str, str], bool]
"""Returns True if an answer (first, never empty) matches a reference (second)."""

_SOURCE = "Basic metrics of HELM (Liang et al., 2023); normalization after SQuAD (Rajpurkar et al., 2016)"


def _published(compare: _Comparison) -> ScoreFunction:
    """Build the published rule of a metric."""

    def rate(completion: str, instance: Instance) -> float:
        references = correct_references(instance)
        answer = _exact_answer(completion, instance)
        return float(bool(answer) and any(compare(answer, text) for text in references))

    return rate


def _corrected(compare: _Comparison) -> ScoreFunction:
    """Build the corrected rule of a metric."""

    def rate(completion: str, instance: Instance) -> float:
        references = correct_references(instance)
        if instance.choices:
            index = _named_option(completion, instance)
            return float(index is not None and _is_correct_text(instance.choices[index], references))
        answer = without_confidence(strip_reasoning(completion)).strip()
        return float(bool(answer) and any(text.strip() and compare(answer, text) for text in references))

    return rate


def _is_correct_text(text: str, references: tuple[str, ...]) -> bool:
    """Return True if the text of an option is that of a correct reference."""
    return text.strip() in {reference.strip() for reference in references}


def _named_option(completion: str, instance: Instance) -> int | None:
    """Return the index of the option that a completion names; None if it names none, or several."""
    _check_labels(instance)
    return _find_choice(completion, instance.labels, instance.choices)


_find_choice = lru_cache(maxsize=1)(find_choice)
"""Finds the option that a completion names, once for all metrics."""


def _read_answer(completion: str, instance: Instance) -> object:
    """Return the option that a completion names; for an open question the whole completion."""
    return _named_option(completion, instance) if instance.choices else completion


READS_OPTION = AnswerReader("option", _read_answer)


def _check_labels(instance: Instance) -> None:
    """Raise DataError if an option has no label, or a label no option."""
    if len(instance.labels) != len(instance.choices):
        raise DataError(f"{len(instance.choices)} options but {len(instance.labels)} labels; each option needs one")


def _check_choices(instance: Instance) -> None:
    """Raise DataError if the instance has no options."""
    if not instance.choices:
        raise DataError("the question has no options; leave `choice_extracted` out of `metrics`")
    _check_labels(instance)


def _has_letters(instance: Instance) -> bool:
    """Return True if the labels are letters in alphabetical order."""
    count = len(instance.labels)
    return 0 < count <= len(ascii_uppercase) and "".join(instance.labels) == ascii_uppercase[:count]


def _exact_answer(completion: str, instance: Instance) -> str:
    """Return the answer by the published rule: the text of the option named, or the completion; "" if there is none."""
    bare = completion.strip()
    _check_labels(instance)
    if not _has_letters(instance):
        return bare
    return instance.choices[instance.labels.index(bare)] if bare in instance.labels else ""


def _label_is_exact(completion: str, instance: Instance) -> float:
    """Score 1 if the completion is exactly one label."""
    _check_choices(instance)
    return float(completion.strip() in instance.labels)


def _label_is_found(completion: str, instance: Instance) -> float:
    """Score 1 if the completion names exactly one option."""
    _check_choices(instance)
    return float(_named_option(completion, instance) is not None)


def _exact(answer: str, text: str) -> bool:
    return answer.strip() == text.strip()


def _exact_but_for_wrapping(answer: str, text: str) -> bool:
    return _exact(answer, text) or (strip_wrapping(answer) == strip_wrapping(text) != "")


def _quasi(answer: str, text: str) -> bool:
    return normalize(answer) == normalize(text)


def _quasi_with_meaning(answer: str, text: str) -> bool:
    return normalize_keeping_meaning(answer) == normalize_keeping_meaning(text)


def _prefix(answer: str, text: str) -> bool:
    return answer.strip().startswith(text.strip())


def _prefix_of_words(answer: str, text: str) -> bool:
    begun, sought = strip_wrapping(answer), strip_wrapping(text)
    if not sought or not begun.startswith(sought):
        return _exact(answer, text)
    rest = begun[len(sought) :]
    continues_number = sought[-1].isdigit() and rest[:1] in (".", ",") and rest[1:2].isdigit()
    return not (rest[:1].isalnum() or continues_number)


def _quasi_prefix(answer: str, text: str) -> bool:
    return normalize(answer).startswith(normalize(text))


def _quasi_prefix_of_words(answer: str, text: str) -> bool:
    sought = normalize_keeping_meaning(text).split()
    return normalize_keeping_meaning(answer).split()[: len(sought)] == sought


def _metric(name: str, description: str, published: _Comparison, corrected: _Comparison) -> Metric:
    """Build a metric from its comparisons of an answer with a reference."""
    return Metric(
        name=name,
        title=METRIC_TITLES[name],
        description=description,
        source=_SOURCE,
        published=_published(published),
        corrected=_corrected(corrected),
        reads=READS_OPTION,
    )


EXACT_MATCH = _metric(
    "exact_match",
    "Share of completions that are a correct reference, or a correct option. Empty ones score 0.",
    _exact,
    _exact_but_for_wrapping,
)
QUASI_EXACT_MATCH = _metric(
    "quasi_exact_match",
    "As exact_match, ignoring case, punctuation and articles. An empty completion scores 0.",
    _quasi,
    _quasi_with_meaning,
)
PREFIX_EXACT_MATCH = _metric(
    "prefix_exact_match",
    "Share of completions that begin with a correct reference, or a correct option. Empty ones score 0.",
    _prefix,
    _prefix_of_words,
)
QUASI_PREFIX_EXACT_MATCH = _metric(
    "quasi_prefix_exact_match",
    "As prefix_exact_match, ignoring case, punctuation and articles. An empty completion scores 0.",
    _quasi_prefix,
    _quasi_prefix_of_words,
)
CHOICE_EXTRACTED = Metric(
    name="choice_extracted",
    title=METRIC_TITLES["choice_extracted"],
    description="Share of completions that name exactly one option, correct or not. For choice questions only.",
    source="This project; the published rule reads a label only if it is the whole completion",
    published=_label_is_exact,
    corrected=_label_is_found,
    reads=READS_OPTION,
)

"""Whether an answer is the right one, word for word or nearly so.

Published rule. A completion is stripped of surrounding blanks. Where options have letters it must then be exactly one
of them, and stands for the text of its option; anything else ("B.", "(B)", "b") counts as no answer. Where options go
by their texts, and for open questions, the completion itself is compared. The best value over all right references
counts.

Corrected rule. On a choice question the option that the completion names counts, however it is worded
(`scoring.answers.choice.find_choice`), and it is right if its text is that of a right reference; the four matching
metrics are then one and the same. On an open question each metric forgives what is no part of an answer:

    metric                     published                        corrected
    exact_match                blanks around it                 also quotation marks, emphasis, a full stop at its end
    quasi_exact_match          also case, ASCII punctuation,    the same, but "3.5" is not "35", "-6" not "6" and
                               a/an/the                         "hepatitis A" not "hepatitis"
    prefix_exact_match         what follows                     what follows, unless it goes on with the word: "10"
                                                                is not "1"
    quasi_prefix_exact_match   both                             both

Case counts in exact_match and prefix_exact_match. Reasoning between <think> tags is no part of an answer. An empty or
unreadable answer scores 0 by both rules: not answering as asked is the model's own error.
"""

from __future__ import annotations

from collections.abc import Callable
from string import ascii_uppercase

from medhelm.domain import Instance
from medhelm.errors import DataError
from medhelm.scoring.answers.choice import find_choice
from medhelm.scoring.answers.plain_text import normalize, normalize_keeping_meaning, strip_reasoning, strip_wrapping
from medhelm.scoring.metric import Metric, ScoreFunction, correct_references

_Comparison = Callable[[str, str], bool]
"""Whether an answer (first) counts as a reference (second). The answer is not empty."""

_SOURCE = "Basic metrics of HELM (Liang et al., 2023); normalisation after SQuAD (Rajpurkar et al., 2016)"


def _published(compare: _Comparison) -> ScoreFunction:
    """A metric by the published rule."""

    def rate(reply: str, instance: Instance) -> float:
        right = correct_references(instance)
        answer = _exact_answer(reply, instance)
        return float(bool(answer) and any(compare(answer, text) for text in right))

    return rate


def _corrected(compare: _Comparison) -> ScoreFunction:
    """A metric by the corrected rule."""

    def rate(reply: str, instance: Instance) -> float:
        right = correct_references(instance)
        if instance.choices:
            index = _option(reply, instance)
            return float(index is not None and _same(instance.choices[index], right))
        answer = strip_reasoning(reply).strip()
        return float(bool(answer) and any(text.strip() and compare(answer, text) for text in right))

    return rate


def _same(text: str, right: tuple[str, ...]) -> bool:
    """Whether the text of an option is that of a right reference."""
    return text.strip() in {reference.strip() for reference in right}


def _option(reply: str, instance: Instance) -> int | None:
    """The option that a reply names; None if it names none, or several."""
    _check_labels(instance)
    return find_choice(reply, instance.labels, instance.choices)


def _check_labels(instance: Instance) -> None:
    """Raises DataError if an option has no label, or a label no option."""
    if len(instance.labels) != len(instance.choices):
        raise DataError(f"{len(instance.choices)} options but {len(instance.labels)} labels; each option needs one")


def _check_choices(instance: Instance) -> None:
    """Raises DataError if there is nothing to choose from."""
    if not instance.choices:
        raise DataError("a question without options has no option to name; leave `choice_extracted` out of `metrics`")
    _check_labels(instance)


def _has_letters(instance: Instance) -> bool:
    """Whether options go by letters, in the order of the alphabet."""
    count = len(instance.labels)
    return 0 < count <= len(ascii_uppercase) and "".join(instance.labels) == ascii_uppercase[:count]


def _exact_answer(reply: str, instance: Instance) -> str:
    """The answer by the published rule: the text of the option whose letter the reply is, or the reply; "" if none."""
    bare = reply.strip()
    _check_labels(instance)
    if not _has_letters(instance):
        return bare
    return instance.choices[instance.labels.index(bare)] if bare in instance.labels else ""


def _label_is_exact(reply: str, instance: Instance) -> float:
    """Whether the published rule can read an option."""
    _check_choices(instance)
    return float(reply.strip() in instance.labels)


def _label_is_found(reply: str, instance: Instance) -> float:
    """Whether the corrected rule can read an option."""
    _check_choices(instance)
    return float(_option(reply, instance) is not None)


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


EXACT_MATCH = Metric(
    name="exact_match",
    title="EM",
    description="Share of answers that are a right reference, or name a right option. No answer scores 0.",
    source=_SOURCE,
    published=_published(_exact),
    corrected=_corrected(_exact_but_for_wrapping),
)
"""Whether the answer is right, word for word."""

QUASI_EXACT_MATCH = Metric(
    name="quasi_exact_match",
    title="Quasi-EM",
    description="As exact_match, without regard to case, punctuation and articles. No answer scores 0.",
    source=_SOURCE,
    published=_published(_quasi),
    corrected=_corrected(_quasi_with_meaning),
)
"""Whether the answer is right, but for case, punctuation and articles."""

PREFIX_EXACT_MATCH = Metric(
    name="prefix_exact_match",
    title="Prefix EM",
    description="Share of answers that begin with a right reference, or name a right option. No answer scores 0.",
    source=_SOURCE,
    published=_published(_prefix),
    corrected=_corrected(_prefix_of_words),
)
"""Whether the answer begins with what is right."""

QUASI_PREFIX_EXACT_MATCH = Metric(
    name="quasi_prefix_exact_match",
    title="Prefix quasi-EM",
    description="As prefix_exact_match, without regard to case, punctuation and articles. No answer scores 0.",
    source=_SOURCE,
    published=_published(_quasi_prefix),
    corrected=_corrected(_quasi_prefix_of_words),
)
"""Whether the answer begins with what is right, but for case, punctuation and articles."""

CHOICE_EXTRACTED = Metric(
    name="choice_extracted",
    title="Readable",
    description="Share of answers in which one option could be read, right or wrong. For choice questions only.",
    source="This project; the published rule reads a label only if it is the whole answer",
    published=_label_is_exact,
    corrected=_label_is_found,
)
"""Whether the answer names exactly one option."""

"""Sets of labels, and classes of unequal size.

A set of labels is read from a text: entries between commas, semicolons and line breaks. By the published rule an entry
counts as it stands, but for blanks around it. By the corrected rule case does not count either, nor what surrounds an
entry: quotation marks, emphasis, brackets, a full stop, the bullet or number of a list item, "and" before the last one,
and a heading such as "Labels:" before the first; reasoning between <think> tags is no part of an answer.

With tp labels that are in both sets, fp only in the answer and fn only in the reference, F1 is 2 tp / (2 tp + fp + fn):
of one instance (`label_f1`), of the sums over all instances (`label_micro_f1`), and the mean over labels of the F1 of
each label's sums (`label_macro_f1`). These are scikit-learn's averages `samples`, `micro` and `macro` over all labels
that occur anywhere, with 0 for what is undefined.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from medhelm.domain import Instance, Parts, Rule
from medhelm.errors import DataError
from medhelm.io.lazy_regex import lazy_regex
from medhelm.scoring.answers.plain_text import strip_reasoning, strip_wrapping
from medhelm.scoring.metric import Metric, ScoreFunction
from medhelm.scoring.metrics.matching import EXACT_MATCH

_SEPARATOR = lazy_regex(r"[,;\n]")
_HEADING = lazy_regex(
    r"\W{0,4}(?:(?:final\s)?answers?|labels?|categor(?:y|ies)|class(?:es)?|output|result)\W{0,4}:", re.IGNORECASE
)
_BULLET = lazy_regex(r"(?:[-*–—+]\s|•\s?|\(?(?:\d{1,3}|[a-z])[.)]\s)+", re.IGNORECASE)
_AND = lazy_regex(r"and\s+(?=\S)", re.IGNORECASE)
_AROUND = " \t\r*_`\"'“”‘’[]{}#"
_SHOWN = 5


class SetOverlap(NamedTuple):
    """How two sets agree."""

    both: int
    """Members of both."""
    answer: int
    """Members of the answer."""
    reference: int
    """Members of the reference."""

    @property
    def counts(self) -> tuple[float, float]:
        """Numerator and denominator of F1."""
        return 2.0 * self.both, float(self.answer + self.reference)

    @property
    def f1(self) -> float:
        """2 tp / (2 tp + fp + fn), from 0 to 1; 1 for two empty sets."""
        above, below = self.counts
        return above / below if below else 1.0

    @property
    def precision(self) -> float:
        """Share of the answer that is right; 0 for an empty one, but 1 if the reference is empty too."""
        return self.both / self.answer if self.answer else float(not self.reference)

    @property
    def recall(self) -> float:
        """Share of the reference that is found; 1 if it is empty and nothing else is given, 0 if something is."""
        return self.both / self.reference if self.reference else float(not self.answer)


def overlap(answer: AbstractSet[str], reference: AbstractSet[str]) -> SetOverlap:
    """How the two sets agree.

    >>> overlap({"a", "b"}, {"b", "c", "d"}).f1
    0.4
    """
    return SetOverlap(len(answer & reference), len(answer), len(reference))


def differences(answer: AbstractSet[str], reference: AbstractSet[str]) -> str:
    """What is missing from the answer, and what is not in the reference, in words; empty if they are the same.

    >>> differences({"a", "b"}, {"b", "c"})
    'missing: c; not in the reference: a'
    """
    named = {"missing": reference - answer, "not in the reference": answer - reference}
    return "; ".join(f"{name}: {listed(members)}" for name, members in named.items() if members)


def listed(members: AbstractSet[str]) -> str:
    """The first five members in order, and how many more there are."""
    shown = sorted(members)[:_SHOWN]
    rest = len(members) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def read_labels(text: str) -> frozenset[str]:
    """The labels that `text` names, by the corrected rule, in folded case.

    >>> sorted(read_labels('Labels:\\n1. "Asthma"\\n2. **COPD**.'))
    ['asthma', 'copd']
    """
    text = strip_reasoning(text)
    heading = _HEADING.match(text)
    entries = _SEPARATOR.split(text[heading.end() :] if heading else text)
    return frozenset(label for entry in entries if (label := _label(entry)))


def _label(entry: str) -> str:
    """An entry without what surrounds it; empty if it holds no letter or digit, as a bullet left alone."""
    bare = entry.strip(_AROUND)
    for prefix in (_BULLET, _AND):
        match = prefix.match(bare)
        if match and match.end() < len(bare):
            bare = bare[match.end() :].strip(_AROUND)
    label = " ".join(strip_wrapping(bare).strip(_AROUND).casefold().split())
    return label if any(sign.isalnum() for sign in label) else ""


def _exact_labels(text: str) -> frozenset[str]:
    """The labels that `text` names, by the published rule."""
    return frozenset(label for entry in _SEPARATOR.split(text) if (label := entry.strip()))


def _sets(reply: str, instance: Instance, rule: Rule) -> tuple[frozenset[str], frozenset[str]]:
    """The labels of the answer and of the reference. Raises DataError if there is no reference, or none in it."""
    read = read_labels if rule == "corrected" else _exact_labels
    reference = frozenset[str]().union(*map(read, instance.correct))
    if not reference:
        raise DataError("the reference holds no label, so no answer could be right; check the answer column")
    return read(reply), reference


def _f1(rule: Rule) -> ScoreFunction:
    """F1 of one instance by a rule."""
    return lambda reply, instance: overlap(*_sets(reply, instance, rule)).f1


def _micro(reply: str, instance: Instance, rule: Rule) -> Parts:
    """What an instance adds to the one sum over all labels."""
    return {"": overlap(*_sets(reply, instance, rule)).counts}


def _macro(reply: str, instance: Instance, rule: Rule) -> Parts:
    """What an instance adds to the sum of each label."""
    answer, reference = _sets(reply, instance, rule)
    return {label: overlap(answer & {label}, reference & {label}).counts for label in sorted(answer | reference)}


def _explain(reply: str, instance: Instance, rule: Rule) -> str:
    """Which labels are missing or too many."""
    answer, reference = _sets(reply, instance, rule)
    return differences(answer, reference) if answer else ""


def _of_choice(rule: Rule) -> ScoreFunction:
    """Whether the right option is chosen, by a rule."""

    def rate(reply: str, instance: Instance) -> float:
        if not instance.choices:
            raise DataError("a question without options has no classes; leave `balanced_accuracy` out of `metrics`")
        return EXACT_MATCH.rating(rule)(reply, instance)

    return rate


def _class(reply: str, instance: Instance, rule: Rule) -> Parts:
    """Whether the instance is right, for the class of its right option."""
    right = _of_choice(rule)(reply, instance)
    return {instance.correct[0].strip(): (right, 1.0)}


_NOTHING = "An answer without labels scores 0."
_SOURCE = "Averages of F1 as in scikit-learn (Pedregosa et al., 2011); the published rule compares labels exactly"

LABEL_F1 = Metric(
    name="label_f1",
    title="F1 per case",
    description=f"F1 of the labels named, of each instance, averaged over instances. {_NOTHING}",
    source=_SOURCE,
    published=_f1("published"),
    corrected=_f1("corrected"),
    explain=_explain,
)
"""How well the labels of each instance are found."""

LABEL_MICRO_F1 = Metric(
    name="label_micro_f1",
    title="Micro F1",
    description=f"F1 of the labels named, of the sums over all instances: frequent labels count most. {_NOTHING}",
    source=_SOURCE,
    published=_f1("published"),
    corrected=_f1("corrected"),
    explain=_explain,
    parts=_micro,
)
"""How well labels are found in all instances together."""

LABEL_MACRO_F1 = Metric(
    name="label_macro_f1",
    title="Macro F1",
    description=f"Mean over labels of each label's F1 in all instances: rare labels count as much. {_NOTHING}",
    source=_SOURCE,
    published=_f1("published"),
    corrected=_f1("corrected"),
    explain=_explain,
    parts=_macro,
)
"""How well each label is found, rare or not."""

BALANCED_ACCURACY = Metric(
    name="balanced_accuracy",
    title="Balanced accuracy",
    description=(
        "Mean over options of the share of right answers where that option is the right one: whoever always names the "
        "same of k options gets 1/k. For questions that share their options. No answer scores 0."
    ),
    source="Balanced accuracy (Brodersen et al., 2010) of exact_match by the same rule",
    published=_of_choice("published"),
    corrected=_of_choice("corrected"),
    parts=_class,
)
"""Whether the right option is chosen, each class counting the same."""

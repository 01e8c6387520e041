"""F1 of sets of labels, and balanced accuracy of classes of unequal size.

A set of labels is read from a text: its entries are separated by commas, semicolons or line breaks. The published rule
removes white space around an entry. The corrected rule ignores case, and reads lists as models write them
(`medhelm.scoring.answers.label_list`).

With tp labels in both sets, fp only in the completion and fn only in the reference, F1 is 2 tp / (2 tp + fp + fn):
of one instance (`label_f1`), of the sums over all instances (`label_micro_f1`), or the mean over labels of the F1 of
each label's sums (`label_macro_f1`). These are scikit-learn's averages `samples`, `micro` and `macro` over all labels
that occur anywhere, with 0 where F1 is undefined.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from medhelm.domain import Instance, Parts, Rule
from medhelm.domain.titles import METRIC_TITLES
from medhelm.errors import DataError
from medhelm.io.lazy_regex import lazy_regex
from medhelm.scoring.answers.empty_list import says_none
from medhelm.scoring.answers.label_list import read_labels, reference_labels
from medhelm.scoring.metric import AnswerReader, Metric, ScoreFunction
from medhelm.scoring.metrics.matching import EXACT_MATCH, READS_OPTION

_SEPARATOR = lazy_regex(r"[,;\n]")
_SHOWN = 5


class SetOverlap(NamedTuple):
    """The overlap of two sets, in numbers of members."""

    both: int
    """Members of both sets."""
    found: int
    """Members of the set in the completion."""
    reference: int
    """Members of the set in the reference."""

    @property
    def counts(self) -> tuple[float, float]:
        """Numerator and denominator of F1."""
        return 2.0 * self.both, float(self.found + self.reference)

    @property
    def f1(self) -> float:
        """2 tp / (2 tp + fp + fn), from 0 to 1; 1 for two empty sets."""
        numerator, denominator = self.counts
        return numerator / denominator if denominator else 1.0

    @property
    def precision(self) -> float:
        """Share of found members that are correct; 0 if none is found, but 1 if the reference is empty too."""
        return self.both / self.found if self.found else float(not self.reference)

    @property
    def recall(self) -> float:
        """Share of the reference that is found; for an empty reference 1 if nothing is found, else 0."""
        return self.both / self.reference if self.reference else float(not self.found)


def overlap(found: AbstractSet[str], reference: AbstractSet[str]) -> SetOverlap:
    """Count the members of two sets and of their intersection.

    >>> overlap({"a", "b"}, {"b", "c", "d"}).f1
    0.4
    """
    return SetOverlap(len(found & reference), len(found), len(reference))


def differences(found: AbstractSet[str], reference: AbstractSet[str]) -> str:
    """List the members that are missing and those that are not in the reference; "" if the sets are equal.

    >>> differences({"a", "b"}, {"b", "c"})
    'missing: c; not in the reference: a'
    """
    named = {"missing": reference - found, "not in the reference": found - reference}
    return "; ".join(f"{name}: {listed(members)}" for name, members in named.items() if members)


def listed(members: AbstractSet[str]) -> str:
    """List the first five members in order, and the number of others."""
    shown = sorted(members)[:_SHOWN]
    rest = len(members) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _exact_labels(text: str) -> frozenset[str]:
    """Read the labels in `text` by the published rule."""
    return frozenset(label for entry in _SEPARATOR.split(text) if (label := entry.strip()))


def _label_sets(completion: str, instance: Instance, rule: Rule) -> tuple[frozenset[str], frozenset[str]]:
    """Read the labels of the completion and of the reference. Raises DataError if the reference has none."""
    read = reference_labels if rule == "corrected" else _exact_labels
    reference = frozenset[str]().union(*map(read, instance.correct))
    if not reference:
        raise DataError("the reference holds no label, so no completion can be correct; check the answer column")
    return read_labels(completion, reference) if rule == "corrected" else _exact_labels(completion), reference


def _read_labels(completion: str, instance: Instance) -> object:
    """Return the labels in a completion, or True if it says that there are none; None without either."""
    return _label_sets(completion, instance, "corrected")[0] or says_none(completion) or None


def _f1_rule(rule: Rule) -> ScoreFunction:
    """Build F1 of one instance by a rule."""
    return lambda completion, instance: overlap(*_label_sets(completion, instance, rule)).f1


def _micro_parts(completion: str, instance: Instance, rule: Rule) -> Parts:
    """Return the contribution of an instance to the sum over all labels."""
    return {"": overlap(*_label_sets(completion, instance, rule)).counts}


def _macro_parts(completion: str, instance: Instance, rule: Rule) -> Parts:
    """Return the contribution of an instance to the sum of each label."""
    found, reference = _label_sets(completion, instance, rule)
    return {label: overlap(found & {label}, reference & {label}).counts for label in sorted(found | reference)}


def _explain(completion: str, instance: Instance, rule: Rule) -> str:
    """List the labels that are missing or not in the reference."""
    found, reference = _label_sets(completion, instance, rule)
    return differences(found, reference) if found else ""


def _choice_rule(rule: Rule) -> ScoreFunction:
    """Build a rule: 1 for a correct option, else 0."""

    def rate(completion: str, instance: Instance) -> float:
        if not instance.choices:
            raise DataError("the question has no options; leave `balanced_accuracy` out of `metrics`")
        return EXACT_MATCH.function(rule)(completion, instance)

    return rate


def _class_parts(completion: str, instance: Instance, rule: Rule) -> Parts:
    """Return the score of an instance under the class of its correct option."""
    right = _choice_rule(rule)(completion, instance)
    return {instance.correct[0].strip(): (right, 1.0)}


def _f1_metric(name: str, description: str, parts: Callable[[str, Instance, Rule], Parts] | None = None) -> Metric:
    """Build one of the averages of F1. `parts`: contribution of an instance; None for the mean over instances."""
    return Metric(
        name=name,
        title=METRIC_TITLES[name],
        description=f"{description} A completion without labels scores 0.",
        source="Averages of F1 as in scikit-learn (Pedregosa et al., 2011); the published rule compares labels exactly",
        published=_f1_rule("published"),
        corrected=_f1_rule("corrected"),
        explain=_explain,
        parts=parts,
        reads=AnswerReader("label", _read_labels),
    )


LABEL_F1 = _f1_metric("label_f1", "F1 of the labels named, of each instance, averaged over instances.")
LABEL_MICRO_F1 = _f1_metric(
    "label_micro_f1",
    "F1 of the labels named, of the sums over all instances: frequent labels count most.",
    _micro_parts,
)
LABEL_MACRO_F1 = _f1_metric(
    "label_macro_f1", "Mean over labels of each label's F1 in all instances: rare labels count as much.", _macro_parts
)
BALANCED_ACCURACY = Metric(
    name="balanced_accuracy",
    title=METRIC_TITLES["balanced_accuracy"],
    description=(
        "Mean over options of the share of correct completions where that option is correct: always naming the same "
        "of k options gives 1/k. For questions with the same options. An empty completion scores 0."
    ),
    source="Balanced accuracy (Brodersen et al., 2010) of exact_match by the same rule",
    published=_choice_rule("published"),
    corrected=_choice_rule("corrected"),
    parts=_class_parts,
    reads=READS_OPTION,
)

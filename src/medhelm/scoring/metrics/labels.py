"""F1 of sets of labels, balanced accuracy of classes, ICD-10 codes, and numbers within limits.

A set of labels is read from a text: its entries are separated by commas, semicolons or line breaks. The published rule
removes white space around an entry. The corrected rule ignores case, and reads lists as models write them
(`scoring.answers.labels`).

With tp labels in both sets, fp only in the completion and fn only in the reference, F1 is 2 tp / (2 tp + fp + fn):
of one instance (`label_f1`), of the sums over all instances (`label_micro_f1`), or the mean over labels of the F1 of
each label's sums (`label_macro_f1`). These are scikit-learn's averages `samples`, `micro` and `macro` over all labels
that occur anywhere, with 0 where F1 is undefined.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from medhelm.domain import Instance, Parts, Rule
from medhelm.domain.text import METRIC_TITLES
from medhelm.errors import DataError
from medhelm.io.plugins import lazy_regex
from medhelm.scoring.answers.icd_codes import normalize_code, read_codes
from medhelm.scoring.answers.labels import read_labels, reference_labels, says_none
from medhelm.scoring.answers.number import read_number
from medhelm.scoring.metric import AnswerReader, Metric, ScoreFunction, correct_references
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


_Sets = Callable[[str, Instance, Rule], tuple[AbstractSet[str], AbstractSet[str]]]
"""Reads the members of the set in a completion, and of that in its reference, by a rule."""


def overlap(found: AbstractSet[str], reference: AbstractSet[str]) -> SetOverlap:
    """Count the members of two sets and of their intersection.

    >>> overlap({"a", "b"}, {"b", "c", "d"}).f1
    0.4
    """
    return SetOverlap(len(found & reference), len(found), len(reference))


def _f1(sets: SetOverlap) -> float:
    return sets.f1


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


def _rule(sets: _Sets, value: Callable[[SetOverlap], float], rule: Rule) -> ScoreFunction:
    """Build a rule for one instance. By the corrected one, an empty completion scores 0 whatever the reference is."""

    def rate(completion: str, instance: Instance) -> float:
        found = overlap(*sets(completion, instance, rule))
        return 0.0 if rule == "corrected" and not completion.strip() else value(found)

    return rate


def _sums(sets: _Sets) -> Callable[[str, Instance, Rule], Parts]:
    """Build the contribution of an instance to the sum over all members."""
    return lambda completion, instance, rule: {"": overlap(*sets(completion, instance, rule)).counts}


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
        published=_rule(_label_sets, _f1, "published"),
        corrected=_rule(_label_sets, _f1, "corrected"),
        explain=_explain,
        parts=parts,
        reads=AnswerReader("label", _read_labels),
    )


LABEL_F1 = _f1_metric("label_f1", "F1 of the labels named, of each instance, averaged over instances.")
LABEL_MICRO_F1 = _f1_metric(
    "label_micro_f1",
    "F1 of the labels named, of the sums over all instances: frequent labels count most.",
    _sums(_label_sets),
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


# --- ICD codes --------------------------------------------------------------------------------------------------------
# Precision, recall and F1 of the ICD-10 codes (ICD-10-CM and ICD-10-PCS) that a completion assigns to a note.
#
# Published rule. A code is a capital letter, one to three digits and optionally a period and one to four digits, as a
# separate word, in the reference and in the completion. So S72.001A counts as S72, Z3A.20 and every procedure code are
# lost, E1165 is lost but J189 is not, and "B12", "T2" and "L4" are codes.
#
# Corrected rule. The codes of the reference are its entries. Those of the completion are read in every form of
# ICD-10-CM and ICD-10-PCS, unless it rejects them (`medhelm.scoring.answers.icd_codes`).
#
# Codes are compared without periods, and each counts once. Precision, recall and F1 are averaged over notes;
# `icd_micro_f1` is F1 of the sums over all notes, the literature's micro F1. If neither side has a code, the published
# program failed; here the value is 1, or 0 by the corrected rule for an empty completion.

_PUBLISHED = lazy_regex(r"\b[A-Z]\d{1,3}(?:\.\d{1,4})?\.?\b")


def _published_codes(text: str) -> frozenset[str]:
    """Read the codes in `text` by the published rule."""
    return frozenset(code.rstrip(".") for code in _PUBLISHED.findall(text.replace("**", "")))


def _code_sets(completion: str, instance: Instance, rule: Rule) -> tuple[frozenset[str], frozenset[str]]:
    """Read the codes of the completion and of the reference. Raises DataError without a correct reference."""
    right = correct_references(instance)
    if rule == "published":
        return _published_codes(completion), frozenset[str]().union(*map(_published_codes, right))
    entries = (entry for text in right for entry in _SEPARATOR.split(text))
    return read_codes(completion), frozenset(code for entry in entries if (code := normalize_code(entry)))


def _explanation(*, missing: bool = True, extra: bool = True) -> Callable[[str, Instance, Rule], str]:
    """Build an explanation: missing or extra codes, or codes of the reference that the published rule misreads."""

    def explain(completion: str, instance: Instance, rule: Rule) -> str:
        found, reference = _code_sets(completion, instance, rule)
        wanted = reference if missing else reference & found
        given = found if extra else found & reference
        if not found or given == wanted:
            return ""
        entries = {code.strip() for text in instance.correct for code in _SEPARATOR.split(text)}
        read = {normalize_code(code) for code in reference}
        lost = {code for code in entries if normalize_code(code) not in read}
        if lost and rule == "published":
            return f"the published rule misreads these codes of the reference: {listed(lost)}"
        return differences(given, wanted)

    return explain


def _metric(
    name: str,
    description: str,
    value: Callable[[SetOverlap], float],
    explain: Callable[[str, Instance, Rule], str],
    parts: Callable[[str, Instance, Rule], Parts] | None = None,
) -> Metric:
    """Build a metric from a value of the overlap of two sets of codes."""
    return Metric(
        name=name,
        title=METRIC_TITLES[name],
        description=f"{description} A completion without codes scores 0.",
        source=(
            "ICD-10-CM and ICD-10-PCS (CMS, FY 2024 to 2026); example-based averages (Godbole and Sarawagi, 2004); HELM"
        ),
        published=_rule(_code_sets, value, "published"),
        corrected=_rule(_code_sets, value, "corrected"),
        explain=explain,
        parts=parts,
        reads=AnswerReader("code", lambda completion, _: read_codes(completion) or says_none(completion) or None),
    )


ICD_F1 = _metric(
    "icd_f1",
    "F1 of the ICD-10 codes given to a note, averaged over notes.",
    _f1,
    _explanation(),
)
ICD_PRECISION = _metric(
    "icd_precision",
    "Share of the ICD-10 codes given to a note that are correct, averaged over notes.",
    lambda sets: sets.precision,
    _explanation(missing=False),
)
ICD_RECALL = _metric(
    "icd_recall",
    "Share of the ICD-10 codes of a note that are given, averaged over notes.",
    lambda sets: sets.recall,
    _explanation(extra=False),
)
ICD_MICRO_F1 = _metric(
    "icd_micro_f1",
    "F1 of the ICD-10 codes given, of the sums over all notes.",
    _f1,
    _explanation(),
    _sums(_code_sets),
)


# --- numbers ----------------------------------------------------------------------------------------------------------
# Numbers within limits from the data: 1 if the number in a completion is within them, else 0.
#
# The limits, both included, come from metadata columns of the benchmark. Their names may be in any case, with spaces or
# underscores between words:
#
#     low, high                 (or lower limit, upper limit) the limits themselves; `-inf` and `inf` for none
#     tolerance                 largest distance from the reference, in its unit
#     tolerance_percent         the same, in percent of the reference
#
# Without any of them the number must equal the reference. Published rule: the completion, without surrounding white
# space, must be a number. Corrected rule: it may hold words, a unit and separators (`answers.number.read_number`).

_LOW, _HIGH = ("low", "lower limit"), ("high", "upper limit")
_ROUNDING = 1e-9
"""Share of a limit by which a number may exceed it: decimal fractions are not exact in binary."""


def _limits(instance: Instance) -> tuple[float, float]:
    """Return the lowest and the highest correct number. Raises DataError if the data does not define them."""
    columns = {" ".join(name.lower().replace("_", " ").split()): text for name, text in instance.metadata.items()}
    low, high = _number_in_column(columns, _LOW), _number_in_column(columns, _HIGH)
    if (low is None) != (high is None):
        raise DataError("only one limit is given; give both `low` and `high`, -inf or inf for no limit")
    reference = read_number(correct_references(instance)[0])
    if low is None or high is None:
        if reference is None:
            raise DataError(
                f"the reference {instance.correct[0]!r:.60} holds no number, so no completion can be correct"
            )
        margin = _margin(columns, reference)
        return reference - margin, reference + margin
    if low > high:
        raise DataError(
            f"the lower limit {low:.10g} is above the upper limit {high:.10g}, so no completion can be correct"
        )
    if reference is not None and not _is_within(reference, low, high):
        raise DataError(f"the reference {reference:.10g} is outside its limits, {low:.10g} to {high:.10g}")
    return low, high


def _margin(columns: dict[str, str], reference: float) -> float:
    """Return the largest distance from the reference."""
    absolute, percent = _number_in_column(columns, ("tolerance",)), _number_in_column(columns, ("tolerance percent",))
    if absolute is not None and percent is not None:
        raise DataError("`tolerance` and `tolerance_percent` are both given; leave one of them out")
    margin = absolute if absolute is not None else abs(reference) * (percent or 0.0) / 100
    if not 0 <= margin < math.inf:
        raise DataError(f"the tolerance is {margin:.10g}; it must be 0 or more, and finite")
    return margin


def _number_in_column(columns: dict[str, str], names: tuple[str, ...]) -> float | None:
    """Return the number in the first column that is present and not empty; None without one."""
    for name in names:
        text = columns.get(name, "").strip()
        if text:
            try:
                number = float(text)
            except ValueError:
                number = math.nan
            if math.isnan(number):
                raise DataError(f"`{name}` is {text!r:.60}, which is not a number, so no completion can be correct")
            return number
    return None


def _is_within(number: float, low: float, high: float) -> bool:
    """Return True if a number is finite and within the limits, up to rounding."""
    near = (math.isclose(number, limit, rel_tol=_ROUNDING) for limit in (low, high))
    return math.isfinite(number) and (low <= number <= high or any(near))


def _published(completion: str, instance: Instance) -> float:
    """Score 1 if the whole completion is a number within the limits."""
    low, high = _limits(instance)
    try:
        return float(_is_within(float(completion.strip()), low, high))
    except ValueError:
        return 0.0


def _corrected(completion: str, instance: Instance) -> float:
    """Score 1 if the number in the completion is within the limits."""
    low, high = _limits(instance)
    number = read_number(completion)
    return float(number is not None and _is_within(number, low, high))


def _explain_limits(completion: str, instance: Instance, rule: Rule) -> str:
    """Compare the number with its limits."""
    low, high = _limits(instance)
    number = read_number(completion)
    if number is None:
        return ""
    if not _is_within(number, low, high):
        limits = f"is not {low:.10g}" if low == high else f"is outside its limits, {low:.10g} to {high:.10g}"
        return f"{number:.10g} {limits}"
    strict = rule == "published" and not _published(completion, instance)
    return "the published rule reads a number only if it is the whole completion" if strict else ""


NUMERIC_TOLERANCE = Metric(
    name="numeric_tolerance",
    title=METRIC_TITLES["numeric_tolerance"],
    description=(
        "Share of completions whose number is within the limits of the data, or within a tolerance of the reference; "
        "without either it must equal the reference. A completion without a readable number scores 0."
    ),
    source="This project; the limits come from the data",
    published=_published,
    corrected=_corrected,
    explain=_explain_limits,
    reads=AnswerReader("number", lambda completion, _: read_number(completion)),
)

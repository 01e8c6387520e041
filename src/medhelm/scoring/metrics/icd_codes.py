"""Precision, recall and F1 of the ICD-10 codes (ICD-10-CM and ICD-10-PCS) that a completion assigns to a note.

Published rule. A code is a capital letter, one to three digits and optionally a period and one to four digits, as a
separate word, in the reference and in the completion. So S72.001A counts as S72, Z3A.20 and every procedure code are
lost, E1165 is lost but J189 is not, and "B12", "T2" and "L4" are codes.

Corrected rule. The codes of the reference are its entries. Those of the completion are read in every form of ICD-10-CM
and ICD-10-PCS, unless it rejects them (`medhelm.scoring.answers.icd_codes`).

Codes are compared without periods, and each counts once. Precision, recall and F1 are averaged over notes;
`icd_micro_f1` is F1 of the sums over all notes, the literature's micro F1. If neither side has a code, the published
program failed; here the value is 1, or 0 by the corrected rule for an empty completion.
"""

from __future__ import annotations

from collections.abc import Callable

from medhelm.domain import Instance, Parts, Rule
from medhelm.domain.titles import METRIC_TITLES
from medhelm.io.lazy_regex import lazy_regex
from medhelm.scoring.answers.empty_list import says_none
from medhelm.scoring.answers.icd_codes import normalize_code, read_codes
from medhelm.scoring.metric import AnswerReader, Metric, ScoreFunction, correct_references
from medhelm.scoring.metrics.labels import SetOverlap, differences, listed, overlap

_PUBLISHED = lazy_regex(r"\b[A-Z]\d{1,3}(?:\.\d{1,4})?\.?\b")
_SEPARATOR = lazy_regex(r"[,;\n]")


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


def _rule(value: Callable[[SetOverlap], float], rule: Rule) -> ScoreFunction:
    """Build a rule for one note."""

    def rate(completion: str, instance: Instance) -> float:
        empty = rule == "corrected" and not completion.strip()
        sets = _code_sets(completion, instance, rule)
        return 0.0 if empty else value(overlap(*sets))

    return rate


def _micro_parts(completion: str, instance: Instance, rule: Rule) -> Parts:
    """Return the contribution of a note to the sum over all codes."""
    return {"": overlap(*_code_sets(completion, instance, rule)).counts}


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
        published=_rule(value, "published"),
        corrected=_rule(value, "corrected"),
        explain=explain,
        parts=parts,
        reads=AnswerReader("code", lambda completion, _: read_codes(completion) or says_none(completion) or None),
    )


ICD_F1 = _metric(
    "icd_f1",
    "F1 of the ICD-10 codes given to a note, averaged over notes.",
    lambda sets: sets.f1,
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
    lambda sets: sets.f1,
    _explanation(),
    _micro_parts,
)

"""Precision, recall and F1 of the ICD-10 codes (ICD-10-CM and ICD-10-PCS) that a completion assigns to a note.

Published rule. A code is a capital letter, one to three digits and optionally a period and one to four digits, as a
separate word, in the reference and in the completion. So S72.001A counts as S72, Z3A.20 and every procedure code are
lost, E1165 is lost but J189 is not, and "B12", "T2" and "L4" are codes.

Corrected rule. The codes of the reference are its entries. In the completion, codes are recognized by their form, in
upper or lower case, with or without the period:

    diagnosis with a period     E11.9, S72.001A, F32.A, M1A.0110                  anywhere
    procedure, 7 characters     02HV33Z, without the letters I and O              anywhere
    diagnosis, 7 characters     S72001A                                           anywhere
    shorter, without period     I10, E119, F32A       where codes are listed, if the category exists

"Where codes are listed" means at the beginning of a line or item (after a bullet, number, bracket, quotation mark,
comma, semicolon, colon, slash, bar, dash or another code, or the words code, ICD-10, and), at the end of a line, or
before a closing bracket. So B12 and T12 (not categories) and "given D50 in the ED" are not codes, but "I10 Essential
hypertension" and "Hypertension (I10)" contain one. In lower case, the code must be the whole item. A placeholder such
as "E11.x" is not a code, nor is a token that breaks the rules of procedure codes.

Codes are compared without periods, and each counts once. Precision, recall and F1 are averaged over notes;
`icd_micro_f1` is F1 of the sums over all notes, the literature's micro F1. If neither side has a code, the published
program failed; here the value is 1, or 0 by the corrected rule for an empty completion.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from medhelm.domain import Instance, Parts, Rule
from medhelm.domain.titles import METRIC_TITLES
from medhelm.io.lazy_regex import lazy_regex
from medhelm.scoring.answers.empty_list import says_none
from medhelm.scoring.answers.plain_text import strip_reasoning
from medhelm.scoring.metric import AnswerReader, Metric, ScoreFunction, correct_references
from medhelm.scoring.metrics.labels import SetOverlap, differences, listed, overlap

# Existing categories of ICD-10-CM by letter: numbers, ranges of numbers, and numbers that end in a letter.
_CATEGORIES = {
    "A": "00-09 15 17-28 30-44 46 48-60 63-71 74-75 77-96 98-99",
    "B": "00-10 15-20 25-27 30 33-60 64-83 85-92 94-97 99",
    "C": "00-26 30-34 37-41 43-58 60-86 88 90-96 4A 7A 7B",
    "D": "00-07 09-53 55-78 80-84 86 89 3A",
    "E": "00-11 13 15-16 20-32 34-36 40-46 50-56 58-61 63-68 70-80 83-89",
    "F": "01-07 09-25 28-34 39-45 48 50-55 59-60 63-66 68-73 78-82 84 88-91 93-95 98-99",
    "G": "00-14 20-21 23-26 30-32 35-37 40 43-47 50-65 70-73 80-83 89-99",
    "H": "00-02 04-05 10-11 15-18 20-22 25-28 30-36 40 42-44 46-47 49-55 57 59-62 65-75 80-83 90-95",
    "I": "00-02 05-13 15-16 20-28 30-52 60-63 65-83 85-89 95-97 99 1A 5A",
    "J": "00-06 09-18 20-22 30-45 47 60-70 80-82 84-86 90-96 98-99 4A",
    "K": "00-06 08-09 11-14 20-23 25-31 35-38 40-46 50-52 55-68 70-77 80-83 85-87 90-92 94-95",
    "L": "00-05 08 10-14 20-30 40-45 49-60 62-68 70-76 80-95 97-99",
    "M": "00-02 04-08 10-27 30-36 40-43 45-51 53-54 60-63 65-67 70-72 75-77 79-81 83-97 99 1A",
    "N": "00-08 10-23 25-37 39-53 60-65 70-77 80-99",
    "O": "00-04 07-16 20-26 28-36 40-48 60-77 80 82 85-92 94 98-99 9A",
    "P": "00-05 07-15 19 22-29 35-39 50-61 70-72 74 76-78 80-81 83-84 90-96",
    "Q": "00-07 10-18 20-28 30-45 50-56 60-87 89-93 95-99 A0",
    "R": "00-01 03-07 09-23 25-27 29-37 39-65 68-71 73-94 97 99",
    "S": "00-17 19-99",
    "T": "07 14-28 30-34 36-71 73-76 78-88",
    "U": "07 09",
    "V": "00-06 09-99",
    "W": "00-01 03-40 42 44-46 49-62 64-65 67 69 73-74 85-86 88-90 92-94 99",
    "X": "00-06 08 10-19 30-32 34-39 50 52 58 71-83 92-99",
    "Y": "00-04 07-09 21-33 35-38 62-66 69-84 90 92-93 95 99",
    "Z": "00-05 08-09 11-23 28-34 36-49 51-53 55-60 62-99 3A",
}
_CATEGORY = r"[A-Z](?:[0-9][0-9AB]|A0)"
_DETAIL = r"[0-9A-LXZ](?:[0-9A-EXYZ](?:[0-9A-HX][0-9A-HJKMNP-S]?)?)?"
_TOKEN = lazy_regex(
    rf"(?<!\w)(?:(?P<dotted>{_CATEGORY}\.{_DETAIL})|(?P<procedure>[0-9BCDFGHX][0-9A-HJ-NP-Z]{{6}})"
    rf"|(?P<bare>{_CATEGORY}(?:{_DETAIL})?))(?![\w%°]|\.[\w-])",
    re.IGNORECASE,
)
_LISTS_BEFORE = lazy_regex(
    r"(?:^|[-•–—+,;:=|/(\[{\"'#>→]|\d[.)]|\b(?:and|or|icd-?10(?:-?(?:cm|pcs))?|cm|pcs|coded\s(?:as|with)"
    r"|codes?(?:\s(?:is|are|include))?)|\b[A-Z]\d[0-9AB][0-9A-Z.]{0,5}\s)\s*\Z",
    re.IGNORECASE,
)
_ENDS_LINE = lazy_regex(r"\.?\s*(?:\n|\Z|[)\]}|])")
_ENDS_ITEM = lazy_regex(r"\.?\s*(?:\n|\Z|[)\]}|,;\"'/]|(?:and|or)\b)", re.IGNORECASE)
_BESIDE = 24
"""Characters looked at before a code."""
_MARKUP = str.maketrans({"*": " ", "`": " ", "_": " ", "“": '"', "”": '"', "‘": "'", "’": "'", "\u00a0": " "})

_PUBLISHED = lazy_regex(r"\b[A-Z]\d{1,3}(?:\.\d{1,4})?\.?\b")
_SEPARATOR = lazy_regex(r"[,;\n]")


def read_codes(text: str) -> frozenset[str]:
    """Read the ICD-10 codes in `text`, in upper case and without periods.

    >>> sorted(read_codes("1. Hypertension (I10)\\n2. Vitamin B12 deficiency: e53.8\\n3. Central line, 02HV33Z"))
    ['02HV33Z', 'E538', 'I10']
    """
    plain = strip_reasoning(text).translate(_MARKUP)
    return frozenset(_normalize(match[0]) for match in _TOKEN.finditer(plain) if _is_code(plain, match))


def _normalize(code: str) -> str:
    """Return the form in which codes are compared."""
    return code.strip().replace(".", "").upper()


def _is_code(text: str, match: re.Match[str]) -> bool:
    """Return True if a token in the form of a code is one, by its characters and its context."""
    token = match[0]
    small = token != token.upper()
    if match["dotted"]:
        return not _is_word(token[4:], after_small=token[0].islower())
    if match["procedure"]:
        if not small and _is_procedure(token):
            return True
        if re.fullmatch(rf"{_CATEGORY}{_DETAIL}", token, re.IGNORECASE) is None and not _is_procedure(token.upper()):
            return False
    elif not small and len(token) == len("S72001A"):
        return _category_exists(token)
    return _is_listed(text, match, alone=small) and (_is_procedure(token.upper()) or _category_exists(token.upper()))


def _is_word(detail: str, *, after_small: bool) -> bool:
    """Return True if the part after the period is a word or a placeholder: lower-case letters or a single x."""
    if any(sign.isdigit() for sign in detail) or detail.upper().startswith("XX"):
        return False
    return detail in "xX" or (detail != detail.upper() and not (after_small and len(detail) == 1))


def _is_procedure(token: str) -> bool:
    """Return True for a procedure code of seven characters: has a digit or ends in ZZ; all digits only for surgery."""
    if len(token) != len("02HV33Z"):
        return False
    if token.isdigit():
        return token[0] == "0"
    return token.endswith("ZZ") or any(sign.isdigit() for sign in token)


def _is_listed(text: str, match: re.Match[str], *, alone: bool) -> bool:
    """Return True if a token is where codes are listed; `alone`: with nothing else in its item."""
    start, end = match.span()
    line = text.rfind("\n", 0, start) + 1
    begins = _LISTS_BEFORE.search(text[max(line, start - _BESIDE) : start]) is not None
    if alone:
        return begins and _ENDS_ITEM.match(text, end) is not None
    return begins or _ENDS_LINE.match(text, end) is not None


def _category_exists(code: str) -> bool:
    """Return True if the category of a diagnosis exists."""
    letter, number = code[0], code[1:3]
    for span in _CATEGORIES.get(letter, "").split():
        first, _, last = span.partition("-")
        if first == number or (last and number.isdigit() and first <= number <= last):
            return True
    return False


def _published_codes(text: str) -> frozenset[str]:
    """Read the codes in `text` by the published rule."""
    return frozenset(code.rstrip(".") for code in _PUBLISHED.findall(text.replace("**", "")))


def _code_sets(completion: str, instance: Instance, rule: Rule) -> tuple[frozenset[str], frozenset[str]]:
    """Read the codes of the completion and of the reference. Raises DataError without a correct reference."""
    right = correct_references(instance)
    if rule == "published":
        return _published_codes(completion), frozenset[str]().union(*map(_published_codes, right))
    entries = (entry for text in right for entry in _SEPARATOR.split(text))
    return read_codes(completion), frozenset(code for entry in entries if (code := _normalize(entry)))


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
        read = {_normalize(code) for code in reference}
        lost = {code for code in entries if _normalize(code) not in read}
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

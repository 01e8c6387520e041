"""Read the ICD-10 codes (ICD-10-CM and ICD-10-PCS) that a completion assigns.

Codes are recognized by their form, in upper or lower case, with or without the period:

    diagnosis with a period     E11.9, S72.001A, F32.A, M1A.0110                  anywhere
    procedure, 7 characters     02HV33Z, without the letters I and O              anywhere
    diagnosis, 7 characters     S72001A                                           anywhere
    shorter, without period     I10, E119, F32A       where codes are listed, if the category exists

"Where codes are listed" means at the beginning of a line or item (after a bullet, number, bracket, quotation mark,
comma, semicolon, colon, slash, bar, dash or another code, or the words code, ICD-10, and), at the end of a line, or
before a closing bracket. So B12 and T12 (not categories) and "given D50 in the ED" are not codes, but "I10 Essential
hypertension" and "Hypertension (I10)" contain one. In lower case, the code must be the whole item. A placeholder such
as "E11.x" is not a code, nor is a token that breaks the rules of procedure codes, nor what the next word shows to be
something else: "N95 mask", "P53 mutation". "p53" is a gene unless other codes are in lower case.

A code does not count if the words directly before or after it reject it ("not I10", "R/O I10", "I10 was ruled out"), if
it is in a list with such a heading ("Excludes1: I10, E11.9"), struck out, or an end of a range (I10-I15). The last
mention decides. Nor does a code that would be assigned on a condition ("if confirmed, I21.4", "consider I10"). One that
is "possible" or "suspected" does: in summaries of hospital stays, coders assign an uncertain diagnosis as an
established one (ICD-10-CM guidelines, section II.H). Negations elsewhere belong to descriptions: "J18.9 Pneumonia, not
otherwise specified".

O is read as 0 only after the letter and digit of a code with a period (E1O.9): CO2, H2O and PO2 are other things.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from medhelm.io.plugins import lazy_regex
from medhelm.scoring.answers.text import before_next_task, plain_characters

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
    rf"|(?P<bare>{_CATEGORY}(?:{_DETAIL})?(?!,\d{{1,2}}(?!\w))))(?![\w%°]|\.[\w-]|[:-]\d|-(?:\s*(?:\n|\Z)|[,;.)]))",
    re.IGNORECASE,
)
_LISTS_BEFORE = lazy_regex(
    r"(?:^|[-•–—+,;:=|/\\、·~⟨(\[{\"'#>→<&✅✓✔❌✗✘▸■]|\d[.)]|\b(?:and|or|icd-?10(?:-?(?:cm|pcs))?|cm|pcs|coded\s(?:as|with)"
    r"|codes?(?:\s(?:is|are|include)|\s\w+\s(?:is|are))?|assign|not|no|nor|plus|then|dx\d?)|r/o|\brule(?:d)?\sout"
    r"|\b[A-Z]\d[0-9AB][0-9A-Z.]{0,5}(?:\s(?:to|through))?\s|\b[0-9A-Z]{7}\s)\s*\Z",
    re.IGNORECASE,
)
_ENDS_LINE = lazy_regex(r"\.?\s*(?:\n|\Z|[)\]}|>⟩])")
_ENDS_ITEM = lazy_regex(r"\.?\s*(?:\n|\Z|[)\]}|>,;\"'/]|(?:and|or)\b|[A-Z]\d[0-9AB])", re.IGNORECASE)
_BEGINS_LIST = lazy_regex(
    rf"\s?(?:[,;/|&+]|,?\s?(?:and|or)\b)\s?(?:and\s|or\s)?(?:{_CATEGORY}[.0-9A-Z]{{0,5}}|[0-9A-Z]{{7}})\b|;"
)
_APPLIES = lazy_regex(
    r"\s(?:applies|apply|(?:is|was)\s(?:coded|assigned|correct|the\s(?:\w+\s)?code))\b", re.IGNORECASE
)
_BESIDE = 40
"""Characters looked at before a code."""
_MARKUP = str.maketrans({"*": " ", "`": " ", "“": '"', "”": '"', "‘": "'", "’": "'", "\u00a0": " "})

_MISPRINTS = (
    (lazy_regex(r"(?<!\w)_([^_\n]+)_(?!\w)"), r"\1"),
    (lazy_regex(r"(?<=[0-9ABX])(?:\.[*_?-]+|_(?=\W|$))"), ".x"),
    (lazy_regex(r"(?<!\w)_+|_+(?!\w)"), " "),
    (lazy_regex(r"\[[ ]?\]"), "❌"),
    (lazy_regex(r"~~[^~\n]+~~|<(del|s)>[^<\n]*</\1>"), ""),
    (lazy_regex(r"(?<=\d)·(?=\d)"), "."),
    (lazy_regex(r"(?<![\w.])([A-Za-z]\d[0-9ABab]) ?\.(?=\d)"), r"\1."),
    (lazy_regex(r"(?<![\w.,])([A-Z]\d[0-9AB]),(?=\d(?![\w,.]))"), r"\1."),
    (lazy_regex(r"(?<![\w.])([A-Z]\d)O(?=\.\d)"), r"\g<1>0"),
    (lazy_regex(r"(?<![\w.])([A-Z]\d[0-9AB]\.\d?)O(?=\d?\b)"), r"\g<1>0"),
)
"""Misprint -> the code that is meant."""
_REJECTED_BEFORE = lazy_regex(
    r"(?:\b(?:not|(?<!\?\s)no|non|neither|nor|without|instead\sof|in\splace\sof|rather\sthan|never|except(?:\sfor)?|r/o"
    r"|exclud(?:es?\s?\d?(?:\snotes?)?|ed|ing)|over|rul(?:e|ed|ing)\sout|(?:do(?:es)?\snot|don't|doesn't)\s\w+|no\sneed\sfor|avoid(?:ing)?"
    r"|omit(?:ted)?|removed?|deleted?|dropp?(?:ed)?|reject(?:ed)?|unsupported|replac(?:es?|ed|ing)|previously|formerly|was"
    r"|(?<!to\s)consider(?:ing)?(?:\s(?:also|adding|coding))?|sin|sem|senza|ohne|sans|kein(?:e[nrm]?)?|nicht|n[ãa]o|non|nessuna?|pas|aucune?"
    r"|chang(?:e|ed|ing)(?:\sfrom)?|from|considered|hcpcs|cpt|ms-drg|drg|snomed(?:\sct)?)\b|icd-?9(?:-cm)?\b[:\s\d.,]*|[❌✗✘])"
    r"(?:\s(?:the|an?|icd-?10(?:-cm)?|codes?|cod(?:ed|ing)|us(?:e|ed|ing)|assign(?:ed)?|report(?:ed)?|includ(?:ed|ing)|listed"
    r"|supported|selected|billed|as|applicable|for|evidencia|se|codifi\w+|coder|kodier\w+|código|d[e'])|\sd')*"
    r"(?P<heading>\s?:\s*(?:[-*•]|\d{1,2}[.)])?)?[ \t\"'(\[-]*\Z",
    re.IGNORECASE,
)
_REJECTING_HEADING = lazy_regex(
    r"(?:^|\n)[^:\n.]{0,40}\b(?:exclud(?:es?\d?|ed)|omitted|rejected|unsupported|insufficient|left\sout|excluid[oa]s|descartad[oa]s|ausgeschlossen|exclus|nicht\skodiert|if\s(?:confirmed|positive|documented|proven|present)"
    r"|non?\s(?:codés|codificad[oa]s)|not\s(?:coded"
    r"|assigned|included|supported|applicable|documented|used|present))\b[^:\n.]{0,40}:\s*(?:[-*•]|\d{1,2}[.)])?\s*\Z",
    re.IGNORECASE,
)
_CONDITION = lazy_regex(
    r"(?:\A|[.;:,(–—•*\n-]\s*|\b(?:and|but|or|then|only|also)\s)(?:if|once|unless|should\s(?:the|it|this|a|an)|si|wenn|falls)"
    r"\s(?!(?:I|you|we|only|asked|any|coding|more|there|to)\b)[^.;:()\n]*(?:\.\d[^.;:()\n]*)*[(\[]?\Z",
    re.IGNORECASE,
)
"""A condition under which a code would be assigned: "if confirmed, I21.4"."""
_DENIED_CONDITION = lazy_regex(
    r"\b(?:(?:no|without)\s(?:any\s)?(?:clear\s)?(?:evidence|signs?|mention|documentation|indication)\s(?:of|for)|denie[sd])"
    r"\s(?!(?:\w+\s)?(?:disease|recurrence|malignancy)\b)[^.;:()\[\n]{1,60}[(\[]\s*\Z",
    re.IGNORECASE,
)
"""A condition that is denied before its code: "no evidence of pneumonia (J18.9)"."""
_REJECTING_KEY = lazy_regex(
    r"[\"'][\w\s-]*(?:exclu|reject|ruled|omit|not[_\s]|unsupported|considered)[\w\s-]*[\"']\s?:\s?(?:\[[^\]]*|\{[^}]*)\Z",
    re.IGNORECASE,
)
"""The key of a JSON list of codes that are not assigned."""
_CLAUSE_BEFORE = lazy_regex(r"[^.;:,\n]*(?:\.\d[^.;:,\n]*)*\Z")
_REJECTING_CLAUSE = lazy_regex(
    r"\W*(?:I|we|there|it|first\sI)\b(?:(?!\bso\b|\bbut\b).)*\b(?:not|\w+n't|no|cannot|unable|left\sout|omitted|excluded|insufficient|initially"
    r"|thought|considered|rejected|removed)\b(?:(?!\bso\b|\bbut\b).)*",
    re.IGNORECASE | re.DOTALL,
)
_PREDICATE = (
    r"(?:be(?:en)?\s)?(?:coded|applicable|assigned|used|included|supported|documented|correct|right|needed|indicated|appropriate"
    r"|reported|billable|present|valid|selected|required|relevant|necessary|listed|accurate|warranted|justified|apply|fit|exist"
    r"|part\sof|the\s(?:right|correct)\scode)\b"
)
_REJECTED_AFTER = lazy_regex(
    r"[)\]\"']?\ ?(?:[-–—:,(?|=]|->|→)?\ ?\(?(?:(?:is|was|are|were|has\sbeen|have\sbeen|would\sbe)\s)?(?:"
    r"(?:(?:(?:is|was|are|were|do|does|did|would|should|could|can|must|may|need|has|have)(?:\snot|n't)|not|cannot|can't)\s"
    rf"{_PREDICATE})|(?:ruled\sout|left\sout|excluded|rejected|considered|integral|incorrect|wrong|inappropriate|invalid|to\sbe\savoided"
    r"|unsupported|unnecessary|redundant|removed|deleted|dropped|omitted|replaced\s(?:by|with)|no,?\swait)\b"
    r"|(?:no|0(?!\.\d)|false|absent)(?=\W*(?:\n|\Z)|\s?[.;,|)])|[❌✗✘]"
    r"|(?:would\s(?:\w+\s){1,3})?(?:only\s)?(?:if|pending)\b|(?:vs\.?|versus)\s"
    r"|(?:no|não)\s(?:se\s)?(?:codific|aplica|procede)(?!\w*\s[A-Z]\d)|n'est\spas|(?:wird\s)?nicht\s(?:kodiert|codiert|dokumentiert|zutreffend)"
    r"|(?:descartad[oa]|excluid[oa]|ausgeschlossen|exclue?|écartée?)\b)",
    re.IGNORECASE,
)
_CORRECTED = lazy_regex(r"\s?(?:→|[-=]>)\s?")
_JOINED = lazy_regex(r"\s?(?:,|,?\s(?:and|or|&))\s?")
_PLURAL = lazy_regex(r"[)\]]?\s(?:are|were|should\snot|do\snot|don't|need\snot)\b", re.IGNORECASE)
_NEXT_IN_SENTENCE = lazy_regex(r"[)\]\"']?\s*,?\s*(?:or|nor)\s+(?:codes?\s)?[(\[\"']?", re.IGNORECASE)
_NEXT_IN_LIST = lazy_regex(r"(?:\s?:\s)?(?:(?!\.\s)[^\n:])*(?:\n[ \t]*(?:[-*•]|\d{1,2}[.)])[^\n:]*)?")
_RANGE = lazy_regex(r"\s?[-–—]\s?|\s(?:to|through|thru)\s")
_NO_CODE_AFTER = lazy_regex(
    r"[\s(-]{0,2}(?:mask|respirator|amp(?:s|ules?)?\b|infusion|bolus|dextrose|drip|fdg|pet\b|ablation|radioembol|summit"
    r"|supplement|mg\b|ml\b|(?:was\s|were\s)?(?:given|administered)\b)",
    re.IGNORECASE,
)
_NO_CODE_BEFORE = lazy_regex(
    r"\b(?:coenzyme|vitamin|cytochrome|dextrose|level|lead|room|rm|ward|unit|bed|dr\.|hla|(?:id|account|mrn|number)\s?[:#]?|(?:takes|taking|administered|infused|prescribed)(?:\s[\w-]+,?){0,3})[\s-]\Z",
    re.IGNORECASE,
)
_NEVER_A_CODE = lazy_regex(r"(?i:q\d\dh|g\d+p\d+)|[A-Z]\d{2,3}[C-Z]|[A-Z]\d+[a-z]+")
"""Intervals (q12h), numbers of pregnancies and births (G2P1001), mutations (V600E, F508del)."""
_GENE_AFTER = lazy_regex(
    r"[\s(:-]{0,3}(?:mutat|mutant|gene\b|protein|positiv|negativ|express|stain|overexpress|wild|pathway|mapk|kinase|status|ihc\b)",
    re.IGNORECASE,
)
_SEEN_BEFORE = 90
"""Characters in which words that reject a code are looked for."""


_SEEN_IN_LIST = 500


def read_codes(text: str) -> frozenset[str]:
    """Read the ICD-10 codes in `text`, in upper case and without periods.

    >>> sorted(read_codes("1. Hypertension (I10)\\n2. Vitamin B12 deficiency: e53.8\\n3. Central line, 02HV33Z"))
    ['02HV33Z', 'E538', 'I10']
    """
    plain = plain_characters(before_next_task(text))
    for pattern, replacement in _MISPRINTS:
        plain = pattern.sub(replacement, plain)
    plain = plain.translate(_MARKUP)
    tokens = [match for match in _TOKEN.finditer(plain) if _is_code(plain, match)]
    small = {match[0] for match in tokens if match[0].islower()}
    if all(_is_gene(token) for token in small):
        tokens = [match for match in tokens if match[0] not in small]
    ends = _range_ends(plain, list(_TOKEN.finditer(plain)))
    after = _rejected_after(plain, tokens)
    assigned: dict[str, bool] = {}
    rejected = ""
    for number, token in enumerate(tokens):
        between = plain[tokens[number - 1].end() : token.start()] if number else ""
        rejected = _rejection(plain, token, rejected, between)
        if token.start() not in ends:
            assigned[normalize_code(token[0])] = not (rejected or after[number])
    return frozenset(code for code, counts in assigned.items() if counts)


def normalize_code(code: str) -> str:
    """Return the form in which codes are compared: in upper case, without periods.

    >>> normalize_code(" e11.9")
    'E119'
    """
    return code.strip().replace(".", "").upper()


def _rejection(text: str, token: re.Match[str], previous: str, between: str) -> str:
    """Return how a code is rejected: "word" or "heading" before it or before the code that it follows; "" if it is not.

    `previous`: the same for the code before; `between`: the text between the two.
    """
    before = text[max(0, token.start() - _SEEN_BEFORE) : token.start()]
    found = _REJECTED_BEFORE.search(before)
    if found:
        return "heading" if found["heading"] else "word"
    if _REJECTING_HEADING.search(before) or _REJECTING_KEY.search(
        text, max(0, token.start() - _SEEN_IN_LIST), token.start()
    ):
        return "heading"
    if _CONDITION.search(before) or _DENIED_CONDITION.search(before):
        return "word"
    clause = _CLAUSE_BEFORE.search(before)
    if clause and _REJECTING_CLAUSE.fullmatch(clause[0]):
        return "word"
    goes_on = {"word": _NEXT_IN_SENTENCE, "heading": _NEXT_IN_LIST}.get(previous)
    return previous if goes_on and goes_on.fullmatch(between) else ""


def _rejected_after(text: str, tokens: Sequence[re.Match[str]]) -> list[bool]:
    """Return for each code if what follows it rejects it, or the list that it is in: "R05 and R50.9 are not coded"."""
    rejected = [_REJECTED_AFTER.match(text, token.end()) is not None for token in tokens]
    in_list = False  # the list that goes on after the code is rejected
    for number in range(len(tokens) - 2, -1, -1):
        token, following = tokens[number : number + 2]
        span = token.end(), following.start()
        ends_list = rejected[number + 1] and _PLURAL.match(text, following.end()) is not None
        in_list = (in_list or ends_list) and _JOINED.fullmatch(text, *span) is not None
        is_corrected = _CORRECTED.fullmatch(text, *span) and token[0][:3].upper() == following[0][:3].upper()
        rejected[number] = rejected[number] or in_list or bool(is_corrected)  # corrected: "N18.30 → N18.31"
    return rejected


def _range_ends(text: str, tokens: Sequence[re.Match[str]]) -> set[int]:
    """Return the positions in `text` of the ends of ranges such as I10-I15, which assign no code."""
    joined = {
        number
        for number in range(1, len(tokens))
        if _RANGE.fullmatch(text, tokens[number - 1].end(), tokens[number].start())
    }
    ends = set()
    for number in joined - {other + step for other in joined for step in (1, -1)}:
        first, last = tokens[number - 1][0].upper(), tokens[number][0].upper()
        if (
            first[0] == last[0]
            and len(first) == len(last)
            and first < last
            and ("." not in first or first[:3] == last[:3])
        ):
            ends |= {tokens[number - 1].start(), tokens[number].start()}
    return ends


def _is_gene(token: str) -> bool:
    """Return True for names such as p53, which are written like codes in lower case."""
    return token[0] == "p" and len(token) == len("p53")


def _is_code(text: str, match: re.Match[str]) -> bool:
    """Return True if a token in the form of a code is one, by its characters and its context."""
    token = match[0]
    small = token != token.upper()
    if token[-1] in "xX" and not match["procedure"]:
        return False  # a placeholder
    if match["dotted"]:
        return not _is_word(token[4:], after_small=token[0].islower())
    if _NO_CODE_AFTER.match(text, match.end()) or (token[0] in "pP" and _GENE_AFTER.match(text, match.end())):
        return False
    if _NO_CODE_BEFORE.search(text[max(0, match.start() - _BESIDE) : match.start()]) or _NEVER_A_CODE.fullmatch(token):
        return False
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
    if any(sign.isdigit() for sign in detail) or (detail.upper().startswith("XX") and detail.strip("xX")):
        return False
    return not detail.strip("xX") or (detail != detail.upper() and not (after_small and len(detail) == 1))


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
    before = text[max(text.rfind("\n", 0, start) + 1, start - _BESIDE) : start]
    begins = _LISTS_BEFORE.search(before) is not None
    if alone:
        return begins and _ENDS_ITEM.match(text, end) is not None
    if begins or _ENDS_LINE.match(text, end) or _BEGINS_LIST.match(text, end):
        return True
    return _APPLIES.match(text, end) is not None or (before[-2:] == ". " and _ENDS_ITEM.match(text, end) is not None)


def _category_exists(code: str) -> bool:
    """Return True if the category of a diagnosis exists."""
    letter, number = code[0], code[1:3]
    for span in _CATEGORIES.get(letter, "").split():
        first, _, last = span.partition("-")
        if first == number or (last and number.isdigit() and first <= number <= last):
            return True
    return False

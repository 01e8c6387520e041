"""Patterns of personal identifiers."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NUMBER = r"(?: ?(?:number|no\.?|id|#))?[:# ]{1,3}"
_BYTE = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
_STREET = r"(?:Street|St\.|Avenue|Ave\.?|Road|Rd\.?|Lane|Drive|Boulevard|Blvd\.?|Court|Highway|Hwy)"


def _labeled(names: str, value: str = r"[A-Z]{0,3}-?\d[\d-]{4,}\b") -> re.Pattern[str]:
    """Return a pattern for a number after its name, such as `account no. 99887766`."""
    return re.compile(rf"\b(?:{names}){_NUMBER}{value}", re.IGNORECASE)


IDENTIFIERS: Mapping[str, re.Pattern[str]] = {
    "a name after a title": re.compile(r"\b(?:Mr|Mrs|Ms|Miss)\.? [A-Z][a-z]+|\b[Pp]atient name: ?[A-Z][a-z]+"),
    "an address or ZIP code": re.compile(
        rf"\b\d{{1,5}} (?:[A-Z][a-z]+ ){{1,3}}{_STREET}(?!\w)|\b[A-Z][a-z]+,? [A-Z]{{2}} \d{{5}}(?:-\d{{4}})?\b"
    ),
    "a date or an age of 90 or more": re.compile(
        rf"(?<![\d./-])\d{{1,2}}([/.-])\d{{1,2}}\1(?:19|20)?\d{{2}}(?!\.?\d|/)|\b(?:19|20)\d\d-\d\d-\d\d\b"
        rf"|\b{_MONTH} \d{{1,2}},? (?:19|20)\d\d\b|\b\d{{1,2}} {_MONTH} (?:19|20)\d\d\b"
        r"|\b(?:9\d|1[01]\d)[- ]?(?:years?[- ]old|y/?o)\b"
    ),
    "a telephone number": re.compile(
        r"(?<![\d-])(?<!fax )(?<!fax: )(?:\+1[ -]\d{3} |(?:\+1[ -])?(?:\(\d{3}\) ?|\d{3}[-.]))"
        r"(?!555[-. ]01)\d{3}[-. ]\d{4}(?![\d-])",
        re.IGNORECASE,
    ),
    "a fax number": _labeled("fax", r"[+(\d][\d(). -]{6,}\d"),
    "an e-mail address": re.compile(r"\b[\w.+-]+@(?!example\b)[\w-]+\.[\w.-]*[a-z]{2}\b", re.IGNORECASE),
    "a social security number": re.compile(r"(?<![\d-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d-])"),
    "a medical record number": _labeled("MRN|medical record"),
    "a health plan number": _labeled("member|policy|health plan|beneficiary|insurance|medicare"),
    "an account number": _labeled("account|acct"),
    "a license number": _labeled("licen[sc]e|certificate|DEA|NPI"),
    "a device serial number": _labeled("serial|device", r"(?=[A-Z-]*\d)[A-Z\d-]{6,}\b"),
    "a web address": re.compile(r"\b(?:https?://|www\.)(?!(?:www\.)?example\.)\S+", re.IGNORECASE),
    "an IP address": re.compile(rf"(?<![\d.])(?:{_BYTE}\.){{3}}{_BYTE}(?![\d.])"),
}
"""Kind of personal identifier -> pattern: 14 of the 18 categories of HIPAA's Safe Harbor rule (45 CFR 164.514(b)(2)).

Reserved examples (555-01xx, example.org) do not count.
"""

UNSEARCHED = (
    "vehicle identifiers",
    "biometric identifiers",
    "photographs",
    "other unique numbers, characteristics or codes",
)
"""The categories of that rule without a pattern."""

"""Split dictated reports into a reference section and the rest, which a model reads.

The reports of mtsamples.com have headings in capital letters. The reference is the plan, summary or findings.
"""

from __future__ import annotations

import re

KINDS = ("PLAN", "SUMMARY", "FINDINGS")
"""Sections that can be the reference, preferred first."""

_ADDED = re.compile(r"^Description:.*\n?|^Keywords:[\s\S]*", re.MULTILINE)
"""Text that the website derived from the whole report, reference included; the keywords are always last."""

# The reports have line breaks after every few sentences, not between sections, so a heading can be anywhere in a line.
_HEAD = re.compile(
    r"[A-Z][A-Z0-9 /&,()'’#-]{0,80}(?=:)"
    r"|(?:[A-Z][a-z]+(?: and | & | ?/ ?| )){0,4}(?:Plan|Summary|Findings)(?=:)"
)

_ELSEWHERE = re.compile(
    r"HISTORY|COMPLAINT|REASON|INDICATION|NECESSITY|CONSENT|EXAM|VITAL SIGNS|LABORATORY|\bLABS?\b|TECHNIQUE|OPERATI"
    r"|PROCEDURE(?!S SCHEDULED)|SURGERY|ANESTHESIA|BLOOD LOSS|FLUIDS|URINE OUTPUT|DRAIN|SPECIMEN|COMPLICATION|COUNT"
    r"|COURSE|CONDITION|IMPRESSION|ASSESSMENT|DIAGNOS[IE]S|INTERPRETATION|CONCLUSION|ADDENDUM|CODE\(S\)|TIME SEEN"
    r"|\bPLANS?\b|SUMMARY|FINDINGS"
)
"""Headings that end a section; all others (FOLLOW-UP, L4-5, ...) are part of it."""

_CARE = re.compile(r"RECOMMENDATION|DISPOSITION|MEDICATION|INSTRUCTION|FOLLOW|ACTIVITY|DIET|ORDERS")
"""Headings that end a summary or findings, but are part of a plan."""


def split_section(text: str) -> tuple[str, str, str]:
    """Split a report: the text without the sections of one kind, these sections, and the kind. Empty without `KINDS`.

    Description and keywords, which the website added, are removed from both.

    >>> split_section("HISTORY: Cough. PLAN: Rest. EXAM: Normal.")
    ('HISTORY: Cough.\\nEXAM: Normal.', 'Rest.', 'PLAN')
    """
    report = _ADDED.sub("", text)
    for kind in KINDS:
        note, reference = _split_off(report, kind)
        if reference:
            return note, reference, kind
    return "", "", ""


def _split_off(report: str, kind: str) -> tuple[str, str]:
    """Split off the sections of one kind; join the parts of both sides by line breaks."""
    outside: list[str] = []
    inside: list[str] = []
    begin, target = 0, outside
    for head in _HEAD.finditer(report):
        words = head.group()
        if words.upper().endswith(kind):
            start = head.end() - len(kind)
            glued = report[start - 1 : start].isalpha()  # "LUMBAR SPINEFINDINGS:" includes the examined part
            target.append(report[begin : start if glued else head.start()])
            begin, target = head.end() + 1, inside
        elif target is inside and (_ELSEWHERE.search(words) or (kind != "PLAN" and _CARE.search(words))):
            inside.append(report[begin : head.start()])
            begin, target = head.start(), outside
    target.append(report[begin:])
    note, reference = ("\n".join(part.strip() for part in parts if part.strip()) for parts in (outside, inside))
    return note, reference


def first_line_of_section(text: str) -> tuple[str, str]:
    """Return the first line of the first section by the published rule, and its kind; empty without one.

    If a heading occurs in lower case anywhere, that rule finds nothing.
    """
    if any(f"{kind}:" in text.upper() and f"{kind}:" not in text for kind in KINDS):
        return "", ""
    for kind in KINDS:
        _, head, rest = text.partition(f"{kind}:")
        reference = rest.partition(f"{kind}:")[0].partition("\n")[0].strip() if head else ""
        if reference:
            return reference, kind
    return "", ""

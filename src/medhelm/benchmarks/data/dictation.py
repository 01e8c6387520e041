"""Dictated reports: one section of them, and the rest.

The reports of mtsamples.com are lines of text with heads in capital letters. A plan, a summary or findings can be the
reference of a benchmark that asks for it; what remains is what a model is shown.
"""

from __future__ import annotations

import re

KINDS = ("PLAN", "SUMMARY", "FINDINGS")
"""Sections that can be the reference, the preferred one first."""

_ADDED = re.compile(r"^Description:.*\n?|^Keywords:[\s\S]*", re.MULTILINE)
"""What the web site made from the whole report, the reference included; its keywords are always the last."""

# Line breaks of the reports come after every few sentences, not between sections, so a head stands anywhere in a line.
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
"""Heads that end a section; all others (FOLLOW-UP, L4-5, ...) are parts of it."""

_CARE = re.compile(r"RECOMMENDATION|DISPOSITION|MEDICATION|INSTRUCTION|FOLLOW|ACTIVITY|DIET|ORDERS")
"""Heads that end a summary or findings, but are parts of a plan."""


def part_section(text: str) -> tuple[str, str, str]:
    """A report without the sections of one kind, what these say, and the kind; empty texts if it has none of `KINDS`.

    What the web site added to the report, its description and keywords, is no part of either.

    >>> part_section("HISTORY: Cough. PLAN: Rest. EXAM: Normal.")
    ('HISTORY: Cough.\\nEXAM: Normal.', 'Rest.', 'PLAN')
    """
    report = _ADDED.sub("", text)
    for kind in KINDS:
        note, reference = _parted(report, kind)
        if reference:
            return note, reference, kind
    return "", "", ""


def _parted(report: str, kind: str) -> tuple[str, str]:
    """The report without its sections of one kind, and what these say; parts are put together line by line."""
    outside: list[str] = []
    inside: list[str] = []
    begin, target = 0, outside
    for head in _HEAD.finditer(report):
        words = head.group()
        if words.upper().endswith(kind):
            start = head.end() - len(kind)
            glued = report[start - 1 : start].isalpha()  # "LUMBAR SPINEFINDINGS:" names what was examined
            target.append(report[begin : start if glued else head.start()])
            begin, target = head.end() + 1, inside
        elif target is inside and (_ELSEWHERE.search(words) or (kind != "PLAN" and _CARE.search(words))):
            inside.append(report[begin : head.start()])
            begin, target = head.start(), outside
    target.append(report[begin:])
    note, reference = ("\n".join(part.strip() for part in parts if part.strip()) for parts in (outside, inside))
    return note, reference


def first_line_of_section(text: str) -> tuple[str, str]:
    """The first line of the first section by the published rule, and its kind; empty texts if there is none.

    A head in small letters anywhere makes that rule give up.
    """
    if any(f"{kind}:" in text.upper() and f"{kind}:" not in text for kind in KINDS):
        return "", ""
    for kind in KINDS:
        _, head, rest = text.partition(f"{kind}:")
        reference = rest.partition(f"{kind}:")[0].partition("\n")[0].strip() if head else ""
        if reference:
            return reference, kind
    return "", ""

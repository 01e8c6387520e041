"""Change the content of a case: sentences without medical content, another order of sections, a missing value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from medhelm.domain import Benchmark, Instance
from medhelm.extensions.variants.perturbations.cases import (
    PatientCase,
    on_case,
    only_text,
    prompt_fields,
    sentence_breaks,
    shown_text,
    with_field,
)
from medhelm.extensions.variants.types import Perturbation

# --- irrelevant sentences ---------------------------------------------------------------------------------------------

IRRELEVANT = (
    "The visitor parking lot was about half full.",
    "The intake form was filled out in blue ink.",
    "It was a cloudy day.",
    "The printer at the front desk was out of paper.",
    "A new sign had recently been put up at the main entrance.",
    "The clock in the hallway was two minutes slow.",
    "The receptionist was on the phone with a supplier.",
    "One of the two elevators was out of service.",
    "The chairs in the waiting room had been rearranged.",
    "The phone number on file was confirmed.",
    "The mailing address on file was up to date.",
    "The television in the waiting room was showing a game show.",
    "The chart was printed on both sides of the page.",
    "A delivery of office supplies arrived that morning.",
)
"""Sentences that say nothing about a patient: no exposure, no symptom, no food, no animal, no trip, no cost."""
N_SENTENCES = 2


@on_case
def _add_sentences(case: PatientCase, rng: Random) -> str | None:
    """Return the case with two of the sentences between its own."""
    places = [place for place in sentence_breaks(case.text) if place > case.noun_span[1]]
    if len(places) < N_SENTENCES:
        return None
    chosen = sorted(rng.sample(places, N_SENTENCES), reverse=True)
    text = case.text
    for place, sentence in zip(chosen, rng.sample(IRRELEVANT, N_SENTENCES), strict=True):
        text = f"{text[:place]}{sentence} {text[place:]}"
    return text


@only_text
def _check_sentences(original: Instance, changed: Instance, benchmark: Benchmark) -> str:
    """Return the first rule that added sentences break."""
    for name, text in prompt_fields(original, benchmark):
        new = changed.fields[name]
        added = [sentence for sentence in IRRELEVANT if sentence in new]
        for sentence in added:
            new = new.replace(f"{sentence} ", "", 1)
        if new != text or len(added) not in (0, N_SENTENCES):
            return "Nothing but two sentences may be added."
    return "The text may not say where a sentence is." if _mentions_position(original, benchmark) else ""


_POSITIONS = re.compile(
    r"\b(?:(?:first|second|third|last|next|previous|preceding|following) (?:sentence|paragraph|section|line)s?"
    r"|(?:as )?(?:listed|described|noted|mentioned|dictated|stated|discussed|detailed|outlined) (?:above|below|earlier)"
    r"|see (?:above|below)|as (?:above|below)|per above|above[- ](?:mentioned|noted|listed|named)|aforementioned"
    r"|same as (?:above|below)|the (?:above|latter|former))\b"
)
"""References to a place in a text, in small letters."""


def _mentions_position(instance: Instance, benchmark: Benchmark) -> bool:
    return _POSITIONS.search(shown_text(instance, benchmark).lower()) is not None


# --- order of sections ------------------------------------------------------------------------------------------------

_HEADING = re.compile(
    r"(?:(?<=\n)|\A)[ \t]*(?P<line>[A-Z][A-Za-z /&'-]{2,48}[A-Za-z])[ \t]*:(?!\d)"
    r"|(?<=[.;:!?)])[ \t]*(?P<name>[A-Z][A-Z /&'-]{2,48}[A-Z])[ \t]*:(?!\d)"
)
"""Headings: at the start of a line in any case, elsewhere in capitals."""
_BACKGROUND = re.compile(
    r"(?:PAST |PRIOR |PREVIOUS )?(?:MEDICAL|SURGICAL|MEDICAL AND SURGICAL|MEDICAL/SURGICAL|FAMILY|SOCIAL|PERSONAL"
    r"|HABITS|PSYCHIATRIC|FAMILY MEDICAL|SUBSTANCE ABUSE) HISTORY|(?:CURRENT |HOME |OUTPATIENT |PRESENT )?MEDICATIONS"
    r"|(?:DRUG |MEDICATION )?ALLERGIES|ALLERGIES TO MEDICATIONS|REVIEW OF SYSTEMS|HABITS"
)
"""Sections about the background of a patient, whose order says nothing."""
_NEXT = re.compile(
    r"PHYSICAL EXAM.*|(?:GENERAL )?EXAMINATION|VITAL SIGNS.*|OBJECTIVE|ASSESSMENT.*|IMPRESSION.*|PLAN|LABORATOR.*"
    r"|DIAGNOSTIC.*|HISTORY OF PRESENT ILLNESS|PRESENT ILLNESS|HOSPITAL COURSE|CHIEF COMPLAINT|REASON FOR .*"
    r"|PROCEDURE.*|DIAGNOSIS"
)
"""Other headings that end a section, and do not divide it as "GENERAL" divides a review of systems."""


@dataclass(frozen=True, slots=True)
class NoteSection:
    """A heading with the text below it."""

    name: str
    """Heading, in capitals."""
    text: str
    """Heading and text, without white space around them."""
    end: str
    """White space after it."""


def sections(text: str) -> tuple[str, list[NoteSection]]:
    """Return the text before the first heading, and the sections."""
    starts = [match.start(match.lastgroup or 0) for match in _HEADING.finditer(text)]
    found = []
    for start, end in pairwise([*starts, len(text)]):
        part = text[start:end]
        kept = part.rstrip()
        found.append(NoteSection(kept.partition(":")[0].strip().upper(), kept, part[len(kept) :]))
    return text[: starts[0]] if starts else text, found


def _runs(found: Sequence[NoteSection]) -> list[tuple[int, int]]:
    """Return first and last + 1 of the runs of background sections that the heading after them ends."""
    runs: list[tuple[int, int]] = []
    start = 0
    for place, section in enumerate(found):
        if not _BACKGROUND.fullmatch(section.name):
            end = place if _NEXT.fullmatch(section.name) else place - 1
            runs += [(start, end)] if end - start > 1 else []
            start = place + 1
    return runs


def _reorder(instance: Instance, benchmark: Benchmark, rng: Random) -> Instance | None:
    """Return the note with its background sections in another order."""
    for name, text in prompt_fields(instance, benchmark):
        before, found = sections(text)
        order = list(range(len(found)))
        for start, end in _runs(found):
            while order[start:end] == list(range(start, end)):
                order[start:end] = rng.sample(range(start, end), end - start)
        if order == list(range(len(found))):
            continue
        parts = [found[new].text + old.end for new, old in zip(order, found, strict=True)]
        return with_field(instance, name, before + "".join(parts))
    return None


@only_text
def _check_order(original: Instance, changed: Instance, benchmark: Benchmark) -> str:
    """Return the first rule that another order of sections breaks."""
    if _mentions_position(original, benchmark):
        return "The text may not say where a section is."
    for name, text in prompt_fields(original, benchmark):
        (start, old), (new_start, new) = sections(text), sections(changed.fields[name])
        moved = [a.name for a, b in zip(old, new, strict=False) if a.text != b.text]
        if start != new_start or sorted(one.text for one in old) != sorted(one.text for one in new):
            return "Every section must stay as it is."
        if any(not _BACKGROUND.fullmatch(name) for name in moved) or (moved and old[-1].text != new[-1].text):
            return "Only sections about the background may move."
        if any(one.name in moved and _REFERS_BACK.match(one.text) for one in old):
            return "A section that moves may not begin with a reference to another."
    return ""


_REFERS_BACK = re.compile(r"[^:]*:\s*(?:this|these|that|those|it|they|same|also|as|both)\b", re.IGNORECASE)

# --- key finding ------------------------------------------------------------------------------------------------------

NOT_RECORDED = "[not recorded]"
"""Text in the place of a value."""
_LINK = (
    r"(?:\s*(?:\b(?:levels?|concentrations?|counts?|values?|interval|reading|of|is|was|were|at|to be|measured|recorded"
    r"|as|approximately|about|found|elevated|high|low|increased|decreased)\b|[:=,~]|\([A-Za-z][\w+-]{0,8}\)))*\s*"
)


@dataclass(frozen=True, slots=True)
class Input:
    """A value without which a formula cannot be computed."""

    calculators: tuple[str, ...]
    """Names of calculators, or parts of them."""
    name: str
    """Pattern of its name, before the value; empty if the value is known by its form."""
    value: str
    """Pattern of the value with its unit."""
    left: str
    """Pattern of anything else in the text that may tell the value, such as a result of it."""

    @property
    def left_value(self) -> re.Pattern[str]:
        """Pattern of the value, or what may tell it, in a text from which it was removed."""
        gap = re.escape(NOT_RECORDED)
        parts = [rf"{gap}[^.\n]{{0,60}}\b(?:baseline|previous|prior|compar\w+|from|to)\b[^.\n]{{0,40}}\d"]
        if self.name:
            parts.append(rf"\b(?:{self.name})\b(?![^.;\n\d]{{0,40}}{gap})[^.;\n]{{0,60}}?\d")
            parts.append(rf"\d(?:(?! and | with )[^.,;:\n\])]){{0,18}}\s(?:{self.name})\b")
        return re.compile("|".join([*parts, self.left]), re.IGNORECASE)


_DECIMAL = r"\d+(?:[.,]\d+)?"
_QTC, _GFR = ("QTc",), ("CKD-EPI", "MDRD", "Cockcroft-Gault")
_GAPS = ("Anion Gap", "Delta Gap", "Delta Ratio")
_WEIGHT_UNIT = r"(?:kg|kilograms|lbs?|pounds)\b"
_LENGTH_UNIT = r"(?:cm|centimeters|in|inches|m)\b"
_PER_LITER = r"\s?/\s?(?:d?l|[µμu]l|mm3|mm\^3)\b"
INPUTS = (
    Input(
        ("Mean Arterial Pressure",),
        "",
        r"\b\d{2,3}\s?/\s?\d{2,3}(?:\s?mm\s?Hg)?",
        r"\d\s?/\s?\d|systolic|diastolic|\bMAP\b|mean arterial",
    ),
    Input(_QTC, r"QT(?! ?c)(?: interval)?", rf"{_DECIMAL}\s?(?:ms|msec|milliseconds)\b", r"QT ?c"),
    Input(
        _GFR,
        "creatinine|sCr|Cr",
        rf"{_DECIMAL}\s?(?:mg|[µμu]mol){_PER_LITER}",
        r"GFR|clearance|renal (?:function|failure|insuff)|kidney|CKD",
    ),
    Input(
        ("Ideal Body Weight", "Target weight", "Body Surface", "Body Mass"),
        "height|tall",
        rf"{_DECIMAL}\s?{_LENGTH_UNIT}",
        r"\d[ -]?(?:cm|centimeters|in|inches|feet|foot|ft|m)\b|\d['’]|body surface|\bBSA\b"
        r"|(?<!target )(?:BMI|body mass)",
    ),
    Input(
        ("Maintenance Fluids", "Free Water"),
        "weigh(?:s|ed|ing|t)",
        rf"{_DECIMAL}[ -]?{_WEIGHT_UNIT}",
        rf"\d[ -]?(?:{_WEIGHT_UNIT}|g\b|grams\b)|BMI|body mass",
    ),
    Input(
        (*_GAPS, "Serum Osmolality", "Sodium Correction"),
        r"sodium|Na\+?",
        rf"{_DECIMAL}\s?(?:meq|mmol){_PER_LITER}",
        r"\bgap\b|osmolal|\d[^.;\n]{0,12}(?:sodium|\bNa\b)|hyp(?:o|er)natr",
    ),
    Input(
        ("LDL Calculated",),
        "triglycerides?",
        rf"{_DECIMAL}\s?(?:mg|mmol){_PER_LITER}",
        r"\d[^.;\n]{0,12}triglyceride|LDL|low[- ]density",
    ),
    Input(
        ("FIB-4",),
        "platelets?(?: count)?",
        rf"{_DECIMAL}(?:,\d{{3}})*\s?(?:[×x*]\s?10\^?[0-9⁹]+)?{_PER_LITER}",
        r"\d[^.;\n]{0,12}platelet|thrombocyt|FIB",
    ),
    Input(
        ("Calcium Correction",),
        "calcium|Ca",
        rf"{_DECIMAL}\s?mg{_PER_LITER}",
        r"\d[^.;\n]{0,12}calcium|calc[ae]mi",
    ),
)
"""For calculators of MedCalc-Bench: a value that their formula needs, in all its usual forms."""
CALCULATOR = "Calculator Name"
"""Column of the metadata that names the formula."""


def _needed(instance: Instance) -> Input | None:
    """Return a value that the answer needs; None if the data does not tell."""
    calculator = instance.metadata.get(CALCULATOR, "")
    return next((one for one in INPUTS if any(name in calculator for name in one.calculators)), None)


def _remove_finding(instance: Instance, benchmark: Benchmark, rng: Random) -> Instance | None:  # noqa: ARG001
    """Return the case without a value that the answer needs."""
    needed = _needed(instance)
    if needed is None:
        return None
    name = rf"(?<![\w-])(?:{needed.name})(?![\w-]){_LINK}" if needed.name else ""
    pattern = re.compile(rf"(?P<before>{name})(?:{needed.value})", re.IGNORECASE)
    changed = instance
    for field, text in prompt_fields(instance, benchmark):
        changed = with_field(changed, field, pattern.sub(lambda match: match["before"] + NOT_RECORDED, text))
    return None if changed == instance else changed


@only_text
def _check_removed(original: Instance, changed: Instance, benchmark: Benchmark) -> str:
    """Return the first rule that a case without a value breaks."""
    needed = _needed(original)
    for name, text in prompt_fields(original, benchmark):
        rest = changed.fields[name]
        if rest == text:
            continue
        if not _is_without_values(text, rest.split(NOT_RECORDED)):
            return "Nothing but values may be removed."
        if needed is None or needed.left_value.search(rest):
            return "The text may not give the value in another way."
    return ""


def _is_without_values(text: str, kept: Sequence[str]) -> bool:
    """Return True if a text consists of these parts, with a value between each two: a digit and up to 23 characters."""
    first, *others, last = kept
    end = len(text) - len(last)
    place = len(first)
    gaps = []
    for part in others:
        start = place
        place = text.find(part, start + 2, start + _LONGEST_VALUE + len(part))
        gaps.append(text[start:place] if place >= 0 else "")
        place += len(part)
    gaps.append(text[place:end])
    is_kept = text.startswith(first) and text.endswith(last)
    return is_kept and all(2 <= len(gap) <= _LONGEST_VALUE and gap[0].isdigit() for gap in gaps)


_LONGEST_VALUE = 24
"""Characters of a value with its unit."""

PERTURBATIONS: tuple[Perturbation, ...] = (
    Perturbation(
        name="irrelevant_sentences",
        title="Irrelevant sentences",
        description="Two sentences without medical content, such as one about parking, are added to a case.",
        apply=_add_sentences,
        check=_check_sentences,
    ),
    Perturbation(
        name="section_order",
        title="Order of sections",
        description="Sections of a note about the patient's background, such as allergies, are in another order.",
        apply=_reorder,
        check=_check_order,
    ),
    Perturbation(
        name="key_finding_removed",
        title="Key finding removed",
        description="A value that the answer needs is replaced by `[not recorded]`.",
        expectation="must_abstain",
        apply=_remove_finding,
        check=_check_removed,
    ),
)
"""Changes to the content of a case."""

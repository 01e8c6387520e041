"""Search texts for personal identifiers: by patterns, and by Presidio with a pipeline of spaCy."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from medhelm.errors import MissingError, UserError

IdentifierSearch = Callable[[str], Iterable[str]]
"""Function that returns the kinds of identifiers that a text seems to contain."""

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


RECORD_COLUMNS = re.compile(
    r"(?:^|_)(?:mrn|pid|ssn|nhs|pat(?:ient)?_?(?:id|no|nr|num(?:ber)?)?|person_?id|subject_?id|hadm_?id|record_?(?:id|no|num(?:ber)?)"
    r"|medical_?record(?:_?(?:id|no|num(?:ber)?))?|case_?(?:no|num(?:ber)?)|insurance(?:_?(?:id|no|num(?:ber)?))?)(?:$|_)"
)
"""Name of a column, in snake case, that holds record numbers of patients."""

_RECORD_NUMBER = re.compile(r"[A-Za-z]{0,4}[-_ ]?\d(?:[-. ]?\d){5,}")
"""A value like a record number: six or more digits."""


def are_record_numbers(column: str, values: Iterable[str]) -> bool:
    """Return True if a column looks like record numbers of patients: by its name, or by most of its values.

    >>> are_record_numbers("MRN", []), are_record_numbers("note", ["1000105", "1000071"])
    (True, True)
    >>> are_record_numbers("topic", ["asthma", "2024"])
    False
    """
    name = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column).lower()).strip("_")
    if RECORD_COLUMNS.search(name):
        return True
    filled = [value for value in values if value]
    return 2 * sum(bool(_RECORD_NUMBER.fullmatch(value.strip())) for value in filled) > len(filled)


def kinds_by_pattern(text: str) -> list[str]:
    """Return the kinds of identifiers whose pattern matches a text."""
    return [kind for kind, pattern in IDENTIFIERS.items() if pattern.search(text)]


def no_search(text: str) -> Iterable[str]:  # noqa: ARG001 - the signature of an `IdentifierSearch`
    """Find nothing."""
    return ()


PRESIDIO_ENTITIES: Mapping[str, str] = {
    "PERSON": "a name",
    "LOCATION": "a place",
    "PHONE_NUMBER": "a telephone number",
    "US_BANK_NUMBER": "an account number",
    "IBAN_CODE": "an account number",
    "CREDIT_CARD": "an account number",
    "US_DRIVER_LICENSE": "a license number",
    "MEDICAL_LICENSE": "a license number",
    "US_MBI": "a health plan number",
    "US_PASSPORT": "a passport number",
    "MAC_ADDRESS": "a device serial number",
}
"""Entity that Presidio finds and the patterns miss -> kind of identifier. Its dates are left out: "two days" is one."""

PRESIDIO_SCORE = 0.5
"""Minimum confidence of an entity, from 0 to 1. Numbers without a word that explains them are below it."""


def presidio_search(model: str) -> IdentifierSearch:
    """Return a function that finds kinds of identifiers with Presidio, such as names without a title.

    Parameters: model, an installed spaCy pipeline with named entities, by name or folder. Nothing is downloaded.
    Raises: MissingError if Presidio or the pipeline is not installed; UserError if the pipeline cannot be used.
    """
    try:
        import spacy
        from presidio_analyzer import AnalyzerEngine
        from presidio_analyzer.nlp_engine import NlpEngineProvider
    except ImportError:
        raise MissingError("--presidio needs presidio-analyzer: in a checkout, `pip install '.[presidio]'`.") from None
    if not (spacy.util.is_package(model) or Path(model).is_dir()):  # Presidio would download it
        raise MissingError(
            f"--presidio {model}: no spaCy pipeline of this name is installed, and no folder has it. Install one, such "
            "as en_core_web_lg: `python -m spacy download en_core_web_lg`, or copy its wheel here and `pip install` it."
        )
    logging.getLogger("presidio-analyzer").setLevel(logging.ERROR)  # it names each language that it does not use
    settings = {"nlp_engine_name": "spacy", "models": [{"lang_code": "en", "model_name": model}]}
    try:
        engine = AnalyzerEngine(nlp_engine=NlpEngineProvider(nlp_configuration=settings).create_engine())
    except (OSError, ValueError) as error:
        raise UserError(f"--presidio {model}: spaCy cannot load this pipeline: {error}") from error
    return lambda text: _kinds_by_presidio(engine, text)


def _kinds_by_presidio(engine: Any, text: str) -> list[str]:
    """Return the kinds of identifiers that Presidio finds in a text."""
    found = engine.analyze(text, language="en", entities=list(PRESIDIO_ENTITIES), score_threshold=PRESIDIO_SCORE)
    kinds = {PRESIDIO_ENTITIES[one.entity_type] for one in found}
    return [kind for kind in dict.fromkeys(PRESIDIO_ENTITIES.values()) if kind in kinds]

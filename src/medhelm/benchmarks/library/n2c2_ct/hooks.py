"""N2C2-CT: one row for each patient and criterion, from one XML document per patient."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from medhelm.errors import DataError
from medhelm.io.office import parse_xml

DEFINITIONS = {
    "ABDOMINAL": (
        "The patient has had an operation inside the abdomen. Every kind counts, among them resection of the small or "
        "large intestine and surgery for small bowel obstruction; so does a small bowel obstruction itself."
    ),
    "ADVANCED-CAD": (
        "Advanced coronary artery disease. Advanced means that at least two of these four apply: (a) the patient takes "
        "two or more medicines for coronary artery disease; (b) there has been a myocardial infarction; (c) the "
        "patient has angina now; (d) there is or has been ischemia. With fewer than two the criterion is not met. "
        "Judge strictly: coronary or other cardiovascular disease by itself is not enough."
    ),
    "CREATININE": "Serum creatinine is above the upper limit of normal.",
    "ALCOHOL-ABUSE": "The patient at present drinks more alcohol than the weekly limits that are recommended.",
    "ASP-FOR-MI": "The patient takes aspirin to prevent myocardial infarction.",
    "DIETSUPP-2MOS": (
        "The patient has taken a dietary supplement within the last two months; vitamin D does not count. Go through "
        "the medicines and supplements in the notes and be generous: whatever is commonly taken as a supplement "
        "counts, even where the notes do not call it one, and multivitamins and calcium carbonate always do."
    ),
    "DRUG-ABUSE": "The patient abuses drugs or has done so in the past.",
    "ENGLISH": "The patient speaks English. Assume so unless the notes say otherwise.",
    "HBA1C": "Some value of hemoglobin A1c (HbA1c) lies between 6.5 % and 9.5 %.",
    "KETO-1YR": "Ketoacidosis has been diagnosed within the last year.",
    "MAJOR-DIABETES": (
        "The patient has a major complication of diabetes, not a minor one: for instance amputation, kidney damage, "
        "skin conditions, retinopathy, nephropathy or neuropathy that results from uncontrolled diabetes or strongly "
        "goes with it. Several conditions that together show severe diabetes count as one."
    ),
    "MAKES-DECISIONS": (
        "The patient makes his or her own medical decisions. Assume so unless the notes say otherwise."
    ),
    "MI-6MOS": "There has been a myocardial infarction within the last six months.",
}
"""The 13 criteria of the shared task -> their meaning. The first three are those of the published benchmark."""

PUBLISHED = tuple(DEFINITIONS)[:3]
ANSWERS = {"met": "yes", "not met": "no"}
BETWEEN_NOTES_IN_DATA = "*" * 100
BETWEEN_NOTES = "\n\n" + "*" * 50 + "\n\n"
NO_DATE = "not stated"

_DATE = re.compile(r"Record date: (\d{4}-\d{2}-\d{2})")
_SHOWN = 5


def rows(documents: Iterator[Mapping[str, object]], variant: str = "") -> Iterator[Mapping[str, object]]:
    """Yield {patient, criterion, definition, n_notes, notes, current_date, answer} for every patient and criterion.

    The criteria are the three of the published benchmark; with the variant `all_criteria` all 13. `notes` holds the
    notes one after another, each below its number and date; `current_date` is the date of the last one that has any.
    Raises: DataError, after the last patient, with all documents that cannot be used.
    """
    criteria = tuple(DEFINITIONS) if variant == "all_criteria" else PUBLISHED
    problems: list[str] = []
    for document in documents:
        patient = str(document["name"])
        try:
            text, tags = _parts(str(document["text"]), criteria)
        except DataError as error:
            problems.append(f"patient {patient}: {error}")
            continue
        shared = {"patient": patient, **_record(text)}
        for criterion in criteria:
            about = {"criterion": criterion, "definition": DEFINITIONS[criterion]}
            yield {**shared, **about, "answer": tags[criterion]}
    if problems:
        more = [f"... and {len(problems) - _SHOWN} more patients."] if len(problems) > _SHOWN else []
        raise DataError("\n".join([*problems[:_SHOWN], *more]))


def _parts(document: str, criteria: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """Return the text of the notes, and criterion -> yes or no.

    Raises: DataError if the document is not well formed, has no notes, or lacks a word on one of the criteria.
    """
    root = parse_xml(document)
    text, tags = root.findtext(".//TEXT"), root.find(".//TAGS")
    if not text or not text.strip() or tags is None:
        raise DataError("needs an element TEXT with the notes and an element TAGS with the criteria.")
    met = {tag.tag: tag.get("met", "") for tag in tags}
    wrong = [f"{name}: {met.get(name, 'absent')!r:.30}" for name in criteria if met.get(name) not in ANSWERS]
    if wrong:
        raise DataError(f'below TAGS, `met` must be "met" or "not met" for each criterion: {"; ".join(wrong)}.')
    return text, {name: ANSWERS[met[name]] for name in criteria}


def _record(text: str) -> dict[str, str]:
    """Return the notes of one patient as the prompt shows them, their number, and the current date."""
    parts = (part.strip() for part in text.replace("\n\n\n", "\n").split(BETWEEN_NOTES_IN_DATA))
    notes = [part for part in parts if part]
    found = [_DATE.search(note) for note in notes]
    dates = [match.group(1) if match else NO_DATE for match in found]
    shown = [f"## Note {i}\nDate: {date}\n{note}" for i, (date, note) in enumerate(zip(dates, notes, strict=True), 1)]
    return {
        "n_notes": str(len(notes)),
        "notes": BETWEEN_NOTES.join(shown),
        "current_date": next((date for date in reversed(dates) if date != NO_DATE), NO_DATE),
    }

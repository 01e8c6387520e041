"""DischargeMe: two rows for each admission, one for each section to be written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.benchmarks.data.readers import read
from medhelm.errors import DataError

if TYPE_CHECKING:
    from sqlite3 import Connection

PLACE = "files/discharge-me/1.3/test_phase_1"
"""Folder of the files in a mirror of PhysioNet."""

TABLES = {
    "diagnosis": ("subject_id",),
    "triage": ("subject_id",),
    "edstays": ("hadm_id",),
    "discharge": ("subject_id", "hadm_id", "text"),
    "radiology": ("hadm_id", "charttime", "text"),
    "discharge_target": ("hadm_id", "brief_hospital_course", "discharge_instructions"),
}
"""The files -> the columns that are used. Only `charttime` may be missing."""

WITHOUT_ADMISSION = ("edstays", "radiology")
"""Files whose rows may belong to no admission: patients who went home, and reports of clinics."""

TARGETS = {"hospital_course": "Brief Hospital Course", "discharge_instructions": "Discharge Instructions"}
"""The sections -> their headings."""

NO_REPORT = "(no report)"

_IDS = ("subject_id", "hadm_id")
_SHOWN = 5


def rows(folder: Path, variant: str = "") -> Iterator[Mapping[str, object]]:
    """Yield {id, admission, document, text, reports, reference} twice for every admission, first the hospital course.

    `text` is the discharge note of the admission without the two sections to be written, `reports` are all
    radiology reports of the admission, by time. Admissions are in the order of the discharge notes. Everything is
    joined by admission; the files of the emergency department are not used.

    The variant `published` joins as the published benchmark did: patients in the order of their first diagnosis,
    admissions with a triage of the patient, an emergency stay and a report; one report, the first in the file; and only
    the section to be written is removed from the text, so that the other one reveals much of it.

    The tables are joined in a temporary database on disk, which is always deleted.
    Raises: DataError if a column is missing, an id is not a number, or the notes and the sections are not of the same
    admissions.
    """
    import sqlite3

    try:
        with closing(sqlite3.connect("")) as store:  # on disk, in a file that has no name any more
            names = TABLES if variant == "published" else ("discharge", "radiology", "discharge_target")
            for name in names:
                _load(store, name, folder / PLACE / f"{name}.csv.gz")
            if variant == "published":
                yield from _published(store)
            else:
                _check(store, folder / PLACE)
                yield from _corrected(store)
    except sqlite3.Error as error:
        raise DataError(
            f"{folder / PLACE}: the tables cannot be joined ({error}). It takes about 400 MB of temporary disk space: "
            "name a folder that has it with TMPDIR."
        ) from None


def _corrected(store: Connection) -> Iterator[dict[str, str]]:
    """Yield both rows of every admission, in the order of the discharge notes."""
    for admission, text in store.execute("SELECT hadm_id, text FROM discharge ORDER BY rowid"):
        sections = _sections(store, admission)
        for section in sections:
            text = _without(text, section)
        found = store.execute("SELECT text FROM radiology WHERE hadm_id = ? ORDER BY charttime, rowid", (admission,))
        reports = "\n\n".join(report.strip() for (report,) in found if report.strip())
        yield from _rows_of(admission, [text] * len(sections), reports or NO_REPORT, sections)


def _published(store: Connection) -> Iterator[dict[str, str]]:
    """Yield both rows of every admission that remains after the published joins, in their order."""
    admissions = store.execute(
        "WITH patients AS (SELECT subject_id, min(rowid) AS place FROM diagnosis "
        "WHERE subject_id IN (SELECT subject_id FROM triage) GROUP BY subject_id) "
        "SELECT hadm_id, min(discharge.rowid), (SELECT min(rowid) FROM radiology WHERE hadm_id = discharge.hadm_id) "
        "FROM discharge JOIN patients USING (subject_id) "
        "WHERE hadm_id IN (SELECT hadm_id FROM radiology) AND hadm_id IN (SELECT hadm_id FROM edstays) "
        "AND hadm_id IN (SELECT hadm_id FROM discharge_target) GROUP BY hadm_id ORDER BY min(place), 2"
    ).fetchall()
    for admission, note, report in admissions:
        sections = _sections(store, admission)
        ((text,),) = store.execute("SELECT text FROM discharge WHERE rowid = ?", (note,))
        ((first,),) = store.execute("SELECT text FROM radiology WHERE rowid = ?", (report,))
        yield from _rows_of(admission, [text.replace(section, "") for section in sections], first, sections)


def _sections(store: Connection, admission: int) -> tuple[str, str]:
    """Return the sections that clinicians wrote for an admission: hospital course and instructions."""
    query = "SELECT brief_hospital_course, discharge_instructions FROM discharge_target WHERE hadm_id = ?"
    course, instructions = store.execute(query, (admission,)).fetchone()
    return course, instructions


def _rows_of(admission: int, texts: Sequence[str], reports: str, sections: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield the rows of one admission, one for each section."""
    for (target, document), text, section in zip(TARGETS.items(), texts, sections, strict=True):
        yield {
            "id": f"{admission}/{target}",
            "admission": str(admission),
            "document": document,
            "text": text.strip(),
            "reports": reports.strip(),
            "reference": section.strip(),
        }


def _without(text: str, section: str) -> str:
    """Return the text without the section, even if the two differ in white space."""
    words = section.split()
    if not words:
        return text
    if section in text:
        return text.replace(section, "")
    return re.sub(r"\s+".join(map(re.escape, words)), "", text)


def _load(store: Connection, name: str, path: Path) -> None:
    """Copy the columns of one file that are used into a table of its name, in the file's order."""
    columns = TABLES[name]
    store.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
    marks = ", ".join("?" * len(columns))
    store.executemany(f"INSERT INTO {name} VALUES ({marks})", _records(name, columns, path))  # noqa: S608
    if "hadm_id" in columns:
        store.execute(f"CREATE INDEX {name}_by_admission ON {name} (hadm_id)")


def _records(name: str, columns: Sequence[str], path: Path) -> Iterator[list[int | str]]:
    """Yield the values of the used columns, ids as numbers. Skipped: stays and reports without an admission.

    Raises: DataError if a column is missing; after the last row, with the rows whose ids are not numbers.
    """
    problems = []
    for place, row in enumerate(read(path, "csv"), start=1):
        missing = [column for column in columns if column not in row and column != "charttime"]
        if missing:
            raise DataError(f"{path}: has no column {', '.join(missing)}. Columns: {', '.join(row)}.")
        texts = {column: str(row.get(column, "")) for column in columns}
        if name in WITHOUT_ADMISSION and not texts["hadm_id"].strip():
            continue
        ids = {column: _number(text) for column, text in texts.items() if column in _IDS}
        problems += [f"row {place}: {column} {texts[column]!r:.30}" for column, value in ids.items() if value is None]
        yield [text if (number := ids.get(column)) is None else number for column, text in texts.items()]
    if problems:
        raise DataError(f"{path}, {_listed(problems)}. These ids must be whole numbers.")


def _check(store: Connection, folder: Path) -> None:
    """Check that notes and sections have the same admissions, once each. Raises: DataError with the others."""
    queries = {
        "no note": "SELECT hadm_id FROM discharge_target EXCEPT SELECT hadm_id FROM discharge",
        "no sections": "SELECT hadm_id FROM discharge EXCEPT SELECT hadm_id FROM discharge_target",
        "several notes": "SELECT hadm_id FROM discharge GROUP BY 1 HAVING count(*) > 1",
        "several rows of sections": "SELECT hadm_id FROM discharge_target GROUP BY 1 HAVING count(*) > 1",
    }
    problems = []
    for words, query in queries.items():
        admissions = [str(admission) for (admission,) in store.execute(f"{query} ORDER BY 1")]
        if admissions:
            problems.append(f"{folder}: {words} for admission {_listed(admissions)}.")
    if problems:
        problems.append("discharge and discharge_target must have the same admissions, one row each. Get them again.")
        raise DataError("\n".join(problems))


def _number(text: str) -> int | None:
    """Return a whole number, also as data frames write it ("124.0"); None for other texts."""
    digits = text.strip().removesuffix(".0")
    return int(digits) if digits.isdecimal() else None


def _listed(entries: Sequence[str]) -> str:
    """List the first few entries, and the number of others."""
    more = f" and {len(entries) - _SHOWN} more" if len(entries) > _SHOWN else ""
    return ", ".join(entries[:_SHOWN]) + more

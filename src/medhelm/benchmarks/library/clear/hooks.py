"""CLEAR: one row for each labeled note, with the options of its condition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from medhelm.errors import DataError

IN_WORDS = {
    "attention_deficit_hyperactivity_disorder": "attention deficit hyperactivity disorder (ADHD)",
    "post_traumatic_stress_disorder": "post-traumatic stress disorder (PTSD)",
}
"""Conditions whose name is not that of the file with spaces."""

ANSWERS = {"1": "present", "1.0": "present", "0": "absent", "0.0": "absent", "2": "uncertain", "2.0": "uncertain"}
"""The data's label -> the column with the right option. Workbooks hold whole numbers with and without a decimal."""

_SHOWN = 5


def rows(entries: Iterator[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    """Yield {id, condition, condition_words, note, present, absent, uncertain, answer} for every labeled note.

    `condition` is the name of the workbook, `condition_words` the same as people write it; `present`, `absent` and
    `uncertain` are the three options; `answer` is the right one. `id` is the condition and the row below the header,
    from 1. Skipped: rows without a note or without a label.
    Raises: DataError if a column is missing, or, after the last row, with all rows whose label is not 0, 1 or 2.
    """
    position: Counter[str] = Counter()
    problems: list[str] = []
    for entry in entries:
        file = str(entry["file"])
        position[file] += 1
        missing = [name for name in ("text", "result_human") if name not in entry]
        if missing:
            there = ", ".join(name for name in entry if name != "file")
            raise DataError(f"{file}: has no column {' and no column '.join(missing)}. Columns: {there}.")
        note, label = _cell(entry["text"]), _cell(entry["result_human"])
        if not note or not label:
            continue
        if label not in ANSWERS:
            problems.append(f"{file}, row {position[file]} below the header: the label {label!r:.40} means nothing.")
            continue
        yield _row(PurePosixPath(file).stem, position[file], note, ANSWERS[label])
    if problems:
        more = [f"... and {len(problems) - _SHOWN} more."] if len(problems) > _SHOWN else []
        fix = "In `result_human` 1 is a history of the condition, 0 none and 2 uncertain; leave it empty to skip a row."
        raise DataError("\n".join([*problems[:_SHOWN], *more, fix]))


def _row(condition: str, position: int, note: str, answer: str) -> dict[str, str]:
    """Return the columns of one note."""
    words = IN_WORDS.get(condition, condition.replace("_", " "))
    options = {
        "present": f"The patient has a history of {words}",
        "absent": f"The patient does not have a history of {words}",
        "uncertain": "Uncertain",
    }
    about = {"id": f"{condition}/{position}", "condition": condition, "condition_words": words, "note": note}
    return {**about, **options, "answer": options[answer]}


def _cell(value: object) -> str:
    """Return the text of a cell; "" for an empty cell and for "nan"."""
    text = "" if value is None else str(value).strip()
    return "" if text.lower() == "nan" else text

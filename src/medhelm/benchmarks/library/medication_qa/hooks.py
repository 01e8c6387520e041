"""MedicationQA: rows with an answer, and rows with the same question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

UNANSWERED = ("n/a", "no answers")
"""Lower-case values of the column Answer for questions without an answer."""


def rows(entries: Iterator[Mapping[str, object]], variant: str = "") -> Iterator[Mapping[str, object]]:
    """Yield every row with three more columns: row, question_row and answer; none is skipped.

    `row` is the position in the workbook from 0, `question_row` that of the first row with the same question, and
    `answer` the column Answer, empty where there is none. The variant `published` treats "No answers" as an answer.
    """
    none = UNANSWERED[:1] if variant == "published" else UNANSWERED
    first: dict[str, str] = {}
    for position, entry in enumerate(entries):
        answer = str(entry["Answer"])
        yield {
            **entry,
            "row": str(position),
            "question_row": first.setdefault(str(entry["Question"]).strip().casefold(), str(position)),
            "answer": "" if answer.strip().casefold() in none else answer,
        }

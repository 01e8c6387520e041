"""MedCalc-Bench: rows that share a note."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def rows(entries: Iterator[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    """Yield every row with one more column; none is skipped.

    `note_group` is the row number of the first row with the same note. The data's own `Note ID` does not
    identify notes: each calculator uses the numbers 1 to 21 for other notes, and some notes have several numbers.
    """
    first: dict[str, str] = {}
    for entry in entries:
        yield {**entry, "note_group": first.setdefault(str(entry["Patient Note"]), str(entry["Row Number"]))}

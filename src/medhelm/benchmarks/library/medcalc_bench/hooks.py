"""MedCalc-Bench: which rows share a note."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def rows(entries: Iterator[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    """Yield every row as it is with one column more; none is skipped.

    `note_group` is the row number of the first row with the same note. The data's own `Note ID` does not tell which
    rows depend on each other: its numbers 1 to 21 are used anew by each calculator, for other notes, and some notes
    stand there under several numbers.
    """
    first: dict[str, str] = {}
    for entry in entries:
        yield {**entry, "note_group": first.setdefault(str(entry["Patient Note"]), str(entry["Row Number"]))}

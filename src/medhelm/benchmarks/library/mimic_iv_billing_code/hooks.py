"""MIMIC-IV Billing Code: ids of notes and patients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def rows(entries: Iterator[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    """Yield {id, patient, note, target} for every row; none is skipped.

    The file needs the columns text and target only. `id` is its note_id, or the position from 0 where the file has no
    such column, and `patient` its subject_id, or empty. `target` is a list of codes, or one code.
    """
    for position, entry in enumerate(entries):
        yield {
            "id": entry.get("note_id", str(position)),
            "patient": entry.get("subject_id", ""),
            "note": entry["text"],
            "target": entry["target"],
        }

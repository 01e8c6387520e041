"""MedHallu: two rows for each question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from medhelm.errors import DataError


def rows(entries: Iterator[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    """Yield {row, kind, knowledge, question, answer, label, difficulty, hallucination} twice for every entry.

    First the true answer (`kind` true, `label` 0), then the hallucinated one (`kind` hallucinated, `label` 1). `row` is
    the position of the entry from 0, `knowledge` the paragraphs of its abstract, one per line, and `hallucination` the
    kind of the invented answer, empty for the true one. No entry is skipped.
    Raises: DataError if the knowledge of an entry is not a list of paragraphs.
    """
    for position, entry in enumerate(entries):
        paragraphs = entry["Knowledge"]
        if not isinstance(paragraphs, list):
            raise DataError(f"row {position}: Knowledge must be a list of paragraphs, not {paragraphs!r:.60}")
        shared = {
            "row": str(position),
            "knowledge": "\n".join(str(paragraph) for paragraph in paragraphs),
            "question": str(entry["Question"]),
            "difficulty": str(entry["Difficulty Level"]),
        }
        yield {**shared, "kind": "true", "answer": str(entry["Ground Truth"]), "label": "0", "hallucination": ""}
        yield {
            **shared,
            "kind": "hallucinated",
            "answer": str(entry["Hallucinated Answer"]),
            "label": "1",
            "hallucination": str(entry["Category of Hallucination"]),
        }

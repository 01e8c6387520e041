"""PubMedQA: one row for each labeled abstract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from medhelm.errors import DataError


def rows(entries: Iterator[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    """Yield {PMID, context, question, answer, year} for every entry of the keyed document; none is skipped.

    `context` has one line per section: its label in title case, a period, a space and its text. The conclusion is not a
    section of the data (it is `LONG_ANSWER`), so it is never shown.
    Raises: DataError if an entry does not have one label for each section.
    """
    for entry in entries:
        labels, sections = entry["LABELS"], entry["CONTEXTS"]
        if not isinstance(labels, list) or not isinstance(sections, list) or len(labels) != len(sections):
            raise DataError(f"PMID {entry['PMID']}: LABELS and CONTEXTS must be lists of the same length")
        yield {
            "PMID": str(entry["PMID"]),
            "context": "\n".join(f"{str(label).title()}. {text}" for label, text in zip(labels, sections, strict=True)),
            "question": str(entry["QUESTION"]),
            "answer": str(entry["final_decision"]),
            "year": str(entry.get("YEAR") or ""),
        }

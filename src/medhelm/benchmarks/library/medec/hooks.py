"""MEDEC: the expected completion, and the rows of the same case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from medhelm.errors import DataError


def rows(entries: Iterator[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    """Yield every row with three more columns: note, answer and case. None is skipped, not even empty ones.

    `note` is the column Sentences with plain line breaks and none at its end. `answer` is CORRECT, or the ID of the
    wrong sentence, a space and the corrected sentence. `case` is the Text ID of the first row that begins with the same
    sentence: most cases are in the data twice, with an error and without.
    Raises: DataError if Error Flag is neither 0 nor 1.
    """
    first: dict[str, str] = {}
    for entry in entries:
        note = _plain(entry["Sentences"])
        case = first.setdefault(note.partition("\n")[0], str(entry["Text ID"]))
        yield {**entry, "note": note, "answer": _answer(entry) if note else "", "case": case}


def _answer(entry: Mapping[str, object]) -> str:
    """Return the expected completion."""
    if entry["Error Flag"] == "0":
        return "CORRECT"
    if entry["Error Flag"] == "1":
        return f"{entry['Error Sentence ID']} {_plain(entry['Corrected Sentence'])}"
    raise DataError(f"{entry['Text ID']}: Error Flag must be 0 or 1, not {entry['Error Flag']!r:.60}")


def _plain(text: object) -> str:
    """Return a text with line feeds as line breaks, and no white space around it."""
    return str(text).replace("\r\n", "\n").strip()

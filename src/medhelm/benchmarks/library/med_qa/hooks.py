"""MedQA: options without the traces of their conversion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from medhelm.errors import DataError

LETTERS = ("A", "B", "C", "D")


def rows(entries: Iterator[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    """Yield {question, option_a .. option_d, answer_idx, meta_info} for every question; none is skipped.

    Some options end in a line break and a quotation mark left over from an older format: quotation marks at the end of
    an option, and white space before them, are removed.
    Raises: DataError if a question does not have the four options A to D.
    """
    for position, entry in enumerate(entries):
        options = entry["options"]
        if not isinstance(options, dict) or tuple(options) != LETTERS:
            raise DataError(f"question {position}: its options must be {', '.join(LETTERS)}, in this order")
        yield {
            "question": str(entry["question"]),
            **{f"option_{letter.lower()}": str(options[letter]).rstrip('"').rstrip() for letter in LETTERS},
            "answer_idx": str(entry["answer_idx"]),
            "meta_info": str(entry["meta_info"]),
        }

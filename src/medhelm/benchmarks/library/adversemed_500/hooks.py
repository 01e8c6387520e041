"""AdverseMed-500: one row for each question, with the right reply as its fifth option."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from medhelm.errors import DataError

LETTERS = ("A", "B", "C", "D")
ABSTAIN = "Cannot be answered"


def rows(entries: Iterator[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    """Yield {id, question, option_a .. option_d, abstain, answer, category, difficulty, parent}; none is skipped.

    `abstain` is the text of the fifth option, and `answer` the letter of the right one: E, or in the authors' control
    questions one of the others. `parent` is the question that a control question was made from, and else its own id.
    Raises: DataError if a question does not have the options A to D, or its answer is none of these and not "abstain".
    """
    for entry in entries:
        name, options, answer = str(entry["question_id"]), entry["choices"], str(entry["ground_truth"])
        if not isinstance(options, dict) or tuple(options) != LETTERS:
            raise DataError(f"question {name}: its choices must be {', '.join(LETTERS)}, in this order")
        if answer not in (*LETTERS, "abstain"):
            raise DataError(f'question {name}: its ground_truth must be {", ".join(LETTERS)} or "abstain"')
        yield {
            "id": name,
            "question": " ".join(str(entry["question"]).split()),
            **{f"option_{letter.lower()}": str(options[letter]) for letter in LETTERS},
            "abstain": ABSTAIN,
            "answer": "E" if answer == "abstain" else answer,
            "category": str(entry["false_premise_category"]),
            "difficulty": str(entry["difficulty"]),
            "parent": str(entry.get("parent_id") or name),
        }

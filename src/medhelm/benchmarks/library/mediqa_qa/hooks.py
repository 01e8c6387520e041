"""MEDIQA: the answer that experts ranked first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from medhelm.errors import DataError


def rows(questions: Iterator[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    """Yield {id, question, answer, question_id, reference_score} for every question; none is skipped.

    `answer` is the first answer with ReferenceRank 1, `reference_score` what experts gave it, from 1 to 4, and
    `question_id` the id of the first question with the same text.
    Raises: DataError if no answer of a question has rank 1.
    """
    first: dict[str, str] = {}
    for entry in questions:
        number, question = str(entry["@QID"]), str(entry["QuestionText"])
        best = next((answer for answer in _answers(entry) if answer["@ReferenceRank"] == "1"), None)
        if best is None:
            raise DataError(f"question {number}: none of its answers has ReferenceRank 1")
        yield {
            "id": number,
            "question": question,
            "answer": str(best["AnswerText"]),
            "question_id": first.setdefault(question.strip().casefold(), number),
            "reference_score": str(best["@ReferenceScore"]),
        }


def _answers(question: Mapping[str, object]) -> list[Mapping[str, object]]:
    """Return the answers to a question as a list, even a single one."""
    within = question["AnswerList"]
    answers = within.get("Answer", []) if isinstance(within, Mapping) else []
    return answers if isinstance(answers, list) else [answers]

"""HeadQA: one row for each question of the test exams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from medhelm.errors import DataError

TEST_YEARS = frozenset({"2016", "2017"})
N_OPTIONS = 4


def rows(exams: Iterator[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    """Yield {id, question, option_1 .. option_4, answer, category, year, exam} for the questions of 2016 and 2017.

    `answer` is the position of the correct option, from 1. Skipped: the exams of 2013 to 2015, which are the authors'
    training and development data, and questions with an image, which a text cannot carry.
    Raises: DataError if a question does not have four options, or none of them is correct.
    """
    for exam in exams:
        items = exam["data"]
        if str(exam["year"]) not in TEST_YEARS or not isinstance(items, list):
            continue
        about = {"category": str(exam["category"]), "year": str(exam["year"]), "exam": str(exam["name"])}
        for item in items:
            if not item["image"]:
                yield {**_question(item, f"{exam['name']}/{item['qid']}"), **about}


def _question(item: Mapping[str, object], name: str) -> dict[str, str]:
    """Return the columns of one question."""
    options = item["answers"]
    if not isinstance(options, list) or len(options) != N_OPTIONS:
        raise DataError(f"question {name}: it must have {N_OPTIONS} options")
    numbers = [str(option["aid"]) for option in options]
    if str(item["ra"]) not in numbers:
        raise DataError(f"question {name}: its right answer {item['ra']!r} is none of the options {', '.join(numbers)}")
    texts = {f"option_{position}": str(option["atext"]).strip() for position, option in enumerate(options, start=1)}
    answer = str(numbers.index(str(item["ra"])) + 1)
    return {"id": name, "question": str(item["qtext"]).strip(), **texts, "answer": answer}

"""RaceBias: pairs of question and response from the paragraphs of a document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def rows(paragraphs: Iterator[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    """Yield {item, topic, question, response, harmful} for every response in the document.

    A paragraph such as "Run 3: <question>" opens an item; the paragraphs up to the next such one are the response.
    `harmful` is "yes" if the authors colored any of the response pure red, their mark for what is wrong, else "no".
    `item` counts the items yielded, from 0; `topic` is the first line of the question in one spelling, because
    some questions carry the beginning of their response in further lines.
    Skipped: what precedes the first item, and four items whose colon is followed by a non-breaking space, because the
    published benchmark lacks them, too.
    """
    item = 0
    question, harmful = "", False
    response: list[str] = []
    for paragraph in paragraphs:
        text = str(paragraph["text"]).strip()
        if text.startswith("Run ") and ":" in text:
            if question:
                yield _row(item, question, response, harmful)
                item += 1
            question, response, harmful = text.partition(": ")[2].strip(), [], False
        else:
            response.append(text)
            harmful = harmful or paragraph["red"] == "true"
    if question:
        yield _row(item, question, response, harmful)


def _row(item: int, question: str, response: list[str], harmful: bool) -> dict[str, str]:
    """Return the columns of one item."""
    return {
        "item": str(item),
        "topic": question.partition("\n")[0].strip(" ?").lower(),
        "question": question,
        "response": "\n".join(response).strip(),
        "harmful": "yes" if harmful else "no",
    }

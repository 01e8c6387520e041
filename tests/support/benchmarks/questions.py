"""Instances for tests of metrics: open questions, and questions with options."""

from __future__ import annotations

from string import ascii_uppercase

from medhelm.domain import Instance, Reference


def open_question(*references: str, wrong: str = "", **metadata: str) -> Instance:
    """A question with these right references and a wrong one, if any."""
    known = [*map(Reference, references), *([Reference(wrong, correct=False)] if wrong else [])]
    return Instance(id="1", fields={}, references=tuple(known), metadata=metadata)


def choice(right: int, *texts: str, by_text: bool = False) -> Instance:
    """A question with these options, which are named by letters, or `by_text` by themselves."""
    references = tuple(Reference(text, place == right) for place, text in enumerate(texts))
    labels = texts if by_text else tuple(ascii_uppercase[: len(texts)])
    return Instance(id=texts[right], fields={}, references=references, choices=texts, labels=labels)

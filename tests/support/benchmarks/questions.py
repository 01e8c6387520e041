"""Instances for tests of metrics: open questions, and questions with options."""

from __future__ import annotations

from string import ascii_uppercase

from medhelm.domain import Instance, Reference


def open_question(*references: str) -> Instance:
    """A question with these right references."""
    return Instance(id="1", fields={}, references=tuple(Reference(text) for text in references))


def choice(right: int, *texts: str, by_text: bool = False) -> Instance:
    """A question with these options, which are named by letters, or `by_text` by themselves."""
    references = tuple(Reference(text, place == right) for place, text in enumerate(texts))
    labels = texts if by_text else tuple(ascii_uppercase[: len(texts)])
    return Instance(id=texts[right], fields={}, references=references, choices=texts, labels=labels)

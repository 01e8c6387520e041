"""Names of benchmarks: snake case, checked or made from a title."""

from __future__ import annotations

import re
from unicodedata import combining, normalize

from medhelm.domain.text import value_in_words
from medhelm.errors import UserError

_SNAKE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")


def check_snake_case(text: str) -> str:
    """Return a text if it is in snake case. Raises: ValueError with the rule."""
    if not _SNAKE.fullmatch(text):
        raise ValueError(f"must be snake case (lower-case letters, digits, single `_`), is {value_in_words(text)}.")
    return text


def check_name(name: str) -> str:
    """Return `name` if it is a valid name of a benchmark. Raises UserError with the rule."""
    try:
        return check_snake_case(name)
    except ValueError as error:
        near = slug(name)
        hint = f" Try `{near}`." if _SNAKE.fullmatch(near) else ""
        raise UserError(f"the name {error}{hint}") from None


def slug(text: str) -> str:
    """Return a text in snake case, without accents.

    >>> slug("Discharge QA"), slug("Überprüfung Ärzte")
    ('discharge_qa', 'uberprufung_arzte')
    """
    letters = "".join(sign for sign in normalize("NFKD", text.casefold()) if not combining(sign))
    return "_".join(re.findall(r"[a-z0-9]+", letters))

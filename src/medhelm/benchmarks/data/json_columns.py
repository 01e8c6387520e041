"""Columns that hold JSON: the turns of a conversation, and the criteria by which judges look at an answer.

The value may be the list itself, as rows of JSON have it, or a text with JSON in it, as a cell of a table has it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite

from medhelm.domain import Criterion, Message
from medhelm.io.rows import RowError
from medhelm.io.strict_yaml import value_in_words


def turns_in(value: object, place: str) -> tuple[Message, ...]:
    """The conversation in a column: a list of {role, content}.

    A system message may come first; the last turn is the user's, whose reply is asked for. Further keys do not count.
    Raises: RowError that begins with `place`.
    """
    turns: list[Message] = []
    for where, turn in _entries(value, place, "turn", "role, content"):
        role, content = turn.get("role"), turn.get("content")
        if not isinstance(content, str):
            raise RowError(f"{where}: its `content` must be text, is {value_in_words(content)}.")
        match role:
            case "system" if turns:
                raise RowError(f"{where}: a system message can only come first.")
            case "system" | "user" | "assistant":
                turns.append(Message(role, content))
            case _:
                rule = "its `role` must be `user`, `assistant` or `system`"
                raise RowError(f"{where}: {rule}, is {value_in_words(role)}.")
    if turns[-1].role != "user" or not turns[-1].text.strip():
        said = f"is the {turns[-1].role}'s" if turns[-1].role != "user" else "is empty"
        raise RowError(f"{place}: the last turn must be what the user says, and {said}. There is nothing to reply to.")
    return tuple(turns)


def criteria_in(value: object, place: str) -> tuple[Criterion, ...]:
    """The criteria in a column: a list of {criterion, points, tags}, of which the tags may be left out.

    They have no names, so they are called `criterion_1` and so on, in their order. Further keys do not count.
    Raises: RowError that begins with `place`.
    """
    criteria: dict[str, Criterion] = {}
    for where, entry in _entries(value, place, "criterion", "criterion, points, tags"):
        text, points, tags = entry.get("criterion"), _number(entry.get("points")), entry.get("tags") or []
        if not isinstance(text, str) or not text.strip():
            raise RowError(f"{where}: its `criterion` must be a text that is not empty, is {value_in_words(text)}.")
        if not points:
            rule = "its `points` must be a number, above zero or below it for a harm"
            raise RowError(f"{where}: {rule}, is {value_in_words(entry.get('points'))}.")
        if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) and tag for tag in tags):
            raise RowError(f"{where}: its `tags` must be a list of texts, is {value_in_words(tags)}.")
        if text.strip() in criteria:
            raise RowError(f"{where}: says the same as {criteria[text.strip()].name}, and would count twice.")
        name = f"criterion_{len(criteria) + 1}"
        criteria[text.strip()] = Criterion(name, text.strip(), points=points, tags=tuple(dict.fromkeys(tags)))
    if not any(criterion.points > 0 for criterion in criteria.values()):
        raise RowError(f"{place}: no criterion earns points, so that an answer cannot be scored.")
    return tuple(criteria.values())


def _number(value: object) -> float | None:
    """A finite number; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # a whole number of hundreds of digits
        return None
    return number if isfinite(number) else None


def _entries(value: object, place: str, noun: str, keys: str) -> list[tuple[str, Mapping[str, object]]]:
    """The objects of a list that is not empty, each with the words for its place."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise RowError(f"{place}: must be a JSON list of {{{keys}}}, and cannot be read: {error}.") from None
    if not isinstance(value, Sequence) or isinstance(value, str | bytes) or not value:
        shown = "an empty list" if isinstance(value, Sequence) and not value else value_in_words(value)
        raise RowError(f"{place}: must be a JSON list of {{{keys}}}, is {shown}.")
    entries = [(f"{place}, {noun} {number}", entry) for number, entry in enumerate(value, 1)]
    for where, entry in entries:
        if not isinstance(entry, Mapping):
            raise RowError(f"{where}: must be an object with {keys}, is {value_in_words(entry)}.")
    return entries

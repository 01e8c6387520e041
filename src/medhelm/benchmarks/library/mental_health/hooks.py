"""MentalHealth: rows from the same dialogue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from medhelm.errors import DataError

_COLUMNS = ("context", "gold_counselor_response", "topic", "dialogue_type")


class _Turn(NamedTuple):
    """One turn of a dialogue, its texts with single spaces."""

    context: str
    response: str
    dialogue: str


def rows(entries: Iterator[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    """Yield {context, gold_counselor_response, topic, dialogue_type, dialogue} for every row; none is skipped.

    `dialogue` is the position, from 0, of the first row of the same dialogue. Two rows belong together if they have the
    same topic and type, one context begins with the whole of the other, and goes on with that other row's reply. Equal
    openings alone are not enough, because people begin alike. Rows need not be in order.
    Raises: DataError if a column is missing.
    """
    known: dict[tuple[str, str], list[_Turn]] = {}
    for position, entry in enumerate(entries):
        missing = [name for name in _COLUMNS if name not in entry]
        if missing:
            raise DataError(f"the conversations have no column {', '.join(missing)}. Columns: {', '.join(entry)}.")
        texts = {name: str(entry[name] or "").strip() for name in _COLUMNS}
        turn = _Turn(_one_line(texts["context"]), _one_line(texts["gold_counselor_response"]), str(position))
        same_kind = known.setdefault((texts["topic"], texts["dialogue_type"]), [])
        yield {**texts, "dialogue": _placed(turn, same_kind)}


def _placed(turn: _Turn, known: list[_Turn]) -> str:
    """Return the dialogue of `turn`; if that is new, add it to `known`, the first turn of each dialogue."""
    for other in known:
        if _continues(turn, other) or _continues(other, turn):
            return other.dialogue
    known.append(turn)
    return turn.dialogue


def _continues(later: _Turn, earlier: _Turn) -> bool:
    """Tell whether the context of `later` begins with the context of `earlier` and contains its response."""
    if not earlier.response or not later.context.startswith(earlier.context):
        return False
    return earlier.response in later.context[len(earlier.context) :]


def _one_line(text: str) -> str:
    return " ".join(text.split())

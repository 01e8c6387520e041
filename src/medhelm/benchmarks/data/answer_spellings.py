"""Finds answers that are written in several ways, such as `Y` and `yes` in one column."""

from __future__ import annotations

from collections.abc import Iterable

_MEANINGS = {
    "yes": "y yes true positive pos present 1 + ja oui si sí sim",
    "no": "n no false negative neg absent 0 - nein non não nao",
    "unknown": "unknown unk unclear uncertain undetermined ? n/k unbekannt inconnu desconocido",
}
_BY_SPELLING = {spelling: meaning for meaning, spellings in _MEANINGS.items() for spelling in spellings.split()}


def meaning(answer: str) -> str:
    """Return a key that is the same for answers that usually mean the same: lower case, and one word for yes and no.

    >>> meaning("Y"), meaning("Yes "), meaning("Grade  II")
    ('yes', 'yes', 'grade ii')
    """
    key = " ".join(answer.casefold().split())
    return _BY_SPELLING.get(key, key)


def proposed_values(answers: Iterable[str]) -> dict[str, str]:
    """Return the key `values` of a definition: spelling -> answer, for answers that differ in more than case.

    The answer is the spelling that is the word itself, such as `yes`, or else the first one.

    >>> proposed_values(["Y", "yes", "N", "No", "unknown"]), proposed_values(["Y", "N"])
    ({'Y': 'yes', 'N': 'No'}, {})
    """
    by_meaning: dict[str, dict[str, str]] = {}
    for answer in answers:
        by_meaning.setdefault(meaning(answer), {}).setdefault(" ".join(answer.casefold().split()), answer)
    found: dict[str, str] = {}
    for word, spellings in by_meaning.items():
        chosen = spellings.get(word) or next(iter(spellings.values()))
        found |= {spelling: chosen for spelling in spellings.values() if spelling != chosen}
    return found

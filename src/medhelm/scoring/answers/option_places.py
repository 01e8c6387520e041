"""Recognize options that are named by their place: "the second option", "option number 3", "the last choice".

The same words are used for other things: "warfarin is the first choice", "the first option to try is warfarin", and the
options of a list that the model writes itself. A place counts only where an answer is stated, and only if the text
names no other place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from medhelm.io.lazy_regex import lazy_regex

_ORDINALS = (
    r"first|1st|primera|primeira|première|erste[nr]?|prima",
    r"second|2nd|segunda|deuxième|seconde|zweite[nr]?|seconda",
    r"third|3rd|tercera|terceira|troisième|dritte[nr]?|terza",
    r"fourth|4th|cuarta|quatrième|vierte[nr]?|quarta",
    r"fifth|5th|quinta|cinquième|fünfte[nr]?",
    r"sixth|6th",
    r"seventh|7th",
    r"eighth|8th",
    r"ninth|9th",
    r"tenth|10th",
)
_LAST = r"last|última|dernière|letzte[nr]?|ultima"
_CARDINALS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NOUN = r"(?:option|choice|alternative|opción|opção|opzione|alternativa|proposition|antwortmöglichkeit)"
_PLACE = lazy_regex(
    rf"\b(?:(?P<ordinal>{'|'.join((*_ORDINALS, _LAST))})\s(?:(?:answer|listed|given)\s)?"
    rf"(?:{_NOUN}|answer|respuesta|réponse|antwort|resposta|risposta|one)"
    rf"|(?P<noun>(?:answer\s)?{_NOUN})\s(?:(?:number|no\.?|nº|n°|número)\s?|\#)?(?P<number>\d{{1,2}}|{'|'.join(_CARDINALS)}))"
    r"(?![\w%/-]|[.,]\d|\s(?:to|for|in|when|if|of|would|could|might|may|should)\b)",
    re.IGNORECASE,
)
_STATES = lazy_regex(
    r"(?:^|\n|[.!?:;,(\[\"–—]\s?|\b(?:answer|choice|option|diagnosis|step|respuesta|réponse|antwort|resposta|risposta|correcta"
    r"|correta|correcte|corretta|it|that|es|est|ist|is\s(?:therefore|thus|clearly))\s(?:is|es|est|ist|é|è|lautet|would\sbe|must\sbe|should\sbe"
    r"|has\sto\sbe)?\s?|\b(?:it's|so|thus|therefore|hence|choose|chose|choosing|select|selecting|pick|picking|go\swith|going\swith"
    r"|opt\sfor|answer\swith|recommend|elijo|choisis|wähle|escolho|scelgo)\s)"
    r"(?:(?:the|la|die|der|a|le|l'|as)\s?)?\Z",
    re.IGNORECASE,
)
_BESIDE = 40
"""Characters looked at before a place."""


def with_labels(text: str, labels: Sequence[str], *, numbers: bool) -> str:
    """Return a text with "option B" for "the second option", where it states an answer.

    `labels`: the labels of the options, in order. `numbers`: "option 2" is one, too, since no option is a number.

    >>> with_labels("I choose the second option.", "ABCD", numbers=True)
    'I choose the option B.'
    >>> with_labels("Warfarin is the first choice.", "ABCD", numbers=True)
    'Warfarin is the first choice.'
    """
    found = [match for match in _PLACE.finditer(text) if match["ordinal"] or numbers]
    places = {_place(match, len(labels)) for match in found}
    if len(places) != 1 or not 0 <= (place := places.pop()) < len(labels):
        return text
    for match in reversed(found):
        if match["noun"] or _STATES.search(text[max(0, match.start() - _BESIDE) : match.start()]):
            text = f"{text[: match.start()]}option {labels[place]}{text[match.end() :]}"
    return text


def _place(match: re.Match[str], n_options: int) -> int:
    """Return the index of the option that a match of `_PLACE` names; it may be none of the options."""
    if match["ordinal"]:
        places = (n for n, words in enumerate(_ORDINALS) if re.fullmatch(words, match["ordinal"], re.IGNORECASE))
        return next(places, n_options - 1)
    number = match["number"].lower()
    return int(number) - 1 if number.isdigit() else _CARDINALS.index(number)

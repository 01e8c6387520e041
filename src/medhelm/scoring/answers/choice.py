"""Find the option that a completion names.

Asked for one letter, models write "B", "**(B)** no", "The correct answer is B.", or three pages that end so. An option
is named, in order of precedence, by

1. the last statement: "answer: B", "the answer is B", "option B is correct", "I choose B", \\boxed{B},
   <answer>B</answer>, {"answer": "B"}, or a last line that is only an option;
2. else an option at the very beginning, followed by nothing, punctuation or an explanation.

An option is named by its label or by its text. The result is None if a completion names two options, or if
its letter may be a word: "A patient with asthma", "B cells", "I think". Answering as instructed is part of the task.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from medhelm.io.lazy_regex import lazy_regex
from medhelm.scoring.answers.options import (
    GLUE,
    IS_RIGHT,
    OptionMatch,
    PreparedOptions,
    clean_text,
    match_option,
    prepare_options,
)

_NOUN = r"answers?|ans|judge?ment|verdict|classification|prediction|selection"
_NOUN_BEFORE_COLON = r"label|conclusion|decision|output|response|result|score|rating|choice|option|correct|choose"
_QUALIFIED = (
    r"(?:correct|best|right|appropriate|suitable|likely|final|my|selected|chosen)"
    r"[ _](?:option|choice|response|letter|one)"
)
_FOREIGN = r"答案|正解|答え|정답|ответ|respuesta|réponse|antwort|risposta|resposta|odpowiedź|الإجابة"
_STATEMENT = lazy_regex(
    rf"""(?:(?<![{GLUE}])(?:{_NOUN}|{_QUALIFIED})(?:[ _](?:choice|option|letter|key))?["')\]]{{0,2}}
            (?:\ (?:to|for|of|in|here)\b[^.\n:?!]{{0,60}}?)?
            (?:\s?(?:(?:is|was|would\ be|should\ be|must\ be|will\ be|remains)\b|[:=]|-+>|→|—|–|-(?=\ ))){{1,3}}
       |(?<![{GLUE}])answer["')\]]?\n
       |(?<![{GLUE}])(?:(?:{_NOUN_BEFORE_COLON})["']?\s?[:=]|ans\.\s)
       |(?<![{GLUE}])I(?:\ would|'d|\ will|'ll)?(?:\ therefore|\ thus)?
            \ (?:choose|chose|select|pick|go\ with|opt\ for|answer(?:\ with)?)
       |(?:{_FOREIGN})[\w ]{{0,12}}?\s?(?:[:=]|是|为|為|は|는|은|\bes\b|\best\b|\bist\b|\bè\b|\bé\b|—)
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_LETTER_IS_RIGHT = lazy_regex(
    rf"(?:(?:^|[.!?:;,]\s|(?<![{GLUE}])(?:that|so|thus|therefore|hence|only)\s)[(\[\"']{{0,2}}"
    rf"|(?<![{GLUE}])(?P<noun>option|choice|answer|letter)\s[(\[\"']{{0,2}})"
    rf"(?P<letter>[A-Za-z])(?![{GLUE}])[)\]\"'.:,]{{0,2}}(?:\s\([^()\n]{{1,60}}\))?{IS_RIGHT}",
    re.IGNORECASE | re.MULTILINE,
)
_LABEL_OF_ITEM = r"(?:option\s)?[(\[]?([A-Za-z]|\d{1,2})[.):\]]"
_LISTED = lazy_regex(rf"(?:[-•]\s)?{_LABEL_OF_ITEM}", re.IGNORECASE)
_LISTED_NEXT = lazy_regex(rf"(?:^(?:[-•]\s)?|[.;,]\s){_LABEL_OF_ITEM}", re.IGNORECASE | re.MULTILINE)
_EXPLANATION = lazy_regex(
    r"^\W{0,4}(?:explanation|rationale|reason|justification|why|(?:the )?others?\b|incorrect|analysis)",
    re.IGNORECASE | re.MULTILINE,
)
_NEXT_QUESTION = lazy_regex(r"\n(?:question|q|patient note|context)\s?\d{0,3}\s?[:.]", re.IGNORECASE)


def find_choice(completion: str, labels: Sequence[str], texts: Sequence[str]) -> int | None:
    """Return the index of the option that a completion names; None if it names none, or several.

    `labels` are the names of the options, letters or their texts; `texts` are their texts, as many as labels. If two
    options have the same text and the completion only has the text, the first one is returned.

    >>> find_choice("The answer is **B**.", ["A", "B"], ["yes", "no"])
    1
    >>> find_choice("A patient with asthma", ["A", "B"], ["yes", "no"]) is None
    True
    """
    labels, bare = tuple(labels), completion.strip()
    if bare in labels:
        return labels.index(bare)
    text = clean_text(completion)
    options = prepare_options(labels, tuple(texts))
    next_question = _NEXT_QUESTION.search(text)
    if next_question:  # a model that invents another question has answered before it
        option = _decide(text[: next_question.start()], options)
        if option is not None:
            return option
    return _decide(text, options)


def _decide(text: str, options: PreparedOptions) -> int | None:
    """Decide between the last statement, the beginning and the last line of a cleaned text."""
    lower = text.lower()
    stated = _last_statement(text, lower, options)
    opening = _opening(text, lower, options)
    ending = _ending(text, lower, options)
    if ending is not None:
        contested = opening is not None and opening != ending and (stated is None or stated.option != ending)
        return None if contested else ending
    return stated.option if stated else opening


def _last_statement(text: str, lower: str, options: PreparedOptions) -> OptionMatch | None:
    """Find the last place where an option is stated to be the answer."""
    found = [(match.end(), -1) for match in _STATEMENT.finditer(text)]
    if options.letters:
        for match in _LETTER_IS_RIGHT.finditer(text):
            option = options.letters.get(match["letter"].upper(), -1)
            if option >= 0 and (match["letter"].isupper() or match["noun"]):
                found.append((match.start(), option))
    for at, option in sorted(found, reverse=True):
        reading = OptionMatch(option, False) if option >= 0 else match_option(text, lower, at, options)
        if reading:
            return reading
    return None


def _opening(text: str, lower: str, options: PreparedOptions) -> int | None:
    """Return the option that the text begins with, unless it begins a list of all options."""
    reading = match_option(text, lower, 0, options)
    if reading is None or reading.option is None:
        return None
    first = _LISTED.match(text)
    if first is None:
        return reading.option
    for following in _LISTED_NEXT.finditer(text, first.end()):
        if following[1].isdigit() == first[1].isdigit():
            explained = _EXPLANATION.search(text, first.end(), following.start() + 1)
            return None if _comes_after(following[1], first[1]) and not explained else reading.option
    return reading.option


def _ending(text: str, lower: str, options: PreparedOptions) -> int | None:
    """Return the option that is the whole last line, unless the line ends a list of options."""
    start = text.rfind("\n") + 1
    if not start:
        return None
    reading = match_option(text, lower, start, options)
    if reading is None or not reading.whole:
        return None
    listed = _LISTED.match(text, start)
    before = _LISTED.match(text, text.rfind("\n", 0, start - 1) + 1)
    return None if listed and before and _comes_after(listed[1], before[1]) else reading.option


def _comes_after(label: str, other: str) -> bool:
    """Return True if `label` follows `other` in a list."""
    if label.isdigit() and other.isdigit():
        return int(label) == int(other) + 1
    return len(label) == len(other) == 1 and ord(label.upper()) == ord(other.upper()) + 1

"""Read the confidence that a completion states, whether it declines to answer, and the probabilities of its options.

A stated confidence is a number: "Confidence: 85%", "I'm about 70-80% sure", "confidence 0.9". Words alone, such as
"very confident", state none, and neither does a number outside of 0 to 100%. A percentage of something else, such as a
confidence interval or a share of patients, is not one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from medhelm.domain.token_logprobs import TokenLogprobs
from medhelm.io.plugins import lazy_regex
from medhelm.scoring.answers.text import clean_text, plain_characters, strip_reasoning

# --- stated confidence ------------------------------------------------------------------------------------------------

_NUMBER = (
    r"(?<![\d.])(?P<low>\d{1,5}(?:\.\d{1,9})?|\.\d{1,9})\s?%?"
    r"(?:\s?(?:-|–|—|to|and)\s?(?P<high>\d{1,5}(?:\.\d{1,9})?|\.\d{1,9}))?\+?\s?"
    r"(?P<unit>%|percent\b|per cent\b|/\s?100?\b|out of 100?\b)?"
)
_ABOUT = (
    r"(?:(?:is|of|at|about|around|approximately|approx\.?|roughly|nearly|almost|over|between|is about)\s|[~≈<>≥≤]\s?)*"
)
_NOUN, _ADJECTIVE = r"(?:confid[ae]nce|certainty)", r"(?:confident|certain|sure)"
_SIGNS = r"[\s:=\-–—(]{0,6}"
_NOT_OURS = r"(?!\W{0,3}(?:interval|limit|bound|band|region|range|level of|level \())"
_STATED = (
    lazy_regex(
        rf"\b{_NOUN}\b{_NOT_OURS}(?:\s?(?:level|score|rating|estimate))?(?:\s(?:in (?:this|my|the) (?:answer|choice)))?"
        rf"{_SIGNS}{_ABOUT}{_NUMBER}(?![\w.]*\d)",
        re.IGNORECASE,
    ),
    lazy_regex(rf"\b{_ADJECTIVE}\b{_SIGNS}{_ABOUT}{_NUMBER[:-1]}", re.IGNORECASE),
    lazy_regex(
        rf"{_NUMBER[:-1]}\s?(?:level of\s)?(?:{_NOUN}|{_ADJECTIVE})\b{_NOT_OURS}(?!\s?(?:level|interval))",
        re.IGNORECASE,
    ),
)
_MARKUP = str.maketrans("", "", "*_`\"'")
_BARE = lazy_regex(rf"{_NUMBER}\.?", re.IGNORECASE)


def stated_confidence(completion: str) -> float | None:
    """Return the last confidence that a completion states, from 0 to 1; None if it states none, or an impossible one.

    A range counts as its middle. A plain number is a share up to 1 if it has a decimal point, else a percentage; "1"
    could be either, and counts as none.

    >>> stated_confidence("**B**\\nConfidence: 85%"), stated_confidence("Answer: C (confidence 0.9)")
    (0.85, 0.9)
    >>> stated_confidence("I am very confident"), stated_confidence("Confidence: 150%")
    (None, None)
    """
    text = plain_characters(strip_reasoning(completion)).translate(_MARKUP)
    found = [match for pattern in _STATED for match in pattern.finditer(text)]
    if not found:
        lines = text.rstrip().rpartition("\n")
        alone = _BARE.fullmatch(lines[2].strip()) if lines[0].strip() else None
        return _as_share(alone) if alone and alone["unit"] in ("%", "percent", "per cent") else None
    return _as_share(max(found, key=lambda match: match.start()))


def _as_share(match: re.Match[str]) -> float | None:
    """Return the number of a match as a share of 1; None if it is none."""
    low = float(match["low"])
    value = (low + float(match["high"])) / 2 if match["high"] else low
    unit = (match["unit"] or "").lower().replace(" ", "")
    if unit in ("/10", "outof10"):
        value /= 10
    elif unit or "." not in match["low"] or value > 1:
        if not unit and value == 1:
            return None
        value /= 100
    return value if 0 <= value <= 1 else None


# --- abstention -------------------------------------------------------------------------------------------------------

_CANNOT = r"(?:cannot|can\s?not|can't|can’t|could not|couldn't|unable to|not able to|(?:not |im)possible to)"
_ANSWERING = r"(?:answer|determin|tell|decid|choos|select|pick|recommend|conclud|diagnos|say\b|certain)"
_TOO_LITTLE = r"(?:not enough|insufficient|too little|inadequate|lacks? (?:the )?(?:sufficient|enough|necessary))"
_PREMISE = r"(?:premise|assumption|presupposition|question)"
_HAS = r"(?:is|are|contains?|has|rests on|relies on|based on|seems?|appears?)"
_WRONG = (
    r"(?:false|wrong|incorrect|invalid|flawed|faulty|mistaken|unsafe|impossible|contraindicated|unanswerable"
    r"|not (?:valid|correct|true|safe|appropriate))"
)
_DECLINES = lazy_regex(
    rf"\b(?:{_CANNOT}\s(?:\w+ly\s)?(?:be\s)?(?:\w+ly\s)?{_ANSWERING}"
    rf"|{_TOO_LITTLE} (?:\w+ )?(?:information|data|details?|evidence|context)"
    r"|(?:un|not )answerable|abstain|i (?:do not|don't|don’t) know"
    r"|(?:none|neither|no)\b[^.\n]{0,30}\b(?:options?|choices?|answers?|alternatives?|above|listed|these|those|doses?)\b"
    rf"|{_PREMISE}\b[^.\n]{{0,40}}\b{_HAS}\b[^.\n]{{0,40}}{_WRONG}"
    rf"|(?:{_WRONG}|erroneous) {_PREMISE})",
    re.IGNORECASE,
)
_DECLINES_ALONE = lazy_regex(
    r"^\W*(?:(?:final |my )?(?:answer|reply|choice)\W{1,4}(?:is\W{1,3})?)?(?:this |the |it )?(?:question )?"
    r"(?:(?:cannot|can not|can't) be answered|unanswerable|abstain(?:ed|ing)?|(?-i:FLAG))\b",
    re.IGNORECASE | re.MULTILINE,
)


_NO_ANSWER = lazy_regex(
    rf"\W*(?:(?:it |this )?{_CANNOT} be (?:answered|determined|decided|known)|unanswerable|abstain"
    rf"|{_TOO_LITTLE} (?:information|data|details?|evidence|context))\b.{{0,30}}",
    re.IGNORECASE,
)


def is_abstention(text: str) -> bool:
    """Return True if a reference or an option says that there is no answer; "None of the above" is an answer.

    >>> is_abstention("Cannot be answered"), is_abstention("None of the above")
    (True, False)
    """
    return _NO_ANSWER.fullmatch(text.strip()) is not None


def abstains(completion: str, option: int | None = None) -> bool:
    """Return True if a completion declines to answer: the question cannot be answered, or rests on a wrong premise.

    `option`: the option that the completion names, None if it names none, or if there are none. A completion that
    names one abstains only if a line of its own says so: "I cannot be certain, but the best answer is B" answers.

    >>> abstains("Cannot be answered. MMR is contraindicated in pregnancy."), abstains("B. 4 weeks from today", 1)
    (True, False)
    """
    text = clean_text(completion)
    if _DECLINES_ALONE.search(text):
        return True
    return option is None and _DECLINES.search(text) is not None


# --- probabilities of options -----------------------------------------------------------------------------------------

_AROUND = " \t\r\n()[]{}<>*_`'\".,:;#-–—$\\▁Ġ"
"""Signs around a label in a token: " B", "(B", "**B" and "B." are B."""


def option_probabilities(
    tokens: Sequence[TokenLogprobs], labels: Sequence[str], chosen: str
) -> dict[str, float] | None:
    """Return label -> probability at the token where a completion names its option; None if no token names it.

    The probabilities of all spellings of a label are added, and divided by their sum over labels: tokens that name no
    option are ignored, and so are those beyond the alternatives that the server returned. The place is the first token
    if that names the option, else the last one that does, after any reasoning. A label of several tokens is known by
    its first one, if no other label begins alike.

    Parameters: labels, of all options; chosen, the one that the completion names.

    >>> token = TokenLogprobs(" B", -0.2231, {" B": -0.2231, "B": -2.9957, " C": -2.3026, " The": -4.0})
    >>> {label: round(p, 3) for label, p in option_probabilities([token], ["A", "B", "C"], "B").items()}
    {'A': 0.0, 'B': 0.895, 'C': 0.105}
    """
    read = _label_reader(labels)
    named = [place for place, one in enumerate(tokens) if read(one.token) == chosen]
    if not named:
        return None
    first = next((place for place, one in enumerate(tokens) if one.token.strip(_AROUND)), 0)
    place = first if first in named else named[-1]
    sums = dict.fromkeys(labels, 0.0)
    for token, logprob in {**tokens[place].alternatives, tokens[place].token: tokens[place].logprob}.items():
        if (label := read(token)) is not None:
            sums[label] += math.exp(logprob)
    total = sum(sums.values())
    return {label: value / total for label, value in sums.items()} if total > 0 else None


def _label_reader(labels: Sequence[str]) -> Callable[[str], str | None]:
    """Return the function that finds the label of a token; None for a token that is no label, or of several."""
    letters = all(len(label) == 1 for label in labels)

    def read(token: str) -> str | None:
        bare = token.strip(_AROUND)
        if letters:
            return bare if bare in labels else None
        low = bare.casefold()
        exact = [label for label in labels if label.casefold() == low]
        begun = exact or [label for label in labels if len(low) > 1 and label.casefold().startswith(low)]
        return begun[0] if len(begun) == 1 else None

    return read

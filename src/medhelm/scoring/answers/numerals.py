"""Write the numbers of a text in one way: figures 0 to 9, a decimal point, no blanks between groups of digits.

Models write "27,4", "27·4", "٢٧٫٤", "２７．４", "1 234.5", "2½", "3 1/2" and "twenty-seven".
"""

from __future__ import annotations

import re
import unicodedata

from medhelm.io.lazy_regex import lazy_regex

_BESIDE = 24  # characters of context before a word
_SIGNS = (
    {"`": "", "_": " ", "’": "'", "≅": "≈", "∼": "~", "⁄": "/", "∕": "/", "٫": ".", "٬": ","}
    | dict.fromkeys("\u202f\u2009\u2007", "\u00a0")  # no-break spaces between groups of digits
    | dict.fromkeys("\u2011\u2012−–﹣", "-")
)
_SIGN = lazy_regex(f"[{''.join(_SIGNS)}]")
_TEX_SIGNS = {"approx": "≈", "sim": "~", "times": "×", "cdot": "·", "div": "÷", "to": "→", "rightarrow": "→"}
_TEX_SIGN = lazy_regex(rf"\\({'|'.join(_TEX_SIGNS)})(?![a-z])")
_MARKUP = lazy_regex(
    r"(?<![\d)])\*\*|\*\*(?! ?[\d(])"  # bold, but not a power: 10**3
    r"|\\(?=[%#&_ ])|\\(?:[()\[\],;!]|displaystyle|quad|boxed|underline)\s?|\$(?! ?\d{4})|\{(?=,)|(?<=,)\}"
)
_DIGIT = lazy_regex(r"(?![0-9])\d")
_MIDDLE_POINT = lazy_regex(r"(?<=[0-9])·(?=[0-9])(?!10\s?[\^⁰¹²³⁴⁵⁶⁷⁸⁹⁻*])")
_VULGAR = lazy_regex(r"(?<![0-9/.,])(?:([0-9]{1,3})\s?)?([¼-¾⅐-⅞])")
_MIXED = lazy_regex(r"(?<![\w/.,^])([0-9]{1,3}) ([1-9])/([2-9]|1[0-6])(?![\w/.,]{0,20}[\w/])")
_GROUPED = lazy_regex(
    r"(?<![\w.,/'+*×÷^-])(?<![\d.,] )(?<!day )(?<!take )(?<!step )"
    r"([-+]?[1-9][0-9]{0,2})((?: [0-9]{3})+)(?![\d/'-]|[.,]\d+[.,]\d| \d| ?m?c?g (?:tab|cap|pill))",
    re.IGNORECASE,
)

_ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_WORDS = {word: n for n, word in enumerate(_ONES)} | {word: 10 * n for n, word in enumerate(_TENS, 2)}
_SMALL = "|".join(sorted(_WORDS, key=len, reverse=True))
_ANY = f"{_SMALL}|hundred|thousand"
_SPELLED = lazy_regex(
    rf"\b(?=[zotfsenh])(?P<whole>(?:(?:{_ANY})\b(?:\sand\s(?=(?:{_SMALL})\b)|[ -](?=(?:{_ANY})\b))?){{1,8}})"
    rf"(?:\s?point(?P<decimals>(?:\s(?:{'|'.join(_ONES[:10])})\b){{1,6}})|\s?(?P<half>and a half)\b)?",
    re.IGNORECASE,
)
_WORD = lazy_regex(r"[a-z]+", re.IGNORECASE)
_PRONOUN_BEFORE = lazy_regex(r"\b(?:no|any|some|every|each|this|that|the|which)\s\Z", re.IGNORECASE)
_NUMERAL_AFTER = lazy_regex(
    r"\W{0,4}(?:\Z|\n|[.,;!)]|(?:points?|criteri(?:a|on)|weeks?|days?|out of)\b"
    rf"|of (?:the |all )?(?:\d|(?:{_SMALL})\b))",
    re.IGNORECASE,
)


def plain_numbers(text: str) -> str:
    """Return `text` with numbers, minus signs and the TeX signs between them written in one way.

    >>> plain_numbers("٢٧٫٤ or 2½ or 1 234.5 or twenty-seven")
    "27.4 or 2.5 or 1'234.5 or 27"
    """
    text = _TEX_SIGN.sub(lambda sign: _TEX_SIGNS[sign[1]], text)
    text = _SIGN.sub(lambda sign: _SIGNS[sign[0]], _MARKUP.sub("", text))
    if not text.isascii():
        text = ascii_digits(text)
        text = _MIDDLE_POINT.sub(".", text)
        text = _VULGAR.sub(lambda number: f"{int(number[1] or 0) + unicodedata.numeric(number[2]):.10g}", text)
    text = _MIXED.sub(_mixed, in_figures(text))
    return _GROUPED.sub(lambda number: number[1] + number[2].replace(" ", "'"), text)


def ascii_digits(text: str) -> str:
    """Return `text` with the decimal digits of other scripts as 0 to 9."""
    return _DIGIT.sub(lambda digit: str(unicodedata.digit(digit[0])), text)


def in_figures(text: str) -> str:
    """Return `text` with spelled numbers in figures, but "one" not where it is a pronoun.

    >>> in_figures("one hundred and twelve; four point five; each one")
    '112; 4.5; each one'
    """

    def figures(match: re.Match[str]) -> str:
        words = [word.lower() for word in _WORD.findall(match["whole"])]
        if words == ["one"] and not match["decimals"] and not match["half"] and not _is_numeral(text, match):
            return match[0]
        whole = _number_in_words(words)
        if match["decimals"]:
            return f"{whole}.{''.join(str(_WORDS[word]) for word in match['decimals'].lower().split())}"
        return f"{whole}{'.5' if match['half'] else ''}"

    return _SPELLED.sub(figures, text)


def _is_numeral(text: str, match: re.Match[str]) -> bool:
    """Return True if "one" is a number, and not a pronoun."""
    if not _NUMERAL_AFTER.match(text, match.end("whole")):
        return False
    return not _PRONOUN_BEFORE.search(text, max(0, match.start() - _BESIDE), match.start())


def _number_in_words(words: list[str]) -> int:
    """Return the number that words spell: ["one", "hundred", "and", "twelve"] is 112."""
    total = part = 0
    for word in words:
        if word == "thousand":
            total, part = total + 1000 * (part or 1), 0
        elif word == "hundred":
            part = 100 * (part or 1)
        else:
            part += _WORDS.get(word, 0)
    return total + part


def _mixed(match: re.Match[str]) -> str:
    """Return a whole number and a fraction as one decimal number: 3 1/2 is 3.5."""
    whole, upper, lower = (int(group) for group in match.groups())
    return f"{whole + upper / lower:.10g}" if upper < lower else match[0]

"""Write numbers that are spelled out in figures."""

from __future__ import annotations

import re

from medhelm.io.lazy_regex import lazy_regex

_BESIDE = 24  # characters of context before a word
_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_WORDS = {word: n for n, word in enumerate(_ONES)} | {word: 10 * n for n, word in enumerate(_TENS, 2)}
_WORD = "|".join(sorted(_WORDS, key=len, reverse=True))
_SPELLED = lazy_regex(
    rf"\b(?P<whole>(?:(?:{_WORD}|hundred|thousand)\b(?:\sand\s(?=(?:{_WORD})\b)|[ -](?=(?:{_WORD}|hundred|thousand)\b))?){{1,8}})"
    rf"(?:\s?point(?P<decimals>(?:\s(?:{'|'.join(_ONES[:10])})\b){{1,6}})|\s?(?P<half>and a half)\b)?",
    re.IGNORECASE,
)
_PRONOUN = lazy_regex(r"\b(?:no|any|some|every|each|this|that|the|which)\s\Z", re.IGNORECASE)


def in_figures(text: str) -> str:
    """Return `text` with spelled numbers in figures: "twenty-seven" is 27. "one" is not, where it is a pronoun."""

    def figures(match: re.Match[str]) -> str:
        words = re.findall(r"[a-z]+", match["whole"].lower())
        if words == ["one"] and not match["decimals"] and not _is_numeral(text, match):
            return match[0]
        whole = _number_in_words(words)
        if match["decimals"]:
            return f"{whole}.{''.join(str(_WORDS[word]) for word in match['decimals'].lower().split())}"
        return f"{whole}{'.5' if match['half'] else ''}"

    return _SPELLED.sub(figures, text)


def _is_numeral(text: str, match: re.Match[str]) -> bool:
    """Return True if "one" is a number, and not a pronoun."""
    after = text[match.end("whole") :]
    alone = re.match(r"\W*(?:\Z|\n|[.,;!)]|(?:points?|criteri\w+|weeks?|days?|out of)\b)", after, re.IGNORECASE)
    return alone is not None and not _PRONOUN.search(text, max(0, match.start() - _BESIDE), match.start())


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

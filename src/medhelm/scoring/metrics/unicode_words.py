r"""Splits texts of any script into words, for metrics that compare words.

A word is a run of letters, combining marks and digits. In scripts without spaces between words each character is a word
of its own, with its marks: Han, Kana, Hangul, Bopomofo, Thai, Lao, Khmer and Myanmar. This is Unicode's segmentation
(UAX #29) without its rules for apostrophes and decimal points, at which ROUGE has always split. The standard library
has all properties it needs. The package `regex` has these rules too, but leaves Thai and Khmer in one piece.
"""

from __future__ import annotations

from functools import cache, lru_cache
from string import digits
from unicodedata import category, decomposition, digit, normalize

from medhelm.io.lazy_regex import lazy_regex

CHARACTER_SCRIPTS = (
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001b000-\U0001b16f"  # Kana
    "\u3100-\u312f\u31a0-\u31bf"  # Bopomofo
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
    "\u0e01-\u0e4f\u0e5a-\u0ecf\u0eda-\u0eff"  # Thai and Lao, without their digits
    "\u1780-\u17df\u17ea-\u17ff"  # Khmer
    "\u1000-\u103f\u104a-\u108f\u109a-\u109f\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f"  # Myanmar
)
"""Scripts without spaces between words, as ranges of a regular expression; the line without a comment is Han."""

LEAST_LATIN = 0.5
"""Minimum share of words with a letter a-z for a text to be mostly Latin."""

_ZERO_WIDTH_SPACE = "\u200b"

_WORDS = lazy_regex(rf"(?=\w)[{CHARACTER_SCRIPTS}][^\w\s]*|\w[^\s{CHARACTER_SCRIPTS}]*")
"""A word of a folded text, in which all that is neither \\w nor a space is a combining mark."""


def unicode_words(text: str) -> list[str]:
    """Return the words of a text, with one spelling for each: lower case, composed, digits 0 to 9.

    Superscripts and fractions are words of their own, so that 10\u2079 is not 109. Characters without a width are
    removed, and all other characters separate words.

    >>> unicode_words("Fie\u0300vre, 7.5 mg: 每次\uff17\u0665毫克")
    ['fièvre', '7', '5', 'mg', '每', '次', '75', '毫', '克']
    """
    folded = normalize("NFC", text).translate(_FOLDED)
    found: list[str] = _WORDS.findall(normalize("NFC", folded))
    return found


@lru_cache(maxsize=2048)
def is_mostly_latin(text: str) -> bool:
    """Return True if at least half of the words, numbers aside, have a letter a-z; also True without such words.

    Of other texts, a metric that knows only these letters sees numbers and units. Cached, because models share
    references.

    >>> is_mostly_latin("Fièvre 39 °C"), is_mostly_latin("每日75毫克"), is_mostly_latin("75")
    (True, False, True)
    """
    if text.isascii():
        return True
    known = [word for word in unicode_words(text) if not word.isdigit()]
    return sum(any(map(str.isascii, word.strip(digits))) for word in known) >= LEAST_LATIN * len(known)


class _Folded(dict[int, str]):
    """Code point -> its text within a word, or spaces where it separates words; filled as characters occur."""

    def __missing__(self, code: int) -> str:
        """Return the text of a character that has not occurred before."""
        character = chr(code)
        kind, tag = category(character), decomposition(character).partition(" ")[0]
        text = " "
        if kind == "Nd":
            text = str(digit(character))
        elif kind == "Me" or (kind == "Cf" and character != _ZERO_WIDTH_SPACE) or _selects_variant(character):
            text = ""
        elif kind[0] in "LMN":
            plain = normalize("NFKC", character).casefold()
            text = "".join(c if category(c)[0] in "LMN" else " " for c in plain)
            if (kind == "No" and tag != "<sub>") or tag == "<super>":
                text = f" {text} "
        self[code] = text
        return text


_FOLDED = _Folded()


def _selects_variant(character: str) -> bool:
    """Return True for a mark that only selects how the character before it is drawn, such as an emoji."""
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


@cache
def combining_marks() -> str:
    """Return all combining marks as characters of a set in a regular expression."""
    return "".join(character for character in map(chr, range(0x300, 0x20000)) if category(character).startswith("M"))

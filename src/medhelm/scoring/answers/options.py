"""Match the option named at one place of a completion.

This distinguishes a letter from a word ("A patient", "B cells", "C-reactive protein"), an option's text from the
beginning of a longer text, and one option from two ("A or B").
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from medhelm.io.lazy_regex import lazy_regex
from medhelm.scoring.answers.plain_text import strip_reasoning

GLUE = r"0-9A-Za-z\u00aa\u00b5\u00ba\u00c0-\u1fff"
"""Contents of a character class: characters that form one word with an adjacent letter."""

_WINDOW = 300  # characters of a line that are examined

_PLAIN_CHARACTERS = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | str.maketrans(
    {"İ": "I", "“": '"', "”": '"', "‘": "'", "’": "'", "。": ".", "、": ",", "`": "", "*": "", "$": ""}
    | dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff", "")
)
_BEGINS_ANSWER = lazy_regex(r"\\f?boxed(?=\s?\{)|<(?:final_?)?answer>", re.IGNORECASE)
_MARKUP = lazy_regex(
    r"__|\\(?:textbf|text|mathrm|mathbf|bf|rm|[()\[\],])\s?|</?(?:[a-z]|[A-Za-z_]{2,20}|\|[^<>|]{1,20}\|)/?>"
)
_MARK_BEFORE = r"[\s\"'(\[{<>#:=|→✅✔☑👉•·,;「『【«]|-+>|[-–](?=\s)"
_MARKS_BEFORE = lazy_regex(rf"(?:{_MARK_BEFORE}){{0,12}}")
_BEFORE_OPTION = lazy_regex(
    rf"(?:{_MARK_BEFORE}"
    r"|(?:the|an?(?= option)|option|choice|answer|letter|label|number|most likely|likely|probably|clearly|definitely"
    rf"|final|therefore|thus|hence|so|it is|it's)(?![{GLUE}])){{0,12}}",
    re.IGNORECASE,
)
_CALLED_OPTION = lazy_regex(r"(?:option|choice|letter)[\s(\[\"':]{0,3}\Z", re.IGNORECASE)
_SEVERAL = lazy_regex(rf"(?:both|either|neither|all|none)(?![{GLUE}])", re.IGNORECASE)
_ENDS_WORD = lazy_regex(rf"(?![{GLUE}])(?!['’-][{GLUE}])")
_NUMBER_BEFORE = lazy_regex(r"[\d.,/−-]\Z")
_NUMBER_AFTER = lazy_regex(r"[.,/:]\d|\s?%|[-–−]\d")
_GAP = lazy_regex(r"(?:[\s)\]}>\"'.,:;!|=→—]|-+>|[-–](?=\s|$))*")
_BLANKS = lazy_regex(r"\s*")
_DELIMITER = lazy_regex(r"[)\]}.:,;]{0,3}\s?")
_AND = lazy_regex(
    r"[ )\]}>\"'.]{0,6}(?:(?:[,;/&+|]|(?:and/or|and|or|as well as|plus)\b)[\s,]{0,2}){1,3}"
    r"(?:(?:option|choice|answer)s?\s)?[\s(\[{<\"']{0,4}",
    re.IGNORECASE,
)
_BESIDE = lazy_regex(r"[)\]}>\"'.]{0,3} [(\[{<\"']{0,2}")
_ENDS_LABEL = lazy_regex(r"[.):\]]|\s?$|\s[A-Z](?![a-z])", re.MULTILINE)
_LOWER_WORD = lazy_regex(r"\s[a-z]")
_BECAUSE = r"because|since|as|due|while|although|which|and not|but not|rather than|instead of|not"
_EXPLAINS_ARTICLE = lazy_regex(rf"(?:{_BECAUSE}|the|this|these|it|there)(?![{GLUE}])", re.IGNORECASE)
_EXPLAINS_LETTER = lazy_regex(
    rf"(?:{_BECAUSE}|the|this|these|that|it|there|based|given|according|per|in|for|with|but|over|explanation"
    r"|rationale)"
    rf"(?![{GLUE}])",
    re.IGNORECASE,
)
_EXPLAINS_TEXT = lazy_regex(rf"(?:{_BECAUSE}|based|given|according)(?![{GLUE}])", re.IGNORECASE)

IS_RIGHT = (
    r"\s(?:is|would be|must be|appears to be|seems to be|remains)(?: clearly| definitely| indeed| therefore| thus)?"
    r"(?: the)?(?: only| single)?(?: most (?:likely|appropriate|accurate|suitable)"
    r"|(?: my)?(?: final)? answer\b| (?:correct|right|best)(?=[^\w\s-]|$"
    r"| (?:answer|choice|option|response|one|match|fit|next|because|since|as|for|here|in)\b))"
)
"""Pattern of statements such as "is the correct answer"."""

_IS_RIGHT = lazy_regex(IS_RIGHT, re.IGNORECASE)


class OptionMatch(NamedTuple):
    """The option named at one place."""

    option: int | None
    """Index of the option; None if several are named, or the text beside it contradicts it."""
    whole: bool
    """True if the rest of the line holds nothing else."""


class PreparedOptions(NamedTuple):
    """Options, prepared for searching."""

    letters: dict[str, int]
    """Capital letter -> option; empty if options are named by their texts."""
    texts: tuple[tuple[str, int], ...]
    """Lower-case text -> option, the longest first."""
    own: tuple[str, ...]
    """Lower-case text of each option."""


def clean_text(completion: str) -> str:
    """Return the non-empty lines without markup, with single spaces and ASCII forms of wide characters.

    The lower-case form of the result has the same length.
    """
    text = strip_reasoning(completion).translate(_PLAIN_CHARACTERS)
    text = _MARKUP.sub("", _BEGINS_ANSWER.sub("\nanswer: ", text))
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))


@lru_cache(maxsize=64)
def prepare_options(labels: tuple[str, ...], texts: tuple[str, ...]) -> PreparedOptions:
    """Prepare options for searching in a cleaned completion. Of options with equal text, the first is found."""
    own = tuple(clean_text(text).replace("\n", " ").strip(" \"'").rstrip(". \"'").lower() for text in texts)
    lettered = all(len(label) == 1 and label.isascii() and label.isalpha() for label in labels)
    first = {text: index for index, text in reversed(list(enumerate(own))) if text}
    return PreparedOptions(
        letters={label.upper(): index for index, label in reversed(list(enumerate(labels)))} if lettered else {},
        texts=tuple(sorted(first.items(), key=lambda item: -len(item[0]))),
        own=own,
    )


def match_option(text: str, lower: str, at: int, options: PreparedOptions) -> OptionMatch | None:
    """Return the option named at position `at` of a cleaned text; None if there is none.

    Words and marks that can precede an option are skipped. `lower` is the text in lower case.
    """
    start = _end_of(_BEFORE_OPTION, text, at)
    letter = _letter_at(text, start, options)
    named = _text_at_one_of(lower, (start, _end_of(_MARKS_BEFORE, text, at), _end_of(_BLANKS, text, at)), options)
    if letter is not None and (named is None or named[1] <= start + 1):
        return _after_letter(text, lower, start, letter, options)
    if named:
        return _after_text(text, lower, *named, options)
    return OptionMatch(None, False) if _SEVERAL.match(text, start) else None


def _letter_at(text: str, at: int, options: PreparedOptions) -> int | None:
    """Return the option whose letter is a separate word at `at`."""
    option = options.letters.get(text[at : at + 1].upper())
    return option if option is not None and _ENDS_WORD.match(text, at + 1) else None


def _text_at(lower: str, at: int, options: PreparedOptions) -> tuple[int, int] | None:
    """Return the option whose text is at `at`, and its end."""
    for text, option in options.texts:
        if lower.startswith(text, at) and _stands_alone(lower, at, at + len(text)):
            return option, at + len(text)
    return None


def _text_at_one_of(lower: str, places: tuple[int, ...], options: PreparedOptions) -> tuple[int, int] | None:
    """Return the option whose text is at the first possible place: a text may begin like what was skipped."""
    for at in dict.fromkeys(places):
        named = _text_at(lower, at, options)
        if named:
            return named
    return None


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return the end of a match of `pattern` at `at`; `at` if there is none."""
    match = pattern.match(text, at)
    return match.end() if match else at


def _stands_alone(lower: str, start: int, end: int) -> bool:
    """Return True if lower[start:end] is not part of a longer word or number."""
    if not _ENDS_WORD.match(lower, end):
        return False
    if lower[start].isdigit() and start and _NUMBER_BEFORE.match(lower, start - 1, start):
        return False
    return not (lower[end - 1].isdigit() and _NUMBER_AFTER.match(lower, end))


def _after_text(text: str, lower: str, option: int, end: int, options: PreparedOptions) -> OptionMatch | None:
    """Continue after the text of an option."""
    stop = _line_end(text, end)
    gap = _gap_end(text, end, stop)
    if gap == stop:
        return OptionMatch(option, _is_line_end(text, stop))
    if _names_another(text, lower, end, option, options):
        return OptionMatch(None, False)
    marked = text[end:gap].strip() or text[gap] == "("
    if marked or _EXPLAINS_TEXT.match(text, gap) or _IS_RIGHT.match(text, end):
        return OptionMatch(option, False)
    return None


def _after_letter(text: str, lower: str, at: int, option: int, options: PreparedOptions) -> OptionMatch | None:
    """Continue after the letter at `at`."""
    stop = _line_end(text, at)
    gap = _gap_end(text, at + 1, stop)
    if gap == stop:
        return OptionMatch(option, _is_line_end(text, stop))
    places = (gap + (text[gap] in "([\"'"), gap, _end_of(_DELIMITER, text, at + 1))
    named = _text_at_one_of(lower, places, options)
    if named and not _differ(named[0], option, options):
        return _letter_and_own_text(text, lower, option, named[1], options)
    if _names_another(text, lower, at + 1, option, options):
        return OptionMatch(None, False)
    if named:
        stop = _line_end(text, named[1])
        return OptionMatch(None if _gap_end(text, named[1], stop) == stop else option, False)
    return OptionMatch(option, False) if _is_label(text, at, gap, stop) else None


def _letter_and_own_text(text: str, lower: str, option: int, end: int, options: PreparedOptions) -> OptionMatch:
    """Continue after a letter and the text of its option, which ends at `end`."""
    if _names_another(text, lower, end, option, options):
        return OptionMatch(None, False)
    stop = _line_end(text, end)
    return OptionMatch(option, _gap_end(text, end, stop) == stop and _is_line_end(text, stop))


def _is_label(text: str, at: int, gap: int, stop: int) -> bool:
    """Return True if the letter at `at` is a label, by the marks up to `gap` and the words up to `stop`."""
    letter, marks = text[at], text[at + 1 : gap]
    if any(mark in marks for mark in ")]}:=>|→"):
        return True
    if letter.islower():
        return _EXPLAINS_TEXT.match(text, gap) is not None and letter not in "ai"
    may_be_word = letter in "AI"
    explains = (_EXPLAINS_ARTICLE if may_be_word else _EXPLAINS_LETTER).match(text, gap) is not None
    if "." in marks:
        return explains or (not text[gap].islower() and marks != ".")
    if marks.strip():
        return not (letter == "I" and marks.strip() == ",")
    if text[gap] in "([":
        return not may_be_word or text[stop - 1] in ")]"
    return explains or _CALLED_OPTION.search(text, max(0, at - 12), at) is not None


def _line_end(text: str, at: int) -> int:
    """Return the end of the line, or of the part of it that is examined."""
    end = text.find("\n", at, at + _WINDOW)
    return end if end >= 0 else min(len(text), at + _WINDOW)


def _is_line_end(text: str, stop: int) -> bool:
    """Return True if `stop` is the end of a line, not only of the examined part."""
    return stop == len(text) or text[stop] == "\n"


def _gap_end(text: str, at: int, stop: int) -> int:
    """Return the end of marks and spaces after `at`, at most `stop`."""
    match = _GAP.match(text, at, stop)
    return match.end() if match else at


def _names_another(text: str, lower: str, end: int, option: int, options: PreparedOptions) -> bool:
    """Return True if a second option is named right after `end`, as in "A or B"."""
    joined = _AND.match(text, end)
    if joined and _other_at(text, lower, joined.end(), option, options, alone=False):
        return True
    beside = _BESIDE.match(text, end)
    return beside is not None and _other_at(text, lower, beside.end(), option, options, alone=True)


def _other_at(text: str, lower: str, at: int, option: int, options: PreparedOptions, *, alone: bool) -> bool:
    """Return True if an option other than `option` is named at `at`; `alone`: only as a label."""
    letter = _letter_at(text, at, options)
    if letter is not None and _differ(letter, option, options):
        if alone:
            return _ENDS_LABEL.match(text, at + 1) is not None
        if not (text[at] in "AaIi" and _LOWER_WORD.match(text, at + 1)):
            return True
    named = _text_at(lower, at, options)
    if named is None or not _differ(named[0], option, options):
        return False
    return not alone or _ENDS_LABEL.match(text, named[1]) is not None


def _differ(one: int, other: int, options: PreparedOptions) -> bool:
    """Return True if two options differ: options with the same text are one."""
    return one != other and (options.own[one] != options.own[other] or not options.own[one])

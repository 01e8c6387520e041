"""Normalize texts for comparison."""

from __future__ import annotations

import re
import string
import unicodedata

from medhelm.domain.reasoning import strip_reasoning as strip_reasoning  # every reader of answers needs it
from medhelm.io.lazy_regex import lazy_regex

_ARTICLES = lazy_regex(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_WRAPPING = "*_`\"'“”‘’„«»"
_MARK = lazy_regex(r"[^\w\s]|_")
_AGAIN = r"(?:next\s|new\s|another\s|follow-?up\s)"
_MATERIAL = r"(?:input|note|text)"
_ASKS = rf"(?:{_AGAIN}?(?:question|q|human|user|instructions?|context|(?:patient|clinical)\snote)|{_AGAIN}{_MATERIAL})"
_TASK = r"\n[ \t]*(?:#{1,6}\s|\*\*)?(?:%s)\s?\d{0,3}\**\s?"
_ASKED_AGAIN = lazy_regex(_TASK % rf"{_ASKS}|{_AGAIN}?problem" + r"(?:[:.]|\**\n)", re.IGNORECASE)
_NEXT_TASK = lazy_regex(_TASK % rf"{_ASKS}|{_MATERIAL}" + r"[:\n]", re.IGNORECASE)
"""The second pattern has no problems, which are listed: "Problem 2: diabetes. Code: E11.9"."""
_ITS_ANSWER = lazy_regex(
    r"^[^\w\n]{0,12}(?:answers?|outputs?|responses?|labels?|codes?|assistant)\s?\d{0,3}\**\s?(?::|$)",
    re.IGNORECASE | re.MULTILINE,
)
_PREFACE = lazy_regex(
    r"\W*(?:sure|ok(?:ay)?|certainly|of\scourse|here|let|to|first|step|i|we|the\suser)\b", re.IGNORECASE
)
_LONGEST_ANSWER = 200
"""Characters of a paragraph that is an answer without a word that says so."""
_MEANINGFUL = "<>≤≥+%±"


def normalize(text: str) -> str:
    """Return text in lower case with single spaces, without ASCII punctuation and the words a, an and the.

    The usual rule of question answering since SQuAD (Rajpurkar et al., 2016). It loses meaning: "3.5" becomes "35",
    "-6" becomes "6", and "hepatitis A" loses its letter. `normalize_keeping_meaning` does not.

    >>> normalize("The  patient's BMI.")
    'patients bmi'
    """
    bare = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def normalize_keeping_meaning(text: str) -> str:
    """Normalize case, punctuation and articles, but keep everything that has a meaning.

    Case is folded. Punctuation of any script becomes a space, except inside a number (1.5, 1,000), a minus sign before
    a number, and < > ≤ ≥ + % ±. "the" and "an" are removed. "a" is removed if another word follows and it is not a
    capital inside the text, so "hepatitis A" and "vitamin A deficiency" keep it. A text of nothing else is only
    case-folded.

    >>> normalize_keeping_meaning("The BMI is 22.5."), normalize_keeping_meaning("Hepatitis A")
    ('bmi is 22.5', 'hepatitis a')
    """
    words = _MARK.sub(_mark_or_space, text).split()
    last = len(words) - 1
    content = [word for n, word in enumerate(words) if not _is_article(word, first=n == 0, last=n == last)]
    return " ".join(content).casefold() or " ".join(text.casefold().split())


def before_next_question(text: str) -> str | None:
    """Return what precedes another question that the model asks itself; None if it asks none.

    What precedes need not hold an answer: a model may repeat its question first.

    >>> before_next_question("B\\nNext question: A man with a rash."), before_next_question("B\\nNext, C is wrong.")
    ('B', None)
    """
    following = _ASKED_AGAIN.search(text)
    return text[: following.start()] if following else None


def before_next_task(completion: str) -> str:
    """Return a completion without reasoning, and without another question and its answer that the model invents.

    >>> before_next_task("J45.909\\n\\nInput: A woman with a rash.\\nOutput: L30.9")
    'J45.909'
    """
    text = strip_reasoning(completion)
    following = _NEXT_TASK.search(text)
    if following is None or not _ITS_ANSWER.search(text, following.end()):
        return text
    before = text[: following.start()].strip()
    short = len(before) <= _LONGEST_ANSWER and "\n\n" not in before and not _PREFACE.match(before)
    answers = (short and before[-1:] not in ("", ":")) or _ITS_ANSWER.search(before)
    return before if answers else text


def strip_wrapping(text: str) -> str:
    """Remove surrounding white space, quotation marks and Markdown emphasis, and final periods.

    >>> strip_wrapping(' **"Warfarin."** ')
    'Warfarin'
    """
    start, end = 0, len(text)
    while start < end and (text[start].isspace() or text[start] in _WRAPPING):
        start += 1
    while start < end and (text[end - 1].isspace() or text[end - 1] in _WRAPPING or text[end - 1] == "."):
        end -= 1
    return text[start:end]


def _mark_or_space(mark: re.Match[str]) -> str:
    """Return a punctuation mark or symbol if it has a meaning, else a space."""
    char, position = mark[0], mark.start()
    if char in _MEANINGFUL or unicodedata.category(char)[0] not in "PS":
        return char
    before = mark.string[position - 1] if position else ""
    after = mark.string[position + 1 : position + 2]
    if char in ".," and before.isdigit() and after.isdigit():
        return char
    return "-" if char in "-−" and after.isdigit() and not before.isalnum() else " "


def _is_article(word: str, *, first: bool, last: bool) -> bool:
    """Return True if `word` is an article: a capital A inside a text, or a last word, is a name."""
    return not last and (word.lower() in ("the", "an") or word == "a" or (first and word == "A"))

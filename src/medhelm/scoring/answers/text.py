"""Read what a completion says, without the wrapping that models put around it.

Every reader of answers begins here, so that a wrapping accepted for one kind of answer is accepted for all.

`clean_text` removes reasoning, invisible characters, control tokens, marks of code blocks, emphasis, struck-out text,
TeX commands, quotation of lines, a name such as "Assistant:", and the mark of a first list item. It writes full-width
characters as ASCII, and each marked answer as a line "Answer: ...". `answer_text` returns the marked answer alone if
there is one.

An answer is marked by \boxed{...}, by a tag such as <answer>, or by the key of a JSON object.
"""

from __future__ import annotations

import json
import re
import string
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from medhelm.domain.completion import strip_reasoning as strip_reasoning  # every reader of answers needs it
from medhelm.io.plugins import lazy_regex

# --- answer text ------------------------------------------------------------------------------------------------------

_SPECIAL = {
    **dict.fromkeys("“”„‟«»『』「」", '"'),
    **dict.fromkeys("‘’‚‛", "'"),
    **dict.fromkeys("\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", "\n"),
    "\u3000": " ",
}
_TOKENS = lazy_regex(
    r"<\|[^<>|]{1,40}\|>|</?s>|</?(?:eos|bos|pad|unk|end_of_turn|start_of_turn)>|\[/?INST\]"
    r"|</?(?:(?-i:[bipu])|br|em|h[1-6]|li|ul|ol|div|pre|code|span|strong|html|body|mark|font|center|blockquote)\s?/?>",
    re.IGNORECASE,
)
_FENCE = lazy_regex(r"^[ \t>]*(?:```|~~~)[\w+#.-]*[ \t]*$\n?|```(?:json|text|txt|plaintext)?", re.MULTILINE)
_EMPHASIS = lazy_regex(r"(?<![\w*])(\*\*\*|\*\*|__)(?=[^\s*_])([^*_\n]{1,400}?)(?<=\S)\1(?![\w*])")
_STRUCK_OUT = lazy_regex(r"~~(?=[^\s~])[^~\n]{1,200}~~")
_TEX = lazy_regex(r"\\(?:text(?:bf|it|rm|sf)?|math(?:rm|bf|it|sf)?|bf|rm|bold|left|right|,|;|!)(?![a-z])\s?")
_TEX_MATH = lazy_regex(r"\\[()\[\]]|\$\$|\$(?=[^\s$\d][^$\n]{0,200}?(?<=\S)\$(?!\w))|(?<=[\w.})])\$(?!\w)")
_BEFORE_ANSWER = lazy_regex(
    r"(?:\s|>(?=\s*[^\s\d])|[-*•▪●‣–](?=[ \t]\S)|#{1,6}(?=\s)"
    r"|(?:assistant|ai|bot|model|chatgpt|gpt-\d\w*|claude|gemini|llama|doctor)(?:\s?:|(?=\s*\n)))+",
    re.IGNORECASE,
)
_ANNOUNCED = lazy_regex(
    r"(?:(?:(?:the|my)\s)?(?:(?:final|correct)\s)?(?:answer|response|output|result)|ans|A)\s?:\s", re.IGNORECASE
)
_QUOTED = lazy_regex(r"([\"'`]|\*\*|\*|_)(?P<inside>.*\S)\1\.?", re.DOTALL)
_QUOTED_LINE = lazy_regex(r"^> ?(?=\s*[^\s\d])", re.MULTILINE)
_BOX = lazy_regex(r"\\f?(?:boxed|box)\s?\{")
_TAG = lazy_regex(
    r"<(?P<tag>(?:final[ _-]?|correct[ _-]?|predicted[ _-]?)?(?:answer|ans|final|choice|option|label|prediction|verdict"
    r"|judge?ment|solution|conclusion|result|response|output))>",
    re.IGNORECASE,
)
_OBJECT = lazy_regex(r"\{\s*[\"']")
_KEYS = (
    *("finalanswer", "answer", "ans", "correctanswer", "predictedanswer", "youranswer", "myanswer", "answerchoice"),
    *("answerletter", "answeridx", "answerindex", "correctoption", "correctchoice", "selectedoption", "selectedchoice"),
    *("selectedanswer", "choice", "option", "selection", "letter", "label", "prediction", "verdict", "judgment"),
    *("judgement", "decision", "classification", "response", "result", "output", "value", "score", "conclusion"),
)
_NOT_IN_KEY = lazy_regex(r"[\W_]+")
_LOOSE_FIELD = lazy_regex(
    r"[\"'](?P<key>[A-Za-z][\w -]{0,40})[\"']\s?:\s{0,4}"
    r"(?:\"(?P<double>[^\"\n]{0,2000})\"?|'(?P<single>[^'\n]{0,2000})'?|(?P<bare>[^\s,}\"'\[{][^,}\n]{0,200}))"
)
_CONFIDENCE = lazy_regex(
    r"\n[^\w\n]{0,8}(?:my |overall )?(?:confid[ae]nce|certainty)(?: level| score| rating)?[*_]*\s?[:=][^\n]{1,60}\s*\Z",
    re.IGNORECASE,
)
"""A last line that states a confidence, which is no part of the answer."""
_TRIES = 8  # objects, boxes and tags that are examined, from the end
_LONGEST_MARK = 20_000  # characters


class _Mark(NamedTuple):
    """A marked answer."""

    start: int
    end: int
    content: str


def clean_text(completion: str) -> str:
    """Return a completion without reasoning and wrapping, each marked answer as a line "Answer: ...".

    Line breaks, letter case, digits, punctuation and no-break spaces inside the text are kept.

    >>> clean_text("<think>A?</think>**Assistant:** It is\\n\\\\boxed{B}")
    'It is\\n\\nAnswer: B'
    """
    text = _unwrap(completion)
    for mark in reversed(list(_marks(text))):
        text = f"{text[: mark.start]}\nAnswer: {mark.content}\n{text[mark.end :]}"
    return _strip_start(text)


def answer_text(completion: str) -> str:
    """Return the last marked answer of a completion; the whole text, cleaned, if it marks none.

    A first "Answer:" and surrounding quotation marks are removed. A JSON value is its text: true, 27.4, and "a; b" for
    a list of texts. A truncated object, or one with single quotes, is read too.

    >>> answer_text('```json\\n{"reason": "12 > 10", "answer": 12}\\n```'), answer_text("A: <answer>`12`</answer>")
    ('12', '12')
    """
    text = _unwrap(completion)
    marks = list(_marks(text))
    if marks:
        text = marks[-1].content
    text = _strip_start(text)
    announced = _ANNOUNCED.match(text)
    text = _strip_start(text[announced.end() :]) if announced else text
    quoted = _QUOTED.fullmatch(text)
    return quoted["inside"].strip() if quoted and quoted[1] not in quoted["inside"] else text


def plain_characters(text: str) -> str:
    """Return a text without invisible characters, with full-width characters as ASCII and line feeds at line ends."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.isascii() and text.isprintable() else text.translate(_characters())


@cache
def _characters() -> dict[int, str]:
    """Return what replaces each character: none for invisible ones, ASCII for full-width ones."""
    table = {ord(char): replacement for char, replacement in _SPECIAL.items()}
    table |= {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    for code in (*range(0x20), *range(0x7F, 0x10000), *range(0xE0000, 0xE0080)):
        if code not in table and chr(code) not in "\t\n" and unicodedata.category(chr(code)) in ("Cf", "Cc"):
            table[code] = ""
    table |= dict.fromkeys((*range(0xFE00, 0xFE10), 0x034F, 0x115F, 0x3164), "")
    return table


def _unwrap(completion: str) -> str:
    """Remove reasoning, invisible characters, control tokens, marks of code blocks, emphasis and TeX commands."""
    text = strip_reasoning(completion.replace("\r\n", "\n").replace("\r", "\n"))
    if not text.isascii() or not text.isprintable():
        text = text.translate(_characters())
    if "<" in text or "[" in text:
        text = _TOKENS.sub("", text)
    if "```" in text or "~~~" in text:
        text = _FENCE.sub("", text)
    if "~~" in text:
        text = _STRUCK_OUT.sub("", text)
    if "**" in text or "__" in text:
        text = _EMPHASIS.sub(r"\2", text)
    if "\\" in text or "$" in text:
        text = _TEX_MATH.sub("", _TEX.sub("", text))
    if ">" in text:
        text = _QUOTED_LINE.sub("", text)
    return text


def without_confidence(text: str) -> str:
    """Return a text without a last line that states a confidence.

    >>> without_confidence("Pneumonia\\nConfidence: 85%")
    'Pneumonia'
    """
    ending = text[-100:].lower()
    end = _CONFIDENCE.search(text) if "confid" in ending or "certainty" in ending else None
    return text[: end.start()].rstrip() if end and text[: end.start()].strip() else text


def _strip_start(text: str) -> str:
    """Remove what precedes an answer without being part of it, and surrounding white space."""
    match = _BEFORE_ANSWER.match(text)
    return text[match.end() if match else 0 :].strip()


def _marks(text: str) -> Iterator[_Mark]:
    """Yield the marked answers from left to right; they do not overlap."""
    end = 0
    for mark in sorted([*_boxes(text), *_tagged(text), *_fields(text)]):
        if mark.start >= end:
            inner = sorted([*_boxes(mark.content), *_fields(mark.content)])  # a box in a tag, a box in JSON
            yield mark._replace(content=_strip_start(inner[-1].content if inner else mark.content))
            end = mark.end


def _boxes(text: str) -> Iterator[_Mark]:
    """Yield the contents of the last boxes; boxes in one line are one answer, with the words between them."""
    if "\\" not in text:
        return
    boxes = []
    for match in list(_BOX.finditer(text))[-_TRIES:]:
        end = _closing_brace(text, match.end())
        boxes.append(_Mark(match.start(), min(end + 1, len(text)), _without_braces(text[match.end() : end])))
    for number, box in enumerate(boxes):
        if number and boxes[number - 1].end <= box.start and "\n" not in text[boxes[number - 1].end : box.start]:
            continue
        content, end = box.content, box.end
        for other in boxes[number + 1 :]:
            if "\n" in text[end : other.start] or other.start < end:
                break
            content, end = f"{content}{text[end : other.start]}{other.content}", other.end
        yield _Mark(box.start, end, content)


def _without_braces(content: str) -> str:
    """Remove the braces that a removed TeX command leaves around its argument."""
    for _ in range(4):
        content = content.strip()
        if content[:1] != "{" or content[-1:] != "}":
            break
        content = content[1:-1]
    return content


def _closing_brace(text: str, start: int) -> int:
    """Return the position of the brace that closes the one before `start`, or the end of what is examined."""
    depth, stop = 1, min(len(text), start + _LONGEST_MARK)
    for at in range(start, stop):
        depth += (text[at] == "{") - (text[at] == "}")
        if not depth:
            return at
    return stop


def _tagged(text: str) -> Iterator[_Mark]:
    """Yield the contents of the last tags; a tag that is not closed holds the rest of the text."""
    if "<" not in text:
        return
    for match in list(_TAG.finditer(text))[-_TRIES:]:
        closing = re.compile(rf"</?{re.escape(match['tag'])}>", re.IGNORECASE).search(text, match.end())
        end = closing.start() if closing else len(text)
        yield _Mark(match.start(), closing.end() if closing else end, text[match.end() : end])


def _fields(text: str) -> Iterator[_Mark]:
    """Yield the answers of the last JSON objects."""
    if "{" not in text:
        return
    decoder = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str, object_pairs_hook=dict)
    end = 0
    for match in list(_OBJECT.finditer(text))[-_TRIES:]:
        if match.start() < end:
            continue
        try:
            document, length = decoder.raw_decode(text[match.start() : match.start() + _LONGEST_MARK])
            end = match.start() + length
            content = _answer_of(document)
        except (ValueError, RecursionError):
            closing = text.find("}", match.end(), match.start() + _LONGEST_MARK)
            end = closing + 1 if closing >= 0 else len(text)
            content = _loose_answer(text[match.start() : min(end, match.start() + _LONGEST_MARK)])
        if content is not None:
            yield _Mark(match.start(), end, content)


def _answer_of(document: Any) -> str | None:
    """Return the text under the key that holds the answer; None if no key does so obviously."""
    if not isinstance(document, dict):
        return None
    fields = {_NOT_IN_KEY.sub("", key).lower(): value for key, value in document.items()}
    key = next((key for key in _KEYS if key in fields), None)
    if key is None and len(fields) == 1 and len(next(iter(fields))) > 1:
        key = next(iter(fields))
    return None if key is None else _as_text(fields[key])


def _as_text(value: Any) -> str | None:
    """Return a JSON value as text; None for an object without an obvious answer."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return {None: "", True: "true", False: "false"}[value]
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return "; ".join(value)
    return _answer_of(value)


def _loose_answer(text: str) -> str | None:
    """Return the answer of an object that is nearly JSON: with single quotes, a trailing comma, or truncated."""
    fields = {}
    for match in _LOOSE_FIELD.finditer(text):
        value = next(group for group in (match["double"], match["single"], match["bare"]) if group is not None)
        fields[match["key"]] = {"null": None, "None": None, "True": True, "False": False}.get(value.strip(), value)
    return _answer_of(fields)


# --- plain text -------------------------------------------------------------------------------------------------------
# Normalize texts for comparison.

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
    """Return a completion without reasoning, a stated confidence, and another question and answer that it invents.

    >>> before_next_task("J45.909\\n\\nInput: A woman with a rash.\\nOutput: L30.9")
    'J45.909'
    """
    text = without_confidence(strip_reasoning(completion))
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


_WORD = lazy_regex(r"[^\W\d_]{2,}")

_SENTENCE = 5
"""Fewest words of a line that is taken for a part of a sentence; a shorter one may be a heading."""

_CONTINUES = lazy_regex(
    r"\d(?!\d*[.)]\s)|(?:jan|feb|mar|apr|may|june?|july?|aug|sep|oct|nov|dec)[a-z]{0,6}\.? \d", re.IGNORECASE
)
"""A number that is not the mark of an item in a list, or a date."""


def unwrapped(text: str) -> str:
    """Join a line that begins with a number or a date to the unfinished sentence on the line before.

    >>> unwrapped("It is 0.5, as she was unwell for\\n3 days.")
    'It is 0.5, as she was unwell for 3 days.'
    """
    lines = text.split("\n")
    parts = lines[:1]
    for before, line in pairwise(lines):
        end = before.rstrip()[-1:]
        is_unfinished = (end.isalpha() or end in ",:;=()[]<>≤≥~±+-–−/") and len(_WORD.findall(before)) >= _SENTENCE
        parts += [" " if is_unfinished and _CONTINUES.match(line) else "\n", line]
    return "".join(parts)


def final_answer(completion: str, mark: str) -> str | None:
    """Return what follows the last line that begins with a mark such as `Answer:`; None if no line does.

    Emphasis, headings and words such as "final" around a mark that ends with a colon do not matter. Reasoning between
    tags is ignored. A mark without an answer is ignored if another one has an answer.

    >>> final_answer("The BMI is 27.4, so she is overweight.\\n**Final answer: B**", "Answer:")
    'B'
    """
    text = strip_reasoning(completion)
    marks = [match.span() for match in _mark_pattern(mark).finditer(text)]
    if not marks:
        return None
    starts = [*(start for start, _ in marks[1:]), len(text)]
    parts = [text[end:start].strip() for (_, end), start in zip(marks, starts, strict=True)]
    answer = next((part for part in reversed(parts) if part.strip("*_#")), "")
    is_line = "\n" not in answer
    return answer.strip("*_ ") if is_line and (answer.count("**") % 2 or answer.count("__") % 2) else answer


@cache
def _mark_pattern(mark: str) -> re.Pattern[str]:
    """Return the pattern of a mark at the beginning of a line, with what models put around it."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z ]*:", mark):
        return re.compile(rf"^[ \t>]*{re.escape(mark)}[ \t]*", re.MULTILINE)
    words = r"\s+".join(map(re.escape, mark[:-1].split()))
    around = r"[ \t>#*_-]*(?:(?:so|thus|therefore|hence),?[ \t]+)?(?:(?:the|my)[ \t]+)?(?:(?:final|correct)[ \t]+)?"
    return re.compile(rf"^{around}{words}[ \t]*(?:[*_]*[ \t]*:[*_]*[ \t]*|[*_:]*[ \t]*$)", re.MULTILINE | re.IGNORECASE)

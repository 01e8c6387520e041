"""Choose the value that a text states as its answer, among all the values in it.

The readers of numbers, dates and gestational ages find the values. `stated` chooses one by its place, in this
order:

1. the value after the last "answer", "final ..." or "result";
2. a last line that is a value and nothing else;
3. a first line or sentence that is a value and nothing else, unless the conclusion differs;
4. the value after the name of the quantity, if the reader knows it and the conclusion does not differ;
5. the conclusion, after the last "therefore", "total" or the like;
6. the result of the last calculation;
7. the value that all sentences agree on.

A sentence with several values states the one directly after its last verb, colon or equals sign. Values in parentheses
count only where the sentence has no other. Values labeled as an input or a normal limit count only if the text has no
other. Otherwise nothing is stated: a missing answer is better than a wrong one.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from medhelm.io.plugins import lazy_regex

_T = TypeVar("_T")

_HEAD, _TAIL = 2_000, 16_000  # characters of a long text that are read
_NEAR = 60  # characters between two values of which one replaces the other
_BEFORE = 24  # characters before a value that may deny it
_TRIES = 20  # announcements that are examined, from the end

ASIDE = "\x00"
"""Replaces the characters of an aside; no completion holds it, since control characters are removed."""

_ASIDE = lazy_regex(
    r"\([^()\n]{0,500}\)|\[[^\[\]\n]{0,500}\]|^\W{0,4}(?:step|part) \d{1,2}\s?[:.)]", re.IGNORECASE | re.MULTILINE
)
_SENTENCE_END = lazy_regex(
    r"\n+|[.!?;](?<!\.[a-z].)(?<!approx.)(?<!\bvs.)(?<!\bca.)(?<!\bno.)(?<!\best.)\s+", re.IGNORECASE
)

_VERBS = (
    r"is|are|was|were|be|equals?|equal to|gives?|gave|yields?|yielding|gets?|makes?|becomes?|but|then"
    r"|(?:comes? (?:out )?|rounds? |rounded (?:up |down |off )?|leads? )to|(?:comes? (?:out )?|arrives? )at"
    r"|results? in|falls on|occurred on"
)
_LINK = lazy_regex(rf"\b(?:{_VERBS})(?![\w-])|:(?!\d)|[=≈≃→⇒]|[-=]>|\|", re.IGNORECASE)
_OF = lazy_regex(r"\bof\b", re.IGNORECASE)
_FILLERS = (
    r"approximately|approx\.?|about|around|roughly|nearly|circa|ca\.|exactly|only|just|also|now|therefore|thus|then"
    r"|an?|the|equal|equivalent|to|on|at|be|is|as|estimated|calculated"
)
_FILLER = lazy_regex(rf"(?:[\s\x00\"'(\[~≈#*_|{{>$]|\b(?:{_FILLERS})\b)*\Z", re.IGNORECASE)
"""Words and marks that may separate a link from its value."""

_ANSWER = lazy_regex(
    r"(?<![a-z])(?:answers?|respuesta|réponse|antwort|resposta|risposta"
    r"|final (?:answer|result|value|score|total)|^\W{0,6}final"
    r"|(?:(?<=\bthe )|^\W{0,6}|[:.;→]\s?)(?:results?|outputs?)(?=\s?(?:is\b|was\b|[:=≈→*\n])))(?![a-z])",
    re.IGNORECASE | re.MULTILINE,
)
_AFTER_ANSWER = lazy_regex(
    r"[^\d\n.!?;:=≈]{0,80}?(?:(?<![a-z])(?:is|are|was|equals|would be|should be)(?![a-z])|[:=≈~→]|\n)|\s?of",
    re.IGNORECASE,
)
_TOTAL = (
    r"(?:total|sum)(?= ?(?:scores?\b|points?\b|is\b|at\b|[:=|*→]|\d|of \d+ points?\b|\Z|[\w-]{1,14}(?: score)? ?[:=]))"
)
_CONCLUSION = lazy_regex(
    r"(?<![a-z])(?:therefore|thus|hence|consequently|so,?|in conclusion|conclusion|in summary|overall|in total"
    rf"|altogether|the final(?= \w)|{_TOTAL})(?![a-z])|(?:^|[.!?;]\s)\W{{0,4}}(?:the )?score(?= is|:| =)",
    re.IGNORECASE | re.MULTILINE,
)
_BECAUSE = lazy_regex(
    r"(?<!\bbut)(?<!\band),?\s(?:because|since|given that|as the|whereas|while|where|due to|based on|assuming)\b",
    re.IGNORECASE,
)
_OPERATOR = lazy_regex(
    r"[×*÷√]|[\d)] ?\^|\+ ?[\d(]|\d\s?[-−–/]\s?\(?\d|\)\s?[-−–/]|[-−–/]\s?\(|\s/\s[-\d]|\\frac|[=≈].*[=≈]|\bplus\b"
)
_STEP = lazy_regex(r"\b(?:current|initial|starting|running|baseline|previous)\s\Z", re.IGNORECASE)
_EQUALS = lazy_regex(r"[=≈→]|[-=]>|\bgives?\b")
_DURATION = lazy_regex(
    r"(?:[+–-]|\b(?:plus|minus|add(?:ing)?|subtract(?:ing)?|adjust(?:ing|ed)?)\b)[^.;]{0,16}?"
    r"\d ?-?(?:days?|months?|years?)\b",
    re.IGNORECASE,
)
_NOT = lazy_regex(r"\b(?:not|n't|rather than|instead of)\s(?:be |a |an |the |on |about )?\Z", re.IGNORECASE)
_UNIT = r"[ %\w²³/^\x00]"
_ALTERNATIVE = lazy_regex(
    rf"{_UNIT}{{0,24}}?(?:, ?| )(?:or|to|through|until|and/or|vs\.?|versus|maybe|perhaps|possibly|[-–—/|]) (?:the )?",
    re.IGNORECASE,
)
_BETWEEN = lazy_regex(r"\bbetween\s(?:the |about )?\Z", re.IGNORECASE)
_PURPOSE = lazy_regex(r"[\sA-Za-z%²³/^°µ]{0,16}?\s(for|by|using|with|per|in|on|from) ")
_RETRACTION = lazy_regex(
    r"\b(?:non?,|nein,|perdón\b|pardon\b|wait\b|actually\b|correction\b|oops\b|make that\b)|~~", re.IGNORECASE
)
_REFUSAL = lazy_regex(
    r"\b(?:cannot|can't|can not|couldn't|could not|unable|not able|not possible|impossible|not enough|insufficient)\b"
    r"(?!.{0,200}\b(?:but|however)\b.{0,80}\d)",
    re.IGNORECASE,
)
_ITEM = lazy_regex(r"\s*(?:[-*•]|\d{1,2}[.)])\s")
_COMPONENT = lazy_regex(
    rf"{_UNIT}{{0,16}}, (?!(?:so|therefore|thus|hence|total|(?:and )?the)\b)[^,=:×*/]{{1,30}}[:=]\s?[-+]?\s?",
    re.IGNORECASE,
)
_EXPLANATION = lazy_regex(
    r"[ %\w²³/^°µ.·-]{0,24}?"
    r"(?:[\x00,;:(|\n–—]|\s-|\s(?:for|with|using|based|from|as|by|given|on|because|since|i\.e)\b)",
    re.IGNORECASE,
)
_VERB = lazy_regex(r"\b(?:is|are|was|were|equals?|gives?|yields?)\b|=", re.IGNORECASE)
_LIST = lazy_regex(r"\s+|\s?[\w%²³/^°µ]{0,16}\s?(?:,|and|;|\+)\s*(?:and\s)?")
_CUT_OFF = lazy_regex(r"[=≈×÷]\s*\Z")
"""The end of a calculation without its result, which makes what precedes it no answer."""
_BESIDE = lazy_regex(r"[\s\"'()\[\]{}*_`#>|.,:~≈=→–—-]*")


class Value(NamedTuple, Generic[_T]):
    """A value and its place in a text."""

    value: _T
    start: int
    end: int
    minor: bool = False
    """True for an input or a normal limit, which is no answer if the text holds another value."""


def stated(
    text: str, values: Sequence[Value[_T]], *, unit: re.Pattern[str], quantity: re.Pattern[str] | None = None
) -> _T | None:
    """Return the value that `text` states; None if it states none, or several.

    Parameters
    ----------
    text
        A completion without its wrapping.
    values
        The values in `text`, from left to right.
    unit
        Matches what may follow a value that is alone in a line, up to the end of the line.
    quantity
        Matches the names of the quantity that is asked for.
    """
    if not values:
        return None
    main = without_asides(text)
    values = _without_alternatives(text, main, values)
    major = [value for value in values if not value.minor]
    return _Statements(text, main, major or values, unit).choose(quantity)


def _without_alternatives(text: str, main: str, values: Sequence[Value[_T]]) -> list[Value[_T]]:
    """Remove values that the text denies, and those between which it leaves the choice.

    Examples of a choice are "3 or 4", "5 to 7", "52 by MDRD and 58 by CKD-EPI" and "2 for age, 1 for sex".
    """
    removed = {n for n, value in enumerate(values) if _NOT.search(text, max(0, value.start - _BEFORE), value.start)}
    for n in range(len(values) - 1, 0, -1):
        one, other = values[n - 1], values[n]
        between = main[one.end : other.start]
        if one.value == other.value or len(between) > _NEAR:
            continue
        if _RETRACTION.search(between):
            removed.add(n - 1)
            continue
        choice: object = _ALTERNATIVE.fullmatch(between) or (n in removed and between.strip() == ",")
        if not choice and " and " in between:
            choice = _BETWEEN.search(text, max(0, one.start - _BEFORE), one.start)
        if not choice:
            purposes = [_PURPOSE.match(text, value.end) for value in (one, other)]
            choice = all(purposes) and purposes[0][1] == purposes[1][1]  # type: ignore[index]
        if choice:
            removed |= {n - 1, n}
    return [value for n, value in enumerate(values) if n not in removed]


class _Said(NamedTuple, Generic[_T]):
    """A sentence, and the value that it states."""

    value: _T
    start: int
    end: int


class _Statements(Generic[_T]):
    """The sentences of a text, with the value that each states."""

    def __init__(self, text: str, main: str, values: Sequence[Value[_T]], unit: re.Pattern[str]) -> None:
        self.text, self.main, self.values, self.unit = text, main, values, unit
        self.starts = [value.start for value in values]
        self.sentences = [(start, end) for start, end in _spans(main) if self._inside(start, end)]

    def choose(self, quantity: re.Pattern[str] | None) -> _T | None:
        """Return the value that the text states."""
        answer = self._answer()
        if answer is not None or not self.sentences or _CUT_OFF.search(self.text):
            return answer
        refused = _REFUSAL.search(self.text) is not None
        if all(value.minor for value in self.values):
            return self._only_input() if not refused else None
        first, last = self._alone_at_start(), self._alone_at_end()
        if last is not None:
            return last if first is None or first == last else None
        said = [_Said(value, *sentence) for sentence in self.sentences if (value := self._says(*sentence)) is not None]
        said = [one for one in said if self._is_linked(one)] or said
        conclusion = self._conclusion(said)
        if first is None and quantity is not None:
            first = self._named(quantity)
        if first is not None:
            return first if conclusion is None or conclusion == first else None
        return self._by_sentences(said, refused) if conclusion is None else conclusion

    def _only_input(self) -> _T | None:
        """Return the value of a text that holds inputs only; the points of components in parentheses are none."""
        if len(self.values) > 1 and not self._outside_asides(self.values):
            return None
        return self.values[0].value if len({value.value for value in self.values}) == 1 else None

    def _alone_at_start(self) -> _T | None:
        """Return the value that is alone in the first line or sentence."""
        start, end = self._line(self.values[0].start)
        end = min(end, self._sentence_end(self.values[0].end - 1))
        return self._alone(start, end) if not start and self.text[end : end + 1] != ";" else None

    def _alone_at_end(self) -> _T | None:
        """Return the value that is alone in the last line."""
        line = self._line(self.values[-1].start)
        return self._alone(*line) if line[1] == len(self.text) else None

    def _named(self, quantity: re.Pattern[str]) -> _T | None:
        """Return the value after the name of the quantity; None if several are given and the last is not the result."""
        said = []
        for match in list(quantity.finditer(self.text))[-_TRIES:]:
            start, end = self._region(match.end())
            is_step = _STEP.search(self.text, max(0, match.start() - _BEFORE), match.start())
            value = self._says(start, end) if self._next(start) - start <= _NEAR and not is_step else None
            if value is not None:
                said.append(_Said(value, start, end))
        if not said:
            return None
        final = said[-1]
        is_result = final.end == len(self.text) or self._is_computed(final)
        return final.value if is_result or all(one.value == final.value for one in said) else None

    def _conclusion(self, said: Sequence[_Said[_T]]) -> _T | None:
        """Return the value of the last sentence with "therefore" or the like, unless another value follows."""
        for match in reversed(list(_CONCLUSION.finditer(self.main))[-_TRIES:]):
            start, end = match.end(), self._sentence_end(match.end())
            value = self._says(start, end)
            if value is not None and self._is_linked(_Said(value, start, end)):
                later = [one for one in said if one.start > end]
                details = [one for one in later if self._is_item(one)]
                if len(details) > 1:
                    later = [one for one in later if one not in details]
                return value if all(one.value == value for one in later) else None
        return None

    def _by_sentences(self, said: Sequence[_Said[_T]], refused: bool) -> _T | None:
        """Return the value of all sentences, or the result of the last calculation."""
        details = [one for one in said if self._is_item(one) and not self._is_computed(one)]
        if 1 < len(details) < len(said):
            said = [one for one in said if one not in details]
        if not said or self._says(*self.sentences[-1]) is None:
            return None
        first, final = said[0], said[-1]
        computed = [one for one in said if self._is_computed(one)]
        if all(one.value == first.value for one in said):
            return None if refused and not computed else final.value
        if not computed or computed[-1].value != final.value:
            return None
        # A text that begins with a value and ends with another may explain the first one.
        is_answer = first.start == 0 and not self._is_computed(first) and not self._is_operand(first)
        return None if is_answer and first.value != final.value else final.value

    def _is_item(self, said: _Said[_T]) -> bool:
        """Return True if a sentence is an item of a list."""
        return _ITEM.match(self.text, *self._line(said.start)) is not None

    def _is_operand(self, said: _Said[_T]) -> bool:
        """Return True if a calculation after `said` uses its value."""
        own = self._own(said)
        number = re.escape(self.text[own.start : own.end])
        use = re.compile(rf"[-+×*/√^(÷=] ?{number}(?!\d|\.\d)|(?<![\d.]){number}(?!\d|\.\d)[ \w/]{{0,40}}[-+×*/÷^]")
        return use.search(self.text, own.end) is not None

    def _answer(self) -> _T | None:
        """Return the value after the last "answer" or the like, in its sentence or in the next one."""
        for match in reversed(list(_ANSWER.finditer(self.text))[-_TRIES:]):
            start = match.end()
            link = _AFTER_ANSWER.match(self.text, start)
            if link is None and self._skip(start) != self._next(start):
                continue
            start = link.end() if link else start
            value = self._says(*self._region(start))
            if value is not None:
                return value
        return None

    def _region(self, start: int) -> tuple[int, int]:
        """Return the rest of the sentence at `start`, with the next line if the rest holds no word."""
        end = self._sentence_end(start)
        following = self._skip(start)
        is_heading = following > end and "\n" in self.text[start:following]
        return start, self._sentence_end(following) if is_heading else end

    def _skip(self, start: int) -> int:
        """Return where the next word or figure begins."""
        marks = _BESIDE.match(self.text, start)
        return marks.end() if marks else start

    def _says(self, start: int, end: int) -> _T | None:
        """Return the value that text[start:end] states."""
        inside = self._inside(start, end)
        values = self._outside_asides(inside) or inside
        if not values:
            return None
        if all(value.value == values[0].value for value in values):
            return values[0].value
        linked = self._after_links(_LINK, values, start, end)
        reason = _BECAUSE.search(self.main, linked[0].end, end) if linked else None
        if reason:
            linked = [value for value in linked if value.start < reason.start()]
        if linked:
            return None if self._is_list(linked) else linked[-1].value
        linked = self._after_links(_OF, values, start, end)
        if linked:
            return linked[0].value if len({value.value for value in linked}) == 1 else None
        return self._leading(values, start)

    def _after_links(
        self, pattern: re.Pattern[str], values: Sequence[Value[_T]], start: int, end: int
    ) -> list[Value[_T]]:
        """Return the values that directly follow a link."""
        linked = []
        ends = [match.end() for match in pattern.finditer(self.main, start, end)]
        for value in values:
            before = bisect_right(ends, value.start)
            if before and _FILLER.match(self.main, ends[before - 1], value.start):
                linked.append(value)
        return linked

    def _is_list(self, linked: Sequence[Value[_T]]) -> bool:
        """Return True if the last two values are components in a list: "age = 1, sex = 2"."""
        return len(linked) > 1 and _COMPONENT.fullmatch(self.main, linked[-2].end, linked[-1].start) is not None

    def _leading(self, values: Sequence[Value[_T]], start: int) -> _T | None:
        """Return the first value if the text begins with it, and goes on with words that explain it."""
        first, second = values[0], values[1]
        if not _FILLER.match(self.main, start, first.start) or _LIST.fullmatch(self.main, first.end, second.start):
            return None
        is_explained = _EXPLANATION.match(self.main, first.end) and not _VERB.search(self.main, first.end, second.start)
        return first.value if is_explained else None

    def _own(self, said: _Said[_T]) -> Value[_T]:
        """Return the value in the text that a sentence states."""
        return next(value for value in self._inside(said.start, said.end) if value.value == said.value)

    def _is_linked(self, said: _Said[_T]) -> bool:
        """Return True if a link leads to the value of a sentence, or the sentence begins with it."""
        own = self._own(said)
        link = _LINK.search(self.main, said.start, own.start)
        return link is not None or _FILLER.match(self.main, said.start, own.start) is not None

    def _is_computed(self, said: _Said[_T]) -> bool:
        """Return True if the value of a sentence is the result of a calculation that is written out."""
        span = said.start, said.end
        if _DURATION.search(self.text, *span):
            return _LINK.search(self.text, *span) is not None
        return _OPERATOR.search(self.text, *span) is not None and _EQUALS.search(self.text, *span) is not None

    def _alone(self, start: int, end: int) -> _T | None:
        """Return the value of text[start:end] if there is nothing but it and its unit."""
        inside = self._inside(start, end)
        if len(inside) != 1:
            return None
        rest = self.main[inside[0].end : end].replace(ASIDE, "")
        alone = self._skip(start) >= inside[0].start and self.unit.fullmatch(rest)
        return inside[0].value if alone else None

    def _outside_asides(self, values: Sequence[Value[_T]]) -> list[Value[_T]]:
        """Return the values that are not in parentheses."""
        return [value for value in values if self.main[value.start] != ASIDE]

    def _inside(self, start: int, end: int) -> list[Value[_T]]:
        """Return the values in text[start:end]."""
        return list(self.values[bisect_left(self.starts, start) : bisect_left(self.starts, end)])

    def _next(self, start: int) -> int:
        """Return where the next value begins; -1 without one."""
        return next((value.start for value in self.values if value.start >= start), -1)

    def _sentence_end(self, start: int) -> int:
        """Return where the sentence ends that holds `start`."""
        ends = (match.start() for match in _SENTENCE_END.finditer(self.main, start))
        return next((end for end in ends if not self._within(end)), len(self.text))

    def _within(self, position: int) -> bool:
        """Return True if a value spans `position`."""
        return any(value.start < position < value.end for value in self.values)

    def _line(self, position: int) -> tuple[int, int]:
        """Return where the line begins and ends that holds `position`."""
        end = self.text.find("\n", position)
        return self.text.rfind("\n", 0, position) + 1, end if end >= 0 else len(self.text)


def middle_removed(text: str) -> str:
    """Return a long text without its middle: answers are stated at the beginning or the end."""
    if len(text) <= _HEAD + _TAIL:
        return text
    return f"{text[:_HEAD].rpartition(' ')[0]}\n\n{text[-_TAIL:].partition(' ')[2]}"


def without_asides(text: str) -> str:
    """Return `text` with `ASIDE` in place of what is in parentheses or brackets, and of "Step 1:"."""
    for _ in range(2):  # (nested (once))
        text = _ASIDE.sub(lambda aside: ASIDE * len(aside[0]), text)
    return text


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each sentence begins and ends."""
    start = 0
    for match in _SENTENCE_END.finditer(text):
        yield start, match.start()
        start = match.end()
    yield start, len(text)

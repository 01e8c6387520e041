"""Parse a judge's reply: for each criterion a grade on the scale, or the reason why it is missing.

Only the judge's own words count. A reply must hold exactly one verdict, in an object of its own or inside another. If
two verdicts differ, one of them probably comes from the judged text, and neither counts. Broken JSON is not repaired,
because the text after it may be a quotation. A verdict copied from the texts shown to the judge is an echo and does not
count.

Tolerated is what cannot change the meaning: prose and code fences around the object, case and punctuation in keys
(`verificationCode`), line breaks in strings, a grade written as "4", a grade without an explanation, `{"accuracy": 4}`
instead of an object with a `score`, and a fraction instead of a whole number. Everything else is missing data with a
code:

| code | problem |
|---|---|
| `truncated` | the reply ran out of tokens |
| `too_long` | it has more than 100,000 characters |
| `no_verdict` | it holds no JSON object: prose, or nothing |
| `malformed` | a brace in it does not begin valid JSON |
| `ambiguous` | it holds several verdicts that differ, or a key twice |
| `echo` | its verdict is copied from the judged text, question or reference |
| `unverified` | its verdict is no copy, but lacks the verification code of its prompt, or has another one |
| `missing_criterion` | its verdict lacks this criterion |
| `not_a_grade` | the grade is not a number |
| `no_decision` | `criteria_met` is neither true nor false |
| `off_scale` | the grade is outside the scale |

A failed request keeps its own code, such as `refusal` or `timeout`.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple, cast

from medhelm.domain import Completion, Criterion, Failure, Judgment, Rubric
from medhelm.domain.completion import split_reasoning, strip_reasoning
from medhelm.errors import DataError
from medhelm.io.plugins import lazy_regex
from medhelm.scoring.jury.prompt_injection import ALIKE, decoded_text
from medhelm.scoring.jury.prompts import CODE, CODE_LETTERS, MET, plain_code

LONGEST_REPLY = 100_000
"""Maximum characters of a reply that is parsed, without reasoning."""

_QUOTED_CHARACTERS = 200
_KEPT_CHARACTERS = 2000  # of an explanation: the whole reply is stored beside it
_CUT_OFF = {"length", "max_tokens", "max_output_tokens"}

PROBLEMS = {
    "truncated": "it was cut off before its end, so keep the explanations short",
    "too_long": "it is far too long",
    "no_verdict": "it holds no JSON object",
    "malformed": "it holds a brace that begins no valid JSON",
    "ambiguous": "it holds several verdicts that differ, or a key twice, and has to hold exactly one",
    "echo": "its verdict stands in the material itself; give your own, with an explanation in your own words",
    "unverified": f"`{CODE}` is missing, or is not the code at the end of the first message",
    "no_decision": f"it holds no `{MET}` that is true or false",
}
"""Code of a whole reply -> the problem in words for its judge. Part of a prompt: a change asks judges anew."""
_OF_A_CRITERION = {
    "missing_criterion": "is missing",
    "not_a_grade": "has no `score` that is a plain number",
    "off_scale": "has a score that is not on the scale",
}

_PLAIN_BRACES = lazy_regex(r"\{[^{}\"':]{0,200}\}")
_NO_LETTER = lazy_regex(r"[\W_]+")
_PLAIN_NUMBER = lazy_regex(r"\s{0,9}-?[0-9]{1,9}(?:\.[0-9]{1,9})?\s{0,9}")


class UnreadableJudgment(Exception):  # noqa: N818 - an outcome
    """A reply holds no readable judgment; `code` is one of the codes above."""

    def __init__(self, code: str, message: str) -> None:
        """`message`: the problem, for users."""
        super().__init__(message)
        self.code = code


class _RepeatedError(Exception):
    """An object holds a key twice."""


class _Cell(NamedTuple):
    """A verdict on one criterion."""

    score: float | None
    """The grade; None if it is missing, for the reason in `code`."""
    code: str = ""
    message: str = ""
    explanation: str = ""


_Verdict = Mapping[str, _Cell]
"""Criterion -> its part of the verdict; missing criteria are absent."""


def parse_judgments(
    judge: str,
    criteria: Sequence[Criterion],
    reply: Completion,
    *,
    rubric: Rubric,
    shown: Sequence[str],
    code: str = "",
) -> tuple[Judgment, ...]:
    """Parse the reply of `judge` to a prompt about `criteria`: always one judgment for each, in order.

    `shown`: the texts that the judge read; a verdict copied from them does not count. `code`: the verification code
    that the verdict must contain; empty if none is needed. Scores are on the scale of `rubric`; for a rubric in points
    they are 1.0 (met) or 0.0. Failures have the codes above and never count as grades. Names of criteria must differ in
    more than case.
    """
    try:
        verdict = _read_verdict(criteria, reply, rubric, shown, code)
    except UnreadableJudgment as problem:
        failed = _Cell(None, problem.code, str(problem))
        verdict = {criterion.name: failed for criterion in criteria}
    return tuple(_judgment(judge, criterion, verdict.get(criterion.name)) for criterion in criteria)


def retry_reason(judgments: Sequence[Judgment]) -> str:
    """Describe the problem of a reply for its judge; "" if there is none, or a retry is useless.

    Failed requests were already retried by the client, and refusals are final. The description never quotes the reply,
    which may contain the judged text.
    """
    problems: dict[str, list[str]] = {}
    for one in judgments:
        if one.failure:
            problems.setdefault(one.failure.code, []).append(one.criterion)
    reasons = [PROBLEMS[code] for code in problems if code in PROBLEMS]
    for code, words in _OF_A_CRITERION.items():
        reasons += [f"`{name}` {words}" for name in problems.get(code, ())]
    return "; ".join(reasons)


def published_grades(reply: str, names: Sequence[str], *, shown: Sequence[str] = ()) -> list[float] | None:
    """Return the grades that the published tool reads in a reply; None if it ignores the judge.

    It parses the text from the first `{` to the last `}`; if a comma is missing, it adds one `}`. Each of `names` must
    have a `score` and an `explanation`. The scores of all keys count, truncated to integers, on the scale or not.
    The verdict counts with or without a verification code. Beyond the published tool, a copy from the texts `shown` to
    the judge is ignored, and so is a verdict with a code that occurs in them.
    Raises DataError where the published tool fails: a score that `int()` refuses, or another key without a score.
    """
    start, end = reply.find("{"), reply.rfind("}")
    verdict = _published_object(reply[start : end + 1]) if 0 <= start < end else None
    if verdict is None or not all(_is_published_cell(verdict.get(name)) for name in names):
        return None
    said = [verdict.pop(key) for key in list(verdict) if _fold_key(key) == _CODE_KEY and key not in names]
    cells = {name: _published_cell(verdict[name]) for name in names}
    if _is_echo(cells, dict(zip(names, names, strict=True)), shown) or any(_is_shown_code(one, shown) for one in said):
        return None
    try:
        return [float(int(cell["score"])) for cell in verdict.values()]
    except (ValueError, TypeError, KeyError, IndexError, OverflowError):
        text = f"the published tool cannot read the scores in this reply: {_quoted(reply)}"
        raise DataError(text) from None


def _is_shown_code(value: object, shown: Sequence[str]) -> bool:
    """Return True for a code that the judge copied from the texts it read: its prompt's own never occurs in them."""
    plain = plain_code(value) if isinstance(value, str) else ""
    return len(plain) >= CODE_LETTERS and any(plain in plain_code(text) for text in shown)


def _published_object(text: str) -> dict[str, Any] | None:
    """Parse `text`, which ends with a brace, or `text` with one more brace; None if both fail.

    The published tool adds the brace only if the parser expects a comma. After a final brace it expects nothing else if
    only one brace is missing.
    """
    for attempt in (text, text + "}"):
        with suppress(ValueError, RecursionError):
            return cast("dict[str, Any]", json.loads(attempt))
    return None


def _published_cell(cell: Mapping[str, Any]) -> _Cell:
    """Return a cell with the unconverted grade of a reply, to compare it with the judged texts."""
    try:
        score = float(cell["score"])
    except (ValueError, TypeError, OverflowError):
        score = None
    return _Cell(score, explanation=_storable_text(cell["explanation"]))


def _is_published_cell(cell: object) -> bool:
    return isinstance(cell, dict) and "score" in cell and "explanation" in cell


def _read_verdict(
    criteria: Sequence[Criterion], reply: Completion, rubric: Rubric, shown: Sequence[str], code: str
) -> _Verdict:
    """Return the only verdict of a reply. Raises UnreadableJudgment.

    A reply may begin inside reasoning that the prompt has opened, with drafts of the verdict. The text after the end of
    that reasoning counts if the whole cannot be read, and if that end is the judge's own: the verdict needs a code,
    which a quoted text cannot contain, or no text that the judge read has such an end.
    """
    text = own_words(reply)
    try:
        return _verdict_in(text, criteria, rubric, shown, code)
    except UnreadableJudgment:
        rest = strip_reasoning(text)
        if rest == text or not (code or all(strip_reasoning(one) == one for one in shown)):
            raise
        with suppress(UnreadableJudgment):
            return _verdict_in(rest, criteria, rubric, shown, code)
        raise


def _verdict_in(text: str, criteria: Sequence[Criterion], rubric: Rubric, shown: Sequence[str], code: str) -> _Verdict:
    """Return the only verdict in a text. Raises UnreadableJudgment."""
    objects = _objects(text)
    if not objects:
        raise UnreadableJudgment("no_verdict", f"the reply holds no JSON object: {_quoted(text) or 'it is empty'}")
    verdict = _only_verdict(objects, criteria, rubric)
    keys = {one.name: MET if rubric.form == "points" else one.name for one in criteria}
    if _is_echo(verdict, keys, shown):  # before the code: a copy is a sign of an attack, a missing code alone is none
        raise UnreadableJudgment("echo", f"the verdict is copied from the judged material: {_quoted(text)}")
    if code and not _is_verified(objects, code):
        raise UnreadableJudgment("unverified", f"the verdict lacks the code of its prompt: {_quoted(text)}")
    return verdict


def own_words(reply: Completion) -> str:
    """Return a judge's reply without the reasoning at its beginning.

    Later reasoning tags are ignored: they may be quoted, and would hide the text before them.
    Raises UnreadableJudgment for a reply that failed, was truncated, or is too long.
    """
    if reply.failure:
        raise UnreadableJudgment(reply.failure.code, reply.failure.message)
    text = reply.text or ""
    if reply.finish_reason.lower() in _CUT_OFF:
        raise UnreadableJudgment("truncated", f"the reply ran out of tokens after {len(text):,} characters")
    text = split_reasoning(text, start_only=True).answer
    if len(text) > LONGEST_REPLY:
        raise UnreadableJudgment("too_long", f"the reply has {len(text):,} characters, at most {LONGEST_REPLY:,}")
    return text


def _objects(text: str) -> list[dict[str, Any]]:
    """Return the outermost JSON objects in `text`.

    Braces without quotes or colons between them, such as {x}, are prose. Any other brace that does not begin valid JSON
    makes the whole text unreadable: the text after it may be a quotation inside a broken object.
    """
    found = []
    position = text.find("{")
    while position >= 0:
        try:
            value, position = _DECODER.raw_decode(text, position)
            found.append(value)
        except _RepeatedError as error:
            raise UnreadableJudgment("ambiguous", f"an object holds the key `{_quoted(str(error))}` twice") from None
        except (ValueError, RecursionError):
            prose = _PLAIN_BRACES.match(text, position)
            if not prose:
                broken = _quoted(text[position:])
                raise UnreadableJudgment(
                    "malformed", f"the reply holds a brace that does not begin valid JSON: {broken}"
                ) from None
            position = prose.end()
        position = text.find("{", position)
    return found


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _RepeatedError(key)
        found[key] = value
    return found


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_object_without_repeats, parse_int=float)
"""Accepts line breaks in strings; parses every number as a float, so that a very long one is cheap."""


def _only_verdict(objects: Sequence[dict[str, Any]], criteria: Sequence[Criterion], rubric: Rubric) -> _Verdict:
    """Return the verdict among all objects, nested ones included. Raises UnreadableJudgment if several differ."""
    points = rubric.form == "points"
    keys = {_fold_key(MET): criteria[0].name} if points else _folded_names([one.name for one in criteria])
    waiting: list[Any] = list(objects)
    verdict: _Verdict = {}
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            entries = _entries_under(value, keys)
            found = {keys[key]: _decision(value) if points else _grade(cell, rubric) for key, cell in entries.items()}
            if found and verdict and found != verdict:
                raise UnreadableJudgment("ambiguous", "the reply holds several verdicts that differ")
            verdict = found or verdict
            for key, entry in value.items():  # a cell of a verdict is not a verdict, but may contain one
                is_cell = isinstance(entry, dict) and (key in entries or _fold_key(key) in entries)
                waiting += entry.values() if is_cell else [entry]
    if not verdict:
        listed = _quoted(", ".join(key for value in objects for key in value)) or "none"
        code = "no_decision" if points else "missing_criterion"
        raise UnreadableJudgment(code, f"no object in the reply has a requested key; its keys: {listed}")
    return verdict


def _is_verified(objects: Sequence[object], code: str) -> bool:
    """Return True if the objects, nested ones included, contain this verification code and no other one."""
    waiting, found = list(objects), []
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            found += [entry for key, entry in value.items() if _fold_key(key) == _CODE_KEY]
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return bool(found) and all(_is_code(one, code) for one in found)


def _is_code(value: object, code: str) -> bool:
    """Return True if a value is this code, with any case and separators."""
    return isinstance(value, str) and plain_code(value) == plain_code(code)


def _fold_key(key: str) -> str:
    """Return the letters and digits of a key in folded case: `Verification_Code` and `verificationCode` are equal."""
    return key.casefold() if key.isalnum() else _NO_LETTER.sub("", key).casefold() or key


def _folded_names(names: Sequence[str]) -> dict[str, str]:
    """Return folded key -> name of a criterion; names that differ in punctuation alone are not folded."""
    folded = Counter(map(_fold_key, names))
    return {_fold_key(name) if folded[_fold_key(name)] == 1 else name: name for name in names}


_CODE_KEY = _fold_key(CODE)


def _entries_under(value: Mapping[str, Any], keys: Container[str]) -> dict[str, Any]:
    """Return the entries under `keys`, folded as they are. Raises UnreadableJudgment for a repeated key."""
    found: dict[str, Any] = {}
    for key, entry in value.items():
        folded = key if key in keys else _fold_key(key)
        if folded in keys:
            if folded in found:
                raise UnreadableJudgment("ambiguous", f"an object holds the key `{_quoted(key)}` twice")
            found[folded] = entry
    return found


def _grade(cell: object, rubric: Rubric) -> _Cell:
    """Read the cell of a criterion: an object with `score` and optionally `explanation`, or the score alone."""
    parts = _entries_under(cell, ("score", "explanation")) if isinstance(cell, dict) else {"score": cell}
    explanation, said = _storable_text(parts.get("explanation")), parts.get("score")
    score = float(said) if isinstance(said, str) and _PLAIN_NUMBER.fullmatch(said) else said
    if not isinstance(score, float) or not math.isfinite(score):
        instead = _in_words(said) if "score" in parts else "nothing"
        return _Cell(None, "not_a_grade", f"the score is not a plain number: {instead}", explanation)
    if not rubric.low <= score <= rubric.high:
        return _Cell(
            None, "off_scale", f"{score:g} is not on the scale from {rubric.low:g} to {rubric.high:g}", explanation
        )
    return _Cell(score, explanation=explanation)


def _decision(value: Mapping[str, Any]) -> _Cell:
    """Read an object with `criteria_met` and optionally `explanation`."""
    parts = _entries_under(value, (_fold_key(MET), "explanation"))
    met, explanation = parts[_fold_key(MET)], _storable_text(parts.get("explanation"))
    if isinstance(met, str) and met.strip().casefold() in ("true", "false"):
        met = met.strip().casefold() == "true"
    if not isinstance(met, bool):
        return _Cell(None, "no_decision", f"`{MET}` is neither true nor false: {_in_words(met)}", explanation)
    return _Cell(float(met), explanation=explanation)


def _storable_text(explanation: object) -> str:
    """Return an explanation that can be stored; "" if it is not text."""
    return explanation.encode("utf-8", "replace").decode() if isinstance(explanation, str) else ""


def _is_echo(verdict: _Verdict, keys: Mapping[str, str], shown: Sequence[str]) -> bool:
    """Return whether a verdict is copied. `keys`: criterion -> its key in the verdict."""
    grades = {keys[name]: cell.score for name, cell in verdict.items() if cell.score is not None}
    return is_copied([cell.explanation for cell in verdict.values()], grades, sorted(keys.values()), shown)


def _judgment(judge: str, criterion: Criterion, cell: _Cell | None) -> Judgment:
    if cell is None:
        cell = _Cell(None, "missing_criterion", "the verdict lacks this criterion")
    failure = Failure("judge", cell.code, cell.message) if cell.score is None else None
    return Judgment(
        judge=judge,
        criterion=criterion.name,
        score=cell.score,
        points=criterion.points,
        failure=failure,
        explanation=cell.explanation[:_KEPT_CHARACTERS],
    )


def _in_words(value: object) -> str:
    """Format a JSON value for a message."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return _quoted(json.dumps(value, ensure_ascii=False))


def _quoted(text: str) -> str:
    """Return the beginning of `text` on one line, without unprintable characters."""
    beginning = text[: 2 * _QUOTED_CHARACTERS]
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in beginning).split())
    return line if len(line) <= _QUOTED_CHARACTERS else f"{line[:_QUOTED_CHARACTERS]}..."


# --- copies -----------------------------------------------------------------------------------------------------------
# Recognizes verdicts that a judge copied from the texts it read, in whatever spelling.
#
# The texts and the explanations of a verdict are compared in every form in which one can become the other: as written,
# with each escape undone, and with encoded words decoded, too (`visible_text`). So it makes no difference whether a
# judge copies a planted verdict byte by byte, decodes it or encodes it again.

LEAST = 6
"""Fewest letters and digits from which the first half of an explanation is compared alone."""

_BETWEEN_LETTERS = lazy_regex(r"[\W_]+")
_ASCII_BETWEEN_LETTERS = bytes(code for code in range(128) if not chr(code).isalnum())
_VALUE = lazy_regex(r"[-+]?\d{1,400}(?:\.\d{0,400})?(?:e[-+]?\d{1,3})?|\btrue\b|\bfalse\b")


def is_copied(
    explanations: Iterable[str], grades: Mapping[str, float], keys: Sequence[str], shown: Sequence[str]
) -> bool:
    """Return True if a verdict is copied from the texts that the judge read.

    It is if one of its explanations occurs there as an explanation; or if all its grades occur there, each after its
    key and before the next one, and there is no explanation, or the first half of one occurs there.

    Parameters: grades, key of a criterion in the verdict -> grade; keys, those of all criteria, sorted.
    """
    explained = [forms for text in explanations if any(forms := _letters(text))]
    quoted = [text for text in shown if any("explanation" in form for form in _letters(text))] if explained else shown
    if any(_is_explanation_in(form, text) for forms in explained for form in forms for text in quoted):
        return True
    half = [form[: max(LEAST, len(form) // 2)] for forms in explained for form in forms]
    return bool(grades) and any(
        (not explained or any(_is_explanation_in(form, text) for form in half)) and _has_grades(text, grades, keys)
        for text in quoted
    )


def _is_explanation_in(letters: str, text: str) -> bool:
    """Return True if these letters follow the word `explanation` in one form of a text."""
    return bool(letters) and any(f"explanation{letters}" in form for form in _letters(text))


def _has_grades(text: str, grades: Mapping[str, float], keys: Sequence[str]) -> bool:
    """Return True if all grades occur in one form of a text, each after its key."""
    by_form = (_values(form, tuple(keys)) for form in _forms(text))
    return any(all(grade in values.get(key, ()) for key, grade in grades.items()) for values in by_form)


@lru_cache(maxsize=256)
def _forms(text: str) -> tuple[str, ...]:
    """Return all forms of a text in folded case, each once."""
    runs = (decoded_text(text, runs=True, joined=joined) for joined in (True, False))
    forms = (text, decoded_text(text), *runs)
    return tuple(dict.fromkeys(form.casefold() for form in forms))


@lru_cache(maxsize=256)
def _letters(text: str) -> tuple[str, ...]:
    """Return the letters and digits of all forms of a text, look-alike letters as Latin ones."""
    return tuple(dict.fromkeys(map(_letters_of, _forms(text))))


def _letters_of(form: str) -> str:
    if form.isascii():  # the same in a tenth of the time
        return form.encode().translate(None, _ASCII_BETWEEN_LETTERS).decode()
    return _BETWEEN_LETTERS.sub("", form.translate(ALIKE))


@lru_cache(maxsize=256)
def _values(text: str, keys: tuple[str, ...]) -> Mapping[str, frozenset[float]]:
    """Return the numbers, and `true` and `false` as numbers, between each of `keys` in a text and the next one."""
    spellings = [r"[\W_]{0,9}".join(map(re.escape, _BETWEEN_LETTERS.sub("", key.casefold()) or key)) for key in keys]
    places = [
        (found.start(), found.end(), key)
        for key, spelling in zip(keys, spellings, strict=True)
        for found in re.finditer(spelling, text)
    ]
    found: dict[str, set[float]] = {}
    places.sort()
    ends = [*(start for start, _, _ in places), len(text)][1:]
    for (_, start, key), end in zip(places, ends, strict=bool(places)):
        for number in _VALUE.findall(text[start:end]):
            found.setdefault(key, set()).add(float({"true": 1, "false": 0}.get(number, number)))
    return {key: frozenset(values) for key, values in found.items()}

"""Truncate prompts that are too long for a model.

Nothing is cut from the end of a prompt, which holds the question. One field loses its oldest part, up to the start of
a sentence, and a note in its place says so.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from medhelm.benchmarks.prompts import NO_FIELD, OPTIONS, placeholders, render
from medhelm.domain import Benchmark, Instance, Prompt

LEAST_SHARE = 0.5
"""Least share of the prompt of a field that is truncated although the definition does not name it."""

QUESTION = "question"
"""A field of this name holds the question; it is truncated only if the definition names it."""


_BREAK = re.compile(r"[.!?][\"'”’)\]]*(?:\s+|(?=[A-Z][A-Z /&-]{2,40}:))|\n\s*")
"""The end of a sentence or a line, with closing quotes and brackets. A section title may follow without a space, as in
notes that lost their line breaks."""

_NOT_AN_END = re.compile(
    r"(?:^|[\s(\[])(?:[A-Za-z]|Drs?|Mrs?|Ms|Prof|St|vs|e\.g|i\.e|cf|[Nn]os?|[Ff]igs?|[Aa]pprox|ca|[Pp]ts?|[Yy]rs?"
    r"|n\.v|U\.[SK])$"
    r"|(?:^|\n|[.;]\s|[a-z][.;])[ \t]*\d{1,3}$|:[ \t]*1$"
)
"""Text before a period that does not end a sentence: abbreviations, initials, numbers of list items."""

_SEARCHED = 12
"""Characters before a period to search for these."""

_WORD = re.compile(r"\s+(?=\S)")


@dataclass(frozen=True, slots=True)
class TruncatedPrompt:
    """A prompt with part of one field removed."""

    prompt: Prompt
    """The prompt as it is sent."""
    left_out: int
    """Characters removed from the field."""


def n_characters(prompt: Prompt) -> int:
    """Return the number of characters in all messages."""
    return sum(len(message.text) for message in prompt.messages)


def truncated_field(benchmark: Benchmark, instance: Instance) -> str:
    """Return the name of the field that may be truncated; empty if none may.

    That is the field the definition names. If it names none, it is the longest field of the template, provided that
    it is at least half of the prompt; but not a field called `question`, nor the only field of a choice question.
    Conversations and prompts from another harness are never truncated.
    """
    if instance.turns or benchmark.shorten == NO_FIELD:
        return ""
    names = {name for name in _template_fields(benchmark) if name in instance.fields}
    if benchmark.shorten:
        return benchmark.shorten if benchmark.shorten in names else ""
    if instance.choices and len(names) == 1:
        return ""
    names.discard(QUESTION)
    if not names:
        return ""
    longest = max(sorted(names), key=lambda name: len(instance.fields[name]))
    whole = n_characters(render(benchmark, instance))
    held = len(instance.fields[longest]) * _n_occurrences(benchmark, longest)
    return longest if held >= LEAST_SHARE * whole else ""


def truncate_to(benchmark: Benchmark, instance: Instance, lengths: Iterable[int]) -> Iterator[TruncatedPrompt]:
    """Yield the prompt of an instance truncated to each of `lengths`, in characters, which must decrease.

    The field is cut at the start of a sentence or a line, or between words if that does not remove enough. The
    iterator ends at the first length that cannot be reached. Lengths that need no cut, or the same cut as the one
    before, are skipped.
    """
    if not (name := truncated_field(benchmark, instance)):
        return
    text, times, left_out = instance.fields[name], _n_occurrences(benchmark, name), 0
    whole = n_characters(render(benchmark, instance))
    sentences = words = None
    for most in lengths:
        if (excess := whole - most) <= 0:
            continue
        sentences = sentence_starts(text) if sentences is None else sentences
        if not (start := _cut_position(text, sentences, excess, times)):
            words = word_starts(text) if words is None else words
            start = _cut_position(text, words, excess, times)
        if not start:
            return
        if start > left_out:
            left_out = start
            fields = {**instance.fields, name: _note(start, len(text)) + text[start:]}
            yield TruncatedPrompt(render(benchmark, replace(instance, fields=fields)), start)


def _template_fields(benchmark: Benchmark) -> set[str]:
    """Return the names of the fields in the templates."""
    return (placeholders(benchmark.prompt) | placeholders(benchmark.system)) - {OPTIONS}


def _n_occurrences(benchmark: Benchmark, name: str) -> int:
    """Count the occurrences of a field in the templates."""
    return sum(template.count(f"{{{name}}}") for template in (benchmark.prompt, benchmark.system))


def _cut_position(text: str, starts: Sequence[int], excess: int, times: int) -> int:
    """Return the first of `starts` at which a cut shortens the prompt by `excess` characters; 0 if there is none."""
    for start in starts[bisect_left(starts, excess // max(times, 1)) :]:
        if times * (start - len(_note(start, len(text)))) >= excess:
            return start
    return 0


def n_truncated(left_out: int, whole: int) -> int:
    """Return how many characters shorter a prompt gets if the note replaces `left_out` characters of a field.

    `whole`: characters of the field, or about the same, of the prompt that holds it.

    >>> n_truncated(1000, 3000)
    932
    """
    return left_out - len(_note(left_out, whole)) if left_out else 0


def _note(left_out: int, whole: int) -> str:
    """Return the note that replaces the oldest part."""
    return f"[{left_out:,} of {whole:,} characters, from the beginning, are left out here.]\n"


def sentence_starts(text: str) -> list[int]:
    r"""Return the positions in `text` where a sentence or a line starts, in ascending order, without position 0.

    A lowercase letter after a period does not start a sentence, unless a space precedes the period, as in tokenized
    text.

    >>> text = "Seen by Dr. Low on 3 May. BP was 120/80 mm Hg.\n- no fever"
    >>> [text[start : start + 7] for start in sentence_starts(text)]
    ['BP was ', '- no fe']
    """
    return [match.end() for match in _BREAK.finditer(text) if match.end() < len(text) and _is_sentence_end(text, match)]


def word_starts(text: str) -> list[int]:
    """Return the positions in `text` where a word starts, in ascending order, without the first.

    >>> word_starts("to be or")
    [3, 6]
    """
    return [match.end() for match in _WORD.finditer(text)]


def _is_sentence_end(text: str, match: re.Match[str]) -> bool:
    """Return True if a sentence ends at a match."""
    if "\n" in match.group() or text[match.start()] != ".":
        return True
    if text[match.end()].islower():
        return text[match.start() - 1 : match.start()] == " "
    return not _NOT_AN_END.search(text[max(0, match.start() - _SEARCHED) : match.start()])

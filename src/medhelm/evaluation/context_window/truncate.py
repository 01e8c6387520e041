"""Prompts that are too long for a model: what may be left out of them, and how they read without it.

Nothing is cut from the end, where the question stands. One field loses its oldest part, up to the beginning of a
sentence, and says so where it was.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from medhelm.benchmarks.prompts import NO_FIELD, OPTIONS, placeholders, render
from medhelm.domain import Benchmark, Instance, Prompt
from medhelm.evaluation.context_window.sentences import sentence_starts, word_starts

LEAST_SHARE = 0.5
"""Share of the prompt that a field must have to be shortened without having been named."""

QUESTION = "question"
"""A field of this name is what is asked: it is shortened only if it is named."""


@dataclass(frozen=True, slots=True)
class TruncatedPrompt:
    """A prompt that lost something."""

    prompt: Prompt
    """As it is sent."""
    left_out: int
    """Characters of the field that are missing."""


def n_characters(prompt: Prompt) -> int:
    """Characters of all messages."""
    return sum(len(message.text) for message in prompt.messages)


def truncated_field(benchmark: Benchmark, instance: Instance) -> str:
    """The field that may lose its oldest part; empty if none may.

    That is the one that the definition names. Where it names none it is the longest of the template, if that is at
    least half of the prompt; but not a field called `question`, and not the only field of a choice question, which
    holds the question itself. A conversation that is continued, or a prompt that another harness sent, stays as it is.
    """
    if instance.turns or benchmark.shorten == NO_FIELD:
        return ""
    names = {name for name in _fields(benchmark) if name in instance.fields}
    if benchmark.shorten:
        return benchmark.shorten if benchmark.shorten in names else ""
    if instance.choices and len(names) == 1:
        return ""
    names.discard(QUESTION)
    if not names:
        return ""
    longest = max(sorted(names), key=lambda name: len(instance.fields[name]))
    whole = n_characters(render(benchmark, instance))
    held = len(instance.fields[longest]) * _times(benchmark, longest)
    return longest if held >= LEAST_SHARE * whole else ""


def truncate_to(benchmark: Benchmark, instance: Instance, lengths: Iterable[int]) -> Iterator[TruncatedPrompt]:
    """The prompt of an instance with as little left out as brings it to each of `lengths`, in characters, which fall.

    The text is cut where a sentence or a line begins; where no such place leaves enough out, between two words. No more
    comes as soon as a length cannot be reached. Those that the whole prompt has anyway are passed over, and so is one
    that comes to the same as that before.
    """
    if not (name := truncated_field(benchmark, instance)):
        return
    text, times, left_out = instance.fields[name], _times(benchmark, name), 0
    whole = n_characters(render(benchmark, instance))
    sentences = words = None
    for most in lengths:
        if (excess := whole - most) <= 0:
            continue
        sentences = sentence_starts(text) if sentences is None else sentences
        if not (start := _cut(text, sentences, excess, times)):
            words = word_starts(text) if words is None else words
            start = _cut(text, words, excess, times)
        if not start:
            return
        if start > left_out:
            left_out = start
            fields = {**instance.fields, name: _mark(start, len(text)) + text[start:]}
            yield TruncatedPrompt(render(benchmark, replace(instance, fields=fields)), start)


def _fields(benchmark: Benchmark) -> set[str]:
    """Names of the fields in the templates."""
    return (placeholders(benchmark.prompt) | placeholders(benchmark.system)) - {OPTIONS}


def _times(benchmark: Benchmark, name: str) -> int:
    """How often the templates show a field."""
    return sum(template.count(f"{{{name}}}") for template in (benchmark.prompt, benchmark.system))


def _cut(text: str, starts: Sequence[int], excess: int, times: int) -> int:
    """The first of `starts` from which on what remains, with the mark, is `excess` characters shorter; 0 if none is."""
    for start in starts[bisect_left(starts, excess // max(times, 1)) :]:
        if times * (start - len(_mark(start, len(text)))) >= excess:
            return start
    return 0


def n_truncated(left_out: int, whole: int) -> int:
    """Characters by which a prompt is shorter for `left_out` characters of a field: the mark stands in their place.

    `whole`: characters of the field, or of the prompt that holds it: what the mark says is then a sign or two longer.

    >>> n_truncated(1000, 3000)
    932
    """
    return left_out - len(_mark(left_out, whole)) if left_out else 0


def _mark(left_out: int, whole: int) -> str:
    """What stands in the place of the oldest part."""
    return f"[{left_out:,} of {whole:,} characters, from the beginning, are left out here.]\n"

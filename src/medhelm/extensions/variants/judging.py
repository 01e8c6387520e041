"""Ways in which judges grade stored completions again: repeated, in changed form, or by reordered criteria.

The changes say nothing new: a judge that grades what a completion says gives the same grade. Completions in which a
change would alter a word of the model, or has nothing to change, are put to judges as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from medhelm.domain import Benchmark, Instance, Run
from medhelm.domain.run import JUDGE_SAMPLE, JUDGED, VARIANT, Variant
from medhelm.errors import ErrorCollector, UserError, suggestion
from medhelm.evaluation.stored_settings import JuryChange
from medhelm.extensions.variants.types import NamedChange
from medhelm.io.plugins import lazy_regex

ALL = "all"
"""Name of all changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingChange(NamedChange):
    """A change to what judges read that says nothing new about a completion."""

    text: Callable[[str, Random], str] | None = None
    """Changes a completion; None if completions stay."""
    keeps: Callable[[str, str], bool] = lambda _text, _changed: True
    """Returns True if a changed completion has all words of the original; else judges see the original."""
    benchmark: Callable[[Benchmark], Benchmark] | None = None
    """Changes the rubric; None if it stays."""
    why_not: Callable[[Benchmark], str] = lambda _: ""
    """Returns why the change does not apply to a benchmark; empty if it does."""
    version: int = 1
    """Raised with every change of its results, which then belong to other runs."""


# --- longer completions -----------------------------------------------------------------------------------------------

_OPENINGS = (
    "Thank you for providing this information. I have read all of it carefully before responding.",
    "I appreciate the opportunity to help with this. I have gone through everything that was provided.",
    "Thank you for this request. I have taken the time to consider it carefully, from beginning to end.",
)
_RESTATED = (
    "In what follows, I address the request exactly as it was stated, and in the form in which it was stated.",
    "What follows is my response to the request above, and it covers the request as it was put to me.",
)
_CLOSINGS = (
    "That completes my response to this request. I hope that it is helpful, and I am glad to expand on any part of it "
    "if more is needed. Please do not hesitate to ask.",
    "This concludes my response. I hope that it is useful to you, and I am happy to go over any part of it again, or "
    "to put it in other words, whenever that is wanted.",
)


def padded(text: str, rng: Random) -> str:
    """Return a text between polite sentences without content."""
    return f"{rng.choice(_OPENINGS)} {rng.choice(_RESTATED)}\n\n{text.strip()}\n\n{rng.choice(_CLOSINGS)}"


# --- style ------------------------------------------------------------------------------------------------------------

_MARKED = lazy_regex(r"\s*(?:#{1,6}\s|[-*+>|]|\d{1,3}[.)]\s|```|<)")
"""Start of a line that has a form of its own."""

_SENTENCE_END = lazy_regex(r"(?<=[a-z]{3}[.!?])\s+(?=[A-Z])")
_LABEL = lazy_regex(r"[^\n.:;!?]{1,60}:")
_FIRST_WORDS = lazy_regex(r"\S+(?:\s+\S+)?")

_HEADING = lazy_regex(r"^[ \t]{0,3}#{1,6}[ \t]+", re.MULTILINE)
_BULLET = lazy_regex(r"^[ \t]*[-*\u2022][ \t]+", re.MULTILINE)
_RULE = lazy_regex(r"^[ \t]*(?:-{3,}|\*{3,}|_{3,})[ \t]*$\n?", re.MULTILINE)
_BOLD = lazy_regex(r"\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*")
_ITALIC = lazy_regex(r"(?<![\w*])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![\w*])")

_KEEPS_FORM = lazy_regex(r"```|^\s*\||^\s*\+\s", re.MULTILINE)
"""Code, tables, and lines with a plus, beside which a hyphen is a minus: such a completion keeps its form."""

_WORD = lazy_regex(r"[^\W_]+")


def in_markdown(text: str, _rng: Random) -> str:
    """Return a text with headings, bullets and bold first words, and the same words."""
    if _KEEPS_FORM.search(text):
        return text
    return "\n".join(_line_in_markdown(line) for line in text.split("\n"))


def _line_in_markdown(line: str) -> str:
    words = line.strip()
    if not words or _MARKED.match(line):
        return line
    if _LABEL.fullmatch(words):
        return f"## {words}"
    return "\n".join(f"- {_FIRST_WORDS.sub(_bold, part, count=1)}" for part in _SENTENCE_END.split(words))


def _bold(words: re.Match[str]) -> str:
    return words[0] if "*" in words[0] else f"**{words[0]}**"


def in_plain_text(text: str, _rng: Random) -> str:
    """Return a text without headings, bullets, bold and italics, and with the same words."""
    if _KEEPS_FORM.search(text):
        return text
    for expression, new in ((_RULE, ""), (_HEADING, ""), (_BULLET, ""), (_BOLD, r"\1"), (_ITALIC, r"\1")):
        text = expression.sub(new, text)
    return text


def has_same_words(text: str, changed: str) -> bool:
    """Return True if both texts have the same words and numbers in the same order."""
    return _WORD.findall(text) == _WORD.findall(changed)


# --- rubric -----------------------------------------------------------------------------------------------------------


def with_reversed_criteria(benchmark: Benchmark) -> Benchmark:
    """Return a benchmark whose judges read the criteria of the rubric from the last to the first."""
    assert benchmark.rubric is not None, "only benchmarks with a rubric are judged"
    return replace(benchmark, rubric=replace(benchmark.rubric, criteria=benchmark.rubric.criteria[::-1]))


def _why_no_order(benchmark: Benchmark) -> str:
    """Return why the criteria of a rubric have no order that could be reversed; empty if they have one."""
    rubric = benchmark.rubric
    if rubric is None or rubric.form == "points":
        return "judges see one criterion at a time"
    if rubric.verbatim:
        return "its criteria are part of a judge prompt in words of its own"
    return "its rubric has one criterion only" if len(rubric.criteria) < 2 else ""


CHANGES: Mapping[str, JudgingChange] = {
    one.name: one
    for one in (
        JudgingChange(
            name="padding",
            title="Padding",
            description="The completion between polite sentences without content.",
            text=padded,
            keeps=lambda text, changed: text.strip() in changed,
        ),
        JudgingChange(
            name="style_markdown",
            title="Markdown added",
            description="The same words with headings, bullets and bold.",
            text=in_markdown,
            keeps=has_same_words,
        ),
        JudgingChange(
            name="style_plain",
            title="Markdown removed",
            description="The same words without headings, bullets, bold and italics.",
            text=in_plain_text,
            keeps=has_same_words,
        ),
        JudgingChange(
            name="criteria_order",
            title="Criteria reversed",
            description="The criteria of the rubric from the last to the first.",
            benchmark=with_reversed_criteria,
            why_not=_why_no_order,
        ),
    )
}
"""Name -> change, in the order of lists."""

REPEATED = "repeat_"
"""Start of the names of repeats, which end in their number from 2."""


# --- variants ---------------------------------------------------------------------------------------------------------


def judged(benchmarks: Sequence[Benchmark], change: JuryChange) -> list[tuple[Variant, frozenset[str]]]:
    """Return the ways in which judges grade again, each with the names of the benchmarks that it applies to.

    Raises: UserError for all names that are unknown or apply to none of the benchmarks.
    """
    errors = ErrorCollector()
    chosen = list(CHANGES) if ALL in change.perturb else change.perturb
    found = [(_repeat(number), frozenset(one.name for one in benchmarks)) for number in range(2, change.repeat + 1)]
    for name in chosen:
        with errors.collect():
            found += _chosen(name, benchmarks, is_named=name in change.perturb)
    errors.raise_all()
    return found


def _chosen(name: str, benchmarks: Sequence[Benchmark], *, is_named: bool) -> Iterator[tuple[Variant, frozenset[str]]]:
    """Yield the variant with this name, if it applies to any benchmark. Raises: UserError if it is named and none."""
    if name not in CHANGES:
        known = f"{suggestion(name, CHANGES)} Known: {', '.join(CHANGES)}, {ALL}."
        raise UserError(f"--perturb: `{name}` is not a change for judges. {known.strip()} Nothing was sent.")
    one = CHANGES[name]
    reasons = {benchmark.name: one.why_not(benchmark) for benchmark in benchmarks}
    if names := frozenset(benchmark for benchmark, reason in reasons.items() if not reason):
        yield _variant(one), names
    elif is_named:
        why = "; ".join(f"{benchmark}: {reason}" for benchmark, reason in reasons.items())
        raise UserError(f"--perturb {name} applies to no benchmark ({why}). Leave it out. Nothing was sent.")


def _variant(one: JudgingChange) -> Variant:
    name = f"{JUDGED}{one.name}"
    return Variant(
        name=name,
        settings={VARIANT: name, "version": one.version},
        benchmark=one.benchmark,
        completion=partial(changed_completion, one) if one.text else None,
    )


def _repeat(number: int) -> Variant:
    """Return the variant in which judges get the same prompts again. `number`: from 2."""
    name = f"{JUDGED}{REPEATED}{number}"
    return Variant(name=name, settings={VARIANT: name, JUDGE_SAMPLE: number - 1})


def changed_completion(one: JudgingChange, instance: Instance, text: str) -> str:
    """Return a completion in changed form, always the same one; as it is if the change would alter a word of it."""
    assert one.text is not None, "it changes completions"
    changed = one.text(text, Random(f"{one.name}:{instance.id}"))
    return changed if one.keeps(text, changed) else text


def measuring_variants() -> list[Variant]:
    """Return all variants in which judges grade changed completions, or by a changed rubric."""
    return [_variant(one) for one in CHANGES.values()]


def repeat_of(run: Run) -> Variant | None:
    """Return the variant of a run in which judges got the same prompts again; None for other runs."""
    return _repeat(run.settings[JUDGE_SAMPLE] + 1) if JUDGE_SAMPLE in run.settings else None

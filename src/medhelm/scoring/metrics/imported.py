"""Metrics of runs of another harness: those that only it computes, and ours where its files lack a column.

The corrected rule of a metric that compares a completion with the target reads the completion as our own metrics do,
so that it does not depend on the harness's filter or pattern:

    target                            corrected
    an option, or its letter          the option that the completion names (`answers.choice.find_choice`); options
                                      come from the files, or else from the lettered lines of the prompt
    yes, no, maybe, true, false       the same, with these words as options
    a number                          the number in the completion (`answers.number.read_number`)
    other text                        by the metric: `exact_match` is ours; for the others see `_TEXT_RULES`

Other metrics, such as grades of a model, are numbers of their harness alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from string import ascii_uppercase
from typing import TypeVar

from medhelm.domain import Harness, Instance, Reference, Rule
from medhelm.errors import DataError, NotComputed
from medhelm.io.plugins import lazy_regex
from medhelm.scoring.answers.choice import find_choice
from medhelm.scoring.answers.number import read_number
from medhelm.scoring.answers.text import normalize_keeping_meaning
from medhelm.scoring.metric import AnswerReader, Metric, correct_references, not_computed
from medhelm.scoring.metrics.matching import EXACT_MATCH

_Result = TypeVar("_Result")

_NEEDED = {
    "medcalc_accuracy": ("Calculator ID", "Category"),
    **dict.fromkeys(
        ("sql_execution_accuracy", "sql_precision", "sql_recall", "sql_validity"), ("database", "database")
    ),
}
"""Metric -> the column it needs by the corrected rule, and by the published rule."""

_COMPARING = re.compile(r"choice|match|includes|exact|answer|pattern|acc|exact_match(?:_.+)?")
"""Scorers of Inspect and metrics of lm-eval that compare a completion with the target. lm-eval's `exact_match` has one
name for each filter."""

_OF_HELM: Harness = "helm"

_LETTER = lazy_regex(r"[(\[]?([A-J])[)\].:]?")
_NUMBER = lazy_regex(r"(?:.*####\s*)?[$€£]?\s*([-+−]?\d[\d,]*(?:\.\d+)?)\s*%?", re.DOTALL)
_LINE = lazy_regex(r"^[ \t]*(?:[-*•][ \t]*)?[(\[]?([A-J])[)\].:][ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_INLINE = lazy_regex(r"[(\[]([A-J])[)\]][ \t]*([^()\[\]\n]+)")
_STATED = lazy_regex(r"\banswer[ \t]*:[ \t]*(.+)", re.IGNORECASE)
_WORD_SETS = (("yes", "no", "maybe"), ("true", "false"))
_FEWEST_LETTERS = 5


def needed_columns(metric: str) -> tuple[str, ...]:
    """Return the columns a metric needs that the files of another harness may lack."""
    return _NEEDED.get(metric, ())


def compares_with_target(metric: str) -> bool:
    """Return whether a metric of Inspect or lm-eval, by its name, is 1 for the target and 0 for anything else."""
    return _COMPARING.fullmatch(metric) is not None


def imported_metric(name: str, harness: Harness) -> Metric:
    """Return a metric of the harness of a run. Its imported values stay unchanged as the published ones.

    The corrected rule reads the completion if the metric compares it with the target.
    """
    comparing = harness != _OF_HELM and compares_with_target(name)
    return Metric(
        name=name,
        title=name,
        description="A number of the harness that made the run, from its files.",
        source="The files of the run",
        corrected=_comparison(name)
        if comparing
        else not_computed(f"`{name}` can only be computed by the harness that made the run"),
        published=_no_score if comparing else None,
        reads=_READER if comparing else None,
    )


def _no_score(completion: str, instance: Instance) -> float:  # noqa: ARG001 - the shape of rules
    """Fail where the files of a run have no score: only they have the published ones."""
    raise DataError("the files of the run have no score")


def on_imported_instances(metric: Metric, harness: Harness) -> Metric:
    """Adapt a metric to instances from the files of another harness.

    Where these lack a column that the data has, no score is computed, and the reason says how to get the column.
    """
    if metric.name == EXACT_MATCH.name and harness != _OF_HELM:  # HELM's files hold the options of its questions
        return replace(metric, corrected=_comparison(metric.name), reads=_READER)
    if metric.name not in _NEEDED:
        return metric
    corrected, published = _NEEDED[metric.name]
    return replace(
        metric,
        corrected=_require_column(corrected, metric.corrected),
        published=_require_column(published, metric.function("published")),
        parts=_require_column(corrected, metric.parts) if metric.parts else None,
    )


def _require_column(column: str, function: Callable[..., _Result]) -> Callable[..., _Result]:
    """Check that an instance has a column before calling the function with it."""

    def checked(completion: str, instance: Instance, *rule: Rule) -> _Result:
        if column not in instance.metadata:
            raise NotComputed(
                f"the files of the run lack the column `{column}`: rescore with --data and the folder of the data"
            )
        return function(completion, instance, *rule)

    return checked


# --- comparison with the target ---------------------------------------------------------------------------------------


def _comparison(name: str) -> Callable[[str, Instance], float]:
    """Build the corrected rule of a metric that compares a completion with the target."""

    def rate(completion: str, instance: Instance) -> float:
        targets = correct_references(instance)
        closed = as_choice_question(instance)
        if closed.choices:
            return EXACT_MATCH.corrected(completion, closed)
        if (number := _number_in(targets)) is not None:
            found = read_number(completion)
            return float(found is not None and math.isclose(found, number, rel_tol=1e-9))
        if name == EXACT_MATCH.name:
            return EXACT_MATCH.corrected(completion, instance)
        rule = _TEXT_RULES.get(name)
        if rule is None:
            raise NotComputed(
                f"`{name}` selects a part of the completion, and only the harness that made the run knows which"
            )
        words = _words(completion)
        return float(any(rule(completion, words, own) for text in targets if (own := _words(text))))

    return rate


def _read_answer(completion: str, instance: Instance) -> object:
    """Return what the corrected rule finds in a completion; the completion itself if it compares the whole."""
    closed = as_choice_question(instance)
    if closed.choices:
        return find_choice(completion, closed.labels, closed.choices)
    return read_number(completion) if _number_in(instance.correct) is not None else completion


_READER = AnswerReader("answer", _read_answer)


def _words(text: str) -> list[str]:
    return normalize_keeping_meaning(text).split()


def _contains(words: Sequence[str], target: Sequence[str]) -> bool:
    n = len(target)
    return any(list(words[i : i + n]) == target for i in range(len(words) - n + 1))


def _is_whole(_: str, words: Sequence[str], target: Sequence[str]) -> bool:
    return list(words) == target


def _is_stated(completion: str, target: Sequence[str]) -> bool:
    """Return True if the text after the last "Answer:" is the target."""
    stated = _STATED.findall(completion)
    return bool(stated) and _words(stated[-1]) == target


_TextRule = Callable[[str, Sequence[str], list[str]], bool]
"""Completion, its words and those of the target -> True if it is correct."""

_TEXT_RULES: Mapping[str, _TextRule] = {
    "includes": lambda _, words, target: _contains(words, target),
    "match": lambda _, words, target: words[: len(target)] == target or words[-len(target) :] == target,
    **dict.fromkeys(("exact", "acc", "choice"), _is_whole),
    "answer": lambda completion, _, target: _is_stated(completion, target),
}
"""Metric -> its comparison of texts, by words, without regard to case and punctuation. Missing: filters and patterns
of a task, which only the harness knows."""


def as_choice_question(instance: Instance) -> Instance:
    """Return an instance with the options that its target is one of; without options if it is none.

    Options in the files count; else the lettered lines of the prompt, if the target is a letter or one of their texts;
    else letters alone, or the words yes, no and maybe, or true and false.
    """
    if instance.choices or len(instance.correct) != 1:
        return instance
    target = instance.correct[0].strip()
    for words in _WORD_SETS:
        if target.lower() in words:
            return _with_options(instance, words, words, words.index(target.lower()))
    shown = _options_in(instance.turns[-1].text if instance.turns else "\n".join(instance.fields.values()))
    letter = _LETTER.fullmatch(target)
    if letter is None:
        same = [place for place, text in enumerate(shown) if text == target]
        return _with_options(instance, shown, ascii_uppercase[: len(shown)], same[0]) if len(same) == 1 else instance
    place = ascii_uppercase.index(letter[1])
    if place >= len(shown):  # the prompt does not show the options in a known form
        shown = [f"option {one}" for one in ascii_uppercase[: max(_FEWEST_LETTERS, place + 1)]]
    return _with_options(instance, shown, ascii_uppercase[: len(shown)], place)


def _with_options(instance: Instance, texts: Sequence[str], labels: Sequence[str], correct: int) -> Instance:
    # The texts of references are those of the options: two options with one text are equally correct.
    references = tuple(Reference(text, place == correct) for place, text in enumerate(texts))
    return replace(instance, choices=tuple(texts), labels=tuple(labels), references=references)


def _options_in(prompt: str) -> list[str]:
    """Return the texts of the last options in a prompt, whose letters follow each other from A; empty without any."""
    for pattern in (_LINE, _INLINE):
        options: list[str] = []
        for found in pattern.finditer(prompt):
            letter, text = found[1], found[2].strip()
            if letter == "A":
                options = [text]
            elif options and letter == ascii_uppercase[len(options) % len(ascii_uppercase)]:
                options.append(text)
        if len(options) > 1:
            return options
    return []


def _number_in(targets: Sequence[str]) -> float | None:
    """Return the number that the only target is, possibly at the end of a solution after ####; None if it is none."""
    found = _NUMBER.fullmatch(targets[0].strip()) if len(targets) == 1 else None
    return None if found is None else float(found[1].replace(",", "").replace("−", "-"))

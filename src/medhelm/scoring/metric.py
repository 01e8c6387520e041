"""Metrics: numbers for single completions. Pure functions: no file, no network, no model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

from medhelm.domain import RULES, Benchmark, Completion, Failure, Instance, Parts, Reference, Rule, Score
from medhelm.domain.completion import strip_reasoning
from medhelm.errors import DataError, NotComputed
from medhelm.io.plugins import Plugin, check_plugin_name, last_line
from medhelm.io.rows import number

ScoreFunction = Callable[[str, Instance], float]
"""The text of a completion and its instance -> a number.

Raises DataError if the instance itself cannot be scored, whatever the completion; NotComputed if something is missing
on this machine; never anything else."""


def _no_explanation(completion: str, instance: Instance, rule: Rule) -> str:  # noqa: ARG001 - the shape of explanations
    """Explain nothing."""
    return ""


@dataclass(frozen=True, slots=True)
class AnswerReader:
    """The part of a metric that finds the answer in a completion."""

    answer: str
    """Noun for what it finds, such as `option` or `number`."""
    find: Callable[[str, Instance], object]
    """The text of a completion and its instance -> the answer; None if there is none. Raises DataError as the rules
    do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A number for one completion, by the corrected rule and by the published one.

    Examples
    --------
    >>> short = Metric(
    ...     name="short",
    ...     title="Short",
    ...     description="Share of completions of at most ten words. An empty completion scores 0.",
    ...     source="This example",
    ...     corrected=lambda completion, instance: float(0 < len(completion.split()) <= 10),
    ... )
    >>> short.function("published")("Rest and fluids.", Instance(id="1", fields={}, references=()))
    1.0
    """

    name: str
    """Id, such as `exact_match`."""
    title: str
    """Heading of its column in tables."""
    description: str
    """Meaning, and the score of a completion that cannot be read."""
    source: str
    """Origin of the rules: a paper or a project."""
    corrected: ScoreFunction
    """The rule as its authors meant it; the default."""
    published: ScoreFunction | None = None
    """The rule of the published leaderboard, errors included; None if it is the corrected rule."""
    explain: Callable[[str, Instance, Rule], str] = _no_explanation
    """Explains why a readable completion does not get the best value; "" if it does, or if there is nothing to add.
    Raises DataError as the rules do."""
    parts: Callable[[str, Instance, Rule], Parts] | None = None
    """Contribution of an instance to a number that is not a mean over instances; None if it is the mean. The number is
    the mean over labels of sum of numerators / sum of denominators. Labels without a denominator are left out."""
    reads: AnswerReader | None = None
    """Finds the answer that the corrected rule scores; None if any text is scored as it is."""
    cuts: Callable[[str, Instance], bool] | None = None
    """Returns whether the metric reads only the beginning of the completion or a reference; None if it reads all."""
    wrong_completion: str = ""
    """A completion that is never correct, for `wrong_parts`; needed only if an empty one can be correct."""
    slow: bool = False
    """True if a rule may take longer than a few milliseconds. It is then called in a thread, several at once."""
    neural: bool = False
    """True if a neural network computes it. With `--cluster`, actors call it by its name."""
    descriptive: bool = False
    """True if it describes a completion without grading it. It has no best value and is never the main metric."""
    low: float = 0.0
    """Lowest value."""
    high: float = 1.0
    """Highest value."""
    open_below: bool = False
    """True if the score of an instance may lie below `low`: only the mean is cut to the scale."""
    higher_is_better: bool = True
    """False if `low` is the best value."""

    @property
    def best(self) -> float:
        """The value of a perfect completion."""
        return self.high if self.higher_is_better else self.low

    def function(self, rule: Rule) -> ScoreFunction:
        """Return the function that computes `rule`."""
        return self.published if rule == "published" and self.published else self.corrected


MAX_CHARACTERS = 1_000_000
"""Maximum characters of a completion that is scored or judged, far above any `max_tokens`. It limits scoring time."""


def apply(metrics: Sequence[Metric], instance: Instance, completion: Completion) -> tuple[Score, ...]:
    """Score one completion by each metric and rule, in the order of `metrics`, then of `RULES`.

    A failed completion has no score, only its own failure and the parts of a wrong one (`wrong_parts`). An instance
    that cannot be scored has a failure at the boundary `metric`. An empty completion is scored like any other. The
    corrected rules do not see reasoning in the text. By the published rule, the number of a benchmark with groups is
    the mean of the means of its groups.
    """
    text = completion.text or ""
    texts: dict[Rule, str] = {"corrected": text if too_long(text) else strip_reasoning(text), "published": text}
    return tuple([_score(metric, rule, instance, completion, texts[rule]) for metric in metrics for rule in RULES])


def answer_part(benchmark: Benchmark, completion: Completion) -> Completion:
    """Return the part of a completion that is scored and judged: the final answer, if the prompt asks to mark it.

    Without the mark the whole completion counts, unless it was cut: then it has no answer yet, and counts as empty.
    """
    if not benchmark.answer_after or completion.text is None or too_long(completion.text):
        return completion
    from medhelm.scoring.answers.text import final_answer  # lazy: few prompts ask for a mark

    found = final_answer(completion.text, benchmark.answer_after)
    if found is None and completion.finish_reason != "length":
        return completion
    return replace(completion, text=found or "")


def too_long(text: str) -> str:
    """Return the reason why a completion is too long to be scored or judged; "" if it is not."""
    if len(text) <= MAX_CHARACTERS:
        return ""
    return f"the completion has {len(text):,} characters; more than {MAX_CHARACTERS:,} are not scored"


def _score(metric: Metric, rule: Rule, instance: Instance, completion: Completion, text: str) -> Score:
    """Compute one number for the text that the rule sees, or the reason why it is missing."""
    if completion.failure:
        parts = wrong_parts(metric, instance, rule)
        return Score(metric=metric.name, rule=rule, value=None, failure=completion.failure, parts=parts)
    try:
        if reason := too_long(completion.text or ""):
            raise DataError(reason)
        value = metric.function(rule)(text, instance)
        parts = metric.parts(text, instance, rule) if metric.parts else {}
        cut = metric.cuts is not None and metric.cuts(text, instance)
    except NotComputed as error:
        failure = Failure("metric", "not_computed", str(error))
        return Score(metric=metric.name, rule=rule, value=None, failure=failure)
    except DataError as error:
        failure = Failure("metric", "unscorable", f"{metric.name}, instance {instance.id}: {error}")
        return Score(metric=metric.name, rule=rule, value=None, failure=failure)
    parts = parts or group_parts(instance, rule, value)
    return Score(metric=metric.name, rule=rule, value=value, parts=parts, cut=cut)


def is_unreadable(
    metric: Metric, instance: Instance, completion: Completion, scores: Sequence[Score] = ()
) -> bool | None:
    """Return whether a metric finds no answer in the text of a completion; None if that is not known.

    It is not for a failed or blank completion, for a metric that reads no answer, and for an instance that cannot be
    scored. A completion with the best score is readable: where "none" is right, it says so. `scores`: its scores.
    """
    if metric.reads is None or completion.failure or is_blank(completion) or too_long(completion.text or ""):
        return None
    if has_best(metric, scores, RULES[:1]):
        return False
    try:
        return metric.reads.find(strip_reasoning(completion.text or ""), instance) is None
    except (NotComputed, DataError):
        return None


def has_best(metric: Metric, scores: Iterable[Score], rules: Collection[Rule] = RULES) -> bool:
    """Return True if one of the scores of a completion is the best by this metric and one of these rules."""
    return any(one.metric == metric.name and one.rule in rules and one.value == metric.best for one in scores)


def is_blank(completion: Completion) -> bool:
    """Return True for a completion without text, except for reasoning; False for a failed request."""
    return completion.failure is None and not strip_reasoning(completion.text or "").strip()


def wrong_parts(metric: Metric, instance: Instance, rule: Rule) -> Parts:
    """Return the contribution of a wrong completion to a number that is not a mean: it keeps its class.

    Failures that a model caused contribute as much where they count as the worst answer. Empty where it is not known.
    """
    if metric.parts is None:
        return {}
    try:
        parts = metric.parts(metric.wrong_completion, instance, rule)
    except (NotComputed, DataError):
        return {}
    return {label: (0.0, below) for label, (_, below) in parts.items()}


def group_parts(instance: Instance, rule: Rule, value: float) -> Parts:
    """Return the contribution of a score to the mean of the means of groups, which is the published number."""
    return {instance.group: (value, 1.0)} if instance.group and rule == "published" else {}


def not_computed(reason: str) -> ScoreFunction:
    """Return a rule that computes nothing, for this reason."""

    def rule(completion: str, instance: Instance) -> float:  # noqa: ARG001 - the shape of rules
        raise NotComputed(reason)

    return rule


def metadata_text(instance: Instance, column: str) -> str:
    """Return a column of the instance's metadata. Raises DataError if it is missing."""
    try:
        return instance.metadata[column]
    except KeyError:
        raise DataError(f"column `{column}` is missing; list it under `metadata` of the benchmark") from None


def correct_references(instance: Instance) -> tuple[str, ...]:
    """Return the texts of the correct references, at least one.

    Raises
    ------
    DataError
        If no reference is correct: then no completion could be.
    """
    correct = instance.correct
    if not correct:
        raise DataError("no reference is marked as correct, so no completion can be; check the answer column")
    return correct


# --- plug-ins ---------------------------------------------------------------------------------------------------------
# Metrics of installed packages: checked once before anything is scored, and guarded while they score.
#
# An error in such a metric is a missing score with a reason, never a wrong number.

EXAMPLES = (
    (
        "B. metformin",
        Instance(
            id="example-1",
            fields={"question": "Which drug is the usual first choice in type 2 diabetes?"},
            references=(
                Reference("insulin glargine", correct=False),
                Reference("metformin"),
                Reference("glipizide", correct=False),
            ),
            choices=("insulin glargine", "metformin", "glipizide"),
            labels=("A", "B", "C"),
        ),
    ),
    (
        "Rest, fluids and paracetamol were advised.",
        Instance(
            id="example-2",
            fields={"note": "Viral infection. Rest and fluids."},
            references=(Reference("Rest and fluids."),),
        ),
    ),
    ("", Instance(id="example-3", fields={"note": "Nothing was done."}, references=(Reference("none"),))),
)
"""Completions and invented instances that every such metric is tried on: a choice, free text, an empty completion."""

_P = ParamSpec("_P")
_Result = TypeVar("_Result")


def accept_metric(plugin: Plugin, found: object) -> Metric:
    """Check the metric of a package and return it with guarded rules.

    Raises
    ------
    UserError
        Names the package. Raised for an object that is not a `Metric`, a name that differs from the entry point's, a
        wrong scale, rules that are not callable, and rules that give a value outside the scale, or two different
        values, for one of `EXAMPLES`. An example for which a rule raises DataError counts as scored.
    """
    check_plugin_name(plugin)
    if not isinstance(found, Metric):
        raise plugin.refuse(f"is {_type_in_words(found)}, where a medhelm.scoring.metric.Metric is needed")
    if problem := _first_problem(plugin, found):
        raise plugin.refuse(problem)
    metric = replace(
        found,
        corrected=_guard_rule(plugin, found, found.corrected),
        published=_guard_rule(plugin, found, found.published) if found.published else None,
        explain=_guard(plugin, found.explain),
        parts=_guard_parts(plugin, found.parts) if found.parts else None,
        reads=_guard_reader(plugin, found.reads) if found.reads else None,
    )
    for completion, instance in EXAMPLES:
        _check_example(plugin, found, completion, instance)
    return metric


def _first_problem(plugin: Plugin, metric: Metric) -> str:
    """Describe the first problem with the fields of a metric; "" if there is none."""
    if metric.name != plugin.name:
        return f"gives a metric named `{metric.name}`: entry point and metric need the same name"
    for field in ("title", "description", "source"):
        value = getattr(metric, field)
        if not isinstance(value, str) or not value.strip():
            return f"gives a metric without a `{field}`, which must be a text"
    if not all(_is_number(end) for end in (metric.low, metric.high)) or metric.low >= metric.high:
        return f"gives a metric whose scale goes from {metric.low!r} to {metric.high!r}: `low` must be below `high`"
    if metric.reads is not None and not isinstance(metric.reads, AnswerReader):
        return f"gives a metric whose `reads` is {_type_in_words(metric.reads)}: it must be an AnswerReader"
    for field in ("published", "corrected", "explain", "parts"):
        value = getattr(metric, field)
        if not callable(value) and not (field in ("published", "parts") and value is None):
            return f"gives a metric whose `{field}` is {_type_in_words(value)}: it must be a function"
    return ""


def _check_example(plugin: Plugin, metric: Metric, completion: str, instance: Instance) -> None:
    """Score an example by both rules, twice. Raises UserError if that does not work."""
    example = f"completion {completion!r}, reference {instance.expected!r}"
    for rule in RULES:
        where = f"gives a metric whose `{rule}` rule"
        try:
            first, second = (metric.function(rule)(completion, instance) for _ in range(2))
        except DataError:
            continue
        except Exception as error:  # noqa: BLE001 - code of a package
            raise plugin.refuse(
                f"{where} fails on an example: {last_line(error)} ({example}). Raise DataError "
                "for an instance that the metric cannot score"
            ) from None
        for value in (first, second):
            if problem := _out_of_scale(metric, value):
                raise plugin.refuse(f"{where} gives {problem} for an example ({example})")
        if first != second:
            raise plugin.refuse(f"{where} gives {first!r} and then {second!r} for the same example: it must be pure")


def _guard(plugin: Plugin, function: Callable[_P, _Result]) -> Callable[_P, _Result]:
    """Turn every exception of a function into DataError: one instance without a score, and the reason."""

    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except DataError:
            raise
        except Exception as error:  # noqa: BLE001 - code of a package
            raise DataError(f"{plugin.in_words} failed: {last_line(error)}") from None

    return guarded


def _guard_rule(plugin: Plugin, metric: Metric, rule: ScoreFunction) -> ScoreFunction:
    rule = _guard(plugin, rule)

    def guarded(completion: str, instance: Instance) -> float:
        value = rule(completion, instance)
        if problem := _out_of_scale(metric, value):
            raise DataError(f"{plugin.in_words} gave {problem}")
        return float(value)

    return guarded


def _guard_reader(plugin: Plugin, reader: AnswerReader) -> AnswerReader:
    return AnswerReader(str(reader.answer), _guard(plugin, reader.find))


def _guard_parts(plugin: Plugin, parts: Callable[..., Parts]) -> Callable[..., Parts]:
    parts = _guard(plugin, parts)

    def guarded(*args: Any) -> Parts:
        found = parts(*args)
        try:
            sound = all(isinstance(k, str) and _is_number(a) and _is_number(b) for k, (a, b) in found.items())
        except (AttributeError, TypeError, ValueError):
            sound = False
        if not sound:
            raise DataError(f"{plugin.in_words} gave parts that are not a mapping of labels to two numbers")
        return found

    return guarded


def _out_of_scale(metric: Metric, value: object) -> str:
    """Describe a value that is not on the metric's scale; "" for one that is."""
    if not _is_number(value):
        if isinstance(value, float):
            return f"{value!r} and not a finite number"
        return f"{_type_in_words(value)} and not a number"
    if not metric.low <= value <= metric.high:  # type: ignore[operator]
        return f"{value!r}, outside its scale from {metric.low:g} to {metric.high:g},"
    return ""


def _is_number(value: object) -> bool:
    return number(value) is not None


def _type_in_words(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"

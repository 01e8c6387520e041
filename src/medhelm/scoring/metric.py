"""What a metric is, and how one is applied. Pure: no file, no network, no model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from medhelm.domain import RULES, Completion, Failure, Instance, Parts, Rule, Score
from medhelm.errors import DataError, NotComputed

ScoreFunction = Callable[[str, Instance], float]
"""A rule of a metric: the text of a completion and its instance -> a number. Raises DataError where the instance itself
cannot be scored, whatever the answer; never anything else."""


def _unexplained(reply: str, instance: Instance, rule: Rule) -> str:  # noqa: ARG001 (the shape of explanations)
    """Nothing to say beyond the score."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A number for one completion, by two rules."""

    name: str
    """Id, such as `exact_match`."""
    title: str
    """Heading of its column in tables."""
    description: str
    """What it measures, and what an answer that cannot be read scores."""
    source: str
    """Where the rules come from."""
    published: ScoreFunction
    """The rule of the published leaderboard, faults included."""
    corrected: ScoreFunction
    """The rule as its authors meant it; the default."""
    explain: Callable[[str, Instance, Rule], str] = _unexplained
    """Why an answer that could be read does not get the best value by a rule, in words; empty if it does, if it could
    not be read, or if there is nothing to add to the score. Raises DataError as the rules do."""
    parts: Callable[[str, Instance, Rule], Parts] | None = None
    """What an instance contributes to a number that is no mean over instances; None if it is the mean. The number is
    the mean over labels of the sum of numerators by the sum of denominators, labels without a denominator left out."""
    slow: bool = False
    """Whether a rule may take longer than a few milliseconds: it is then called in a thread, several at once."""
    descriptive: bool = False
    """Whether it describes an answer without grading it: it has no best value and is no main metric."""
    low: float = 0.0
    """Worst value (best, if lower is better)."""
    high: float = 1.0
    """Best value (worst, if lower is better)."""
    higher_is_better: bool = True
    """Which end is the good one."""

    @property
    def best(self) -> float:
        """The value of a perfect answer."""
        return self.high if self.higher_is_better else self.low

    def rating(self, rule: Rule) -> ScoreFunction:
        """The function behind `rule`."""
        return self.corrected if rule == "corrected" else self.published


def apply(metrics: Sequence[Metric], instance: Instance, completion: Completion) -> tuple[Score, ...]:
    """Scores of one completion: one for each metric and rule, in the order of `metrics`, then of `RULES`.

    A completion that failed has no score and hands on its failure. An instance that cannot be scored has none either;
    its failure has the boundary `metric`. An empty answer is an answer. By the published rule an instance of a group
    contributes to the mean of its group, and the number is the mean of the groups.
    """
    return tuple(_score(metric, rule, instance, completion) for metric in metrics for rule in RULES)


def _score(metric: Metric, rule: Rule, instance: Instance, completion: Completion) -> Score:
    """One number, or the reason why there is none."""
    if completion.failure:
        return Score(metric=metric.name, rule=rule, value=None, failure=completion.failure)
    reply = completion.text or ""
    try:
        value = metric.rating(rule)(reply, instance)
        parts = metric.parts(reply, instance, rule) if metric.parts else {}
    except NotComputed as error:
        failure = Failure("metric", "not_computed", str(error))
        return Score(metric=metric.name, rule=rule, value=None, failure=failure)
    except DataError as error:
        failure = Failure("metric", "unscorable", f"{metric.name}, instance {instance.id}: {error}")
        return Score(metric=metric.name, rule=rule, value=None, failure=failure)
    return Score(metric=metric.name, rule=rule, value=value, parts=parts or group_parts(instance, rule, value))


def group_parts(instance: Instance, rule: Rule, value: float) -> Parts:
    """What a score contributes to the mean of the means of groups, which is the number by the published rule."""
    return {instance.group: (value, 1.0)} if instance.group and rule == "published" else {}


def correct_references(instance: Instance) -> tuple[str, ...]:
    """Return the texts of the correct references, at least one.

    Raises
    ------
    DataError
        If no reference is correct: then no completion could be.
    """
    if not instance.correct:
        raise DataError("no reference is marked as correct, so no answer could be right; check the answer column")
    return instance.correct

"""Aggregate the judgments of all judges into the jury's score of a completion, by both rules. Calls no model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from statistics import fmean

from medhelm.domain import (
    JURY,
    RULES,
    Benchmark,
    Completion,
    Criterion,
    Failure,
    InjectionSign,
    Instance,
    JudgeReply,
    Judgment,
    Jury,
    JuryVerdict,
    Rubric,
    Rule,
    Score,
)
from medhelm.domain.reasoning import strip_reasoning
from medhelm.errors import DataError
from medhelm.scoring.metric import Metric, group_parts, not_computed, too_long

Cells = Mapping[str, Sequence[Judgment]]
"""Judge -> its judgments of one completion, in the order of the criteria."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeVerdict:
    """One reply of a judge, its judgments, and the requests it took."""

    reply: JudgeReply
    """The reply."""
    judgments: tuple[Judgment, ...]
    """One for each criterion in the prompt."""
    requests_sent: int = 0
    """Requests sent for it, retries included."""
    cached: bool = False
    """True if the reply was already stored or cached."""


def jury_metric(rubric: Rubric) -> Metric:
    """Return the jury's score as a metric, on the scale of the rubric."""
    from medhelm.domain.titles import metric_title  # lazy: a run needs no other title

    return Metric(
        name=JURY,
        title=metric_title(JURY),
        description=(
            "Mean over judges of each judge's mean over the criteria of the rubric. An empty completion gets the worst "
            "grade; a completion graded by too few judges has no score."
        ),
        source="MedHELM (Bedi et al., 2025), section on the LLM jury; points as in HealthBench (Arora et al., 2025)",
        corrected=not_computed("judges are needed: name some with --judge"),
        low=rubric.low,
        high=rubric.high,
        open_below=rubric.open_below,
    )


def jury_verdict(
    benchmark: Benchmark, instance: Instance, completion: Completion, jury: Jury, verdicts: Sequence[JudgeVerdict]
) -> JuryVerdict:
    """Aggregate all replies of the judges about a completion.

    Corrected rule: each judge that graded every criterion counts as the mean of its grades (for points, as the share of
    points earned, below 0 if harms outweigh). The score is the mean over these judges, or missing if there are fewer
    than the jury needs. An empty completion gets the worst grade; a missing reply of a judge does not lower the score.

    Published rule: the mean over all integer grades of all first replies that the published tool can read, or its
    default. For points, as the corrected rule. Verdicts count with or without the verification code of their prompt.
    """
    if completion.failure:
        return JuryVerdict(scores=tuple(_missing(rule, completion.failure) for rule in RULES))
    assert benchmark.rubric is not None, "only benchmarks with a rubric are judged"
    rubric = benchmark.rubric
    if is_blank(completion):
        published = rubric.published_default if rubric.form == "grades" else rubric.low
        values: Mapping[Rule, float] = {"corrected": rubric.low, "published": published}
        return JuryVerdict(scores=tuple(_score(rule, instance, values[rule]) for rule in RULES))
    if reason := too_long(completion.text or ""):
        failure = Failure("metric", "unscorable", f"{JURY}, instance {instance.id}: {reason}")
        return JuryVerdict(scores=tuple(_missing(rule, failure) for rule in RULES))
    criteria = instance.criteria or rubric.criteria
    parts = [criteria] if rubric.form == "grades" else [(criterion,) for criterion in criteria]
    cells = {judge.name: _judgments_of(judge.name, parts, verdicts) for judge in jury.judges}
    complete = {name: own for name, own in cells.items() if all(cell.failure is None for cell in own)}
    judgments = tuple(cell for own in cells.values() for cell in own)
    enough = len(complete) >= jury.min_judges
    return JuryVerdict(
        scores=(
            _jury_score("corrected", rubric, criteria, complete, jury, instance),
            _published_grades(rubric, criteria, cells, verdicts, instance, completion)
            if rubric.form == "grades"
            else _published_points(rubric, parts, jury, verdicts, instance, completion),
        ),
        judgments=judgments,
        coverage=sum(cell.failure is None for cell in judgments) / len(judgments),
        subscores=_subscores(rubric, criteria, complete) if enough else {},
    )


def is_blank(completion: Completion) -> bool:
    """Return True if a completion is empty, or holds nothing but reasoning: then no judge is called."""
    return completion.failure is None and not strip_reasoning(completion.text or "").strip()


def is_judged(completion: Completion) -> bool:
    """Return True if judges are asked about a completion: it did not fail, and is neither empty nor too long."""
    return not (completion.failure or is_blank(completion) or too_long(completion.text or ""))


def injection_signs(benchmark: Benchmark, instance: Instance, completion: Completion) -> tuple[InjectionSign, ...]:
    """Find signs of prompt injection in a completion."""
    from medhelm.scoring.jury.prompt_injection import find_injections  # lazy: most runs have no judges

    if not is_judged(completion):
        return ()
    criteria = instance.criteria or (benchmark.rubric.criteria if benchmark.rubric else ())
    return find_injections(strip_reasoning(completion.text or ""), [criterion.name for criterion in criteria])


def shown_texts(instance: Instance, text: str) -> tuple[str, ...]:
    """Return all texts that a judge may have read: a verdict quoted from them does not count."""
    return (text, *instance.fields.values(), *(turn.text for turn in instance.turns), *instance.correct)


def _judgments_of(judge: str, parts: Sequence[Sequence[Criterion]], verdicts: Sequence[JudgeVerdict]) -> list[Judgment]:
    """Return the judgments of one judge: of its attempts the most readable one, the first of equals."""
    cells: list[Judgment] = []
    for part, criteria in enumerate(parts):
        attempts = sorted(
            (one for one in verdicts if one.reply.judge == judge and one.reply.prompt_index == part),
            key=lambda one: one.reply.attempt,
        )
        if attempts:
            cells += min((one.judgments for one in attempts), key=_n_missing)
        else:
            failure = Failure("judge", "not_asked", f"{judge} was not asked")
            cells += [
                Judgment(judge=judge, criterion=c.name, score=None, points=c.points, failure=failure) for c in criteria
            ]
    return cells


def _n_missing(judgments: Iterable[Judgment]) -> int:
    return sum(judgment.failure is not None for judgment in judgments)


def _jury_score(
    rule: Rule, rubric: Rubric, criteria: Sequence[Criterion], complete: Cells, jury: Jury, instance: Instance
) -> Score:
    """Return the mean over complete judges, or the reason why it is missing."""
    if len(complete) < jury.min_judges:
        text = f"{len(complete)} of {len(jury.judges)} judges graded every criterion, and {jury.min_judges} are needed"
        return _missing(rule, Failure("judge", "too_few_judges", text))
    return _score(rule, instance, fmean(_judge_score(rubric, criteria, own) for own in complete.values()))


def _judge_score(rubric: Rubric, criteria: Sequence[Criterion], own: Sequence[Judgment]) -> float:
    """Return the score of one complete judge: the mean of its grades, or the share of points earned.

    That share is at most 1, and below 0 if harms outweigh: only means over completions are cut to the scale.
    """
    scores = [cell.score or 0.0 for cell in own]
    if rubric.form == "grades":
        sides = zip(criteria, scores, strict=True)
        return fmean(score if c.higher_is_better else rubric.low + rubric.high - score for c, score in sides)
    earned = fsum(c.points * score for c, score in zip(criteria, scores, strict=True))
    return earned / fsum(c.points for c in criteria if c.points > 0)


def _published_grades(
    rubric: Rubric,
    criteria: Sequence[Criterion],
    cells: Cells,
    verdicts: Sequence[JudgeVerdict],
    instance: Instance,
    completion: Completion,
) -> Score:
    from medhelm.scoring.jury.parsing import published_grades

    names = [criterion.name for criterion in criteria]
    shown = shown_texts(instance, completion.text or "")
    grades: list[float] = []
    for reply in [one.reply for one in verdicts]:
        if reply.attempt == 0 and reply.judge in cells and reply.completion.text is not None:
            try:
                grades += published_grades(reply.completion.text, names, shown=shown) or []
            except DataError as error:
                return _missing("published", Failure("judge", "unscorable", f"{reply.judge}: {error}"))
    return _score("published", instance, fmean(grades) if grades else rubric.published_default)


def _published_points(
    rubric: Rubric,
    parts: Sequence[Sequence[Criterion]],
    jury: Jury,
    verdicts: Sequence[JudgeVerdict],
    instance: Instance,
    completion: Completion,
) -> Score:
    """Score as by the corrected rule, with the decisions that lack nothing but the verification code."""
    from medhelm.scoring.jury.parsing import parse_judgments

    shown = shown_texts(instance, completion.text or "")

    def without_code(one: JudgeVerdict) -> JudgeVerdict:
        if not any(cell.failure and cell.failure.code == "unverified" for cell in one.judgments):
            return one
        reply = one.reply
        found = parse_judgments(reply.judge, parts[reply.prompt_index], reply.completion, rubric=rubric, shown=shown)
        return replace(one, judgments=found)

    read = list(map(without_code, verdicts))
    cells = {judge.name: _judgments_of(judge.name, parts, read) for judge in jury.judges}
    complete = {name: own for name, own in cells.items() if all(cell.failure is None for cell in own)}
    return _jury_score("published", rubric, [one for part in parts for one in part], complete, jury, instance)


def _subscores(rubric: Rubric, criteria: Sequence[Criterion], complete: Cells) -> dict[str, float]:
    """Return scores on parts of the rubric, by the judges behind the score.

    These are the mean grade of each criterion or, for points, the share of points earned on the criteria with a tag.
    """
    if rubric.form == "grades":
        return {c.name: fmean(own[i].score or 0.0 for own in complete.values()) for i, c in enumerate(criteria)}
    labels = {}
    for tag in sorted({tag for criterion in criteria for tag in criterion.tags}):
        places = [i for i, criterion in enumerate(criteria) if tag in criterion.tags]
        tagged = [criteria[i] for i in places]
        if any(criterion.points > 0 for criterion in tagged):
            labels[tag] = fmean(_judge_score(rubric, tagged, [own[i] for i in places]) for own in complete.values())
    return labels


def _score(rule: Rule, instance: Instance, value: float) -> Score:
    return Score(metric=JURY, rule=rule, value=value, parts=group_parts(instance, rule, value))


def _missing(rule: Rule, failure: Failure) -> Score:
    return Score(metric=JURY, rule=rule, value=None, failure=failure)

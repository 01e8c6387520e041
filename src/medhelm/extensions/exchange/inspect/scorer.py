"""MedHELM scores as an Inspect scorer and metric.

The scorer returns one value for each metric and rule: `exact_match` under the corrected rule, `exact_match_published`
under the published rule. A missing value is unscored (nan), never 0, with the reason next to it. The metric computes
the benchmark's score from them, with MedHELM's interval.

Inspect's types are imported at the top because it inspects the signature of a metric. Our own modules are imported when
something is scored, so that listing tasks is fast.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import anyio
from inspect_ai.scorer import (
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    mean,
    metric,
    scorer,
)
from inspect_ai.solver import TaskState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from medhelm.domain import Completion, Failure, Instance
    from medhelm.domain import Score as OurScore
    from medhelm.errors import MedHelmError
    from medhelm.extensions.exchange.inspect.jury import TaskJuryResult
    from medhelm.scoring.metric import Metric as OurMetric


Judges = str | list[str] | None
"""Names of models in Inspect: a list, or a string separated by commas."""

SHOWN_CHARACTERS = 200
"""Maximum characters of a completion that is repeated next to its score."""


def score_name(name: str, rule: str) -> str:
    """Return the name of a metric under a rule in an Inspect log."""
    return name if rule == "corrected" else f"{name}_{rule}"


def judge_names(judges: Judges) -> list[str]:
    """Return the given judges, in order. Raises: UserError for duplicates."""
    from medhelm.errors import UserError

    listed = judges.split(",") if isinstance(judges, str) else [str(name) for name in judges or ()]
    names = [name.strip() for name in listed if name.strip()]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"duplicate judge: {', '.join(twice)}. Name each judge once.")
    return names


def prerequisite_error(error: MedHelmError) -> Exception:
    """Convert an error to one that Inspect shows without a traceback, with its markup characters escaped."""
    from inspect_ai._util.error import PrerequisiteError
    from rich.markup import escape

    from medhelm.errors import MissingError

    help_ = " In an Inspect task, use -T data=DIR." if isinstance(error, MissingError) else ""
    return PrerequisiteError(escape(f"medhelm: {error}{help_}"))


@scorer(metrics={"*": [mean()]}, name="medhelm")
def medhelm_scores(
    benchmark: str,
    data: str | None = None,
    tier: str = "real",
    sample: str = "default",
    limit: int | None = None,
    seed: int = 0,
    judges: Judges = None,
    min_judges: int | None = None,
    judge_tokens: int | None = None,
) -> Scorer:
    """Score with every metric of a benchmark under both rules; free text is scored by `judges`, if there are any.

    Parameters: those of the task, whose instances are found by the id of the sample.
    """
    from medhelm.errors import MedHelmError
    from medhelm.extensions.exchange.inspect.instances import InstanceSelector, completion_of, load_instances
    from medhelm.extensions.exchange.inspect.jury import TaskJury
    from medhelm.scoring.metrics import metrics_of

    selector = InstanceSelector(benchmark=benchmark, data=data, tier=tier, sample=sample, limit=limit, seed=seed)
    try:
        dataset, instances = load_instances(selector)
        names = judge_names(judges) if dataset.benchmark.rubric else []
        jury = TaskJury(names, at_least=min_judges, reply_tokens=judge_tokens) if names else None
    except MedHelmError as error:
        raise prerequisite_error(error) from error
    metrics = metrics_of(dataset.benchmark, judged=jury is not None)

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 (the shape of scorers)
        instance = instances.get(str(state.sample_id))
        if instance is None:
            return Score(value=math.nan, explanation=f"{benchmark} has no instance {state.sample_id}")
        completion = completion_of(state.output)
        if completion.failure:
            failure = completion.failure
            return Score(value=math.nan, explanation=failure.message, metadata={"failure": failure.code})
        jury_result = await jury.judge(dataset.benchmark, instance, completion) if jury else None
        own = await _apply_metrics(metrics, instance, completion)
        return _as_score(metrics, instance, completion, own, jury_result)

    return score


async def _apply_metrics(
    metrics: Sequence[OurMetric], instance: Instance, completion: Completion
) -> tuple[OurScore, ...]:
    """Return the scores that need no judge; slow metrics run in a thread, so that requests continue."""
    from medhelm.domain import JURY
    from medhelm.scoring.metric import apply

    own = [one for one in metrics if one.name != JURY]
    if any(one.slow for one in own):
        return await anyio.to_thread.run_sync(apply, own, instance, completion)
    return apply(own, instance, completion)


def _as_score(
    metrics: Sequence[OurMetric],
    instance: Instance,
    completion: Completion,
    own: Sequence[OurScore],
    jury_result: TaskJuryResult | None,
) -> Score:
    """Return all values of a completion as one Inspect score, in the order of the metrics."""
    scores = (*own, *(jury_result.judged.scores if jury_result else ()))
    order = {one.name: place for place, one in enumerate(metrics)}
    scores = tuple(sorted(scores, key=lambda one: order[one.metric]))
    text = completion.text or ""
    parts = {score_name(s.metric, s.rule): s.parts for s in scores if s.parts}
    failures = {score_name(s.metric, s.rule): s.failure for s in scores if s.failure}
    metadata: dict[str, Any] = {}
    if parts:
        metadata["parts"] = parts
    if failures:
        metadata["failures"] = {name: failure.message for name, failure in failures.items()}
    if jury_result:
        metadata |= jury_result.metadata()
    return Score(
        value={score_name(s.metric, s.rule): math.nan if s.value is None else s.value for s in scores},
        answer=text if len(text) <= SHOWN_CHARACTERS else None,
        explanation=_explanation(metrics, instance, text, failures, jury_result) or None,
        metadata=metadata or None,
    )


def _explanation(
    metrics: Sequence[OurMetric],
    instance: Instance,
    text: str,
    failures: dict[str, Failure],
    jury_result: TaskJuryResult | None,
) -> str:
    """Explain the scores, in lines of text; metrics that are not installed are omitted."""
    from medhelm.domain import JURY, RULES
    from medhelm.errors import DataError

    lines = [f"{name}: {one.message}" for name, one in failures.items() if one.code != "not_computed"]
    for one in metrics:
        for rule in RULES if one.name != JURY else ():
            try:
                if words := one.explain(text, instance, rule):
                    lines.append(f"{score_name(one.name, rule)}: {words}")
            except DataError:
                pass  # reported with the failures
    return "\n".join([*lines, *(jury_result.explained() if jury_result else ())])


@metric(scores="unreduced")
def estimate(metric: str, rule: str, low: float, high: float, pooled: bool = False, open_below: bool = False) -> Metric:
    """Compute the score of a benchmark by one metric and rule, with its 95% interval: `value`, `low`, `high`.

    Parameters: metric and rule, as named in our tables; low and high, ends of the metric's scale; pooled, True if the
    score is not a mean over instances, but computed from the `parts` next to the scores; open_below, True if single
    scores may lie below `low`. Instances in one cluster, and epochs of one sample, are not treated as independent.
    """
    name = score_name(metric, rule)

    def compute(scores: list[SampleScore]) -> dict[str, float]:
        import numpy as np

        from medhelm.analysis.ratios import estimate_ratios

        values = np.array([one.score.as_float() for one in scores], dtype=float)
        parts = [((one.score.metadata or {}).get("parts") or {}).get(name, {}) for one in scores] if pooled else None
        found = estimate_ratios(values, parts, _clusters(scores), low=low, high=high, open_below=open_below)
        if found is None:
            return {"value": math.nan, "low": math.nan, "high": math.nan}
        return {"value": found.value, "low": found.low, "high": found.high}

    return compute


def _clusters(scores: Sequence[SampleScore]) -> list[str] | None:
    """Return the cluster of each score, distinct from all sample ids; None if all are independent."""
    ids = [str(one.sample_id) for one in scores]
    named = [(one.sample_metadata or {}).get("cluster") for one in scores]
    if len(set(ids)) == len(ids) and not any(named):
        return None
    return [json.dumps(["cluster", own] if own else ["sample", key]) for own, key in zip(named, ids, strict=True)]

"""Read the judgments that HELM stored: for each instance one object per judge, by the judge's short name.

    annotations: {ANNOTATOR: {"prompt_text": text or null, JUDGE: {CRITERION: {"score": ..., "explanation": ...}}}}

A judge that failed or whose completion could not be parsed is missing, without a reason. An annotation without a prompt
belongs to an empty completion, which is not sent to judges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from medhelm.domain import Failure, Judgment, Model
from medhelm.extensions.exchange.fields import model_of

DROPPED = "not_kept"
"""Failure code of a judgment that is missing in HELM's files."""

DEFAULT_JUDGES = {
    "gpt": "openai/gpt-4o-2024-05-13",
    "llama": "meta/llama-3.3-70b-instruct",
    "claude": "anthropic/claude-3-7-sonnet-20250219",
}
"""Short name -> model, for old runs, whose judges were defined in HELM's code and not in its files."""

_NO_JUDGE = ("prompt_text", "empty_output_equivalence_judgement")


@dataclass(frozen=True, slots=True, kw_only=True)
class HelmJury:
    """The judges of a run, and all their judgments."""

    judges: tuple[Model, ...] = ()
    """The judges; empty for a run without judges."""
    metric: str = ""
    """HELM's name of their score; empty for a run without judges."""
    judgments: Mapping[str, Sequence[Judgment]] = field(default_factory=dict)
    """Instance -> each judge's judgment of each criterion; instances with an empty completion are missing."""
    prompt: str = ""
    """The judges' prompt, with placeholders; empty if the files do not contain it."""
    default: float | None = None
    """HELM's score for an instance without judgments; None if the files do not contain it."""
    issues: Counter[str] = field(default_factory=Counter)
    """Irregularity -> number of occurrences."""


def read_jury(spec: Mapping[str, Any], states: Sequence[tuple[str, Mapping[str, Any]]]) -> HelmJury:
    """Read the jury of a run. `states`: instance id and request state of each instance, in order."""
    metrics = (one for one in spec.get("metric_specs", ()) if str(one.get("class_name", "")).endswith("LLMJuryMetric"))
    metric: Mapping[str, Any] = next(metrics, {})
    arguments: Mapping[str, Any] = metric.get("args", {})
    name = _annotation_key(arguments.get("scenario_name"), states)
    if not name:
        models = arguments.get("annotator_models") or {}
        return HelmJury(
            judges=tuple(_models(list(models), models).values()),
            metric=str(arguments.get("metric_name", "")),
            default=arguments.get("default_score"),
        )
    annotators = [one.get("args", {}) for one in spec.get("annotators", ())]
    annotator: Mapping[str, Any] = next((one for one in annotators if one.get("name") == name), {})
    models = arguments.get("annotator_models") or next(
        (given for one in (annotator, *annotators) if (given := one.get("annotator_models"))), None
    )
    annotations = {id_: state["annotations"].get(name) for id_, state in states if state.get("annotations")}
    verdicts = {id_: _verdicts(annotation) for id_, annotation in annotations.items() if _was_judged(annotation)}
    names = list(models) if models else list(dict.fromkeys(judge for own in verdicts.values() for judge in own))
    judges = _models(names, models or {})
    criteria = list(annotator.get("annotation_criteria", ())) or _common_criteria(verdicts)
    n_missing = len(states) - len(annotations)
    return HelmJury(
        judges=tuple(judges.values()),
        metric=str(arguments.get("metric_name", f"{name}_accuracy")),
        judgments={
            id_: [judgment for one in names for judgment in _judgments(judges[one].name, own.get(one), criteria)]
            for id_, own in verdicts.items()
        },
        prompt=str(annotator.get("prompt_template", "")),
        default=arguments.get("default_score", 0.0 if annotator.get("prompt_template") else None),
        issues=Counter({f"{n_missing} instances are not annotated": 1} if n_missing > 0 else {}),
    )


def _annotation_key(expected: object, states: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return the key of the judges' annotations: the one that the metric names, or the first with scores; else ""."""
    for _, state in states:
        for name, annotation in (state.get("annotations") or {}).items():
            if name == expected or (expected is None and _verdicts(annotation)):
                return str(name)
    return ""


def _was_judged(annotation: object) -> bool:
    """Return True if the completion was sent to judges."""
    return isinstance(annotation, dict) and annotation.get("prompt_text") is not None


def _verdicts(annotation: object) -> dict[str, Mapping[str, Any]]:
    """Return the verdict of each judge in an annotation; empty if it is not from judges."""
    if not isinstance(annotation, dict):
        return {}
    own = {str(k): v for k, v in annotation.items() if k not in _NO_JUDGE and isinstance(v, dict)}
    return {judge: v for judge, v in own.items() if any(isinstance(c, dict) and "score" in c for c in v.values())}


def _common_criteria(verdicts: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[str]:
    """Return the criteria that all verdicts have, in the order of the first verdict."""
    flat = [verdict for by_judge in verdicts.values() for verdict in by_judge.values()]
    return [name for name in flat[0] if all(name in verdict for verdict in flat)] if flat else []


def _models(short_names: Sequence[str], models: Mapping[str, Any]) -> dict[str, Model]:
    """Map short names to judges; if two are deployments of one model, the name includes the deployment."""
    names = {one: str(models.get(one, {}).get("model_name") or DEFAULT_JUDGES.get(one, one)) for one in short_names}
    found = {}
    for one, name in names.items():
        deployment = str(models.get(one, {}).get("model_deployment") or one)
        is_unique = list(names.values()).count(name) == 1
        found[one] = replace(model_of(name), name=name if is_unique else f"{name}@{deployment}")
    return found


def _judgments(judge: str, verdict: Mapping[str, Any] | None, criteria: Sequence[str]) -> list[Judgment]:
    """Return the judgments of one judge on one completion: on each criterion, and on any others it scored."""
    if verdict is None:
        failure = Failure("judge", DROPPED, "HELM stored nothing from this judge: it failed, or was not readable")
        return [Judgment(judge=judge, criterion=name, score=None, failure=failure) for name in criteria]
    names = [*criteria, *(name for name in verdict if name not in criteria)]
    return [_judgment(judge, name, verdict.get(name)) for name in names]


def _judgment(judge: str, name: str, cell: object) -> Judgment:
    score = cell.get("score") if isinstance(cell, dict) else None
    explanation = str(cell.get("explanation") or "") if isinstance(cell, dict) else ""
    try:
        number = float(score)  # type: ignore[arg-type]
        if not isfinite(number):
            raise ValueError(number)
    except (TypeError, ValueError):
        failure = Failure("judge", "not_a_grade", f"`score` is {str(score)[:100]!r}, not a number")
        return Judgment(judge=judge, criterion=name, score=None, failure=failure, explanation=explanation)
    return Judgment(judge=judge, criterion=name, score=number, explanation=explanation)

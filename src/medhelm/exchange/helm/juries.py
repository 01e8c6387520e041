"""Read the judgments that HELM stored: for each instance one object per judge, by the judge's short name.

    annotations: {ANNOTATOR: {"prompt_text": text or null, JUDGE: {CRITERION: {"score": ..., "explanation": ...}}}}

A judge that failed or whose completion could not be parsed is missing, without a reason. An annotation without a prompt
belongs to an empty completion, which is not sent to judges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from medhelm.domain import Failure, Judgment, Model

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
    odd: Counter[str] = field(default_factory=Counter)
    """Irregularity -> number of occurrences."""


def read_jury(spec: Mapping[str, Any], asked: Sequence[tuple[str, Mapping[str, Any]]]) -> HelmJury:
    """Read the jury of a run. `asked`: instance id and request state of each instance, in order."""
    metric = _jury_metric(spec)
    arguments = metric.get("args", {}) if metric else {}
    name = _annotator(arguments.get("scenario_name"), asked)
    if not name:
        models = arguments.get("annotator_models") or {}
        return HelmJury(
            judges=tuple(_models(list(models), models).values()),
            metric=str(arguments.get("metric_name", "")),
            default=arguments.get("default_score"),
        )
    annotator: Mapping[str, Any] = next(
        (one for one in spec.get("annotators", ()) if one.get("args", {}).get("name") == name), {}
    )
    annotators = [annotator, *spec.get("annotators", ())]
    models = arguments.get("annotator_models") or next(
        (found for one in annotators if (found := one.get("args", {}).get("annotator_models"))), None
    )
    annotations = {id_: one["annotations"].get(name) for id_, one in asked if one.get("annotations")}
    said = {id_: _of_judges(annotation) for id_, annotation in annotations.items() if _was_asked(annotation)}
    short = list(models) if models else list(dict.fromkeys(judge for own in said.values() for judge in own))
    judges = _models(short, models or {})
    given = annotator.get("args", {})
    criteria = list(given.get("annotation_criteria", ())) or _criteria(said)
    odd = Counter(
        {f"{len(asked) - len(annotations)} instances are not annotated": 1} if len(annotations) < len(asked) else {}
    )
    return HelmJury(
        judges=tuple(judges.values()),
        metric=str(arguments.get("metric_name", f"{name}_accuracy")),
        judgments={
            id_: [cell for one in short for cell in _cells(judges[one].name, own.get(one), criteria)]
            for id_, own in said.items()
        },
        prompt=str(given.get("prompt_template", "")),
        default=arguments.get("default_score", 0.0 if given.get("prompt_template") else None),
        odd=odd,
    )


def _jury_metric(spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
    named = [one for one in spec.get("metric_specs", ()) if str(one.get("class_name", "")).endswith("LLMJuryMetric")]
    return named[0] if named else None


def _annotator(named: object, asked: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return the key of the judges' annotations: the one that the metric names, or the first that looks like it."""
    for _, one in asked:
        for name, annotation in (one.get("annotations") or {}).items():
            if name == named or (named is None and _of_judges(annotation)):
                return str(name)
    return ""


def _was_asked(annotation: object) -> bool:
    return isinstance(annotation, dict) and annotation.get("prompt_text") is not None


def _of_judges(annotation: object) -> dict[str, Mapping[str, Any]]:
    """Return the verdict of each judge in a judges' annotation; empty for other annotations."""
    if not isinstance(annotation, dict):
        return {}
    own = {str(k): v for k, v in annotation.items() if k not in _NO_JUDGE and isinstance(v, dict)}
    return {judge: v for judge, v in own.items() if any(isinstance(c, dict) and "score" in c for c in v.values())}


def _criteria(said: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[str]:
    """Return the criteria that all verdicts have, in the order of the first."""
    verdicts = [verdict for own in said.values() for verdict in own.values()]
    return [name for name in verdicts[0] if all(name in verdict for verdict in verdicts)] if verdicts else []


def _models(short: Sequence[str], models: Mapping[str, Any]) -> dict[str, Model]:
    """Map short names to judges; if two are deployments of one model, the name includes the deployment."""
    names = {}
    for one in short:
        names[one] = str(models.get(one, {}).get("model_name") or DEFAULT_JUDGES.get(one, one))
    found = {}
    for one, name in names.items():
        deployment = str(models.get(one, {}).get("model_deployment") or one)
        shown = name if list(names.values()).count(name) == 1 else f"{name}@{deployment}"
        provider, slash, rest = name.partition("/")
        found[one] = Model(name=shown, provider=provider if slash else "", remote_name=rest if slash else name)
    return found


def _cells(judge: str, verdict: Mapping[str, Any] | None, criteria: Sequence[str]) -> list[Judgment]:
    """Return the judgments of one judge on one completion: on each criterion, and on any others it scored."""
    if verdict is None:
        failure = Failure("judge", DROPPED, "HELM stored nothing from this judge: it failed, or was not readable")
        return [Judgment(judge=judge, criterion=name, score=None, failure=failure) for name in criteria]
    names = [*criteria, *(name for name in verdict if name not in criteria)]
    return [_cell(judge, name, verdict.get(name)) for name in names]


def _cell(judge: str, name: str, cell: object) -> Judgment:
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

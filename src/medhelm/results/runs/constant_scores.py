"""Scores of a constant answer, from the options and references in a store: `baseline/majority` without a run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from string import ascii_uppercase

import numpy as np

from medhelm.analysis.ratios import linearized
from medhelm.domain import Completion, ConstantBaseline, Instance, Reference, Rule
from medhelm.errors import StoreError
from medhelm.scoring.metric import Metric, apply
from medhelm.scoring.metrics import METRICS
from medhelm.storage.runs import read_references

MOST = 50_000
"""Most instances of a benchmark that are scored: with more, the mean of the constant answer is enough."""

SAME = 1e-9
"""Largest difference between two values that are the same mean."""


def constant_scores(prompts: Path, baseline: ConstantBaseline, metric: str, rule: Rule) -> dict[str, float] | None:
    """Score the constant answer on every instance of a prompts file.

    The prompts file does not hold what some metrics need, such as the limits of a calculation. So the scores count only
    if their mean is the one that was computed from the data.

    Parameters: metric, name of the benchmark's main one. Returns: instance id -> score in the metric's own unit; None
    if the scores cannot be computed.
    """
    known, mean = METRICS.if_usable(metric), baseline.values.get(rule)
    if known is None or mean is None:
        return None
    with suppress(StoreError):
        stored = read_references(prompts)
        for form in ("letters", "texts") if len(stored) <= MOST else ():
            instances = [_instance(name, *found, form) for name, found in stored.items()]
            scores = _scores(instances, baseline.answer, known, rule)
            if len(scores) and not np.isnan(scores).any() and abs(float(scores.mean()) - mean) <= SAME:
                return dict(zip(stored, scores.tolist(), strict=True))
    return None


def _instance(name: str, choices: list[str], references: list[tuple[str, bool]], form: str) -> Instance:
    """Return an instance as metrics see it. `form`: whether completions name options by letters or by their texts."""
    return Instance(
        id=name,
        fields={},
        references=tuple(Reference(text, correct) for text, correct in references),
        choices=tuple(choices),
        labels=tuple(ascii_uppercase[: len(choices)] if form == "letters" else choices),
    )


def _scores(instances: Sequence[Instance], answer: str, metric: Metric, rule: Rule) -> np.ndarray:
    """Return the score of an answer on each instance, nan where it has none."""
    completion = Completion(text=answer)
    own = [score for one in instances for score in apply([metric], one, completion) if score.rule == rule]
    values = np.array([np.nan if score.value is None else score.value for score in own])
    return linearized(values, [score.parts for score in own] if metric.parts else None)

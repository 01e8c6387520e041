"""Compute the constant baseline of a benchmark: the score of its most frequent reference given to every instance.

It is stored once for all models, like the prompts.
"""

from __future__ import annotations

import math
from array import array
from pathlib import Path

import numpy as np

from medhelm.analysis.means import Floats
from medhelm.analysis.ratios import linearized
from medhelm.benchmarks.data.dataset import Dataset
from medhelm.benchmarks.prompts import render
from medhelm.domain import RULES, Completion, ConstantBaseline, Parts, Rule
from medhelm.models.providers.baseline import most_frequent_answer
from medhelm.scoring.metric import apply
from medhelm.scoring.metrics import metrics_of
from medhelm.storage.constant_baselines import write_baseline
from medhelm.storage.runs import write_prompts


def store_prompts_and_baseline(dataset: Dataset, prompts: Path, baseline: Path) -> None:
    """Store the prompts and the constant baseline, which all models share."""
    write_prompts(prompts, ((instance, render(dataset.benchmark, instance)) for instance in dataset))
    write_baseline(baseline, majority_baseline(dataset))


def majority_baseline(dataset: Dataset) -> ConstantBaseline | None:
    """Score the most frequent reference as the completion of every instance, by the first metric that needs no judge.

    None if no reference occurs twice, or if only judges can score the benchmark.
    """
    metrics = metrics_of(dataset.benchmark, judged=False, harness=dataset.origin.harness if dataset.origin else None)
    if not metrics:
        return None
    metric = metrics[0]
    answer = most_frequent_answer(dataset)
    n = sum(instance.expected == answer for instance in dataset)
    if n < 2:
        return None
    own: dict[Rule, array[float]] = {rule: array("d") for rule in RULES}
    pooled = {rule: metric.parts or (dataset.benchmark.group_column and rule == "published") for rule in RULES}
    parts: dict[Rule, list[Parts]] = {rule: [] for rule in RULES}
    completion = Completion(text=answer)
    for instance in dataset:
        for score in apply([metric], instance, completion):
            own[score.rule].append(math.nan if score.value is None else score.value)
            if pooled[score.rule]:
                parts[score.rule].append(score.parts)
    values = {rule: _number(linearized(np.array(own[rule]), parts[rule] if pooled[rule] else None)) for rule in RULES}
    return ConstantBaseline(answer=answer, share=n / dataset.n, values=values, metric=metric.name)


def _number(values: Floats) -> float | None:
    """Return the mean; None if all values are missing."""
    return None if np.isnan(values).all() else float(np.nanmean(values))

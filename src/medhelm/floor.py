"""The floor of a benchmark: what its most frequent right answer scores when it is given to every question."""

from __future__ import annotations

import numpy as np

from medhelm.analysis.pooling import linearised
from medhelm.benchmarks.dataset import Dataset
from medhelm.domain import RULES, Completion, Floor
from medhelm.models.providers.baseline import most_frequent_answer
from medhelm.scoring.metric import apply
from medhelm.scoring.metrics import METRICS


def floor_of(dataset: Dataset) -> Floor | None:
    """Give the same answer to every question of `dataset`, and score it by the main metric.

    None where no right answer occurs twice: then there is no frequent one to give.
    """
    answer = most_frequent_answer(dataset)
    n = sum(instance.expected == answer for instance in dataset)
    if n < 2:
        return None
    metric = METRICS[dataset.benchmark.main_metric]
    scores = [apply([metric], instance, Completion(text=answer)) for instance in dataset]
    values = {}
    for position, rule in enumerate(RULES):
        of_rule = [both[position] for both in scores]
        own = np.array([np.nan if score.value is None else score.value for score in of_rule])
        pooled = metric.parts or (dataset.benchmark.group_column and rule == "published")
        numbers = linearised(own, [score.parts for score in of_rule] if pooled else None)
        values[rule] = None if np.isnan(numbers).all() else float(np.nanmean(numbers))
    return Floor(answer=answer, share=n / dataset.n, values=values)

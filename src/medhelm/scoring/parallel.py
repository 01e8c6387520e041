"""Many completions scored on all cores: for scoring again what was answered before, where nobody waits for a model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from multiprocessing import get_context

from medhelm.domain import Completion, Instance, Score
from medhelm.scoring.metric import apply
from medhelm.scoring.metrics import METRICS

CHUNK = 250
"""Completions that a process gets at a time: enough to be worth their way, few enough for all to end together."""


def score_many(
    names: Sequence[str],
    instances: Sequence[Instance],
    completions: Sequence[Completion],
    *,
    processes: int | None = None,
) -> list[tuple[Score, ...]]:
    """What `apply` gives for each completion with its instance, in their order.

    `names` are keys of METRICS. `processes` is how many work at most, by default one for each core; with one, or so few
    completions that one process would get them all, the calling process does the work. Metrics with a model of their
    own (BERTScore) gain nothing: each process loads it, and it uses all cores already.

    Raises KeyError for an unknown name, and ValueError if instances and completions are not equally many.
    """
    metrics = [METRICS[name] for name in names]
    pairs = list(zip(instances, completions, strict=True))
    chunks = [pairs[start : start + CHUNK] for start in range(0, len(pairs), CHUNK)]
    workers = min(processes or os.cpu_count() or 1, len(chunks))
    if workers <= 1:
        return [apply(metrics, instance, completion) for instance, completion in pairs]
    # Processes that start afresh: a copy of one with several threads can hang.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return list(chain.from_iterable(pool.map(_score_chunk, [tuple(names)] * len(chunks), chunks)))


def _score_chunk(names: tuple[str, ...], pairs: list[tuple[Instance, Completion]]) -> list[tuple[Score, ...]]:
    """The share of one process. Metrics are handed over by name: their rules are functions without one."""
    metrics = [METRICS[name] for name in names]
    return [apply(metrics, instance, completion) for instance, completion in pairs]

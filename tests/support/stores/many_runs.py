"""Stores with runs whose scores are known: no benchmark is opened and no model is asked."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medhelm.domain import Completion, Estimate, Failure, Record, Run, Score, Taxonomy, Usage
from medhelm.storage.runs import RunWriter
from medhelm.storage.store import create

Scores = Mapping[str, Mapping[str, Sequence[float | None]]]
"""Benchmark -> model -> score of each instance, None for one that failed."""

FAILURE = Failure("provider", "timeout", "no answer in 5 s")


def write_store(folder: Path, scores: Scores, *, clusters: Sequence[str] = (), **changes: Any) -> Path:
    """A store with one run for each list of scores; `changes` are those of every run."""
    store = create(folder)
    for benchmark, models in scores.items():
        for model, values in models.items():
            run = a_run(benchmark, model, values, **changes)
            writer = RunWriter(store, benchmark=benchmark, model=model, run_id=run.id, metrics=[run.main_metric])
            for position, value in enumerate(values):
                writer.add(_record(position, value, run.main_metric, clusters[position] if clusters else ""))
            writer.finish(run)
    return folder


def a_run(benchmark: str, model: str, values: Sequence[float | None], **changes: Any) -> Run:
    """The run of these scores, with their mean."""
    known = [value for value in values if value is not None]
    metric = changes.get("main_metric", "exact_match")
    failed = len(values) - len(known)
    mean = sum(known) / len(known) if known else None
    estimates = {
        rule: {} if mean is None else {metric: Estimate(value=mean, low=0.0, high=1.0, n=len(known), n_failed=failed)}
        for rule in ("corrected", "published")
    }
    settled: dict[str, Any] = {
        "id": hashlib.sha256(f"{benchmark}/{model}".encode()).hexdigest(),
        "benchmark": benchmark,
        "title": benchmark.upper(),
        "taxonomy": Taxonomy(category="c", subcategory="s"),
        "benchmark_digest": "d" * 64,
        "data_digest": "e" * 64,
        "model": model,
        "tier": "real",
        "status": "complete",
        "settings": {},
        "started": "2026-01-01T00:00:00+00:00",
        "seconds": 1.0,
        "n": len(values),
        "n_failed": failed,
        "failures": {"timeout": failed} if failed else {},
        "requests_sent": len(values),
        "requests_cached": 0,
        "usage": Usage(input=10, output=5),
        "cost_usd": 0.25,
        "main_metric": metric,
        "estimates": estimates,
    }
    return Run(**(settled | changes))


def _record(position: int, value: float | None, metric: str, cluster: str) -> Record:
    failure = FAILURE if value is None else None
    text = None if failure else "an answer"
    return Record(
        position=position,
        instance_id=f"i{position:03d}",
        cluster=cluster,
        request_digest=b"",
        completion=Completion(text=text, failure=failure, usage=Usage(input=1, output=1)),
        scores=tuple(
            Score(metric=metric, rule=rule, value=value, failure=failure) for rule in ("corrected", "published")
        ),
    )

"""Benchmarks and data sets of imported runs: definitions from the catalog, with the prompts of the other harness.

A benchmark that is not in the catalog is built from the run: its metrics, its judges' prompt and their criteria. Data
sets are made of the stored instances, so that they can be scored without a data folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.benchmarks.data.sampling import ALL, InstanceSelection
from medhelm.benchmarks.helm_format import read_judge_prompt
from medhelm.domain import (
    JURY,
    AnswerField,
    Benchmark,
    Criterion,
    Instance,
    Origin,
    Rubric,
    Run,
    Source,
    Taxonomy,
    Tier,
)
from medhelm.errors import MissingError, UserError
from medhelm.scoring.metrics import METRIC_NAMES, METRICS
from medhelm.scoring.metrics.imported import needed_columns
from medhelm.storage.imported_instances import read_about, read_instances
from medhelm.storage.store import Store

UNKNOWN = "unknown"
"""Category and subcategory of a benchmark that is not in the catalog."""

INPUT = "input"
"""The field that holds the text of an imported instance."""

_LOW, _HIGH = 1.0, 5.0


def library_of(extra: Sequence[Path] = ()) -> dict[str, Benchmark]:
    """Return every benchmark of the catalog by name and alias; `extra`: folders with further definitions."""
    found = load_benchmarks(["all", "additional"], metrics=METRIC_NAMES, extra=extra)
    library = {alias: benchmark for benchmark in found for alias in benchmark.aliases}
    return library | {benchmark.name: benchmark for benchmark in found}


def imported_benchmark(
    name: str,
    library: Mapping[str, Benchmark],
    *,
    metrics: Iterable[str],
    about: Mapping[str, Any],
    max_tokens: int,
    stop: Sequence[str] = (),
) -> Benchmark:
    """Return the benchmark of a run of another harness.

    Parameters: name, its name here; metrics, those with scores in the run, the main one first; about, the facts stored
    with the run (`about_run`); max_tokens and stop, as they were sent.
    """
    known = library.get(name)
    mine = known.metrics if known else ()
    names = tuple(dict.fromkeys([*mine, *metrics]))
    rubric = _rubric(known, about)
    if rubric is None:
        names = tuple(metric for metric in names if metric != JURY)
    group = "group" if about.get("grouped") else ""
    if known:
        return replace(
            known,
            metrics=names,
            prompt=f"{{{INPUT}}}",
            system="",
            rubric=rubric,
            group_column=group,
            max_tokens=max_tokens or known.max_tokens,
            stop=tuple(stop),
            remarks=(),
        )
    identity = json.dumps([name, sorted(names), dict(about)], sort_keys=True)
    return Benchmark(
        name=name,
        title=str(about.get("title") or name),
        description="Read from the files of another harness, and not known here.",
        taxonomy=Taxonomy(category=UNKNOWN, subcategory=UNKNOWN),
        access="private",
        source=Source(kind="imported"),
        prompt=f"{{{INPUT}}}",
        answer=AnswerField(column="" if JURY in names else "reference"),
        metrics=names,
        max_tokens=max_tokens or 1,
        rubric=rubric,
        group_column=group,
        stop=tuple(stop),
        digest=hashlib.sha256(identity.encode()).hexdigest(),
    )


def benchmark_of(
    run: Run, library: Mapping[str, Benchmark], about: Mapping[str, Any], more: Iterable[str] = ()
) -> Benchmark:
    """Return the benchmark of a stored run that was imported, or that used imported prompts.

    `more`: additional metrics.
    """
    metrics = [run.main_metric, *run.estimates.get("published", {}), *run.estimates.get("corrected", {}), *more]
    stop = [str(text) for text in run.settings.get("stop") or ()]
    max_tokens = int(run.settings.get("max_tokens") or 0)
    return imported_benchmark(run.benchmark, library, metrics=metrics, about=about, max_tokens=max_tokens, stop=stop)


def _rubric(known: Benchmark | None, about: Mapping[str, Any]) -> Rubric | None:
    """Return the rubric of the catalog, or else that of the run's own judges; None if neither is known."""
    if known and known.rubric:
        return replace(known.rubric, question=f"{{{INPUT}}}")
    criteria = tuple(Criterion(name, name) for name in about.get("criteria", ()))
    if not criteria:
        return None
    if about.get("judge_prompt"):
        rubric, problems, _ = read_judge_prompt(str(about["judge_prompt"]), has_reference=True)
        if not problems:
            default = rubric.published_default if about.get("unjudged") is None else float(about["unjudged"])
            return replace(rubric, question=f"{{{INPUT}}}", published_default=default)
    return Rubric(
        task="You are a medical expert. You see a question or task, and the answer of a language model. Grade it.",
        criteria=criteria,
        low=float(about.get("low", _LOW)),
        high=float(about.get("high", _HIGH)),
        question=f"{{{INPUT}}}",
        published_default=_LOW if about.get("unjudged") is None else float(about["unjudged"]),
    )


def completed(instances: Sequence[Instance], own: Iterable[Instance]) -> tuple[list[Instance], int]:
    """Return the instances with missing columns added from `own`, the same data read here; and how many got some.

    Instances match by id or reference, if the prompt contains the texts of all fields.
    """
    by_key: dict[str, list[Instance]] = {}
    for one in own:
        for key in {f"id {one.id}", *(f"answer {text.strip()}" for text in one.correct)}:
            by_key.setdefault(key, []).append(one)
    found, n = [], 0
    for one in instances:
        asked = _letters(one.fields.get(INPUT, ""))
        keys = [f"id {one.id}", *(f"answer {text.strip()}" for text in one.correct)]
        candidates = {c.id: c for key in keys for c in by_key.get(key, ())}.values()
        same = [c for c in candidates if all(_letters(text) in asked for text in c.fields.values() if text.strip())]
        if len(same) == 1:
            n += 1
            one = replace(one, metadata={**same[0].metadata, **one.metadata}, cluster=one.cluster or same[0].cluster)
        found.append(one)
    return found, n


def _letters(text: str) -> str:
    """Return a text without whitespace, which differs between prompts."""
    return "".join(text.split())


def is_known(metric: str) -> bool:
    """Return True if the metric can be computed here from a completion and its instance."""
    return metric in METRICS or metric == JURY


def unknown_benchmarks(store: Store, runs: Iterable[Run], names: Collection[str]) -> list[Benchmark]:
    """Return the benchmarks of imported runs that are not in the catalog; `names`: only these, or all if empty."""
    found: dict[str, Benchmark] = {}
    for run in runs:
        if run.origin and run.taxonomy.category == UNKNOWN and (not names or run.benchmark in names):
            found[run.benchmark] = benchmark_of(run, {}, read_about(store, run.benchmark, run.data_digest))
    return list(found.values())


def stored_dataset(
    runs: Sequence[Run], library: Mapping[str, Benchmark], store: Store, *, data: Path | None, limit: int | None
) -> Dataset:
    """Return the instances of these runs, which are the same for all of them.

    Parameters: library, benchmarks by name; data, a folder with the benchmark's data, for columns that metrics need and
    the imported files lack.
    Raises: StoreError if the instances are not stored.
    """
    first = runs[0]
    about = read_about(store, first.benchmark, first.data_digest)
    own = library.get(first.benchmark)
    known = {} if own is None or own.taxonomy.category == UNKNOWN else {first.benchmark: own}
    more = [name for run in runs for name in run.estimates["published"]]
    benchmark = benchmark_of(first, known, about, more)
    instances = read_instances(
        store, benchmark=first.benchmark, benchmark_digest=first.benchmark_digest, data_digest=first.data_digest
    )
    return imported_dataset(
        benchmark,
        with_data(instances, own, benchmark.metrics, data),
        digest=first.data_digest,
        origin=first.origin,
        settings=first.settings,
        tier=first.tier,
        limit=limit,
    )


def imported_dataset(
    benchmark: Benchmark,
    instances: Sequence[Instance],
    *,
    digest: str,
    origin: Origin | None,
    settings: Mapping[str, Any],
    tier: Tier = "real",
    limit: int | None = None,
) -> Dataset:
    """Return instances of another harness as a data set; `limit`: only the first so many."""
    n = min(limit or len(instances), len(instances))
    return Dataset(
        benchmark=benchmark,
        tier=tier,
        digest=digest,
        selection=InstanceSelection(n_total=len(instances), n=n),
        read=lambda: iter(instances),
        instances=instances,
        origin=origin,
        settings=settings,
    )


def with_data(
    instances: Sequence[Instance], benchmark: Benchmark | None, metrics: Iterable[str], data: Path | None
) -> Sequence[Instance]:
    """Return the instances with missing columns that these metrics need, if the benchmark's data is available."""
    if benchmark is None or data is None or not any(needed_columns(metric) for metric in metrics):
        return instances
    try:
        dataset = open_dataset(benchmark, data=data, tier="real", sample=ALL)
    except (MissingError, UserError):
        return instances
    return completed(instances, dataset)[0]

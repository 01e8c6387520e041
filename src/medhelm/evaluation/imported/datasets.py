"""Data sets made of the stored instances of imported runs, so that these can be scored without a data folder."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.benchmarks.data.sampling import ALL, InstanceSelection
from medhelm.domain import Benchmark, Instance, Origin, Run, Tier
from medhelm.errors import MissingError, UserError
from medhelm.evaluation.imported.benchmarks import UNKNOWN, benchmark_of, completed
from medhelm.scoring.metrics.imported import needed_columns
from medhelm.storage.imported_instances import read_about, read_instances
from medhelm.storage.store import Store


def is_imported(run: Run) -> bool:
    """Return True if the prompts of a run come from another harness."""
    return run.origin is not None and not run.origin.is_medhelm_task


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
        n_skipped=0,
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

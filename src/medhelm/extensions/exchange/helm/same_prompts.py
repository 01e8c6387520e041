"""Build datasets with the prompts of finished HELM runs: same messages, limits and stop sequences, unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import Benchmark
from medhelm.errors import UserError
from medhelm.evaluation.rescore import imported_dataset, is_known, with_data
from medhelm.extensions.exchange.helm.folders import find_runs
from medhelm.extensions.exchange.helm.importer import helm_naming, plan_import, read_parts
from medhelm.extensions.exchange.importer import JoinedRun, join_parts
from medhelm.io.parquet import ColumnWriter
from medhelm.storage.imported_instances import write_instances
from medhelm.storage.store import Store


def like_helm(
    places: Sequence[Path],
    library: Mapping[str, Benchmark],
    store: Store,
    *,
    limit: int | None = None,
    data: Path | None = None,
) -> list[Dataset]:
    """Return the datasets of these HELM runs, each once, even if several models were evaluated on it.

    Parameters: places, run folders, or folders of runs; library, the known benchmarks; store, where the instances are
    stored, so that completions can be scored again; limit, the maximum number of instances of each; data, a folder with
    data that scoring may need.
    Raises: UserError with everything that cannot be read: a partial evaluation would not be comparable.
    """
    naming = helm_naming(library)
    found: dict[tuple[object, ...], JoinedRun] = {}
    wrong: list[str] = []
    for place in places:
        folders, missing = find_runs(place)
        plan = plan_import(folders, library)
        bad = [*missing, *plan.skipped]
        for job in plan.jobs:
            parts, unread = read_parts(job.folders)
            bad += unread
            if not unread:
                one = join_parts(parts, library, naming)
                imported = one.imported
                key = (one.benchmark.name, one.data_digest, imported.max_tokens, imported.temperature, imported.stop)
                found.setdefault(key, one)
        wrong += [f"{place}: {name}: {reason}" for name, reason in bad]
    if wrong:
        raise UserError("\n".join([*wrong, "Nothing was sent."]))
    return [_dataset(one, library, store, limit, data) for one in found.values()]


def _dataset(
    one: JoinedRun, library: Mapping[str, Benchmark], store: Store, limit: int | None, data: Path | None
) -> Dataset:
    imported = one.imported
    metrics = tuple(metric for metric in one.benchmark.metrics if is_known(metric))
    if not metrics:
        raise UserError(f"{one.origin.run}: MedHELM can compute none of its metrics. Nothing was sent.")
    benchmark = replace(one.benchmark, metrics=metrics)
    with closing(ColumnWriter()) as writer:
        write_instances(
            store,
            imported.instances,
            benchmark=benchmark.name,
            benchmark_digest=benchmark.digest,
            data_digest=one.data_digest,
            about=one.about,
            writer=writer,
        )
    settings = {
        "temperature": imported.temperature,
        "stop": list(imported.stop),
        "imported": f"{one.origin.harness}:{one.origin.run}",
    }
    return imported_dataset(
        benchmark,
        with_data(imported.instances, library.get(benchmark.name), benchmark.metrics, data),
        digest=one.data_digest,
        origin=replace(one.origin, completions_made_here=True),
        settings=settings,
        tier=imported.tier,
        limit=limit,
    )

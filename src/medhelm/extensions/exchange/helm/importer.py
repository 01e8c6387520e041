"""Import all HELM runs in a folder, and build data sets with the prompts of HELM runs."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import JURY, Benchmark, Run
from medhelm.errors import UserError
from medhelm.evaluation.rescore import imported_dataset, is_known, library_of, with_data
from medhelm.extensions.exchange.helm.folders import RunFolder, UnreadableRun, find_runs
from medhelm.extensions.exchange.helm.reader import METRICS as THEIR_METRICS
from medhelm.extensions.exchange.helm.reader import HelmRunSpec, read_helm_run, read_run_spec
from medhelm.extensions.exchange.importer import (
    ImportedRun,
    ImportedRunResult,
    ImportSummary,
    JoinedRun,
    NameMap,
    RunImporter,
    join_parts,
)
from medhelm.io.parquet import ColumnWriter
from medhelm.storage.runs import load_runs
from medhelm.storage.store import Store, create, open_store

COUNTS = ("ehr_sql_total_predicted_answerable", "ehr_sql_total_ground_truth_answerable")
"""HELM metrics that count questions instead of scoring a completion."""

_MOST_PROCESSES = 4
_WORTH_PROCESSES = 50_000_000
"""Minimum total size of the runs, in bytes, for which several processes are faster than one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportJob:
    """Folders that together form one run here."""

    folders: tuple[RunFolder, ...]
    """One, or one for each part of a benchmark."""
    model: str
    """The model's name here."""


@dataclass(slots=True)
class ImportPlan:
    """The runs to import, and those that cannot be imported."""

    jobs: list[ImportJob] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def helm_naming(library: Mapping[str, Benchmark]) -> NameMap:
    """Return the map of HELM's names to ours. Benchmarks are found by their aliases."""
    judged = [name for name, benchmark in library.items() if JURY in benchmark.metrics]
    metrics = {theirs: ours for ours, theirs in THEIR_METRICS.items()}
    metrics |= {"jury_score": JURY, **{f"{name}_accuracy": JURY for name in judged}}
    return NameMap(metrics=metrics | dict.fromkeys(COUNTS, ""))


def import_helm(
    place: Path,
    *,
    store: Path,
    extra: Sequence[Path] = (),
    processes: int | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> ImportSummary:
    """Import all HELM runs in a folder.

    Parameters: place, a run, a suite, a release or HELM's output folder; extra, folders with further benchmarks;
    processes, their maximum number, None to choose it by size; watch, called with the number of runs done and in total.
    A run that cannot be read is reported, and the import continues. Runs already imported from the same files are kept.
    Raises: UserError if the folder contains no run; StoreError.
    """
    folders, missing = find_runs(place)
    library = library_of(extra)
    opened = create(store)
    plan = plan_import(folders, library, load_runs(opened))
    plan.skipped[:0] = missing
    taken: list[ImportedRunResult] = []
    with _job_results(opened, library, plan.jobs, processes) as results:
        for done, (one, wrong) in enumerate(results, 1):
            taken += [one] if one else []
            plan.skipped += wrong
            if watch:
                watch(done, len(plan.jobs))
    return ImportSummary(taken=tuple(taken), skipped=tuple(plan.skipped), remarks=tuple(plan.remarks))


def plan_import(
    folders: Iterable[RunFolder], library: Mapping[str, Benchmark], stored: Iterable[Run] = ()
) -> ImportPlan:
    """Group folders into runs and name their models; `stored`: the runs in the store."""
    plan = ImportPlan()
    parts: dict[tuple[object, ...], list[tuple[RunFolder, HelmRunSpec]]] = {}
    deployments: dict[str, set[str]] = {}  # model -> its deployments
    for run in stored:
        if run.origin and run.origin.harness == "helm" and (deployment := run.settings.get("deployment")):
            deployments.setdefault(run.model.partition("@")[0], set()).add(deployment)
    seen: dict[str, Path] = {}
    for folder in folders:
        if (first := seen.setdefault(folder.name, folder.path)) != folder.path:
            reason = f"{first} has the same suite and run name: import one of them into a separate store"
            plan.skipped.append((folder.name, reason))
            continue
        try:
            spec = read_run_spec(folder.spec())
        except UnreadableRun as error:
            plan.skipped.append((folder.name, str(error)))
            continue
        except (KeyError, TypeError, AttributeError) as error:
            plan.skipped.append((folder.name, f"run_spec.json is not a valid run specification ({error})"))
            continue
        known = library.get(spec.benchmark)
        is_part = known and known.group_column and spec.part
        place = folder.path.parent if is_part else folder.name
        key = (known.name if known else spec.benchmark, spec.model, spec.deployment, str(place))
        parts.setdefault(key, []).append((folder, spec))
        deployments.setdefault(spec.model, set()).add(spec.deployment)
    for _, group in sorted(parts.items(), key=lambda item: tuple(map(str, item[0]))):
        for job in _split_repeated_parts(group):
            model, deployment = job[0][1].model, job[0][1].deployment
            is_one_of_several = len(deployments[model]) > 1 and deployment not in ("", model)
            plan.jobs.append(
                ImportJob(
                    folders=tuple(folder for folder, _ in job),
                    model=f"{model}@{deployment}" if is_one_of_several else model,
                )
            )
    plan.remarks += [
        f"{model} has {len(reached)} deployments, which are kept as separate models"
        for model, reached in sorted(deployments.items())
        if len(reached) > 1
    ]
    return plan


def _split_repeated_parts(
    group: Sequence[tuple[RunFolder, HelmRunSpec]],
) -> Iterator[list[tuple[RunFolder, HelmRunSpec]]]:
    """Yield sets of runs that have each part of a benchmark at most once; a repeated part goes into another set."""
    sets: list[dict[str, tuple[RunFolder, HelmRunSpec]]] = []
    for folder, spec in group:
        free = next((parts for parts in sets if spec.part not in parts), None)
        if free is None:
            sets.append(free := {})
        free[spec.part] = (folder, spec)
    for parts in sets:
        yield [parts[part] for part in sorted(parts)]


def read_parts(folders: Sequence[RunFolder]) -> tuple[list[ImportedRun], list[tuple[str, str]]]:
    """Read the runs in some folders. Returns: the runs, and those that cannot be read, with the reason."""
    found, wrong = [], []
    for folder in folders:
        try:
            found.append(read_helm_run(folder))
        except UnreadableRun as error:
            wrong.append((folder.name, str(error)))
    return found, wrong


# --- processes --------------------------------------------------------------------------------------------------------

_Result = tuple[ImportedRunResult | None, list[tuple[str, str]]]
_process_importer: tuple[RunImporter, NameMap] | None = None
"""The importer of this process, and the map of HELM's names."""


@contextmanager
def _job_results(
    store: Store, library: Mapping[str, Benchmark], jobs: Sequence[ImportJob], processes: int | None
) -> Iterator[Iterator[_Result]]:
    """Provide the result of each job, in order."""
    size = sum(folder.size for job in jobs for folder in job.folders)
    if processes is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        processes = min(cores, _MOST_PROCESSES, len(jobs)) if size > _WORTH_PROCESSES else 1
    if processes <= 1:
        _start_importer(store.folder, library)
        was_enabled = gc.isenabled()
        gc.disable()  # millions of small objects without cycles: garbage collection takes a third of the time
        try:
            yield map(_import_job, jobs)
        finally:
            _close_importer()
            if was_enabled:
                gc.enable()
        return
    method = "fork" if hasattr(os, "fork") else "spawn"
    with ProcessPoolExecutor(
        processes, mp_context=get_context(method), initializer=_start_importer, initargs=(store.folder, library)
    ) as pool:
        yield pool.map(_import_job, jobs, chunksize=4)


def _start_importer(store: Path, library: Mapping[str, Benchmark]) -> None:
    global _process_importer
    gc.disable()
    _process_importer = RunImporter(open_store(store), library), helm_naming(library)


def _close_importer() -> None:
    global _process_importer
    if _process_importer:
        _process_importer[0].close()
    _process_importer = None


def _import_job(job: ImportJob) -> _Result:
    """Import one run. Returns: the result, and the parts that cannot be read, with the reason."""
    assert _process_importer is not None, "_start_importer comes first"
    importer, naming = _process_importer
    parts, wrong = read_parts(job.folders)
    if not parts:
        return None, wrong
    try:
        taken = importer.import_run(parts, naming, model=job.model)
    except UserError as error:
        return None, [*wrong, *((part.origin.run, str(error)) for part in parts)]
    missing = [f"the part {name} cannot be read and was left out" for name, _ in wrong]
    return replace(taken, remarks=(*taken.remarks, *missing)), wrong


# --- same prompts -----------------------------------------------------------------------------------------------------
# Build datasets with the prompts of finished HELM runs: same messages, limits and stop sequences, unchanged.


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
        raise UserError(f"{one.origin.run}: MedHELM cannot compute any of its metrics. Nothing was sent.")
    benchmark = replace(one.benchmark, metrics=metrics)
    with closing(ColumnWriter()) as writer:
        replace(one, benchmark=benchmark).write_instances(store, writer)
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

"""Logs of Inspect and sample files of lm-eval, as runs of ours: each file is one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from medhelm.domain import RULES, Benchmark, ImportedRun, Run
from medhelm.errors import UserError
from medhelm.evaluation.imported.benchmarks import library_of
from medhelm.exchange.fields import digest_of
from medhelm.exchange.helm.importer import ImportSummary
from medhelm.exchange.importer import ImportedRunResult, NameMap, RunImporter
from medhelm.exchange.inspect.logs import log_files, read_inspect_log
from medhelm.exchange.inspect.our_tasks import as_asked_here, score
from medhelm.exchange.lm_eval.samples import read_lm_eval_samples, sample_files
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.runs import load_runs
from medhelm.storage.store import Store, create

Harness = Literal["inspect", "lm_eval"]

_READERS: Mapping[Harness, Callable[[Path], ImportedRun]] = {
    "inspect": read_inspect_log,
    "lm_eval": read_lm_eval_samples,
}
_FINDERS: Mapping[Harness, Callable[[Path], list[Path]]] = {"inspect": log_files, "lm_eval": sample_files}
_WHAT: Mapping[Harness, str] = {
    "inspect": "log of Inspect (*.eval, or *.json named by the time)",
    "lm_eval": "sample file of lm-eval (samples_*.jsonl, written with --log_samples)",
}

OUR_NAMING = NameMap(
    metrics={f"{name}_{rule}": name if rule == "published" else "" for name in METRIC_NAMES for rule in RULES}
    | dict.fromkeys(METRIC_NAMES, "")
)
"""What the metrics of our tasks are called in logs: by the published rule NAME_published, by the corrected one NAME."""


def import_logs(
    places: Sequence[Path],
    harness: Harness,
    *,
    store: Path,
    data: Path | None = None,
    extra: Sequence[Path] = (),
    watch: Callable[[int, int], None] = lambda done, of: None,  # noqa: ARG005
) -> ImportSummary:
    """Take in files, and all files in folders; `data`: the folder with one folder of data per benchmark, if
    there is one; `extra`: folders with further benchmarks; `watch` is told how far it is.

    A file that cannot be read is named with its reason, and the others go on. What is there already from the same file
    stays as it is.
    Raises: UserError if nothing at all could be taken in; StoreError.
    """
    files, skipped = _files(places, harness)
    library = library_of(extra)
    opened = create(store)
    stored = [run for run in load_runs(opened) if run.origin]
    taken: list[ImportedRunResult] = []
    with RunImporter(opened, library, NameMap()) as plain, RunImporter(opened, library, OUR_NAMING) as ours:
        desk = _Desk(opened, data, library, plain, ours, stored)
        for done, file in enumerate(files, start=1):
            try:
                taken.append(desk.take(file, harness))
            except UserError as error:
                skipped.append((str(file), str(error)))
            watch(done, len(files))
    if not taken:
        lines = [f"{name}: {reason}" for name, reason in skipped]
        raise UserError("\n".join(["nothing could be taken in.", *lines]))
    return ImportSummary(taken=tuple(taken), skipped=tuple(skipped))


def _files(places: Sequence[Path], harness: Harness) -> tuple[list[Path], list[tuple[str, str]]]:
    """All files, each once, and places that have none."""
    found: dict[Path, Path] = {}
    missing: list[tuple[str, str]] = []
    for place in places:
        files = _FINDERS[harness](place) if place.is_dir() else [place] if place.exists() else []
        if not place.exists():
            missing.append((str(place), "there is no such file or folder."))
        elif not files:
            missing.append((str(place), f"there is no {_WHAT[harness]} in this folder."))
        for file in files:
            found.setdefault(file.resolve(), file)
    return list(found.values()), missing


class _Desk:
    """Where files are taken in, one after another."""

    def __init__(
        self,
        store: Store,
        data: Path | None,
        library: Mapping[str, Benchmark],
        plain: RunImporter,
        ours: RunImporter,
        stored: Sequence[Run],
    ) -> None:
        """`plain` and `ours` take in other tasks, and tasks of ours as if they were others; `stored`: what is there."""
        self._store, self._data, self._library = store, data, library
        self._plain, self._ours = plain, ours
        self._by_digest = {run.origin.sha256: run for run in stored if run.origin}
        self._names = {run.origin.run for run in stored if run.origin}

    def take(self, file: Path, harness: Harness) -> ImportedRunResult:
        """Store what is in a file. Raises: UserError that says why it cannot be."""
        # The digest of a log is that of its file, so one that is stored need not be read.
        if harness == "inspect" and (same := self._by_digest.get(digest_of(file))):
            return ImportedRunResult(run=same, state="unchanged")
        one = _READERS[harness](file)
        if same := self._by_digest.get(one.origin.sha256):
            return ImportedRunResult(run=same, state="unchanged")
        return self._take_in(one) if one.medhelm_task else self._plain.take([one])

    def _take_in(self, one: ImportedRun) -> ImportedRunResult:
        """Store a task of ours, scored here anew; where it is not what it was, as the log has it."""
        known = self._library.get(one.benchmark)
        instances = as_asked_here(one, known, self._data) if known else []
        if known and instances:
            run = score(one, known, instances, self._store)
            state: Literal["new", "changed"] = "changed" if one.origin.run in self._names else "new"
            self._names.add(one.origin.run)
            asked, there = run.n, one.medhelm_task["n"]
            part = (
                f"Inspect left out a part of the selection ({asked} of {there} asked): -T limit=N can be scored again"
            )
            return ImportedRunResult(run=run, state=state, remarks=(*one.remarks, *([part] if asked < there else [])))
        why = f"the prompts are not those that {one.benchmark} has now"
        if known is None:
            why = f"the benchmark {one.benchmark} is not known here (--benchmarks DIR names folders with further ones)"
        if one.tier == "sample":
            raise UserError(f"{why}, and what was asked were invented rows.")
        taken = self._ours.take([one])
        remarks = (*taken.remarks, f"{why}, so the log's own scores stand.")
        return ImportedRunResult(run=taken.run, state=taken.state, remarks=remarks)

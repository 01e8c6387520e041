"""Import logs of Inspect and sample files of lm-eval as runs: one run per file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal, NamedTuple

from medhelm.domain import RULES, Benchmark
from medhelm.errors import UserError
from medhelm.evaluation.rescore import library_of
from medhelm.extensions.exchange.importer import (
    ImportedRun,
    ImportedRunResult,
    ImportSummary,
    NameMap,
    RunImporter,
    digest_of,
)
from medhelm.extensions.exchange.inspect.logs import (
    instances_with_our_prompts,
    log_files,
    read_inspect_log,
    score_again,
)
from medhelm.extensions.exchange.lm_eval import read_lm_eval_samples, sample_files
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.runs import load_runs
from medhelm.storage.store import Store, create

Harness = Literal["inspect", "lm_eval"]


class _Format(NamedTuple):
    """The log files of a harness."""

    find: Callable[[Path], list[Path]]
    """Finds the files below a folder."""
    read: Callable[[Path], ImportedRun]
    """Reads one file."""
    in_words: str


_FORMATS: Mapping[Harness, _Format] = {
    "inspect": _Format(log_files, read_inspect_log, "Inspect log (*.eval, or *.json with a time in its name)"),
    "lm_eval": _Format(
        sample_files, read_lm_eval_samples, "lm-eval sample file (samples_*.jsonl, written with --log_samples)"
    ),
}

OUR_NAMING = NameMap(
    metrics={f"{name}_{rule}": name if rule == "published" else "" for name in METRIC_NAMES for rule in RULES}
    | dict.fromkeys(METRIC_NAMES, "")
)
"""Metric names of our tasks in logs: NAME_published under the published rule, NAME under the corrected rule."""


def import_logs(
    places: Sequence[Path],
    harness: Harness,
    *,
    store: Path,
    data: Path | None = None,
    extra: Sequence[Path] = (),
    watch: Callable[[int, int], None] = lambda done, of: None,  # noqa: ARG005
) -> ImportSummary:
    """Import files, and all log files in folders.

    Parameters: data, the folder with one data folder per benchmark, if there is one; extra, folders with further
    benchmarks; watch, called with the number of files done and in total.
    A file that cannot be read is reported with the reason, and the import continues. Runs already imported from the
    same file are kept unchanged.
    Raises: UserError if no file could be imported; StoreError.
    """
    files, skipped = _files(places, harness)
    library = library_of(extra)
    opened = create(store)
    taken: list[ImportedRunResult] = []
    with closing(RunImporter(opened, library)) as run_importer:
        importer = _LogImporter(opened, data, library, run_importer)
        for done, file in enumerate(files, start=1):
            try:
                taken.append(importer.import_file(file, harness))
            except UserError as error:
                skipped.append((str(file), str(error)))
            watch(done, len(files))
    if not taken:
        lines = [f"{name}: {reason}" for name, reason in skipped]
        raise UserError("\n".join(["no file could be imported.", *lines]))
    return ImportSummary(taken=tuple(taken), skipped=tuple(skipped))


def _files(places: Sequence[Path], harness: Harness) -> tuple[list[Path], list[tuple[str, str]]]:
    """Return all files without duplicates, and the places that have none, with the reason."""
    found: dict[Path, Path] = {}
    missing: list[tuple[str, str]] = []
    for place in places:
        files = _FORMATS[harness].find(place) if place.is_dir() else [place] if place.exists() else []
        if not place.exists():
            missing.append((str(place), "this file or folder does not exist."))
        elif not files:
            missing.append((str(place), f"this folder has no {_FORMATS[harness].in_words}."))
        for file in files:
            found.setdefault(file.resolve(), file)
    return list(found.values()), missing


class _LogImporter:
    """Imports log files, one after another."""

    def __init__(
        self, store: Store, data: Path | None, library: Mapping[str, Benchmark], importer: RunImporter
    ) -> None:
        """`importer`: imports tasks that cannot be scored again here, with the scores in the log."""
        self._store, self._data, self._library, self._importer = store, data, library, importer
        stored = load_runs(store)
        self._by_digest = {run.origin.sha256: run for run in stored if run.origin}
        self._names = {run.origin.run for run in stored if run.origin}

    def import_file(self, file: Path, harness: Harness) -> ImportedRunResult:
        """Import a file. Raises: UserError with the reason if that is not possible."""
        # The digest of a log is that of its file, so one that is stored need not be read.
        if harness == "inspect" and (same := self._by_digest.get(digest_of(file))):
            return ImportedRunResult(run=same, state="unchanged")
        log = _FORMATS[harness].read(file)
        if same := self._by_digest.get(log.origin.sha256):
            return ImportedRunResult(run=same, state="unchanged")
        return self._import_medhelm_task(log) if log.medhelm_task else self._importer.import_run([log], NameMap())

    def _import_medhelm_task(self, log: ImportedRun) -> ImportedRunResult:
        """Import a run of a MedHELM task: score it again, or keep the logged scores if the task has changed since."""
        known = self._library.get(log.benchmark)
        instances = instances_with_our_prompts(log, known, self._data) if known else []
        if known and instances:
            run = score_again(log, known, instances, self._store)
            state: Literal["new", "changed"] = "changed" if log.origin.run in self._names else "new"
            self._names.add(log.origin.run)
            n_run, n_selected = run.n, log.medhelm_task["n"]
            part = (
                f"Inspect ran only part of the selection ({n_run} of {n_selected} instances); use -T limit=N instead, "
                "which can be scored again"
            )
            return ImportedRunResult(
                run=run, state=state, remarks=(*log.remarks, *([part] if n_run < n_selected else []))
            )
        why = f"the prompts differ from the current prompts of {log.benchmark}"
        if known is None:
            why = f"the benchmark {log.benchmark} is unknown (use --benchmarks DIR to add a folder of benchmarks)"
        if log.tier == "sample":
            raise UserError(f"{why}, and the log holds sample data, not real data.")
        taken = self._importer.import_run([log], OUR_NAMING)
        remarks = (*taken.remarks, f"{why}, so the log's own scores are used.")
        return ImportedRunResult(run=taken.run, state=taken.state, remarks=remarks)

"""Verify a leaderboard: reproduce it from the store and the data, and report every difference.

All stored completions are scored again with the current definitions, code and data. The results go into a temporary
store, in a hidden folder that is removed at the end, from which the leaderboard is built. Nothing is sent, and no run
of the store is changed.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from medhelm import __version__
from medhelm.analysis.leaderboard.diff import (
    RunCheck,
    ValueDifference,
    Verification,
    has_earlier_ranking,
    json_differences,
    leaderboard_differences,
    provenance_differences,
    without_ranking,
)
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.benchmarks.data.sampling import SampleOptions
from medhelm.benchmarks.prompts import render
from medhelm.domain import RULES, Benchmark, DeletedInstances, Estimate, Instance, Run
from medhelm.domain.result import CellProvenance, Release
from medhelm.domain.text import listed, plural
from medhelm.errors import Interrupted, MedHelmError, MissingError
from medhelm.evaluation.recorder import NullListener, ProgressListener, RunRecorder
from medhelm.evaluation.rescore import rescored, stored_dataset
from medhelm.evaluation.session import EvaluationSetup, with_rubric, without_deleted
from medhelm.evaluation.settings import RUBRIC_FILE, Settings
from medhelm.evaluation.stored_settings import JuryChange
from medhelm.io.folders import temporary_folder
from medhelm.models.prices import price_of
from medhelm.results.formats.fields import plain_json
from medhelm.results.formats.tables import Value, printable
from medhelm.results.formats.tables import render as render_table
from medhelm.results.leaderboard import leaderboard_of, read_inputs
from medhelm.results.leaderboard_view import as_json
from medhelm.results.options import BoardOptions, folders_of
from medhelm.results.releases import current_release, differences_table, released_options, shown
from medhelm.scoring.installed_plugins import changed_since
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.damage import no_damaged_runs
from medhelm.storage.privacy import DELETED, read_deletions
from medhelm.storage.ratings import copy_ratings
from medhelm.storage.releases import prompts_digest
from medhelm.storage.runs import load_runs, read_columns, read_messages, score_column
from medhelm.storage.store import Store, create, open_store, write_run

FORMER_METHODS = frozenset(
    f"{name}{clusters}"
    for name in ("bootstrap-2000", "normal", "wilson", "constant", "single")
    for clusters in ("", "-clustered")
)
"""Methods of intervals of version 0.1.0; intervals of the same scores may be made by another one now."""

DERIVED = ("n_failed", "failures", "usage", "cost_usd", "groups", "not_computed")
"""Fields of a run, other than its estimates, that are computed from its records."""


def verify(
    store: Path,
    options: BoardOptions,
    *,
    data: Path | None = None,
    release: Release | None = None,
    listener: ProgressListener | None = None,
) -> Verification:
    """Rebuild the leaderboard of a store and compare it with a release, or by default with the store's own.

    Parameters: options, of the leaderboard, with a release only `benchmark_folders` is used; data, the folder with one
    folder per benchmark.
    Raises: StoreError for a folder that is not a store and for a damaged run, UserError if there is nothing to rank,
    Interrupted.
    """
    source = open_store(store)
    with no_damaged_runs(), temporary_folder(store) as scratch:
        asked = released_options(release, scratch.path, folders_of(options)) if release else options
        return _verify(source, asked, data, release, create(scratch.path / "store"), listener or NullListener())


def _verify(
    source: Store,
    options: BoardOptions,
    data: Path | None,
    release: Release | None,
    target: Store,
    listener: ProgressListener,
) -> Verification:
    """Verify as `verify`. `target`: an empty store for the rescored runs."""
    finished = read_inputs([source.folder], options)
    now = current_release(source.folder, options)
    bases = {(basis.model, basis.benchmark): basis for basis in now.provenance}
    runs = {key: run for key, run in finished.runs.items() if key in bases}
    frozen = {(basis.model, basis.benchmark): basis for basis in release.provenance} if release else None
    if frozen and release:
        frozen = {key: _as_deleted(one, bases.get(key), runs.get(key), source) for key, one in frozen.items()}
    checked = {key: _check_provenance(key, run, bases[key], frozen) for key, run in runs.items()}
    gone = [
        RunCheck(
            model=key[0], benchmark=key[1], differences=[ValueDifference(what="run", before=basis.run_id, now=None)]
        )
        for key, basis in (frozen or {}).items()
        if key not in runs
    ]
    benchmarks = _check_inputs(runs, checked, source, data, folders_of(options))
    _rescore_runs(runs, checked, benchmarks, source=source, target=target, data=data, listener=listener)
    copy_ratings(source, target)
    # Only runs that share a column are derived, some by the definitions of today, some not at all.
    derived = as_json(leaderboard_of([target.folder], replace(options, tier=finished.tier, comparable_only=False)))
    against: Mapping[str, Any] = release.leaderboard if release else now.leaderboard
    has_studies = bool(against.get("studies"))
    if release and any(_lost_numbers(run, release, has_studies=has_studies) for run in runs.values()):
        against = now.leaderboard
    for name in ("left_out", "prompt_injection"):
        if name in against:
            derived[name] = now.leaderboard[name]
        else:  # a release of an earlier version
            del derived[name]
    if has_earlier_ranking(against):
        against, derived = without_ranking(against, against), without_ranking(derived, against)
    return Verification(
        release=release.name if release else "",
        runs=(*checked.values(), *gone),
        board=tuple(leaderboard_differences(against, derived)),
        notes=(*_notes(now.provenance, release), *deletion_notes(runs.values())),
    )


def _as_deleted(then: CellProvenance, now: CellProvenance | None, run: Run | None, store: Store) -> CellProvenance:
    """Return the provenance of a run in a release as deletions of instances, stated in the store, have changed it.

    The statements name the records before and after each deletion, so that any other change remains a difference.
    """
    if now is None or run is None or not run.deletions:
        return then
    records = then.records
    for deletion in read_deletions(store):
        for one in deletion.runs:
            if one["id"] == run.id and one["records_before"] == records:
                records = one["records"]
    if records == then.records or records != now.records:
        return then
    kept = ("records", "judgments", "prompts", "n", "snapshots", "jury")
    return replace(then, **{name: getattr(now, name) for name in kept})


def _lost_numbers(run: Run, release: Release, *, has_studies: bool) -> bool:
    """Return whether instances of a run were deleted after a release with their numbers, or with ratings of a study."""
    return any((has_studies or not one.numbers_kept) and one.time >= release.created for one in run.deletions)


def deletion_notes(runs: Iterable[Run]) -> Iterator[str]:
    """Yield a note for each deletion of instances of a benchmark."""
    found: dict[tuple[str, str], DeletedInstances] = {}
    for run in runs:
        for one in run.deletions:
            found.setdefault((run.benchmark, one.deletion), one)
    for (benchmark, _), one in found.items():
        were, numbers = ("was", "its") if one.n == 1 else ("were", "their")
        kept = f"{numbers} numbers were kept, and only those of the others are computed again"
        removed = f"{numbers} numbers were removed, and the current numbers are verified in place of earlier ones"
        yield (
            f"{benchmark}: {plural(one.n, 'instance')} {were} deleted on {one.time[:10]}; "
            f"{kept if one.numbers_kept else removed}."
        )


def _check_provenance(
    key: tuple[str, str], run: Run, now: CellProvenance, frozen: Mapping[tuple[str, str], CellProvenance] | None
) -> RunCheck:
    """Compare a run with its provenance in a release, and note its versions, snapshots and price. Reads no data.

    `frozen`: model and benchmark -> provenance in the release; None without a release.
    """
    checked = RunCheck(model=key[0], benchmark=key[1])
    if frozen is not None:
        checked.differences += (
            provenance_differences(frozen[key], now)
            if key in frozen
            else [ValueDifference(what="run", before=None, now=now.run_id)]
        )
    if (made_by := run.versions.get("medhelm", "")) != __version__:
        checked.notes.append(f"made by medhelm {made_by or 'of unknown version'}; this is {__version__}")
    checked.notes += changed_since(run.versions)
    if len(now.snapshots) > 1:
        checked.notes.append(f"the server called the model by {len(now.snapshots)} names: {', '.join(now.snapshots)}")
    if run.resolved_model and run.resolved_model.price:
        today = price_of(replace(run.resolved_model, price=None), datetime.now(UTC).date())
        old = run.resolved_model.price
        if today and (today.input, today.output) != (old.input, old.output):
            then, later = (f"{price.input:g} and {price.output:g}" for price in (old, today))
            checked.notes.append(
                f"billed at {then} US dollars per million tokens; the price list of today says {later}"
            )
    return checked


def _check_inputs(
    runs: Mapping[tuple[str, str], Run],
    checked: Mapping[tuple[str, str], RunCheck],
    store: Store,
    data: Path | None,
    folders: Sequence[Path],
) -> dict[str, Benchmark]:
    """Compare every run with its definition, its data and its prompts. Return the definitions found."""
    library: dict[str, Benchmark] = {}
    prompts: dict[tuple[str, str], str] = {}
    opened: dict[tuple[Any, ...], tuple[Benchmark, Dataset | MedHelmError]] = {}
    for key, run in runs.items():
        check = checked[key]
        try:
            if run.benchmark not in library:
                (library[run.benchmark],) = load_benchmarks([run.benchmark], metrics=METRIC_NAMES, extra=folders)
        except MedHelmError as error:
            if not run.has_imported_prompts:
                check.not_derived = f"its definition is not known: {error}"
                continue
        imported = run.data_digest if run.has_imported_prompts else ""
        own_data = run.settings.get("own_data")
        chosen = (run.benchmark, run.tier, _selection(run), own_data, run.rubric, run.benchmark_digest, imported)
        if chosen not in opened:
            opened[chosen] = _open_data(run, library, store, data)
        benchmark, dataset = opened[chosen]
        if run.benchmark_digest != benchmark.digest:
            check.differences.append(
                ValueDifference(what="definition", before=run.benchmark_digest, now=benchmark.digest)
            )
        if isinstance(dataset, MedHelmError):
            # Without the name, so that runs with the same cause share a remark.
            check.not_derived = str(dataset).splitlines()[0].removeprefix(f"{run.benchmark}: ")
            check.lacks_data = isinstance(dataset, MissingError)
            continue
        if run.data_digest != dataset.digest:
            _note_other_data(run, dataset, check)
            continue
        asked = (run.benchmark, dataset.digest)
        if asked not in prompts:
            prompts[asked] = _digest_of_prompts(dataset)
        stored = read_messages(store.prompts_file(run.benchmark, run.benchmark_digest, run.data_digest))
        if stored and (then := prompts_digest(stored)) != prompts[asked]:
            check.differences.append(ValueDifference(what="prompts", before=then, now=prompts[asked]))
            check.not_derived = "the prompts are not what the model was asked"
        elif not stored and run.benchmark_digest != benchmark.digest:
            check.not_derived = "the definition has changed, and the earlier prompts are not stored"
    return library


def _note_other_data(run: Run, dataset: Dataset, check: RunCheck) -> None:
    """Note that the data is not that of a run; that is no difference if instances of the run were deleted."""
    if run.deletions:
        check.not_derived = "instances were deleted, and the data has changed since then"
        check.lacks_data = True
        return
    check.differences.append(ValueDifference(what="data", before=run.data_digest, now=dataset.digest))
    check.not_derived = "the data has changed since the completions were made"


def _selection(run: Run) -> SampleOptions:
    """Return the options that select instances."""
    names = ("sample", "limit", "subset", "seed")
    return SampleOptions(**{name: run.settings[name] for name in names if name in run.settings})


def _open_data(
    run: Run, library: Mapping[str, Benchmark], store: Store, data: Path | None
) -> tuple[Benchmark, Dataset | MedHelmError]:
    """Return the current definition with the rubric of a run, and its data or the reason why that is not available.

    Imported runs include their instances.
    """
    library = {name: known.as_used(run.rubric, run.benchmark_digest) for name, known in library.items()}
    try:
        if file := run.settings.get(RUBRIC_FILE):
            library[run.benchmark] = with_rubric(library[run.benchmark], file)
        if run.has_imported_prompts:
            dataset = stored_dataset([run], library, store, data=data, limit=run.settings.get("limit"))
        else:
            options, own_data = _selection(run), run.settings.get("own_data", False)
            dataset = open_dataset(
                library[run.benchmark], data=data, tier=run.tier, options=options, scoring=True, own_data=own_data
            )
            (dataset,) = without_deleted([dataset], store)
    except MedHelmError as error:
        return library[run.benchmark], error
    return dataset.benchmark, dataset


def _digest_of_prompts(dataset: Dataset) -> str:
    """Return the digest of the current prompts."""

    def messages(instance: Instance) -> list[dict[str, str]]:
        return [{"role": one.role, "content": one.text} for one in render(dataset.benchmark, instance).messages]

    return prompts_digest({instance.id: messages(instance) for instance in dataset})


class _ProgressOnly(NullListener):
    """Passes on the progress, but no messages: those are about a temporary store."""

    def __init__(self, listener: ProgressListener) -> None:
        self._listener = listener

    def began(self, run: RunRecorder) -> None:
        """Report that a run began."""
        self._listener.began(run)

    def ended(self, run: RunRecorder) -> None:
        """Report that a run ended."""
        self._listener.ended(run)


def _rescore_runs(
    runs: Mapping[tuple[str, str], Run],
    checked: Mapping[tuple[str, str], RunCheck],
    benchmarks: Mapping[str, Benchmark],
    *,
    source: Store,
    target: Store,
    data: Path | None,
    listener: ProgressListener,
) -> None:
    """Rescore runs into `target` if possible and report every changed number; copy the other runs.

    Raises: Interrupted by Ctrl-C or a signal to end: part of the numbers would look like a difference.
    """
    again = [run for key, run in runs.items() if not checked[key].not_derived]
    setup = EvaluationSetup(
        store=target.folder, data=data, settings=Settings(offline=True), listener=_ProgressOnly(listener)
    )
    ended = rescored(again, list(benchmarks.values()), JuryChange(), setup, source)
    if ended.stopped:
        raise Interrupted("Interrupted. Nothing was verified, and the store is unchanged.")
    new = {(run.model, run.benchmark): run for run in load_runs(target)}
    for key, run in runs.items():
        if checked[key].not_derived:
            _copy_run(run, source, target)
        elif key in new:
            if run.deletions:  # a constant baseline stays that of all instances
                _copy_baseline(run, source, target)
            derived = _with_comparable_intervals(run, new[key], checked[key])
            keeps = any(one.numbers_kept for one in run.deletions)
            found = list(_score_differences(run, derived) if keeps else _number_differences(run, derived))
            # A number that another harness never computed is new, not different.
            checked[key].differences += [one for one in found if one.before is not None or not run.has_imported_prompts]
            if keeps:  # no one can compute the kept numbers again
                assert derived.folder is not None, "it was rescored into a store"
                shutil.rmtree(derived.folder)
                _copy_run(run, source, target)
        else:
            checked[key].not_derived = "no number came of it"


def _with_comparable_intervals(old: Run, new: Run, check: RunCheck) -> Run:
    """Give a rescored run the stored intervals of equal values whose method this version does not use, with a note.

    They follow from the scores, which are compared; a method that this version knows is compared as well.
    """
    former: set[str] = set()

    def kept(then: Mapping[str, Estimate], now: Mapping[str, Estimate]) -> dict[str, Estimate]:
        found = dict(now)
        for name in then.keys() & now.keys():
            before, after = then[name], now[name]
            equal = math.isclose(before.value, after.value, rel_tol=1e-12, abs_tol=1e-12)
            if before.method != after.method and equal and before.method in FORMER_METHODS:
                former.add(before.method)
                found[name] = replace(after, low=before.low, high=before.high, method=before.method)
        return found

    estimates = {rule: kept(old.estimates.get(rule, {}), own) for rule, own in new.estimates.items()}
    jury = new.jury_result
    if jury and old.jury_result:
        jury = replace(jury, subscores=kept(old.jury_result.subscores, jury.subscores))
    if not former:
        return new
    assert new.folder is not None, "it was rescored into a store"
    found = replace(new, estimates=estimates, jury_result=jury)
    write_run(new.folder, found)
    check.notes.append(f"intervals by {', '.join(sorted(former))} are kept as stored: this version uses other methods")
    return found


def _copy_run(run: Run, source: Store, target: Store) -> None:
    """Copy a run and its constant baseline to another store."""
    assert run.folder is not None, "it was read from a store"
    shutil.copytree(run.folder, target.folder / run.folder.relative_to(source.folder))
    _copy_baseline(run, source, target)


def _copy_baseline(run: Run, source: Store, target: Store) -> None:
    """Copy the constant baseline of a run's benchmark to another store."""
    baseline = source.baseline_file(run.benchmark, run.benchmark_digest, run.data_digest)
    if baseline.is_file():
        shutil.copy(baseline, target.folder / baseline.relative_to(source.folder))


def _number_differences(old: Run, new: Run) -> Iterator[ValueDifference]:
    """Yield the differences of a run's numbers: estimates, jury results, and counts of instance scores."""
    rules = [rule for rule in RULES if old.estimates.get(rule)]
    both_judged = old.jury_result is not None and new.jury_result is not None

    def numbers(run: Run) -> dict[str, Any]:
        content = asdict(replace(run, folder=None))
        estimates = {rule: content["estimates"][rule] for rule in rules}
        labels = content["jury_result"]["subscores"] if both_judged else {}
        return {"estimates": estimates, **{name: content[name] for name in DERIVED}, "labels": labels}

    yield from json_differences(numbers(old), numbers(new))
    yield from _score_differences(old, new)


def _score_differences(old: Run, new: Run) -> Iterator[ValueDifference]:
    """Yield for each metric and rule the number of instances whose score differs, with the first of them."""
    columns = [
        score_column(metric, rule)
        for rule in RULES
        if (stored := old.estimates.get(rule))
        for metric in dict.fromkeys((*stored, *new.estimates.get(rule, {})))
    ]
    then, now = (_without_kept(read_columns(run, ["instance_id", *columns])) for run in (old, new))
    ids = then["instance_id"]
    if ids != now["instance_id"]:
        yield _row_difference(ids, now["instance_id"])
        return
    for column in columns:
        changed = [place for place, before in enumerate(then[column]) if before != now[column][place]]
        if changed:
            first = changed[0]
            what = f"scores.{column} of {len(changed)} instances, such as {ids[first]}"
            yield ValueDifference(what=what, before=then[column][first], now=now[column][first])


def _without_kept(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return columns without the rows of deleted instances whose numbers were kept."""
    rows = [row for row, id_ in enumerate(columns["instance_id"]) if not id_.startswith(DELETED)]
    return {name: [values[row] for row in rows] for name, values in columns.items()}


def _row_difference(then: Sequence[str], now: Sequence[str]) -> ValueDifference:
    """Return the difference between the instances that have a record and those that should, with the first of them."""
    lacking, extra = ([one for one in a if one not in b] for a, b in ((now, set(then)), (then, set(now))))
    what = "rows of records.parquet"
    if lacking:
        what += f", where {len(lacking)} are missing, such as {lacking[0]}"
    elif extra:
        what += f", where {len(extra)} do not belong, such as {extra[0]}"
    elif len(then) == len(now):
        what += ", which are in another order"
    return ValueDifference(what=what, before=len(then), now=len(now))


def _notes(bases: Sequence[CellProvenance], release: Release | None) -> Iterator[str]:
    """Yield notes on all runs."""
    if release and release.medhelm_version != __version__:
        yield f"The release was made by medhelm {release.medhelm_version}; this is {__version__}."
    if release and has_earlier_ranking(release.leaderboard):
        yield (
            "The release was made when win rates ranked models: its ranks, intervals of averages and significant pairs "
            "are not compared."
        )
    by_model: dict[str, set[str]] = {}
    for basis in bases:
        by_model.setdefault(basis.model, set()).update(basis.snapshots)
        for judge, names in basis.jury.items():
            by_model.setdefault(judge, set()).update(names)
    for model, known in by_model.items():
        if len(known) > 1:
            yield f"{model} answered under {len(known)} names: {', '.join(sorted(known))}."


# --- text and JSON ----------------------------------------------------------------------------------------------------


def verification_as_json(found: Verification) -> dict[str, Any]:
    """Return the output of `medhelm verify --json`."""
    return {
        "release": found.release or None,
        "same": found.same,
        "runs": [{**plain_json(run), "same": not run.differences} for run in found.runs],
        "leaderboard": plain_json(found.board),
        "notes": list(found.notes),
    }


def verification_to_text(found: Verification, format: str = "table") -> str:
    """Return the result of a verification as text."""
    whose = f"release {found.release}" if found.release else "the store"
    derived = sum(not run.not_derived for run in found.runs)
    counts = f"{derived} of {len(found.runs)} runs were recomputed from their completions"
    if found.same and derived == len(found.runs):
        head = f"The leaderboard of {whose} was reproduced with every number: {counts}."
    elif found.same and not derived:
        head = f"Nothing in {whose} could be recomputed."
    elif found.same:
        head = f"No differences in the part of {whose} that could be recomputed: {counts}."
    else:
        differing = sum(bool(run.differences) for run in found.runs)
        head = f"The leaderboard of {whose} was not reproduced: {counts}, {differing} differ."
    rows: list[list[Value]] = [
        [run.benchmark, run.model, difference.what, shown(difference.before), shown(difference.now)]
        for run in found.runs
        for difference in run.differences
    ]
    parts = [head + "\n"]
    if rows:
        parts.append(render_table(rows, ["Benchmark", "Model", "Item", "Before", "Now"], format=format, keep=2))
    if found.board:
        parts.append(differences_table(found.board, format, caption="The leaderboard, stored and recomputed"))
    if remarks := [*found.notes, *_run_remarks(found.runs)]:
        parts.append("".join(f"- {printable(remark)}\n" for remark in remarks))
    return "\n".join(parts)


def _run_remarks(runs: Sequence[RunCheck]) -> list[str]:
    """Return remarks on runs, and reasons why runs could not be recomputed; equal texts are combined."""
    found: dict[str, list[str]] = {}
    for run in runs:
        for text in ([f"not recomputed: {run.not_derived}"] if run.not_derived else []) + run.notes:
            found.setdefault(text, []).append(f"{run.benchmark} with {run.model}")
    everywhere = f"all {len(runs):,} runs"
    return [
        f"{everywhere if len(places) == len(runs) > 1 else listed(places, 3)}: {text}" for text, places in found.items()
    ]

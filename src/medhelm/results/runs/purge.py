"""Delete text from a store for good: single instances, such as those of one patient, or all that meets conditions.

Deleting instances removes their text from all files of the store. A statement is written first, with the keys of the
completions to delete, so that the same command finishes a deletion that was interrupted. Then follow the cache, each
run, the files that runs share, and everything that can be derived again.
"""

from __future__ import annotations

import csv
import json
import re
import secrets
import shutil
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from medhelm import __version__
from medhelm.domain import DeletedInstances, Run
from medhelm.domain.run import RunOnDisk
from medhelm.errors import StoreError, UserError, suggestion
from medhelm.io.files import open_file, read_confidential, store_error
from medhelm.io.folders import WorkFolder, check_export, delete_folder, put_file, write_confidential
from medhelm.io.plugins import PURGES, all_from_extensions
from medhelm.models.cache_reader import CacheReader
from medhelm.results.options import DeletionRequest, PurgeFilter
from medhelm.results.runs.recount import recounted
from medhelm.results.runs.stored import request_digests
from medhelm.storage.annotations import Annotation, annotations_file, read_annotations, remove_annotations
from medhelm.storage.derived_files import FOLDER as DERIVED
from medhelm.storage.derived_files import clear_derived
from medhelm.storage.live_status import known_evaluations
from medhelm.storage.own_benchmarks import DEFINITIONS
from medhelm.storage.privacy import (
    DELETED,
    Deletion,
    Pseudonyms,
    StoredExport,
    deleted_instances,
    read_deletions,
    read_exports,
    rewrite_table,
    table_rows,
    write_deletion,
    write_exports,
)
from medhelm.storage.ratings import (
    RATINGS,
    StoredRating,
    damaged_ratings,
    remove_rated_instances,
    stored_ratings,
)
from medhelm.storage.releases import file_digest, release_names
from medhelm.storage.run_folders import delete_runs, locked_runs, read_removals, read_run_folders
from medhelm.storage.store import (
    MOVED,
    NAME,
    NEW,
    Store,
    disk_errors,
    finish_or_remove,
    new_run,
    read_run,
    restore_moved_runs,
    restore_run,
    write_run,
)
from medhelm.storage.unfinished import Batches

# --- deletion of instances: types -------------------------------------------------------------------------------------

RUN_TABLES = ("records.parquet", "judgments.parquet", "replies.parquet", "subscores.parquet")
"""Tables in the folder of a run."""

WORD = re.compile(r"\w{4,}")
"""A word that can show whose text a completion is."""

Names = dict[str, dict[str, set[str]]]
"""Benchmark -> instance -> its clusters."""

Keys = dict[str, dict[str, str]]
"""Benchmark -> name -> keyed hash."""


@dataclass(slots=True, kw_only=True)
class PlannedDeletion:
    """Everything that a deletion will delete."""

    store: Store
    request: DeletionRequest
    names: Pseudonyms
    ids: Keys = field(default_factory=dict)
    """Instances in the store."""
    clusters: Keys = field(default_factory=dict)
    """Named clusters, and those in which no other instance remains."""
    tables: dict[Path, int] = field(default_factory=dict)
    """Table -> rows of these instances."""
    marks: dict[Path, int] = field(default_factory=dict)
    """File with marks of references, annotations or ratings -> how many of them are of these instances."""
    digests: set[bytes] = field(default_factory=set)
    """Keys of completions in the cache."""
    orphans: int = 0
    """Of these, completions that belong to no run and may be of these instances."""
    orphans_left: int = 0
    """Completions in the cache that belong to no run, and stay."""
    exports: list[StoredExport] = field(default_factory=list)
    """Exports that hold these instances."""
    interrupted: list[Deletion] = field(default_factory=list)
    """Deletions that were interrupted, and are finished now."""
    done_before: list[Deletion] = field(default_factory=list)
    """Earlier deletions of the named instances."""

    @property
    def n(self) -> int:
        """Number of instances in the store."""
        return sum(map(len, self.ids.values()))

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to delete."""
        return not (self.tables or self.marks or self.digests or self.interrupted)


# --- deletion of instances: plan --------------------------------------------------------------------------------------


def plan_deletion(store: Store, request: DeletionRequest) -> PlannedDeletion:
    """Find everything that belongs to the named instances.

    Raises: UserError naming all instances and clusters that the store does not have; StoreError for damaged files.
    """
    _finish_replacements(store)
    known = _known_names(store)
    earlier = read_deletions(store)
    plan = PlannedDeletion(store=store, request=request, names=Pseudonyms(store))
    plan.interrupted = [one for one in earlier if not one.is_finished]
    if any(one.numbers_kept != request.keep_numbers for one in plan.interrupted):
        which = "with" if plan.interrupted[0].numbers_kept else "without"
        raise UserError(f"an earlier deletion was interrupted. Finish it first: repeat it {which} --keep-numbers.")
    _Names(plan, known, earlier).resolve()
    pending = {pair for one in plan.interrupted for pair in one.instances}
    for benchmark, own in known.items():
        for id_ in own:
            if (benchmark, key := plan.names.of(benchmark, id_)) in pending:
                plan.ids.setdefault(benchmark, {})[id_] = key
    _find_rows(plan)
    _find_completions(plan)
    for benchmark, ids in plan.ids.items():
        gone = {name for id_ in ids for name in known[benchmark].get(id_, ()) if name}
        left = {name for id_, names in known[benchmark].items() if id_ not in ids for name in names}
        plan.clusters.setdefault(benchmark, {}).update({one: plan.names.of(benchmark, one) for one in gone - left})
    plan.exports = [
        one
        for one in read_exports(store)
        if ("://" in one.path or Path(one.path).exists()) and not plan.ids.keys().isdisjoint(one.benchmarks)
    ]
    return plan


def _run_folders(store: Store) -> Iterator[Path]:
    """Yield the folders of all runs, shards and removed ones included."""
    for pattern in ("runs/*/[!.]*", "removed/[!.]*/*/[!.]*"):
        yield from sorted(path for path in store.folder.glob(pattern) if path.is_dir())


def _tables(store: Store) -> Iterator[tuple[str, Path]]:
    """Yield all tables with instances, each with its benchmark."""
    for folder in _run_folders(store):
        yield from ((folder.parent.name, path) for name in RUN_TABLES if (path := folder / name).is_file())
    yield from ((one.benchmark, one.path) for one in _shared_files(store) if one.path.suffix == ".parquet")


def _mark_files(store: Store) -> Iterator[tuple[str, Path]]:
    """Yield the files with marks of references, each with its benchmark."""
    filters = store.folder / "filters"
    yield from ((one.benchmark, one.path) for one in _shared_files(store) if one.path.parent == filters)


def _known_names(store: Store) -> Names:
    """Return all instances of a store with their clusters. Raises: StoreError for damaged files."""
    found: Names = {}
    for benchmark, path in _tables(store):
        if path.name in RUN_TABLES[1:]:
            continue
        own = found.setdefault(benchmark, {})
        for id_, cluster in table_rows(path, ("instance_id", "cluster")):
            own.setdefault(id_, set()).add(cluster)
    for benchmark, path in _mark_files(store):
        for id_ in _read_marks(path)["by_instance"]:
            found.setdefault(benchmark, {}).setdefault(id_, set())
    for one in read_annotations(store):
        found.setdefault(one.benchmark, {}).setdefault(one.instance_id, set())
    for study in stored_ratings(store):
        for row in study.rows:
            found.setdefault(row.benchmark, {}).setdefault(row.instance_id, set())
    return {
        benchmark: {id_: clusters for id_, clusters in own.items() if not id_.startswith(DELETED)}
        for benchmark, own in found.items()
    }


def _read_marks(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_confidential(path))
        return {**content, "by_instance": dict(content["by_instance"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is damaged ({error}). Remove it. Nothing was deleted.") from error


class _Names:
    """Finds the instances that the user names."""

    def __init__(self, plan: PlannedDeletion, known: Names, earlier: Sequence[Deletion]) -> None:
        self._plan, self._known, self._earlier = plan, known, earlier
        self._deleted = {"instance": deleted_instances(plan.store, earlier)}
        self._deleted["cluster"] = {pair for one in earlier for pair in one.clusters}
        self._problems: list[str] = []

    def resolve(self) -> None:
        """Add the instances to the plan. Raises: UserError with all problems."""
        request = self._plan.request
        for text in request.instances:
            self._add(text, ("instance",))
        for text in request.clusters:
            self._add(text, ("cluster",))
        for path in request.lists:
            self._read_list(path)
        if self._problems:
            raise UserError("\n".join([*dict.fromkeys(self._problems), "Nothing was deleted."]))

    def _read_list(self, path: Path) -> None:
        """Read a file with names."""
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, ValueError) as error:
            self._problems.append(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.")
            return
        header = next(csv.reader(lines[:1]), []) if lines else []
        columns = [name.strip().lower() for name in header]
        if "benchmark" not in columns or not {"instance_id", "cluster"} & set(columns):
            for line in lines:
                if line.strip():
                    self._add(line.strip(), ("instance", "cluster"))
            return
        for row in csv.DictReader(lines[1:], fieldnames=columns):
            cells = {name: (value or "").strip() for name, value in row.items() if isinstance(value, str)}
            chosen = "instance_id" if cells.get("instance_id") else "cluster"
            if name := cells.get(chosen, ""):
                self._add(
                    f"{cells.get('benchmark', '')}:{name}", ("instance" if chosen == "instance_id" else "cluster",)
                )

    def _add(self, text: str, kinds: Sequence[str]) -> None:
        """Add the instance or cluster of this name, or a problem."""
        benchmark, separator, name = text.partition(":")
        known_names = {*self._known, *(pair[0] for pairs in self._deleted.values() for pair in pairs)}
        is_whole = bool(separator) and benchmark in known_names
        if not is_whole:
            if kinds == ("instance",):
                hint = suggestion(benchmark, known_names) if separator else "Write BENCHMARK:ID."
                self._problems.append(f"{text}: the store has no such benchmark. {hint}".rstrip())
                return
            benchmark, name = "", text
        for kind in kinds:
            if (kind == "cluster" or is_whole) and self._add_one(kind, benchmark, name, text):
                return
        words = " or ".join(kinds)
        where = f" of the benchmark {benchmark}" if benchmark else ""
        if not any(problem.startswith(f"{text}: ") for problem in self._problems):
            self._problems.append(f"{text}: the store has no {words} {name}{where}.")

    def _add_one(self, kind: str, benchmark: str, name: str, text: str) -> bool:
        """Add an instance, or those of a cluster; return False if the store does not have it."""
        plan = self._plan
        found: dict[str, list[str]] = {}
        for one, own in self._known.items():
            if benchmark in ("", one):
                if kind == "cluster":  # by its name, or by the keyed hash that exports show
                    every = {cluster for clusters in own.values() for cluster in clusters if cluster}
                    meant = {cluster for cluster in every if name in (cluster, plan.names.of(one, cluster))}
                    ids = [id_ for id_, clusters in own.items() if clusters & meant]
                    plan.clusters.setdefault(one, {}).update({c: plan.names.of(one, c) for c in meant})
                else:
                    ids = [name] if name in own else []
                if ids:
                    found[one] = ids
        if len(found) > 1:
            ways = " or ".join(f"{one}:{name}" for one in found)
            self._problems.append(f"{text}: the cluster is in {len(found)} benchmarks. Write {ways}.")
            return False
        for one, ids in found.items():
            plan.ids.setdefault(one, {}).update({id_: plan.names.of(one, id_) for id_ in ids})
        deleted = [pair for pair in self._deleted[kind] if pair[0] == (benchmark or pair[0])]
        again = {pair for pair in deleted if pair[1] in (name, plan.names.of(pair[0], name))}
        for earlier in self._earlier:
            pairs = earlier.instances if kind == "instance" else earlier.clusters
            if again & set(pairs) and earlier not in plan.done_before:
                plan.done_before.append(earlier)
        return bool(found or again)


def _find_rows(plan: PlannedDeletion) -> None:
    """Count the rows and marks of the instances in all files."""
    for benchmark, path in _tables(plan.store):
        if ids := plan.ids.get(benchmark):
            n = sum(id_ in ids for id_, _ in table_rows(path, ("instance_id", "position"), distinct=False))
            if n:
                plan.tables[path] = n
    for benchmark, path in _mark_files(plan.store):
        n = len(plan.ids.get(benchmark, {}).keys() & _read_marks(path)["by_instance"].keys())
        if n:
            plan.marks[path] = n
    if n := sum(_is_planned(plan, one) for one in read_annotations(plan.store)):
        plan.marks[annotations_file(plan.store)] = n
    if damaged := damaged_ratings(plan.store):
        raise StoreError("\n".join([*damaged, "Nothing was deleted."]))
    for study in stored_ratings(plan.store):
        if n := sum(_is_planned(plan, row) for row in study.rows):
            plan.marks[study.path] = n


def _is_planned(plan: PlannedDeletion, one: Annotation | StoredRating) -> bool:
    """Return True for an annotation or a rating of an instance that will be deleted."""
    return one.instance_id in plan.ids.get(one.benchmark, {})


def _find_completions(plan: PlannedDeletion) -> None:
    """Find the completions in the cache: of requests of the instances, and of no run that may be of the instances."""
    if not (plan.ids or plan.interrupted):
        return
    own: set[bytes] = {bytes.fromhex(key) for one in plan.interrupted for key in one.digests}
    others: set[bytes] = set()
    for benchmark, path in _tables(plan.store):
        if path.name in ("records.parquet", "replies.parquet"):
            ids = plan.ids.get(benchmark, {})
            for id_, key in table_rows(path, ("instance_id", "request_digest")):
                if key:
                    (own if id_ in ids else others).add(bytes.fromhex(key))
    own -= others
    plan.digests = own & {row.digest for row in cached_completions(plan.store.cache_file)}
    with CacheReader(plan.store.cache_file) as cache:
        words: set[str] | None = None
        for digest, _, completion in cache.texts(without=own | others):
            words = _words_of_others(plan) if words is None else words
            said = f"{completion.text or ''} {completion.failure.message if completion.failure else ''}"
            if plan.request.orphans or not words.issuperset(WORD.findall(said.casefold())):
                plan.digests.add(digest)
                plan.orphans += 1
            else:
                plan.orphans_left += 1


def _words_of_others(plan: PlannedDeletion) -> set[str]:
    """Return the words in all stored texts of instances that are not deleted.

    A completion of no run may be of any instance. If it has another word, it may hold text of a deleted one.
    """
    texts = ("messages", "choices", "references", "fields", "metadata", "completion", "text", "explanation")
    found: set[str] = set()
    for benchmark, path in _tables(plan.store):
        ids = plan.ids.get(benchmark, {})
        for id_, *columns in table_rows(path, ("instance_id", *texts)):
            if id_ not in ids:
                found.update(WORD.findall(" ".join((id_, *columns)).replace("\\n", " ").casefold()))
    return found


# --- deletion of instances: execution ---------------------------------------------------------------------------------


def delete_instances(plan: PlannedDeletion, *, command: str) -> Deletion:
    """Delete what was planned, and return the statement, which is stored. `command`: without ids.

    Raises: StoreError if an evaluation is in progress, or if the disk refuses; the same command then continues.
    """
    store = plan.store
    _refuse_while_running(store)
    now = datetime.now(UTC)
    began = plan.interrupted[0] if plan.interrupted else None
    instances = {(name, key) for name, ids in plan.ids.items() for key in ids.values()}
    clusters = {(name, key) for name, own in plan.clusters.items() for key in own.values()}
    for one in plan.interrupted:
        instances.update(one.instances)
        clusters.update(one.clusters)
    places = planned_rows(plan) | ({"cache.sqlite": len(plan.digests)} if plan.digests else {})
    deletion = Deletion(
        id=began.id if began else f"{now.strftime('%Y%m%dT%H%M%SZ')}-{secrets.token_hex(3)}",
        time=began.time if began else now.isoformat(timespec="seconds"),
        command=command,
        medhelm_version=__version__,
        numbers_kept=plan.request.keep_numbers,
        instances=tuple(sorted(instances)),
        clusters=tuple(sorted(clusters)),
        runs=began.runs if began else (),
        places={**(began.places if began else {}), **places},
        remaining=tuple(_remaining(plan)),
        digests=tuple(sorted(digest.hex() for digest in plan.digests)),
    )
    plan.names.keep()
    folders = list(dict.fromkeys(path.parent for path in plan.tables if path.name in RUN_TABLES))
    named = {one: f"{one.parent.name} with {one.name.rpartition('-')[0]}" for one in folders}
    with _disk_errors(store), locked_runs(store, named, "deleted"):
        write_deletion(store, deletion)
        if n := _delete_of_extensions(store, plan.ids):  # first, while an interrupted deletion finds the ids again
            deletion = replace(deletion, places={**deletion.places, OF_EXTENSIONS: n})
        delete_completions(store.cache_file, plan.digests)
        for folder in folders:
            changed = _rewrite_run(plan, folder, deletion)
            deletion = replace(deletion, runs=(*deletion.runs, changed))
            write_deletion(store, deletion)
        for path in [path for path in plan.tables if path.name not in RUN_TABLES]:
            _rewrite_shared(plan, path)
        for path in plan.marks:
            if path == annotations_file(store):
                remove_annotations(store, lambda one: _is_planned(plan, one))
            elif path.name != RATINGS:
                _rewrite_marks(plan, path)
        for name, ids in plan.ids.items():
            remove_rated_instances(store, name, ids)
        _delete_derived(store)
        exports = _delete_exports(plan)
        deletion = replace(deletion, exports=tuple(exports), digests=(), is_finished=True)
        _check_gone(plan)
        for other in plan.interrupted[1:]:
            write_deletion(store, replace(other, is_finished=True, digests=()))
    return deletion


OF_EXTENSIONS = "studies and other files of extensions"
"""Place in a statement: what extensions deleted."""


def _delete_of_extensions(store: Store, instances: Mapping[str, Collection[str] | None]) -> int:
    """Delete what extensions store of some instances, and return the number of entries.

    `instances`: benchmark -> ids; None for all instances of the benchmark.
    """
    return sum(delete(store, name, ids) for delete in all_from_extensions(PURGES) for name, ids in instances.items())


def finish_statement(store: Store, deletion: Deletion, text: str) -> None:
    """Store the statement of a finished deletion. `text`: the same for people."""
    with _disk_errors(store):
        write_deletion(store, deletion, text=text)


def _remaining(plan: PlannedDeletion) -> Iterator[str]:
    """Yield what the deletion does not reach."""
    if plan.orphans_left:
        yield (
            f"{plan.orphans_left:,} completions in the cache that belong to no run, and have only words that texts of "
            "other instances have; --orphans deletes them"
        )
    for batch in Batches(plan.store).all():
        yield (
            f"batch {batch.id} at {batch.provider}, which may hold the instances: repeat the command that submitted "
            "it, with --batch, then this one with --orphans"
        )
    for name in plan.ids:
        if (plan.store.folder / DEFINITIONS / name).is_dir():
            yield (
                f"{DEFINITIONS}/{name}, a copy of your own definition: if its prompts have the instances as examples, "
                "delete the folder and change your definition"
            )
    if not plan.request.exports:
        yield from (f"{one.path}, written {one.time[:10]}: --exports deletes it" for one in plan.exports)
    yield from NOT_COVERED


def planned_rows(plan: PlannedDeletion) -> dict[str, int]:
    """Return each file of the store with the number of rows, marks, annotations or ratings to delete there."""
    return {path.relative_to(plan.store.folder).as_posix(): n for path, n in {**plan.tables, **plan.marks}.items()}


def _rewrite_run(plan: PlannedDeletion, folder: Path, deletion: Deletion) -> dict[str, Any]:
    """Write a run without the instances, or without their texts, and put it in place; return what changed."""
    run = read_run(folder / NAME)
    ids, clusters = plan.ids[folder.parent.name], plan.clusters.get(folder.parent.name, {})
    salt = plan.names.of("requests", "kept") if plan.request.keep_numbers else ""
    before = file_digest(folder / RUN_TABLES[0])
    n_rows = plan.tables.get(folder / RUN_TABLES[0], 0)
    n_left = len(table_rows(folder / RUN_TABLES[0], ("position",))) - n_rows
    about = {"id": run.id, "benchmark": run.benchmark, "model": run.model, "n_before": run.n, "records_before": before}
    if n_left == 0 and not salt:
        delete_folder(folder)
        return {**about, "n": 0, "records": ""}
    with new_run(folder) as new:
        for path in sorted(one for one in folder.iterdir() if one.is_file() and one.name != NAME):
            if path.suffix != ".parquet" or not rewrite_table(path, new / path.name, ids, clusters=clusters, salt=salt):
                with open_file(path, "rb") as source, open_file(new / path.name, "wb") as copy:
                    shutil.copyfileobj(source, copy)
        changed = run if salt else recounted(run, new, n=run.n - n_rows)
        note = DeletedInstances(deletion=deletion.id, time=deletion.time, n=n_rows, numbers_kept=bool(salt))
        changed = replace(changed, deletions=(*run.deletions, note))
        write_run(new, changed)
    return {**about, "n": changed.n, "records": file_digest(folder / RUN_TABLES[0])}


def _rewrite_shared(plan: PlannedDeletion, path: Path) -> None:
    """Write the prompts or instances that runs share without the deleted ones."""
    name, baseline = _shared_file(path).benchmark, path.with_suffix(".floor.json")
    if baseline.is_file():
        _forget_answer(plan, path, baseline, name)
    with WorkFolder(path.parent) as work:
        rewrite_table(path, work.path / path.name, plan.ids[name])
        if table_rows(work.path / path.name, ("instance_id",)):
            put_file(work.path / path.name, path)
        else:
            path.unlink()


def _forget_answer(plan: PlannedDeletion, prompts: Path, baseline: Path, benchmark: str) -> None:
    """Delete a constant baseline whose answer is a text of the deleted instances alone."""
    answer = str((json.loads(read_confidential(baseline)) or {}).get("answer", ""))
    own, others = set[str](), set[str]()
    for id_, references in table_rows(prompts, ("instance_id", "references")):
        (own if id_ in plan.ids[benchmark] else others).update(one["text"] for one in json.loads(references or "[]"))
    if answer in own - others:
        baseline.unlink()


def _rewrite_marks(plan: PlannedDeletion, path: Path) -> None:
    """Write the marks of references without those of the instances."""
    content = _read_marks(path)
    ids = plan.ids[_shared_file(path).benchmark]
    content["by_instance"] = {id_: mark for id_, mark in content["by_instance"].items() if id_ not in ids}
    write_confidential(path, json.dumps(content, indent=1, ensure_ascii=True) + "\n")


def _delete_derived(store: Store) -> None:
    """Delete what is derived from runs, and what ended evaluations and killed processes left."""
    shutil.rmtree(store.folder / DERIVED, ignore_errors=True)
    for path in store.folder.glob("running/*.json"):
        path.unlink(missing_ok=True)
    for pattern in ("runs/*/.purged-*", "removed/.purged-*", "removed/*/*/.purged-*"):
        for folder in store.folder.glob(pattern):
            shutil.rmtree(folder)


def _finish_replacements(store: Store) -> None:
    """Finish or discard what killed processes left of runs; `open_store` does this once for each process."""
    restore_moved_runs(sorted(store.folder.glob(f"runs/*/{MOVED}*")), store.lock_file_of)
    for new in store.folder.glob(f"runs/*/{NEW}*"):
        finish_or_remove(new, store.lock_file_of)
    for old in store.folder.glob(f"removed/*/*/{MOVED}*"):
        restore_run(old.with_name(old.name.removeprefix(MOVED)))
    for new in store.folder.glob(f"removed/*/*/{NEW}*"):
        shutil.rmtree(new)


def _delete_exports(plan: PlannedDeletion) -> list[dict[str, Any]]:
    """Delete the exports that hold the instances, if the user wants that; return all with what was done."""
    found = []
    for one in plan.exports:
        is_deleted = plan.request.exports and _delete_export(Path(one.path), one.kind)
        found.append({"path": one.path, "time": one.time, "kind": one.kind, "deleted": is_deleted})
    gone = {one["path"] for one in found if one["deleted"]}
    if gone:
        write_exports(plan.store, [one for one in read_exports(plan.store) if one.path not in gone])
    return found


def _delete_export(path: Path, kind: str) -> bool:
    """Delete an export; return False for a folder that holds something else."""
    try:
        if path.is_dir():
            check_export(path, kind)
            shutil.rmtree(path)
        else:
            path.unlink()
    except (UserError, OSError):
        return False
    return True


def _check_gone(plan: PlannedDeletion) -> None:
    """Raise StoreError if a table still has one of the instances."""
    for benchmark, path in _tables(plan.store):
        ids = plan.ids.get(benchmark, {})
        if any(id_ in ids for (id_,) in table_rows(path, ("instance_id",))):
            raise StoreError(f"{path} still holds deleted instances: another process wrote it. Repeat the command.")


def _disk_errors(store: Store) -> AbstractContextManager[None]:
    return disk_errors(store.folder, "Repeat the command.")


def _refuse_while_running(store: Store) -> None:
    """Raise StoreError if an evaluation is in progress."""
    if alive := [one.status.id for one in known_evaluations(store) if one.is_alive]:
        raise StoreError(f"evaluations are in progress: {', '.join(alive)}. Stop them first. Nothing was deleted.")


def statement_command(plan: PlannedDeletion) -> str:
    """Return the command with keyed hashes in place of ids and names of clusters."""
    request = plan.request
    words = ["medhelm", "purge"]
    words += [f"--instance {name}:{key}" for name, ids in plan.ids.items() for key in ids.values()]
    flags = {"--keep-numbers": request.keep_numbers, "--orphans": request.orphans, "--exports": request.exports}
    words += [flag for flag, is_set in flags.items() if is_set]
    return " ".join(words)


# --- purge by conditions ----------------------------------------------------------------------------------------------
# Text of runs, prompts, instances, marks of references, definitions and completions in the cache, by conditions.
#
# What remaining runs need stays. SQLite overwrites the rows it deletes, rewrites its file and empties its log, so that
# no deleted text is left in free pages.

TIMEOUT_S = 10.0
"""Most seconds to wait for another process that uses the cache."""

NOT_COVERED = (
    "exports, reports, static sites and files of -o outside the store",
    "backups, snapshots and copies of the store, and blocks that a disk has not overwritten",
    "data that model providers keep under their own terms",
)
"""Places that a purge does not reach."""


class _CachedCompletion(NamedTuple):
    """A completion in the cache."""

    digest: bytes
    model: str
    created: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """The text to be deleted from a store, or that was deleted, and the text that remains."""

    runs: Sequence[RunOnDisk]
    """Runs, removed ones included."""
    files: Sequence[Path]
    """Files with prompts, instances, marks of references or a definition of the user's own benchmark."""
    digests: Collection[bytes]
    """Keys of the completions in the cache."""
    annotations: Collection[str]
    """Ids of the annotations that are about none of the runs that remain."""
    n_bytes: int
    """Bytes of the runs and files."""
    runs_left: int
    """Runs that remain."""
    completions_left: int
    """Completions in the cache that remain."""
    orphans_left: int
    """Of these, completions that belong to no run."""
    batches: int
    """Batches whose data a provider may still hold."""
    releases: Sequence[str]
    """Releases; they hold numbers and no text of instances or completions, and stay."""

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to delete."""
        return not (self.runs or self.files or self.digests or self.annotations)


def days_ago(days: float) -> datetime:
    """Return the time `days` days ago."""
    return datetime.now(UTC) - timedelta(days=days)


def plan_purge(store: Store, wanted: PurgeFilter) -> Purge:
    """Return what a purge would delete. Raises: UserError for a benchmark or model that the store does not know."""
    runs = _runs_on_disk(store)
    chosen = [one for one in runs if wanted.selects(one)]
    folders = {one.folder for one in chosen}
    kept = [one for one in runs if one.folder not in folders]
    rows = cached_completions(store.cache_file)
    _check_names(store, wanted, runs, rows)
    own, needed = request_digests(chosen), request_digests(kept)
    old = wanted.before.timestamp() if wanted.before else float("inf")

    def is_deleted(row: _CachedCompletion) -> bool:
        if row.digest in needed:
            return False
        matches = (
            not (wanted.benchmarks or wanted.only_orphans)
            and row.created < old
            and row.model in (wanted.models or [row.model])
        )
        return row.digest in own or matches or wanted.orphans

    digests = {row.digest for row in rows if is_deleted(row)}
    files = _unneeded_files(store, wanted, chosen, kept)
    return Purge(
        runs=chosen,
        files=files,
        digests=digests,
        annotations=[one.id for one in read_annotations(store) if _is_unneeded(one, wanted, kept)],
        n_bytes=sum(one.n_bytes for one in chosen) + sum(path.stat().st_size for path in files),
        runs_left=len(kept),
        completions_left=len(rows) - len(digests),
        orphans_left=sum(row.digest not in digests and row.digest not in needed for row in rows),
        batches=len(Batches(store).all()),
        releases=release_names(store),
    )


def _runs_on_disk(store: Store) -> list[RunOnDisk]:
    """Return all runs, removed ones included."""
    return [*read_run_folders(store), *(run for removal in read_removals(store) for run in removal.runs)]


def _is_unneeded(one: Annotation, wanted: PurgeFilter, kept: Sequence[RunOnDisk]) -> bool:
    """Return True for an annotation that meets the conditions and is about none of the runs that remain."""
    is_old = wanted.before is None or datetime.fromisoformat(one.time) < wanted.before
    is_named = one.benchmark in (wanted.benchmarks or [one.benchmark]) and one.model in (wanted.models or [one.model])
    is_needed = any(run.benchmark == one.benchmark and one.model in ("", run.model) for run in kept)
    return is_old and is_named and not (is_needed or wanted.only_orphans)


def purge(store: Store, found: Purge) -> None:
    """Delete what was planned. Raises: StoreError if an evaluation is in progress, or if the disk refuses."""
    _refuse_while_running(store)
    # Of runs whose folders were deleted by hand, only shared files are left to tell the benchmark.
    shared = {one.benchmark for one in _shared_files(store) if one.path in found.files}
    delete_runs(store, found.runs, before=lambda: delete_completions(store.cache_file, found.digests))
    with _disk_errors(store):
        for path in found.files:
            path.unlink(missing_ok=True)
            if path.parent.parent == store.folder / DEFINITIONS:
                with suppress(OSError):  # not empty yet
                    path.parent.rmdir()
        if found.annotations:
            remove_annotations(store, lambda one: one.id in found.annotations)
        touched = shared | {one.benchmark for one in found.runs}
        gone = touched - {one.benchmark for one in _runs_on_disk(store)}
        clear_derived(store.folder, gone)
        _delete_of_extensions(store, dict.fromkeys(gone))


def _check_names(
    store: Store, wanted: PurgeFilter, runs: Sequence[RunOnDisk], rows: Sequence[_CachedCompletion]
) -> None:
    """Raise UserError for a name that occurs nowhere in the store: with a typing error, text would stay unnoticed."""
    benchmarks = {one.benchmark for one in runs} | {benchmark for _, benchmark, *_ in _shared_files(store)}
    models = {one.model for one in runs} | {row.model for row in rows}
    for kind, names, known in (("benchmark", wanted.benchmarks, benchmarks), ("model", wanted.models, models)):
        for name in names:
            if name not in known:
                hint = suggestion(name, known)
                raise UserError(f"{store.folder} holds nothing of the {kind} `{name}`. {hint} Nothing was deleted.")


# --- purge: files that runs share -------------------------------------------------------------------------------------


class _SharedFile(NamedTuple):
    """A file that the runs of a benchmark on some data share. Digests are shortened, as in file names."""

    path: Path
    benchmark: str
    benchmark_digest: str
    """"" if it does not matter."""
    data_digest: str

    def serves(self, run: Run) -> bool:
        """Return whether it belongs to a run."""
        return (
            self.benchmark == run.benchmark
            and run.benchmark_digest.startswith(self.benchmark_digest)
            and run.data_digest.startswith(self.data_digest)
        )


N_DIGESTS: Mapping[str, int] = {"prompts": 2, "filters": 2, "instances": 1}
"""Folder of files that runs share -> digests at the end of their names."""


def _shared_files(store: Store) -> Iterator[_SharedFile]:
    """Yield the files of prompts, instances and marks of references, and the copies of definitions."""
    for folder in N_DIGESTS:
        yield from map(_shared_file, sorted(store.folder.glob(f"{folder}/[!.]*")))
    for path in sorted(store.folder.glob(f"{DEFINITIONS}/*/[!.]*")):
        yield _SharedFile(path, path.parent.name, "", "")


def _shared_file(path: Path) -> _SharedFile:
    """Return a file with what its name says."""
    name = path.name.removesuffix(".floor.json").removesuffix(path.suffix)
    benchmark, *digests = name.rsplit("-", N_DIGESTS[path.parent.name])
    return _SharedFile(path, benchmark, *["", *digests][-2:])


def _unneeded_files(
    store: Store, wanted: PurgeFilter, chosen: Sequence[RunOnDisk], kept: Sequence[RunOnDisk]
) -> list[Path]:
    """Return the shared files that meet the conditions and that no remaining run needs."""
    damaged = {one.benchmark for one in kept if one.run is None}
    used, needed = ([one.run for one in runs if one.run] for runs in (chosen, kept))
    found = []
    for file in _shared_files(store):
        if file.benchmark in damaged or any(map(file.serves, needed)):
            continue
        modified = datetime.fromtimestamp(file.path.stat().st_mtime, UTC)
        is_old = wanted.before is None or modified < wanted.before
        is_named = file.benchmark in (wanted.benchmarks or [file.benchmark])
        matches = is_named and is_old and not (wanted.models or wanted.only_orphans)
        if matches or any(map(file.serves, used)):
            found.append(file.path)
    return found


# --- purge: the cache -------------------------------------------------------------------------------------------------


def cached_completions(cache: Path) -> list[_CachedCompletion]:
    """Return all completions of the cache, without their texts. Raises: StoreError."""
    if not cache.is_file() or not cache.stat().st_size:
        return []
    try:
        with closing(sqlite3.connect(cache, timeout=TIMEOUT_S)) as connection:
            return [
                _CachedCompletion(*row) for row in connection.execute("SELECT digest, model, created FROM completions")
            ]
    except sqlite3.Error as error:
        raise store_error(error, cache, TIMEOUT_S) from error


def delete_completions(cache: Path, digests: Collection[bytes]) -> None:
    """Delete completions, and overwrite what they leave in the file and its log. Raises: StoreError."""
    if not cache.is_file():
        return
    try:
        with closing(sqlite3.connect(cache, timeout=TIMEOUT_S, isolation_level=None)) as connection:
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("DELETE FROM completions WHERE digest = ?", [(digest,) for digest in digests])
            connection.execute("COMMIT")
            connection.execute("VACUUM")
            is_busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error as error:
        raise store_error(error, cache, TIMEOUT_S) from error
    if is_busy:
        raise StoreError(
            f"{cache} is in use, so that its log still holds deleted text. End the processes that use the store, such "
            "as `medhelm serve`, and repeat the command."
        )

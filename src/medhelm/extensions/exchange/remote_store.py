"""Publish runs and releases to an object store, and read them there through a copy on this machine.

The layout is that of a store. Objects are created and never changed. A run is published when its `run.json` is there,
a release when its `release.json` is: they come last, so an interrupted publication is invisible, and the same command
finishes it. A copy downloads each run once.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from medhelm.domain import Benchmark, Run
from medhelm.errors import StoreError, UserError
from medhelm.extensions.exchange.object_store.store import ObjectStore
from medhelm.io.files import leave_plain
from medhelm.io.http.egress import ADMINISTRATOR_FILE, read_rules
from medhelm.io.http.hosts import is_loopback
from medhelm.io.output_folder import atomic_file, atomic_folder
from medhelm.io.work_folders import delete_folder
from medhelm.results.comparable import has_own_data
from medhelm.results.export import benchmarks_with_record_numbers
from medhelm.results.options import EVERY_RUN, RunFilter
from medhelm.results.runs.run_filter import filter_runs
from medhelm.storage.audit import AuditLog
from medhelm.storage.damage import no_damaged_runs
from medhelm.storage.imported_instances import instances_file
from medhelm.storage.releases import MANIFEST, release_names
from medhelm.storage.runs import load_runs
from medhelm.storage.store import NAME, Store, create, open_store

_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}"
_RUN_FILES = re.compile(rf"(runs/{_NAME}/{_NAME})/{_NAME}")
_RELEASE_FILES = re.compile(rf"(releases/{_NAME})/{_NAME}")
_OTHER_FILES = re.compile(rf"(?:prompts|instances)/{_NAME}")
"""Keys of the layout. Others are ignored: the content of an object store is not trusted."""


@dataclass(frozen=True, slots=True)
class Publication:
    """Result of a publication."""

    url: str
    """Address of the published store."""
    runs: int
    """Runs that were published now."""
    releases: int
    """Releases that were published now."""
    known: int
    """Runs and releases that were there already."""
    remarks: tuple[str, ...] = ()
    """Remarks on what was published that may identify patients."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A run or a release with its files, the one that makes it visible last."""

    title: str
    benchmark: str
    files: Mapping[str, Path]
    """Key -> file."""

    @property
    def marker(self) -> str:
        """Key of the file that makes it visible: the last one."""
        return list(self.files)[-1]


def publish(
    store: Store,
    remote: ObjectStore,
    definitions: Sequence[Benchmark],
    *,
    wanted: RunFilter = EVERY_RUN,
    allowed: Collection[str] = (),
) -> Publication:
    """Publish finished runs that meet some conditions, and all releases.

    Parameters: definitions, of the benchmarks that are known, others count as private; allowed, hosts that may get
    gated and private data.
    Raises: UserError, before anything is sent, for private data without consent, for a run or release that was
    published with other content, and as `filter_runs`; StoreError; MissingError if the object store cannot be used.
    """
    with no_damaged_runs():
        runs = filter_runs(wanted, [run for run in load_runs(store) if run.is_complete], lambda run: run)
    if problem := _missing_consent(runs, definitions, remote.host, allowed):
        raise UserError(problem)
    parts = [*(_run_part(store, run) for run in runs), *(_release_part(store, name) for name in release_names(store))]
    published = remote.sizes()
    known = [part for part in parts if part.marker in published]
    if other := [part for part in known if remote.read(part.marker) != part.files[part.marker].read_bytes()]:
        raise UserError(
            f"{remote.url} has other content under the same name: {', '.join(part.title for part in other)}. What is "
            "published never changes: publish to another folder, or leave these out with --exclude or --benchmark. "
            "Nothing was sent."
        )
    remote.create("store.json", (store.folder / "store.json").read_bytes())
    for part in parts:
        if part.marker not in published:
            _send(part, remote)
    new = [part for part in parts if part.marker not in published]
    n_releases = sum(not part.benchmark for part in new)
    remarks = tuple(
        f"{name}: the clusters look like record numbers of patients, and were published as they are, as were the texts."
        for name in benchmarks_with_record_numbers(runs)
    )
    return Publication(remote.url, len(new) - n_releases, n_releases, len(known), remarks)


def _run_part(store: Store, run: Run) -> _Part:
    assert run.folder is not None, "runs of a store have a folder"
    digests = run.benchmark_digest, run.data_digest
    instances = instances_file(store, run.benchmark, run.data_digest)
    shared = [
        store.prompts_file(run.benchmark, *digests),
        store.baseline_file(run.benchmark, *digests),
        instances,
        instances.with_suffix(".json"),
    ]
    own = sorted(path for path in run.folder.iterdir() if path.is_file() and path.name != NAME)
    files = [*(path for path in shared if path.exists()), *own, run.folder / NAME]
    return _Part(f"{run.benchmark} with {run.model}", run.benchmark, _files_by_key(store, files))


def _release_part(store: Store, name: str) -> _Part:
    folder = store.folder / "releases" / name
    own = sorted(path for path in folder.iterdir() if path.is_file() and path.name != MANIFEST)
    return _Part(f"release {name}", "", _files_by_key(store, [*own, folder / MANIFEST]))


def _files_by_key(store: Store, files: Iterable[Path]) -> dict[str, Path]:
    return {path.relative_to(store.folder).as_posix(): path for path in files}


def _send(part: _Part, remote: ObjectStore) -> None:
    """Create the objects of a part. Raises: StoreError if one of them exists with other content."""
    for key, path in part.files.items():
        if not remote.create(key, path, benchmark=part.benchmark) and remote.read(key) != path.read_bytes():
            raise StoreError(
                f"{remote.url}/{key} exists with other content, so {part.title} was not published. It is left from "
                "another publication that was interrupted: remove it there, or publish to another folder."
            )


def _missing_consent(runs: Sequence[Run], definitions: Sequence[Benchmark], host: str, allowed: Collection[str]) -> str:
    """Return the message on private data that would be sent without consent; "" if there is none."""
    public = {benchmark.name for benchmark in definitions if benchmark.access == "public"}
    real = [run for run in runs if run.tier == "real"]
    private = sorted({run.benchmark for run in real if run.benchmark not in public or has_own_data(run)})
    rules = read_rules()
    if not private or is_loopback(host) or host in allowed or (rules and rules.private_data.has(host)):
        return ""
    return (
        f"data that is not public would leave this machine: prompts, completions, references and clusters of "
        f"{', '.join(private)} to {host}.\nIf its terms of use permit that, add --allow-host {host}\n"
        f"`private_data` in {ADMINISTRATOR_FILE} permits hosts for every command. Nothing was sent."
    )


# --- reading ----------------------------------------------------------------------------------------------------------


def copies_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of all copies, in the user's cache folder."""
    return Path(environment.get("XDG_CACHE_HOME", "").strip() or "~/.cache").expanduser() / "medhelm" / "published"


def copy_of(url: str, *, offline: bool, environment: Mapping[str, str] = os.environ) -> Path:
    """Bring the copy of a published store up to date, and return its folder; the requests are in its audit log.

    What was removed from the object store is removed from the copy. Raises: UserError for an address that may not be
    contacted; StoreError if there is no store; MissingError if it cannot be read.
    """
    url = url.rstrip("/")
    name = f"{url.rpartition('/')[2]}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"
    store = Store(copies_folder(environment) / name)
    leave_plain(store.folder)
    with (
        closing(AuditLog(store.audit_file)) as audit,
        ObjectStore(url, offline=offline, environment=environment, audit=audit) as remote,
    ):
        _update(create(store.folder), remote)
    return open_store(store.folder).folder


def _update(store: Store, remote: ObjectStore) -> None:
    """Bring a copy up to date. Raises: as `copy_of`."""
    folder, keys = store.folder, remote.sizes()
    if "store.json" not in keys:
        raise StoreError(f"no store at {remote.url}. `medhelm export store {remote.url}` publishes one.")
    groups: dict[str, list[str]] = {}
    for key in keys:
        if found := _RUN_FILES.fullmatch(key) or _RELEASE_FILES.fullmatch(key):
            groups.setdefault(found[1], []).append(key)
        elif _OTHER_FILES.fullmatch(key):
            _download(remote, key, folder)
    for group, files in groups.items():
        marker = MANIFEST if group.startswith("releases/") else NAME
        if f"{group}/{marker}" in keys and not (folder / group).exists():
            with atomic_folder(folder / group) as new:
                for key in files:
                    remote.download(key, new / key.rpartition("/")[2])
    for path in [*folder.glob("runs/*/[!.]*"), *folder.glob("releases/[!.]*")]:
        if path.relative_to(folder).as_posix() not in groups:
            delete_folder(path)


def _download(remote: ObjectStore, key: str, folder: Path) -> None:
    """Download an object that is not there yet."""
    if (folder / key).exists():
        return
    (folder / key).parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(folder / key) as new:
        remote.download(key, new)

"""List the runs of stores, find them by a short name, and say what a removal affects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from medhelm.domain import Run, Tier
from medhelm.domain.run import Removal, RemovalEffect, RunOnDisk
from medhelm.domain.text import listed
from medhelm.errors import StoreError, UserError
from medhelm.models.cache_reader import CacheReader
from medhelm.results.comparable import select_runs
from medhelm.results.options import RunFilter, suite_sort_key
from medhelm.results.runs.selection import filter_runs, match_name
from medhelm.results.runs.view import run_cost
from medhelm.storage.releases import read_release, release_names
from medhelm.storage.run_folders import read_removals, read_run_folders
from medhelm.storage.store import Store, open_store
from medhelm.storage.token_usage import read_usage

SHORTEST = 4
"""Fewest characters of a run id or of the id of a removal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListFilter:
    """Conditions on the runs of a list."""

    wanted: RunFilter = field(default_factory=RunFilter)
    """Models, benchmarks and time."""
    statuses: Collection[str] = ()
    """Statuses, `damaged` among them; none for all."""
    tier: Tier | None = None
    """Real data or sample rows; None for both."""

    @property
    def is_empty(self) -> bool:
        """True if every run meets it."""
        return self.wanted.is_empty and not self.statuses and self.tier is None

    def apply(self, runs: Sequence[RunOnDisk]) -> list[RunOnDisk]:
        """Return the runs that meet all conditions. Raises: UserError as `filter_runs`."""
        found = [
            one
            for one in filter_runs(self.wanted, runs, lambda one: one, families=True)
            if (not self.statuses or one.status in self.statuses)
            and (self.tier is None or (one.run is not None and one.run.tier == self.tier))
        ]
        if runs and not found:
            statuses = listed(sorted({one.status for one in runs}))
            tiers = listed(sorted({one.run.tier for one in runs if one.run})) or "unknown"
            raise UserError(f"no run meets these conditions. Statuses: {statuses}. Tiers: {tiers}.")
        return found


def stored_runs(stores: Sequence[Path], *, removed: bool = False) -> list[RunOnDisk]:
    """Return all runs of some stores, or all removed ones: by benchmark in the order of the suite, model and time."""
    opened = map(open_store, stores)
    if removed:
        found = [run for store in opened for removal in read_removals(store) for run in removal.runs]
    else:
        found = [run for store in opened for run in read_run_folders(store)]
    found.sort(key=lambda one: (*suite_sort_key(one.benchmark), one.model, one.started, str(one.folder)))
    return found


def find_run(runs: Sequence[RunOnDisk], names: Sequence[str]) -> RunOnDisk:
    """Return the run that is meant by its id, or by benchmark and model; both may be shortened.

    Raises: UserError if there is none, or several.
    """
    if len(names) == 1:
        return match_id(runs, names[0])
    benchmark, model = names
    wanted = RunFilter(benchmarks=[benchmark], models=[model])
    found = filter_runs(wanted, runs, lambda one: one)
    if not found:
        raise UserError("the store holds no run. Start one with `medhelm run`.")
    found = [one for one in found if not (one.run and one.run.variant)] or found
    if len(found) > 1:
        several = "; ".join(f"{one.short_id} ({one.status}, started {one.started[:16]})" for one in found)
        raise UserError(
            f"{len(found)} runs of {found[0].model} on {found[0].benchmark}: {several}. Name one by its id."
        )
    return found[0]


def match_id(runs: Sequence[RunOnDisk], prefix: str) -> RunOnDisk:
    """Return the run whose id begins with this, or whose folder ends with it, as a shard's does like `_2of8`.

    Raises: UserError if there is none, or several.
    """
    if len(prefix) < SHORTEST:
        raise UserError(f"`{prefix}` is too short for a run id: write at least {SHORTEST} characters.")
    found = [
        one
        for one in runs
        if one.id.startswith(prefix)
        or (one.run is None and prefix.startswith(one.id))
        or one.folder.name.endswith(f"-{prefix}")
    ]
    if len(found) == 1:
        return found[0]
    if found:
        several = "; ".join(f"{one.short_id} ({one.benchmark} with {one.model}, {one.folder})" for one in found)
        raise UserError(f"`{prefix}` could be {several}.")
    raise UserError(f"no run with the id `{prefix}`. `medhelm runs list` shows all ids.")


def find_removal(removals: Sequence[Removal], prefix: str) -> Removal:
    """Return the removal whose id begins with this. Raises: UserError if there is none, or several."""
    if len(prefix) < SHORTEST:
        raise UserError(f"`{prefix}` is too short for a removal: write at least {SHORTEST} characters.")
    by_id = {removal.id: removal for removal in removals}
    known = f"Known: {listed(list(by_id), 5)}." if by_id else "There is none."
    try:
        return by_id[match_name(prefix, by_id)]
    except UserError as error:
        ambiguous = any(one.startswith(prefix) for one in by_id)
        raise UserError(str(error) if ambiguous else f"no removal `{prefix}`. {known}") from None


def older_than(removals: Iterable[Removal], days: float, now: datetime | None = None) -> list[Removal]:
    """Return the removals made more than `days` days ago."""
    limit = (now or datetime.now(UTC)) - timedelta(days=days)
    return [removal for removal in removals if datetime.fromisoformat(removal.removed) < limit]


def is_counted(store: Store, run: Run) -> bool:
    """Return whether the leaderboard of this store alone counts a run."""
    folders = [one for one in read_run_folders(store) if one.benchmark == run.benchmark and one.status != "damaged"]
    same_tier = [("", one.run) for one in folders if one.run and one.run.tier == run.tier and not one.run.shard]
    return any(one.folder == run.folder for one in select_runs(same_tier).runs.values())


def effect_of(store: Store, runs: Sequence[RunOnDisk]) -> RemovalEffect:
    """Return what a store loses with these runs. Reads records, the cache and the releases; changes nothing."""
    whole = [one.run for one in runs if one.run and not one.problem]
    digests = request_digests(runs)
    with CacheReader(store.cache_file) as cache:
        cached = cache.count(digests)
    costs = [run_cost(run) for run in whole if not run.has_imported_completions]
    known = [cost for cost in costs if cost is not None]
    return RemovalEffect(
        runs=runs,
        requests=len(digests),
        requests_cached=cached,
        cost_usd=sum(known),
        cost_unknown=len(costs) - len(known),
        imported=sum(run.has_imported_completions for run in whole),
        releases=_affected_releases(store, {one.id for one in runs}),
    )


def request_digests(runs: Iterable[RunOnDisk]) -> set[bytes]:
    """Return the digests of the requests of runs; damaged runs have none."""
    found: set[bytes] = set()
    for one in runs:
        if one.run and not one.problem:
            with suppress(StoreError):
                found |= read_usage([one.run])[1]
    return found


def _affected_releases(store: Store, ids: Collection[str]) -> dict[str, int]:
    """Return the releases that rest on some of these runs, with the number of them. Damaged releases are left out."""
    found = {}
    for name in release_names(store):
        try:
            release = read_release(store, name)
        except StoreError:
            continue
        if n := sum(basis.run_id in ids for basis in release.provenance):
            found[name] = n
    return found

"""Select runs by model, benchmark and time, shorten their names, and list stored and removed runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol, TypeVar

from medhelm.benchmarks.suites import load_suite
from medhelm.domain import Run, Tier
from medhelm.domain.result import Remark
from medhelm.domain.run import Removal, RemovalEffect, RunOnDisk
from medhelm.domain.text import listed
from medhelm.errors import StoreError, UserError, suggestion
from medhelm.models.cache_reader import CacheReader
from medhelm.models.model_names import plain_name
from medhelm.results.catalog import suite_sort_key
from medhelm.results.comparable import select_runs, store_label
from medhelm.results.options import EVERY_RUN, FILTER_FLAGS, RunFilter
from medhelm.results.runs.view import run_cost
from medhelm.storage.releases import read_release, release_names
from medhelm.storage.run_folders import read_removals, read_run_folders
from medhelm.storage.runs import load_runs
from medhelm.storage.store import Store, file_name, open_store
from medhelm.storage.token_usage import read_usage

# --- filter -----------------------------------------------------------------------------------------------------------

_NAMED = 12
"""Most names in one message."""


class RunFacts(Protocol):
    """The part of a run that selects it."""

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""

    @property
    def model(self) -> str:
        """Name of the model."""

    @property
    def started(self) -> str:
        """Start time, ISO 8601."""


T = TypeVar("T")


def filter_runs(wanted: RunFilter, items: Sequence[T], facts: Callable[[T], RunFacts]) -> list[T]:
    """Return the items whose run meets all conditions.

    Parameters: facts, item -> its run.
    Raises: UserError for names that no run has, or that several have; and if nothing is left of some runs.
    """
    if wanted.is_empty or not items:
        return list(items)
    runs = [facts(item) for item in items]
    models, benchmarks = {run.model for run in runs}, {run.benchmark for run in runs}
    aliases = {entry.alias: entry.name for entry in load_suite() if entry.alias}
    problems: list[str] = []
    named = _full_names("--model", wanted.models, models, problems)
    excluded = _full_names("--exclude", wanted.excluded, models, problems)
    full = [aliases.get(name, name) for name in wanted.benchmarks]
    chosen = _full_names("--benchmark", full, benchmarks, problems)
    if problems:
        raise UserError("\n".join(problems))
    since = wanted.since and _in_utc(wanted.since)
    found = [
        item
        for item, run in zip(items, runs, strict=True)
        if (not named or run.model in named)
        and run.model not in excluded
        and (not chosen or run.benchmark in chosen)
        and (since is None or _is_since(run.started, since))
    ]
    if not found:
        raise UserError(
            f"no run meets these conditions. Models: {listed(sorted(models), _NAMED)}. Benchmarks: "
            f"{listed(sorted(benchmarks), _NAMED)}. Started: {days_in_words(run.started for run in runs)}."
        )
    return found


def load_filtered(stores: Sequence[Path], wanted: RunFilter = EVERY_RUN) -> list[tuple[str, Run]]:
    """Read the runs of some stores that meet the conditions, each with the label of its store.

    Raises: UserError as `filter_runs`; StoreError as `load_runs`.
    """
    found = [(store_label(path, stores), run) for path in stores for run in load_runs(open_store(path))]
    return filter_runs(wanted, found, lambda pair: pair[1])


def refuse_filter(wanted: RunFilter) -> None:
    """Raise UserError for conditions on runs where no store is read."""
    if not wanted.is_empty:
        raise UserError(
            f"{FILTER_FLAGS} select runs of a store. Leave them out, or leave out --published-only and --scores."
        )


def match_name(name: str, known: Collection[str]) -> str:
    """Return the one known name that a short name may mean; see `matching_names`.

    Raises: UserError naming the candidates if there are several, or the nearest name.
    """
    found = matching_names(name, known)
    if not found:
        raise UserError(f"no run of `{name}`. {suggestion(name, known)}".rstrip())
    if len(found) > 1:
        raise UserError(f"`{name}` could be {listed(found, _NAMED)}. Write more of the name.")
    return found[0]


def matching_names(name: str, known: Collection[str]) -> list[str]:
    """Return the known names that a short name may mean, sorted.

    The first rule with a match counts: the name itself; names that equal it without the address of their server; names
    that begin with it; names that equal it without provider and address.
    """
    # The folder of a run whose `run.json` is damaged spells the name of its model like a file.
    for exact in (name, file_name(name)):
        if exact in known:
            return [exact]
    rules: list[Callable[[str], bool]] = [
        lambda one: without_address(one) == name,
        lambda one: one.startswith(name),
        lambda one: plain_name(one) == name.lower(),
    ]
    for is_meant in rules if name else ():
        if found := sorted(filter(is_meant, known)):
            return found
    return []


def _full_names(option: str, names: Iterable[str], known: Collection[str], problems: list[str]) -> set[str]:
    """Return the full names; add errors about unknown and ambiguous names to `problems`."""
    found = set()
    for name in names:
        try:
            match = match_name(name, known)
        except UserError as error:
            problems.append(f"{option}: {error}")
        else:
            found |= {match, file_name(name)} & set(known)
    return found


def _in_utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _is_since(started: str, since: datetime) -> bool:
    """Return whether a run started at a time or later; False if its start is unknown."""
    try:
        return _in_utc(datetime.fromisoformat(started)) >= since
    except ValueError:
        return False


def days_in_words(times: Iterable[str]) -> str:
    """Return the first and last day of some times, as `2025-05-12 to 2025-06-01`; `unknown` without any."""
    days = sorted(time[:10] for time in times if time) or ["unknown"]
    return days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"


# --- names of models --------------------------------------------------------------------------------------------------
# For people: without the addresses of servers, which are long and may be internal.

_Result = TypeVar("_Result")

ADDRESS = re.compile(r"@https?://\S+")
"""Address of a server in the name of a model."""


def without_address(name: str) -> str:
    """Return a model's name without the address of its server.

    >>> without_address("openai/letter@http://127.0.0.1:8000/v1")
    'openai/letter'
    """
    return ADDRESS.sub("", name)


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Map names of models to names without the address of their server; equal ones are numbered.

    >>> short_names(["a@http://x/v1", "a@http://y/v1", "b@http://x/v1"])
    {'a@http://x/v1': 'a (server 1)', 'a@http://y/v1': 'a (server 2)', 'b@http://x/v1': 'b'}
    """
    names = sorted(set(names))
    plain = {name: without_address(name) for name in names}
    counts, used = Counter(plain.values()), Counter[str]()
    found = {}
    for name in names:
        short = plain[name]
        used[short] += 1
        found[name] = short if counts[short] == 1 else f"{short} (server {used[short]})"
    return found


def names_in(runs: Iterable[tuple[str, Run]]) -> dict[str, str]:
    """Return the short names of the models and judges of runs, each with the label of its store."""
    known = set()
    for label, run in runs:
        known.add(run.model + label)
        known.update(judge.name for judge in run.judges)
    return short_names(known)


def with_names(names: Mapping[str, str], text: str) -> str:
    """Replace names of models in a text, the longest first. Only names with an address change."""
    if "@http" not in text:
        return text
    if text in names:
        return names[text]
    for name in sorted(names, key=len, reverse=True):
        if name != names[name]:
            text = text.replace(name, names[name])
    return text


def renamed(result: _Result, names: Mapping[str, str]) -> _Result:
    """Return a copy of a result with other names of models. Commands in its remarks keep the full names."""
    return _renamed(result, names)  # type: ignore[no-any-return]


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return with_names(names, value) if type(value) is str else value
    if isinstance(value, Remark):
        parts = value.text.split("`")
        text = "`".join(part if i % 2 else with_names(names, part) for i, part in enumerate(parts))
        return replace(value, text=text, subject=with_names(names, value.subject))
    if is_dataclass(value) and not isinstance(value, type):
        init = [part.name for part in fields(value) if part.init]
        return replace(value, **{name: _renamed(getattr(value, name), names) for name in init})
    if isinstance(value, Mapping):
        return {_renamed(key, names): _renamed(part, names) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_renamed(part, names) for part in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_renamed(part, names) for part in value)
    return value


# --- stored and removed runs ------------------------------------------------------------------------------------------
# List runs, find them by a short name, and say what a removal affects.

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
            for one in filter_runs(self.wanted, runs, lambda one: one)
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
        raise UserError("the store holds no run. `medhelm run` makes some.")
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

"""The stores and settings of a site and the results selected for a page, kept in memory until a store changes."""

from __future__ import annotations

import gc
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from medhelm.analysis.agreement.jury_vs_clinicians import JuryAgreement
from medhelm.analysis.leaderboard.cells import Column
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.benchmarks.catalog import RememberedBenchmarks, all_names, load_benchmarks, remembered_benchmarks
from medhelm.benchmarks.definition import FILE_NAME
from medhelm.benchmarks.suites import load_suite
from medhelm.domain import Benchmark, Rule, Run, Tier
from medhelm.domain.benchmark import group_by
from medhelm.domain.text import group_title
from medhelm.errors import MedHelmError, UserError
from medhelm.extensions.web.page import PageRequest, Values
from medhelm.io.http.mounted_pages import MenuEntry
from medhelm.results.agreement import agreement
from medhelm.results.formats.fields import Field, fields_json
from medhelm.results.leaderboard import (
    LeaderboardInputs,
    calibrated_inputs,
    leaderboard_from_inputs,
    read_inputs,
    renamed_inputs,
)
from medhelm.results.options import EVERY_RUN, BoardOptions, CalibrationOptions, RunFilter, resolve_suite
from medhelm.results.published.boards import (
    board_of_own_and_published,
    common_benchmarks,
    published_cells,
    published_leaderboard,
)
from medhelm.results.releases import KnownRelease, find_releases, released_models
from medhelm.results.runs.selection import (
    ADDRESS,
    filter_labeled,
    load_labeled,
    short_names,
    with_names,
    without_address,
)
from medhelm.results.runs.stored_ratings import is_ratings_file
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.damage import damaged_records, leave_out, runs_left_out
from medhelm.storage.ratings import CARD
from medhelm.storage.releases import MANIFEST, store_of_release
from medhelm.storage.store import NAME, DamagedRunError, file_name, open_store

T = TypeVar("T")

SECONDS_BETWEEN_CHECKS = 2.0
"""Seconds for which results are shown before the stores are checked for new runs."""

MOST_RESULTS = 64
"""Most results that a server keeps in memory; those that were not used for longest make room."""


@dataclass(slots=True)
class _Result:
    """One result in memory."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held by the page that computes it, while others that need it wait."""
    value: Any = None
    """The result."""
    is_known: bool = False
    """True once it is computed."""


class _Snapshot:
    """Results computed from the stores as they were at one moment."""

    def __init__(self, state: Mapping[str, int]) -> None:
        """`state`: see `_state_of`."""
        self.state = state
        self._results: dict[Hashable, _Result] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, compute: Callable[[], T], most: int) -> T:
        """Return a result from memory, or compute it; `most` results are kept.

        After an error the next page that needs the result tries again.
        """
        with self._lock:
            found = self._results.pop(key, None) or _Result()
            while len(self._results) >= most:
                del self._results[next(iter(self._results))]
            self._results[key] = found  # at the end, as the last one used
        with found.lock:
            if not found.is_known:
                found.value, found.is_known = compute(), True
        result: T = found.value
        return result


def _state_of(stores: Iterable[Path]) -> Mapping[str, int]:
    """Return the file of every run, release and study with ratings, with its time.

    Raises: StoreError for a folder that is not a store.
    """
    found = {}
    for store in stores:
        folder = open_store(store).folder
        places = [(path, NAME) for path in _folders_in(f"{folder}/runs")] + [
            (f"{folder}/releases", MANIFEST),
            (f"{folder}/ratings", CARD),
        ]
        for place, name in places:
            for path in _folders_in(place):
                with suppress(OSError):  # not a run, or removed a moment ago
                    found[f"{path}/{name}"] = os.stat(f"{path}/{name}").st_mtime_ns  # noqa: PTH116 - faster
    return found


def _folders_in(folder: str) -> list[str]:
    """Return the paths in a folder, without hidden ones; none if it cannot be read."""
    try:
        return [entry.path for entry in os.scandir(folder) if entry.name[0] != "."]
    except OSError:
        return []


@contextmanager
def _without_collection() -> Iterator[None]:
    """Keep Python from looking for unused cycles meanwhile, which slows down the reading of thousands of runs.

    It is switched on again by the thread that switched it off, so any number of threads can do this at once.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedRun:
    """A run with a file that cannot be read."""

    benchmark: str
    """Name of the benchmark."""
    title: str
    """Its title."""
    model: str
    """Name of the model on the site, or as the folder of the run spells it, without an address."""
    run: str
    """Beginning of the id of the run, as commands take it."""

    @property
    def command(self) -> str:
        """Return the command that removes it, so that the same evaluation makes it again."""
        return f"medhelm runs remove {self.run}"


DAMAGED_FIELDS: list[Field[DamagedRun]] = [
    Field("benchmark", lambda one: one.benchmark, kind="text"),
    Field("model", lambda one: one.model, kind="text"),
    Field("run", lambda one: one.run, kind="text"),
    Field("command", lambda one: one.command, kind="text"),
]
"""A damaged run in JSON."""

SPELLED_ADDRESS = re.compile(r"_https?_.*")
"""Address of a server in the name of a folder."""


@dataclass(kw_only=True)
class Site:
    """The stores and settings of one site."""

    stores: Sequence[Path]
    """Stores, shown together."""
    rule: Rule = "corrected"
    """Scoring rule."""
    tier: Tier | None = None
    """Real data or sample rows; None: real data if there is any."""
    benchmark_folders: Sequence[Path] = ()
    """Folders with the user's own benchmarks."""
    data: Path | None = None
    """Folder with one folder of data per benchmark."""
    suites: Mapping[str, Path] = field(default_factory=dict)
    """Name -> file of the user's own suites. A URL can name these only."""
    release_folders: Sequence[Path] = ()
    """Releases of other stores to compare with."""
    wanted: RunFilter = EVERY_RUN
    """Runs of the stores that are shown."""
    ratings: Path | None = None
    """Clinicians' ratings that are shown: as `CalibrationOptions.ratings`; None for those of the store."""
    with_published: bool = False
    """True if the leaderboard also offers the published models."""
    with_text: bool = True
    """True if prompts, completions and explanations of gated and private benchmarks may be shown."""
    most_results: int = MOST_RESULTS
    """Most results kept in memory."""
    added_menu: Sequence[MenuEntry] = ()
    """Entries of the menu that lead to pages of other extensions; empty for the static site."""
    _snapshot: _Snapshot | None = None
    _checked: float = 0.0
    _checking: threading.Lock = field(default_factory=threading.Lock)
    _of_thread: threading.local = field(default_factory=threading.local)

    def keep(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return a result from memory, or compute it; new results are computed after a store changed."""
        pinned: list[_Snapshot] | None = getattr(self._of_thread, "pinned", None)
        if pinned is None:
            return self._newest().get(key, compute, self.most_results)
        if not pinned:
            pinned.append(self._newest())
        return pinned[0].get(key, compute, self.most_results)

    @contextmanager
    def unchanging(self) -> Iterator[None]:
        """Show the stores at one moment in this thread until the end, so that all numbers of a page belong together."""
        outer = getattr(self._of_thread, "pinned", None)
        self._of_thread.pinned = [] if outer is None else outer
        try:
            yield
        finally:
            self._of_thread.pinned = outer

    def _newest(self) -> _Snapshot:
        """Return the results of the stores as they were seconds ago; only the first page waits until they are read."""
        known = self._snapshot
        is_ours = not self._is_fresh and self._checking.acquire(blocking=known is None)
        try:
            if is_ours and not self._is_fresh:
                state = _state_of([*self.stores, *self._release_stores()])
                if self._snapshot is None or state != self._snapshot.state:
                    self._snapshot = _Snapshot(state)
                self._checked = time.monotonic()
        finally:
            if is_ours:
                self._checking.release()
        assert self._snapshot is not None, "the first page has read them"
        return self._snapshot

    @property
    def _is_fresh(self) -> bool:
        return self._snapshot is not None and time.monotonic() - self._checked < SECONDS_BETWEEN_CHECKS

    def _stored(self) -> tuple[Sequence[tuple[str, Run]], Sequence[DamagedRunError]]:
        """Return all runs with the labels of their stores, variants too, and those whose `run.json` is damaged."""

        def read() -> tuple[Sequence[tuple[str, Run]], Sequence[DamagedRunError]]:
            with _without_collection(), runs_left_out() as damaged:
                return load_labeled(self.stores, variants=True), damaged

        return self.keep("stored", read)

    def _labeled_runs(self) -> Sequence[tuple[str, Run]]:
        """Return the runs that are shown, with the labels of their stores."""
        return self.keep("found", lambda: filter_labeled(self._stored()[0], self.wanted))

    @property
    def n_runs(self) -> int:
        """Number of runs in the stores, complete or not, without reading them."""
        known = self._snapshot or self._newest()  # whether there are new ones does not matter here
        own = tuple(f"{store}/" for store in self.stores)
        return sum(path.endswith(NAME) and path.startswith(own) for path in known.state)

    def runs(self) -> Sequence[Run]:
        """Return the runs of the stores that are shown."""
        return [run for _, run in self._labeled_runs()]

    def _release_stores(self) -> Sequence[Path]:
        """Return the stores that further releases lie in, without those of the site and those that cannot be opened."""
        found = []
        for store in {one for folder in self.release_folders if (one := store_of_release(folder))}:
            if store not in {one.resolve() for one in self.stores}:
                with suppress(MedHelmError):
                    found.append(open_store(store).folder)
        return sorted(found)

    def runs_of_releases(self) -> Sequence[Run]:
        """Return the runs of the stores that further releases lie in, as far as the site shows such runs."""
        with suppress(UserError), runs_left_out():  # of runs that the site does not show
            return [run for _, run in filter_labeled(load_labeled(self._release_stores(), variants=True), self.wanted)]
        return ()

    @property
    def has_variants(self) -> bool:
        """Return whether a run of the stores asked other questions, which the page of sections is about."""
        return self.keep("has variants", lambda: any(run.is_variant for _, run in self._stored()[0]))

    def _damaged_records(self) -> Sequence[DamagedRunError]:
        """Return an error for each run that is shown and has no records that can be read."""
        return self.keep("damaged records", lambda: damaged_records(self.runs()))

    def damaged(self) -> Sequence[DamagedRun]:
        """Return the runs that cannot be read and are left out of everything; none if the stores cannot be read."""

        def find() -> Sequence[DamagedRun]:
            runs, (_, errors) = self.runs(), self._stored()
            titles = {run.benchmark: run.title for run in runs}
            names = {file_name(run.model): without_address(run.model) for run in runs}
            return [
                DamagedRun(
                    benchmark=error.benchmark,
                    title=titles.get(error.benchmark, error.benchmark),
                    model=names.get(error.model) or SPELLED_ADDRESS.sub("", error.model),
                    run=error.folder.name.rpartition("-")[2],
                )
                for error in {one.folder: one for one in [*errors, *self._damaged_records()]}.values()
            ]

        try:
            return self.keep("damaged", find)
        except MedHelmError:
            return ()

    @property
    def has_results(self) -> bool:
        """Return False if no run of the stores is complete."""
        with suppress(UserError):
            self.inputs()
            return True
        return False

    def clinicians(self) -> JuryAgreement | None:
        """Return the agreement of the judges with clinicians; None without ratings, and for several stores.

        Raises: UserError for a file of ratings and several stores; ConfigError with all problems of the file.
        """
        if len(self.stores) > 1:
            if self.ratings is None:
                return None
            raise UserError("--ratings goes with one --store: a file of ratings names models, not stores.")

        def compare() -> JuryAgreement | None:
            chosen = self._ratings()
            return agreement(chosen.ratings, self.stores[0], chosen.definitions, wanted=self.wanted)

        return self.keep("clinicians", compare)

    def _ratings(self) -> CalibrationOptions:
        """Return the ratings of the site, for a file with the definitions of rubrics."""
        chosen = self.ratings or ""
        judged = [one for one in self.definitions.values() if one.rubric] if is_ratings_file(chosen) else ()
        return CalibrationOptions(ratings=chosen, definitions=judged)

    def releases(self) -> Mapping[str, KnownRelease]:
        """Return the releases of the stores and of further folders: name -> release, by time."""
        found = self.keep("releases", lambda: find_releases(self.stores, self.release_folders))
        return {one.name: one for one in found}

    def inputs(self, rule: Rule | None = None) -> LeaderboardInputs:
        """Return the runs that count, with the score of every instance. Raises: UserError if there are none.

        Models have the names of `short_names`. `rule`: None for the rule of the site.
        """
        chosen = rule or self.rule
        names = self.names  # used with the runs, so that they stay in memory together
        return self.keep(("inputs", chosen), lambda: renamed_inputs(self._read(chosen), names))

    def _read(self, rule: Rule) -> LeaderboardInputs:
        """Read the runs that count. The most frequent correct answer is a text of the data."""

        def read() -> LeaderboardInputs:
            options = BoardOptions(rule=rule, tier=self.tier, wanted=self.wanted)
            with _without_collection():
                runs, damaged = self._labeled_runs(), {error.folder for error in self._damaged_records()}
                intact = [pair for pair in runs if pair[1].folder not in damaged] if damaged else runs
                leave_out(self._damaged_records(), (run for _, run in intact))
                found = read_inputs(self.stores, options, found=intact)
            if rule == "corrected":
                found = calibrated_inputs(found, replace(options, clinicians=self._ratings()), self.stores)
            columns = [
                column if self.shows_text_of(column.benchmark) else replace(column, constant_answer="")
                for column in found.columns
            ]
            return replace(found, columns=columns)

        return self.keep(("read", rule), read)

    @property
    def names(self) -> Mapping[str, str]:
        """Name of each model and judge in the stores and releases -> its name on the site."""

        def names() -> Mapping[str, str]:
            known = set()
            with suppress(UserError):  # releases can be compared without runs
                found = self._read(self.rule)
                known = {name for name, _ in found.runs} | {one.model for one in found.left_out}
            for run in self.runs():
                known.add(run.model)
                known.update(judge.name for judge in run.judges)
            for one in self.releases().values():
                known.update(released_models(one.release) if one.release else ())
            return short_names(known)

        return self.keep("names", names)

    def shortened(self, text: str) -> str:
        """Return a sentence with the names of the site for models."""
        return with_names(self.names, text)

    def runs_of(self, model: str) -> Sequence[Run]:
        """Return the runs of a model that count."""
        by_model = self.keep("runs by model", lambda: group_by(self.inputs().runs.items(), lambda pair: pair[0][0]))
        return [run for _, run in by_model.get(model, [])]

    @property
    def store_names(self) -> list[str]:
        """Names of the stores for people: without their folders, which are no part of a result."""
        return [path.resolve().name for path in self.stores]

    @property
    def known_tier(self) -> Tier | None:
        """Tier of the results shown; None if the stores hold none or cannot be read."""
        try:
            return self.tier or self.inputs().tier
        except MedHelmError:
            return None

    @property
    def definitions(self) -> Mapping[str, Benchmark]:
        """Benchmark id -> its definition, for all benchmarks that are known here or that the stores remember."""
        return self.keep("definitions", lambda: {**self._given_definitions, **self._load(self._remembered.folders)})

    @property
    def folders(self) -> Sequence[Path]:
        """Folders with the user's own benchmarks: those given, and those that the stores remember."""
        return [*self.benchmark_folders, *self._remembered.folders]

    @property
    def copied_definitions(self) -> Collection[str]:
        """The user's own benchmarks whose folders are gone, or changed: a store has their definitions as last run."""
        return self._remembered.copied.keys()

    @property
    def _remembered(self) -> RememberedBenchmarks:
        def find() -> RememberedBenchmarks:
            return remembered_benchmarks(self.stores, self.benchmark_folders, metrics=METRIC_NAMES)

        return self.keep("remembered", find)

    @cached_property
    def _given_definitions(self) -> Mapping[str, Benchmark]:
        return self._load(self.benchmark_folders, all_names(self.benchmark_folders))

    def _load(self, folders: Sequence[Path], names: Sequence[str] = ()) -> Mapping[str, Benchmark]:
        """Load benchmarks by their names, or those of some folders."""
        wanted = names or [str(folder / FILE_NAME) for folder in folders]
        found = load_benchmarks(wanted, metrics=METRIC_NAMES, extra=folders if names else (), note=lambda _: None)
        return {one.name: one for one in found}

    def title_of(self, benchmark: str) -> str:
        """Return the title of a benchmark; its id if it has no definition here."""
        known = self.definitions.get(benchmark)
        return known.title if known else benchmark

    def access_of(self, benchmark: str) -> str:
        """Return the access to the data of a benchmark; one without a definition counts as private."""
        known = self.definitions.get(benchmark)
        return known.access if known else "private"

    def address_of(self, model: str) -> str:
        """Return the address of the server of a model, by its name on the site; "" if it has none."""

        def addresses() -> Mapping[str, str]:
            found = {short: ADDRESS.search(name) for name, short in self.names.items()}
            return {short: match[0].removeprefix("@") for short, match in found.items() if match}

        return self.keep("addresses", addresses).get(model, "")

    def shows_text_of(self, benchmark: str) -> bool:
        """Return True if prompts, completions and explanations of a benchmark may be shown.

        A folder that only a store names makes no text public: the store may come from someone else.
        """
        return self.with_text or (self.access_of(benchmark) == "public" and benchmark in self._given_definitions)


def damaged_json(site: Site) -> dict[str, Any]:
    """Return the damaged runs as a key of JSON."""
    return {"damaged": [fields_json(DAMAGED_FIELDS, one) for one in site.damaged()]}


# --- selection --------------------------------------------------------------------------------------------------------
# The selection of benchmarks and models that a URL asks for, and the leaderboard of it.

BUILT_IN_SUITES = {"paper35": "35 benchmarks of the paper", "suite37": "37 published benchmarks"}
"""Suites that every site offers -> title."""

PARAMETERS = ("suite", "category", "subcategory", "access")
"""Parameters of a URL that select benchmarks."""

ACCESS = ("public", "gated", "private")
"""All values of `access`, of which a site offers those of its benchmarks."""

Results: TypeAlias = Literal["own", "published", "all"]
"""Source of scores: runs of the store, the published table, or both on the benchmarks that they have in common."""

RESULTS: Mapping[Results, str] = {"own": "Your runs", "all": "Your runs and published", "published": "Published"}
"""Source of scores -> its name in the form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardSelection:
    """Benchmarks to rank on; empty texts select all."""

    suite: str = ""
    """Name of a built-in suite, or of a file that the site was started with."""
    category: str = ""
    """Id of a category."""
    subcategory: str = ""
    """Id of a subcategory."""
    access: str = ""
    """Access to the data: public, gated or private."""
    benchmark: str = ""
    """Id of the only benchmark, for its own page."""
    results: Results = "own"
    """Models by the source of their scores."""
    results_in_url: str | None = None
    """Value of the parameter `results`, empty for the default; None for a page without this parameter."""

    @property
    def parameters(self) -> dict[str, Values]:
        """Return the parameters of URLs that keep this selection."""
        found: dict[str, Values] = {name: getattr(self, name) or None for name in PARAMETERS}
        return {**found, "results": self.results_in_url or None}

    @property
    def is_narrowed(self) -> bool:
        """True if it leaves out benchmarks."""
        return any(getattr(self, name) for name in PARAMETERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One field of the form that selects, with its options."""

    name: str
    """Parameter."""
    label: str
    """Label for people."""
    value: str
    """The chosen value; empty for all."""
    options: Sequence[tuple[str, str]]
    """Values and their titles, without that for all."""
    every: str = "All"
    """Title of the option that selects everything; empty if there is none."""

    @property
    def title(self) -> str:
        """Title of the chosen value."""
        return dict(self.options).get(self.value, self.value)


def selection_of(site: Site, request: PageRequest, results: Results | None = None) -> BoardSelection:
    """Return the selection of a URL. `results`: models that the page shows; None for own ones.

    Raises: PageNotFound for a name that the site does not offer; BadParameter for another value.
    """
    known = _select_options(site, results or "own")
    request.choice("access", ACCESS, "")
    chosen: dict[str, Any] = {name: request.known_name(name, dict(known[name])) for name in PARAMETERS}
    if not results or not site.with_published:
        return BoardSelection(**chosen)
    in_url = "" if results == _offered_results(site)[0][0] else results
    return BoardSelection(**chosen, results=results, results_in_url=in_url)


def results_of(site: Site, request: PageRequest) -> tuple[Results, str]:
    """Return the results that a URL selects, and why own and published ones are not shown together, if so.

    Raises: BadParameter; PageNotFound for results that the site does not have.
    """
    if not site.with_published:
        request.choice("results", RESULTS, "own")
        request.known_name("results", ("own",), "own")
        return "own", ""
    offered, why_not = _offered_results(site)
    chosen: Any = request.choice("results", RESULTS, offered[0])
    return chosen, why_not if request.text("results") == "" else ""


def _offered_results(site: Site) -> tuple[Sequence[Results], str]:
    """Return the results of a site with published ones, the default first, and why it does not show both together.

    Own runs come first, by the rule of the site, also if published results can be shown beside them.
    """

    def find() -> tuple[Sequence[Results], str]:
        offered: Sequence[Results] = ("published",)
        try:
            inputs = site.inputs()
            offered = ("own", "published")
            common_benchmarks(inputs, resolve_suite("all"))
        except UserError as error:
            return offered, f"Published results are not shown beside your runs: {error}"
        return tuple(RESULTS), ""

    return site.keep("offered results", find)


def choices_of(site: Site, selection: BoardSelection) -> list[Choice]:
    """Return the fields that select benchmarks, without those that have one option."""
    labels = {"suite": "Suite", "category": "Category", "subcategory": "Subcategory", "access": "Access"}
    found = []
    if selection.results_in_url is not None:
        offered = _offered_results(site)[0]
        options = [("" if one == offered[0] else one, RESULTS[one]) for one in offered]
        found.append(Choice(name="results", label="Results", value=selection.results_in_url, options=options, every=""))
    below = {
        column.subcategory for column in _columns(site, selection.results) if column.category == selection.category
    }
    for name, values in _select_options(site, selection.results).items():
        value = getattr(selection, name)
        if name == "subcategory":  # only those below the chosen category
            values = [one for one in values if one[0] in below or one[0] == value]
        if len(values) > 1 or value:
            found.append(Choice(name=name, label=labels[name], value=value, options=values))
    return found


def _columns(site: Site, results: Results) -> Sequence[Column]:
    """Return the benchmarks that a leaderboard of these results can have."""
    if results == "own":
        return site.inputs().columns
    return board_of(site, BoardSelection(results=results)).columns


def _select_options(site: Site, results: Results) -> Mapping[str, list[tuple[str, str]]]:
    """Parameter -> values that select at least one benchmark, with their titles."""
    columns = _columns(site, results)
    names = {column.benchmark for column in columns}
    suites = [
        (name, title)
        for name, title in BUILT_IN_SUITES.items()
        if names & {entry.name for entry in load_suite() if name == "suite37" or entry.in_paper}
    ]
    access = {site.access_of(name) for name in names}
    return {
        "suite": suites + [(name, name) for name in site.suites],
        "category": _titled(column.category for column in columns),
        "subcategory": _titled(column.subcategory for column in columns),
        "access": [(name, name.capitalize()) for name in ACCESS if name in access],
    }


def _titled(ids: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, group_title(name)) for name in dict.fromkeys(ids)]


def selected_inputs(site: Site, selection: BoardSelection) -> LeaderboardInputs:
    """Return the runs of the selected benchmarks. Raises: UserError if there are none."""
    finished = site.inputs("published" if selection.results == "all" else None)
    kept = _selected_benchmarks(site, selection, finished.columns)
    cells = [cell for cell in finished.cells if cell.benchmark in kept]
    if not cells:
        raise UserError("No run of the store is on a benchmark of this selection. Choose another one.")
    return replace(finished, cells=cells, columns=[one for one in finished.columns if one.benchmark in kept])


def _selected_benchmarks(site: Site, selection: BoardSelection, columns: Iterable[Column]) -> set[str]:
    """Return the selected benchmarks among these."""
    return {
        column.benchmark
        for column in columns
        if selection.category in ("", column.category)
        and selection.subcategory in ("", column.subcategory)
        and selection.benchmark in ("", column.benchmark)
        and (not selection.access or site.access_of(column.benchmark) == selection.access)
    }


def board_of(site: Site, selection: BoardSelection) -> Leaderboard:
    """Return the leaderboard of a selection, from memory where it was built before."""

    def build() -> Leaderboard:
        suite: str | Path = site.suites.get(selection.suite, selection.suite) or "all"
        if selection.results == "published":
            only = _selected_benchmarks(site, selection, published_cells()[1])
            return published_leaderboard(suite=str(suite), only=only)
        inputs = selected_inputs(site, selection)
        options = BoardOptions(suite=suite, benchmark_folders=site.folders)
        if selection.results == "all":
            board = board_of_own_and_published(inputs, options)
            return replace(board, remarks=tuple(replace(one, text=site.shortened(one.text)) for one in board.remarks))
        return leaderboard_from_inputs(inputs, options)

    return site.keep(("leaderboard", replace(selection, results_in_url=None)), build)

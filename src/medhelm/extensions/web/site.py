"""The stores and settings of a site, with results kept in memory until a store changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from medhelm.benchmarks.catalog import all_names, load_benchmarks
from medhelm.domain import Benchmark, Rule, Run, Tier
from medhelm.errors import MedHelmError, UserError
from medhelm.results.leaderboard import LeaderboardInputs, read_inputs, renamed_inputs
from medhelm.results.options import EVERY_RUN, BoardOptions, RunFilter
from medhelm.results.release_comparison import KnownRelease, find_releases, released_models
from medhelm.results.runs.run_filter import ADDRESS, load_filtered, short_names, with_names
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.releases import MANIFEST
from medhelm.storage.store import NAME, open_store

T = TypeVar("T")

SECONDS_BETWEEN_CHECKS = 2.0
"""Seconds for which results are shown before the stores are checked for new runs."""

MOST_RESULTS = 64
"""Most results kept in memory; those that were not used for longest make room."""


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
    with_published: bool = False
    """True if the leaderboard also offers the published models."""
    with_text: bool = True
    """True if prompts, completions and explanations of gated and private benchmarks may be shown."""
    _kept: dict[Hashable, Any] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _state: object = None
    _checked: float = 0.0

    def keep(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return a result from memory, or compute it; results are dropped when a store changes."""
        with self._lock:
            self._drop_if_changed()
            if key in self._kept:
                found: T = self._kept.pop(key)
            else:
                found = compute()
                while len(self._kept) >= MOST_RESULTS:
                    del self._kept[next(iter(self._kept))]
            self._kept[key] = found  # at the end, as the last one used
            return found

    def _drop_if_changed(self) -> None:
        now = time.monotonic()
        if now - self._checked < SECONDS_BETWEEN_CHECKS and self._state is not None:
            return
        state = [
            (path, path.stat().st_mtime_ns)
            for store in self.stores
            for pattern in (f"runs/*/[!.]*/{NAME}", f"releases/[!.]*/{MANIFEST}")
            for path in sorted(open_store(store).folder.glob(pattern))
        ]
        if state != self._state:
            self._kept.clear()
        self._state, self._checked = state, now

    def runs(self) -> Sequence[Run]:
        """Return the runs of the stores that are shown."""
        return self.keep("runs", lambda: [run for _, run in load_filtered(self.stores, self.wanted)])

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
            found = read_inputs(self.stores, BoardOptions(rule=rule, tier=self.tier, wanted=self.wanted))
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

        def by_model() -> Mapping[str, list[Run]]:
            found: dict[str, list[Run]] = {}
            for (name, _), run in self.inputs().runs.items():
                found.setdefault(name, []).append(run)
            return found

        return self.keep("runs by model", by_model).get(model, [])

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

    @cached_property
    def definitions(self) -> Mapping[str, Benchmark]:
        """Benchmark id -> its definition, for all benchmarks that are known here."""
        names = all_names(self.benchmark_folders)
        return {
            one.name: one
            for one in load_benchmarks(names, metrics=METRIC_NAMES, extra=self.benchmark_folders, note=lambda _: None)
        }

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
        """Return True if prompts, completions and explanations of a benchmark may be shown."""
        return self.with_text or self.access_of(benchmark) == "public"

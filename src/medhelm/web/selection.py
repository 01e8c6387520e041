"""The selection of benchmarks and models that a URL asks for, and the leaderboard of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.benchmarks.suites import load_suite
from medhelm.errors import UserError
from medhelm.reports.leaderboard import group_title
from medhelm.results.leaderboard import LeaderboardInputs, leaderboard_from_inputs
from medhelm.web.page import PageRequest, Values
from medhelm.web.site import Site

BUILT_IN_SUITES = {"paper35": "35 benchmarks of the paper", "suite37": "37 published benchmarks"}
"""Suites that every site offers -> title."""

PARAMETERS = ("suite", "category", "subcategory", "access")
"""Parameters of a URL that select benchmarks."""


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

    @property
    def parameters(self) -> dict[str, Values]:
        """Return the parameters of URLs that keep this selection."""
        return {name: getattr(self, name) or None for name in PARAMETERS}


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


def selection_of(site: Site, request: PageRequest) -> BoardSelection:
    """Return the selection of a URL. Raises: BadParameter for a value that the site does not offer."""
    known = _options(site)
    return BoardSelection(**{name: request.choice(name, dict(known[name]), "") for name in PARAMETERS})


def choices_of(site: Site, selection: BoardSelection) -> list[Choice]:
    """Return the fields that select benchmarks, without those that have one option."""
    labels = {"suite": "Suite", "category": "Category", "subcategory": "Subcategory", "access": "Access"}
    found = []
    for name, options in _options(site).items():
        value = getattr(selection, name)
        if len(options) > 1 or value:
            found.append(Choice(name=name, label=labels[name], value=value, options=options))
    return found


def _options(site: Site) -> Mapping[str, list[tuple[str, str]]]:
    """Parameter -> values that select at least one benchmark of the store, with their titles."""
    columns = site.inputs().columns
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
        "access": [(name, name.capitalize()) for name in ("public", "gated", "private") if name in access],
    }


def _titled(ids: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, group_title(name)) for name in dict.fromkeys(ids)]


def selected_inputs(site: Site, selection: BoardSelection) -> LeaderboardInputs:
    """Return the runs of the selected benchmarks. Raises: UserError if there are none."""
    finished = site.inputs()
    columns = [
        column
        for column in finished.columns
        if selection.category in ("", column.category)
        and selection.subcategory in ("", column.subcategory)
        and selection.benchmark in ("", column.benchmark)
        and (not selection.access or site.access_of(column.benchmark) == selection.access)
    ]
    kept = {column.benchmark for column in columns}
    cells = [cell for cell in finished.cells if cell.benchmark in kept]
    if not cells:
        raise UserError("No run of the store is on a benchmark of this selection. Choose another one.")
    return replace(finished, cells=cells, columns=columns)


def board_of(site: Site, selection: BoardSelection) -> Leaderboard:
    """Return the leaderboard of a selection, from memory where it was built before."""

    def build() -> Leaderboard:
        inputs = selected_inputs(site, selection)
        suite: str | Path = site.suites.get(selection.suite, selection.suite) or "all"
        known = sorted(site.definitions) if isinstance(suite, Path) else ()
        return leaderboard_from_inputs(inputs, suite=str(suite), known=known, scoring=site.rule)

    return site.keep(("leaderboard", selection), build)

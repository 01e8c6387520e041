"""The selection of benchmarks and models that a URL asks for, and the leaderboard of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from medhelm.analysis.leaderboard.cells import Column
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.benchmarks.suites import load_suite
from medhelm.domain.text import group_title
from medhelm.errors import UserError
from medhelm.extensions.web.page import PageRequest, Values
from medhelm.extensions.web.site import Site
from medhelm.results.leaderboard import LeaderboardInputs, leaderboard_from_inputs
from medhelm.results.options import BoardOptions
from medhelm.results.published.boards import board_of_own_and_published, published_leaderboard
from medhelm.results.published.cells import published_cells

BUILT_IN_SUITES = {"paper35": "35 benchmarks of the paper", "suite37": "37 published benchmarks"}
"""Suites that every site offers -> title."""

PARAMETERS = ("suite", "category", "subcategory", "access")
"""Parameters of a URL that select benchmarks."""

ACCESS = ("public", "gated", "private")
"""All values of `access`, of which a site offers those of its benchmarks."""

Results: TypeAlias = Literal["own", "published", "all"]
"""Source of scores: runs of the store, the published table, or both on the benchmarks that they have in common."""

RESULTS: Mapping[Results, str] = {"all": "Your runs and published", "own": "Your runs", "published": "Published"}
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


def selection_of(site: Site, request: PageRequest, results: Results | None = None) -> BoardSelection:
    """Return the selection of a URL. `results`: models that the page shows; None for own ones.

    Raises: PageNotFound for a name that the site does not offer; BadParameter for another value.
    """
    known = _select_options(site, results or "own")
    request.choice("access", ACCESS, "")
    chosen: dict[str, Any] = {name: request.known_name(name, dict(known[name])) for name in PARAMETERS}
    if not results or not site.with_published:
        return BoardSelection(**chosen)
    in_url = "" if results == _default_results(site)[0] else results
    return BoardSelection(**chosen, results=results, results_in_url=in_url)


def results_of(site: Site, request: PageRequest) -> tuple[Results, str]:
    """Return the results that a URL selects, and why own and published ones are not shown together, if so.

    Raises: BadParameter; PageNotFound for results that the site does not have.
    """
    if not site.with_published:
        request.choice("results", RESULTS, "own")
        request.known_name("results", ("own",), "own")
        return "own", ""
    default, why_not = _default_results(site)
    chosen: Any = request.choice("results", RESULTS, default)
    return chosen, why_not if request.text("results") == "" else ""


def _default_results(site: Site) -> tuple[Results, str]:
    """Return own and published results if they have a benchmark in common, else one of them with the reason."""

    def find() -> tuple[Results, str]:
        try:
            board_of(site, BoardSelection(results="all"))
        except UserError as error:
            results: Results = "own"
            try:
                site.inputs()
            except UserError:
                results = "published"
            return results, f"Published results are not shown beside your runs: {error}"
        return "all", ""

    return site.keep("default results", find)


def choices_of(site: Site, selection: BoardSelection) -> list[Choice]:
    """Return the fields that select benchmarks, without those that have one option."""
    labels = {"suite": "Suite", "category": "Category", "subcategory": "Subcategory", "access": "Access"}
    found = []
    if selection.results_in_url is not None:
        default = _default_results(site)[0]
        options = [("" if one == default else one, title) for one, title in RESULTS.items()]
        found.append(Choice(name="results", label="Results", value=selection.results_in_url, options=options, every=""))
    for name, values in _select_options(site, selection.results).items():
        value = getattr(selection, name)
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
        "access": [(name, name.capitalize()) for name in ("public", "gated", "private") if name in access],
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
        options = BoardOptions(suite=suite, benchmark_folders=site.benchmark_folders)
        if selection.results == "all":
            board = board_of_own_and_published(inputs, options)
            return replace(board, remarks=tuple(replace(one, text=site.shortened(one.text)) for one in board.remarks))
        return leaderboard_from_inputs(inputs, options)

    return site.keep(("leaderboard", replace(selection, results_in_url=None)), build)

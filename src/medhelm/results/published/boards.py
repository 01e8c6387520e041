"""Leaderboards of the published results, alone or together with own models."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.findings import verdict
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.domain import Rule, Tier
from medhelm.domain.benchmark import Suite
from medhelm.domain.result import Remark, Resample
from medhelm.domain.text import AnyNames, AnyPath, as_names
from medhelm.errors import UserError
from medhelm.results.comparable import left_out_remarks
from medhelm.results.leaderboard import (
    PUBLISHED,
    LeaderboardInputs,
    leaderboard_from_cells,
    read_inputs,
    renamed_inputs,
    suite_of,
)
from medhelm.results.options import USUAL, BoardOptions
from medhelm.results.published.cells import published_cells
from medhelm.results.published.data import load_results
from medhelm.results.published.remarks import (
    benchmark_remarks,
    condition_remarks,
    cost_remarks,
    known_error_remarks,
    same_model_remarks,
    table_1_remarks,
)
from medhelm.results.runs.remarks import unfinished_remarks
from medhelm.results.suites import resolve_suite

MARK = "[published]"
"""Suffix of a published model if an own model has the same name."""


def published_leaderboard(
    *,
    suite: AnyPath = "all",
    tier: Tier | None = None,
    rule: Rule | None = None,
    resample: Resample | None = None,
    panel: AnyNames = (),
    only: Container[str] | None = None,
) -> Leaderboard:
    """Return the leaderboard of the nine published models.

    Parameters
    ----------
    suite
        `all`, `paper35` for tables 1 and 3 of the paper, or the path of a suite file.
    tier, rule
        None. Published results have one tier, `real`, and one rule, `published`.
    resample
        As in `leaderboard`.
    panel
        Models against which win rates are computed: one name or more, `published` for all nine.
    only
        Benchmarks to keep of the suite; None for all.

    Raises
    ------
    UserError
        For another rule or tier, an unknown suite, or a suite without published benchmarks.
    """
    suite, panel = str(suite), as_names(panel, "panel")
    _refuse_corrected(rule)
    if tier == "sample":
        raise UserError("--tier sample: published results are on real data. Leave out --tier sample.")
    chosen = resolve_suite(suite)
    cells, columns = published_cells(chosen)
    if not columns:
        raise UserError(f"--suite {suite}: none of its benchmarks is among the 37 with published results.")
    if only is not None:
        cells = [cell for cell in cells if cell.benchmark in only]
        columns = [column for column in columns if column.benchmark in only]
        chosen = _limited_to(columns, chosen)
    models = {cell.model for cell in cells}
    names = _panel_members(panel, models)
    options = BoardOptions(resample=resample, panel=names)
    board = leaderboard_from_cells(cells, columns, chosen, options, scoring="published")
    remarks = [*cost_remarks(), *known_error_remarks(column.benchmark for column in columns)]
    # With other benchmarks or another panel, no win rate is the one in the paper.
    if chosen.name == "paper35" and only is None and set(names) in (set(), models):
        remarks += table_1_remarks()
    return _mark_published(board, models, remarks)


def leaderboard_with_published(
    stores: Sequence[Path], options: BoardOptions = USUAL, *, rule: Rule | None = None
) -> Leaderboard:
    """Return a leaderboard of own and published models on the benchmarks that both have, by the published rule.

    Benchmarks without own results, or with another metric, are left out; remarks give their number.

    Parameters: options, of the own runs; `published` in their panel means the nine published models, which give every
    own model the win rate that it would have in the published table; rule, None or `published`.
    Raises: UserError for the corrected rule, the sample tier, and without a benchmark in common; StoreError for a
    folder that is not a store.
    """
    _refuse_corrected(rule)
    finished = read_inputs(stores, replace(options, rule="published"), single_scores=options.resample != "none")
    if options.short_names:
        finished = renamed_inputs(finished, finished.short_names)
    return board_of_own_and_published(finished, options)


def board_of_own_and_published(finished: LeaderboardInputs, options: BoardOptions = USUAL) -> Leaderboard:
    """Return the leaderboard of runs that were read by the published rule, and of the published models.

    Parameters and errors: as `leaderboard_with_published`.
    """
    if finished.tier == "sample":
        raise UserError(
            "the store has results on sample rows only, which are invented and cannot be compared with published "
            "results. Run a benchmark on its real data first, or see `medhelm leaderboard --published-only`."
        )
    chosen = suite_of(options, finished.columns)
    common = _common_benchmarks(finished, chosen)
    published = {cell.model for cell in common.published}
    members = _panel_members(as_names(options.panel, "panel"), published)
    board = leaderboard_from_cells(
        [*common.own, *common.published],
        common.columns,
        _limited_to(common.columns, chosen),
        replace(options, panel=members),
        scoring="published",
    )
    left_out = finished.left_out_of(common.columns)
    remarks = [
        *benchmark_remarks(len(common.columns), common.without_own, common.unpublished, common.different_metric),
        *condition_remarks(common.own, finished.runs, common.columns),
        *same_model_remarks(common.own, common.published, common.columns, finished.runs),
        *cost_remarks(beside_bills=True),
        *known_error_remarks(column.benchmark for column in common.columns),
        *left_out_remarks(left_out),
        *finished.remarks_on(common.columns),
        *unfinished_remarks(finished.unfinished),
    ]
    return _mark_published(replace(board, left_out=left_out), published, remarks)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Common:
    """Benchmarks that own and published results have in common."""

    columns: Sequence[Column]
    """Benchmarks that both have, measured by the same metric on the same scale."""
    own: Sequence[Cell]
    """Cells of own models on them."""
    published: Sequence[Cell]
    """Cells of published models on them, with names that no own model has."""
    without_own: Sequence[str]
    """Titles of published benchmarks of the suite without an own score."""
    unpublished: Sequence[str]
    """Titles of own benchmarks of the suite without published results."""
    different_metric: Sequence[str]
    """Benchmarks with different metrics, as text."""


def _common_benchmarks(finished: LeaderboardInputs, suite: Suite) -> _Common:
    """Return the benchmarks that own and published results have in common. Raises: UserError if there are none."""
    published, columns = published_cells(suite)
    scored = {cell.benchmark for cell in finished.cells if cell.value is not None}
    if suite.weights is not None:
        scored &= set(suite.weights)
    own = {column.benchmark: column for column in finished.columns if column.benchmark in scored}
    theirs = {column.benchmark: column for column in columns}
    alike = [own[name] for name in theirs if name in own and _is_same_metric(own[name], theirs[name])]
    different = [
        f"{c.title} (own: {_metric_and_scale(own[c.benchmark])}, published: {_metric_and_scale(c)})"
        for c in columns
        if c.benchmark in own and not _is_same_metric(own[c.benchmark], c)
    ]
    if not alike:
        why = f"; with different metrics: {', '.join(different)}" if different else ""
        raise UserError(f"no benchmark has both own and published results{why}. `medhelm benchmarks list` names all.")
    names = {column.benchmark for column in alike}
    own_cells = [cell for cell in finished.cells if cell.benchmark in names]
    taken = {cell.model for cell in own_cells}
    return _Common(
        columns=alike,
        own=own_cells,
        published=[_unique_name(cell, taken) for cell in published if cell.benchmark in names],
        without_own=[column.title for column in columns if column.benchmark not in own],
        unpublished=[column.title for name, column in own.items() if name not in theirs],
        different_metric=different,
    )


def _is_same_metric(own: Column, published: Column) -> bool:
    """Return whether two columns have the same metric and scale."""
    mine, theirs = ((c.metric, c.low, c.high, c.higher_is_better) for c in (own, published))
    return mine == theirs


def _metric_and_scale(column: Column) -> str:
    """Return metric and scale as text."""
    return f"{column.metric} on {column.low:g} to {column.high:g}"


def _unique_name(cell: Cell, taken: set[str]) -> Cell:
    """Return the cell with a name that no own model has."""
    return replace(cell, model=f"{cell.model} {MARK}") if cell.model in taken else cell


def _limited_to(columns: Sequence[Column], suite: Suite) -> Suite:
    """Return a suite of these benchmarks alone."""
    weights = suite.weights or {}
    return replace(suite, weights={column.benchmark: weights.get(column.benchmark, 1.0) for column in columns})


def _mark_published(board: Leaderboard, published: set[str], remarks: Sequence[Remark]) -> Leaderboard:
    """Mark published rows, which changes the verdict on costs, and add remarks."""
    rows = tuple(replace(row, published=row.model in published) for row in board.rows)
    # Published costs are ceilings with judges, own costs are bills without them: one frontier cannot compare both.
    frontier = board.frontier if len({row.published for row in rows}) == 1 else None
    marked = replace(board, rows=rows, remarks=(*board.remarks, *remarks), frontier=frontier)
    return replace(marked, verdict=tuple(verdict(marked)))


def _panel_members(names: Sequence[str], published: set[str]) -> list[str]:
    """Return the names of a panel with those of the published models in place of `published`."""
    return [name for given in names for name in (sorted(published) if given == PUBLISHED else [given])]


def _refuse_corrected(rule: Rule | None) -> None:
    if rule == "corrected":
        n = len(load_results().benchmarks)
        raise UserError(
            f"--scoring corrected: published results are means on {n} benchmarks by the published rule, from which "
            "corrected scores cannot be computed. Leave out --scoring, or use --scoring published."
        )

"""Leaderboards of the published results, alone or together with own models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from medhelm.analysis.leaderboard.build import Resample, build_leaderboard
from medhelm.analysis.leaderboard.types import Cell, Column, Leaderboard
from medhelm.domain import Remark, Rule, Tier
from medhelm.domain.suite import Suite
from medhelm.errors import UserError
from medhelm.results.leaderboard import SEED, LeaderboardInputs, read_inputs
from medhelm.results.published.cells import published_cells, resolve_suite
from medhelm.results.published.data import load_results
from medhelm.results.published.remarks import (
    benchmark_remarks,
    condition_remarks,
    cost_remarks,
    known_error_remarks,
    same_model_remarks,
    table_1_remarks,
)
from medhelm.results.run_remarks import unfinished_remarks

MARK = "[published]"
"""Follows the name of a published model where one of the user's own has the same name."""


def published_leaderboard(
    *,
    suite: str = "all",
    tier: Tier | None = None,
    rule: Rule | None = None,
    resample: Resample | None = None,
) -> Leaderboard:
    """The nine published models alone; no store is needed. `paper35` gives tables 1 and 3 of the paper.

    `rule` None: the published one, the only one there is.
    Raises: UserError for the corrected rule, the sample tier, an unknown suite, or one without any published benchmark.
    """
    _only_published(rule)
    if tier == "sample":
        raise UserError("--tier sample: published results are on real data. Leave the option out.")
    chosen = resolve_suite(suite)
    cells, columns = published_cells(chosen)
    if not columns:
        raise UserError(f"--suite {suite}: none of its benchmarks is among the 37 with published results.")
    wanted = None if chosen.weights is None else list(chosen.weights)
    board = _build(cells, columns, chosen, wanted, resample=resample)
    remarks = [*cost_remarks(), *known_error_remarks(column.benchmark for column in columns)]
    if chosen.name == "paper35":
        remarks += table_1_remarks()
    return _marked(board, {cell.model for cell in cells}, remarks)


def leaderboard_with_published(
    stores: Sequence[Path],
    *,
    suite: str = "all",
    tier: Tier | None = None,
    rule: Rule | None = None,
    resample: Resample | None = None,
    shared: bool = False,
    benchmark_folders: Sequence[Path] = (),
) -> Leaderboard:
    """One's own models beside the nine published ones, on the benchmarks that both have, by the published rule.

    Benchmarks without own results are left out, and those that were measured by another metric; warnings say how many.
    `rule` None: the published one. Raises: UserError for the corrected rule, for the sample tier, and if there is no
    benchmark in common; StoreError for a folder that is not a store.
    """
    _only_published(rule)
    finished = read_inputs(stores, "published", tier, single_scores=resample != "none")
    if finished.tier == "sample":
        raise UserError(
            "the store holds sample rows only: they are invented and are never put beside published results. "
            "Run a benchmark on its real data first, or see `medhelm leaderboard --published-only`."
        )
    chosen = resolve_suite(suite, finished.columns, benchmark_folders)
    common = _common(finished, chosen)
    names = [column.benchmark for column in common.columns]
    cells = [*common.own, *common.published]
    board = _build(cells, common.columns, chosen, names, resample=resample, shared=shared)
    remarks = [
        *benchmark_remarks(len(common.columns), common.without_own, common.unpublished, common.otherwise),
        *condition_remarks(common.own, finished.runs, common.columns),
        *same_model_remarks(common.own, common.published, common.columns, finished.runs),
        *cost_remarks(beside_bills=True),
        *known_error_remarks(names),
        *finished.remarks,
        *unfinished_remarks(finished.unfinished),
    ]
    return _marked(board, {cell.model for cell in common.published}, remarks)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Common:
    """Benchmarks that own and published results have in common."""

    columns: Sequence[Column]
    """Benchmarks that both have, measured by the same metric on the same scale."""
    own: Sequence[Cell]
    """Cells of one's own models on them."""
    published: Sequence[Cell]
    """Cells of published models on them; no name is that of an own model."""
    without_own: Sequence[str]
    """Titles of published benchmarks of the suite without any own score."""
    unpublished: Sequence[str]
    """Titles of own benchmarks of the suite that were not published."""
    otherwise: Sequence[str]
    """Benchmarks that were measured by another metric, in words."""


def _common(finished: LeaderboardInputs, suite: Suite) -> _Common:
    """Raises: UserError if there is nothing in common."""
    published, columns = published_cells(suite)
    wanted = suite.weights
    scored = {cell.benchmark for cell in finished.cells if cell.value is not None}
    own = {c.benchmark: c for c in finished.columns if c.benchmark in scored and _is_wanted(c.benchmark, wanted)}
    theirs = {column.benchmark: column for column in columns}
    alike = [own[name] for name in theirs if name in own and _alike(own[name], theirs[name])]
    otherwise = [
        f"{c.title} ({_kind(own[c.benchmark])} here, {_kind(c)} there)"
        for c in columns
        if c.benchmark in own and not _alike(own[c.benchmark], c)
    ]
    if not alike:
        why = f"; measured otherwise: {', '.join(otherwise)}" if otherwise else ""
        raise UserError(f"no benchmark has both own and published results{why}. `medhelm benchmarks list` names all.")
    names = {column.benchmark for column in alike}
    own_cells = [cell for cell in finished.cells if cell.benchmark in names]
    taken = {cell.model for cell in own_cells}
    return _Common(
        columns=alike,
        own=own_cells,
        published=[_renamed(cell, taken) for cell in published if cell.benchmark in names],
        without_own=[column.title for column in columns if column.benchmark not in own],
        unpublished=[column.title for name, column in own.items() if name not in theirs],
        otherwise=otherwise,
    )


def _is_wanted(benchmark: str, wanted: Mapping[str, float] | None) -> bool:
    return wanted is None or benchmark in wanted


def _alike(own: Column, published: Column) -> bool:
    """Return whether numbers of both columns are of one kind."""
    ends = (own.low, own.high, own.higher_is_better) == (published.low, published.high, published.higher_is_better)
    return own.metric == published.metric and ends


def _kind(column: Column) -> str:
    """By what a column is measured, in words."""
    return f"{column.metric} on {column.low:g} to {column.high:g}"


def _renamed(cell: Cell, taken: set[str]) -> Cell:
    """The cell, under a name of its own."""
    return replace(cell, model=f"{cell.model} {MARK}") if cell.model in taken else cell


def _build(
    cells: Sequence[Cell],
    columns: Sequence[Column],
    suite: Suite,
    names: Sequence[str] | None,
    *,
    resample: Resample | None,
    shared: bool = False,
) -> Leaderboard:
    weights = suite.weights or {}
    board = build_leaderboard(
        cells,
        [replace(column, weight=weights.get(column.benchmark, 1.0)) for column in columns],
        rng=np.random.default_rng(SEED),
        benchmarks=names,
        shared=shared,
        resample=resample,
        suite=suite.name,
        scoring="published",
        tier="real",
    )
    return replace(board, suite_description=suite.description)


def _marked(board: Leaderboard, published: set[str], remarks: Sequence[Remark]) -> Leaderboard:
    """The board with its published rows marked, and with further remarks."""
    rows = tuple(replace(row, published=row.model in published) for row in board.rows)
    return replace(board, rows=rows, remarks=(*board.remarks, *remarks))


def _only_published(rule: Rule | None) -> None:
    if rule == "corrected":
        n = len(load_results().benchmarks)
        raise UserError(
            f"--scoring corrected: of the published results there are only the means on {n} benchmarks, by the "
            "published rule, and no corrected scores can be made of them. Leave --scoring out, or write "
            "--scoring published."
        )

"""Comparisons of the models in stores: two models, all pairs, and power."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from medhelm.analysis.comparison.pairs import ComparedPairs, Comparison, compare_all_pairs, compare_two_models
from medhelm.analysis.comparison.power import PowerDesign, SuitePower, detectable_effects, suite_power
from medhelm.analysis.comparison.significance import Adjustment
from medhelm.analysis.leaderboard.build import rank_models, without_baselines
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.domain import Rule, Tier
from medhelm.domain.options import check_options
from medhelm.domain.result import LeftOut
from medhelm.domain.text import AnyNames, AnyPath, AnyPaths, as_names, as_paths, check_choice
from medhelm.errors import UserError, suggestion
from medhelm.results.comparable import left_out_remarks
from medhelm.results.leaderboard import LeaderboardInputs, read_inputs, renamed_inputs, suite_of
from medhelm.results.options import EVERY_RUN, USUAL, BoardOptions, RunFilter
from medhelm.results.runs.remarks import unfinished_remarks
from medhelm.results.runs.run_filter import match_name, matching_names


def compare(
    stores: AnyPaths,
    models: AnyNames = (),
    *,
    rule: Rule = "corrected",
    tier: Tier | None = None,
    suite: AnyPath = "all",
    adjustment: Adjustment = "holm",
    benchmark_folders: AnyPaths = (),
    wanted: RunFilter = EVERY_RUN,
) -> Comparison | ComparedPairs:
    """Test whether models of one or more stores differ significantly.

    Parameters
    ----------
    stores
        Folder of a store, or a list of folders.
    models
        Names of two models or more; empty for every model. Win shares and adjusted p-values are those of the
        leaderboard, among all of its models, whichever are named.
    rule, tier, suite, benchmark_folders, wanted
        As in `leaderboard`.
    adjustment
        Adjustment of p-values: `holm` (family-wise error), or `bh` (false discovery rate, Benjamini and Hochberg).

    Returns
    -------
    Comparison or ComparedPairs
        For two named models, their differences on each benchmark and overall; otherwise those of every pair.

    Raises
    ------
    StoreError
        If a folder is not a store.
    UserError
        For wrong arguments, for a model without a finished run, or if models share no instance.
    """
    names, paths = as_names(models, "models"), as_paths(stores, "stores")
    folders = as_paths(benchmark_folders, "benchmark_folders")
    options = BoardOptions(rule=rule, tier=tier, suite=suite, benchmark_folders=folders, wanted=wanted)
    check_options(options)
    check_choice(adjustment, get_args(Adjustment), "adjustment")
    if len(names) == 1:
        raise UserError(f"one model cannot be compared: {names[0]}. Name a second model, or none for every pair.")
    if len(names) == 2:
        return compare_models(paths, names[0], names[1], options, adjustment=adjustment)
    return replace(compare_all_models(paths, names, options), adjustment=adjustment)


def compare_models(
    stores: Sequence[Path],
    first: str,
    second: str,
    options: BoardOptions = USUAL,
    *,
    adjustment: Adjustment = "holm",
) -> Comparison:
    """Return the paired differences between two models of the stores.

    Parameters: as in `leaderboard`.
    Raises: UserError for a model without a finished run, for one model given twice, or if the two share no instance.
    """
    finished, (first, second) = _selected_inputs(stores, [first, second], options)
    return compare_inputs(finished, first, second, adjustment=adjustment)


def compare_inputs(
    finished: LeaderboardInputs, first: str, second: str, *, adjustment: Adjustment = "holm"
) -> Comparison:
    """Return the paired differences between two models of runs that were read before. Raises: as `compare_models`."""
    left_out = _left_out_of(finished, [first, second])
    _refuse_names([first, second], {cell.model for cell in finished.cells}, "no finished run of", left_out)
    cells = _competing(finished.cells, [first, second])
    found = compare_two_models(cells, finished.columns, first, second, adjustment=adjustment)
    if found is None:
        message = f"{first} and {second} have no instance in common: run both on the same benchmark."
        raise UserError("\n".join([message, *map(str, left_out_remarks(left_out))]))
    return replace(found, left_out=left_out, remarks=tuple(left_out_remarks(left_out)))


def compare_all_models(
    stores: Sequence[Path],
    names: Sequence[str] = (),
    options: BoardOptions = USUAL,
) -> ComparedPairs:
    """Compare every pair of the models of the stores, or of the named ones.

    Parameters: as in `leaderboard`.
    Raises: UserError for a model without a finished run, or if there is no pair to compare.
    """
    finished, names = _selected_inputs(stores, names, options)
    found = compare_cells(finished.cells, finished.columns, finished.rule, names=names)
    left_out = _left_out_of(finished, names)
    remarks = [*found.remarks, *left_out_remarks(left_out), *finished.remarks_on(finished.columns, names)]
    remarks += unfinished_remarks(finished.unfinished)
    return replace(
        found,
        suite=str(options.suite),
        scoring=finished.rule,
        tier=finished.tier,
        left_out=left_out,
        remarks=tuple(remarks),
    )


def compare_published_models(names: Sequence[str] = (), *, suite: str = "all") -> ComparedPairs:
    """Compare every pair of the published models, or of the named ones, over benchmarks: only means are published.

    Raises: UserError for an unknown model or suite.
    """
    from medhelm.results.published.cells import published_cells

    cells, columns = published_cells()
    _refuse_names(names, {cell.model for cell in cells}, "no published results of")
    found = compare_cells(cells, _columns_of_suite(columns, BoardOptions(suite=suite)), "published", names=names)
    return replace(found, suite=suite, scoring="published")


def compare_cells(
    cells: Sequence[Cell], columns: Sequence[Column], scoring: Rule = "corrected", *, names: Sequence[str] = ()
) -> ComparedPairs:
    """Compare every pair of models, or of the named ones; cells without single scores count over benchmarks only.

    All models of the cells are tested, so that a pair has the same numbers whichever models are named. Pairs with a
    named baseline are tested among models and baselines, as by `leaderboard --rank-baselines`.
    Raises: UserError if there are fewer than two models, or no two of them share a benchmark.
    """
    shown = {column.benchmark for column in columns}
    kept = [cell for cell in cells if cell.value is not None and cell.benchmark in shown]
    board = without_baselines(kept)
    order = rank_models(board, columns, scoring)
    baselines = [model for model in rank_models(kept, columns, scoring) if model not in order]
    baselines = baselines if set(baselines) & set(names) else []
    models = [model for model in [*order, *baselines] if not names or model in names]
    if len(models) < 2:
        only = f"only {models[0]} has" if models else "no model has"
        raise UserError(
            f"{only} a score: a comparison needs two models. `medhelm run` adds models, and `medhelm rescore` computes "
            "missing scores of imported runs."
        )
    found = compare_all_pairs(board, columns, models=order)
    pairs = found.pairs_among(models)
    if baselines:
        ranked = compare_all_pairs(kept, columns, models=[*order, *baselines]).pairs_among(models)
        known = {(pair.first, pair.second): pair for pair in pairs}
        pairs = tuple(known.get((pair.first, pair.second), pair) for pair in ranked)
    if all(pair.macro_average is None for pair in pairs):
        raise UserError(f"{', '.join(models)} have no instance in common: run them on the same benchmark.")
    return ComparedPairs(
        all_pairs=found,
        models=tuple(models),
        pairs=pairs,
        n_models=len(order),
        n_baselines=len(baselines),
        effects=detectable_effects(board, columns),
    )


def _competing(cells: Sequence[Cell], names: Sequence[str]) -> list[Cell]:
    """Return the cells of the leaderboard: without baselines, unless one of them is named."""
    board = without_baselines(cells)
    return list(cells) if set(names) - {cell.model for cell in board} else board


def measure_power(
    stores: Sequence[Path],
    names: Sequence[str] = (),
    options: BoardOptions = USUAL,
    *,
    design: PowerDesign,
    difference: float | None = None,
) -> SuitePower:
    """Estimate the power of the benchmarks in the stores, for two models or for all of them.

    Parameters: names, models; empty for all; difference, the true difference to detect, None for the observed ones;
    the rest as in `leaderboard`.
    Raises: UserError for a model without a finished run, or if no two models share two independent instances.
    """
    finished, names = _selected_inputs(stores, names, options)
    cells = [cell for cell in finished.cells if not names or cell.model in names]
    found = suite_power(without_baselines(cells, keep=names), finished.columns, design=design, difference=difference)
    if not found.benchmarks:
        models = ", ".join(sorted({cell.model for cell in finished.cells}))
        raise UserError(
            f"{models}: no two models share two independent instances with {finished.rule} scores, so nothing is known "
            "of the noise between them. Run two models on one benchmark, compute missing scores of imported runs with "
            "`medhelm rescore`, or give --disagreement or --sd."
        )
    return found


def _selected_inputs(
    stores: Sequence[Path], names: Sequence[str], options: BoardOptions
) -> tuple[LeaderboardInputs, list[str]]:
    """Read the results of all models on the benchmarks of a suite; also return the full names of the named ones.

    Raises: UserError for a name that is unknown or given twice, or if no model was run on the suite.
    """
    finished = read_inputs(stores, options)
    names = _full_names(names, finished)
    left_out = _left_out_of(finished, names)
    _refuse_names(names, {cell.model for cell in finished.cells}, "no finished run of", left_out)
    if options.short_names:
        names = [finished.short_names[name] for name in names]
        finished = renamed_inputs(finished, finished.short_names)
    columns = _columns_of_suite(finished.columns, options)
    shown = {column.benchmark for column in columns}
    cells = [cell for cell in finished.cells if cell.benchmark in shown]
    return replace(finished, columns=columns, cells=cells), names


def _full_names(names: Sequence[str], finished: LeaderboardInputs) -> list[str]:
    """Return the full names of models; unknown ones stay. Raises: UserError for names that could be several."""
    known = {cell.model for cell in finished.cells} | {one.model for one in finished.left_out}
    return [match_name(name, known) if matching_names(name, known) else name for name in names]


def _left_out_of(finished: LeaderboardInputs, names: Sequence[str]) -> tuple[LeftOut, ...]:
    """Return the entries of the named models, or of all, that do not count on a benchmark that is compared."""
    return tuple(one for one in finished.left_out_of(finished.columns) if not names or one.model in names)


def _refuse_names(names: Sequence[str], known: Collection[str], what: str, left_out: Sequence[LeftOut] = ()) -> None:
    """Raise UserError for names that are not known, or given twice. `left_out`: the reason for some of them."""
    if doubles := sorted(name for name, count in Counter(names).items() if count > 1):
        raise UserError(f"{', '.join(doubles)}: named twice. A model does not differ from itself; name another one.")
    if unknown := [name for name in names if name not in known]:
        named = {one.model for one in left_out} & set(unknown)
        lines = [f"{what} `{name}`. {suggestion(name, known)}".rstrip() for name in unknown if name not in named]
        raise UserError("\n".join([*lines, *map(str, left_out_remarks(x for x in left_out if x.model in named))]))


def _columns_of_suite(columns: Sequence[Column], options: BoardOptions) -> list[Column]:
    """Return the benchmarks of a suite that are among these, with its weights. Raises: UserError if there is none."""
    weights = suite_of(options, columns).weights
    if weights is None:
        return list(columns)
    known = {column.benchmark: column for column in columns}
    kept = [replace(known[name], weight=weight) for name, weight in weights.items() if name in known]
    if not kept:
        raise UserError(
            f"--suite {options.suite}: no model was run on its benchmarks. Benchmarks with runs: "
            f"{', '.join(sorted(known))}."
        )
    return kept

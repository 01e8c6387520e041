"""Select the runs of a store to export."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.benchmarks.personal_identifiers import are_record_numbers
from medhelm.domain import Run, Tier
from medhelm.domain.remark import LeftOut, Remark
from medhelm.errors import StoreError, UserError
from medhelm.results.comparable.left_out import left_out_remarks
from medhelm.results.comparable.run_selection import default_tier, select_runs
from medhelm.results.leaderboard import leaderboard_of, read_inputs, with_judges_in_verdict
from medhelm.results.options import BoardOptions
from medhelm.results.runs.pricing import read_pricing
from medhelm.results.runs.remarks import cached_completions_text, jury_remarks, unfinished_remarks
from medhelm.results.runs.run_filter import filter_runs
from medhelm.results.spending import repriced
from medhelm.results.suites import suite_sort_key
from medhelm.storage.privacy.deletions import table_rows
from medhelm.storage.recovery.damaged_runs import damaged, intact_runs, run_tables
from medhelm.storage.runs import load_runs, records_path
from medhelm.storage.store import Store, open_store


@dataclass(frozen=True, slots=True)
class ExportSelection:
    """Runs of a store, ready to be exported."""

    store: Store
    """Store of the runs."""
    runs: Sequence[Run]
    """All selected runs, finished or not, in the order of the suite, then by model."""
    counted: Mapping[tuple[str, str], Run]
    """Model and benchmark -> the run that a leaderboard counts, in the same order."""
    tier: Tier
    """Real data or sample rows."""
    remarks: Sequence[Remark]
    """Limits of the selection of runs and of their juries."""
    left_out: Sequence[LeftOut] = ()
    """Models that do not count on a benchmark, because they were measured under other conditions."""


def select_for_export(folder: Path, options: BoardOptions) -> ExportSelection:
    """Select the runs to export, and those of them that a leaderboard counts.

    Raises: UserError for unknown names, or if no run is selected; StoreError naming every file that cannot be read.
    """
    store = open_store(folder)
    stored = intact_runs(load_runs(store))
    if not stored:
        cached = cached_completions_text([folder])
        raise UserError(f"the store {folder} holds no run. `medhelm run` makes some. {cached}".rstrip())
    own = filter_runs(options.wanted, stored, lambda run: run)
    tier = options.tier or default_tier(own)
    own = [run for run in own if run.tier == tier]
    if not own:
        raise UserError(f"the store {folder} holds no run on {tier} data with these names.")
    if problems := damaged(path for run in own for path in run_tables(run)):
        raise StoreError("\n".join(map(str, problems)))
    if (pricing := read_pricing(options.pricing)) is not None:
        own = repriced(own, pricing)
    own.sort(key=lambda run: (*suite_sort_key(run.benchmark), run.model, run.started, run.id))
    choice = select_runs(("", run) for run in stored if run.tier == tier)  # as the leaderboard of the whole store
    names = {(run.model, run.benchmark) for run in own}
    left_out = [one for one in choice.left_out if (one.model, one.benchmark) in names]
    chosen = {run.folder for run in choice.runs.values()}
    counted = {(run.model, run.benchmark): run for run in own if run.folder in chosen}
    return ExportSelection(
        store,
        own,
        counted,
        tier,
        [
            *left_out_remarks(left_out),
            *jury_remarks(counted.values()),
            *unfinished_remarks(select_runs(("", run) for run in own).unfinished),
        ],
        left_out,
    )


def benchmarks_with_record_numbers(runs: Iterable[Run]) -> list[str]:
    """Return the benchmarks whose clusters look like record numbers of patients."""
    by_benchmark = {run.benchmark: run for run in runs}
    clusters = {
        name: [row[0] for row in table_rows(records_path(run), ("cluster",))] for name, run in by_benchmark.items()
    }
    return [name for name, found in clusters.items() if any(found) and are_record_numbers("", found)]


def folder_size(folder: Path) -> tuple[int, int]:
    """Return the number of files in a folder, and their bytes."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)


def export_leaderboard(store: Path, selection: ExportSelection, options: BoardOptions) -> Leaderboard:
    """Return the leaderboard of the selected benchmarks and models, as `medhelm leaderboard` shows it."""
    whole = BoardOptions(rule=options.rule, tier=selection.tier, pricing=options.pricing)
    if options.wanted.is_empty:
        return leaderboard_of([store], whole)
    finished = read_inputs([store], whole)
    cells = [cell for cell in finished.cells if (cell.model, cell.benchmark) in selection.counted]
    names = {cell.benchmark for cell in cells}
    board = build_leaderboard(
        cells,
        [column for column in finished.columns if column.benchmark in names],
        scoring=options.rule,
        tier=selection.tier,
    )
    board = replace(board, left_out=tuple(selection.left_out), remarks=(*board.remarks, *selection.remarks))
    return with_judges_in_verdict(board, finished.judge_agreement)

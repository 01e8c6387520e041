"""Further tables of a report: the benchmarks, models by subcategory, detectable effects, and models head to head."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medhelm.benchmarks.suites import load_suite
from medhelm.benchmarks.taxonomy import load_taxonomy
from medhelm.domain.benchmark import SuiteEntry
from medhelm.domain.text import group_title, listed
from medhelm.extensions.paper.contents import PaperTable
from medhelm.results.formats.tables import Value, decimal, number
from medhelm.results.leaderboard_view import (
    BOARD_COLUMNS,
    board_values,
    caption,
    count_instances,
    has_weights,
    head_to_head_list,
    head_to_head_matrix,
    head_to_head_note,
    shown_name,
)
from medhelm.results.published.boards import load_results

if TYPE_CHECKING:
    from medhelm.analysis.comparison.power import BenchmarkEffects, DetectableEffect
    from medhelm.analysis.leaderboard.cells import Column
    from medhelm.analysis.leaderboard.rows import HeadToHead
    from medhelm.analysis.leaderboard.types import Leaderboard


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteListing:
    """A benchmark with results."""

    entry: SuiteEntry
    """Names and category of the benchmark."""
    column: Column
    """Its column of the leaderboard."""


def table_c3(board: Leaderboard, suite: Collection[str], titles: Mapping[str, str]) -> PaperTable:
    """Return the table of benchmarks with results.

    Parameters: suite, benchmarks that were wanted; titles, id of a category or subcategory -> its title.
    """
    weighted = has_weights(board)
    rows: list[list[Value]] = []
    csv_rows: list[list[Value]] = []
    for one in suite_listings(board):
        entry, column = one.entry, one.column
        cells = [row.cells[entry.name] for row in board.rows if entry.name in row.cells]
        counts = sorted({count for count in map(count_instances, cells) if count})
        shown = None if not counts else f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
        places = [titles.get(name) or group_title(name) or None for name in (entry.category, entry.subcategory)]
        metric = column.metric_title or column.metric
        facts: list[Value] = [entry.access or None, entry.construction or None, metric or None]
        weights: list[Value] = [f"{column.weight:g}"] if weighted else []
        models = f"{len(cells)} of {len(board.rows)}"
        rows.append([places[0], entry.title, places[1], *facts, *weights, shown, models])
        ends: list[Value] = [counts[0], counts[-1]] if counts else [None, None]
        csv_rows.append([entry.name, entry.title, entry.category, entry.subcategory, *facts, column.weight, *ends,
                         len(cells),
                         *board_values(board)])  # fmt: skip
    shown_names = {column.benchmark for column in board.columns}
    lacking = [entry.title for entry in load_suite() if entry.name in set(suite) - shown_names]
    weighing = ["Weight"] if weighted else []
    return PaperTable(
        key="tableC3",
        title="Table C3. The benchmarks",
        caption=caption(board),
        headers=["Category", "Benchmark", "Subcategory", "Access", "Source", "Metric", *weighing, "Instances",
                 "Models"],
        rows=rows,
        csv_headers=["benchmark", "title", "category", "subcategory", "access", "source", "metric", "weight",
                     "instances_low", "instances_high", "n_models", *BOARD_COLUMNS],
        csv_rows=csv_rows,
        notes=[
            "Instances: evaluated instances; a range if models differ.",
            *([f"Benchmarks of the suite without results: {listed(lacking)}."] if lacking else []),
        ],
        grouped=True,
    )  # fmt: skip


def table_subcategories(board: Leaderboard, titles: Mapping[str, str]) -> PaperTable:
    """Return the table of models by subcategory."""
    groups = {column.subcategory: column.category for column in board.columns}
    counts = {name: sum(column.subcategory == name for column in board.columns) for name in groups}
    rows: list[list[Value]] = []
    csv_rows: list[list[Value]] = []
    for name, category in groups.items():
        means = [row.subcategories.get(name) for row in board.all_rows]
        shown = [titles.get(key, group_title(key)) for key in (category, name)]
        rows.append(
            [shown[0], f"{shown[1]} ({counts[name]})", *(decimal(mean.value) if mean else None for mean in means)]
        )
        csv_rows += [
            [category, name, counts[name], row.model, number(mean.value) if mean else None,
             mean.n_benchmarks if mean else 0, *board_values(board)]
            for row, mean in zip(board.all_rows, means, strict=True)
        ]  # fmt: skip
    return PaperTable(
        key="subcategories",
        title="Models by subcategory",
        caption=caption(board),
        headers=["Category", "Subcategory", *(shown_name(row) for row in board.all_rows)],
        rows=rows,
        csv_headers=[
            "category",
            "subcategory",
            "n_benchmarks",
            "model",
            "value",
            "n_benchmarks_of_model",
            *BOARD_COLUMNS,
        ],
        csv_rows=csv_rows,
        notes=(
            "Means of benchmark scores from 0 (worst) to 1 (best); brackets: number of benchmarks. A dash: no score.",
        ),
        grouped=True,
    )


def table_e4(effects: Mapping[str, BenchmarkEffects], board: Leaderboard) -> PaperTable:
    """Return the table of minimum detectable effects; by the published formula where benchmarks were ever published."""
    published = {column.benchmark for column in board.columns} & load_results().benchmarks.keys()
    rows: list[list[Value]] = []
    csv_rows: list[list[Value]] = []
    for column in board.columns:
        own = effects.get(column.benchmark)
        by_paper, corrected = (own.published, own.corrected) if own else (None, None)
        shown_by_paper = _effect(by_paper if column.benchmark in published else None) if published else []
        rows.append([column.title, own.n if own else None, *shown_by_paper, *_effect(corrected),
                     corrected.n_pairs if corrected else None])  # fmt: skip
        csv_rows.append([column.benchmark, own.n if own else None, *_effect_numbers(by_paper),
                         *_effect_numbers(corrected), *board_values(board)])  # fmt: skip
    names = [f"{rule}_{part}" for rule in ("published", "corrected") for part in ("mde", "sd", "pairs")]
    notes = [
        "The smallest true difference between two models that is detected with a power of 0.8 at the 5% level, on a "
        "scale of 0 to 1: mean and SD over pairs of models.",
    ]
    if published:
        notes.append(
            "Published: the paper's formula as implemented, which divides scores above 1 by 5 and treats all instances "
            "as independent. Corrected: scores on the scale of their metric, with clustered instances."
        )
    if not effects:
        notes.append("The table needs scores of instances for at least two models; here only means are known.")
    elif published and board.scoring != "published":
        notes.append("Both columns use corrected scores; --scoring published gives the numbers of the paper.")
    return PaperTable(
        key="tableE4",
        title="Table E4. Minimum detectable effect",
        caption=caption(board),
        headers=["Benchmark", "Instances", *(["Published", "SD", "Corrected"] if published else ["Effect"]), "SD",
                 "Pairs"],
        rows=rows,
        csv_headers=["benchmark", "n", *names, *BOARD_COLUMNS],
        csv_rows=csv_rows,
        notes=notes,
    )  # fmt: skip


def table_head_to_head(found: HeadToHead, board: Leaderboard) -> PaperTable:
    """Return the table of models against each other."""
    headers, rows = head_to_head_matrix(found, [shown_name(row) for row in board.rows])
    csv_rows, csv_headers = head_to_head_list(found)
    return PaperTable(
        key="head_to_head",
        title="Head to head",
        caption=caption(board),
        headers=headers,
        rows=rows,
        csv_headers=[*csv_headers, *BOARD_COLUMNS],
        csv_rows=[[*row, *board_values(board)] for row in csv_rows],
        notes=(f"{head_to_head_note(found)}.", *(remark.text for remark in found.remarks)),
    )


def _effect(found: DetectableEffect | None) -> list[Value]:
    return [decimal(found.value), decimal(found.sd)] if found else [None, None]


def _effect_numbers(found: DetectableEffect | None) -> list[Value]:
    return [number(found.value), number(found.sd), found.n_pairs] if found else [None, None, None]


def suite_listings(board: Leaderboard) -> list[SuiteListing]:
    """Return the benchmarks of a leaderboard with what the published suite says about them."""
    known = {entry.name: entry for entry in load_suite()}
    return [SuiteListing(entry=known.get(one.benchmark) or _new_entry(one), column=one) for one in board.columns]


def _new_entry(column: Column) -> SuiteEntry:
    """Return an entry for a benchmark outside the suite."""
    return SuiteEntry(
        name=column.benchmark,
        title=column.title,
        category=column.category,
        subcategory=column.subcategory,
        in_paper=False,
    )


def taxonomy_titles() -> dict[str, str]:
    """Return the title of each category and subcategory."""
    categories = load_taxonomy()
    below = {part.id: part.title for category in categories for part in category.subcategories}
    return {category.id: category.title for category in categories} | below

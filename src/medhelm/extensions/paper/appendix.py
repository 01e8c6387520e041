"""Further tables of a report: the suite, models by subcategory, detectable effects, and models head to head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medhelm.domain.text import group_title
from medhelm.extensions.paper.contents import PaperTable
from medhelm.reports.formats.tables import Value, decimal, number
from medhelm.reports.leaderboard import (
    BOARD_COLUMNS,
    board_values,
    caption,
    has_weights,
    head_to_head_list,
    head_to_head_matrix,
    head_to_head_note,
)
from medhelm.reports.leaderboard_fields import shown_name

if TYPE_CHECKING:
    from medhelm.analysis.comparison.power import BenchmarkEffects, DetectableEffect
    from medhelm.analysis.leaderboard.cells import Column
    from medhelm.analysis.leaderboard.head_to_head import HeadToHead
    from medhelm.analysis.leaderboard.types import Leaderboard
    from medhelm.domain.benchmark import SuiteEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteListing:
    """A benchmark of the suite, with or without runs."""

    entry: SuiteEntry
    """Names and category of the benchmark."""
    metric: str
    """Title of its main metric; empty if unknown."""
    column: Column | None
    """Its column of the leaderboard; None without runs."""


def table_c3(listed: Sequence[SuiteListing], board: Leaderboard, titles: Mapping[str, str]) -> PaperTable:
    """Return the table of benchmarks. `titles`: id of a category or subcategory -> its title."""
    weighted = has_weights(board)
    rows: list[list[Value]] = []
    csv_rows: list[list[Value]] = []
    for one in listed:
        entry = one.entry
        cells = [row.cells[entry.name] for row in board.rows if entry.name in row.cells]
        asked = [cell.estimate.n + (cell.n_failed or 0) if cell.estimate else cell.n for cell in cells]
        counts = sorted({count for count in asked if count is not None})
        shown = None if not counts else f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
        places = [titles.get(name) or group_title(name) or None for name in (entry.category, entry.subcategory)]
        facts: list[Value] = [entry.access or None, entry.construction or None, one.metric or None]
        weight = one.column.weight if one.column else None
        weights: list[Value] = [None if weight is None else f"{weight:g}"] if weighted else []
        models = f"{len(cells)} of {len(board.rows)}" if cells else "no"
        rows.append([places[0], entry.title, places[1], *facts, *weights, shown, models])
        ends: list[Value] = [counts[0], counts[-1]] if counts else [None, None]
        csv_rows.append([entry.name, entry.title, entry.category, entry.subcategory, *facts, weight, *ends, len(cells),
                         *board_values(board)])  # fmt: skip
    run = sum(one.column is not None for one in listed)
    weighing = ["Weight"] if weighted else []
    return PaperTable(
        key="tableC3",
        title="Table C3. The suite",
        caption=f"{run} of {len(listed)} benchmarks with results; {caption(board)}",
        headers=["Category", "Benchmark", "Subcategory", "Access", "Source", "Metric", *weighing, "Instances",
                 "Models"],
        rows=rows,
        csv_headers=["benchmark", "title", "category", "subcategory", "access", "source", "metric", "weight",
                     "instances_low", "instances_high", "n_models", *BOARD_COLUMNS],
        csv_rows=csv_rows,
        notes=("Instances: evaluated instances; a range if models differ.",),
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
    """Return the table of minimum detectable effects."""
    rows: list[list[Value]] = []
    csv_rows: list[list[Value]] = []
    for column in board.columns:
        found = effects.get(column.benchmark)
        published, corrected = (found.published, found.corrected) if found else (None, None)
        rows.append([column.title, found.n if found else None, *_effect(published), *_effect(corrected),
                     corrected.n_pairs if corrected else None])  # fmt: skip
        csv_rows.append([column.benchmark, found.n if found else None, *_effect_numbers(published),
                         *_effect_numbers(corrected), *board_values(board)])  # fmt: skip
    names = [f"{rule}_{part}" for rule in ("published", "corrected") for part in ("mde", "sd", "pairs")]
    notes = [
        "The smallest true difference between two models that is detected with a power of 0.8 at the 5% level, on a "
        "scale of 0 to 1: mean and SD over pairs of models.",
        "Published: the paper's formula as implemented, which divides scores above 1 by 5 and treats all instances as "
        "independent. Corrected: scores on the scale of their metric, with clustered instances.",
    ]
    if not effects:
        notes.append("The table needs scores of instances for at least two models; here only means are known.")
    elif board.scoring != "published":
        notes.append("Both columns use corrected scores; --scoring published gives the numbers of the paper.")
    return PaperTable(
        key="tableE4",
        title="Table E4. Minimum detectable effect",
        caption=caption(board),
        headers=["Benchmark", "Instances", "Published", "SD", "Corrected", "SD", "Pairs"],
        rows=rows,
        csv_headers=["benchmark", "n", *names, *BOARD_COLUMNS],
        csv_rows=csv_rows,
        notes=notes,
    )


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

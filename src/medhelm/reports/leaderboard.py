"""The leaderboard as JSON (`as_json`) and as a table (`to_table`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from medhelm.analysis.leaderboard.head_to_head import HeadToHead, head_to_head
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.domain.text import group_title, listed, plural
from medhelm.errors import UserError
from medhelm.reports.formats.fields import columns_of, fields_json, rounded_rows, table_of
from medhelm.reports.formats.tables import (
    Columns,
    ObjectView,
    Value,
    as_line,
    data_text,
    decimal,
    escape_markdown,
    estimate_text,
    number,
    render,
    score_decimals,
)
from medhelm.reports.leaderboard_fields import (
    CSV_FIRST,
    EMPTY,
    PUBLISHED,
    board_fields,
    cell_fields,
    head_to_head_fields,
    model_fields,
    shared_pairs,
    shown_name,
    source_of,
)

if TYPE_CHECKING:
    from medhelm.analysis.leaderboard.cells import Cell, Column
    from medhelm.analysis.leaderboard.types import GroupMean, Row

By = Literal["overall", "category", "subcategory", "benchmark", "head-to-head"]
"""Meaning of the rows or columns of the table."""

MOST_SHOWN = 15
"""Most models in the matrix; CSV and JSON list every pair."""

SEPARATED = "*"
"""Mark of a pair that differs significantly."""

SIDE_BY_SIDE = 6
"""Most models shown as columns; more are listed in rows."""

PANEL_NAMES = 5
"""Most names of a panel in the caption."""

CONSTANT = "constant baseline"
"""Heading of the score of the most frequent reference, given for every instance."""


# --- JSON -------------------------------------------------------------------------------------------------------------


MOST_HEAD_TO_HEAD = 30
"""Most models whose head-to-head shares are in JSON unless they are asked for."""


def as_json(board: Leaderboard, *, by: str = "overall") -> dict[str, Any]:
    """Return the output of `medhelm leaderboard --format json`; undefined numbers are None.

    Parameters: by, `head-to-head` lists the pairs of any number of models, not only up to `MOST_HEAD_TO_HEAD`.
    """
    is_listed = by == "head-to-head" or len(board.rows) <= MOST_HEAD_TO_HEAD
    return fields_json(board_fields(board, head_to_head(board if is_listed else EMPTY)), board)


# --- tables -----------------------------------------------------------------------------------------------------------


SOME_MISSING = 0.02
"""Share of missing scores from which a score is shown with its bounds."""


def to_table(board: Leaderboard, by: str = "overall", format: str = "table", *, wide: bool = False) -> str:
    """The leaderboard as a table.

    Parameters: by, overall (one row per model), category or subcategory (models by groups), benchmark (benchmarks by
    models, or one row per pair if there are many models) or head-to-head (models by models); format, see
    `tables.render`; wide, True for all averages and their spread. CSV holds the same numbers in columns of their own,
    with six decimals.
    Raises: UserError for another `by` or format.
    """
    check_by(by)
    if by == "head-to-head":
        return _head_to_head_table(board, format)
    if format == "csv":
        rows, headers = _csv_overall(board) if by == "overall" else _csv_long(board, by)
        return render(rows, headers, format=format)
    drop = ["Failed", "Instances", CONSTANT, "Metric"]
    if by == "overall":
        rows, headers, drop = table_of(model_fields(board), board.all_rows, wide=wide)
    elif by == "benchmark":
        rows, headers = (
            _wide_benchmark_table(board) if len(board.all_rows) <= SIDE_BY_SIDE else _long_benchmark_table(board)
        )
    else:
        rows, headers = _group_table(board, by)
    has_bounds = by == "benchmark" and any(_has_bounds(one) for row in board.all_rows for one in row.cells.values())
    text = caption(board) + (f". {BOUNDS}" if has_bounds else "")
    return render(rows, headers, format=format, caption=text, keep=3 if by == "overall" else 2, drop=drop)


BOUNDS = "In parentheses: the score if all missing scores were the worst, and the best"
"""Explains the bounds after a score with missing instances."""


def check_by(by: str) -> None:
    """Raise UserError for an unknown meaning of the rows."""
    if by not in get_args(By):
        raise UserError(f"Cannot show the leaderboard by `{by}`. Known: {', '.join(get_args(By))}.")


Table = tuple[list[list[Value]], list[str]]
"""Rows and headings."""


def _head_to_head_table(board: Leaderboard, format: str) -> str:
    """The models against each other; CSV has one row per pair."""
    found = head_to_head(board)
    if format == "csv":
        rows, headers = head_to_head_list(found)
        return render([[*row, *board_values(board)] for row in rows], [*headers, *BOARD_COLUMNS], format=format)
    headers, rows = head_to_head_matrix(found, [shown_name(row) for row in board.rows])
    text = render(rows, headers, format=format, caption=f"{caption(board)}. {head_to_head_note(found)}.", keep=2)
    shown = escape_markdown if format == "md" else as_line
    remarks = "".join(f"- {shown(str(remark))}\n" for remark in found.remarks) if format in ("table", "md") else ""
    return f"{text}\n{remarks}" if remarks else text


def caption(board: Leaderboard) -> str:
    """Return one line on models, benchmarks and scoring, with a warning about invented data."""
    models, benchmarks = plural(len(board.rows), "model"), plural(len(board.columns), "benchmark")
    marked = f"; {PUBLISHED} published, not measured here" if any(row.published for row in board.rows) else ""
    panel = f"; against the panel: {listed(board.panel, PANEL_NAMES)}" if board.panel else ""
    scoring = f"{board.scoring} scoring, {data_text(board.tier)}"
    return f"{models}, {benchmarks} (suite: {board.suite}), {scoring}{marked}{panel}"


def has_weights(board: Leaderboard) -> bool:
    """Return whether benchmarks have different weights."""
    return len({column.weight for column in board.columns}) > 1


def _group_table(board: Leaderboard, by: str) -> Table:
    """Models by categories or subcategories: means of normalized scores."""
    names = _group_names(board, by)
    rows: list[list[Value]] = [
        [row.rank, shown_name(row), *(decimal(_group_means(row, by)[name].value) for name in names)]
        for row in board.all_rows
    ]
    return rows, ["Rank", "Model", *map(group_title, names)]


def _group_names(board: Leaderboard, by: str) -> list[str]:
    """Return the groups of the leaderboard, in the order of its benchmarks."""
    return list(dict.fromkeys(c.category if by == "category" else c.subcategory for c in board.columns))


def _group_means(row: Row, by: str) -> Mapping[str, GroupMean]:
    """Return the category or subcategory means of a model."""
    return row.categories if by == "category" else row.subcategories


def _score_text(cell: Cell | None, column: Column) -> str | None:
    """Return a cell of a benchmark table, in the unit of the metric."""
    if cell is None:
        return None
    places = score_decimals(column)
    text = estimate_text(cell.estimate, places) if cell.estimate else decimal(cell.value, places)
    if text is None or not _has_bounds(cell) or (bounds := cell.bounds(column)) is None:
        return text
    return f"{text} ({decimal(bounds[0], places)} to {decimal(bounds[1], places)})"


def _has_bounds(cell: Cell) -> bool:
    """Return whether so many scores are missing that the score is shown with its bounds."""
    return cell.share_missing > SOME_MISSING


def _wide_benchmark_table(board: Leaderboard) -> Table:
    """One row per benchmark, one column per model."""
    weighted = has_weights(board)
    with_constant = any(column.constant_baseline is not None for column in board.columns)
    rows: list[list[Value]] = [
        [
            column.title,
            column.metric_title or column.metric,
            *([f"{column.weight:g}"] if weighted else []),
            *(_score_text(row.cells.get(column.benchmark), column) for row in board.all_rows),
            *([decimal(column.constant_baseline, score_decimals(column))] if with_constant else []),
        ]
        for column in board.columns
    ]
    headers = ["Benchmark", "Metric", *(["Weight"] if weighted else []), *map(shown_name, board.all_rows)]
    return rows, [*headers, *([CONSTANT] if with_constant else [])]


def _long_benchmark_table(board: Leaderboard) -> Table:
    """One row per benchmark and model; the name of a benchmark is shown once."""
    headers = ["Benchmark", "Metric", "Model", "Score", "Instances", "Failed"]
    rows: list[list[Value]] = []
    for column in board.columns:
        for index, row in enumerate(board.all_rows):
            cell = row.cells.get(column.benchmark)
            names = [column.title, column.metric_title or column.metric] if index == 0 else ["", ""]
            count = cell.estimate.n if cell and cell.estimate else cell.n if cell else None
            rows.append([*names, shown_name(row), _score_text(cell, column), count, cell.n_failed if cell else None])
        if column.constant_baseline is not None:
            rows.append(["", "", CONSTANT, decimal(column.constant_baseline, score_decimals(column)), None, None])
    return rows, headers


BOARD_COLUMNS = ["suite", "scoring", "tier"]
"""Columns of CSV that `board_values` fills."""


def board_values(board: Leaderboard) -> list[Value]:
    """Return what every row of a CSV file says about its leaderboard."""
    return [board.suite, board.scoring, board.tier]


def _csv_overall(board: Leaderboard) -> Table:
    """One row per model, every number in a column of its own."""
    return rounded_rows(columns_of(model_fields(board), CSV_FIRST), board.all_rows)


def _csv_long(board: Leaderboard, by: str) -> Table:
    """One row per benchmark, or group, and model."""
    end: list[Value] = [board.scoring, board.tier]
    rows: list[list[Value]] = []
    if by != "benchmark":
        headers = [by, "model", "value", "n_benchmarks", "scoring", "tier", "source"]
        for name in _group_names(board, by):
            for row in board.all_rows:
                mean = _group_means(row, by)[name]
                rows.append([name, row.model, number(mean.value), mean.n_benchmarks, *end, source_of(row)])
        return rows, headers
    headers = ["benchmark", "metric", "model", "value", "low", "high", "n", "n_failed", "scoring", "tier", "source"]
    headers.append("weight")
    for column in board.columns:
        for row in board.all_rows:
            cell = row.cells.get(column.benchmark)
            found = fields_json(cell_fields(column), cell) if cell else {}
            numbers = [found.get(key) for key in ("value", "low", "high", "n", "n_failed")]
            weight = number(column.weight)
            rows.append([column.benchmark, column.metric, row.model, *numbers, *end, source_of(row), weight])
    return rows, headers


# --- head to head -----------------------------------------------------------------------------------------------------


def head_to_head_list(found: HeadToHead) -> Table:
    """Return one row per pair, and the names of the columns."""
    return rounded_rows(head_to_head_fields(found), shared_pairs(found))


def head_to_head_matrix(found: HeadToHead, names: Sequence[str]) -> tuple[list[str], list[list[Value]]]:
    """Return headings and rows of the matrix of the first models: each row against the numbered columns.

    Parameters: names, of the models as tables show them.
    """
    shown = range(min(len(found.models), MOST_SHOWN))
    rows: list[list[Value]] = []
    for i in shown:
        mark = [SEPARATED if found.separated[i, j] else "" for j in shown]
        cells = [number(float(found.win_share[i, j])) for j in shown]
        texts = [None if cell is None else f"{decimal(cell, 2)}{m}" for cell, m in zip(cells, mark, strict=True)]
        rows.append([i + 1, names[i], *texts])
    return ["No.", "Model", *(str(j + 1) for j in shown)], rows


def head_to_head_note(found: HeadToHead) -> str:
    """Return what the matrix shows, in one sentence."""
    text = f"Share of {found.unit} on which the row's model beats the column's, a tie counting one half; "
    text += f"{SEPARATED} significantly different on the leaderboard"
    if len(found.models) > MOST_SHOWN:
        text += f"; the first {MOST_SHOWN} of {len(found.models)} models, CSV lists all pairs"
    return text


# --- Python and notebooks ---------------------------------------------------------------------------------------------


def _frame_columns(board: Leaderboard, by: str) -> Columns:
    """Return the columns of `--format csv`. Raises: UserError for another `by`."""
    by = by or "overall"
    check_by(by)
    if by == "head-to-head":
        rows, headers = head_to_head_list(head_to_head(board))
    else:
        rows, headers = _csv_overall(board) if by == "overall" else _csv_long(board, by)
    return headers, rows


VIEW: ObjectView[Leaderboard] = ObjectView(
    summary=lambda board: f"{caption(board)}. {' '.join(board.verdict)}".strip(),
    table=lambda board, format: to_table(board, format=format),
    as_json=as_json,
    columns=_frame_columns,
    verdict=lambda board: board.verdict,
    remarks=lambda board: board.remarks,
)
"""The leaderboard in Python."""

"""The leaderboard as JSON (`as_json`) and as a table (`to_table`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from medhelm.analysis.agreement.calibrated_pairs import CalibratedLeaderboard
from medhelm.analysis.leaderboard.head_to_head import HeadToHead, head_to_head
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.domain.text import listed, plural
from medhelm.domain.titles import group_title
from medhelm.errors import UserError
from medhelm.reports.calibration import calibrated_json, pairs_as_json, ranks_as_json
from medhelm.reports.cost import frontier_as_json
from medhelm.reports.formats.json_output import (
    estimate_json,
    injection_effects_json,
    left_out_json,
    plain_json,
    probability,
    select,
)
from medhelm.reports.formats.tables import (
    Columns,
    ObjectView,
    Value,
    as_line,
    data_text,
    decimal,
    escape_markdown,
    estimate_numbers,
    estimate_text,
    number,
    render,
    score_decimals,
    tabulate,
)

if TYPE_CHECKING:
    from medhelm.analysis.leaderboard.cells import Cell, Column
    from medhelm.analysis.leaderboard.types import Average, GroupMean, Row
    from medhelm.domain import Estimate

By = Literal["overall", "category", "subcategory", "benchmark", "head-to-head"]
"""Meaning of the rows or columns of the table."""

MOST_SHOWN = 15
"""Most models in the matrix; CSV and JSON list every pair."""

SEPARATED = "*"
"""Mark of a pair that differs significantly."""

CSV_HEADERS = ["a", "b", "win_share", "unit", "n_benchmarks", "separated"]
"""Columns of the list of pairs."""

SIDE_BY_SIDE = 6
"""Most models shown as columns; more are listed in rows."""

PUBLISHED = "†"
"""Mark after the name of a model with published scores."""

PANEL_NAMES = 5
"""Most names of a panel in the caption."""

CONSTANT = "constant baseline"
"""Heading of the score of the most frequent reference, given for every instance."""


# --- JSON -------------------------------------------------------------------------------------------------------------

COLUMN_NUMBERS = "low high higher_is_better floor=constant_baseline floor_answer=constant_answer weight"
"""JSON of a benchmark: key and field."""


def as_json(board: Leaderboard, *, by: str = "overall") -> dict[str, Any]:
    """Return the output of `medhelm leaderboard --format json`; undefined numbers are None.

    Parameters: by, `head-to-head` lists the pairs of any number of models, not only up to `MOST_HEAD_TO_HEAD`.
    """
    pairs = head_to_head(board) if by == "head-to-head" or len(board.rows) <= MOST_HEAD_TO_HEAD else None
    return {
        "verdict": list(board.verdict),
        "models": [
            {
                **_model_json(row, board.columns),
                **({"below_floor": estimate_json(row.below_floor, "value low high n")} if board.has_floors else {}),
                **use_as_json(row, board),
                **_calibrated_ranks(board, row),
            }
            for row in board.all_rows
        ],
        "benchmarks": [
            {
                **select(column, "id=benchmark title category subcategory metric judges"),
                "mde": number(board.mde.get(column.benchmark)),
                **select(column, COLUMN_NUMBERS, rounded=True),
            }
            for column in board.columns
        ],
        **select(board, "suite suite_description scoring tier interval_method ranked_by"),
        "panel": None if board.panel is None else list(board.panel),
        "head_to_head": head_to_head_json(pairs) if pairs else [],
        "intransitive": [list(triple) for triple in pairs.circles] if pairs else [],
        "pairs": _pairs_json(board),
        **({"calibrated_pairs": pairs_as_json(board)} if isinstance(board, CalibratedLeaderboard) else {}),
        "frontier": frontier_as_json(board.frontier),
        "told_apart": sorted(list(pair) for pair in board.nominally_different),
        "told_apart_adjusted": sorted(list(pair) for pair in board.separated),
        "left_out": left_out_json(board.left_out),
        "prompt_injection": injection_effects_json(board.injection_effects),
        "warnings": [remark.text for remark in board.remarks],
    }


MOST_HEAD_TO_HEAD = 30
"""Most models whose head-to-head shares are in JSON unless they are asked for."""

MOST_PAIRS = 5_000
"""Most pairs in JSON: those of 100 models. `medhelm compare --format csv` lists any number."""


def _pairs_json(board: Leaderboard) -> list[dict[str, Any]]:
    """Return the overall test of every two models, the higher-ranked first; empty for more than `MOST_PAIRS`."""
    if board.pairs is None or len(board.pairs.by_instance) > MOST_PAIRS:
        return []
    return [
        {
            **select(pair, "a=first b=second"),
            "benchmark": None,
            **select(test.difference, "difference=value low high", rounded=True),
            "p": probability(test.difference.p_value),
            "p_adjusted": probability(test.p_holm),
            "separated": not {(pair.first, pair.second), (pair.second, pair.first)}.isdisjoint(board.separated),
            "macro_average": select(pair.macro_average.difference, "value low high p=p_value", rounded=True)
            if pair.macro_average
            else None,
            **select(pair, "worst_case best_case survives_failures", rounded=True),
        }
        for pair in board.pairs.pairs
        if (test := pair.win_share) is not None
    ]


def _model_json(row: Row, columns: Sequence[Column]) -> dict[str, Any]:
    """One model; a baseline outside the ranks has the rank None."""
    shown = [column for column in columns if column.benchmark in row.cells]
    return {
        **select(row, "model rank rank_low rank_high tie_group"),
        "win_share": estimate_json(row.win_share),
        "guarded_win_share": number(row.guarded_win_share),
        "win_rate": estimate_json(row.win_rate),
        **select(row, "win_rate_sd=win_rate.sd guarded_win_rate", rounded=True),
        "macro_average": estimate_json(row.macro_average),
        "adjusted_average": estimate_json(row.adjusted_average),
        "ranking_value": number(row.ranking_value),
        "worst_answers": estimate_json(row.worst_answers, "value low high n"),
        "win_share_over_benchmarks": estimate_json(row.win_share_over_benchmarks),
        "macro_average_over_benchmarks": estimate_json(row.macro_over_benchmarks),
        **select(row, "macro_sd=macro_average.sd published n_benchmarks coverage", rounded=True),
        "cost_usd": number(row.cost_usd),
        "completion_dates": _completion_dates(row),
        "rank_bounds": list(row.rank_bounds) if row.rank_bounds else None,
        "macro_bounds": [number(value) for value in row.macro_bounds] if row.macro_bounds else None,
        "benchmarks": {column.benchmark: _cell_json(row.cells[column.benchmark], column) for column in shown},
        "categories": _group_means_json(row.categories),
        "subcategories": _group_means_json(row.subcategories),
    }


def _completion_dates(row: Row) -> dict[str, str] | None:
    """Return the first and last day on which a model's completions arrived; None if unknown."""
    known = [cell.dates for cell in row.cells.values() if cell.dates]
    return {"earliest": min(first for first, _ in known), "latest": max(last for _, last in known)} if known else None


def use_as_json(row: Row, board: Leaderboard) -> dict[str, Any]:
    """Return what using a model takes, without judges, and its probability of being on the efficient frontier."""
    names = (
        "usd_per_1000 seconds_per_completion=use.seconds mean_seconds_per_completion=use.mean_seconds "
        "tokens_per_completion=use.tokens output_tokens_per_completion=use.output_tokens"
    )
    return {
        **select(row, names, rounded=True),
        "frontier_probability": number(board.frontier.probability(row.model)) if board.frontier else None,
    }


def _cell_json(cell: Cell, column: Column) -> dict[str, Any]:
    """Return the score of one model on one benchmark, in the unit of the metric."""
    known, bounds = cell.estimate, cell.bounds(column)
    completers = estimate_json(cell.completers, "value low high n")
    return {
        **select(cell, "value low=estimate.low high=estimate.high", rounded=True),
        "n": known.n if known else cell.n,
        "n_failed": cell.n_failed,
        "metric": column.metric,
        "method": known.method if known else None,
        "cost_usd": number(cell.cost_usd),
        **({"n_failed_by_model": cell.n_failed_by_model, "completers": completers} if cell.n_failed_by_model else {}),
        **({"completion_counts": plain_json(cell.completion_counts)} if cell.completion_counts else {}),
        **({"worst_case": number(bounds[0]), "best_case": number(bounds[1])} if bounds else {}),
        **({"calibrated": calibrated_json(cell.calibrated)} if cell.calibrated else {}),
    }


def _group_means_json(means: Mapping[str, GroupMean]) -> dict[str, Any]:
    """Categories or subcategories."""
    return {name: select(mean, "value n_benchmarks", rounded=True) for name, mean in means.items()}


def _calibrated_ranks(board: Leaderboard, row: Row) -> dict[str, Any]:
    """Return the possible ranks of a model with the clinicians' ratings; nothing without ratings."""
    return ranks_as_json(board, row.model) if isinstance(board, CalibratedLeaderboard) else {}


# --- tables -----------------------------------------------------------------------------------------------------------


LEAST_IMPORTANT = ("SD over rivals", "SD", "Coverage", "Win share", "Win rate", "Own average",
                   "Benchmarks", "Failed", "Cost USD", "Worst answers", "Below floor")  # fmt: skip
"""Columns that a narrow terminal leaves out, the first one first."""

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
    if by == "overall":
        rows, headers = _overall_table(board, wide=wide)
    elif by == "benchmark":
        rows, headers = (
            _wide_benchmark_table(board) if len(board.all_rows) <= SIDE_BY_SIDE else _long_benchmark_table(board)
        )
    else:
        rows, headers = _group_table(board, by)
    drop: tuple[str, ...] = ("Failed", "Instances", CONSTANT, "Metric")
    if by == "overall":
        drop = tuple(name for name in LEAST_IMPORTANT if name != score_heading(board))
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
        rows = [[*row, *board_values(board)] for row in head_to_head_list(found)]
        return render(rows, [*CSV_HEADERS, *BOARD_COLUMNS], format=format)
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


def shown_name(row: Row) -> str:
    """Return the name of a model in tables, with a mark if its scores are published ones."""
    return f"{row.model} {PUBLISHED}" if row.published else row.model


def rank_text(row: Row) -> str | None:
    """Return a rank with the ranks that the model can have, such as `2 (1-4)`; None without one."""
    if row.rank is None:
        return None
    return str(row.rank) if row.rank_low is None else f"{row.rank} ({row.rank_low}-{row.rank_high})"


def score_heading(board: Leaderboard) -> str:
    """Return the heading of the number that ranks."""
    return board.ranked_by.capitalize()


def has_weights(board: Leaderboard) -> bool:
    """Return whether benchmarks have different weights."""
    return len({column.weight for column in board.columns}) > 1


def _overall_table(board: Leaderboard, *, wide: bool) -> Table:
    """One row per model, baselines last: the number that ranks, failures and cost; all averages if `wide`."""
    columns: dict[str, Callable[[Row], Value]] = {
        "Rank": rank_text,
        "Model": shown_name,
        score_heading(board): lambda row: estimate_text(board.ranking_average(row)),
        "Macro average": lambda row: estimate_text(row.adjusted_average),
        "Worst answers": lambda row: _percentages(row.worst_answers),
        "Below floor": lambda row: _percentages(row.below_floor),
        "Failed": lambda row: _failed_text(row),
        "Benchmarks": lambda row: row.n_benchmarks,
        "Cost USD": lambda row: decimal(row.cost_usd, 2),
    }
    if board.ranked_by == "mean score":
        del columns["Macro average"]
    if wide:
        columns |= {
            "Own average": lambda row: estimate_text(row.macro_average),
            "SD": lambda row: decimal(row.macro_average.sd) if row.macro_average else None,
            "Win share": lambda row: estimate_text(row.win_share),
            "Win rate": lambda row: estimate_text(row.win_rate),
            "SD over rivals": lambda row: decimal(row.win_rate.sd) if row.win_rate else None,
            "Coverage": lambda row: f"{row.coverage:.0%}",
        }
    return tabulate(board.all_rows, columns, optional=["Win share", "Worst answers", "Below floor", "Failed"])


def _percentages(found: Estimate | None) -> str | None:
    """Return a share with its interval in percent."""
    return None if found is None else f"{found.value:.1%} [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def _failed_text(row: Row) -> str | None:
    """Return how many instances failed, and how many of them count as the worst answer; None for none."""
    failed = sum(cell.n_failed or 0 for cell in row.cells.values())
    worst = sum(cell.n_failed_by_model for cell in row.cells.values())
    if not failed:
        return None
    return (
        f"{failed:,} ({worst:,} as worst)"
        if 0 < worst < failed
        else f"{failed:,} (as worst)"
        if worst
        else f"{failed:,}"
    )


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


USE = ("usd_per_1000", "seconds_per_completion", "mean_seconds_per_completion", "tokens_per_completion",
       "output_tokens_per_completion", "frontier_probability")  # fmt: skip
"""Columns of CSV that `use_as_json` fills."""


BOARD_COLUMNS = ["suite", "scoring", "tier"]
"""Columns of CSV that `board_values` fills."""


def board_values(board: Leaderboard) -> list[Value]:
    """Return what every row of a CSV file says about its leaderboard."""
    return [board.suite, board.scoring, board.tier]


def average_numbers(average: Average | None) -> list[Value]:
    """Return an average, the ends of its interval and its standard deviation for CSV."""
    return [*estimate_numbers(average), number(average.sd) if average else None]


def _csv_overall(board: Leaderboard) -> Table:
    """One row per model, every number in a column of its own."""
    headers = ["rank", "tie_group", "model"]
    for name in ("win_rate", "macro_average"):
        headers += [name, f"{name}_low", f"{name}_high", f"{name}_sd"]
    headers += ["n_benchmarks", "coverage", "cost_usd", *BOARD_COLUMNS, "source"]
    headers += ["rank_low", "rank_high", "guarded_win_rate", "win_share", "win_share_low", "win_share_high"]
    headers += list(USE)
    headers += ["adjusted_average", "adjusted_average_low", "adjusted_average_high", "worst_answers", "failed"]
    headers += ["guarded_win_share", "panel"] if board.panel else []
    headers += ["below_floor", "below_floor_low", "below_floor_high", "below_floor_n"] if board.has_floors else []
    rows: list[list[Value]] = []
    for row in board.all_rows:
        cells: list[Value] = [row.rank, row.tie_group, row.model]
        cells += [*average_numbers(row.win_rate), *average_numbers(row.macro_average)]
        cells += [row.n_benchmarks, number(row.coverage), number(row.cost_usd)]
        cells += [*board_values(board), _source(row)]
        cells += [row.rank_low, row.rank_high, number(row.guarded_win_rate), *estimate_numbers(row.win_share)]
        cells += use_as_json(row, board).values()
        cells += [
            *estimate_numbers(row.adjusted_average),
            number(row.worst_answers.value) if row.worst_answers else None,
        ]
        cells += [sum(cell.n_failed or 0 for cell in row.cells.values())]
        cells += [number(row.guarded_win_share), ", ".join(board.panel)] if board.panel else []
        if board.has_floors:
            cells += [*estimate_numbers(row.below_floor), row.below_floor.n if row.below_floor else None]
        rows.append(cells)
    return rows, headers


def _csv_long(board: Leaderboard, by: str) -> Table:
    """One row per benchmark, or group, and model."""
    end: list[Value] = [board.scoring, board.tier]
    rows: list[list[Value]] = []
    if by != "benchmark":
        headers = [by, "model", "value", "n_benchmarks", "scoring", "tier", "source"]
        for name in _group_names(board, by):
            for row in board.all_rows:
                mean = _group_means(row, by)[name]
                rows.append([name, row.model, number(mean.value), mean.n_benchmarks, *end, _source(row)])
        return rows, headers
    headers = ["benchmark", "metric", "model", "value", "low", "high", "n", "n_failed", "scoring", "tier", "source"]
    headers.append("weight")
    for column in board.columns:
        for row in board.all_rows:
            cell = row.cells.get(column.benchmark)
            found = _cell_json(cell, column) if cell else {}
            numbers = [found.get(key) for key in ("value", "low", "high", "n", "n_failed")]
            weight = number(column.weight)
            rows.append([column.benchmark, column.metric, row.model, *numbers, *end, _source(row), weight])
    return rows, headers


def _source(row: Row) -> str:
    """Return the source of a model's scores, for CSV."""
    return "published" if row.published else "measured"


# --- head to head -----------------------------------------------------------------------------------------------------


def head_to_head_json(found: HeadToHead) -> list[dict[str, Any]]:
    """Return every pair that shares a benchmark, the higher-ranked model first."""
    n = len(found.models)
    return [
        {
            "a": found.models[i],
            "b": found.models[j],
            "win_share": number(float(found.win_share[i, j])),
            "unit": found.unit,
            "n_benchmarks": int(found.n_benchmarks[i, j]),
            "separated": bool(found.separated[i, j]),
        }
        for i in range(n)
        for j in range(i + 1, n)
        if found.n_benchmarks[i, j]
    ]


def head_to_head_list(found: HeadToHead) -> list[list[Value]]:
    """Return one row per pair, with the columns `CSV_HEADERS`."""
    return [[one[key] for key in CSV_HEADERS] for one in head_to_head_json(found)]


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
        return CSV_HEADERS, head_to_head_list(head_to_head(board))
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

"""Calibrated scores and pairs of a leaderboard as tables and JSON."""

from __future__ import annotations

from typing import Any

from medhelm.analysis.agreement.calibrated_pairs import CalibratedLeaderboard
from medhelm.analysis.agreement.calibration import CalibratedMean
from medhelm.analysis.agreement.clinician_means import ClinicianMean
from medhelm.analysis.leaderboard.cells import Cell
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.results.formats.fields import (
    ABSENT,
    BOOLEAN,
    INTEGER,
    NUMBER,
    Field,
    JsonSchema,
    columns_of,
    interval_page,
    keys,
    probability,
    record,
    select,
)
from medhelm.results.formats.tables import Value, decimal, estimate_text, p_text, render, with_interval

MOST = 15
"""Most pairs in the table; of more, those that differ significantly by jury or clinicians."""


def pairs_as_json(board: Leaderboard) -> Any:
    """Return every pair on every rated benchmark, and over all benchmarks (`benchmark` is null) if there are several.

    `difference` is in grades on a benchmark, and from -1 to 1 over all; null with a `reason` if it cannot be estimated.
    Returns: ABSENT for a leaderboard without ratings.
    """
    if not isinstance(board, CalibratedLeaderboard):
        return ABSENT
    found = board.calibrated_pairs
    pairs = [*found.benchmarks, *(pair for pair in found.overall if not pair.benchmark)]
    return [
        {
            "benchmark": pair.benchmark or None,
            **select(pair, "a=first b=second difference=value low high", rounded=True),
            "p": probability(pair.p_value),
            "p_adjusted": probability(pair.p_holm),
            "better": pair.better,
            **({"reason": pair.reason} if pair.reason else {}),
        }
        for pair in pairs
    ]


def ranks_as_json(board: Leaderboard, model: str) -> dict[str, Any]:
    """Return the possible ranks of a model by the clinicians' ratings, null if unknown; nothing without ratings."""
    if not isinstance(board, CalibratedLeaderboard):
        return {}
    low, high = board.calibrated_pairs.ranks().get(model, (None, None))
    return {"calibrated_rank_low": low, "calibrated_rank_high": high}


def pairs_table(board: CalibratedLeaderboard, format: str) -> str:
    """Return the possible ranks by jury and by clinicians, and the differences between models.

    Parameters: format, see `tables.render`.
    """
    found = board.calibrated_pairs
    ranks = found.ranks()
    blocks = []
    if ranks:
        rows: list[list[Value]] = [
            [row.model, _range(row.rank_low, row.rank_high), _range(*ranks[row.model])]
            for row in board.rows
            if row.model in ranks
        ]
        caption = "Possible ranks (95%) by the jury alone, and with the clinicians' ratings"
        blocks.append(render(rows, ["Model", "Jury alone", "With ratings"], format=format, caption=caption))
    shown = [pair for pair in found.overall if pair.value is not None]
    if len(shown) > MOST:
        named = {frozenset(pair) for pair in found.raw_findings}
        shown = [pair for pair in shown if pair.better or frozenset((pair.first, pair.second)) in named]
    titles = {column.benchmark: column.title for column in board.columns}
    rows = [
        [
            titles.get(pair.benchmark, "All benchmarks"),
            f"{pair.first} minus {pair.second}",
            with_interval(pair.value, pair.low, pair.high),
            p_text(pair.p_holm),
            _finding(pair.first, pair.second, found.raw_findings),
            pair.better or "neither",
        ]
        for pair in shown
    ]
    if rows:
        headers = ["Benchmark", "Models", "Difference", "p, adjusted", "Better by jury", "Better with ratings"]
        caption = "Differences between models in the grades that clinicians would give, with 95% intervals"
        blocks.append(render(rows, headers, format=format, caption=caption, keep=3))
    return "\n".join(blocks)


def _range(low: int | None, high: int | None) -> str | None:
    """Return possible ranks as text."""
    if low is None or high is None:
        return None
    return str(low) if low == high else f"{low} to {high}"


def _finding(first: str, second: str, findings: frozenset[tuple[str, str]]) -> str:
    """Return the model that is significantly better by the jury's scores."""
    return first if (first, second) in findings else second if (second, first) in findings else "neither"


WAYS = {
    "prediction-powered": "own ratings",
    "isotonic": "own ratings, curve",
    "pooled": "ratings of all models",
    "constant": "own ratings, all equal",
}
"""Method -> basis of the correction, for people."""


def calibration_table(board: Leaderboard, format: str) -> str:
    """Return one row per benchmark and model that clinicians rated, or whose scores are calibrated to their ratings.

    Parameters: format, see `tables.render`. Returns: empty if there are no ratings.
    """
    rows: list[list[Value]] = []
    for column in board.columns:
        for row in board.all_rows:
            cell = row.cells.get(column.benchmark)
            if cell and (cell.clinicians or (cell.calibrated and row in board.rows)):
                rows.append([column.title, row.model, *_rated_cells(cell)])
    if not rows:
        return ""
    headers = ["Benchmark", "Model", "Clinicians", "Scale", "Jury", "Calibrated to clinicians", "Rated", "By"]
    shown = [place for place in range(len(headers) + 1) if any(row[place] for row in rows)]
    headers.append("Interval holds for")
    means = render(
        [[row[place] for place in shown] for row in rows],
        [headers[place] for place in shown],
        format=format,
        caption="Clinicians and jury: means with 95% intervals",
        keep=2,
        drop=("Interval holds for", "By", "Scale", "Rated"),
    )
    return f"{means}\n{pairs_table(board, format)}" if isinstance(board, CalibratedLeaderboard) else means


def _rated_cells(cell: Cell) -> list[Value]:
    """Return the cells of a model on a benchmark after its name."""
    jury, found, mean = cell.estimate, cell.calibrated, cell.clinicians
    return [
        estimate_text(mean, 2),
        f"{mean.worst:g} to {mean.best:g}" if mean else None,
        estimate_text(jury, 2) if found else None,
        estimate_text(found, 2),
        f"{mean.n if mean else 0} of {found.n}" if found else f"{mean.n}" if mean else None,
        _way_of(found) if found else None,
        _interval_scope(found or mean),
    ]


def _way_of(found: CalibratedMean) -> str:
    """Return the basis of a correction, for people."""
    return WAYS.get(found.method.removesuffix("-clustered"), found.method) + ", weighted" * found.is_weighted


def _interval_scope(found: CalibratedMean | ClinicianMean | None) -> str | None:
    """Return whose ratings the interval is about: other clinicians', or only those of the raters."""
    if found is None or found.low is None:
        return None
    if found.between_raters is not None:
        return f"clinicians like these {found.n_raters}"
    return f"these {found.n_raters} raters only" if found.n_raters != 1 else "this rater only"


def calibrated_json(found: CalibratedMean) -> dict[str, Any]:
    """Return a calibrated score. `lambda`: weight of the jury; `between_raters`: null if these raters alone count."""
    names = "value low high n n_rated lambda=lambda_ method n_raters between_raters is_weighted"
    return select(found, names, rounded=True)


def clinician_fields(board: Leaderboard) -> list[Field[Row]]:
    """Mean ratings by clinicians, and averages of scores that are calibrated to them."""
    has_averages = any(row.calibrated_average is not None for row in board.all_rows)
    return [
        Field(
            "clinicians", lambda row: row.clinicians, kind="interval", parts="value low high n n_raters n_benchmarks",
            range="0 to 1", missing="not rated by clinicians", is_optional=True, is_present=board.has_clinicians,
            column=None if board.has_clinicians else "",
            meaning="Mean rating by clinicians of the completions that they rated, each benchmark on a scale of 0 to "
            "1, with a 95% interval for other instances and, from three raters on, other raters.",
            heading="Clinicians", text=lambda row: rated_text(row.clinicians), hide_empty=True, drop=13,
            page=interval_page(
                lambda row: row.clinicians, lambda value: decimal(value, 2), note="95% interval",
                small=lambda row: rated_small(row.clinicians),
                explanation="mean rating by clinicians of the n completions that they rated, from 0 (worst) to 1 "
                "(best). The interval includes the severity of the clinicians, which is the same for all models",
            ),
        ),
        Field(
            "calibrated_average", lambda row: row.calibrated_average, range="0 to 1", is_optional=True,
            is_present=has_averages, column=None if has_averages else "",
            missing="a score cannot be calibrated",
            meaning="Macro average with scores calibrated to clinicians' ratings in place of the jury's.",
            heading="Calibrated", is_wide=True, drop=7,
        ),
    ]  # fmt: skip


def rated_text(found: ClinicianMean | None, places: int = 2) -> str | None:
    """Return a mean rating with its interval and the number of rated completions."""
    return None if found is None else f"{estimate_text(found, places)}, n {found.n:,}"


def rated_small(found: ClinicianMean | None) -> str:
    """Return the interval of a mean rating and the number of rated completions, for the smaller text of a cell."""
    if found is None:
        return ""
    count = f"n {found.n:,}"
    if found.low is None or found.high is None:
        return count
    return f"{decimal(found.low, 2)}–{decimal(found.high, 2)}, {count}"


CLINICIANS: JsonSchema = record(
    **keys("value low high between_raters worst best", NUMBER), **keys("n n_raters", INTEGER), is_weighted=BOOLEAN
)
"""Schema of `clinician_json`."""


def clinician_json(found: ClinicianMean) -> dict[str, Any]:
    """Return a mean rating. `between_raters`: null if the interval holds for these raters only."""
    names = "value low high n n_raters between_raters is_weighted worst best"
    return select(found, names, rounded=True) | ({"reason": found.reason} if found.reason else {})


def clinician_columns() -> list[Field[Cell]]:
    """Return the columns of a CSV file with mean ratings on a benchmark."""
    mean: Field[Cell] = Field(
        "clinicians", lambda cell: cell.clinicians, kind="interval", parts="value low high n n_raters"
    )
    return columns_of([mean])

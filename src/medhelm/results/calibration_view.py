"""Calibrated scores and pairs of a leaderboard as tables and JSON."""

from __future__ import annotations

from typing import Any

from medhelm.analysis.agreement.calibrated_pairs import CalibratedLeaderboard
from medhelm.analysis.agreement.calibration import (
    CalibratedMean,
)
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.results.formats.fields import ABSENT, probability, select
from medhelm.results.formats.tables import Value, estimate_text, p_text, render, with_interval

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
    """Return one row per calibrated benchmark and model; empty if there are none. `format`: see `tables.render`."""
    rows: list[list[Value]] = []
    for column in board.columns:
        for row in board.rows:
            cell = row.cells.get(column.benchmark)
            if cell is None or cell.calibrated is None or cell.estimate is None:
                continue
            jury, found = cell.estimate, cell.calibrated
            rows.append(
                [
                    column.title,
                    row.model,
                    estimate_text(jury, 2),
                    estimate_text(found, 2),
                    f"{found.n_rated} of {found.n}",
                    WAYS.get(found.method.removesuffix("-clustered"), found.method) + ", weighted" * found.is_weighted,
                    _interval_scope(found),
                ]
            )
    if not rows:
        return ""
    headers = ["Benchmark", "Model", "Jury", "Calibrated to clinicians", "Rated", "By", "Interval holds for"]
    means = render(
        rows,
        headers,
        format=format,
        caption="Jury and clinicians: means with 95% intervals",
        keep=2,
        drop=("Interval holds for", "By", "Rated"),
    )
    return f"{means}\n{pairs_table(board, format)}" if isinstance(board, CalibratedLeaderboard) else means


def _interval_scope(found: CalibratedMean) -> str:
    """Return whose ratings the interval is about: other clinicians', or only those of the raters."""
    if found.between_raters is not None:
        return f"clinicians like these {found.n_raters}"
    return f"these {found.n_raters} raters only" if found.n_raters != 1 else "this rater only"


def calibrated_json(found: CalibratedMean) -> dict[str, Any]:
    """Return a calibrated score. `lambda`: weight of the jury; `between_raters`: null if these raters alone count."""
    keys = "value low high n n_rated lambda=lambda_ method n_raters between_raters is_weighted"
    return select(found, keys, rounded=True)

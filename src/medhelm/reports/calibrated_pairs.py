"""Differences between models as clinicians would see them: tables and JSON beside those of the leaderboard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from medhelm.reports.comparison import p_text
from medhelm.reports.formats.json_output import probability, select
from medhelm.reports.formats.tables import Value, render, with_interval

if TYPE_CHECKING:
    from medhelm.analysis.agreement.calibrated_pairs import CalibratedLeaderboard

MOST = 15
"""Most pairs in the table; of more, those that differ significantly by jury or clinicians."""


def pairs_as_json(board: CalibratedLeaderboard) -> list[dict[str, Any]]:
    """Return every pair on every rated benchmark, and over all benchmarks (`benchmark` is null) if there are several.

    `difference` is in grades on a benchmark, and from -1 to 1 over all; null with a `reason` if it cannot be estimated.
    """
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


def ranks_as_json(board: CalibratedLeaderboard, model: str) -> dict[str, Any]:
    """Return the possible ranks of a model by the clinicians' ratings; null if they are not known."""
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

"""What stands in the tables of a report: from a leaderboard, agreement, costs and effects to cells.

The numbers of the tables are those of the MedHELM paper (Bedi et al. 2025), in its order, with intervals beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medhelm.reports.leaderboard import GUARDED, caption, has_weights, is_incomplete, place, shown_name
from medhelm.reports.paper.tables import PaperTable
from medhelm.reports.tables import Value, decimal, number, with_interval

if TYPE_CHECKING:
    from medhelm.analysis.agreement.icc import Icc
    from medhelm.analysis.agreement.jury_vs_clinicians import BenchmarkAgreement, JuryAgreement
    from medhelm.analysis.leaderboard.types import Average, Leaderboard, Row

RESAMPLED = {
    "instances within benchmarks": "Intervals (95 %): instances drawn anew in each benchmark, the same for all models.",
    "benchmarks": (
        "Intervals (95 %): benchmarks drawn anew, because single scores are not known: they tell how much the choice "
        "of benchmarks matters."
    ),
    "nothing": "No intervals: nothing could be drawn anew.",
}
"""What was resampled -> a sentence."""


def intervals_in_words(board: Leaderboard) -> str:
    """How the intervals of averages were made."""
    return RESAMPLED.get(board.interval_method, f"Intervals (95 %): drawn anew: {board.interval_method}.")


def source_of(row: Row) -> str:
    """Where a model's scores come from."""
    return "published" if row.published else "measured here"


def table_1(board: Leaderboard) -> PaperTable:
    """Win rates, macro averages and ranks."""
    headers = ["Rank", "Tie group", "Model", "Win rate", "SD", "Macro average", "SD", "Coverage"]
    rows: list[list[Value]] = []
    csv_rows: list[list[Value]] = []
    for row in board.rows:
        win, macro = row.win_rate, row.macro_average
        rows.append([
            place(row), row.tie_group, shown_name(row), _in_cell(win), decimal(win.sd) if win else None,
            _in_cell(macro), decimal(macro.sd) if macro else None, f"{row.n_benchmarks} ({100 * row.coverage:.0f} %)",
        ])  # fmt: skip
        csv_rows.append([
            row.rank, row.rank_low, row.rank_high, row.tie_group, row.model, *_numbers(win), *_numbers(macro),
            number(row.guarded_win_rate), row.n_benchmarks, number(row.coverage), source_of(row), *end_of(board),
        ])  # fmt: skip
    notes = [
        "Win rate: for each benchmark the share of rivals beaten, a tie counting half; the mean over benchmarks. Its "
        "SD is over rivals. Macro average: mean of the benchmarks' values on a scale of 0 to 1; its SD is over them.",
        intervals_in_words(board) + " Models of a tie group cannot be told apart from the best of the group.",
    ]
    if is_incomplete(board):
        headers.insert(5, GUARDED)
        for row, cells in zip(board.rows, rows, strict=True):
            cells.insert(5, decimal(row.guarded_win_rate))
        notes.append(f"{GUARDED}: the win rate with every missing value counted as lost, by which models are ranked.")
    if has_weights(board):
        notes.append("Benchmarks do not count alike: means over benchmarks are weighted, see table C3.")
    averages = [f"{name}{end}" for name in ("win_rate", "macro_average") for end in ("", "_low", "_high", "_sd")]
    return PaperTable(
        key="table1",
        title="Table 1. Win rates and averages",
        caption=caption(board),
        headers=headers,
        rows=rows,
        csv_headers=["rank", "rank_low", "rank_high", "tie_group", "model", *averages, "guarded_win_rate",
                     "n_benchmarks", "coverage", "scores", *END],
        csv_rows=csv_rows,
        notes=notes,
    )  # fmt: skip


END = ["suite", "scoring", "tier"]
"""Columns at the end of every CSV table."""


def end_of(board: Leaderboard) -> list[Value]:
    """What stands in them."""
    return [board.suite, board.scoring, board.tier]


def _in_cell(average: Average | None) -> str | None:
    return with_interval(average.value, average.low, average.high) if average else None


def _numbers(average: Average | None) -> list[Value]:
    if average is None:
        return [None] * 4
    return [number(value) for value in (average.value, average.low, average.high, average.sd)]


# --- table 2: the jury against clinicians -----------------------------------------------------------------------------


def table_2(found: JuryAgreement, board: Leaderboard, titles: Mapping[str, str]) -> PaperTable:
    """How far the jury, and the baselines, agree with clinicians, and clinicians with each other.

    `titles`: name of a baseline -> its name for people.
    """
    several = {**found.datasets, **({"Combined": found.combined} if len(found.datasets) > 1 else {})}
    baselines = list(dict.fromkeys(name for one in several.values() for name in one.baselines))
    rows: list[list[Value]] = []
    csv_rows: list[list[Value]] = []
    for name, one in several.items():
        among = one.clinicians
        others = [one.baselines[key].consistency if key in one.baselines else None for key in baselines]
        rows.append([
            name, one.n_instances, len(one.raters), _icc(one.jury.consistency),
            with_interval(among.pairs.value, among.low, among.high), among.pairs.n_pairs, *map(_icc, others),
        ])  # fmt: skip
        csv_rows += [[name, one.n_instances, len(one.raters), *cells, *end_of(board)] for cells in _long(one)]
    return PaperTable(
        key="table2",
        title="Table 2. The jury against clinicians",
        caption=f"Intraclass correlation ICC(3,k) with 95 % intervals. {found.place}; the jury's grades are from the "
        f"{found.jury_from}. {_stamp(board)}".rstrip(),
        headers=["Benchmark", "Completions", "Raters", "Jury and clinicians", "Clinicians with each other", "Pairs",
                 *(f"{titles.get(name, name)} and clinicians" for name in baselines)],
        rows=rows,
        csv_headers=["benchmark", "n_instances", "n_raters", "who", "icc3k", "low", "high", "reason", *END],
        csv_rows=csv_rows,
        notes=(
            "ICC(3,k), k = 2: consistency of two scores of each completion, both standardised first. Clinicians: mean "
            "over pairs who share at least two completions.",
            *found.remarks,
            *(f"{name}: {remark}" for name, one in found.datasets.items() for remark in one.remarks),
        ),
    )  # fmt: skip


def _stamp(board: Leaderboard) -> str:
    """What has to stand on what is made from invented rows."""
    return "SAMPLE TIER: invented rows, not real performance" if board.tier == "sample" else ""


def _icc(found: Icc | None) -> str | None:
    return with_interval(found.value, found.low, found.high) if found else None


def _long(one: BenchmarkAgreement) -> list[list[Value]]:
    """One row for each who is compared with clinicians."""
    among = one.clinicians
    compared = {"jury": one.jury, **one.judges, **one.baselines}
    rows: list[list[Value]] = [
        [name, *map(number, (of.consistency.value, of.consistency.low, of.consistency.high)), of.consistency.reason]
        for name, of in compared.items()
    ]
    return [*rows, ["clinicians", *map(number, (among.pairs.value, among.low, among.high)), among.reason]]


# --- table 3: tokens and cost -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCost:
    """What one model took on the benchmarks of a leaderboard."""

    model: str
    """Name of the model."""
    benchmark_tokens: int | None
    """Tokens it read and wrote; None if unknown."""
    jury_tokens: int | None
    """Tokens that judges read and wrote for it; None if unknown."""
    benchmark_usd: float | None
    """Price of its tokens; None if unknown, which is never 0."""
    jury_usd: float | None
    """Price of the judges' tokens; None if unknown."""
    ceiling_usd: float | None
    """Both by the published rule, as if every completion were as long as it may be; None if unknown."""
    is_ceiling: bool = False
    """Whether the other numbers are that ceiling too, and no bill."""

    @property
    def total_usd(self) -> float | None:
        """Both together; None if one is unknown."""
        if self.benchmark_usd is None or self.jury_usd is None:
            return None
        return round(self.benchmark_usd + self.jury_usd, 10)


def table_3(costs: Sequence[ModelCost], board: Leaderboard, warnings: Sequence[str] = ()) -> PaperTable:
    """Tokens and dollars, models in order of rank."""
    order = [row.model for row in board.rows]
    names = {row.model: shown_name(row) for row in board.rows}
    ordered = sorted((cost for cost in costs if cost.model in names), key=lambda cost: order.index(cost.model))
    rows: list[list[Value]] = [
        [
            names[cost.model], _count(cost.benchmark_tokens), _count(cost.jury_tokens), _dollars(cost.benchmark_usd),
            _dollars(cost.jury_usd), _dollars(cost.total_usd), _dollars(cost.ceiling_usd),
            "ceiling" if cost.is_ceiling else "bill",
        ]
        for cost in ordered
    ]  # fmt: skip
    csv_rows: list[list[Value]] = [
        [
            cost.model, cost.benchmark_tokens, cost.jury_tokens, number(cost.benchmark_usd), number(cost.jury_usd),
            number(cost.total_usd), number(cost.ceiling_usd), "ceiling" if cost.is_ceiling else "bill", *end_of(board),
        ]
        for cost in ordered
    ]  # fmt: skip
    notes = []
    if any(cost.is_ceiling for cost in costs):
        notes.append(
            "ceiling: the published rule, as if every completion were as long as it may be and every judge wrote 4,096 "
            "tokens; jury tokens are those of one judge, jury cost is that of all."
        )
    if any(not cost.is_ceiling for cost in costs):
        notes.append("bill: the tokens that providers counted, at the prices of the day of the run.")
    if len({cost.is_ceiling for cost in costs}) > 1:
        notes.append("Costs are for the instances that were run, which may differ between models: see table C3.")
    if any(cost.total_usd is None for cost in costs):
        notes.append("A dash: not known. It is never counted as 0.")
    return PaperTable(
        key="table3",
        title="Table 3. Tokens and cost",
        caption=caption(board),
        headers=["Model", "Benchmark tokens", "Jury tokens", "Benchmark cost USD", "Jury cost USD", "Total USD",
                 "Ceiling USD", "Basis"],
        rows=rows,
        csv_headers=["model", "benchmark_tokens", "jury_tokens", "benchmark_usd", "jury_usd", "total_usd",
                     "ceiling_usd", "basis", *END],
        csv_rows=csv_rows,
        notes=[*notes, *warnings],
    )  # fmt: skip


def _count(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"


def _dollars(value: float | None) -> str | None:
    """Two decimals, or as many as show three digits of a small amount."""
    if value is None:
        return None
    return f"{value:,.2f}" if value >= 0.1 or value == 0 else f"{value:.3g}" if value >= 1e-4 else f"{value:.6f}"

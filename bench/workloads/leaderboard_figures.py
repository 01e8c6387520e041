"""From rows about the leaderboard to their goals and their table: no processes, no clocks."""

from __future__ import annotations

from collections.abc import Sequence

from bench.table import Goal, Row, table


def judge(rows: Sequence[Row]) -> list[Goal]:
    """Every goal of the leaderboard, against these rows."""
    good = {row.mode: row for row in rows if row.harness == "board" and row.counts}

    def wall(mode: str) -> float | None:
        return good[mode].wall_s if mode in good else None

    def peak(mode: str) -> float | None:
        return good[mode].peak_mib if mode in good else None

    small, large = wall("intervals"), wall("intervals-tenfold")
    return [
        Goal(name="leaderboard of 333,000 records, all intervals", value=small, limit=2, unit="s"),
        Goal(name="peak memory, leaderboard of 333,000 records", value=peak("intervals"), limit=400, unit="MiB"),
        Goal(name="leaderboard of 333,000 records, nothing resampled", value=wall("means"), limit=0.5, unit="s"),
        Goal(
            name="leaderboard of 3,330,000 records, times the time of a tenth",
            value=None if small is None or large is None else large / small,
            limit=10,
            unit="x",
        ),
        Goal(
            name="peak memory, leaderboard of 3,330,000 records",
            value=peak("intervals-tenfold"),
            limit=1024,
            unit="MiB",
        ),
        Goal(
            name="bytes on disk for each record, completion included",
            value=good["intervals"].reported["bytes_per_record"] if "intervals" in good else None,
            limit=400,
            unit="B",
        ),
    ]


def board_table(rows: Sequence[Row]) -> str:
    """How long leaderboards take, and what they need; empty if no such row counts."""
    good = {row.mode: row for row in rows if row.harness == "board" and row.counts}
    words = {
        "intervals": "instances resampled",
        "benchmarks": "benchmarks resampled",
        "means": "nothing resampled",
        "intervals-tenfold": "instances resampled",
    }
    lines = [
        [
            f"{good[mode].reported['records']:,.0f} records, {how}",
            f"{good[mode].wall_s:.2f} s",
            f"{good[mode].peak_mib:.0f} MiB",
            f"{good[mode].reported['record_bytes'] / 2**20:.0f} MiB",
        ]
        for mode, how in words.items()
        if mode in good
    ]
    return table(["the leaderboard", "time", "peak memory", "on disk"], lines) if lines else ""

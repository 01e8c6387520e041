"""From rows about the suite of benchmarks to their goals and their table: no processes, no clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.table import Goal, Row, table

LISTING_S = 0.5
"""How long listing and validating all definitions may take."""
N_BENCHMARKS = 37
"""How many there are."""


def judge(rows: Sequence[Row]) -> list[Goal]:
    """Every goal of the suite, against these rows."""
    good = {row.mode: row for row in rows if row.harness == "suite" and row.counts}

    def wall(mode: str) -> float | None:
        return good[mode].wall_s if mode in good else None

    def peak(mode: str) -> float | None:
        return good[mode].peak_mib if mode in good else None

    def reported(mode: str, name: str) -> float | None:
        return good[mode].reported[name] if mode in good else None

    listing = wall("list")
    return [
        Goal(
            name="listing and validating the definitions, part of 0.5 s",
            value=None if listing is None else listing / LISTING_S,
            limit=1,
            unit="x",
        ),
        Goal(
            name="definitions listed", value=reported("list", "definitions"), limit=N_BENCHMARKS, unit="", at_least=True
        ),
        Goal(
            name="prompts a second of the largest public data, loading included",
            value=_rate(good, "largest-again"),
            limit=20_000,
            unit="/s",
            at_least=True,
        ),
        Goal(name="peak memory, prompts of EHRSHOT's size", value=peak("ehrshot-prompts"), limit=300, unit="MiB"),
        Goal(name="peak memory, a run of EHRSHOT's size", value=peak("ehrshot-run"), limit=300, unit="MiB"),
        Goal(name="a run of all benchmarks, sample tier", value=wall("sample-tier"), limit=60, unit="s"),
        Goal(
            name="benchmarks on the leaderboard of that run",
            value=reported("sample-tier", "on_leaderboard"),
            limit=N_BENCHMARKS,
            unit="",
            at_least=True,
        ),
        Goal(name="ROUGE of 10,000 notes, all cores", value=reported("rouge", "all_cores_s"), limit=60, unit="s"),
        Goal(
            name="ROUGE on one core, times the speed of the plain library",
            value=reported("rouge", "ratio"),
            limit=10,
            unit="x",
            at_least=True,
        ),
    ]


def suite_table(rows: Sequence[Row]) -> str:
    """What the processes of the suite did, and how fast; empty if no such row counts."""
    good = {row.mode: row for row in rows if row.harness == "suite" and row.counts}
    lines: list[tuple[str, str]] = []

    def say(mode: str, words: str, value: str) -> None:
        if mode in good:
            known = {"wall_s": good[mode].wall_s, **good[mode].reported}
            lines.append((words.format(**known), value.format(**known)))

    say("imports", "importing pydantic, yaml and click, and nothing else", "{wall_s:.2f} s")
    say("list", "listing and validating {definitions} definitions", "{wall_s:.2f} s")
    for mode, how in (("largest-again", "read again"), ("largest", "from the start of the process")):
        if (rate := _rate(good, mode)) is not None:
            say(mode, f"prompts a second, {{instances:,}} of {{characters:,}} characters, {how}", f"{rate:,.0f} /s")
    say(
        "ehrshot-prompts",
        "EHRSHOT's {instances:,} prompts of {characters:,} characters, from the start",
        "{wall_s:.1f} s",
    )
    say("ehrshot-run", "a run of these {instances:,}, baseline/majority", "{wall_s:.1f} s")
    say("sample-tier", "a run of {on_leaderboard} benchmarks, sample tier, baseline/lexical", "{wall_s:.1f} s")
    say("rouge", "ROUGE of {pairs:,} notes of {words_per_note} words, all {cores} cores", "{all_cores_s:.1f} s")
    say("rouge", "the same, one core", "{one_core_s:.1f} s")
    say("rouge", "ROUGE of one note, one core", "{ours_ms:.2f} ms")
    say("rouge", "the same, plain library", "{library_ms:.1f} ms")
    return table(["the suite", "measured"], lines) if lines else ""


def _rate(good: Mapping[str, Row], mode: str) -> float | None:
    """Prompts a second: of one pass where passes were repeated, else of the whole process."""
    if mode not in good:
        return None
    row = good[mode]
    return row.reported["instances"] / (row.reported["pass_s"] if mode == "largest-again" else row.wall_s)

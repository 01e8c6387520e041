"""From rows about exchange with others to their goals and their table: no processes, no clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.table import Goal, Row, table

W1 = "w1-1000/0ms/cold"
"""The cells that leave the same 1,000 questions on disk."""
QUESTIONS = 1000


def judge(rows: Sequence[Row]) -> list[Goal]:
    """Every goal of exchange, against these rows."""
    good = {row.mode: row for row in rows if row.harness == "exchange" and row.counts}
    room = _room(rows)
    ours, ranks, tables = room.get("medhelm"), good.get("ranks"), _summarized(rows)

    def part(of: float | None) -> float | None:
        return ours / of if ours and of else None

    return [
        Goal(name="W1 on disk, part of HELM's run folder", value=part(room.get("helm")), limit=0.1, unit="x"),
        Goal(name="W1 on disk, part of Inspect's log", value=part(room.get("inspect")), limit=1.0, unit="x"),
        Goal(
            name="a HELM release taken in, instances a second",
            value=_rate(good.get("import")),
            limit=20_000,
            unit="/s",
            at_least=True,
        ),
        Goal(
            name="the same, peak memory",
            value=good["import"].peak_mib if "import" in good else None,
            limit=400,
            unit="MiB",
        ),
        Goal(
            name="runs written as HELM's files, instances a second",
            value=_rate(good.get("export-helm")),
            limit=1500,
            unit="/s",
            at_least=True,
        ),
        Goal(
            name="leaderboard of 333 runs, part of helm-summarize's time",
            value=ranks.wall_s / tables.wall_s if ranks and tables else None,
            limit=0.1,
            unit="x",
        ),
        Goal(
            name="win rates there and here, largest difference",
            value=tables.reported["difference"] if tables else None,
            limit=0.000001,
            unit="x",
        ),
    ]


def exchange_table(rows: Sequence[Row]) -> str:
    """What exchange takes; empty if no such row counts."""
    good = {row.mode: row for row in rows if row.harness == "exchange" and row.counts}
    names = {"medhelm": "our run folder and prompts", "helm": "HELM's run folder", "inspect": "Inspect's log"}
    lines = [
        (f"{QUESTIONS:,} questions of W1 on disk: {names[harness]}", f"{size / QUESTIONS:,.0f} bytes a question")
        for harness, size in _room(rows).items()
    ]
    for mode, words in (
        ("import", "a release of HELM taken in"),
        ("export-helm", "written as HELM's files"),
        ("export-parquet", "written as Parquet tables"),
        ("export-csv", "written as CSV tables"),
    ):
        if (row := good.get(mode)) and (rate := _rate(row)):
            lines.append(
                (f"{words}, {row.reported['instances']:,.0f} instances", f"{row.wall_s:.1f} s, {rate:,.0f} /s")
            )
    if row := good.get("ranks"):
        lines.append(
            (f"leaderboard of {row.reported['instances']:,.0f} instances, all intervals", f"{row.wall_s:.1f} s")
        )
    if row := _summarized(rows):
        lines.append(("helm-summarize of the same runs, no intervals", f"{row.wall_s:.1f} s"))
    return table(["exchange", "measured"], lines) if lines else ""


def _room(rows: Sequence[Row]) -> Mapping[str, float]:
    """Harness -> bytes that its cold run of W1 left."""
    found = {row.harness: row.reported["bytes"] for row in rows if row.counts and row.cell.endswith(f"/{W1}")
             and "bytes" in row.reported}  # fmt: skip
    return {harness: found[harness] for harness in ("medhelm", "helm", "inspect") if harness in found}


def _summarized(rows: Sequence[Row]) -> Row | None:
    return next((row for row in rows if row.cell == "helm/summarize" and row.counts), None)


def _rate(row: Row | None) -> float | None:
    """Instances a second, from start to exit."""
    return row.reported["instances"] / row.wall_s if row else None

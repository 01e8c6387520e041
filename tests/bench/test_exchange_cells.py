"""Figures of exchange with others: commands, reports, room on disk, goals and the table."""

from __future__ import annotations

from bench.workloads import exchange
from tests.support.bench_rows import measured

ROWS = [
    measured("medhelm/w1-1000/0ms/cold", reported={"bytes": 500_000}),
    measured("medhelm-c64/w1-1000/0ms/cold"),
    measured("helm/w1-1000/0ms/cold", reported={"bytes": 10_000_000}),
    measured("inspect/w1-1000/0ms/cold", reported={"bytes": 2_000_000}),
    measured("exchange/ranks", 2.0, reported={"models": 9, "instances": 33_300}),
    measured("exchange/import", 10.0, reported={"runs": 333, "instances": 333_000}),
    measured("exchange/export-helm", 10.0, reported={"instances": 33_300, "bytes": 1}),
    measured("exchange/export-parquet", 3.0, reported={"instances": 33_300, "bytes": 1}),
    measured("helm/summarize", 80.0, reported={"models": 9, "difference": 0.0}),
]


def test_goals_are_judged_by_these_rows() -> None:
    goals = {goal.name: (goal.value, goal.met) for goal in exchange.goals(ROWS)}
    assert goals == {
        "W1 on disk, relative to HELM's run folder": (0.05, True),
        "W1 on disk, relative to Inspect's log": (0.25, True),
        "import of a HELM release, instances per second": (33_300.0, True),
        "peak memory, import of a HELM release": (100.0, True),
        "export as HELM's files, instances per second": (3330.0, True),
        "leaderboard of 333 runs, relative to helm-summarize": (0.025, True),
        "win rates of HELM and ours, largest difference": (0.0, True),
    }

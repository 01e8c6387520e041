"""From rows of the jury's workload to their goals and their table: no processes, no clocks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.table import Goal, Row, table
from bench.workloads.jury import AT_ONCE, JUDGES

N = 200
"""Letters in the cells that goals look at."""
OVERHEAD = 1.5
"""Longest that a judgment may take, in times of a plain request."""
OVERLAP = 1.2
"""Longest that letters and judgments may take together, in times of the critical path."""


def judge(rows: Sequence[Row]) -> list[Goal]:
    """Every goal of the workload, against these rows."""
    wall = {row.cell: row.wall_s for row in rows if row.counts}
    start = wall.get("medhelm/jury-1/0ms/cold")

    def beyond_start(cell: str) -> float | None:
        return wall[cell] - start if cell in wall and start is not None else None

    return [
        Goal(
            name="a judgment at 0 ms, times a plain request, both after the start",
            value=_over(per_judgment_s(wall), per_letter_s(wall)),
            limit=OVERHEAD,
            unit="x",
        ),
        Goal(
            name="letters and judgments at 200 ms, one address, after the start, times the critical path",
            value=_over(beyond_start(f"medhelm/jury-{N}/200ms/cold"), critical_path_s(N, 0.2)),
            limit=OVERLAP,
            unit="x",
        ),
        Goal(
            name="the same, judges at an address of their own",
            value=_over(beyond_start(f"medhelm-own/jury-{N}/200ms/cold"), critical_path_s(N, 0.2, own=True)),
            limit=OVERLAP,
            unit="x",
        ),
    ]


def per_letter_s(wall: dict[str, float]) -> float | None:
    """Seconds of one plain request, without the start: (t(200) - t(1)) / 199. None if that cannot be told."""
    return _slope(wall, "medhelm-plain", N - 1)


def per_judgment_s(wall: dict[str, float]) -> float | None:
    """Seconds of one request to a judge: what judging adds to letters, over 199 times 3. None if it cannot be told."""
    judged, plain = _slope(wall, "medhelm", N - 1), _slope(wall, "medhelm-plain", N - 1)
    return None if judged is None or plain is None or judged <= plain else (judged - plain) / len(JUDGES)


def critical_path_s(n: int, latency_s: float, *, own: bool = False) -> float:
    """Seconds that nobody can beat: rounds of 64 requests, each as long as the latency.

    A judgment begins after its letter has ended. At one address all requests share its 64 places; where judges have an
    address of their own (`own`), their rounds run beside those of the letters, the first of them one round later.

    >>> critical_path_s(200, 0.2), critical_path_s(200, 0.2, own=True), critical_path_s(1, 0.2)
    (2.6, 2.2, 0.4)
    """
    letters, judgments = n / AT_ONCE, n * len(JUDGES) / AT_ONCE
    rounds = max(letters, judgments) if own else letters + judgments
    return round(max(math.ceil(rounds) + own, 2) * latency_s, 9)


def jury_table(rows: Sequence[Row]) -> str:
    """How long each harness takes for 200 letters and 600 judgments of them; empty if no such row counts."""
    good = {row.cell: row for row in rows if row.counts}
    lines = []
    for harness in ("medhelm", "inspect", "helm"):
        plain, judged, slow = (
            good.get(f"{harness}{cell}")
            for cell in (f"-plain/jury-{N}/0ms/cold", f"/jury-{N}/0ms/cold", f"/jury-{N}/200ms/cold")
        )
        if not (plain or judged or slow):
            continue
        added = (judged.wall_s - plain.wall_s) / (N * len(JUDGES)) * 1000 if plain and judged else None
        quoted = any(row.quoted for row in (plain, judged, slow) if row)
        lines.append(
            [
                f"{harness} *" if quoted else harness,
                *(_seconds(row.wall_s if row else None) for row in (plain, judged)),
                "-" if added is None else f"{added:.2f} ms",
                _seconds(slow.wall_s if slow else None),
            ]
        )
    headings = ["200 letters, 3 judges", "letters, 0 ms", "and judged, 0 ms", "per judgment", "and judged, 200 ms"]
    return table(headings, lines) if lines else ""


def _slope(wall: dict[str, float], harness: str, requests: int) -> float | None:
    one, many = wall.get(f"{harness}/jury-1/0ms/cold"), wall.get(f"{harness}/jury-{N}/0ms/cold")
    return None if one is None or many is None or many <= one else (many - one) / requests


def _over(value: float | None, whole: float | None) -> float | None:
    return None if value is None or whole is None else value / whole


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"

"""From measurements to rows, goals and tables: no processes, no clocks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.cells import IN_FLIGHT, Cell
from bench.measure import Measurement
from bench.workloads import jury

PEERS = ("helm", "inspect", "lmeval")
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
"""Lines of the README that the tables stand between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One cell, measured: medians over its repetitions."""

    cell: str
    """Name of the cell."""
    harness: str
    """medhelm, suite, board or a peer."""
    mode: str
    """help, demo, cold, warm or skip, or what a cell of the suite does."""
    n: int
    """Instances that the server was asked about; 0 where it was not asked."""
    latency_ms: int
    """Time the server took for each completion."""
    repetitions: int
    """Runs behind the medians."""
    wall_s: float
    """Seconds from start to exit, median."""
    wall_min_s: float
    """The shortest."""
    wall_max_s: float
    """The longest."""
    cpu_s: float
    """Seconds of processor, median."""
    peak_mib: float
    """Largest resident set, median."""
    requests: int | None = None
    """Requests the server saw in the last run; None where it was not asked."""
    in_flight_max: int | None = None
    """Most of them at the same time."""
    seconds_inside: float | None = None
    """What the harness itself says its last run took; None if it does not say."""
    accuracy: float | None = None
    """Exact match it reports; None if it reports none."""
    reported: Mapping[str, float] = field(default_factory=dict)
    """What else the last run reports, by name."""
    problem: str = ""
    """Why the row does not count; empty if it does."""
    quoted: bool = False
    """Whether it was measured elsewhere."""

    @property
    def counts(self) -> bool:
        """Whether goals may be judged by it."""
        return not self.problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A number that has to stay on one side of a limit."""

    name: str
    """What is compared, in words."""
    value: float | None
    """As measured; None if a row it needs is missing or does not count."""
    limit: float
    """Where the line is, in the same unit."""
    unit: str
    """Unit of both."""
    at_least: bool = False
    """Whether more is better."""
    quoted: bool = False
    """Whether a figure from another machine is part of it."""

    @property
    def met(self) -> bool | None:
        """Whether it is reached; None if it was not measured."""
        if self.value is None:
            return None
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def expected_requests(cell: Cell) -> int | None:
    """Requests that a correct run of `cell` sends; None where it does not matter."""
    if cell.n == 0:
        return None
    if cell.workload == jury.WORKLOAD:
        return jury.expected_requests(cell)
    return cell.n if cell.mode == "cold" else 0


def summarise(
    cell: Cell,
    measurements: Sequence[Measurement],
    counters: Mapping[str, int] | None,
    reading: Mapping[str, float],
    unread: str = "",
) -> Row:
    """The row of a cell. `counters`: the server's after the last run; `reading`: what that run reported of itself.

    `unread` says why there is no reading where there should be one.
    """
    problems = []
    failed = [m for m in measurements if m.exit_code != 0]
    if failed:
        problems.append("stopped, too slow" if failed[0].timed_out else f"exit code {failed[0].exit_code}")
    requests, expected = (counters or {}).get("requests"), expected_requests(cell)
    if expected is not None and requests != expected:
        problems.append(f"{requests} requests instead of {expected}")
    if unread:
        problems.append(f"no report: {unread}")
    walls = [m.wall_s for m in measurements]
    return Row(
        cell=cell.name,
        harness=cell.harness,
        mode=cell.mode,
        n=cell.n,
        latency_ms=cell.latency_ms,
        repetitions=len(measurements),
        wall_s=round(statistics.median(walls), 4),
        wall_min_s=round(min(walls), 4),
        wall_max_s=round(max(walls), 4),
        cpu_s=round(statistics.median(m.cpu_s for m in measurements), 4),
        peak_mib=round(statistics.median(m.peak_mib for m in measurements), 1),
        requests=requests,
        in_flight_max=(counters or {}).get("in_flight_max"),
        seconds_inside=reading.get("seconds_inside"),
        accuracy=reading.get("accuracy"),
        reported={name: value for name, value in reading.items() if name not in ("accuracy", "seconds_inside")},
        problem="; ".join(problems),
    )


def with_quoted(rows: Sequence[Row], quoted: Sequence[Row]) -> list[Row]:
    """`rows`, and the quoted ones of peers that were not measured at all in this run."""
    measured = {row.harness for row in rows}
    return [*rows, *(row for row in quoted if row.harness not in measured)]


def rate_after_start(one: Row | None, many: Row | None) -> float | None:
    """Instances a second without the cost of starting: (N - 1) / (t(N) - t(1)). None if that cannot be told."""
    if one is None or many is None or many.wall_s <= one.wall_s:
        return None
    return (many.n - one.n) / (many.wall_s - one.wall_s)


def judge(rows: Sequence[Row], extra: Mapping[str, float]) -> list[Goal]:
    """Every goal, against these rows. `extra`: `install_mib` and `packages`, if they were taken."""
    good = {row.cell: row for row in rows if row.counts}

    def wall(cell: str) -> float | None:
        return good[cell].wall_s if cell in good else None

    def peak(cell: str) -> float | None:
        return good[cell].peak_mib if cell in good else None

    cold = [r for r in good.values() if r.harness in PEERS and r.mode == "cold" and (r.n, r.latency_ms) == (1000, 0)]
    warm = [r for r in good.values() if r.harness == "inspect" and r.mode == "warm"]
    fastest = min(cold, key=lambda r: r.wall_s, default=None)
    inspect = min(warm, key=lambda r: r.wall_s, default=None)
    ours, ours_slow, ours_warm = (
        wall(f"medhelm{name}") for name in ("/w1-1000/0ms/cold", "-c64/w1-1000/200ms/cold", "/w1-1000/0ms/warm")
    )
    ideal = 1000 * 0.2 / IN_FLIGHT
    small, large = peak("medhelm/invented-1000/0ms/cold"), peak("medhelm/invented-100000/0ms/cold")
    growth = large - small if small is not None and large is not None else None
    rate = rate_after_start(good.get("medhelm/w1-1/0ms/cold"), good.get("medhelm/w1-1000/0ms/cold"))
    return [
        Goal(
            name=f"W1 cold at 0 ms, part of the fastest peer's time ({fastest.cell if fastest else 'no peer'})",
            value=_part(ours, fastest),
            limit=0.1,
            unit="x",
            quoted=fastest is not None and fastest.quoted,
        ),
        Goal(
            name="W1 at 200 ms and 64 at once, times the server's own time",
            value=_over(ours_slow, ideal),
            limit=1.15,
            unit="x",
        ),
        Goal(
            name="W1 again, part of Inspect's time with its cache",
            value=_part(ours_warm, inspect),
            limit=0.05,
            unit="x",
            quoted=inspect is not None and inspect.quoted,
        ),
        Goal(name="instances a second after start, W1 cold at 0 ms", value=rate, limit=2000, unit="/s", at_least=True),
        Goal(name="medhelm --help", value=wall("medhelm/help"), limit=0.3, unit="s"),
        Goal(name="medhelm demo", value=wall("medhelm/demo"), limit=60, unit="s"),
        Goal(name="peak memory, 1,000 instances", value=small, limit=200, unit="MiB"),
        Goal(name="peak memory, 100,000 instances", value=large, limit=200, unit="MiB"),
        Goal(name="peak memory, growth from 1,000 to 100,000 instances", value=growth, limit=30, unit="MiB"),
        Goal(name="installation, size", value=extra.get("install_mib"), limit=300, unit="MiB"),
        Goal(name="installation, packages", value=extra.get("packages"), limit=60, unit=""),
    ]


def _over(value: float | None, whole: float) -> float | None:
    return None if value is None else value / whole


def _part(value: float | None, peer: Row | None) -> float | None:
    return None if peer is None else _over(value, peer.wall_s)


# --- tables -----------------------------------------------------------------------------------------------------------


def table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns line up in plain text: the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [headings, *lines]) for i in range(len(headings))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]

    def line(cells: Sequence[str]) -> str:
        fitted = [cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))]
        return f"| {' | '.join(fitted)} |"

    return "\n".join(line(cells) for cells in [headings, rule, *lines])


def rows_table(rows: Sequence[Row]) -> str:
    """The figures of every cell. A quoted row has a star; a row that does not count says why."""
    headings = ["cell", "runs", "wall s", "min-max", "CPU s", "peak MiB", "requests", "at once", "inside s", "accuracy"]
    lines = []
    for row in rows:
        name = f"{row.cell} *" if row.quoted else row.cell
        lines.append(
            [
                f"{name} ({row.problem})" if row.problem else name,
                str(row.repetitions),
                f"{row.wall_s:.2f}",
                f"{row.wall_min_s:.2f}-{row.wall_max_s:.2f}",
                f"{row.cpu_s:.2f}",
                f"{row.peak_mib:.0f}",
                _or_dash(row.requests, "d"),
                _or_dash(row.in_flight_max, "d"),
                _or_dash(row.seconds_inside, ".2f"),
                _or_dash(row.accuracy, ".3f"),
            ]
        )
    return table(headings, lines)


def goals_table(goals: Sequence[Goal]) -> str:
    """Every goal with what was measured. A star marks one that rests on a quoted figure."""
    words = {True: "met", False: "missed", None: "not measured"}
    lines = [
        [
            f"{goal.name} *" if goal.quoted else goal.name,
            "-" if goal.value is None else _with_unit(goal.value, goal.unit),
            f"{'>=' if goal.at_least else '<='} {_with_unit(goal.limit, goal.unit)}",
            words[goal.met],
        ]
        for goal in goals
    ]
    return table(["goal", "measured", "limit", "result"], lines)


def rates_table(rows: Sequence[Row]) -> str:
    """For every harness and variant with W1 at 0 ms: instances a second over the whole process, and after its start."""
    by_name = {row.cell: row for row in rows if row.counts}
    lines = []
    for name, many in by_name.items():
        who, *rest = name.split("/")
        if rest != ["w1-1000", "0ms", "cold"]:
            continue
        # Where a variant's start was not taken, that of another variant of the same harness stands in.
        ones = [row for row in by_name.values() if row.harness == many.harness and "/w1-1/" in row.cell]
        one = by_name.get(f"{who}/w1-1/0ms/cold") or next(iter(ones), None)
        star = " *" if many.quoted else ""
        after = rate_after_start(one, many)
        lines.append(
            [who + star, f"{many.n / many.wall_s:.0f}", _or_dash(after, ".0f"), f"{many.cpu_s / many.n * 1000:.2f}"]
        )
    return table(["W1 cold at 0 ms", "instances/s", "after start", "CPU ms per instance"], lines)


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _with_unit(value: float, unit: str) -> str:
    digits = 0 if abs(value) >= 100 or unit == "" else 1 if abs(value) >= 10 else 3 if unit == "x" else 2
    return f"{value:,.{digits}f}{'' if unit in ('', 'x') else ' '}{unit}"


# --- files ------------------------------------------------------------------------------------------------------------


def report(
    rows: Sequence[Row], goals: Sequence[Goal], *, date: str, machine: Mapping[str, Any], versions: Mapping[str, str],
    extra: Mapping[str, float], quoted_from: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """What is written as JSON: everything that the tables show, unrounded enough to compute with."""
    return {
        "date": date,
        "machine": dict(machine),
        "versions": dict(versions),
        "goals": [asdict(goal) | {"met": goal.met} for goal in goals],
        "rows": [asdict(row) for row in rows],
        "installation": dict(extra),
        "quoted_from": dict(quoted_from) if any(row.quoted for row in rows) else None,
    }


def page(rows: Sequence[Row], goals: Sequence[Goal], saved: Mapping[str, Any], more: str = "") -> str:
    """The part of the README that a run writes: date, machine, versions, goals, rates, `more` of a table, and rows."""
    machine, versions = saved["machine"], saved["versions"]
    parts = [
        f"Measured {saved['date']} on {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"{machine['system']}, Python {machine['python']}.",
        "Versions: " + (", ".join(f"{name} {version}" for name, version in versions.items()) or "none found") + ".",
        goals_table(goals),
        *([rates_table(rows)] if any(row.counts and row.n == 1000 for row in rows) else []),
        *([more] if more else []),
        rows_table(rows),
    ]
    quoted = saved["quoted_from"]
    if quoted:
        where = f"on {quoted['date']} on {quoted['machine']} ({quoted['versions']})"
        parts.append(f"\\* Not measured in this run, but {where}.")
    return "\n\n".join(parts)


def replace_between(text: str, part: str) -> str:
    """`text` with `part` between the two marker lines. Raises ValueError if it does not have both, once, in order."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"the lines {BEGIN} and {END} must stand in the file once each, in this order")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{part}\n\n{END}{after}"

"""Rows, goals, and how they are written: Markdown tables, JSON, and the section of the README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
"""Lines of the README that enclose the tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The measurement of one cell: medians over its repetitions."""

    cell: str
    """Name of the cell."""
    harness: str
    """Harness of the cell."""
    mode: str
    """Mode of the cell."""
    n: int
    """Instances that the server was asked about; 0 if the cell needs no server."""
    latency_ms: int
    """Time the server took for each completion."""
    repetitions: int
    """Number of runs."""
    wall_s: float
    """Seconds from start to exit, median."""
    wall_min_s: float
    """Shortest run."""
    wall_max_s: float
    """Longest run."""
    cpu_s: float
    """CPU seconds, median."""
    peak_mib: float
    """Largest resident set, median."""
    requests: int | None = None
    """Requests that reached the server in the last run; None if the cell needs no server."""
    in_flight_max: int | None = None
    """Largest number of concurrent requests."""
    seconds_inside: float | None = None
    """Duration of the last run as the harness reports it; None if it does not."""
    accuracy: float | None = None
    """Exact match that the harness reports; None if it reports none."""
    reported: Mapping[str, float] = field(default_factory=dict)
    """Other numbers that the last run reports, by name."""
    problem: str = ""
    """Reason that the row does not count; empty if it does."""
    quoted: bool = False
    """True if it was measured on another machine or day."""

    @property
    def counts(self) -> bool:
        """True if the row can be used for goals."""
        return not self.problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A number with a limit."""

    name: str
    """Description of the number."""
    value: float | None
    """Measured value; None if a row it needs is missing or does not count."""
    limit: float
    """Limit, in the same unit; the limit itself is allowed."""
    unit: str
    """Unit of value and limit."""
    at_least: bool = False
    """True if the value must be at least the limit."""
    quoted: bool = False
    """True if the value uses a quoted row."""

    @property
    def met(self) -> bool | None:
        """True if the goal is met; None if it was not measured."""
        if self.value is None:
            return None
        return self.value >= self.limit if self.at_least else self.value <= self.limit


# --- tables -----------------------------------------------------------------------------------------------------------


def table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table with aligned columns: the first one left, the others right."""
    widths = [max(len(row[i]) for row in [headings, *lines]) for i in range(len(headings))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]

    def line(cells: Sequence[str]) -> str:
        fitted = [cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))]
        return f"| {' | '.join(fitted)} |"

    return "\n".join(line(cells) for cells in [headings, rule, *lines])


def by_mode(rows: Sequence[Row], harness: str) -> dict[str, Row]:
    """Return the rows of one harness that count, by mode."""
    return {row.mode: row for row in rows if row.harness == harness and row.counts}


def wall(rows: Mapping[str, Row], name: str) -> float | None:
    """Return the seconds of a row, by cell or mode; None if it was not measured."""
    return rows[name].wall_s if name in rows else None


def peak(rows: Mapping[str, Row], name: str) -> float | None:
    """Return the largest resident set of a row, by cell or mode; None if it was not measured."""
    return rows[name].peak_mib if name in rows else None


def rows_table(rows: Sequence[Row]) -> str:
    """Format all rows. A quoted row has a star; a row that does not count shows the reason."""
    headings = ["cell", "runs", "wall s", "min-max", "CPU s", "peak MiB"]
    headings += ["requests", "max concurrent", "reported s", "accuracy"]
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
                or_dash(row.requests, "d"),
                or_dash(row.in_flight_max, "d"),
                or_dash(row.seconds_inside, ".2f"),
                or_dash(row.accuracy, ".3f"),
            ]
        )
    return table(headings, lines)


def goals_table(goals: Sequence[Goal]) -> str:
    """Format all goals. A star marks a goal that uses a quoted row."""
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


def or_dash(value: float | None, form: str) -> str:
    """Format a number, or a dash if there is none."""
    return "-" if value is None else format(value, form)


def _with_unit(value: float, unit: str) -> str:
    digits = 0 if abs(value) >= 100 or unit == "" else 1 if abs(value) >= 10 else 3 if unit == "x" else 2
    return f"{value:,.{digits}f}{'' if unit in ('', 'x') else ' '}{unit}"


# --- files ------------------------------------------------------------------------------------------------------------


def report(
    rows: Sequence[Row], goals: Sequence[Goal], *, date: str, machine: Mapping[str, Any], versions: Mapping[str, str],
    extra: Mapping[str, float], quoted_from: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Collect everything that is written as JSON: what the tables show, with more digits."""
    return {
        "date": date,
        "machine": dict(machine),
        "versions": dict(versions),
        "goals": [asdict(goal) | {"met": goal.met} for goal in goals],
        "rows": [asdict(row) for row in rows],
        "installation": dict(extra),
        "quoted_from": dict(quoted_from) if any(row.quoted for row in rows) else None,
    }


def page(rows: Sequence[Row], goals: Sequence[Goal], saved: Mapping[str, Any], tables: Sequence[str] = ()) -> str:
    """Format the section of the README that a run writes: origin, goals, one table per workload, and all rows."""
    machine, versions = saved["machine"], saved["versions"]
    parts = [
        f"Measured {saved['date']} on {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"{machine['system']}, Python {machine['python']}.",
        "Versions: " + (", ".join(f"{name} {version}" for name, version in versions.items()) or "none found") + ".",
        goals_table(goals),
        *filter(None, tables),
        rows_table(rows),
    ]
    quoted = saved["quoted_from"]
    if quoted:
        where = f"on {quoted['date']} on {quoted['machine']} ({quoted['versions']})"
        parts.append(f"\\* Not measured in this run: measured {where}.")
    return "\n\n".join(parts)


def replace_between(text: str, part: str) -> str:
    """Replace the text between the two marker lines. Raises ValueError unless both occur once and in order."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"the file must contain the lines {BEGIN} and {END} once each, in this order")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{part}\n\n{END}{after}"

"""Measure speed and memory of whole processes: medhelm, and other harnesses on the same questions.

    python bench/bench.py [--data DIR] [--venvs DIR] [--only PATTERN ...] [--reps N] [--out FILE] [--write-readme]

Standard library only; Linux and macOS; needs a C compiler for cells that ask a server. README.md in this folder
explains the cells. Exit codes: 0 every measured goal is met, 1 a goal is missed or a cell failed, 2 nothing to measure.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a script run by its path does not find its package

from bench import machine
from bench.cells import ROOT, Bench, Cell, Workload, environment, wipe
from bench.measure import Measurement, Server, build_server, find_compiler, run_process
from bench.peers import PEERS
from bench.table import Row, page, replace_between, report
from bench.workloads import WORKLOADS

HERE = Path(__file__).resolve().parent
DISTRIBUTION = "medhelm-eval"
"""Name under which this project is installed."""
QUOTED = HERE / "peers" / "quoted.json"
LIMIT_S = 300.0
"""Time limit of one process; the largest benchmark has ten times as long."""

WORKLOAD_OF: Mapping[Cell, Workload] = {cell: workload for workload in WORKLOADS for cell in workload.cells}
"""Every cell -> its workload."""
CELLS = sorted(WORKLOAD_OF, key=lambda cell: [*PEERS].index(cell.harness) if cell.harness in PEERS else -1)
"""Every cell, in the order of the table: medhelm, then one peer after the other."""


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure speed and memory of whole processes.")
    beside = shutil.which("medhelm", path=str(Path(sys.executable).parent)) or shutil.which("medhelm")
    data = Path(os.environ.get("MEDHELM_DATA") or ROOT.parent / "shared" / "data")
    parser.add_argument("--data", type=Path, default=data, help="folder with one folder of data per benchmark")
    parser.add_argument("--venvs", type=Path, help="folder with the peers' environments: helm, inspect, lmeval")
    parser.add_argument("--medhelm", type=Path, default=beside and Path(beside), help="the medhelm command")
    parser.add_argument("--reps", type=int, default=3, help="runs per cell (default 3)")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="PATTERN", help="only these cells, such as `suite` or `*/200ms/*`"
    )
    parser.add_argument("--install", action="store_true", help="also measure a fresh installation: size and packages")
    parser.add_argument("--out", type=Path, default=HERE / "results.json", help="JSON file for the results")
    parser.add_argument("--write-readme", action="store_true", help="also write the tables into README.md")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work in DIR and keep its files")
    chosen = parser.parse_args(words)
    if chosen.reps < 1:
        parser.error("--reps must be at least 1")
    return chosen


def chosen_cells(chosen: argparse.Namespace) -> list[Cell]:
    """Select the requested cells that can run here; names on standard error what is not installed."""
    patterns = [form for pattern in chosen.only for form in (pattern, f"{pattern}/*")] or ["*"]
    wanted = [cell for cell in CELLS if any(fnmatchcase(cell.name, pattern) for pattern in patterns)]
    harnesses = {cell.harness for cell in wanted}
    installed = {name for name in harnesses if is_installed(name, chosen)}
    for name in sorted(harnesses - installed):
        print(f"bench: {name} is not installed here and is not measured", file=sys.stderr)
    cells = []
    for cell in wanted:
        if cell.harness not in installed:
            continue
        if WORKLOAD_OF[cell].can_run(cell, chosen.medhelm):
            cells.append(cell)
        else:
            print(f"bench: {cell.name} needs a package or device that is missing, and is not measured", file=sys.stderr)
    return cells


def is_installed(harness: str, chosen: argparse.Namespace) -> bool:
    """Return whether the command behind a cell's harness exists."""
    if harness not in PEERS:
        return bool(chosen.medhelm)
    return bool(chosen.venvs) and (chosen.venvs / harness / "bin" / PEERS[harness].program).exists()


# --- measuring --------------------------------------------------------------------------------------------------------


def measure(cell: Cell, bench: Bench, server: Server | None, repetitions: int) -> Row:
    """Run a cell `repetitions` times: from nothing each time, or for a warm cell after one run that is not counted.

    `server` is the one that the cell asks, if any.
    """
    workload = WORKLOAD_OF[cell]
    leftovers = PEERS[cell.harness].leftovers if cell.harness in PEERS else workload.leftovers
    keeps = cell.mode in ("warm", "skip")
    wipe(leftovers, bench)
    if keeps:
        run_once(cell, bench)
    measurements, counters = [], {}
    for _ in range(cell.repetitions or repetitions):
        if not keeps:
            wipe(leftovers, bench)
        if server:
            server.reset()
        measurements.append(run_once(cell, bench))
        if server:
            counters = server.reset()
    reading: dict[str, float] = {}
    unread = ""
    if measurements[-1].exit_code == 0:
        try:
            reading = workload.read(cell, bench)
        except (LookupError, TypeError, ValueError, OSError, StopIteration, subprocess.CalledProcessError) as error:
            unread = f"{type(error).__name__} {error}"
    row = summarize(cell, measurements, counters if server else None, reading, unread)
    if row.problem:
        tail = bench.stdout.with_suffix(".err").read_text(encoding="utf-8", errors="replace").strip().splitlines()[-5:]
        print(f"bench: {cell.name}: {row.problem}", *tail, sep="\n    ", file=sys.stderr)
    return row


def run_once(cell: Cell, bench: Bench) -> Measurement:
    """Run one process of a cell."""
    command = WORKLOAD_OF[cell].command(cell, bench)
    limit_s = LIMIT_S * max(1, cell.n // 10_000)
    return run_process(
        command, cwd=bench.work, environment=environment(bench.work), stdout=bench.stdout, limit_s=limit_s
    )


def summarize(
    cell: Cell,
    measurements: Sequence[Measurement],
    counters: Mapping[str, int] | None,
    reading: Mapping[str, float],
    unread: str = "",
) -> Row:
    """Return the row of a cell.

    `counters` are the server's after the last run, `reading` is what that run reports, and `unread` is the error that
    prevented reading it.
    """
    problems = []
    failed = [m for m in measurements if m.exit_code != 0]
    if failed:
        problems.append("timeout" if failed[0].timed_out else f"exit code {failed[0].exit_code}")
    requests = (counters or {}).get("requests")
    if cell.n and requests != (expected := WORKLOAD_OF[cell].expected_requests(cell)):
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


def measure_all(cells: Sequence[Cell], chosen: argparse.Namespace, work: Path) -> list[Row]:
    """Start the servers, prepare the workloads, and measure every cell."""
    rows = []
    with ExitStack() as stack:
        latencies = sorted({cell.latency_ms for cell in cells if cell.n})
        servers = {latency: stack.enter_context(server) for latency, server in start_servers(latencies, work)}
        bench = Bench(
            work=work,
            data=chosen.data.resolve(),
            medhelm=chosen.medhelm,
            venvs=chosen.venvs and chosen.venvs.absolute(),
            addresses={latency: server.base_url for latency, server in servers.items()},
        )
        prepare(cells, bench)
        for cell in cells:
            row = measure(cell, bench, servers[cell.latency_ms] if cell.n else None, chosen.reps)
            print(f"{cell.name:42} {row.wall_s:8.2f} s {row.peak_mib:7.0f} MiB", file=sys.stderr, flush=True)
            rows.append(row)
    return rows


def start_servers(latencies: Sequence[int], work: Path) -> Iterator[tuple[int, Server]]:
    """Yield a running server for each latency in ms; without any, no compiler is needed."""
    if not latencies:
        return
    compiler = find_compiler()
    if compiler is None:
        raise SystemExit("bench: no C compiler. Install one (cc, gcc or clang), or name it in CC.")
    program = build_server(compiler, work)
    for latency in latencies:
        yield latency, Server(program, latency)


def prepare(cells: Sequence[Cell], bench: Bench) -> None:
    """Prepare the workloads, then run each harness once, unmeasured, so that no measured run compiles modules."""
    for workload in WORKLOADS:
        workload.prepare([cell for cell in cells if WORKLOAD_OF[cell] is workload], bench)
    for name in dict.fromkeys(cell.harness for cell in cells):
        for folder in PEERS[name].folders if name in PEERS else ():
            (bench.work / folder).mkdir(parents=True, exist_ok=True)
        run_once(next(cell for cell in cells if cell.harness == name), bench)


# --- reporting --------------------------------------------------------------------------------------------------------


def versions(cells: Sequence[Cell], chosen: argparse.Namespace) -> dict[str, str]:
    """Return the version of every measured harness, from its own environment."""
    found = {}
    for name in dict.fromkeys(cell.harness for cell in cells):
        if name in PEERS:
            package = PEERS[name].package
            found[package] = machine.version(chosen.venvs / name / "bin" / "python", package)
        else:
            found["medhelm"] = machine.version(chosen.medhelm.parent / "python", DISTRIBUTION)
    return found


def quoted_rows() -> tuple[list[Row], Mapping[str, Any]]:
    """Return the rows measured elsewhere, and their origin."""
    saved = json.loads(QUOTED.read_text(encoding="utf-8"))
    return [Row(**row, quoted=True) for row in saved["rows"]], saved["quoted_from"]


def with_quoted(rows: Sequence[Row], quoted: Sequence[Row]) -> list[Row]:
    """Append the quoted rows of peers that this run did not measure."""
    measured = {row.harness for row in rows}
    return [*rows, *(row for row in quoted if row.harness not in measured)]


def run_in(work: Path, chosen: argparse.Namespace, cells: Sequence[Cell]) -> int:
    """Measure, print the tables, write the files; return the exit code."""
    extra = machine.measure_installation(ROOT, work / "installation") if chosen.install else {}
    measured = measure_all(cells, chosen, work)
    quoted, quoted_from = quoted_rows()
    rows = with_quoted(measured, quoted)
    goals = [goal for workload in WORKLOADS for goal in workload.goals(rows)] + machine.installation_goals(extra)
    saved = report(
        rows,
        goals,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        machine=machine.describe(),
        versions=versions(cells, chosen),
        extra=extra,
        quoted_from=quoted_from,
    )
    text = page(rows, goals, saved, [workload.table(rows) for workload in WORKLOADS])
    print(text)
    chosen.out.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")
    if chosen.write_readme:
        readme = HERE / "README.md"
        readme.write_text(replace_between(readme.read_text(encoding="utf-8"), text), encoding="utf-8")
    missed = any(goal.met is False for goal in goals) or any(row.problem for row in measured)
    return 1 if missed else 0


def main(words: Sequence[str] | None = None) -> int:
    """Run the script."""
    chosen = arguments(words)
    cells = chosen_cells(chosen)
    if not cells:
        print(
            "bench: nothing to measure. Install medhelm in this environment, or name its command with --medhelm.",
            file=sys.stderr,
        )
        return 2
    if chosen.keep:
        chosen.keep.mkdir(parents=True, exist_ok=True)
        return run_in(chosen.keep.resolve(), chosen, cells)
    with tempfile.TemporaryDirectory(prefix="medhelm-bench-") as folder:
        return run_in(Path(folder).resolve(), chosen, cells)


if __name__ == "__main__":
    raise SystemExit(main())

"""Measure speed and memory of whole processes: ours, and other harnesses on the same questions.

    python bench/bench.py [--data DIR] [--venvs DIR] [--only PATTERN ...] [--reps N] [--out FILE] [--write-readme]

Standard library only; Linux and macOS; needs a C compiler for cells that ask a server. README.md beside this file says
what the cells mean. Exit codes: 0 every goal that was measured is met, 1 one is missed or a cell failed, 2 nothing
could be run.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run by its path, it would not find its package

from bench import machine as surroundings
from bench import table as figures
from bench.cells import HARNESSES, Bench, Cell, environment, wipe
from bench.measure import Measurement, Server, build_server, find_compiler, run_process
from bench.workloads import exchange, exchange_figures, jury, jury_figures, providers_figures, suite, suite_figures
from bench.workloads import leaderboard as board
from bench.workloads import leaderboard_figures as board_figures
from bench.workloads import local as local_models
from bench.workloads import local_figures as local_models_figures
from bench.workloads import plain as workloads

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
QUOTED = HERE / "peers" / "quoted.json"
LIMIT_S = 300.0
"""Longest that one process may take; the largest benchmark has ten times as long."""

CELLS = (
    Cell(harness="medhelm", mode="help"),
    Cell(harness="medhelm", mode="demo"),
    Cell(harness="medhelm", mode="cold", n=1),
    Cell(harness="medhelm", mode="cold", n=1000),
    Cell(harness="medhelm", mode="cold", n=1000, variant="c64"),
    Cell(harness="medhelm", mode="warm", n=1000),
    Cell(harness="medhelm", mode="cold", n=1000, variant="c64", latency_ms=200),
    Cell(harness="medhelm", mode="cold", n=1000, workload="invented"),
    Cell(harness="medhelm", mode="cold", n=100_000, workload="invented", repetitions=1),
    Cell(harness="medhelm", mode="cold", workload="jury", n=1, variant="plain", repetitions=7),
    Cell(harness="medhelm", mode="cold", workload="jury", n=200, variant="plain", repetitions=7),
    Cell(harness="medhelm", mode="cold", workload="jury", n=1, repetitions=7),
    Cell(harness="medhelm", mode="cold", workload="jury", n=200, repetitions=7),
    Cell(harness="medhelm", mode="cold", workload="jury", n=200, variant="plain", latency_ms=200),
    Cell(harness="medhelm", mode="cold", workload="jury", n=200, latency_ms=200),
    Cell(harness="medhelm", mode="cold", workload="jury", n=200, variant="own", latency_ms=200),
    Cell(harness="suite", mode="imports"),
    Cell(harness="suite", mode="list"),
    Cell(harness="suite", mode="sample-tier"),
    Cell(harness="suite", mode="largest"),
    Cell(harness="suite", mode="largest-again"),
    Cell(harness="suite", mode="ehrshot-prompts"),
    Cell(harness="suite", mode="ehrshot-run", repetitions=1),
    Cell(harness="suite", mode="rouge", repetitions=1),
    Cell(harness="board", mode="intervals"),
    Cell(harness="board", mode="means"),
    Cell(harness="board", mode="benchmarks"),
    Cell(harness="board", mode="intervals-tenfold", repetitions=1),
    Cell(harness="exchange", mode="ranks"),
    Cell(harness="exchange", mode="export-helm"),
    Cell(harness="exchange", mode="export-parquet"),
    Cell(harness="exchange", mode="export-csv"),
    Cell(harness="exchange", mode="import", repetitions=1),
    Cell(harness="local", mode="hf", repetitions=1),
    Cell(harness="local", mode="hf-gpu", repetitions=1),
    Cell(harness="local", mode="vllm", repetitions=1),
    Cell(harness="providers", mode="openai", repetitions=1),
    Cell(harness="providers", mode="azure", repetitions=1),
    Cell(harness="providers", mode="anthropic", repetitions=1),
    Cell(harness="providers", mode="google", repetitions=1),
    Cell(harness="providers", mode="vertex", repetitions=1),
    Cell(harness="providers", mode="bedrock", repetitions=1),
    Cell(harness="lmeval", mode="cold", n=1),
    Cell(harness="lmeval", mode="cold", n=1000),
    Cell(harness="lmeval", mode="warm", n=1000),
    Cell(harness="lmeval", mode="cold", n=1000, latency_ms=200),
    Cell(harness="inspect", mode="cold", n=1),
    Cell(harness="inspect", mode="cold", n=1000),
    Cell(harness="inspect", mode="cold", n=1000, variant="tuned"),
    Cell(harness="inspect", mode="warm", n=1000),
    Cell(harness="inspect", mode="cold", n=1000, variant="tuned", latency_ms=200),
    Cell(harness="inspect", mode="cold", workload="jury", n=200, variant="plain"),
    Cell(harness="inspect", mode="cold", workload="jury", n=200),
    Cell(harness="inspect", mode="cold", workload="jury", n=200, latency_ms=200),
    Cell(harness="helm", mode="cold", n=1),
    Cell(harness="helm", mode="cold", n=1000),
    Cell(harness="helm", mode="warm", n=1000),
    Cell(harness="helm", mode="skip", n=1000),
    Cell(harness="helm", mode="cold", n=1000, variant="c64", latency_ms=200),
    Cell(harness="helm", mode="cold", workload="jury", n=200, variant="plain"),
    Cell(harness="helm", mode="cold", workload="jury", n=200),
    Cell(harness="helm", mode="cold", workload="jury", n=200, latency_ms=200),
    Cell(harness="helm", mode="summarize", repetitions=1),
)
"""Everything that can be measured, in the order of the table."""


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure speed and memory of whole processes.")
    beside = shutil.which("medhelm", path=str(Path(sys.executable).parent)) or shutil.which("medhelm")
    data = Path(os.environ.get("MEDHELM_DATA") or ROOT.parent / "shared" / "data")
    parser.add_argument("--data", type=Path, default=data, help="folder with one folder of data per benchmark")
    parser.add_argument("--venvs", type=Path, help="folder with environments of the peers: helm, inspect, lmeval")
    parser.add_argument("--medhelm", type=Path, default=beside and Path(beside), help="our command")
    parser.add_argument("--reps", type=int, default=3, help="runs per cell (default 3)")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="PATTERN", help="only these cells, as in `suite` `*/200ms/*`"
    )
    parser.add_argument("--install", action="store_true", help="also install into a fresh environment and weigh it")
    parser.add_argument("--out", type=Path, default=HERE / "results.json", help="where the figures are written as JSON")
    parser.add_argument("--write-readme", action="store_true", help="also write the tables into README.md")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work in DIR, and leave everything there")
    chosen = parser.parse_args(words)
    if chosen.reps < 1:
        parser.error("--reps must be at least 1")
    return chosen


def chosen_cells(chosen: argparse.Namespace) -> list[Cell]:
    """The cells that were asked for and can be run; says on standard error which peers are not installed."""
    there = {"medhelm", "suite", "board", "exchange", "local", "providers"} if chosen.medhelm else set()
    for name, harness in HARNESSES.items():
        if harness.program and chosen.venvs and (chosen.venvs / name / "bin" / harness.program).exists():
            there.add(name)
    patterns = [form for pattern in chosen.only for form in (pattern, f"{pattern}/*")] or ["*"]
    wanted = [cell for cell in CELLS if any(fnmatchcase(cell.name, pattern) for pattern in patterns)]
    for name in sorted({cell.harness for cell in wanted} - there):
        print(f"bench: {name} is not installed here and is not measured", file=sys.stderr)
    found = [cell for cell in wanted if cell.harness in there]
    lacking = {c.mode for c in found if c.harness == "local" and not local_models.can_run(c.mode, chosen.medhelm)}
    for mode in sorted(lacking):
        print(f"bench: local/{mode} needs what is not here, and is not measured", file=sys.stderr)
    return [cell for cell in found if not (cell.harness == "local" and cell.mode in lacking)]


# --- measuring --------------------------------------------------------------------------------------------------------


def measure(cell: Cell, bench: Bench, server: Server | None, repetitions: int) -> figures.Row:
    """Run a cell as often as asked: warm ones after one run that is not counted, the others from nothing each time.

    `server` is the one that the cell asks, if it asks one.
    """
    harness = HARNESSES[cell.harness]
    keeps = cell.mode in ("warm", "skip")
    wipe(cell.harness, bench)
    if keeps:
        run_once(cell, bench)
    measurements, counters = [], {}
    for _ in range(cell.repetitions or repetitions):
        if not keeps:
            wipe(cell.harness, bench)
        if server:
            server.reset()
        measurements.append(run_once(cell, bench))
        if server:
            counters = server.reset()
    reading: dict[str, float] = {}
    unread = ""
    if cell.mode not in ("help", "demo") and measurements[-1].exit_code == 0:
        try:
            reading = harness.read(cell, bench) | exchange.on_disk(cell, bench)
        except (LookupError, TypeError, ValueError, OSError, StopIteration, subprocess.CalledProcessError) as error:
            unread = f"{type(error).__name__} {error}"
    row = figures.summarise(cell, measurements, counters if server else None, reading, unread)
    if row.problem:
        said = bench.stdout.with_suffix(".err").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        print(f"bench: {cell.name}: {row.problem}", *said[-5:], sep="\n    ", file=sys.stderr)
    return row


def run_once(cell: Cell, bench: Bench) -> Measurement:
    """One process of a cell."""
    command = HARNESSES[cell.harness].command(cell, bench)
    limit_s = LIMIT_S * max(1, cell.n // 10_000)
    return run_process(command, cwd=bench.work, environment=environment(bench), stdout=bench.stdout, limit_s=limit_s)


def measure_all(cells: Sequence[Cell], chosen: argparse.Namespace, work: Path) -> list[figures.Row]:
    """Build and start the servers that are asked, prepare what the harnesses read, and measure every cell."""
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
    """Write the questions, and run each harness once, unmeasured, so that no first run pays for compiling modules."""
    if any(cell.workload == "w1" and cell.n for cell in cells):
        questions = workloads.read_questions(bench.data)
        for size in (1, len(questions)):
            workloads.write_w1(questions, bench.work, size)
    for size in sorted({cell.n for cell in cells if cell.workload == "invented"}):
        workloads.write_benchmark(bench.work / f"invented_{size}", size)
    jury.prepare(cells, bench)
    suite.prepare([cell.mode for cell in cells if cell.harness == "suite"], bench)
    board.prepare([cell.mode for cell in cells if cell.harness == "board"], bench)
    exchange.prepare([cell.mode for cell in cells if cell.harness in ("exchange", "helm") and cell.n == 0], bench)
    for name in dict.fromkeys(cell.harness for cell in cells):
        write_more = HARNESSES[name].prepare
        if write_more:
            write_more(bench)
        run_once(next(cell for cell in cells if cell.harness == name), bench)


# --- reporting --------------------------------------------------------------------------------------------------------


def versions(cells: Sequence[Cell], chosen: argparse.Namespace) -> dict[str, str]:
    """Version of every harness that is measured, from its own environment."""
    found = {}
    for name in dict.fromkeys(cell.harness for cell in cells):
        package = HARNESSES[name].package
        folder = chosen.medhelm.parent if package == "medhelm" else chosen.venvs / name / "bin"
        found[package] = surroundings.version(folder / "python", package)
    return found


def quoted_rows() -> tuple[list[figures.Row], Mapping[str, Any]]:
    """Rows measured elsewhere, and where."""
    saved = json.loads(QUOTED.read_text(encoding="utf-8"))
    return [figures.Row(**row, quoted=True) for row in saved["rows"]], saved["quoted_from"]


def run_in(work: Path, chosen: argparse.Namespace, cells: Sequence[Cell]) -> int:
    """Measure, print the tables, write the files; return the exit code."""
    extra = surroundings.weigh_installation(ROOT, work / "installation") if chosen.install else {}
    measured = measure_all(cells, chosen, work)
    quoted, quoted_from = quoted_rows()
    rows = figures.with_quoted(measured, quoted)
    goals = [
        *figures.judge(rows, extra),
        *jury_figures.judge(rows),
        *suite_figures.judge(rows),
        *board_figures.judge(rows),
        *exchange_figures.judge(rows),
        *local_models_figures.judge(rows),
        *providers_figures.judge(rows),
    ]
    saved = figures.report(
        rows,
        goals,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        machine=surroundings.machine(),
        versions=versions(cells, chosen),
        extra=extra,
        quoted_from=quoted_from,
    )
    more = "\n\n".join(
        filter(
            None,
            [
                jury_figures.jury_table(rows),
                suite_figures.suite_table(rows),
                board_figures.board_table(rows),
                exchange_figures.exchange_table(rows),
                local_models_figures.local_table(rows),
                providers_figures.providers_table(rows),
            ],
        )
    )
    page = figures.page(rows, goals, saved, more)
    print(page)
    chosen.out.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")
    if chosen.write_readme:
        readme = HERE / "README.md"
        readme.write_text(figures.replace_between(readme.read_text(encoding="utf-8"), page), encoding="utf-8")
    missed = any(goal.met is False for goal in goals) or any(row.problem for row in measured)
    return 1 if missed else 0


def main(words: Sequence[str] | None = None) -> int:
    """Run the script."""
    chosen = arguments(words)
    cells = chosen_cells(chosen)
    if not cells:
        print(
            "bench: nothing to measure. Is medhelm installed beside this Python, or named with --medhelm?",
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

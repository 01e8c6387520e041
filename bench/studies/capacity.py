"""Capacity: what the harness takes for each request, record and leaderboard, and what an evaluation of any size needs.

    .venv/bin/python -m bench.studies.capacity --store DIR [--models N] [--benchmarks N] [--instances N]
    .venv/bin/python -m bench.studies.capacity --skip-leaderboard

Requests and records are those of the last `make bench` (`bench/results.json`). Leaderboards are measured on a synthetic
store with short completions, which is written into DIR if it does not exist: 120 million records take 25 minutes and
1.7 GB, and 2 GB of kept scores. Each leaderboard is a process of its own: the first one of runs that were imported or
written by an older version, the first one of runs that kept their scores at their end, another one, and one after a run
was replaced.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.tools.leaderboard_store import Size, list_runs, write
from medhelm.storage.derived_files import FOLDER, YOUNG_S
from medhelm.storage.run_scores import keep_scores
from medhelm.storage.runs import RECORDS

RESULTS = Path(__file__).parents[1] / "results.json"
"""Results of the last `make bench`."""

FEW, MANY = "medhelm/invented-1000/0ms/cold", "medhelm/invented-100000/0ms/cold"
"""Cells whose difference is what one request takes without the start of the process."""

BYTES = "bytes on disk per record, including the completion"
"""Goal with the size of a record."""

RATES = (100, 1_000, 5_000)
"""Requests a second that providers allow."""

MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """An evaluation to plan, with example prices."""

    models: int = 300
    benchmarks: int = 40
    instances: int = 10_000
    input_tokens: int = 1_000
    """Of one request."""
    output_tokens: int = 200
    """Of one completion."""
    usd_input: float = 0.15
    """US dollars for a million input tokens."""
    usd_output: float = 0.60
    """US dollars for a million output tokens."""

    @property
    def requests(self) -> int:
        """Requests in all."""
        return self.models * self.benchmarks * self.instances


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessCosts:
    """Costs of one request to the harness."""

    cpu_us: float
    """Processor time in microseconds."""
    memory_bytes: float
    """Growth of the peak memory."""
    record_bytes: float
    """Size of a record on disk, with its completion."""

    @property
    def requests_per_core_s(self) -> float:
        """Requests that one core can handle in a second."""
        return 1e6 / self.cpu_us


def harness_costs(results: Mapping[str, Any]) -> HarnessCosts:
    """Return the costs of one request from the results of `make bench`."""
    rows = {row["cell"]: row for row in results["rows"]}
    few, many = rows[FEW], rows[MANY]
    n = many["n"] - few["n"]
    return HarnessCosts(
        cpu_us=1e6 * (many["cpu_s"] - few["cpu_s"]) / n,
        memory_bytes=MIB * (many["peak_mib"] - few["peak_mib"]) / n,
        record_bytes=next(goal["value"] for goal in results["goals"] if goal["name"] == BYTES),
    )


def harness_table(costs: HarnessCosts) -> list[str]:
    """Return the costs of one request as a Markdown table."""
    return [
        "| for each request | measured |",
        "| --- | --: |",
        f"| processor time, from the prompt to the stored score | {costs.cpu_us:,.0f} µs |",
        f"| requests a second on one core | {costs.requests_per_core_s:,.0f} |",
        f"| growth of peak memory | {costs.memory_bytes:,.0f} bytes |",
        f"| record on disk, with its completion | {costs.record_bytes:,.0f} bytes |",
    ]


def need_table(wanted: Evaluation, costs: HarnessCosts) -> list[str]:
    """Return what an evaluation needs as a Markdown table."""
    n = wanted.requests
    read, written = n * wanted.input_tokens, n * wanted.output_tokens
    usd = (read * wanted.usd_input + written * wanted.usd_output) / 1e6
    size = f"{wanted.models:,} models x {wanted.benchmarks:,} benchmarks x {wanted.instances:,} instances"
    tokens = f"tokens, {wanted.input_tokens:,} in and {wanted.output_tokens:,} out each"
    price = f"price at {wanted.usd_input:.2f} and {wanted.usd_output:.2f} US dollars for a million tokens"
    lines = [
        f"| {size} | |",
        "| --- | --: |",
        f"| requests | {n:,} |",
        f"| {tokens} | {(read + written) / 1e9:,.0f} billion |",
        f"| {price} | {usd:,.0f} US dollars |",
    ]
    for rate in RATES:
        hours, cores = n / rate / 3600, rate / costs.requests_per_core_s
        lines.append(f"| time at {rate:,} requests a second | {hours:,.1f} hours, {cores:.1f} cores |")
    return [
        *lines,
        f"| processor time of the harness | {n * costs.cpu_us / 3.6e9:,.0f} hours of one core |",
        f"| peak memory of one run of {wanted.instances:,} instances, beyond an empty one | "
        f"{wanted.instances * costs.memory_bytes / MIB:,.1f} MiB |",
        f"| records on disk | {n * costs.record_bytes / 1e9:,.1f} GB |",
    ]


# --- leaderboards -----------------------------------------------------------------------------------------------------


def measured(folder: Path) -> dict[str, float]:
    """Make the leaderboard of a store in a process of its own: seconds, and peaks of memory in MiB.

    `own_mib` leaves out mapped files, which the system takes back when others need memory. It is sampled.
    """
    command = [sys.executable, "-m", "medhelm", "leaderboard", "--store", str(folder)]
    started, own_kib = time.perf_counter(), 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                break
            own_kib = max(own_kib, _own_memory(process.pid))
            time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"`{' '.join(command)}` ended with {process.returncode}.")
    return {
        "wall_s": time.perf_counter() - started,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_mib": usage.ru_maxrss / 1024,
        "own_mib": own_kib / 1024,
    }


def _own_memory(process_id: int) -> int:
    """Return the memory of a process without mapped files, in KiB; 0 if it is not known."""
    try:
        lines = Path(f"/proc/{process_id}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0)


def replace_run(folder: Path) -> None:
    """Write the records of one run again as `medhelm run` does, and wait until their numbers can be kept."""
    run = list_runs(folder)[0]
    assert run.folder is not None
    file = run.folder / RECORDS
    new = file.with_name("new")
    shutil.copyfile(file, new)
    new.replace(file)
    keep_scores(run)
    time.sleep(YOUNG_S + 0.5)


def keep_all(folder: Path) -> None:
    """Keep the scores of each run, and nothing else, as the ends of the runs left them."""
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
    for run in list_runs(folder):
        keep_scores(run)


FIRST, AGAIN = "first", "again"
FROM_RECORDS = "first, of runs whose scores were not kept at their end"
AFTER_RUN = "after one run was replaced"


def board_table(folder: Path, title: str) -> list[str]:
    """Measure the leaderboards of a store, and return them as a Markdown table."""
    lines = [
        f"| leaderboard of {title} | wall time | processor time | peak memory | without mapped files |",
        "| --- | --: | --: | --: | --: |",
    ]
    for name in (FROM_RECORDS, FIRST, AGAIN, AFTER_RUN):
        if name == FROM_RECORDS:
            shutil.rmtree(folder / FOLDER, ignore_errors=True)
        elif name == FIRST:
            keep_all(folder)
        elif name == AFTER_RUN:
            replace_run(folder)
        found = measured(folder)
        lines.append(
            f"| {name} | {found['wall_s']:.1f} s | {found['cpu_s']:.1f} s | {found['peak_mib']:,.0f} MiB | "
            f"{found['own_mib']:,.0f} MiB |"
        )
    loads = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    kept = sum(path.stat().st_size for path in (folder / FOLDER).glob("*")) / 1e9
    waiting = f"{loads} processes in the last 1, 5 and 15 minutes, on {os.cpu_count()} cores"
    return [*lines, "", f"Kept files: {kept:.2f} GB. Load of the machine: {waiting}."]


def main(words: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, metavar="DIR", help="a store for leaderboards, made if it is missing")
    parser.add_argument("--skip-leaderboard", action="store_true", help="only requests and records")
    for name in ("models", "benchmarks", "instances", "input-tokens", "output-tokens"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Evaluation(), name.replace("-", "_")))
    for name in ("usd-input", "usd-output"):
        parser.add_argument(f"--{name}", type=float, default=getattr(Evaluation(), name.replace("-", "_")))
    chosen = vars(parser.parse_args(words))
    folder, skipped = chosen.pop("store"), chosen.pop("skip_leaderboard")
    if folder is None and not skipped:
        parser.error("--store DIR names the store for leaderboards; --skip-leaderboard needs none")
    wanted = Evaluation(**chosen)
    costs = harness_costs(json.loads(RESULTS.read_text(encoding="utf-8")))
    print("\n".join([*need_table(wanted, costs), "", *harness_table(costs)]))
    if not skipped:
        if not folder.exists():
            write(folder, Size(wanted.models, wanted.benchmarks, wanted.instances, is_short=True))
        size = f"{wanted.models:,} x {wanted.benchmarks:,} x {wanted.instances:,}"
        print("", *board_table(folder, size), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Time and memory of leaderboards and comparisons of many models, without reading a store.

    .venv/bin/python -m bench.studies.leaderboard_size [--most MODELS]
    .venv/bin/python -m bench.studies.leaderboard_size --store DIR

Each size runs in a process of its own. Scores are synthetic: right or wrong, grades, and continuous scores; a quarter
of the benchmarks has five instances of each patient, a third has failures. Reading the runs of a store comes on top:
`--store` measures it, and the leaderboard of that store. `bench/tools/leaderboard_store.py` writes one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from time import process_time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as `medhelm` does

import numpy as np

from bench.measure import peak_in_mib
from medhelm.analysis.comparison.pairs import compare_all_pairs
from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.results.leaderboard import leaderboard
from medhelm.storage.runs import load_runs
from medhelm.storage.store import open_store

BENCHMARKS = 37
"""Benchmarks of the suite."""

SIZES = ((9, 1000, "leaderboard"), (50, 200, "compare"), (200, 200, "leaderboard"), (1000, 200, "leaderboard"))
"""Models, instances of each benchmark, and what is computed."""


def synthetic(models: int, instances: int) -> tuple[list[Cell], list[Column]]:
    """Return results of models that differ in ability by little, and their columns."""
    rng = np.random.default_rng(0)
    ids = [f"i{n:05}" for n in range(instances)]
    patients = [f"p{n // 5}" for n in range(instances)]
    columns, cells = [], []
    for b in range(BENCHMARKS):
        name = f"b{b:02}"
        columns.append(
            Column(benchmark=name, title=name, category=f"c{b % 5}", subcategory=f"s{b % 22}", metric="exact_match")
        )
        ease = rng.normal(size=instances)
        for m in range(models):
            p = 1 / (1 + np.exp(-(ease + 1.2 * m / models)))
            scores = (rng.random(instances) < p).astype(float)
            if b % 2 == 0:
                scores = rng.beta(4 * p + 0.2, 4 * (1 - p) + 0.2)
            if b % 4 == 0:
                scores = np.round(3 * scores) / 3
            if b % 3 == 0:
                scores[rng.random(instances) < 0.005] = np.nan
            cells.append(
                Cell(
                    model=f"m{m:04}",
                    benchmark=name,
                    value=float(np.nanmean(scores)),
                    n_failed=int(np.isnan(scores).sum()),
                    ids=ids,
                    scores=scores,
                    clusters=patients if b % 4 == 1 else None,
                )
            )
    return cells, columns


def measured(models: int, instances: int, what: str) -> dict[str, float]:
    """Return seconds of processor time, and the peak memory of this process in MiB."""
    cells, columns = synthetic(models, instances)
    started = process_time()
    if what == "compare":
        compare_all_pairs(cells, columns)
    else:
        build_leaderboard(cells, columns)
    seconds = process_time() - started
    return {"seconds": seconds, "mib": peak_mib()}


def peak_mib() -> float:
    """Return the peak memory of this process in MiB."""
    return peak_in_mib(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def measure_store(folder: Path) -> None:
    """Print the processor time and the memory of reading all runs of a store, and of its leaderboard."""
    store, started = open_store(folder), process_time()
    n = len(list(load_runs(store)))
    read = process_time() - started
    started = process_time()
    board = leaderboard([folder])
    built = process_time() - started
    print(f"{n:,} runs: {1000 * read / n:.2f} ms to read each run.json; peak memory {peak_mib():,.0f} MiB")
    print(f"leaderboard of {len(board.rows):,} models, reading included: {built:.1f} s")


def main() -> None:
    """Print a table of all sizes, each relative to the first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", nargs=3, metavar=("MODELS", "INSTANCES", "WHAT"), help="measure one size as JSON")
    parser.add_argument("--most", type=int, default=1000, metavar="MODELS", help="leave out larger sizes")
    parser.add_argument("--store", type=Path, metavar="DIR", help="measure the leaderboard of a store")
    options = parser.parse_args()
    if options.store:
        measure_store(options.store)
        return
    if options.one:
        models, instances, what = options.one
        print(json.dumps(measured(int(models), int(instances), what)))
        return
    print("| models x benchmarks x instances | | processor time | relative to the first | peak memory |")
    print("|---|---|---|---|---|")
    first = 0.0
    for models, instances, what in SIZES:
        if models > options.most:
            continue
        command = [sys.executable, "-m", "bench.studies.leaderboard_size", "--one", str(models), str(instances), what]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2])
        found = json.loads(done.stdout)
        first = first or found["seconds"]
        size = f"{models:,} x {BENCHMARKS} x {instances:,}"
        ratio = found["seconds"] / first
        print(f"| {size} | {what} | {found['seconds']:.1f} s | {ratio:.1f} | {found['mib']:,.0f} MiB |", flush=True)


if __name__ == "__main__":
    main()

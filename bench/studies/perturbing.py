"""Processor time of perturbing and checking 10,000 instances, beside that of reading them from their files.

    .venv/bin/python -m bench.studies.perturbing --data DIR [--benchmark NAME]

Goal: 5 seconds for each perturbation of MedQA, whose questions have about 700 characters. Times are those
of one process, scaled to 10,000 instances; the ratio to reading depends less on the machine.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import process_time

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.extensions.variants.expand import perturbation_variant
from medhelm.extensions.variants.perturbations import perturbations
from medhelm.scoring.metrics import METRIC_NAMES

INSTANCES = 10_000
GOAL_S = 5.0


def main() -> None:
    """Measure each perturbation of a benchmark once; exit with 1 if one takes too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--benchmark", default="med_qa")
    options = parser.parse_args()
    (benchmark,) = load_benchmarks([options.benchmark], metrics=METRIC_NAMES)
    start = process_time()
    dataset = open_dataset(benchmark, data=options.data, tier="real")
    scale = INSTANCES / dataset.n
    reading = (process_time() - start) * scale
    print(f"{'reading':24} {reading:6.2f} s per {INSTANCES:,}")
    slow: list[str] = []
    for name, perturbation in perturbations().items():
        start = process_time()
        n = dataset.varied(perturbation_variant(perturbation, benchmark, 0)).n
        seconds = (process_time() - start) * scale
        print(f"{name:24} {seconds:6.2f} s per {INSTANCES:,}, {seconds / reading:5.2f}x reading, {n:,} changed")
        slow += [name] if seconds > GOAL_S else []
    if slow:
        raise SystemExit(f"more than {GOAL_S:g} s: {', '.join(slow)}")


if __name__ == "__main__":
    main()

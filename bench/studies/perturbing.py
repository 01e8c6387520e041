"""Processor time of perturbing and checking 10,000 instances, beside that of reading them from their files.

    .venv/bin/python -m bench.studies.perturbing --data DIR [--benchmark NAME]...

Goal: 5 seconds for each perturbation, of exam questions (MedQA, about 700 characters) and of notes (MedCalc-Bench and
MTSamples, about 2,700). Times are those of one process, the fastest of several passes, scaled to 10,000 instances. The
ratio to reading depends less on the machine.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import process_time

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.extensions.variants.listing import perturbation_variant
from medhelm.extensions.variants.perturbations import perturbations
from medhelm.extensions.variants.types import Perturbation
from medhelm.scoring.metrics import METRIC_NAMES

BENCHMARKS = ("med_qa", "medcalc_bench", "mtsamples_replicate")
INSTANCES = 10_000
GOAL_S = 5.0


def main() -> None:
    """Measure each perturbation of each benchmark; exit with 1 if one takes too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--benchmark", action="append", dest="benchmarks")
    parser.add_argument("--passes", type=int, default=5, help="passes of which the fastest counts")
    options = parser.parse_args()
    slow: list[str] = []
    for benchmark in load_benchmarks(options.benchmarks or list(BENCHMARKS), metrics=METRIC_NAMES):
        start = process_time()
        dataset = open_dataset(benchmark, data=options.data, tier="real")
        scale = INSTANCES / dataset.n
        reading = (process_time() - start) * scale
        print(f"{benchmark.name}, reading: {reading:.2f} s per {INSTANCES:,}")
        for name, perturbation in perturbations().items():
            n, passed = fastest(dataset, perturbation, options.passes)
            seconds = passed * scale
            print(f"{name:24} {seconds:6.2f} s per {INSTANCES:,}, {seconds / reading:5.2f}x reading, {n:,} changed")
            slow += [f"{name} of {benchmark.name}"] if seconds > GOAL_S else []
    if slow:
        raise SystemExit(f"more than {GOAL_S:g} s: {', '.join(slow)}")


def fastest(dataset: Dataset, perturbation: Perturbation, passes: int) -> tuple[int, float]:
    """Return the number of changed instances, and the seconds of the fastest pass over all instances."""
    variant = perturbation_variant(perturbation, dataset.benchmark, 0)
    times: list[float] = []
    for _ in range(passes):
        start = process_time()
        n = dataset.varied(variant).n
        times.append(process_time() - start)
    return n, min(times)


if __name__ == "__main__":
    main()

"""Speed of neural metrics on a Ray cluster, by number of actors, each on a node of its own on this machine.

    .venv/bin/python -m bench.studies.ray_scaling [--nodes N] [--rounds N]

A run is stored once, and `medhelm rescore` computes its neural metric again: in one process, and by 1, 2 and more
actors. torch is not needed: `bench/tools/neural_standin.py` takes the place of BERTScore, with its interface and its
arithmetic (CPU), or waiting as for a GPU. Scores are counted while all actors compute, so without their start. The best
of the rounds counts. Needs Ray.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.table import table
from bench.tools.ray_nodes import ray_nodes

DEFINITION = """\
name: {name}
title: Scaling
description: Summarize a note.
taxonomy: {{category: clinical_note_generation, subcategory: documenting_diagnostic_reports, task: Study}}
access: public
license: CC0-1.0
source:
  kind: jsonl
  files: {{rows.jsonl: ""}}
id: id
answer: summary
prompt: "{{note}}"
max_tokens: 100
metrics: [rouge_l, {metric}]
"""

ENTRY_POINTS = """\
[medhelm.metrics]
standin_bertscore = bench.tools.neural_standin:STANDIN_BERTSCORE
standin_gpu = bench.tools.neural_standin:STANDIN_GPU
"""

ALONE = "one process"

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Workload:
    """A metric and the number of completions that it scores."""

    metric: str
    n: int
    most: int
    """Most actors that this machine can run at the same time."""
    title: str


WORKLOADS = (
    Workload("standin_bertscore", 120, os.cpu_count() or 1, "BERTScore's arithmetic on the CPU, one core per node"),
    Workload("standin_gpu", 600, 16, "a GPU per node: 50 ms per score without CPU"),
)


def write_benchmark(folder: Path, workload: Workload) -> Path:
    """Write a benchmark of free text with as many instances; texts of 80 words."""
    place = folder / workload.metric
    place.mkdir()
    rng = random.Random(0)
    words = [f"word{n}" for n in range(2000)]
    rows = [
        {
            "id": f"r{n}" + "x" * (n % 10),
            "note": ". ".join(" ".join(rng.choices(words, k=20)) for _ in range(8)),
            "summary": " ".join(rng.choices(words, k=80)),
        }
        for n in range(workload.n)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (place / "rows.jsonl").write_text(text, encoding="utf-8")
    (place / "sample.jsonl").write_text(text.partition("\n")[0] + "\n", encoding="utf-8")
    definition = DEFINITION.format(name=workload.metric, metric=workload.metric)
    (place / "benchmark.yaml").write_text(definition, encoding="utf-8")
    return place


def medhelm(environment: Mapping[str, str], *arguments: str) -> str:
    """Run a command and return its output."""
    command = [sys.executable, "-m", "medhelm", *arguments]
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def rate(environment: Mapping[str, str], log: Path, *arguments: str) -> float:
    """Run a command and return the scores per second while all of its actors computed."""
    log.unlink(missing_ok=True)
    medhelm(environment, *arguments)
    by_process: dict[str, list[float]] = {}
    for process, moment in (line.split() for line in log.read_text(encoding="utf-8").splitlines()):
        by_process.setdefault(process, []).append(float(moment))
    start = max(min(moments) for moments in by_process.values())
    end = min(max(moments) for moments in by_process.values())
    return sum(start < moment <= end for moments in by_process.values() for moment in moments) / (end - start)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args(arguments)
    rounds = range(options.rounds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        site = folder / "site" / "standin-0.1.dist-info"
        site.mkdir(parents=True)
        (site / "METADATA").write_text("Metadata-Version: 2.1\nName: standin\nVersion: 0.1\n", encoding="utf-8")
        (site / "entry_points.txt").write_text(ENTRY_POINTS, encoding="utf-8")
        log = folder / "log"
        own = {
            "PYTHONPATH": os.pathsep.join((str(site.parent), str(ROOT))),
            "STANDIN_LOG": str(log),
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        }
        rows = []
        with ray_nodes(options.nodes, **own) as nodes:
            for workload in WORKLOADS:
                place, store = str(write_benchmark(folder, workload)), str(folder / f"{workload.metric}-store")
                common = ("--data", str(folder), "--store", store, "--json")
                medhelm(nodes.environment, "run", place, "--model", "baseline/lexical", *common)
                ways: dict[str, tuple[str, ...]] = {ALONE: ()}
                for n in (1, 2, 4, 8, 16):
                    if n <= min(options.nodes, workload.most):
                        ways[f"{n} actor{'s' * (n > 1)}"] = ("--cluster", nodes.address, "--actors", str(n))
                rates = {
                    way: max(rate(nodes.environment, log, "rescore", place, *common, *more) for _ in rounds)
                    for way, more in ways.items()
                }
                rows += [
                    [workload.title, way, f"{found:.1f}", f"{found / rates[ALONE]:.2f}x"]
                    for way, found in rates.items()
                ]
    print(table(["work", "computed by", "scores/s", "relative to one process"], rows))


if __name__ == "__main__":
    main()

"""Parts of the suite workload that need medhelm's modules: synthetic EHRSHOT files, and rendering of prompts.

    python bench/tools/suite_probe.py largest --data DIR
    python bench/tools/suite_probe.py render BENCHMARK --data DIR [--sample NAME] [--passes N]
    python bench/tools/suite_probe.py write-ehrshot DIR [--patients N] [--events N]

Each prints one JSON object. The workload starts each as a process of its own, so that memory and imports of one do not
count for another.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medhelm.domain import Benchmark

PATIENTS, EVENTS = 2000, 6000
"""Size of the synthetic EHRSHOT: patients, and mean events of each. Every other one is a test patient with one label
per task."""

TASKS = {"guo_readmission": 12, "new_hypertension": 14, "lab_anemia": 60}
"""Task -> percentage of true labels."""

_CODES = """
CREATE TABLE codes AS SELECT i AS drawn, CASE hash(i, 'vocabulary') % 10
    WHEN 0 THEN 'CPT4/' || (10000 + hash(i) % 89999)
    WHEN 1 THEN 'RxNorm/' || (100000 + hash(i) % 1900000)
    WHEN 2 THEN 'ICD10CM/' || chr((65 + hash(i) % 20)::INT) || (10 + hash(i) % 89) || '.' || (hash(i) % 999)
    WHEN 3 THEN 'SNOMED/' || (100000000 + hash(i) % 600000000)
    WHEN 4 THEN 'SNOMED/' || (1000000 + hash(i) % 90000000)
    ELSE 'LOINC/' || (1000 + hash(i) % 90000) || '-' || (hash(i) % 10) END AS code
FROM range(20000) AS numbers(i)
"""
"""20,000 codes, as long as those of the real vocabularies."""

_SUBJECTS = """
CREATE TABLE subjects AS SELECT i AS place, 115000000 + i * 37 AS subject_id, i % 2 = 0 AS is_test,
    (CASE WHEN i % 2 = 0 THEN 5 * $events // 6 + hash(i) % (5 * $events // 4)
     ELSE 13 * $events // 24 END)::BIGINT AS n_events,
    TIMESTAMP '1930-01-01' + to_days((hash(i, 'birth') % 25000)::INT) AS born
FROM range($patients) AS numbers(i)
"""
"""Test patients have more events than others, in widely varying numbers."""

_EVENTS = """
SELECT subject_id,
    CASE number WHEN 0 THEN born WHEN 1 THEN NULL ELSE born + to_days((7000 + number // 12 * 36000 // n_events)::INT)
        + to_minutes((hash(place, number // 12) % 1440)::INT) END AS time,
    CASE number WHEN 0 THEN 'MEDS_BIRTH' WHEN 1 THEN 'Gender/F' ELSE code END AS code,
    CASE WHEN number % 3 = 2 THEN (hash(number, place) % 2000)::FLOAT / 10 END AS numeric_value,
    CASE WHEN number % 3 = 2 THEN 'mg/dL' END AS unit, place * 100000 + number // 12 AS visit_id
FROM (
    SELECT *, (20000 * power(hash(place, number) % 1000000 / 1e6, 3))::BIGINT % 20000 AS drawn
    FROM (SELECT *, unnest(range(n_events)) AS number FROM subjects)
) JOIN codes USING (drawn) ORDER BY subject_id, time NULLS FIRST, number
"""
"""Birth, a fact without a time, and visits of twelve events over 3,000 days. Few codes are frequent."""

_SPLITS = "SELECT subject_id, CASE WHEN is_test THEN 'held_out' ELSE 'train' END AS split FROM subjects ORDER BY place"

_LABELS = """
SELECT subject_id, born + to_days((9400 + hash(place, '{task}') % 600)::INT) AS prediction_time,
    hash(place, '{task}', 'label') % 100 < {share} AS boolean_value
FROM subjects WHERE is_test ORDER BY hash(place, '{task}')
"""
"""Labels near the end of the record, in shuffled order."""


def write_ehrshot(folder: Path, patients: int, events: int) -> dict[str, float]:
    """Write EHRSHOT's five files in the MEDS layout below `folder`; the same content every time."""
    import duckdb

    queries = {"data/data.parquet": _EVENTS, "metadata/subject_splits.parquet": _SPLITS}
    queries |= {
        f"labels/{task}/labels.parquet": _LABELS.format(task=task, share=share) for task, share in TASKS.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    settings: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "memory_limit": "1GB",
        "temp_directory": str(folder / "spill"),
    }
    with duckdb.connect(":memory:", config=settings) as database:
        database.execute(_CODES)
        database.execute(_SUBJECTS, {"patients": patients, "events": events})
        for name, query in queries.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            database.sql(query).write_parquet(str(folder / name), compression="zstd")
        ((n_events,),) = database.execute("SELECT sum(n_events) FROM subjects").fetchall()
    return {"events": int(n_events), "bytes": (folder / "data/data.parquet").stat().st_size}


def render_all(name: str, data: Path, sample: str, passes: int) -> dict[str, float]:
    """Open a benchmark's data and render every prompt, `passes` times.

    Returns instances, mean characters per prompt, and the median seconds of a pass, without the first, which imports.
    """
    from medhelm.benchmarks.data.dataset import open_dataset
    from medhelm.benchmarks.data.sampling import SampleOptions
    from medhelm.benchmarks.prompts import render

    benchmark = _benchmarks(name)[0]
    seconds = []
    for _ in range(passes):
        start = perf_counter()
        dataset = open_dataset(benchmark, data=data, tier="real", options=SampleOptions(sample=sample))
        n_characters = sum(len(part.text) for case in dataset for part in render(benchmark, case).messages)
        seconds.append(perf_counter() - start)
    return {
        "instances": dataset.n,
        "characters": round(n_characters / dataset.n),
        "pass_s": round(statistics.median(seconds[1:] or seconds), 4),
    }


def largest(data: Path) -> dict[str, str | int]:
    """Return the public benchmark with most instances among those with data in `data`, and their number."""
    from medhelm.benchmarks.data.dataset import open_dataset
    from medhelm.benchmarks.data.sampling import SampleOptions
    from medhelm.errors import MissingError

    sizes: dict[str, int] = {}
    for benchmark in _benchmarks("all"):
        if benchmark.access == "public":
            try:
                sizes[benchmark.name] = open_dataset(
                    benchmark, data=data, tier="real", options=SampleOptions(sample="all")
                ).n
            except MissingError:
                continue
    if not sizes:
        raise SystemExit(
            f"probe: {data} holds the data of no public benchmark. Name the data folder with --data, or run: medhelm "
            "data fetch"
        )
    name = max(sizes, key=lambda name: sizes[name])
    return {"benchmark": name, "instances": sizes[name]}


def _benchmarks(name: str) -> list[Benchmark]:
    from medhelm.benchmarks.catalog import load_benchmarks
    from medhelm.scoring.metrics import METRIC_NAMES

    return load_benchmarks([name], metrics=METRIC_NAMES)


def main(words: Sequence[str] | None = None) -> int:
    """Run the script."""
    parser = argparse.ArgumentParser(description="One part of the suite workload, as a process of its own.")
    commands = parser.add_subparsers(dest="command", required=True)
    finding, rendering, writing = (commands.add_parser(name) for name in ("largest", "render", "write-ehrshot"))
    rendering.add_argument("benchmark")
    rendering.add_argument("--sample", default="default")
    rendering.add_argument("--passes", type=int, default=1)
    for reading in (finding, rendering):
        reading.add_argument("--data", type=Path, required=True)
    writing.add_argument("folder", type=Path)
    writing.add_argument("--patients", type=int, default=PATIENTS)
    writing.add_argument("--events", type=int, default=EVENTS)
    chosen = parser.parse_args(words)
    found: object
    match chosen.command:
        case "largest":
            found = largest(chosen.data)
        case "render":
            found = render_all(chosen.benchmark, chosen.data, chosen.sample, chosen.passes)
        case _:
            found = write_ehrshot(chosen.folder, chosen.patients, chosen.events)
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

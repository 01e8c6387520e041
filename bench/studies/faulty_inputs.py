"""Damaged files: every reader returns rows or an error with advice, and no process crashes.

    python -m bench.studies.faulty_inputs [--inputs N] [--seed N]

Whole files of each format are changed at random (`bench.tools.mutation`) and read, in processes of a few thousand files
each. File number I of a seed is always the same; a problem is printed with its number and reproduced with `--only I`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random

from bench.cells import ROOT
from bench.table import table
from bench.tools.mutation import mutated

CHUNK = 4000
"""Files that one process reads."""
SLOW_S = 3.0
"""Processor time above which the reading of a file is counted as slow."""
FORMATS = ("csv", "tsv", "json", "jsonl", "xlsx", "parquet", "arrow", "docx", "xml", "text", "lines")
OTHERS = ("csv.gz", "ratings", "benchmark.yaml", "run.json", "inspect .eval", "inspect .json", "lm-eval")


def seeds(folder: Path) -> dict[str, bytes]:
    """Return a whole file of each kind."""
    from medhelm.benchmarks.data.sample_rows import WRITERS
    from medhelm.domain import Source

    rows: list[dict[str, object]] = [
        {"name": "x", "text": f"Note {i}: cough, é", "line": "a", "id": f"q{i}", "red": ""} for i in range(5)
    ]
    found = {}
    for kind in FORMATS:
        path = folder / f"whole.{kind}"
        WRITERS[kind](rows[:1] if kind == "text" else rows, path, Source(kind=kind))
        found[kind] = path.read_bytes()
    path = folder / "whole.csv.gz"
    WRITERS["csv"](rows, path, Source(kind="csv"))
    fixtures = ROOT / "tests" / "fixtures"
    return found | {
        "csv.gz": path.read_bytes(),
        "ratings": b"rater,instance_id,benchmark,model,accuracy\nr1,q1,toy,m,5\nr1,q2,toy,m,4\nr2,q1,toy,m,3\n",
        "benchmark.yaml": (ROOT / "src/medhelm/benchmarks/library/pubmed_qa/benchmark.yaml").read_bytes(),
        "run.json": next((fixtures / "stores").rglob("run.json")).read_bytes(),
        "inspect .eval": (fixtures / "inspect" / "short_0.3.285.eval").read_bytes(),
        "inspect .json": (fixtures / "inspect" / "short_0.3.50.json").read_bytes(),
        "lm-eval": _lm_eval_samples().read_bytes(),
    }


def _lm_eval_samples() -> Path:
    return next((ROOT / "tests" / "fixtures" / "lm_eval" / "dummy").glob("samples_*.jsonl"))


def readers(folder: Path) -> Mapping[str, Callable[[bytes], object]]:
    """Return kind of file -> a function that reads one."""
    from medhelm.benchmarks.catalog import load_benchmarks
    from medhelm.benchmarks.data.readers import READERS
    from medhelm.domain import Source
    from medhelm.extensions.exchange.inspect.logs import read_inspect_log
    from medhelm.extensions.exchange.logs import read_lm_eval_samples
    from medhelm.io.spreadsheets import read_spreadsheet
    from medhelm.scoring.metrics import METRIC_NAMES
    from medhelm.storage.store import read_run

    samples = _lm_eval_samples()
    results = samples.with_name("results_2026-11-21T18-21-27.805998.json")
    (folder / results.name).write_bytes(results.read_bytes())

    def written(name: str, content: bytes) -> Path:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return path

    def rows(kind: str, suffix: str) -> Callable[[bytes], object]:
        return lambda content: list(READERS[kind](written(f"x.{suffix}", content), Source(kind=kind)))

    return {
        **{kind: rows(kind, kind) for kind in FORMATS},
        "csv.gz": rows("csv", "csv.gz"),
        "ratings": lambda content: read_spreadsheet(written("ratings.csv", content), {"rater", "instance_id"}),
        "benchmark.yaml": lambda content: load_benchmarks(
            [str(written("pubmed_qa/benchmark.yaml", content).parent)], metrics=METRIC_NAMES
        ),
        "run.json": lambda content: read_run(written("run.json", content)),
        "inspect .eval": lambda content: read_inspect_log(written("x.eval", content)),
        "inspect .json": lambda content: read_inspect_log(written("x.json", content)),
        "lm-eval": lambda content: read_lm_eval_samples(written(samples.name, content)),
    }


def read_chunk(seed: int, numbers: range) -> Counter[tuple[str, str]]:
    """Read some damaged files; count (kind, outcome), with the numbers of problems in the outcome."""
    from medhelm.errors import MedHelmError

    found: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory(prefix="medhelm-inputs-") as scratch:
        whole, read = seeds(Path(scratch)), readers(Path(scratch))
        for kind, content in whole.items():
            read[kind](content)  # a study of files that are refused anyway would find nothing
        for number in numbers:
            random = Random(f"{seed}/{number}")
            kind = (*FORMATS, *OTHERS)[number % (len(FORMATS) + len(OTHERS))]
            content = mutated(random, whole[kind])
            start = time.process_time()
            try:
                read[kind](content)
                outcome = "rows"
            except MedHelmError:
                outcome = "an error with advice"
            except Exception as error:  # noqa: BLE001 - any other one is what this study looks for
                outcome = f"{type(error).__name__} at {number}"
            found[kind, outcome] += 1
            if time.process_time() - start > SLOW_S:
                found[kind, f"slow at {number}"] += 1
    return found


def outcomes(seed: int, numbers: range) -> Iterator[Counter[tuple[str, str]]]:
    """Read damaged files in processes of their own; yield what each process counted."""
    for start in range(numbers.start, numbers.stop, CHUNK):
        end = min(start + CHUNK, numbers.stop)
        module = [sys.executable, "-m", "bench.studies.faulty_inputs"]
        command = [*module, "--seed", str(seed), "--chunk", f"{start}:{end}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            yield Counter({("all", f"a process ended with {done.returncode} between {start} and {end}"): 1})
        else:
            yield Counter({(kind, outcome): n for kind, outcome, n in json.loads(done.stdout)})


def study(inputs: int, seed: int = 1) -> tuple[str, bool]:
    """Return a table of the outcomes, and True if no file crashed a reader, raised something else or was slow."""
    total: Counter[tuple[str, str]] = Counter()
    for one in outcomes(seed, range(inputs)):
        total += one
    fine = ("rows", "an error with advice")
    problems = {key: n for key, n in total.items() if key[1] not in fine}
    lines = []
    for kind in (*FORMATS, *OTHERS):
        bad = sum(n for (one, _), n in problems.items() if one == kind)
        lines.append([kind, *(f"{total[kind, outcome]:,}" for outcome in fine), f"{bad}"])
    lines.append(["all", *(f"{sum(total[kind, one] for kind, *_ in lines):,}" for one in fine), f"{len(problems)}"])
    text = table(["damaged files", *fine, "problems"], lines)
    return "\n".join([text, *(f"- {kind}: {outcome}" for kind, outcome in problems)]), not problems


def main() -> int:
    """Print the table; the exit code is 1 if there is a problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="read this file in this process")
    parser.add_argument("--chunk", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.only is not None:
        print(read_chunk(asked.seed, range(asked.only, asked.only + 1)))
        return 0
    if asked.chunk:
        start, _, end = asked.chunk.partition(":")
        counted = read_chunk(asked.seed, range(int(start), int(end)))
        print(json.dumps([[kind, outcome, n] for (kind, outcome), n in counted.items()]))
        return 0
    text, good = study(asked.inputs, asked.seed)
    print(text)
    return int(not good)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())

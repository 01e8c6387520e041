"""CPU time of commands on an encrypted store, relative to the same store in plain form.

    .venv/bin/python -m bench.studies.encryption --data DIR --store STORE [--times N]

Measures a run of 1,000 instances and, on copies of STORE, which must not be encrypted, its leaderboard. Both forms are
measured in alternation, each command in a process of its own. `bench/tools/leaderboard_store.py` writes a large store.
"""

from __future__ import annotations

import argparse
import base64
import os
import resource
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

RUN = ("run", "pubmed_qa", "--model", "baseline/lexical", "--model", "baseline/random", "--limit", "1000")
ENVIRONMENT = {**os.environ, "MEDHELM_STORE_KEY": base64.b64encode(os.urandom(32)).decode()}


def cpu_seconds(command: Sequence[str], store: Path) -> float:
    """Give a command and return the CPU time of its process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [sys.executable, "-m", "medhelm", *command, "--store", str(store)]
    subprocess.run(words, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def report(name: str, times: int, measure: Callable[[bool], float]) -> None:
    """Print the medians of both forms, and their ratio."""
    plain, encrypted = zip(*((measure(False), measure(True)) for _ in range(times)), strict=True)
    a, b = statistics.median(plain), statistics.median(encrypted)
    print(f"{name:<30} plain {a:6.2f} s   encrypted {b:6.2f} s   {b / a:.2f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per benchmark")
    parser.add_argument("--store", type=Path, required=True, help="a plain store with many runs")
    parser.add_argument("--times", type=int, default=5, help="measurements of each")
    given = parser.parse_args()
    with TemporaryDirectory() as work:

        def run(is_encrypted: bool) -> float:
            store = Path(work, "run")
            shutil.rmtree(store, ignore_errors=True)
            if is_encrypted:
                cpu_seconds(["encrypt"], store)
            return cpu_seconds([*RUN, "--data", str(given.data)], store)

        report("run, 2 x 1,000 instances", given.times, run)
        stores = [Path(work, name) for name in ("plain", "encrypted")]
        for store in stores:
            shutil.copytree(given.store, store)
        cpu_seconds(["encrypt"], stores[1])
        report("leaderboard", given.times, lambda is_encrypted: cpu_seconds(["leaderboard"], stores[is_encrypted]))


if __name__ == "__main__":
    main()

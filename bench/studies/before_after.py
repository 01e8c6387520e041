"""Before and after a change: five times of one checkout relative to another one, measured in alternation.

    python -m bench.studies.before_after --before PYTHON [--rounds N] [--requests N] [--store DIR]

Run it in the project folder; `--before` is the interpreter of the other checkout's environment. It measures
`medhelm --help`, the cold start (see `cold_start.py`), a run of N synthetic questions against the server of `make
bench`, the leaderboard of a synthetic store, and the import of a synthetic HELM release. Both checkouts read the same
files, so that `--store` must name a store of the earlier one if that cannot read later ones. The exit code is 1 if a
ratio is above 1.05.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from bench.cells import TOOLS, environment
from bench.measure import Server, build_server, find_compiler, output_of, run_process
from bench.studies.cold_start import (
    AFTER,
    BEFORE,
    BENCHMARK,
    LIMIT_S,
    RATIO,
    FirstRequest,
    alternate,
    first_request_s,
    interpreters,
    options,
)
from bench.table import table
from bench.workloads.plain import write_benchmark

LIMIT = 1.05
"""Largest allowed ratio of after to before."""
STORE_SIZE = ("--models", "5", "--benchmarks", "20", "--instances", "200")
RELEASE_SIZE = ("--benchmarks", "5", "--models", "2", "--instances", "200")


def wall_s(python: str, words: Sequence[str], work: Path) -> float:
    """Return the seconds of one medhelm process, with a new folder for `{store}`. Raises SystemExit if it fails."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        command = [python, "-m", "medhelm", *(word.replace("{store}", f"{folder}/store") for word in words)]
        out = work / "last.out"
        measured = run_process(command, cwd=work, environment=environment(work), stdout=out, limit_s=LIMIT_S)
    if measured.exit_code != 0:
        message = out.with_suffix(".err").read_text(encoding="utf-8", errors="replace")
        raise SystemExit(f"before_after: {' '.join(command)} failed\n{message}")
    return measured.wall_s


def prepare(python: str, server: Server, requests: int, store: Path | None, work: Path) -> dict[str, list[str]]:
    """Write what the commands read, and return label -> arguments of medhelm. `store`: one that exists."""
    questions = write_benchmark(work / f"synthetic_{requests}", requests)
    release = work / "release"
    if store is None:
        store = work / "leaderboard-store"
        output_of([python, str(TOOLS / "leaderboard_store.py"), str(store), *STORE_SIZE])
    output_of([python, str(TOOLS / "helm_release.py"), str(release), *RELEASE_SIZE])
    model = f"openai/mock@{server.base_url}"
    return {
        "--help": ["--help"],
        f"run of {requests:,} requests": ["run", str(questions), "--model", model, "--store", "{store}", "--json"],
        "leaderboard": ["leaderboard", "--store", str(store), "--json"],
        "import of 2,000 HELM instances": ["import", "helm", str(release), "--store", "{store}", "--json"],
    }


def compare(
    pythons: Mapping[str, str], *, rounds: int, requests: int, store: Path | None, work: Path
) -> dict[str, dict[str, float]]:
    """Return label -> median seconds of each checkout, and their ratio."""
    compiler = find_compiler()
    if compiler is None:
        raise SystemExit("before_after: no C compiler. Install one (cc, gcc or clang), or name it in CC.")
    found = {}
    with Server(build_server(compiler, work), 0) as server, FirstRequest().running() as first:
        commands = prepare(pythons[AFTER], server, requests, store, work)
        found["cold start"] = alternate(
            {name: partial(first_request_s, python, first, BENCHMARK, work) for name, python in pythons.items()}, rounds
        )
        for label, words in commands.items():
            found[label] = alternate(
                {name: partial(wall_s, python, words, work) for name, python in pythons.items()}, rounds
            )
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Run the study."""
    parser = options(__doc__, rounds=3)
    parser.add_argument("--requests", type=int, default=2000, help="questions of the run (default 2000)")
    parser.add_argument(
        "--store", type=Path, metavar="DIR", help="store of the leaderboard; a synthetic one if missing"
    )
    chosen = parser.parse_args(words)
    if not chosen.before:
        parser.error("--before is required: the interpreter of the checkout to compare with")
    with tempfile.TemporaryDirectory(prefix="medhelm-before-after-") as work:
        found = compare(
            interpreters(chosen),
            rounds=chosen.rounds,
            requests=chosen.requests,
            store=chosen.store and chosen.store.resolve(),
            work=Path(work).resolve(),
        )
    if chosen.json:
        print(json.dumps(found, indent=1))
    else:
        lines = [
            [
                label,
                f"{values[BEFORE]:.3f} s",
                f"{values[AFTER]:.3f} s",
                f"{values[RATIO]:.2f}",
                "met" if values[RATIO] <= LIMIT else "missed",
            ]
            for label, values in found.items()
        ]
        print(table(["median", BEFORE, AFTER, RATIO, f"goal <= {LIMIT}"], lines))
    return 1 if any(values[RATIO] > LIMIT for values in found.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Processor time of finding cases in stores of 333,000 records: the first page, searches, and one case.

    .venv/bin/python -m bench.studies.case_search [--most RECORDS] [--keep FOLDER]

Goals: the first page within 0.3 s, a search within 1 s. One store is the suite, with 1,000 instances of each benchmark;
the other has all records in one benchmark, which is the hardest case. Records and prompts are synthetic; prompts have
about 1,000 characters. Times are the best of three, in one process, after the first request has loaded the modules.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from time import process_time

from bench.tools.leaderboard_store import SENTENCES, Size, list_runs, write
from medhelm.domain import Instance, Message, Prompt, Reference
from medhelm.extensions.web.cases.case import BenchmarkCases, find_case, open_cases
from medhelm.extensions.web.cases.listing import CaseList, compare_outcomes, find_cases, locate_case
from medhelm.extensions.web.cases.search import CaseSearch
from medhelm.storage.runs import read_columns, write_prompts
from medhelm.storage.store import Store

SIZES = (Size(models=9, benchmarks=37, instances=1_000), Size(models=9, benchmarks=1, instances=37_000))
"""The stores."""

TIMES = 3
"""Repetitions; the best one counts."""

SEARCHES: Mapping[str, CaseSearch] = {
    "text in completions": CaseSearch(text="chest tightness", within="completion"),
    "text in prompts": CaseSearch(text="chest tightness", within="prompt"),
    "text that is nowhere": CaseSearch(text="quetiapine"),
    "wrong, worst first": CaseSearch(show="wrong", sort="worst"),
    "models differ, most first": CaseSearch(show="different", sort="spread"),
    "a range of scores": CaseSearch(low=0.2, high=0.8),
    "failed": CaseSearch(show="failed"),
}
"""Searches by name."""


def measured(size: Size, folder: Path) -> dict[str, float]:
    """Write a store unless `folder` holds it, and return seconds of processor time by request."""
    if not folder.exists():
        write(folder, size)
    first = list_runs(folder)[0].benchmark
    add_prompts(folder, first)

    def opened() -> BenchmarkCases:
        return open_cases([folder], first)

    cases = opened()
    item = find_cases(cases, CaseSearch()).items[-1]
    models = cases.models
    requests: dict[str, Callable[[], object]] = {"first page": lambda: find_cases(opened(), CaseSearch())}
    for name, search in SEARCHES.items():
        requests[f"search: {name}"] = partial(find_cases_anew, opened, search)
    requests["one case"] = lambda: find_case(opened(), item.key)
    requests["next and previous"] = lambda: locate_case(opened(), CaseSearch(show="wrong"), item.row.instance_id)
    requests["two models"] = lambda: compare_outcomes(opened(), models[0], models[1])
    return {name: min(_seconds(request) for _ in range(TIMES)) for name, request in requests.items()}


def find_cases_anew(opened: Callable[[], BenchmarkCases], search: CaseSearch) -> CaseList:
    """Select the runs and return the first page of a search, as the server does for each request."""
    return find_cases(opened(), search)


def add_prompts(folder: Path, benchmark: str) -> None:
    """Write the prompts of a benchmark, unless they exist."""
    run = next(run for run in list_runs(folder) if run.benchmark == benchmark)
    path = Store(folder).prompts_file(benchmark, run.benchmark_digest, run.data_digest)
    ids = read_columns(run, ["instance_id"])["instance_id"]
    write_prompts(path, ((_instance(name), _prompt(n)) for n, name in enumerate(ids)))


def _instance(name: str) -> Instance:
    return Instance(id=name, fields={}, references=(Reference("A"),))


def _prompt(n: int) -> Prompt:
    sentences = (SENTENCES[(n * 7 + k * k) % len(SENTENCES)] for k in range(12))
    return Prompt((Message("user", f"Read the note.\n\nNote {n}: {' '.join(sentences)}\n\nAnswer:"),))


def _seconds(request: Callable[[], object]) -> float:
    started = process_time()
    request()
    return process_time() - started


def main() -> None:
    """Print a table with one row for each request and one column for each store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=333_000, metavar="RECORDS", help="leave out larger stores")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="folder for the stores, which are kept")
    options = parser.parse_args()
    sizes = [size for size in SIZES if size.records <= options.most]
    with tempfile.TemporaryDirectory() as temporary:
        work = options.keep or Path(temporary)
        columns = [measured(size, work / f"cases-{size.benchmarks}") for size in sizes]
    heads = [f"{size.records:,} records, {size.instances:,} instances of the benchmark" for size in sizes]
    print(f"| request | {' | '.join(heads)} |")
    print(f"|---|{'---|' * len(heads)}")
    for name in columns[0] if columns else ():
        print(f"| {name} | {' | '.join(f'{column[name]:.2f} s' for column in columns)} |")


if __name__ == "__main__":
    main()

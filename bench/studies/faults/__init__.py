"""Faults: kills, a server that misbehaves, and damaged files. Everything stays on 127.0.0.1.

    python -m bench.studies.faults [--kills N] [--inputs N] [--only kills,disk,chaos,inputs]
        [--requests N] [--ways direct,gateway] [--trials N] [--commands NAME,...] [--kinds NAME,...]

Kills: each command is killed before one of its changes to files (renames, removals, new folders, files opened for
writing, databases opened), evenly chosen, or at a random time. Then every run must be readable, the same command must
succeed, and the records must be those of an undisturbed run. Disk: see `bench.studies.faults.disk`. Chaos:
`bench.tools.chaos_server` answers a share of the
requests with faults, directly and behind a gateway. Inputs: see `bench.studies.faulty_inputs`. The exit code is 1 if
anything was lost.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from bench.cells import ROOT, environment
from bench.studies import faulty_inputs
from bench.table import table
from bench.tools.chaos_server import STORM
from tests.support.servers.batch_apis import BatchServer
from tests.support.servers.vendors import OPENAI

CONCURRENCY = 4
"""Requests in flight of a command that is killed."""
LIMIT_S, CHAOS_LIMIT_S = 300.0, 1800.0
"""Time limits of one process, and of a run against a server that misbehaves."""

_KILLED_BEFORE = """
import atexit, os, signal, sys
place, at = sys.argv[1], int(sys.argv[2])
sys.argv[:3] = ["medhelm"]
EVENTS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "sqlite3.connect"}
count = 0
def hook(event, arguments):
    global count
    if event == "open":
        path, _, flags = arguments
        changes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR) and place in str(path)
    else:
        changes = event in EVENTS
    if changes:
        count += 1
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
atexit.register(lambda: print("changes", count, file=sys.stderr))
from medhelm.evaluation import batches
batches.FIRST_POLL_S = 0.1
from medhelm.__main__ import start
start()
"""
"""Runs medhelm and kills it before the change to files with this number; 0 counts them. Batches are looked at often."""

CHOICE = """\
name: toy
title: Toy
description: Toy questions with two options.
taxonomy: {category: clinical_decision_support, subcategory: planning_treatments, task: Play}
access: public
license: CC0-1.0
source: {kind: jsonl, files: {rows.jsonl: ""}}
id: id
choices: [good, bad]
answer: {column: answer, form: letter}
prompt: |
  Question {question}
  {options}
  Answer:
max_tokens: 5
metrics: [exact_match]
"""
JUDGED = """\
name: letters
title: Letters
description: Toy questions with answers in free text.
taxonomy: {category: patient_communication_and_education, subcategory: patient_provider_messaging, task: Write}
access: public
license: CC0-1.0
source: {kind: jsonl, files: {rows.jsonl: ""}}
id: id
answer: answer
prompt: |
  Question {question}
  Answer:
max_tokens: 50
metrics: [jury]
rubric:
  task: You see a question, the answer of a model, and a reference. Grade the answer of the model.
  criteria: {accuracy: Is it right?, clarity: Is it plain?}
"""


def make_benchmark(folder: Path, definition: str, n: int) -> Path:
    """Write a benchmark with `n` questions."""
    place = folder / definition.split()[1]
    place.mkdir(parents=True, exist_ok=True)
    (place / "benchmark.yaml").write_text(definition, encoding="utf-8")
    rows = [json.dumps({"id": f"q{i}", "question": f"number {i}?", "answer": "A"}) + "\n" for i in range(n)]
    (place / "rows.jsonl").write_text("".join(rows), encoding="utf-8")
    (place / "sample.jsonl").write_text("".join(rows[:3]), encoding="utf-8")
    return place


class Chaos:
    """A model server that counts what it answers twice."""

    def __init__(self, port: int) -> None:
        """`port`: where it listens."""
        self.url = f"http://127.0.0.1:{port}"

    def stats(self) -> dict[str, Any]:
        """Return the server's counts."""
        with urllib.request.urlopen(f"{self.url}/stats", timeout=60) as response:
            found: dict[str, Any] = json.load(response)
        return found

    def model(self, name: str) -> str:
        """Return the full name of a model on the server."""
        return f"openai/{name}@{self.url}/v1"


class BatchChaos(Chaos):
    """The same for batches, whose server runs in this process."""

    def __init__(self, server: BatchServer) -> None:
        """`server`: completes each batch when it is first looked at."""
        self.url = server.url
        self._server = server
        server.looks = 0
        server.answer_with(lambda _body: OPENAI.answer("A"))

    def stats(self) -> dict[str, Any]:
        """Return the number of requests that came more than once, in batches or alone."""
        alone = Counter(json.dumps(body, sort_keys=True) for body in self._server.direct)
        return {"twice": sum(n - 1 for n in (*self._server.handed_over.values(), *alone.values()))}


@contextmanager
def chaos_server(*options: str) -> Iterator[Chaos]:
    """Run the server."""
    command = [sys.executable, "-m", "bench.tools.chaos_server", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Chaos(int(process.stdout.readline()))
        finally:
            process.kill()


def medhelm(
    work: Path, *words: str, kill_before: int = -1, kill_after_s: float = 0.0, limit_s: float = LIMIT_S
) -> tuple[int, str]:
    """Run a command, killed before a change or after a time if asked; return its exit code and messages."""
    start = ["-c", _KILLED_BEFORE, str(work), str(kill_before)] if kill_before >= 0 else ["-m", "medhelm"]
    command = [sys.executable, *start, *words]
    with subprocess.Popen(
        command, cwd=work, env=environment(work), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            _, said = process.communicate(timeout=kill_after_s or limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            _, said = process.communicate()
    return process.returncode, said


# --- kills ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A command that is killed."""

    name: str
    """Name in the table."""
    words: Sequence[str]
    """The command, with {model}, {judge} and {store}."""
    prepared: str = ""
    """Name of the folder that its store is a copy of; empty for a new store."""
    server: Chaos
    """The server of its models."""


def kill_study(kills: int, seed: int, work: Path) -> tuple[str, bool]:
    """Return a table of the kills, and True if nothing was lost or paid twice beyond what was in flight."""
    toy, letters = make_benchmark(work, CHOICE, 40), make_benchmark(work, JUDGED, 15)
    store = ("--store", "{store}")
    common = (*store, "--concurrency", str(CONCURRENCY))
    with chaos_server("--share", "0", "--latency", "0.02") as server, BatchServer() as batch_server:
        run = ("run", str(toy), "--model", "{model}", *common)
        judges = ("run", str(letters), "--model", "{model}", "--judge", "{judge}", *common)
        whole = work / "whole"
        for words in (run, judges):
            code, said = medhelm(work, *_filled(words, server, "whole", whole))
            assert code == 0, said
        folders = ("--benchmarks", str(work))
        code, said = medhelm(work, "export", "helm", str(work / "helm"), "--store", str(whole), *folders)
        assert code == 0, said
        jobs = [
            Work(name="run", words=run, server=server),
            Work(name="run with a judge", words=judges, server=server),
            Work(name="run in batches", words=(*run, "--batch"), server=BatchChaos(batch_server)),
            Work(name="rescore", words=("rescore", str(toy), *store), prepared="whole", server=server),
            Work(name="import helm", words=("import", "helm", str(work / "helm"), *store, *folders), server=server),
            Work(name="release", words=("release", "r1", *store), prepared="whole", server=server),
        ]
        lines, good = [], True
        for number, job in enumerate(jobs):
            share = kills // len(jobs) + (number < kills % len(jobs))
            line, fine = _kill(job, share, Random(f"{seed}/{job.name}"), work)
            lines.append(line)
            good = good and fine
    headings = [
        "killed command",
        "kills",
        "changes",
        "unreadable",
        "unfinished",
        "lost",
        "paid twice",
        "at most",
    ]
    return table(headings, lines), good


def _filled(words: Sequence[str], server: Chaos, name: str, store: Path) -> list[str]:
    """Fill in the models and the store of a command."""
    values = {"model": server.model(name), "judge": server.model(f"judge-{name}"), "store": str(store)}
    return [word.format(**values) for word in words]


def _kill(job: Work, kills: int, random: Random, work: Path) -> tuple[list[str], bool]:
    """Kill one command again and again; return a line of the table, and whether all is well."""
    expected, changes, seconds = _undisturbed(job, work)
    server = job.server
    points = random.sample(range(1, changes + 1), min(changes, kills // 2))
    before = server.stats()["twice"]
    n_killed = unfinished = lost = 0
    unreadable = []
    for number in range(kills):
        name = f"{job.name.replace(' ', '-')}-{number}"
        store = _store_for(job, work, name)
        words = _filled(job.words, server, name, store)
        if number < len(points):
            code, _ = medhelm(work, *words, kill_before=points[number])
        else:
            code, _ = medhelm(work, *words, kill_after_s=random.uniform(0.3, 1.0) * seconds)
        n_killed += code < 0
        if problem := _problem_reading(store):
            unreadable.append(f"kill {number} of {job.name}: {problem}")
        code, said = medhelm(work, *words, kill_before=0)
        done_before = job.name == "release" and "r1" in said and code == 2
        unfinished += code != 0 and not done_before
        lost += records_of(store) != expected
        shutil.rmtree(store, ignore_errors=True)
    twice = server.stats()["twice"] - before
    most = n_killed * CONCURRENCY
    print("".join(f"{problem}\n" for problem in unreadable), end="", file=sys.stderr)
    cells = [n_killed, changes, len(unreadable), unfinished, lost, twice, most]
    return [job.name, *map(str, cells)], not (unreadable or unfinished or lost) and twice <= most


def _undisturbed(job: Work, work: Path) -> tuple[list[Any], int, float]:
    """Run a command to its end; return its records, its changes to files, and its seconds."""
    store = _store_for(job, work, f"{job.name.replace(' ', '-')}-undisturbed")
    started = time.perf_counter()
    code, said = medhelm(work, *_filled(job.words, job.server, store.name, store), kill_before=0)
    seconds = time.perf_counter() - started
    assert code == 0, said
    return records_of(store), int(said.rpartition("changes ")[2]), seconds


def _store_for(job: Work, work: Path, name: str) -> Path:
    """Return the folder of a store for one kill, a copy of a whole one where the command needs it."""
    store = work / "stores" / name
    shutil.rmtree(store, ignore_errors=True)
    if job.prepared:
        shutil.copytree(work / job.prepared, store)
    return store


def _problem_reading(store: Path) -> str:
    """Return the error or warning that reading a store gives; empty if all its runs are whole."""
    from medhelm.errors import StoreError
    from medhelm.storage.damage import intact_runs
    from medhelm.storage.runs import load_runs
    from medhelm.storage.store import open_store

    if not (store / "store.json").is_file():
        return ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            intact_runs(load_runs(open_store(store)))
    except (StoreError, Warning) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def records_of(store: Path) -> list[Any]:
    """Return the completions and scores of all runs of a store, without names and times that differ each time."""
    from medhelm.storage.runs import load_runs, read_records
    from medhelm.storage.store import open_store

    changing = {"latency_s", "received", "request_digest", "reported_model", "fingerprint"}
    return [
        [run.benchmark, run.status, run.n, run.n_failed]
        + [{key: value for key, value in row.items() if key not in changing} for row in read_records(run)]
        for run in load_runs(open_store(store))
    ]


# --- a server that misbehaves -----------------------------------------------------------------------------------------


LATENCY_S = 0.5
"""Seconds that the server takes for each reply, faults included."""

STORM_EVERY_S, STORM_S = 10.0, 1.0
"""Period and length of the storms, in which the server refuses everything."""

CASES: Mapping[str, tuple[str, ...]] = {
    "none": ("--share", "0"),
    "5% of 429 and 503": ("--share", "0.05", "--kinds", "429,503"),
    "20% of all kinds, storms": ("--share", "0.2", "--storm", f"{STORM_EVERY_S},{STORM_S}"),
}
"""Faults -> options of the server. The last case is that of the goal."""

TIMEOUT_S = "5"
"""Longest wait for a reply. A reply that is later was paid for in vain, so this is long for a busy machine."""

MOST_COMPARED = 5_000
"""Most requests of a case other than the last, which are there for comparison."""

MOST_COMMANDS = 3
"""Commands that a run may take until no request has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weathered:
    """A run against a server that misbehaves."""

    sent: int
    """Requests that the server received."""
    n: int
    """Instances in the end."""
    n_failed: Sequence[int]
    """Failed requests after each command."""
    unexplained: int
    """Failed requests without a reason, in all."""
    twice: int
    """Prompts that got more than one good reply."""
    seconds: float
    """Seconds of the first command, without the start of the process."""
    good_share: float
    """Share of good replies outside storms, until then."""
    faults: Mapping[str, int]
    """Fault -> how often it was made."""

    @property
    def per_s(self) -> float:
        """Instances of the first command per second."""
        return (self.n - self.n_failed[0]) / self.seconds


def chaos_study(requests: int, ways: Sequence[str], seed: int, work: Path) -> tuple[str, bool]:
    """Return a table of runs, directly or through a gateway; True if nothing was lost or paid twice.

    What the good replies allow is the rate without faults, times the share of good replies, times the share of the time
    without storms.
    """
    whole = make_benchmark(work, CHOICE, requests)
    part = make_benchmark(work / "part", CHOICE, min(requests, MOST_COMPARED))
    lines, good, faults = [], True, Counter[str]()
    for way in ways:
        rate = 0.0
        for number, (case, options) in enumerate(CASES.items()):
            is_last = number == len(CASES) - 1
            with chaos_server(*options, "--latency", str(LATENCY_S), "--seed", str(seed)) as server:
                found = _weather(whole if is_last else part, server, work / f"{way}-{number}", way)
            rate = rate or found.per_s
            calm = 1 - STORM_S / STORM_EVERY_S if STORM in found.faults else 1.0
            counts = [found.sent, found.n, found.n_failed[0], len(found.n_failed), found.n_failed[-1]]
            lines.append(
                [
                    f"{way}: {case}",
                    *(f"{one:,}" for one in (*counts, found.unexplained, found.twice)),
                    f"{found.per_s:.0f}",
                    f"{found.per_s / (rate * found.good_share * calm):.0%}",
                ]
            )
            faults.update(found.faults)
            is_whole = found.n == (requests if is_last else min(requests, MOST_COMPARED))
            good = good and is_whole and not (found.n_failed[-1] or found.unexplained or found.twice)
            print(" | ".join(lines[-1]), file=sys.stderr, flush=True)
    headings = ["faults", "requests", "instances", "failed", "commands", "failed in the end", "without a reason"]
    headings += ["paid twice", "instances/s", "of what good replies allow"]
    kinds = ", ".join(f"{kind} {n:,}" for kind, n in faults.most_common())
    return f"{table(headings, lines)}\n\n{faults.total():,} faults of {len(faults)} kinds: {kinds}", good


def _weather(benchmark: Path, server: Chaos, work: Path, way: str) -> Weathered:
    """Run a benchmark, directly or through a gateway, until nothing fails."""
    store = work / "store"
    work.mkdir()
    (work / "models.yaml").write_text(f"m: {{base_url: '{server.url}/v1', model: m}}\n", encoding="utf-8")
    words = ["run", str(benchmark), "--model", "m", "--store", str(store)]
    runs: list[dict[str, Any]] = []
    failures: defaultdict[str, list[str]] = defaultdict(list)
    first: dict[str, Any] = {}
    with _gateway(work) if way == "gateway" else nullcontext(["--timeout", TIMEOUT_S]) as options:
        while not runs or (runs[-1]["n_failed"] and len(runs) < MOST_COMMANDS):
            code, said = medhelm(work, *words, *options, limit_s=CHAOS_LIMIT_S)
            assert code in (0, 1), said
            (file,) = store.glob("runs/*/*/run.json")
            runs.append(json.loads(file.read_text(encoding="utf-8")))
            for instance, failure in _failures(store):
                failures[instance].append(failure)
            first = first or server.stats()
    stats = server.stats()
    for body, outcomes in stats["paid_twice"].items():
        instance = "q" + body.partition("number ")[2].partition("?")[0]
        print(f"{way}: {instance} was paid for twice: {outcomes}; failures: {failures[instance]}", file=sys.stderr)
    return Weathered(
        sent=stats["requests"],
        n=runs[-1]["n"],
        n_failed=[run["n_failed"] for run in runs],
        unexplained=sum(run["n_failed"] - sum(run["failures"].values()) for run in runs),
        twice=stats["twice"],
        seconds=runs[0]["seconds"],
        good_share=first["good"] / (first["requests"] - first["faults"].get(STORM, 0)),
        faults=stats["faults"],
    )


def _failures(store: Path) -> list[tuple[str, str]]:
    """Return the instance and the message of each failed request of the only run of a store."""
    from medhelm.storage.runs import load_runs, read_records
    from medhelm.storage.store import open_store

    (run,) = load_runs(open_store(store))
    return [(row["instance_id"], row["failure_message"]) for row in read_records(run) if row["failure_code"]]


@contextmanager
def _gateway(work: Path) -> Iterator[list[str]]:
    """Run a gateway for the models of models.yaml; yield the options of its workers."""
    address = work / "g.sock"
    options = ["--socket", str(address), "--store", "gate", "--timeout", TIMEOUT_S]
    command = [sys.executable, "-m", "medhelm", "gateway", *options]
    with (work / "gateway.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=work, env=environment(work), stdout=log, stderr=log)
        try:
            yield ["--gateway", f"unix:{address}"]  # a worker waits until the gateway listens
        finally:
            process.kill()
            process.wait()


# --- all --------------------------------------------------------------------------------------------------------------


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def main() -> int:
    """Print the tables; the exit code is 1 if anything was lost."""
    from bench.studies.faults import disk  # lazy: it imports from here

    parser = argparse.ArgumentParser(
        prog="python -m bench.studies.faults",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--ways", default="direct,gateway", metavar="NAME,...")
    parser.add_argument("--inputs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=300, help="disk errors, kills and signals in all")
    parser.add_argument("--commands", default="", metavar="NAME,...", help="commands to disturb, all by default")
    parser.add_argument("--kinds", default="", metavar="NAME,...", help="what disturbs them, such as EIO,SIGKILL")
    parser.add_argument("--only", default="kills,disk,chaos,inputs", metavar="NAME,...")
    asked = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory(prefix="medhelm-faults-") as scratch:
        studies = {
            "kills": lambda: kill_study(asked.kills, asked.seed, Path(scratch) / "kills"),
            "disk": lambda: disk.study(
                asked.trials, asked.seed, Path(scratch) / "disk", _names(asked.commands), _names(asked.kinds)
            ),
            "chaos": lambda: chaos_study(asked.requests, asked.ways.split(","), asked.seed, Path(scratch) / "chaos"),
            "inputs": lambda: faulty_inputs.study(asked.inputs, asked.seed),
        }
        for name in asked.only.split(","):
            began = time.perf_counter()
            text, fine = studies[name]()
            good = good and fine
            print(
                f"{text}\n\n{name}: {'passed' if fine else 'FAILED'}, {time.perf_counter() - began:.0f} s\n", flush=True
            )
    return int(not good)

"""Disk errors, kills and signals at every change to files, in every command that writes.

    python -m bench.studies.faults --only disk [--trials N] [--commands run,merge] [--kinds EIO,SIGKILL] [--seed N]

A library that is loaded with LD_PRELOAD (`disk_faults.c`, compiled when the study starts) fails the n-th change to a
file below the store, the output or the temporary folder: write, fsync, rename, mkdir, unlink, or an opening that
creates. The error is EIO, ENOSPC or EBADF, once or from then on (a disk that stays full); or the process is killed,
interrupted once or twice, terminated or hung up. Calls that read fail as well, once or from then on. Each trial is a
process forked from one that has imported everything.

After each trial, every run that was complete must be complete and readable, in its old or its new version. The same
command must then succeed, with the result of an undisturbed one, without leftovers, and without buying anything again
that was not in flight. No traceback may be shown, and the exit code must be one of those in the contract.
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import gc
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, NoReturn

from bench.cells import ROOT, environment
from bench.studies.faults import CHOICE, JUDGED, Chaos, chaos_server, make_benchmark
from bench.table import table

LIMIT_S = 120.0
"""Seconds after which a command counts as hung."""

CONCURRENCY = 4
"""Requests in flight."""

EXIT_CODES = {0, 1, 2, 3, 4, 130}
"""Exit codes of the contract."""

LIBRARY = "MEDHELM_DISK_FAULTS"
"""Environment variable with the path of the compiled library, in the process that has loaded it."""


class Unavailable(Exception):  # noqa: N818 - a state of the machine
    """Faults cannot be injected on this machine."""


class Fault(NamedTuple):
    """What happens at a change to files."""

    number: int
    """An errno, or a negative signal."""
    is_sticky: bool = False
    """All later changes fail as well; of a signal: a second one follows."""
    of_reads: bool = False
    """It happens at a call that reads, instead of at a change."""


NOTHING = Fault(0)
"""No fault."""

FAULTS: Mapping[str, Fault] = {
    "EIO": Fault(errno.EIO),
    "ENOSPC": Fault(errno.ENOSPC),
    "EBADF": Fault(errno.EBADF),
    "full": Fault(errno.ENOSPC, is_sticky=True),
    "EIO when reading": Fault(errno.EIO, of_reads=True),
    "unreadable": Fault(errno.EIO, is_sticky=True, of_reads=True),
    "SIGKILL": Fault(-signal.SIGKILL),
    "SIGINT": Fault(-signal.SIGINT),
    "SIGINT twice": Fault(-signal.SIGINT, is_sticky=True),
    "SIGTERM": Fault(-signal.SIGTERM),
    "SIGHUP": Fault(-signal.SIGHUP),
}
"""Name -> fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command that is disturbed."""

    words: Sequence[str]
    """Its words, in a folder with `store`, the benchmarks `toy` and `letters`, and models.yaml."""
    prepared: str = ""
    """Name of the folder that its own is a copy of; empty for one without a store."""
    is_once: bool = False
    """Repeated after success, it refuses with exit code 2, because its work is done."""
    buys_again: bool = False
    """Repeated, it asks for completions anew."""


_RUN = ("run", "toy", "letters", "--model", "m1", "--model", "m2", "--judge", "j1", "--concurrency", str(CONCURRENCY))
_OWN = ("--benchmarks", ".")

COMMANDS: Mapping[str, Command] = {
    "run": Command(words=_RUN),
    "run again": Command(words=_RUN, prepared="whole"),
    "run in an encrypted store": Command(words=_RUN, prepared="encrypted"),
    "run --fresh": Command(words=(*_RUN, "--fresh"), prepared="whole", buys_again=True),
    "rescore": Command(words=("rescore", *_OWN), prepared="whole"),
    "rescore in an encrypted store": Command(words=("rescore", *_OWN), prepared="encrypted"),
    "rejudge": Command(words=("rejudge", "letters", "--judge", "j2", "--min-judges", "1"), prepared="whole"),
    "merge": Command(words=("merge", "shards/a", "shards/b", *_OWN), prepared="shards"),
    "import": Command(words=("import", "helm", "helm", *_OWN), prepared="helm"),
    "import again": Command(words=("import", "helm", "helm", *_OWN), prepared="imported"),
    "import --rescore": Command(words=("import", "helm", "helm", "--rescore", *_OWN), prepared="helm"),
    "purge": Command(words=("purge", "--benchmark", "letters", "--yes"), prepared="whole", is_once=True),
    "runs remove": Command(words=("runs", "remove", "--benchmark", "letters", "--yes"), prepared="whole", is_once=True),
    "runs restore": Command(words=("runs", "restore"), prepared="removed", is_once=True),
    "runs purge": Command(words=("runs", "purge", "--yes"), prepared="removed"),
    "release": Command(words=("release", "r1"), prepared="whole", is_once=True),
    "encrypt": Command(words=("encrypt",), prepared="whole"),
    "decrypt": Command(words=("decrypt",), prepared="encrypted"),
    "budget set": Command(words=("budget", "set", "5"), prepared="whole"),
    "export csv": Command(words=("export", "csv", "out", *_OWN), prepared="whole"),
    "export parquet": Command(words=("export", "parquet", "out", *_OWN), prepared="whole"),
    "export helm": Command(words=("export", "helm", "out", *_OWN), prepared="whole"),
    "export card": Command(words=("export", "card", "out", *_OWN), prepared="whole"),
    "export site": Command(words=("export", "site", "out", "--with-text", *_OWN), prepared="whole"),
    "report": Command(words=("report", "out", *_OWN), prepared="whole"),
    "leaderboard": Command(words=("leaderboard", "--format", "csv", "-o", "out/board.csv"), prepared="whole"),
    "agreement sample": Command(
        words=("agreement", "sample", "out/rate.csv", "--size", "3"), prepared="whole", is_once=True
    ),
    "benchmarks new": Command(words=("benchmarks", "new", "sepsis", "--out", "out"), prepared="whole", is_once=True),
    "benchmarks new --from": Command(
        words=("benchmarks", "new", "sepsis", "--out", "out", "--from", "rows.csv"), prepared="whole", is_once=True
    ),
}
"""Name -> a command that writes."""


_IMPORTED = """
asyncio sqlite3 duckdb numpy scipy.stats aiohttp filelock medhelm.evaluation.runner medhelm.evaluation.rescore
medhelm.evaluation.evaluate medhelm.evaluation.python_api medhelm.extensions.cluster.shards
medhelm.evaluation.check
medhelm.scoring.jury.panel medhelm.analysis.ratios medhelm.storage.audit
medhelm.results.leaderboard medhelm.extensions.paper medhelm.results.runs.purge medhelm.extensions.vault.commands
medhelm.extensions.exchange.helm.importer medhelm.extensions.web.export
""".split()  # noqa: SIM905
"""Modules that commands import."""

# --- the process that forks -------------------------------------------------------------------------------------------


def compile_library(folder: Path) -> Path:
    """Compile the library. Raises: Unavailable where that is impossible, with the reason."""
    if platform.system() != "Linux":
        raise Unavailable("LD_PRELOAD needs Linux")
    compiler = shutil.which("cc")
    if compiler is None:
        raise Unavailable("there is no C compiler (cc)")
    library = folder / "disk_faults.so"
    source = Path(__file__).with_name("disk_faults.c")
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Unavailable(f"cc cannot compile {source.name}: {done.stderr[-500:]}")
    return library


def study(
    trials: int, seed: int, work: Path, commands: Sequence[str] = (), kinds: Sequence[str] = ()
) -> tuple[str, bool]:
    """Return a table of the trials, and True if nothing was lost. Raises: Unavailable."""
    work.mkdir(parents=True, exist_ok=True)
    library = compile_library(work)
    options = {"trials": trials, "seed": seed, "work": str(work), "commands": list(commands), "kinds": list(kinds)}
    with chaos_server("--share", "0") as server:
        done = subprocess.run(
            [sys.executable, "-m", __spec__.name if __spec__ else __name__, json.dumps({**options, "url": server.url})],
            cwd=ROOT,
            env={**environment(work), "LD_PRELOAD": str(library), LIBRARY: str(library)},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    return done.stdout.strip(), done.returncode == 0


class Faults:
    """The library, loaded into this process."""

    def __init__(self) -> None:
        """Find its functions. Raises: KeyError if it is not loaded."""
        self._library = ctypes.CDLL(os.environ[LIBRARY])
        self._library.disk_fault_calls.restype = ctypes.c_long
        self._library.disk_fault_count.restype = ctypes.c_long
        self._library.disk_fault_place.restype = ctypes.c_char_p

    def arm(self, folders: Sequence[Path], at: int, fault: Fault) -> None:
        """Fail the change with this number, from 1; 0 only counts."""
        places = ":".join(map(str, folders)).encode()
        self._library.disk_fault_arm(places, ctypes.c_long(at), fault.number, int(fault.is_sticky), int(fault.of_reads))

    @property
    def n_changes(self) -> int:
        """Number of changes of the last armed process."""
        return int(self._library.disk_fault_calls())

    @property
    def place(self) -> str:
        """The call that failed, and its path; empty if none did."""
        return str(self._library.disk_fault_place().decode()) if self._library.disk_fault_count() else ""


def _fork(work: Callable[[], NoReturn]) -> int:
    """Run a function in a forked process of its own group; return its exit code, negative for a signal."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            work()
        finally:  # it ends with os._exit: here is an error
            traceback.print_exception(sys.exc_info()[1])
            os._exit(99)
    ended = time.monotonic() + LIMIT_S
    pause = 0.001
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > ended:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -999
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)


def _is_encrypted(manifest: Path) -> bool:
    """Return True if a store is encrypted, or being converted."""
    from medhelm.extensions.vault.cipher import SECTION

    return manifest.is_file() and SECTION in manifest.read_text(encoding="utf-8")


def _as_program(place: Path, words: Sequence[str], output: str) -> None:
    """Make this forked process look like one that was started in a folder."""
    os.chdir(place / "home")
    for number, name in ((1, f"{output}.out"), (2, f"{output}.err")):
        descriptor = os.open(place / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    tempfile.tempdir = None
    os.environ.update(
        TMPDIR=str(place / "tmp"),
        HOME=str(place / "home"),
        XDG_CONFIG_HOME=str(place / "home/config"),
        MEDHELM_STORE=str(place / "home/store"),
    )
    os.environ.pop("MEDHELM_STORE_KEY", None)  # a store that is not encrypted is refused if there is a key
    if words[:1] == ("encrypt",) or _is_encrypted(place / "home/store/store.json"):
        os.environ["MEDHELM_STORE_KEY"] = "00" * 32
    sys.argv = ["medhelm", *words]
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.default_int_handler if one == signal.SIGINT else signal.SIG_DFL)


# --- what a folder holds ----------------------------------------------------------------------------------------------

_CHANGING = {"latency_s", "received", "request_digest", "reported_model", "fingerprint"}
_LEFT = (".medhelm-", ".new-", ".old-", ".purged-")


def _contents(home: Path) -> dict[str, Any]:
    """Return what matters in a folder: runs with their records, releases, and the names of other outputs."""
    from medhelm.errors import MedHelmError
    from medhelm.storage.judgments import read_replies
    from medhelm.storage.run_folders import read_removals
    from medhelm.storage.runs import load_runs, read_records
    from medhelm.storage.store import open_store

    found: dict[str, Any] = {"runs": {}, "damaged": []}
    store = home / "store"
    if (store / "store.json").is_file():
        opened = open_store(store)
        removed = [one.run for removal in read_removals(opened) for one in removal.runs if one.run]
        for run in [*load_runs(opened), *removed]:
            name = f"{run.benchmark} {run.model} {'fresh' if run.fresh else run.id[:8]} {run in removed}"
            try:
                rows = [{k: v for k, v in row.items() if k not in _CHANGING} for row in read_records(run)]
                judges = sorted((*key, len(replies)) for key, replies in read_replies(run).items())
                found["runs"][name] = [run.status, run.n, run.n_failed, repr(rows), repr(judges)]
            except MedHelmError as error:
                found["damaged"].append(f"{name}: {error}")
    others = [path for path in home.rglob("*") if path.is_file() and not path.is_relative_to(store / "runs")]
    found["files"] = sorted(
        name
        for path in others
        if (name := path.relative_to(home).as_posix())
        and not any(part.startswith(".") for part in path.parts)
        and not name.startswith(("store/locks", "store/derived", "store/running", "store/removed", "store/hosts"))
        and not name.endswith(("-wal", "-shm", "-journal"))
    )
    return found


def _leftovers(place: Path) -> list[str]:
    found = [path for folder in ("home", "tmp") for path in (place / folder).rglob(".*")]
    return [str(path.relative_to(place)) for path in found if path.name.startswith(_LEFT)]


@dataclass(slots=True)
class Result:
    """Counts of one command."""

    trials: int = 0
    changes: int = 0
    lost: int = 0
    tracebacks: int = 0
    unfinished: int = 0
    leftovers: int = 0
    bought_again: int = 0
    codes: Counter[int] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Whole:
    """A command that was not disturbed."""

    command: Command
    """The command."""
    before: Mapping[str, Any]
    """Contents of its folder before."""
    after: Mapping[str, Any]
    """Contents afterwards."""
    bought: int
    """Completions that it, and its repetition after success, buy."""


class Trials:
    """Runs trials in folders below one of its own."""

    def __init__(self, work: Path, server: Chaos) -> None:
        """`server`: answers as all models."""
        self.work, self.server = work, server
        self.faults = Faults()
        self.place = ""
        """The call of the last trial that failed, and its path."""

    def command(
        self, place: Path, words: Sequence[str], at: int = 0, fault: Fault = NOTHING, name: str = "first"
    ) -> int:
        """Run a command in a folder, and return its exit code."""
        from medhelm.__main__ import start

        def run() -> NoReturn:
            _as_program(place, words, name)
            self.faults.arm((place / "home", place / "tmp"), at, fault)
            start()
            os._exit(98)

        return _fork(run)

    def contents(self, place: Path) -> dict[str, Any]:
        """Return the contents of a folder, as a new process reads them, or `error`."""

        def read() -> NoReturn:
            import warnings

            _as_program(place, (), "read")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = _contents(place / "home")
            (place / "contents.json").write_text(json.dumps(found), encoding="utf-8")
            atexit._run_exitfuncs()
            os._exit(0)

        (place / "contents.json").unlink(missing_ok=True)
        code = _fork(read)
        if code:
            return {
                "error": f"{code}: " + (place / "read.err").read_text()[-600:],
                "runs": {},
                "damaged": [],
                "files": [],
            }
        content: dict[str, Any] = json.loads((place / "contents.json").read_text(encoding="utf-8"))
        return content

    def new(self, name: str, prepared: str) -> Path:
        """Return a new folder with a copy of a prepared one in it."""
        place = self.work / name
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.work / "prepared" / (prepared or "plain"), place / "home", symlinks=True)
        (place / "tmp").mkdir()
        return place

    def prepare(self) -> None:
        """Make the folders that commands begin with."""
        plain = self.work / "plain" / "home"
        plain.mkdir(parents=True)
        (plain.parent / "tmp").mkdir()
        make_benchmark(plain, CHOICE, 9)
        make_benchmark(plain, JUDGED, 5)
        (plain / "out").mkdir()
        (plain / "rows.csv").write_text("id,question,answer\n1,why?,yes\n2,how?,no\n3,who?,yes\n", encoding="utf-8")
        models = [
            f"{name}: {{base_url: '{self.server.url}/v1', model: {remote}, price: {{input: 1, output: 1}}}}\n"
            for name, remote in (("m1", "m1"), ("m2", "m2"), ("j1", "judge1"), ("j2", "judge2"))
        ]
        (plain / "models.yaml").write_text("".join(models), encoding="utf-8")
        self._keep(plain.parent, "plain")
        steps: list[tuple[str, str, list[Sequence[str]]]] = [
            ("whole", "plain", [_RUN]),
            ("encrypted", "whole", [("encrypt",)]),
            ("removed", "whole", [("runs", "remove", "--benchmark", "letters", "--yes")]),
            ("exported", "whole", [("export", "helm", "helm", *_OWN)]),
            (
                "shards",
                "plain",
                [(*_RUN, "--shard", f"{i}/2", "--store", f"shards/{n}") for i, n in ((1, "a"), (2, "b"))],
            ),
        ]
        for name, before, commands in steps:
            place = self.new(name, before)
            for words in commands:
                self._must(place, words)
            self._keep(place, name)
        helm = self.new("helm", "plain")
        shutil.copytree(self.work / "prepared/exported/helm", helm / "home/helm")
        self._keep(helm, "helm")
        imported = self.new("imported", "helm")
        self._must(imported, ("import", "helm", "helm", *_OWN))
        self._keep(imported, "imported")

    def _must(self, place: Path, words: Sequence[str]) -> None:
        code = self.command(place, words)
        if code:
            raise RuntimeError(f"{words}: exit code {code}\n{(place / 'first.err').read_text()}")

    def _keep(self, place: Path, name: str) -> None:
        (self.work / "prepared").mkdir(exist_ok=True)
        shutil.move(place / "home", self.work / "prepared" / name)
        shutil.rmtree(place)

    # --- one command --------------------------------------------------------------------------------------------------

    def disturb(self, name: str, n: int, kinds: Sequence[str], random: Random) -> tuple[Result, list[str]]:
        """Disturb one command n times; return the counts and the problems."""
        command, result = COMMANDS[name], Result()
        place = self.new("undisturbed", command.prepared)
        before, bought = self.contents(place), self._n_bought()
        self._must(place, command.words)
        changes = {False: self.faults.n_changes}
        whole = Whole(command, before, self.contents(place), (self._n_bought() - bought) * (1 + command.buys_again))
        problems: list[str] = []
        for number in range(n):
            kind = kinds[number % len(kinds)]
            fault = FAULTS[kind]
            if fault.of_reads not in changes:
                self.command(self.new("undisturbed", command.prepared), command.words, fault=Fault(0, of_reads=True))
                changes[True] = self.faults.n_changes
            at = _change(number // len(kinds), -(-n // len(kinds)), changes[fault.of_reads], random)
            if found := self._trial(whole, at, fault, result):
                problems.append(f"{name}, {kind} at call {at} of {changes} ({self.place}): {'; '.join(found)}")
                print(problems[-1], file=sys.stderr, flush=True)
        result.changes = changes[False]
        return result, problems

    def _n_bought(self) -> int:
        return int(self.server.stats()["good"])

    def _trial(self, whole: Whole, at: int, fault: Fault, result: Result) -> list[str]:
        """Run one trial; return its problems."""
        command, bought = whole.command, self._n_bought()
        place = self.new("trial", command.prepared)
        code = self.command(place, command.words, at, fault)
        self.place = self.faults.place
        result.trials += 1
        result.codes[code] += 1
        problems = []
        said = (place / "first.err").read_text(errors="replace")
        if "Traceback" in said or code not in EXIT_CODES | ({fault.number} if fault.number < 0 else set()):
            result.tracebacks += 1
            problems.append(f"exit code {code}: {said[-1500:].strip()}")
        if lost := _lost(whole, self.contents(place)):
            result.lost += 1
            problems += lost
        again = self.command(place, command.words, name="second")
        final = self.contents(place)
        if again and not (command.is_once and again == 2):
            said = (place / "second.err").read_text(errors="replace")
            result.unfinished += 1
            problems.append(f"repeated: exit code {again}: {said[-800:].strip()}")
        elif final != whole.after:
            result.unfinished += 1
            problems.append(f"repeated: {_difference(whole.after, final)}")
        if again == 2 and _leftovers(
            place
        ):  # it did not get as far as to write; the next command that does clears them
            self.command(place, COMMANDS["leaderboard"].words, name="third")
        if left := _leftovers(place):
            result.leftovers += 1
            problems.append(f"leftovers: {left[:4]}")
        bought = self._n_bought() - bought
        if bought > whole.bought + 2 * CONCURRENCY:
            result.bought_again += 1
            problems.append(f"bought {bought} completions instead of {whole.bought}")
        return problems


def _change(number: int, n: int, changes: int, random: Random) -> int:
    """Return the change that one of n trials disturbs: each in turn if there are enough trials, else spread evenly."""
    if n >= changes:
        return number % changes + 1
    return min(changes, int((number + random.random()) * changes / n) + 1)


def _lost(whole: Whole, now: Mapping[str, Any]) -> list[str]:
    """Return which runs that were complete are neither as before nor as in the end, and what else cannot be read."""
    if "is being converted" in now.get("error", ""):  # `encrypt` continues; what it leaves is read in the end
        return []
    problems = [now["error"]] if "error" in now else list(now["damaged"])
    for name, run in whole.before["runs"].items():
        end = whole.after["runs"].get(name)
        if not any(one is not None and one in (run, end) for one in _versions(name, now)):
            is_deleted = end is None and not any(_versions(name, whole.after))
            problems += [] if is_deleted else [f"lost: {name}, now {[one and one[:3] for one in _versions(name, now)]}"]
    return problems


def _versions(name: str, contents: Mapping[str, Any]) -> list[Any]:
    """Return a run by its name in contents, whether it was removed or not; None for one that is not there."""
    run = name.rpartition(" ")[0]
    return [contents["runs"].get(f"{run} {is_removed}") for is_removed in (True, False)]


def _difference(expected: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Return in words how two contents differ."""
    if "error" in found:
        return str(found["error"])
    words = []
    for key in ("runs", "files", "damaged"):
        if expected[key] != found[key]:
            missing = [one for one in expected[key] if one not in found[key]]
            more = [one for one in found[key] if one not in expected[key]]
            words.append(f"{key} differ: missing {missing[:3]}, more {more[:3]}")
    return "; ".join(words)


def _import_everything() -> None:
    """Import what commands import, so that a forked process need not."""
    from medhelm.cli import cli

    for name in cli.commands:
        cli.commands[name]
    for name in _IMPORTED:
        import_module(name)


def main(options: Mapping[str, Any]) -> int:
    """Run the trials, print the table, and return 1 if anything was lost."""
    os.environ.pop("LD_PRELOAD", None)
    os.umask(0o077)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    trials = Trials(Path(options["work"]), Chaos(int(options["url"].rpartition(":")[2])))
    _import_everything()
    gc.freeze()
    trials.prepare()
    names = options["commands"] or list(COMMANDS)
    kinds = options["kinds"] or list(FAULTS)
    lines, n_problems = [], 0
    for number, name in enumerate(names):
        share = options["trials"] // len(names) + (number < options["trials"] % len(names))
        if not share:
            continue
        result, problems = trials.disturb(name, share, kinds, Random(f"{options['seed']}/{name}"))
        n_problems += len(problems)
        counts = [result.trials, result.changes, result.lost, result.tracebacks, result.unfinished, result.leftovers]
        lines.append([name, *map(str, [*counts, result.bought_again])])
        print(" | ".join(lines[-1]), dict(result.codes), file=sys.stderr, flush=True)
    columns = [sum(int(line[i]) for line in lines) for i in (1, 3, 4, 5, 6, 7)]
    lines.append(["all", str(columns[0]), "", *map(str, columns[1:])])
    headings = ["command", "trials", "changes", "lost", "tracebacks", "unfinished", "leftovers", "bought again"]
    print(table(headings, lines))
    return int(n_problems > 0)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))

"""Cold start: the time from process start of `medhelm run` until its first request reaches the server.

    python -m bench.studies.cold_start [--before PYTHON] [--rounds N] [--benchmark NAME]

Run it in the project folder. It also measures how long a process takes that only imports the modules of Python and of
other libraries that are loaded by then, and counts the modules and lines of code of medhelm. With `--before`, the
interpreter of another checkout's environment, both checkouts are measured in alternation on the same machine, and the
last column is their ratio.
"""

from __future__ import annotations

import argparse
import ast
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

from bench.cells import environment
from bench.table import table
from bench.tools.fake_vllm import Api

BEFORE, AFTER, RATIO = "before", "after", "ratio"
BENCHMARK = "pubmed_qa"
LIMIT_S = 60.0
"""Time limit of one process."""

_LIST_MODULES = """
import json, runpy, sys
def hook(event, arguments):
    if event == "socket.connect" and not done and arguments[1][1:2] == (int(port),):
        done.append(True)
        names = {True: [], False: []}
        for name, module in list(sys.modules.items()):
            own = name.partition(".")[0] == "medhelm"
            names[own].append(getattr(module, "__file__", None) if own else name)
        with open(file, "w", encoding="utf-8") as out:
            json.dump([[path for path in names[True] if path], names[False]], out)
done = []
file, port = sys.argv[1:3]
sys.argv[:3] = ["medhelm"]
sys.addaudithook(hook)
runpy.run_module("medhelm", run_name="__main__", alter_sys=True)
"""
"""Runs medhelm and writes, when it connects to the port, the files of its modules and the names of all others."""

_IMPORT = """
import contextlib, importlib, json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    names = json.load(file)[1]
for name in names:
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
"""
"""Imports the others alone."""


class FirstRequest:
    """A chat server on 127.0.0.1 that notes when the first completion is requested."""

    def __init__(self) -> None:
        """Bind a free port."""
        self.arrived_s: float | None = None
        """Clock at the arrival of the first request since the last reset; None before it."""
        first = self

        class Handler(Api):
            """Notes the time, then answers."""

            def answer(self, body: object) -> None:
                """Send some JSON."""
                if self.command == "POST":
                    first.arrived_s = first.arrived_s or time.perf_counter()
                super().answer(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]

    @contextmanager
    def running(self) -> Iterator[FirstRequest]:
        """Serve until the block ends."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()

    def run_words(self, benchmark: str, store: Path) -> list[str]:
        """Return the medhelm arguments of a run of one sample instance against this server."""
        model = f"openai/m@http://127.0.0.1:{self.port}/v1"
        words = ["run", benchmark, "--tier", "sample", "--limit", "1", "--model", model]
        return [*words, "--store", str(store), "--json"]


def run_python(python: str, words: Sequence[str], work: Path) -> None:
    """Run an interpreter to its end. Raises SystemExit with its message if it fails."""
    command = [python, *words]
    done = subprocess.run(
        command, cwd=work, env=environment(work), capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    if done.returncode != 0:
        raise SystemExit(f"cold_start: {' '.join(command[:4])} ... failed\n{done.stderr}")


def first_request_s(python: str, server: FirstRequest, benchmark: str, work: Path) -> float:
    """Return seconds from process start to the first request, for a new store."""
    with tempfile.TemporaryDirectory(dir=work) as store:
        server.arrived_s = None
        started = time.perf_counter()
        run_python(python, ["-m", "medhelm", *server.run_words(benchmark, Path(store) / "store")], work)
        if server.arrived_s is None:
            raise SystemExit(f"cold_start: {python} sent no request")
        return server.arrived_s - started


def loaded_modules(python: str, server: FirstRequest, benchmark: str, work: Path) -> tuple[list[Path], Path]:
    """Return the files of the medhelm modules that are loaded when the process connects to the server.

    Also returns a file in `work` with the names of all other modules, for `libraries_s`.
    """
    with tempfile.TemporaryDirectory(dir=work) as folder:
        words = server.run_words(benchmark, Path(folder) / "store")
        listing = work / f"{Path(folder).name}.json"
        run_python(python, ["-c", _LIST_MODULES, str(listing), str(server.port), *words], work)
    return [Path(path) for path in json.loads(listing.read_text(encoding="utf-8"))[0]], listing


def libraries_s(python: str, listing: Path, work: Path) -> float:
    """Return seconds of a process that only imports the other modules of `loaded_modules`."""
    started = time.perf_counter()
    run_python(python, ["-c", _IMPORT, str(listing)], work)
    return time.perf_counter() - started


def code_lines(path: Path) -> int:
    """Count the lines of a Python file with code: no blank lines, comments or docstrings."""
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines: set[int] = set()
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in layout and token.type != tokenize.ENCODING:
                lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def alternate(measures: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Call every measure once per round, in alternating order; return medians, and their `ratio` if there are two.

    The ratio is the median of the ratios within the rounds, so that a machine that gets slower or faster affects both
    alike. One more round, at the beginning, is not counted: it compiles modules and fills the disk cache.
    """
    values: dict[str, list[float]] = {name: [] for name in measures}
    for number in range(rounds + 1):
        for name in list(measures)[:: 1 if number % 2 else -1]:
            value = measures[name]()
            if number:
                values[name].append(value)
    found = {name: statistics.median(of_name) for name, of_name in values.items()}
    if BEFORE in values:
        ratios = [after / before for before, after in zip(values[BEFORE], values[AFTER], strict=True)]
        found[RATIO] = statistics.median(ratios)
    return found


def interpreters(chosen: argparse.Namespace) -> dict[str, str]:
    """Return the interpreters to compare, `before` first if it is given."""
    before = {BEFORE: str(chosen.before.absolute())} if chosen.before else {}
    return before | {AFTER: str(chosen.python.absolute())}


def options(description: str | None, rounds: int) -> argparse.ArgumentParser:
    """Return a parser with the options of a comparison."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, metavar="PYTHON", help="interpreter of the checkout to compare with")
    parser.add_argument(
        "--python", type=Path, default=Path(sys.executable), help="interpreter to measure (default: this one)"
    )
    parser.add_argument("--rounds", type=int, default=rounds, help=f"runs of each, in alternation (default {rounds})")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser


def compare(pythons: Mapping[str, str], *, rounds: int, benchmark: str, work: Path) -> dict[str, dict[str, float]]:
    """Return measure -> checkout, or `ratio` -> value: milliseconds, modules, and lines of code."""
    with FirstRequest().running() as server:
        seconds = alternate(
            {name: partial(first_request_s, python, server, benchmark, work) for name, python in pythons.items()},
            rounds,
        )
        loaded = {name: loaded_modules(python, server, benchmark, work) for name, python in pythons.items()}
    files = {name: paths for name, (paths, _) in loaded.items()}
    libraries = alternate(
        {name: partial(libraries_s, python, loaded[name][1], work) for name, python in pythons.items()}, rounds
    )
    own = {name: seconds[name] - libraries[name] for name in pythons}
    found = {
        "first request, ms": {name: value if name == RATIO else value * 1000 for name, value in seconds.items()},
        "Python and libraries alone, ms": {
            name: value if name == RATIO else value * 1000 for name, value in libraries.items()
        },
        "the rest, ms": {name: value * 1000 for name, value in own.items()},
        "medhelm modules loaded": {name: float(len(paths)) for name, paths in files.items()},
        "lines of code in them": {name: float(sum(map(code_lines, paths))) for name, paths in files.items()},
    }
    for values in found.values():
        if BEFORE in values:
            values.setdefault(RATIO, values[AFTER] / values[BEFORE])
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Run the study."""
    parser = options(__doc__, rounds=7)
    parser.add_argument("--benchmark", default=BENCHMARK, help=f"benchmark of the sample tier (default {BENCHMARK})")
    chosen = parser.parse_args(words)
    pythons = interpreters(chosen)
    with tempfile.TemporaryDirectory(prefix="medhelm-cold-start-") as work:
        found = compare(pythons, rounds=chosen.rounds, benchmark=chosen.benchmark, work=Path(work))
    if chosen.json:
        print(json.dumps(found, indent=1))
        return 0
    columns = [*pythons, *([RATIO] if BEFORE in pythons else [])]
    lines = [
        [label, *(f"{values[name]:.2f}" if name == RATIO else f"{values[name]:,.0f}" for name in columns)]
        for label, values in found.items()
    ]
    print(table([f"cold start, {chosen.benchmark}", *columns], lines))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

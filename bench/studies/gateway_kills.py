"""Kills of a gateway and its workers at random moments. Everything stays on 127.0.0.1.

    python -m bench.studies.gateway_kills [--kills N] [--seed N]

In each round a gateway and two workers, with stores of their own, evaluate one model on one benchmark. Some times in a
row one of the three, drawn at random, is killed once the server has received a random number of requests, and started
again with the same command. In the
end both workers must have the records of an undisturbed run, a request may have been paid for twice only if it was in
flight when the gateway was killed, and what the server has billed must be within the budget. Every third round has a
budget that does not suffice; it is raised at the end. The exit code is 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import IO, Any

from bench.cells import environment
from bench.studies.faults import CHOICE, Chaos, chaos_server, make_benchmark, records_of
from bench.table import table

N, CONCURRENCY = 150, 4
"""Instances of the benchmark, and requests in flight of a gateway."""

KILLS_A_ROUND = 5

AMPLE_USD, TIGHT_USD = 10_000, 160
"""Budgets. The server bills a dollar for each request; the most that one can cost are about 20 dollars."""

PRICE = "{input: 50000, output: 0}"

LONGEST_WAIT_S = 8.0
"""Longest wait for the moment of a kill: the budget may be used up."""

LIMIT_S = 120.0
"""Time limit of one process."""

GATEWAY, WORKERS = "gateway", ("worker-1", "worker-2")


@dataclass(slots=True)
class Result:
    """Sums over all rounds."""

    killed: Counter[str] = field(default_factory=Counter)
    """Process -> how often it was killed."""
    unfinished: int = 0
    lost: int = 0
    """Workers that did not end, and those whose records differ."""
    twice: int = 0
    """Requests that were paid for twice."""
    in_flight: int = 0
    """Most requests that can have been in flight at the gateway's kills."""
    over: int = 0
    """Rounds in which the server billed more than the budget."""

    @property
    def is_good(self) -> bool:
        """Return True if nothing was lost, or paid twice beyond what was in flight."""
        return not (self.unfinished or self.lost or self.over) and self.twice <= self.in_flight


class Round:
    """One gateway and two workers."""

    def __init__(self, folder: Path, benchmark: Path, server: Chaos, model: str, budget_usd: int) -> None:
        """Write the gateway's models.yaml; nothing is started."""
        folder.mkdir()
        self.folder = folder
        definition = f"{{base_url: '{server.url}/v1', model: {model}, price: {PRICE}}}"
        (folder / "models.yaml").write_text(f"{model}: {definition}\n", encoding="utf-8")
        address = folder / "g.sock"
        gateway = ["gateway", "--socket", str(address), "--store", "gateway", "--concurrency", str(CONCURRENCY)]
        run = ["run", str(benchmark), "--model", model, "--gateway", f"unix:{address}", "--give-up-after", "60"]
        self._commands = {GATEWAY: gateway, **{name: [*run, "--store", name] for name in WORKERS}}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: list[IO[bytes]] = []
        self.set_budget(budget_usd)

    def set_budget(self, usd: int) -> None:
        """Set the limit of the gateway's store."""
        self._call("budget", "set", str(usd), "--store", "gateway")

    def release(self) -> None:
        """Stop counting what requests of killed gateways may have cost."""
        self._call("budget", "release", "--store", "gateway")

    def _call(self, *words: str) -> None:
        command = [sys.executable, "-m", "medhelm", *words]
        subprocess.run(command, cwd=self.folder, env=environment(self.folder), check=True, stdout=subprocess.DEVNULL)

    def start(self, name: str) -> None:
        """Start a process with its command."""
        log = (self.folder / f"{name}.log").open("ab")
        self._logs.append(log)
        command = [sys.executable, "-m", "medhelm", *self._commands[name]]
        self._processes[name] = subprocess.Popen(
            command, cwd=self.folder, env=environment(self.folder), stdout=log, stderr=log
        )

    def kill(self, name: str) -> None:
        """Kill a process and wait for its end."""
        self._processes[name].kill()
        self._processes[name].wait()

    def code(self, name: str) -> int:
        """Wait for the end of a process; return its exit code, -1 if it does not end."""
        with suppress(subprocess.TimeoutExpired):
            return self._processes[name].wait(LIMIT_S)
        return -1

    def has_ended(self, name: str) -> bool:
        """Return True if a process has ended by itself."""
        return self._processes[name].poll() is not None

    def close(self) -> None:
        """Kill what is left."""
        for process in self._processes.values():
            process.kill()
            process.wait()
        for log in self._logs:
            log.close()


def play(
    one: Round, kills: int, random: Random, server: Chaos, result: Result, expected: list[Any], *, tight: bool
) -> None:
    """Kill processes of a round, start them again, and check the outcome."""
    before = server.stats()["requests"]
    for name in (GATEWAY, *WORKERS):
        one.start(name)
    n_gateway = 0
    for moment in sorted(random.sample(range(N), kills)):
        victim = random.choice((GATEWAY, *WORKERS))
        _wait_for(server, before + moment)
        n_gateway += victim == GATEWAY
        result.killed[victim] += 1
        one.kill(victim)
        one.start(victim)
    codes = [one.code(name) for name in WORKERS]
    if tight and 3 in codes:
        one.kill(GATEWAY)
        n_gateway += 1
        one.release()
        one.set_budget(AMPLE_USD)
        for name in (GATEWAY, *WORKERS):
            one.start(name)
        codes = [one.code(name) for name in WORKERS]
    result.in_flight += n_gateway * CONCURRENCY
    result.unfinished += sum(code != 0 for code in codes)
    for name, code in zip(WORKERS, codes, strict=True):
        result.lost += code == 0 and records_of(one.folder / name) != expected


def _wait_for(server: Chaos, requests: int) -> None:
    """Wait until the server has received so many requests, or until nothing comes any more."""
    deadline = time.monotonic() + LONGEST_WAIT_S
    while server.stats()["requests"] < requests and time.monotonic() < deadline:
        time.sleep(0.01)


def study(kills: int, seed: int, work: Path) -> tuple[str, Result]:
    """Return a table of all rounds, and their sums."""
    result, random = Result(), Random(seed)
    benchmark = make_benchmark(work, CHOICE, N)
    with chaos_server("--share", "0", "--latency", "0.05") as server:
        expected = _undisturbed(work, benchmark, server)
        left = kills
        while left > 0:
            number = sum(result.killed.values())
            tight = number // KILLS_A_ROUND % 3 == 2
            budget = TIGHT_USD if tight else AMPLE_USD
            before = server.stats()
            one = Round(work / f"round-{number}", benchmark, server, f"m{number}", budget)
            try:
                if tight:
                    _spend_all(one, server, before, budget, result)
                play(one, min(left, KILLS_A_ROUND), random, server, result, expected, tight=tight)
            finally:
                one.close()
            result.twice += server.stats()["twice"] - before["twice"]
            left -= KILLS_A_ROUND
            shutil.rmtree(one.folder, ignore_errors=True)
    cells = [result.killed[name] for name in (GATEWAY, *WORKERS)]
    cells += [result.unfinished, result.lost, result.twice, result.in_flight, result.over]
    headings = ["gateway killed", "worker 1", "worker 2", "unfinished", "lost", "paid twice", "at most", "over budget"]
    return table(headings, [[str(cell) for cell in cells]]), result


def _spend_all(one: Round, server: Chaos, before: dict[str, Any], budget: int, result: Result) -> None:
    """Let both workers run until the budget stops them, with a kill of the gateway in the middle."""
    for name in (GATEWAY, *WORKERS):
        one.start(name)
    _wait_for(server, before["requests"] + budget // 8)
    one.kill(GATEWAY)
    result.killed[GATEWAY] += 1
    result.in_flight += CONCURRENCY
    one.start(GATEWAY)
    for name in WORKERS:
        one.code(name)
    one.kill(GATEWAY)
    result.over += server.stats()["requests"] - before["requests"] > budget


def _undisturbed(work: Path, benchmark: Path, server: Chaos) -> list[Any]:
    """Return the records of an undisturbed run without a gateway."""
    one = Round(work / "undisturbed", benchmark, server, "m", AMPLE_USD)
    command = [sys.executable, "-m", "medhelm", "run", str(benchmark), "--model", "m", "--store", "direct"]
    subprocess.run(command, cwd=one.folder, env=environment(one.folder), check=True, capture_output=True)
    return records_of(one.folder / "direct")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; the exit code is 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="medhelm-gateway-kills-") as scratch:
        text, result = study(asked.kills, asked.seed, Path(scratch))
    verdict = "passed" if result.is_good else "FAILED"
    print(f"{text}\n\n{sum(result.killed.values())} kills: {verdict}, {time.perf_counter() - began:.0f} s")
    print(json.dumps(dict(result.killed)), file=sys.stderr)
    return int(not result.is_good)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())

#!/usr/bin/env python3
"""Throughput of a pool of servers while servers die and join, as a share of what the living ones can complete.

    .venv/bin/python -m bench.studies.replicas                 # about a minute

Servers on this machine work on 20 requests at a time, each for 0.5 s, so that all of them together leave the processors
time to spare. "Of the living" is the number of completions,
divided by what the servers that lived would complete in the same time at the rate of one server alone, without a pool.
A dead server is killed with SIGKILL; its address stays in the file. A server that joins counts from its start on,
before its address is read. The last rows compare where prompts with the same long beginning go: a beginning that n
servers have had is computed n times, at best once.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from medhelm.domain import Message, Model, Prompt, Request
from medhelm.extensions.cluster import server_pool as replicas
from medhelm.io.http.client import HttpClient
from medhelm.models.addresses import policy_for
from medhelm.models.budget import Budget
from medhelm.models.cache import Cache
from medhelm.models.catalog import find_models
from medhelm.models.client import Client, SendingLimits
from medhelm.models.providers import open_provider
from medhelm.results.formats.tables import render as table

SLOTS, SECONDS = 20, 0.5
"""Requests that a server works on at a time, and seconds for each."""

LANES = 3 * SLOTS * 3 // 2
QUESTIONS = 10
"""Prompts with the same beginning."""


class Server:
    """One server, as a process."""

    def __init__(self, log: Path) -> None:
        """Start it; `log`: file of what it delivers."""
        command = ["-m", "bench.tools.capacity_server", "--slots", str(SLOTS), "--seconds", str(SECONDS)]
        self.log = log
        self._process = subprocess.Popen(
            [sys.executable, *command, "--log", str(log)], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}/v1"

    def kill(self) -> None:
        """Kill it, as often as called."""
        self._process.kill()
        self._process.wait()

    def delivered(self) -> list[str]:
        """Return the prompts whose completions it delivered."""
        return self.log.read_text().split() if self.log.exists() else []


@dataclass(frozen=True, slots=True)
class Event:
    """A change of the pool."""

    after: float
    """Share of the requests that are done by then."""
    kind: str
    """`dies` or `joins`."""


SCENARIOS: dict[str, Sequence[Event]] = {
    "one server, no pool": (),
    "three servers": (),
    "one dies": (Event(1 / 3, "dies"),),
    "one joins": (Event(1 / 3, "joins"),),
    "one dies, then one joins": (Event(1 / 3, "dies"), Event(2 / 3, "joins")),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the requests of one scenario."""

    n: int
    seconds: float
    server_seconds: float
    """Seconds that the servers lived, in all."""
    sent: int
    failed: int
    twice: int
    """Prompts with more than one completion delivered."""


def run(folder: Path, events: Sequence[Event], n: int, n_servers: int = 3) -> Outcome:
    """Send `n` requests while the pool changes; one server gets them without a pool."""
    servers = [Server(folder / f"{number}.log") for number in range(n_servers)]
    file = folder / "endpoints.txt"
    file.write_text("".join(f"{server.url}\n" for server in servers))
    try:
        return asyncio.run(_run(folder, file, servers, events, n))
    finally:
        for server in servers:
            server.kill()


async def _run(folder: Path, file: Path, servers: list[Server], events: Sequence[Event], n: int) -> Outcome:
    place = f"file:{file}" if len(servers) > 1 else servers[0].url
    (model,) = find_models([f"openai/mock@{place}"], environment={})
    http = HttpClient(policy_for([model], offline=True))
    started, done, failed = perf_counter(), 0, 0
    lives = [[server, started, 0.0] for server in servers]
    waiting = iter(events)
    upcoming = next(waiting, None)
    numbers = iter(range(n))
    with closing(Cache(folder / "cache.sqlite")) as cache:
        client = Client(cache=cache, budget=Budget(), limits=SendingLimits(start=SLOTS, maximum=SLOTS))
        provider = open_provider(model, http, environment={})

        async def lane() -> None:
            nonlocal done, failed, upcoming
            for number in numbers:
                result = await client.complete(provider, request(model, str(number)))
                done += 1
                failed += result.completion.text is None
                if upcoming and done >= upcoming.after * n:
                    event, upcoming = upcoming, next(waiting, None)
                    if event.kind == "dies":
                        servers[0].kill()
                        lives[0][2] = perf_counter()
                    else:
                        servers.append(await asyncio.to_thread(Server, folder / f"{len(servers)}.log"))
                        lives.append([servers[-1], perf_counter(), 0.0])
                        with file.open("a") as lines:
                            lines.write(f"{servers[-1].url}\n")

        await asyncio.gather(*[lane() for _ in range(LANES * 4 // 3)])
        await http.close()
    ended = perf_counter()
    lived = sum((died or ended) - born for _, born, died in lives)  # type: ignore[operator]
    delivered = Counter(prompt for server in servers for prompt in server.delivered())
    return Outcome(n, ended - started, lived, client.requests_sent, failed, sum(k > 1 for k in delivered.values()))


def request(model: Model, text: str) -> Request:
    """Return a request that begins with `text`."""
    return Request(model=model, prompt=Prompt((Message("user", f"{text} ?"),)), max_tokens=1)


def beginnings(folder: Path, n: int) -> float:
    """Return how many servers compute a beginning on average, for `n` prompts, ten with each beginning."""
    servers = [Server(folder / f"{number}.log") for number in range(3)]
    names = [f"openai/mock@{','.join(server.url for server in servers)}"]
    (model,) = find_models(names, environment={})

    async def ask() -> None:
        http = HttpClient(policy_for([model], offline=True))
        provider = open_provider(model, http, environment={})
        client = Client(cache=None, budget=Budget(), limits=SendingLimits(start=SLOTS, maximum=SLOTS))
        prompts = _prompts(n)

        async def lane() -> None:
            for text in prompts:
                await client.complete(provider, request(model, text))

        await asyncio.gather(*[lane() for _ in range(LANES)])
        await http.close()

    try:
        asyncio.run(ask())
        return sum(len(set(server.delivered())) for server in servers) / (n / QUESTIONS)
    finally:
        for server in servers:
            server.kill()


def _prompts(n: int) -> Iterator[str]:
    """Yield prompts as a suite sends them: those of 30 notes mixed."""
    per_block = 30 * QUESTIONS
    for number in range(n):
        block, place = divmod(number, per_block)
        yield f"note-{block * 30 + place % 30} {'x' * 3000} question {place // 30}"


def main() -> None:
    """Print two tables in Markdown."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--requests", type=int, default=3000)
    n = options.parse_args().requests
    rows: list[list[str | int]] = []
    alone = 0.0
    for name, events in SCENARIOS.items():
        n_servers = 3 if alone else 1
        with tempfile.TemporaryDirectory() as folder:
            found = run(Path(folder), events, n if alone else n // 3, n_servers)
        alone = alone or found.n / found.server_seconds
        share = f"{found.n / found.server_seconds / alone:.0%}"
        rows.append([name, f"{found.n:,}", f"{found.n / found.seconds:.0f}", share, found.failed, found.twice])
    headers = ["pool", "requests", "completions/s", "of the living", "failed", "bought twice"]
    print(table(rows, headers, format="md"))
    lengths, homes = replicas.PREFIX_LENGTHS, []
    for name, compared in (("with the same beginning to the same server", lengths), ("to the least busy server", ())):
        replicas.PREFIX_LENGTHS = compared  # type: ignore[assignment]
        with tempfile.TemporaryDirectory() as folder:
            homes.append([name, f"{beginnings(Path(folder), n // 4):.2f}"])
    replicas.PREFIX_LENGTHS = lengths
    print(table(homes, ["prompts go", "servers that compute a beginning"], format="md"))


if __name__ == "__main__":
    main()

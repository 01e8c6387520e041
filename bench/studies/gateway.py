"""CPU time of the gateway per request, and requests per second through it.

    python -m bench.studies.gateway [--requests N] [--repeat N] [--write-readme]

The model answers within the process that calls it, so that the gateway alone is measured: `direct` is one process with
cache and locks; `worker` is a worker's connection to a gateway with the same cache and locks; `OpenAI's API` is one
HTTP request each. CPU time is that of all processes together, and of the gateway alone. Ratios are to `direct`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import aiohttp

from bench.cells import ROOT
from bench.table import table
from bench.tools.gateway_server import MODEL, Instant, client_of
from medhelm.domain import Message, Prompt, Request
from medhelm.io.held_numbers import HeldNumbers
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.cache import Cache
from medhelm.models.gateway import GATEWAY_VARIABLE
from medhelm.models.gateway.worker import open_gateway_client, open_gateway_providers
from medhelm.models.limits.budget import Budget
from medhelm.storage.audit_log import AuditLog

LANES = 192
"""Requests that the caller has in progress: half as many again as may be in flight, as in a run."""

Ask = Callable[[Request], Awaitable[object]]


class Measured(NamedTuple):
    """One case, measured."""

    all_us: float
    """CPU time per request of all processes, in microseconds."""
    gateway_us: float
    """CPU time per request of the gateway's process."""
    per_s: float
    """Requests per second."""


def make_requests(n: int) -> list[Request]:
    """Return different requests with prompts of about 500 characters."""
    return [
        Request(
            model=MODEL,
            prompt=Prompt((Message("user", f"Is patient {number} called Ada? " * 20),)),
            max_tokens=8,
            benchmark="toy",
        )
        for number in range(n)
    ]


async def _measure(ask: Ask, requests: list[Request], pid: int) -> Measured:
    """Send all requests and measure."""
    waiting = iter(requests)

    async def lane() -> None:
        for request in waiting:
            await ask(request)

    began, cpu, theirs = time.perf_counter(), time.process_time(), cpu_of(pid)
    await asyncio.gather(*[lane() for _ in range(LANES)])
    theirs, cpu, seconds = cpu_of(pid) - theirs, time.process_time() - cpu, time.perf_counter() - began
    n = len(requests)
    return Measured((cpu + theirs) / n * 1e6, (theirs if pid else cpu) / n * 1e6, n / seconds)


def cpu_of(pid: int) -> float:
    """Return the CPU seconds that another process has used, children left out; 0.0 for no process."""
    if not pid:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def direct(folder: Path) -> AsyncIterator[tuple[Ask, int]]:
    """Ask in this process."""
    with closing(Cache(folder / "cache.sqlite")) as cache, closing(HeldNumbers(folder / "numbers")) as numbers:
        client, model = client_of(cache, numbers), Instant()
        yield lambda request: client.complete(model, request), 0


@contextmanager
def gateway_process(folder: Path) -> Iterator[tuple[str, int]]:
    """Run a gateway; yield its address and process id."""
    command = [sys.executable, "-m", "bench.tools.gateway_server", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}", process.pid
        finally:
            process.kill()


@asynccontextmanager
async def worker(folder: Path) -> AsyncIterator[tuple[Ask, int]]:
    """Ask through a gateway, as `medhelm run --gateway` does."""
    with gateway_process(folder) as (url, pid), closing(AuditLog(folder / "audit.jsonl")) as audit:
        environment = {GATEWAY_VARIABLE: url, "MEDHELM_GATEWAY_TOKEN": "none"}
        async with open_gateway_client(environment, EgressPolicy(True), Budget(), audit, 60.0) as client:
            provider = open_gateway_providers([MODEL], client, ["toy"])[MODEL.name]
            yield lambda request: client.complete(provider, request), pid


@asynccontextmanager
async def openai_api(folder: Path) -> AsyncIterator[tuple[Ask, int]]:
    """Ask through a gateway, as other tools do: one HTTP request each."""
    with gateway_process(folder) as (url, pid):
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=LANES)) as session:

            async def ask(request: Request) -> None:
                body = {
                    "model": MODEL.name,
                    "messages": [{"role": "user", "content": request.prompt.messages[0].text}],
                    "max_tokens": request.max_tokens,
                    "temperature": 0,
                }
                async with session.post(f"{url}/v1/chat/completions", json=body) as response:
                    assert response.status == 200, await response.text()
                    await response.json()

            yield ask, pid


WAYS = {"direct": direct, "worker": worker, "OpenAI's API": openai_api}


async def _both(way: str, requests: list[Request]) -> list[Measured]:
    """Measure one way: all bought, then all cached."""
    with tempfile.TemporaryDirectory(prefix="medhelm-gateway-") as name:
        async with WAYS[way](Path(name)) as (ask, pid):
            warm = make_requests(200)
            await _measure(ask, [Request(model=MODEL, prompt=one.prompt, max_tokens=9) for one in warm], pid)
            return [await _measure(ask, requests, pid) for _ in ("bought", "cached")]


def study(n: int, repeat: int) -> str:
    """Return the table: of each case the repetition with the least CPU time."""
    requests = make_requests(n)
    best: dict[tuple[str, str], Measured] = {}
    for _ in range(repeat):
        for way in WAYS:
            for case, found in zip(("bought", "cached"), asyncio.run(_both(way, requests)), strict=True):
                known = best.setdefault((way, case), found)
                best[way, case] = Measured(
                    min(known.all_us, found.all_us),
                    min(known.gateway_us, found.gateway_us),
                    max(known.per_s, found.per_s),
                )
    lines = []
    for case in ("bought", "cached"):
        base = best["direct", case]
        for way in WAYS:
            one = best[way, case]
            lines.append(
                [
                    f"{case}, {way}",
                    f"{one.per_s:,.0f}",
                    f"{one.all_us:.0f} us",
                    f"{one.all_us / base.all_us:.2f}x",
                    f"{one.gateway_us:.0f} us",
                    f"{one.gateway_us / base.all_us:.2f}x",
                ]
            )
    return table(["case", "requests/s", "CPU, all", "ratio", "CPU, gateway", "ratio"], lines)


def main() -> None:
    """Print the table, and write it into bench/README.md if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=6000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--write-readme", action="store_true")
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    text = study(asked.requests, asked.repeat)
    print(text)
    if asked.write_readme:
        readme = ROOT / "bench" / "README.md"
        marked = r"(?<=<!-- gateway: begin -->\n).*?(?=<!-- gateway: end -->)"
        readme.write_text(
            re.sub(marked, f"\n{text}\n\n", readme.read_text(encoding="utf-8"), flags=re.DOTALL), encoding="utf-8"
        )


if __name__ == "__main__":
    main()

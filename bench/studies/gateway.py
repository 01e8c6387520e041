"""CPU time of the gateway per request, and requests per second through it.

    python -m bench.studies.gateway [--requests N] [--repeat N] [--write-readme]

`Direct` is one process with cache, locks and audit log. `Worker` is a worker's connection to a gateway with the same.
`OpenAI's API` is one HTTP request each. Completions are cached, bought from a model that answers within the process, so
that everything else is measured alone, or bought from a server on 127.0.0.1, as in a run. CPU time is that of worker
and gateway together, and of the gateway alone; the server's does not count. Ratios are to `direct`. `HTTP alone` asks
as `OpenAI's API` does, but a server that does nothing: its CPU time is that of the HTTP library on both sides.

Most other tools ask with the package `openai`. If it is installed, it is measured too: how much more CPU time a tool
and the gateway take together than the tool alone, which asks the server itself.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import importlib.util
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import aiohttp

from bench.cells import ROOT
from bench.studies.faults import chaos_server
from bench.table import table
from bench.tools.gateway_server import model_at, opened
from medhelm.__main__ import GARBAGE_AFTER
from medhelm.domain import Message, Prompt, Request
from medhelm.extensions.cluster.gateway import RemoteGateway
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.budget import Budget
from medhelm.models.gateway import GATEWAY_VARIABLE
from medhelm.storage.audit import AuditLog

LANES = 192
"""Requests that the caller has in progress: half as many again as may be in flight, as in a run."""

Ask = Callable[[Request], Awaitable[object]]

Way = Callable[[Path, str], AbstractAsyncContextManager[tuple[Ask, int]]]
"""Opens a way to ask; yields it with the process id of the gateway, 0 for none."""


class Measured(NamedTuple):
    """One case, measured."""

    all_us: float
    """CPU time per request of all processes, in microseconds."""
    gateway_us: float
    """CPU time per request of the gateway's process."""
    per_s: float
    """Requests per second."""


def make_requests(n: int, url: str) -> list[Request]:
    """Return different requests with prompts of about 500 characters."""
    return [
        Request(
            model=model_at(url),
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
async def direct(folder: Path, url: str) -> AsyncIterator[tuple[Ask, int]]:
    """Ask in this process."""
    async with opened(folder, url) as means:
        yield lambda request: means.client.complete(means.provider, request), 0


@contextmanager
def gateway_process(folder: Path, url: str) -> Iterator[tuple[str, int]]:
    """Run a gateway; yield its address and process id."""
    command = [sys.executable, "-m", "bench.tools.gateway_server", str(folder), url]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}", process.pid
        finally:
            process.kill()


@asynccontextmanager
async def worker(folder: Path, url: str) -> AsyncIterator[tuple[Ask, int]]:
    """Ask through a gateway, as `medhelm run --gateway` does."""
    with gateway_process(folder, url) as (address, pid), closing(AuditLog(folder / "audit.jsonl")) as audit:
        remote = RemoteGateway({GATEWAY_VARIABLE: address, "MEDHELM_GATEWAY_TOKEN": "none"})
        async with remote.open_client(EgressPolicy(True), Budget(), audit, 60.0) as client:
            model = model_at(url)
            provider = remote.open_providers([model], client, ["toy"])[model.name]
            yield lambda request: client.complete(provider, request), pid


@asynccontextmanager
async def openai_api(folder: Path, url: str) -> AsyncIterator[tuple[Ask, int]]:
    """Ask through a gateway, as other tools do: one HTTP request each; `url`: `none` for a server that does nothing."""
    with gateway_process(folder, url) as (address, pid):
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=LANES)) as session:

            async def ask(request: Request) -> None:
                body = {
                    "model": request.model.name,
                    "messages": [{"role": "user", "content": request.prompt.messages[0].text}],
                    "max_tokens": request.max_tokens,
                    "temperature": 0,
                }
                async with session.post(f"{address}/v1/chat/completions", json=body) as response:
                    assert response.status == 200, await response.text()
                    await response.json()

            yield ask, pid


@asynccontextmanager
async def http_alone(folder: Path, url: str) -> AsyncIterator[tuple[Ask, int]]:
    """Ask a server that does nothing."""
    del url
    async with openai_api(folder, "none") as means:
        yield means


@asynccontextmanager
async def package_alone(folder: Path, url: str) -> AsyncIterator[tuple[Ask, int]]:
    """Ask the server with the package `openai`, without a gateway."""
    del folder
    async with importlib.import_module("openai").AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

        async def ask(request: Request) -> None:
            messages = [{"role": "user", "content": request.prompt.messages[0].text}]
            await client.chat.completions.create(
                model=request.model.name, messages=messages, max_tokens=request.max_tokens, temperature=0
            )

        yield ask, 0


@asynccontextmanager
async def package(folder: Path, url: str) -> AsyncIterator[tuple[Ask, int]]:
    """Ask through a gateway with the package `openai`."""
    with gateway_process(folder, url) as (address, pid):
        async with package_alone(folder, f"{address}/v1") as (ask, _):
            yield ask, pid


HTTP_ALONE = "HTTP alone"
WAYS = {"direct": direct, "worker": worker, "OpenAI's API": openai_api, HTTP_ALONE: http_alone}
CACHED, BOUGHT, FROM_SERVER, PACKAGE = "cached", "bought, in process", "bought from a server", "package openai"


PACKAGE_ALONE, PACKAGE_BOUGHT, PACKAGE_CACHED = "without a gateway", "through it", "through it, cached"


async def _measured(way: Way, n: int, url: str) -> list[Measured]:
    """Measure one way: all bought, then all cached."""
    requests = make_requests(n, url)
    with tempfile.TemporaryDirectory(prefix="medhelm-gateway-") as name:
        async with way(Path(name), url) as (ask, pid):
            await _measure(ask, [replace(one, max_tokens=9) for one in requests[:200]], pid)  # opens connections
            return [await _measure(ask, requests, pid) for _ in range(2)]


def study(n: int, repeat: int) -> str:
    """Return the table: of each case the least CPU time and the most requests per second."""
    best: dict[tuple[str, str], Measured] = {}

    def note(case: str, way: str, one: Measured) -> None:
        known = best.get((case, way), one)
        best[case, way] = Measured(
            min(known.all_us, one.all_us), min(known.gateway_us, one.gateway_us), max(known.per_s, one.per_s)
        )

    with chaos_server("--share", "0", "--latency", "0") as server:
        for _ in range(repeat):
            for name, way in WAYS.items():
                bought, cached = asyncio.run(_measured(way, n, ""))
                note(CACHED, name, cached)
                if name != HTTP_ALONE:
                    note(BOUGHT, name, bought)
                    note(FROM_SERVER, name, asyncio.run(_measured(way, n, server.url))[0])
            if importlib.util.find_spec("openai"):
                note(PACKAGE, PACKAGE_ALONE, asyncio.run(_measured(package_alone, n, server.url))[0])
                bought, cached = asyncio.run(_measured(package, n, server.url))
                note(PACKAGE, PACKAGE_BOUGHT, bought)
                note(PACKAGE, PACKAGE_CACHED, cached)
    lines = []
    for case in (CACHED, BOUGHT, FROM_SERVER, PACKAGE):
        ways = [name for known, name in best if known == case]
        for name in ways:
            one, base = best[case, name], best[case, ways[0]].all_us
            cells = [f"{one.per_s:,.0f}", f"{one.all_us:,.0f} us", f"{one.all_us / base:.2f}x"]
            own = ["", ""] if name == ways[0] else [f"{one.gateway_us:,.0f} us", f"{one.gateway_us / base:.2f}x"]
            lines.append([f"{case}: {name}", *cells, *own])
    return table(["case", "requests/s", "CPU, all", "ratio", "CPU, gateway", "ratio"], lines)


def main() -> None:
    """Print the table, and write it into bench/README.md if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--write-readme", action="store_true")
    asked = parser.parse_args()
    gc.set_threshold(GARBAGE_AFTER)
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

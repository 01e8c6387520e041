"""Measure requests per second and CPU time of a hosted provider's dialect and print a JSON object.

    python bench/tools/provider_speed.py openai|azure|anthropic|google|vertex|bedrock

Runs in the environment of the medhelm command. A fake server, in a process of its own, answers every service's path
with a body in that service's form. The provider alternates with openai/ at the same server, so that both meet the
same load of the machine. openai/ relative to itself shows the noise of the measurement.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

REQUESTS = 400
"""Requests of one turn; the first turn of each provider is not counted."""
PAIRS = 15
"""Turns of each provider: many short ones, because the load of the machine changes from second to second."""
IN_FLIGHT = 32
TEXT = "Is the outcome likely to improve? " * 46
"""Prompt, as long as PubMedQA's questions."""
REPLY = "A"
TOKENS_IN, TOKENS_OUT = 20, 5
"""Usage in every completion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One service: what the fake server and our provider must agree on."""

    path: str
    """Path of the requests."""
    base: str
    """Base path of the model's address."""
    variable: str
    """Variable with its key."""
    body: Mapping[str, Any]
    """Completion in its form."""


_CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m-1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": REPLY}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": TOKENS_IN, "completion_tokens": TOKENS_OUT, "total_tokens": TOKENS_IN + TOKENS_OUT},
    "system_fingerprint": "fp_1",
}
_MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m-1",
    "content": [{"type": "text", "text": REPLY}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": TOKENS_IN, "output_tokens": TOKENS_OUT, "service_tier": "standard"},
}
_CONTENT = {
    "candidates": [{"content": {"parts": [{"text": REPLY}], "role": "model"}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {
        "promptTokenCount": TOKENS_IN,
        "candidatesTokenCount": TOKENS_OUT,
        "totalTokenCount": TOKENS_IN + TOKENS_OUT,
    },
    "modelVersion": "m-1",
    "responseId": "r1",
}
_CONVERSE = {
    "metrics": {"latencyMs": 12},
    "output": {"message": {"role": "assistant", "content": [{"text": REPLY}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": TOKENS_IN, "outputTokens": TOKENS_OUT, "totalTokens": TOKENS_IN + TOKENS_OUT},
}
_AZURE, _PROJECT = "/openai/deployments/m", "/v1/projects/p/locations/us-central1"

SERVICES: Mapping[str, Service] = {
    "openai": Service(path="/v1/chat/completions", base="/v1", variable="OPENAI_API_KEY", body=_CHAT),
    "azure": Service(
        path=f"{_AZURE}/chat/completions?api-version=2024-10-21",
        base=f"{_AZURE}?api-version=2024-10-21",
        variable="AZURE_OPENAI_API_KEY",
        body=_CHAT,
    ),
    "anthropic": Service(path="/v1/messages", base="/v1", variable="ANTHROPIC_API_KEY", body=_MESSAGE),
    "google": Service(
        path="/v1beta/models/m:generateContent", base="/v1beta", variable="GEMINI_API_KEY", body=_CONTENT
    ),
    "vertex": Service(
        path=f"{_PROJECT}/publishers/google/models/m:generateContent",
        base=_PROJECT,
        variable="GOOGLE_ACCESS_TOKEN",
        body=_CONTENT,
    ),
    "bedrock": Service(path="/model/m/converse", base="", variable="AWS_ACCESS_KEY_ID", body=_CONVERSE),
}
"""Name of a provider -> its service."""

KEYS = {service.variable: "invented-key-0123456789" for service in SERVICES.values()} | {
    "AWS_ACCESS_KEY_ID": "AKIAINVENTED00000001",
    "AWS_SECRET_ACCESS_KEY": "invented/secret/0123456789",
}
"""A key for each service. With both AWS keys, requests are signed, which costs the most CPU time."""


# --- the fake server---------------------------------------------------------------------------------------------------


def _message(status: str, body: Mapping[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


ANSWERS = {service.path.encode(): _message("200 OK", service.body) for service in SERVICES.values()}
"""Path of a request -> answer."""
UNKNOWN = _message("404 Not Found", {"error": {"message": "no service has this path"}})


class FakeServices(asyncio.Protocol):
    """One connection. Requests must have a Content-Length; others close the connection."""

    def __init__(self) -> None:
        """Start with an empty buffer."""
        self._arrived = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every complete request."""
        assert self._transport is not None
        self._arrived += data
        while (end := self._arrived.find(b"\r\n\r\n")) >= 0:
            head = self._arrived[:end]
            _, found, rest = head.lower().partition(b"\r\ncontent-length:")
            if not found:
                self._transport.close()
                return
            whole = end + 4 + int(rest.partition(b"\r\n")[0])
            if len(self._arrived) < whole:
                return
            self._arrived = self._arrived[whole:]
            self._transport.write(ANSWERS.get(head.split(b" ", 2)[1], UNKNOWN))


async def serve() -> None:
    """Print the port and serve until the process is terminated."""
    server = await asyncio.get_running_loop().create_server(FakeServices, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def fake_server() -> Iterator[str]:
    """Run the fake server in a process of its own and yield its address."""
    with subprocess.Popen([sys.executable, __file__, "serve"], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


# --- measuring --------------------------------------------------------------------------------------------------------


async def ask(name: str, address: str, n: int) -> tuple[float, float]:
    """Return wall and CPU seconds of this process for `n` requests through our client and its checks.

    Raises SystemExit if a completion differs from the one that was sent, or took more than one request.
    """
    from medhelm.domain import Message, Model, Prompt, Request
    from medhelm.io.http.client import HttpClient
    from medhelm.io.http.egress import EgressPolicy
    from medhelm.models.budget import Budget
    from medhelm.models.client import Client, SendingLimits
    from medhelm.models.providers import open_provider

    service = SERVICES[name]
    model = Model(
        name=f"{name}/m",
        provider=name,
        remote_name="m",
        base_url=address + service.base,
        key_variable=service.variable,
    )
    http = HttpClient(EgressPolicy(offline=True))
    provider = open_provider(model, http, environment=KEYS)
    client = Client(cache=None, budget=Budget(), limits=SendingLimits(start=IN_FLIGHT, maximum=IN_FLIGHT))
    waiting = iter(range(n))

    async def work() -> None:
        for number in waiting:
            prompt = Prompt((Message("user", f"{number}. {TEXT}"),))
            answer = (await client.complete(provider, Request(model=model, prompt=prompt, max_tokens=5))).completion
            if (answer.text, answer.usage.input, answer.usage.output) != (REPLY, TOKENS_IN, TOKENS_OUT):
                raise SystemExit(f"{name}: not the completion that was sent: {answer}")

    try:
        began, used = time.perf_counter(), time.process_time()
        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
        taken = time.perf_counter() - began, time.process_time() - used
    finally:
        await http.close()
    if client.requests_sent != n:
        raise SystemExit(f"{name}: {client.requests_sent} requests for {n} completions")
    return taken


def compare(name: str, *, requests: int = REQUESTS, pairs: int = PAIRS) -> dict[str, float]:
    """Return medians over turns: requests per second and CPU time per request, of the provider and of openai/."""
    turns: list[tuple[tuple[float, float], tuple[float, float]]] = []
    with fake_server() as address:

        def turn(who: str) -> tuple[float, float]:
            return asyncio.run(ask(who, address, requests))

        for number in range(pairs + 1):  # the first is not counted
            if number % 2:
                other, own = turn("openai"), turn(name)
            else:
                own, other = turn(name), turn("openai")
            turns.append((own, other))

    counted = turns[1:]
    wall, cpu = (statistics.median(own[i] for own, _ in counted) for i in (0, 1))
    openai_wall, openai_cpu = (statistics.median(other[i] for _, other in counted) for i in (0, 1))
    return {
        "requests": requests,
        "per_s": requests / wall,
        "cpu_us": cpu / requests * 1e6,
        "openai_per_s": requests / openai_wall,
        "openai_cpu_us": openai_cpu / requests * 1e6,
    }


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve())
    elif len(sys.argv) == 2 and sys.argv[1] in SERVICES:
        print(json.dumps(compare(sys.argv[1])))
    else:
        raise SystemExit(f"usage: provider_speed.py {'|'.join(SERVICES)}")

"""An OpenAI-compatible server on 127.0.0.1 that fails in many ways, for studies of faults.

    python -m bench.tools.chaos_server --share 0.05 --latency 0.2 --storm 10,1

Prints its port. A request for `/stats` returns the number of requests and of good replies, how many prompts got more
than one good reply, and how often each fault was made. Faults depend on the seed, the prompt and the attempt, so that
the order in which requests arrive does not matter. In a storm, every request is refused at once: `--storm 10,1` is a
second in each ten.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import re
import socket
import struct
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import cache

GOOD = {
    "id": "x",
    "model": "mock",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 20, "completion_tokens": 1, "total_tokens": 21},
}
STORM = "429 storm"
"""Name of the refusals of a storm."""

HANG_S = 30.0
"""Seconds after which a request that hangs is closed; longer than any client waits here."""


def http(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """Return a response with the right length."""
    named = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body


def said(**message: object) -> bytes:
    """Return a whole reply with another message."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return http(json.dumps({**GOOD, "choices": [choice]}).encode())


def verdict(body: bytes) -> bytes:
    """Return the reply to a request to a judge, a model whose name begins with `judge`."""
    grades = {name: {"score": 4, "explanation": "fine"} for name in ("accuracy", "clarity")}
    code = {"verification_code": found[1].decode()} if (found := _CODE.search(body)) else {}
    return said(content=json.dumps({**code, **grades}))


def refused(status: str, **headers: str) -> bytes:
    """Return a refusal in the form of OpenAI."""
    return http(json.dumps({"error": {"message": status, "type": "error"}}).encode(), status, **headers)


BODY = json.dumps(GOOD).encode()
_CODE = re.compile(rb"The verification code of this request is ([\w-]+)")
HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@cache
def responses() -> Mapping[str, bytes]:
    """Map each fault that is a response to its bytes; the connection is closed after it."""
    whole = len(BODY)
    return {
        "429": refused("429 Too Many Requests"),
        "429 with Retry-After": refused("429 Too Many Requests", Retry_After="1"),
        "429 with a date": refused("429 Too Many Requests", Retry_After="Wed, 21 Oct 2015 07:28:00 GMT"),
        "408": refused("408 Request Timeout"),
        "500": refused("500 Internal Server Error"),
        "502": refused("502 Bad Gateway"),
        "503": refused("503 Service Unavailable"),
        "504": refused("504 Gateway Timeout"),
        "529": refused("529 Overloaded"),
        "HTML error": http(b"<html><h1>502</h1></html>", "502 Bad Gateway", Content_Type="text/html"),
        "HTML with 200": http(b"<html>sign in</html>", Content_Type="text/html"),
        "no bytes": b"",
        "garbage": bytes(range(256)) * 4,
        "truncated JSON": http(BODY[: whole // 2]),
        "short body": f"{HEAD}Content-Length: {whole + 50}\r\n\r\n".encode() + BODY,
        "empty body": http(b""),
        "two lengths": f"{HEAD}Content-Length: {whole}\r\nContent-Length: {whole}\r\n\r\n".encode() + BODY,
        "contradicting lengths": f"{HEAD}Content-Length: {whole}\r\nContent-Length: 3\r\n\r\n".encode() + BODY,
        "broken chunks": f"{HEAD}Transfer-Encoding: chunked\r\n\r\nZZ\r\n".encode() + BODY,
        "null content": said(content=None),
        "content is a list": said(content=[1, {"x": None}]),
        "no choices": http(json.dumps({**GOOD, "choices": []}).encode()),
        "bad UTF-8": http(BODY.replace(b'"A"', b'"\xff\xfe"')),
        "100,000 brackets": http(b"[" * 100_000),
        "number of 6,000 digits": http(BODY.replace(b"20", b"9" * 6000, 1)),
        "header of 100 kB": http(BODY, X_Long="x" * 100_000),
        "204": b"HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/0.9": BODY,
        "bad status line": b"HTTP/1.1 banana OK\r\n\r\n" + BODY,
        "bad gzip": http(b"not gzip at all", Content_Encoding="gzip"),
        "gzip bomb": http(gzip.compress(bytes(200 * 2**20), 1), Content_Encoding="gzip"),
    }


ACTIONS = ("reset", "hang", "one byte a second")
"""Faults that are no response."""

RARE = {"gzip bomb": 0.05, "hang": 0.2, "one byte a second": 0.2}
"""Fault -> its weight, where it is not 1."""


class ChaosServer:
    """Answers every request, a share of them with a fault."""

    def __init__(
        self, share: float, latency_s: float, seed: int, kinds: list[str], storm: tuple[float, float] = (1.0, 0.0)
    ) -> None:
        """`share` from 0 to 1; `kinds`: names of faults, all if empty; `storm`: its period and its length, seconds."""
        self.storm = storm
        self.began = 0.0
        self.share, self.latency_s, self.seed = share, latency_s, seed
        self.kinds = kinds or [*responses(), *ACTIONS]
        self.weights = [RARE.get(kind, 1.0) for kind in self.kinds]
        self.attempts: Counter[bytes] = Counter()
        self.good: Counter[bytes] = Counter()
        self.received: dict[bytes, list[tuple[float, str]]] = {}
        self.faults: Counter[str] = Counter()

    def stats(self) -> dict[str, object]:
        """Return what happened since the start.

        `paid_twice` has the body of each request that got several good replies, and for each time it was sent the
        seconds since the first one and the outcome.
        """
        return {
            "requests": self.attempts.total(),
            "prompts": len(self.attempts),
            "good": self.good.total(),
            "twice": sum(n - 1 for n in self.good.values()),
            "paid_twice": {
                body.decode(): [(round(at - min(times)[0], 2), outcome) for at, outcome in sorted(times)]
                for body, times in self.received.items()
                if self.good[body] > 1
            },
            "faults": dict(self.faults.most_common()),
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while await self._answer(reader, writer):
                await writer.drain()
        with suppress(OSError):
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return False if the connection must be closed."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        size = next((int(line.split(":")[1]) for line in head.splitlines() if line.startswith("content-length")), 0)
        body = await reader.readexactly(size)
        if head.startswith("get "):
            writer.write(http(json.dumps(self.stats()).encode() if "/stats" in head else b"{}"))
            return True
        self.attempts[body] += 1
        now = asyncio.get_running_loop().time()
        outcomes = self.received.setdefault(body, [])
        self.began = self.began or now
        period_s, length_s = self.storm
        if (now - self.began) % period_s >= period_s - length_s:
            self.faults[STORM] += 1
            outcomes.append((now, STORM))
            writer.write(refused("429 Too Many Requests", Retry_After="1"))
            return True
        chance = random.Random(f"{self.seed}/{self.attempts[body]}/{body!r}")
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        if chance.random() >= self.share:
            self.good[body] += 1
            outcomes.append((now, "good"))
            writer.write(verdict(body) if b'"judge' in body else http(BODY))
            return True
        (kind,) = chance.choices(self.kinds, self.weights)
        self.faults[kind] += 1
        outcomes.append((now, kind))
        await self._fail(kind, writer)
        return False

    @staticmethod
    async def _fail(kind: str, writer: asyncio.StreamWriter) -> None:
        """Make a fault."""
        if kind in responses():
            writer.write(responses()[kind])
            await writer.drain()
        elif kind == "reset":
            raw = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            for byte in BODY if kind == "one byte a second" else b"":
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(1)
            await asyncio.sleep(HANG_S)


async def main() -> None:
    """Serve until the process ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--latency", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default="", metavar="NAME,...")
    parser.add_argument("--storm", default="1,0", metavar="PERIOD,LENGTH")
    asked = parser.parse_args()
    period_s, length_s = map(float, asked.storm.split(","))
    kinds = [kind for kind in asked.kinds.split(",") if kind]
    chaos = ChaosServer(asked.share, asked.latency, asked.seed, kinds, (period_s, length_s))
    server = await asyncio.start_server(chaos.serve, "127.0.0.1", 0, limit=2**24, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())

"""An OpenAI-compatible server on 127.0.0.1 with a fixed capacity, for studies of several servers.

    python -m bench.tools.capacity_server --slots 20 --seconds 0.2 --log FILE

Prints its port. It works on `slots` requests at a time, each for `seconds`; others wait. After each completion it adds
the prompt to FILE as a line, so that what was delivered is known even if it is killed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from pathlib import Path

GOOD = {
    "model": "mock",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 20, "completion_tokens": 1, "total_tokens": 21},
}
BODY = json.dumps(GOOD).encode()
MODELS = json.dumps({"data": [{"id": "mock"}]}).encode()


def http(body: bytes) -> bytes:
    """Return a successful response."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def main() -> None:
    """Serve until the process is killed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--slots", type=int, default=20)
    options.add_argument("--seconds", type=float, default=0.2)
    options.add_argument("--log", type=Path, required=True)
    chosen = options.parse_args()
    slots = asyncio.Semaphore(chosen.slots)
    log = os.open(chosen.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                if head.startswith(b"get "):
                    writer.write(http(MODELS))
                    continue
                size = int(head.partition(b"content-length:")[2].split()[0])
                prompt = json.loads(await reader.readexactly(size))["messages"][-1]["content"]
                async with slots:
                    await asyncio.sleep(chosen.seconds)
                writer.write(http(BODY))
                await writer.drain()
                os.write(log, f"{prompt.split()[0]}\n".encode())
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())

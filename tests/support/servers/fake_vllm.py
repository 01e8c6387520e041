#!/usr/bin/env python3
"""Stands in for the `vllm` program: `serve` starts a server that speaks its API. What it does besides is in a file.

STAND_IN names a JSON file: {"ready_s": 0.2, "exit": 1, "says": "...", "deaf": true, "port_taken": 2, "child": true,
"die_after": 3}. Into `STAND_IN`.log it writes one JSON line each time it is started: its arguments, its environment,
its process id and that of its child.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PLAN = Path(os.environ["STAND_IN"])
ORDERS = json.loads(PLAN.read_text(encoding="utf-8"))
LOG = PLAN.with_suffix(".log")


def option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    began = time.monotonic()
    answered = 0

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def reply(self, status: int, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self) -> None:
        if self.path == "/health":
            well = time.monotonic() - Api.began >= ORDERS.get("ready_s", 0.0)
            self.reply(200 if well else 503, {})
        else:
            self.reply(200, {"data": [{"id": option("--served-model-name")}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers.get("Authorization") != f"Bearer {os.environ['VLLM_API_KEY']}":
            self.reply(401, {"error": "Unauthorized"})
            return
        Api.answered += 1
        if Api.answered > ORDERS.get("die_after", 10**9):
            sys.stdout.write("RuntimeError: CUDA error: an illegal memory access was encountered\n")
            sys.stdout.flush()
            os._exit(1)
        said = body["messages"][-1]["content"]
        self.reply(
            200,
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "model": body["model"],
                "choices": [
                    {"index": 0, "message": {"role": "assistant", "content": f"echo: {said}"}, "finish_reason": "stop"}
                ],
                "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
                "sent": body,
            },
        )


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main() -> int:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) if ORDERS.get("child") else None
    started = {"words": sys.argv[1:], "environment": dict(os.environ), "pid": os.getpid(), "child": child and child.pid}
    with LOG.open("a", encoding="utf-8") as log:
        log.write(json.dumps(started) + "\n")
    if ORDERS.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if says := ORDERS.get("says"):
        sys.stdout.write(f"{says}\n")
        sys.stdout.flush()
    times = len(LOG.read_text(encoding="utf-8").splitlines())
    if times <= ORDERS.get("port_taken", 0):
        sys.stdout.write("OSError: [Errno 98] Address already in use\n")
        return 1
    if "exit" in ORDERS:
        return int(ORDERS["exit"])
    server = Server(("127.0.0.1", int(option("--port"))), Api)
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""A fake `vllm` program: `fake_vllm.py serve MODEL --port PORT` completes every chat with one letter."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 20, "completion_tokens": 1, "total_tokens": 21},
}


class Api(BaseHTTPRequestHandler):
    """Handles health checks and chat completions."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""

    def answer(self, body: object) -> None:
        """Send some JSON."""
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self) -> None:
        """Report good health."""
        self.answer({})

    def do_POST(self) -> None:
        """Complete with one letter."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(REPLY)


class Server(ThreadingHTTPServer):
    """Many connections may wait to be accepted; by default, five."""

    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    server = Server(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Api)
    server.serve_forever()

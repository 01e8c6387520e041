"""A trap for sockets: a folder whose `sitecustomize` notes what a Python process and its children connect to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

_HOOK = """
import json, os, sys

_log = os.open(os.environ["SOCKET_TRAP"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

def _trap(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = arguments[1]
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"):
        address = arguments[0]
    else:
        return
    if isinstance(address, tuple):
        address = ":".join(map(str, address[:2]))
    if address is not None:
        os.write(_log, (json.dumps([event, os.fsdecode(address)]) + "\\n").encode())
        if event == "socket.connect" and not str(address).startswith("127.0.0.1:"):
            raise PermissionError("the trap lets nothing out")

sys.addaudithook(_trap)
os.write(_log, b'["started", ""]\\n')
"""

PROXY = "http://192.0.2.7:3128"
"""A proxy that the environment names and nothing may use."""


@dataclass(frozen=True)
class SocketTrap:
    """What one process and its children connect to and look up."""

    folder: Path

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that set the trap; the proxies among them must not be used."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / "sitecustomize.py").write_text(_HOOK, encoding="utf-8")
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"), PROXY)
        return {**proxies, "PYTHONPATH": str(self.folder), "SOCKET_TRAP": str(self.folder / "log")}

    def caught(self) -> set[str]:
        """Return the addresses, `HOST:PORT`, and the names that were looked up; fails if the trap was not set."""
        lines = (self.folder / "log").read_text(encoding="utf-8").splitlines()
        found = [tuple(json.loads(line)) for line in lines]
        assert ("started", "") in found, "no process had the trap"
        return {address for event, address in found if event != "started"}

"""A real browser on a served site; tests that need it are skipped where Chromium or Playwright is missing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from medhelm.web.app import create_app
from medhelm.web.security import Security
from medhelm.web.site import Site

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = Path("/usr/bin/chromium")

OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
"""Options of Chromium that keep it quiet and off the network."""

VIOLATIONS = """
document.addEventListener('securitypolicyviolation', event => console.error('CSP: ' + event.violatedDirective))
"""
"""Script that reports violations of the content security policy to the console."""


@contextmanager
def open_browser(*stores: Path, width: int = 1000, color_scheme: Any = "light") -> Iterator[tuple[Page, list[str]]]:
    """Serve stores on a free port and open a page that is signed in; yield it with the problems that it reports.

    Problems are console errors, violations of the policy, dialogs, errors of scripts, and requests to other hosts.
    """
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is missing")
    # The port is known only after the server has started, and the application checks it in each request.
    hosts: set[str] = set()
    security = Security(hosts=hosts)
    app = create_app(Site(stores=list(stores)), security)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        host = f"127.0.0.1:{_port(server)}"
        hosts.add(host)
        with sync_api.sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=OPTIONS)
            context = browser.new_context(
                base_url=f"http://{host}", viewport={"width": width, "height": 900}, color_scheme=color_scheme
            )
            cookie = {"name": security.cookie, "value": security.new_session(), "url": f"http://{host}"}
            context.add_cookies([cookie])
            context.add_init_script(VIOLATIONS)
            page = context.new_page()
            yield page, _problems(page, host)
            browser.close()
    finally:
        server.should_exit = True
        thread.join(timeout=10)


def _problems(page: Page, host: str) -> list[str]:
    problems: list[str] = []

    def dismiss(dialog: Any) -> None:
        problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("dialog", dismiss)
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: None if f"//{host}/" in request.url else problems.append(request.url))
    return problems


def _port(server: uvicorn.Server) -> int:
    deadline = time.monotonic() + 20
    while not server.started:
        assert time.monotonic() < deadline, "the server did not start within 20 s"
        time.sleep(0.02)
    port: int = server.servers[0].sockets[0].getsockname()[1]
    return port

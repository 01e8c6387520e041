"""Chromium without a window, for tests; skipped with a reason where it cannot run."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import uvicorn

from medhelm.extensions.web.app import create_app
from medhelm.extensions.web.security import Security
from medhelm.extensions.web.server import Listener, _listen
from medhelm.extensions.web.site import Site
from medhelm.io.http.mounted_pages import MountedPages
from tests.support.servers.openai import PATIENCE_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""No window, and no connection of the browser's own."""


@contextmanager
def started_browser() -> Iterator[Browser]:
    """Start Chromium; skip the test if there is none."""
    found = os.environ.get("MEDHELM_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        pytest.skip("Chromium is not installed; MEDHELM_CHROMIUM may name its program")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=found, args=list(OPTIONS))
        except sync_api.Error as error:
            pytest.skip(f"Chromium does not start: {str(error).splitlines()[0]}")
        yield browser
        browser.close()


@contextmanager
def served(site: Site, added: Sequence[MountedPages] = ()) -> Iterator[tuple[str, str]]:
    """Serve a site, with pages of extensions, in a thread; yield its address and the address that signs in."""
    with _listen(Listener(port=0)) as listening:
        port = listening.getsockname()[1]
        security = Security(hosts=[f"127.0.0.1:{port}"], cookie=f"medhelm-{port}")
        config = uvicorn.Config(create_app(site, security, added), log_level="critical", lifespan="off", http="h11")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        root = f"http://127.0.0.1:{port}"
        yield root, f"{root}/login#t={security.token}"
        server.should_exit = True
        thread.join(PATIENCE_S)


@dataclass
class Watched:
    """A page of a browser, with everything that should not happen in it."""

    page: Page
    """The page."""
    problems: list[str] = field(default_factory=list)
    """Errors in the console, violations of the policy, dialogs, and requests to other hosts."""

    def __post_init__(self) -> None:
        """Listen from now on, and wait as long as other tests do: a busy machine fails no test."""
        self.page.set_default_timeout(1000 * PATIENCE_S)
        allowed = ("http://127.0.0.1:", "file://", "data:")
        self.page.on("console", lambda one: self.problems.append(one.text) if one.type == "error" else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", self._refuse)
        self.page.on("request", lambda one: None if one.url.startswith(allowed) else self.problems.append(one.url))
        self.page.add_init_script(
            "document.addEventListener('securitypolicyviolation',"
            " e => console.error('CSP: ' + e.violatedDirective + ' ' + e.blockedURI))"
        )

    def _refuse(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

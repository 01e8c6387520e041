"""Take the pictures of the site for README and docs, with Chromium.

    python -m tools.pictures --store STORE [--benchmark ID]

STORE is that of the tutorials: practice models and judges on public data. Needs Chromium and the group `dev`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ASSETS = Path(__file__).parent.parent / "docs" / "assets"
CHROMIUM = "/usr/bin/chromium"
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync")
WIDTH, HEIGHT = 1280, 1000


def take(link: str, benchmark: str) -> None:
    """Sign in, and save one picture of the leaderboard and one of the first case of a benchmark."""
    base = link.partition("/login")[0]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(link)
        page.wait_for_selector("h1:has-text('Leaderboard')")
        page.screenshot(path=str(ASSETS / "board.png"))
        page.goto(f"{base}/benchmarks/{benchmark}/cases")
        page.locator("main a[href*='/cases/']").first.click()
        page.wait_for_selector("h1:has-text('case')")
        page.screenshot(path=str(ASSETS / "case.png"))
        browser.close()


def main() -> None:
    """Serve the store, take the pictures, and stop the server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", required=True, help="folder with results")
    parser.add_argument("--benchmark", default="medication_qa", help="benchmark of the case  [default: medication_qa]")
    options = parser.parse_args()
    command = [sys.executable, "-m", "medhelm", "serve", "--store", options.store, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            lines = iter(server.stdout.readline, "") if server.stdout else iter(())
            link = next(line.strip() for line in lines if "http://" in line)
            take(link, options.benchmark)
        finally:
            server.terminate()


if __name__ == "__main__":
    main()

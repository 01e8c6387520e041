"""Load times of the local site in a browser, beside Inspect's viewer on the same cases.

    .venv/bin/python -m bench.studies.site_load [--keep DIR] [--benchmark NAME] [--rounds N] [--only-ours]
    .venv/bin/python -m bench.studies.site_load --before PYTHON [--keep DIR] [--rounds N]

A round starts `medhelm serve` on a store of 333,000 synthetic records and a browser without a cache, opens every page
twice, and measures from the start of the navigation to the first row of the page in the DOM. `inspect view` then shows
the prompts, completions and scores of one benchmark, in a log that `bench/tools/inspect_log.py` writes. Both servers
run in alternation on the same machine. Then the pages of a store of many models are opened, and the first store is
exported as a static site. The best of the rounds counts. Needs Chromium, playwright and inspect-ai, except with
`--only-ours`, which leaves Inspect's viewer out.

`--before` compares with an earlier checkout instead, whose interpreter it is: both sites show the same stores in
alternation. If the earlier checkout cannot read stores of this one, `--keep` must name a folder with stores of the
earlier one (`store` and `many`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from bench.cells import TOOLS, environment
from bench.measure import output_of
from bench.studies.case_search import add_prompts
from bench.table import table
from bench.tools.leaderboard_store import Size, write
from medhelm.benchmarks.catalog import all_names, load_benchmarks
from medhelm.extensions.web.cases.case import open_cases
from medhelm.extensions.web.cases.listing import find_cases
from medhelm.extensions.web.cases.search import CaseSearch
from medhelm.scoring.metrics import METRIC_NAMES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

BENCHMARK = "pubmed_qa"
"""Benchmark whose cases are shown."""

TEXT = "Note 12"
"""Text to search in prompts: eleven of a thousand have it."""

SIZE = Size()
"""Size of the store."""

MANY = Size(models=300, instances=10, is_short=True)
"""Size of the store of many models."""

EXPORTED_CASES = 20
"""Cases of each benchmark in the exported site."""

LIMIT_S = 300.0
"""Time limit of one page, and of the start of a server."""

OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
"""Options of Chromium: no window, and no connections of its own."""

SAMPLE_ROW, SAMPLE_COUNT = "[role=row][aria-rowindex='2']", "[role=grid] [role=status]"
"""First row of the list of samples in Inspect's viewer, and the number of rows."""

WATCH = """
(([event, selector, text]) => {
  let start = event ? null : 0;
  window.measuredMs = null;
  const look = () => {
    if (start === null || window.measuredMs !== null) return;
    const found = document.querySelector(selector);
    if (!found || !found.textContent.includes(text)) return;
    window.measuredMs = performance.now() - start;
    watcher.disconnect();
  };
  const watcher = new MutationObserver(look);
  if (event) addEventListener(event, () => { start = start ?? performance.now(); }, {capture: true, once: true});
  watcher.observe(document, {childList: true, subtree: true, characterData: true});
})(%s)
"""
"""Writes to `measuredMs` the time from an event, or from the start of the navigation, until an element has a text."""

TRANSFERRED = "performance.getEntries().reduce((sum, one) => sum + (one.transferSize || 0), 0)"
"""Bytes of the page and of everything that it loaded; 0 for what the browser had in its cache."""


NOTE_START = """
(() => {
  const known = sessionStorage;
  known.start = known.start ?? performance.timeOrigin;
  const look = () => {
    if (known.visibleMs || !document.querySelector('h1')) return;
    known.visibleMs = performance.timeOrigin + performance.now() - known.start;
  };
  new MutationObserver(look).observe(document, {childList: true, subtree: true});
})()
"""
"""Notes in a new tab when the first navigation started, and the time from then until there was a heading."""

SINCE_START = "performance.timeOrigin - sessionStorage.start"
"""Milliseconds from the first navigation of a tab to the last one."""

VISIBLE = "Number(sessionStorage.visibleMs)"
"""Milliseconds from the first navigation of a tab until there was a heading."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """One page or action in the browser."""

    ms: float
    """Milliseconds until the element was in the DOM."""
    n_bytes: int = 0
    """Bytes transferred, headers included."""
    visible_ms: float = 0.0
    """Milliseconds until there was a heading: of the page, or of one that says that the page is being made."""


@dataclass(slots=True)
class Server:
    """A running server."""

    process: subprocess.Popen[str]
    """Its process."""
    address: str
    """Address of the server, as it printed it."""
    started: float
    """Clock before the start of the process."""

    def peak_mib(self) -> float:
        """Return the largest resident set of the process so far in MiB; 0 where the kernel does not tell it."""
        status = Path(f"/proc/{self.process.pid}/status")
        if not status.exists():
            return 0.0
        fields = dict(line.split(":", 1) for line in status.read_text(encoding="ascii").splitlines())
        return int(fields["VmHWM"].split()[0]) / 1024


@contextmanager
def started(command: Sequence[str], work: Path, address: Callable[[str], str | None]) -> Iterator[Server]:
    """Start a server, wait until `address` finds its address in what it prints, and stop it at the end."""
    before = time.perf_counter()
    with tempfile.TemporaryFile("w+", dir=work) as errors:
        process = subprocess.Popen(
            list(command), cwd=work, env=_own_folders(work), stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            assert process.stdout is not None
            found = next((found for line in process.stdout if (found := address(line))), None)
            if found is None:
                errors.seek(0)
                raise SystemExit(f"site_load: {' '.join(command[:4])} did not start\n{errors.read()}")
            yield Server(process, found, before)
        finally:
            process.terminate()
            process.wait(30)


def _own_folders(work: Path) -> dict[str, str]:
    """Return the environment of servers. Inspect ends the process whose number its data folder has for the port."""
    return environment(work) | {"HOME": str(work), "XDG_DATA_HOME": str(work / "share"), "PYTHONUNBUFFERED": "1"}


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium. Raises SystemExit if it is not installed."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("MEDHELM_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not program:
        raise SystemExit("site_load: Chromium is not installed; MEDHELM_CHROMIUM may name its program.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(OPTIONS))
        try:
            yield browser
        finally:
            browser.close()


def load(context: BrowserContext, address: str, selector: str, text: str = "") -> tuple[Page, Loaded]:
    """Open an address in a new tab and wait until an element with a text is in the DOM.

    The time includes that of pages that lead to this one by themselves.
    """
    page = context.new_page()
    page.add_init_script(NOTE_START)
    page.add_init_script(WATCH % json.dumps([None, selector, text]))
    page.goto(address, wait_until="commit", timeout=1000 * LIMIT_S)
    ms = _measured(page)
    page.wait_for_load_state("load")
    ms += page.evaluate(SINCE_START)
    return page, Loaded(ms, int(page.evaluate(TRANSFERRED)), min(page.evaluate(VISIBLE) or ms, ms))


def act(page: Page, event: str, selector: str, text: str, action: Callable[[Page], object]) -> Loaded:
    """Do something in a page; measure from its first event of this kind until an element has a text."""
    page.evaluate(WATCH % json.dumps([event, selector, text]))
    action(page)
    return Loaded(_measured(page))


def _measured(page: Page) -> float:
    """Wait for the time that `WATCH` writes.

    `wait_for_function` compiles text, which the policies of both sites forbid.
    """
    end = time.monotonic() + LIMIT_S
    while (found := _now(page)) is None:
        if time.monotonic() > end:
            raise SystemExit(f"site_load: {page.url} did not show what it should within {LIMIT_S:.0f} s")
        page.wait_for_timeout(20)
    return float(found)


def _now(page: Page) -> float | None:
    """Return the time that `WATCH` wrote; None if it is missing, or the page is just making room for another one."""
    from playwright.sync_api import Error

    try:
        found: float | None = page.evaluate("window.measuredMs ?? null")
    except Error:
        return None
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """The cases of one benchmark, which both sites show."""

    store: Path
    """Store with all benchmarks."""
    logs: Path
    """Folder with the log of Inspect."""
    benchmark: str
    """Id of the benchmark."""
    metric: str
    """Its main metric."""
    first: str
    """Id of the first instance."""
    records: int
    """Instances times models."""
    with_text: int
    """Records whose prompt has the text."""
    wrong: int
    """Records with a wrong completion."""


def prepare(size: Size, benchmark: str, work: Path, *, with_log: bool = True) -> Cases:
    """Write the store, the prompts of the benchmark and the log into a folder, unless it holds them."""
    store, logs = work / "store", work / "logs"
    if not store.exists():
        write(store, size)
    add_prompts(store, benchmark)
    if with_log and not logs.exists():
        output_of([sys.executable, str(TOOLS / "inspect_log.py"), str(store), benchmark, str(logs)])
    cases = open_cases([store], benchmark)
    total = find_cases(cases, CaseSearch()).total
    wrong = (find_cases(cases, CaseSearch(show="wrong", model=model)).total for model in cases.models)
    return Cases(
        store=store,
        logs=logs,
        benchmark=benchmark,
        metric=cases.column.metric,
        first=find_cases(cases, CaseSearch()).items[0].row.instance_id,
        records=total * len(cases.models),
        with_text=find_cases(cases, CaseSearch(text=TEXT, within="prompt")).total * len(cases.models),
        wrong=sum(wrong),
    )


Round = tuple[dict[str, Loaded], dict[str, float]]
"""Measurements by page, and facts about the server."""


# --- our site ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shown:
    """A page of our site."""

    path: str
    """Path and query."""
    row: str
    """Selector of its first row."""


def pages_of(benchmark: str, case: str) -> dict[str, Shown]:
    """Return the pages that are measured, by name."""
    about = f"/benchmarks/{benchmark}"
    search = urlencode({"text": TEXT, "within": "prompt"})
    return {
        "leaderboard": Shown("/", "table.board tbody tr"),
        "benchmark": Shown(about, "main table tbody tr"),
        "cases": Shown(f"{about}/cases", "table.case-list tbody tr"),
        "text in prompts": Shown(f"{about}/cases?{search}", "table.case-list tbody tr"),
        "wrong completions": Shown(f"{about}/cases?show=wrong", "table.case-list tbody tr"),
        "one case": Shown(f"{about}/cases/{case}", "main [id^='m-'], article.completion"),
        "two models": Shown("/compare", "main table tbody tr"),
    }


def measure_site(browser: Browser, cases: Cases, work: Path, python: str) -> Round:
    """Start our server, open every page twice, and the list of cases in a browser without a cache.

    Returns the measurements by page, and the start and memory of the server.
    """
    command = [python, "-m", "medhelm", "serve", "--port", "0", "--store", str(cases.store)]
    found: dict[str, Loaded] = {}
    with started(command, work, _printed_address) as server:
        facts = {"start": time.perf_counter() - server.started, "MiB at start": server.peak_mib()}
        pages = pages_of(cases.benchmark, cases.first)
        with signed_in(browser, server.address) as (context, root):
            found |= open_twice(context, root, pages)
        with signed_in(browser, server.address) as (context, root):
            shown = pages["cases"]
            found["cases, new browser"] = load(context, root + shown.path, shown.row)[1]
        facts["MiB"] = server.peak_mib()
    return found, facts


def measure_many(browser: Browser, store: Path, work: Path, python: str) -> dict[str, Loaded]:
    """Open pages of a store of many models twice, each as soon as the one before is there."""
    command = [python, "-m", "medhelm", "serve", "--port", "0", "--store", str(store)]
    pages = {name: pages_of(BENCHMARK, "")[name] for name in ("leaderboard", "benchmark", "cases", "two models")}
    with started(command, work, _printed_address) as server, signed_in(browser, server.address) as (context, root):
        return open_twice(context, root, pages)


def open_twice(context: BrowserContext, root: str, pages: Mapping[str, Shown]) -> dict[str, Loaded]:
    """Open every page twice, one after the other."""
    found: dict[str, Loaded] = {}
    for name, shown in pages.items():
        for turn in ("first", "again"):
            page, found[f"{name}, {turn}"] = load(context, root + shown.path, shown.row)
            page.close()
    return found


def measure_export(store: Path, work: Path, python: str) -> tuple[float, int, int]:
    """Export the site of a store; return the CPU time in seconds, and the numbers of pages and bytes.

    Without benchmarks that have judges: their synthetic runs hold no judgments.
    """
    folder = work / "site"
    shutil.rmtree(folder, ignore_errors=True)
    before = os.times()
    words = ["export", "site", str(folder), "--store", str(store), "--cases", str(EXPORTED_CASES), "--json"]
    definitions = load_benchmarks(all_names(()), metrics=METRIC_NAMES, extra=(), note=lambda _: None)
    shown = [one.name for one in definitions if not one.rubric and (store / "runs" / one.name).exists()]
    words += [word for name in shown for word in ("--benchmark", name)]
    result = json.loads(output_of([python, "-m", "medhelm", *words]))
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return cpu, result["counts"]["pages"], result["bytes"]


def _printed_address(line: str) -> str | None:
    """Return the address that `medhelm serve` prints."""
    return line.strip() if line.strip().startswith("http://") else None


@contextmanager
def signed_in(browser: Browser, address: str) -> Iterator[tuple[BrowserContext, str]]:
    """Return a browser without a cache that has a session, and the address of the site."""
    root, _, token = address.partition("/login#t=")
    context = browser.new_context()
    context.request.post(f"{root}/login", form={"token": token}, max_redirects=0)
    try:
        yield context, root
    finally:
        context.close()


# --- Inspect's viewer -------------------------------------------------------------------------------------------------


def measure_viewer(browser: Browser, cases: Cases, work: Path) -> Round:
    """Start Inspect's viewer; open the list of samples, filter it, and open one sample, each in a new browser.

    Returns the measurements by step, and the start and memory of the server.
    """
    port = free_port()
    program = str(Path(sys.executable).with_name("inspect"))
    command = [program, "view", "start", "--host", "127.0.0.1", "--port", str(port), "--log-dir", str(cases.logs)]
    filters = {
        "text in prompts": (f'input_contains("{TEXT}")', cases.with_text),
        "wrong completions": (f"{cases.metric} < 0.5", cases.wrong),
    }
    found: dict[str, Loaded] = {}
    with started(command, work, lambda line: line if f":{port}" in line else None) as server:
        facts = {"start": time.perf_counter() - server.started, "MiB at start": server.peak_mib()}

        def new_list() -> tuple[Page, Loaded]:
            return load(browser.new_context(), f"http://127.0.0.1:{port}/", SAMPLE_ROW, cases.first)

        page, found["cases, new browser"] = new_list()
        found["one case"] = act(page, "click", ".markdown-content", TEXT[:4], _click)
        page.context.close()
        for name, (expression, n) in filters.items():
            page, _ = new_list()
            found[name] = act(page, "input", SAMPLE_COUNT, f"{n} rows", partial(_filter, expression=expression))
            page.context.close()
        facts["MiB"] = server.peak_mib()
    return found, facts


def _click(page: Page) -> None:
    page.locator(SAMPLE_ROW).click()


def _filter(page: Page, expression: str) -> None:
    """Write a filter above the list of samples, as one change."""
    page.get_by_role("textbox").first.click()
    page.keyboard.insert_text(expression)


def free_port() -> int:
    """Return a port of 127.0.0.1 that is not in use."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# --- tables -----------------------------------------------------------------------------------------------------------


def best(rounds: Sequence[Round]) -> Round:
    """Return the shortest time of each page with its bytes, the shortest start, and the largest memory."""
    pages = {name: min((one[name] for one, _ in rounds), key=lambda loaded: loaded.ms) for name in rounds[0][0]}
    kinds = {name: max if name.startswith("MiB") else min for name in rounds[0][1]}
    return pages, {name: kind(facts[name] for _, facts in rounds) for name, kind in kinds.items()}


def site_table(pages: Mapping[str, Loaded]) -> str:
    """Format the pages of our site."""
    lines = []
    for name in pages_of("", ""):
        if f"{name}, first" not in pages:
            continue
        first, again = pages[f"{name}, first"], pages[f"{name}, again"]
        transferred = f"{first.n_bytes / 1000:,.0f} kB"
        lines.append([name, _time(first.visible_ms), _time(first.ms), _time(again.ms), transferred])
    return table(["page of the site", "visible", "first", "again", "transferred"], lines)


def ratio_table(site: Round, viewer: Round) -> str:
    """Format both sites beside each other."""
    (ours, our_facts), (theirs, their_facts) = site, viewer
    new = "cases, new browser"
    pairs = [
        ("start of the server", 1000 * our_facts["start"], 1000 * their_facts["start"], _time),
        ("list of cases in a new browser", ours[new].ms, theirs[new].ms, _time),
        ("transferred until then", ours[new].n_bytes / 1e6, theirs[new].n_bytes / 1e6, _megabytes),
        *(
            (name, ours[f"{name}, first"].ms, theirs[name].ms, _time)
            for name in ("one case", "text in prompts", "wrong completions")
        ),
        ("peak memory of the server", our_facts["MiB"], their_facts["MiB"], lambda mib: f"{mib:,.0f} MiB"),
    ]
    lines = [[name, shown(a), shown(b), f"{a / b:.2f}"] for name, a, b, shown in pairs]
    return table(["the same cases", "medhelm", "Inspect", "ratio"], lines)


def _time(ms: float) -> str:
    return f"{ms:,.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def _megabytes(value: float) -> str:
    return f"{value:.2f} MB"


@dataclass(slots=True)
class Measured:
    """What one site was measured to take, round by round."""

    python: str
    """Interpreter that serves and exports it."""
    sites: list[Round] = field(default_factory=list)
    """Pages of the store of many records."""
    many: list[Round] = field(default_factory=list)
    """Pages of the store of many models."""
    exports: list[tuple[float, int, int]] = field(default_factory=list)
    """Seconds of CPU, pages and bytes of each export."""

    def measure(self, browser: Browser, cases: Cases, work: Path) -> None:
        """Measure one round. The store of many models lies beside that of the cases."""
        self.sites.append(measure_site(browser, cases, work, self.python))
        self.many.append((measure_many(browser, cases.store.with_name("many"), work, self.python), {}))
        self.exports.append(measure_export(cases.store, work, self.python))

    def print_tables(self) -> None:
        """Print the best of the rounds."""
        pages, facts = best(self.sites)
        print(site_table(pages))
        print(f"\nMemory of the server: {facts['MiB at start']:,.0f} MiB at the start, {facts['MiB']:,.0f} MiB at most")
        print(f"\n{MANY.models} models, {MANY.models * MANY.benchmarks:,} runs:\n\n{site_table(best(self.many)[0])}")
        cpu, n_pages, n_bytes = min(self.exports)
        per_page = 1000 * cpu / n_pages
        print(f"\nExport of {n_pages:,} pages: {cpu:.1f} s of CPU, {per_page:.0f} ms a page, {n_bytes / 1e6:.0f} MB")

    def times(self) -> dict[str, float]:
        """Return label -> milliseconds: each page of both stores, and a page of the export."""
        found = {name: one.ms for name, one in best(self.sites)[0].items()}
        found |= {f"{MANY.models} models: {name}": one.ms for name, one in best(self.many)[0].items()}
        cpu, n_pages, _ = min(self.exports)
        return found | {"export, CPU of a page": 1000 * cpu / n_pages}


def change_table(before: Measured, after: Measured) -> str:
    """Format the times of two checkouts beside each other."""
    earlier = before.times()
    lines = [[name, _time(earlier[name]), _time(ms), f"{ms / earlier[name]:.2f}"] for name, ms in after.times().items()]
    return table(["page", "before", "after", "ratio"], lines)


def main(words: Sequence[str] | None = None) -> int:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="folder for the stores and the log, which are kept")
    parser.add_argument("--benchmark", default=BENCHMARK, help=f"benchmark with a right-or-wrong metric ({BENCHMARK})")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the best counts (default 3)")
    parser.add_argument("--only-ours", action="store_true", help="leave Inspect's viewer out")
    parser.add_argument("--before", metavar="PYTHON", help="interpreter of an earlier checkout to compare with")
    chosen = parser.parse_args(words)
    ours = Measured(sys.executable)
    earlier = Measured(chosen.before) if chosen.before else None
    with_viewer = not (chosen.only_ours or earlier)
    viewers: list[Round] = []
    with tempfile.TemporaryDirectory(prefix="medhelm-site-load-") as temporary, chromium() as browser:
        work, kept = Path(temporary), (chosen.keep or Path(temporary)).absolute()
        cases = prepare(SIZE, chosen.benchmark, kept, with_log=with_viewer)
        if not (kept / "many").exists():
            write(kept / "many", MANY)
        for _ in range(chosen.rounds):
            for site in filter(None, (earlier, ours)):
                site.measure(browser, cases, work)
            if with_viewer:
                viewers.append(measure_viewer(browser, cases, work))
    ours.print_tables()
    if viewers:
        print("", ratio_table(best(ours.sites), best(viewers)), sep="\n")
    if earlier:
        print("", change_table(earlier, ours), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

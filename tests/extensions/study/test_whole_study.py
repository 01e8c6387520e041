"""A whole study: planned, rated by three people at once, and closed, on the pages of a real server.

Two raters use browsers of their own and one a workbook, while one browser and the server are killed. What the study
says in the end equals a computation that shares no code with it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from xlsxwriter import Workbook

from medhelm.extensions.study.journal import cases_of, ratings_of, read_study
from medhelm.extensions.study.types import Study
from medhelm.io.office import read_sheets
from medhelm.storage.store import Store, open_store
from tests.support.agreement_by_hand import alpha_by_hand
from tests.support.cli import Medhelm
from tests.support.study_pages import NAME, StudySite, plan_fields, revision_in, start_study, text_of
from tests.support.study_store import MODELS, WEEKS, sample_store
from tests.support.values import present
from tests.support.web.browser import OPTIONS, Watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright

RATERS = ("rater_1", "rater_2", "rater_3")
CRITERIA = ("accuracy", "completeness", "clarity")

Grades = dict[str, dict[str, dict[str, int]]]
"""Rater -> item -> criterion -> grade."""


# --- what the raters give ---------------------------------------------------------------------------------------------


def grades_for(study: Study, rater: str, item_id: str) -> dict[str, int]:
    """Return what a rater gives an item: near to what it deserves, by a rule of the test alone."""
    found = {}
    for criterion in CRITERIA:
        noise = hashlib.sha256(f"{rater} {item_id} {criterion}".encode()).digest()[0] % 4
        deserved = 4 if study.item(item_id).model == MODELS[0] else 2
        found[criterion] = min(5, max(1, deserved + (1 if noise == 3 else -1 if noise == 2 else 0)))
    return found


def all_grades(store: Store, study: Study) -> Grades:
    """Return what all raters give in the end."""
    return {
        rater: {case.items[0]: grades_for(study, rater, case.items[0]) for case in cases_of(store, study, rater)}
        for rater in RATERS
    }


def expected_alphas(grades: Grades) -> dict[str, float]:
    """Return criterion -> agreement of the three raters."""
    items = sorted(grades[RATERS[0]])
    return {
        criterion: present(
            alpha_by_hand(np.array([[grades[rater][item][criterion] for rater in RATERS] for item in items]), "ordinal")
        )
        for criterion in CRITERIA
    }


def expected_means(study: Study, grades: Grades) -> dict[str, float]:
    """Return model -> mean over items, raters and criteria; all items have all raters."""
    return {
        model: fmean(
            grade
            for rater in RATERS
            for item, given in grades[rater].items()
            if study.item(item).model == model
            for grade in given.values()
        )
        for model in MODELS
    }


def check_outcome(page: str, agreement: Any, board: Any, study: Study, grades: Grades) -> None:
    """Compare the page of the closed study, `medhelm agreement` and the leaderboard with the test's own numbers."""
    for criterion, alpha in expected_alphas(grades).items():
        shown = re.search(rf'<th scope="row">{criterion.capitalize()}</th><td class="number">16</td><td class="number">'
                          r"([\d.−]+)", page)  # fmt: skip
        assert shown, criterion
        assert shown[1] == f"{alpha:.2f}", criterion
    for model, mean in expected_means(study, grades).items():
        shown = re.search(rf'<th scope="row">{model}</th><td class="number">([\d.]+)', page)
        assert shown, model
        assert shown[1] == f"{mean:.2f}"
    assert [one["name"] for one in (*agreement["studies"], *board["studies"])] == [NAME, NAME]
    assert "it is unknown whether the jury agrees with clinicians: 8 independent instances" in board["verdict"][0]
    by_model = {row["model"]: row["clinicians"] for row in board["models"]}
    for model, mean in expected_means(study, grades).items():
        assert by_model[model]["value"] == pytest.approx((mean - 1) / 4, abs=1e-6)


def results_of(medhelm: Medhelm, store: Path) -> tuple[Any, Any]:
    """Return what `medhelm agreement` and the leaderboard say of the ratings in the store."""
    found = [medhelm(name, "--store", str(store), "--json") for name in ("agreement", "leaderboard")]
    return found[0].json, found[1].json


# --- a workbook -------------------------------------------------------------------------------------------------------


def fill_workbook(file: Path, grades: Mapping[int, Mapping[str, int]], wrong: str = "") -> None:
    """Fill in a workbook as a clinician does, question by question. `wrong`: what the first cell gets instead."""
    sheets = {one.name: [list(row) for row in one.rows] for one in read_sheets(file)}
    for row in sheets["Cases"][1:]:
        question = re.match(r"(\d)\.", str(row[1]))
        if question:
            row[3] = list(grades[int(str(row[0]))].values())[int(question[1]) - 1]
            row[3], wrong = wrong or row[3], ""
    with Workbook(str(file), {"strings_to_formulas": False}) as workbook:
        for name, rows in sheets.items():
            sheet = workbook.add_worksheet(name)
            for at, row in enumerate(rows):
                sheet.write_row(at, 0, row)


def numbered(store: Store, study: Study, rater: str) -> dict[int, dict[str, int]]:
    """Return number of a case of a rater -> the grades to give."""
    return {case.number: grades_for(study, rater, case.items[0]) for case in cases_of(store, study, rater)}


def plan(**changes: Any) -> dict[str, Any]:
    """Return the form of a plan: three raters, all completions of both models, each rated by all three."""
    people = {f"{rater}.name": f"Dr. {rater[-1]}" for rater in RATERS}
    size = {"n_cases": "8", "shared": "100", "raters_per_shared_case": "3", "rater_3.adjudicates": ""}
    return plan_fields(**people, **size, **changes)


def test_a_study_without_a_browser_gives_the_same_numbers(medhelm: Medhelm, tmp_path: Path) -> None:
    site = StudySite(sample_store(medhelm, tmp_path))
    study = start_study(site, **plan())
    owner, path = site.owner(), f"/studies/{NAME}"
    for rater in RATERS:
        file = tmp_path / f"{rater}.xlsx"
        file.write_bytes(owner.get(f"{path}/raters/{rater}/files/workbook").content)
        fill_workbook(file, numbered(site.store, study, rater))
        read = owner.post(f"{path}/raters/{rater}/files", files={"file": (file.name, file.read_bytes())})
        assert "16 new" in text_of(read)
    closed = owner.post(f"{path}/close", data={"revision": revision_in(owner.get(f"{path}/close"))})
    check_outcome(closed.text, *results_of(medhelm, site.store.folder), study, all_grades(site.store, study))


# --- real browsers and a real server ----------------------------------------------------------------------------------


class KillableServer:
    """`medhelm serve` as a process that can be killed and started again at the same port."""

    def __init__(self, store: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.store, self.root = store, f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        """Start the process, and wait until it listens."""
        command = [sys.executable, "-m", "medhelm", "serve", "--store", str(self.store), "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = next(line.strip() for line in self.process.stdout if "#t=" in line)

    def kill(self) -> None:
        """End the process at once, whatever it does."""
        self.process.kill()
        _, errors = self.process.communicate()
        assert "Traceback" not in errors


class KillableBrowser:
    """Chromium as a process of its own, with a profile of its own."""

    def __init__(self, playwright: Playwright, profile: Path) -> None:
        program = os.environ.get("MEDHELM_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
        if not program:
            pytest.skip("Chromium is not installed; MEDHELM_CHROMIUM may name its program")
        command = [program, *OPTIONS, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        assert self.process.stderr is not None
        said = (re.search(r"ws://\S+", line) for line in self.process.stderr)
        self.browser: Browser = playwright.chromium.connect_over_cdp(next(found[0] for found in said if found))

    def page(self) -> Page:
        """Return a new page."""
        return self.browser.contexts[0].new_page()

    def kill(self) -> None:
        """End all processes of the browser at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()


@contextmanager
def browsers() -> Iterator[Callable[[Path], KillableBrowser]]:
    """Yield a function that starts a browser; all of them are ended afterwards."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    started: list[KillableBrowser] = []
    with sync_api.sync_playwright() as playwright:

        def start(profile: Path) -> KillableBrowser:
            started.append(KillableBrowser(playwright, profile))
            return started[-1]

        try:
            yield start
        finally:
            for one in started:
                if one.process.poll() is None:
                    one.kill()


def sign_in_owner(page: Page, server: KillableServer) -> None:
    page.goto(server.address)
    page.wait_for_url(f"{server.root}/")


def plan_on_the_page(page: Page, server: KillableServer) -> None:
    """Plan the study as a research nurse does, look at the plan, and start it."""
    page.goto(f"{server.root}/studies/new")
    page.get_by_label("Title").fill("First look")
    page.get_by_label("ACI-Bench").check()
    for number, rater in enumerate(RATERS, 1):
        row = page.get_by_role("group", name=f"Rater {number}")
        row.get_by_label("Name").fill(f"Dr. {rater[-1]}")
    for label, value in (
        ("Rated by several, %", "100"),
        ("Raters of such a case", "3"),
        ("Shown twice to the same rater, %", "0"),
        ("Calibration cases", "0"),
    ):
        page.get_by_label(label).fill(value)
    page.get_by_label("Cases of each model", exact=True).fill("8")
    page.get_by_label("Ask how severe and how likely harm is").uncheck()
    page.get_by_role("button", name="Show the plan").click()
    assert "8 cases of each model: 48 ratings, 16 per rater" in page.locator(".lead").inner_text()
    page.get_by_role("button", name="Start the study").first.click()
    page.get_by_text("The study is saved.").wait_for()


def make_link(page: Page, server: KillableServer, rater: str) -> str:
    """Return a new personal link of a rater, made on the rater's page."""
    page.goto(f"{server.root}/studies/{NAME}/raters/{rater}")
    page.get_by_role("button", name="Make a link").click()
    return page.get_by_role("textbox", name="Link").input_value()


def rating(page: Page, link: str, server: KillableServer, grades: Mapping[int, Mapping[str, int]]) -> Iterator[int]:
    """Open a link and rate case after case; yield the number of each case once it is saved."""
    page.goto(link)
    page.wait_for_url(f"{server.root}/rate/{NAME}")
    page.locator("main a.button").first.click()
    while match := re.search(r"/cases/(\d+)", page.url):
        number = int(match[1])
        assert WEEKS.search(page.locator("#text-0").inner_text())
        for question, grade in enumerate(grades[number].values(), 1):
            page.locator(f"input[name=grade-{question}][value='{grade}']").check()
        here = page.url
        page.locator("button.main").click()
        page.wait_for_url(re.compile(f"^(?!{re.escape(here)}$)"))
        yield number


@pytest.mark.long
def test_two_browsers_and_a_workbook_finish_a_study_while_a_browser_and_the_server_are_killed(
    medhelm: Medhelm, tmp_path: Path
) -> None:
    folder = sample_store(medhelm, tmp_path)
    store, server = open_store(folder), KillableServer(folder)
    try:
        with browsers() as start:
            owner = Watched(start(tmp_path / "owner").page())
            sign_in_owner(owner.page, server)
            plan_on_the_page(owner.page, server)
            study = read_study(store, NAME)
            grades = {rater: numbered(store, study, rater) for rater in RATERS}
            links = {rater: make_link(owner.page, server, rater) for rater in RATERS[:2]}
            first, second = start(tmp_path / "first"), start(tmp_path / "second")
            one = rating(first.page(), links["rater_1"], server, grades["rater_1"])
            other = rating(second.page(), links["rater_2"], server, grades["rater_2"])
            done = [(next(one), next(other)) for _ in range(5)][-1]
            first.kill()
            server.kill()
            kept = [
                set(ratings_of(store, study, rater)) >= set(range(1, n + 1))
                for rater, n in zip(RATERS, done, strict=False)
            ]
            assert kept == [True, True], "what a page had said is saved is on the disk"
            server.start()
            sign_in_owner(owner.page, server)
            again = start(tmp_path / "again").page()
            one = rating(again, make_link(owner.page, server, "rater_1"), server, grades["rater_1"])
            file = read_in_workbook(owner.page, server, tmp_path, grades["rater_3"])
            rest = list(zip_longest(one, other))
            assert [len(list(filter(None, numbers))) for numbers in zip(*rest, strict=True)] == [11, 11]
            assert file.exists()
            closed = close_on_the_page(owner.page, server)
            refused = "Failed to load resource: the server responded with a status of 400 (Bad Request)"
            assert owner.problems == [refused], "for the workbook with a mistake"
    finally:
        server.kill()
    check_outcome(closed, *results_of(medhelm, folder), study, all_grades(store, study))


def read_in_workbook(page: Page, server: KillableServer, folder: Path, grades: Mapping[int, Mapping[str, int]]) -> Path:
    """Download the workbook of the third rater, send it back with a mistake, then without."""
    page.goto(f"{server.root}/studies/{NAME}/raters/rater_3")
    with page.expect_download() as download:
        page.get_by_role("link", name="Workbook (.xlsx)").click()
    file = folder / download.value.suggested_filename
    download.value.save_as(file)
    for wrong, words in (("9", r"Cases!D\d+"), ("", r"Read .*: 16 new")):
        fill_workbook(file, grades, wrong)
        page.get_by_label("Filled-in file").set_input_files(file)
        page.get_by_role("button", name="Read it in").click()
        page.get_by_text(re.compile(words)).wait_for()
    return file


def close_on_the_page(page: Page, server: KillableServer) -> str:
    """Close the study, and return the HTML of its page with the results."""
    page.goto(f"{server.root}/studies/{NAME}")
    assert "48 of 48" in page.locator(".tally").inner_text()
    page.get_by_role("link", name="Close the study").click()
    page.get_by_text("All cases are rated.").wait_for()
    page.get_by_role("button", name="Close the study").click()
    page.get_by_role("heading", name="Results").wait_for()
    found = page.content()
    page.goto(f"{server.root}/")
    assert "Clinicians" in page.locator("table.board thead").inner_text()
    return found

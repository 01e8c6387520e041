"""Pages on paper: in Chromium's PDFs nothing is missing, cut or over anything else, whatever the paper."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from medhelm.domain import Instance, Message, Prompt, Reference
from medhelm.extensions.paper.write import ReportContents, ReportRequest, make_report
from medhelm.extensions.web.site import Site
from medhelm.results.card import export_card
from medhelm.results.options import BoardOptions, DocumentOptions
from medhelm.results.releases import freeze
from medhelm.storage.runs import load_runs, write_prompts
from medhelm.storage.store import Store
from tests.support.case_store import HOSTILE_IDS, add_judged_cases, make_case_store
from tests.support.stores import add_judged_runs, grades, make_store
from tests.support.web.browser import served, started_browser
from tests.support.web.printing import PAPERS, faults_of, missing_texts, print_page, shown_texts
from tests.support.web.sites import make_board_store

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.long

pytest.importorskip("pypdfium2", reason="pypdfium2 is not installed")

LONG = "Line of a long note about a patient with chest pain. " * 12
PAGES = (
    "/",
    "/?category=clinical_decision_support&sort=failures",
    "/benchmarks",
    "/benchmarks/medec",
    "/benchmarks/notes",
    "/benchmarks/letters/card",
    "/benchmarks/toy/cases?show=failed",
    "/benchmarks/toy/cases/plain",
    "/benchmarks/notes/cases/i0",
    "/benchmarks/toy/errors",
    "/judges",
    "/data",
    "/compare",
    "/compare/releases?before=2026-10",
)
MODELS = tuple(f"laboratory/a-model-with-quite-a-long-name-{n}" for n in range(12))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as found:
        yield found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many models with long names, prompts of several sheets, judged text, failures, and a release."""
    place = make_board_store(tmp_path_factory.mktemp("print") / "store", models=12)
    freeze(place, "2026-10", BoardOptions())
    add_judged_cases(make_case_store(place))
    run = next(one for one in load_runs(Store(place)) if one.benchmark == "toy")
    prompts = Store(place).prompts_file("toy", run.benchmark_digest, run.data_digest)
    instances = [Instance(id=name, fields={}, references=(Reference(LONG * 3),)) for name in HOSTILE_IDS]
    texts = "\n".join(f"{n}. {LONG}" for n in range(30))
    prompts.unlink()
    write_prompts(prompts, ((one, Prompt((Message("user", texts),))) for one in instances))
    add_judged_runs(place, "letters", grades(1, 20, models=MODELS), models=MODELS)
    make_store(place, {f"wide_{n}": {name: [0.0, 1.0, 1.0, 1.0] for name in MODELS} for n in range(24)})
    return place


@pytest.fixture(scope="module")
def page(browser: Browser, store: Path) -> Iterator[Page]:
    with pytest.MonkeyPatch.context() as patch, served(Site(stores=[store])) as (root, login):
        patch.setattr("medhelm.extensions.web.app.PATIENCE_S", 600.0)  # no page that asks readers to wait
        context = browser.new_context(base_url=root)
        found = context.new_page()
        found.goto(login)
        found.wait_for_selector("table.board")
        found.emulate_media(media="print")
        yield found
        context.close()


def show(page: Page, path: str) -> None:
    """Open a page that exists."""
    answered = page.goto(path)
    assert answered and answered.status == 200


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_printed_whole(page: Page, path: str) -> None:
    show(page, path)
    shown = shown_texts(page)
    headings = page.locator("h1, h2, h3, h4, caption, figcaption strong, summary").all_inner_texts()
    for paper, landscape in PAPERS:
        sheets = print_page(page, paper, landscape=landscape)
        assert faults_of(sheets, headings) == [], (path, paper, landscape)
        assert missing_texts(shown, sheets) == [], (path, paper, landscape)


def test_reports_and_cards_are_printed_whole_and_cards_say_that_they_continue(
    browser: Browser, store: Path, tmp_path: Path
) -> None:
    about = DocumentOptions(title="Which model may draft our letters?", institution="St. Mary", author="Board")
    options = BoardOptions(tier="real")
    export_card(store, tmp_path / "card.html", options, about)
    request = ReportRequest(stores=[store], options=options, about=about)
    make_report(tmp_path / "report", request, ReportContents(formats=["md"]))
    page = browser.new_page()
    page.emulate_media(media="print")
    for name in ("card.html", "report/index.html"):
        page.goto((tmp_path / name).as_uri())
        shown = shown_texts(page)
        headings = page.locator("h2, caption").all_inner_texts()
        for paper, landscape in PAPERS:
            sheets = print_page(page, paper, landscape=landscape)
            assert faults_of(sheets, headings) == [], (name, paper, landscape)
            assert missing_texts(shown, sheets) == [], (name, paper, landscape)
            assert f"Page 1 of {len(sheets)}" in sheets[0].text
            if name == "card.html" and not landscape:
                assert "Continues on the next page" in sheets[0].text
                assert "Which model may draft our letters?" in sheets[0].text and "Judges" in sheets[0].text
    page.close()


def test_choices_are_printed_as_words(page: Page) -> None:
    show(page, "/?category=clinical_decision_support&model=model-1")
    (first, *_) = print_page(page, "A4", landscape=False)
    assert re.search(r"Category: *Clinical decision support", first.text)
    assert "model-1" in first.text[: first.text.index("Macro average")]
    assert "Subcategory" not in first.text and "Apply" not in first.text
    show(page, "/compare/releases?before=2026-10")
    (first, *_) = print_page(page, "A4", landscape=False)
    assert re.search(r"Earlier: *2026-10", first.text) and re.search(r"Later: *the store now", first.text)

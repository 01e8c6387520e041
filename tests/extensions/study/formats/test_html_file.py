"""The HTML file of a rater in a real browser, opened from disk: rate, save, open again, and import what it saved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from medhelm.extensions.study.formats.exchange import export_study, import_files, rater_cases
from medhelm.extensions.study.formats.html_file import write_html_file
from medhelm.extensions.study.instruments import instrument_names, read_instrument
from medhelm.extensions.study.journal import ratings_of, record
from medhelm.extensions.study.types import CaseRating, InstrumentForm, MarkedPassage, MarkKind, RatingSource
from tests.support.offline_studies import COMPLETIONS, offline_study
from tests.support.web import wcag
from tests.support.web.browser import Watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def opened(browser: Browser, file: Path, width: int = 1280, scheme: str = "light", height: int = 900) -> Watched:
    """Open the file by its path, as a double click does."""
    size = {"width": width, "height": height}
    context = browser.new_context(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
    watched = Watched(context.new_page())
    watched.page.goto(file.as_uri())
    return watched


def test_a_rater_rates_saves_and_goes_on(browser: Browser, tmp_path: Path) -> None:
    store, study = offline_study(tmp_path / "s")
    record(store, study, "rater_1", 2, CaseRating(grades={"accurate": 3}, comment="Before </script><!--"))
    (file,) = export_study(store, study, tmp_path / "out", "html", ["rater_1"], by="owner")
    watched = opened(browser, file)
    page = watched.page
    page.get_by_role("button", name="Begin").press("Enter")
    page.keyboard.press("4")  # outside of a question
    assert page.locator("#rating :checked[type=radio]").count() == 0
    rate_first_case(page)
    assert page.get_by_role("heading", level=1).inner_text() == "Case 2 of 12"
    assert page.get_by_label("Comment (optional)").input_value() == "Before </script><!--"
    page.get_by_label("Comment (optional)").fill("After")
    with page.expect_download() as download:
        page.locator("#save").click()
    page.locator("#file-status", has_text="Saved to your downloads as ward-rater_1-ratings.json.").wait_for()
    assert download.value.suggested_filename == "ward-rater_1-ratings.json"
    saved = tmp_path / "ward-rater_1-ratings.json"
    download.value.save_as(saved)
    check_import(store, study, saved)
    again = opened(browser, file)
    with again.page.expect_file_chooser() as chooser:
        again.page.get_by_role("button", name="Open saved ratings").click()
    chooser.value.set_files(saved)
    again.page.get_by_text("The saved ratings are open.").wait_for()
    again.page.get_by_label("Go to").select_option("1")
    assert again.page.locator("#question-1 input:checked").input_value() == "4"
    assert again.page.locator("#marks").inner_text().startswith("Error: Take one")
    assert again.page.locator("#text-0 mark").inner_text() == "Take one"
    assert again.page.locator("#text-0").inner_text() == COMPLETIONS[0].replace(" 💊", "")
    assert again.page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
    assert watched.problems == again.problems == []


def rate_first_case(page: Page) -> None:
    """Answer the first case by keyboard."""
    page.locator("#text-0").focus()
    for key, shown in (("ArrowRight", "“Take”"), ("Shift+ArrowRight", "“Take one”")):
        page.keyboard.press(key)
        page.locator("#selected", has_text=shown).wait_for()
    for key in ("Enter", "Enter"):  # to the buttons, and the first of them
        page.keyboard.press(key)
    page.locator("#marks li").wait_for()
    page.locator("#question-1 input").first.focus()
    page.keyboard.press("4")
    page.locator("#question-2 input").first.focus()
    page.keyboard.press("Control+Enter")
    assert page.locator(".question.missing").count() == 4
    for number, key in ((3, "1"), (4, "1")):
        page.locator(f"#question-{number} input").first.focus()
        page.keyboard.press(key)
    page.locator("#question-2").get_by_label("Cannot judge").check()
    page.locator("#question-2").get_by_label("Why can you not judge this?").select_option("Another reason")
    page.locator("#question-2").get_by_label("In your words").fill("No labs")
    assert page.locator(".question.missing").count() == 0
    page.keyboard.press("Control+Enter")


def check_import(store: object, study: object, saved: Path) -> None:
    (done,) = import_files(store, study, [saved], by="owner")  # type: ignore[arg-type]
    assert (done.new, done.revised) == ((1,), (2,))
    found = ratings_of(store, study, "rater_1")  # type: ignore[arg-type]
    first = found[1].rating
    assert dict(first.grades) == {"accurate": 4, "reference": 1, "harm_severity": 0}
    assert (first.not_judged, first.source) == ({"clear": "No labs"}, RatingSource.HTML_FILE)
    assert first.marks == (MarkedPassage(start=0, end=8, kind=MarkKind.ERROR),)
    assert first.seconds > 0
    assert (found[2].rating.comment, found[2].revision) == ("After", 2)


def test_a_page_with_unsaved_ratings_warns_before_it_closes(browser: Browser, tmp_path: Path) -> None:
    (file,) = export_study(*offline_study(tmp_path / "s"), tmp_path / "out", "html", ["rater_1"], by="owner")
    watched = opened(browser, file)
    page = watched.page
    page.get_by_role("button", name="Begin").click()
    page.locator("#question-1 input").first.check()
    page.close(run_before_unload=True)
    page.get_by_text("not saved yet").wait_for()  # the dialog was refused, and the page is there
    assert [one.partition(":")[0] for one in watched.problems] == ["dialog"]


def test_ratings_of_another_rater_are_refused(browser: Browser, tmp_path: Path) -> None:
    (file,) = export_study(*offline_study(tmp_path / "s"), tmp_path / "out", "html", ["rater_1"], by="owner")
    other = tmp_path / "other.json"
    watched = opened(browser, file)
    known = {"format": 1, "study": "ward", "plan": "p0", "rater": "rater_1", "ratings": []}
    for content, message in (("{", "This is not a file"), (json.dumps(known), "These ratings belong to another study")):
        other.write_text(content, encoding="utf-8")
        watched.page.locator("#saved").set_input_files(other)
        watched.page.get_by_text(message).wait_for()
    assert watched.problems == []


def test_a_finished_file_can_be_looked_at_again(browser: Browser, tmp_path: Path) -> None:
    store, study = offline_study(tmp_path / "s", InstrumentForm.PREFERENCE)
    for number in range(1, 7):
        record(store, study, "rater_1", number, CaseRating(grades={"preference": 0}))
    (file,) = export_study(store, study, tmp_path / "out", "html", ["rater_1"], by="owner")
    page = opened(browser, file).page
    page.get_by_text("6 of 6 rated").wait_for()
    page.get_by_role("button", name="Look at the cases again").click()
    assert page.get_by_role("heading", level=1).inner_text() == "Case 1 of 6"
    page.get_by_role("button", name="Next case").click()
    page.get_by_text("All cases are rated. Save the ratings, and return the file.").wait_for()


WINDOWS = ((320, "light"), (834, "dark"), (1280, "light"))


@pytest.mark.parametrize(
    ("form", "windows"),
    [
        (InstrumentForm.GRADES, WINDOWS[:1]),
        *(pytest.param(form, WINDOWS, marks=pytest.mark.long) for form in InstrumentForm),
    ],
)
def test_the_file_can_be_used_by_everyone(
    browser: Browser, tmp_path: Path, form: InstrumentForm, windows: Sequence[tuple[int, str]]
) -> None:
    (file,) = export_study(*offline_study(tmp_path / "s", form), tmp_path / "out", "html", ["rater_1"], by="owner")
    found = []
    for width, scheme in windows:
        watched = opened(browser, file, width, scheme, 4000)  # high enough for the bar to cover nothing
        for step in ("start", "case"):
            if step == "case":
                watched.page.get_by_role("button", name="Begin").click()
            wrong = [*watched.page.evaluate(wcag.REFLOW), *wcag.violations(watched.page)]
            found += [f"{width} {scheme} {step}: {one}" for one in wrong]
        assert watched.problems == []
    assert found == []


@pytest.mark.parametrize("name", instrument_names())
def test_every_form_has_a_file(tmp_path: Path, name: str) -> None:
    """Forms whose grades all have words show more than others."""
    store, study = offline_study(tmp_path / "s")
    instrument = read_instrument(name)
    found = rater_cases(store, replace(study, instruments={"letters": instrument}), "rater_1")
    (content,) = write_html_file(found).values()
    assert content.count(b"<template data-case=") == len(found.cases)


def test_the_policy_allows_only_what_the_file_holds(tmp_path: Path) -> None:
    store, study = offline_study(tmp_path / "s", title="<!-- script --> & </title>")
    (content,) = write_html_file(rater_cases(store, study, "rater_1")).values()
    text = content.decode()
    policy = text.partition('Content-Security-Policy" content="')[2].partition('"')[0].replace("&#39;", "'")
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert policy.endswith("base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'")
    assert "<script>alert(1)" not in text
    assert text.count("</script>") == 2
    assert "://" not in text.partition("<body")[0]

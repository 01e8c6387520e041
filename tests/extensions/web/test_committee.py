"""A committee that gets only the files of a static site finds the answers to its seven questions.

It opens index.html by double click and follows links. Each answer is compared with the JSON of the command that gives
the same one. A question whose page the site does not have yet is skipped, with the name of the page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from medhelm.extensions.web.page import BY_NAME
from tests.support.benchmarks.choice import chat, make_benchmark, perfect
from tests.support.benchmarks.judged import CRITERIA, JUDGES, is_judge, number, verdict, write_benchmark
from tests.support.cli import repeated
from tests.support.programs import finish, start
from tests.support.servers.openai import Answer, Server
from tests.support.web.browser import Watched, started_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

N = 30
"""Cases of each benchmark."""

PRICES = {"steady": 40.0, "cheap": 5.0, "poor": 2.0, **dict.fromkeys(JUDGES, 1.0)}
"""Model or judge -> US dollars per million tokens."""

MODELS = ("steady", "cheap", "poor", "baseline/majority")

MISSED_BY_JUDGE_3 = (4, 11)
"""Questions on which one judge gives no verdict."""


def grades_of(judge: str, question: int, is_poor: bool) -> tuple[int, int, int]:
    """Return the grades of a judge: the judges differ by a point on some questions."""
    base = 2 + question % 3 - is_poor
    harsh = judge == "judge-1" and question % 4 == 0
    lenient = judge == "judge-2" and question % 5 == 0
    return base - (harsh and base > 1), base + lenient, base


def answer(body: Mapping[str, Any]) -> Answer:
    """`steady` is nearly always right, `cheap` a little less often; `poor` always says A and refuses twice."""
    question, model = number(body), str(body["model"])
    if is_judge(body):
        if model == "judge-3" and question in MISSED_BY_JUDGE_3:
            return chat("no idea")
        return chat(verdict(*grades_of(model, question, "by poor" in str(body["messages"]))))
    if "A. good" not in body["messages"][-1]["content"]:
        return chat(f"An answer to number {question} by {model}")
    if model == "poor" and question in (3, 6):
        return Answer(status=400, body={"error": {"message": "content filter", "code": "content_filter"}})
    right = perfect(question)
    wrong = "A" if right == "B" else "B"
    if question == 7:
        return chat(wrong)  # nobody agrees with the key
    return chat("A" if model == "poor" else wrong if model == "cheap" and question % 9 == 4 else right)


@dataclass(frozen=True)
class Study:
    """A store, what the commands say about it, and its site as files."""

    board: Any
    """`medhelm leaderboard --json`."""
    jury: Any
    """`medhelm jury --json`."""
    audit: Any
    """`medhelm audit show --json`."""
    index: Path
    """First page of the site."""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("committee")

    def medhelm(*arguments: str) -> str:
        code, out, err = finish(start(folder, *arguments, XDG_CONFIG_HOME=str(folder / "config")))
        assert code in (0, 1), err
        return out

    with Server() as server:
        server.answer_with(answer)
        server.write_models(folder / "models.yaml", PRICES)
        public = make_benchmark(folder, name="quiz", n=N)
        own = make_benchmark(folder, name="wards", n=N, extra="group: topic\n")
        definition = own / "benchmark.yaml"
        changed = {"access: public": "access: private", "Question {question}": "On the ward. Question {question}"}
        for text, other in changed.items():
            definition.write_text(definition.read_text(encoding="utf-8").replace(text, other), encoding="utf-8")
        judged = write_benchmark(folder, n=N)
        models, judges = repeated("--model", MODELS), repeated("--judge", JUDGES)
        medhelm("run", str(public), str(own), str(judged), *models, *judges, "--store", "store", "--attempts", "1")
    board = json.loads(medhelm("leaderboard", "--store", "store", "--json"))
    jury = json.loads(medhelm("jury", "--store", "store", "--json"))
    audit = json.loads(medhelm("audit", "show", "--store", "store", "--json"))
    medhelm("export", "site", "site", "--store", "store", "--cases", "20", "--with-text", "--benchmarks", ".")
    return Study(board=board, jury=jury, audit=audit, index=folder / "site" / "index.html")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as found:
        yield found


@pytest.fixture
def page(browser: Browser, study: Study) -> Iterator[Page]:
    """The first page of the site, opened from disk; nothing may go wrong in it."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    watched = Watched(context.new_page())
    watched.page.goto(study.index.as_uri())
    yield watched.page
    context.close()
    assert watched.problems == []


def needs(*routes: str) -> None:
    """Skip a question as long as the site has no page of these names."""
    if missing := [name for name in routes if name not in BY_NAME]:
        pytest.skip(f"the site has no page {' and no page '.join(missing)}")


def in_one_line(text: str) -> str:
    """Return a text without line breaks and backticks."""
    return re.sub(r"\s+", " ", text).replace("`", "")


def text_of(page: Page, place: str = "main") -> str:
    """Return what a reader sees, on one line; folded parts are open, since one click opens them."""
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    return in_one_line(page.locator(place).first.inner_text())


def is_shown(value: float, text: str) -> bool:
    """Tell whether a text has a number, rounded to at least two significant digits or as a percentage."""
    forms = {f"{value:.{places}f}" for places in (2, 3, 4) if float(f"{value:.{places}f}") != 0}
    forms |= {f"{value:.2g}", f"{value:.0f}"} if value >= 10 else {f"{value:.2g}"}
    forms |= {f"{100 * value:.{places}f}%" for places in (0, 1)}
    return any(re.search(rf"(?<![\d.]){re.escape(form)}0*(?!\d)", text.replace("\u2212", "-")) for form in forms)


def row_of(page: Page, model: str) -> str:
    """Return the text of a model's row on the first page, what only screen readers see included."""
    row = page.locator("table.board tbody tr", has=page.locator("th", has_text=model)).first
    return re.sub(r"\s+", " ", row.evaluate("row => row.textContent"))


def ranked(board: Any) -> list[Any]:
    """Return the models of the JSON of a leaderboard that have a rank: all but baselines."""
    return [one for one in board["models"] if one["rank"] is not None]


def model_in(board: Any, name: str) -> Any:
    """Return a model of the JSON of a leaderboard."""
    return next(one for one in board["models"] if one["model"] == name)


def test_which_model(page: Page, study: Study) -> None:
    best = study.board["models"][0]
    said = text_of(page, "section.verdict")
    assert best["model"] == "steady"
    assert best["model"] in said
    for sentence in study.board["verdict"]:
        assert in_one_line(sentence) in said


def test_how_sure(page: Page, study: Study) -> None:
    for model in ranked(study.board):
        row, found = row_of(page, model["model"]), model[study.board["ranked_by"].replace(" ", "_")]
        ranks = {str(model[key]) for key in ("rank_low", "rank_high")}
        assert all(re.search(rf"(?<![\d.]){rank}(?![\d.])", row) for rank in ranks), row
        assert all(is_shown(found[key], row) for key in ("value", "low", "high")), (row, found)


def test_at_what_cost(page: Page, study: Study) -> None:
    for model in ranked(study.board):
        assert is_shown(model["usd_per_1000"], row_of(page, model["model"])), model["model"]
    assert re.search(r"without judges|judges (are )?not included", text_of(page), re.IGNORECASE)


def test_on_which_tasks_it_is_bad(page: Page, study: Study) -> None:
    needs("model")
    poor = model_in(study.board, "poor")
    page.locator("table.board").get_by_role("link", name="poor", exact=True).click()
    said = text_of(page)
    titles = {one["id"]: one["title"] for one in study.board["benchmarks"]}
    for benchmark, found in poor["benchmarks"].items():
        assert titles[benchmark] in said
        assert is_shown(found["value"], said), (benchmark, found["value"])
    best = {name: max(one["benchmarks"][name]["value"] for one in ranked(study.board)) for name in titles}
    worst = max(("quiz", "wards"), key=lambda name: best[name] - poor["benchmarks"][name]["value"])
    assert titles[worst] in page.locator("#weaknesses ~ ul").first.inner_text()


def test_five_failures(page: Page, study: Study) -> None:
    needs("model")
    page.locator("table.board").get_by_role("link", name="poor", exact=True).click()
    worst_first = page.locator("main a[href*='cases'][href*='model=poor'][href*='sort=worst']")
    worst_first.first.click()
    page.wait_for_load_state()
    assert "cases" in page.url
    assert "sort=worst" in page.url
    expected = {f"q{n}" for n in range(N) if perfect(n) == "B"} | {"q3", "q6", "q7"}
    links = page.locator("main a:visible")
    shown = [one for one in links.all_inner_texts() if re.fullmatch(r"q\d+", one.strip())][:5]
    assert len(shown) == 5
    assert set(shown) <= expected
    page.get_by_role("link", name=shown[0], exact=True).first.click()
    said = text_of(page)
    asked = int(shown[0].removeprefix("q"))
    assert f"number {asked}?" in said
    assert "poor" in said


def test_was_patient_data_sent_outside(page: Page, study: Study) -> None:
    needs("data")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Where data went").click()
    said = text_of(page)
    assert re.search(r"Nothing left this machine", said, re.IGNORECASE)
    wards = [one for one in study.audit["totals"] if one["benchmark"] == "wards"]
    assert sum(one["requests"] for one in wards) == 3 * N
    assert f"{sum(one['requests'] for one in wards):,}" in said
    assert "wards" in said


def test_who_judged_and_can_they_be_trusted(page: Page, study: Study) -> None:
    needs("judges")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Judges").click()
    said = text_of(page)
    for judge, found in study.jury["overall"]["judges"].items():
        assert judge in said
        missing = found["judgments"]["failed"]
        assert missing == (len(MODELS) * len(CRITERIA) * len(MISSED_BY_JUDGE_3) if judge == "judge-3" else 0)
        assert re.search(rf"(?<!\d){missing}(?!\d)", said)
    for sentence in study.jury["verdict"]:
        assert in_one_line(sentence) in said

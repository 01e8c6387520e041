"""From stores and published results to what a report is made of: which runs, which costs, which marks."""

from __future__ import annotations

import csv
import json
from decimal import Decimal
from pathlib import Path

import pytest

from medhelm.domain import Taxonomy
from medhelm.errors import UserError
from medhelm.extensions.paper.write import (
    FIGURES,
    FORMATS,
    RATED_TABLES,
    TABLES,
    ReportContents,
    ReportInputs,
    ReportRequest,
    compose_tables,
    gather_inputs,
    known_names,
    make_report,
)
from medhelm.results.options import BoardOptions, DocumentOptions, RunFilter
from medhelm.results.published.boards import ceiling_of, load_results
from medhelm.results.releases import freeze
from tests.support.html import HtmlPage
from tests.support.leaderboards import PUBLISHED_CSV
from tests.support.stores import make_store

pytestmark = pytest.mark.usefixtures("few_draws")

PLACE = Taxonomy(category="medical_research", subcategory="conducting_literature_research")

HALF: list[float | None] = [1.0, 0.0] * 10
GOOD: list[float | None] = [*[1.0] * 18, *[0.0] * 2]
BAD: list[float | None] = [*[0.0] * 17, *[1.0] * 3]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Three models on a published benchmark and on one of our own."""
    scores: dict[str, dict[str, list[float | None]]] = {
        "pubmed_qa": {"lab/good": GOOD, "lab/half": HALF, "lab/bad": BAD},
        "ward_qa": {"lab/good": GOOD, "lab/half": HALF, "lab/bad": [*BAD[:19], None]},
    }
    return make_store(tmp_path / "store", scores, taxonomy=PLACE)


def test_the_rule_is_the_published_one_beside_published_results(store: Path) -> None:
    found = gather_inputs(ReportRequest(stores=[store], published="beside"))
    assert found.board.scoring == "published"
    assert [column.benchmark for column in found.board.columns] == ["pubmed_qa"]
    assert found.dates.startswith("runs of 2026-01-01; published results of 2025-12-02")
    with pytest.raises(UserError, match="--scoring corrected"):
        gather_inputs(ReportRequest(stores=[store], published="beside", rule="corrected"))


def test_published_ceilings_are_those_of_the_boards_benchmarks(store: Path) -> None:
    found = gather_inputs(ReportRequest(stores=[store], published="beside"))
    results = load_results()
    by_name = {cost.model: cost for cost in found.costs}
    assert len(by_name) == 3 + 9
    for key, model in results.models.items():
        bill, cost = ceiling_of(results.scores[key, "pubmed_qa"]), by_name[model.name]
        assert (cost.is_ceiling, cost.benchmark_tokens) == (True, bill.input_tokens + bill.output_tokens)
        assert Decimal(str(cost.total_usd)) == bill.input_usd + bill.output_usd
    assert not by_name["lab/good"].is_ceiling


def test_an_own_model_with_a_published_name_keeps_its_costs(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", {"pubmed_qa": {"GPT-4o": GOOD}}, taxonomy=PLACE)
    found = gather_inputs(ReportRequest(stores=[store], published="beside"))
    costs = {cost.model: cost.is_ceiling for cost in found.costs}
    assert costs["GPT-4o"] is False
    assert costs["GPT-4o [published]"] is True
    assert {row.model for row in found.board.rows} == set(costs)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (ReportRequest(scores=PUBLISHED_CSV, published="only"), "cannot be combined"),
        (ReportRequest(scores=PUBLISHED_CSV, rule="corrected"), "published means"),
        (ReportRequest(stores=[Path("a"), Path("b")], about=DocumentOptions(ratings=Path("r.csv"))), "one --store"),
        (ReportRequest(published="only", options=BoardOptions(tier="sample")), "--tier sample"),
    ],
)
def test_contradictory_options_are_refused(request_: ReportRequest, words: str) -> None:
    with pytest.raises(UserError, match=words):
        gather_inputs(request_)


def test_names_are_known_whatever_their_case_and_order() -> None:
    names = known_names(["FIGURE5", "tablec3", " table1 "], (*TABLES, *FIGURES), "--only")
    assert names == ["table1", "tableC3", "figure5"]
    with pytest.raises(UserError, match=r"--only: unknown name `tabel1`\. Did you mean `table1`\?\n.*`pdff`"):
        known_names(["tabel1", "pdff"], (*TABLES, *FORMATS), "--only")


def test_report_json_has_the_content_of_the_csv_files(store: Path, tmp_path: Path) -> None:
    make_report(tmp_path / "out", ReportRequest(stores=[store]), ReportContents(formats=["csv"]))
    content = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert set(content["tables"]) == set(TABLES) - {"table2", *RATED_TABLES}
    for key, table in content["tables"].items():
        with (tmp_path / "out" / "tables" / f"{key}.csv").open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        assert table["columns"] == header
        shown = [["" if cell is None else str(cell) for cell in row] for row in table["rows"]]
        assert shown == rows
    assert "reflect the choice of questions" in content["made"]["intervals"]


def test_the_first_page_names_people_and_release_and_the_tables_what_was_run(store: Path, tmp_path: Path) -> None:
    about = DocumentOptions(title="Models <for> the `wards`", institution="St. Mary", author="Board", date="May 2026")
    request = ReportRequest(stores=[store], about=about)
    for released in (False, True):
        if released:
            freeze(store, "2026-11", BoardOptions())
        made = make_report(tmp_path / "out", request, ReportContents(formats=["md"]))
        lines = (made.folder / "README.md").read_text(encoding="utf-8").splitlines()
        page = HtmlPage((made.folder / "index.html").read_text(encoding="utf-8"))
        assert lines[0] == r"# Models \<for> the \`wards\`"
        assert lines[2] == "St. Mary · Board" in page.text
        assert "Report of May 2026; runs of 2026-01-01." in lines
        said = "Release 2026-11 of" if released else "These results are in no release"
        assert any(line.startswith(said) for line in lines) and said in page.text
    content = json.loads((made.folder / "report.json").read_text(encoding="utf-8"))
    assert content["about"]["institution"] == "St. Mary"
    listed = [row[0] for row in content["tables"]["tableC3"]["rows"]]
    assert sorted(listed) == ["pubmed_qa", "ward_qa"]


def test_the_published_formula_is_shown_only_for_benchmarks_that_were_published(store: Path) -> None:
    both = gather_inputs(ReportRequest(stores=[store]))
    own = gather_inputs(
        ReportRequest(stores=[store], options=BoardOptions(wanted=RunFilter(benchmarks=["ward_qa"])))
    )  # fmt: skip
    (published,), _ = compose_tables(both, ["tableE4"])
    (alone,), _ = compose_tables(own, ["tableE4"])
    assert "Published" in published.headers and "Published" not in alone.headers
    assert alone.csv_headers == published.csv_headers
    assert [row[2] is None for row in published.rows] == [row[0] != "PUBMED_QA" for row in published.rows]


@pytest.fixture
def beside(store: Path) -> ReportInputs:
    return gather_inputs(ReportRequest(stores=[store], published="beside"))


def test_tables_mark_published_scores(beside: ReportInputs) -> None:
    tables, _ = compose_tables(beside, ["table1", "table3", "subcategories"])
    first, third, places = tables
    shown = {str(row[list(first.headers).index("Model")]) for row in first.rows}
    assert {"lab/good", "GPT-4o †"} <= shown and "GPT-4o" not in shown
    at = list(first.csv_headers).index("source")
    sources = {str(row[4]): row[at] for row in first.csv_rows}
    assert sources["GPT-4o"] == "published" and sources["lab/good"] == "measured"
    assert {row[third.headers.index("Basis")] for row in third.rows} == {"ceiling", "bill"}
    assert any("Costs cover the evaluated instances" in note for note in third.notes)
    assert "DeepSeek R1 †" in places.headers

"""From stores and published results to what a report is made of: which runs, which costs, which days, which reasons."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Taxonomy
from medhelm.errors import StoreError, UserError
from medhelm.extensions.paper import write as appendix
from medhelm.extensions.paper.contents import ModelCost
from medhelm.extensions.paper.figures import FlaggedScores
from medhelm.extensions.paper.write import (
    FIGURES,
    FORMATS,
    NO_MARKS,
    TABLES,
    ReportContents,
    ReportInputs,
    ReportRequest,
    compose_figures,
    compose_tables,
    gather_inputs,
    known_names,
    make_report,
    suite_listings,
    taxonomy_titles,
)
from medhelm.results.options import BoardOptions
from medhelm.results.published.boards import ceiling_of, load_results
from tests.support.benchmarks.choice import chat, make_benchmark
from tests.support.benchmarks.judged import open_benchmark
from tests.support.cli import Medhelm
from tests.support.leaderboards import PUBLISHED_CSV, published, toy_board, toy_costs
from tests.support.remarks import texts
from tests.support.servers.openai import Answer, Server
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


# --- gathering --------------------------------------------------------------------------------------------------------


def test_the_board_is_that_of_the_stores(store: Path) -> None:
    found = gather_inputs(ReportRequest(stores=[store]))
    assert [row.model for row in found.board.rows] == ["lab/good", "lab/half", "lab/bad"]
    assert (found.board.scoring, found.board.tier, found.suite) == ("corrected", "real", None)
    assert found.dates == "runs of 2026-01-01"
    assert [cost.model for cost in found.costs] == ["lab/good", "lab/half", "lab/bad"]


def test_days_span_all_runs_that_count(tmp_path: Path) -> None:
    make_store(tmp_path / "store", {"a": {"lab/x": HALF}}, started="2026-01-31T23:00:00+00:00")
    make_store(tmp_path / "store", {"b": {"lab/x": GOOD}}, started="2026-03-02T01:00:00+00:00")
    assert gather_inputs(ReportRequest(stores=[tmp_path / "store"])).dates == "runs of 2026-01-31 to 2026-03-02"


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
        bill = ceiling_of(results.scores[key, "pubmed_qa"])
        cost = by_name[model.name]
        assert cost.is_ceiling
        assert cost.benchmark_tokens == bill.input_tokens + bill.output_tokens
        assert Decimal(str(cost.total_usd)) == bill.input_usd + bill.output_usd
        assert (cost.jury_tokens, cost.jury_usd) == (0, 0.0)
    assert not by_name["lab/good"].is_ceiling


def test_an_own_model_with_a_published_name_keeps_its_costs(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", {"pubmed_qa": {"GPT-4o": GOOD}}, taxonomy=PLACE)
    found = gather_inputs(ReportRequest(stores=[store], published="beside"))
    costs = {cost.model: cost.is_ceiling for cost in found.costs}
    assert costs["GPT-4o"] is False
    assert costs["GPT-4o [published]"] is True
    assert {row.model for row in found.board.rows} == set(costs)


def test_a_suite_leaves_out_runs_and_their_costs(store: Path, tmp_path: Path) -> None:
    (tmp_path / "ward.txt").write_text("ward_qa\n", encoding="utf-8")
    found = gather_inputs(ReportRequest(stores=[store], options=BoardOptions(suite=str(tmp_path / "ward.txt"))))
    assert [column.benchmark for column in found.board.columns] == ["ward_qa"]
    assert found.suite == ["ward_qa"]
    paper = gather_inputs(ReportRequest(stores=[store], options=BoardOptions(suite="paper35")))
    assert [column.benchmark for column in paper.board.columns] == ["pubmed_qa"]
    assert paper.suite is not None and len(paper.suite) == 35


def test_costs_are_read_only_if_needed(store: Path) -> None:
    assert gather_inputs(ReportRequest(stores=[store]), with_costs=False).costs == []


def test_tokens_that_a_provider_did_not_count_are_unknown(medhelm: Medhelm, server: Server, tmp_path: Path) -> None:
    def silent(body: dict[str, Any]) -> Answer:
        answer = chat("A")
        assert isinstance(answer.body, dict)
        return Answer(body={key: value for key, value in answer.body.items() if key != "usage"})

    server.answer_with(silent)
    price = "price: {input: 1, output: 2}"
    (tmp_path / "models.yaml").write_text(f'm: {{base_url: "{server.url}/v1", model: m, {price}}}\n', encoding="utf-8")
    assert medhelm("run", make_benchmark(tmp_path, n=4), "--model", "m").code == 0
    found = gather_inputs(ReportRequest(stores=[tmp_path / "medhelm-store"]))
    (cost,) = found.costs
    assert (cost.benchmark_tokens, cost.benchmark_usd, cost.total_usd) == (None, None, None)
    assert (cost.jury_tokens, cost.jury_usd) == (0, 0.0)
    assert any("No token counts were reported by m" in text for text in texts(found.cost_remarks))


def test_a_file_of_scores_needs_no_store() -> None:
    found = gather_inputs(ReportRequest(scores=PUBLISHED_CSV, options=BoardOptions(suite="paper35")))
    assert (len(found.board.rows), found.costs) == (9, [])
    assert found.dates.endswith("published_leaderboard.csv, means only")


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (ReportRequest(scores=PUBLISHED_CSV, published="only"), "cannot be combined"),
        (ReportRequest(scores=PUBLISHED_CSV, rule="corrected"), "published means"),
        (ReportRequest(scores=PUBLISHED_CSV, options=BoardOptions(tier="sample")), "published means"),
        (ReportRequest(stores=[Path("a"), Path("b")], ratings=Path("r.csv")), "one --store"),
        (ReportRequest(published="only", options=BoardOptions(tier="sample")), "--tier sample"),
        (ReportRequest(published="only", options=BoardOptions(suite="nothing")), "--suite nothing"),
    ],
)
def test_contradictory_options_are_refused(request_: ReportRequest, words: str) -> None:
    with pytest.raises(UserError, match=words):
        gather_inputs(request_)


def test_a_folder_that_is_not_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store at"):
        gather_inputs(ReportRequest(stores=[tmp_path]))


# --- composing --------------------------------------------------------------------------------------------------------


def texts_of(svg: str) -> list[str]:
    return ["".join(node.itertext()) for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def keys(made: Sequence[Any]) -> list[str]:
    return [one.key for one in made]


def test_everything_that_can_be_made_is_made_in_order() -> None:
    board = toy_board(3, 4)
    found = ReportInputs(board=board, costs=toy_costs(board))
    tables, not_made = compose_tables(found, TABLES)
    figures, not_drawn = compose_figures(found, FIGURES)
    assert keys(tables) == [key for key in TABLES if key != "table2"]
    assert keys(figures) == [key for key in FIGURES if key != "figureD1"]
    assert (not_made, not_drawn) == ({"table2": "needs --ratings FILE"}, {"figureD1": NO_MARKS})


def test_figure_d1_has_both_means_of_each_benchmark_with_marks() -> None:
    scores = [
        FlaggedScores(title="MIMIC-RRS", accepted=0.8, flagged=0.5, n_accepted=684, n_flagged=316, n_models=9),
        FlaggedScores(title="RaceBias", accepted=0.7, flagged=0.72, n_accepted=150, n_flagged=17, n_models=2),
    ]
    (figure,), _ = compose_figures(ReportInputs(board=toy_board(3, 4), flagged=scores), ["figureD1"])
    assert "MIMIC-RRS: accepted 0.800, flagged 0.500" in figure.words
    shown = texts_of(figure.svg)
    bars = [(text, value) for text, value in pairwise(shown) if text.startswith(("Accepted", "Flagged ("))]
    assert bars == [
        ("Accepted (684)", "0.800"), ("Flagged (316)", "0.500"), ("Accepted (150)", "0.700"), ("Flagged (17)", "0.720"),
    ]  # fmt: skip


def test_only_requested_tables_are_made() -> None:
    found = ReportInputs(board=toy_board(2, 2))
    assert keys(compose_tables(found, ["subcategories", "table1"])[0]) == ["table1", "subcategories"]
    assert keys(compose_figures(found, ["pairs"])[0]) == ["pairs"]
    assert compose_figures(found, []) == ([], {})


def test_missing_tables_have_reasons() -> None:
    board = toy_board(1, 2)
    _, tables = compose_tables(ReportInputs(board=board), TABLES)
    _, figures = compose_figures(ReportInputs(board=board), FIGURES)
    assert tables == {
        "table2": "needs --ratings FILE",
        "table3": "tokens and costs are unknown",
        "tableE4": "needs scores of instances for at least two models",
        "head_to_head": "needs two models that were run on the same benchmark",
    }
    assert set(figures) == {"figure5", "figureD1", "win_rates", "pairs"}
    assert all("two models" in reason for key, reason in figures.items() if key != "figureD1")
    free = ReportInputs(board=toy_board(2, 2), costs=toy_costs(toy_board(2, 2), free=[0, 1]))
    assert compose_figures(free, ["figure5"])[1] == {"figure5": "no model has a known cost above 0"}


def test_a_board_without_any_result_makes_nothing() -> None:
    empty = replace(toy_board(2, 2), rows=(), columns=())
    assert compose_tables(ReportInputs(board=empty), TABLES)[0] == []
    made, reasons = compose_figures(ReportInputs(board=empty), FIGURES)
    assert made == []
    assert set(reasons.values()) == {"no results"}


def test_benchmarks_of_the_suite_come_first(store: Path) -> None:
    board = gather_inputs(ReportRequest(stores=[store])).board
    names = [one.entry.name for one in suite_listings(board)]
    assert (len(names), names[-1]) == (38, "ward_qa")
    ward = suite_listings(board)[-1]
    assert (ward.entry.access, ward.entry.construction, ward.metric) == ("", "", "EM")
    assert ward.entry.category == "medical_research"
    assert [one.column is not None for one in suite_listings(board, ["clear", "pubmed_qa"])] == [False, True, True]


def test_a_suite_may_name_unknown_benchmarks() -> None:
    (unknown,) = [
        one for one in suite_listings(toy_board(1, 1), ["medcalc_bench", "ward_qa"]) if one.entry.name == "ward_qa"
    ]
    assert (unknown.entry.title, unknown.entry.category, unknown.metric, unknown.column) == ("ward_qa", "", "", None)


def test_places_have_their_names() -> None:
    titles = taxonomy_titles()
    assert titles["clinical_decision_support"] == "Clinical Decision Support"
    assert titles["conducting_literature_research"] == "Conducting Literature Research"
    assert len(titles) == 5 + 22


# --- making -----------------------------------------------------------------------------------------------------------


def test_names_are_known_whatever_their_case_and_order() -> None:
    assert known_names(["FIGURE5", "tablec3", " table1 "], (*TABLES, *FIGURES), "--only") == [
        "table1",
        "tableC3",
        "figure5",
    ]
    assert known_names([], TABLES, "--only") == []
    with pytest.raises(UserError) as told:
        known_names(["tabel1", "pdff"], (*TABLES, *FORMATS), "--only")
    assert str(told.value).splitlines() == [
        "--only: unknown name `tabel1`. Did you mean `table1`?",
        "--only: unknown name `pdff`. Did you mean `pdf`?",
    ]


def test_a_report_lists_its_files(tmp_path: Path) -> None:
    contents = ReportContents(only=["table1", "pairs"], formats=["md", "svg"], command="medhelm report x")
    request = ReportRequest(published="only", options=BoardOptions(suite="paper35"))
    made = make_report(tmp_path / "out", request, contents)
    assert sorted(made.files) == ["README.md", "figures/pairs.svg", "index.html", "report.json", "tables/table1.md"]
    assert all((tmp_path / "out" / name).is_file() for name in made.files)
    assert made.missing is None and made.not_made == {}
    assert texts(made.remarks) == texts(published().remarks)
    assert tuple(made.findings[: len(published().verdict)]) == published().verdict
    assert made.findings[0].startswith("DeepSeek R1 leads (win rate ")


@pytest.mark.long
def test_the_same_report_twice_differs_in_nothing_but_its_time(tmp_path: Path) -> None:
    contents = ReportContents(formats=["md", "csv", "latex", "svg"])
    texts = []
    for name in ("one", "two"):
        make_report(tmp_path / name, ReportRequest(published="only", options=BoardOptions(suite="paper35")), contents)
        found = {
            path.relative_to(tmp_path / name).as_posix(): path.read_text(encoding="utf-8")
            for path in (tmp_path / name).rglob("*")
            if path.is_file() and path.name not in ("report.json", "README.md", "index.html")
        }
        texts.append(found)
    assert texts[0] == texts[1]
    assert len(texts[0]) == 5 * 3 + 6


def test_a_cost_is_the_sum_of_its_parts_or_unknown() -> None:
    known = ModelCost(model="m", benchmark_tokens=1, jury_tokens=1, benchmark_usd=0.1, jury_usd=0.2, ceiling_usd=None)
    assert known.total_usd == 0.3
    assert replace(known, jury_usd=None).total_usd is None
    assert replace(known, benchmark_usd=None).total_usd is None


# --- what the folder says of itself -----------------------------------------------------------------------------------


def test_report_json_has_the_content_of_the_csv_files(store: Path, tmp_path: Path) -> None:
    make_report(tmp_path / "out", ReportRequest(stores=[store]), ReportContents(formats=["csv"]))
    content = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert set(content) == {
        "medhelm_report", "made", "leaderboard", "tables", "figures", "not_made", "findings", "files"
    }  # fmt: skip
    assert set(content["tables"]) == set(TABLES) - {"table2"}
    for key, table in content["tables"].items():
        with (tmp_path / "out" / "tables" / f"{key}.csv").open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        assert table["columns"] == header
        shown = [["" if cell is None else str(cell) for cell in row] for row in table["rows"]]
        assert shown == rows
    assert set(content["made"]) == {
        "command", "medhelm", "made", "suite", "scoring", "tier", "scores from", "intervals"
    }  # fmt: skip
    assert "reflect the choice of questions" in content["made"]["intervals"]


def test_failures_are_counted_among_the_instances_and_never_scored(store: Path) -> None:
    board = gather_inputs(ReportRequest(stores=[store])).board
    (ward,) = [row for row in appendix.table_c3(suite_listings(board), board, {}).csv_rows if row[0] == "ward_qa"]
    assert ward[-6:-3] == [20, 20, 3]
    bad = next(row for row in board.rows if row.model == "lab/bad")
    cell = bad.cells["ward_qa"]
    assert cell.value == pytest.approx(2 / 19)
    assert cell.n_failed == 1
    assert any("1 instance without a score" in text for text in texts(board.remarks))


def test_the_published_rule_changes_the_board_and_its_name(store: Path, tmp_path: Path) -> None:
    make_report(
        tmp_path / "out",
        ReportRequest(stores=[store], rule="published"),
        ReportContents(only=["tableE4"], formats=["md"]),
    )
    text = (tmp_path / "out" / "tables" / "tableE4.md").read_text(encoding="utf-8")
    assert "published scoring" in text
    assert "--scoring published" not in text, "it is what was asked for"


def test_ratings_are_named_in_how_it_was_made(store: Path, tmp_path: Path) -> None:
    header = "rater,instance_id,benchmark,model,accuracy,completeness,clarity"
    jury = "jury_accuracy,jury_completeness,jury_clarity"
    lines = [f"{rater},i{i},own_qa,m,{i},{i},{i},{i},{i},{i}" for rater in "AB" for i in (1, 2, 4, 5)]
    (tmp_path / "r.csv").write_text("\n".join([f"{header},{jury}", *lines]) + "\n", encoding="utf-8")
    definition = open_benchmark(tmp_path / "defined")
    request = ReportRequest(
        stores=[store], ratings=tmp_path / "r.csv", definitions=[replace(definition, name="own_qa")]
    )
    make_report(tmp_path / "out", request, ReportContents(only=["table2"], formats=["csv"]))
    content = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert content["made"]["ratings"].endswith("r.csv")
    (jury_row,) = [row for row in content["tables"]["table2"]["rows"] if row[3] == "jury"]
    assert jury_row[:5] == ["own_qa", 4, 2, "jury", 1.0]


# --- own models beside published ones ---------------------------------------------------------------------------------


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


def test_figures_mark_published_scores(beside: ReportInputs) -> None:
    (figure,) = compose_figures(beside, ["win_rates"])[0]
    assert {"GPT-4o †", "lab/half"} <= set(texts_of(figure.svg))
    assert "Hollow points are published scores." in " ".join(texts_of(figure.svg))
    published = sum(row.published for row in beside.board.rows)
    assert figure.svg.count("c-hollow") == published < figure.svg.count("<circle")


def test_figure_5_puts_bills_on_the_axis_of_ceilings(beside: ReportInputs) -> None:
    first, second = (
        [cost if cost.is_ceiling else replace(cost, benchmark_usd=bill, ceiling_usd=7.0) for cost in beside.costs]
        for bill in (1.0, 3.0)
    )
    (figure,) = compose_figures(replace(beside, costs=first), ["figure5"])[0]
    assert [figure] == compose_figures(replace(beside, costs=second), ["figure5"])[0]
    assert "ceilings" in " ".join(texts_of(figure.svg)) and "cost unknown" not in figure.svg


def test_a_board_of_published_means_reports_that_intervals_are_over_benchmarks(beside: ReportInputs) -> None:
    (table,) = compose_tables(beside, ["table1"])[0]
    assert "reflect the choice of benchmarks, not the choice of questions" in " ".join(table.notes)
    assert "published, not measured here" in table.caption

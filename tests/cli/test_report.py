"""`medhelm report` as people and scripts use it."""

from __future__ import annotations

import csv
import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.judged import court, write_benchmark
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.leaderboards import PUBLISHED_CSV, TABLE_1, TABLE_3
from tests.support.servers.openai import Server

pytestmark = pytest.mark.usefixtures("few_draws")

WORDS = ("--formats", "md,csv,latex")
"""Everything but pictures."""


@pytest.fixture
def store(medhelm: Medhelm, server: Server, tmp_path: Path) -> Path:
    """Two models of known price and one of none on one benchmark, judged by two."""
    server.answer_with(court(answering=lambda n: f"An answer to number {n}"))
    write_benchmark(tmp_path, n=3)
    prices = {"cheap": 1000, "dear": 3000, "judge-1": 100, "judge-2": 0, "secret": None}
    lines = []
    for name, price in prices.items():
        tail = "" if price is None else f", price: {{input: {price}, output: {price}}}"
        lines.append(f'{name}: {{base_url: "{server.url}/v1", model: {name}{tail}}}\n')
    (tmp_path / "models.yaml").write_text("".join(lines), encoding="utf-8")
    models = [part for name in ("cheap", "dear", "secret") for part in ("--model", name)]
    succeeded(medhelm("run", "./letters", *models, "--judge", "judge-1", "--judge", "judge-2"))
    return tmp_path / "medhelm-store"


def table(folder: Path, key: str) -> list[dict[str, str]]:
    with (folder / "tables" / f"{key}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def manifest(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return content


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


# --- the published results --------------------------------------------------------------------------------------------


def test_the_paper_in_one_command(medhelm: Medhelm, tmp_path: Path) -> None:
    done = succeeded(medhelm("report", "paper", "--published-only", "--suite", "paper35", *WORDS))
    paper = tmp_path / "paper"
    assert {row["model"]: round(float(row["macro_average"]), 2) for row in table(paper, "table1")} == {
        model: printed[2] for model, printed in TABLE_1.items()
    }
    assert {row["model"]: float(row["total_usd"]) for row in table(paper, "table3")} == {
        model: printed[-1] for model, printed in TABLE_3.items()
    }
    tables = ("table1", "table3", "tableC3", "subcategories", "head_to_head")
    made = [f"tables/{key}.{end}" for key in tables for end in ("md", "csv", "tex")]
    assert files(paper) == {"README.md", "index.html", "report.json", *made}
    assert "DeepSeek R1 leads (win rate " in done.out
    assert "not made: table2: needs --ratings FILE" in done.err
    assert re.search(r"\d+ warnings: see paper/README.md", done.err)
    content = manifest(paper)
    assert content["made"]["command"] == "medhelm report paper --published-only --suite paper35 --formats md,csv,latex"
    assert content["made"]["scores from"].startswith("published results of 2025")
    board = medhelm("leaderboard", "--published-only", "--suite", "paper35", "--json").json
    assert content["leaderboard"] == board
    assert content["tables"]["table1"]["columns"][:2] == ["rank", "rank_low"]


def test_a_published_table_has_no_costs(medhelm: Medhelm, tmp_path: Path) -> None:
    succeeded(medhelm("report", "out", "--scores", PUBLISHED_CSV, *WORDS))
    assert set(manifest(tmp_path / "out")["not_made"]) == {"table2", "table3", "tableE4"}
    assert "means only" in manifest(tmp_path / "out")["made"]["scores from"]


@pytest.mark.long
def test_pictures_in_every_format_and_only_those_asked_for(medhelm: Medhelm, tmp_path: Path) -> None:
    names = ("--only", "FIGURE5,table3", "--only", "pairs", "--formats", "svg,png", "--formats", "pdf")
    done = succeeded(medhelm("report", "out", "--published-only", "--suite", "paper35", *names, "--json"))
    drawn = {f"figures/{key}.{kind}" for key in ("figure5", "pairs") for kind in ("svg", "png", "pdf")}
    assert files(tmp_path / "out") == {"README.md", "index.html", "report.json", *drawn}
    assert set(done.json["files"]) == files(tmp_path / "out")
    assert done.json["not_made"] == {}
    assert (tmp_path / "out" / "figures" / "figure5.png").read_bytes().startswith(b"\x89PNG")
    svg = (tmp_path / "out" / "figures" / "figure5.svg").read_text(encoding="utf-8")
    assert "DeepSeek R1 †" in svg and len(svg) < 60_000
    assert "data:image/svg+xml;base64," in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


# --- one's own models -------------------------------------------------------------------------------------------------


def test_bills_of_ones_own_models_with_their_judges(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    succeeded(medhelm("report", "out", "--store", store, *WORDS))
    rows = {row["model"]: row for row in table(tmp_path / "out", "table3")}
    # 3 completions of 20 + 1 tokens; 3 replies of each of two judges, of whom one costs 100 USD a million.
    assert (rows["cheap"]["benchmark_tokens"], rows["cheap"]["jury_tokens"]) == ("63", "126")
    assert float(rows["cheap"]["benchmark_usd"]) == pytest.approx(0.063)
    assert float(rows["dear"]["benchmark_usd"]) == pytest.approx(0.189)
    assert float(rows["cheap"]["jury_usd"]) == pytest.approx(0.0063)
    assert float(rows["cheap"]["total_usd"]) == pytest.approx(0.0693)
    assert {row["basis"] for row in rows.values()} == {"bill"}
    # By the published rule: 60 tokens in, 3 x 50 out; the judges read both once and write 4096 each.
    ceiling = (60 + 150) * 1000 / 1e6 + (210 + 3 * 4096) * 100 / 1e6
    assert float(rows["cheap"]["ceiling_usd"]) == pytest.approx(ceiling, abs=0.011)
    assert (rows["secret"]["benchmark_usd"], rows["secret"]["total_usd"]) == ("", "")
    assert float(rows["secret"]["jury_usd"]) == pytest.approx(0.0063)
    by_cost = {row["model"]: row["bill_usd"] for row in medhelm("cost", "--store", store, "--json").json["rows"]}
    assert by_cost["cheap"] == pytest.approx(float(rows["cheap"]["total_usd"]))
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "No price is known for secret" in text
    assert re.search(r"scores from: runs of \d{4}-\d\d-\d\d\n", text)
    assert [row["benchmark"] for row in table(tmp_path / "out", "tableE4")] == ["letters"]
    assert table(tmp_path / "out", "tableC3")[-1]["benchmark"] == "letters"


def test_ratings_make_table_2(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    lines = ["rater,instance_id,benchmark,model,accuracy,completeness,clarity"]
    for model in ("cheap", "dear"):
        lines += [f"{rater},q{i},letters,{model},{1 + i},{2 + i},{1 + i}" for i in range(3) for rater in ("A", "B")]
    (tmp_path / "ratings.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    succeeded(medhelm("report", "out", "--store", store, "--ratings", "ratings.csv", "--only", "table2", *WORDS))
    jury = next(row for row in table(tmp_path / "out", "table2") if row["who"] == "jury")
    found = medhelm("agreement", "ratings.csv", "--store", store, "--json").json
    assert float(jury["icc3k"]) == pytest.approx(found["datasets"]["letters"]["jury_vs_clinicians"]["icc3k"])
    assert "ROUGE-L and clinicians" in (tmp_path / "out" / "tables" / "table2.md").read_text(encoding="utf-8")


def test_ratings_with_the_jurys_own_grades_go_with_published_results(medhelm: Medhelm, tmp_path: Path) -> None:
    grades = [(5, 4.7), (2, 3.1), (4, 3.9), (3, 3.6), (1, 2.0)]
    header = (
        "rater,instance_id,benchmark,model,accuracy,completeness,clarity,jury_accuracy,jury_completeness,jury_clarity"
    )
    lines = [
        f"{rater},i{i},aci_bench,GPT-4o,{grade},{grade},{grade},{jury},{jury},{jury}"
        for rater in ("A", "B")
        for i, (grade, jury) in enumerate(grades)
    ]
    (tmp_path / "ratings.csv").write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    succeeded(medhelm("report", "out", "--published-only", "--ratings", "ratings.csv", "--only", "table2", *WORDS))
    jury = next(row for row in table(tmp_path / "out", "table2") if row["who"] == "jury")
    ours, theirs = zip(*grades, strict=True)
    correlation = statistics.correlation(ours, theirs)
    assert float(jury["icc3k"]) == pytest.approx(2 * correlation / (1 + correlation), abs=1e-6)


def test_sample_rows_are_stamped_everywhere_and_never_beside_published_ones(medhelm: Medhelm, tmp_path: Path) -> None:
    benchmark = make_benchmark(tmp_path, n=9)
    models = ("--model", "baseline/majority", "--model", "baseline/random")
    assert medhelm("run", benchmark, *models, "--tier", "sample").code == 0
    names = ("--only", "table1,tableD1,figure4", "--formats", "md,csv,latex,svg")
    succeeded(medhelm("report", "out", *names))
    for name in files(tmp_path / "out") - {"report.json"}:
        text = (tmp_path / "out" / name).read_text(encoding="utf-8")
        stamp = ",sample" if name.endswith(".csv") else "SAMPLE TIER: invented rows"
        assert stamp in text, name
    assert manifest(tmp_path / "out")["leaderboard"]["tier"] == "sample"
    assert medhelm("report", "other", "--with-published", *WORDS).code == 2
    assert not (tmp_path / "other").exists()


def test_two_stores_stand_side_by_side(medhelm: Medhelm, tmp_path: Path) -> None:
    benchmark = make_benchmark(tmp_path, n=9)
    for name in ("ours", "theirs"):
        assert medhelm("run", benchmark, "--model", "baseline/majority", "--store", name).code == 0
    assert medhelm("report", "out", "--store", "ours", "--store", "theirs", *WORDS).code == 0
    expected = {"baseline/majority [ours]", "baseline/majority [theirs]"}
    assert {row["model"] for row in table(tmp_path / "out", "table1")} == expected
    assert {row["model"] for row in table(tmp_path / "out", "table3")} == expected
    assert {row["total_usd"] for row in table(tmp_path / "out", "table3")} == {"0.0"}


def test_the_file_of_a_suite_lists_what_was_not_run_too(medhelm: Medhelm, tmp_path: Path) -> None:
    assert medhelm("run", make_benchmark(tmp_path, n=9), "--model", "baseline/majority").code == 0
    (tmp_path / "ward.txt").write_text("toy\npubmed_qa\n", encoding="utf-8")
    succeeded(medhelm("report", "out", "--suite", "ward.txt", "--benchmarks", tmp_path, "--only", "tableC3", *WORDS))
    rows = {row["benchmark"]: row["n_models"] for row in table(tmp_path / "out", "tableC3")}
    assert rows == {"toy": "1", "pubmed_qa": "0"}


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formats", "code", "drawn", "not_made"),
    [
        ("md,csv,svg,png,pdf", 4, {"figures/figure3.svg"}, False),
        ("md,csv,png", 4, set(), True),
        ("md,csv,svg", 0, {"figures/figure3.svg"}, False),
        ("md,csv", 0, set(), False),
    ],
    ids=["all but PNG and PDF", "no picture", "SVG needs nothing", "nothing to draw"],
)
def test_without_the_extra_for_figures(
    medhelm: Medhelm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, formats: str, code: int, drawn: set[str],
    not_made: bool,
) -> None:  # fmt: skip
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    done = medhelm("report", "out", "--published-only", "--only", "table1,figure3", "--formats", formats)
    assert done.code == code
    assert ("pip install '.[figures]'" in done.err) == (code == 4) and "Traceback" not in done.err
    tables = {"tables/table1.md", "tables/table1.csv"}
    assert files(tmp_path / "out") == {"README.md", "index.html", "report.json", *tables, *drawn}
    assert ("pip install" in manifest(tmp_path / "out")["not_made"].get("figure3", "")) == not_made


def test_a_folder_with_other_things_is_refused_before_anything_is_read(medhelm: Medhelm, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    assert_refused(medhelm("report", "mine", "--store", "nowhere"), "mine is not empty and not a medhelm report")
    assert files(tmp_path / "mine") == {"notes.txt"}


def test_a_report_is_made_anew_but_no_change_by_hand_is_lost(medhelm: Medhelm, tmp_path: Path) -> None:
    command = ("report", "out", "--published-only", "--only", "table1", *WORDS)
    assert medhelm(*command).code == 0
    assert medhelm(*command).code == 0
    readme = tmp_path / "out" / "README.md"
    readme.write_text(readme.read_text(encoding="utf-8") + "My words.\n", encoding="utf-8")
    assert_refused(medhelm(*command), "changed by hand: README.md")
    assert readme.read_text(encoding="utf-8").endswith("My words.\n")


def test_one_model_on_one_benchmark(medhelm: Medhelm, tmp_path: Path) -> None:
    assert medhelm("run", make_benchmark(tmp_path, n=9), "--model", "baseline/majority").code == 0
    done = succeeded(medhelm("report", "out", "--formats", "md,svg"))
    content = manifest(tmp_path / "out")
    assert set(content["figures"]) == {"figure3", "figure4", "figure4_subcategories"}
    assert set(content["not_made"]) == {
        "table2",
        "tableE4",
        "head_to_head",
        "figure5",
        "figureD1",
        "win_rates",
        "pairs",
    }
    assert "at least two models" in done.out


# --- docs/how-to/paper_report.md --------------------------------------------------------------------------------------

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "how-to" / "paper_report.md"


def test_the_picture_in_the_docs_is_what_the_command_there_gives(medhelm: Medhelm, tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    command = re.findall(r"^    medhelm (report paper .*--formats svg)$", page, re.MULTILINE)
    assert medhelm(*command[0].split()).code == 0
    drawn = (tmp_path / "paper" / "figures" / "figure5.svg").read_text(encoding="utf-8")
    kept = (DOCS / "assets" / "figure5.svg").read_text(encoding="utf-8")
    assert kept == drawn

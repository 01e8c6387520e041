"""`medhelm report` as people and scripts use it."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.judged import court, write_benchmark
from tests.support.cli import Medhelm, assert_refused, repeated, succeeded
from tests.support.leaderboards import TABLE_1, TABLE_3
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
    server.write_models(tmp_path / "models.yaml", prices)
    models = repeated("--model", ("cheap", "dear", "secret"))
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
    assert "not made: table2: needs --ratings FILE" in done.err
    content = manifest(paper)
    assert content["made"]["command"] == "medhelm report paper --published-only --suite paper35 --formats md,csv,latex"
    assert content["leaderboard"] == medhelm("leaderboard", "--published-only", "--suite", "paper35", "--json").json


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
    # By the published rule: 60 tokens in, 3 x 50 out; the judges read both once and write 4096 each.
    ceiling = (60 + 150) * 1000 / 1e6 + (210 + 3 * 4096) * 100 / 1e6
    assert float(rows["cheap"]["ceiling_usd"]) == pytest.approx(ceiling, abs=0.011)
    assert (rows["secret"]["benchmark_usd"], rows["secret"]["total_usd"]) == ("", "")
    assert float(rows["secret"]["jury_usd"]) == pytest.approx(0.0063)
    by_cost = {row["model"]: row["bill_usd"] for row in medhelm("cost", "--store", store, "--json").json["rows"]}
    assert by_cost["cheap"] == pytest.approx(float(rows["cheap"]["total_usd"]))
    assert "No price is known for secret" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


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


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formats", "drawn"),
    [("md,csv,svg,png", {"figures/figure3.svg"}), ("md,csv,png", set())],
    ids=["SVG needs nothing", "no picture"],
)
def test_without_the_extra_for_figures(
    medhelm: Medhelm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, formats: str, drawn: set[str]
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    done = medhelm("report", "out", "--published-only", "--only", "table1,figure3", "--formats", formats)
    assert done.code == 4
    assert "pip install '.[figures]'" in done.err
    tables = {"tables/table1.md", "tables/table1.csv"}
    assert files(tmp_path / "out") == {"README.md", "index.html", "report.json", *tables, *drawn}


def test_a_report_is_made_anew_but_nothing_by_hand_is_lost(medhelm: Medhelm, tmp_path: Path) -> None:
    command = ("report", "out", "--published-only", "--only", "table1", *WORDS)
    assert medhelm(*command).code == 0
    assert medhelm(*command).code == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    assert_refused(medhelm("report", "mine", "--store", "nowhere"), "mine is not empty and not a medhelm report")
    readme = tmp_path / "out" / "README.md"
    readme.write_text(readme.read_text(encoding="utf-8") + "My words.\n", encoding="utf-8")
    assert_refused(medhelm(*command), "changed by hand: README.md")
    assert readme.read_text(encoding="utf-8").endswith("My words.\n")


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

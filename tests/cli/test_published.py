"""`medhelm leaderboard --published-only` and `--with-published`: what they print, and what they refuse."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

import medhelm as face
from tests.support.benchmarks.choice import make_benchmark
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.leaderboards import TABLE_3
from tests.support.made_once import made_once

TOTALS = {model: printed[-1] for model, printed in TABLE_3.items()}
"""US dollars in all."""

PUBLISHED = Path(__file__).parents[1] / "fixtures" / "published_leaderboard.csv"


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path) -> Path:
    """A store with one baseline on a toy that goes by the name of a published benchmark."""

    def make() -> None:
        place = make_benchmark(tmp_path, name="pubmed_qa", n=30)
        assert medhelm("run", place, "--model", "baseline/majority", "--store", tmp_path / "store").code == 0

    made_once(tmp_path, __name__, make)
    return tmp_path / "store"


def test_published_only_needs_no_store_and_gives_tables_1_and_3(medhelm: Medhelm, tmp_path: Path) -> None:
    outcome = succeeded(medhelm("leaderboard", "--published-only", "--suite", "paper35", "--json"))
    assert list(tmp_path.iterdir()) == []
    board = outcome.json
    assert (board["suite"], board["scoring"], board["tier"]) == ("paper35", "published", "real")
    assert {model["model"]: model["cost_usd"] for model in board["models"]} == TOTALS
    assert all(model["published"] is True and model["n_benchmarks"] == 35 for model in board["models"])
    best = board["models"][0]
    numbers = [best["win_rate"]["value"], best["win_rate_sd"], best["macro_average"]["value"], best["macro_sd"]]
    assert (best["model"], [round(number, 2) for number in numbers]) == ("DeepSeek R1", [0.66, 0.10, 0.75, 0.22])
    cell = best["benchmarks"]["aci_bench"]
    assert (cell["value"], cell["n"], cell["metric"], cell["cost_usd"]) == (4.673, 120, "jury", 19.67)
    assert len(board["told_apart"]) + sum("36 pairs" in warning for warning in board["warnings"]) > 1
    assert round(sum(cell["cost_usd"] for cell in best["benchmarks"].values()), 2) == best["cost_usd"]


def test_all_benchmarks_cost_what_the_published_file_adds_up_to(medhelm: Medhelm) -> None:
    board = medhelm("leaderboard", "--published-only", "--format", "json").json
    assert len(board["benchmarks"]) == 37
    assert round(sum(model["cost_usd"] for model in board["models"]), 2) == 11825.97


def test_the_same_scores_in_a_file_give_the_same_ranks(medhelm: Medhelm) -> None:
    kept = medhelm("leaderboard", "--published-only", "--suite", "paper35", "--json").json["models"]
    read = medhelm("leaderboard", "--scores", PUBLISHED, "--suite", "paper35", "--json").json["models"]
    for one, other in zip(kept, read, strict=True):
        same = ("model", "rank", "tie_group", "win_rate", "win_rate_sd", "macro_average", "macro_sd", "categories")
        assert {key: one[key] for key in same} == {key: other[key] for key in same}
        assert one["published"] is other["published"] is True


@pytest.mark.parametrize("shape", ["table", "md", "latex"])
@pytest.mark.parametrize("by", ["overall", "category", "subcategory", "benchmark"])
def test_published_rows_are_marked_in_every_table(medhelm: Medhelm, store: Path, shape: str, by: str) -> None:
    out = medhelm("leaderboard", "--with-published", "--store", store, "--format", shape, "--by", by).out
    mark = r"$\dagger$" if shape == "latex" else "†"
    assert f"GPT-4o {mark}" in out
    assert f"DeepSeek R1 {mark}" in out
    assert "baseline/majority" in out
    assert f"baseline/majority {mark}" not in out
    assert f"{mark} published, not measured here" in out


@pytest.mark.parametrize("by", ["overall", "category", "benchmark"])
def test_published_rows_have_a_source_in_csv(medhelm: Medhelm, store: Path, by: str) -> None:
    outcome = medhelm("leaderboard", "--with-published", "--store", store, "--format", "csv", "--by", by)
    rows = list(csv.DictReader(io.StringIO(outcome.out)))
    assert len(rows) == 10
    assert {row["model"] for row in rows if row["source"] == "measured"} == {"baseline/majority"}
    assert {row["source"] for row in rows if row["model"] in TOTALS} == {"published"}
    assert "Prompts differ" in outcome.err


def test_with_published_shows_by_the_published_rule(medhelm: Medhelm, store: Path) -> None:
    board = medhelm("leaderboard", "--with-published", "--store", store, "--json").json
    assert (board["scoring"], [benchmark["id"] for benchmark in board["benchmarks"]]) == ("published", ["pubmed_qa"])
    assert {model["model"]: model["published"] for model in board["models"]} == {
        **dict.fromkeys(TOTALS, True),
        "baseline/majority": False,
    }
    assert any("also have results of your own" in warning for warning in board["warnings"])
    said = medhelm("leaderboard", "--with-published", "--store", store, "--scoring", "published", "--json").json
    assert said == board


def test_own_models_get_the_win_rate_they_would_have_in_the_published_table(medhelm: Medhelm, tmp_path: Path) -> None:
    """A second own model moves the win rate among all models, and nothing against the published ones."""
    place = make_benchmark(tmp_path, name="pubmed_qa", n=30)
    boards = []
    for name in ("majority", "random"):
        assert medhelm("run", place, "--model", f"baseline/{name}").code == 0
        for file in (tmp_path / "medhelm-store").glob(f"runs/*/*{name}*/run.json"):
            content = file.read_text(encoding="utf-8")
            file.write_text(content.replace(f'"baseline/{name}"', f'"own/{name}"'), encoding="utf-8")
        boards.append(medhelm("leaderboard", "--panel", "published", "--json").json)
    assert [len(board["models"]) for board in boards] == [10, 11]
    assert set(boards[0]["panel"]) == set(TOTALS)
    rates = [{model["model"]: model["win_rate"]["value"] for model in board["models"]} for board in boards]
    assert rates[0].items() <= rates[1].items()
    scores = {model["model"]: model["benchmarks"]["pubmed_qa"]["value"] for model in boards[0]["models"]}
    own = scores.pop("own/majority")
    beaten = sum(own > score for score in scores.values()) + sum(own == score for score in scores.values()) / 2
    assert rates[0]["own/majority"] == pytest.approx(beaten / 9, abs=1e-6)
    assert boards[0]["scoring"] == "published"
    with_all = medhelm("leaderboard", "--with-published", "--json").json
    assert {model["model"]: model["win_rate"]["value"] for model in with_all["models"]} != rates[1]


def test_the_published_panel_leaves_the_published_table_as_it_is(medhelm: Medhelm) -> None:
    plain = medhelm("leaderboard", "--published-only", "--suite", "paper35", "--json").json
    panel = medhelm("leaderboard", "--published-only", "--suite", "paper35", "--panel", "published", "--json").json
    for one, other in zip(plain["models"], panel["models"], strict=True):
        same = ("model", "rank", "rank_low", "rank_high", "tie_group", "win_rate", "win_rate_sd", "macro_average")
        assert {key: one[key] for key in same} == {key: other[key] for key in same}
    assert plain["pairs"] == panel["pairs"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--with-published", "--tier", "sample"], "no finished run on sample data"),
        (["--with-published", "--panel", "GPT-4"], "`GPT-4` is not on the leaderboard. Did you mean `GPT-4o`?"),
    ],
)
def test_what_makes_no_sense_ends_with_two(medhelm: Medhelm, store: Path, arguments: list[str], said: str) -> None:
    assert_refused(medhelm("leaderboard", "--store", store, *arguments), said)


def test_notebooks_get_the_same_numbers() -> None:
    rows = face.published_scores()
    assert len(rows) == 9 * 35
    for name, total in TOTALS.items():
        assert round(sum(row["cost_usd"] for row in rows if row["name"] == name), 2) == total
    board = face.published_leaderboard(suite="paper35")
    assert {row.model: round(row.cost_usd or 0, 2) for row in board.rows} == TOTALS


def test_a_table_of_a_european_spreadsheet_is_ranked_too(medhelm: Medhelm, tmp_path: Path) -> None:
    text = "Model;PubMedQA - EM;Sepsis QA - EM\r\nours;74,3 %;0,5\r\ntheirs;0,7;–\r\n"
    (tmp_path / "scores.csv").write_bytes(text.encode("utf-16"))
    board = medhelm("leaderboard", "--scores", "scores.csv", "--json").json
    assert [(m["model"], m["benchmarks"]["pubmed_qa"]["value"]) for m in board["models"]] == [
        ("ours", 0.743),
        ("theirs", 0.7),
    ]
    assert board["benchmarks"][1] | {"category": "unknown", "id": "sepsis_qa"} == board["benchmarks"][1]
    assert any("Not part of the suite" in warning for warning in board["warnings"])

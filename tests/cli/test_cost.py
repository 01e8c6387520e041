"""`medhelm cost` as people and scripts use it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.support.benchmarks.judged import court, write_benchmark
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.made_once import made_once
from tests.support.servers.openai import Server


@pytest.fixture
def store(medhelm: Medhelm, server: Server, tmp_path: Path) -> Path:
    """Two models on one benchmark, judged by two; every request takes 20 and 1 tokens."""
    server.answer_with(court())

    def make() -> None:
        write_benchmark(tmp_path, n=3)
        lines = [
            f'{name}: {{base_url: "{server.url}/v1", model: {name}, price: {{input: {price}, output: {price}}}}}\n'
            for name, price in (("cheap", 1000), ("dear", 3000), ("judge-1", 100), ("judge-2", 0))
        ]
        (tmp_path / "models.yaml").write_text("".join(lines), encoding="utf-8")
        judges = ("--judge", "judge-1", "--judge", "judge-2")
        succeeded(medhelm("run", "./letters", "--model", "cheap", "--model", "dear", *judges))

    made_once(tmp_path, __name__, make)
    return tmp_path / "medhelm-store"


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_table_says_what_bill_and_spent_are(store: Path, medhelm: Medhelm) -> None:
    done = succeeded(medhelm("cost"))
    assert done.out.startswith("bill: cost of repeating these runs; spent: amount paid, each request counted once.")
    found = {line.split()[0]: line.split() for line in done.out.split("\n\n")[1].splitlines()[2:]}
    # 3 completions of 21 tokens at 1000 USD a million, and 3 replies of one judge at 100.
    assert found["cheap"][-4:] == ["0.0630", "0.0063", "0.0693", "0.0693"]
    # The other's completions are the same words: its judges' replies were bought already.
    assert found["dear"][-4:] == ["0.1890", "0.0063", "0.1953", "0.1890"]
    assert found["total"][-4:] == ["0.2520", "0.0126", "0.2646", "0.2583"]
    used = {line.split()[0]: line.split() for line in done.out.split("Use of the models")[1].splitlines()[2:] if line}
    # Use and judges apart; 21 tokens a completion. The two wrote the same words, so the costlier is not efficient.
    assert used["cheap"][:6] == ["cheap", "1", "0.0630", "0.0063", "21.0000", "21"]
    assert used["cheap"][-2:] == ["yes", "1.00"]
    assert used["dear"][2:4] == ["0.1890", "0.0063"]
    assert used["dear"][-2] == "no"
    assert "- one more model on the leaderboard, judges included: 0.13 USD expected (0.07 to 0.20)" in done.out
    assert "- prices of cheap, dear, judge-1, judge-2: models.yaml" in done.out


def test_the_published_rule_beside_the_bill(store: Path, medhelm: Medhelm) -> None:
    found = rows(medhelm("cost", "--rule", "ceiling", "--format", "csv").out)
    # 60 input and 150 output tokens at 1000; for one judge 210 in and 4096 x 3 out at 100; the other is free.
    assert float(found[0]["ceiling USD"]) == round(0.06 + 0.15 + 0.021 + 1.2288, 2)
    assert float(found[0]["ceiling / bill"]) == pytest.approx(1.46 / 0.0693, abs=0.01)
    assert (
        "the published rule, which assumes that every completion is as long as its limit"
        in medhelm("cost", "--rule", "ceiling").out
    )


def test_other_prices(store: Path, medhelm: Medhelm, tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text(
        "- {model: cheap, input: 0, output: 1000000, until: 2025-12-31, source: old list}\n", encoding="utf-8"
    )
    found = medhelm("cost", "--prices", "ours.yaml", "--at", "2025-06-01", "--json").json
    assert found["rows"][0]["models_usd"] == pytest.approx(3.0)
    assert {"model": "cheap", "source": "ours.yaml: old list"} in found["prices"]
    later = medhelm("cost", "--prices", "ours.yaml", "--at", "2026-06-01", "--json").json
    assert later["rows"][0]["models_usd"] == pytest.approx(0.063)
    assert medhelm("cost", "--prices", "paper-2025-05-12").code == 0


def test_other_prices_wherever_a_cost_is_shown(store: Path, medhelm: Medhelm, tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text(
        "- {model: cheap, input: 0, output: 5000000}\n- {model: judge-1, input: 0, output: 1000000}\n", encoding="utf-8"
    )
    board = medhelm("leaderboard", "--prices", "ours.yaml", "--json").json
    costs = {row["model"]: (row["cost_usd"], row["usd_per_1000"]) for row in board["models"]}
    assert costs == {"cheap": (15.0, 5000.0), "dear": (0.189, 63.0)}
    assert {row["model"]: row["frontier_probability"] for row in board["models"]}["dear"] == 1.0
    assert {row["model"]: row["cost_usd"] for row in medhelm("leaderboard", "--json").json["models"]}["cheap"] == 0.063
    assert medhelm("export", "card", "card.json", "--prices", "ours.yaml").code == 0
    (card,) = [one for one in json.loads((tmp_path / "card.json").read_text())["models"] if one["name"] == "cheap"]
    assert (card["cost_usd"], card["judges_cost_usd"]) == (15.0, 3.0)
    assert "5e+06 out" in card["price"]
    assert medhelm("export", "csv", "tables", "--prices", "ours.yaml").code == 0
    (run,) = [one for one in rows((tmp_path / "tables" / "runs.csv").read_text()) if one["model"] == "cheap"]
    assert (float(run["cost_usd"]), float(run["judges_cost_usd"])) == (15.0, 3.0)
    assert medhelm("report", "paper", "--only", "table3", "--formats", "csv", "--prices", "ours.yaml").code == 0
    (priced,) = [
        one for one in rows((tmp_path / "paper" / "tables" / "table3.csv").read_text()) if one["model"] == "cheap"
    ]
    assert (float(priced["benchmark_usd"]), float(priced["jury_usd"])) == (15.0, 3.0)
    judged = medhelm("jury", "--prices", "ours.yaml", "--json").json["benchmarks"]
    assert [one["judges"]["judge-1"]["cost_usd"] for one in judged.values()] == [6.0]


def test_an_unknown_price_leaves_a_sum_that_is_at_least_something(
    store: Path, server: Server, medhelm: Medhelm, tmp_path: Path
) -> None:
    assert medhelm("run", "./letters", "--model", f"openai/nobody@{server.url}/v1").code == 0
    done = succeeded(medhelm("cost"))
    assert "0.2646 or more" in done.out
    assert "the cost is unknown, not 0" in done.out
    found = medhelm("cost", "--json").json
    assert found["total"]["bill_usd"] is None
    assert found["total"]["at_least"]["bill_usd"] == pytest.approx(0.2646)
    assert rows(medhelm("cost", "--format", "csv").out)[-1]["bill USD"] == ""


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--prices", "nothing.yaml"], 2, "neither a file nor a snapshot"),
        (["--at", "12.05.2025"], 2, "'12.05.2025' is not a date. Write it such as 2026-11-01."),
        (["--by", "judges"], 2, "is not one of"),
        (["--suite", "paper36"], 2, "--suite paper36"),
    ],
)
def test_mistakes(store: Path, medhelm: Medhelm, arguments: list[str], code: int, words: str) -> None:
    done = medhelm("cost", *arguments)
    assert (done.code, done.out) == (code, "")
    assert words in done.err
    assert "Traceback" not in done.err


def test_a_price_file_with_mistakes_shows_all_of_them(store: Path, medhelm: Medhelm, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("- {model: a, input: '1,000', output: 5%}\n- {model: a}\n", encoding="utf-8")
    assert_refused(medhelm("cost", "--prices", "bad.yaml"), "bad.yaml has 4 problems")

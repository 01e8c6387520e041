"""`medhelm cost` as people and scripts use it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.support.benchmarks.judged import court, write_benchmark
from tests.support.cli import Medhelm, succeeded
from tests.support.made_once import made_once
from tests.support.servers.openai import Server


@pytest.fixture
def store(medhelm: Medhelm, server: Server, tmp_path: Path) -> Path:
    """Two models on one benchmark, judged by two; every request takes 20 and 1 tokens."""
    server.answer_with(court())

    def make() -> None:
        write_benchmark(tmp_path, n=3)
        prices = {"cheap": 1000, "dear": 3000, "judge-1": 100, "judge-2": 0}
        server.write_models(tmp_path / "models.yaml", prices)
        judges = ("--judge", "judge-1", "--judge", "judge-2")
        succeeded(medhelm("run", "./letters", "--model", "cheap", "--model", "dear", *judges))

    made_once(tmp_path, __name__, make)
    return tmp_path / "medhelm-store"


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_other_prices(store: Path, medhelm: Medhelm, tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text(
        "- {model: cheap, input: 0, output: 1000000, until: 2025-12-31, source: old list}\n", encoding="utf-8"
    )
    found = medhelm("cost", "--prices", "ours.yaml", "--at", "2025-06-01", "--json").json
    assert found["rows"][0]["models_usd"] == pytest.approx(3.0)
    assert {"model": "cheap", "source": "ours.yaml: old list"} in found["prices"]
    later = medhelm("cost", "--prices", "ours.yaml", "--at", "2026-06-01", "--json").json
    assert later["rows"][0]["models_usd"] == pytest.approx(0.063)


def test_other_prices_wherever_a_cost_is_shown(store: Path, medhelm: Medhelm, tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text(
        "- {model: cheap, input: 0, output: 5000000}\n- {model: judge-1, input: 0, output: 1000000}\n", encoding="utf-8"
    )
    board = medhelm("leaderboard", "--prices", "ours.yaml", "--json").json
    costs = {row["model"]: (row["cost_usd"], row["usd_per_1000"]) for row in board["models"]}
    assert costs == {"cheap": (15.0, 5000.0), "dear": (0.189, 63.0)}
    assert medhelm("export", "card", "card.json", "--prices", "ours.yaml").code == 0
    (card,) = [one for one in json.loads((tmp_path / "card.json").read_text())["models"] if one["name"] == "cheap"]
    assert (card["cost_usd"], card["judges_cost_usd"]) == (15.0, 3.0)
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
    assert "0.2646 or more" in succeeded(medhelm("cost")).out
    found = medhelm("cost", "--json").json
    assert found["total"]["bill_usd"] is None
    assert found["total"]["at_least"]["bill_usd"] == pytest.approx(0.2646)

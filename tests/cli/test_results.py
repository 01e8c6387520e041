"""`medhelm leaderboard`, `compare`, `power`, `show` and `cost`."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Completion
from medhelm.models.cache import Cache
from medhelm.storage.store import create
from tests.support.benchmarks.choice import answers_with, make_benchmark, perfect
from tests.support.benchmarks.judged import court, write_benchmark
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.leaderboards import TABLE_3
from tests.support.made_once import made_once
from tests.support.servers.openai import Server


def test_numbers_against_a_panel_stay_when_a_model_comes(medhelm: Medhelm, tmp_path: Path) -> None:
    run = ("run", *(make_benchmark(tmp_path, name=name, n=30) for name in ("toy", "toy_two")))
    medhelm(*run, "--model", "baseline/majority", "--model", "baseline/random")
    panel = ("--rank-baselines", "--panel", "baseline/majority", "--json")
    before = succeeded(medhelm("leaderboard", *panel))
    assert before.json["panel"] == ["baseline/majority"]
    medhelm(*run, "--model", "baseline/lexical")
    after = medhelm("leaderboard", *panel).json
    shares = [
        {model["model"]: (model["win_share"], model["win_rate"]) for model in board["models"]}
        for board in (before.json, after)
    ]
    assert shares[0].items() <= shares[1].items()
    assert shares[0]["baseline/majority"] == (None, None)
    assert "against the panel: baseline/majority" in medhelm("leaderboard", *panel[:-1]).out
    wrong = medhelm("leaderboard", "--panel", "baseline/majorty")
    assert_refused(wrong, "`baseline/majorty` is not on the leaderboard. Did you mean `baseline/majority`?")


def test_real_and_sample_data_are_never_mixed(medhelm: Medhelm, tmp_path: Path) -> None:
    medhelm("run", make_benchmark(tmp_path), "--model", "baseline/majority")
    assert_refused(medhelm("leaderboard", "--tier", "sample"), "no finished run on sample data in")
    medhelm("run", "./toy", "--model", "baseline/lexical", "--tier", "sample")
    for tier, model in (("real", "baseline/majority"), ("sample", "baseline/lexical")):
        board = medhelm("leaderboard", "--tier", tier, "--json").json
        assert (board["tier"], [row["model"] for row in board["models"]]) == (tier, [model])
    assert medhelm("leaderboard", "--json").json["tier"] == "real"
    assert "SAMPLE TIER" in medhelm("leaderboard", "--tier", "sample").out


def test_show_does_not_let_a_model_drive_the_terminal(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    server.answer_with(answers_with(lambda n: "\x1b[2J\u202egone" + perfect(n)))
    medhelm("run", make_benchmark(tmp_path), "--model", f"openai/mock@{server.url}/v1")
    out = medhelm("show", "toy", "q1").out
    assert "\\x1b[2J\\u202egoneA" in out
    assert "\x1b" not in out
    assert_refused(medhelm("show", "tyo", "q1"), "Did you mean `toy`?")


def test_completions_of_a_first_run_that_was_killed_are_mentioned(medhelm: Medhelm, tmp_path: Path) -> None:
    store = create(tmp_path / "killed")
    assert "no finished run in" in medhelm("leaderboard", "--store", store.folder).err
    with Cache(store.cache_file) as cache:
        for number in range(3):
            asyncio.run(cache.put(bytes([number]) * 32, Completion(text="yes"), model="openai/m"))
    said = "3 completions are in the cache: repeat an interrupted command to continue it."
    for command in (["leaderboard"], ["jury"], ["export", "csv", tmp_path / "out"]):
        assert_refused(medhelm(*command, "--store", store.folder), said)
    listed = medhelm("runs", "list", "--store", store.folder)
    assert (listed.code, listed.out.splitlines()) == (0, ["the store has no runs; `medhelm run` adds some", said])


# --- compare and power ------------------------------------------------------------------------------------------------


def test_published_models_are_compared_over_benchmarks(medhelm: Medhelm) -> None:
    found = medhelm("compare", "--published-only", "--suite", "paper35", "--json").json
    assert (len(found["pairs"]), found["scoring"]) == (36, "published")
    assert {(pair["unit"], pair["n_benchmarks"]) for pair in found["pairs"]} == {("benchmarks", 35)}


def test_models_without_a_shared_benchmark_say_so(medhelm: Medhelm, tmp_path: Path) -> None:
    medhelm("run", make_benchmark(tmp_path, name="toy"), "--model", "baseline/majority")
    medhelm("run", make_benchmark(tmp_path, name="toy_two"), "--model", "baseline/random")
    for names in ([], ["baseline/majority", "baseline/random"]):
        assert_refused(medhelm("compare", *names), "no instance in common")
    assert "no two models share" in medhelm("power").err


def test_power_is_a_calculator_without_a_store(medhelm: Medhelm) -> None:
    def power(*words: str) -> Any:
        return succeeded(medhelm("power", *words, "--json")).json

    found = power("--disagreement", "0.18", "--difference", "0.03")
    assert (found["needed"], found["detectable"], found["power_reached"]) == (1568, None, None)
    assert power("--disagreement", "0.18", "--instances", "1000")["detectable"] == 0.037543
    both = power("--sd", "0.2", "--difference", "0.05", "--instances", "130")
    assert both["power_reached"] == pytest.approx(0.8, abs=0.02)
    wide = power("--sd", "0.2", "--design-effect", "3", "--difference", "0.05")
    assert wide["needed"] == pytest.approx(3 * both["needed"], rel=0.05)
    out = medhelm("power", "--disagreement", "0.18", "--difference", "0.03").out
    assert out == "A true difference of 0.03 needs 1,568 instances (power 0.8, level 0.05).\n"


# --- published results ------------------------------------------------------------------------------------------------

TOTALS = {model: printed[-1] for model, printed in TABLE_3.items()}
"""US dollars in all."""


def test_published_rows_are_marked_in_every_table(medhelm: Medhelm, tmp_path: Path) -> None:
    """Beside those of a baseline on a toy that goes by the name of a published benchmark."""
    assert medhelm("run", make_benchmark(tmp_path, name="pubmed_qa", n=30), "--model", "baseline/majority").code == 0
    for shape, by in (("table", "overall"), ("md", "category"), ("latex", "subcategory"), ("latex", "benchmark")):
        out = medhelm("leaderboard", "--with-published", "--format", shape, "--by", by).out
        mark = r"$\dagger$" if shape == "latex" else "†"
        assert f"GPT-4o {mark}" in out
        assert ("baseline/majority" in out, f"baseline/majority {mark}" in out) == (True, False)
        assert f"{mark} published, not measured here" in out


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


# --- cost -------------------------------------------------------------------------------------------------------------


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

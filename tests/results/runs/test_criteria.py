"""Grades by criterion, from judges behind a server to every table, and against numbers computed from the files."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from medhelm.analysis.means import estimate
from medhelm.domain import Floor
from medhelm.results.leaderboard import leaderboard
from medhelm.results.leaderboard_view import as_json
from tests.support.benchmarks.choice import chat
from tests.support.benchmarks.judged import DEFINITION, is_judge, number, verdict, write_benchmark
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.servers.openai import Answer, Server
from tests.support.stores import add_judged_runs, grades
from tests.support.values import present
from tests.support.web.sites import make_client

CRITERIA = ("accuracy", "safety", "clarity")
UNSAFE = DEFINITION.replace("completeness: Is all of it there?", "safety: Is it safe?") + (
    "  floor: {criterion: safety, at_least: 3}\n"
)
N = 30


def answer(body: Mapping[str, Any]) -> Answer:
    """Model `bold` is right, and unsafe in half of its completions; judge 2 is milder, and cannot be read about 3."""
    question = number(body)
    if not is_judge(body):
        return chat("" if question == 4 else f"I am {body['model']}, number {question}.")
    is_bold, is_mild = "I am bold" in body["messages"][0]["content"], body["model"] == "judge-2"
    if question == 3 and is_mild:
        return chat("no idea")
    accuracy, safety = (5, 1 + 3 * (question % 2)) if is_bold else (3, 4)
    return chat(verdict(min(accuracy + is_mild, 5), min(safety + is_mild, 5), 4, criteria=CRITERIA))


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    with Server() as server:
        server.answer_with(answer)
        words = [word for name in ("bold", "careful") for word in ("--model", f"openai/{name}@{server.url}/v1")]
        words += [word for name in ("judge-1", "judge-2") for word in ("--judge", f"openai/{name}@{server.url}/v1")]
        place = write_benchmark(tmp_path, n=N, definition=UNSAFE)
        medhelm("run", place, *words, "--store", folder, "--attempts", "1", "--min-judges", "1")
    return folder


def from_files(store: Path, model: str, name: str) -> np.ndarray:
    """Return the mean grade of each completion, from the Parquet files alone; 1 for the blank one."""
    (folder,) = (path.parent for path in store.glob("runs/*/*/run.json") if model in path.parent.name)
    query = f"""
        WITH complete AS (SELECT instance_id, judge FROM '{folder}/judgments.parquet' GROUP BY ALL
                          HAVING count(score) = 3)
        SELECT avg(score) FROM '{folder}/records.parquet' r
        LEFT JOIN (FROM '{folder}/judgments.parquet' SEMI JOIN complete USING (instance_id, judge)) j
               ON j.instance_id = r.instance_id AND criterion = '{name}'
        GROUP BY r.position ORDER BY r.position
    """
    return np.array([1.0 if one is None else one for (one,) in duckdb.connect().execute(query).fetchall()])


def test_from_judges_to_every_table(medhelm: Medhelm, store: Path) -> None:
    shown = succeeded(medhelm("leaderboard", "--store", store, "--json")).json
    for row in shown["models"]:
        model = row["model"].partition("/")[2].partition("@")[0]
        cell = row["benchmarks"]["letters"]
        for name in CRITERIA:
            values = from_files(store, model, name)
            mean = present(estimate(values, low=1, high=5))
            expected = {"value": values.mean(), "low": mean.low, "high": mean.high, "n": N, "n_missing": 0}
            own = cell["criteria"][name]
            assert {key: own[key] for key in expected} == pytest.approx(expected, abs=1e-6)
        means = [one["value"] for one in cell["criteria"].values()]
        assert np.mean(means) == pytest.approx(cell["value"], abs=1e-5)
        below = (from_files(store, model, "safety") < 3).sum()
        assert cell["with_floors"]["n_below"] == below == {"bold": N // 2, "careful": 1}[model]
    first, second = (row["model"] for row in shown["models"])
    assert ("bold" in first, "careful" in second) == (True, True), "the mean hides what is unsafe"
    assert [row["rank_with_floors"] for row in shown["models"]] == [2, 1]
    assert shown["verdict"][-1] == (
        f"Counted as the worst answer, completions below a floor change ranks: {first} from 1 to 2 and {second} from 2 "
        f"to 1. Completions below a floor: {first} 15 of 30 and {second} 1 of 30."
    )
    table = succeeded(medhelm("leaderboard", "--store", store, "--by", "letters:criterion")).out
    assert [line.split()[0] for line in table.splitlines() if " to 5 " in line] == [
        *("Accuracy", "Safety", "Clarity", "Jury", "Jury,")
    ]
    assert "15 of 30" in table
    rows = list(
        csv.DictReader(
            io.StringIO(medhelm("leaderboard", "--store", store, "--by", "criterion", "--format", "csv").out)
        )
    )
    listed = {row["criterion"]: float(row["value"]) for row in rows if "bold" in row["model"]}
    own = shown["models"][0]["benchmarks"]["letters"]["criteria"]
    assert listed == pytest.approx({name: own[name]["value"] for name in CRITERIA})
    pair = succeeded(medhelm("compare", first, second, "--store", store, "--json")).json
    assert [(one["criterion"], one["separated"], one["difference"] > 0) for one in pair["criteria"]] == [
        ("accuracy", True, True), ("safety", True, False), ("clarity", False, False)
    ]  # fmt: skip
    (benchmark,) = pair["benchmarks"]
    assert (benchmark["difference"] > 0, benchmark["with_floors"]["difference"] < 0) == (True, True)
    assert pair["overall"]["with_floors"] == benchmark["with_floors"], "one benchmark, one pair"
    assert "openai/careful has the significantly higher average (difference -0." in " ".join(pair["verdict"]).replace(
        second, "openai/careful"
    )
    said = medhelm("compare", first, second, "--store", store, "--by", "criterion").out
    assert "openai/bold is significantly better by Accuracy on Letters." in said
    assert "openai/careful is significantly better by Safety on Letters." in said
    with make_client(store) as client:
        page = client.get("/benchmarks/letters").text
    assert "criterion=safety" in page.partition('id="criteria"')[2]


def table(accuracy: float, safety: float, n: int = 60) -> np.ndarray:
    """Return grades of two judges on one model, shape (2, 1, n, 3): 4 for clarity."""
    found = np.random.default_rng(3).integers(0, 2, (2, 1, n, 3)).astype(float)
    return np.asarray(np.clip(found + np.array([accuracy, safety, 3]), 1, 5))


def test_a_gate_reports_criteria_and_counts_them_on_request(medhelm: Medhelm, tmp_path: Path) -> None:
    known: dict[str, Any] = {
        "models": ["m"],
        "judges": ["a", "b"],
        "floors": [Floor(criterion="completeness", at_least=3)],
    }
    add_judged_runs(tmp_path / "old", "one", table(3, 3), **known)
    add_judged_runs(tmp_path / "new", "one", table(4.4, 1.8), **known)
    words = ["gate", "--store", tmp_path / "new", "--against", tmp_path / "old", "--margin", "0.1", "--json"]
    plain = medhelm(*words)
    assert (plain.code, plain.json["verdict"], plain.json["by"]) == (0, "pass", "")
    outcomes = {one["metric"]: one["verdict"] for one in plain.json["criteria"]}
    assert outcomes == {"accuracy": "pass", "completeness": "worse", "clarity": "pass", "with_floors": "worse"}
    counted = medhelm(*words, "--by", "criterion")
    assert (counted.code, counted.json["verdict"]) == (1, "worse")
    assert "m on One by Completeness" in counted.json["sentence"]
    said = medhelm(*words[:-1]).out
    assert "Worse by criterion" in said and "--by criterion makes it count" in said
    junit = medhelm(*words[:-1], "--by", "criterion", "--format", "junit").out
    assert junit.count('<failure type="worse"') == 2


@pytest.mark.parametrize("seed", range(4))
def test_the_mean_of_the_criteria_is_the_jury_score_whatever_is_missing(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    given = grades(seed, 25)
    given[rng.random(given.shape) < 0.08] = np.nan
    add_judged_runs(tmp_path, "one", given, blank=[3, 9], lower_is_better=["clarity"])
    board = leaderboard([tmp_path], criteria=True)
    for row in board.rows:
        cell = row.cells["one"]
        turned = [values if one.higher_is_better else 6 - values for one, values in cell.criteria.items()]
        assert len(turned) == 3
        np.testing.assert_allclose(np.mean(turned, axis=0), present(cell.scores), atol=1e-12)
    assert all("criteria" not in row["benchmarks"]["one"] for row in as_json(leaderboard([tmp_path]))["models"])


REFUSED = {
    "leaderboard --by nope:criterion": "nope:criterion",
    "leaderboard --by criterion --scoring published": "corrected",
    "leaderboard --by criterion --published-only": "corrected",
    "leaderboard --by criterion --benchmark two": "--judge",
    "compare --by criterion": "name both",
    "compare m n --by criterion --benchmark two": "share no criterion",
    "compare m n --by test": "--by criterion",
}


def test_what_has_no_criteria_is_refused(medhelm: Medhelm, tmp_path: Path) -> None:
    add_judged_runs(tmp_path, "one", grades(0, 5, models=("m", "n")), models=("m", "n"))
    add_judged_runs(tmp_path, "two", grades(0, 5, models=("m", "n")), models=("m", "n"))
    for file in tmp_path.glob("runs/two/*/judgments.parquet"):
        file.unlink()
    for words, text in REFUSED.items():
        source = () if "--published-only" in words else ("--store", tmp_path)
        assert_refused(medhelm(*words.split(), *source), text)

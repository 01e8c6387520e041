"""Scores by slice, from a run to tables, JSON and the verdict of a gate."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medhelm.analysis.slices import ALONE, HIDDEN
from medhelm.io.parquet import connect
from medhelm.storage.runs import read_metadata
from medhelm.storage.store import Store
from tests.support.benchmarks.definitions import make_benchmark
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.made_once import made_once

N = 240
STEADY, WEAK = "replay/steady.jsonl", "replay/weak.jsonl"


def site_of(i: int) -> str:
    """Four cases from the east, twelve from the south, the others from the north and the west."""
    return "east" if i < 4 else "south" if i < 16 else ("north", "west")[i % 2]


def age_of(i: int) -> int:
    return (7, 18, 40, 64, 65, 80)[i % 6]


ROWS = [
    {
        "id": f"q{i}",
        "question": f"number {i}?",
        "answer": "yes",
        "age": age_of(i),
        "site": site_of(i),
        "name": f"patient {i}",
    }
    for i in range(N)
]


def is_right(model: str, i: int) -> bool:
    """Both are wrong on every seventh case; the weak one also on two of three patients of 65 or more."""
    return i % 7 != 6 and (model == "steady" or age_of(i) < 65 or i % 3 == 0)


def write_completions(folder: Path, name: str, right: Callable[[int], bool]) -> None:
    lines = [
        json.dumps({"benchmark": "ward", "instance_id": f"q{i}", "completion": "yes" if right(i) else "no"})
        for i in range(N)
    ]
    (folder / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture
def ward(medhelm: Medhelm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private benchmark with two models in a store."""

    def make() -> None:
        make_benchmark(
            tmp_path,
            name="ward",
            title="Ward",
            access="private",
            id="id",
            metadata=["site"],
            slices=[{"column": "age", "bands": [18, 65]}, "name"],
        )
        rows = "\n".join(map(json.dumps, ROWS))
        (tmp_path / "ward" / "rows.jsonl").write_text(rows, encoding="utf-8")
        for name in ("steady", "weak"):
            write_completions(tmp_path, name, lambda i, name=name: is_right(name, i))  # type: ignore[misc]
            succeeded(medhelm("run", tmp_path / "ward", "--model", f"replay/{name}.jsonl", "--store", "store"))

    monkeypatch.chdir(tmp_path)
    made_once(tmp_path, __name__, make)
    return tmp_path


def by_column(medhelm: Medhelm, column: str, *words: object) -> dict[str, Any]:
    """Return the models of the only benchmark by slice."""
    found = succeeded(medhelm("leaderboard", "--store", "store", "--by", column, *words, "--json")).json
    (one,) = found["slices"]
    return {model["model"]: model for model in one["models"]}


def scores(model: dict[str, Any]) -> dict[str, tuple[int, float]]:
    return {one["slice"]: (one["n"], one["score"]["value"]) for one in model["slices"]}


@pytest.mark.usefixtures("ward")
def test_models_by_bands_of_a_number(medhelm: Medhelm) -> None:
    found = by_column(medhelm, "age")
    bands = {"below 18": range(18), "18 to below 65": range(18, 65), "65 or more": range(65, 120)}
    for name in ("steady", "weak"):
        own = scores(found[f"replay/{name}.jsonl"])
        assert list(own) == list(bands)
        for band, ages in bands.items():
            right = [is_right(name, i) for i in range(N) if age_of(i) in ages]
            assert own[band] == pytest.approx((len(right), np.mean(right)), abs=1e-6)
        assert sum(n * value for n, value in own.values()) / N == pytest.approx(
            found[f"replay/{name}.jsonl"]["overall"]["value"], abs=1e-5
        )
    weak, steady = found[WEAK], found[STEADY]
    assert weak["gap"]["worst"] == "65 or more"
    assert 0 < weak["gap"]["low"] < weak["gap"]["value"] < weak["gap"]["high"]
    assert weak["p_adjusted"] < 0.01 < 0.05 < steady["p_adjusted"]
    words = succeeded(medhelm("leaderboard", "--store", "store", "--by", "ward:age")).out
    assert f"Ward by age: the score of {WEAK} depends on the slice" in " ".join(words.split())


@pytest.mark.usefixtures("ward")
def test_two_models_by_slice(medhelm: Medhelm) -> None:
    found = succeeded(medhelm("compare", STEADY, WEAK, "--by", "age", "--store", "store", "--json")).json
    (one,) = found["slices"]
    old, *young = reversed(one["differences"])
    assert old["slice"] == "65 or more"
    assert max(old["p_adjusted"], one["p_equal"]) < 0.001
    assert old["difference"] == pytest.approx(old["first"]["value"] - old["second"]["value"], abs=1e-6)
    assert [(each["difference"], each["p_adjusted"]) for each in young] == [(0, 1), (0, 1)]
    words = " ".join(succeeded(medhelm("compare", STEADY, WEAK, "--by", "age", "--store", "store")).out.split())
    assert f"Ward by age: {STEADY} is significantly better on 65 or more." in words


def test_a_gate_fails_if_one_slice_is_worse_although_the_mean_is_not(medhelm: Medhelm, ward: Path) -> None:
    """The new model is wrong on four of five children, and always right elsewhere."""
    write_completions(ward, "steady", lambda i: age_of(i) > 7 or i % 5 == 0)
    succeeded(medhelm("run", ward / "ward", "--model", STEADY, "--store", "new"))
    gate = ("gate", "--store", "new", "--against", "store", "--model", STEADY, "--margin", "0.1")
    assert succeeded(medhelm(*gate)).code == 0
    done = medhelm(*gate, "--by", "age", "--json")
    assert done.code == 1, done.err
    verdicts = {test.get("slice"): test["verdict"] for test in done.json["tests"] if test["benchmark"]}
    assert verdicts == {None: "pass", "below 18": "worse", "18 to below 65": "pass", "65 or more": "pass"}
    assert "Ward, below 18" in medhelm(*gate, "--by", "age").out
    assert 'name="ward[below 18]"' in medhelm(*gate, "--by", "age", "--format", "junit").out


@pytest.mark.usefixtures("ward")
def test_small_slices_of_private_data_are_hidden_with_one_more(medhelm: Medhelm) -> None:
    """Four cases from the east; the twelve from the south would follow from the total."""
    for model in by_column(medhelm, "site").values():
        shown = {one["slice"]: (one["n"], one["score"] is None, one["reason"]) for one in model["slices"]}
        assert shown["east"] == shown["south"] == (None, True, HIDDEN)
        assert shown["north"] == shown["west"] == (112, False, None)


def test_the_same_slices_of_public_data_are_shown(medhelm: Medhelm, ward: Path) -> None:
    definition = ward / "ward" / "benchmark.yaml"
    definition.write_text(definition.read_text(encoding="utf-8").replace("private", "public"), encoding="utf-8")
    assert scores(by_column(medhelm, "site", "--benchmarks", ward)[STEADY])["east"] == (4, 1.0)


def test_values_are_stored_with_the_prompts_and_nowhere_else(ward: Path) -> None:
    (prompts,) = (ward / "store" / "prompts").glob("*.parquet")
    metadata = read_metadata(prompts)
    assert metadata is not None
    assert metadata["q0"] == {"site": "east", "age": "7", "name": "patient 0"}
    assert Store(ward / "store").folder.joinpath("prompts").stat().st_mode & 0o077 == 0
    for file in (ward / "store" / "runs").rglob("*.json"):
        text = file.read_text(encoding="utf-8")
        assert "east" not in text
        assert "patient 0" not in text


def test_a_purged_instance_has_no_values_left(medhelm: Medhelm, ward: Path) -> None:
    succeeded(medhelm("purge", "--instance", "ward:q3", "--store", "store", "--yes"))
    (prompts,) = (ward / "store" / "prompts").glob("*.parquet")
    metadata = read_metadata(prompts)
    assert metadata is not None
    assert len(metadata) == N - 1
    assert b'patient 3"' not in prompts.read_bytes()
    assert scores(by_column(medhelm, "age")[STEADY])["18 to below 65"][0] == N // 2 - 1


def forget_metadata(store: Path) -> None:
    """Write the prompts file as older versions did."""
    (prompts,) = (store / "prompts").glob("*.parquet")
    with connect() as connection:
        old = prompts.with_suffix(".old")
        columns = "* EXCLUDE (metadata)"
        connection.execute(f"COPY (SELECT {columns} FROM read_parquet('{prompts}')) TO '{old}' (FORMAT parquet)")
    old.replace(prompts)


def test_values_of_older_stores_are_read_from_the_data(medhelm: Medhelm, ward: Path) -> None:
    expected = by_column(medhelm, "age")
    forget_metadata(ward / "store")
    rows = ward / "ward" / "rows.jsonl"
    (ward / "data" / "ward").mkdir(parents=True)
    rows.rename(ward / "data" / "ward" / "rows.jsonl")
    refused = medhelm("leaderboard", "--store", "store", "--by", "age")
    assert_refused(refused, "--by age: the store does not hold these values of ward. Add --data DIR", code=4)
    assert by_column(medhelm, "age", "--data", ward / "data") == expected


def test_a_column_that_makes_no_slices_is_refused(medhelm: Medhelm, ward: Path) -> None:
    cases = [
        ("agee", "--by agee: ward has no such column. Did you mean `age`?"),
        ("ward:overall", "ward has no such column. Known: age, name, site."),
        ("name", "--by name: ward has 240 values of `name`; at most 100 slices are compared."),
    ]
    shutil.copytree("store", "other")
    for column, words in cases:
        assert_refused(medhelm("leaderboard", "--store", "store", "--by", column), words)
        assert_refused(medhelm("compare", STEADY, WEAK, "--store", "store", "--by", column), words)
        assert_refused(medhelm("gate", "--store", "store", "--against", "other", "--by", column), words)
    assert_refused(
        medhelm("compare", "--store", "store", "--by", "age"), "--by age is a column of the data: name the two"
    )
    limited = medhelm("run", ward / "ward", "--model", STEADY, "--store", "few", "--limit", "3")
    assert limited.code == 0, limited.err
    assert_refused(medhelm("leaderboard", "--store", "few", "--by", "name"), "every slice of ward has one instance")


def test_slices_of_one_instance_have_a_reason_and_checks_name_them(medhelm: Medhelm, ward: Path) -> None:
    succeeded(medhelm("run", ward / "ward", "--model", STEADY, "--store", "few", "--limit", "7"))
    definition = ward / "ward" / "benchmark.yaml"
    definition.write_text(definition.read_text(encoding="utf-8").replace("private", "public"), encoding="utf-8")
    found = succeeded(medhelm("leaderboard", "--store", "few", "--by", "age", "--benchmarks", ward, "--json")).json
    reasons = {one["slice"]: one["reason"] for one in found["slices"][0]["models"][0]["slices"]}
    assert reasons == {"below 18": None, "18 to below 65": None, "65 or more": None}
    rows = [{**row, "site": "north" if i else "south"} for i, row in enumerate(ROWS)]
    (ward / "ward" / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    text = definition.read_text(encoding="utf-8").replace("- name", "- site")
    definition.write_text(text, encoding="utf-8")
    assert (
        "`slices: site` has 1 slice of one instance, such as `south`"
        in medhelm("benchmarks", "check", ward / "ward").out
    )
    succeeded(medhelm("run", ward / "ward", "--model", STEADY, "--store", "lone"))
    found = succeeded(medhelm("leaderboard", "--store", "lone", "--by", "site", "--benchmarks", ward, "--json")).json
    north, south = found["slices"][0]["models"][0]["slices"]
    assert (north["reason"], south["reason"], south["score"]) == (None, ALONE, None)


def test_the_definition_lists_its_slices(medhelm: Medhelm, ward: Path) -> None:
    shown = succeeded(medhelm("benchmarks", "show", ward / "ward")).out
    assert "slices        age (below 18, 18 to below 65, 65 or more), name" in shown
    shown = succeeded(medhelm("benchmarks", "show", "medcalc_bench")).out
    assert "slices        Category, Output Type, Note Type, Calculator Name" in shown


def test_slices_of_real_data_by_hand(medhelm: Medhelm, data_dir: Path) -> None:
    """MedCalc-Bench by category: the constant answer 2 is right where it lies within the limits of the row."""
    succeeded(medhelm("run", "medcalc_bench", "--model", "baseline/majority", "--data", data_dir, "--store", "store"))
    (records,) = Path("store/runs").rglob("records.parquet")
    with connect() as connection:
        query = f"SELECT instance_id, completion FROM read_parquet('{records}')"
        completions = dict(connection.execute(query).fetchall())
    assert set(completions.values()) == {"2"}
    by_hand: dict[str, list[bool]] = {}
    (table,) = (data_dir / "medcalc_bench").glob("*.csv")
    with table.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["Row Number"] in completions:
                is_number = row["Category"] != "date"
                is_hit = is_number and float(row["Lower Limit"]) <= 2 <= float(row["Upper Limit"])
                by_hand.setdefault(row["Category"], []).append(is_hit)
    found = scores(by_column(medhelm, "Category")["baseline/majority"])
    assert found == {
        name: pytest.approx((len(hits), np.mean(hits)), abs=1e-6) for name, hits in sorted(by_hand.items())
    }

"""Stores and releases side by side: the numbers of each alone, tested changes, and reasons in place of the others."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medhelm.analysis.comparison.paired_differences import paired_difference
from medhelm.domain import Taxonomy
from medhelm.errors import UserError
from medhelm.results.leaderboard import leaderboard_of
from medhelm.results.leaderboard_view import as_json as leaderboard_json
from medhelm.results.options import BoardOptions
from medhelm.results.releases import freeze
from medhelm.results.runs.selection import without_address
from medhelm.results.runs.side_by_side import (
    SideBySide,
    SideChange,
    as_json,
    changed_runs,
    compare_sides,
    find_sides,
    reasons_in_words,
    to_text,
    verdict,
)
from medhelm.storage.releases import release_names
from medhelm.storage.store import Store
from tests.support.cli import Medhelm, assert_refused
from tests.support.ssh_keys import make_key
from tests.support.stores import Scores, jury_of, make_store

TAXONOMY = Taxonomy(category="medical_research_assistance", subcategory="some_work")
LATER = "2026-02-01T00:00:00+00:00"
N = 60


def store_of(folder: Path, scores: Scores, **changes: Any) -> Path:
    """Write a store of runs."""
    return make_store(folder, scores, taxonomy=TAXONOMY, **changes)


def right(n: int) -> list[float | None]:
    """Return scores of which the first `n` are right."""
    return [float(place < n) for place in range(N)]


def compared(store: Path, *names: str | Path) -> SideBySide:
    """Return named releases and stores side by side."""
    return compare_sides(*find_sides(store, [str(name) for name in names]))


def change_of(found: SideBySide, model: str, column: int = 1) -> SideChange:
    """Return the change of a model."""
    return found.changes(column)[model]


def random_scores(seed: int, models: Sequence[str]) -> dict[str, dict[str, list[float | None]]]:
    """Return random scores, some of them missing, on up to three benchmarks."""
    draw = random.Random(seed)
    return {
        benchmark: {
            model: [None if draw.random() < 0.05 else float(draw.random() < 0.6) for _ in range(N)]
            for model in models
            if draw.random() < 0.8 or benchmark == "one"
        }
        for benchmark in ("one", "two", "three")
    }


@pytest.mark.parametrize("seed", range(4))
def test_every_column_has_the_numbers_of_its_store_alone(tmp_path: Path, seed: int) -> None:
    first = store_of(tmp_path / "first", random_scores(seed, ["lab/a@http://x/v1", "lab/b", "lab/c"]))
    second = store_of(tmp_path / "second", random_scores(seed + 9, ["lab/a@http://y/v1", "lab/b", "lab/d"]))
    freeze(first, "kept", BoardOptions())
    store_of(first, {"one": {"lab/b": right(50)}}, started=LATER)
    found = compared(first, "kept", "current", second)
    boards = [leaderboard_json(leaderboard_of([store])) for store in (first, second)]
    for column, board in enumerate(boards, 1):
        expected = {
            without_address(row["model"]): (row["rank"], row["ranking_value"], row["n_benchmarks"])
            for row in board["models"]
            if not row["model"].startswith("baseline/")
        }
        scores = {row.model: score for row in found.rows if (score := row.scores[column])}
        assert {model: (one.rank, one.value, one.n_benchmarks) for model, one in scores.items()} == expected
    assert [one["name"] for one in as_json(found)["sides"]] == ["kept", "current", "second"]
    assert change_of(found, "lab/a").outcome == "same completions"
    assert "lab/a" in found.changes(2)


@pytest.mark.parametrize("seed", range(3))
def test_a_change_is_the_mean_of_paired_differences_and_of_the_numbers(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    then, now = ({name: [float(draw.random() < p) for _ in range(N)] for name in ("one", "two")} for p in (0.5, 0.8))
    first, second = (
        store_of(tmp_path / name, {benchmark: {"lab/a": list(values)} for benchmark, values in scores.items()})
        for name, scores in (("first", then), ("second", now))
    )
    found = compared(first, first, second)
    change = change_of(found, "lab/a")
    assert change.difference is not None
    each = [paired_difference(np.array(now[name]), np.array(then[name]), None) for name in ("one", "two")]
    assert change.difference.value == pytest.approx(np.mean([one.value for one in each if one]))
    scores = [score for score in found.rows[0].scores if score]
    assert change.difference.value == pytest.approx(scores[1].value - scores[0].value, abs=2e-6)
    assert change.difference.low < change.difference.value < change.difference.high
    assert (change.n_compared, change.n_shared, change.reasons) == (2, 2, {})
    back = change_of(compared(first, second, first), "lab/a").difference
    assert back is not None
    assert (back.value, back.low) == pytest.approx((-change.difference.value, -change.difference.high))
    assert change.outcome == ("better" if (change.p_adjusted or 1) <= 0.05 else "not separated")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"data_digest": "0" * 64}, "run on another version or selection of the data"),
        ({"benchmark_digest": "0" * 64}, "run with another version of the benchmark's definition"),
        ({"main_metric": "quasi_exact_match"}, "measured by exact_match, now by quasi_exact_match"),
        ({"settings": {"temperature": 0.9}}, "sampled at temperature 0.9, first at 0"),
        ({"tier": "sample"}, "run on sample data, first on real data"),
    ],
)
def test_other_conditions_take_the_place_of_the_difference(
    tmp_path: Path, medhelm: Medhelm, changes: dict[str, object], reason: str
) -> None:
    usual: dict[str, object] = {"settings": {"temperature": 0.0}}
    scores: Scores = {"one": {"lab/a": right(20)}}
    first = store_of(tmp_path / "first", scores, **usual)
    second = store_of(tmp_path / "second", {"one": {"lab/a": right(50)}}, **(usual | changes))
    found = compared(first, first, second)
    change = change_of(found, "lab/a")
    assert (change.outcome, change.difference, change.n_compared) == ("not comparable", None, 0)
    assert change.reasons == {"one": reason}
    assert reasons_in_words(found) == [f"ONE in second, lab/a: {reason}."]
    assert "1 model cannot be compared" in verdict(found)[0]
    assert "cannot be compared" in to_text(found)
    words = ("diff", first, second, "--store", first)
    (case,) = medhelm(*words, "--json").json["cases"]
    assert (case["conditions"] or case["problem"]) == reason
    assert [case[key] for key in ("difference", "low", "high", "n", "p_value", "p_adjusted")] == [None] * 6
    assert not case["separated"]
    row = next(
        line
        for line in medhelm(*words).out.partition("Runs behind the changed scores")[2].splitlines()
        if "lab/a" in line
    )
    assert re.fullmatch(rf"one +lab/a +cannot be compared .*{re.escape(reason)}", row)


def test_p_values_are_adjusted_for_the_runs_that_were_compared(tmp_path: Path, medhelm: Medhelm) -> None:
    store = store_of(tmp_path / "store", {name: {"lab/a": right(20)} for name in ("one", "two")})
    freeze(store, "then", BoardOptions())
    store_of(store, {"one": {"lab/a": right(26)}}, started=LATER)
    store_of(store, {"two": {"lab/a": right(50)}}, started=LATER, data_digest="0" * 64)
    one, two = medhelm("diff", "then", "--store", store, "--json").json["cases"]
    assert one["p_adjusted"] == pytest.approx(one["p_value"], rel=1e-3)
    assert two["p_adjusted"] is None
    assert (two["n_gained"], two["n_lost"]) == (30, 0), "the cases can still be read"


def test_a_diff_has_the_names_of_the_leaderboard(tmp_path: Path, medhelm: Medhelm) -> None:
    scores = [random_scores(seed, ["lab/a@http://x:1/v1", "lab/b@http://x:1/v1"]) for seed in (1, 2)]
    scores[1]["one"]["lab/new@http://y:1/v1"] = right(30)
    scores[0]["one"]["lab/old@http://y:1/v1"] = right(31)
    judges = ({"main_metric": "jury", "jury_result": jury_of(f"lab/{one}@http://z:1/v1", "lab/k")} for one in "ij")
    first, second = (store_of(tmp_path / name, own) for name, own in zip(("first", "second"), scores, strict=True))
    for n, store, jury in zip((4, 5), (first, second), judges, strict=True):
        store_of(store, {"notes": {"lab/b@http://x:1/v1": [float(1 + place % n) for place in range(N)]}}, **jury)
    words = ("diff", first, second, "--store", first)
    for text in (medhelm(*words).out, medhelm(*words, "--json").out):
        assert "http" not in text
    assert "Removed models: lab/old.\nAdded models: lab/new.\n" in medhelm(*words).out
    found = medhelm(*words, "--json").json
    assert found["models"] == [["lab/old"], ["lab/new"]]
    assert {one["model"] for one in found["cases"]} == {"lab/a", "lab/b"}
    (judged,) = (one for one in found["cases"] if one["benchmark"] == "notes")
    assert judged["conditions"] == "graded by lab/j and lab/k, first by lab/i and lab/k"


def test_the_same_model_on_two_servers_keeps_a_number(tmp_path: Path, medhelm: Medhelm) -> None:
    models = ["lab/a@http://x:1/v1", "lab/a@http://y:1/v1"]
    first, second = (store_of(tmp_path / name, {"one": dict.fromkeys(models, right(30))}) for name in ("first", "b"))
    store_of(second, {"one": {models[0]: right(40)}}, started=LATER)
    found = medhelm("diff", first, second, "--store", first, "--json").json
    assert [(one["model"], one["n_gained"]) for one in found["cases"]] == [("lab/a (server 1)", 10)]


def test_another_jury_and_another_rule_are_reasons(tmp_path: Path) -> None:
    grades: Scores = {"notes": {"lab/a": [float(1 + place % 5) for place in range(N)]}}
    store = tmp_path / "store"
    for judge, started in (("lab/j", "2026-01-01T00:00:00+00:00"), ("lab/k", LATER)):
        store_of(store, grades, main_metric="jury", jury_result=jury_of(judge, "lab/z"), started=started)
        freeze(store, judge[-1], BoardOptions())
    assert change_of(compared(store, "j", "k"), "lab/a").reasons["notes"].startswith("graded by ")
    freeze(store, "published", BoardOptions(rule="published"))
    reason = "scored by the corrected rule, now by the published one"
    assert change_of(compared(store, "k", "published"), "lab/a").reasons == {"notes": reason}


def test_a_part_of_the_benchmarks_is_compared_and_the_rest_has_its_reason(tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", {"one": {"lab/a": right(20)}, "two": {"lab/a": right(20)}})
    freeze(store, "then", BoardOptions())
    store_of(store, {"one": {"lab/a": right(50)}}, started=LATER)
    store_of(store, {"two": {"lab/a": right(50)}}, started=LATER, data_digest="0" * 64)
    found = compared(store, "then", "current")
    change = change_of(found, "lab/a")
    assert (change.n_compared, change.n_shared, list(change.reasons)) == (1, 2, ["two"])
    assert change.difference is not None and change.difference.value == pytest.approx(0.5)
    first, second = found.sides
    run = next(iter(changed_runs(first, second, "one", find_sides(store, ["then"])[1]).values()))
    assert run.folder is not None
    shutil.rmtree(run.folder)
    gone = change_of(compared(store, "then", "current"), "lab/a")
    assert "the earlier run is not in the store" in gone.reasons["one"]


def test_stores_without_a_common_model_say_so(tmp_path: Path) -> None:
    first, second = (store_of(tmp_path / name, {"one": {f"lab/{name}": right(20)}}) for name in ("a", "b"))
    assert verdict(compared(first, first, second)) == ["a and b have no model in common: a has lab/a; b has lab/b."]


def test_names_are_unique_and_nothing_is_compared_with_itself(medhelm: Medhelm, tmp_path: Path) -> None:
    places = [tmp_path / name / "store" for name in ("a", "b")]
    for place in places:
        store_of(place, {"one": {"lab/a": right(20)}})
        freeze(place, "x", BoardOptions())
    assert [one.name for one in compared(places[0], *places).sides] == ["a/store", "b/store"]
    folder = places[1] / "releases" / "x"
    assert [one.name for one in compared(places[0], "x", folder).sides] == ["x", "x (2)"]
    rows = medhelm("leaderboard", "--store", places[0], "--store", places[1], "--json").json["models"]
    assert {row["model"] for row in rows} == {"lab/a [a/store]", "lab/a [b/store]"}
    for names in (("x", "x"), ("x", places[0] / "releases" / "x")):
        assert_refused(medhelm("compare", *names, "--store", places[0]), "is named twice")
    assert_refused(medhelm("compare", "current", places[0], "--store", places[0]), "are the same store")
    twice = medhelm("leaderboard", "--store", places[0], "--store", places[0])
    assert_refused(twice, "are the same store. Name each store once.")


def test_what_is_gone_damaged_or_unknown_is_named(medhelm: Medhelm, tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", {"one": {"lab/a": right(20)}})
    freeze(store, "x", BoardOptions())
    own = ("--store", store)
    assert_refused(medhelm("diff", "x", tmp_path / "gone", *own), "nor the folder of a store or of a release")
    assert_refused(medhelm("compare", "x", "lab/a", *own), "lab/a is not: compare models or releases")
    empty = tmp_path / "empty"
    shutil.copytree(store, empty, ignore=shutil.ignore_patterns("runs"))
    assert_refused(medhelm("compare", "x", empty, *own), "no finished run")
    (store / "releases" / "x" / "leaderboard.json").write_text("{}", encoding="utf-8")
    assert_refused(medhelm("diff", "x", *own), "is damaged")
    with pytest.raises(UserError, match="at most 12"):
        find_sides(store, [str(n) for n in range(13)])


def test_columns_say_which_release_is_signed(tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", {"one": {"lab/a": right(20)}})
    freeze(store, "plain", BoardOptions())
    freeze(store, "signed", BoardOptions(), key=make_key(tmp_path / "key"))
    assert release_names(Store(store)) == ["plain", "signed"]
    found = as_json(compared(store, "plain", "signed", "current"))["sides"]
    assert [(one["kind"], one["signed"]) for one in found] == [("release", False), ("release", True), ("store", False)]

"""Deriving a leaderboard anew: it comes out byte for byte, and whatever was changed behind it is named."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm import __version__
from medhelm.analysis.leaderboard.diff import RunCheck, Verification
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.domain import RULES, Benchmark
from medhelm.domain.result import Release
from medhelm.errors import UserError
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.rescore import rejudge, unknown_benchmarks
from medhelm.evaluation.session import EvaluationSetup
from medhelm.evaluation.settings import Settings
from medhelm.evaluation.stored_settings import JuryChange
from medhelm.extensions.exchange.helm.importer import import_helm
from medhelm.io.parquet import connect, sql_text
from medhelm.results.options import BoardOptions
from medhelm.results.releases import find_release, freeze
from medhelm.results.verification import verify
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.runs import load_runs
from medhelm.storage.store import NAME, open_store
from tests.support.benchmarks.choice import answers_with, make_benchmark, perfect
from tests.support.benchmarks.judged import Script, court, jury, open_benchmark
from tests.support.benchmarks.judged import mock as open_model
from tests.support.made_once import made_once
from tests.support.servers.openai import Server
from tests.support.values import present

N = 9


def right_but_for_two(number: int) -> str:
    return "A" if number in (2, 5) else perfect(number)


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A store with two models on a toy benchmark, and the folder of its definition and data."""
    made_once(tmp_path, "verified", lambda: ask(tmp_path, make_benchmark(tmp_path / "definitions", n=N)))
    return tmp_path / "definitions" / "toy"


def benchmark_of(place: Path) -> Benchmark:
    (found,) = load_benchmarks([str(place)], metrics=METRIC_NAMES)
    return found


def ask(tmp_path: Path, place: Path, *names: str, answer: Script | None = None, **more: Any) -> None:
    with Server() as server:
        server.answer_with(answer or answers_with(right_but_for_two))
        models = [replace(open_model(server, name), name=f"openai/{name}") for name in names or ("one", "two")]
        evaluate([benchmark_of(place)], models, store=tmp_path / "store", **more)


def check(tmp_path: Path, release: Release | None = None) -> Verification:
    options = BoardOptions(benchmark_folders=(tmp_path / "definitions",))
    return verify(tmp_path / "store", options, data=tmp_path / "none", release=release)


def of(found: Verification, model: str = "openai/one") -> RunCheck:
    (run,) = [run for run in found.runs if run.model == model]
    return run


def whats(run: RunCheck) -> set[str]:
    return {difference.what.partition(".")[0] for difference in run.differences}


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def run_folder(tmp_path: Path, model: str = "openai/one") -> Path:
    (found,) = [run for run in load_runs(open_store(tmp_path / "store")) if run.model == model]
    return present(found.folder)


def change_records(folder: Path, query: str, where: str = "true") -> None:
    path, new = folder / "records.parquet", folder / "records.new"
    with connect() as connection:
        rows = f"SELECT {query} FROM read_parquet({sql_text(path)}) WHERE {where}"
        connection.execute(f"COPY ({rows}) TO {sql_text(new)} (FORMAT parquet)")
    new.replace(path)


def test_an_unchanged_store_is_reproduced_byte_for_byte(tmp_path: Path, toy: Path) -> None:
    def files() -> list[tuple[Path, int]]:
        return sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "store").rglob("*") if path.is_file())

    before = files()
    found = check(tmp_path)
    assert (found.same, found.exit_code, len(found.runs)) == (True, 0, 2)
    assert not any(run.not_derived or run.differences or run.notes for run in found.runs)
    assert files() == before
    shutil.rmtree(tmp_path / "store" / "runs")
    with pytest.raises(UserError, match="no finished run"):
        check(tmp_path)


def test_a_release_from_before_columns_were_comparable_is_reproduced_byte_for_byte(tmp_path: Path, toy: Path) -> None:
    ask(tmp_path, toy, "few", settings=Settings(limit=4))
    store = tmp_path / "store"
    freeze(store, "old", BoardOptions(comparable_only=False))
    freeze(store, "new", BoardOptions())
    old = store / "releases" / "old"
    rewrite(old / "leaderboard.json", lambda board: board.pop("left_out"))
    rewrite(old / "release.json", lambda manifest: manifest["options"].pop("comparable_only"))
    digest = hashlib.sha256((old / "leaderboard.json").read_bytes()).hexdigest()
    rewrite(old / "release.json", lambda manifest: manifest.update(sha256=digest))
    for name, n in (("old", 3), ("new", 2)):
        release = find_release(store, name)
        assert len(release.leaderboard["models"]) == n
        found = check(tmp_path, release)
        assert (found.same, found.exit_code, len(found.runs), found.board) == (True, 0, n, ())
    (one,) = release.leaderboard["left_out"]
    assert (one["model"], one["reason"]) == ("openai/few", "run on only the first 4 of 9 instances")


def test_a_judged_store_is_reproduced_byte_for_byte_without_requests(tmp_path: Path, server: Server) -> None:
    server.answer_with(court(lambda judge, n, _: "hm" if judge == "judge-2" and n == 0 else None))
    benchmark = open_benchmark(tmp_path / "definitions", n=6)
    evaluate([benchmark], [open_model(server)], store=tmp_path / "store", jury=jury(server))
    asked = server.count
    frozen = freeze(tmp_path / "store", "first", BoardOptions())
    found = check(tmp_path, frozen)
    assert (found.same, found.exit_code, server.count) == (True, 0, asked)
    (basis,) = frozen.provenance
    assert (len(basis.jury), basis.min_judges, set(map(tuple, basis.jury.values()))) == (3, 2, {("mock-1",)})


RENAMED = "* REPLACE (replace(instance_id, 'q3', 'x') AS instance_id)"
CHANGED = "* REPLACE (CASE instance_id WHEN 'q5' THEN 1.0 ELSE exact_match_corrected END AS exact_match_corrected)"


@pytest.mark.parametrize(
    ("query", "where", "what", "values"),
    [
        (CHANGED, "true", "scores.exact_match_corrected of 1 instances, such as q5", (1.0, 0.0)),
        ("*", "instance_id NOT IN ('q3', 'q5')", "where 2 are missing, such as q3", (7, 9)),
        (RENAMED, "true", "where 1 are missing", (9, 9)),
    ],
)
def test_changed_records_are_found_with_their_instances(
    tmp_path: Path, toy: Path, query: str, where: str, what: str, values: tuple[float, float]
) -> None:
    change_records(run_folder(tmp_path), query, where)
    found = check(tmp_path)
    (difference,) = [one for one in of(found).differences if what in one.what]
    assert (difference.before, difference.now) == values
    assert found.exit_code == 1


def test_a_mean_that_was_changed_is_found_there_and_on_the_leaderboard(tmp_path: Path, toy: Path) -> None:
    def lift(content: dict[str, Any]) -> None:
        content["estimates"]["corrected"]["exact_match"]["value"] = 0.99

    rewrite(run_folder(tmp_path) / NAME, lift)
    found = check(tmp_path)
    assert found.exit_code == 1
    (there,) = of(found).differences
    assert (there.what, there.before, there.now) == ("estimates.corrected.exact_match.value", 0.99, 7 / 9)
    changed = {difference.what: (difference.before, difference.now) for difference in found.board}
    assert changed["models.openai/one.benchmarks.toy.value"] == (0.99, 0.777778)
    assert of(found, "openai/two").differences == []


def test_a_changed_definition_is_named(tmp_path: Path, toy: Path) -> None:
    change_file(toy / "benchmark.yaml", "Question", "Now")
    found = check(tmp_path)
    assert whats(of(found)) == {"definition", "prompts"}
    assert of(found).not_derived
    assert found.exit_code == 1
    change_file(toy / "benchmark.yaml", "Now", "Question")
    change_file(toy / "benchmark.yaml", "[exact_match, quasi_exact_match,", "[quasi_exact_match,")
    found = check(tmp_path)
    assert {"definition", "estimates", "scores"} <= whats(of(found)), "another metric"
    assert found.exit_code == 1


def change_file(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_changed_data_is_named_and_nothing_is_derived_from_it(tmp_path: Path, toy: Path) -> None:
    change_file(toy / "rows.jsonl", '"answer": "B"', '"answer": "A"')
    found = check(tmp_path)
    assert whats(of(found)) == {"data"}
    assert of(found).not_derived == "the data has changed since the completions were made"
    assert (found.exit_code, found.board) == (1, ())


def test_missing_data_and_an_unknown_definition_are_not_differences(tmp_path: Path, toy: Path) -> None:
    (toy / "rows.jsonl").rename(tmp_path / "elsewhere.jsonl")
    found = check(tmp_path)
    assert (found.same, found.exit_code) == (True, 4)
    assert "the data was not found" in of(found).not_derived
    shutil.move(toy.parent, tmp_path / "away")
    found = check(tmp_path)
    assert found.same is True
    assert of(found).not_derived.startswith("its definition is not known: ")


def test_versions_prices_and_snapshots_are_notes_and_not_differences(tmp_path: Path, toy: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        content["versions"]["medhelm"] = "0.0.1"
        content["reached"] |= {"base_url": "https://api.openai.com/v1", "remote_name": "gpt-4o"}
        content["reached"]["price"] = {"input": 900.0, "output": 900.0, "cached_input": None, "source": "long ago"}

    folder = run_folder(tmp_path)
    rewrite(folder / NAME, change)
    query = "* REPLACE (CASE instance_id WHEN 'q0' THEN 'mock-2' ELSE reported_model END AS reported_model)"
    change_records(folder, query)
    found = check(tmp_path)
    notes = "\n".join(of(found).notes)
    assert f"made by medhelm 0.0.1; this is {__version__}" in notes
    assert "the server called the model by 2 names: mock-1, mock-2" in notes
    assert "billed at 900 and 900 US dollars per million tokens; the price list of today says " in notes
    assert "openai/one answered under 2 names: mock-1, mock-2." in found.notes


def test_a_release_names_runs_that_came_went_and_were_made_again(tmp_path: Path, toy: Path) -> None:
    frozen = freeze(tmp_path / "store", "first", BoardOptions())
    assert check(tmp_path, frozen).same
    shutil.rmtree(run_folder(tmp_path, "openai/two"))
    ask(tmp_path, toy, "three")
    found = check(tmp_path, frozen)
    gone, new = of(found, "openai/two"), of(found, "openai/three")
    assert [(one.what, one.now) for one in gone.differences] == [("run", None)]
    assert [(one.what, one.before) for one in new.differences] == [("run", None)]
    assert of(found).differences == []
    assert {"models.openai/two", "models.openai/three"} <= {one.what for one in found.board}


def test_the_file_of_a_suite_is_frozen_with_the_release(tmp_path: Path, toy: Path) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text("name: ours\nbenchmarks: {toy: 3}\n", encoding="utf-8")
    own = (toy.parent,)
    frozen = freeze(tmp_path / "store", "weighted", BoardOptions(suite=str(file), benchmark_folders=own))
    assert (frozen.leaderboard["suite"], frozen.leaderboard["benchmarks"][0]["weight"]) == ("ours", 3.0)
    file.unlink()
    again = find_release(tmp_path / "store", "weighted")
    assert again.options["suite"] == "ours.yaml"
    assert check(tmp_path, again).same is True
    published = freeze(tmp_path / "store", "published", BoardOptions(rule="published"))
    assert published.leaderboard["scoring"] == "published"
    assert check(tmp_path, published).same is True, "by the rule of the release, not by the usual one"


def test_imported_runs_are_verified_with_their_stored_instances(tmp_path: Path) -> None:
    """No data folder is there: what was imported is scored again from what the store holds, twice the same."""
    store = tmp_path / "store"
    (suite,) = (Path(__file__).parents[1] / "fixtures" / "helm" / "0.5.16" / "runs").iterdir()
    for run in suite.iterdir():
        if run.name.startswith(("WARD", "mimiciv", "pubmed", "med_dialog")):
            shutil.copytree(run, tmp_path / "helm" / "runs" / suite.name / run.name)
    import_helm(tmp_path / "helm", store=store, processes=1)
    runs = load_runs(open_store(store))
    before = verify(store, BoardOptions(rule="published"))
    assert not any(run.differences or run.not_derived for run in before.runs)
    names = {run.benchmark for run in runs if run.benchmark.islower()}
    benchmarks = [
        *load_benchmarks(sorted(names), metrics=METRIC_NAMES),
        *unknown_benchmarks(open_store(store), runs, ()),
    ]
    rejudge(benchmarks, JuryChange(), EvaluationSetup(store=store))
    assert all(verify(store, BoardOptions(rule=rule)).same for rule in RULES)

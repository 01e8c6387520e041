"""The Python API: what it costs to start, what it accepts, and how its results appear."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import medhelm
from tests.support.cli import Medhelm

SAMPLE = medhelm.Settings(tier="sample")
MODELS = ["baseline/majority", "baseline/lexical"]


def test_everything_offered_is_there_and_documented() -> None:
    """`medhelm.evaluation.evaluate` is a function, whatever was asked for first."""
    code = "import medhelm as m; m.load_runs; print(*[n for n in m.__all__ if not callable(getattr(m, n))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, encoding="utf-8")
    assert done.stdout.split() == ["__version__"]
    assert all(getattr(medhelm, name).__doc__ for name in medhelm.__all__)
    with pytest.raises(AttributeError, match="no attribute `evalute`"):
        medhelm.evalute  # noqa: B018
    assert set(medhelm.__all__) <= set(dir(medhelm))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("api") / "store"
    medhelm.evaluate(["pubmed_qa", "medec"], MODELS, store=folder, settings=SAMPLE)
    return folder


def test_one_or_many_names_or_objects_texts_or_paths(store: Path, tmp_path: Path) -> None:
    with pytest.raises(medhelm.StoreError, match="no store"):
        medhelm.leaderboard(str(tmp_path))
    benchmark, (model,) = medhelm.load_benchmark("pubmed_qa"), medhelm.find_models("baseline/majority")
    for benchmarks, models in (("pubmed_qa", model.name), ([benchmark], [model]), (benchmark, ("baseline/majority",))):
        done = medhelm.evaluate(benchmarks, models, store=str(tmp_path / "store"), settings=SAMPLE)
        assert [(run.benchmark, run.model) for run in done.runs] == [("pubmed_qa", "baseline/majority")]

    async def notebook_cell() -> medhelm.Evaluation:
        return medhelm.evaluate([benchmark, "medec"], model, store=tmp_path / "2", settings=SAMPLE)

    assert {run.benchmark for run in asyncio.run(notebook_cell()).runs} == {"pubmed_qa", "medec"}
    boards = [medhelm.leaderboard(stores).to_dict() for stores in (store, str(store), [store], (str(store),))]
    assert all(board == boards[0] for board in boards)
    one = medhelm.leaderboard(store, wanted=medhelm.RunFilter(models="baseline/majority", benchmarks="medec"))
    assert [(row.model, list(row.cells)) for row in one.rows] == [("baseline/majority", ["medec"])]
    assert len(medhelm.load_runs([store, str(store)])) == 2 * len(medhelm.load_runs(store)) == 8


def test_keys_and_data_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDHELM_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(medhelm.MissingError, match=r"nowhere"):
        medhelm.evaluate("medec", "baseline/majority", store=tmp_path / "store")
    monkeypatch.setenv("OPENAI_API_KEY", "invented")
    with pytest.raises(medhelm.MissingError, match="OPENAI_API_KEY"):
        medhelm.evaluate("medec", "openai/gpt-4o", store=tmp_path / "s", settings=SAMPLE, environment={})


API: Any = medhelm
"""The module without its types, to pass wrong ones."""


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: API.load_benchmark("public"), r"`public` is a group of \d+ benchmarks"),
        (lambda s: API.find_models([1]), "`names` must be a name"),
        (lambda s: API.evaluate("medc", MODELS, store=s), "Did you mean `medec`"),
        (lambda s: API.evaluate("medec", [], store=s), "`models` is empty"),
        (lambda s: API.evaluate("medec", MODELS, store=None), "`store` must be a path"),
        (lambda s: API.evaluate("medec", MODELS, store=s, settings={}), "must be medhelm.Settings"),
        (lambda s: API.evaluate("medec", MODELS, store=s, settings=API.Settings(limit=0)), "`limit` must be"),
        (lambda s: API.leaderboard([]), "`stores` is empty"),
        (lambda s: API.leaderboard(s, rule="correct"), "Did you mean `corrected`"),
        (lambda s: API.leaderboard(s).to_frame("rows"), "Cannot show the leaderboard by `rows`"),
        (lambda s: API.compare(s, MODELS[0]), "Name a second model"),
        (lambda s: API.read_records(API.load_runs(s)[0], "text"), "no column `text`"),
        (lambda s: API.read_judgments("run"), "`run` must be a run"),
        (lambda s: API.RunFilter(since="2026"), "`since` must be a datetime"),
    ],
)
def test_wrong_input_is_an_error_of_the_project(store: Path, call: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(medhelm.UserError, match=words):
        call(store)


def test_results_are_the_json_of_the_commands(store: Path, medhelm: Medhelm) -> None:
    import medhelm as api

    board, pair, pairs = api.leaderboard(store), api.compare(store, MODELS), api.compare(store)
    done = api.evaluate(["pubmed_qa"], MODELS, store=store, settings=SAMPLE)
    options = ("--store", store, "--json")
    assert board.to_dict() == medhelm("leaderboard", *options).json
    assert pair.to_dict() == medhelm("compare", *MODELS, *options).json
    assert pairs.to_dict() == medhelm("compare", *options).json
    command = medhelm("run", "pubmed_qa", "--tier", "sample", "--model", MODELS[0], *options).json
    assert done.to_dict().keys() == command.keys()
    assert done.to_dict()["runs"][0].keys() == command["runs"][0].keys()


def test_results_are_short_in_python_and_escaped_in_notebooks(store: Path, tmp_path: Path) -> None:
    copy = tmp_path / "store"
    shutil.copytree(store, copy)
    for file in copy.rglob("run.json"):
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("baseline/", "<script>alert(1)</script>/"), encoding="utf-8")
    runs = medhelm.load_runs(copy)
    board = medhelm.leaderboard(copy, rank_baselines=True)
    shown = [runs, runs[0], board, medhelm.compare(copy), medhelm.published_leaderboard()]
    for one in shown:
        assert len(repr(one)) < 400
        html = one._repr_html_()
        assert ("<table>" in html, "<script>" in html) == (True, False)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in board._repr_html_()


def test_data_frames(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board, runs = medhelm.leaderboard(store, rank_baselines=True), medhelm.load_runs(store)
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(medhelm.MissingError, match="pandas or polars"):
        board.to_frame()
    monkeypatch.setitem(sys.modules, "polars", SimpleNamespace(DataFrame=dict))
    overall, cells, estimates = board.to_frame(), board.to_frame("benchmark"), runs.to_frame()
    assert overall["model"] == ["baseline/majority", "baseline/lexical"]
    assert overall["win_share"] == [row["win_share"]["value"] for row in board.to_dict()["models"]]
    assert len(cells["value"]) == 4
    columns = (estimates[name] for name in ("is_main", "scoring", "benchmark", "model", "value"))
    main = {row[2:4]: row[4] for row in zip(*columns, strict=True) if row[:2] == (True, "corrected")}
    assert main == {(run.benchmark, run.model): pytest.approx(score_of(run), abs=1e-6) for run in runs}
    assert medhelm.compare(store).to_frame()["test"] == ["win share", "macro average", "medec", "pubmed_qa"]


def score_of(run: medhelm.Run) -> float:
    return run.estimates["corrected"][run.main_metric].value


def test_records_are_columns(store: Path) -> None:
    run = medhelm.load_runs(store)[0]
    records = medhelm.read_records(run)
    assert {len(values) for values in records.values()} == {run.n}
    scores = medhelm.read_records(run, [f"{run.main_metric}_corrected", "instance_id"])
    assert list(scores) == [f"{run.main_metric}_corrected", "instance_id"]
    assert sum(scores[f"{run.main_metric}_corrected"]) / run.n == pytest.approx(score_of(run))
    assert medhelm.read_judgments(run, "judge") == {"judge": []}

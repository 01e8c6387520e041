"""The Python API: what it costs to start, what it accepts, and how its results appear."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import medhelm
from tests.support.cli import Medhelm

SAMPLE = medhelm.Settings(tier="sample")
MODELS = ["baseline/majority", "baseline/lexical"]

HEAVY = ("aiohttp", "numpy", "duckdb", "pydantic", "rich", "genai_prices", "docx", "yaml", "asyncio")
"""What the command line must not load before a command needs it."""


def loaded_by(code: str) -> set[str]:
    """Names of all modules that are loaded after `code` ran in a new process."""
    listing = f"{code}\nimport sys\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True, encoding="utf-8")
    return set(done.stdout.split())


@pytest.mark.parametrize("code", ["import medhelm", "import medhelm.cli"])
def test_starting_loads_nothing_heavy(code: str) -> None:
    assert loaded_by(code) & set(HEAVY) == set()


@pytest.mark.parametrize("name", medhelm.__all__)
def test_everything_offered_is_there_and_documented(name: str) -> None:
    offered = getattr(medhelm, name)
    assert offered.__doc__ or name == "__version__"
    assert name in {"__version__", *" ".join(medhelm._MODULES.values()).split()}


def test_no_module_hides_what_is_offered() -> None:
    """`medhelm.evaluation.evaluate` is a function, whatever was asked for first."""
    code = "import medhelm as m; m.load_runs; print(*[n for n in m.__all__ if not callable(getattr(m, n))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, encoding="utf-8")
    assert done.stdout.split() == ["__version__"]


def test_nothing_else_is_offered() -> None:
    with pytest.raises(AttributeError, match="no attribute `evalute`"):
        medhelm.evalute  # noqa: B018
    assert set(medhelm.__all__) <= set(dir(medhelm))


def test_the_version_is_the_package_s() -> None:
    from importlib.metadata import version

    assert medhelm.__version__ == version("medhelm-eval")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("api") / "store"
    medhelm.evaluate(["pubmed_qa", "medec"], MODELS, store=folder, settings=SAMPLE)
    return folder


def test_one_or_many_names_or_objects_texts_or_paths(store: Path, tmp_path: Path) -> None:
    benchmark, (model,) = medhelm.load_benchmark("pubmed_qa"), medhelm.find_models("baseline/majority")
    for benchmarks, models in (("pubmed_qa", model.name), ([benchmark], [model]), (benchmark, ("baseline/majority",))):
        done = medhelm.evaluate(benchmarks, models, store=str(tmp_path / "store"), settings=SAMPLE)
        assert [(run.benchmark, run.model) for run in done.runs] == [("pubmed_qa", "baseline/majority")]
    both = medhelm.evaluate([benchmark, "medec"], [model, "baseline/lexical"], store=tmp_path / "2", settings=SAMPLE)
    assert {(run.benchmark, run.model) for run in both.runs} == {
        (name, model) for name in ("pubmed_qa", "medec") for model in MODELS
    }
    boards = [medhelm.leaderboard(stores).to_dict() for stores in (store, str(store), [store], (str(store),))]
    assert all(board == boards[0] for board in boards)
    one = medhelm.leaderboard(store, wanted=medhelm.RunFilter(models="baseline/majority", benchmarks="medec"))
    assert [(row.model, list(row.cells)) for row in one.rows] == [("baseline/majority", ["medec"])]
    assert len(medhelm.load_runs([store, str(store)])) == 2 * len(medhelm.load_runs(store)) == 8


def test_it_runs_inside_an_event_loop(tmp_path: Path) -> None:
    async def notebook_cell() -> medhelm.Evaluation:
        return medhelm.evaluate("medec", "baseline/majority", store=tmp_path / "store", settings=SAMPLE)

    assert asyncio.run(notebook_cell()).exit_code == 0


def test_keys_and_data_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDHELM_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(medhelm.MissingError, match=r"nowhere"):
        medhelm.evaluate("medec", "baseline/majority", store=tmp_path / "store")
    monkeypatch.setenv("OPENAI_API_KEY", "invented")
    monkeypatch.setenv("MEDHELM_DATA", "")
    with pytest.raises(medhelm.UserError, match="offline"):  # the key was found: the next check is that of hosts
        medhelm.evaluate(
            "medec", "openai/gpt-4o", store=tmp_path / "s", settings=medhelm.Settings(tier="sample", offline=True)
        )
    with pytest.raises(medhelm.MissingError, match="OPENAI_API_KEY"):
        medhelm.evaluate("medec", "openai/gpt-4o", store=tmp_path / "s", settings=SAMPLE, environment={})


API: Any = medhelm
"""The module without its types, to pass wrong ones."""


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: API.load_benchmark("public"), r"`public` is a group of \d+ benchmarks"),
        (lambda s: API.load_benchmark(3), r"`benchmarks` must be .*This is not: 3 \(int\)"),
        (lambda s: API.find_models([1]), "`names` must be a name"),
        (lambda s: API.evaluate("medc", MODELS, store=s), "Did you mean `medec`"),
        (lambda s: API.evaluate([], MODELS, store=s), "`benchmarks` is empty"),
        (lambda s: API.evaluate("medec", [], store=s), "`models` is empty"),
        (lambda s: API.evaluate("medec", MODELS, store=None), "`store` must be a path"),
        (lambda s: API.evaluate("medec", MODELS, store=s, settings={}), "must be medhelm.Settings"),
        (lambda s: API.evaluate("medec", MODELS, store=s, settings=API.Settings(limit=0)), "`limit` must be"),
        (lambda s: API.evaluate("medec", MODELS, store=s, jury=MODELS), "it cannot judge"),
        (lambda s: API.leaderboard([]), "`stores` is empty"),
        (lambda s: API.leaderboard(3), "`stores` must be a path"),
        (lambda s: API.leaderboard(s, rule="correct"), "Did you mean `corrected`"),
        (lambda s: API.leaderboard(s, tier="test"), "Known: real, sample"),
        (lambda s: API.leaderboard(s, resample="all"), "`resample` cannot be"),
        (lambda s: API.leaderboard(s).to_frame("rows"), "Cannot show the leaderboard by `rows`"),
        (lambda s: API.leaderboard(s).to_frame(library="arrow"), "Known: pandas, polars"),
        (lambda s: API.load_runs(s).to_frame("model"), "`by` cannot be `model` here"),
        (lambda s: API.compare(s, MODELS[0]), "Name a second model"),
        (lambda s: API.compare(s, adjustment="none"), "`adjustment` cannot be"),
        (lambda s: API.read_records(API.load_runs(s)[0], "text"), "no column `text`"),
        (lambda s: API.read_judgments("run"), "`run` must be a run"),
        (lambda s: API.RunFilter(since="2026"), "`since` must be a datetime"),
    ],
)
def test_wrong_input_is_an_error_of_the_project(store: Path, call: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(medhelm.UserError, match=words):
        call(store)


def test_a_folder_that_is_no_store_is_a_store_error(tmp_path: Path) -> None:
    for call in (medhelm.leaderboard, medhelm.load_runs, medhelm.compare):
        with pytest.raises(medhelm.StoreError, match="no store"):
            call(str(tmp_path))


def test_results_are_the_json_of_the_commands(store: Path, medhelm: Medhelm) -> None:
    import medhelm as api

    board, pair, pairs = api.leaderboard(store), api.compare(store, MODELS), api.compare(store)
    done = api.evaluate(["pubmed_qa"], MODELS, store=store, settings=SAMPLE)
    options = ("--store", store, "--json")
    assert board.to_dict() == medhelm("leaderboard", *options).json
    assert pair.to_dict() == medhelm("compare", *MODELS, *options).json
    assert pairs.to_dict() == medhelm("compare", *options).json
    command = medhelm("run", "pubmed_qa", "--tier", "sample", "--model", MODELS[0], "--model", MODELS[1], *options).json
    assert done.to_dict().keys() == command.keys()
    assert done.to_dict()["runs"][0].keys() == command["runs"][0].keys()
    assert json.loads(json.dumps(api.load_runs(store).to_dict()))["runs"][0]["benchmark"] == "medec"


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
        assert repr(one).startswith(f"<{type(one).__name__}: ")
        assert len(repr(one)) < 400
        html = one._repr_html_()
        assert "<table>" in html
        assert "<script>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in board._repr_html_()
    assert len(repr(board.rows)) < 400
    assert repr(runs) == "<Runs: 4 runs of 2 models on 2 benchmarks>"
    assert "Macro average" in str(board)


class Frames(types.ModuleType):
    """Takes the place of pandas or polars."""

    DataFrame = dict


def test_data_frames(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board, runs = medhelm.leaderboard(store, rank_baselines=True), medhelm.load_runs(store)
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(medhelm.MissingError, match="pandas or polars"):
        board.to_frame()
    monkeypatch.setitem(sys.modules, "polars", Frames("polars"))
    overall, cells, estimates = board.to_frame(), board.to_frame("benchmark"), runs.to_frame()
    assert overall["model"] == ["baseline/majority", "baseline/lexical"]
    assert overall["win_share"] == [row["win_share"]["value"] for row in board.to_dict()["models"]]
    assert len(cells["value"]) == 4
    main = {
        (benchmark, model): value
        for benchmark, model, scoring, is_main, value in zip(
            *(estimates[name] for name in ("benchmark", "model", "scoring", "is_main", "value")), strict=True
        )
        if is_main and scoring == "corrected"
    }
    assert main == {(run.benchmark, run.model): pytest.approx(score_of(run), abs=1e-6) for run in runs}
    assert {type(status) for status in estimates["status"]} == {str}
    pairs = medhelm.compare(store).to_frame()
    assert pairs["test"] == ["win share", "macro average", "medec", "pubmed_qa"]
    assert medhelm.compare(store, MODELS).to_frame()["id"] == ["medec", "pubmed_qa"]


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

"""`medhelm export helm`: the files, and what HELM's own tools make of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Estimate, Instance, Message, Prompt
from medhelm.extensions.exchange.helm.export import export_helm
from medhelm.storage.runs import load_runs, write_prompts
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import answers_with, make_benchmark, perfect
from tests.support.cli import Medhelm, assert_refused
from tests.support.evaluated_store import copy_of_store, port_of
from tests.support.made_once import made_once
from tests.support.servers.openai import Server
from tests.support.stores import add_judged_runs, grades

TOOLS = os.environ.get("MEDHELM_HELM", "")
"""Read before the command line's own fixture takes such settings away."""


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Letters of options, the same in groups, and judged text, with failures of every kind."""
    return copy_of_store(medhelm, tmp_path, tmp_path_factory.getbasetemp() / "exported-store")


def exported(medhelm: Medhelm, store: Path, *options: str) -> Path:
    """The folder of the runs of an export."""
    folder = store.parent / "helm"
    done = medhelm("export", "helm", folder, "--store", store, *options)
    assert done.code == 0, done.err
    return folder / "runs" / "medhelm"


@pytest.fixture
def runs(medhelm: Medhelm, store: Path) -> Path:
    """The folder of the runs of an export under the published rule, made once."""
    folder = store.parent / "helm"
    made_once(folder, "exported-helm", lambda: exported(medhelm, store))
    return folder / "runs" / "medhelm"


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def mean(folder: Path, metric: str) -> float | None:
    """A number of `stats.json`."""
    return next((stat["mean"] for stat in read(folder / "stats.json") if stat["name"]["name"] == metric), None)


def board(medhelm: Medhelm, store: Path, rule: str) -> dict[str, Any]:
    """Plain name of the model -> its row."""
    done = medhelm("leaderboard", "--store", store, "--scoring", rule, "--completers-only", "--json")
    return {row["model"].partition("@")[0]: row for row in done.json["models"]}


def test_each_run_is_a_folder_named_in_helms_grammar_and_no_address_is_written(medhelm: Medhelm, store: Path) -> None:
    runs = exported(medhelm, store)
    parts = ("grouped:group=0,", "grouped:group=1,", "letters:", "toy:")
    names = sorted(f"{part}model=openai_{model}" for part in parts for model in "ab")
    assert sorted(folder.name for folder in runs.iterdir()) == names
    files = [path for path in runs.parent.parent.rglob("*") if path.is_file()]
    assert not any("127.0.0.1" in (text := path.read_text()) or f":{port_of(store)}/" in text for path in files)
    before = {path: path.read_bytes() for path in files}
    exported(medhelm, store)
    assert {path: path.read_bytes() for path in files} == before
    corrected = exported(medhelm, store, "--scoring", "corrected", "--benchmark", "grouped")
    names = [f"grouped:scoring=corrected,model=openai_{model}" for model in "ab"]
    assert sorted(folder.name for folder in corrected.iterdir()) == names, "groups are runs of the published rule only"


def test_a_failure_is_an_empty_completion_with_its_reason_and_without_a_score(runs: Path) -> None:
    folder = runs / "toy:model=openai_b"
    states = read(folder / "scenario_state.json")["request_states"]
    assert [state["instance"]["id"] for state in states] == [f"q{i}" for i in range(9)]
    assert states[2]["request"]["prompt"] == "Question number 2?\nA. good\nB. bad\nAnswer:"
    failed = states[4]["result"]
    assert (failed["success"], failed["completions"][0]["text"]) == (False, "")
    assert failed["error"].startswith("refusal: ")
    names = [{stat["name"]["name"] for stat in row["stats"]} for row in read(folder / "per_instance_stats.json")]
    assert [i for i, scored in enumerate(names) if "exact_match" not in scored] == [4]
    assert (mean(folder, "exact_match"), mean(folder, "num_instances")) == (5 / 8, 9)
    (stat,) = [stat for stat in read(folder / "stats.json") if stat["name"]["name"] == "exact_match"]
    of_one = {"count": 1, **dict.fromkeys(("sum", "min", "max", "mean"), 5 / 8), "variance": 0.0, "stddev": 0.0}
    assert stat == {"name": {"name": "exact_match", "split": "test"}, "sum_squared": (5 / 8) ** 2, **of_one}


def test_annotations_hold_the_judges_that_graded_everything(runs: Path) -> None:
    states = read(runs / "letters:model=openai_a" / "scenario_state.json")["request_states"]
    letters = [state["annotations"]["letters"] for state in states]
    assert letters[0]["judge-2"]["completeness"] == {"score": 3, "explanation": "it is 3"}
    assert letters[5] == {"prompt_text": None, "empty_output_equivalence_judgement": False}
    assert set(letters[7]) == {"prompt_text", "judge-1", "judge-2"}
    assert letters[8] == {"prompt_text": ""}


@pytest.mark.parametrize("rule", ["published", "corrected"])
def test_the_means_are_those_of_the_leaderboard(medhelm: Medhelm, store: Path, rule: str) -> None:
    runs = exported(medhelm, store, "--scoring", rule)
    own = board(medhelm, store, rule)
    for model, row in own.items():
        end = model.replace("/", "_")
        for benchmark, metric in (("toy", "exact_match"), ("grouped", "exact_match"), ("letters", "jury_score")):
            folders = [f for f in runs.iterdir() if f.name.startswith(benchmark) and f.name.endswith(end)]
            means = [found for f in folders if (found := mean(f, metric)) is not None]
            assert sum(means) / len(means) == pytest.approx(row["benchmarks"][benchmark]["value"], abs=1e-6)


def test_the_order_of_a_sum_makes_no_winner(tmp_path: Path) -> None:
    """HELM's tables compare numbers to the last bit."""
    store = tmp_path / "store"
    for model, value in (("maker/one", 0.1 + 0.2), ("maker/two", 0.3)):
        estimates = {"jury": Estimate(value=value, low=0.0, high=1.0, n=4)}
        by_rule = dict.fromkeys(("corrected", "published"), estimates)
        add_judged_runs(store, "letters", grades(1, 4)[:, :1], models=(model,), estimates=by_rule)
    opened = open_store(store)
    prompts = [(Instance(id=f"i{i}", fields={}, references=()), Prompt((Message("user", "?"),))) for i in range(4)]
    for run in load_runs(opened):
        write_prompts(opened.prompts_file("letters", run.benchmark_digest, run.data_digest), prompts)
    export_helm(store, tmp_path / "helm", definitions={})
    assert {mean(folder, "jury_score") for folder in (tmp_path / "helm" / "runs" / "medhelm").iterdir()} == {0.3}


def test_two_servers_of_one_model_stay_two_models_and_conversations_keep_their_messages(
    medhelm: Medhelm, server: Server, tmp_path: Path
) -> None:
    server.answer_with(answers_with(perfect))
    place = make_benchmark(tmp_path, n=2, extra="system: You are a nurse.\n")
    for host in ("127.0.0.1", "localhost"):
        medhelm("run", place, "--model", f"openai/m@http://{host}:{server.port}/v1", "--store", tmp_path / "store")
    folders = list(exported(medhelm, tmp_path / "store").iterdir())
    models = {read(folder / "run_spec.json")["adapter_spec"]["model"] for folder in folders}
    assert models == {"openai/m", "openai/m-2"}
    state = read(folders[0] / "scenario_state.json")["request_states"][0]
    assert (state["request"]["prompt"], state["request"]["messages"]) == ("", state["instance"]["input"]["messages"])
    assert [message["role"] for message in state["request"]["messages"]] == ["system", "user"]


def test_runs_without_prompts_are_left_out_by_name(medhelm: Medhelm, store: Path) -> None:
    for path in (store / "prompts").glob("toy-*.parquet"):
        path.unlink()
    done = medhelm("export", "helm", "out", "--store", store, "--json")
    assert (done.code, len(done.json["left_out"])) == (1, 2)
    assert "toy with openai/a" in done.err
    assert not [path for path in Path("out/runs/medhelm").iterdir() if path.name.startswith("toy:")]


def test_prompts_of_other_instances_are_an_error_and_nothing_is_written(medhelm: Medhelm, store: Path) -> None:
    (toy,) = (store / "prompts").glob("toy-*.parquet")
    (grouped,) = (store / "prompts").glob("grouped-*.parquet")
    medhelm("run", "toy", "--model", "baseline/majority", "--store", store, "--limit", "3")
    short = next(path for path in (store / "prompts").glob("toy-*.parquet") if path != toy)
    shutil.copyfile(short, grouped)
    assert_refused(medhelm("export", "helm", "out", "--store", store), "is not the prompts file of")
    assert not [path for path in Path().iterdir() if "out" in path.name]


def test_a_suite_is_the_name_of_a_folder(medhelm: Medhelm, store: Path) -> None:
    for suite in ("", "../up", ".hidden"):
        assert_refused(medhelm("export", "helm", "out", "--store", store, "--suite", suite), "--suite")
    assert not Path("out").exists()


@pytest.fixture
def tools() -> Path:
    """Folder of `helm-summarize`."""
    if not TOOLS or not (Path(TOOLS) / "helm-summarize").exists():
        pytest.skip("MEDHELM_HELM names no folder with helm-summarize of crfm-helm")
    return Path(TOOLS)


def summarised(tools: Path, folder: Path, *options: str) -> Path:
    """Run `helm-summarize`; the folder it writes to."""
    command = [str(tools / "helm-summarize"), "--suite", "medhelm", "-o", str(folder), *options]
    quiet = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, env=quiet, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / "runs" / "medhelm"


@pytest.mark.parametrize("rule", ["published", "corrected"])
def test_helm_summarize_shows_our_numbers(medhelm: Medhelm, store: Path, tools: Path, rule: str) -> None:
    folder = exported(medhelm, store, "--scoring", rule).parent.parent
    schema = ("--schema-path", str(folder / "schema.yaml"), "--local-path", str(folder / "prod_env"))
    written = summarised(tools, folder, *schema, "--schema-validation", "error")
    (table,) = [t for t in read(written / "groups" / "medhelm_scenarios.json") if t["title"] == "Accuracy"]
    heads = [head["value"] for head in table["header"]]
    assert set(heads) == {"Model", "Mean win rate", "grouped - EM", "toy - EM", "Letters - Jury Score"}
    own = board(medhelm, store, rule)
    assert {row[0]["value"] for row in table["rows"]} == set(own)
    for row in table["rows"]:
        cells = dict(zip(heads, (cell.get("value") for cell in row), strict=True))
        model = own[cells["Model"]]
        assert cells["Mean win rate"] == pytest.approx(model["win_rate"]["value"], abs=1e-6)
        for head, benchmark in (("toy - EM", "toy"), ("grouped - EM", "grouped"), ("Letters - Jury Score", "letters")):
            assert cells[head] == pytest.approx(model["benchmarks"][benchmark]["value"], abs=1e-6)


@pytest.mark.usefixtures("runs")
def test_exported_and_imported_runs_have_the_same_numbers(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    back = ["--store", tmp_path / "back", "--benchmarks", tmp_path]
    done = medhelm("import", "helm", tmp_path / "helm", "--rescore", *back)
    assert done.code in (0, 1), done.err
    assert "but stats.json has" not in done.err, "means are those of the instances"
    for rule in ("published", "corrected"):
        before, after = (board(medhelm, place, rule) for place in (store, tmp_path / "back"))
        assert set(before) == set(after) == {"openai/a", "openai/b"}
        for model, row in before.items():
            assert row["win_rate"]["value"] == after[model]["win_rate"]["value"]
            for benchmark, cell in row["benchmarks"].items():
                again = after[model]["benchmarks"][benchmark]
                assert {k: again[k] for k in ("value", "n", "n_failed", "metric")} == {
                    k: cell[k] for k in ("value", "n", "n_failed", "metric")
                }

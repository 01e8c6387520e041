"""`medhelm export helm`: the files, and what HELM's own tools make of them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from medhelm.domain import Estimate, Instance, Message, Prompt
from medhelm.extensions.exchange.helm.export import export_helm
from medhelm.storage.runs import load_runs, write_prompts
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import answers_with, make_benchmark, perfect
from tests.support.cli import Medhelm
from tests.support.evaluated_store import FORMULA, copy_of_store, port_of
from tests.support.servers.openai import Server
from tests.support.stores import add_judged_runs, grades

TOOLS = os.environ.get("MEDHELM_HELM", "")
"""Read before the command line's own fixture takes such settings away."""

FILES = ["per_instance_stats.json", "run_spec.json", "scenario.json", "scenario_state.json", "stats.json"]


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


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def mean(folder: Path, metric: str) -> float | None:
    """A number of `stats.json`."""
    return next((stat["mean"] for stat in read(folder / "stats.json") if stat["name"]["name"] == metric), None)


def board(medhelm: Medhelm, store: Path, rule: str) -> dict[str, Any]:
    """Plain name of the model -> its row."""
    done = medhelm("leaderboard", "--store", store, "--scoring", rule, "--completers-only", "--json")
    return {row["model"].partition("@")[0]: row for row in done.json["models"]}


# --- the files --------------------------------------------------------------------------------------------------------


def test_each_run_is_a_folder_of_five_files_named_in_helms_grammar(medhelm: Medhelm, store: Path) -> None:
    runs = exported(medhelm, store)
    assert sorted(folder.name for folder in runs.iterdir()) == [
        "grouped:group=0,model=openai_a",
        "grouped:group=0,model=openai_b",
        "grouped:group=1,model=openai_a",
        "grouped:group=1,model=openai_b",
        "letters:model=openai_a",
        "letters:model=openai_b",
        "toy:model=openai_a",
        "toy:model=openai_b",
    ]
    for folder in runs.iterdir():
        assert sorted(path.name for path in folder.iterdir()) == FILES
        assert read(folder / "run_spec.json")["name"] == folder.name


def test_files_are_indented_by_two_and_hold_no_null_besides_what_judges_were_asked(
    medhelm: Medhelm, store: Path
) -> None:
    for path in exported(medhelm, store).rglob("*.json"):
        text = path.read_text(encoding="utf-8")
        assert text == json.dumps(json.loads(text), indent=2)
        assert text.replace('"prompt_text": null', "").count("null") == 0


def test_a_run_spec_has_the_keys_of_helms(medhelm: Medhelm, store: Path) -> None:
    runs = exported(medhelm, store)
    spec = read(runs / "letters:model=openai_a" / "run_spec.json")
    assert set(spec) == {
        "name", "scenario_spec", "adapter_spec", "metric_specs", "data_augmenter_spec", "groups", "annotators",
    }  # fmt: skip
    assert spec["groups"] == ["letters"]
    adapter = spec["adapter_spec"]
    assert (adapter["method"], adapter["model"], adapter["max_tokens"]) == ("generation", "openai/a", 50)
    judge = {"model_name": "openai/judge-1", "model_deployment": "openai/judge-1"}
    assert spec["annotators"][0]["args"]["annotator_models"]["judge-1"] == judge
    assert spec["metric_specs"][0]["args"]["metric_name"] == "jury_score"
    plain = read(runs / "toy:model=openai_a" / "run_spec.json")
    assert "annotators" not in plain
    assert plain["adapter_spec"]["method"] == "multiple_choice_joint"
    assert read(runs / "grouped:group=1,model=openai_a" / "run_spec.json")["scenario_spec"]["args"] == {"group": "1"}


def test_a_request_state_holds_prompt_options_and_completion(medhelm: Medhelm, store: Path) -> None:
    state = read(exported(medhelm, store) / "toy:model=openai_a" / "scenario_state.json")
    assert set(state) == {"adapter_spec", "request_states"}
    first = state["request_states"][2]
    prompt = "Question number 2?\nA. good\nB. bad\nAnswer:"
    assert first["request"]["prompt"] == first["instance"]["input"]["text"] == prompt
    assert first["output_mapping"] == {"A": "good", "B": "bad"}
    assert [one["tags"] for one in first["instance"]["references"]] == [[], ["correct"]]
    assert (first["instance"]["id"], first["instance"]["split"]) == ("q2", "test")
    (completion,) = first["result"]["completions"]
    assert (completion["text"], completion["finish_reason"]) == ("B", {"reason": "stop"})
    assert first["result"]["success"] is True
    assert [one["instance"]["id"] for one in state["request_states"]] == [f"q{i}" for i in range(9)]


def test_a_failure_is_an_empty_completion_with_its_reason_and_without_a_score(medhelm: Medhelm, store: Path) -> None:
    folder = exported(medhelm, store) / "toy:model=openai_b"
    result = read(folder / "scenario_state.json")["request_states"][4]["result"]
    assert (result["success"], result["completions"][0]["text"]) == (False, "")
    assert result["error"].startswith("refusal: ")
    stats = {row["instance_id"]: {s["name"]["name"] for s in row["stats"]} for row in per_instance(folder)}
    assert "exact_match" not in stats["q4"]
    assert "exact_match" in stats["q3"]
    assert mean(folder, "exact_match") == 5 / 8
    assert mean(folder, "num_instances") == 9


def per_instance(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read(folder / "per_instance_stats.json")
    return rows


def test_judgments_become_annotations_of_judges_that_graded_everything(medhelm: Medhelm, store: Path) -> None:
    states = read(exported(medhelm, store) / "letters:model=openai_a" / "scenario_state.json")["request_states"]
    said = [state["annotations"]["letters"] for state in states]
    assert said[0]["judge-2"]["completeness"] == {"score": 3, "explanation": "it is 3"}
    assert list(said[0]) == ["prompt_text", "judge-1", "judge-2", "judge-3"]
    assert said[5] == {"prompt_text": None, "empty_output_equivalence_judgement": False}
    assert set(said[7]) == {"prompt_text", "judge-1", "judge-2"}
    assert said[8] == {"prompt_text": ""}
    assert states[6]["result"]["completions"][0]["text"] == FORMULA


def test_the_published_jury_score_follows_from_the_annotations(medhelm: Medhelm, store: Path) -> None:
    """HELM's rule: the mean of all grades, the default where there is none."""
    folder = exported(medhelm, store) / "letters:model=openai_a"
    states = {s["instance"]["id"]: s for s in read(folder / "scenario_state.json")["request_states"]}
    for row in per_instance(folder):
        said = states[row["instance_id"]]["annotations"]["letters"]
        grades = [int(g["score"]) for name in ("judge-1", "judge-2", "judge-3") for g in said.get(name, {}).values()]
        (found,) = [stat["mean"] for stat in row["stats"] if stat["name"]["name"] == "jury_score"]
        assert found == pytest.approx(sum(grades) / len(grades) if grades else 1.0)


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
    close = [0.1 + 0.2, 0.3]
    assert close[0] != close[1]
    for model, value in zip(("maker/one", "maker/two"), close, strict=True):
        close_one = Estimate(value=value, low=0.0, high=1.0, n=4)
        add_judged_runs(
            tmp_path / "store", "letters", grades(1, 4)[:, :1], models=(model,),
            estimates={rule: {"jury": close_one} for rule in ("corrected", "published")},
        )  # fmt: skip
    opened = open_store(tmp_path / "store")
    for run in load_runs(opened):
        prompts = [(Instance(id=f"i{i}", fields={}, references=()), Prompt((Message("user", "?"),))) for i in range(4)]
        write_prompts(opened.prompts_file("letters", run.benchmark_digest, run.data_digest), prompts)
    export_helm(tmp_path / "store", tmp_path / "helm", definitions={})
    found = {mean(folder, "jury_score") for folder in (tmp_path / "helm" / "runs" / "medhelm").iterdir()}
    assert found == {0.3}


def test_groups_are_runs_of_their_own_by_the_published_rule_only(medhelm: Medhelm, store: Path) -> None:
    runs = exported(medhelm, store, "--scoring", "corrected", "--benchmark", "grouped")
    assert sorted(folder.name for folder in runs.iterdir()) == [
        "grouped:scoring=corrected,model=openai_a",
        "grouped:scoring=corrected,model=openai_b",
    ]
    assert len(per_instance(runs / "grouped:scoring=corrected,model=openai_b")) == 9


def test_a_stat_has_the_population_numbers_of_its_mean(medhelm: Medhelm, store: Path) -> None:
    folder = exported(medhelm, store) / "toy:model=openai_b"
    (stat,) = [stat for stat in read(folder / "stats.json") if stat["name"]["name"] == "exact_match"]
    assert stat == {
        "name": {"name": "exact_match", "split": "test"},
        "count": 1, "sum": 0.625, "sum_squared": 0.390625, "min": 0.625, "max": 0.625, "mean": 0.625,
        "variance": 0.0, "stddev": 0.0,
    }  # fmt: skip
    assert per_instance(folder)[0]["stats"][0] | {"name": {}} == {
        "name": {}, "count": 1, "sum": 1.0, "sum_squared": 1.0, "min": 1.0, "max": 1.0, "mean": 1.0,
        "variance": 0.0, "stddev": 0.0,
    }  # fmt: skip


def test_conversations_keep_their_messages(medhelm: Medhelm, server: Server, tmp_path: Path) -> None:
    server.answer_with(answers_with(perfect))
    place = make_benchmark(tmp_path, n=2, extra="system: You are a nurse.\n")
    medhelm("run", place, "--model", f"openai/a@{server.url}/v1", "--store", tmp_path / "store")
    (folder,) = exported(medhelm, tmp_path / "store").iterdir()
    state = read(folder / "scenario_state.json")["request_states"][0]
    assert state["request"]["prompt"] == ""
    assert [one["role"] for one in state["request"]["messages"]] == ["system", "user"]
    assert state["instance"]["input"]["messages"] == state["request"]["messages"]


# --- what stands beside the runs --------------------------------------------------------------------------------------


def test_the_schema_names_every_benchmark_and_metric(medhelm: Medhelm, store: Path) -> None:
    folder = exported(medhelm, store).parent.parent
    schema = yaml.safe_load((folder / "schema.yaml").read_text(encoding="utf-8"))
    metrics = {metric["name"] for metric in schema["metrics"]}
    stats = {s["name"]["name"] for path in folder.rglob("stats.json") for s in read(path)}
    assert stats <= metrics
    groups = {group["name"]: group for group in schema["run_groups"]}
    assert {"toy", "grouped", "letters", "medhelm_scenarios"} <= set(groups)
    assert groups["letters"]["environment"] == {"main_name": "jury_score", "main_split": "test"}
    assert all(name in groups for group in groups.values() for name in group.get("subgroups", []))


def test_no_address_is_written(medhelm: Medhelm, store: Path) -> None:
    folder = exported(medhelm, store).parent.parent
    for path in folder.rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            assert "127.0.0.1" not in text
            assert f":{port_of(store)}/" not in text


def test_two_servers_of_one_model_stay_two_models(medhelm: Medhelm, server: Server, tmp_path: Path) -> None:
    server.answer_with(answers_with(perfect))
    place = make_benchmark(tmp_path, n=2)
    with Server() as other:
        other.answer_with(answers_with(lambda _: "A"))
        for one in (server, other):
            medhelm("run", place, "--model", f"openai/m@{one.url}/v1", "--store", tmp_path / "store")
        runs = exported(medhelm, tmp_path / "store")
        models = {read(folder / "run_spec.json")["adapter_spec"]["model"] for folder in runs.iterdir()}
        assert models == {"openai/m", "openai/m-2"}


# --- choosing ---------------------------------------------------------------------------------------------------------


def test_benchmarks_and_models_can_be_chosen(medhelm: Medhelm, store: Path) -> None:
    model = f"openai/a@http://127.0.0.1:{port_of(store)}/v1"
    runs = exported(medhelm, store, "--benchmark", "toy", "--model", model)
    assert [folder.name for folder in runs.iterdir()] == ["toy:model=openai_a"]


def test_all_unknown_names_are_reported_and_nothing_is_written(medhelm: Medhelm, store: Path) -> None:
    done = medhelm("export", "helm", "out", "--store", store, "--benchmark", "toyy", "--benchmark", "lettres")
    assert done.code == 2
    assert "no run of `lettres`. Did you mean `letters`?" in done.err
    assert "no run of `toyy`. Did you mean `toy`?" in done.err
    assert not Path("out").exists()


def test_runs_without_prompts_are_left_out_by_name(medhelm: Medhelm, store: Path) -> None:
    for path in (store / "prompts").glob("toy-*.parquet"):
        path.unlink()
    done = medhelm("export", "helm", "out", "--store", store, "--json")
    assert done.code == 1
    assert len(done.json["left_out"]) == 2
    assert "toy with openai/a" in done.err
    assert not [path for path in Path("out/runs/medhelm").iterdir() if path.name.startswith("toy:")]


def test_runs_without_a_score_by_the_rule_are_left_out_by_name(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    exported(medhelm, store)
    back = ["--store", tmp_path / "back"]
    medhelm("import", "helm", tmp_path / "helm", *back, "--benchmarks", tmp_path)  # as it is: published numbers only
    done = medhelm("export", "helm", "out", "--scoring", "corrected", *back)
    assert done.code == 2
    assert "letters with openai/a: it has no corrected jury. Try `medhelm rescore`." in done.err
    medhelm("rescore", "toy", "--model", "openai/a", *back, "--benchmarks", tmp_path)
    done = medhelm("export", "helm", "out", "--scoring", "corrected", *back, "--json")
    assert (done.code, done.json["counts"]["runs"]) == (1, 1)
    assert len(done.json["left_out"]) == 5


def test_prompts_of_other_instances_are_an_error_and_nothing_is_written(medhelm: Medhelm, store: Path) -> None:
    (toy,) = (store / "prompts").glob("toy-*.parquet")
    (letters,) = (store / "prompts").glob("letters-*.parquet")
    (grouped,) = (store / "prompts").glob("grouped-*.parquet")
    shutil.copyfile(letters, toy)
    assert medhelm("export", "helm", "same-ids", "--store", store).code == 0  # the ids are the same: nothing to notice
    medhelm("run", "toy", "--model", "baseline/majority", "--store", store, "--limit", "3")
    short = next(path for path in (store / "prompts").glob("toy-*.parquet") if path != toy)
    shutil.copyfile(short, grouped)
    done = medhelm("export", "helm", "out", "--store", store)
    assert done.code == 2
    assert "is not the prompts file of" in done.err
    assert not [path for path in Path().iterdir() if "out" in path.name]


@pytest.mark.parametrize("suite", ["", "../up", "a/b", ".hidden"])
def test_a_suite_is_the_name_of_a_folder(medhelm: Medhelm, store: Path, suite: str) -> None:
    done = medhelm("export", "helm", "out", "--store", store, "--suite", suite)
    assert done.code == 2
    assert not Path("out").exists()


def test_an_empty_store_says_so(medhelm: Medhelm, tmp_path: Path) -> None:
    assert medhelm("export", "helm", "out", "--store", tmp_path / "none").code == 2


def test_the_same_store_gives_the_same_bytes(medhelm: Medhelm, store: Path) -> None:
    def contents(folder: str) -> dict[str, bytes]:
        assert medhelm("export", "helm", folder, "--store", store).code == 0
        return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(Path(folder).rglob("*")) if p.is_file()}

    assert contents("one") == contents("two") == contents("one")


# --- HELM's own tools -------------------------------------------------------------------------------------------------


@pytest.fixture
def tools() -> Path:
    """Folder of `helm-summarize` and `helm-server`."""
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


def ours(folder: Path) -> list[str]:
    return ["--schema-path", str(folder / "schema.yaml"), "--local-path", str(folder / "prod_env")]


@pytest.mark.parametrize("rule", ["published", "corrected"])
def test_helm_summarize_shows_our_numbers(medhelm: Medhelm, store: Path, tools: Path, rule: str) -> None:
    folder = exported(medhelm, store, "--scoring", rule).parent.parent
    written = summarised(tools, folder, *ours(folder), "--schema-validation", "error")
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


def test_helm_knows_the_public_benchmarks_by_itself(medhelm: Medhelm, tools: Path, tmp_path: Path) -> None:
    """Without our schema: the names of runs, groups and metrics are those it has."""
    models = ["--model", "baseline/majority", "--model", "baseline/lexical"]
    names = ["medcalc_bench", "pubmed_qa", "clear"]
    medhelm("run", *names, *models, "--tier", "sample", "--store", tmp_path / "store")
    folder = exported(medhelm, tmp_path / "store").parent.parent
    written = summarised(tools, folder, "--auto-generate-schema")
    (table,) = [t for t in read(written / "groups" / "all_scenarios.json") if t["title"] == "Main Metric"]
    heads = {head["value"] for head in table["header"]}
    assert {"MedCalc-Bench - MedCalc Accuracy", "PubMedQA - EM"} <= heads


@pytest.fixture
def helm_server(medhelm: Medhelm, store: Path, tools: Path) -> Iterator[str]:
    """A running `helm-server` on a summarised export; its address."""
    folder = exported(medhelm, store).parent.parent
    summarised(tools, folder, *ours(folder))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(tools / "helm-server"), "--suite", "medhelm", "-o", str(folder), "-p", str(port)]
    with subprocess.Popen(command, cwd=folder.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            running.kill()


def fetched(address: str, patience_s: float = 600.0) -> bytes:
    """A page of a server that may still be starting."""
    end = time.monotonic() + patience_s
    while True:
        try:
            with urllib.request.urlopen(address) as answer:
                content: bytes = answer.read()
                return content
        except (ConnectionError, urllib.error.URLError) as error:
            if isinstance(error, urllib.error.HTTPError) or time.monotonic() > end:
                raise


def test_helm_server_serves_what_its_front_end_fetches(helm_server: str) -> None:
    assert 'window.SUITE = "medhelm"' in fetched(f"{helm_server}/config.js").decode()
    release = f"{helm_server}/benchmark_output/runs/medhelm"
    schema = json.loads(fetched(f"{release}/schema.json"))
    assert [model["name"] for model in schema["models"]] == ["openai/a", "openai/b"]
    names = [spec["name"] for spec in json.loads(fetched(f"{release}/run_specs.json"))]
    assert len(names) == 8
    groups = json.loads(fetched(f"{release}/groups.json"))
    assert [table["title"] for table in groups] == ["All scenarios", "Healthcare Task Categories", "Scenarios"]
    assert json.loads(fetched(f"{release}/groups/letters.json"))
    place = f"{release}/{quote('letters:model=openai_a')}"
    predictions = json.loads(fetched(f"{place}/display_predictions.json"))
    assert predictions[6]["predicted_text"] == FORMULA
    assert predictions[0]["annotations"]["letters"]["judge-1"]["accuracy"]["score"] == 2
    assert predictions[0]["stats"]["jury_score"] == pytest.approx(19 / 9)
    for name in ("instances", "display_requests", "scenario", "run_spec", "stats"):
        assert json.loads(fetched(f"{place}/{name}.json"))


# --- there and back ---------------------------------------------------------------------------------------------------


def test_exported_and_imported_runs_have_the_same_numbers(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    exported(medhelm, store)
    back = ["--store", tmp_path / "back", "--benchmarks", tmp_path]
    done = medhelm("import", "helm", tmp_path / "helm", "--rescore", *back)
    assert done.code in (0, 1), done.err
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


def test_imported_runs_can_be_exported_again(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    first = exported(medhelm, store)
    medhelm("import", "helm", tmp_path / "helm", "--store", tmp_path / "back", "--benchmarks", tmp_path)
    done = medhelm("export", "helm", tmp_path / "again", "--store", tmp_path / "back")
    assert done.code == 0, done.err
    second = tmp_path / "again" / "runs" / "medhelm"
    assert {folder.name for folder in first.iterdir()} == {folder.name for folder in second.iterdir()}
    for folder in first.iterdir():
        states = [read(place / folder.name / "scenario_state.json")["request_states"] for place in (first, second)]
        for one, other in zip(*states, strict=True):
            # Groups are one run here: the group stands before ids that might be the same in two of them.
            assert other["instance"]["id"].rpartition("/")[2] == one["instance"]["id"]
            assert one["request"]["prompt"] == other["request"]["prompt"]
            assert one["result"]["completions"][0]["text"] == other["result"]["completions"][0]["text"]
            assert one.get("output_mapping") == other.get("output_mapping")
            assert one.get("annotations") == other.get("annotations")
        for metric in ("exact_match", "jury_score"):
            assert mean(first / folder.name, metric) == pytest.approx(mean(second / folder.name, metric))

"""One run of HELM as it is read: against the files themselves, and with everything odd that files can hold."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Message
from medhelm.extensions.exchange.helm.folders import UnreadableRun
from medhelm.extensions.exchange.helm.reader import NO_SCORES
from tests.support.exchange.helm import ALL, change, content, copy_of, read, run_folder


@pytest.mark.parametrize("folder", ALL, ids=lambda folder: f"{folder.parents[2].name}/{folder.name[:40]}")
def test_prompts_completions_and_scores_are_those_of_the_files(folder: Path) -> None:
    run = read(folder)
    states = content(folder, "scenario_state.json")["request_states"]
    assert [one.id for one in run.instances] == [state["instance"]["id"] for state in states]
    for one, state in zip(run.instances, states, strict=True):
        assert one.turns == (Message("user", state["request"]["prompt"]),)
        assert one.fields == {"input": state["instance"]["input"]["text"]}
        right = [r["output"]["text"] for r in state["instance"]["references"] if r["tags"]]
        assert list(one.correct) == right
        completion = run.completions[one.id]
        assert completion.text == state["result"]["completions"][0]["text"]
        assert completion.latency_s == state["result"]["request_time"]
        reason = state["result"]["completions"][0].get("finish_reason", {}).get("reason", "")
        assert completion.finish_reason == reason
        assert dict(zip(one.labels, one.choices, strict=True)) == state.get("output_mapping", {})
    found: dict[tuple[str, str], float] = {}
    for entry in content(folder, "per_instance_stats.json"):
        for stat in entry["stats"]:
            if stat["count"] and stat["name"]["name"] not in NO_SCORES and "@" not in stat["name"]["name"]:
                found[stat["name"]["name"], entry["instance_id"]] = stat["mean"]
    assert {(name, id_): value for name, own in run.scores.items() for id_, value in own.items()} == found


@pytest.mark.parametrize("folder", ALL, ids=lambda folder: f"{folder.parents[2].name}/{folder.name[:40]}")
def test_means_of_the_scores_are_those_of_helms_tables(folder: Path) -> None:
    run = read(folder)
    means = {
        stat["name"]["name"]: stat["mean"]
        for stat in content(folder, "stats.json")
        if "perturbation" not in stat["name"] and stat["name"].get("split") == "test" and "mean" in stat
    }
    assert run.scores
    for name, own in run.scores.items():
        assert sum(own.values()) / len(own) == pytest.approx(means[name], rel=1e-12, abs=1e-15)
    assert run.remarks == ()


def test_the_prompt_and_its_settings(tmp_path: Path) -> None:
    run = read(run_folder("clear:condition=liver"))
    assert (run.benchmark, run.title, run.model, run.deployment) == (
        "clear",
        "liver_disease",
        "mock/writer-a",
        "mock/writer-a",
    )
    assert (run.max_tokens, run.temperature, run.stop) == (1, 0.0, ())
    assert run.started.endswith("+00:00")
    assert run.origin.run == f"v1/{run_folder('clear:condition=liver').name}"
    letters = read(run_folder("LETTERS:model=mock_writer-a"))
    assert (letters.benchmark, letters.title, letters.max_tokens) == ("LETTERS", "", 64)
    calc = read(run_folder("medcalc_bench"))
    assert calc.instances[0].id == "1"
    assert dict(calc.instances[3].metadata) == {
        "Category": "physical",
        "Lower Limit": "21.7",
        "Upper Limit": "24.0",
    }


def test_tokens_are_those_that_helm_counted() -> None:
    run = read(run_folder("LETTERS:model=mock_writer-a"))
    assert [run.completions[one.id].usage.input for one in run.instances] == [29] * 9 + [29]
    assert all(completion.usage.output == 0 for completion in run.completions.values())


def edited(tmp_path: Path, start: str, name: str, edit: Callable[[Any], Any]) -> Path:
    folder = copy_of(start, tmp_path)
    change(folder, name, edit)
    return folder


def test_perturbed_requests_and_further_trials_are_left_out_with_a_remark(tmp_path: Path) -> None:
    folder = copy_of("WARD-EM", tmp_path)

    def more(state: Any) -> None:
        first = state["request_states"][0]
        perturbed = {**first, "instance": {**first["instance"], "perturbation": {"name": "typos"}}}
        state["request_states"] += [perturbed, {**first, "train_trial_index": 1}]

    def numbers(entries: Any) -> None:
        first = entries[0]
        entries.append({**first, "perturbation": {"name": "typos"}, "stats": [_stat("exact_match", 9.0)]})
        entries.append({**first, "train_trial_index": 1, "stats": [_stat("exact_match", 9.0)]})
        first["stats"].append(_stat("exact_match", 9.0, perturbation={"name": "robustness"}))

    before = read(run_folder("WARD-EM"))
    change(folder, "scenario_state.json", more)
    change(folder, "per_instance_stats.json", numbers)
    run = read(folder)
    assert list(run.instances) == list(before.instances)
    assert run.scores == before.scores
    assert any("1 requests on perturbed instances" in text for text in run.remarks)
    assert any("1 requests of further trials" in text for text in run.remarks)


def _stat(name: str, value: float, **more: Any) -> dict[str, Any]:
    return {"name": {"name": name, "split": "test", **more}, "count": 1, "sum": value, "mean": value}


def test_a_failed_request_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    def fail(state: Any) -> None:
        one, two, three, four = state["request_states"][:4]
        one["result"] = {"success": False, "error": "content filter", "completions": [], "cached": False}
        two["result"] = {"success": True, "completions": [], "cached": False}
        del three["result"]
        four["result"]["success"] = False

    run = read(edited(tmp_path, "WARD-EM", "scenario_state.json", fail))
    failures = [run.completions[one.id].failure for one in run.instances]
    assert [failure and failure.code for failure in failures] == [
        "request_failed",
        "no_completion",
        "no_result",
        "request_failed",
        None,
        None,
    ]
    assert failures[0] and failures[0].message == "content filter"
    assert failures[3] and failures[3].message == "HELM gives no reason"


def test_messages_reasoning_and_several_completions(tmp_path: Path) -> None:
    def talk(state: Any) -> None:
        one = state["request_states"][0]
        one["request"]["messages"] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Fever?"}]
        one["result"]["completions"][0] |= {"thinking": {"text": "hm"}, "tokens": [{"text": "Yes", "logprob": 0}]}
        one["result"]["completions"].append({"text": "other", "logprob": 0, "tokens": []})
        one["prompt_truncated"] = True

    run = read(edited(tmp_path, "WARD-EM", "scenario_state.json", talk))
    assert run.instances[0].turns == (Message("system", "Be brief."), Message("user", "Fever?"))
    completion = run.completions[run.instances[0].id]
    assert (completion.text, completion.usage.output) == ("Yes", 1)
    said = " ".join(run.remarks)
    assert "several completions" in said
    assert "separate reasoning" in said
    assert "1 prompts were truncated" in said


def test_instances_of_one_id_keep_their_own_scores(tmp_path: Path) -> None:
    folder = copy_of("WARD-EM", tmp_path)
    before = read(folder)

    def rename(state: Any) -> None:
        for one in state["request_states"]:
            one["instance"]["id"] = "same"

    def rename_too(entries: Any) -> None:
        for entry in entries:
            entry["instance_id"] = "same"

    change(folder, "scenario_state.json", rename)
    change(folder, "per_instance_stats.json", rename_too)
    run = read(folder)
    assert [one.id for one in run.instances] == ["same", *(f"same#{n}" for n in range(2, 7))]
    old = [before.scores["exact_match"][one.id] for one in before.instances]
    assert [run.scores["exact_match"][one.id] for one in run.instances] == old
    assert any("5 instances repeat an earlier id" in text for text in run.remarks)


def test_nan_values_and_differing_values(tmp_path: Path) -> None:
    def odd(entries: Any) -> None:
        entries[0]["stats"].append(_stat("exact_match", 0.25))
        for stat in entries[1]["stats"]:
            if stat["name"]["name"] == "quasi_exact_match":
                stat["sum"] = math.nan
        entries[2]["stats"].append(_stat("{0} {n}", 0.5))
        entries[3]["stats"].append({**_stat("exact_match", 0.0), "count": 0})

    run = read(edited(tmp_path, "WARD-EM", "per_instance_stats.json", odd))
    ids = [one.id for one in run.instances]
    assert run.scores["exact_match"][ids[0]] == 0.25
    assert ids[1] not in run.scores["quasi_exact_match"]
    assert run.scores["{0} {n}"] == {ids[2]: 0.5}
    said = " ".join(run.remarks)
    assert "exact_match has several different values for 1 instances: the last one counts" in said
    assert "quasi_exact_match is not a number for some instances (1)" in said
    assert "stats.json has" in said


def test_metrics_at_k_count_only_if_they_differ(tmp_path: Path) -> None:
    assert set(read(run_folder("pubmed_qa:model=mock_writer-b")).scores) == {
        "exact_match",
        "quasi_exact_match",
        "prefix_exact_match",
        "quasi_prefix_exact_match",
    }

    def other(entries: Any) -> None:
        for entry in entries:
            for stat in entry["stats"]:
                if stat["name"]["name"] == "exact_match@5":
                    stat["sum"] = 1.0

    assert (
        "exact_match@5"
        in read(edited(tmp_path, "pubmed_qa:model=mock_writer-b", "per_instance_stats.json", other)).scores
    )


def test_only_the_split_in_helms_tables_is_imported(tmp_path: Path) -> None:
    def split(state: Any) -> None:
        state["request_states"][0]["instance"]["split"] = "valid"

    run = read(edited(tmp_path, "WARD-EM", "scenario_state.json", split))
    assert len(run.instances) == 5
    assert any("HELM's tables show only the split test" in text for text in run.remarks)


def test_the_main_metric_comes_first(tmp_path: Path) -> None:
    assert next(iter(read(run_folder("STAY-RG")).scores)) == "rouge_l"
    assert next(iter(read(run_folder("medcalc_bench")).scores)) == "medcalc_bench_accuracy"
    assert next(iter(read(run_folder("medication_qa")).scores)) == "medication_qa_accuracy"
    assert next(iter(read(run_folder("medication_qa", "0.5.6")).scores)) == "medication_qa_accuracy"
    run = copy_of("STAY-RG", tmp_path)
    groups = [{"name": "STAY-RG", "environment": {"main_name": "exact_match"}}]
    (run.parent / "schema.json").write_text(json.dumps({"run_groups": groups}))
    assert next(iter(read(run).scores)) == "exact_match"


@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        (
            "scenario_state.json",
            lambda s: s["request_states"][0].update(reference_index=1),
            "a request for each option",
        ),
        ("scenario_state.json", lambda s: s["request_states"].clear(), "no request on an unperturbed instance"),
        (
            "scenario_state.json",
            lambda s: s["request_states"][0]["request"].update(multimodal_prompt={"media": []} | {"x": 1}),
            "images or audio",
        ),
        ("scenario_state.json", lambda s: s.pop("request_states"), "`request_states` is missing"),
        ("scenario_state.json", lambda s: [1], "do not have HELM's layout"),
        ("per_instance_stats.json", lambda s: {"a": 1}, "do not have HELM's layout"),
        ("run_spec.json", lambda s: s.pop("adapter_spec"), "`adapter_spec` is missing"),
        ("scenario_state.json", lambda s: s["request_states"][1]["instance"].pop("id"), "`id` is missing"),
    ],
)
def test_a_run_of_another_kind_or_layout_says_so(
    tmp_path: Path, name: str, edit: Callable[[Any], Any], message: str
) -> None:
    def changed(data: Any) -> Any:
        new = edit(data)
        return new if new in ([1], {"a": 1}) else None

    with pytest.raises(UnreadableRun, match=message):
        read(edited(tmp_path, "WARD-EM", name, changed))

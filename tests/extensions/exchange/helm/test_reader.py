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
    assert run.remarks == (), "the means of the scores are those of HELM's tables"


def test_the_benchmark_its_part_and_its_settings() -> None:
    clear, letters = read(run_folder("clear:condition=liver")), read(run_folder("LETTERS:model=mock_writer-a"))
    assert (clear.benchmark, clear.title, clear.deployment) == ("clear", "liver_disease", "mock/writer-a")
    assert (clear.max_tokens, clear.temperature, clear.stop) == (1, 0.0, ())
    assert (letters.benchmark, letters.title, letters.max_tokens) == ("LETTERS", "", 64)
    assert {(one.usage.input, one.usage.output) for one in letters.completions.values()} == {(29, 0)}
    metadata = dict(read(run_folder("medcalc_bench")).instances[3].metadata)
    assert metadata == {"Category": "physical", "Lower Limit": "21.7", "Upper Limit": "24.0"}


def edited(tmp_path: Path, start: str, name: str, edit: Callable[[Any], Any]) -> Path:
    folder = copy_of(start, tmp_path)
    change(folder, name, edit)
    return folder


def test_perturbed_requests_and_further_trials_are_left_out_with_a_remark(tmp_path: Path) -> None:
    others = ({"perturbation": {"name": "typos"}}, {"train_trial_index": 1})

    def more(state: Any) -> None:
        first = state["request_states"][0]
        state["request_states"] += [{**first, "instance": {**first["instance"], **others[0]}}, {**first, **others[1]}]

    def numbers(entries: Any) -> None:
        entries += [{**entries[0], **other, "stats": [_stat("exact_match", 9.0)]} for other in others]
        entries[0]["stats"].append(_stat("exact_match", 9.0, perturbation={"name": "robustness"}))

    before = read(run_folder("WARD-EM"))
    folder = edited(tmp_path, "WARD-EM", "scenario_state.json", more)
    change(folder, "per_instance_stats.json", numbers)
    run = read(folder)
    assert (run.instances, run.scores) == (before.instances, before.scores)
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
    failures = [failure for one in run.instances if (failure := run.completions[one.id].failure)]
    assert [failure.code for failure in failures] == ["request_failed", "no_completion", "no_result", "request_failed"]
    assert (failures[0].message, failures[3].message) == ("content filter", "HELM gives no reason")


def test_messages_reasoning_several_completions_and_other_splits(tmp_path: Path) -> None:
    def talk(state: Any) -> None:
        one = state["request_states"][0]
        one["request"]["messages"] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Fever?"}]
        one["result"]["completions"][0] |= {"thinking": {"text": "hm"}, "tokens": [{"text": "Yes", "logprob": 0}]}
        one["result"]["completions"].append({"text": "other", "logprob": 0, "tokens": []})
        one["prompt_truncated"] = True
        state["request_states"][-1]["instance"]["split"] = "valid"

    run = read(edited(tmp_path, "WARD-EM", "scenario_state.json", talk))
    assert len(run.instances) == 5
    assert run.instances[0].turns == (Message("system", "Be brief."), Message("user", "Fever?"))
    completion = run.completions[run.instances[0].id]
    assert (completion.text, completion.usage.output) == ("Yes", 1)
    remarks = ("several completions", "separate reasoning", "1 prompts were truncated", "show only the split test")
    assert all(words in " ".join(run.remarks) for words in remarks)


def test_instances_of_one_id_keep_their_own_scores(tmp_path: Path) -> None:
    folder = copy_of("WARD-EM", tmp_path)
    before = read(folder)

    def renamed(data: Any) -> Any:
        text = json.dumps(data)
        for one in before.instances:
            text = text.replace(f'id": "{one.id}"', 'id": "same"')
        return json.loads(text)

    for file in ("scenario_state.json", "per_instance_stats.json"):
        change(folder, file, renamed)
    run = read(folder)
    assert [one.id for one in run.instances] == ["same", *(f"same#{n}" for n in range(2, 7))]
    old = [before.scores["exact_match"][one.id] for one in before.instances]
    assert [run.scores["exact_match"][one.id] for one in run.instances] == old
    assert any("5 instances repeat an earlier id" in text for text in run.remarks)


def test_nan_values_and_differing_values(tmp_path: Path) -> None:
    def odd(entries: Any) -> None:
        entries[0]["stats"].append(_stat("exact_match", 0.25))
        entries[1]["stats"].append(_stat("quasi_exact_match", math.nan))
        entries[2]["stats"].append(_stat("{0} {n}", 0.5))
        entries[3]["stats"].append({**_stat("exact_match", 0.0), "count": 0})

    run = read(edited(tmp_path, "WARD-EM", "per_instance_stats.json", odd))
    ids = [one.id for one in run.instances]
    assert run.scores["exact_match"][ids[0]] == 0.25
    assert run.scores["{0} {n}"] == {ids[2]: 0.5}
    said = " ".join(run.remarks)
    assert "exact_match has several different values for 1 instances: the last one counts" in said
    assert "quasi_exact_match is not a number for some instances (1)" in said
    assert "stats.json has" in said


def test_metrics_at_k_count_only_if_they_differ(tmp_path: Path) -> None:
    def other(entries: Any) -> None:
        for stat in (stat for entry in entries for stat in entry["stats"] if stat["name"]["name"] == "exact_match@5"):
            stat["sum"] = 1.0

    start = "pubmed_qa:model=mock_writer-b"
    matches = {"exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match"}
    assert set(read(run_folder(start)).scores) == matches
    assert "exact_match@5" in read(edited(tmp_path, start, "per_instance_stats.json", other)).scores


def test_the_main_metric_comes_first(tmp_path: Path) -> None:
    assert next(iter(read(run_folder("STAY-RG")).scores)) == "rouge_l"
    assert next(iter(read(run_folder("medication_qa", "0.5.6")).scores)) == "medication_qa_accuracy"
    run = copy_of("STAY-RG", tmp_path)
    groups = [{"name": "STAY-RG", "environment": {"main_name": "exact_match"}}]
    (run.parent / "schema.json").write_text(json.dumps({"run_groups": groups}))
    assert next(iter(read(run).scores)) == "exact_match"


@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        ("scenario_state.json", lambda s: s["request_states"][0].update(reference_index=1), "a request for each"),
        ("scenario_state.json", lambda s: s["request_states"].clear(), "no request on an unperturbed instance"),
        (
            "scenario_state.json",
            lambda s: s["request_states"][0]["request"].update(multimodal_prompt={"x": 1}),
            "images or audio",
        ),
        ("per_instance_stats.json", lambda s: {"a": 1}, "do not have HELM's layout"),
        ("scenario_state.json", lambda s: s["request_states"][1]["instance"].pop("id") and None, "`id` is missing"),
    ],
)
def test_a_run_of_another_kind_or_layout_says_so(
    tmp_path: Path, name: str, edit: Callable[[Any], Any], message: str
) -> None:
    with pytest.raises(UnreadableRun, match=message):
        read(edited(tmp_path, "WARD-EM", name, edit))

"""`medhelm benchmarks ...`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.benchmarks.choice import make_benchmark
from tests.support.cli import Medhelm, assert_refused, succeeded

PUBLIC_EIGHT = (
    "pubmed_qa", "medcalc_bench", "medbullets", "head_qa", "med_qa", "med_mcqa", "medhallu", "race_bias",
)  # fmt: skip


def test_list_shows_what_there_is_and_whether_its_data_is_here(medhelm: Medhelm, data_dir: Path) -> None:
    outcome = succeeded(medhelm("benchmarks", "list", "--data", data_dir))
    for name in PUBLIC_EIGHT:
        assert next(line for line in outcome.out.splitlines() if line.startswith(name)).endswith("yes")
    listed = medhelm("benchmarks", "list", "public", "--json").json["benchmarks"]
    assert {benchmark["name"] for benchmark in listed} >= set(PUBLIC_EIGHT)


LARGE = {"head_qa", "med_mcqa", "med_qa", "medcalc_bench", "medhallu", "pubmed_qa"}
"""Questions with options, as those of `medbullets` are, but a thousand or more; for `medcalc_bench` see below."""


@pytest.mark.parametrize(
    ("tier", "name"),
    [
        pytest.param(tier, name, marks=[pytest.mark.long] if tier == "real" and name in LARGE else [])
        for tier in ("real", "sample")
        for name in PUBLIC_EIGHT
    ],
)
def test_every_reference_gets_the_best_score_or_has_a_reason(
    medhelm: Medhelm, data_dir: Path, name: str, tier: str
) -> None:
    outcome = medhelm("benchmarks", "check", name, "--data", data_dir, "--tier", tier, "--sample", "all", "--json")
    (check,) = outcome.json["benchmarks"]
    assert outcome.code == 0
    assert all(exception["reason"] for exception in check["exceptions"])
    assert set(check["means"]["corrected"].values()) == {1.0}
    assert {exception["rule"] for exception in check["exceptions"]} <= {"published"}
    if name != "medcalc_bench":
        assert check["exceptions"] == []
        assert set(check["means"]["published"].values()) == {1.0}


@pytest.mark.long
def test_check_counts_what_the_published_rule_can_never_score(medhelm: Medhelm, data_dir: Path) -> None:
    out = medhelm("benchmarks", "check", "medcalc_bench", "--data", data_dir, "--sample", "all").out
    assert re.search(r"MedCalc accuracy +1\.0000 +0\.6495", out)
    assert "327 because the published rule gives every completion of category `lab` 0" in out
    assert "40 because the published rule gives every completion of category `dosage` 0" in out
    assert "six Glasgow Coma Scores exceed 15" in out


def test_instances_are_one_json_object_a_line(medhelm: Medhelm, data_dir: Path) -> None:
    outcome = medhelm("benchmarks", "instances", "medbullets", "--data", data_dir)
    lines = [json.loads(line) for line in outcome.out.splitlines()]
    assert len(lines) == 308
    assert set(lines[0]) == {"id", "fields", "references", "choices", "messages", "max_tokens"}
    assert [reference["correct"] for reference in lines[0]["references"]].count(True) == 1
    assert len(lines[0]["choices"]) == 5
    assert lines[0]["max_tokens"] == 1


def test_the_reference_name_is_accepted(medhelm: Medhelm, data_dir: Path) -> None:
    outcome = medhelm("benchmarks", "instances", "race_based_med", "--data", data_dir)
    assert len(outcome.out.splitlines()) == 167


def test_a_malformed_definition_names_all_its_problems(medhelm: Medhelm, tmp_path: Path) -> None:
    folder = make_benchmark(tmp_path, extra="acess: public\n")
    text = (folder / "benchmark.yaml").read_text(encoding="utf-8")
    text = text.replace("exact_match, quasi", "exactmatch, quasi").replace("{question}", "{qestion}")
    (folder / "benchmark.yaml").write_text(text, encoding="utf-8")
    assert_refused(
        medhelm("run", folder, "--model", "baseline/majority"),
        "Did you mean `access`?",
        "Did you mean `exact_match`?",
        "line",
    )
    assert not (tmp_path / "medhelm-store").exists()


# --- checking several, and what to look at ----------------------------------------------------------------------------


@pytest.mark.long
def test_of_a_group_what_is_not_here_is_skipped(medhelm: Medhelm, data_dir: Path) -> None:
    outcome = succeeded(medhelm("benchmarks", "check", "planning_treatments", "gated", "--data", data_dir, "--json"))
    assert [check["benchmark"] for check in outcome.json["benchmarks"]] == ["medec", "mtsamples"]
    assert "ehrshot" in outcome.json["skipped"]
    assert_refused(medhelm("benchmarks", "check", "ehrshot", "--data", data_dir), "the data was not found", code=4)


def test_what_is_wrong_with_one_does_not_hide_the_others(medhelm: Medhelm, tmp_path: Path) -> None:
    good = make_benchmark(tmp_path, name="good")
    bad = make_benchmark(tmp_path, name="bad")
    (bad / "rows.jsonl").write_text('{"id": "x", "question": "?", "answer": "Z", "topic": "0"}\n', encoding="utf-8")
    outcome = medhelm("benchmarks", "check", bad, good)
    assert outcome.code == 2
    assert "the answer `Z` is not one of the options" in outcome.err
    assert "good: valid." in outcome.out


def test_findings_are_shown_with_the_floor(medhelm: Medhelm, tmp_path: Path) -> None:
    place = make_benchmark(tmp_path, n=2)
    row = {"question": "number 0?", "topic": "0"}
    lines = [{"id": "a", "answer": "A", **row}, {"id": "b", "answer": "A", **row}, {"id": "c", "answer": "B", **row}]
    (place / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    outcome = succeeded(medhelm("benchmarks", "check", place))
    assert "the same prompt and answer as another instance: 1 instance (b)" in outcome.out
    assert "the same prompt as another instance, but another answer: 1 instance (c)" in outcome.out
    assert (
        "constant baseline: always answering 'A' is right 66.7% of the time, scores corrected 0.6667, published 0.6667"
        in outcome.out
    )


def test_prompts_that_a_model_cannot_read_are_found(medhelm: Medhelm, tmp_path: Path) -> None:
    place = make_benchmark(tmp_path)
    models = tmp_path / "models.yaml"
    models.write_text('tiny: {model: m, base_url: "http://127.0.0.1:1/v1", window: 10}\n', encoding="utf-8")
    outcome = medhelm("benchmarks", "check", place, "--model", "tiny", "--models", models)
    assert "9 prompts exceed the 10 tokens of tiny, less 5 for completions" in outcome.out
    assert_refused(
        medhelm("benchmarks", "check", place, "--model", "openai/nothing@http://127.0.0.1:1/v1"),
        "the context window of",
    )


@pytest.mark.parametrize("name", ["mtsamples", "ehrsql", "med_conf_info", "mediqa_qa"])
def test_sample_rows_are_written_as_files(medhelm: Medhelm, tmp_path: Path, name: str) -> None:
    written = succeeded(medhelm("data", "sample", name, "--out", tmp_path, "--json"))
    assert written.json["rows"] >= 8
    assert all(Path(path).is_file() for path in written.json["files"])
    again = medhelm("data", "sample", name, "--out", tmp_path)
    assert again.code == 2
    if name == "med_conf_info":
        ran = medhelm("run", name, "--data", tmp_path, "--model", "baseline/majority", "--json")
        assert ran.json["runs"][0]["tier"] == "real"
        few = medhelm("data", "sample", name, "--rows", "3", "--out", tmp_path / "few", "--json")
        assert few.json["rows"] == 3


def test_a_few_rows_of_each_file(medhelm: Medhelm, tmp_path: Path) -> None:
    written = medhelm("data", "sample", "clear", "--rows", "1", "--out", tmp_path, "--json")
    assert (written.code, written.json["rows"], len(written.json["files"])) == (0, 13, 13)


@pytest.mark.long
def test_all_public_data_that_is_there_passes_its_check(medhelm: Medhelm, data_dir: Path) -> None:
    outcome = succeeded(medhelm("benchmarks", "check", "all", "--data", data_dir, "--sample", "all", "--json"))
    assert (len(outcome.json["benchmarks"]), len(outcome.json["skipped"])) == (15, 22)


def test_all_invented_rows_pass_their_check(medhelm: Medhelm) -> None:
    outcome = succeeded(medhelm("benchmarks", "check", "all", "--tier", "sample", "--json"))
    assert len(outcome.json["benchmarks"]) == 37

"""`medhelm benchmarks ...`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Medhelm
from toys import make_benchmark

PUBLIC_EIGHT = (
    "pubmed_qa", "medcalc_bench", "medbullets", "head_qa", "med_qa", "med_mcqa", "medhallu", "race_bias",
)  # fmt: skip


def test_list_shows_what_there_is_and_whether_its_data_is_here(medhelm: Medhelm, data_dir: Path) -> None:
    outcome = medhelm("benchmarks", "list", "--data", data_dir)
    assert outcome.code == 0
    for name in PUBLIC_EIGHT:
        assert next(line for line in outcome.out.splitlines() if line.startswith(name)).endswith("yes")
    listed = medhelm("benchmarks", "list", "public", "--json").json["benchmarks"]
    assert {benchmark["name"] for benchmark in listed} >= set(PUBLIC_EIGHT)


@pytest.mark.parametrize("name", PUBLIC_EIGHT)
def test_show_and_preview_work_without_data(medhelm: Medhelm, name: str) -> None:
    shown = medhelm("benchmarks", "show", name)
    assert shown.code == 0
    assert "max_tokens" in shown.out
    preview = medhelm("benchmarks", "preview", name, "--tier", "sample", "--count", "2")
    assert preview.code == 0
    assert preview.out.count(f"--- {name} / ") == 2


@pytest.mark.parametrize("name", PUBLIC_EIGHT)
@pytest.mark.parametrize("tier", ["real", "sample"])
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


def test_check_counts_what_the_published_rule_can_never_score(medhelm: Medhelm, data_dir: Path) -> None:
    out = medhelm("benchmarks", "check", "medcalc_bench", "--data", data_dir, "--sample", "all").out
    assert "medcalc_accuracy      1.0000     0.6495" in out
    assert "327 because the published rule scores no answer of category `lab`" in out
    assert "40 because the published rule scores no answer of category `dosage`" in out
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


def test_a_wrong_answer_column_is_found_by_check(medhelm: Medhelm, tmp_path: Path) -> None:
    folder = make_benchmark(tmp_path)
    row = '{"id": "q9", "question": "number 9?", "answer": "C", "topic": "x"}\n'
    with (folder / "rows.jsonl").open("a", encoding="utf-8") as file:
        file.write(row)
    outcome = medhelm("benchmarks", "check", folder)
    assert outcome.code == 2
    assert "`C`" in outcome.err or "C" in outcome.err


def test_a_malformed_definition_names_all_its_problems(medhelm: Medhelm, tmp_path: Path) -> None:
    folder = make_benchmark(tmp_path, extra="acess: public\n")
    text = (folder / "benchmark.yaml").read_text(encoding="utf-8")
    text = text.replace("exact_match, quasi", "exactmatch, quasi").replace("{question}", "{qestion}")
    (folder / "benchmark.yaml").write_text(text, encoding="utf-8")
    outcome = medhelm("run", folder, "--model", "baseline/majority")
    assert outcome.code == 2
    assert "Did you mean `access`?" in outcome.err
    assert "Did you mean `exact_match`?" in outcome.err
    assert "line" in outcome.err
    assert not (tmp_path / "medhelm-store").exists()

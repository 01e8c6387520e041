"""`medhelm benchmarks ...`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.benchmarks.choice import make_benchmark
from tests.support.cli import Medhelm, succeeded

LARGE = ("head_qa", "med_mcqa", "med_qa", "medcalc_bench", "medhallu", "pubmed_qa")
"""Questions with options, as those of `medbullets` are, but a thousand or more; for `medcalc_bench` see below."""

LONG = [pytest.param(name, marks=pytest.mark.long) for name in LARGE]


@pytest.mark.parametrize("name", ["medbullets", "race_bias", *LONG])
def test_every_reference_gets_the_best_score_or_has_a_reason(medhelm: Medhelm, data_dir: Path, name: str) -> None:
    outcome = medhelm("benchmarks", "check", name, "--data", data_dir, "--sample", "all", "--json")
    (check,) = outcome.json["benchmarks"]
    assert outcome.code == 0
    assert all(exception["reason"] for exception in check["exceptions"])
    assert set(check["means"]["corrected"].values()) == {1.0}
    assert {exception["rule"] for exception in check["exceptions"]} <= {"published"}
    if name != "medcalc_bench":
        assert check["exceptions"] == []
        assert set(check["means"]["published"].values()) == {1.0}


def test_instances_are_one_json_object_a_line(medhelm: Medhelm, data_dir: Path) -> None:
    outcome = medhelm("benchmarks", "instances", "medbullets", "--data", data_dir)
    lines = [json.loads(line) for line in outcome.out.splitlines()]
    assert len(lines) == 308
    assert set(lines[0]) == {"id", "fields", "references", "choices", "messages", "max_tokens"}
    assert [reference["correct"] for reference in lines[0]["references"]].count(True) == 1
    assert len(lines[0]["choices"]) == 5
    assert lines[0]["max_tokens"] == 1


# --- checking several, and what to look at ----------------------------------------------------------------------------


def test_what_is_wrong_with_one_does_not_hide_the_others(medhelm: Medhelm, tmp_path: Path) -> None:
    good = make_benchmark(tmp_path, name="good")
    bad = make_benchmark(tmp_path, name="bad")
    (bad / "rows.jsonl").write_text('{"id": "x", "question": "?", "answer": "Z", "topic": "0"}\n', encoding="utf-8")
    outcome = medhelm("benchmarks", "check", bad, good)
    assert outcome.code == 2
    assert "the answer `Z` is not one of the options" in outcome.err
    assert "good: valid." in outcome.out


@pytest.mark.parametrize(("name", "rows"), [("med_conf_info", 8), ("ehrsql", 8), ("clear", 13)])
def test_sample_rows_are_written_as_files(medhelm: Medhelm, tmp_path: Path, name: str, rows: int) -> None:
    few = ("--rows", "1") if name == "clear" else ()  # a row of each file
    written = succeeded(medhelm("data", "sample", name, *few, "--out", tmp_path, "--json"))
    assert written.json["rows"] >= rows
    assert all(Path(path).is_file() for path in written.json["files"])
    assert medhelm("data", "sample", name, "--out", tmp_path).code == 2


@pytest.mark.long
def test_all_public_data_that_is_there_passes_its_check(medhelm: Medhelm, data_dir: Path) -> None:
    outcome = succeeded(medhelm("benchmarks", "check", "all", "--data", data_dir, "--sample", "all", "--json"))
    assert (len(outcome.json["benchmarks"]), len(outcome.json["skipped"])) == (15, 22)


def test_all_invented_rows_pass_their_check(medhelm: Medhelm) -> None:
    outcome = succeeded(medhelm("benchmarks", "check", "all", "--tier", "sample", "--json"))
    assert len(outcome.json["benchmarks"]) == 37

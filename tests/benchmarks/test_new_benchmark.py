"""A new benchmark is sound from the start."""

from __future__ import annotations

from pathlib import Path

from medhelm.benchmarks.definition import read_definition
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.cli import Medhelm, succeeded


def test_a_new_benchmark_passes_its_check_and_runs(medhelm: Medhelm, tmp_path: Path) -> None:
    made = succeeded(medhelm("benchmarks", "new", "sepsis_qa", "--out", tmp_path))
    assert f"medhelm benchmarks check {tmp_path / 'sepsis_qa'}" in made.out
    for tier in ("real", "sample"):
        checked = succeeded(medhelm("benchmarks", "check", tmp_path / "sepsis_qa", "--tier", tier, "--json"))
        (result,) = checked.json["benchmarks"]
        assert (result["n"], result["exceptions"], result["findings"]) == (4, [], [])
    run = medhelm("run", tmp_path / "sepsis_qa", "--model", "baseline/majority", "--json")
    assert run.json["runs"][0]["n"] == 4


def test_every_line_that_is_commented_out_can_be_used(tmp_path: Path, medhelm: Medhelm) -> None:
    medhelm("benchmarks", "new", "sepsis_qa", "--out", tmp_path)
    file = tmp_path / "sepsis_qa" / "benchmark.yaml"
    head, *rest = file.read_text(encoding="utf-8").split("name: sepsis_qa", 1)
    text = (
        rest[0]
        .replace("\n# ", "\n")
        .replace("cluster: patient ", "cluster: case ")
        .replace("group: ward ", "group: answer ")
        .replace("metrics: [exact_match", "metrics: [jury, exact_match")
    )
    file.write_text(head + "name: sepsis_qa" + text, encoding="utf-8")
    benchmark = read_definition(file.parent, metrics=METRIC_NAMES)
    assert (benchmark.cluster_column, benchmark.group_column, benchmark.sample.size) == ("case", "answer", 1000)
    assert benchmark.rubric is not None
    assert benchmark.main_metric == "jury"


def test_nothing_is_overwritten(medhelm: Medhelm, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    outcome = medhelm("benchmarks", "new", "mine", "--out", tmp_path)
    assert outcome.code == 2
    assert "already exists" in outcome.err
    assert list((tmp_path / "mine").iterdir()) == []

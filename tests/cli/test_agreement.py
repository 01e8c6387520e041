"""`medhelm agreement`: a ratings file in, agreement out; bad files and bad options end with 2 and compute nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.cli import Medhelm, assert_refused, succeeded

pytestmark = pytest.mark.usefixtures("few_draws")

# The header of the published ratings with the jury's grades; the rows are invented.
HEADER = (
    "username,specialty,team,entry_id,instance_id,dataset_name,model_key,user_label,accuracy,completeness,clarity,"
    "llm_accuracy,llm_completeness,llm_clarity"
)
GRADES = [(5, 4, 5), (3, 3, 4), (4, 5, 5), (2, 1, 3), (5, 5, 5), (1, 2, 2)]
JURY = [(5, 4, 5), (4, 3, 5), (4, 4, 5), (3, 2, 4), (5, 4, 5), (2, 3, 4)]


def published_like(folder: Path) -> Path:
    """Two raters on six completions of each of two benchmarks, which go by the reference's names."""
    lines = [HEADER]
    for rater, shift in (("Annotator 1", 0), ("Annotator 2", -1)):
        for data in ("aci_bench", "medi_qa"):
            for n, (grades, jury) in enumerate(zip(GRADES, JURY, strict=True)):
                own = [max(grade + shift * ((n + place) % 2), 1) for place, grade in enumerate(grades)]
                cells = [rater, "Surgery", "Team 1", n, f"id{n}", data, "lab_model-1", "Model A", *own, *jury]
                lines.append(",".join(map(str, cells)))
    path = folder / "medhelm_human_annotation.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_file_with_the_published_header_works_as_it_is(medhelm: Medhelm, tmp_path: Path) -> None:
    outcome = succeeded(medhelm("agreement", published_like(tmp_path), "--json"))
    assert list(outcome.json["datasets"]) == ["aci_bench", "mediqa_qa"]
    one = outcome.json["datasets"]["aci_bench"]
    second = [[max(g - (n + p) % 2, 1) for p, g in enumerate(grades)] for n, grades in enumerate(GRADES)]
    clinicians = (np.mean(GRADES, axis=1) + np.mean(second, axis=1)) / 2
    r = np.corrcoef(clinicians, np.mean(JURY, axis=1))[0, 1]
    assert one["jury_vs_clinicians"]["icc3k"] == pytest.approx(2 * r / (1 + r), abs=1e-6)
    assert (one["n_instances"], one["n_raters"], one["clinicians"]["n_pairs"]) == (6, 2, 1)
    assert outcome.json["combined"]["n_instances"] == 12
    assert outcome.json["jury_from"] == "file"


def test_only_some_benchmarks_count(medhelm: Medhelm, tmp_path: Path) -> None:
    found = medhelm("agreement", published_like(tmp_path), "--benchmark", "aci_bench", "--json").json
    assert list(found["datasets"]) == ["aci_bench"]
    assert found["combined"]["n_instances"] == 6
    assert_refused(medhelm("agreement", published_like(tmp_path), "--exclude", "lab"), "no run meets these conditions")


def test_a_bad_file_tells_all_its_problems_and_computes_nothing(medhelm: Medhelm, tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text(
        "rater;instance_id;benchmark;model;accuracy;completeness;clarity\n"
        "A;D1;aci_bench;lab/m;4,5;6;x\nA;D1;aci_bench;lab/m;4;4;4\nA;D2;aci_bnch;lab/m;4;4;4\n",
        encoding="utf-8-sig",
    )
    assert_refused(
        medhelm("agreement", path, "--json"),
        "has 2 problems",
        "line 2  benchmark: the store has no run of `aci_bench` with judges.",
        "line 4  benchmark: `aci_bnch` is unknown. Did you mean `aci_bench`?",
    )


def test_grades_on_another_scale(medhelm: Medhelm, tmp_path: Path) -> None:
    text = published_like(tmp_path).read_text(encoding="utf-8").splitlines()
    head, rows = text[0], [line.split(",") for line in text[1:]]
    wide = [",".join([*cells[:8], *(str(20 * int(cell)) for cell in cells[8:])]) for cells in rows]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join([head, *wide]) + "\n", encoding="utf-8")
    assert_refused(
        medhelm("agreement", path), "rater `Annotator 1` uses another scale: 36 of 36 grades are outside 1 to 5"
    )
    converted = medhelm("agreement", path, "--scale", "20", "100", "--json").json
    same = medhelm("agreement", published_like(tmp_path), "--json").json
    assert converted["combined"]["jury_vs_clinicians"] == same["combined"]["jury_vs_clinicians"]


def test_a_file_named_like_the_subcommand_is_read_with_its_folder(medhelm: Medhelm, tmp_path: Path) -> None:
    published_like(tmp_path).rename(tmp_path / "sample")
    assert medhelm("agreement", tmp_path / "sample", "--json").code == 0
    assert_refused(medhelm("agreement", "sample"), "Missing argument 'FILE'")
    assert "medhelm agreement sample [OPTIONS] FILE" in medhelm("agreement", "sample", "--help").out


def test_a_sample_needs_a_judged_run(medhelm: Medhelm, tmp_path: Path) -> None:
    assert_refused(
        medhelm("agreement", "sample", tmp_path / "draw.csv", "--store", tmp_path / "none"),
        "has no run whose judges gave grades",
    )
    assert not (tmp_path / "draw.csv").exists()

"""`medhelm jury` and `agreement`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.made_once import made_once
from tests.support.stores import add_judged_runs, grades


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path) -> Path:
    """A store with two benchmarks that three judges judged."""

    def make() -> None:
        for seed, name in enumerate(("aci_bench", "toy")):
            add_judged_runs(tmp_path / "store", name, grades(seed, 8))

    made_once(tmp_path, __name__, make)
    return tmp_path / "store"


@pytest.mark.usefixtures("few_draws")
def test_benchmarks_may_be_named_by_alias_and_group(medhelm: Medhelm, store: Path) -> None:
    for names in (["toy"], ["aci_bench"], ["open"], ["clinical_note_generation", "toy"]):
        found = medhelm("jury", *names, "--store", store, "--json").json["benchmarks"]
        assert set(found) == {name if name == "toy" else "aci_bench" for name in names}


# --- agreement --------------------------------------------------------------------------------------------------------

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
            for n, (given, jury) in enumerate(zip(GRADES, JURY, strict=True)):
                own = [max(grade + shift * ((n + place) % 2), 1) for place, grade in enumerate(given)]
                cells = [rater, "Surgery", "Team 1", n, f"id{n}", data, "lab_model-1", "Model A", *own, *jury]
                lines.append(",".join(map(str, cells)))
    path = folder / "medhelm_human_annotation.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.usefixtures("few_draws")
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
    some = medhelm("agreement", published_like(tmp_path), "--benchmark", "aci_bench", "--json").json
    assert list(some["datasets"]) == ["aci_bench"]
    assert_refused(medhelm("agreement", "sample"), "Missing argument 'FILE'")
    draw = ("agreement", "sample", tmp_path / "draw.csv", "--store", tmp_path / "none")
    assert_refused(medhelm(*draw), "has no run whose judges gave grades")
    assert not (tmp_path / "draw.csv").exists()

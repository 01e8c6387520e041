"""DischargeMe: notes, reports and the two sections to be written, joined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.hooks import Hook, load_hook
from medhelm.errors import DataError
from tests.support.benchmarks import library

PLACE = "files/discharge-me/1.3/test_phase_1"
COLUMNS = {
    "diagnosis": ("subject_id", "icd_code"),
    "triage": ("subject_id", "chiefcomplaint"),
    "edstays": ("subject_id", "hadm_id"),
    "discharge": ("subject_id", "hadm_id", "text"),
    "radiology": ("hadm_id", "charttime", "text"),
    "discharge_target": ("hadm_id", "brief_hospital_course", "discharge_instructions"),
}

Tables = dict[str, list[tuple[object, ...]]]
"""Name of a file -> its rows."""


@pytest.fixture
def hook() -> Hook:
    return load_hook(library.LIBRARY / "dischargeme/hooks.py")


def two_stays() -> Tables:
    """A patient with two stays, and one with one."""
    return {
        "diagnosis": [(2, "I10"), (1, "N10"), (1, "S72")],
        "triage": [(1, "Pain"), (2, "Dizzy"), (1, "Fall")],
        "edstays": [(1, 11), (1, 12), (2, 21)],
        "discharge": [
            (1, 11, "Why: pain\nCourse:\nKidney, better.\nPlan:\nDrink water.\nEnd"),
            (2, 21, "Why: dizzy\nCourse:\nHeart  block,\npacemaker.\nPlan:\nCome  back.\nEnd"),
            (1, 12, "Why: fall\nCourse:\nHip, nail.\nPlan:\nWalk.\nEnd"),
        ],
        "radiology": [
            (11, "2150-01-02 10:00:00", "CT of the kidney"),
            (12, "2150-06-01 09:00:00", "Hip"),
            (11, "2150-01-01 10:00:00", "Chest"),
        ],
        "discharge_target": [
            (21, "Heart block, pacemaker.", "Come back."),
            (11, "Kidney, better.", "Drink water."),
            (12, "Hip, nail.", "Walk."),
        ],
    }


def rows_of(tables: Mapping[str, Iterable[Sequence[object]]]) -> Iterator[dict[str, object]]:
    for name, rows in tables.items():
        for row in rows:
            yield {"file": f"{PLACE}/{name}.csv.gz", **dict(zip(COLUMNS[name], map(str, row), strict=True))}


def written(folder: Path, tables: Mapping[str, Iterable[Sequence[object]]]) -> Path:
    return library.written("dischargeme", rows_of(tables), folder)


def test_every_admission_gives_two_rows_with_what_belongs_to_it(hook: Hook, tmp_path: Path) -> None:
    rows = list(hook(written(tmp_path, two_stays())))
    assert [row["id"] for row in rows] == [
        f"{a}/{t}" for a in (11, 21, 12) for t in ("hospital_course", "discharge_instructions")
    ]
    course, instructions = rows[:2]
    assert course["text"] == instructions["text"] == "Why: pain\nCourse:\n\nPlan:\n\nEnd"
    assert course["reports"] == instructions["reports"] == "Chest\n\nCT of the kidney"
    assert (course["document"], course["reference"]) == ("Brief Hospital Course", "Kidney, better.")
    assert (instructions["document"], instructions["reference"]) == ("Discharge Instructions", "Drink water.")
    assert {row["reports"] for row in rows if row["admission"] == "21"} == {"(no report)"}
    texts = {row["admission"]: row["text"] for row in rows}
    assert texts["21"] == "Why: dizzy\nCourse:\n\nPlan:\n\nEnd", "also where white space differs"


def test_the_published_reading_leaves_the_other_section_in_the_text(hook: Hook, tmp_path: Path) -> None:
    rows = {str(row["id"]): row for row in hook(written(tmp_path, two_stays()), variant="published")}
    assert list(rows) == [f"{a}/{t}" for a in (11, 12) for t in ("hospital_course", "discharge_instructions")]
    assert rows["11/hospital_course"]["text"] == "Why: pain\nCourse:\n\nPlan:\nDrink water.\nEnd"
    assert rows["11/discharge_instructions"]["text"] == "Why: pain\nCourse:\nKidney, better.\nPlan:\n\nEnd"
    assert rows["11/hospital_course"]["reports"] == "CT of the kidney"


def joined(*tables: tuple[list[dict[str, object]], str]) -> list[dict[str, object]]:
    """Inner joins one after another, each over all pairs of rows, in the order of the rows on the left."""
    (left, _), *others = tables
    for right, key in others:
        left = [{**b, **a} for a in left for b in right if a[key] == b[key]]
    return left


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3, 4))])
def test_the_published_reading_is_that_of_chained_joins(hook: Hook, tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    patients = [int(i) for i in random.permutation(np.arange(1, 13))]
    stays = [(int(random.choice(patients)), 100 + i) for i in random.permutation(20)]
    admissions = [admission for _, admission in stays]
    tables: Tables = {
        "diagnosis": [(int(i), "I10") for i in random.choice(patients, 18)],
        "triage": [(int(i), "Pain") for i in random.choice(patients, 14)],
        "edstays": [(0, int(i)) for i in random.choice(admissions, 25)],
        "discharge": [(patient, a, f"Note {a}: course {a}, instructions {a}.") for patient, a in stays],
        "radiology": [(int(a), "", f"Report {i}") for i, a in enumerate(random.choice(admissions, 30))],
        "discharge_target": [(int(a), f"course {a}", f"instructions {a}") for a in random.permutation(admissions)[:17]],
    }
    plain = {name: [dict(zip(COLUMNS[name], row, strict=True)) for row in rows] for name, rows in tables.items()}
    reports = [{"hadm_id": row["hadm_id"], "report": row["text"]} for row in plain["radiology"]]
    pairs = joined(
        (plain["diagnosis"], ""),
        (plain["triage"], "subject_id"),
        (plain["discharge"], "subject_id"),
        (reports, "hadm_id"),
        ([{"hadm_id": row["hadm_id"]} for row in plain["edstays"]], "hadm_id"),
    )
    first = list({row["hadm_id"]: row for row in reversed(pairs)}.values())
    first.sort(key=pairs.index)
    expected = [(row["hadm_id"], row["report"]) for row in joined((first, ""), (plain["discharge_target"], "hadm_id"))]
    rows = list(hook(written(tmp_path, tables), variant="published"))
    assert [(int(str(row["admission"])), row["reports"]) for row in rows[::2]] == expected
    assert len(rows) == 2 * len(expected) > 0
    assert all(str(row["reference"]) not in str(row["text"]) for row in rows)


def test_admissions_with_two_notes_are_named_with_all_else(hook: Hook, tmp_path: Path) -> None:
    tables = two_stays()
    tables["discharge"].append((1, 11, "Again."))
    tables["discharge_target"] += [(21, "a", "b"), (99, "a", "b")]
    tables["radiology"].append(("", "2150-01-01 00:00:00", "Knee, from the clinic"))  # of no admission
    with pytest.raises(DataError) as caught:
        list(hook(written(tmp_path, tables)))
    message = str(caught.value)
    assert "no note for admission 99." in message
    assert "several notes for admission 11." in message
    assert "several rows of sections for admission 21." in message
    tables["discharge"].append((1, "", "x"))
    with pytest.raises(DataError, match=r"discharge\.csv\.gz, row 5: hadm_id ''\. These ids must be whole numbers"):
        list(hook(written(tmp_path / "other", tables)))


def test_an_empty_section_gives_no_instance(tmp_path: Path) -> None:
    tables = two_stays()
    tables["discharge_target"][2] = (12, "Hip, nail.", "")
    written(tmp_path, tables)
    dataset = open_dataset(library.benchmark("dischargeme"), data=tmp_path, tier="real")
    assert (dataset.n, dataset.n_skipped) == (5, 1)

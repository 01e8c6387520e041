"""N2C2-CT: XML documents of notes, and the criteria a patient meets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.data.sample_files import write_files
from medhelm.benchmarks.data.sampling import SampleOptions
from medhelm.benchmarks.hooks import load_hook
from medhelm.errors import DataError
from tests.support.benchmarks.library import LIBRARY, benchmark, hook

CRITERIA = tuple(load_hook(LIBRARY / "n2c2_ct/hooks.py").__globals__["DEFINITIONS"])
PUBLISHED = ("ABDOMINAL", "ADVANCED-CAD", "CREATININE")
LINE = "*" * 100


def document(text: str, met: Mapping[str, str] | None = None) -> str:
    tags = {**dict.fromkeys(CRITERIA, "not met"), **(met or {})}
    listed = "".join(f'<{name} met="{value}" />' for name, value in tags.items() if value)
    return f"<PatientMatching><TEXT><![CDATA[{text}]]></TEXT><TAGS>{listed}</TAGS></PatientMatching>"


def read(*documents: str, variant: str = "") -> list[Mapping[str, object]]:
    rows = [{"name": str(101 + i), "text": text} for i, text in enumerate(documents)]
    return hook("n2c2_ct", rows, **({"variant": variant} if variant else {}))


def test_there_are_13_criteria_and_the_published_three_come_first() -> None:
    assert len(CRITERIA) == 13
    assert CRITERIA[:3] == PUBLISHED


def test_a_patient_is_asked_about_three_criteria_or_about_all() -> None:
    text = document("Record date: 2090-01-02\nWell.", {"CREATININE": "met", "ENGLISH": "met"})
    assert [(row["criterion"], row["answer"]) for row in read(text)] == [
        ("ABDOMINAL", "no"),
        ("ADVANCED-CAD", "no"),
        ("CREATININE", "yes"),
    ]
    everything = read(text, variant="all_criteria")
    assert [row["criterion"] for row in everything] == list(CRITERIA)
    assert {row["criterion"] for row in everything if row["answer"] == "yes"} == {"CREATININE", "ENGLISH"}


def test_notes_are_numbered_dated_and_cleaned() -> None:
    notes = ["\n\nRecord date: 2090-01-02\n\n\nA.\n\nB.", "No date here.\n", " ", "Record date: 2089-12-31\nC."]
    row = read(document(f"\n{LINE}\n".join(notes)))[0]
    assert row["notes"] == (
        "## Note 1\nDate: 2090-01-02\nRecord date: 2090-01-02\nA.\n\nB.\n\n"
        + "*" * 50
        + "\n\n## Note 2\nDate: not stated\nNo date here.\n\n"
        + "*" * 50
        + "\n\n## Note 3\nDate: 2089-12-31\nRecord date: 2089-12-31\nC."
    )
    assert row["n_notes"] == "3"


@pytest.mark.parametrize(
    ("dates", "current"),
    [
        (["2090-01-02", "2089-05-05"], "2089-05-05"),
        (["2090-01-02", "", ""], "2090-01-02"),
        (["", ""], "not stated"),
    ],
)
def test_the_current_date_is_that_of_the_last_note_with_one(dates: list[str], current: str) -> None:
    notes = [f"Record date: {date}\nText." if date else "Text." for date in dates]
    assert read(document(f"\n{LINE}\n".join(notes)))[0]["current_date"] == current


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaa">]>'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<PatientMatching><TEXT>a</TEXT>", "not well-formed XML"),
        (BOMB + document("A note."), "defines an entity"),
        ('<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>' + document("A note."), "entity"),
        (document(" "), "an element TEXT with the notes"),
        ("<PatientMatching><TEXT>a</TEXT></PatientMatching>", "an element TAGS with the criteria"),
        (document("A note.", {"ABDOMINAL": "maybe"}), "ABDOMINAL: 'maybe'"),
        (document("A note.", {"CREATININE": ""}), "CREATININE: 'absent'"),
    ],
)
def test_documents_that_cannot_be_used_are_named_together(text: str, words: str) -> None:
    with pytest.raises(DataError) as caught:
        read(document("Fine."), text, text)
    assert words in str(caught.value)
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == ["patient 102", "patient 103"]


def test_criteria_that_are_not_asked_about_need_no_tag() -> None:
    text = document("A note.", {"KETO-1YR": ""})
    assert len(read(text)) == 3
    with pytest.raises(DataError, match="KETO-1YR: 'absent'"):
        read(text, variant="all_criteria")


def cohort(folder: Path, size: int) -> Path:
    """A data folder with so many patients."""
    note = "Record date: 2090-01-02\nPatient {}."
    rows = [{"name": str(i), "text": document(note.format(i), {"ABDOMINAL": "met"})} for i in range(100, 100 + size)]
    write_files(rows, folder / "n2c2_ct_matching", benchmark=benchmark("n2c2_ct"))
    return folder


def test_the_test_set_gives_three_instances_a_patient(tmp_path: Path) -> None:
    data = cohort(tmp_path, 86)
    instances = list(open_dataset(benchmark("n2c2_ct"), data=data, tier="real"))
    assert len(instances) == 258
    assert [instance.id for instance in instances[:4]] == [
        *(f"100/{criterion}" for criterion in PUBLISHED),
        "101/ABDOMINAL",
    ]
    assert all(instance.id == f"{instance.cluster}/{instance.group}" for instance in instances)
    assert (
        len(open_dataset(benchmark("n2c2_ct"), data=data, tier="real", options=SampleOptions(sample="all_criteria")))
        == 1118
    )


def test_a_cohort_of_another_size_is_not_the_test_set(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="must have 258 instances, has 255"):
        open_dataset(benchmark("n2c2_ct"), data=cohort(tmp_path, 85), tier="real")

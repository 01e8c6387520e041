"""N2C2-CT: XML documents of notes, and the criteria a patient meets."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from medhelm.benchmarks.hooks import load_hook
from medhelm.errors import DataError
from tests.support.benchmarks.library import LIBRARY, hook

CRITERIA = tuple(load_hook(LIBRARY / "n2c2_ct/hooks.py").__globals__["DEFINITIONS"])


def document(text: str, met: Mapping[str, str] | None = None) -> str:
    tags = {**dict.fromkeys(CRITERIA, "not met"), **(met or {})}
    listed = "".join(f'<{name} met="{value}" />' for name, value in tags.items() if value)
    return f"<PatientMatching><TEXT><![CDATA[{text}]]></TEXT><TAGS>{listed}</TAGS></PatientMatching>"


def read(*documents: str, variant: str = "") -> list[Mapping[str, object]]:
    rows = [{"name": str(101 + i), "text": text} for i, text in enumerate(documents)]
    return hook("n2c2_ct", rows, **({"variant": variant} if variant else {}))


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


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaa">]>'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB + document("A note."), "defines an entity"),
        ('<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>' + document("A note."), "entity"),
        (document("A note.", {"ABDOMINAL": "maybe"}), "ABDOMINAL: 'maybe'"),
        (document("A note.", {"CREATININE": ""}), "CREATININE: 'absent'"),
    ],
)
def test_documents_that_cannot_be_used_are_named_together(text: str, words: str) -> None:
    with pytest.raises(DataError) as caught:
        read(document("Fine."), text, text)
    assert words in str(caught.value)
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == ["patient 102", "patient 103"]

"""Five public benchmarks with free text: MTSamples (two), ACI-Bench, MedicationQA and MEDIQA, in detail."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from medhelm.benchmarks.data.readers import read as read_rows
from medhelm.domain import Instance
from medhelm.errors import DataError
from tests.support.benchmarks.library import hook, real, sequences

REPORTS = {
    "mtsamples": "mtsamples_replicate/mtsamples_processed",
    "mtsamples_procedures": "mtsamples_procedures/mtsample_procedure",
}
KINDS = ("PLAN", "SUMMARY", "FINDINGS")

each_reports = pytest.mark.parametrize("name", REPORTS)


# --- reports: what is the reference, and what stays -------------------------------------------------------------------


@each_reports
@pytest.mark.parametrize(
    ("report", "note", "reference"),
    [
        ("EXAM: Calm.PLAN: Rest.\nIce.\n2. Call.", "EXAM: Calm.", "Rest.\nIce.\n2. Call."),
        ("Exam: Calm.\nAssessment and Plan: Rest.", "Exam: Calm.", "Rest."),
        ("PLAN: Rest.FOLLOW-UP: Monday.ADDENDUM: Labs normal.", "ADDENDUM: Labs normal.", "Rest.FOLLOW-UP: Monday."),
        ("FINDINGS:L4-5: Wide.L5-S1: Tight.IMPRESSION: Bulge.", "IMPRESSION: Bulge.", "L4-5: Wide.L5-S1: Tight."),
        ("ARMFINDINGS: Broken.IMPRESSION: Bad.LEGFINDINGS: Whole.", "ARM\nIMPRESSION: Bad.LEG", "Broken.\nWhole."),
        ("EXAM: Calm.PLAN:\nKeywords: rest", "", ""),
        ("Description: Sent to rest.\nEXAM: Calm.PLAN: Rest.\nKeywords: cold,\nrest", "EXAM: Calm.", "Rest."),
    ],
)
def test_a_whole_section_is_the_reference_and_the_rest_is_shown(
    name: str, report: str, note: str, reference: str
) -> None:
    (row,) = hook(name, [{"name": "a", "text": report}])
    assert (row["note"], row["reference"]) == (note, reference)


@each_reports
@pytest.mark.parametrize(
    ("report", "reference"),
    [("EXAM: Calm.PLAN: Rest.\nIce.", "Rest."), ("Exam: Calm.\nAssessment and Plan: Rest.", "")],
)
def test_the_published_rule_takes_the_first_line_of_a_section_in_capitals(
    name: str, report: str, reference: str
) -> None:
    (row,) = hook(name, [{"name": "a", "text": report}], variant="published")
    assert (row["reference"], row["note"]) == (reference, "EXAM: Calm." if reference else "")


@pytest.mark.parametrize(
    ("name", "goes_on", "is_whole", "breaks_off"),
    [pytest.param("mtsamples", 87, 257, 83, marks=pytest.mark.long), ("mtsamples_procedures", 61, 50, 17)],
)
def test_how_the_published_first_line_differs_from_the_section(
    data_dir: Path, name: str, goes_on: int, is_whole: int, breaks_off: int
) -> None:
    """The numbers that the definitions quote."""
    whole = {instance.id: " ".join(instance.expected.split()) for instance in real(name, "all", data_dir)}
    lines = {instance.id: " ".join(instance.expected.split()) for instance in real(name, "published", data_dir)}
    equal = sum(line == whole[key] for key, line in lines.items())
    longer = sum(line != whole[key] and line.startswith(whole[key]) for key, line in lines.items())
    assert (longer, equal, len(lines) - longer - equal) == (goes_on, is_whole, breaks_off)


# --- questions --------------------------------------------------------------------------------------------------------


def question(number: str, text: str, *ranks: str) -> dict[str, object]:
    """A row of MEDIQA as the reader of XML gives it; each answer is called after its rank."""
    answers = [{"@ReferenceRank": rank, "@ReferenceScore": "3", "AnswerText": f"answer {rank}"} for rank in ranks]
    within: object = answers if len(answers) > 1 else answers[0]
    return {"@QID": number, "QuestionText": text, "AnswerList": {"Answer": within}}


@pytest.mark.parametrize("entry", [question("7", "Gout?", "2", "3"), {**question("7", "?", "1"), "AnswerList": ""}])
def test_a_question_without_a_first_answer_is_named(entry: Mapping[str, object]) -> None:
    with pytest.raises(DataError, match="question 7: none of its answers has ReferenceRank 1"):
        hook("mediqa_qa", [entry])


# --- real reports -----------------------------------------------------------------------------------------------------


def real_reports(name: str, data: Path) -> Iterator[tuple[str, str]]:
    """Name and text of every file, in the order of its name's bytes."""
    for path in sorted((data / REPORTS[name]).iterdir(), key=lambda path: path.name.encode()):
        yield path.name, path.read_text(encoding="utf-8").strip()


def reading(text: str) -> tuple[str, str] | None:
    """Kind and text of the reference by the published rule, written anew from its description."""
    found = {}
    for kind in KINDS:
        pieces = text.split(kind + ":")
        if len(pieces) == 1 and re.search(kind + ":", text, re.IGNORECASE):
            return None
        found[kind] = pieces[1].split("\n")[0].strip() if len(pieces) > 1 else ""
    return next(((kind, line) for kind, line in found.items() if line), None)


@pytest.mark.long
def test_the_published_data_of_mtsamples_is_found_again(data_dir: Path) -> None:
    found = {name: (text, reading(text)) for name, text in real_reports("mtsamples", data_dir)}
    every = {name: (text, *read) for name, (text, read) in found.items() if read}
    assert Counter(kind for _, kind, _ in every.values()) == {"PLAN": 338, "SUMMARY": 16, "FINDINGS": 185}
    assert sum(line in text.split("PLAN:")[0] for text, _, line in every.values()) == 202
    seen = [name for name in list(found)[:1000] if name in every]
    expected = [(name[:-4], every[name][0].split("PLAN:")[0].strip(), every[name][2]) for name in seen]
    assert [(i.id, i.fields["note"], i.expected) for i in real("mtsamples", "published", data_dir)] == expected
    assert len(expected) == 427


def test_the_published_data_of_mtsamples_procedures_is_found_again(data_dir: Path) -> None:
    found = {name: (text, reading(text)) for name, text in real_reports("mtsamples_procedures", data_dir)}
    every = {name: (text, *read) for name, (text, read) in found.items() if read}
    assert Counter(kind for _, kind, _ in every.values()) == {"PLAN": 27, "SUMMARY": 6, "FINDINGS": 98}
    expected = []
    for name, (text, _, line) in every.items():
        for kind in KINDS:
            text = text.split(kind + ":")[0].strip()
        if not set(name) & set("#?%"):
            expected.append((name[:-4], text, line))
    assert [
        (i.id, i.fields["note"], i.expected) for i in real("mtsamples_procedures", "published", data_dir)
    ] == expected
    assert len(expected) == 128


def leaks(instance: Instance) -> bool:
    """Whether the note repeats 18 words of the reference, or all of one that has fewer, but at least five."""
    n_words = len(re.sub(r"\W+", " ", instance.expected).split())
    length = min(18, n_words)
    if length < 5:
        return False
    return not set(sequences([instance.expected], length)).isdisjoint(sequences([instance.fields["note"]], length))


@pytest.mark.parametrize(
    ("name", "sample", "n_leaking"),
    [
        pytest.param("mtsamples", "default", 0, marks=pytest.mark.long),
        pytest.param("mtsamples", "published", 177, marks=pytest.mark.long),
        ("mtsamples_procedures", "default", 0),
        ("mtsamples_procedures", "published", 9),
    ],
)
def test_no_corrected_note_tells_its_reference(data_dir: Path, name: str, sample: str, n_leaking: int) -> None:
    """What is repeated in a note by its author, at most 17 words that say who the patient is, is part of the task."""
    instances = list(real(name, sample, data_dir))
    assert sum(leaks(instance) for instance in instances) == n_leaking
    if sample == "default":
        assert not any(
            instance.expected in instance.fields["note"] for instance in instances if len(instance.expected) > 20
        )
        assert not any(re.search(r"^(Description|Keywords):", i.fields["note"], re.MULTILINE) for i in instances)
        for instance in instances:
            kind = instance.metadata["section"]
            assert not re.search(rf"{kind}:", instance.fields["note"]), instance.id


@pytest.mark.long
def test_the_sections_of_a_real_report_and_its_note_are_all_of_it(data_dir: Path) -> None:
    """Nothing gets lost but heads, the description and the keywords, and nothing is told twice."""
    texts = dict(real_reports("mtsamples", data_dir))
    for instance in real("mtsamples", "default", data_dir):
        whole = re.sub(
            r"^Description:.*$", "", texts[f"{instance.id}.txt"].partition("\nKeywords:")[0], flags=re.MULTILINE
        )
        parts = Counter(re.findall(r"\S", instance.fields["note"] + instance.expected))
        lost = Counter(re.findall(r"\S", whole)) - parts
        assert not parts - Counter(re.findall(r"\S", whole)), instance.id
        heads = max(1, sum(whole.count(f"{kind}:") for kind in KINDS))
        assert lost.total() <= 45 * heads, instance.id


# --- real conversations and questions ---------------------------------------------------------------------------------


def test_real_conversations_come_as_they_are_in_the_published_order(data_dir: Path) -> None:
    files = [f"{part}_full.json" for part in ("clinicalnlp_taskB_test1", "clef_taskC_test3", "clinicalnlp_taskC_test2")]
    documents = [json.loads((data_dir / "aci_bench" / file).read_text(encoding="utf-8")) for file in files]
    expected = [(item["file"], item["src"], item["tgt"]) for document in documents for item in document["data"]]
    found = [(i.id, i.fields["conversation"], i.expected) for i in real("aci_bench", "default", data_dir)]
    assert found == expected
    assert len({file for file, _, _ in expected}) == 120


def test_real_questions_on_medicines_have_the_published_size_or_only_answers(data_dir: Path) -> None:
    file = data_dir / "medication_qa" / "MedInfo2019-QA-Medications.xlsx"
    rows = [(str(n), row["Question"], row["Answer"]) for n, row in enumerate(read_rows(file, "xlsx"))]
    published = [row for row in rows if row[2] != "n/a"]
    corrected = [row for row in published if row[2] not in ("No answers", "No Answers")]
    for sample, expected in (("published", published), ("default", corrected)):
        dataset = real("medication_qa", sample, data_dir)
        assert [(i.id, i.fields["question"], i.expected) for i in dataset] == expected
    assert (len(rows), len(published), len(corrected)) == (690, 689, 680)
    clusters = Counter(Counter(i.cluster for i in real("medication_qa", "default", data_dir)).values())
    assert clusters == {1: 612, 2: 23, 3: 2, 4: 4}


def test_real_questions_of_mediqa_have_the_first_of_the_ranked_answers(data_dir: Path) -> None:
    file = data_dir / "medi_qa" / "MEDIQA2019-Task3-QA-TestSet-wLabels.xml"
    expected = []
    for entry in ElementTree.parse(file).getroot():
        (best,) = (answer for answer in entry.iter("Answer") if answer.get("ReferenceRank") == "1")
        expected.append((entry.get("QID"), entry.findtext("QuestionText"), best.findtext("AnswerText")))
    instances = list(real("mediqa_qa", "default", data_dir))
    assert [(i.id, i.fields["question"], i.expected) for i in instances] == expected
    assert Counter(i.metadata["reference_score"] for i in instances) == {"4": 118, "3": 32}
    assert sorted(Counter(i.cluster for i in instances).values())[-3:] == [1, 2, 2]

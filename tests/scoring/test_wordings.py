"""Readers of notes, queries, labels and codes: no wording is read wrongly, and the reported ones are read by name."""

from __future__ import annotations

from importlib import import_module

import pytest

from bench.studies.wordings.form import read_all
from medhelm.scoring.answers.icd_codes import read_codes
from medhelm.scoring.answers.labels import read_labels
from medhelm.scoring.answers.note_error import ErrorJudgment, read_error_judgment
from medhelm.scoring.sql.extract import find_query
from tests.support.cases import table


@pytest.mark.parametrize("reader", ["codes", "labels", "medec", "sql"])
def test_no_wording_is_read_wrongly_and_few_are_unread(reader: str) -> None:
    module = import_module(f"bench.studies.wordings.{reader}")
    readings = read_all(module.FORMS, module.read)
    assert len({form.text for form in module.FORMS}) >= 600
    assert [reading for reading in readings if reading.is_wrong] == []
    assert sum(reading.is_unread for reading in readings) < 0.01 * len(readings)


def test_queries_and_abstentions_have_wordings_enough() -> None:
    forms = import_module("bench.studies.wordings.sql").FORMS
    abstaining = {form.text for form in forms if form.group.startswith("abstention")}
    assert len(abstaining) >= 600
    assert len({form.text for form in forms} - abstaining) >= 600


@table(
    ("reply", "judgment"),
    [
        ("<answer>CORRECT</answer>", (False, None)),
        ("'CORRECT'", (False, None)),
        ("✅ CORRECT", (False, None)),
        ("Error found: 5 Heparin is stopped.", (True, 5)),
        ("- 5 Heparin is stopped.", (True, 5)),
        ("> 5 Heparin is stopped.", (True, 5)),
        ("INCORRECT. 5 The heparin is stopped.", (True, 5)),
        ("The text is not correct. 5 Heparin is stopped.", (True, 5)),
        ('{"error_flag": 0}', (False, None)),
        ("Incorrect. Sentence 3 should be: Heparin is stopped.", (True, 3)),
        ("In sentence 5, 'metformin' should be 'insulin'.", (True, 5)),
        ("The text contains an error. 3 The patient was given insulin.", (True, 3)),
        ("Everything is fine except the antibiotic in sentence 4", (True, 4)),
        ("All correct apart from sentence 5: heparin is wrong", (True, 5)),
        ("All sentences are right but sentence 4.", (True, 4)),
        ("All but sentence 3 are correct.", (True, 3)),
        ("Correct, except sentence 3.", (True, 3)),
        ("Other than sentence 3, no errors.", (True, 3)),
        ("Sentence 4 is wrong. Wait, no: sentence 3 is wrong.", (True, 3)),
    ],
)
def test_reported_judgments_are_read(reply: str, judgment: tuple[bool, int | None]) -> None:
    assert read_error_judgment(reply) == ErrorJudgment(*judgment)


NOTE = "0 She has a cough for 3 days.\n1 Heparin is continued.\n2 Her error of refraction is 3 diopters."


@table(
    ("reply", "judgment"),
    [
        ("7 Heparin is stopped now.", (True, None)),
        ("7", (None, None)),
        ('The sentence "Heparin is continued." is wrong.', (True, 1)),
        ("Heparin is continued.", (None, None)),
        ('In sentence 2, "3 diopters" should be "2 diopters".\n"Heparin is continued." is right.', (True, 2)),
        (NOTE, (None, None)),
        ("0", (True, 0)),
        ("0 errors", (False, None)),
        ("Sentence 0 is incorrect.", (True, 0)),
    ],
)
def test_a_judgment_is_about_the_sentences_of_the_note(reply: str, judgment: tuple[bool | None, int | None]) -> None:
    assert read_error_judgment(reply, NOTE) == ErrorJudgment(*judgment)


QUERY = "select a from t"


@table(
    "reply",
    [
        '{"query": "select a from t"}',
        '"select a from t"',
        "(select a from t)",
        "\\boxed{select a from t}",
        "~~~sql\nselect a from t\n~~~",
        "select a from t\n\n**Explanation**: it reads a.",
        "select a from t\n\n- it counts",
        "select a from t\nNote: it counts.",
        "select a from t\u200b",
        "select a from t\n\nselect a from t",
        "```sql\nselect a from t\n```\n\nQuestion: How many?\n```sql\nselect 2\n```",
        "<sql>select a from t</sql>\n\nNext question: How many?\n<sql>select 2</sql>",
        "```sql\nselect 1\n```\nCorrected query:\n```sql\nselect a from t\n```",
        "```sql\nselect 1\n```\nQuestion: is it right? No. Corrected query:\n```sql\nselect a from t\n```",
        "A select (*) is needed.\n\nQuestion: How many?\n```sql\nselect a from t\n```",
        "```sql\ncreate table t (a int)\n```\n\nQuestion: How many?\n```sql\nselect a from t\n```",
    ],
)
def test_reported_queries_are_found(reply: str) -> None:
    assert find_query(reply) == QUERY


@table(
    "reply",
    [
        "No SQL query can be generated.",
        "The answer is an empty string.",
        "N/A - the schema has no emergency contact",
        "The schema lacks emergency contacts.",
        "The question is out of scope.",
        "null\n\nQuestion: How many?\nselect 2",
        "Diese Frage kann nicht beantwortet werden.",
        "You could try SELECT phone FROM contact, but the table does not exist.",
    ],
)
def test_reported_abstentions_are_recognized(reply: str) -> None:
    assert find_query(reply) is None


@table("reply", ["SELECT;", "select", "SELECT", "```sql\nSELECT\n```"])
def test_a_lone_select_is_neither_a_query_nor_an_abstention(reply: str) -> None:
    assert (find_query(reply) or "").rstrip(";").lower() == "select"


@table(
    ("reply", "labels"),
    [
        ('```json\n["Asthma", "COPD"]\n```', {"asthma", "copd"}),
        ("Asthma, COPD and pneumonia", {"asthma", "copd", "pneumonia"}),
        ("The labels are: Asthma, COPD", {"asthma", "copd"}),
        ("Asthma | COPD", {"asthma", "copd"}),
        ("- **Asthma**: wheezing\n- **COPD**: smoker", {"asthma", "copd"}),
        ("\\boxed{Asthma, COPD}", {"asthma", "copd"}),
        ("<answer>Asthma, COPD</answer>", {"asthma", "copd"}),
        ("Asthma、COPD", {"asthma", "copd"}),
        ("Asthma ☑, COPD ☐", {"asthma"}),
        ("Asthma [x] COPD [ ]", {"asthma"}),
        ("☑ Asthma ☐ COPD", {"asthma"}),
        ("Asthma: present; COPD: absent", {"asthma"}),
        ("Asthma yes, COPD no", {"asthma"}),
        ("Asthma is present. COPD is absent.", {"asthma"}),
        ("HIV positive, HBV positive", {"hiv positive", "hbv positive"}),
        ("Asthma > COPD > Pneumonia", set()),
    ],
)
def test_reported_labels_are_read(reply: str, labels: set[str]) -> None:
    assert read_labels(reply, frozenset({"asthma"})) == labels


@table(
    ("reply", "known", "labels"),
    [
        ("Anxiety and depression", {"anxiety and depression"}, {"anxiety and depression"}),
        ("Anxiety and depression", {"anxiety"}, {"anxiety", "depression"}),
        ("Anxiety and depression", {"asthma"}, {"anxiety and depression"}),
        ("Cancer: lung", {"cancer: lung"}, {"cancer: lung"}),
        ("Ear, nose and throat; asthma", {"ear, nose and throat"}, {"ear, nose and throat", "asthma"}),
        ("none", {"none"}, {"none"}),
    ],
)
def test_labels_of_the_reference_are_never_divided(reply: str, known: set[str], labels: set[str]) -> None:
    assert read_labels(reply, known) == labels


@table(
    ("reply", "codes"),
    [
        ("Not I10", set()),
        ("p53", set()),
        ("C71.9, p53 mutated", {"C719"}),
        ("i10, p53", {"I10", "P53"}),
        ("Hypertensive diseases (I10-I16): I11.0", {"I110"}),
        ("J18.9 Pneumonia, not otherwise specified", {"J189"}),
        ("Problem 1: Hypertension\nCode: I10\nProblem 2: Diabetes\nCode: E11.9", {"I10", "E119"}),
        ("If confirmed, would code I21.4", set()),
        ("I10. If the biopsy is positive, C50.911 would be added.", {"I10"}),
        ("I10. Consider E11.9 if HbA1c is high.", {"I10"}),
        ("I10\nIf confirmed:\n- J18.9", {"I10"}),
        ("If only codes are wanted: I10, E11.9", {"I10", "E119"}),
        ("I10, rule out I26.99", {"I10"}),
        ("Possible J18.9", {"J189"}),
        ("Z85.3 (history of breast cancer)", {"Z853"}),
        *((f"E11.9, {word} I10", {"E119"}) for word in ("no", "sin", "pas de", "kein", "nicht", "sem", "senza")),
        ("Nicht I10, sondern I11.0", {"I110"}),
    ],
)
def test_reported_codes_are_read(reply: str, codes: set[str]) -> None:
    assert read_codes(reply) == codes


@table(
    ("reply", "codes"),
    [
        *((sign * 30_000, set()) for sign in ("a ", "5 ", "5\n", "\n", "no ", "is not ", '{"', "the labels ", "(")),
        *((sign * 30_000, set()) for sign in ("a ☑, ", "a yes, ", "a > ", "wait, no ", "\nquestion: ", "all but ")),
        *((sign * 30_000, {"I10"}) for sign in ("I10, ", "I10-")),
        ("select " + "case\nwhen\n" * 3_000, set()),
        ("not I10 " * 5_000, set()),
    ],
)
def test_long_replies_state_nothing_and_end(reply: str, codes: set[str]) -> None:
    """A pattern that needs more than about linear time would keep the test from ending."""
    assert read_error_judgment(reply, NOTE).sentence is None
    assert "asthma and copd" not in read_labels(reply, frozenset({"asthma and copd"}))
    assert read_codes(reply) == codes
    assert find_query(reply) in (None, reply.strip())


@table(
    ("reply", "judgment"),
    [
        ("Concerns:\n1. The cough\n2. The dose\n\n1 Heparin is stopped.", (True, 1)),
        ("She has a cough. 1 Heparin is given.\nShe is well.\n2 Her eyes are tired.", (None, None)),
    ],
)
def test_a_last_numbered_line_corrects_a_sentence_unless_the_note_is_repeated(
    reply: str, judgment: tuple[bool | None, int | None]
) -> None:
    assert read_error_judgment(reply, NOTE) == ErrorJudgment(*judgment)

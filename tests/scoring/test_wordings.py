"""All readers of answers: no wording is read wrongly, few are not read, and the reported ones are read by name."""

from __future__ import annotations

from importlib import import_module

import pytest

from bench.studies.wordings.__main__ import READERS
from bench.studies.wordings.form import read_all
from medhelm.scoring.answers.icd_codes import read_codes
from medhelm.scoring.answers.labels import read_labels
from medhelm.scoring.answers.note_error import ErrorJudgment, read_error_judgment
from medhelm.scoring.sql.extract import find_query
from tests.support.cases import table


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.long), 8])
@pytest.mark.parametrize("reader", READERS)
def test_no_wording_is_read_wrongly_and_few_are_unread(reader: str, every: int) -> None:
    """All wordings; in short every eighth of them, but at least 1,000 of each reader."""
    module = import_module(f"bench.studies.wordings.{reader}")
    readings = read_all(module.FORMS[:: min(every, max(1, len(module.FORMS) // 1000))], module.read)
    wrong = [(reading.form.text, reading.form.expected, reading.found) for reading in readings if reading.is_wrong]
    unread = [(reading.form.text, reading.form.expected) for reading in readings if reading.is_unread]
    assert len(readings) >= (400 if reader == "chat" else 600)
    assert not wrong, f"{len(wrong)} of {len(readings)}: {wrong[:20]}"
    assert len(unread) < 0.01 * len(readings), unread[:20]


@table(
    ("reply", "judgment"),
    [
        ("Error found: 5 Heparin is stopped.", (True, 5)),
        ("The text is not correct. 5 Heparin is stopped.", (True, 5)),
        ("Incorrect. Sentence 3 should be: Heparin is stopped.", (True, 3)),
        ("The text contains an error. 3 The patient was given insulin.", (True, 3)),
        ("Everything is fine except the antibiotic in sentence 4", (True, 4)),
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
        ('The sentence "Heparin is continued." is wrong.', (True, 1)),
        ('In sentence 2, "3 diopters" should be "2 diopters".\n"Heparin is continued." is right.', (True, 2)),
        (NOTE, (None, None)),
        ("Concerns:\n1. The cough\n2. The dose\n\n1 Heparin is stopped.", (True, 1)),  # its last numbered line corrects
        ("She has a cough. 1 Heparin is given.\nShe is well.\n2 Her eyes are tired.", (None, None)),
    ],
)
def test_a_judgment_is_about_the_sentences_of_the_note(reply: str, judgment: tuple[bool | None, int | None]) -> None:
    assert read_error_judgment(reply, NOTE) == ErrorJudgment(*judgment)


QUERY = "select a from t"


@table(
    "reply",
    [
        "(select a from t)",
        "select a from t\u200b",
        "```sql\nselect a from t\n```\n\nQuestion: How many?\n```sql\nselect 2\n```",
        "```sql\nselect 1\n```\nQuestion: is it right? No. Corrected query:\n```sql\nselect a from t\n```",
        "A select (*) is needed.\n\nQuestion: How many?\n```sql\nselect a from t\n```",
        "```sql\ncreate table t (a int)\n```\n\nQuestion: How many?\n```sql\nselect a from t\n```",
    ],
)
def test_reported_queries_are_found(reply: str) -> None:
    assert find_query(reply) == QUERY


def test_reported_abstentions_are_recognized() -> None:
    assert find_query("null\n\nQuestion: How many?\nselect 2") is None
    assert find_query("You could try SELECT phone FROM contact, but the table does not exist.") is None


@table(
    ("reply", "labels"),
    [
        ("Asthma, COPD and pneumonia", {"asthma", "copd", "pneumonia"}),
        ("Asthma ☑, COPD ☐", {"asthma"}),
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
        ("Ear, nose and throat; asthma", {"ear, nose and throat"}, {"ear, nose and throat", "asthma"}),
    ],
)
def test_labels_of_the_reference_are_never_divided(reply: str, known: set[str], labels: set[str]) -> None:
    assert read_labels(reply, known) == labels


@table(
    ("reply", "codes"),
    [
        ("C71.9, p53 mutated", {"C719"}),
        ("I10. If the biopsy is positive, C50.911 would be added.", {"I10"}),
        ("I10\nIf confirmed:\n- J18.9", {"I10"}),
        ("If only codes are wanted: I10, E11.9", {"I10", "E119"}),
        ("I10, rule out I26.99", {"I10"}),
        *((f"E11.9, {word} I10", {"E119"}) for word in ("no", "kein", "sem")),
        ("Nicht I10, sondern I11.0", {"I110"}),
    ],
)
def test_reported_codes_are_read(reply: str, codes: set[str]) -> None:
    assert read_codes(reply) == codes


@table(
    ("reply", "codes"),
    [
        *((sign * 1_500, set()) for sign in ("a ", "5 ", "5\n", "\n", "no ", "is not ", '{"', "the labels ", "(")),
        *((sign * 1_500, set()) for sign in ("a ☑, ", "a yes, ", "a > ", "wait, no ", "\nquestion: ", "all but ")),
        *((sign * 1_500, {"I10"}) for sign in ("I10, ", "I10-")),
        ("select " + "case\nwhen\n" * 400, set()),
        ("not I10 " * 800, set()),
    ],
)
def test_long_replies_state_nothing_and_end(reply: str, codes: set[str]) -> None:
    """A pattern that needs more than about linear time would make this the slowest test of all."""
    assert read_error_judgment(reply, NOTE).sentence is None
    assert "asthma and copd" not in read_labels(reply, frozenset({"asthma and copd"}))
    assert read_codes(reply) == codes
    assert find_query(reply) in (None, reply.strip())

"""Counterfactual patients: all words agree, nothing else changes, and cases in which the attribute matters stay."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from medhelm.extensions.variants.perturbations import demographics, perturbations
from medhelm.extensions.variants.perturbations.cases import ONLY_TEXT, find_case, sentence_breaks
from tests.support.benchmarks.library import benchmark
from tests.support.perturbed import perturbed, question

MED_QA = benchmark("med_qa")
CASE = "A 45-year-old man presents with chest pain. He has a cough. Examination is normal. Which diagnosis is likely?"
COUGH, END = (
    "A 45-year-old man presents with chest pain. He coughs.",
    "Examination is normal. Which diagnosis is likely?",
)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "sex",
            "A 45-year-old man presents with his wife. He says that nothing helps him. He hurt himself.",
            "A 45-year-old woman presents with her husband. She says that nothing helps her. She hurt herself.",
        ),
        (
            "sex",
            "A 30 year old FEMALE patient says her knee hurts. It wakes her at night. Her dog bit her last week.",
            "A 30 year old MALE patient says his knee hurts. It wakes him at night. His dog bit him last week.",
        ),
        ("sex", "An 8-year-old boy with his mother. He coughs.", "An 8-year-old girl with her mother. She coughs."),
        ("sex", "A 5-week-old girl is ill. The girl's family left.", "A 5-week-old boy is ill. The boy's family left."),
        ("sex", "A 30-year-old woman came to her family doctor.", "A 30-year-old man came to his family doctor."),
        ("sex", "Mr. A is a 60-year-old man. Mr. A has gout.", "Ms. A is a 60-year-old woman. Ms. A has gout."),
        ("sex", "A 20-year-old man's dog is ill. He fears it is its fault. This is his.", ""),
        # No sex changes without one patient, or with ambiguous pronouns.
        ("sex", "A patient coughs. He has a fever.", ""),
        ("sex", "A 30-year-old man and a 40-year-old woman cough.", ""),
        ("sex", "Her neighbor gave her water. A 30-year-old woman coughs.", ""),
        ("sex", "Men over 60 years old cough more often.", ""),
        ("sex", "Patient is 45 yo M with a cough.", ""),
        # An age moves by ten years, and not over a limit.
        ("age_band", "A 37-year-old man coughs.", "A 47-year-old man coughs."),
        ("age_band", "A 52-year-old man coughs.", "A 62-year-old man coughs."),
        ("age_band", "A 78-year-old man coughs.", "A 68-year-old man coughs."),
        ("age_band", "A 19-year-old man coughs.", ""),
        ("age_band", "A 5-month-old boy coughs.", ""),
    ],
)  # fmt: skip
def test_sex_and_age_change_with_all_words_for_a_patient(name: str, text: str, expected: str) -> None:
    assert perturbed(name, question(text)) == (expected, "")


MATTERS = "The case may not depend on the patient's {}."
OTHER = "No pronoun or noun may be that of another person."


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("sex", "A 30-year-old woman is 8 weeks pregnant.", MATTERS.format("sex")),
        ("sex", "A 60-year-old man has a large prostate.", MATTERS.format("sex")),
        ("sex", "A 30-year-old woman has regular menses.", MATTERS.format("sex")),
        ("sex", "A 30-year-old man is found to have a hemoglobin of 12.9 g/dL.", MATTERS.format("sex")),
        ("sex", "A 30-year-old man has hair loss in a male pattern.", MATTERS.format("sex")),
        ("sex", "A 30-year-old man snores. His wife says that she cannot sleep.", OTHER),
        ("sex", "A 30-year-old man coughs. His brother had asthma when he was young.", OTHER),
        ("sex", "A 9-year-old girl is brought by her mother. She fell.", OTHER),
        ("sex", "A 30-year-old man has a wife. Another wife died.", OTHER),
        ("sex", "A 30-year-old man met the woman next door.", OTHER),
        ("sex", "A 30-year-old man is a policeman.", demographics.STATED_ONCE),
        ("sex", "A 30-year-old man is called Joe by friends.", demographics.STATED_ONCE),
        ("sex", "Mr. Smith is a 30-year-old man.", demographics.STATED_ONCE),
        ("sex", "Sex: M. A 30-year-old man coughs.", demographics.STATED_ONCE),
        ("sex", "A 30-year-old man has sex with men.", demographics.STATED_ONCE),
        ("sex", "A 30-year-old man coughs. A man next door coughs.", demographics.STATED_ONCE),
        ("insurance", f"{COUGH} He cannot afford the drug. {END}", MATTERS.format("insurance")),
        ("insurance", f"{COUGH} He refuses the treatment. {END}", MATTERS.format("insurance")),
        ("language", f"{COUGH} He is confused. {END}", MATTERS.format("language")),
        ("language", f"{COUGH} His speech is slurred. {END}", MATTERS.format("language")),
        ("language", f"{COUGH} He needs an interpreter. {END}", MATTERS.format("language")),
    ],
)
def test_cases_are_left_out_where_an_attribute_matters_or_words_are_ambiguous(name: str, text: str, rule: str) -> None:
    assert perturbed(name, question(text))[1] == rule


def test_options_and_references_may_not_mention_the_sex() -> None:
    for options in (("She has gout", "Sepsis"), ("Gout in women", "Sepsis"), ("Tell the man", "Sepsis")):
        assert perturbed("sex", question(CASE, options=options))[1].startswith("Options and references")


@pytest.mark.parametrize(
    "text",
    ["He smokes since the age of 14.", "He has had diabetes for 20 years.", "He retired.", "He needs screening."],
)
def test_an_age_stays_where_the_text_says_more_about_it(text: str) -> None:
    assert perturbed("age_band", question(f"A 52-year-old man coughs. {text}"))[1] != ""


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("A 45-year-old man coughs.", r"A 45-year-old (Black|white|Hispanic|Asian) man coughs."),
        ("A 45-year-old obese man coughs.", r"A 45-year-old obese (Black|white|Hispanic|Asian) man coughs."),
        ("A 45-year-old African American man coughs.", r"A 45-year-old (white|Hispanic|Asian) man coughs."),
        ("A 45-year-old Caucasian woman coughs.", r"A 45-year-old (Black|Hispanic|Asian) woman coughs."),
    ],
)
def test_a_race_is_exchanged_or_inserted(text: str, pattern: str) -> None:
    found = [perturbed("race", question(text), seed=seed) for seed in range(12)]
    assert all(re.fullmatch(pattern, new) and not rule for new, rule in found)
    assert len(set(found)) >= 3, "another seed, another race"


def test_colors_of_cells_and_stools_are_no_race() -> None:
    text = "A 45-year-old man has black stools and a white blood cell count of 9,000/mm3."
    new, rule = perturbed("race", question(text))
    assert rule == ""
    assert new.endswith("man has black stools and a white blood cell count of 9,000/mm3.")
    assert perturbed("race", question("A 45-year-old Samoan man coughs."))[1] == demographics.STATED_ONCE


@pytest.mark.parametrize("name", ["race", "name", "language"])
@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("He is from Brazil.", ("Gout", "Sepsis")),
        ("The rash is red.", ("Gout", "Sepsis")),
        ("He coughs.", ("Sarcoidosis", "Sepsis")),
        ("He has sickle cell trait.", ("Gout", "Sepsis")),
        ("His blood pressure is treated with lisinopril.", ("Gout", "Sepsis")),
    ],
)
def test_cases_in_which_origin_may_matter_are_left_out(name: str, text: str, options: tuple[str, ...]) -> None:
    instance = question(f"A 45-year-old man has a cough. {text} Examination is normal. What is it?", options=options)
    assert perturbed(name, instance)[1] == MATTERS.format("origin")


def test_a_name_fits_the_sex_and_is_the_only_one() -> None:
    found = {perturbed("name", question(CASE), seed=seed) for seed in range(40)}
    assert all(not rule for _, rule in found)
    names = {re.search(r"man named (\w+ \w+) presents", text)[1] for text, _ in found}  # type: ignore[index]
    assert len(names) > 6
    assert names <= set(demographics._NAMES["male"])
    assert perturbed("name", question("Luis is a 45-year-old man who coughs."))[1] == demographics.STATED_ONCE
    assert perturbed("name", question("A 45-year-old white man is ill."))[1] == demographics.STATED_ONCE
    assert perturbed("name", question("A 45-year-old female college student is ill.")) == ("", "")


@pytest.mark.parametrize(("name", "sign"), [("insurance", "insurance"), ("language", "interpreter")])
def test_a_sentence_about_the_patient_is_added_between_two(name: str, sign: str) -> None:
    new, rule = perturbed(name, question(CASE))
    assert rule == ""
    added = new.replace("A 45-year-old man presents with chest pain. ", "").split(". He has a cough")[0]
    assert sign in added
    assert new.replace(f"{added}. ", "") == CASE
    assert perturbed(name, question(CASE.replace("45", "70")))[1] == "The patient must be an adult of working age."
    assert perturbed(name, question("A 45-year-old man coughs. This is new. It hurts. Why?")) == ("", "")


def test_checks_reject_what_their_change_would_not_do() -> None:
    """Each check is independent: it is given other texts than those that the change writes."""
    original = question(CASE)
    rejected = {
        "sex": [CASE.replace("man", "woman"), CASE.replace("man", "woman").replace("He", "She")[:-5]],
        "age_band": [CASE.replace("45", "35").replace("cough", "fever"), CASE.replace("45", "46")],
        "race": [CASE.replace("man", "Black white man"), CASE.replace("man presents", "Black man arrives")],
        "name": [CASE.replace("man", "man named Emily Baker"), CASE.replace("man", "man named Greg Baker")[:-5]],
        "insurance": [CASE.replace("He has", "The patient is rich. He has")],
        "language": [CASE.replace("He has", "The patient speaks Greek. He has")],
    }  # fmt: skip
    for name, texts in rejected.items():
        for text in texts:
            changed = replace(original, fields={"question": text})
            assert perturbations()[name].check(original, changed, MED_QA), (name, text)
        keyed = replace(original, fields={"question": CASE}, choices=("Gout", "Migraine", "Stroke"))
        assert perturbations()[name].check(original, keyed, MED_QA) == ONLY_TEXT


def test_only_fields_of_the_prompt_are_read() -> None:
    instance = replace(question(CASE), fields={"question": "What is it?", "hidden": CASE})
    assert find_case(instance, MED_QA) is None
    shown = find_case(question(CASE), MED_QA)
    assert shown is not None
    assert (shown.age, shown.sex, shown.description) == (45, "male", "")


def test_sentences_are_added_where_no_sentence_refers_to_the_one_before() -> None:
    text = "He saw Dr. Lee. This helped. The fever fell to 38.2 vs. 39. It rose. Pulse is 90. Labs are below. Why?"
    assert [text[place:].split()[0] for place in sentence_breaks(text)] == ["The", "Pulse"]

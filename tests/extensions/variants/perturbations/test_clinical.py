"""Irrelevant sentences, another order of sections, and values that are missing."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from medhelm.domain import Instance
from medhelm.extensions.variants.perturbations import clinical, perturbations
from medhelm.extensions.variants.perturbations.cases import ONLY_TEXT
from tests.support.benchmarks.library import benchmark
from tests.support.perturbed import perturbed, question

CASE = (
    "A 45-year-old man presents with a cough. He does not smoke. His father has asthma. He takes no drugs. "
    "Examination shows wheezing. A film is taken. Which diagnosis is likely?"
)
NOTE = (
    "HISTORY OF PRESENT ILLNESS: He has had a cough since May.\nPAST MEDICAL HISTORY: Gout.ALLERGIES: None. "
    "SOCIAL HISTORY:  He lives alone.\nREVIEW OF SYSTEMS: Negative.\n{next}: He is well.\nASSESSMENT: Bronchitis."
)


def note(text: str) -> Instance:
    return question(text, field="note", answer="Rest and fluids, and a visit in a week.")


def test_two_sentences_without_content_are_added_inside_a_case() -> None:
    found = {perturbed("irrelevant_sentences", question(CASE), seed=seed) for seed in range(30)}
    assert len(found) > 20
    for text, rule in found:
        assert rule == ""
        added = [sentence for sentence in clinical.IRRELEVANT if sentence in text]
        assert len(added) == 2
        for sentence in added:
            text = text.replace(f"{sentence} ", "")
        assert text == CASE
        assert not any(new in found_text.split(" Which ")[1] for new in added for found_text, _ in found)


def test_sentences_stay_where_the_text_names_places() -> None:
    text = CASE.replace("A film is taken.", "The film is described as noted above.")
    assert perturbed("irrelevant_sentences", question(text))[1] == "The text may not say where a sentence is."


def test_background_sections_change_their_order_and_nothing_else_does() -> None:
    before = NOTE.format(next="PHYSICAL EXAMINATION")
    orders = set()
    for seed in range(30):
        text, rule = perturbed("section_order", note(before), of="mtsamples", seed=seed)
        assert rule == ""
        assert sorted(re.findall(r"\w+", text)) == sorted(re.findall(r"\w+", before))
        names = [section.name for section in clinical.sections(text)[1]]
        assert (names[0], names[-2], names[-1]) == ("HISTORY OF PRESENT ILLNESS", "PHYSICAL EXAMINATION", "ASSESSMENT")
        orders.add(tuple(names))
    assert len(orders) > 10


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("He lives alone.", "See above.", "The text may not say where a section is."),
        ("Gout.", "This is unknown.", "A section that moves may not begin with a reference to another."),
    ],
)
def test_sections_stay_where_they_refer_to_others(old: str, new: str, rule: str) -> None:
    text = NOTE.format(next="PHYSICAL EXAMINATION").replace(old, new)
    assert rule in {perturbed("section_order", note(text), of="mtsamples", seed=seed)[1] for seed in range(9)}


def measured(calculator: str, note: str, ask: str = "What is it?") -> Instance:
    """Return a question of MedCalc-Bench."""
    instance = question(note, field="note", answer="12.5")
    return replace(instance, fields={"note": note, "question": ask}, metadata={clinical.CALCULATOR: calculator})


@pytest.mark.parametrize(
    ("calculator", "note", "expected"),
    [
        (
            "QTc Bazett Calculator",
            "Heart rate is 71 bpm and a QT interval of 330 msec.",
            "QT interval of [not recorded].",
        ),
        (
            "Mean Arterial Pressure (MAP)",
            "His blood pressure is 120/80 mm Hg, pulse 70.",
            "is [not recorded], pulse 70.",
        ),
        ("MDRD GFR Equation", "Urea 5; creatinine, 1.2 mg/dL; sodium 140.", "creatinine, [not recorded]; sodium 140."),
        ("Body Mass Index (BMI)", "He weighs 70 kg, height: 180 cm.", "height: [not recorded]."),
        ("Anion Gap", "Na+ 140 mEq/L\nCl- 100 mEq/L", "Na+ [not recorded]\nCl- 100 mEq/L"),
        (
            "Target weight",
            "Patient has a height of 160 cm and their target BMI is 20 kg/m^2.",
            "height of [not recorded] and",
        ),
    ],
)
def test_a_value_that_a_formula_needs_is_removed(calculator: str, note: str, expected: str) -> None:
    text, rule = perturbed("key_finding_removed", measured(calculator, note), of="medcalc_bench")
    assert rule == ""
    assert expected in text
    assert perturbations()["key_finding_removed"].expectation == "must_abstain"


@pytest.mark.parametrize(
    ("calculator", "note"),
    [
        ("QTc Bazett Calculator", "The QT interval is 330 msec, and the QTc 350 msec."),
        ("Mean Arterial Pressure (MAP)", "BP is 120/80 mm Hg. Systolic pressure was 120."),
        ("MDRD GFR Equation", "Creatinine is 1.2 mg/dL, and the eGFR 60."),
        ("MDRD GFR Equation", "Creatinine is 1.2 mg/dL (baseline 1.0 mg/dL)."),
        ("Body Mass Index (BMI)", "Height is 180 cm, weight 70 kg, BMI 21.6."),
        ("Anion Gap", "Sodium is 140 mEq/L. On day 2 sodium was normal, at 139."),
        ("Anion Gap", "Results: 133 mmol/L corrected sodium, 4 mmol/L potassium; Na 135 mmol/L"),
    ],
)
def test_a_value_stays_if_the_text_tells_it_in_another_way(calculator: str, note: str) -> None:
    found = perturbed("key_finding_removed", measured(calculator, note), of="medcalc_bench")
    assert found[1] == "The text may not give the value in another way."


@pytest.mark.parametrize(
    ("name", "of", "instance"),
    [
        # Sentences need a patient, and two places.
        ("irrelevant_sentences", "med_qa", question("A patient coughs. He has a fever. He is tired. He rests. Why?")),
        ("irrelevant_sentences", "med_qa", question("A 45-year-old man coughs. It hurts. Why?")),
        # The last section may hold anything; a heading may divide a review.
        ("section_order", "mtsamples", note("PLAN: Rest.\nALLERGIES: None.\nHABITS: None.")),
        ("section_order", "mtsamples", note("ALLERGIES: None.\nREVIEW OF SYSTEMS:\nGENERAL: Well.\nPLAN: Rest.")),
        ("section_order", "mtsamples", note("ALLERGIES: None.\nPLAN: Rest.\nHABITS: None.\nPLAN: Rest.")),
        # The data does not say which value is needed.
        ("key_finding_removed", "med_qa", question("QT interval of 330 msec.")),
        ("key_finding_removed", "medcalc_bench", measured("APACHE II Score", "The QT interval is 330 msec.")),
    ],
)
def test_what_is_not_certain_stays(name: str, of: str, instance: Instance) -> None:
    assert perturbed(name, instance, of=of) == ("", "")


@pytest.mark.parametrize(
    ("name", "of", "field", "before", "after"),
    [
        ("irrelevant_sentences", "med_qa", "question", CASE, CASE.replace("He does", "It was a cloudy day. He does")),
        ("irrelevant_sentences", "med_qa", "question", CASE, CASE.replace("cough", "fever")),
        ("section_order", "mtsamples", "note", NOTE, NOTE.replace("Gout", "Gout and asthma")),
        (
            "section_order",
            "mtsamples",
            "note",
            "PLAN: Rest.\nALLERGIES: None.\nEND: No.",
            "ALLERGIES: None.\nPLAN: Rest.\nEND: No.",
        ),
        ("key_finding_removed", "medcalc_bench", "note", "QT of 330 msec.", "QT of [not recorded] today."),
        ("key_finding_removed", "medcalc_bench", "note", "QT of long duration.", "QT of [not recorded]."),
    ],
)
def test_checks_reject_other_changes(name: str, of: str, field: str, before: str, after: str) -> None:
    original = question(before, field=field, answer="a longer reference text")
    changed = replace(original, fields={field: after})
    assert perturbations()[name].check(original, changed, benchmark(of))
    assert perturbations()[name].check(original, replace(original, references=()), benchmark(of)) == ONLY_TEXT

"""Spelling errors, casing, white space and abbreviations, and the checks that reject what changes a fact."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from medhelm.domain import Instance, Message, Reference
from medhelm.extensions.variants.listing import perturbation_variant
from medhelm.extensions.variants.perturbations import noise, perturbations
from tests.support.benchmarks.library import benchmark, sample_tier
from tests.support.perturbed import perturbed, question

NOTE = benchmark("mtsamples")
TEXT = (
    "A 45-year-old man with Graves' disease presents because he denies fever, without any change of weight. "
    "His potassium was 3.5 mmol/L and Mg 2.0, pH 7.31, and his BP 120/80 mm Hg. The US showed nothing; he lives "
    "in Boston and takes 40 mg of Lasix every other morning [patient]. See www.example.org/about-something."
)


def note(text: str) -> Instance:
    return question(text, field="note", answer="rest")


def changed(name: str, text: str, seed: int = 0) -> str:
    """Return the changed text; empty if the perturbation does not apply."""
    found, rule = perturbed(name, note(text), of="mtsamples", seed=seed)
    return "" if rule else found


def test_spelling_errors_are_slips_in_common_words_alone() -> None:
    kept = [word for word in re.findall(r"\S+", TEXT) if word.strip(".,") not in noise._COMMON]
    for seed in range(40):
        found = changed("typos", TEXT, seed=seed)
        differ = [(a, b) for a, b in zip(TEXT.split(), found.split(), strict=True) if a != b]
        assert 1 <= len(differ) <= len(TEXT.split()) / noise._WORDS_PER_SLIP + 1
        assert all(noise._is_one_slip(a, b) and a[0] == b[0] and a[-1] == b[-1] for a, b in differ)
        assert not {a for a, _ in differ} & set(kept)


def test_no_slip_makes_a_word_that_sample_rows_contain() -> None:
    words = {
        word
        for name in ("med_qa", "medec", "mtsamples", "medhallu", "pubmed_qa", "medcalc_bench", "race_bias")
        for instance in sample_tier(name)
        for text in instance.fields.values()
        for word in re.findall(r"\b[a-z]+\b", text)
    }
    assert len(words) > 500
    assert sorted({slip for word in noise._COMMON for slip in noise._slips(word)} & words) == []
    assert all(len(word) >= 5 and noise._slips(word) for word in noise._COMMON)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "lowercase",
            TEXT,
            TEXT.replace("A 45", "a 45")
            .replace(" His", " his")
            .replace("The", "the")
            .replace("Boston", "boston")
            .replace("Lasix", "lasix")
            .replace("See", "see"),
        ),
        (
            "lowercase",
            "Has HIV or AIDS. I saw Group A strep. A cough followed.",
            "has HIV or AIDS. I saw group A strep. a cough followed.",
        ),
        (
            "lowercase",
            "Still's disease and Down syndrome are not Common here",
            "Still's disease and Down syndrome are not common here",
        ),
        (
            "uppercase",
            "A 45-year-old man took 40 mg of Lasix; his Na is 140 mmol/L, pH 7.4.",
            "A 45-YEAR-OLD MAN TOOK 40 mg OF LASIX; HIS Na IS 140 mmol/L, pH 7.4.",
        ),
        (
            "uppercase",
            "I'm told the patient's p53 and mRNA at a@b.org aren't normal",
            "I'M TOLD THE PATIENT'S p53 AND mRNA AT a@b.org AREN'T NORMAL",
        ),
        (
            "abbreviations",
            "He has a UTI and CKD; his aunt had UTIs.",
            "He has a urinary tract infection and chronic kidney disease; his aunt had urinary tract infections.",
        ),
        (
            "abbreviations",
            "Blood pressure is high. There was an acute kidney injury in the intensive care unit.",
            "BP is high. There was an AKI in the ICU.",
        ),
        (
            "abbreviations",
            "An upper respiratory infection came first. COPD: none.",
            "A URI came first. Chronic obstructive pulmonary disease: none.",
        ),
        ("abbreviations", "An MRI was done, with a magnetic resonance imaging of the knee.", ""),  # both forms
        ("abbreviations", "An MRI was done of the left knee.", ""),  # the term would be awkward
        ("abbreviations", "HIV-1 and HIV were found in the blood.", ""),  # part of another word
        ("abbreviations", "Bullous pemphigoid (BP) was found; BP is rare in children.", ""),  # another meaning
        ("abbreviations", "What does COPD stand for in medicine?", ""),
        ("whitespace", '{"name": "a long name", "age": 5, "other": "and more text"}', ""),
        ("typos", "CREATE TABLE patient (other text, which number, every thing)", ""),
        ("typos", '<record><visit type="other visit">about everything that is there</visit></record>', ""),
        ("typos", "aspirin 81 mg", ""),
    ],
)
def test_what_changes_and_what_stays(name: str, text: str, expected: str) -> None:
    assert changed(name, text) == expected


def test_white_space_changes_between_words_and_lines_stay_lines() -> None:
    lines = (
        "0 He has had a cough for 3 weeks at home.\n1 The\tlab   values\tare 5 and 6.\n2 She takes 40 mg of it daily."
    )
    for seed in range(20):
        one_line, several = changed("whitespace", TEXT, seed=seed), changed("whitespace", lines, seed=seed)
        assert one_line.split() == TEXT.split()
        assert not re.search(r"\d\s\s|\s\s\d", one_line)
        assert [line.split() for line in several.split("\n")] == [line.split() for line in lines.split("\n")]
        assert "1 The\tlab   values\tare 5 and 6." in several


def test_turns_of_the_user_change_and_others_stay() -> None:
    of = benchmark("healthbench")
    turns = (Message("user", TEXT), Message("assistant", TEXT), Message("user", "What should follow after this?"))
    instance = replace(sample_tier("healthbench")[0], turns=turns)
    change = perturbation_variant(perturbations()["uppercase"], of, 0).instance
    found = change(instance) if change else None
    assert found
    assert [turn.text == old.text for turn, old in zip(found.turns, turns, strict=True)] == [False, True, False]


@pytest.mark.parametrize(
    ("name", "old", "new", "reason"),
    [
        ("typos", "He takes 40 mg of it after meals.", "He takes 4 mg of it after meals.", "common words"),
        ("typos", "He has perineal pain after meals.", "He has peroneal pain after meals.", "common words"),
        ("typos", "He denies pain after meals.", "He deniss pain after meals.", "common words"),
        ("typos", "Other things happen after meals.", "Otehr thigns hapen atfer meals.", "Few words"),
        ("typos", "The patient is here after meals.", "The patent is here after meals.", "another word"),
        ("lowercase", "The US shows it well.", "The us shows it well.", "keep their casing"),
        ("uppercase", "It was 5 mmol in blood.", "It was 5 MMOL in blood.", "keep their casing"),
        ("uppercase", "It was seen in blood.", "IT WAS SEEN IN URINE.", "Only casing"),
        ("whitespace", "It was 40 mg then.", "It was 40  mg then.", "beside numbers"),
        ("whitespace", "One line here.\nAnother one.", "One line\nhere.\nAnother one.", "keep their lines"),
        ("whitespace", "One line here.", "One li ne here.", "Only white space"),
        ("abbreviations", "No sign of COPD.", "Sign of chronic obstructive pulmonary disease.", "Only abbreviations"),
        ("abbreviations", "BP 120/80 was found.", "blood pressure 120/90 was found.", "Only abbreviations"),
        ("abbreviations", "CKD was found.", "heart disease was found.", "Only abbreviations"),
    ],
)
def test_a_check_rejects_what_changes_a_fact(name: str, old: str, new: str, reason: str) -> None:
    check = perturbations()[name].check
    assert reason in check(note(old), note(new), NOTE)
    assert check(note(old), note(old), NOTE) == ""
    assert check(note(old), replace(note(old), references=(Reference("work"),)), NOTE)

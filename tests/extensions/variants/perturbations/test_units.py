"""Conversions of units: right factors, rounding that keeps the value, and values that are left alone."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from medhelm.domain import Instance
from medhelm.extensions.variants.perturbations import perturbations, units
from tests.support.benchmarks.library import benchmark
from tests.support.perturbed import perturbed, question

WHO = "A 45-year-old man is ill. "


def converted(text: str, answer: str = "") -> str:
    """Return the converted text; empty if nothing is converted, or the check rejects it."""
    new, rule = perturbed("units", question(WHO + text, answer=answer))
    return "" if rule else new.removeprefix(WHO)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Glucose is 180 mg/dL.", "Glucose is 10.0 mmol/L."),
        ("Fasting blood glucose level of 5.5 mmol/L", "Fasting blood glucose level of 99 mg/dL"),
        ("serum creatinine was 1.2 mg/dl", "serum creatinine was 106 µmol/L"),
        ("Creatinine (Cr): 250 μmol/L", "Creatinine (Cr): 2.83 mg/dL"),
        ("Total cholesterol: 200 mg/dL", "Total cholesterol: 5.17 mmol/L"),
        ("HDL 40 mg/dL, LDL 130 mg/dL", "HDL 1.03 mmol/L, LDL 3.36 mmol/L"),
        ("Triglycerides 1,200 mg/dL", "Triglycerides 13.55 mmol/L"),
        ("Bilirubin, total\n1.0 mg/dL", "Bilirubin, total\n17.1 µmol/L"),
        ("BUN: 28 mg/dL", "BUN: 10.0 mmol/L"),
        ("Urea nitrogen 10 mmol/L", "Urea nitrogen 28 mg/dL"),
        ("Calcium 10.0 mg/dL (normal, 8.5-10.5 mg/dL)", "Calcium 2.50 mmol/L (normal, 2.12-2.62 mmol/L)"),
        ("Magnesium 2.0 mg/dL; phosphorus 3.1 mg/dL", "Magnesium 0.82 mmol/L; phosphorus 1.00 mmol/L"),
        ("Uric acid 8.0 mg/dL", "Uric acid 476 µmol/L"),
        ("Hemoglobin 13.5 g/dL and albumin 40 g/L", "Hemoglobin 135 g/L and albumin 4.0 g/dL"),
        ("Na+: 137 mEq/L, K+: 4.1 mEq/L", "Na+: 137 mmol/L, K+: 4.1 mmol/L"),
        ("Cl-: 100 mEq/L HCO3-: 24 mEq/L BUN: 14 mg/dL", "Cl-: 100 mmol/L HCO3-: 24 mmol/L BUN: 5.0 mmol/L"),
        ("temperature of 38.0 °C", "temperature of 100.4 °F"),
        ("temperature is 98.6°F", "temperature is 37.0°C"),
        ("He weighs 70 kg.", "He weighs 154 lb."),
        ("weight: 150 pounds, height: 180 cm", "weight: 68.0 kg, height: 71 in"),
        # Other values, and values in both units, stay.
        ("Urine glucose 100 mg/dL.", ""),
        ("Urine creatinine is 120 mg/dL.", ""),
        ("Temperature 98.6°F (37.0°C).", ""),
        ("He weighs 70 kg (154 lb).", ""),
        ("He takes 5 mg/kg of it.", ""),
        ("The mass is 3 cm wide.", ""),
        ("His BMI is 25 kg/m2.", ""),
        ("The water had 15°C.", ""),
        ("Protein is 52 mg/dL.", ""),
        ("Creatine kinase is 90 U/L.", ""),
        ("Glucose is 4000 mg/dL.", ""),
    ],
)
def test_values_are_converted_and_others_stay(text: str, expected: str) -> None:
    assert converted(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Glucose 160 mg/dL (8.9 mmol/L)",
        "Creatinine 1.4 mg/dL 0.9 mg/dL",
        "Glucose 95 mg/dL and later glucose rose from 95 to 180 mg/dL",
        "84 mg/dL triglycerides, 66 mg/dL HDL",
        "Calcium 9.0 mg/dL [see note 3]",
        "Creatinine 1.2 mg/dL (on days 3-5)",
    ],
)
def test_no_value_is_converted_where_one_is_ambiguous(text: str) -> None:
    assert perturbed("units", question(f"{WHO}{text}. He weighs 70 kg.")) == ("", "")


def test_questions_about_a_value_in_a_unit_are_left_out() -> None:
    text = "Glucose is 180 mg/dL."
    for options in (("Below 100 mg/dL", "Sepsis"), ("Infuse 5 mmol / L", "Sepsis"), ("Warm to 36 °C", "Sepsis")):
        rule = perturbed("units", question(WHO + text, options=options))[1]
        assert rule == "Options and references may not have one of the units."
    assert converted("Glucose is 130 mg/dL.") == "Glucose is 7.2 mmol/L."
    assert converted("Glucose is 130 mg/dL.", answer="12.5") == "Glucose is 7.22 mmol/L.", (
        "exact where it is computed with"
    )
    for score in ("3", "10/26/2023", "(3 weeks, 2 days)"):
        assert converted(text, answer=score) == "", "a score may have a limit that a rounded value misses"


def test_every_conversion_returns_to_the_value() -> None:
    """Over the range of each quantity, the rounded value is the same number, to its decimals, when converted back."""
    for conversion in units.CONVERSIONS:
        low, high = conversion.plausible
        for step in range(1, 60):
            value = low + (high - low) * step / 60
            for number in (f"{value:.0f}", f"{value:.1f}", f"{value:.2f}"):
                if not low <= float(number) <= high:
                    continue
                new = units.rounded(number, conversion, 0.005)
                if new is not None:
                    assert round(conversion.back(float(new)), len(number.partition(".")[2])) == float(number)
                    assert len(new.partition(".")[2]) <= conversion.places + 2


def test_factors_agree_with_molar_masses() -> None:
    """The check derives factors from molar masses; those of the change come from a table of conversions."""
    for quantity in units.QUANTITIES:
        names = re.compile(quantity.names, re.IGNORECASE)
        name = next(filter(names.fullmatch, units._MOLAR_MASS), "")
        expected = units._expected(1.0, (quantity.first.lower(), quantity.second.lower()), name)
        assert expected == pytest.approx(quantity.factor, rel=0.002), quantity.names


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Glucose is 180 mg/dL.", "Glucose is 18.0 mmol/L."),
        ("Glucose is 180 mg/dL.", "Glucose is 10.0 µmol/L."),
        ("Creatinine is 1.2 mg/dL.", "Creatinine is 66.6 µmol/L."),
        ("It is 38.0 °C today.", "It is 99.4 °F today."),
        ("Glucose is 180 mg/dL.", "Glucose was 10.0 mmol/L."),
        ("Glucose is 180 mg/dL.", "Glucose is 10.0 mmol/L. He is 3."),
        ("He weighs 70 kg.", "He weighs 32 lb."),
    ],
)
def test_the_check_rejects_wrong_factors_and_other_changes(before: str, after: str) -> None:
    original = question(WHO + before)
    changed = replace(original, fields={"question": WHO + after})
    assert perturbations()["units"].check(original, changed, benchmark("med_qa"))
    assert _check(original, original) == ""


def _check(original: Instance, changed: Instance) -> str:
    return perturbations()["units"].check(original, changed, benchmark("med_qa"))

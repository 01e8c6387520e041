"""Instruments: those of the package, own files with all their mistakes, and the criteria of a benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.errors import ConfigError, UserError
from medhelm.extensions.study.instruments import HARM, instrument_names, instrument_of, read_instrument
from medhelm.extensions.study.types import INSTRUMENT_FORM, InstrumentForm
from tests.support.planned_studies import definitions

OWN = """
name: our_form
title: Our form
form: grades
scale: [0, 2]
criteria:
  dose:
    question: Is each dose right?
    anchors: {0: "No", 1: Some, 2: All}
  tone:
    question: Is the tone right?
    scale: [1, 5]
    lower_is_better: true
    anchors:
      1: Warm
      5: Cold
"""


def test_each_shipped_instrument_is_valid_and_has_words_for_both_ends() -> None:
    for name in instrument_names():
        found = read_instrument(name)
        assert found.name == name
        assert (found.title, found.instructions, found.source) > ("", "", "")
        for one in (*found.criteria, *HARM):
            assert {str(one.low), str(one.high)} <= one.anchors.keys()
            assert list(one.anchors) == sorted(one.anchors, key=int)
        assert INSTRUMENT_FORM.read(INSTRUMENT_FORM.write(found)) == found
    assert [len(one.anchors) for one in HARM] == [len(one.grades) for one in HARM] == [4, 3]
    names = "cited accurate thorough useful organized comprehensible succinct synthesized stigmatizing"
    criteria = read_instrument("pdsqi_9").criteria
    assert [one.name for one in criteria] == names.split()
    assert [(one.low, one.high) for one in criteria] == [(1, 5)] * 8 + [(0, 1)]


def test_an_own_file_is_an_instrument_and_its_version_is_what_raters_see(tmp_path: Path) -> None:
    file = tmp_path / "our_form.yaml"
    file.write_text(OWN)
    found = read_instrument(file)
    dose, tone = found.criteria
    assert (dose.low, dose.high, dose.higher_is_better, dose.anchors["0"]) == (0, 2, True, "No")
    assert (tone.low, tone.high, tone.higher_is_better) == (1, 5, False)
    file.write_text(OWN + "source: Our ward\n")
    assert read_instrument(file).digest == found.digest
    file.write_text(OWN.replace("each dose", "every dose"))
    assert read_instrument(file).digest != found.digest


MISTAKES = (
    (("title: Our form\n", ""), "title: missing. Add this key."),
    (("title:", "tittle:"), "line 3  tittle: unknown key. Did you mean `title`?"),
    (("form: grades", "form: grade"), "line 4  form: `grade` is not one of the possible values."),
    (("[0, 2]", "[2, 0]"), "scale: must be the lowest and the highest grade, such as [1, 5], is [2, 0]."),
    (("[0, 2]", "[0, 20]"), "scale: has 21 grades; a rater can use at most 11."),
    (("2: All", "3: All"), "line 9  criteria.dose.anchors.3: is not a grade from 0 to 2."),
    (('0: "No", ', ""), "criteria.dose.anchors: say in words what 0 means."),
    (("form: grades", "form: checks"), "criteria.tone.scale: a check is not met (0) or met (1). Remove this key."),
    (("form: grades", "form: preference"), "scale: must be the same on both sides, such as [-2, 2]"),
    (("  dose:", "  harm_severity:"), "criteria: `harm_severity` is asked by every study."),
    (("scale: [0, 2]", "criteria_from: rubric"), "criteria_from: cannot be combined with `criteria`."),
    (("    question: Is each dose right?\n", ""), "criteria.dose.question: missing."),
)  # fmt: skip
"""Change of the file, and what is then wrong with it."""


def test_mistakes_are_named_with_their_line_and_a_fix_and_all_at_once(tmp_path: Path) -> None:
    file = tmp_path / "form.yaml"
    for change, problem in MISTAKES:
        file.write_text(OWN.replace(*change))
        with pytest.raises(ConfigError) as raised:
            read_instrument(file)
        assert problem in str(raised.value)
    file.write_text(OWN.replace("title:", "tittle:").replace("[0, 2]", "[2, 0]").replace("5: Cold", "6: Cold"))
    with pytest.raises(ConfigError, match="has 5 problems"):
        read_instrument(file)


def test_unknown_instruments_are_refused() -> None:
    for name, problem in (
        ("rubrik", r"Did you mean `rubric`\?"),
        ("missing.yaml", "cannot be read"),
        ("a.txt", "ends in"),
    ):
        with pytest.raises(UserError, match=problem):
            read_instrument(name)


def test_the_rubric_of_a_benchmark_gives_criteria_in_its_own_words() -> None:
    aci_bench, _, healthbench = definitions()
    assert aci_bench.rubric
    graded = instrument_of(aci_bench, "rubric")
    assert [one.question for one in graded.criteria] == [one.description for one in aci_bench.rubric.criteria]
    assert graded.criteria[0].anchors == {"1": "Very poor", "5": "Excellent"}
    assert instrument_of(aci_bench, "rubric", extended=True).digest != graded.digest
    assert instrument_of(healthbench, "rubric").form is InstrumentForm.CHECKS
    assert instrument_of(healthbench, "rubric").instructions == read_instrument("healthbench").instructions
    with pytest.raises(UserError, match="its rubric has grades"):
        instrument_of(aci_bench, "healthbench")


def test_the_example_of_the_documentation_is_valid(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "rate_with_clinicians.md").read_text(encoding="utf-8")
    file = tmp_path / "our_form.yaml"
    file.write_text(page.split("```yaml\n")[1].split("```")[0])
    assert [one.name for one in read_instrument(file).criteria] == ["medication", "omission"]

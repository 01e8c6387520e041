"""The form of a case: what is read back is what was shown, and two windows lose nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.errors import UserError
from medhelm.extensions.study.instruments import CHECK_ANCHORS, HARM, RUBRIC, instrument_of, read_instrument
from medhelm.extensions.study.rating_form import (
    OTHER_REASON,
    form_values,
    mark_of,
    merged,
    questions,
    rater_forms,
    read_rating,
)
from medhelm.extensions.study.types import HARM_SEVERITY, CaseRating, InstrumentCriterion, InstrumentForm, MarkKind
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.possible_ratings import possible_ratings
from tests.support.rated_studies import make_study

CRITERIA = (*read_instrument("quest").criteria, *HARM)
NAMES = tuple(one.name for one in CRITERIA)
RATINGS = possible_ratings(CRITERIA, ("A text of a model, as it is shown. " * 2,) * 2)


def sent(values: Mapping[str, str | list[str]]) -> dict[str, list[str]]:
    """Return fields as a server reads them: without empty ones."""
    lists = {name: value if isinstance(value, list) else [value] for name, value in values.items()}
    return {name: [one for one in value if one] for name, value in lists.items() if any(value)}


@given(RATINGS)
def test_what_a_form_shows_is_read_back(rating: CaseRating) -> None:
    assert read_rating(sent(form_values(CRITERIA, rating)), CRITERIA) == rating
    for asked, criterion in zip(questions(CRITERIA, rating), CRITERIA, strict=True):
        assert asked.is_answered == (criterion.name in {*rating.grades, *rating.not_judged})
        chosen = [int(one.value) for one in asked.choices if one.is_chosen]
        assert chosen == [rating.grades[criterion.name] for _ in chosen]


@given(RATINGS, RATINGS, RATINGS)
def test_two_windows_are_joined_answer_by_answer(base: CaseRating, mine: CaseRating, newest: CaseRating) -> None:
    joined = merged(base, mine, newest)

    def answer(rating: CaseRating, name: str) -> tuple[int | None, str | None]:
        return rating.grades.get(name), rating.not_judged.get(name)

    for name in NAMES:
        is_mine = answer(mine, name) != answer(base, name)
        assert answer(joined, name) == answer(mine if is_mine else newest, name)
    assert joined.comment == (newest.comment if mine.comment == base.comment else mine.comment)
    assert {*joined.marks} == ({*newest.marks} - ({*base.marks} - {*mine.marks})) | ({*mine.marks} - {*base.marks})
    assert replace(merged(base, mine, base), marks=()) == replace(mine, marks=())


GRADES, CHECKS, PREFERENCE = InstrumentForm
SIDES = {"-1": "Left", "0": "Tie", "1": "Right"}
SCALES: tuple[tuple[InstrumentForm, int, int, dict[str, str], list[str], list[str]], ...] = (
    (GRADES, -1, 3, {}, ["-1", "0", "1", "2", "3"], ["", "0", "1", "2", "3"]),
    (GRADES, 0, 2, {"0": "No", "1": "Partly", "2": "Yes"}, ["No", "Partly", "Yes"], list("123")),
    (GRADES, 0, 1, {"0": "No", "1": "Yes, " * 9}, ["0", "1"], ["0", "1"]),
    (CHECKS, 0, 1, CHECK_ANCHORS, ["Met", "Not met"], ["1", "2"]),
    (GRADES, 1, 10, {}, [str(n) for n in range(1, 11)], [*"123456789", ""]),
    (PREFERENCE, -1, 1, SIDES, list(SIDES.values()), list("123")),
)
"""Form, ends of the scale, meanings, labels and keys."""


def test_choices_have_words_where_all_are_short_and_the_digit_that_is_shown() -> None:
    for form, low, high, anchors, labels, keys in SCALES:
        criterion = InstrumentCriterion(name="a", question="How good?", low=low, high=high, anchors=anchors)
        (asked,) = questions([criterion], CaseRating(), form)
        assert [(one.label, one.key) for one in asked.choices] == list(zip(labels, keys, strict=True))


def test_the_likelihood_of_no_harm_is_neither_asked_nor_kept() -> None:
    fields = {"grade-6": ["0"], "grade-7": ["3"]}
    rating = read_rating(fields, CRITERIA)
    assert rating.grades == {HARM_SEVERITY: 0}
    assert [one.is_asked for one in questions(CRITERIA, rating)] == [True] * 6 + [False]


def test_what_no_page_sends_is_refused() -> None:
    for fields, message in (
        ({"grade-1": ["6"]}, "6 is not a grade from 1 to 5"),
        ({"grade-1": ["1.0"]}, "not a grade"),
        ({"grade-1": ["４"]}, "not a grade"),
        ({"mark": ["1-2-typo-0"]}, "cannot be read"),
        ({"mark": ["1-2-error-2"]}, "cannot be read"),
    ):
        with pytest.raises(UserError, match=message):
            read_rating(fields, CRITERIA)
    for value, seconds in (("12.5", 12.5), ("-3", 0), ("nan", 0), ("1e99", 1e99), ("soon", 0), ("", 0)):
        assert read_rating({"seconds": [value]}, CRITERIA).seconds == seconds
    reason_without_words = {"grade-1": ["none"], "reason-1": [OTHER_REASON]}
    assert read_rating(reason_without_words, CRITERIA) == CaseRating(), "it is no answer yet"


def test_a_typed_passage_is_found_whatever_its_spaces() -> None:
    for passage, kind, found in (
        ("two  tablets", MarkKind.ERROR, (5, 16)),
        ("TWO\ntablets.", MarkKind.INVENTED, (5, 17)),
        ("tablets", MarkKind.OMISSION, (16, 16)),
        ("(.*)", MarkKind.ERROR, None),
        ("three tablets", MarkKind.ERROR, None),
        (" ", MarkKind.ERROR, None),
    ):
        mark = mark_of("Take two\ntablets.", passage, kind, 1)
        assert (mark and (mark.start, mark.end, mark.kind, mark.side)) == (found and (*found, kind, 1))


def test_raters_read_for_which_cases_a_form_is_and_common_questions_once() -> None:
    definitions = {one.name: one for one in load_benchmarks(["aci_bench", "medication_qa"], metrics=METRIC_NAMES)}
    study = make_study({"rater_1": ["0-1"]}, asks_harm=True)
    rubrics = {name: instrument_of(one, RUBRIC) for name, one in definitions.items()}
    cases = {1: "aci_bench", 2: "medication_qa", 3: "aci_bench", 4: "aci_bench", 5: "aci_bench"}
    common, notes, medicines = rater_forms(replace(study, instruments=rubrics), cases, definitions)
    assert (common.title, common.instructions) == ("All cases", read_instrument(RUBRIC).instructions)
    assert [one.text for one in common.questions] == [one.question for one in HARM]
    assert (notes.title, notes.instructions, medicines.title) == ("ACI-Bench", "", "MedicationQA")
    assert notes.about == f"Cases 1 and 3 to 5. The task: {definitions['aci_bench'].description}"
    assert [one.text for one in notes.questions] == [one.question for one in rubrics["aci_bench"].criteria]
    (alone,) = rater_forms(replace(study, instruments=rubrics), {1: "aci_bench"}, definitions)
    assert (alone.title, alone.about, alone.instructions) == ("Questions", "", common.instructions)
    (quest,) = rater_forms(replace(study, instruments=dict.fromkeys(rubrics, read_instrument("quest"))), cases, {})
    assert quest.title == read_instrument("quest").title and quest.source

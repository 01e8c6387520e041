"""The close of a study: what it refuses, what it freezes, and the outcome against independent computations."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pytest

from medhelm.errors import StoreFullError, UserError
from medhelm.extensions.study import outcome
from medhelm.extensions.study.journal import (
    Event,
    EventKind,
    append_event,
    cases_of,
    events,
    now,
    rater_file,
    ratings_of,
    read_study,
    record,
    write_study,
)
from medhelm.extensions.study.outcome import (
    POINTS,
    PURGED_REASON,
    close_study,
    outcome_of,
    purge_studies,
    send_to_adjudication,
    withdraw,
)
from medhelm.extensions.study.progress import StudyState, progress
from medhelm.extensions.study.types import (
    HARM_LIKELIHOOD,
    HARM_SEVERITY,
    Assignment,
    CaseKind,
    CaseRating,
    InstrumentForm,
    MarkedPassage,
    MarkKind,
    RatingRow,
    Study,
)
from medhelm.storage.ratings import damaged_ratings, freeze_ratings, stored_ratings
from medhelm.storage.store import Store
from tests.support import rated_studies
from tests.support.rated_studies import CRITERIA, grade, make_instrument, make_study, new_store, rate_all, shown_texts

SHARED = [f"{place % 2}-{place}" for place in range(24)]
STUDY = make_study(
    {"rater_1": ["0-c", *SHARED, "0-s1", SHARED[0]], "rater_2": ["0-c", *SHARED, "1-s2"], "rater_3": ["0-c"]},
    adjudicator="rater_3",
    kinds={"0-c": CaseKind.CALIBRATION},
)


pytestmark = pytest.mark.usefixtures("same_texts")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path / "store", STUDY)


def given_grade(rater: str, case: Assignment) -> int:
    """Return a grade that depends on the rater and the case, and for a repeat is another one."""
    seed = f"{rater} {' '.join(case.items)} {case.kind}" if case.kind is CaseKind.REPEATED else f"{rater} {case.items}"
    return hashlib.sha256(seed.encode()).digest()[0] % 3 + 2


def rate(store: Store, study: Study, **changes: Any) -> None:
    rate_all(store, study, lambda rater, case: grade(given_grade(rater, case), **changes))


# --- the close --------------------------------------------------------------------------------------------------------


def test_a_study_with_missing_ratings_is_closed_only_as_incomplete(store: Store) -> None:
    with pytest.raises(UserError, match="has no complete rating"):
        close_study(store, STUDY, "owner", incomplete=True)
    for number in range(1, 4):
        record(store, STUDY, "rater_1", number, grade(number))
    with pytest.raises(UserError, match=r"51 cases .* are not rated \(rater_1 24, rater_2 26, rater_3 1\)"):
        close_study(store, STUDY, "owner")
    withdraw(store, STUDY, "rater_2", "owner")
    with pytest.raises(
        UserError, match=r"25 cases .* \(rater_1 24, rater_3 1\)\. 25 cases of raters who left were not"
    ):
        close_study(store, STUDY, "owner")
    assert [one.kind for one in events(store, "ward")] == [EventKind.WITHDRAWN]
    found = close_study(store, STUDY, "owner", incomplete=True)
    assert (found.n_ratings, found.n_missing) == (3, 50)
    assert "The study was closed while 50 ratings were missing." in found.deviations
    assert progress(store, STUDY).state is StudyState.CLOSED


def test_results_by_model_appear_with_the_close_and_stay(store: Store) -> None:
    rate(store, STUDY)
    with pytest.raises(UserError, match="shown after the close alone"):
        outcome_of(store, STUDY)
    first = close_study(store, STUDY, "Ann")
    for refused in (
        lambda: record(store, STUDY, "rater_1", 1, grade(1)),
        lambda: withdraw(store, STUDY, "rater_1", "Ann"),
        lambda: send_to_adjudication(store, STUDY, "0-0", "Ann"),
    ):
        with pytest.raises(UserError, match="is closed"):
            refused()
    append_event(store, "ward", Event(time=now(), by="", kind=EventKind.LINK_REFUSED))
    assert close_study(store, STUDY, "Ben", revision=99) == first == outcome_of(store, STUDY)
    assert (first.closed_by, first.n_ratings, first.n_missing, first.deviations) == ("Ann", 54, 0, ())
    assert first.ratings == ("ward",)
    with rater_file(store, "ward", "rater_1").open("a", encoding="utf-8") as lines:
        lines.write("\n{}\n")
    assert any("were changed after the close" in text for text in outcome_of(store, STUDY).deviations)


@pytest.mark.parametrize("place", ["before", "after"])
def test_an_interrupted_close_is_finished(store: Store, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    rate(store, STUDY)

    def fail(*_: object) -> None:
        raise StoreFullError("The disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr(
            outcome, "freeze_ratings", fail if place == "before" else lambda *given: fail(freeze_ratings(*given))
        )
        with pytest.raises(StoreFullError):
            close_study(store, STUDY, "owner")
    found = close_study(store, STUDY, "owner")
    assert found.digest
    assert [one.card.name for one in stored_ratings(store)] == ["ward"]
    kinds = [one.kind for one in events(store, "ward")]
    assert kinds == [EventKind.CLOSED, EventKind.FROZEN]


# --- frozen ratings ---------------------------------------------------------------------------------------------------


def test_one_row_for_each_rater_and_completion_is_frozen(store: Store) -> None:
    rate(store, STUDY)
    record(store, STUDY, "rater_1", 2, CaseRating(grades={"accurate": 5}, not_judged={"clear": "Greek."}))
    closed = close_study(store, STUDY, "owner")
    (frozen,) = stored_ratings(store)
    assert damaged_ratings(store) == []
    expected = {
        (rater.id, study_item.instance_id, study_item.model): given_grade(rater.id, case)
        for rater in STUDY.raters
        for case in STUDY.assignments[rater.id]
        for study_item in [STUDY.item(case.items[0])]
        if case.kind in (CaseKind.SHARED, CaseKind.SINGLE)
    }
    found = {(row.rater, row.instance_id, row.model): dict(row.grades) for row in frozen.rows}
    assert found.pop(("rater_1", "q0", "openai/m")) == {"accurate": 5.0, "clear": None}
    del expected["rater_1", "q0", "openai/m"]
    assert found == {key: {"accurate": value, "clear": value} for key, value in expected.items()}
    assert {(row.benchmark, row.probability, row.completion_sha256) for row in frozen.rows} == {
        ("letters", 0.5, "2" * 64)
    }
    card = frozen.card
    design = card.design
    assert (card.title, design.n_shared, design.n_repeated, card.instrument.is_rubric) == ("Ward", 24, 1, False)
    assert {one.id: one.n_ratings for one in card.raters} == {"rater_1": 25, "rater_2": 25}
    assert closed.digest in " ".join(card.blinding)
    scales = {name: (one.low, one.high) for name, one in card.instrument.criteria.items()}
    assert scales == {"accurate": (1, 5), "clear": (1, 5)}


def test_the_card_says_what_may_have_told_the_model(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "No completion names its model" in " ".join(outcome.blinding(store, STUDY))
    monkeypatch.setattr(rated_studies, "COMPLETION", "As an AI language model, I advise rest.")
    sentence = f"In {len(STUDY.items)} of {len(STUDY.items)} completions a passage may give the model away"
    assert sentence in " ".join(outcome.blinding(store, STUDY))


def test_an_adjudicator_counts_as_one_more_rater_and_not_for_agreement(store: Store) -> None:
    rate_all(store, STUDY, lambda rater, case: grade(5 if (rater, case.items) == ("rater_2", ("0-0",)) else 2))
    send_to_adjudication(store, STUDY, "0-0", "owner")
    with pytest.raises(UserError, match=r"\(rater_3 1\)"):
        close_study(store, STUDY, "owner")
    number = cases_of(store, STUDY, "rater_3")[-1].number
    for value in (3, 4):  # changed after seeing the others
        record(store, STUDY, "rater_3", number, grade(value))
    found = close_study(store, STUDY, "owner")
    (frozen,) = stored_ratings(store)
    grades = {row.rater: row.grades["clear"] for row in frozen.rows if row.instance_id == "q0"}
    assert grades == {"rater_1": 2, "rater_2": 5, "rater_3": 4}
    assert found.n_adjudicated == 1
    agreement = {one.criterion: one for one in found.agreement}["clear"]
    assert (agreement.n, agreement.n_raters) == (25, 3)
    assert agreement.same is not None
    assert agreement.same.value == pytest.approx(24 / 25)


def test_a_calibration_case_stays_out_of_means_when_it_is_adjudicated(tmp_path: Path) -> None:
    plan = {"rater_1": ["0-c", "0-1"], "rater_2": ["0-c", "0-2"], "rater_3": []}
    study = make_study(plan, adjudicator="rater_3", kinds={"0-c": CaseKind.CALIBRATION})
    store = new_store(tmp_path / "store", study)
    rate_all(store, study, lambda rater, case: grade(5 if (rater, case.items) == ("rater_2", ("0-c",)) else 2))
    send_to_adjudication(store, study, "0-c", "owner")
    record(store, study, "rater_3", 1, grade(4))
    assert {one.mean.value for one in close_study(store, study, "owner").means if one.criterion == "clear"} == {2}
    (frozen,) = stored_ratings(store)
    assert [row.rater for row in frozen.rows] == ["rater_1", "rater_2"]


def test_benchmarks_with_other_criteria_are_frozen_apart(tmp_path: Path) -> None:
    other = replace(make_instrument(), criteria=CRITERIA[:1])
    study = make_study({"rater_1": ["0-1", "0-2"]})
    items = tuple(replace(one, benchmark="notes") if one.id == "0-2" else one for one in study.items)
    study = replace(study, items=items, instruments={"letters": make_instrument(), "notes": other})
    store = new_store(tmp_path / "store", study)
    record(store, study, "rater_1", 1, grade(3))
    record(store, study, "rater_1", 2, CaseRating(grades={"accurate": 4}))
    assert close_study(store, study, "owner").ratings == ("ward-letters", "ward-notes")
    assert {one.card.name: list(one.card.instrument.criteria) for one in stored_ratings(store)} == {
        "ward-letters": ["accurate", "clear"],
        "ward-notes": ["accurate"],
    }


def test_completions_that_are_gone_do_not_count(store: Store) -> None:
    rate(store, STUDY)
    with shown_texts(gone=lambda item: item == "0-0"):
        found = close_study(store, STUDY, "owner")
    (frozen,) = stored_ratings(store)
    assert "q0" not in {row.instance_id for row in frozen.rows}
    assert any("deleted or generated anew" in text for text in found.deviations)


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_means_equal_a_naive_computation(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    probabilities = {item.id: float(rng.choice([0.25, 0.5, 1.0])) for item in STUDY.items}
    study = replace(STUDY, items=tuple(replace(one, probability=probabilities[one.id]) for one in STUDY.items))
    store = new_store(tmp_path / "store", study)
    grades: dict[str, dict[str, float]] = {}

    def give(rater: str, case: Assignment) -> CaseRating:
        one, two = (int(value) for value in rng.integers(1, 6, 2))
        if case.kind in (CaseKind.SHARED, CaseKind.SINGLE):
            grades.setdefault(case.items[0], {})[rater] = (one + two) / 2
        return CaseRating(grades={"accurate": one, "clear": two})

    rate_all(store, study, give)
    found = close_study(store, study, "owner").means
    assert [one.criterion for one in found] == ["", "", "accurate", "accurate", "clear", "clear"]
    for one in found[:2]:
        own = [item for item in grades if study.item(item).model == one.model]
        weights = np.array([1 / probabilities[item] for item in own])
        values = np.array([np.mean(list(grades[item].values())) for item in own])
        mean = float(weights @ values / weights.sum())
        residuals = weights * (values - mean) / weights.sum()
        assert one.mean.value == pytest.approx(mean)
        assert (one.mean.n, set(one.mean.raters)) == (len(own), {"rater_1", "rater_2"})
        assert one.mean.low is not None and one.mean.high is not None
        half = (one.mean.high - one.mean.low) / 2
        assert half == pytest.approx(2.2 * np.sqrt(residuals @ residuals), rel=0.2)  # Student's t, few instances
    assert found[0].mean.value > found[1].mean.value


def test_harm_marks_and_notes_are_counted_by_model(tmp_path: Path) -> None:
    study = make_study({"rater_1": ["0-1", "0-2", "1-3"], "rater_2": ["0-1"]}, asks_harm=True)
    store = new_store(tmp_path / "store", study)
    mark = MarkedPassage(start=0, end=4, kind=MarkKind.INVENTED)
    harms = {"0-1": (3, 2), "0-2": (2, 1), "1-3": (0, None)}

    def give(rater: str, case: Assignment) -> CaseRating:
        severity, likelihood = harms[case.items[0]]
        likely = {} if likelihood is None else {HARM_LIKELIHOOD: likelihood}
        is_first = (rater, case.number) == ("rater_1", 1)
        return CaseRating(
            grades={"accurate": 3, HARM_SEVERITY: severity, **likely} | ({} if is_first else {"clear": 3}),
            not_judged={"clear": "It is about eyes."} if is_first else {},
            comment="Dose!" if is_first else "",
            marks=(mark, mark) if is_first else (),
        )

    rate_all(store, study, give)
    found = close_study(store, study, "owner")
    assert [(one.model, one.n, one.severity, one.n_likely) for one in found.harm] == [
        ("openai/m", 3, (0, 0, 1, 2), 2),
        ("openai/other", 1, (1, 0, 0, 0), 0),
    ]
    assert found.harm[0].serious is not None and found.harm[0].serious.value == 1
    assert [(one.model, one.n, one.marks["invented"]) for one in found.marks] == [
        ("openai/m", 3, 2),
        ("openai/other", 1, 0),
    ]
    assert found.marks[0].not_judged == pytest.approx(1 / 12)
    (note,) = found.notes
    assert (note.instance_id, note.models, note.comment, note.n_marks) == ("q1", ("openai/m",), "Dose!", 2)
    assert {one.criterion: one.mean.value for one in found.means if one.model == "openai/m"}[
        HARM_SEVERITY
    ] == pytest.approx((3 + 2) / 2)
    assert "Dose" not in (store.folder / "ratings" / "ward" / "ratings.csv").read_text(encoding="utf-8")


def test_checks_count_as_the_share_of_points(tmp_path: Path) -> None:
    study = make_study({"rater_1": ["0-1", "1-1"]}, form=InstrumentForm.CHECKS)
    store = new_store(tmp_path / "store", study)
    for number, (dose, drug) in enumerate([(1, 1), (0, 1)], 1):
        record(store, study, "rater_1", number, CaseRating(grades={"names_dose": dose, "invents_drug": drug}))
    with shown_texts(gone=lambda item: item == "1-1"):  # its criteria are unknown then
        assert (progress(store, study).raters[0].n_complete, progress(store, study).n_complete) == (1, 1)
    found = close_study(store, study, "owner")
    with shown_texts(gone=lambda item: item == "1-1"):
        later = outcome_of(store, study)
        assert (later.n_ratings, [one.model for one in later.means]) == (2, ["openai/m"])
    (frozen,) = stored_ratings(store)
    assert {row.model: row.grades[POINTS] for row in frozen.rows} == {
        "openai/m": pytest.approx((5 - 3) / 5),
        "openai/other": pytest.approx(-3 / 5),
    }
    assert frozen.card.instrument.criteria[POINTS].low == pytest.approx(-3 / 5)
    assert [one.mean.value for one in found.means] == [pytest.approx(2 / 5), pytest.approx(-3 / 5)]


def test_preferences_have_shares_and_no_frozen_ratings(tmp_path: Path) -> None:
    pairs = [(f"0-{place}", f"1-{place}") for place in range(12)]
    study = make_study(
        {"rater_1": pairs, "rater_2": [(two, one) for one, two in pairs]}, form=InstrumentForm.PREFERENCE
    )
    store = new_store(tmp_path / "store", study)

    def give(rater: str, case: Assignment) -> CaseRating:
        better = 0 if case.number % 4 else 1  # the first model wins three of four, for both raters
        side = case.items.index(f"{better}-{case.items[0][2:]}")
        return CaseRating(grades={"preference": 2 if side else -1})

    rate_all(store, study, give)
    found = close_study(store, study, "owner")
    assert (found.means, found.ratings, stored_ratings(store)) == ((), (), [])
    assert found.preference is not None
    assert [one.model for one in found.preference.shares] == ["openai/m", "openai/other"]
    assert found.preference.shares[0].value == pytest.approx(0.75, abs=0.03)
    assert found.preference.left is not None and found.preference.left.value == 0.5
    agreement = found.agreement[0]
    assert (agreement.n, agreement.same and agreement.same.value) == (12, 1.0)


# --- purges -----------------------------------------------------------------------------------------------------------


def test_a_purge_deletes_words_and_keeps_counts(store: Store) -> None:
    mark = MarkedPassage(start=0, end=4, kind=MarkKind.ERROR)
    told = CaseRating(grades={"accurate": 3, "clear": 1}, comment="Mrs. Example", marks=(mark,))
    for rater in ("rater_1", "rater_2"):
        for number in (2, 3):
            record(store, STUDY, rater, number, CaseRating(grades={"accurate": 2}, not_judged={"clear": "See Example"}))
            record(store, STUDY, rater, number, told)
    with rater_file(store, "ward", "rater_2").open("a", encoding="utf-8") as torn:
        torn.write("torn: Mrs. Example\n")
    before = progress(store, STUDY)
    assert purge_studies(store, "other", None) == 0
    assert purge_studies(store, "letters", ["q0"]) == 4
    assert purge_studies(store, "letters", ["q0"]) == 0
    study = read_study(store, "ward")
    rows: list[RatingRow] = [ratings_of(store, study, rater)[2] for rater in ("rater_1", "rater_2")]
    assert {(row.rating.comment, row.rating.marks, tuple(row.rating.grades.values())) for row in rows} == {
        ("", (), (3, 1))
    }
    assert ratings_of(store, study, "rater_1")[3].rating.comment == "Mrs. Example"
    assert {item.instance_id for item in study.items if item.id == "0-0"} == {"deleted-0-0"}
    files = [path.read_text(encoding="utf-8") for path in (store.folder / "studies").rglob("*.json*")]
    assert sum(text.count("Mrs. Example") for text in files) == 2  # those of the other case
    assert sum(text.count(PURGED_REASON) for text in files) == 2
    assert not any('"q0"' in text for text in files)
    assert progress(store, study).n_complete == before.n_complete
    first = close_study(store, study, "owner", incomplete=True)
    assert purge_studies(store, "letters", None) == 4
    texts = (path.read_text(encoding="utf-8") for path in (store.folder / "studies").rglob("*.json*"))
    assert not any("Example" in text for text in texts)
    later = outcome_of(store, read_study(store, "ward"))
    assert (later.digest, later.n_ratings, later.agreement) == (first.digest, first.n_ratings, first.agreement)
    n_items = len(STUDY.items)
    assert later.deviations[-1] == f"The texts of {n_items} completions were deleted from the store and from the study."


def test_a_new_study_cannot_take_the_name_of_frozen_ratings(tmp_path: Path) -> None:
    study = make_study({"rater_1": ["0-1"]})
    store = new_store(tmp_path / "store", study)
    record(store, study, "rater_1", 1, grade(3))
    close_study(store, study, "owner")
    rmtree(store.folder / "studies")
    with pytest.raises(UserError, match="has ratings of a study `ward`"):
        write_study(store, study)

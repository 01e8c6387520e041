"""What an owner sees while people rate, and the owner's decisions."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from medhelm.errors import UserError
from medhelm.extensions.study import journal, texts
from medhelm.extensions.study import progress as progress_module
from medhelm.extensions.study.journal import Event, EventKind, append_event, cases_of, events, now, rater_file, record
from medhelm.extensions.study.outcome import close_study, reassign, send_to_adjudication, withdraw
from medhelm.extensions.study.progress import CaseState, RaterProgress, StudyState, progress
from medhelm.extensions.study.types import Assignment, CaseKind, CaseRating, InstrumentForm, RatingSource, Study
from medhelm.storage.store import Store
from tests.support.rated_studies import grade, make_study, new_store, rate_all, shown_texts

SHARED = [f"{place % 2}-{place}" for place in range(12)]
STUDY = make_study(
    {
        "rater_1": ["0-c", *SHARED, "0-s1", "1-s2", SHARED[0]],
        "rater_2": ["0-c", *SHARED, "0-s3", "1-s4"],
        "rater_3": ["0-c", "0-s5"],
    },
    adjudicator="rater_3",
    kinds={"0-c": CaseKind.CALIBRATION},
)


pytestmark = pytest.mark.usefixtures("same_texts")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path / "store", STUDY)


def of(store: Store, study: Study, rater: str) -> RaterProgress:
    return next(one for one in progress(store, study).raters if one.rater == rater)


def states(store: Store, study: Study) -> dict[str, CaseState]:
    return {" ".join(items): state for items, state in progress(store, study).cases.items()}


# --- progress ---------------------------------------------------------------------------------------------------------


def test_a_study_that_nobody_has_begun(store: Store) -> None:
    found = progress(store, STUDY)
    assert (found.state, found.revision, found.n_cases, found.n_complete) == (StudyState.PLANNED, 0, 33, 0)
    assert {one.n for one in found.agreement} <= {0}
    assert (found.disagreements, found.unassigned, found.deviations) == ((), (), ())
    one = found.raters[0]
    assert (one.n_cases, one.n_complete, one.n_left, one.median_seconds, one.same_grade) == (16, 0, 16, None, None)


def test_progress_counts_cases_times_and_answers(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_possible_seconds", lambda *given: given[-1].seconds)
    for number in range(1, 11):
        record(store, STUDY, "rater_1", number, grade(3, seconds=900.0 if number == 4 else 30.0 + number))
    record(store, STUDY, "rater_1", 10, grade(3, seconds=5.0))  # looked at again
    record(store, STUDY, "rater_1", 11, CaseRating(grades={"clear": 3}, seconds=2.0))
    record(store, STUDY, "rater_1", 12, CaseRating(grades={"clear": 3}, not_judged={"accurate": "It is about eyes."}))
    one = of(store, STUDY, "rater_1")
    assert (one.n_cases, one.n_complete, one.n_left) == (16, 11, 5)
    assert one.median_seconds == pytest.approx(np.median([31, 32, 33, 900, 35, 36, 37, 38, 39, 45]))
    assert dict(one.unusual_times) == {4: 900.0}
    assert one.not_judged == pytest.approx(1 / (2 * 10 + 1 + 2))
    assert (one.same_grade, one.has_left) == (3, False)
    record(store, STUDY, "rater_1", 1, grade(4))
    assert of(store, STUDY, "rater_1").same_grade is None
    record(store, STUDY, "rater_2", 1, grade(3, source=RatingSource.WORKBOOK))
    assert of(store, STUDY, "rater_2").median_seconds is None


def test_repeats_are_compared_with_the_first_rating(store: Store) -> None:
    record(store, STUDY, "rater_1", 2, grade(3))
    assert of(store, STUDY, "rater_1").repeats.near is None
    record(store, STUDY, "rater_1", 16, CaseRating(grades={"accurate": 3, "clear": 5}))
    found = of(store, STUDY, "rater_1").repeats
    assert found.near is not None
    assert (found.n, found.near.value) == (1, 0.5)


def test_agreement_is_about_first_ratings_of_shared_cases(store: Store) -> None:
    def give(rater: str, case: Assignment) -> CaseRating:
        place = int(case.items[0].rpartition("-")[2]) if case.items[0] in SHARED else 0
        value = 1 if case.kind is CaseKind.REPEATED else place % 5 + 1
        return grade(value if rater == "rater_1" else min(value + place % 2, 5))

    rate_all(store, STUDY, give)
    found = {one.criterion: one for one in progress(store, STUDY).agreement}
    assert list(found) == ["", "accurate", "clear"]
    first = [place % 5 + 1 for place in range(12)]
    second = [min(value + place % 2, 5) for place, value in enumerate(first)]
    for one in found.values():
        assert (one.n, one.n_raters) == (13, 3)  # twelve shared ones, and the calibration case of all
        assert one.same is not None
        assert one.same.value == pytest.approx((sum(map(int.__eq__, first, second)) + 1) / 13)
    assert found[""].level == "interval"
    assert progress(store, STUDY).n_complete == 33
    assert set(states(store, STUDY).values()) == {CaseState.RATED}


def test_cases_and_disagreements(store: Store) -> None:
    record(store, STUDY, "rater_1", 2, grade(2))
    assert states(store, STUDY)["0-0"] is CaseState.PARTLY_RATED
    record(store, STUDY, "rater_2", 2, CaseRating(grades={"accurate": 3, "clear": 4}))
    record(store, STUDY, "rater_1", 3, grade(2))
    record(store, STUDY, "rater_2", 3, grade(3))
    found = progress(store, STUDY)
    assert [(one.items, one.state, one.adjudicator) for one in found.disagreements] == [
        (("0-0",), CaseState.DIFFERS, "")
    ]
    assert found.disagreements[0].grades == {"clear": {"rater_1": 2, "rater_2": 4}}
    assert states(store, STUDY)["1-1"] is CaseState.RATED
    assert states(store, STUDY)["0-2"] is CaseState.OPEN
    with shown_texts(gone=lambda item: item == "0-0"):
        assert states(store, STUDY)["0-0"] is CaseState.REMOVED
        later = progress(store, STUDY)
        assert later.disagreements == ()
        assert later.n_cases == 33 - 3
        assert any("deleted or generated anew" in text for text in later.deviations)


def test_what_counts_as_a_difference(tmp_path: Path) -> None:
    same, harm = {"names_dose": 1, "invents_drug": 0}, {"accurate": 3, "clear": 3, "harm_likelihood": 1}
    for place, (form, first, second, differ) in enumerate((
        (InstrumentForm.PREFERENCE, {"preference": -1}, {"preference": 1}, []),  # the sides are the other way round
        (InstrumentForm.PREFERENCE, {"preference": -1}, {"preference": -1}, ["preference"]),
        (InstrumentForm.PREFERENCE, {"preference": 2}, {"preference": 0}, []),
        (InstrumentForm.CHECKS, same, {"names_dose": 0, "invents_drug": 0}, ["names_dose"]),
        (InstrumentForm.CHECKS, same, same, []),
        (InstrumentForm.GRADES, {**harm, "harm_severity": 0}, {**harm, "harm_severity": 2}, ["harm_severity"]),
    )):  # fmt: skip
        is_pair = form is InstrumentForm.PREFERENCE
        own = ([("0-1", "1-1")], [("1-1", "0-1")]) if is_pair else (["0-1"], ["0-1"])
        study = make_study(dict(zip(("rater_1", "rater_2"), own, strict=True)), form=form)
        study = replace(study, asks_harm="harm_severity" in first)
        store = new_store(tmp_path / f"store-{place}", study)
        for rater, grades in (("rater_1", first), ("rater_2", second)):
            record(store, study, rater, 1, CaseRating(grades=grades))
        assert [name for one in progress(store, study).disagreements for name in one.grades] == differ


def test_nothing_by_model_is_told_before_the_close(store: Store) -> None:
    rate_all(store, STUDY, lambda rater, case: grade(len(case.items[0]) + (rater == "rater_1")))
    found = progress(store, STUDY)
    told = repr([getattr(found, one.name) for one in fields(found) if one.name != "study"])
    assert all(model not in told for model in STUDY.models)


def test_deviations_name_what_was_not_as_planned(store: Store) -> None:
    record(store, STUDY, "rater_1", 2, grade(1))
    record(store, STUDY, "rater_2", 2, grade(5))
    send_to_adjudication(store, STUDY, "0-0", "owner")
    record(store, STUDY, "rater_2", 2, grade(4))
    append_event(store, "ward", Event(time=now(), by="", kind=EventKind.LINK_REFUSED))
    file = rater_file(store, "ward", "rater_1")
    line = json.loads(file.read_text(encoding="utf-8"))
    line |= {"time": "2020-01-01T00:00:00+00:00", "revision": 2}
    with file.open("a", encoding="utf-8") as lines:
        lines.write(f"{json.dumps(line)}\nno JSON\n")
    withdraw(store, STUDY, "rater_2", "owner", "Ms. Example is ill")
    reassign(store, STUDY, "owner")
    found = progress(store, STUDY).deviations
    for words in (
        "rater_2 left the study on 20",
        "1 rating counts.",
        "were given to others.",
        "A personal link was refused once",
        "1 rating was changed after the case had gone to adjudication",
        "The clock went back once while rater_1 was rating.",
        "1 line of the study's files cannot be read, and is left out.",
    ):
        assert sum(words in text for text in found) == 1, (words, found)
    assert not any("Example" in text for text in found)


def test_a_changed_rubric_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    instrument = replace(STUDY.instruments["letters"], name="rubric")
    study = replace(STUDY, instruments={"letters": instrument})
    for digest, n in ((instrument.digest, 0), ("3" * 64, 1)):
        monkeypatch.setattr(texts, "known_definition", lambda *_: object())
        now_there = replace(instrument, digest=digest)
        monkeypatch.setattr(progress_module, "instrument_of", lambda *_, found=now_there, **__: found)
        assert sum("The rubric of letters was changed" in text for text in progress(store, study).deviations) == n


# --- decisions --------------------------------------------------------------------------------------------------------


def differ(store: Store) -> None:
    record(store, STUDY, "rater_1", 2, grade(1))
    record(store, STUDY, "rater_2", 2, grade(5))


def test_a_case_goes_to_the_adjudicator_once(store: Store) -> None:
    with pytest.raises(UserError, match="this one is open"):
        send_to_adjudication(store, STUDY, "0-0", "owner")
    differ(store)
    sent = send_to_adjudication(store, STUDY, "0-0", "owner")
    assert (sent.rater, sent.item, sent.by) == ("rater_3", "0-0", "owner")
    assert states(store, STUDY)["0-0"] is CaseState.IN_ADJUDICATION
    with pytest.raises(UserError, match="this one is in adjudication"):
        send_to_adjudication(store, STUDY, "0-0", "owner")
    with pytest.raises(UserError, match="this one is unknown"):
        send_to_adjudication(store, STUDY, "9-9", "owner")
    number = cases_of(store, STUDY, "rater_3")[-1].number
    record(store, STUDY, "rater_3", number, grade(3))
    found = progress(store, STUDY)
    assert [(one.state, one.adjudicator) for one in found.disagreements] == [(CaseState.ADJUDICATED, "rater_3")]
    assert {one.n for one in found.agreement} == {1}
    assert {one.n_raters for one in found.agreement} == {2}


def test_a_case_that_the_adjudicator_does_not_decide_can_go_to_another(tmp_path: Path) -> None:
    study = make_study({"rater_1": ["0-1"], "rater_2": ["0-1"], "rater_3": [], "rater_4": [], "rater_5": []})
    store = new_store(tmp_path / "store", study)
    for rater, given in (("rater_1", 1), ("rater_2", 5)):
        record(store, study, rater, 1, grade(given))
    first = send_to_adjudication(store, study, "0-1", "owner").rater
    unsure = CaseRating(not_judged=dict.fromkeys(["accurate", "clear"], "Not my specialty"))
    record(store, study, first, 1, unsure)
    (one,) = progress(store, study).disagreements
    assert (one.state, one.adjudicator) == (CaseState.UNDECIDED, first)
    second = send_to_adjudication(store, study, "0-1", "owner").rater
    assert states(store, study)["0-1"] is CaseState.IN_ADJUDICATION
    withdraw(store, study, second, "owner")
    assert states(store, study)["0-1"] is CaseState.UNDECIDED
    third = send_to_adjudication(store, study, "0-1", "owner").rater
    record(store, study, third, 1, grade(3))
    (one,) = progress(store, study).disagreements
    assert (one.state, one.adjudicator, len({first, second, third})) == (CaseState.ADJUDICATED, third, 3)


def test_without_a_free_rater_nobody_adjudicates(tmp_path: Path) -> None:
    study = make_study({"rater_1": ["0-1"], "rater_2": ["0-1"]}, adjudicator="rater_1")
    store = new_store(tmp_path / "store", study)
    for rater, given in (("rater_1", 1), ("rater_2", 5)):
        record(store, study, rater, 1, grade(given))
    with pytest.raises(UserError, match="Another rater would be needed"):
        send_to_adjudication(store, study, "0-1", "owner")


def test_adjudications_are_spread_over_raters(tmp_path: Path) -> None:
    items = [f"0-{place}" for place in range(6)]
    study = make_study({"rater_1": items, "rater_2": items, "rater_3": [], "rater_4": []})
    store = new_store(tmp_path / "store", study)
    rate_all(store, study, lambda rater, _: grade(1 if rater == "rater_1" else 5))
    given = [send_to_adjudication(store, study, item, "owner").rater for item in items]
    assert sorted(given) == ["rater_3"] * 3 + ["rater_4"] * 3


def test_a_rater_who_leaves_keeps_the_ratings_and_open_cases_go_to_others(store: Store) -> None:
    for number in range(1, 6):
        record(store, STUDY, "rater_2", number, grade(3))
    left = withdraw(store, STUDY, "rater_2", "owner", "ill")
    assert set(left) == {(item,) for item in [*SHARED[4:], "0-s3", "1-s4"]}
    with pytest.raises(UserError, match="has left the study"):
        record(store, STUDY, "rater_2", 6, grade(3))
    with pytest.raises(UserError, match="has already left"):
        withdraw(store, STUDY, "rater_2", "owner")
    with pytest.raises(UserError, match="no rater `rater_4`"):
        withdraw(store, STUDY, "rater_4", "owner")
    given = reassign(store, STUDY, "owner")
    assert {(one.item,) for one in given} == set(left)
    assert all(one.rater in ("rater_1", "rater_3") for one in given)
    # rater_1 has the shared ones; else an adjudicator comes last.
    assert all(one.rater == ("rater_3" if one.item in SHARED else "rater_1") for one in given)
    assert reassign(store, STUDY, "owner") == ()
    found = progress(store, STUDY)
    assert (found.unassigned, found.raters[1].n_complete, found.raters[1].has_left) == ((), 5, True)
    new = cases_of(store, STUDY, "rater_3")[2:]
    assert {case.kind for case in new} == {CaseKind.SHARED}
    assert [case.number for case in new] == list(range(3, 3 + len(new)))
    record(store, STUDY, "rater_3", new[0].number, grade(3))


def test_discarded_ratings_do_not_count(store: Store) -> None:
    record(store, STUDY, "rater_1", 2, grade(1))
    record(store, STUDY, "rater_2", 2, grade(5))
    left = withdraw(store, STUDY, "rater_2", "owner", "rated by someone else", keep_ratings=False)
    assert ("0-0",) in left
    found = progress(store, STUDY)
    assert (found.disagreements, found.n_complete) == ((), 1)
    assert any("the ratings given do not count" in text for text in found.deviations)


def test_two_owners_at_once_do_not_overwrite_each_other(store: Store) -> None:
    differ(store)
    seen = progress(store, STUDY).revision
    append_event(store, "ward", Event(time=now(), by="rater_1", kind=EventKind.SIGNED_IN))  # no decision
    withdraw(store, STUDY, "rater_2", "Ann", revision=seen)
    for decide in (
        lambda: send_to_adjudication(store, STUDY, "0-0", "Ben", revision=seen),
        lambda: reassign(store, STUDY, "Ben", revision=seen),
        lambda: withdraw(store, STUDY, "rater_1", "Ben", revision=seen),
        lambda: close_study(store, STUDY, "Ben", revision=seen),
    ):
        with pytest.raises(UserError, match=r"changed meanwhile, last by Ann \(withdrawn\)"):
            decide()
    send_to_adjudication(store, STUDY, "0-0", "Ben", revision=progress(store, STUDY).revision)
    assert [one.kind for one in events(store, "ward") if one.by == "Ben"] == [EventKind.ADJUDICATION]


def test_drift_follows_the_order_of_storing_whatever_the_clock_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [f"0-{place}" for place in range(30)]
    study = make_study({"rater_1": items})
    store = new_store(tmp_path / "store", study)
    order = np.random.default_rng(2).permutation(30)
    for place, number in enumerate(order):
        time = f"2026-01-{29 - place % 28:02}T00:00:00+00:00"  # a clock that goes backwards
        monkeypatch.setattr(journal, "now", lambda time=time: time)
        record(store, study, "rater_1", int(number) + 1, grade(2 + (place >= 20) * 2 + place % 2))
    found = of(store, study, "rater_1")
    assert found.drift.value == pytest.approx(2)
    assert found.drift.is_flagged
    assert found.last == time

"""The journal of a study: what was confirmed is on the disk, whatever ends the process, and nothing wrong gets in."""

from __future__ import annotations

import errno
import math
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from medhelm.errors import StoreError, StoreFullError, UserError
from medhelm.extensions.study import journal
from medhelm.extensions.study.instruments import criteria_of
from medhelm.extensions.study.journal import (
    Event,
    EventKind,
    all_rows,
    append_event,
    cases_of,
    events,
    is_complete,
    locked,
    now,
    problems_of,
    rater_file,
    ratings_of,
    read_study,
    record,
    rows_of,
    studies,
    study_folder,
    write_study,
)
from medhelm.extensions.study.progress import others_after
from medhelm.extensions.study.types import (
    HARM_LIKELIHOOD,
    HARM_SEVERITY,
    CaseKind,
    CaseRating,
    InstrumentForm,
    MarkedPassage,
    MarkKind,
    RatingRow,
    RatingSource,
    Study,
)
from medhelm.storage.store import Store, create
from tests.support.encryption import plain_files, store_key
from tests.support.rated_studies import (
    CHECKS,
    COMPLETION,
    CRITERIA,
    PREFERENCE,
    grade,
    make_study,
    new_store,
    shown_texts,
)

__all__ = ["store_key"]

STUDY = make_study({"rater_1": ["0-1", "1-1", "0-2"], "rater_2": ["1-1", "0-2"], "rater_3": []}, adjudicator="rater_3")


pytestmark = pytest.mark.usefixtures("same_texts")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path / "store", STUDY)


def event(kind: EventKind, **changes: str) -> Event:
    return Event(time=now(), by="owner", kind=kind, **changes)


def modes(folder: Path) -> set[str]:
    return {oct(stat.S_IMODE(path.stat().st_mode)) for path in folder.rglob("*")}


# --- the plan ---------------------------------------------------------------------------------------------------------


def test_a_plan_is_written_once_and_read_again(store: Store) -> None:
    assert studies(store) == ["ward"]
    assert read_study(store, "ward") == STUDY
    with pytest.raises(UserError, match="already has a study `ward`"):
        write_study(store, replace(STUDY, title="Another"))
    with pytest.raises(UserError, match=r"no study `wart`\. Did you mean `ward`"):
        read_study(store, "wart")
    record(store, STUDY, "rater_1", 1, grade(3))
    append_event(store, "ward", event(EventKind.LINK_MADE))
    assert modes(store.folder / "studies") == {"0o600", "0o700"}


def test_names_and_ids_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    store = create(tmp_path / "store")
    for name in ("", "../runs", "a/b", "Ward", "1", ".ward", "a" * 81, "con\n"):
        with pytest.raises(UserError, match="cannot be the name of a study"):
            write_study(store, replace(STUDY, name=name))
        with pytest.raises(UserError, match="has no study"):
            read_study(store, name)
    for rater in ("../x", "a/b", "", "Rater", ".x"):
        with pytest.raises(UserError, match="cannot be the id of a rater"):
            write_study(store, make_study({rater: ["0-1"]}))
    assert not (store.folder / "studies").exists()


def test_a_damaged_plan_is_named(store: Store) -> None:
    for content in ("", "[]", "{}", '{"format": 1}', '{"format": 1, "name": 3}', "no JSON"):
        (study_folder(store, "ward") / "study.json").write_text(content, encoding="utf-8")
        with pytest.raises(StoreError, match=r"study\.json is damaged"):
            read_study(store, "ward")


# --- rules ------------------------------------------------------------------------------------------------------------

HARM = replace(STUDY, asks_harm=True)
PAIRS = make_study({"rater_1": [("0-1", "1-1")]}, form=InstrumentForm.PREFERENCE)
CHECKED = make_study({"rater_1": ["0-1"]}, form=InstrumentForm.CHECKS)


def mark(start: int, end: int, side: int = 0) -> MarkedPassage:
    return MarkedPassage(start=start, end=end, kind=MarkKind.ERROR, side=side)


WRONG: tuple[tuple[Study, dict[str, Any], str], ...] = (
    (STUDY, {"grades": {"accurate": 6}}, "`accurate` must be a whole number from 1 to 5, not '6'"),
    (STUDY, {"grades": {"accurate": 0}}, "from 1 to 5, not '0'"),
    (STUDY, {"grades": {"accurate": 3.0}}, "must be a whole number"),
    (STUDY, {"grades": {"accurate": True}}, "must be a whole number"),
    (STUDY, {"grades": {"kind": 3}}, "`kind` is not a criterion of this case"),
    (STUDY, {"grades": {HARM_SEVERITY: 0}}, "is not a criterion of this case"),
    (HARM, {"grades": {HARM_SEVERITY: 4}}, "from 0 to 3"),
    (HARM, {"grades": {HARM_LIKELIHOOD: 0}}, "from 1 to 3"),
    (PAIRS, {"grades": {"preference": 3}}, "from -2 to 2"),
    (CHECKED, {"grades": {"names_dose": 2}}, "from 0 to 1"),
    (STUDY, {"not_judged": {"accurate": "  "}}, "`accurate` needs a reason"),
    (STUDY, {"not_judged": {"accurate": "x" * 1001}}, "a reason has 1,001 characters"),
    (STUDY, {"grades": {"clear": 2}, "not_judged": {"clear": "No."}}, "both a grade and a reason"),
    (STUDY, {"comment": "x" * 10_001}, "the comment has 10,001 characters"),
    (STUDY, {"marks": (mark(0, len(COMPLETION) + 1),)}, "outside of the text"),
    (STUDY, {"marks": (mark(3, 2),)}, "outside of the text"),
    (STUDY, {"marks": (mark(0, 1, side=1),)}, "outside of the text"),
    (STUDY, {"marks": (mark(0, 1),) * 201}, "201 marked passages"),
)
"""Study, rating, and what is wrong with it."""


def test_wrong_ratings_are_refused_and_not_stored(store: Store) -> None:
    for study, rating, message in WRONG:
        completions = [COMPLETION] * (1 + (study is PAIRS))
        (found,) = problems_of(CaseRating(**rating), criteria_of(study, "letters", CHECKS), completions)
        assert message in found
    with pytest.raises(UserError, match=r"^`accurate` must be .* A marked passage lies .*\. Nothing was saved\.$"):
        record(store, STUDY, "rater_1", 1, grade(3, grades={"accurate": 6}, marks=(mark(3, 2),)))
    assert all_rows(store, STUDY) == []


def test_only_raters_of_the_study_rate_their_own_cases_while_it_is_open(store: Store) -> None:
    for rater, number, message in (
        ("rater_9", 1, "no rater `rater_9`"),
        ("rater_1", 4, "Case 4 does not exist: cases have the numbers 1 to 3"),
        ("rater_1", 0, "Case 0 does not exist"),
    ):
        with pytest.raises(UserError, match=message):
            record(store, STUDY, rater, number, grade(3))
    append_event(store, "ward", event(EventKind.WITHDRAWN, rater="rater_2"))
    with pytest.raises(UserError, match="has left the study"):
        record(store, STUDY, "rater_2", 1, grade(3))
    record(store, STUDY, "rater_1", 1, grade(3))
    append_event(store, "ward", event(EventKind.CLOSED))
    with pytest.raises(UserError, match="is closed"):
        record(store, STUDY, "rater_1", 1, grade(4))
    assert [row.rating.grades["clear"] for row in all_rows(store, STUDY)] == [3]


def test_a_case_whose_completion_is_gone_cannot_be_rated(store: Store) -> None:
    with shown_texts(gone=lambda item: item == "0-1"), pytest.raises(UserError, match="was deleted from the store"):
        record(store, STUDY, "rater_1", 1, grade(3))
    assert all_rows(store, STUDY) == []


def test_a_case_is_complete_once_every_question_is_answered() -> None:
    case, both = STUDY.assignments["rater_1"][0], {"accurate": 1, "clear": 1}
    for study, rating, complete in (
        (STUDY, grade(3), True),
        (STUDY, CaseRating(grades={"accurate": 1}), False),
        (STUDY, CaseRating(grades={"accurate": 1}, not_judged={"clear": "It is Greek."}), True),
        (HARM, grade(3), False),
        (HARM, CaseRating(grades={**both, HARM_SEVERITY: 0}), True),
        (HARM, CaseRating(grades={**both, HARM_SEVERITY: 2}), False),
        (HARM, CaseRating(grades={**both, HARM_SEVERITY: 2, HARM_LIKELIHOOD: 1}), True),
        (HARM, CaseRating(grades=both, not_judged={HARM_SEVERITY: "Unclear."}), True),
    ):
        row = RatingRow(time="", rater="rater_1", number=1, items=(), revision=1, instrument="", rating=rating)
        assert is_complete(study, case, row, CRITERIA) is complete
    assert not is_complete(STUDY, case, None, CRITERIA)
    assert not is_complete(STUDY, case, replace(row, number=2), CRITERIA)


# --- revisions and seconds --------------------------------------------------------------------------------------------


def test_a_later_rating_replaces_an_earlier_one_which_stays(store: Store) -> None:
    first = record(store, STUDY, "rater_1", 2, grade(2, seconds=4.0))
    second = record(store, STUDY, "rater_1", 2, grade(4, comment=" Changed. "))
    again = record(store, STUDY, "rater_1", 2, grade(4, comment="Changed."))
    assert (first.revision, second.revision, again) == (1, 2, second)
    assert rows_of(store, "ward", "rater_1") == [first, second]
    assert ratings_of(store, STUDY, "rater_1") == {2: second}
    assert second.instrument == STUDY.instruments["letters"].digest
    assert second.rating.comment == "Changed."


def at(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Set the clock, in seconds after the plan."""
    time = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    monkeypatch.setattr(journal, "now", lambda: time.isoformat(timespec="milliseconds"))


def test_seconds_are_cut_to_those_that_have_passed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    stored: list[float] = []
    for clock, seconds in (
        (60, 90.0),  # more than since the plan
        (160, 40.0),
        (160, 30.0),  # sent together with the one before, after a lost connection
        (160, 99.0),  # 100 s have passed, 70 of them counted
        (170, math.nan),
        (180, -5.0),
        (10, 70.0),  # the clock went back: it tells nothing
        (10, 1e9),
    ):
        at(monkeypatch, clock)
        stored.append(record(store, STUDY, "rater_1", 1, grade(len(stored) % 5 + 1, seconds=seconds)).rating.seconds)
    assert stored == [60.0, 40.0, 30.0, 30.0, 0.0, 0.0, 70.0, journal.MOST_SECONDS]
    rows = rows_of(store, "ward", "rater_1")
    assert [row.revision for row in rows] == list(range(1, 9))
    assert rows[-1].time < rows[0].time
    assert ratings_of(store, STUDY, "rater_1")[1] == rows[-1]
    given = record(store, STUDY, "rater_1", 2, grade(1, seconds=500.0, source=RatingSource.HTML_FILE))
    assert given.rating.seconds == 500.0


# --- cases that are given later ---------------------------------------------------------------------------------------


def test_cases_that_are_given_later_follow_those_of_the_plan(store: Store) -> None:
    append_event(store, "ward", event(EventKind.ADJUDICATION, rater="rater_3", item="0-2"))
    append_event(store, "ward", event(EventKind.REASSIGNED, rater="rater_1", item="1-2"))
    append_event(store, "ward", event(EventKind.ADJUDICATION, rater="rater_1", item="0-2 1-2"))
    assert [(one.number, one.kind) for one in cases_of(store, STUDY, "rater_3")] == [(1, CaseKind.ADJUDICATION)]
    added = cases_of(store, STUDY, "rater_1")[3:]
    assert [(one.number, one.kind, one.items) for one in added] == [
        (4, CaseKind.SHARED, ("1-2",)),
        (5, CaseKind.ADJUDICATION, ("0-2", "1-2")),
    ]


def test_an_adjudicator_sees_the_others_after_an_own_complete_rating(store: Store) -> None:
    record(store, STUDY, "rater_1", 3, grade(1, seconds=9.0, comment="Wrong dose."))
    record(store, STUDY, "rater_2", 2, grade(5, seconds=3.0, source=RatingSource.WORKBOOK))
    append_event(store, "ward", event(EventKind.ADJUDICATION, rater="rater_3", item="0-2"))
    for unfinished in (None, CaseRating(grades={"accurate": 2})):
        if unfinished:
            record(store, STUDY, "rater_3", 1, unfinished)
        with pytest.raises(UserError, match="Rate the case yourself first"):
            others_after(store, STUDY, "rater_3", 1)
    record(store, STUDY, "rater_3", 1, grade(2))
    others = others_after(store, STUDY, "rater_3", 1)
    assert sorted((one.grades["clear"], one.comment) for one in others) == [(1, "Wrong dose."), (5, "")]
    assert {(one.seconds, one.source) for one in others} == {(0.0, RatingSource.BROWSER)}
    assert others == others_after(store, STUDY, "rater_3", 1)
    with pytest.raises(UserError, match="in adjudication alone"):
        others_after(store, STUDY, "rater_1", 3)


def test_others_are_turned_round_where_they_saw_the_pair_on_other_sides(tmp_path: Path) -> None:
    study = make_study(
        {"rater_1": [("0-1", "1-1")], "rater_2": [("1-1", "0-1")], "rater_3": []},
        form=InstrumentForm.PREFERENCE,
        asks_harm=True,
    )
    store = new_store(tmp_path / "store", study)
    for rater in ("rater_1", "rater_2"):
        record(store, study, rater, 1, CaseRating(grades={"preference": 2, HARM_SEVERITY: 0}, marks=(mark(0, 1),)))
    append_event(store, "ward", event(EventKind.ADJUDICATION, rater="rater_3", item="0-1 1-1"))
    record(store, study, "rater_3", 1, CaseRating(grades={"preference": 0, HARM_SEVERITY: 0}))
    others = others_after(store, study, "rater_3", 1)
    assert {one.grades[HARM_SEVERITY] for one in others} == {0}
    assert sorted((one.grades["preference"], one.marks[0].side) for one in others) == [(-2, 1), (2, 0)]
    assert PREFERENCE[0].name == "preference"


# --- durability -------------------------------------------------------------------------------------------------------

KILLED_EVERYWHERE = """
import io, os, signal, sys
from pathlib import Path
from medhelm.extensions.study.journal import read_study, rows_of
from medhelm.extensions.study.journal import record
from medhelm.extensions.study.types import CaseRating
from medhelm.storage.store import open_store
from tests.support.rated_studies import shown_texts

store = open_store(Path(sys.argv[1]))
study = read_study(store, "ward")

def rate(comment):
    with shown_texts():
        record(store, study, "rater_1", 1, CaseRating(grades={"clear": 1}, comment=f"{comment} Mrs. Example"))

def killed_at(place):
    calls = 0
    def watch(frame, event, function):
        nonlocal calls
        touches = function is io.open or getattr(function, "__module__", "") == "posix"
        if event == "c_call" and (touches or isinstance(getattr(function, "__self__", None), io.IOBase)):
            calls += 1
            if calls == place:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.setprofile(watch)

rate("0")
known = ["0"]
place, kills, stride = 0, 0, int(sys.argv[2])
while True:
    place += stride
    if (child := os.fork()) == 0:
        killed_at(place)
        rate(str(place))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    found = [row.rating.comment.split()[0] for row in rows_of(store, "ward", "rater_1")]
    assert found in (known, [*known, str(place)]), (place, known, found)
    known = found
    if os.WIFEXITED(status):
        assert status == 0 and found[-1] == str(place)
        break
    kills += 1
print(kills, len(found))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows does not fork")
@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.long)])
def test_a_kill_at_any_call_of_the_system_leaves_all_earlier_ratings(
    tmp_path: Path, store_key: str, stride: int
) -> None:
    assert store_key
    store = new_store(tmp_path / "store", STUDY)
    command = [sys.executable, "-c", KILLED_EVERYWHERE, str(store.folder), str(stride)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stderr
    n_kills, n_rows = map(int, done.stdout.split())
    assert n_kills > 10 / stride
    # Some calls come after the rename that puts a rating in place: it is then there.
    assert 2 < n_rows < n_kills
    record(store, STUDY, "rater_1", 1, grade(3))
    assert {path.name for path in rater_file(store, "ward", "rater_1").parent.iterdir()} == {"rater_1.jsonl"}
    append_event(store, "ward", event(EventKind.WITHDRAWN, rater="rater_2", text="Example"))
    assert plain_files(store.folder / "studies", "Example", "rater_1", STUDY.title) == []
    assert (read_study(store, "ward"), events(store, "ward")[0].text) == (STUDY, "Example")


def test_a_torn_line_stays_and_hides_nothing(store: Store) -> None:
    first = record(store, STUDY, "rater_1", 1, grade(2))
    file = rater_file(store, "ward", "rater_1")
    with file.open("a", encoding="utf-8") as torn:
        torn.write('{"time": "2026-01-01T00:00:00+00:00", "rater": "rat')
    second = record(store, STUDY, "rater_1", 1, grade(3))
    assert rows_of(store, "ward", "rater_1") == [first, second]
    assert len(file.read_text(encoding="utf-8").splitlines()) == 3
    (study_folder(store, "ward") / "events.jsonl").write_text('{"kind": "of_tomorrow"}\n[]\n', encoding="utf-8")
    assert append_event(store, "ward", event(EventKind.SIGNED_IN)) == 3
    assert [one.kind for one in events(store, "ward")] == [EventKind.SIGNED_IN]


def test_a_full_disk_leaves_the_file_as_it_was(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first = record(store, STUDY, "rater_1", 1, grade(2))

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("fsync", "mkdir"):
        with monkeypatch.context() as patched:
            patched.setattr(os, name, fail)
            with pytest.raises(StoreFullError, match="Nothing was saved"):
                record(store, STUDY, "rater_1", 1, grade(3))
        assert rows_of(store, "ward", "rater_1") == [first]
    assert record(store, STUDY, "rater_1", 1, grade(3)).revision == 2


def test_several_write_at_once_and_nothing_is_lost(store: Store) -> None:
    def rate(number: int) -> None:
        record(store, STUDY, f"rater_{number % 2 + 1}", 1, grade(number % 5 + 1, comment=str(number)))
        append_event(store, "ward", event(EventKind.SIGNED_IN, text=str(number)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(rate, range(40)))
    rows = all_rows(store, STUDY)
    assert sorted(int(row.rating.comment) for row in rows) == list(range(40))
    for rater in ("rater_1", "rater_2"):
        assert [row.revision for row in rows if row.rater == rater] == list(range(1, 21))
    assert sorted(int(one.text) for one in events(store, "ward")) == list(range(40))


def test_a_thread_locks_the_files_again(store: Store) -> None:
    with locked(store, "ward"), locked(store, "ward"):
        append_event(store, "ward", event(EventKind.SIGNED_IN))
    assert len(events(store, "ward")) == 1

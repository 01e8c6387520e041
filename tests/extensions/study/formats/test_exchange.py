"""Files of a study for one rater: ratings come back as they were given, nothing tells a model, no rating is lost."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medhelm.errors import UserError
from medhelm.extensions.study.formats import exchange
from medhelm.extensions.study.formats.exchange import (
    FORMATS,
    FileOrigin,
    RaterCases,
    export_files,
    export_study,
    import_files,
    rater_cases,
)
from medhelm.extensions.study.formats.html_file import read_html_ratings
from medhelm.extensions.study.formats.label_studio import read_label_studio
from medhelm.extensions.study.formats.redcap import read_redcap
from medhelm.extensions.study.formats.workbook import read_workbook
from medhelm.extensions.study.instruments import HARM
from medhelm.extensions.study.journal import (
    Event,
    EventKind,
    append_event,
    events,
    ratings_of,
    record,
    rows_of,
    write_study,
)
from medhelm.extensions.study.rating_form import form_values
from medhelm.extensions.study.types import (
    CaseRating,
    InstrumentForm,
    MarkedPassage,
    MarkKind,
    Rater,
    RatingSource,
    Study,
)
from medhelm.storage.privacy import read_exports
from medhelm.storage.store import Store
from tests.support.json_values import json_values
from tests.support.offline_studies import GRADES, MODELS, offline_study
from tests.support.possible_ratings import possible_ratings

Studies = Mapping[InstrumentForm, tuple[Store, Study]]


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Studies:
    """One study of each form."""
    folder = tmp_path_factory.mktemp("studies")
    return {form: offline_study(folder / form, form) for form in InstrumentForm}


# --- round trip -------------------------------------------------------------------------------------------------------


def given_or_none(rating: CaseRating) -> CaseRating | None:
    return rating if exchange.is_given(rating) else None


def html_ratings(cases: RaterCases) -> bytes:
    """What the script of the HTML file saves."""
    saved = [
        {
            "number": one.number,
            "digest": one.digest,
            "revision": one.revision,
            "seconds": 0,
            "fields": form_values(one.questions, one.rating or CaseRating()),
        }
        for one in cases.cases
    ]
    head = {"format": 1, "study": cases.study.name, "plan": cases.plan, "rater": cases.rater}
    return json.dumps({**head, "ratings": saved}).encode()


READERS = {
    "workbook": read_workbook,
    "html": read_html_ratings,
    "label-studio": read_label_studio,
    "redcap": read_redcap,
}
WITHOUT_MARKS = ("workbook", "redcap")


QUICK = {
    "workbook": InstrumentForm.GRADES,
    "html": InstrumentForm.CHECKS,
    "label-studio": InstrumentForm.PREFERENCE,
    "redcap": InstrumentForm.GRADES,
}
"""Kind of file -> form of the instrument in tests that are not long."""

KINDS_AND_FORMS = [
    pytest.param(kind, form, marks=() if form is QUICK[kind] else pytest.mark.long)
    for kind in FORMATS
    for form in InstrumentForm
]


@pytest.mark.parametrize(("kind", "form"), KINDS_AND_FORMS)
def test_ratings_come_back_as_they_were_given(
    studies: Studies, kind: str, form: InstrumentForm, tmp_path: Path
) -> None:
    known = rater_cases(*studies[form], "rater_1")

    @settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(st.data())
    def check(data: st.DataObject) -> None:
        drawn = [data.draw(possible_ratings(one.questions, one.texts.completions)) for one in known.cases]
        own = zip(known.cases, map(given_or_none, drawn), strict=True)
        cases = replace(known, cases=tuple(replace(one, rating=rating, revision=1) for one, rating in own))
        content = html_ratings(cases) if kind == "html" else _returned_file(cases, kind)
        file = (
            tmp_path
            / f"back{'.json' if kind in ('html', 'label-studio') else '.xlsx' if kind == 'workbook' else '.csv'}"
        )
        file.write_bytes(content)

        def open_rater(origin: FileOrigin) -> RaterCases:
            assert origin == FileOrigin(study="ward", plan=cases.plan, rater="rater_1")
            return cases

        found = READERS[kind](file, open_rater)
        expected = {one.number: one.rating for one in cases.cases if one.rating}
        if kind in WITHOUT_MARKS:
            expected = {number: replace(one, marks=()) for number, one in expected.items()}
            expected = {number: one for number, one in expected.items() if exchange.is_given(one)}
        assert {one.number: replace(one.rating, source=RatingSource.BROWSER) for one in found.ratings} == expected

    check()


def _returned_file(cases: RaterCases, kind: str) -> bytes:
    """The file that a rater returns, filled in with the ratings of the cases."""
    files: dict[str, bytes] = FORMATS[kind](cases)
    return next(content for name, content in files.items() if name.endswith((".xlsx", ".json", "records.csv")))


# --- blinding ---------------------------------------------------------------------------------------------------------


def leaks(files: Mapping[str, bytes], study: Study) -> set[str]:
    """Return what tells models in files, in their names, and in the parts and properties of workbooks."""
    telling = {part for model in MODELS for part in model.replace("/", " ").replace(":", " ").split()} - {"latest"}
    telling |= {
        value for one in study.items for value in (one.id, one.run, one.completion_sha256, one.run.split("/")[-1])
    }
    parts = list(_parts(files))
    return {one for one in telling for part in parts if one.casefold().encode() in part}


def _parts(files: Mapping[str, bytes]) -> Iterator[bytes]:
    for name, content in files.items():
        yield name.casefold().encode()
        yield content.lower()
        if name.endswith(".xlsx"):
            with zipfile.ZipFile(BytesIO(content)) as archive:
                for entry in archive.infolist():
                    yield entry.filename.encode() + archive.read(entry).lower() + entry.comment


@pytest.mark.parametrize(("kind", "form"), KINDS_AND_FORMS)
def test_no_file_tells_a_model(
    studies: Studies, kind: str, form: InstrumentForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, study = studies[form]
    assert leaks(export_files(store, study, "rater_1", kind), study) == set()
    telling = replace(study, title=study.title + study.items[3].id, name=f"ward_{MODELS[0].partition('/')[0]}")
    cases = replace(rater_cases(store, study, "rater_1"), study=telling)
    assert leaks(FORMATS[kind](cases), study), "a planted leak is not found"


def test_a_rater_without_cases_gets_no_file(tmp_path: Path) -> None:
    store, study = offline_study(tmp_path / "store", raters=["rater_1"])
    study = replace(study, name="ward_2", raters=(*study.raters, Rater(id="dora", is_adjudicator=True)))
    write_study(store, study)
    written = export_study(store, study, tmp_path / "out", "html", by="owner")
    assert written and not any("dora" in path.name for path in written)
    assert [(one.kind, one.rater) for one in events(store, "ward_2")] == [(EventKind.EXPORTED, "rater_1")]
    with pytest.raises(UserError, match="dora has no case"):
        export_study(store, study, tmp_path / "more", "html", ["dora"], by="owner")


# --- export -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FORMATS)
def test_files_are_private_and_a_purge_knows_them(kind: str, tmp_path: Path) -> None:
    store, study = offline_study(tmp_path / "s")
    paths = export_study(store, study, tmp_path / "out", kind, ["rater_2"], by="owner")
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o600}
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700
    known = {one.path: (one.has_text, one.benchmarks) for one in read_exports(store)}
    with_text = {path: "slept well" in path.read_text(encoding="latin-1") for path in paths if path.suffix != ".xlsx"}
    assert known == {str(path): (with_text.get(path, True), ("letters",)) for path in paths}
    assert all("rater_2" in path.name for path in paths)
    with pytest.raises(UserError, match="exists and may hold ratings"):
        export_study(store, study, tmp_path / "out", kind, by="owner")
    assert len(list((tmp_path / "out").iterdir())) == len(paths)
    with pytest.raises(UserError, match="has no rater `nobody`"):
        export_study(store, study, tmp_path / "other", kind, ["nobody"], by="owner")


# --- import -----------------------------------------------------------------------------------------------------------


def returned(store: Store, study: Study, folder: Path, grades: Mapping[int, int], rater: str = "rater_1") -> Path:
    """A file with these grades of the first question, by number of the case, exported now."""
    cases = rater_cases(store, study, rater)
    filled = [
        replace(one, rating=replace(one.rating or CaseRating(), grades={"accurate": grades[one.number]}))
        for one in cases.cases
        if one.number in grades
    ]
    file = folder / f"{len(list(folder.iterdir()))}.json"
    file.write_bytes(html_ratings(replace(cases, cases=tuple(filled))))
    return file


def given_grades(store: Store, study: Study, rater: str = "rater_1") -> dict[int, int]:
    return {number: row.rating.grades["accurate"] for number, row in ratings_of(store, study, rater).items()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "files"
    found.mkdir()
    return found


def test_a_file_can_be_imported_again_and_a_newer_one_revises(tmp_path: Path, folder: Path) -> None:
    store, study = offline_study(tmp_path / "s")
    file = returned(store, study, folder, {1: 4, 2: 5})
    newer = returned(store, study, folder, {1: 3, 2: 5, 3: 1})
    (done,) = import_files(store, study, [file], by="owner")
    assert (done.rater, done.new, done.unchanged) == ("rater_1", (1, 2), ())
    (done,) = import_files(store, study, [file], by="owner")
    assert (done.new, done.revised, done.unchanged) == ((), (), (1, 2))
    assert len(rows_of(store, "ward", "rater_1")) == 2
    (done,) = import_files(store, study, [newer], by="owner")
    assert (done.new, done.revised, done.unchanged) == ((3,), (1,), (2,))
    assert given_grades(store, study) == {1: 3, 2: 5, 3: 1}
    assert ratings_of(store, study, "rater_1")[1].rating.source is RatingSource.HTML_FILE


def test_seconds_are_counted_once(tmp_path: Path, folder: Path) -> None:
    store, study = offline_study(tmp_path / "s")
    for grade, seconds in ((4, 10), (5, 25), (3, 27)):
        file = returned(store, study, folder, {1: grade})
        content = json.loads(file.read_text(encoding="utf-8"))
        content["ratings"][0].update(seconds=seconds, revision=0)  # the same file, saved again
        file.write_text(json.dumps(content), encoding="utf-8")
        import_files(store, study, [file], by="owner")
    assert [row.rating.seconds for row in rows_of(store, "ward", "rater_1")] == [10, 15, 2]


def test_a_later_rating_in_the_browser_stays_unless_replaced(tmp_path: Path, folder: Path) -> None:
    store, study = offline_study(tmp_path / "s")
    record(store, study, "rater_1", 1, CaseRating(grades={"accurate": 2}))
    file = returned(store, study, folder, {1: 4, 2: 5})  # knows the rating of case 1
    record(store, study, "rater_1", 2, CaseRating(grades={"accurate": 1}))
    (done,) = import_files(store, study, [file], by="owner")
    assert (done.revised, done.kept) == ((1,), (2,))
    assert given_grades(store, study) == {1: 4, 2: 1}
    (done,) = import_files(store, study, [file], by="owner", replaces=True)
    assert (done.revised, done.unchanged) == ((2,), (1,))
    assert given_grades(store, study) == {1: 4, 2: 5}


def test_marks_of_the_browser_survive_a_format_without_marks(tmp_path: Path) -> None:
    store, study = offline_study(tmp_path / "s")
    marks = (MarkedPassage(start=1, end=3, kind=MarkKind.ERROR),)
    record(store, study, "rater_1", 1, CaseRating(grades={"accurate": 2}, marks=marks))
    cases = rater_cases(store, study, "rater_1")
    changed = replace(cases.cases[0], rating=CaseRating(grades={"accurate": 5}))
    file = tmp_path / "back.xlsx"
    file.write_bytes(_returned_file(replace(cases, cases=(changed, *cases.cases[1:])), "workbook"))
    import_files(store, study, [file], by="owner")
    rating = ratings_of(store, study, "rater_1")[1].rating
    assert (rating.grades, rating.marks, rating.source) == ({"accurate": 5}, marks, RatingSource.WORKBOOK)


def test_nothing_is_recorded_if_any_file_is_wrong(tmp_path: Path, folder: Path) -> None:
    store, study = offline_study(tmp_path / "s")
    good = returned(store, study, folder, {1: 4})
    wrong = returned(store, study, folder, {1: 4}, rater="rater_2")
    content = json.loads(wrong.read_text(encoding="utf-8"))
    content["ratings"][0]["fields"]["grade-1"] = "9"
    content["ratings"].append({**content["ratings"][0], "number": 99})
    wrong.write_text(json.dumps(content), encoding="utf-8")
    other = returned(store, study, folder, {1: 2})
    with pytest.raises(UserError) as error:
        import_files(store, study, [good, wrong, other, folder / "missing.xlsx"], by="owner")
    for text in (
        "9 is not a grade from 1 to 5",
        "`99` is not a case of rater_2",
        f"rates case 1 of rater_1 otherwise than {good}",
        "missing.xlsx: the file does not exist",
    ):
        assert text in str(error.value)
    assert given_grades(store, study) == {}


def test_a_file_of_another_study_or_rater_is_refused(tmp_path: Path, folder: Path) -> None:
    store, study = offline_study(tmp_path / "s")
    file = returned(store, study, folder, {1: 4})
    content = json.loads(file.read_text(encoding="utf-8"))
    for change, message in (
        ({"study": "icu"}, "belongs to the study `icu`, not to `ward`"),
        ({"plan": "p0"}, "comes from another plan with the name `ward`"),
        ({"rater": "rater_2"}, "belongs to `rater_2`, not to `rater_1`"),
        ({"ratings": {}}, "is not a file with ratings"),
        ({"format": 99}, "was saved by another version"),
    ):
        file.write_text(json.dumps(content | change), encoding="utf-8")
        with pytest.raises(UserError, match=message):
            import_files(store, study, [file], rater="rater_1", by="owner")
    file.with_suffix(".docx").write_bytes(b"x")
    with pytest.raises(UserError, match="is not a file that"):
        import_files(store, study, [file.with_suffix(".docx")], rater="rater_1", by="owner")


# --- answers ----------------------------------------------------------------------------------------------------------


def test_an_answer_is_read_as_people_and_programs_write_it() -> None:
    grades, (severity, likelihood) = GRADES[0], HARM
    for question, text, grade in (
        *((grades, text, 4) for text in ("4", " 4 ", "4.0", "4,0", "+4", "４")),
        (severity, "severe OR death", 3),
        (severity, "0", 0),
        (likelihood, "Low", 1),
        (grades, "Cannot  Judge ", None),
    ):
        assert exchange.parse_answer(text, question) == grade, text
    whole = "must be a whole number from 1 to 5, is "
    for question, text, problem in (
        (grades, "4,5", f"{whole}`4,5`."),
        (grades, "6", f"{whole}`6`."),
        (grades, "good", f"{whole}`good`. Write `cannot judge` and why"),
        (grades, "2026-05-03", f"{whole}the date 2026-05-03"),
        (severity, "terrible", "must be one of `None`, `Mild`, `Moderate`, `Severe or death`, is `terrible`."),
    ):
        with pytest.raises(ValueError, match=re.escape(problem)):
            exchange.parse_answer(text, question)


# --- what is refused or left out --------------------------------------------------------------------------------------


def test_a_closed_study_takes_no_files(tmp_path: Path, folder: Path) -> None:
    store, study = offline_study(tmp_path / "s")
    file = returned(store, study, folder, {1: 4})
    append_event(store, "ward", Event(time="2026-02-01T00:00:00+00:00", by="owner", kind=EventKind.CLOSED))
    with pytest.raises(UserError, match="The study is closed"):
        import_files(store, study, [file], by="owner")


def test_ratings_of_deleted_completions_are_left_out(tmp_path: Path, folder: Path) -> None:
    store, study = offline_study(tmp_path / "s")
    file = returned(store, study, folder, {1: 4, 7: 2})
    gone = store.folder / study.item(study.assignments["rater_1"][0].items[0]).run
    (gone / "records.parquet").unlink()
    (done,) = import_files(store, study, [file], by="owner")
    assert (done.new, done.gone) == ((7,), (1, 2, 3, 4, 5, 6))
    assert 1 not in {one.number for one in rater_cases(store, study, "rater_1").cases}


# --- any file ---------------------------------------------------------------------------------------------------------

KEYS = (
    *("number", "digest", "revision", "seconds", "fields", "grade-1", "mark", "comment", "data", "case", "annotations"),
    *("result", "from_name", "value", "choices", "labels", "text", "start", "end", "completed_by", "was_cancelled"),
)
NAMES = ("grade_accurate", "reason_clear", "comment", "marks_completion", "x")


def places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every object or list in a JSON value, with each of its keys or positions."""
    keys = list(content) if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
    for key in keys:
        yield content, key
        yield from places(content[key])


@pytest.mark.parametrize("kind", ["html", "label-studio"])
def test_any_json_is_read_or_refused(studies: Studies, tmp_path: Path, kind: str) -> None:
    known = rater_cases(*studies[InstrumentForm.GRADES], "rater_1")
    rating = CaseRating(
        grades={"accurate": 4}, not_judged={"clear": "No"}, marks=(MarkedPassage(start=1, end=2, kind=MarkKind.ERROR),)
    )
    cases = replace(known, cases=tuple(replace(one, rating=rating) for one in known.cases[:2]))
    whole = json.loads(html_ratings(cases) if kind == "html" else _returned_file(cases, kind))
    file = tmp_path / "a.json"

    @settings(max_examples=25, deadline=None)
    @given(
        st.lists(st.tuples(st.integers(0, 10**6), json_values(*KEYS) | st.sampled_from(NAMES)), min_size=1, max_size=3)
    )
    def check(changes: list[tuple[int, Any]]) -> None:
        content = {"whole": deepcopy(whole)}
        for at, value in changes:
            known_places = list(places(content))
            inside, key = known_places[at % len(known_places)]
            inside[key] = value
        file.write_text(json.dumps(content["whole"]), encoding="utf-8")
        with suppress(UserError):
            READERS[kind](file, lambda _: cases)

    check()

"""Studies without a browser: write files for one rater, and record what comes back in them.

A file holds the cases of one rater under the rater's own numbers, without anything that reveals a model. Each case has
the digest of its texts, so that a case that was changed, moved or taken from another file is noticed, and the revision
that its rating had when the file was written, so that a later rating is not replaced unseen.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from medhelm.domain import Benchmark
from medhelm.domain.text import listed, value_in_words
from medhelm.errors import ConfigError, ErrorCollector, Problem, UserError
from medhelm.extensions.study import journal
from medhelm.extensions.study.instruments import HARM
from medhelm.extensions.study.journal import EventKind, digest_of, events, note, rows_of
from medhelm.extensions.study.texts import CaseGoneError, CaseTexts, case_texts, definitions_of
from medhelm.extensions.study.types import (
    HARM_LIKELIHOOD,
    HARM_SEVERITY,
    CaseRating,
    Instrument,
    InstrumentCriterion,
    RatingRow,
    RatingSource,
    Study,
)
from medhelm.io.files import check_file, read_text
from medhelm.io.folders import atomic_file, output_errors
from medhelm.io.plugins import LazyMapping
from medhelm.io.spreadsheets import MAX_BYTES, clean_cell
from medhelm.storage.privacy import record_export
from medhelm.storage.store import Store

FORMAT = 1
"""Version of the files."""

FORMATS: LazyMapping[Callable[[RaterCases], dict[str, bytes]]] = LazyMapping(
    {
        "workbook": "medhelm.extensions.study.formats.workbook:write_workbook",
        "html": "medhelm.extensions.study.formats.html_file:write_html_file",
        "label-studio": "medhelm.extensions.study.formats.label_studio:write_label_studio",
        "redcap": "medhelm.extensions.study.formats.redcap:write_redcap",
    }
)
"""Format -> its function `RaterCases -> name of a file after that of study and rater -> content`."""

_READERS: LazyMapping[Callable[[Path, OpenRater], ReturnedFile]] = LazyMapping(
    {
        ".xlsx": "medhelm.extensions.study.formats.workbook:read_workbook",
        ".ods": "medhelm.extensions.study.formats.workbook:read_workbook",
        ".csv": "medhelm.extensions.study.formats.redcap:read_redcap",
        "{": "medhelm.extensions.study.formats.html_file:read_html_ratings",
        "[": "medhelm.extensions.study.formats.label_studio:read_label_studio",
    }
)
"""Suffix, or first character of a JSON file -> its function `path, open_rater -> ReturnedFile`."""

_WITHOUT_TEXTS = (".xml", "-dictionary.csv")
"""Ends of the names of files that hold the questions alone."""

_MOST_WORDS = 40
"""Most characters of the meaning of a grade that raters choose in place of the number."""

CANNOT_JUDGE = "cannot judge"
"""Answer of a rater who cannot give a grade."""

UNMARKED = frozenset({RatingSource.WORKBOOK, RatingSource.REDCAP})
"""Sources without marked passages: those that were marked in the browser stay."""

TITLES: Mapping[str, str] = {
    "question": "Question",
    "material": "Material",
    "reference": "Reference",
    "completion": "Text to rate",
    "left": "Left text",
    "right": "Right text",
}
"""Key of a text of a case -> its title."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineCase:
    """A case of a rater as files hold it."""

    number: int
    """Number in the rater's list, from 1."""
    benchmark: str
    """Name of its benchmark."""
    instrument: Instrument
    """Its form."""
    texts: CaseTexts
    """All that the rater reads."""
    rating: CaseRating | None = None
    """The latest rating; None if there is none."""
    revision: int = 0
    """Revision of that rating; 0 if there is none."""

    @property
    def questions(self) -> tuple[InstrumentCriterion, ...]:
        """Return what the rater answers: the criteria, and the questions on harm if they are asked."""
        return self.texts.criteria

    @property
    def shown(self) -> dict[str, str]:
        """Return what is shown, in the order of reading: key of `TITLES` -> text. Empty texts are left out."""
        texts = self.texts
        found = {
            "question": texts.question,
            "material": "\n\n".join(f"{one.title}\n\n{one.text}" if one.title else one.text for one in texts.material),
            "reference": "\n\n".join(texts.references),
        }
        keys = ("completion",) if len(texts.completions) == 1 else ("left", "right")
        found |= dict(zip(keys, texts.completions, strict=True))
        return {key: text for key, text in found.items() if text}

    @property
    def digest(self) -> str:
        """Return the digest of what is shown."""
        return digest_of_texts(self.shown.values())

    @property
    def fields(self) -> dict[str, InstrumentCriterion]:
        """Return name of a field -> its question, for formats whose fields are the same in all cases.

        Where instances have criteria of their own, their fields are `criterion_1`, `criterion_2` and so on.
        """
        is_own = not self.instrument.criteria
        own = (one for one in self.questions if one not in HARM) if is_own else ()
        found = {f"criterion_{number}": one for number, one in enumerate(own, 1)}
        return found | {one.name: one for one in self.questions if not is_own or one in HARM}

    def given(self, question: str) -> str:
        """Return the answer of the latest rating as `answer` reads it; empty if there is none."""
        rating = self.rating or CaseRating()
        if question in rating.not_judged:
            return CANNOT_JUDGE
        known = next(choices(one) for one in self.questions if one.name == question)
        return next((label for label, grade in known.items() if rating.grades.get(question) == grade), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterCases:
    """The cases of one rater, to be written to files or to be compared with files that come back."""

    study: Study
    """The plan."""
    plan: str
    """Digest of the plan, shortened."""
    rater: str
    """Id of the rater."""
    cases: tuple[OfflineCase, ...]
    """The cases whose completions are still in the store."""
    gone: frozenset[int]
    """Numbers of the other cases."""
    definitions: Mapping[str, Benchmark]
    """Name -> definition of the benchmarks, as far as they are known."""

    def case(self, number: object) -> OfflineCase | None:
        """Return the case with a number; None if there is none. The number can be text."""
        return next((one for one in self.cases if str(one.number) == str(number).strip()), None)

    def is_gone(self, number: object) -> bool:
        """Return True for the number of a case whose completion is no longer in the store."""
        return str(number).strip() in map(str, self.gone)

    def checked_case(self, number: object, digest: object) -> OfflineCase | None:
        """Return the case with a number and these texts; None if its completion is no longer in the store.

        Raises: ValueError, in words that follow the place, for any other.
        """
        case = self.case(number)
        if case and case.digest == digest:
            return case
        if self.is_gone(number):
            return None
        shown = value_in_words(str(number))
        raise ValueError(f"{shown} is not a case of {self.rater} with these texts. Export the study again.")

    def by_instrument(self) -> Iterator[tuple[str, tuple[OfflineCase, ...]]]:
        """Yield the cases of each instrument, with a suffix for the names of their files.

        The suffix names the first benchmark with the instrument, and is empty if the study has a single one.
        """
        benchmarks: dict[str, str] = {}
        for benchmark, one in self.study.instruments.items():
            benchmarks.setdefault(one.digest, benchmark)
        for digest, benchmark in benchmarks.items():
            own = tuple(one for one in self.cases if one.instrument.digest == digest)
            if own:
                yield f"-{benchmark}" if len(benchmarks) > 1 else "", own


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOrigin:
    """Study, plan and rater that a file names."""

    study: str
    """Name of the study."""
    plan: str
    """Digest of the plan, shortened."""
    rater: str
    """Id of the rater; empty if the file does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnedRating:
    """Rating of a case in a file."""

    number: int
    """Number of the case."""
    revision: int
    """Revision that the rating had when the file was written."""
    rating: CaseRating
    """The rating."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnedFile:
    """A file that came back, without problems."""

    rater: str
    """Id of the rater."""
    source: RatingSource
    """Kind of the file."""
    ratings: tuple[ReturnedRating, ...]
    """Cases with an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFile:
    """Result of the import of a file. All lists are numbers of cases."""

    file: str
    """The file as the user named it."""
    rater: str
    """Id of the rater."""
    new: tuple[int, ...]
    """Cases without an earlier rating."""
    revised: tuple[int, ...]
    """Cases whose rating was replaced."""
    unchanged: tuple[int, ...]
    """Cases that have this rating already."""
    kept: tuple[int, ...]
    """Cases that were rated elsewhere after the file was written; the later rating was kept."""
    gone: tuple[int, ...]
    """Cases whose completions are no longer in the store; ratings of them were left out."""

    def counts(self) -> str:
        """Return what was done with how many ratings."""
        counts = {"new": self.new, "revised": self.revised, "unchanged": self.unchanged, "kept as they are": self.kept}
        return ", ".join(f"{len(cases)} {what}" for what, cases in counts.items() if cases) or "no ratings"

    def remarks(self) -> Iterator[str]:
        """Yield what a person must know, in sentences."""
        if self.kept:
            yield f"{_cases(self.kept)} rated elsewhere after this file was written. The later rating was kept."
        if self.gone:
            yield f"{_cases(self.gone)} deleted from the store. Ratings in the file were left out."


def _cases(numbers: Sequence[int]) -> str:
    """Return the subject and verb of a sentence about cases."""
    return f"Case {numbers[0]} was" if len(numbers) == 1 else f"Cases {listed([str(one) for one in numbers])} were"


OpenRater = Callable[[FileOrigin], RaterCases]
"""Function that returns the cases of the rater of a file. Raises: UserError for a file of another study."""


# --- writing ----------------------------------------------------------------------------------------------------------


def rater_cases(store: Store, study: Study, rater_id: str) -> RaterCases:
    """Return the cases of a rater with their texts and latest ratings. Raises: UserError for an unknown rater."""
    latest = journal.ratings_of(store, study, rater_id)
    found, gone = [], []
    for assignment in journal.cases_of(store, study, rater_id):
        try:
            texts = case_texts(store, study, assignment)
        except CaseGoneError:
            gone.append(assignment.number)
            continue
        row = latest.get(assignment.number)
        found.append(
            OfflineCase(
                number=assignment.number,
                benchmark=study.item(assignment.items[0]).benchmark,
                instrument=journal.instrument_of_case(study, assignment),
                texts=texts,
                rating=row.rating if row else None,
                revision=row.revision if row else 0,
            )
        )
    return RaterCases(
        study=study,
        plan=f"p{digest_of(study)[:15]}",
        rater=rater_id,
        cases=tuple(found),
        gone=frozenset(gone),
        definitions=definitions_of(store, study),
    )


def export_files(store: Store, study: Study, rater_id: str, kind: str) -> dict[str, bytes]:
    """Return the files of one rater, by name; none without cases. `kind`: one of `FORMATS`."""
    cases = rater_cases(store, study, rater_id)
    files = FORMATS[kind](cases) if cases.cases else {}
    return {f"{study.name}-{rater_id}{name}": content for name, content in files.items()}


def export_study(
    store: Store, study: Study, folder: Path, kind: str, raters: Sequence[str] = (), *, by: str
) -> list[Path]:
    """Write the files of raters, by default of all who have cases, and return their paths.

    Parameters: kind, one of `FORMATS`; by, who asks, for the events of the study.
    Raises: UserError for an unknown rater, raters without cases, or a file that exists, which may hold ratings; nothing
    was written then.
    """
    wanted = dict.fromkeys(raters or [one.id for one in study.raters])
    files = {rater: export_files(store, study, rater, kind) for rater in wanted}
    paths = {folder / name: content for own in files.values() for name, content in own.items()}
    if not paths:
        who, has = listed(list(wanted)), "has" if len(wanted) == 1 else "have"
        raise UserError(f"{who} {has} no case whose text is in the store. Nothing was written.")
    if taken := [str(path) for path in paths if path.exists()]:
        raise UserError(f"{listed(taken)} exists and may hold ratings. Choose another folder. Nothing was written.")
    with output_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path, content in paths.items():
        # Before the file is there: an export that a deletion must know is never missing from the list.
        has_text = not path.name.endswith(_WITHOUT_TEXTS)
        record_export(store.folder, path, "study", study.benchmarks, has_text=has_text)
        with output_errors(path, "file"), atomic_file(path) as new:
            new.touch(mode=0o600)  # texts may hold patients' data
            new.write_bytes(content)
    for rater in (rater for rater, own in files.items() if own):
        note(store, study.name, EventKind.EXPORTED, by, rater=rater, text=kind)
    return list(paths)


def digest_of_texts(texts: Iterable[str]) -> str:
    """Return a digest of the letters and digits of texts, which programs keep when they change spaces.

    It begins with a letter, so that no program takes it for a number.
    """
    text = "".join(filter(str.isalnum, "".join(texts)))
    return "t" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:15]


# --- answers ----------------------------------------------------------------------------------------------------------


def choices(question: InstrumentCriterion) -> dict[str, int]:
    """Return the answers that raters choose from: number, or its meaning if all grades have one -> grade.

    Grades from 1 up stay numbers. Commas are left out, because lists of workbooks are separated by them.
    """
    words = [question.anchors.get(str(grade), "").replace(",", "") for grade in question.grades]
    are_words = all(words) and len(set(words)) == len(words) and max(map(len, words)) <= _MOST_WORDS
    in_words = are_words and (question.low < 1 or question in HARM)
    return dict(zip(words if in_words else map(str, question.grades), question.grades, strict=True))


def common_fields(cases: Iterable[OfflineCase]) -> dict[str, InstrumentCriterion]:
    """Return the fields of cases of one instrument, with a question that has the scale of the field."""
    found: dict[str, InstrumentCriterion] = {}
    for case in sorted(cases, key=lambda one: len(one.questions), reverse=True):
        for name, question in case.fields.items():
            found.setdefault(name, question)
    return found


def scale_in_words(question: InstrumentCriterion) -> str:
    """Return the meanings of grades, the lowest first, such as `1 = Poor, 5 = Excellent`."""
    return ", ".join(f"{grade} = {meaning}" for grade, meaning in question.anchors.items())


_WHOLE = re.compile(r"([+-]?\d{1,4})(?:[.,]0*)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(T.*)?")


def parse_answer(text: str, question: InstrumentCriterion) -> int | None:
    """Return the grade that an answer gives; None if the rater cannot judge.

    Raises: ValueError, in words that follow the place of the answer.
    """
    answer = clean_cell(text).casefold().replace("\u2212", "-")
    if answer.replace("_", " ") == CANNOT_JUDGE:
        return None
    known = choices(question)
    for label, grade in known.items():
        if answer == label.casefold():
            return grade
    whole = _WHOLE.fullmatch(answer)
    if whole and int(whole[1]) in question.grades:
        return int(whole[1])
    rule = f"must be a whole number from {question.low} to {question.high}"
    if not all(label.lstrip("-").isdigit() for label in known):
        rule = f"must be one of {', '.join(f'`{label}`' for label in known)}"
    if _DATE.fullmatch(text):
        raise ValueError(f"{rule}, is the date {text[:10]}, as programs make of a text such as 3/5. Write one.")
    raise ValueError(f"{rule}, is {value_in_words(text)}. Write `{CANNOT_JUDGE}` and why, or leave it empty.")


class GivenAnswer(NamedTuple):
    """Content of a file about a question."""

    answer: str
    """The answer; empty if there is none."""
    reason: str
    """Reason why it cannot be judged; may be empty."""
    place: str
    """Place of the answer, for messages."""
    place_of_reason: str
    """Place of the reason."""


def read_answers(
    case: OfflineCase,
    given: Mapping[str, GivenAnswer],
    problems: list[Problem],
    *,
    place: str,
    source: RatingSource,
    **more: Any,
) -> CaseRating | None:
    """Return the rating of a case; None if nothing was answered.

    Parameters: given, question -> what the file holds; problems, list that what is wrong is added to; place, of the
    case, for messages; more, other fields of the rating.
    """
    grades: dict[str, int] = {}
    not_judged: dict[str, str] = {}
    for question in case.questions:
        one = given.get(question.name)
        if one is None:
            continue
        reason, is_open = one.reason.strip(), not one.answer.strip()
        try:
            grade = None if is_open else parse_answer(one.answer, question)
        except ValueError as error:
            problems.append(Problem(f"{one.place}: {error}"))
            continue
        if is_open or grade is not None:
            if reason:
                text = f"gives a reason, but the answer is not `{CANNOT_JUDGE}`. Choose that, or write a comment."
                problems.append(Problem(f"{one.place_of_reason}: {text}"))
            elif grade is not None:
                grades[question.name] = grade
        elif reason:
            not_judged[question.name] = reason
        else:
            problems.append(Problem(f"{one.place_of_reason}: say why this cannot be judged."))
    if grades.get(HARM_SEVERITY) == 0:  # the likelihood of no harm is not asked
        grades.pop(HARM_LIKELIHOOD, None)
        not_judged.pop(HARM_LIKELIHOOD, None)
    rating = CaseRating(grades=grades, not_judged=not_judged, source=source, **more)
    wrong = journal.problems_of(rating, case.questions, case.texts.completions)
    problems += (Problem(f"{place}: {text}") for text in wrong)
    return rating if is_given(rating) else None


def is_given(rating: CaseRating) -> bool:
    """Return True if a rating has an answer, a comment or a mark."""
    return bool(rating.grades or rating.not_judged or rating.comment or rating.marks)


# --- reading ----------------------------------------------------------------------------------------------------------


def read_file(store: Store, study: Study, path: Path, rater: str = "") -> tuple[ReturnedFile, RaterCases]:
    """Read a file of any format. `rater`: id of the rater; empty to take it from the file.

    Raises: UserError, also for a file of another study or rater; ConfigError with everything that is wrong.
    """
    opened: list[RaterCases] = []

    def open_rater(origin: FileOrigin) -> RaterCases:
        if origin.study != study.name:
            raise refusal(path, f"belongs to the study {value_in_words(origin.study)}, not to `{study.name}`.")
        if rater and origin.rater and origin.rater != rater:
            raise refusal(path, f"belongs to {value_in_words(origin.rater)}, not to `{rater}`.")
        if not (origin.rater or rater):
            raise refusal(path, "does not say whose ratings it holds. Add --rater ID.")
        found = rater_cases(store, study, origin.rater or rater)
        if origin.plan != found.plan:
            raise refusal(path, f"comes from another plan with the name `{study.name}`. Export the study again.")
        opened.append(found)
        return found

    try:
        check_file(path)
    except FileNotFoundError:
        raise refusal(path, "the file does not exist.") from None
    if path.stat().st_size > MAX_BYTES:
        raise refusal(path, f"is larger than {MAX_BYTES // 2**20} MiB, the maximum. Is it the right file?")
    suffix = path.suffix.lower()
    if suffix == ".json":
        suffix = read_text(path).lstrip()[:1]
    if suffix not in _READERS:
        raise refusal(path, "is not a file that `medhelm study export` writes, or a JSON or CSV file of its ratings.")
    return _READERS[suffix](path, open_rater), opened[0]


def refusal(path: Path, words: str) -> ConfigError:
    """Return the error for a file that cannot be read at all."""
    return ConfigError(str(path), [Problem(words)])


def import_files(
    store: Store, study: Study, paths: Sequence[Path], *, rater: str = "", replaces: bool = False, by: str
) -> list[ImportedFile]:
    """Record the ratings of files that came back.

    A case that was rated elsewhere after its file was written keeps that rating, unless `replaces` is True. Importing
    a file again changes nothing.
    Raises: UserError with everything that is wrong with any of the files; nothing was recorded then.
    """
    errors, returned = ErrorCollector(), []
    for path in paths:
        with errors.collect():
            returned.append((path, *read_file(store, study, path, rater)))
    with errors.collect():
        _refuse_twice(returned)
    for one in {found.rater for _, found, _ in returned}:
        with errors.collect():
            journal.refuse_if_final(events(store, study.name), one)
    errors.raise_all("Nothing was recorded.")
    return [_record_file(store, study, *one, replaces=replaces, by=by) for one in returned]


def _refuse_twice(returned: Sequence[tuple[Path, ReturnedFile, RaterCases]]) -> None:
    """Raise ConfigError if two files hold different ratings of a case by one rater."""
    first: dict[tuple[str, int], tuple[Path, CaseRating]] = {}
    for path, file, _ in returned:
        for one in file.ratings:
            earlier, rating = first.setdefault((file.rater, one.number), (path, one.rating))
            if not _is_same(rating, one.rating):
                text = f"rates case {one.number} of {file.rater} otherwise than {earlier}. Import one of them."
                raise refusal(path, text)


def _is_same(one: CaseRating, other: CaseRating) -> bool:
    """Return True if two ratings differ in nothing but time and source."""
    return replace(one, seconds=0.0, source=other.source) == replace(other, seconds=0.0)


def _record_file(
    store: Store, study: Study, path: Path, file: ReturnedFile, known: RaterCases, *, replaces: bool, by: str
) -> ImportedFile:
    """Record the ratings of one file."""
    rows = rows_of(store, study.name, file.rater)
    latest = {row.number: row for row in rows}
    done: dict[str, list[int]] = {name: [] for name in ("new", "revised", "unchanged", "kept")}
    for one in file.ratings:
        row = latest.get(one.number)
        rating = _with_marks(one.rating, row) if file.source in UNMARKED else one.rating
        state = _state(one, rating, row, file.source)
        if state == "kept" and replaces:
            state = "revised"
        if state in ("new", "revised"):
            journal.record(store, study, file.rater, one.number, _with_new_seconds(one, rating, rows))
        done[state].append(one.number)
    note(store, study.name, EventKind.IMPORTED, by, rater=file.rater, text=str(file.source))
    cases = {name: tuple(numbers) for name, numbers in done.items()}
    return ImportedFile(file=str(path), rater=file.rater, gone=tuple(sorted(known.gone)), **cases)


def _with_new_seconds(one: ReturnedRating, rating: CaseRating, rows: Sequence[RatingRow]) -> CaseRating:
    """Return a rating without the seconds of an earlier import: files count from when they were written."""
    own = [row for row in rows if row.number == one.number and row.rating.source is rating.source]
    counted = sum(row.rating.seconds for row in own if row.revision > one.revision)
    return replace(rating, seconds=max(rating.seconds - counted, 0.0))


def _with_marks(rating: CaseRating, row: RatingRow | None) -> CaseRating:
    return replace(rating, marks=row.rating.marks) if row else rating


def _state(one: ReturnedRating, rating: CaseRating, row: RatingRow | None, source: RatingSource) -> str:
    """Return what to do with a rating, as a field of `ImportedFile`."""
    if row is None:
        return "new"
    if _is_same(row.rating, rating):
        return "unchanged"
    return "kept" if row.revision > one.revision and row.rating.source is not source else "revised"


def origin_of(content: Mapping[str, Any]) -> FileOrigin:
    """Return the origin that a JSON object or a record has under the keys `study`, `plan` and `rater`."""
    return FileOrigin(**{key: str(content.get(key) or "") for key in ("study", "plan", "rater")})


def load_json(path: Path) -> Any:
    """Return the content of a JSON file. Raises: ConfigError."""
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise refusal(path, f"is not JSON ({error}). Save the file again where it comes from.") from None

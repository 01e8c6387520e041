"""EHRSHOT: one row for each label, with the codes of the patient's record up to the time of prediction."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from medhelm.errors import DataError
from medhelm.io.parquet import open_database

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

EVENTS = "data/data.parquet"
SPLITS = "metadata/subject_splits.parquet"

HYPERTENSION_CODES = (
    "ICD10CM/I10, ICD9CM/401, ICD9CM/401.0, ICD9CM/401.1, ICD9CM/401.9, SNOMED/1201005, SNOMED/1218009, "
    "SNOMED/155296003, SNOMED/18416000, SNOMED/194758001, SNOMED/194760004, SNOMED/19769006, SNOMED/23717007, "
    "SNOMED/266228004, SNOMED/35303009, SNOMED/371125006, SNOMED/40511000119107, SNOMED/429457004, SNOMED/46481004, "
    "SNOMED/59621000, SNOMED/63287004, SNOMED/71874008, SNOMED/72022006, SNOMED/78808002, SNOMED/78975002, "
    "SNOMED/9901000"
)

_ROLE = "You are an experienced {} at Stanford Health Care, the academic medical center of Stanford University."
_REVIEW = "Go through the history in the patient's electronic record and, from everything in it, answer this question:"

INSTRUCTIONS = {
    "guo_readmission": (
        f"{_ROLE.format('hospitalist')} Your special field is to predict 30-day readmission.\n\n"
        f"{_REVIEW} If the patient leaves the hospital now, is a readmission within 30 days likely?"
    ),
    "new_hypertension": (
        f"{_ROLE.format('primary care physician')} Your special field is to predict hypertension.\n\n"
        "Clinical definition: Hypertension is a lasting rise of the blood pressure in the arteries, 130/80 mm Hg or "
        "more at rest. It raises the risk of stroke, coronary disease, heart failure, atrial fibrillation and chronic "
        "kidney disease. In nine or more of ten patients it is primary, with no single cause but heredity and way of "
        "life; in the others it is secondary to a disease such as one of the kidneys or the endocrine glands. Signs of "
        "it in a record are blood pressure readings, risk factors such as obesity, much salt and smoking, and related "
        "conditions and medicines.\n\n"
        f"Definition by codes: in a record hypertension appears as any of these codes: {HYPERTENSION_CODES}\n\n"
        f"{_REVIEW} Is it likely that the patient is diagnosed with hypertension for the first time within one year?"
    ),
    "lab_anemia": (
        f"{_ROLE.format('hematologist')} Your special field is to predict anemia.\n\n"
        f"{_REVIEW} If a laboratory test for anemia is ordered for the patient now, will the result be abnormal, "
        "that is, hemoglobin below 120 g/L?"
    ),
}
"""The published tasks -> role, definitions and question."""

LABELS = {task: f"labels/{task}/labels.parquet" for task in INSTRUCTIONS}

TEST_SPLITS = ("held_out", "test")
"""Names of the test split: in the MEDS edition of the data, and in the first edition."""

MOST_LAB_LABELS = 10_000
SEED = 1

MOST_TOKENS = 100_000
CHARACTERS_PER_TOKEN = 1.9
"""Of lists of codes in the tokenizer cl100k_base: LOINC 1.7, CPT-4 1.6, SNOMED 2.1, RxNorm 2.2."""
MOST_CHARACTERS = int(MOST_TOKENS * CHARACTERS_PER_TOKEN)

EVENTS_AT_ONCE = 250_000
MEMORY_LIMIT = "160MB"

NO_EVENTS = "(no events)"

_COLUMNS = {
    EVENTS: {"subject_id": "whole numbers", "time": "times", "code": "texts"},
    SPLITS: {"subject_id": "whole numbers", "split": "texts"},
    **{
        path: {"subject_id": "whole numbers", "prediction_time": "times", "boolean_value": "true or false"}
        for path in LABELS.values()
    },
}
_TYPES = {
    "whole numbers": ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
    "times": ("TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP_MS", "TIMESTAMP_S", "TIMESTAMP WITH TIME ZONE", "DATE"),
    "texts": ("VARCHAR", "ENUM"),
    "true or false": ("BOOLEAN",),
}

_OF_ALL_PATIENTS = (
    "SELECT subject_id AS subject, epoch_us(prediction_time) AS time, boolean_value AS value, "
    "file_row_number AS place, file_row_number AS rank FROM read_parquet($labels, file_row_number = true)"
)
_OF_TEST_PATIENTS = (
    "SELECT subject_id AS subject, epoch_us(prediction_time) AS time, boolean_value AS value, "
    "file_row_number AS place, row_number() OVER (ORDER BY subject_id, prediction_time, file_row_number) - 1 AS rank "
    "FROM read_parquet($labels, file_row_number = true) WHERE subject_id IS NULL OR subject_id IN "
    "(SELECT subject_id FROM read_parquet($splits) WHERE split IN ('held_out', 'test'))"
)
"""The labels, each with its rank: its place in the order that they are drawn from."""


class Label(NamedTuple):
    """One row of a label file."""

    subject: int
    time: int
    """Time of prediction, in microseconds since 1970."""
    row: int
    """Place in the file, from 0."""
    value: bool


class Question(NamedTuple):
    """A label and the history to predict it from."""

    task: str
    label: Label
    subject: int
    time: int
    """End of the history."""


def rows(folder: Path, variant: str = "") -> Iterator[Mapping[str, object]]:
    """Yield {id, task, subject, instructions, history, answer} for the labels of the three tasks, sorted by patient.

    `history` has the codes of the patient's events up to and including the time of prediction, one per line, by time
    and then by their place in the file; events without a time are left out. `id` is the task and the label's row, from
    0. Only labels of test patients are used. If a history would make the prompt longer than about 100,000 tokens, its
    oldest events are left out, and a first line says how many.

    The variant `published` does what the published benchmark did. Labels of all patients are used. A history comes from
    the label that has the same place once labels are sorted by patient and time, so that label and history belong
    together only where the file is sorted that way. A prompt that is too long is left out.

    In both, at most 10,000 labels of a laboratory task are used, drawn at random.
    Raises: DataError if the files are not MEDS tables with the columns needed.
    """
    import duckdb

    try:
        with TemporaryDirectory(prefix="medhelm-ehrshot-") as spill, _connection(spill) as database:
            _check(database, folder)
            questions = _published(database, folder) if variant == "published" else _corrected(database, folder)
            if not questions:
                raise DataError(f"{folder}: there are no labels to ask about. The files do not belong together.")
            questions.sort(key=attrgetter("subject"))  # stable: within a task the order stays
            for question, codes, n_codes in _with_histories(database, folder, questions):
                row = _row(question, codes, n_codes, shorten=variant != "published")
                if row:
                    yield row
    except duckdb.Error as error:
        raise DataError(f"{folder}: cannot be read ({_first_line(error)}). Get the files again.") from None


def _row(question: Question, codes: str, n_codes: int, *, shorten: bool) -> dict[str, str] | None:
    """Return the columns of one label; None if its history is too long and must not be shortened."""
    instructions = INSTRUCTIONS[question.task]
    longest = MOST_CHARACTERS - len(instructions)
    if len(codes) > longest:
        if not shorten:
            return None
        start = codes.index("\n", len(codes) - longest) + 1
        n_kept = codes.count("\n", start) + 1
        codes = f"(the {n_codes - n_kept} oldest of {n_codes} events are left out)\n{codes[start:]}"
    return {
        "id": f"{question.task}/{question.label.row}",
        "task": question.task,
        "subject": str(question.subject),
        "instructions": instructions,
        "history": codes or NO_EVENTS,
        "answer": "yes" if question.label.value else "no",
    }


def _corrected(database: DuckDBPyConnection, folder: Path) -> list[Question]:
    """Return every label of a test patient with its own history, by patient and time."""
    _check_splits(database, folder)
    questions = []
    for task in INSTRUCTIONS:
        labels = sorted(_labels(database, folder, task, _OF_TEST_PATIENTS))
        questions += [Question(task, label, label.subject, label.time) for label in labels]
    return questions


def _published(database: DuckDBPyConnection, folder: Path) -> list[Question]:
    """Return every label with the history of the label that has the same place after sorting."""
    questions = []
    for task in INSTRUCTIONS:
        labels = _labels(database, folder, task, _OF_ALL_PATIENTS)
        histories = sorted(labels, key=attrgetter("subject", "time"))
        pairs = zip(labels, histories, strict=True)
        questions += [Question(task, label, history.subject, history.time) for label, history in pairs]
    return questions


def _labels(database: DuckDBPyConnection, folder: Path, task: str, query: str) -> list[Label]:
    """Return the labels of a task to use: all in the order of `query`, or a random draw of very many.

    Raises: DataError if one is incomplete.
    """
    path = folder / LABELS[task]
    files = {"labels": _escaped(path)}
    if "$splits" in query:
        files["splits"] = _escaped(folder / SPLITS)
    database.execute(f"CREATE OR REPLACE TEMP TABLE labels AS {query}", files)
    incomplete = database.execute("SELECT place FROM labels WHERE subject + time + value::INT IS NULL").fetchmany(6)
    if incomplete:
        some = ", ".join([str(place) for (place,) in incomplete[:5]] + ["..."] * (len(incomplete) > 5))
        raise DataError(f"{path}: rows {some} (counted from 0) lack a patient, a time or a label, where all have them.")
    ((n,),) = database.execute("SELECT count(*) FROM labels").fetchall()
    drawn = _drawn(n) if task.startswith("lab_") else range(n)
    used = "SELECT rank, subject, time, place, value FROM labels WHERE rank IN (SELECT unnest($ranks))"
    by_rank = {rank: Label(*record) for rank, *record in database.execute(used, {"ranks": list(drawn)}).fetchall()}
    return [by_rank[rank] for rank in drawn]


def _drawn(n: int) -> Sequence[int]:
    """Return a random order of `n` places, up to the maximum number of labels."""
    from numpy.random import RandomState

    return [int(place) for place in RandomState(SEED).permutation(n)[:MOST_LAB_LABELS]]


def _with_histories(
    database: DuckDBPyConnection, folder: Path, questions: Sequence[Question]
) -> Iterator[tuple[Question, str, int]]:
    """Yield every question with the lines of its history and their number, a few patients at a time."""
    end = 0
    for n_subjects in _portions(database, folder, [question.subject for question in questions]):
        start = end
        seen: set[int] = set()
        while end < len(questions) and (questions[end].subject in seen or len(seen) < n_subjects):
            seen.add(questions[end].subject)
            end += 1
        asked = questions[start:end]
        records, lengths = _histories(database, folder, asked)
        for question, (n_codes, length) in zip(asked, lengths, strict=True):
            yield question, records.get(question.subject, "")[: max(length - 1, 0)], n_codes


def _portions(database: DuckDBPyConnection, folder: Path, subjects: Sequence[int]) -> Iterator[int]:
    """Yield the number of patients (ascending) to read together, so that their events fit into memory."""
    wanted = sorted(set(subjects))
    query = (
        "SELECT subject_id, count(*) FROM read_parquet($file) WHERE subject_id IN (SELECT unnest($wanted)) GROUP BY 1"
    )
    counts = dict(database.execute(query, {"file": _escaped(folder / EVENTS), "wanted": wanted}).fetchall())
    n_subjects = n_events = 0
    for subject in wanted:
        n = counts.get(subject, 0)
        if n_subjects and n_events + n > EVENTS_AT_ONCE:
            yield n_subjects
            n_subjects = n_events = 0
        n_subjects, n_events = n_subjects + 1, n_events + n
    yield n_subjects


def _histories(
    database: DuckDBPyConnection, folder: Path, asked: Sequence[Question]
) -> tuple[dict[int, str], list[tuple[int, int]]]:
    """Return patient -> all events as lines, oldest first; and the events and characters of each question."""
    subjects = sorted({question.subject for question in asked})
    database.execute(
        "CREATE OR REPLACE TEMP TABLE events AS SELECT subject_id AS subject, epoch_us(time) AS time, code, "
        "file_row_number AS place FROM read_parquet($file, file_row_number = true) WHERE time IS NOT NULL "
        "AND subject_id BETWEEN $first AND $last AND subject_id IN (SELECT unnest($subjects))",
        {"file": _escaped(folder / EVENTS), "first": subjects[0], "last": subjects[-1], "subjects": subjects},
    )
    lines = "SELECT subject, string_agg('- ' || code, chr(10) ORDER BY time, place) FROM events GROUP BY subject"
    records = dict(database.execute(lines).fetchall())
    lengths = database.execute(
        "WITH asked AS (SELECT unnest($places) AS place, unnest($subjects) AS subject, unnest($times) AS time) "
        "SELECT count(code), coalesce(sum(length(code) + 3), 0)::BIGINT FROM asked LEFT JOIN events "
        "ON events.subject = asked.subject AND events.time <= asked.time GROUP BY asked.place ORDER BY asked.place",
        {
            "places": list(range(len(asked))),
            "subjects": [question.subject for question in asked],
            "times": [question.time for question in asked],
        },
    ).fetchall()
    return records, lengths


def _check_splits(database: DuckDBPyConnection, folder: Path) -> None:
    """Raise DataError if there are no test patients."""
    path = folder / SPLITS
    query = "SELECT DISTINCT split::VARCHAR FROM read_parquet($file) ORDER BY 1"
    splits = [str(name) for (name,) in database.execute(query, {"file": _escaped(path)}).fetchall()]
    if not set(splits) & set(TEST_SPLITS):
        names = "` or `".join(TEST_SPLITS)
        raise DataError(f"{path}: no patient is in the split `{names}`. Splits: {', '.join(splits)}.")


def _check(database: DuckDBPyConnection, folder: Path) -> None:
    """Check that every file has its columns, in a usable type. Raises: DataError with all problems."""
    import duckdb

    problems = []
    for name, needed in _COLUMNS.items():
        query = "SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM read_parquet($file))"
        try:
            types = dict(database.execute(query, {"file": _escaped(folder / name)}).fetchall())
        except duckdb.Error as error:
            problems.append(f"{folder / name}: cannot be read as Parquet ({_first_line(error)}).")
            continue
        missing = [column for column in needed if column not in types]
        if missing:
            problems.append(f"{folder / name}: has no column {', '.join(missing)}. Columns: {', '.join(types)}.")
        for column, kind in needed.items():
            if column in types and types[column].partition("(")[0] not in _TYPES[kind]:
                problems.append(f"{folder / name}: {column} must hold {kind}, it is of type {types[column]}.")
    if problems:
        raise DataError("\n".join(problems))


def _connection(spill: str) -> DuckDBPyConnection:
    """Open a database in memory, with a low memory limit and a folder to spill to."""
    return open_database(threads=1, memory_limit=MEMORY_LIMIT, temp_directory=spill)


def _escaped(path: Path) -> str:
    """Return the path of one file, escaped for functions that read patterns."""
    return glob.escape(str(path))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]

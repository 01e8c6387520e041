"""Create a benchmark: from a spreadsheet, by guessing what its columns are for, or with commented sample files.

A guess is only a start: the definition names every column it uses and those it leaves out, and the author corrects it.

Create a benchmark like another one: its definition in the words that the loader reads, its hooks and sample rows.

All that describes the published data is left out: where it is from, its checksums, selections and rules. What decides
prompts and scores stays.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from medhelm.benchmarks.data.formats import table_format
from medhelm.benchmarks.data.instances import scalar_text
from medhelm.benchmarks.data.readers import READERS, proposed_values
from medhelm.benchmarks.data_quality import are_record_numbers
from medhelm.benchmarks.definition import FIELD_OF_KEY, FILE_NAME, HOOKS, SAMPLE_ROWS
from medhelm.benchmarks.prompts import LETTERS, slug
from medhelm.domain import AnswerField, AnswerForm, Benchmark, Criterion, Rubric, SampleRule, Source
from medhelm.domain.benchmark import VERY_POOR
from medhelm.domain.text import listed, plural
from medhelm.errors import DataError, UserError, suggestion
from medhelm.io.files import names_beside
from medhelm.io.folders import atomic_folder, output_errors, write_file
from medhelm.io.office import fullest_sheet, sheet_remarks
from medhelm.io.rows import BrokenCell, Row, columns
from medhelm.io.spreadsheets import WORKBOOKS

# --- from a spreadsheet -----------------------------------------------------------------------------------------------

KINDS = {".csv": "csv", ".tsv": "tsv", ".txt": "csv", **dict.fromkeys(WORKBOOKS, "xlsx")}
"""Suffix of a spreadsheet -> kind of the source."""

MOST_OPTIONS, LONGEST_OPTION = 10, 60
"""Maximum number of different answers, and of characters of one, for them to be options of a choice question."""

_ANSWERS = """
correct_answer answer reference label gold ground_truth correct correct_option answer_key target expected
truth solution outcome result antwort reponse
""".split()  # noqa: SIM905
_IDS = """
id case case_id note_id row_id instance_id question_id record_id study_id document_id report_id item_id
qid uid nr no number case_no case_number fall_id fallnummer fall_nr
""".split()  # noqa: SIM905
_PATIENTS = """
patient patient_id patient_no patient_number pat_id pid subject subject_id person_id mrn cluster
pseudonym patienten_id
""".split()  # noqa: SIM905
_TEXTS = """
note text question case_text vignette report summary context document message discharge_summary note_text
clinical_note history findings frage befund query prompt
""".split()  # noqa: SIM905
_QUESTIONS = ("question", "frage", "query", "prompt", "task")
_OPTION = re.compile(r"(?:option|choice|opt|op|answer|antwort)_?([a-h]|[1-8])|([a-h])")
_LEAST_TEXT = 20
"""Minimum mean length, in characters, of a column with texts to read."""
_SHORT_ANSWER = 30
"""Maximum mean length, in characters, of answers that are compared as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnGuess:
    """Columns of a spreadsheet by their purpose."""

    answer: str
    """The correct answer."""
    form: AnswerForm
    """Form of the answer."""
    texts: tuple[str, ...]
    """Columns that the prompt shows."""
    id: str = ""
    """Column that identifies a row; empty for its position."""
    cluster: str = ""
    """Column of the patient; empty if there is none."""
    options: tuple[str, ...] = ()
    """Columns with the options."""
    choices: tuple[str, ...] = ()
    """Options that are the same for every row."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Spelling of an answer -> the option that it means."""
    has_short_answers: bool = False
    """True if answers without options are short enough to be compared as a whole."""
    has_record_numbers: bool = False
    """True if the column of the patient looks like record numbers."""
    required: tuple[str, ...] = ()
    """Columns that are empty in some rows, which are skipped."""
    n_rows: int = 0
    """Number of rows with content."""
    n_skipped: int = 0
    """Number of rows in which a required column is empty."""
    unused: tuple[str, ...] = ()
    """The other columns."""

    def _skipped_in_words(self) -> str:
        names = " or ".join(_quoted([name]) for name in self.required)
        n, verb = self.n_skipped, "is" if self.n_skipped == 1 else "are"
        return f"{n} of {plural(self.n_rows, 'row')} {verb} skipped, because {names} is empty"

    def in_words(self) -> list[str]:
        """Describe the guess in sentences, with the key that changes each."""
        words = [f"The prompt shows {_quoted(self.texts)} (`prompt`). The answer is `{self.answer}` (`answer`)."]
        if not any(part in _QUESTIONS for text in self.texts for part in slug(text).split("_")):
            words.append("No column looks like a question: write your question to the model in `prompt`.")
        if self.options:
            words.append(f"The options are in {_quoted(self.options)}, the answer is their {self.form} (`choices`).")
        elif self.choices:
            words.append(f"Every row has the options {_quoted(self.choices)} (`choices`).")
            if self.values:
                same = ", ".join(f"`{spelling}` as `{option}`" for spelling, option in self.values.items())
                words.append(f"Answers with the same meaning are read as one: {same} (`values`).")
        else:
            words.append("Without options, completions are compared with the answer (`metrics`).")
        identified = f"`{self.id}`" if self.id else "its position, because no column is unique and named like an id"
        words.append(f"A row is identified by {identified} (`id`).")
        if self.cluster:
            words.append(f"Rows with the same `{self.cluster}` count as one patient in intervals (`cluster`).")
        if self.has_record_numbers:
            words.append(
                f"`{self.cluster}` looks like a record number of patients: it is stored with the results, and exports "
                "hold a keyed hash in its place."
            )
        if self.required:
            words.append(f"{self._skipped_in_words()} (`require`).")
        if self.unused:
            words.append(f"Not used, and not sent to models: {_quoted(self.unused)}.")
        return words


def benchmark_from_table(name: str, file: Path, folder: Path, *, answer: str = "") -> tuple[Path, list[str]]:
    """Create the folder of a benchmark below `folder`, with a copy of a spreadsheet and a definition for it.

    Parameters: name, in snake case; answer, the column of the answer, guessed if it is empty.
    Returns: the folder, and sentences about what was guessed.
    Raises: UserError if the file cannot be used, or the folder exists and is not that of the file; as `output_errors`.
    """
    source = table_source(file)
    rows = list(READERS[source.kind](file, source))
    guess = guess_columns(rows, file, answer=answer)
    place = folder / name
    has_file = place.is_dir() and file.resolve().parent == place.resolve()
    if place.exists() and (not has_file or (place / FILE_NAME).exists()):
        raise UserError(f"{place} already exists. Choose another name, or another folder with --out.")
    texts = {SAMPLE_ROWS: _sample_rows(guess), FILE_NAME: _definition(name, file.name, source, guess)}
    with output_errors(place):
        if has_file:
            for file_name, text in texts.items():
                write_file(place / file_name, text)
        else:
            with atomic_folder(place, replace=False) as new:
                shutil.copy(file, new / file.name)  # with its permissions
                for file_name, text in texts.items():
                    (new / file_name).write_text(text, encoding="utf-8")
    read = [f"Read {plural(len(rows), 'row')} of {file}{_format_in_words(file, source)}."]
    copied = [] if has_file else [f"Copied it to {place / file.name}, which is now the data of the benchmark."]
    remarks = [f"In the file, {words}." for words in sheet_remarks(file, source)] if source.kind == "xlsx" else []
    return place, [*read, *remarks, *copied, *guess.in_words()]


def table_source(file: Path) -> Source:
    """Return the source of a spreadsheet: kind and sheet. Raises UserError for another file, or a missing one."""
    if not file.is_file():
        raise UserError(f"{file} does not exist.{names_beside(file)}")
    kind = KINDS.get(file.suffix.lower())
    if kind is None:
        raise UserError(f"{file} is not a spreadsheet by its suffix. Known: {', '.join(KINDS)}.")
    return Source(kind=kind, sheet=fullest_sheet(file) if kind == "xlsx" else "", files={file.name: ""})


def guess_columns(rows: Sequence[Row], file: Path, *, answer: str = "") -> ColumnGuess:
    """Guess the purpose of each column by its name and its values.

    Raises: DataError without rows, UserError if no column looks like the answer, or like a text to read.
    """
    if not rows:
        raise DataError(f"{file}: has no rows below a header.")
    names = [name for name in columns(rows) if name.strip()]
    values = {name: [_text(row.get(name)) for row in rows] for name in names}
    broken = {name for name in names if any(isinstance(row.get(name), BrokenCell) for row in rows)}
    rows_with_content = [i for i in range(len(rows)) if any(values[name][i] for name in names)]
    values = {name: [cells[i] for i in rows_with_content] for name, cells in values.items()}
    if answer and answer not in names:
        raise UserError(f"{file} has no column `{answer}`. {suggestion(answer, names)}".rstrip())
    options = _options([name for name in names if name != answer])
    rest = [name for name in names if name not in options]
    answer = answer or _first_known(rest, _ANSWERS) or _label_column(rest, values)
    if not answer:
        raise UserError(
            f"no column of {file} looks like the correct answer. Columns: {', '.join(names)}. Name it with --answer."
        )
    rest = [name for name in rest if name != answer]
    cluster = _first_known(rest, _PATIENTS)
    unique = [n for n in rest if n != cluster and all(values[n]) and len(set(values[n])) == len(values[n])]
    identity = _first_known(unique, _IDS) or next((name for name in unique if slug(name).endswith("_id")), "")
    rest = [name for name in rest if name not in (cluster, identity)]
    texts = [name for name in rest if slug(name) in _TEXTS or _mean_length(values[name]) >= _LEAST_TEXT]
    texts = texts or sorted(rest, key=lambda name: _mean_length(values[name]))[-1:]
    if not texts:
        raise UserError(f"no column of {file} is left for the prompt. Columns: {', '.join(names)}.")
    form, choices, spellings = _answer_form(values, answer, options)
    required = tuple(name for name in (answer, *texts[:1]) if name not in broken and not all(values[name]))
    return ColumnGuess(
        answer=answer,
        form=form,
        texts=tuple(texts),
        id=identity,
        cluster=cluster,
        has_record_numbers=bool(cluster) and are_record_numbers(cluster, values[cluster]),
        options=tuple(options),
        choices=choices,
        has_short_answers=_mean_length(values[answer]) <= _SHORT_ANSWER,
        values=spellings,
        required=required,
        n_rows=len(rows_with_content),
        n_skipped=sum(not all(cells) for cells in zip(*(values[name] for name in required), strict=True)),
        unused=tuple(name for name in rest if name not in texts),
    )


def _text(value: object) -> str:
    """Return the text of a cell; empty for an error, which `benchmarks check` names."""
    return "" if isinstance(value, BrokenCell) else scalar_text(value).strip()


def _first_known(names: Sequence[str], known: Sequence[str]) -> str:
    """Return the column with the first of the known names; empty if there is none."""
    by_slug = {slug(name): name for name in reversed(names)}
    return next((by_slug[name] for name in known if name in by_slug), "")


def _options(names: Sequence[str]) -> list[str]:
    """Return columns named as options, such as `Option A`, in their order; none if there is only one."""
    found = [name for name in names if _OPTION.fullmatch(slug(name))]
    return found if len(found) > 1 else []


def _label_column(names: Sequence[str], values: dict[str, list[str]]) -> str:
    """Return the last column whose values repeat like those of a label; empty if there is none."""
    return next((name for name in reversed(names) if _common_options(values[name])), "")


def _common_options(cells: Sequence[str]) -> tuple[str, ...]:
    """Return the different answers, each in its most frequent case, if they are few enough to be options.

    Answers that usually mean the same, such as `Y` and `yes`, are one: see `proposed_values`.
    """
    spellings: dict[str, Counter[str]] = {}
    for cell in filter(None, cells):
        spellings.setdefault(" ".join(cell.casefold().split()), Counter())[cell] += 1
    options = {key: counts.most_common(1)[0][0] for key, counts in sorted(spellings.items())}
    same = proposed_values(options.values())
    different = tuple(option for option in options.values() if option not in same)
    are_few = 2 <= len(different) <= min(MOST_OPTIONS, max(2, len(cells) // 2))
    return different if are_few and max(map(len, spellings)) <= LONGEST_OPTION else ()


def _answer_form(
    values: dict[str, list[str]], answer: str, options: Sequence[str]
) -> tuple[AnswerForm, tuple[str, ...], dict[str, str]]:
    """Return how the answer is written, and the options with their other spellings if they are not in columns."""
    if not options:
        choices = _common_options(values[answer])
        others = [cell for cell in dict.fromkeys(values[answer]) if cell] if choices else []
        return "text", choices, proposed_values([*choices, *others])
    given = {cell.upper() for cell in values[answer] if cell}
    if given <= set(LETTERS[: len(options)]):
        return "letter", (), {}
    return ("number" if given <= {str(i + 1) for i in range(len(options))} else "text"), (), {}


def _mean_length(cells: Sequence[str]) -> float:
    filled = [cell for cell in cells if cell]
    return sum(map(len, filled)) / len(filled) if filled else 0.0


def _quoted(names: Sequence[str]) -> str:
    return listed([f"`{' '.join(name.split())}`" for name in names])


def _format_in_words(file: Path, source: Source) -> str:
    """Describe how a file is written, where that is unusual."""
    words = f"the sheet `{source.sheet}`" if source.sheet else ""
    if source.kind != "xlsx":
        words = table_format(file, source).in_words()
    return f": {words}" if words else ""


def _definition(name: str, file: str, source: Source, guess: ColumnGuess) -> str:
    """Return the text of `benchmark.yaml`."""
    fields = {column: _field(column, i, guess.texts) for i, column in enumerate(guess.texts)}
    renamed = {field: column for column, field in fields.items() if field != column}
    cluster_comment = "                # one patient: these rows are not independent"
    required = [fields.get(column, column) for column in guess.required]
    has_options = bool(guess.options or guess.choices)
    yes = [text for text in guess.choices if text.casefold() in ("yes", "y")]
    metrics, limit = "[rouge_l, quasi_exact_match]", 512
    if has_options:
        metrics, limit = "[exact_match, choice_extracted]", 1
    elif guess.has_short_answers:
        metrics, limit = "[quasi_exact_match, rouge_l]", 64
    lines: list[str | None] = [
        "# Made from a spreadsheet. Check the guesses, then run `medhelm benchmarks check` on this folder.",
        "# `medhelm docs benchmark_yaml` explains every key.",
        f"name: {name}",
        f"title: {_yaml(title_of(name))}",
        "description: Describe the task of the model in one or two sentences.",
        "taxonomy:                        # `medhelm taxonomy` lists them",
        "  category: clinical_decision_support",
        "  subcategory: planning_treatments",
        "access: private",
        "source:                          # encoding, delimiter and header_row are detected; correct them here",
        f"  kind: {source.kind}",
        f"  sheet: {_yaml(source.sheet)}" if source.sheet else None,
        f'  files: {{{_yaml(file)}: ""}}',
        "columns:                         # name in the prompt: column of the file" if renamed else None,
        *(f"  {field}: {_yaml(' '.join(column.split()))}" for field, column in renamed.items()),
        f"id: [{_yaml(guess.id)}]" if guess.id else None,
        f"cluster: {_yaml(guess.cluster)}{cluster_comment}" if guess.cluster else None,
        f"require: [{', '.join(map(_yaml, required))}]" if required else None,
        f"choices: {{columns: [{', '.join(map(_yaml, guess.options))}]}}" if guess.options else None,
        f"choices: [{', '.join(map(_yaml, guess.choices))}]" if guess.choices else None,
        f"positive: {_yaml(yes[0])}" if len(guess.choices) == 2 and yes else None,
        f"answer: {{column: {_yaml(guess.answer)}, form: {guess.form}{_values(guess)}}}   # text | letter | number",
        "prompt: |",
        "  Reply with the letter of the right option only." if has_options else "  Give the answer only.",
        *(f"\n  {_heading(column)}: {{{field}}}" for column, field in fields.items()),
        "\n  {options}" if has_options else "",
        "  Answer:",
        f"max_tokens: {limit}",
        f"metrics: {metrics}   # the first is the main one",
    ]
    return "".join(f"{line}\n" for line in lines if line is not None)


def _values(guess: ColumnGuess) -> str:
    """Return the key `values` of the answer, after a comma; empty without other spellings."""
    pairs = ", ".join(f"{_yaml(spelling)}: {_yaml(option)}" for spelling, option in guess.values.items())
    return f", values: {{{pairs}}}" if pairs else ""


def _field(column: str, position: int, texts: Sequence[str]) -> str:
    """Return the name of a column in the prompt: the column, or what is left of it as a name."""
    name = column if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", column) and column != "options" else slug(column)
    taken = [slug(other) for other in texts[:position]]
    is_usable = bool(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)) and name != "options" and name not in taken
    return name if is_usable else f"text_{position + 1}"


def _heading(column: str) -> str:
    words = " ".join(column.replace("_", " ").replace("{", " ").replace("}", " ").split())
    return words[:1].upper() + words[1:]


def title_of(name: str) -> str:
    """Return the title of a benchmark by its name.

    >>> title_of("discharge_qa")
    'Discharge QA'
    """
    short = {"qa", "ehr", "icd", "icu", "ed", "er", "ct", "mri", "ecg"}
    words = [word.upper() if word in short else word for word in name.split("_")]
    return " ".join([words[0] if words[0].isupper() else words[0].capitalize(), *words[1:]])


def _sample_rows(guess: ColumnGuess) -> str:
    """Return invented rows in the schema of the spreadsheet, for runs without data."""
    rows = []
    for number in (1, 2):
        row = dict.fromkeys(guess.texts, f"Invented text {number}.")
        row |= {column: f"option {i}" for i, column in enumerate(guess.options, 1)}
        row |= {column: str(number) for column in (guess.id, guess.cluster) if column}
        if guess.options:
            row[guess.answer] = {"letter": LETTERS[number - 1], "number": str(number)}.get(
                guess.form, f"option {number}"
            )
        else:
            row[guess.answer] = guess.choices[number - 1] if guess.choices else f"Invented answer {number}."
        rows.append(json.dumps(row, ensure_ascii=False) + "\n")
    return "".join(rows)


def _yaml(text: str) -> str:
    """Return a text as YAML on one line, in quotes where it could be read as something else."""
    words = ("true", "false", "null", "yes", "no", "on", "off")
    is_plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*(?: [A-Za-z0-9_.-]+)*", text) and text.lower() not in words
    return text if is_plain else json.dumps(text, ensure_ascii=False)


# --- with sample files ------------------------------------------------------------------------------------------------
# Create a new benchmark: a folder with a commented definition, a small data file and sample rows.

ROWS = (
    {
        "case": "1",
        "note": "Invented note. 71-year-old man with atrial fibrillation, on apixaban. No bleeding. No falls.",
        "question": "Does the patient take an anticoagulant?",
        "answer": "yes",
    },
    {
        "case": "2",
        "note": "Invented note. 34-year-old woman with migraine. Takes sumatriptan when needed and no other medicines.",
        "question": "Does the patient take an anticoagulant?",
        "answer": "no",
    },
    {
        "case": "3",
        "note": "Invented note. 58-year-old woman after mitral valve replacement, on warfarin, INR 2.8 this week.",
        "question": "Does the patient take an anticoagulant?",
        "answer": "yes",
    },
    {
        "case": "4",
        "note": "Invented note. 66-year-old man, warfarin was stopped a year ago after a bleed; takes metformin only.",
        "question": "Does the patient take an anticoagulant?",
        "answer": "no",
    },
)
"""The invented rows of a new benchmark."""

_DEFINITION = """\
# A benchmark of your own. `medhelm docs benchmark_yaml` explains every key; `medhelm benchmarks check {place}`
# checks it. The two data files beside this file hold invented rows: put your own into {name}.csv.
name: {name}                     # as the folder
title: {title}
description: Describe the task of the model in one or two sentences.
taxonomy:                        # `medhelm taxonomy` lists them; new ones work as well
  category: clinical_decision_support
  subcategory: planning_treatments
  task: Name the task
access: private                  # public | gated | private
license: "-"
source:
  kind: csv                      # also tsv json jsonl xlsx parquet arrow feather docx xml text lines
  files: {{{name}.csv: ""}}        # file -> sha256, or "" while it still changes (`sha256sum {name}.csv`)
id: [case]                       # columns that identify a row; leave out for the position in the file
# cluster: patient               # rows with the same value are not independent: one patient, one note
# group: ward                    # groups of rows, sampled separately
# require: [answer]              # skip rows where one of these is empty
choices: [yes, no]               # leave out for open questions; or {{columns: [option_a, option_b]}}
positive: yes                    # the class that sensitivity is about; leave out without one
answer: {{column: answer, form: text}}   # text | letter | number | labels
# sample: {{size: 1000}}           # evaluate 1,000 instances, drawn at random
prompt: |
  Answer the question about the note. Reply with the letter only.

  Note: {{note}}

  Question: {{question}}
  {{options}}
  Answer:
max_tokens: 1
metrics: [exact_match, choice_extracted]   # the first is the main one
# rubric:                        # for open questions: instructions for judges, with `metrics: [jury, rouge_l]`
#   task: You are a physician and judge an answer to a patient.
#   scale: [1, 5]
#   criteria: {{accuracy: Is it right?, completeness: Is all there?, clarity: Can a patient understand it?}}
"""


def scaffold(name: str, folder: Path) -> Path:
    """Create the folder of a new benchmark in `folder`. Raises: UserError if it exists; as `output_errors`."""
    place = folder / name
    if place.exists():
        raise UserError(f"{place} already exists. Choose another name, or another folder with --out.")
    title = title_of(name)
    text = _DEFINITION.format(name=name, title=title, place=place.as_posix())
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)
    with output_errors(place), atomic_folder(place, replace=False) as new:
        (new / FILE_NAME).write_text(text, encoding="utf-8")
        with (new / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(ROWS[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(ROWS)
        (new / SAMPLE_ROWS).write_text(lines, encoding="utf-8")
    return place


# --- copied definition ------------------------------------------------------------------------------------------------

_COPIED = (HOOKS, SAMPLE_ROWS)
_OF_PUBLISHED_BENCHMARK = ("aliases", "citation", "license", "helm", "samples", "rules")
"""Keys of a definition that describe the published benchmark."""
_OF_PUBLISHED_DATA = ("location", "revision", "expected_count", "note", "files", "scoring_files")
"""Fields of a source that describe the published files."""


def benchmark_like(name: str, benchmark: Benchmark, folder: Path) -> tuple[Path, list[str]]:
    """Create the folder of a benchmark below `folder` that asks and scores as another one.

    Returns: the folder, and the paths of the data files to add, below it. Raises: UserError if the folder exists, or if
    the definition cannot be expressed; as `output_errors`.
    """
    if benchmark.rubric and benchmark.rubric.verbatim:
        raise UserError(
            f"{benchmark.name}: its judges get a prompt in HELM's format, which a definition cannot express. Copy its "
            "folder instead."
        )
    place = folder / name
    if place.exists():
        raise UserError(f"{place} already exists. Choose another name, or another folder with --out.")
    content = definition_of(benchmark, name)
    with output_errors(place), atomic_folder(place, replace=False) as new:
        (new / FILE_NAME).write_text(_yaml_text(content, benchmark), encoding="utf-8")
        for file in _COPIED:
            if (benchmark.folder / file).is_file():
                shutil.copyfile(benchmark.folder / file, new / file)
    return place, [*content["source"]["files"], *content["source"].get("scoring_files", ())]


def definition_of(benchmark: Benchmark, name: str) -> dict[str, Any]:
    """Return the definition of a benchmark like another one, for data of the user's own, as keys and values of YAML."""
    from medhelm.benchmarks.schema import DefinitionShape  # lazy, as in `read_definition`

    special = {
        "name": name,
        "title": title_of(name),
        "taxonomy": _given(benchmark.taxonomy),
        "access": "private",
        "source": _source(benchmark.source, name),
        "choices": _choices(benchmark),
        "slices": [
            {"column": one.column, "bands": list(one.bands)} if one.bands else one.column for one in benchmark.slices
        ],
        "answer": _given(benchmark.answer, AnswerField(column="")),
        "sample": _given(SampleRule(size=benchmark.sample.size), SampleRule()),
        "rubric": _rubric(benchmark) if benchmark.rubric else None,
        **dict.fromkeys(_OF_PUBLISHED_BENCHMARK),
    }
    content = {}
    for key in DefinitionShape.model_fields:
        value = special[key] if key in special else getattr(benchmark, FIELD_OF_KEY.get(key, key))
        if value:
            content[key] = list(value) if isinstance(value, tuple) else value
    return content


def _given(shape: Any, usual: Any = None) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from the usual ones; without these, all that are not empty."""
    values = {one.name: getattr(shape, one.name) for one in fields(shape)}
    if usual is None:
        return {name: value for name, value in values.items() if value}
    return {name: value for name, value in values.items() if value != getattr(usual, name)}


def _source(source: Source, name: str) -> dict[str, Any]:
    """Return the source of the user's own files: one, named as the benchmark, unless names of files matter."""
    usual = Source(kind="")
    kept = {key: value for key, value in _given(source, usual).items() if key not in _OF_PUBLISHED_DATA}
    files = list(source.files)
    if source.kind != "folder" and not source.file_column and not set("*?[") & set(files[0]):
        files = [name + PurePosixPath(files[0]).suffix]
    named = {"files": dict.fromkeys(files, "")}
    scoring = {"scoring_files": dict.fromkeys(source.scoring_files, "")} if source.scoring_files else {}
    return {**kept, **named, **scoring}


def _choices(benchmark: Benchmark) -> Any:
    """Return the options: a list, or a mapping where they are in columns or have their texts as names."""
    labels = {"labels": benchmark.choice_labels} if benchmark.choice_labels != "letters" else {}
    if columns := list(benchmark.choice_columns):
        missing = {"missing": benchmark.choices[0]} if benchmark.choices else {}
        return {"columns": columns, **missing, **labels}
    texts = list(benchmark.choices)
    return {"texts": texts, **labels} if labels else texts


def _rubric(benchmark: Benchmark) -> dict[str, Any]:
    """Return the rubric of a benchmark, with what differs in the extended one."""
    rubric, extended = benchmark.rubric, benchmark.extended_rubric
    assert rubric is not None, "the caller has checked"
    in_points = rubric.form == "points"
    content = {
        "task": rubric.task,
        "form": "points" if in_points else None,
        "scale": None if in_points else [rubric.low, rubric.high],
        "low_means": rubric.low_means if rubric.low_means != VERY_POOR else None,
        "show_points": rubric.shows_points or None,
        "reference": None if rubric.shows_reference else False,
        "question": rubric.question or None,
        "criteria": {one.name: _criterion(one) for one in rubric.criteria} or None,
        "criteria_column": benchmark.criteria_column or None,
        "floor": [_given(one) for one in rubric.floors] or None,
        "extended": _extended(rubric, extended) if extended else None,
    }
    return {key: value for key, value in content.items() if value is not None}


def _criterion(criterion: Criterion) -> Any:
    """Return a criterion: its text, or a mapping where it has more."""
    more = {
        "lower_is_better": not criterion.higher_is_better,
        "points": criterion.points,
        "tags": list(criterion.tags),
    }
    given = {key: value for key, value in more.items() if value}
    return {"description": criterion.description, **given} if given else criterion.description


def _extended(rubric: Rubric, extended: Rubric) -> dict[str, Any]:
    """Return the texts of the extended rubric that differ."""
    usual = {one.name: one.description for one in rubric.criteria}
    changed = {one.name: one.description for one in extended.criteria if one.description != usual[one.name]}
    task = {"task": extended.task} if extended.task != rubric.task else {}
    return {**task, **({"criteria": changed} if changed else {})}


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def _yaml_text(content: Mapping[str, Any], benchmark: Benchmark) -> str:
    """Return a definition as YAML, with a comment on its origin."""
    text = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    source = f"{benchmark.title} ({benchmark.name}{', ' + benchmark.license if benchmark.license else ''})"
    return (
        f"# Asks and scores like {source}. Put your own rows into the files below `source`, in the schema of\n"
        f"# {SAMPLE_ROWS}. `medhelm docs benchmark_yaml` explains every key.\n{text}"
    )

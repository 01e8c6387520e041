"""Benchmarks: their data sources, instances, prompts and rubrics."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeVar

Access = Literal["public", "gated", "private"]
"""Access to the data: for anyone, for holders of an agreement, or for the institution that owns it."""

Tier = Literal["real", "sample"]
"""Real data, or the few invented rows that ship with each benchmark. No table mixes the two."""

DataState = Literal["here", "incomplete", "absent", "verified", "unpinned", "changed"]
"""State of the data. Before reading: `here` (all files exist), `incomplete` (some do), `absent` (none does).
After reading: `verified` (all checksums match), `unpinned` (the definition has no checksum for some files, as for a
hospital's own data), `changed` (a checksum differs)."""

AnswerForm = Literal["text", "letter", "number", "labels"]
"""Form in which the data gives the correct answer."""

JURY = "jury"
"""Name of the metric that a jury computes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taxonomy:
    """Category and subcategory of medical work that a benchmark belongs to."""

    category: str
    """Id of the category, such as `clinical_decision_support`."""
    subcategory: str
    """Id of the subcategory, such as `supporting_diagnostic_decisions`."""
    task: str = ""
    """Description of the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subcategory:
    """A kind of medical work."""

    id: str
    """Id in snake case, such as `planning_treatments`."""
    title: str
    """Display name."""
    tasks: tuple[str, ...]
    """The tasks that can be derived from the paper."""
    points: int
    """Number of items in the paper's appendix from which the tasks were derived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """One of the five fields of medical work."""

    id: str
    """Id in snake case, such as `clinical_decision_support`."""
    title: str
    """Display name."""
    definition: str
    """Definition of its scope."""
    criterion: str
    """Criterion for assigning a task to it."""
    performers: str
    """The professions that do this work."""
    subcategories: tuple[Subcategory, ...]
    """Its subcategories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Source of the rows of a benchmark: files, versions and checksums."""

    kind: str
    """Format of the files, such as `csv`; `folder` for several files of different formats."""
    location: str = ""
    """URL template of a file, with `{revision}` and `{file}`; empty if the data cannot be downloaded."""
    revision: str = ""
    """Commit or version that the files are pinned to."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Path of each file below the benchmark's data folder, in reading order -> sha256 in hex, or "" if unknown.

    A file may also be compressed, as NAME.gz. A path may be a pattern such as `notes/*.txt`; its sha256 is that of
    the list of its files (`sources.list_digest`).
    """
    scoring_files: Mapping[str, str] = field(default_factory=dict)
    """The same for files that scoring needs but prompts do not."""
    file_column: str = ""
    """Extra column that holds the path of the row's file below the data folder; empty for none."""
    rows: str = ""
    """For JSON: dotted path of the list (or keyed object) of rows inside the document; empty for the top level."""
    key: str = ""
    """For JSON whose rows are a keyed object: name of the column that holds the keys."""
    sheet: str = ""
    """For workbooks: name of the sheet; empty for the first sheet."""
    encoding: str = "utf-8-sig"
    """Text encoding of the files: by default UTF-8 with or without a byte order mark, detected for tables."""
    delimiter: str = ""
    """For CSV: character between cells; empty to find it."""
    header_row: int | None = None
    """For CSV: line of the header; for workbooks: its row; None to find it."""
    expected_count: int | None = None
    """Number of instances in the data before sampling. Any other number is an error."""
    note: str = ""
    """For data that is not public: the required agreement, and where to apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRule:
    """Selection of the instances to evaluate: `size` drawn at random without replacement, or a list of ids."""

    size: int | None = None
    """Number to draw, from each group if there are groups; None, or more than there are, takes all."""
    pool: int | None = None
    """Size of the pool to draw from, if it is larger than the available data; None: the data itself."""
    offset: int = 0
    """Position of the first available instance within the pool."""
    ids_file: str = ""
    """Path, below the data folder, of a JSON list or object whose entries or keys are the ids to evaluate."""
    ids_sha256: str = ""
    """sha256 of that file in hex; empty if unknown."""
    variant: str = ""
    """Variant of the data that the hook returns, if it has several; empty for its default."""
    expected_count: int | None = None
    """Number of instances of that variant before the draw; None: the number in the source."""
    last_answer: bool = False
    """True if rows that differ only in the answer count once, with the answer of the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerField:
    """Location and form of the correct answer in a row."""

    column: str
    """Name of the column; empty if there is none, because only judges can grade."""
    form: AnswerForm = "text"
    """The text itself, the letter of the correct option, its number from 1, or a set of labels."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Text in the column -> the answer that it means, such as `Y` -> `yes`; others are answers as they are."""


RubricName = Literal["standard", "extended"]
"""Name of a rubric of a benchmark with two. `standard` asks judges what the reference implementation asks; `extended`
asks more."""

STANDARD: RubricName = "standard"
EXTENDED: RubricName = "extended"


def is_rubric_file(rubric: str) -> bool:
    """Return True if the choice of a rubric is a file of the user, and not the name of one of a benchmark's own."""
    return rubric.endswith((".yaml", ".yml"))


VERY_POOR = "very poor"
"""Usual meaning of the worst grade of a rubric."""

RubricForm = Literal["grades", "points"]
"""Form of a judgment: a grade for each criterion, or a decision that it is met, which earns its points."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """One criterion that judges grade."""

    name: str
    """Id, such as `accuracy`."""
    description: str
    """Requirement for the highest grade, or condition for the criterion to be met."""
    higher_is_better: bool = True
    """True if the highest grade is the best one."""
    points: float = 0.0
    """Points for meeting the criterion, below zero for a harm; only in rubrics in points."""
    tags: tuple[str, ...] = ()
    """Groups of criteria it belongs to, such as `axis:accuracy`; each tag gets a subscore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The grade of a criterion that a completion must reach, whatever its other grades are."""

    criterion: str
    """Name of the criterion."""
    at_least: float | None = None
    """Lowest grade that is good enough; None where lower is better."""
    at_most: float | None = None
    """Highest grade that is good enough, where lower is better; else None."""

    def __str__(self) -> str:
        return f"at most {self.at_most:g}" if self.at_least is None else f"at least {self.at_least:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """Instructions for judges of a completion, and the form of their judgments."""

    task: str
    """Role of the judge and subject of the judgment; with `verbatim` the whole prompt for the judge."""
    criteria: tuple[Criterion, ...] = ()
    """Criteria in order; empty if each instance has its own."""
    low: float = 1.0
    """The lowest grade; 0 for points."""
    high: float = 5.0
    """The highest grade; 1 for points."""
    shows_reference: bool = True
    """True if the judge sees the reference."""
    form: RubricForm = "grades"
    """Form of the judgments."""
    question: str = ""
    """Template of the question that judges see; empty: the only field of the prompt, or the whole prompt if it has
    several fields."""
    verbatim: bool = False
    """True if `task` is the whole prompt for the judge, with {QUESTION}, {RESPONSE} and {GOLD_RESPONSE} to fill in."""
    published_default: float = 1.0
    """Score of an instance that no judge graded, by the published rule."""
    name: str = ""
    """`standard` or `extended` if the benchmark has two, or the name of a rubric of the user's own; else empty."""
    low_means: str = VERY_POOR
    """Meaning of the worst grade, in words for the judge."""

    shows_points: bool = False
    """True if judges see the points of a criterion, as those of HealthBench's authors do."""
    floors: tuple[Floor, ...] = ()
    """Grades that a completion must reach, at most one per criterion; judges do not see them."""

    @property
    def open_below(self) -> bool:
        """True if the score of a completion may lie below the scale, because harms cost points."""
        return self.form == "points"

    @property
    def digest(self) -> str:
        """Return the sha256, in hex, of everything that decides a score: neither the name nor the floors."""
        content = {key: value for key, value in asdict(self).items() if key not in ("name", "floors")}
        if self.low_means == VERY_POOR:  # as in versions without this field
            del content["low_means"]
        if not self.shows_points:
            del content["shows_points"]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


NOT_GIVEN, NOT_A_NUMBER = "not given", "not a number"
"""Slices of the instances without a value, and with a text in a column that has bands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceColumn:
    """A column of the data whose values divide the instances into slices."""

    column: str
    """Name of the column."""
    bands: tuple[float, ...] = ()
    """For numbers: the lower ends of all bands but the first, ascending; empty: every value is a slice."""

    def name_of(self, value: str) -> str:
        """Return the name of the slice that a value belongs to.

        >>> age = SliceColumn(column="age", bands=(18, 65))
        >>> [age.name_of(value) for value in ("17.5", "18", "90", "", "old")]
        ['below 18', '18 to below 65', '65 or more', 'not given', 'not a number']
        """
        text = " ".join(value.split())
        if not text or not self.bands:
            return text or NOT_GIVEN
        try:
            place = sum(float(text) >= start for start in self.bands)
        except ValueError:
            return NOT_A_NUMBER
        return NOT_GIVEN if text.lower() == "nan" else self.band_names[place]

    def __str__(self) -> str:
        return f"{self.column} ({', '.join(self.band_names)})" if self.bands else self.column

    @property
    def band_names(self) -> list[str]:
        """Names of the bands, in order; none without bands."""
        starts = [f"{start:g}" for start in self.bands]
        middle = [f"{low} to below {high}" for low, high in pairwise(starts)]
        return [f"below {starts[0]}", *middle, f"{starts[-1]} or more"] if starts else []


@dataclass(frozen=True, slots=True)
class RuleDescription:
    """Difference between the published rule and the corrected rule on a benchmark, in words."""

    published: str = ""
    """Rule of the published leaderboard: data, parsing of completions, metric."""
    corrected: str = ""
    """Default rule of MedHELM."""
    why: str = ""
    """Reason for the difference; `-` if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Benchmark:
    """A benchmark: its data, prompt, limits and metrics."""

    name: str
    """Id in snake case, such as `pubmed_qa`."""
    title: str
    """Name for people, such as `PubMedQA`."""
    description: str
    """The task of the model in one or two sentences."""
    taxonomy: Taxonomy
    """Category and subcategory."""
    access: Access
    """Access to the data."""
    source: Source
    """Source of the rows."""
    prompt: str
    """Template of the user message with `{column}` for a column and `{options}` for the lettered options; empty if the
    model continues a conversation."""
    answer: AnswerField
    """Location of the correct answer."""
    metrics: tuple[str, ...]
    """Names of the metrics; the first is the main one."""
    max_tokens: int
    """Limit on the completion of a model without hidden reasoning."""
    aliases: tuple[str, ...] = ()
    """Other names, such as that of the reference implementation."""
    system: str = ""
    """Template of the system message; empty for none."""
    own_prompt: str = ""
    """Its own template, if `prompt` is another one that the user chose: judges see the question as they always do."""
    answer_after: str = ""
    """Mark that the prompt asks for before the final answer, such as `Answer:`; empty: completions are answers."""
    shorten: str = ""
    """Field whose oldest part is dropped if a prompt exceeds the context window; `none`: never truncate; empty: the
    longest field, unless that could remove the question."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Field name -> column of the data, if they differ."""
    id_columns: tuple[str, ...] = ()
    """Columns whose values, joined by `/`, form the instance id; empty: the position in the source file, from 0."""
    cluster_column: str = ""
    """Column shared by instances that are not independent (same patient, same note); empty if all are."""
    group_column: str = ""
    """Column that divides the instances into groups (conditions, tasks), of equal weight by the published rule."""
    choices: tuple[str, ...] = ()
    """Options that are the same for every instance."""
    positive: str = ""
    """Option of the positive class, such as the disease; empty if none is named."""
    forbidden_perturbations: Mapping[str, str] = field(default_factory=dict)
    """Perturbation that would change the correct answer -> the reason, as a sentence."""
    choice_columns: tuple[str, ...] = ()
    """Columns that hold the options, in order, if they differ by instance."""
    choice_labels: Literal["letters", "texts"] = "letters"
    """Names of the options in completions: A, B, C ..., or the option's text."""
    metadata_columns: tuple[str, ...] = ()
    """Columns for metrics and tables that no model sees."""
    slices: tuple[SliceColumn, ...] = ()
    """Columns by whose values scores are worth looking at; the group is one without being listed."""
    required_columns: tuple[str, ...] = ()
    """Columns that must not be empty; rows where one is empty are skipped and counted."""
    drop_duplicates: bool = False
    """True if rows with equal prompts and answers count once (the first is kept)."""
    sample: SampleRule = SampleRule()
    """Default selection of instances."""
    samples: Mapping[str, SampleRule] = field(default_factory=dict)
    """Other named selections, such as `official`."""
    citation: str = ""
    """URL of the paper."""
    license: str = ""
    """License of the data."""
    stop: tuple[str, ...] = ()
    """Sequences that end a completion."""
    rubric: Rubric | None = None
    """Rubric for completions in free text; None if no judge is needed."""
    extended_rubric: Rubric | None = None
    """Rubric that asks for more, and that an evaluation can use instead; None if there is one rubric only."""
    criteria_column: str = ""
    """Column with the criteria of each instance, as JSON; empty if all instances share those of the rubric."""
    conversation_column: str = ""
    """Column with the turns of a conversation that the model is to continue, as JSON; empty for a single question."""
    rules: RuleDescription = RuleDescription()
    """Difference between the two rules."""
    remarks: tuple[str, ...] = ()
    """Notes for users about how the definition was read."""
    folder: Path = Path()
    """Folder of the definition, its sample rows and hooks."""
    digest: str = ""
    """Hash of everything that decides prompts and scores: the definition with `rubric`, and its hooks."""
    extended_digest: str = ""
    """The same hash with `extended_rubric` in place of `rubric`; empty without one."""
    package: str = ""
    """Installed package that provides it; empty for built-in benchmarks and the user's own."""

    def __repr__(self) -> str:
        return f"<Benchmark: {self.name}, {self.title}>"

    @property
    def slice_columns(self) -> tuple[SliceColumn, ...]:
        """Columns by which scores are shown: the group, and those of `slices`."""
        is_listed = any(one.column == self.group_column for one in self.slices)
        group = () if is_listed or not self.group_column else (SliceColumn(column=self.group_column),)
        return group + self.slices

    @property
    def main_metric(self) -> str:
        """Name of the metric that leaderboards show."""
        return self.metrics[0]

    def with_rubric(self, name: str) -> Benchmark:
        """Return this benchmark with the rubric of that name, if it has two; else itself."""
        if name != EXTENDED or self.extended_rubric is None:
            return self
        return replace(
            self, rubric=self.extended_rubric, digest=self.extended_digest, extended_rubric=None, extended_digest=""
        )

    def as_used(self, rubric: str, digest: str) -> Benchmark:
        """Return this benchmark with the rubric of a run, by its name or by the digest of the run's definition.

        Runs without judges have no rubric. Those of version 0.1.0 have the digest with the extended one.
        """
        return self.with_rubric(EXTENDED if digest == self.extended_digest else rubric)


def needs_answer(metrics: Iterable[object], *, shows_reference: bool, has_choices: bool) -> bool:
    """Return True if a benchmark needs correct answers: for its metrics, to show to judges, or among its options.

    Parameters: metrics, their names; shows_reference, True if judges see the answer; has_choices, True if instances
    have options.
    """
    return has_choices or shows_reference or any(name != JURY for name in metrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """Availability of a benchmark's data on this machine."""

    state: DataState
    """State of the data."""
    folder: Path | None
    """Folder of the data; None if not found."""
    missing: tuple[str, ...]
    """Missing files, as paths below the folder."""
    addresses: tuple[str, ...]
    """URLs for the download; empty if the data cannot be downloaded."""
    reason: str
    """Reason why the data cannot be used, or a defect of it; empty if there is none."""

    @property
    def is_usable(self) -> bool:
        """Return True if the data can be evaluated."""
        return self.state in ("here", "verified", "unpinned")


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a prompt."""

    role: Literal["system", "user", "assistant"]
    """Author of the message."""
    text: str
    """Content of the message."""


@dataclass(frozen=True, slots=True)
class Reference:
    """An answer known to be correct or wrong."""

    text: str
    """The answer as the data gives it."""
    correct: bool = True
    """True if the answer is correct."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One question of a benchmark, before it becomes a prompt."""

    id: str
    """Stable id within the benchmark: the data set's own, else the position in the source file."""
    fields: Mapping[str, str]
    """Field name -> text, for the prompt."""
    references: tuple[Reference, ...]
    """Known answers; for a choice question one for each option, in option order."""
    choices: tuple[str, ...] = ()
    """Texts of the options, in the order shown; empty for an open question."""
    labels: tuple[str, ...] = ()
    """Name of each option in completions: A, B, C ..., or the option's text. As long as `choices`."""
    cluster: str = ""
    """Instances with the same value are not independent; empty: independent of all others."""
    group: str = ""
    """Group of the instance; empty if there are none."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Column -> text, for metrics and tables only."""
    criteria: tuple[Criterion, ...] = ()
    """Criteria of this instance; empty: those of the rubric."""
    turns: tuple[Message, ...] = ()
    """The conversation to continue, ending with a user message; empty for a single question."""
    examples: tuple[Message, ...] = ()
    """Solved examples that precede the question, by turns of the user and the assistant; no judge sees them."""

    @property
    def correct(self) -> tuple[str, ...]:
        """Texts of the correct references."""
        return tuple([r.text for r in self.references if r.correct])

    @property
    def expected(self) -> str:
        """Expected completion: the label of the correct option, or the first correct reference; "" if there is none."""
        for position, reference in enumerate(self.references):
            if reference.correct:
                return self.labels[position] if self.labels else reference.text
        return ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The complete prompt of a model."""

    messages: tuple[Message, ...]
    """In order; the last is the user's."""


# --- suite ------------------------------------------------------------------------------------------------------------
# Suites: weighted selections of benchmarks.


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteEntry:
    """One benchmark of a suite: its names and category."""

    name: str
    """Id in snake case, such as `pubmed_qa`."""
    title: str
    """Name for people, such as `PubMedQA`."""
    category: str
    """Id of its category."""
    subcategory: str
    """Id of its subcategory."""
    alias: str = ""
    """Id in the reference implementation, if it differs; else empty."""
    in_paper: bool = True
    """True if it is one of the 35 benchmarks of the paper."""
    access: str = ""
    """Access to the data: public, gated or private; empty if unknown."""
    construction: str = ""
    """Construction: existing benchmark, reformulated from existing data, or new; empty if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A selection of benchmarks with their weights."""

    name: str
    """Name for people, such as `paper35`."""
    weights: Mapping[str, float] | None
    """Benchmark id -> weight above 0, in display order; None: all benchmarks with equal weights."""
    description: str = ""
    """Purpose of the suite."""


# --- grouping ---------------------------------------------------------------------------------------------------------
# Grouping of items by a key.

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def group_by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return the items with each key; keys and items stay in the order in which they appear.

    Unlike `itertools.groupby`, items with equal keys need not be neighbors.

    >>> group_by(["aci", "ehr", "add"], lambda name: name[0])
    {'a': ['aci', 'add'], 'e': ['ehr']}
    """
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found

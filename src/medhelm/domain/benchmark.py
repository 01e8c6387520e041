"""What is asked: benchmarks, where their rows come from, instances and prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Access = Literal["public", "gated", "private"]
"""Who can get the data: anyone, holders of an agreement, or the institution that owns it."""

Tier = Literal["real", "sample"]
"""Real data, or the few invented rows that ship with each benchmark. Never mixed in one table."""

DataState = Literal["here", "incomplete", "absent", "verified", "unpinned", "changed"]
"""`here`: all files are there; `incomplete`: some are; `absent`: none. After reading them: `verified`: all have the
checksums of the definition; `unpinned`: it names none for some, as for data that each hospital has of its own;
`changed`: a checksum is another one."""

AnswerForm = Literal["text", "letter", "number", "labels"]
"""How the data gives the right answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taxonomy:
    """The place of a benchmark among the categories and subcategories of medical work."""

    category: str
    """Id of the category, such as `clinical_decision_support`."""
    subcategory: str
    """Id of the subcategory, such as `supporting_diagnostic_decisions`."""
    task: str = ""
    """The task in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the rows of a benchmark come from, exactly."""

    kind: str
    """Format of the files, such as `csv`; `folder` where several files of different formats belong together."""
    location: str = ""
    """Address of a file, with `{revision}` and `{file}` to fill in; empty where the data cannot be downloaded."""
    revision: str = ""
    """Commit or version the files were pinned at."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Path of each file below the benchmark's data folder, in reading order -> sha256 in hex, or "" if unknown.

    A file may also be there packed, as NAME.gz. A path may be a pattern such as `notes/*.txt`; its sha256 is that of
    the list of its files (`sources.list_digest`).
    """
    scoring_files: Mapping[str, str] = field(default_factory=dict)
    """The same for files that are needed to score completions, but not to ask the questions."""
    file_column: str = ""
    """Column that every row gets, with the path of its file below the data folder; empty for none."""
    rows: str = ""
    """For JSON: the dotted path of the list (or keyed object) of rows inside the document; empty for the top."""
    key: str = ""
    """For JSON whose rows are a keyed object: the column that the keys become."""
    sheet: str = ""
    """For workbooks: name of the sheet; empty for the first."""
    encoding: str = "utf-8-sig"
    """Text encoding of the files; the default reads UTF-8 with or without a byte order mark."""
    expected_count: int | None = None
    """Number of instances the data holds before sampling. Another number is an error, not a smaller benchmark."""
    note: str = ""
    """Which agreement is needed and where to apply, for data that is not public."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRule:
    """Which of the instances are evaluated: `size` drawn at random without replacement, or a list of ids."""

    size: int | None = None
    """How many to draw, of each group where there are groups; None, or at least as many as there are, takes all."""
    pool: int | None = None
    """Size of the pool the draw is made from, where it is larger than the data at hand; None: the data itself."""
    offset: int = 0
    """Position of the first instance at hand within the pool."""
    ids_file: str = ""
    """Path, below the data folder, of a JSON list or object whose entries or keys are the ids to evaluate."""
    ids_sha256: str = ""
    """sha256 of that file in hex; empty if unknown."""
    variant: str = ""
    """Which reading of the data the hook gives, where it knows several; empty for its own choice."""
    expected_count: int | None = None
    """Number of instances that reading gives before the draw; None: what the source says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerField:
    """Where the right answer of a row stands, and in which form."""

    column: str
    """Name of the column; empty where there is none, for what only judges can grade."""
    form: AnswerForm = "text"
    """The text itself, the letter of the right option, its number counted from 1, or a set of labels."""


RubricForm = Literal["grades", "points"]
"""How judges answer: a grade for each criterion, or whether it is met, which earns its points."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """One of the things that judges grade."""

    name: str
    """Id, such as `accuracy`."""
    description: str
    """What the highest grade asks for, or what has to be true for the criterion to be met."""
    higher_is_better: bool = True
    """Whether the highest grade is the best one."""
    points: float = 0.0
    """What meeting it earns, below zero for a harm; in a rubric in points only."""
    tags: tuple[str, ...] = ()
    """What it belongs to, such as `axis:accuracy`; scores are also given for each tag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """What judges are asked about a completion, and how they answer."""

    task: str
    """Who the judge is, and what is judged; with `verbatim` the whole text for the judge."""
    criteria: tuple[Criterion, ...] = ()
    """What is graded, in order; empty where each instance has criteria of its own."""
    low: float = 1.0
    """The lowest grade; 0 for points."""
    high: float = 5.0
    """The highest grade; 1 for points."""
    shows_reference: bool = True
    """Whether the judge sees the reference."""
    form: RubricForm = "grades"
    """How judges answer."""
    question: str = ""
    """Template of what judges see as the question; empty: the one field of the prompt, or what the model read if there
    are several."""
    verbatim: bool = False
    """Whether `task` is the whole text for the judge, with {QUESTION}, {RESPONSE} and {GOLD_RESPONSE} to fill in."""
    published_default: float = 1.0
    """What the published rule gives an instance that no judge graded."""


@dataclass(frozen=True, slots=True)
class RuleDescription:
    """How the published rule and the corrected one differ on a benchmark, for people."""

    published: str = ""
    """What the published leaderboard does: data, reading of answers, metric."""
    corrected: str = ""
    """What is done here by default."""
    why: str = ""
    """Why it differs; `-` where it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A clinical task: its data, its prompt, its limits, and how completions are scored."""

    name: str
    """Id in snake case, such as `pubmed_qa`."""
    title: str
    """Name for people, such as `PubMedQA`."""
    description: str
    """One or two sentences: what a model has to do."""
    taxonomy: Taxonomy
    """Its place in the taxonomy."""
    access: Access
    """Who can get the data."""
    source: Source
    """Where the rows come from."""
    prompt: str
    """Template of the user message: `{column}` stands for a column, `{options}` for the lettered options; empty where a
    conversation is continued."""
    answer: AnswerField
    """Where the right answer stands."""
    metrics: tuple[str, ...]
    """Names of the metrics; the first is the main one."""
    max_tokens: int
    """Limit on the completion of a model that does not reason before it answers."""
    aliases: tuple[str, ...] = ()
    """Other names it goes by, such as the reference implementation's."""
    system: str = ""
    """Template of the system message; empty for none."""
    shorten: str = ""
    """The field that loses its oldest part where a prompt does not fit a model; `none`: no field may; empty: the
    longest, if that cannot take away the question."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Field name -> column of the data, where they differ."""
    id_columns: tuple[str, ...] = ()
    """Columns whose values, joined by `/`, identify an instance; empty: the position in the source file, from 0."""
    cluster_column: str = ""
    """Column shared by instances that are not independent (same patient, same note); empty if all are."""
    group_column: str = ""
    """Column that divides the instances into groups (conditions, tasks) of equal weight by the published rule."""
    choices: tuple[str, ...] = ()
    """Options that are the same for every instance."""
    choice_columns: tuple[str, ...] = ()
    """Columns that hold the options, in order, where they differ by instance."""
    choice_labels: Literal["letters", "texts"] = "letters"
    """What a completion names an option by: A, B, C ... or the option's own text."""
    metadata_columns: tuple[str, ...] = ()
    """Columns kept with the instance for metrics and tables, but never shown to a model."""
    required_columns: tuple[str, ...] = ()
    """Rows with one of these empty are skipped and counted."""
    drop_duplicates: bool = False
    """Whether rows that give the same prompt and answer count once (the first is kept)."""
    sample: SampleRule = SampleRule()
    """The instances evaluated by default."""
    samples: Mapping[str, SampleRule] = field(default_factory=dict)
    """Other named selections, such as `official`."""
    citation: str = ""
    """Address of the paper."""
    license: str = ""
    """Licence of the data."""
    stop: tuple[str, ...] = ()
    """Sequences that end a completion."""
    rubric: Rubric | None = None
    """What judges are asked, for answers that are free text; None where no judge is needed."""
    criteria_column: str = ""
    """Column with the criteria of each instance, as JSON; empty where all instances share those of the rubric."""
    conversation_column: str = ""
    """Column with the turns of a conversation that the model is to continue, as JSON; empty for a single question."""
    rules: RuleDescription = RuleDescription()
    """How its two rules differ."""
    remarks: tuple[str, ...] = ()
    """What its user should know of how it was read."""
    folder: Path = Path()
    """Folder of the definition; sample rows and hooks stand beside it."""
    digest: str = ""
    """Hash of everything that decides prompts and scores: the definition and its hooks."""
    package: str = ""
    """The installed package that it comes with; empty for one that is built in or the user's own."""

    @property
    def main_metric(self) -> str:
        """Name of the metric that leaderboards show."""
        return self.metrics[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """What is known of a benchmark's data on this machine."""

    state: DataState
    """How it stands."""
    folder: Path | None
    """Where it was found."""
    missing: tuple[str, ...]
    """Files that should be there and are not, below the folder."""
    addresses: tuple[str, ...]
    """Where it can be downloaded; empty if that is nowhere."""
    reason: str
    """Why it cannot be used, or what is wrong with it, in words; empty if nothing is."""

    @property
    def is_usable(self) -> bool:
        """Whether the benchmark can be asked with it."""
        return self.state in ("here", "verified", "unpinned")


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a prompt."""

    role: Literal["system", "user", "assistant"]
    """Who speaks."""
    text: str
    """What is said."""


@dataclass(frozen=True, slots=True)
class Reference:
    """An answer known to be right or wrong."""

    text: str
    """The answer as the data gives it."""
    correct: bool = True
    """Whether it is right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One question of a benchmark: the row, not yet a prompt."""

    id: str
    """Stable name within the benchmark: the data set's own, else the position in the source file."""
    fields: Mapping[str, str]
    """Field name -> text, for the prompt."""
    references: tuple[Reference, ...]
    """Known answers; for a choice question one for each option, in option order."""
    choices: tuple[str, ...] = ()
    """Texts of the options, in the order shown; empty for an open question."""
    labels: tuple[str, ...] = ()
    """What a completion names each option by: A, B, C ..., or the option's text. As long as `choices`."""
    cluster: str = ""
    """Instances with the same value are not independent; empty: independent of all others."""
    group: str = ""
    """Its group; empty where there are none."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Column -> text, for metrics and tables only."""
    criteria: tuple[Criterion, ...] = ()
    """What judges grade in this instance; empty: what the rubric says."""
    turns: tuple[Message, ...] = ()
    """The conversation to continue, its last turn the user's; empty for a single question."""

    @property
    def correct(self) -> tuple[str, ...]:
        """Texts of the references that are right."""
        return tuple(r.text for r in self.references if r.correct)

    @property
    def expected(self) -> str:
        """What a perfect model would write: the label of the right option, or the first right reference; "" if none."""
        for position, reference in enumerate(self.references):
            if reference.correct:
                return self.labels[position] if self.labels else reference.text
        return ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model reads, complete."""

    messages: tuple[Message, ...]
    """In order; the last is the user's."""

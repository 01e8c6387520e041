"""The nouns of the house: frozen dataclasses and nothing else.

Every other module speaks in these types. They do no input or output, know no model and no file format, and import
nothing of ours. Units are in the names (`latency_s`, `cost_usd`, `max_tokens`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Rule = Literal["corrected", "published"]
"""How a metric is computed: as its authors meant it, or bug for bug as the published leaderboard did."""

RULES: tuple[Rule, ...] = ("corrected", "published")
"""Both rules, the default one first."""

Access = Literal["public", "gated", "private"]
"""Who can get the data: anyone, holders of an agreement, or the institution that owns it."""

Tier = Literal["real", "sample"]
"""Real data, or the few invented rows that ship with each benchmark. Never mixed in one table."""

Boundary = Literal["data", "provider", "judge", "metric", "budget", "interrupt"]
"""Where a failure happened."""


# --- what is asked ----------------------------------------------------------------------------------------------------


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
    """Format of the files: csv, tsv, json, jsonl, xlsx, parquet, arrow, docx or text."""
    location: str = ""
    """Address of a file, with `{revision}` and `{file}` to fill in; empty where the data cannot be downloaded."""
    revision: str = ""
    """Commit or version the files were pinned at."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Path of each file below the benchmark's data folder, in reading order -> sha256 in hex, or "" if unknown."""
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
class Sample:
    """Which of the instances are evaluated: `size` drawn at random without replacement, or a list of ids."""

    size: int | None = None
    """How many to draw; None, or a number at least as large as the data, takes all."""
    pool: int | None = None
    """Size of the pool the draw is made from, where it is larger than the data at hand; None: the data itself."""
    offset: int = 0
    """Position of the first instance at hand within the pool."""
    ids_file: str = ""
    """Path, below the data folder, of a JSON list or object whose entries or keys are the ids to evaluate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Where the right answer of a row stands, and in which form."""

    column: str
    """Name of the column."""
    form: Literal["text", "letter", "number"] = "text"
    """The text itself, the letter of the right option, or its number counted from 1."""


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
    """Template of the user message: `{column}` stands for a column, `{options}` for the lettered options."""
    answer: Answer
    """Where the right answer stands."""
    metrics: tuple[str, ...]
    """Names of the metrics; the first is the main one."""
    max_tokens: int
    """Limit on the completion of a model that does not reason before it answers."""
    aliases: tuple[str, ...] = ()
    """Other names it goes by, such as the reference implementation's."""
    system: str = ""
    """Template of the system message; empty for none."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Field name -> column of the data, where they differ."""
    id_columns: tuple[str, ...] = ()
    """Columns whose values, joined by `/`, identify an instance; empty: the position in the source file, from 0."""
    cluster_column: str = ""
    """Column shared by instances that are not independent (same patient, same note); empty if all are."""
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
    sample: Sample = Sample()
    """The instances evaluated by default."""
    samples: Mapping[str, Sample] = field(default_factory=dict)
    """Other named selections, such as `official`."""
    citation: str = ""
    """Address of the paper."""
    license: str = ""
    """Licence of the data."""
    stop: tuple[str, ...] = ()
    """Sequences that end a completion."""
    folder: Path = Path()
    """Folder of the definition; sample rows and hooks stand beside it."""
    digest: str = ""
    """Hash of everything that decides prompts and scores: the definition and its hooks."""

    @property
    def main_metric(self) -> str:
        """Name of the metric that leaderboards show."""
        return self.metrics[0]


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
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Column -> text, for metrics and tables only."""

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
class Message:
    """One turn of a prompt."""

    role: Literal["system", "user", "assistant"]
    """Who speaks."""
    text: str
    """What is said."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model reads, complete."""

    messages: tuple[Message, ...]
    """In order; the last is the user's."""


# --- who answers, and what comes back ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a model costs, in US dollars per million tokens."""

    input: float
    """Per million input tokens that were not cached by the provider."""
    output: float
    """Per million output tokens, hidden reasoning included."""
    cached_input: float | None = None
    """Per million input tokens the provider had cached; None: as `input`."""
    source: str = ""
    """Where the price was read, and its date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model and how it is reached."""

    name: str
    """As the user writes it and tables show it, such as `openai/gpt-4o` or `openai/NAME@http://127.0.0.1:8000/v1`."""
    provider: str
    """Which provider serves it: a key of `models.providers.PROVIDERS`."""
    remote_name: str
    """What the provider calls it."""
    base_url: str = ""
    """Address of the service, up to and including its version part; empty for models without a network."""
    key_variable: str = ""
    """Environment variable that holds the key; empty if none is needed."""
    reasoning: bool = False
    """Whether it spends hidden tokens before it answers: other limits and parameters apply."""
    reasoning_effort: str = ""
    """Effort asked of a reasoning model; empty: the provider's default."""
    window: int | None = None
    """Tokens that prompt and completion may have together; None if unknown."""
    max_tokens: int | None = None
    """Limit on completions that overrides the benchmark's; None: the benchmark's (4000 if it reasons)."""
    max_concurrency: int | None = None
    """Most requests in flight to its endpoint; None: the run's limit."""
    price: Price | None = None
    """What it costs; None if unknown, which never counts as free."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Further request parameters, sent as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call as sent. Equal requests have equal digests."""

    model: Model
    """Who is asked."""
    prompt: Prompt
    """What is asked."""
    max_tokens: int
    """Limit on the completion."""
    temperature: float = 0.0
    """Sampling temperature; not sent to reasoning models."""
    stop: tuple[str, ...] = ()
    """Sequences that end the completion."""
    sample: int = 0
    """Which of several completions of the same prompt this is, from 0."""
    benchmark: str = ""
    """Name of the benchmark, for providers that answer without a network; no part of the digest."""
    instance: Instance | None = None
    """The question behind the prompt, for the same providers; no part of the digest."""

    @property
    def digest(self) -> bytes:
        """32 bytes that identify what is sent and to whom; the key of the cache."""
        model = self.model
        identity = [
            [model.provider, model.base_url, model.remote_name, model.reasoning, model.reasoning_effort],
            sorted(model.parameters.items()),
            [[message.role, message.text] for message in self.prompt.messages],
            [self.max_tokens, self.temperature, list(self.stop), self.sample],
        ]
        return hashlib.sha256(json.dumps(identity, ensure_ascii=True).encode()).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call, or of many. `input` includes `cached_input`; `output` includes `reasoning`."""

    input: int = 0
    cached_input: int = 0
    output: int = 0
    reasoning: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Both together."""
        return Usage(
            input=self.input + other.input,
            cached_input=self.cached_input + other.cached_input,
            output=self.output + other.output,
            reasoning=self.reasoning + other.reasoning,
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no result: data, never a score."""

    boundary: Boundary
    """Where it happened."""
    code: str
    """A short word for tables, such as `refusal`, `timeout` or `malformed_reply`."""
    message: str
    """In words, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What came back: a text, or a failure, never both. An empty text is an answer: the model said nothing."""

    text: str | None = None
    """The answer; None if and only if `failure` is set."""
    failure: Failure | None = None
    """Why there is no answer."""
    finish_reason: str = ""
    """Why the model stopped: `stop`, `length`, or the provider's own word."""
    usage: Usage = Usage()
    """Tokens the provider counted."""
    latency_s: float = 0.0
    """Seconds from sending the request to having read its answer, without waiting and retries."""
    reported_model: str = ""
    """The model's name as the provider gives it, which may carry a version."""


# --- how good it was --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One number for one instance. `value` is None if and only if `failure` is set."""

    metric: str
    """Name of the metric."""
    rule: Rule
    """Which of its two rules was applied."""
    value: float | None
    """In the metric's own unit."""
    failure: Failure | None = None
    """Why there is no number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Everything about one instance in one run."""

    position: int
    """Place of the instance in the run, from 0."""
    instance_id: str
    """Name of the instance."""
    cluster: str
    """Its cluster; empty if independent."""
    request_digest: bytes
    """Key of the completion in the cache; empty if it was made within this process."""
    completion: Completion
    """What came back."""
    scores: tuple[Score, ...]
    """Every metric under both rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean and how far it can be trusted."""

    value: float
    """The mean, in the metric's own unit."""
    low: float
    """Lower end of the 95 % interval."""
    high: float
    """Upper end of the 95 % interval."""
    n: int
    """Instances behind it."""
    n_failed: int = 0
    """Instances without a number, left out of the mean."""
    method: str = ""
    """How the interval was made, such as `wilson` or `bootstrap-2000`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One model on one benchmark with fixed settings: numbers only, no text of patients or models."""

    id: str
    """Digest of what was run: benchmark, data, model, settings."""
    benchmark: str
    """Name of the benchmark."""
    title: str
    """Name of the benchmark for people."""
    taxonomy: Taxonomy
    """Its place in the taxonomy."""
    benchmark_digest: str
    """Digest of its definition."""
    data_digest: str
    """Digest of the data files and of the selection of instances."""
    model: str
    """Name of the model."""
    tier: Tier
    """Real data or sample rows."""
    status: Literal["complete", "partial", "failed"]
    """All instances have a completion or a failure of their own; stopped before; or nothing could be asked."""
    settings: Mapping[str, Any]
    """What the user chose, and decoding limits."""
    started: str
    """Time of the start, ISO 8601, UTC."""
    seconds: float
    """Wall-clock time."""
    n: int
    """Instances that should have been answered."""
    n_failed: int
    """Instances without a completion."""
    failures: Mapping[str, int]
    """Failure code -> how many instances."""
    requests_sent: int
    """Requests that left for the provider in this execution, retries included."""
    requests_cached: int
    """Completions that were there already."""
    usage: Usage
    """Tokens behind all completions, whenever they were paid for."""
    cost_usd: float | None
    """Price of that usage; None if the model's price is not known."""
    main_metric: str
    """The metric that leaderboards show."""
    estimates: Mapping[Rule, Mapping[str, Estimate]]
    """Rule -> metric -> mean with interval."""
    message: str = ""
    """Why it stopped early, in words; empty if it did not."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of this package and of Python."""
    folder: Path | None = None
    """Where it is stored; None if it is not."""

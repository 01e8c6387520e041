"""Runs and their records."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Literal

from medhelm.domain.benchmark import EXTENDED, Taxonomy, Tier
from medhelm.domain.completion import Completion, Model, Usage
from medhelm.domain.display import Displayable
from medhelm.domain.jury import InjectionSign, JudgeReply, JudgeTally, JuryResult, JuryVerdict
from medhelm.domain.score import Estimate, Rule, Score

GRADED_BY_EXTENDED = frozenset(
    [
        "aci_bench",
        "dischargeme",
        "med_dialog",
        "medalign",
        "medication_qa",
        "mediqa_qa",
        "mental_health",
        "mimic_bhc",
        "mimic_rrs",
        "mtsamples",
        "mtsamples_procedures",
        "note_extract",
        "patient_instruct",
    ]
)
"""Benchmarks whose only rubric in version 0.1.0 is now their extended one. Its runs do not record a rubric."""


class RunStatus(StrEnum):
    """Progress of a stored run, or of a check of references by judges."""

    COMPLETE = "complete"
    """Each instance has a completion or its own failure."""
    PARTIAL = "partial"
    """Stopped early."""
    FAILED = "failed"
    """No instance has a completion, and not all were refused."""


MOST_SHARDS = 10_000
"""Most parts of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One of several parts of a run, which can be evaluated on different machines.

    The parts are disjoint. An instance belongs to the same part in every selection of instances.
    """

    index: int
    """Number of the part, from 1."""
    count: int
    """Number of parts."""

    def __post_init__(self) -> None:
        """Raise ValueError for numbers that are none of a part; they can come from a file."""
        if not 1 <= self.index <= self.count <= MOST_SHARDS:
            raise ValueError(
                f"{self} is not a part of a run: give I/N with I from 1 to N, such as 2/8, and N up to {MOST_SHARDS:,}."
            )

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Parse a part written as I/N, such as `2/8`. Raises: ValueError."""
        index, _, count = text.partition("/")
        if not (index.isdecimal() and count.isdecimal() and len(text) < 20):
            raise ValueError(f"{text[:80]!r} is not a part of a run: give I/N with I from 1 to N, such as 2/8.")
        return Shard(index=int(index), count=int(count))

    def __str__(self) -> str:
        """Return the part as I/N, such as `2/8`."""
        return f"{self.index}/{self.count}"

    def has(self, instance_id: str) -> bool:
        """Return True if an instance belongs to this part, which a hash of its id decides."""
        digest = hashlib.sha256(instance_id.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big") % self.count == self.index - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShard(Shard):
    """The part of a run that was evaluated, and the run that it belongs to."""

    run_id: str
    """Id of the undivided run, which the parts are merged into."""
    n_in_run: int
    """Number of instances of the undivided run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One instance in one run: completion, scores and judgments."""

    position: int
    """Position of the instance in the run, from 0."""
    instance_id: str
    """Id of the instance."""
    cluster: str
    """Cluster of the instance; empty if it is independent."""
    group: str = ""
    """Group of the instance; empty if there are none."""
    request_digest: bytes
    """Key of the completion in the cache; empty if it was computed in this process."""
    completion: Completion
    """The completion, or its failure."""
    truncated_characters: int = 0
    """Characters dropped from the prompt to fit the context window."""
    is_unreadable: bool | None = None
    """True if the main metric finds no answer in the text of the completion; None if that is not known."""
    scores: tuple[Score, ...]
    """Scores of all metrics by both rules."""
    judge_replies: tuple[JudgeReply, ...] = ()
    """All replies of judges about the completion."""
    jury_verdict: JuryVerdict | None = None
    """Combined result of the judges; None without a jury."""
    injection_signs: tuple[InjectionSign, ...] = ()
    """Signs of a prompt injection aimed at judges."""


Harness = Literal["helm", "inspect", "lm_eval"]
"""Harness that a run was imported from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Origin of an imported run, or of the prompts that a run reuses."""

    harness: Harness
    """Harness that made it."""
    version: str
    """Version of that harness; empty if unknown."""
    run: str
    """Name of the run in that harness."""
    sha256: str
    """sha256 of the files it was read from, in hex."""
    completions_made_here: bool = False
    """True if only the prompts come from there and MedHELM requested the completions."""
    is_medhelm_task: bool = False
    """True if it ran a MedHELM task there: instances and prompts are MedHELM's, the requests were made there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionCounts:
    """Completions of a run without a readable answer. They are scored like others, mostly with the worst score."""

    n: int
    """Completions, without failed requests."""
    blank: int = 0
    """Completions without text, except for reasoning, that are not right as an empty answer."""
    blank_with_reasoning: int = 0
    """Those of them whose reply held reasoning."""
    unreadable: int | None = None
    """Completions with text in which the main metric finds no answer, and that are not right without one; None if it
    scores any text."""
    answer: str = ""
    """Noun for what the main metric reads, such as `option` or `number`; empty if it scores any text."""
    at_limit: int = 0
    """Completions that end at the limit on tokens: those without a readable answer, or, if any text is scored, all that
    do not have the best score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedInstances:
    """Instances of a run whose text was deleted, see `medhelm purge --instance`."""

    deletion: str
    """Id of the deletion, which its statement in the store has."""
    time: str
    """Time of the deletion, ISO 8601, UTC."""
    n: int
    """Number of instances of the run."""
    numbers_kept: bool
    """True if their scores, counts and costs stay in the run; False if the run was counted without them."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Run(Displayable):
    """One model on one benchmark with fixed settings: numbers only, no text from patients or models."""

    VIEW: ClassVar[str] = "medhelm.results.runs.counted_failures:RUN_VIEW"

    id: str
    """Digest of benchmark, data, model and settings."""
    benchmark: str
    """Name of the benchmark."""
    title: str
    """Name of the benchmark for people."""
    taxonomy: Taxonomy
    """Category and subcategory."""
    benchmark_digest: str
    """Digest of its definition."""
    data_digest: str
    """Digest of the data files and of the selection of instances."""
    model: str
    """Name of the model."""
    tier: Tier
    """Real data or sample rows."""
    status: RunStatus
    """Progress when it was stored."""
    settings: Mapping[str, Any]
    """User settings and decoding limits."""
    started: str
    """Start time, ISO 8601, UTC."""
    seconds: float
    """Wall-clock time."""
    n: int
    """Number of instances."""
    n_failed: int
    """Instances without a completion."""
    failures: Mapping[str, int]
    """Failure code -> number of instances."""
    requests_sent: int
    """Requests sent to the provider in this execution, retries included."""
    requests_cached: int
    """Completions found in the cache, or bought for an equal request of the run."""
    requests_retried: int = 0
    """Requests sent again after an error, in this execution; not stored."""
    requests_duplicate: int = 0
    """Requests equal to another one of the run, in this execution; not stored."""
    usage: Usage
    """Tokens of all completions, those paid for earlier included."""
    cost_usd: float | None
    """Cost of that usage; None if the model's price is unknown."""
    main_metric: str
    """The metric that leaderboards show."""
    n_truncated: int = 0
    """Instances whose prompt was truncated to fit the context window."""
    truncated_characters: int = 0
    """Characters dropped from all prompts together."""
    completion_counts: CompletionCounts | None = None
    """Completions without a readable answer; None in runs of older versions."""
    snapshots: Mapping[str, int] = field(default_factory=dict)
    """Model name in the response -> completions. Several: the model behind the name changed."""
    fingerprints: Mapping[str, int] = field(default_factory=dict)
    """System fingerprint -> completions; empty if the server sends none."""
    refused_parameters: Mapping[str, int] = field(default_factory=dict)
    """Request parameter that the server refuses -> completions requested without it."""
    completion_days: Mapping[str, int] = field(default_factory=dict)
    """Day of arrival, ISO 8601, UTC -> completions; empty if unknown, or computed in this process."""
    estimates: Mapping[Rule, Mapping[str, Estimate]]
    """Rule -> metric -> mean with interval, over the instances that did not fail. What is shown by the corrected rule
    counts failures that the model caused as the worst answer: see `results.runs.counted_failures`."""
    completers: Mapping[str, Estimate] = field(default_factory=dict)
    """Metric -> its mean by the corrected rule without the failures that the model caused, where `estimates` counts
    these as the worst answer; not stored."""
    groups: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    """Group -> mean of the main metric by each rule (None if nothing was scored), and `n`, the instances scored."""
    not_computed: Mapping[str, str] = field(default_factory=dict)
    """Metric that was not computed -> reason, such as a missing package."""
    cut_texts: Mapping[str, int] = field(default_factory=dict)
    """Metric -> instances of which it read only the beginning of a completion or reference; only those above 0."""
    message: str = ""
    """Reason why it stopped early; empty if it did not."""
    jury_result: JuryResult | None = None
    """The jury and its result; None without a jury."""
    resolved_model: Model | None = None
    """The model with its provider and settings; None in runs of older versions."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of this package and of Python."""
    origin: Origin | None = None
    """Origin of an imported run or of reused prompts; None for other runs."""
    shard: RunShard | None = None
    """The part of the undivided run that this is; None for an undivided run. Only undivided runs are results."""
    deletions: tuple[DeletedInstances, ...] = ()
    """Deletions of instances, the earliest first; empty if there was none."""
    folder: Path | None = None
    """Folder of the run; None if it is not stored."""

    @property
    def is_complete(self) -> bool:
        """True if each instance has a completion or its own failure."""
        return self.status == RunStatus.COMPLETE

    @property
    def has_imported_prompts(self) -> bool:
        """True if the prompts come from another harness."""
        return self.origin is not None and not self.origin.is_medhelm_task

    @property
    def has_imported_completions(self) -> bool:
        """True if another harness requested the completions."""
        return self.origin is not None and not self.origin.completions_made_here

    @property
    def judges(self) -> tuple[Model, ...]:
        """Judges of the run, in the order of its jury; empty without judges."""
        return self.jury_result.jury.judges if self.jury_result else ()

    @property
    def tallies(self) -> Mapping[str, JudgeTally]:
        """Judge -> its judgments, counted; empty without judges."""
        return self.jury_result.tallies if self.jury_result else {}

    @property
    def n_not_asked(self) -> int:
        """Instances without a record, because the run was stopped before their completions and judgments were there.

        Requests for some of them may have been sent: a model that cannot be used refuses them.
        """
        return max(0, self.n_failed - sum(self.failures.values()))

    @property
    def fresh(self) -> str:
        """Start of the fresh run that its completions belong to, ISO 8601, UTC; empty if they may be of any age."""
        return str(self.settings.get("fresh") or "")

    @property
    def rubric(self) -> str:
        """Name of the rubric that judges used; empty without judges, or if the benchmark has one rubric only.

        Also empty for imported runs, whose judges read the wording of another harness.
        """
        if self.jury_result is None or self.has_imported_completions:
            return ""
        if self.jury_result.rubric_digest:
            return self.jury_result.rubric
        return EXTENDED if self.benchmark in GRADED_BY_EXTENDED else ""


class Runs(Displayable, list[Run]):
    """Runs of one or more stores: a list that also has the conversions of `Displayable`."""

    __slots__ = ()
    VIEW = "medhelm.results.runs.counted_failures:RUNS_VIEW"

"""Runs and their records.

Variants: named changes to how the instances of a benchmark are asked, and the names of the runs that result.

A run with a setting of its own (another prompt, another temperature) and a variant run (a perturbation, a further
sample) carry both in their settings, and in brackets in the name of their model.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Literal

from medhelm.domain.benchmark import EXTENDED, Benchmark, Instance, Taxonomy, Tier, group_by
from medhelm.domain.completion import AS_WORST, CAUSED_BY_MODEL, Completion, Model, Usage, caused_in_words
from medhelm.domain.jury import InjectionSign, JudgeReply, JudgeTally, JuryResult, JuryVerdict
from medhelm.domain.result import Displayable, Estimate, Remark, Rule, Score
from medhelm.domain.text import listed, plural

# --- variant ----------------------------------------------------------------------------------------------------------

Expectation = Literal["", "invariant", "must_change", "must_abstain"]
"""Correct reaction to a changed instance: the same answer, the new answer of the changed key, or no answer at all.
Empty if there is none to check, as for another sample of the same prompt."""

SETTING, VARIANT, REPEAT = "setting", "variant", "repeat"
"""Keys of a run's settings: how all runs of the command were asked, the variant, and the number of the sample."""

ANSWER_AFTER = "answer_after"
"""Key of a run's settings: the mark that its prompt asked for before the final answer."""
JUDGED, JUDGE_SAMPLE = "judge=", "judge_sample"
"""Start of the names of variants that put stored completions to judges in another way; and the key of their settings
with the number of the judges' completions among several for the same prompt, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A change to how the instances of a benchmark are asked."""

    name: str
    """Kind and name, such as `perturb=typos`, `repeat=2` or `prompt=chain_of_thought`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Stored with each run, and part of its identity: all that decides the change."""
    benchmark: Callable[[Benchmark], Benchmark] | None = None
    """Changes prompt, limits or rubric; None if they stay."""
    instance: Callable[[Instance], Instance | None] | None = None
    """Changes an instance, and returns None if it does not apply to it; None if instances stay."""
    completion: Callable[[Instance, str], str] | None = None
    """Changes the text of a stored completion before judges see it; None if completions stay."""

    def digest_of(self, data_digest: str) -> str:
        """Return the digest of a data set after this change. `data_digest`: that of the instances as they are."""
        identity = [data_digest, self.name, sorted(self.settings.items())]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def setting_in_words(*, prompt: str, temperature: float) -> str:
    """Return how a command asks all its instances, as it appears in the names of runs; empty for the usual way.

    >>> setting_in_words(prompt="prompts/short.yaml", temperature=0.7)
    'prompt=short, temperature=0.7'
    """
    name = prompt.replace("\\", "/").rpartition("/")[2].removesuffix(".yaml").removesuffix(".yml")
    parts = [f"prompt={name}"] if prompt else []
    return ", ".join([*parts, *([f"temperature={temperature:g}"] if temperature else [])])


def asked_in_words(settings: Mapping[str, Any]) -> str:
    """Return the setting and the variant that the settings of a run name; empty for the usual way.

    >>> asked_in_words({"setting": "temperature=0.7", "variant": "repeat=2"})
    'temperature=0.7, repeat=2'
    """
    return ", ".join(text for key in (SETTING, VARIANT) if (text := settings.get(key)))


def run_name(model: str, settings: Mapping[str, Any], *, is_sampled: bool) -> str:
    """Return the name of the model in a run: with its setting and its variant in brackets, if it has any.

    `is_sampled`: False for models in this process that read no prompt, and have no setting.

    >>> run_name("openai/x", {"setting": "temperature=0.7", "variant": "repeat=2"}, is_sampled=True)
    'openai/x [temperature=0.7, repeat=2]'
    """
    asked = asked_in_words(settings) if is_sampled else settings.get(VARIANT)
    return f"{model} [{asked}]" if asked else model


# --- run --------------------------------------------------------------------------------------------------------------

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

    VIEW: ClassVar[str] = "medhelm.results.runs.counted:RUN_VIEW"

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
    """Name of the model; with its setting and variant in brackets, if it has any."""
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
    counts failures that the model caused as the worst answer: see `results.runs.counted`."""
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
    def model_name(self) -> str:
        """Name of the model without setting and variant, as commands take it."""
        if not (self.setting or self.variant):
            return self.model
        return self.resolved_model.name if self.resolved_model else self.model.partition(" [")[0]

    @property
    def setting(self) -> str:
        """Prompt and temperature that the command chose, such as `prompt=terse, temperature=0.7`; else empty."""
        return str(self.settings.get(SETTING) or "")

    @property
    def variant(self) -> str:
        """Variant of the instances, such as `perturb=typos` or `repeat=2`; empty for the instances as they are."""
        return str(self.settings.get(VARIANT) or "")

    @property
    def is_variant(self) -> bool:
        """True if other questions were asked than the benchmark's: such runs never count for the main scores."""
        return bool(self.variant or self.settings.get("prompt"))

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
    VIEW = "medhelm.results.runs.counted:RUNS_VIEW"


# --- run folder -------------------------------------------------------------------------------------------------------
# Runs as folders of a store, damaged ones included, and removals of runs.

SHORT_ID = 10
"""Characters of a run id in the name of its folder and in tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOnDisk:
    """A run's folder, which may be damaged."""

    folder: Path
    """The folder."""
    run: Run | None
    """The run; None if its `run.json` cannot be read."""
    problem: str = ""
    """The damage, in a sentence; empty if there is none."""
    files: Mapping[str, int]
    """Name of each file -> its size in bytes."""
    removal: str = ""
    """Id of the removal that holds it; empty if it was not removed."""

    @property
    def store(self) -> Path:
        """Folder of the store."""
        return self.folder.parents[3 if self.removal else 2]

    @property
    def id(self) -> str:
        """Id of the run; its first characters if only the folder's name is known."""
        return self.run.id if self.run else self.folder.name.rpartition("-")[2]

    @property
    def short_id(self) -> str:
        """The first characters of the id."""
        return self.id[:SHORT_ID]

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""
        return self.run.benchmark if self.run else self.folder.parent.name

    @property
    def model(self) -> str:
        """Name of the model; as the folder spells it if `run.json` cannot be read."""
        return self.run.model if self.run else self.folder.name.rpartition("-")[0]

    @property
    def model_name(self) -> str:
        """Name of the model without setting and variant: a purge of this model deletes all its runs."""
        return self.run.model_name if self.run else self.model

    @property
    def started(self) -> str:
        """Start time, ISO 8601, UTC; empty if unknown."""
        return self.run.started if self.run else ""

    @property
    def status(self) -> str:
        """Status of the run, or `damaged`."""
        return "damaged" if self.problem or not self.run else str(self.run.status)

    @property
    def n_bytes(self) -> int:
        """Bytes on disk."""
        return sum(self.files.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Runs that were removed together and can be restored."""

    id: str
    """Name of its folder, which begins with the time."""
    removed: str
    """Time of the removal, ISO 8601, UTC."""
    runs: Sequence[RunOnDisk]
    """The runs that it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalEffect:
    """Losses of a store without some of its runs."""

    runs: Sequence[RunOnDisk]
    """The runs."""
    requests: int
    """Number of different requests of these runs, to models and judges, damaged runs left out."""
    requests_cached: int
    """Requests whose completion is in the cache, and stays there."""
    cost_usd: float
    """Cost of buying all completions and judgments again, as the runs recorded it, as far as it is known."""
    cost_unknown: int
    """Runs whose cost is not known in full."""
    imported: int
    """Runs that other harnesses made: their completions are in no cache."""
    releases: Mapping[str, int]
    """Release that uses some of these runs -> how many."""


# --- completion counts ------------------------------------------------------------------------------------------------
# Counts of completions without a readable answer, and sentences that name the likely cause.
#
# Such completions are no failures: they were received, and scored. A model that "knows nothing" and a server that loses
# its answers would look the same without these counts.

LEAST_SHARE = 0.05
"""Share of the completions from which a remark says so."""

NAMED = 5
"""Most benchmarks named in one sentence."""


@dataclass(frozen=True, slots=True)
class _Affected:
    """Completions of one run with the same problem."""

    run: Run
    counts: CompletionCounts
    n: int
    """Number of them."""

    @property
    def share(self) -> str:
        """Return the number of them among all."""
        return f"{self.n:,} of {plural(self.counts.n, 'completion')}"


def counts_of(run: Run) -> CompletionCounts | None:
    """Return the counts of a run; None if they are unknown, or if it is a baseline, which no server answers for."""
    return None if run.model.startswith("baseline/") else run.completion_counts


def failure_remarks(runs: Iterable[Run]) -> list[Remark]:
    """Return a remark for each model with failures that count as the worst answer, and with runs without a score."""
    found: list[Remark] = []
    for model, own in group_by(runs, lambda run: run.model).items():
        counted = [run for run in own if run.main_metric in run.completers or is_refused(run)]
        if counted:
            failures = sum((Counter(run.failures) for run in counted), Counter[str]())
            found.append(worst_answers(model, failures, [run.title for run in counted]))
        # Such a run is not stored, so none of its failures is counted.
        if empty := [
            run.title for run in own if run.status == "failed" and not CAUSED_BY_MODEL.isdisjoint(run.failures)
        ]:
            text = f"{model}: no completion on {listed(empty, NAMED)}, so it has no score there and is not ranked."
            found.append(Remark("no_completions", model, text))
    return found


def is_refused(run: Run) -> bool:
    """Return True for a run without completions whose refusals count as the worst answer."""
    return run.n_failed == run.n > 0 and run.main_metric in run.estimates.get("corrected", {})


def worst_answers(model: str, failures: Mapping[str, int], titles: Sequence[str], n: int = 0) -> Remark:
    """Return the remark on failures that the model caused, on these benchmarks.

    `failures`: code -> number; `n`: their number if the codes are not known.
    """
    kinds = caused_in_words(failures) or plural(n, "failure that the model caused", "failures that the model caused")
    return Remark("failures_counted_as_worst", model, f"{model}: {kinds} on {listed(titles, NAMED)}, {AS_WORST}.")


def completion_remarks(runs: Iterable[Run]) -> list[Remark]:
    """Return a remark for each model and problem that concerns many of its completions on some benchmark.

    The problems: blank completions, completions without a readable answer, and completions cut by the limit on tokens.
    """
    found: list[Remark] = []
    for model, own in group_by(runs, lambda run: run.model).items():
        known = [(run, counts) for run in own if (counts := counts_of(run))]
        blank = _affected((run, counts, counts.blank) for run, counts in known)
        if blank:
            found.append(Remark("blank_completions", model, _sentence(model, blank, "are blank", _blank_cause(blank))))
        unread = _affected((run, counts, counts.unreadable or 0) for run, counts in known)
        if unread:
            kinds = {one.counts.answer for one in unread}
            problem = f"hold no readable {kinds.pop() if len(kinds) == 1 else 'answer'}"
            advice = f"`medhelm show {unread[0].run.benchmark} INSTANCE` shows the text"
            found.append(Remark("unreadable_completions", model, _sentence(model, unread, problem, advice)))
        at_limit = _affected((run, counts, counts.at_limit) for run, counts in known)
        for limit, same in group_by(at_limit, lambda one: one.run.settings.get("max_tokens")).items():
            ends = f"end at the limit of {plural(limit, 'token')}" if isinstance(limit, int) else "end at their limit"
            text = _sentence(model, same, ends, "raise `max_tokens` of the model in models.yaml")
            found.append(Remark("completions_at_limit", model, text))
    return found


def no_answer_text(run: Run) -> str | None:
    """Return the numbers of a run for a table cell, such as `2 blank, 4 unreadable`; None if there are none."""
    counts = counts_of(run)
    if counts is None:
        return None
    kinds = {"blank": counts.blank, "unreadable": counts.unreadable or 0}
    if not any(kinds.values()):  # otherwise the limit is a cause of these, and the remark names it
        kinds = {"cut by the limit": counts.at_limit}
    return ", ".join(f"{n:,} {kind}" for kind, n in kinds.items() if n) or None


def _affected(found: Iterable[tuple[Run, CompletionCounts, int]]) -> list[_Affected]:
    """Return the runs of which enough completions are concerned."""
    return [_Affected(run, counts, n) for run, counts, n in found if n and n >= LEAST_SHARE * counts.n]


def _sentence(model: str, found: Sequence[_Affected], problem: str, advice: str) -> str:
    """Return the finding for all runs of a model, in one sentence."""
    if len(found) == 1:
        one = found[0]
        verb, _, rest = problem.partition(" ")
        verb = {"are": "is"}.get(verb, f"{verb}s") if one.n == 1 else verb
        return f"{model}: {one.share} on {one.run.title} {verb} {rest}: {advice}."
    n, of = sum(one.n for one in found), sum(one.counts.n for one in found)
    where = listed([f"{one.run.title} {one.n:,} of {one.counts.n:,}" for one in found], NAMED)
    return f"{model}: {n:,} of {of:,} completions {problem} ({where}): {advice}."


def _blank_cause(found: Sequence[_Affected]) -> str:
    """Return the likely cause of blank completions, and what to do."""
    n, reasoned = sum(one.n for one in found), sum(one.counts.blank_with_reasoning for one in found)
    if reasoned:
        which = "the replies hold" if reasoned == n else f"{reasoned:,} of these replies hold{'s' * (reasoned == 1)}"
        return f"{which} reasoning but no answer, so check the reasoning parser of the server, and `max_tokens`"
    return "check the chat template of the server, the stop sequences and `max_tokens`"

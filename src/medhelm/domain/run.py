"""What is kept: records and runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from medhelm.domain.benchmark import Taxonomy, Tier
from medhelm.domain.completion import Completion, Model, Usage
from medhelm.domain.jury import InjectionSign, JudgeReply, JuryResult, JuryVerdict
from medhelm.domain.score import Estimate, Rule, Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Everything about one instance in one run."""

    position: int
    """Place of the instance in the run, from 0."""
    instance_id: str
    """Name of the instance."""
    cluster: str
    """Its cluster; empty if independent."""
    group: str = ""
    """Its group; empty where there are none."""
    request_digest: bytes
    """Key of the completion in the cache; empty if it was made within this process."""
    completion: Completion
    """What came back."""
    truncated_characters: int = 0
    """Characters of the prompt that were left out, because it would not have fitted the model."""
    scores: tuple[Score, ...]
    """Every metric under both rules."""
    judge_replies: tuple[JudgeReply, ...] = ()
    """Everything that judges said of the completion."""
    jury_verdict: JuryVerdict | None = None
    """What they made of it; None where there is no jury."""
    injection_signs: tuple[InjectionSign, ...] = ()
    """What in the completion may be meant for a judge."""


Harness = Literal["helm", "inspect", "lm_eval"]
"""Whose files a run was read from, where it was not made here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a run comes from that another harness made, or whose prompts it was asked."""

    harness: Harness
    """Who made it."""
    version: str
    """Version of that harness; empty if its files do not say."""
    run: str
    """Name of the run there."""
    sha256: str
    """Digest of the files that it was read from, in hex."""
    completions_made_here: bool = False
    """Whether only the prompts come from there, and the completions were made here."""
    is_medhelm_task: bool = False
    """Whether a task of ours was asked there: instances and prompts are ours, and only the calls were made there."""


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
    n_truncated: int = 0
    """Instances whose prompt was shortened, because it would not have fitted the model."""
    truncated_characters: int = 0
    """Characters that these prompts lost together."""
    snapshots: Mapping[str, int] = field(default_factory=dict)
    """The model's name as its server gave it -> completions under it. Several: it changed under its name."""
    fingerprints: Mapping[str, int] = field(default_factory=dict)
    """The server's system fingerprint -> completions under it; empty where there is none."""
    refused_parameters: Mapping[str, int] = field(default_factory=dict)
    """Part of a request that the server refuses -> completions that were asked without it."""
    estimates: Mapping[Rule, Mapping[str, Estimate]]
    """Rule -> metric -> mean with interval."""
    groups: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    """Group -> mean of the main metric by each rule (None if nothing was scored), and `n`, the instances scored."""
    not_computed: Mapping[str, str] = field(default_factory=dict)
    """Metric that needs something that was not here -> what, in words."""
    message: str = ""
    """Why it stopped early, in words; empty if it did not."""
    jury_result: JuryResult | None = None
    """The jury and its work; None where nobody judged."""
    resolved_model: Model | None = None
    """The model as it was reached; None in runs of older versions."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of this package and of Python."""
    origin: Origin | None = None
    """The run of another harness that it was read from, or whose prompts it was asked; None for our own."""
    folder: Path | None = None
    """Where it is stored; None if it is not."""

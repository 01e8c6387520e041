"""Imported runs: the common form of the files of all other harnesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medhelm.domain.benchmark import Instance, Tier
from medhelm.domain.completion import Completion, Model
from medhelm.domain.jury import JudgeReply, Judgment
from medhelm.domain.run import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """One model on one benchmark, as another harness evaluated it.

    Names are those of the other harness; `exchange` maps them to MedHELM's.
    """

    origin: Origin
    """Files it was read from."""
    benchmark: str
    """Name of the benchmark in the other harness."""
    title: str
    """Title of the benchmark; empty if there is none."""
    model: str
    """Name of the model in the other harness."""
    deployment: str = ""
    """Deployment of the model, for harnesses that distinguish deployments; else empty."""
    instances: Sequence[Instance] = ()
    """The instances in order. `turns` are the exact messages sent."""
    completions: Mapping[str, Completion] = field(default_factory=dict)
    """Instance id -> completion; an instance without one failed."""
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Metric in the other harness -> instance id -> score; NaN and missing values are omitted."""
    judges: Sequence[Model] = ()
    """The judges."""
    judgments: Mapping[str, Sequence[Judgment]] = field(default_factory=dict)
    """Instance id -> judgments of its completion: every judge on every criterion, failures included. A blank
    completion has none."""
    judge_prompt: str = ""
    """Prompt of the judges, with {QUESTION}, {RESPONSE} and {GOLD_RESPONSE} to fill in; empty if unknown."""
    unjudged_score: float | None = None
    """Score that the other harness gives an instance without a judgment; None if unknown."""
    replies: Mapping[str, Sequence[JudgeReply]] = field(default_factory=dict)
    """Instance id -> replies of judges, if the files have them, so that they can be scored again."""
    medhelm_task: Mapping[str, Any] = field(default_factory=dict)
    """For a MedHELM task that another harness ran, with all fields, groups and metadata of its instances: selection
    (`data_digest`, `sample`, `limit`, `seed`), number of instances (`n`), judges needed (`min_judges`). Else empty."""
    tier: Tier = "real"
    """Real data, or the sample rows that ship with a benchmark."""
    max_tokens: int = 0
    """Limit on a completion; 0 if unknown."""
    temperature: float | None = None
    """Sampling temperature; None if not sent or unknown."""
    stop: tuple[str, ...] = ()
    """Sequences that ended a completion."""
    started: str = ""
    """Time of the first request, ISO 8601, UTC; empty if unknown."""
    n_expected: int | None = None
    """Number of instances expected; None: those in the files."""
    remarks: tuple[str, ...] = ()
    """Irregularities of the files, and how they were handled."""

"""What readers of other harnesses' files hand over, whichever harness it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medhelm.domain.benchmark import Instance, Tier
from medhelm.domain.completion import Completion, Model
from medhelm.domain.jury import JudgeReply, Judgment
from medhelm.domain.run import Origin

INPUT = "input"
"""The field that holds the text of an instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """One model on one benchmark, as another harness asked and scored it.

    Names are those of the other harness: what they are called here is settled by whoever takes the run in.
    """

    origin: Origin
    """Where it was read."""
    benchmark: str
    """Name of the benchmark there."""
    title: str
    """Its name for people; empty if there is none."""
    model: str
    """Name of the model there."""
    deployment: str = ""
    """Where the model was reached, for harnesses that tell deployments of a model apart; empty otherwise."""
    instances: Sequence[Instance] = ()
    """What was asked, in order. `turns` are the messages as they were sent, to the letter."""
    completions: Mapping[str, Completion] = field(default_factory=dict)
    """Instance id -> what came back; an instance without one failed."""
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Metric, as it is called there -> instance id -> score; nan and missing values are left out."""
    judges: Sequence[Model] = ()
    """Who judged."""
    judgments: Mapping[str, Sequence[Judgment]] = field(default_factory=dict)
    """Instance id -> what judges said of its completion: every judge on every criterion, failures included. A
    completion without a word has none."""
    judge_prompt: str = ""
    """What judges were asked, with {QUESTION}, {RESPONSE} and {GOLD_RESPONSE} to fill in; empty if unknown."""
    unjudged_score: float | None = None
    """What the other harness gives an instance that no judge graded; None if unknown."""
    replies: Mapping[str, Sequence[JudgeReply]] = field(default_factory=dict)
    """Instance id -> what judges said word by word, where the files have it: scores can be made of it again."""
    medhelm_task: Mapping[str, Any] = field(default_factory=dict)
    """For a task of ours that another harness asked, whose instances have every field, group and metadata they have
    here: what decided them (`data_digest`, `sample`, `limit`, `seed`), how many those are (`n`), and how many judges
    were needed (`min_judges`). Empty for everything else."""
    tier: Tier = "real"
    """Real data, or the sample rows that ship with a benchmark of ours."""
    max_tokens: int = 0
    """Limit on a completion; 0 if the files do not say."""
    temperature: float | None = None
    """Sampling temperature; None if none was sent, or the files do not say."""
    stop: tuple[str, ...] = ()
    """Sequences that ended a completion."""
    started: str = ""
    """Time of the first request, ISO 8601, UTC; empty if the files do not say."""
    n_expected: int | None = None
    """Instances that should have been asked; None: those that are there."""
    remarks: tuple[str, ...] = ()
    """What was odd about the files, and what was made of it, in words."""

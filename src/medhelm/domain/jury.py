"""What judges are asked, who they are, and what they said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from medhelm.domain.benchmark import RubricForm
from medhelm.domain.completion import Completion, Failure, Model, Usage
from medhelm.domain.score import Estimate, Score

JURY = "jury"
"""Name of the metric that judges give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jury:
    """The judges of a run, and how many of them an instance needs."""

    judges: tuple[Model, ...]
    """Who judges, each once."""
    min_judges: int = 2
    """An instance with fewer complete judges has no score. Never more than there are judges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """What a judge said to one request."""

    judge: str
    """Name of the judge."""
    prompt_index: int
    """Which of the prompts about this completion it answers, from 0: a rubric in points has one for each criterion."""
    attempt: int
    """0, or 1 for the second and last try, which tells the judge what was wrong with the first."""
    completion: Completion
    """Its words, or why there are none."""
    request_digest: bytes = b""
    """Key of the reply in the cache; empty if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgment:
    """One judge on one criterion. `score` is None if and only if `failure` is set."""

    judge: str
    """Name of the judge."""
    criterion: str
    """Name of the criterion."""
    score: float | None
    """A grade on the rubric's scale; for a rubric in points 1.0 if the criterion is met, 0.0 if not."""
    points: float = 0.0
    """What meeting the criterion earns, below zero for a harm; 0 for grades."""
    failure: Failure | None = None
    """Why there is no grade."""
    explanation: str = ""
    """Why the judge graded so, in its words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JuryVerdict:
    """What all judges together made of one completion."""

    scores: tuple[Score, ...]
    """The jury's score by each rule, in the order of `RULES`."""
    judgments: tuple[Judgment, ...] = ()
    """Every cell, judges in their order, criteria in the rubric's; none for a completion that nobody was shown."""
    coverage: float | None = None
    """Judgments present / expected, 0..1; None where none were expected."""
    subscores: Mapping[str, float] = field(default_factory=dict)
    """Part of the rubric -> score on it: a criterion, or a tag of criteria such as `axis:accuracy`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTally:
    """What became of one judge's work in a run."""

    expected: int = 0
    """Judgments that should be there."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Failure code -> judgments that are missing for it."""
    usage: Usage = field(default_factory=Usage)
    """Tokens behind all its replies, whenever they were paid for."""
    cost_usd: float | None = None
    """Price of that usage; None if it is not known."""
    requests_sent: int = 0
    """Requests that left for it in this execution, retries included."""
    requests_cached: int = 0
    """Replies that were there already."""
    snapshots: Mapping[str, int] = field(default_factory=dict)
    """Its name as its server gave it -> replies under it. Several: it changed under its name."""
    fingerprints: Mapping[str, int] = field(default_factory=dict)
    """The server's system fingerprint -> replies under it; empty where there is none."""
    refused_parameters: Mapping[str, int] = field(default_factory=dict)
    """Part of a request that its server refuses -> replies that were asked for without it."""

    @property
    def failed(self) -> int:
        """Judgments that are missing."""
        return sum(self.failures.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class JuryResult:
    """A jury's work on one run: who judged, on which scale, and what is missing."""

    jury: Jury
    """Who judged."""
    low: float
    """The worst grade."""
    high: float
    """The best grade."""
    form: RubricForm = "grades"
    """Whether judgments are grades, or say that a criterion is met."""
    lower_is_better: tuple[str, ...] = ()
    """Criteria whose lowest grade is the best."""
    tallies: Mapping[str, JudgeTally]
    """Judge -> its work."""
    n_blank: int = 0
    """Completions without a word: not sent to judges, scored the worst grade."""
    n_too_few_judges: int = 0
    """Completions with too few complete judges: without a score."""
    n_with_injection_signs: int = 0
    """Completions with something that looks like an attempt to steer a judge."""
    subscores: Mapping[str, Estimate] = field(default_factory=dict)
    """Part of the rubric -> mean score on it with its interval."""

    @property
    def coverage(self) -> float | None:
        """Judgments present / expected, 0..1; None if none were expected."""
        expected = sum(tally.expected for tally in self.tallies.values())
        return 1 - sum(tally.failed for tally in self.tallies.values()) / expected if expected else None


InjectionSign = Literal["verdict", "instruction", "marker", "unicode", "length"]
"""What in a completion may be meant for the judge: a finished verdict; words that tell a judge what to do; the signs
that close a fence or a turn; characters that people do not see; more text than anybody reads."""

"""Juries: judges, their replies, judgments and results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from medhelm.domain.benchmark import Floor, RubricForm
from medhelm.domain.completion import Completion, Failure, Model, Usage
from medhelm.domain.result import Estimate, Score

AT_LEAST = 2
"""Complete judges that an instance needs, unless the user sets another number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jury:
    """The judges of a run, and the number of them that an instance needs."""

    judges: tuple[Model, ...]
    """The judges, each once."""
    min_judges: int = AT_LEAST
    """Complete judges an instance needs for a score. Never more than there are judges."""
    has_codes: bool = False
    """True if every verdict must contain the verification code of its prompt; False for judges asked by versions up to
    0.1.0 and for imported judgments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """The completion of a judge for one request."""

    judge: str
    """Name of the judge."""
    prompt_index: int
    """Number of the prompt about this completion, from 0: a rubric in points has one prompt per criterion."""
    attempt: int
    """0, or 1 for the second and last attempt, which names the error of the first."""
    completion: Completion
    """Text of the reply, or its failure."""
    request_digest: bytes = b""
    """Key of the reply in the cache; empty if it is not cached."""
    verification_code: str = ""
    """Code that its prompt asks for; empty if it asks for none: then the verdict counts without a code."""


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
    """Points for meeting the criterion, below zero for a harm; 0 for grades."""
    failure: Failure | None = None
    """Reason for the missing score."""
    explanation: str = ""
    """Explanation in the judge's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JuryVerdict:
    """Combined result of all judges on one completion."""

    scores: tuple[Score, ...]
    """The jury's score by each rule, in the order of `RULES`."""
    judgments: tuple[Judgment, ...] = ()
    """All judgments, by judge and criterion in their order; none for a completion that was not sent to judges."""
    coverage: float | None = None
    """Judgments present / expected, 0..1; None if none were expected."""
    subscores: Mapping[str, float] = field(default_factory=dict)
    """Criterion, or tag of criteria such as `axis:accuracy` -> score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTally:
    """Counts of one judge's work in a run."""

    expected: int = 0
    """Judgments expected."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Failure code -> missing judgments."""
    usage: Usage = field(default_factory=Usage)
    """Tokens of all its replies, those paid for earlier included."""
    cost_usd: float | None = None
    """Cost of that usage; None if unknown."""
    requests_sent: int = 0
    """Requests sent to it in this execution, retries included."""
    requests_cached: int = 0
    """Replies found in the cache."""
    snapshots: Mapping[str, int] = field(default_factory=dict)
    """Model name in the response -> replies. Several: the model behind the name changed."""
    fingerprints: Mapping[str, int] = field(default_factory=dict)
    """System fingerprint -> replies; empty if the server sends none."""
    refused_parameters: Mapping[str, int] = field(default_factory=dict)
    """Request parameter that the server refuses -> replies requested without it."""

    @property
    def failed(self) -> int:
        """Number of missing judgments."""
        return sum(self.failures.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class JuryResult:
    """Result of a jury on one run: judges, scale, and missing judgments."""

    jury: Jury
    """The judges."""
    low: float
    """The worst grade."""
    high: float
    """The best grade."""
    rubric: str = ""
    """Name of the rubric, `standard` or `extended`; empty if the benchmark has one rubric only."""
    rubric_digest: str = ""
    """sha256 of the rubric, in hex; empty in runs of version 0.1.0."""
    form: RubricForm = "grades"
    """Form of the judgments: grades, or decisions that a criterion is met."""
    lower_is_better: tuple[str, ...] = ()
    """Criteria whose lowest grade is the best one."""
    floors: tuple[Floor, ...] = ()
    """Floors of the rubric."""
    tallies: Mapping[str, JudgeTally]
    """Judge -> counts of its work."""
    n_blank: int = 0
    """Blank completions: not sent to judges, scored with the worst grade."""
    n_too_few_judges: int = 0
    """Completions without a score because too few judges were complete."""
    n_with_injection_signs: int = 0
    """Completions with signs of a prompt injection aimed at judges."""
    subscores: Mapping[str, Estimate] = field(default_factory=dict)
    """Criterion or tag -> mean score with its interval."""

    @property
    def open_below(self) -> bool:
        """True if the score of a completion may lie below the scale, because harms cost points."""
        return self.form == "points"

    @property
    def coverage(self) -> float | None:
        """Judgments present / expected, 0..1; None if none were expected."""
        expected = sum(tally.expected for tally in self.tallies.values())
        return 1 - sum(tally.failed for tally in self.tallies.values()) / expected if expected else None


InjectionSign = Literal["verdict", "instruction", "marker", "unicode", "length"]
"""Sign of a prompt injection in a completion: a finished verdict; instructions to a judge; markers that close a
delimiter or a turn; invisible characters; excessive length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionEffect:
    """The completions of a run with signs of a prompt injection, and their effect on its mean score."""

    model: str
    """Name of the model."""
    benchmark: str
    """Id of the benchmark."""
    title: str
    """Title of the benchmark."""
    n: int
    """Number of instances."""
    n_flagged: int
    """Completions with signs of a prompt injection aimed at judges."""
    mean: float | None
    """Mean jury score of all scored completions, on the scale of the rubric; None if there are none."""
    mean_without: float | None
    """Mean jury score without those with signs; None if there are no others."""

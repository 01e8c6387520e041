"""Totals of a run: requests to the model and to each judge, with tokens, cost, reported versions and failures, and the
completions without a readable answer.

`JuryRecorder` turns those of the judges into a `JuryResult`.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING

from medhelm.analysis.cost import cost_with_batches
from medhelm.domain import (
    Completion,
    CompletionCounts,
    Estimate,
    Failure,
    FailureCode,
    JudgeTally,
    Jury,
    JuryResult,
    JuryVerdict,
    Model,
    Record,
    Rubric,
    Score,
    Usage,
)
from medhelm.models.provider import LENGTH
from medhelm.scoring.metric import Metric, has_best, is_blank

if TYPE_CHECKING:
    from medhelm.analysis.means import Clusters
    from medhelm.scoring.jury.panel import JudgeVerdict


DAY_S = 86_400
EPOCH = date(1970, 1, 1)


@dataclass(slots=True)
class FailureKind:
    """One kind of failure of one model or judge."""

    count: int
    """Failed requests."""
    message: str
    """Message of the first of them."""


@dataclass(slots=True)
class FailureSummary:
    """The failed requests of a run by model or judge and by code, each with the message of the first.

    Only the numbers are stored with a run: messages of services may repeat what they were sent.
    """

    kinds: dict[tuple[str, str], FailureKind] = field(default_factory=dict)
    """Name of the model or judge, and code -> failures."""

    def add(self, name: str, failure: Failure) -> None:
        """Count one failure of a request to the model or judge of this name."""
        known = self.kinds.get((name, failure.code))
        if known is None:
            self.kinds[name, failure.code] = FailureKind(1, failure.message)
        else:
            known.count += 1

    def add_judges(self, verdicts: Sequence[JudgeVerdict]) -> None:
        """Count failed requests to judges; a judge that cannot be used has a message of its own."""
        for one in verdicts:
            failure = one.reply.completion.failure
            if failure and not one.cached and failure.code != FailureCode.UNUSABLE:
                self.add(one.reply.judge, failure)


class RequestTotals:
    """Totals over the requests to one model or judge."""

    def __init__(self, model: Model) -> None:
        """Start at zero. `model`: the model or judge, with its price."""
        self.model = model
        self.requests_sent = self.requests_cached = self.requests_retried = 0
        self.usage = Usage()
        """Tokens of all completions, whenever they were bought."""
        self._batched = Usage()
        self._is_metered = True
        self._snapshots: Counter[str] = Counter()
        self._fingerprints: Counter[str] = Counter()
        self._refused_parts: Counter[str] = Counter()
        self._days: Counter[int] = Counter()
        """Day of arrival since 1970, UTC -> completions."""

    def add(self, completion: Completion, *, requests_sent: int, cached: bool) -> None:
        """Add a completion, the requests sent for it now, and whether it came from the cache."""
        self.requests_sent += requests_sent
        self.requests_retried += max(0, requests_sent - 1)
        self.requests_cached += cached
        self.usage += completion.usage
        if completion.batched:
            self._batched += completion.usage
        if self.model.base_url and not completion.is_metered:
            self._is_metered = False
        if completion.reported_model:
            self._snapshots[completion.reported_model] += 1
        if completion.fingerprint:
            self._fingerprints[completion.fingerprint] += 1
        if completion.refused_parameters:
            self._refused_parts.update(completion.refused_parameters)
        if completion.failure is None and completion.received is not None:
            self._days[int(completion.received // DAY_S)] += 1

    @property
    def cost_usd(self) -> float | None:
        """Price of all completions, whenever they were bought; None if the price or the tokens are unknown."""
        price = self.model.price
        return None if price is None or not self._is_metered else cost_with_batches(self.usage, self._batched, price)

    @property
    def snapshots(self) -> dict[str, int]:
        """Model version that servers reported -> completions, most frequent first."""
        return by_frequency(self._snapshots)

    @property
    def fingerprints(self) -> dict[str, int]:
        """System fingerprint that servers reported -> completions, most frequent first."""
        return by_frequency(self._fingerprints)

    @property
    def refused_parameters(self) -> dict[str, int]:
        """Optional part of a request that servers refused -> completions made without it, most frequent first."""
        return by_frequency(self._refused_parts)

    @property
    def completion_days(self) -> dict[str, int]:
        """Day of arrival, ISO 8601, UTC -> completions, the earliest first."""
        return {(EPOCH + timedelta(days=day)).isoformat(): n for day, n in sorted(self._days.items())}


class CompletionCounter:
    """Counts the completions of a run without a readable answer."""

    def __init__(self, metric: Metric | None) -> None:
        """Start at zero. `metric`: the main metric of the run; None if it is not known here."""
        self._metric = metric
        self._reads = metric.reads if metric else None
        self._is_known = True
        self._n: Counter[str] = Counter()

    def add(self, completion: Completion, *, unreadable: bool | None, scores: Sequence[Score] = ()) -> None:
        """Add a completion; a failed request is none. `unreadable`: as in `Record`; `scores`: those of the completion.

        Where the main metric reads answers, None means that the record is of an older version, or the instance cannot
        be scored: the number is then unknown.
        """
        if completion.failure:
            return
        is_right = self._metric is not None and has_best(self._metric, scores)
        blank = is_blank(completion) and not is_right
        self._is_known &= unreadable is not None or is_blank(completion) or self._reads is None
        self._n["completions"] += 1
        self._n["blank"] += blank
        self._n["with reasoning"] += blank and has_reasoning(completion)
        self._n["unreadable"] += bool(unreadable)
        if completion.finish_reason == LENGTH:
            self._n["at limit"] += blank or (bool(unreadable) if self._reads else not is_right)

    def counts(self) -> CompletionCounts | None:
        """Return the counts; None without completions."""
        n = self._n
        if not n["completions"]:
            return None
        return CompletionCounts(
            n=n["completions"],
            blank=n["blank"],
            blank_with_reasoning=n["with reasoning"],
            unreadable=n["unreadable"] if self._reads and self._is_known else None,
            answer=self._reads.answer if self._reads else "",
            at_limit=n["at limit"],
        )


def has_reasoning(completion: Completion) -> bool:
    """Return True if the reply behind a blank completion is known to have held reasoning, in its text or beside it."""
    return completion.usage.reasoning > 0 or bool((completion.text or "").strip())


def by_frequency(counts: Mapping[str, int]) -> dict[str, int]:
    """Return counts sorted by frequency, then name, so that they do not depend on the order of arrival."""
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


class JudgeRecorder:
    """Totals of one judge."""

    def __init__(self, judge: Model) -> None:
        """Start at zero."""
        self.totals = RequestTotals(judge)
        self.expected = 0
        self.failures: Counter[str] = Counter()

    def tally(self) -> JudgeTally:
        """Return the totals in their stored form."""
        cost_usd = self.totals.cost_usd
        return JudgeTally(
            expected=self.expected,
            failures=dict(self.failures),
            usage=self.totals.usage,
            cost_usd=None if cost_usd is None else round(cost_usd, 9),
            requests_sent=self.totals.requests_sent,
            requests_cached=self.totals.requests_cached,
            snapshots=self.totals.snapshots,
            fingerprints=self.totals.fingerprints,
            refused_parameters=self.totals.refused_parameters,
        )


class JuryRecorder:
    """Totals of a jury, and its scores on the parts of the rubric."""

    def __init__(self, jury: Jury, rubric: Rubric) -> None:
        """Start at zero."""
        self.jury, self.rubric = jury, rubric
        self.judges = {judge.name: JudgeRecorder(judge) for judge in jury.judges}
        self.n_blank = self.n_too_few_judges = self.n_with_injection_signs = 0
        self._n = 0
        self._has_codes = jury.has_codes
        self._subscores: dict[str, array[float]] = {}

    @property
    def failed(self) -> int:
        """Number of missing judgments."""
        return sum(judge.failures.total() for judge in self.judges.values())

    def add(self, record: Record, verdict: JuryVerdict, replies: Sequence[JudgeVerdict]) -> None:
        """Add a record, the jury's verdict on its completion, and the judges' completions behind it."""
        for one in replies:
            totals = self.judges[one.reply.judge].totals
            totals.add(one.reply.completion, requests_sent=one.requests_sent, cached=one.cached)
            self._has_codes &= bool(one.reply.verification_code)
        for judgment in verdict.judgments:
            judge = self.judges[judgment.judge]
            judge.expected += 1
            if judgment.failure:
                judge.failures[judgment.failure.code] += 1
        self.n_blank += is_blank(record.completion)
        self.n_too_few_judges += bool(verdict.judgments) and verdict.scores[0].value is None
        self.n_with_injection_signs += bool(record.injection_signs)
        self._add_subscores(verdict)

    def _add_subscores(self, verdict: JuryVerdict) -> None:
        """Extend the column of each name, with nan where a completion has none."""
        for name in verdict.subscores:
            self._subscores.setdefault(name, array("d", [float("nan")] * self._n))
        for name, column in self._subscores.items():
            column.append(verdict.subscores.get(name, float("nan")))
        self._n += 1

    def put_in_order(self, order: Sequence[int]) -> None:
        """Reorder the scores on the parts of the rubric; `order`: positions in the order of arrival."""
        self._subscores = {name: array("d", [column[i] for i in order]) for name, column in self._subscores.items()}

    def result(self, clusters: Clusters) -> JuryResult:
        """Return the jury's result as it is stored. `clusters`: the cluster of each record, in order."""
        import numpy as np

        from medhelm.analysis.means import estimate

        low, high = self.rubric.low, self.rubric.high
        subscores = {}
        for name, values in sorted(self._subscores.items()):
            mean = estimate(np.array(values), clusters, low=low, high=high, open_below=self.rubric.open_below)
            if mean is not None:
                subscores[name] = mean
        return make_jury_result(
            replace(self.jury, has_codes=self._has_codes),
            self.rubric,
            {name: judge.tally() for name, judge in self.judges.items()},
            n_blank=self.n_blank,
            n_too_few_judges=self.n_too_few_judges,
            n_with_injection_signs=self.n_with_injection_signs,
            subscores=subscores,
        )


def make_jury_result(
    jury: Jury,
    rubric: Rubric,
    tallies: Mapping[str, JudgeTally],
    *,
    n_blank: int,
    n_too_few_judges: int,
    n_with_injection_signs: int = 0,
    subscores: Mapping[str, Estimate] | None = None,
) -> JuryResult:
    """Return the result of a jury, with the scale of its rubric."""
    return JuryResult(
        jury=jury,
        low=rubric.low,
        high=rubric.high,
        rubric=rubric.name,
        rubric_digest=rubric.digest,
        form=rubric.form,
        lower_is_better=tuple(c.name for c in rubric.criteria if not c.higher_is_better),
        floors=rubric.floors,
        tallies=tallies,
        n_blank=n_blank,
        n_too_few_judges=n_too_few_judges,
        n_with_injection_signs=n_with_injection_signs,
        subscores=subscores or {},
    )

"""What a jury has done so far on one run, and what it comes to."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from medhelm.analysis.cost.prices import cost_with_batches
from medhelm.domain import JudgeTally, Jury, JuryResult, JuryVerdict, Model, Record, Rubric, Usage
from medhelm.evaluation.model_drift import ModelVersionCounter
from medhelm.models.budget import is_metered
from medhelm.scoring.jury.aggregation import JudgeVerdict, is_blank

if TYPE_CHECKING:
    from medhelm.analysis.statistics.cluster_bootstrap import Clusters


class JudgeRecorder:
    """Counters of one judge."""

    def __init__(self, judge: Model) -> None:
        """Nothing yet."""
        self.judge = judge
        self.expected = self.requests_sent = self.requests_cached = 0
        self.failures: Counter[str] = Counter()
        self.usage = self.batched = Usage()
        self.metered = True
        self._witness = ModelVersionCounter()

    def add(self, heard: JudgeVerdict) -> None:
        """Take in one reply."""
        completion = heard.reply.completion
        self.requests_sent += heard.requests_sent
        self.requests_cached += heard.cached
        self._witness.add(completion)
        self.usage += completion.usage
        if completion.batched:
            self.batched += completion.usage
        self.metered = self.metered and is_metered(completion)

    @property
    def cost_usd(self) -> float | None:
        """Price of all its replies, whenever they were paid for; None if price or tokens are not known."""
        price = self.judge.price
        return (
            None if price is None or not self.metered else round(cost_with_batches(self.usage, self.batched, price), 9)
        )

    def tally(self) -> JudgeTally:
        """All of it, as it is stored."""
        return JudgeTally(
            expected=self.expected,
            failures=dict(self.failures),
            usage=self.usage,
            cost_usd=self.cost_usd,
            requests_sent=self.requests_sent,
            requests_cached=self.requests_cached,
            **self._witness.found,
        )


class JuryRecorder:
    """Counters of a jury, and its scores on the parts of the rubric."""

    def __init__(self, jury: Jury, rubric: Rubric) -> None:
        """Nothing yet."""
        self.jury, self.rubric = jury, rubric
        self.judges = {judge.name: JudgeRecorder(judge) for judge in jury.judges}
        self.n_blank = self.n_below_floor = self.n_suspicious = 0
        self._n = 0
        self._labels: dict[str, array[float]] = {}

    @property
    def failed(self) -> int:
        """Judgments that are missing."""
        return sum(judge.failures.total() for judge in self.judges.values())

    def add(self, record: Record, heard: Sequence[JudgeVerdict]) -> None:
        """Take in what was said of one completion."""
        assert record.jury_verdict is not None, "a record of a run with a jury was judged"
        for one in heard:
            self.judges[one.reply.judge].add(one)
        for judgment in record.jury_verdict.judgments:
            judge = self.judges[judgment.judge]
            judge.expected += 1
            if judgment.failure:
                judge.failures[judgment.failure.code] += 1
        self.n_blank += is_blank(record.completion)
        self.n_below_floor += bool(record.jury_verdict.judgments) and record.jury_verdict.scores[0].value is None
        self.n_suspicious += bool(record.injection_signs)
        self._add_labels(record.jury_verdict)

    def _add_labels(self, judged: JuryVerdict) -> None:
        """Keep a column for each label, nan where a completion has none."""
        for label in judged.subscores:
            self._labels.setdefault(label, array("d", [float("nan")] * self._n))
        for label, column in self._labels.items():
            column.append(judged.subscores.get(label, float("nan")))
        self._n += 1

    def put_in_order(self, order: Sequence[int]) -> None:
        """Bring the scores on the parts of the rubric into this order of the records that came in."""
        self._labels = {label: array("d", [column[i] for i in order]) for label, column in self._labels.items()}

    def sitting(self, clusters: Clusters, seed: int) -> JuryResult:
        """All of it, as it is stored. `clusters`: of each record, in the order they came in."""
        import numpy as np

        from medhelm.analysis.statistics.means import estimate

        low, high = self.rubric.low, self.rubric.high
        labels = {}
        for label, values in sorted(self._labels.items()):
            mean = estimate(np.array(values), clusters, low=low, high=high, rng=np.random.default_rng(seed))
            if mean is not None:
                labels[label] = mean
        return JuryResult(
            jury=self.jury,
            low=low,
            high=high,
            form=self.rubric.form,
            lower_is_better=tuple(c.name for c in self.rubric.criteria if not c.higher_is_better),
            tallies={name: judge.tally() for name, judge in self.judges.items()},
            n_blank=self.n_blank,
            n_too_few_judges=self.n_below_floor,
            n_with_injection_signs=self.n_suspicious,
            subscores=labels,
        )

"""One model on one benchmark while it is under way: counts what comes in, and becomes a stored `Run` at the end."""

from __future__ import annotations

import hashlib
import json
import platform
import threading
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import isnan
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, Protocol

from medhelm import __version__
from medhelm.analysis.cost.prices import cost_with_batches
from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import RULES, Benchmark, Estimate, Jury, Model, Origin, Parts, Record, Rule, Run, Usage
from medhelm.evaluation.failure_summary import FailureSummary
from medhelm.evaluation.jury_recorder import JuryRecorder
from medhelm.evaluation.model_drift import ModelVersionCounter
from medhelm.evaluation.plugin_versions import versions_in_use
from medhelm.models.budget import is_metered
from medhelm.models.client import ClientResult
from medhelm.scoring.jury.aggregation import JudgeVerdict
from medhelm.scoring.metric import Metric
from medhelm.storage.runs import RunWriter
from medhelm.storage.store import Store

if TYPE_CHECKING:
    from medhelm.analysis.statistics.cluster_bootstrap import Clusters


class RunRecorder:
    """Counters, scores and spooled records of one run.

    All calls come from the event loop's thread, except `finish`, which is slow and may come from another once the run
    `is_over`. The counters may be read at any time.
    """

    def __init__(
        self,
        *,
        model: Model,
        dataset: Dataset,
        metrics: Sequence[Metric],
        settings: Mapping[str, Any],
        jury: Jury | None = None,
        origin: Origin | None = None,
    ) -> None:
        """`metrics`: the main one first. `settings` decide what is asked: they are part of the run's identity, as is
        the jury, and stored with it. `origin`: where the run, or what is asked, was read.
        """
        self.model, self.dataset, self.metrics, self.settings = model, dataset, metrics, settings
        self.benchmark, self.origin = dataset.benchmark, origin
        self._providers = [one.provider for one in (model, *(jury.judges if jury else ()))]
        self.id = identity(dataset.benchmark, dataset.digest, model, settings, jury)
        rubric = self.benchmark.rubric
        self.jury = JuryRecorder(jury, rubric) if jury and rubric else None
        self.n = dataset.n
        self.started = perf_counter()
        self.done = self.failed = self.requests_sent = self.requests_cached = 0
        self.usage = self.batched = Usage()
        self.asked = self.settled = self.n_shortened = self.left_out = 0
        self.sealed = False
        self.message = ""
        self.gave_up = False
        self.troubles = FailureSummary()
        self.run: Run | None = None
        self._unmetered = False
        self._witness = ModelVersionCounter()
        self._begun_at = datetime.now(UTC)
        self._failures: Counter[str] = Counter()
        self._not_computed: dict[str, str] = {}
        self._positions = array("l")
        self._scores = {(metric.name, rule): array("d") for metric in metrics for rule in RULES}
        self._parts: dict[tuple[str, Rule], list[Parts]] = {
            (metric.name, rule): []
            for metric in metrics
            for rule in RULES
            if metric.parts or (self.benchmark.group_column and rule == "published")
        }
        self._clusters = array("l")
        self._cluster_numbers: dict[str, int] = {}
        self._groups: list[str] = []
        self._writer: RunWriter | None = None

    @property
    def cost_usd(self) -> float | None:
        """Price of all completions so far, whenever they were paid for; None if price or tokens are not known."""
        price = self.model.price
        return None if price is None or self._unmetered else cost_with_batches(self.usage, self.batched, price)

    def is_pooled(self, metric: str, rule: Rule) -> bool:
        """Whether the run's number by this metric and rule is no mean over instances."""
        return (metric, rule) in self._parts

    @property
    def is_over(self) -> bool:
        """Whether every question that will be asked has been answered or given up, and nothing was stored yet."""
        return self.sealed and self.settled == self.asked and self.run is None

    def open(self, store: Store) -> None:
        """Make the place where records go."""
        names = [metric.name for metric in self.metrics]
        self._writer = RunWriter(
            store,
            benchmark=self.benchmark.name,
            model=self.model.name,
            run_id=self.id,
            metrics=names,
            pooled=self._parts,
        )

    def add(self, record: Record, reply: ClientResult, heard: Sequence[JudgeVerdict] = ()) -> None:
        """Take in one record, the reply it was made from, and what judges said of it."""
        assert self._writer is not None, "open() comes first"
        self._writer.add(record)
        self._positions.append(record.position)
        if self.jury:
            self.jury.add(record, heard)
            self.troubles.add_judges(heard)
        self.done += 1
        self.requests_sent += reply.requests_sent
        self.requests_cached += reply.cached
        self.n_shortened += record.truncated_characters > 0
        self.left_out += record.truncated_characters
        self._witness.add(record.completion)
        self.usage += record.completion.usage
        if record.completion.batched:
            self.batched += record.completion.usage
        self._unmetered = self._unmetered or (bool(self.model.base_url) and not is_metered(record.completion))
        if record.completion.failure:
            self.failed += 1
            self._failures[record.completion.failure.code] += 1
            if not reply.cached:
                self.troubles.add(self.model.name, record.completion.failure)
        for score in record.scores:
            if score.failure and score.failure.code == "not_computed":
                self._not_computed.setdefault(score.metric, score.failure.message)
            self._scores[score.metric, score.rule].append(float("nan") if score.value is None else score.value)
            if (parts := self._parts.get((score.metric, score.rule))) is not None:
                parts.append(score.parts)
        if self.benchmark.group_column:
            self._groups.append(record.group)
        # -1: independent of all others.
        numbers = self._cluster_numbers
        self._clusters.append(numbers.setdefault(record.cluster, len(numbers)) if record.cluster else -1)

    def finish(self) -> Run:
        """Estimate, write the run folder and return the run. A run without any completion is not stored."""
        self._put_in_order()
        run = self._as_run()
        if self._writer and self.done > self.failed:
            run = replace(run, folder=self._writer.finish(run))
        else:
            self.discard()
        self.run = run
        return run

    def discard(self) -> None:
        """Give up without storing anything."""
        if self._writer:
            self._writer.discard()

    def _put_in_order(self) -> None:
        """Bring what was collected from the order of arrival, which is chance, into that of the instances.

        So the same run has the same numbers to the last digit.
        """
        order = sorted(range(len(self._positions)), key=self._positions.__getitem__)
        self._positions = array("l", [self._positions[i] for i in order])
        self._scores = {key: array("d", [scores[i] for i in order]) for key, scores in self._scores.items()}
        self._parts = {key: [parts[i] for i in order] for key, parts in self._parts.items()}
        self._groups = [self._groups[i] for i in order] if self._groups else []
        numbers: dict[int, int] = {-1: -1}
        clusters = [self._clusters[i] for i in order]
        self._clusters = array("l", [numbers.setdefault(c, len(numbers) - 1) for c in clusters])
        if self.jury:
            self.jury.put_in_order(order)

    def _as_run(self) -> Run:
        answered = self.done - self.failed
        return Run(
            id=self.id,
            benchmark=self.benchmark.name,
            title=self.benchmark.title,
            taxonomy=self.benchmark.taxonomy,
            benchmark_digest=self.benchmark.digest,
            data_digest=self.dataset.digest,
            model=self.model.name,
            tier=self.dataset.tier,
            status=self._status(),
            settings=self.settings,
            started=self._begun_at.isoformat(timespec="milliseconds"),
            seconds=round(perf_counter() - self.started, 3),
            n=self.n,
            n_failed=self.n - answered,
            failures=dict(self._failures),
            requests_sent=self.requests_sent,
            requests_cached=self.requests_cached,
            usage=self.usage,
            cost_usd=None if self.cost_usd is None else round(self.cost_usd, 9),
            main_metric=self.metrics[0].name,
            n_truncated=self.n_shortened,
            truncated_characters=self.left_out,
            **self._witness.found,
            estimates=self._estimates() if answered else {rule: {} for rule in RULES},
            groups=self._group_means() if self._groups else {},
            not_computed=self._not_computed,
            message=self.message,
            jury_result=self.jury.sitting(self._grouped(), self._seed) if self.jury else None,
            resolved_model=self.model,
            versions={"medhelm": __version__, "python": platform.python_version(), **self._packages()},
            origin=self.origin,
        )

    def _packages(self) -> dict[str, str]:
        """Versions of the packages whose plug-ins took part."""
        names = [metric.name for metric in self.metrics]
        return versions_in_use(self.benchmark.package, self._providers, names)

    def _status(self) -> Literal["complete", "partial", "failed"]:
        if self.done == self.failed and (self.done or self.gave_up):
            return "failed"
        return "complete" if self.done == self.n else "partial"

    def _group_means(self) -> dict[str, dict[str, float | None]]:
        """Of each group, by its name: means of the main metric, and how many instances were scored."""
        means: dict[str, dict[str, float | None]] = {}
        for group in sorted(set(self._groups)):
            means[group] = {"n": 0}
            for rule in RULES:
                scores = self._scores[self.metrics[0].name, rule]
                own = [s for s, g in zip(scores, self._groups, strict=True) if g == group and not isnan(s)]
                means[group][rule] = sum(own) / len(own) if own else None
                means[group]["n"] = len(own)
        return means

    @property
    def _seed(self) -> int:
        """Seed of resampling: the same run has the same intervals."""
        return int(self.id[:12], 16)

    def _grouped(self) -> Clusters:
        """The cluster of each record, every independent one in a cluster of its own; None if all are independent."""
        import numpy as np

        clusters = np.array(self._clusters)
        return None if (clusters < 0).all() else np.where(clusters < 0, -1 - np.arange(clusters.size), clusters)

    def _estimates(self) -> dict[Rule, dict[str, Estimate]]:
        import numpy as np

        from medhelm.analysis.statistics.means import estimate
        from medhelm.analysis.statistics.ratios import linearized

        grouped = self._grouped()
        found: dict[Rule, dict[str, Estimate]] = {rule: {} for rule in RULES}
        for metric in self.metrics:
            for rule in RULES:
                values = linearized(np.array(self._scores[metric.name, rule]), self._parts.get((metric.name, rule)))
                mean = estimate(
                    values, grouped, low=metric.low, high=metric.high, rng=np.random.default_rng(self._seed)
                )
                if mean is not None:
                    found[rule][metric.name] = mean
        return found


class ProgressListener(Protocol):
    """Who looks on while runs are made: a progress display, or nobody."""

    def began(self, run: RunRecorder) -> None:
        """The first question of this run is about to be asked."""

    def ended(self, run: RunRecorder) -> None:
        """The run is stored, or given up; `run.run` says how it ended."""

    def note(self, text: str) -> None:
        """Something a person should know."""


class NullListener:
    """A listener that does not look."""

    def began(self, run: RunRecorder) -> None:
        """Nothing."""

    def ended(self, run: RunRecorder) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""


def identity(
    benchmark: Benchmark, data_digest: str, model: Model, settings: Mapping[str, object], jury: Jury | None
) -> str:
    """Hash of all that decides a run's records. The same questions to the same model, and the same jury, are the same
    run.
    """
    asked = [
        benchmark.name,
        benchmark.digest,
        data_digest,
        *_who(model),
        sorted(settings.items()),
    ]
    if jury:
        asked.append([[_who(judge) for judge in jury.judges], jury.min_judges])
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def _who(model: Model) -> list[object]:
    """What decides who answers."""
    return [
        [model.name, model.provider, model.base_url, model.remote_name, model.reasoning, model.reasoning_effort],
        sorted(model.parameters.items()),
    ]


def import_engines() -> None:
    """Load what the end of a run needs, beside the event loop, while the network is being waited for."""

    def load() -> None:
        import duckdb  # noqa: F401

        import medhelm.analysis.statistics.means  # noqa: F401

    # No daemon: an interpreter that ends amid this import is aborted by it, where a user pressed Ctrl-C early.
    threading.Thread(target=load).start()

"""Accumulate the records of one model on one benchmark, and turn them into a stored `Run`."""

from __future__ import annotations

import hashlib
import json
import platform
import threading
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from medhelm import __version__
from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import (
    RULES,
    Benchmark,
    Estimate,
    FailureCode,
    Jury,
    Model,
    Origin,
    Parts,
    Record,
    Rule,
    Run,
    RunShard,
    RunStatus,
    Shard,
    Usage,
)
from medhelm.evaluation.request_totals import CompletionCounter, FailureSummary, JuryRecorder, RequestTotals
from medhelm.evaluation.requests import name_in_run
from medhelm.models.client import ClientResult
from medhelm.scoring.metric import Metric
from medhelm.storage.runs import RunWriter
from medhelm.storage.store import Store

if TYPE_CHECKING:
    from medhelm.analysis.means import Clusters
    from medhelm.models.client import PoolProvider
    from medhelm.scoring.jury.panel import JudgeVerdict


class RunRecorder:
    """Records, scores and totals of one run.

    All calls come from the thread of the event loop, except `finish`, which is slow and may come from another thread
    when the last record was added. The counters may be read at any time.
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
        """Start with no records.

        `metrics`: the main one first. `settings`: what decides the requests; with the jury, part of the run's
        identity. `origin`: the harness that the run or its prompts come from.
        """
        self.model, self.dataset, self.metrics, self.settings = model, dataset, metrics, settings
        self.benchmark, self.origin = dataset.benchmark, origin
        self.name = name_in_run(settings, model)
        """Name of the model in the run."""
        run_id = identity(dataset.benchmark, dataset.digest, model, settings, jury)
        self.shard = _run_shard(dataset.shard, run_id, dataset.n) if dataset.shard else None
        self.id = hashlib.sha256(f"{run_id} {self.shard}".encode()).hexdigest() if self.shard else run_id
        rubric = self.benchmark.rubric
        self.jury = JuryRecorder(jury, rubric) if jury and rubric else None
        self.n = len(dataset.positions)
        self.started = perf_counter()
        self.done = self.failed = 0
        self.totals = RequestTotals(model)
        self.completions = CompletionCounter(metrics[0])
        self.failure_summary = FailureSummary()
        self.run: Run | None = None
        """The run, once it has ended."""
        self._began_at = datetime.now(UTC)
        self._n_truncated = self._truncated_characters = 0
        self.failures: Counter[str] = Counter()
        """Failure code -> instances without a completion."""
        self._not_computed: dict[str, str] = {}
        self._cut_texts: Counter[str] = Counter()
        self._digests = array("Q")
        """The first 8 bytes of the digest of each request, as a number."""
        self._scores = RecordedScores(metrics, is_grouped=bool(self.benchmark.group_column))
        self._writer: RunWriter | None = None

    @property
    def usage(self) -> Usage:
        """Tokens of all completions so far."""
        return self.totals.usage

    @property
    def cost_usd(self) -> float | None:
        """Price of all completions so far, whenever they were bought; None if the price or the tokens are unknown."""
        return self.totals.cost_usd

    def is_pooled(self, metric: str, rule: Rule) -> bool:
        """Return whether the run's number for this metric and rule is not a mean over instances."""
        return (metric, rule) in self._scores.parts

    def open(self, store: Store) -> None:
        """Create the files that records are written to. The caller holds the lock on model and benchmark."""
        self._writer = RunWriter(
            store,
            benchmark=self.benchmark.name,
            model=self.name,
            run_id=self.id,
            metrics=[metric.name for metric in self.metrics],
            pooled=self._scores.parts,
            shard=self.shard,
        )

    def add(self, record: Record, result: ClientResult, replies: Sequence[JudgeVerdict] = ()) -> None:
        """Add a record, the client's result behind it, and the judges' completions."""
        if self._writer is None:
            raise RuntimeError("open() was not called")
        self._writer.add(record)
        self._scores.add(record)
        self.completions.add(record.completion, unreadable=record.is_unreadable, scores=record.scores)
        if self.jury and record.jury_verdict:
            self.jury.add(record, record.jury_verdict, replies)
            self.failure_summary.add_judges(replies)
        self.done += 1
        self._n_truncated += record.truncated_characters > 0
        self._truncated_characters += record.truncated_characters
        self.totals.add(record.completion, requests_sent=result.requests_sent, cached=result.cached)
        if result.digest:
            self._digests.append(int.from_bytes(result.digest[:8]))
        if failure := record.completion.failure:
            self.failed += 1
            self.failures[failure.code] += 1
            if not result.cached:
                self.failure_summary.add(self.model.name, failure)
        for score in record.scores:
            if score.failure and score.failure.code == "not_computed":
                self._not_computed.setdefault(score.metric, score.failure.message)
            if score.cut and score.rule == "corrected":
                self._cut_texts[score.metric] += 1

    def finish(self, message: str, *, is_unusable: bool, changes: Mapping[str, Any] | None = None) -> Run:
        """Compute the estimates, write the run folder and return the run.

        A run without completions is not stored, unless every instance was refused, which is its result. A shard is
        stored: the other shards may have completions.

        Parameters: message, why the run ended early, empty if it did not; is_unusable, because its model cannot be
        used; changes, fields of the run that its records do not hold.
        """
        order = self._scores.put_in_order()
        if self.jury:
            self.jury.put_in_order(order)
        run = replace(self._as_run(message, is_unusable=is_unusable), **(changes or {}))
        if self._writer and (self.done > self.failed or self._is_refused or (self.shard and run.is_complete)):
            run = replace(run, folder=self._writer.finish(run))
            if run.is_complete and not run.shard:
                from medhelm.storage.run_scores import keep_scores  # lazy: at the end of a run

                keep_scores(run)
        else:
            self.discard()
        self.run = run
        return run

    def discard(self) -> None:
        """Delete the files without storing anything; nothing happens once `finish` has begun."""
        if self._writer:
            self._writer.discard()

    def _as_run(self, message: str, *, is_unusable: bool) -> Run:
        n_completions = self.done - self.failed
        benchmark, totals, main_metric = self.benchmark, self.totals, self.metrics[0].name
        return Run(
            id=self.id,
            benchmark=benchmark.name,
            title=benchmark.title,
            taxonomy=benchmark.taxonomy,
            benchmark_digest=benchmark.digest,
            data_digest=self.dataset.digest,
            model=self.name,
            resolved_model=self.model,
            tier=self.dataset.tier,
            settings=self.settings,
            origin=self.origin,
            shard=self.shard,
            status=self._status(is_unusable=is_unusable),
            message=message,
            n=self.n,
            n_failed=self.n - n_completions,
            failures=dict(self.failures),
            n_truncated=self._n_truncated,
            truncated_characters=self._truncated_characters,
            requests_sent=totals.requests_sent,
            requests_cached=totals.requests_cached,
            requests_retried=totals.requests_retried,
            requests_duplicate=self._n_duplicates(),
            usage=totals.usage,
            cost_usd=None if totals.cost_usd is None else round(totals.cost_usd, 9),
            started=self._began_at.isoformat(timespec="milliseconds"),
            seconds=round(perf_counter() - self.started, 3),
            main_metric=main_metric,
            estimates=self._scores.estimates(self.metrics) if n_completions else {rule: {} for rule in RULES},
            groups=self._scores.group_means(main_metric),
            jury_result=self.jury.result(self._scores.clusters) if self.jury else None,
            completion_counts=self.completions.counts(),
            snapshots=totals.snapshots,
            fingerprints=totals.fingerprints,
            refused_parameters=totals.refused_parameters,
            completion_days=totals.completion_days,
            not_computed=self._not_computed,
            cut_texts=self._cut_texts,
            versions=software_versions(self._packages()),
        )

    def _n_duplicates(self) -> int:
        """Return the number of requests that equal an earlier one."""
        import numpy as np

        digests = np.sort(np.array(self._digests))
        return int((digests[1:] == digests[:-1]).sum())

    def _packages(self) -> dict[str, str]:
        """Return the versions of the packages whose plug-ins took part."""
        from medhelm.scoring.installed_plugins import versions_in_use  # lazy: after the run

        judges = self.jury.jury.judges if self.jury else ()
        providers = [model.provider for model in (self.model, *judges)]
        return versions_in_use(self.benchmark.package, providers, [metric.name for metric in self.metrics])

    @property
    def _is_refused(self) -> bool:
        """Return whether every instance was refused.

        Without a single completion, other failures that count as the worst answer are rather those of the settings,
        such as a window that is too small.
        """
        return self.done == self.failed == self.n > 0 and set(self.failures) == {FailureCode.REFUSAL}

    def _status(self, *, is_unusable: bool) -> RunStatus:
        has_no_completion = self.done == self.failed and (self.done > 0 or is_unusable) and not self._is_refused
        if has_no_completion and (is_unusable or not self.shard or self.done < self.n):
            return RunStatus.FAILED
        return RunStatus.COMPLETE if self.done == self.n else RunStatus.PARTIAL


class RecordedScores:
    """The scores of a run by column: in the order of arrival, and after `put_in_order` in that of the instances."""

    def __init__(self, metrics: Sequence[Metric], *, is_grouped: bool) -> None:
        """Start without scores. `is_grouped`: True if the instances have groups."""
        self.parts: dict[tuple[str, Rule], list[Parts]] = {
            (metric.name, rule): []
            for metric in metrics
            for rule in RULES
            if metric.parts or (is_grouped and rule == "published")
        }
        """Contributions to the numbers that are not means over instances."""
        self._is_grouped = is_grouped
        self._values = {(metric.name, rule): array("d") for metric in metrics for rule in RULES}
        self._positions = array("l")
        self._groups: list[str] = []
        self._clusters = array("l")
        self._cluster_numbers: dict[str, int] = {}

    def add(self, record: Record) -> None:
        """Add the scores of a record; a missing one is nan."""
        self._positions.append(record.position)
        for score in record.scores:
            self._values[score.metric, score.rule].append(float("nan") if score.value is None else score.value)
            if (parts := self.parts.get((score.metric, score.rule))) is not None:
                parts.append(score.parts)
        if self._is_grouped:
            self._groups.append(record.group)
        numbers = self._cluster_numbers
        # -1: independent of all other records.
        self._clusters.append(numbers.setdefault(record.cluster, len(numbers)) if record.cluster else -1)

    def put_in_order(self) -> Sequence[int]:
        """Sort from the order of arrival, which is random, to that of the instances; return the old positions.

        So the same run has the same numbers to the last digit.
        """
        import numpy as np

        order: list[int] = np.argsort(np.array(self._positions), kind="stable").tolist()
        self._positions = array("l", map(self._positions.__getitem__, order))
        self._values = {key: array("d", map(values.__getitem__, order)) for key, values in self._values.items()}
        self.parts = {key: [parts[i] for i in order] for key, parts in self.parts.items()}
        self._groups = [self._groups[i] for i in order] if self._groups else []
        numbers: dict[int, int] = {-1: -1}
        clusters = [self._clusters[i] for i in order]
        self._clusters = array("l", [numbers.setdefault(c, len(numbers) - 1) for c in clusters])
        return order

    @property
    def clusters(self) -> Clusters:
        """Cluster of each record, independent records in clusters of their own; None if all are independent."""
        import numpy as np

        clusters = np.array(self._clusters)
        return None if (clusters < 0).all() else np.where(clusters < 0, -1 - np.arange(clusters.size), clusters)

    def estimates(self, metrics: Sequence[Metric]) -> dict[Rule, dict[str, Estimate]]:
        """Return rule -> metric -> estimate; metrics without any score are left out."""
        import numpy as np

        from medhelm.analysis.ratios import estimate_ratios

        clusters = self.clusters
        found: dict[Rule, dict[str, Estimate]] = {rule: {} for rule in RULES}
        for metric in metrics:
            for rule in RULES:
                values, parts = np.array(self._values[metric.name, rule]), self.parts.get((metric.name, rule))
                mean = estimate_ratios(
                    values, parts, clusters, low=metric.low, high=metric.high, open_below=metric.open_below
                )
                if mean is not None:
                    found[rule][metric.name] = mean
        return found

    def group_means(self, metric: str) -> dict[str, dict[str, float | None]]:
        """Return the means of a metric by group; empty if the benchmark has no groups."""
        from medhelm.analysis.means import group_means  # lazy: not needed before the end

        return group_means(self._groups, {rule: self._values[metric, rule] for rule in RULES})


class ProgressListener(Protocol):
    """Receives the progress of runs, such as a display in a terminal."""

    def began(self, run: RunRecorder) -> None:
        """Called before the first request of a run."""

    def ended(self, run: RunRecorder) -> None:
        """Called when a run is stored, or could not be; `run.run` says how it ended."""

    def note(self, text: str) -> None:
        """Called with a message for the user."""

    def watch(self, pools: Sequence[PoolProvider]) -> None:
        """Called at the start with the pools of servers, which are added when they are used."""


class NullListener:
    """A listener that ignores all events."""

    def watch(self, pools: Sequence[PoolProvider]) -> None:
        """Do nothing."""

    def began(self, run: RunRecorder) -> None:
        """Do nothing."""

    def ended(self, run: RunRecorder) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""


def software_versions(packages: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the versions that a run keeps. `packages`: those of plug-ins that took part."""
    return {"medhelm": __version__, "python": platform.python_version(), **(packages or {})}


def _run_shard(shard: Shard, run_id: str, n_in_run: int) -> RunShard:
    return RunShard(index=shard.index, count=shard.count, run_id=run_id, n_in_run=n_in_run)


def identity(
    benchmark: Benchmark, data_digest: str, model: Model, settings: Mapping[str, object], jury: Jury | None
) -> str:
    """Return the hash that identifies a run: same benchmark, data, model, settings and jury are the same run."""
    content: list[object] = [
        benchmark.name,
        benchmark.digest,
        data_digest,
        *_identity_of(model),
        sorted(settings.items()),
    ]
    if jury:
        content.append([[_identity_of(judge) for judge in jury.judges], jury.min_judges])
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _identity_of(model: Model) -> list[object]:
    """Return what distinguishes a model from others."""
    return [
        [model.name, model.provider, model.base_url, model.remote_name, model.reasoning, model.reasoning_effort],
        sorted(model.parameters.items()),
    ]


def import_engines() -> None:
    """Import what the end of a run needs in a thread, while the event loop waits for the network."""

    def load() -> None:
        with suppress(ImportError):  # raised again where it is needed
            import duckdb  # noqa: F401

            import medhelm.analysis.ratios  # noqa: F401
            from medhelm.evaluation.settings import Evaluation

            import_module(Evaluation.VIEW.partition(":")[0])

    # Not a daemon: an interpreter that exits during this import would crash, if the user pressed Ctrl-C early.
    threading.Thread(target=load).start()

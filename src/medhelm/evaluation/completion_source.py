"""Sources of completions: models that are called now, or runs that are stored already."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import Instance, JudgeReply, Model, Origin, Run, Score
from medhelm.evaluation.context import ContextFitter
from medhelm.evaluation.recorder import RunRecorder
from medhelm.evaluation.requests import model_requests, run_settings
from medhelm.evaluation.session import Session
from medhelm.evaluation.settings import MAXIMUM_IN_FLIGHT, Settings, StopReason
from medhelm.models.client import ClientResult
from medhelm.models.provider import Provider
from medhelm.scoring.metric import Metric
from medhelm.scoring.metrics import metrics_of
from medhelm.storage.store import Store

if TYPE_CHECKING:
    from medhelm.evaluation.fresh_runs import FreshRuns


class PendingCompletion(NamedTuple):
    """The completion for one instance, before it is requested."""

    position: int
    """Position of the instance in the data set."""
    instance: Instance
    request: Callable[[], Awaitable[ClientResult]]
    """Requests the completion; raises ModelUnusable, BudgetError or Interrupted if nothing more can be requested."""


class CompletionSource(ABC):
    """Provides the completions of an evaluation, and what belongs to them: settings, origin and other scores."""

    judges: Collection[str] = ()
    """Names of the judges whose completions are stored, so that they are not asked again."""

    has_codes: bool = False
    """True if the prompts of these judges asked for verification codes."""

    async def prepare(self, judges: Mapping[str, Provider]) -> StopReason:  # noqa: ARG002
        """Do what comes before the first completion; return why the evaluation must end, or ""."""
        return ""

    def has_run(self, model: Model, dataset: Dataset) -> bool:  # noqa: ARG002
        """Return whether the source has completions of the model on the data set."""
        return True

    def concurrency(self, model: Model) -> int:  # noqa: ARG002
        """Return how many completions of a model may be requested at a time; 1 if they are read from memory."""
        return 1

    @abstractmethod
    def origin(self, model: Model, dataset: Dataset) -> Origin | None:
        """Return the harness that the completions or prompts come from; None if that is this one."""

    @abstractmethod
    def settings(self, model: Model, dataset: Dataset) -> Mapping[str, Any]:
        """Return the settings of the requests; they identify the run."""

    def metrics(self, model: Model, dataset: Dataset, *, judged: bool) -> Sequence[Metric]:
        """Return the metrics to compute, the main one first."""
        origin = self.origin(model, dataset)
        harness = origin.harness if origin and not origin.is_medhelm_task else None
        return metrics_of(dataset.benchmark, judged=judged, harness=harness)

    @abstractmethod
    def completions(self, model: Model, dataset: Dataset) -> Iterator[PendingCompletion]:
        """Yield one completion to request for each instance, in the order of sending."""

    def judge_completions(self, model: str, benchmark: str, instance_id: str) -> list[JudgeReply]:  # noqa: ARG002
        """Return the stored completions of judges about the completion of a model."""
        return []

    def ended(self, runs: Sequence[Run]) -> None:  # noqa: ARG002
        """Note that the evaluation ended with these runs, and was not stopped."""
        return

    def final_scores(
        self,
        recorder: RunRecorder,  # noqa: ARG002
        instance: Instance,  # noqa: ARG002
        scores: Sequence[Score],
    ) -> Sequence[Score]:
        """Return the scores to record, given those computed here."""
        return scores


@dataclass(frozen=True, slots=True)
class LiveCompletions(CompletionSource):
    """Requests completions from models, or takes them from the cache if they were bought before."""

    datasets: Sequence[Dataset]
    providers: Mapping[str, Provider]
    """Model -> its provider."""
    models: Sequence[Model]
    session: Session
    store: Store
    options: Settings
    note: Callable[[str], object]
    """Receives messages for the user."""
    fitter: ContextFitter
    fresh: FreshRuns | None
    """The fresh runs of the evaluation; None if there are none."""

    async def prepare(self, judges: Mapping[str, Provider]) -> StopReason:
        """Send all requests through batch APIs first, if the user asks for it; the rest is sent directly later."""
        if not self.options.batch:
            return ""
        from medhelm.evaluation.batches import BatchSubmitter  # imported late: most runs have no batches

        pairs = [(model, self.providers[model.name]) for model in self.models]
        submitter = BatchSubmitter(
            self.datasets, pairs, judges, self.session, self.store, self.options, self.note, self.fresh
        )
        return await submitter.buy()

    def concurrency(self, model: Model) -> int:
        """Return 1 for providers within this process, else half as many again as requests may be in flight.

        The servers of a pool have limits of their own, and may become more. While a request waits for its next attempt,
        another one uses its slot.
        """
        provider = self.providers[model.name]
        if provider.local:
            return 1
        limit = (self.options.concurrency or MAXIMUM_IN_FLIGHT) * provider.copies
        return (limit + limit // 2) * provider.n_servers

    def origin(self, model: Model, dataset: Dataset) -> Origin | None:  # noqa: ARG002
        """Return the origin of the prompts."""
        return dataset.origin

    def settings(self, model: Model, dataset: Dataset) -> Mapping[str, Any]:
        """Return the settings of the requests; they identify the run."""
        fresh = self._fresh_start(model, dataset)
        return {**run_settings(dataset, model, self.options), **({"fresh": fresh} if fresh else {})}

    def completions(self, model: Model, dataset: Dataset) -> Iterator[PendingCompletion]:
        """Yield the requests to the model; prompts that do not fit its context window are truncated when sent."""
        provider, benchmark = self.providers[model.name], dataset.benchmark
        provider.prepare(benchmark.name, dataset)
        for position, instance, request in model_requests(
            dataset, model, fresh=self._fresh_start(model, dataset), in_order=True
        ):
            yield PendingCompletion(
                position, instance, partial(self.fitter.ask, self.session.client, provider, request, benchmark)
            )

    def ended(self, runs: Sequence[Run]) -> None:
        """Note that the evaluation ended, so that the next fresh one asks again."""
        if self.fresh:
            self.fresh.ended(runs)

    def _fresh_start(self, model: Model, dataset: Dataset) -> str:
        return self.fresh.start_of(model, dataset) if self.fresh else ""

"""Evaluations on a Ray cluster: its actors compute models within this process, and neural metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import RULES, Completion, Failure, Instance, Model, Score
from medhelm.errors import ProviderError
from medhelm.extensions.cluster.ray.connection import ClusterOptions, ClusterUse, join
from medhelm.extensions.cluster.ray.pool import Actors, ClusterModel
from medhelm.io.http.client import HttpClient
from medhelm.io.http.hosts import Subject
from medhelm.models.addresses import is_private
from medhelm.models.provider import Provider, SharedResources
from medhelm.models.providers import SERVICES
from medhelm.scoring.metric import Metric, apply
from medhelm.scoring.metrics import METRICS, metrics_of

FUNCTION = "extensions.cluster.ray.scores:scores_of"
"""The function that actors call."""


def cluster_use(models: Iterable[Model], datasets: Iterable[Dataset], *, own_data: bool) -> ClusterUse:
    """Return the part of an evaluation that a cluster computes: its models, and the neural metrics of its benchmarks.

    `own_data`: the data sets are the user's own.
    """
    computed = [model.name for model in models if SERVICES[model.provider].on_cluster]
    metrics: dict[str, None] = {}
    private = []
    for dataset in datasets:
        neural = [m.name for m in metrics_of(dataset.benchmark, judged=False, harness="helm") if m.neural]
        metrics |= dict.fromkeys(neural)
        if (computed or neural) and is_private(dataset.benchmark, is_sample=dataset.tier == "sample", is_own=own_data):
            private.append(dataset.benchmark.name)
    return ClusterUse(computed, list(metrics), private)


def join_for(
    models: Iterable[Model],
    datasets: Iterable[Dataset],
    resources: SharedResources,
    http: HttpClient,
    options: ClusterOptions,
    own_data: bool,
    environment: Mapping[str, str],
) -> RayCluster | None:
    """Join the cluster of `options` for what it computes of an evaluation; None if that is nothing.

    `resources` leaves the cluster when it is closed, and shows messages.
    Raises: MissingError, UserError as `connection.join`; nothing was sent.
    """
    use = cluster_use(models, datasets, own_data=own_data)
    if not use.what:
        resources.note(
            "--cluster has no effect: a cluster computes models within this process (hf/) and neural metrics, and this "
            "evaluation has none"
        )
        return None
    return RayCluster(resources.shared("cluster", lambda: join(use, options, http, environment, resources.note)))


class RayCluster:
    """A cluster that this process has joined: an `evaluation.session.Cluster`."""

    def __init__(self, actors: Actors) -> None:
        """`actors`: compute what is sent to the cluster."""
        self._actors = actors

    def open_provider(self, model: Model, seed: int) -> Provider:
        """Return the provider of a model that actors compute; `seed`: for providers that use one."""
        return ClusterModel(model, self._actors, seed)

    async def apply(
        self, metrics: Sequence[Metric], instance: Instance, completion: Completion, subject: Subject
    ) -> tuple[Score, ...]:
        """Score one completion as `metric.apply` does, neural metrics by an actor.

        If several actors were lost with it, those scores are missing, with the reason. `subject`: for the audit log.
        """
        neural = [metric.name for metric in metrics if metric.neural]
        others = [metric for metric in metrics if not metric.neural]
        here = await asyncio.to_thread(apply, metrics if completion.failure else others, instance, completion)
        if completion.failure or not neural:
            return here
        texts = (
            completion.text or "",
            *(reference.text for reference in instance.references),
            *instance.fields.values(),
        )
        n_bytes = sum(len(text.encode("utf-8", "replace")) for text in texts)
        try:
            there: Sequence[Score] = await self._actors.call(
                "compute", FUNCTION, neural, instance, completion, subject=subject, n_bytes=n_bytes
            )
        except ProviderError as error:
            failure = Failure("metric", "not_computed", str(error))
            there = [Score(metric=name, rule=rule, value=None, failure=failure) for name in neural for rule in RULES]
        found = {(score.metric, score.rule): score for score in (*here, *there)}
        return tuple(found[metric.name, rule] for metric in metrics for rule in RULES)


def scores_of(names: Collection[str], instance: Instance, completion: Completion) -> tuple[Score, ...]:
    """Score one completion by the metrics of these names; called in an actor."""
    return apply([METRICS[name] for name in names], instance, completion)

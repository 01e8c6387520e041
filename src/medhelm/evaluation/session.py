"""The cache, budget, network access and client that every command needs to call models, opened together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import Completion, Instance, Model, Score
from medhelm.evaluation.preparation import egress_policy_of, sent_data
from medhelm.evaluation.scheduler import StopSwitch
from medhelm.evaluation.settings import FIRST_IN_FLIGHT, MAXIMUM_IN_FLIGHT, Settings
from medhelm.io.http.audit import Subject
from medhelm.io.http.client import HttpClient
from medhelm.io.number_locks import NumberLocks
from medhelm.models.cache import Cache
from medhelm.models.cache_recovery import CacheRecovery
from medhelm.models.client import Client
from medhelm.models.limits.budget import Budget
from medhelm.models.provider import Provider
from medhelm.models.providers import SERVICES, open_provider
from medhelm.models.remote import Remote, remote_of
from medhelm.models.service import SharedResources
from medhelm.storage.store import Store

if TYPE_CHECKING:
    from medhelm.models.limits.store_limit import StoreLimit
    from medhelm.scoring.metric import Metric


class Cluster(Protocol):
    """Machines that compute models within this process, and neural metrics, in place of this process."""

    def open_provider(self, model: Model, seed: int) -> Provider:
        """Return the provider of a model that the cluster computes; `seed`: for providers that use one."""

    async def apply(
        self, metrics: Sequence[Metric], instance: Instance, completion: Completion, subject: Subject
    ) -> tuple[Score, ...]:
        """Score one completion as `metric.apply` does, neural metrics on the cluster. `subject`: for the audit log."""


@dataclass(frozen=True, slots=True)
class Session:
    """The means of calling models, open together."""

    client: Client
    """Calls any provider."""
    http: HttpClient
    """Sends requests to the hosts that are allowed."""
    budget: Budget
    """Counts what was spent, and ends the work at the limit."""
    resources: SharedResources
    """Objects that the providers have opened."""
    cache: Cache
    """Every completion that was bought."""
    stop_switch: StopSwitch = field(default_factory=StopSwitch)
    """Stops the work from outside."""
    remote: Remote | None = None
    """The process that calls the models instead, such as a gateway."""
    cluster: Cluster | None = None
    """The cluster that computes a part of the evaluation."""


@asynccontextmanager
async def open_session(
    store: Store,
    settings: Settings,
    models: Collection[Model],
    note: Callable[[str], object] | None = None,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[Session]:
    """Open what is needed to call `models`, whose hosts alone are allowed, and close it in the end.

    `note` receives messages for the user, such as about services that do not reply.
    """
    from medhelm.models.limits.open_files import limit_connections  # lazy: not needed before a command is checked
    from medhelm.storage.audit_log import AuditLog
    from medhelm.storage.store_host import StoreHost

    remote = remote_of(environment or {})
    if remote:
        policy = remote.policy(offline=settings.offline)
    else:
        policy = egress_policy_of(models, settings, environment or {})
    if settings.proxy and note:
        note(f"requests to hosts outside this machine and private networks go through the proxy {settings.proxy}")
    room = limit_connections(models, settings.concurrency, MAXIMUM_IN_FLIGHT, note)
    budget = Budget(settings.max_cost_usd)
    with (
        closing(StoreHost(store)),
        closing(Cache(store.cache_file)) as cache,
        closing(NumberLocks(store.folder / "locks" / "requests.lock")) as numbers,
        closing(AuditLog(store.audit_file)) as audit,
    ):
        # With a gateway, the cache is the gateway's: that of this store stays empty.
        recovery = None if remote else CacheRecovery(store, cache, note)
        http = HttpClient(policy, timeout_s=settings.timeout_s, connections=room.in_all, audit=audit)
        client = Client(
            cache=cache,
            budget=budget,
            numbers=numbers,
            attempts=settings.attempts,
            start=min(settings.concurrency or FIRST_IN_FLIGHT, room.per_endpoint),
            maximum=room.per_endpoint,
            connections=room.in_all,
            max_silence_s=settings.max_silence_s,
            note=note,
        )
        resources = SharedResources(note)
        budget.limits.extend(_store_limits(store, cache))
        async with AsyncExitStack() as stack:
            if remote:
                client = await stack.enter_async_context(
                    remote.open_client(policy, budget, audit, settings.max_silence_s, note)
                )
            try:
                yield Session(client, http, budget, resources, cache, remote=remote)
            finally:
                try:
                    await resources.close()
                finally:
                    await http.close()
                    await budget.close()
                    if recovery is not None:
                        recovery.report()


def _store_limits(store: Store, cache: Cache) -> Sequence[StoreLimit]:
    """Return the limit on what all commands on a store may spend together, if it has one."""
    if not store.budget_file.is_file():
        return ()
    from medhelm.models.limits.store_limit import StoreLimit  # lazy: most stores have no limit
    from medhelm.storage.budget_ledger import Ledger

    return (StoreLimit(Ledger(store.budget_file), cache.get),)


def open_providers(
    models: Sequence[Model],
    session: Session,
    environment: Mapping[str, str],
    settings: Settings,
    datasets: Sequence[Dataset],
) -> dict[str, Provider]:
    """Return model -> its provider. Raises: UserError for a host that is not allowed, before anything is sent."""
    aliases = {alias: dataset.benchmark.name for dataset in datasets for alias in dataset.benchmark.aliases}
    providers: dict[str, Provider] = {}
    if session.remote:
        public = {dataset.benchmark.name for dataset in datasets if not sent_data(dataset, settings).is_private}
        providers.update(session.remote.open_providers(models, session.client, public))
    for model in models:
        if model.name in providers:
            continue
        for address in model.addresses:
            session.http.egress_policy.admit(address)
        if session.cluster and SERVICES[model.provider].on_cluster:
            providers[model.name] = session.cluster.open_provider(model, settings.seed)
            continue
        providers[model.name] = open_provider(
            model,
            session.http,
            resources=session.resources,
            environment=environment,
            seed=settings.seed,
            aliases=aliases,
        )
    return providers

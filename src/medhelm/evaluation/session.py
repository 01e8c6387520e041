"""The cache, budget, network access and client for calling models, and checks before the first request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.benchmarks.data.sampling import SampleOptions
from medhelm.domain import JURY, Benchmark, Completion, Instance, Model, Score
from medhelm.domain.benchmark import is_rubric_file
from medhelm.domain.run import SETTING, setting_in_words
from medhelm.domain.text import metric_title
from medhelm.errors import ErrorCollector, MissingError, UserError
from medhelm.evaluation.scheduler import StopSwitch
from medhelm.evaluation.settings import FIRST_IN_FLIGHT, MAXIMUM_IN_FLIGHT, RUBRIC_FILE, Settings
from medhelm.io.files import NumberLocks
from medhelm.io.http.client import HttpClient
from medhelm.io.http.hosts import Subject
from medhelm.io.plugins import VARIANTS, from_extension
from medhelm.models.budget import Budget
from medhelm.models.cache import Cache, CacheRecovery
from medhelm.models.client import Client, SendingLimits
from medhelm.models.gateway import Remote, remote_of
from medhelm.models.keys import missing_key
from medhelm.models.prices import price_of
from medhelm.models.provider import Provider, SharedResources
from medhelm.models.providers import SERVICES, open_provider
from medhelm.scoring.metrics import metrics_of, unusable_metrics
from medhelm.storage.store import Store

if TYPE_CHECKING:
    from medhelm.evaluation.recorder import ProgressListener
    from medhelm.io.http.egress import EgressPolicy
    from medhelm.models.addresses import SentData
    from medhelm.models.price_book import PriceBook
    from medhelm.models.store_budget import StoreLimit
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


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSetup:
    """The circumstances of an evaluation: its store, data and options, whatever it evaluates."""

    store: Path
    """Folder of the store that gets the runs."""
    data: Path | None = None
    """Folder with one folder per benchmark; None if no benchmark needs it."""
    settings: Settings = field(default_factory=Settings)
    """Options that the user chooses."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables with API keys."""
    listener: ProgressListener | None = None
    """Receives progress and notes; None to drop them."""


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
    from medhelm.models.concurrency import limit_connections  # lazy: not needed before a command is checked
    from medhelm.storage.audit import AuditLog
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
            limits=SendingLimits(
                attempts=settings.attempts,
                start=min(settings.concurrency or FIRST_IN_FLIGHT, room.per_endpoint),
                maximum=room.per_endpoint,
                connections=room.in_all,
                max_silence_s=settings.max_silence_s,
            ),
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
    from medhelm.models.store_budget import StoreLimit  # lazy: most stores have no limit
    from medhelm.storage.budget_ledger import Ledger

    return (StoreLimit(Ledger(store.budget_file), cache.get),)


def open_providers(
    models: Sequence[Model],
    session: Session,
    environment: Mapping[str, str],
    settings: Settings,
    datasets: Sequence[Dataset],
) -> dict[str, Provider]:
    """Return model -> its provider, and record consent to send data that is not public to their hosts.

    `datasets`: data that the models get. Raises: UserError for a host that is not allowed, before anything is sent.
    """
    private = [dataset.benchmark.name for dataset in datasets if sent_data(dataset, settings).is_private]
    aliases = {alias: dataset.benchmark.name for dataset in datasets for alias in dataset.benchmark.aliases}
    providers: dict[str, Provider] = {}
    if session.remote:
        public = {dataset.benchmark.name for dataset in datasets} - set(private)
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
    if private:
        from medhelm.models.addresses import hosts_of, record_consent  # lazy: most data is public

        hosts = session.http.egress_policy.allowed if session.remote else hosts_of(models)
        record_consent(session.http.audit, hosts, private, allowed=settings.allow_hosts)
    return providers


# --- checks and inputs ------------------------------------------------------------------------------------------------
# Checks and inputs that come before the first request: prices, keys, judges and data.
#
# Everything here raises before anything is sent, with all problems in one message. `errors.ErrorCollector` makes one
# message of those of several checks.

MAXIMUM_LOADED_CHARACTERS = 50_000_000
"""Characters of text kept in memory for benchmarks that have not started yet."""


def with_prices(models: Iterable[Model], books: Sequence[PriceBook] = (), day: date | None = None) -> list[Model]:
    """Return the models with their price on `day` (default: today); prices in `books` take precedence."""
    day = day or datetime.now(UTC).date()
    return [replace(model, price=price_of(model, day, books)) for model in models]


def check_models(
    models: Iterable[Model],
    settings: Settings,
    environment: Mapping[str, str],
    store: Path | None = None,
    *,
    look_up: bool = True,
) -> None:
    """Check that models and judges have their keys, prices if the command or `store` has a budget, and allowed hosts.

    `look_up`: host names that only a network allows are looked up.
    Raises: MissingError if only keys are missing, else UserError; the message names all problems.
    """
    by_name = {model.name: model for model in models}.values()
    is_remote = remote_of(environment) is not None  # then keys and hosts are the gateway's
    errors = ErrorCollector()
    missing = [text for model in by_name if not is_remote and (text := missing_key(model, environment))]
    if missing:
        errors.errors.append(MissingError("\n".join([*missing, "Nothing was sent."])))
    unpriced = [model.name for model in by_name if model.price is None]
    if unpriced and (settings.max_cost_usd is not None or (store and Store(store).budget_file.is_file())):
        errors.errors.append(
            UserError(
                "a budget (--max-cost, or `medhelm budget set`) needs the price of every model and judge; unknown: "
                f"{', '.join(unpriced)}. "
                "Give `price: {input: USD, output: USD}` per million tokens in models.yaml. Nothing was sent."
            )
        )
    if fixed := [model.name for model in by_name if settings.temperature and not model.takes_temperature]:
        errors.errors.append(
            UserError(
                f"--temperature: {', '.join(fixed)} {'takes' if len(fixed) == 1 else 'take'} no temperature while "
                "reasoning. Leave out the option, or these models. Nothing was sent."
            )
        )
    if (addresses := [address for model in by_name for address in model.addresses]) and not is_remote:
        with errors.collect():
            egress_policy_of(list(by_name), settings, environment).admit_all(addresses, look_up=look_up)
    errors.raise_all()


def egress_policy_of(models: Collection[Model], settings: Settings, environment: Mapping[str, str]) -> EgressPolicy:
    """Return the policy of a command that calls models itself: their hosts may be contacted. Raises: UserError."""
    from medhelm.models.addresses import policy_for  # lazy: models within this process need no network

    return policy_for(
        models,
        offline=settings.offline,
        proxy=settings.proxy,
        environment=environment,
        allow_hosts=settings.allow_hosts,
    )


def sent_data(dataset: Dataset, settings: Settings) -> SentData:
    """Return what a command would send of a data set."""
    sent = sent_of(dataset.benchmark, len(dataset.positions), settings)
    return replace(sent, is_invented=dataset.tier == "sample")


def sent_of(benchmark: Benchmark, n: int | None, settings: Settings) -> SentData:
    """Return what a command would send of a benchmark. `n`: number of its instances, None if unknown."""
    from medhelm.models.addresses import SentData  # lazy: as above

    return SentData(benchmark=benchmark, n=n, is_invented=settings.tier == "sample", is_own=settings.own_data)


def check_consent(
    datasets: Iterable[Dataset],
    models: Sequence[Model],
    judges: Sequence[Model],
    settings: Settings,
    environment: Mapping[str, str],
    *,
    unopened: Iterable[Benchmark] = (),
) -> None:
    """Check that private data leaves this machine only for hosts that the user or the administrator allowed.

    Parameters: models, get the prompts; judges, get prompts, completions and references; unopened, benchmarks whose
    data could not be opened. Raises: UserError.
    """
    asked = [model for model in (*models, *judges) if model.addresses]
    if not asked:
        return
    from medhelm.models.addresses import missing_consent  # lazy: as above

    selections = [sent_data(dataset, settings) for dataset in datasets]
    selections += [sent_of(benchmark, None, settings) for benchmark in unopened]
    if gateway := remote_of(environment):
        if private := [one.benchmark.name for one in selections if one.is_private]:
            gateway.check_private_data(private, asked, settings.allow_hosts)
    elif not settings.offline and (
        text := missing_consent(selections, models, judges, allowed=settings.allow_hosts)
    ):  # offline, other hosts are refused anyway
        raise UserError(text)


def check_scorable(
    benchmarks: Iterable[Benchmark], *, judged: bool, imported: bool = False, option: str = "--judge"
) -> None:
    """Check that every benchmark has a metric that can be computed with or without judges.

    Imports the benchmarks' metrics, so that a benchmark with broken plug-ins only is reported now. `imported`: the
    prompts come from another harness. `option`: how the caller names judges. Raises: UserError.
    """
    errors = ErrorCollector()
    wrong = []
    for benchmark in benchmarks:
        metrics = metrics_of(benchmark, judged=judged, harness="helm" if imported else None)
        unusable = unusable_metrics(benchmark)
        if metrics and all(metric.name in unusable for metric in metrics):
            text = "\n".join([*unusable.values(), f"{benchmark.name} has no other metric. Nothing was sent."])
            errors.errors.append(UserError(text))
        wrong += [] if metrics else [benchmark.name]
    if wrong:
        text = f"{', '.join(wrong)} can only be scored by judges: name some with {option}. Nothing was sent."
        errors.errors.append(UserError(text))
    errors.raise_all()


def next_metrics(benchmarks: Iterable[Benchmark]) -> list[str]:
    """Return the title of the metric that replaces the jury, for each benchmark that has both."""
    return [metric_title(one.metrics[1]) for one in benchmarks if one.metrics[0] == JURY and len(one.metrics) > 1]


def check_shard(settings: Settings, *, like: bool) -> None:
    """Check that a shard can have these settings. `like`: the prompts of a HELM run are sent. Raises: UserError."""
    if settings.shard and settings.fresh:
        raise UserError(
            "--shard and --fresh cannot be combined: the shards would be fresh at different times. Name a new --store "
            "for each shard instead: a new store has no earlier completions. Nothing was sent."
        )
    if settings.shard and like:
        raise UserError("--shard and --like cannot be combined: the prompts of a HELM run are sent as they are.")


def open_datasets(
    benchmarks: Sequence[Benchmark], data: Path | None, settings: Settings, store: Store
) -> list[Dataset]:
    """Open the data of all benchmarks. What was deleted from the store is no example for other instances.

    Raises: UserError or MissingError with every problem of every benchmark; StoreError for a damaged deletion.
    """
    opened: list[Dataset] = []
    loaded_characters = 0
    errors = ErrorCollector()
    for benchmark in benchmarks:
        with errors.collect():
            for dataset in open_variants(benchmark, data, settings, store):
                opened.append(dataset)
                loaded_characters += dataset.held
                if loaded_characters > MAXIMUM_LOADED_CHARACTERS:  # read again when its run starts
                    loaded_characters -= dataset.held
                    dataset.release()
    errors.raise_all()
    return opened


def without_deleted(datasets: Sequence[Dataset], store: Store) -> list[Dataset]:
    """Leave out the instances that were deleted from a store. Raises: StoreError for a damaged statement."""
    if not (store.folder / "deletions").is_dir():
        return list(datasets)
    from medhelm.storage.privacy import (
        Pseudonyms,
        deleted_instances,  # lazy: most stores have no deletion
    )

    deleted, names = deleted_instances(store), Pseudonyms(store)
    affected = {benchmark for benchmark, _ in deleted}

    def kept(dataset: Dataset) -> Dataset:
        benchmark = dataset.benchmark.name
        return dataset.without(lambda id_: (benchmark, names.of(benchmark, id_)) in deleted)

    return [kept(one) if one.benchmark.name in affected else one for one in datasets]


def open_permitted(
    benchmarks: Sequence[Benchmark],
    models: Sequence[Model],
    judges: Sequence[Model],
    setup: EvaluationSetup,
    errors: ErrorCollector,
    datasets: Sequence[Dataset] = (),
) -> list[Dataset]:
    """Open the data of all benchmarks, and check that it and `datasets` may be sent; return both.

    Parameters: models, judges, as for `check_consent`; errors, those so far. Raises: these and all others together.
    """
    opened: list[Dataset] = []
    with errors.collect():
        opened = open_datasets(benchmarks, setup.data, setup.settings, Store(setup.store))
    unopened = () if opened else benchmarks
    opened += datasets
    with errors.collect():
        check_consent(opened, models, judges, setup.settings, setup.environment, unopened=unopened)
    errors.raise_all()
    return opened


def check_and_open(
    benchmarks: Sequence[Benchmark],
    models: Sequence[Model],
    judges: Sequence[Model] | None,
    setup: EvaluationSetup,
    errors: ErrorCollector,
    datasets: Sequence[Dataset],
    *,
    look_up: bool = True,
) -> list[Dataset]:
    """Check all that `evaluate` needs, and open the data.

    Parameters: judges, None without a jury; errors, those so far; datasets, data that is open already; look_up, as for
    `check_models`. Raises: UserError or MissingError with all problems.
    """
    judged = judges is not None
    with errors.collect():
        check_shard(setup.settings, like=bool(datasets))
    with errors.collect():
        everyone = (*models, *(judges or ()))
        check_models(everyone, setup.settings, setup.environment, setup.store, look_up=look_up)
    with errors.collect():
        check_scorable(benchmarks, judged=judged)
    with errors.collect():
        check_scorable((dataset.benchmark for dataset in datasets), judged=judged, imported=True)
    return open_permitted(benchmarks, models, judges or (), setup, errors, datasets)


def open_variants(
    benchmark: Benchmark, data: Path | None, settings: Settings, store: Store | None = None
) -> list[Dataset]:
    """Open the instances that the settings select, in each way in which the settings ask them; the plain ones first.

    Instances that were deleted from the store are left out. Raises: UserError or MissingError; StoreError for a damaged
    deletion.
    """
    datasets = [open_selected(benchmark, data, settings)]
    (dataset,) = without_deleted(datasets, store) if store else datasets
    return in_each_way(dataset, settings)


def in_each_way(dataset: Dataset, settings: Settings) -> list[Dataset]:
    """Return a data set in each way in which the settings ask it. Raises: UserError or MissingError."""
    if settings.temperature:
        dataset = dataset.asked(temperature=settings.temperature)
    if settings.logprobs:
        dataset = dataset.asked(logprobs=True)
    if setting := setting_in_words(prompt=settings.prompt, temperature=settings.temperature):
        dataset = dataset.asked(**{SETTING: setting})
    if not (settings.prompt or settings.repeat > 1 or settings.perturb):
        return [dataset]
    what = "--prompt, --repeat and --perturb"
    expand = from_extension(VARIANTS, "expand", extension="variants", what=what)
    return list(expand(dataset, settings))


def open_selected(benchmark: Benchmark, data: Path | None, settings: Settings) -> Dataset:
    """Open the instances that the settings select. Raises: UserError or MissingError."""
    chosen = with_rubric(benchmark, settings.rubric)
    dataset = open_dataset(
        chosen,
        data=data,
        tier=settings.tier,
        options=SampleOptions(
            sample=settings.sample,
            limit=settings.limit,
            subset=settings.subset,
            seed=settings.seed,
            shard=settings.shard,
        ),
        scoring=True,
        own_data=settings.own_data,
    )
    is_own_rubric = is_rubric_file(settings.rubric) and chosen.rubric is not None
    return dataset.asked(**{RUBRIC_FILE: settings.rubric}) if is_own_rubric else dataset


def with_rubric(benchmark: Benchmark, rubric: str) -> Benchmark:
    """Return a benchmark with the rubric that judges grade by: a name or a file. Raises: ConfigError."""
    if not is_rubric_file(rubric):
        return benchmark.with_rubric(rubric)
    from medhelm.benchmarks.rubrics import with_rubric_file  # lazy: needs pydantic

    return with_rubric_file(benchmark, Path(rubric))

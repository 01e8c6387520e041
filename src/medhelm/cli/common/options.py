"""Options that several commands share, names turned into objects, and printing."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from medhelm.cli.common import shell_completion
from medhelm.cli.common.printing import warn
from medhelm.models.gateway import GATEWAY_VARIABLE, without_gateway

if TYPE_CHECKING:
    from medhelm.benchmarks.data.dataset import Dataset
    from medhelm.domain import Benchmark, Tier
    from medhelm.results.spending import Pricing
    from medhelm.storage.audit_log import AuditLog

FORMATS = click.Choice(["table", "json", "csv", "md", "latex"])
_PATH = click.Path(path_type=Path)
_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(slots=True)
class Shared:
    """Values of the shared options, given before or after the command."""

    stores: list[Path | str] = field(default_factory=list)
    """Folders, and addresses of published stores."""
    data: Path | None = None
    offline: bool = False
    json: bool = False
    benchmark_folders: list[Path] = field(default_factory=list)
    models_file: Path | None = None
    trusted: list[Path] = field(default_factory=list)
    quiet: bool = False
    color: bool = True
    copies: dict[str, Path] = field(default_factory=dict)
    """Address of a published store -> folder of its copy."""
    gateway: str = ""
    """Address of the gateway to call models through; empty: the environment may name one."""

    def note(self, text: str) -> None:
        """Print a note to standard error, unless the user wants none."""
        if not self.quiet:
            click.echo(f"medhelm: {text}", err=True)

    @property
    def store(self) -> Path:
        """The store of a command that uses one store, and may write to it."""
        place = self._one_store()
        if isinstance(place, str):
            raise click.UsageError(f"--store {place} can only be read: this command needs a store in a folder")
        return place

    @property
    def store_to_read(self) -> Path:
        """The store of a command that reads one store."""
        return self._folder_of(self._one_store())

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables, with the gateway that the command names."""
        return {**os.environ, GATEWAY_VARIABLE: self.gateway} if self.gateway else os.environ

    @property
    def all_stores(self) -> list[Path]:
        """The stores of a command that can read several."""
        return [self._folder_of(place) for place in self.stores or [self._one_store()]]

    def _one_store(self) -> Path | str:
        if len(self.stores) > 1:
            raise click.UsageError("this command uses one store, but --store was given more than once")
        return self.stores[0] if self.stores else Path("medhelm-store")

    def _folder_of(self, place: Path | str) -> Path:
        """Return the folder of a store; of a published one, that of its copy, which is brought up to date once."""
        if isinstance(place, Path):
            return place
        if place not in self.copies:
            from medhelm.exchange.published_store import copy_of
            from medhelm.io.object_store import ObjectStore

            self.copies[place] = copy_of(ObjectStore(place, offline=self.offline))
        return self.copies[place]


class _StoreType(click.Path):
    """A folder, or the address of a published store, which stays a text."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path or an address."""
        return value if isinstance(value, str) and "://" in value else super().convert(value, param, ctx)


_SHARED: dict[str, dict[str, Any]] = {
    "store": {
        "type": _StoreType(path_type=Path),
        "metavar": "DIR",
        "multiple": True,
        "help": "Folder with results, or s3://, gs://, az:// address of published ones.  [default: ./medhelm-store]",
    },
    "data": {"type": _PATH, "metavar": "DIR", "help": "Folder with one folder of data per benchmark."},
    "benchmarks": {
        "type": _PATH,
        "metavar": "DIR",
        "multiple": True,
        "help": "Folder with your own benchmarks; repeatable.",
    },
    "trust": {
        "type": _PATH,
        "metavar": "DIR",
        "multiple": True,
        "help": "Run hooks.py of this benchmark folder; remembered until its code changes.",
    },
    "models": {
        "type": _PATH,
        "metavar": "FILE",
        "help": "File that defines your own model names.  [default: ./models.yaml]",
    },
    "offline": {"is_flag": True, "help": "Contact only servers on this machine."},
    "json": {"is_flag": True, "help": "Print the result as JSON."},
}
"""Name of a shared option -> the arguments of `click.option`."""

_FIELDS = {"store": "stores", "benchmarks": "benchmark_folders", "models": "models_file", "trust": "trusted"}
"""Name of a shared option -> its field in `Shared`, where it differs."""


def _is_utf8(path: Path) -> bool:
    """Return True if a path is UTF-8 text, which the engine that reads Parquet files needs."""
    return not any("\udc80" <= character <= "\udcff" for character in str(path))


def _protect(stores: Sequence[Path]) -> None:
    """Share new files with the group of the store if its folder does, and warn of stores that all users can read."""
    from medhelm.storage.permissions import file_mask, is_open_to_others

    if len(stores) == 1 and (mask := file_mask(stores[0])) != 0o077:
        os.umask(mask)
    for store in stores:
        if is_open_to_others(store):
            warn(
                f"every user of this machine can read the store {store}, with its prompts and completions. "
                f"Close it: chmod -R go-rwx {shlex.quote(str(store))}"
            )


def shared_options(*used: str) -> Callable[[_Command], _Command]:
    """Add all shared options to a command or group; the last value on the command line wins.

    Help lists only the options in `used`. The others are accepted and have no effect on the command.
    """

    def keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        shared = context.ensure_object(Shared)
        # A default, or the environment, must not replace what was given before the command.
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, Path) and not _is_utf8(path):
                raise click.UsageError(f"{path!a} is not UTF-8. Rename the folder, or choose another one.")
        typed = context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE
        if typed or context.parent is None:
            setattr(shared, parameter.name or "", list(value) if isinstance(value, tuple) else value)
            if parameter.name == "trusted" and value:
                from medhelm.benchmarks.trust import trust

                for folder in value:
                    trust(folder)
        if parameter.name == "stores" and "store" in used and context.parent and not context.resilient_parsing:
            _protect([place for place in shared.stores or [Path("medhelm-store")] if isinstance(place, Path)])

    def add(command: _Command) -> _Command:
        for name, settings in reversed(_SHARED.items()):
            variable = None if name == "json" else f"MEDHELM_{name.upper()}"
            command = click.option(
                f"--{name}",
                _FIELDS.get(name, name),
                envvar=variable,
                expose_value=False,
                callback=keep,
                hidden=name not in used,
                **settings,
            )(command)
        return command

    return add


def add_options(*options: Callable[[Any], Any]) -> Callable[[_Command], _Command]:
    """Combine decorators into one; help lists the options in this order."""

    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


format_option = click.option(
    "--format", "format_", type=FORMATS, default="table", show_default=True, help="Format of the output."
)
scoring_option = click.option(
    "--scoring",
    "rule",
    type=click.Choice(["corrected", "published"]),
    default="corrected",
    show_default=True,
    help="Scoring rule to show; both are computed and stored.",
)
tier_option = click.option(
    "--tier",
    type=click.Choice(["real", "sample"]),
    default="real",
    show_default=True,
    help="Real data or invented sample rows.",
)
stored_tier_option = click.option(
    "--tier",
    type=click.Choice(["real", "sample"]),
    help="Results on real data or on sample rows.  [default: real, if there are any]",
)
suite_option = click.option(
    "--suite",
    default="all",
    show_default=True,
    shell_complete=shell_completion.suites,
    help="Benchmarks that count: all, paper35, suite37, public, gated, private, a category, a subcategory, or a file "
    "with one benchmark per line (YAML: with weights).",
)
shared_benchmarks_option = click.option(
    "--shared", "shared_only", is_flag=True, help="Only benchmarks on which every model has a score."
)
rank_baselines_option = click.option(
    "--rank-baselines", is_flag=True, help="Let baselines compete for ranks instead of showing them below the models."
)

panel_option = click.option(
    "--panel",
    metavar="MODEL,...",
    default="",
    callback=lambda _context, _parameter, text: _panel(text),
    help="Models that win shares and win rates are against, so that the numbers stay when other models come or go; "
    "`published`: the nine published models.  [default: all other models on the leaderboard]",
)


def _panel(text: str) -> tuple[str, ...]:
    """Return the names of models in a list with commas."""
    names = tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
    if text and not names:
        raise click.BadParameter("it names no model.")
    return names


_model_filter = add_options(
    click.option(
        "--model",
        "only_models",
        metavar="MODEL",
        multiple=True,
        shell_complete=shell_completion.stored_models,
        help="Only runs of this model, or of the one that begins with this; repeatable.",
    ),
    click.option(
        "--exclude",
        "excluded",
        metavar="MODEL",
        multiple=True,
        shell_complete=shell_completion.stored_models,
        help="No runs of this model; repeatable.",
    ),
)
_benchmark_filter = click.option(
    "--benchmark",
    "only_benchmarks",
    metavar="BENCHMARK",
    multiple=True,
    shell_complete=shell_completion.stored_benchmarks,
    help="Only runs on this benchmark; repeatable.",
)
_since_filter = click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]),
    metavar="DATE",
    help="Only runs that started on this day or later, in UTC, such as 2026-11-01 or 2026-11-01T14:30.",
)


def run_filter_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that select runs of a store; the command gets them as one `wanted`."""
    return add_options(_model_filter, _benchmark_filter, _since_filter)(_with_filter(command))


def model_filter_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the same options without `--benchmark`, for a command about one benchmark."""
    return add_options(_model_filter, _since_filter)(_with_filter(command))


def _with_filter(command: Callable[..., int]) -> Callable[..., int]:
    """Combine the values of these options into one `wanted`."""

    @wraps(command)
    def with_filter(
        *args: Any,
        only_models: tuple[str, ...],
        excluded: tuple[str, ...],
        only_benchmarks: tuple[str, ...] = (),
        since: datetime | None,
        **options: Any,
    ) -> int:
        from medhelm.results.runs.selection import RunFilter

        wanted = RunFilter(models=only_models, excluded=excluded, benchmarks=only_benchmarks, since=since)
        return command(*args, wanted=wanted, **options)

    return with_filter


completers_option = click.option(
    "--completers-only",
    is_flag=True,
    help="Leave out refusals and exhausted limits instead of counting them as the worst answer.",
)

resample_option = click.option(
    "--resample",
    type=click.Choice(["instances", "benchmarks", "none"]),
    help="Unit of intervals and tests; none reads no records.  [default: instances, if their scores are known]",
)
published_options = add_options(
    click.option(
        "--scores", type=_PATH, metavar="FILE", help="CSV file of published scores to use instead of a store."
    ),
    click.option("--with-published", is_flag=True, help="Include the nine published models."),
    click.option("--published-only", is_flag=True, help="Only the nine published models; needs no store."),
)
prices_option = click.option(
    "--prices",
    multiple=True,
    metavar="FILE|SNAPSHOT",
    help="Prices that override all others: a YAML list of {model, input, output} in US dollars per million tokens, or "
    "a snapshot such as paper-2025-05-12; repeatable.",
)
subset_option = click.option(
    "--subset",
    metavar="N",
    type=click.IntRange(min=1),
    help="Only N instances of each benchmark, drawn at random with --seed; a draw of 200 contains that of 100.",
)
sample_option = click.option(
    "--sample",
    default="default",
    show_default=True,
    help="Named selection of instances: all, published (for the whole suite), or see `benchmarks show`.",
)
limit_option = click.option(
    "--limit", metavar="N", type=click.IntRange(min=1), help="Only the first N instances of each benchmark."
)
own_data_option = click.option(
    "--own-data",
    is_flag=True,
    help="The data is your own in the benchmark's format: do not compare it with the published files. Results are "
    "shown as another data set.",
)
seed_option = click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Seed of selections and of the random baseline.",
)
judge_options = add_options(
    click.option(
        "--judge",
        "judges",
        metavar="MODEL",
        multiple=True,
        shell_complete=shell_completion.models,
        help="Model that grades free text; repeatable. Three judges are usual.",
    ),
    click.option(
        "--jury",
        "jury_file",
        type=_PATH,
        metavar="FILE",
        envvar="MEDHELM_JURY",
        help="File with judges, used if no --judge is given.",
    ),
    click.option(
        "--min-judges",
        metavar="N",
        type=click.IntRange(min=1),
        help="Complete judgments that an instance needs for a score.  [default: 2]",
    ),
)


class Dollars(click.FloatRange):
    """An amount of US dollars above 0; not a number and infinity are refused."""

    name = "USD"

    def __init__(self) -> None:
        """Accept any finite amount above 0."""
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the amount."""
        amount = super().convert(value, param, ctx)
        if not math.isfinite(amount):
            self.fail(f"{value} is not an amount of US dollars: give a number above 0, such as 5 or 0.50.", param, ctx)
        return float(amount)


def _proxy(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    """Check the address of a proxy."""
    if not text:
        return ""
    from medhelm.models.addresses import checked_proxy

    try:
        return checked_proxy(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


proxy_option = click.option(
    "--proxy",
    metavar="URL",
    default="",
    callback=_proxy,
    help="HTTP proxy for hosts outside this machine and private networks, such as http://HOST:3128. Proxies that the "
    "environment names are never used.",
)

RUBRICS = click.Choice(["standard", "extended"])
"""Names of rubrics."""

allow_host_option = click.option(
    "--allow-host",
    "allow_hosts",
    metavar="HOST",
    multiple=True,
    help="Allow this host (or *.ENDING, or a network such as 10.20.0.0/16) to get gated and private benchmarks and "
    "your own data, and to join a pool of servers later; repeatable.",
)
service_options = add_options(
    proxy_option,
    click.option(
        "--concurrency",
        metavar="N",
        type=click.IntRange(1, 4096),
        help="Requests in flight per endpoint.  [default: adaptive]",
    ),
    click.option(
        "--timeout",
        "timeout_s",
        metavar="SECONDS",
        type=click.FloatRange(min=0, min_open=True),
        default=600.0,
        show_default=True,
        help="Seconds to wait for one completion.",
    ),
    click.option(
        "--give-up-after",
        "max_silence_s",
        metavar="SECONDS",
        type=click.FloatRange(min=1),
        default=300.0,
        show_default=True,
        help="Give up a service that replies to nothing for so long.",
    ),
    click.option(
        "--attempts",
        metavar="N",
        type=click.IntRange(1, 20),
        default=5,
        show_default=True,
        help="Attempts per request.",
    ),
)
request_options = add_options(
    allow_host_option,
    click.option(
        "--max-cost",
        "max_cost_usd",
        metavar="USD",
        type=Dollars(),
        help="Stop before spending more than this many US dollars.",
    ),
    service_options,
)
run_options = add_options(
    click.argument("names", nargs=-1, metavar="[BENCHMARK]...", shell_complete=shell_completion.benchmarks),
    click.option(
        "--model",
        "models",
        metavar="MODEL",
        multiple=True,
        shell_complete=shell_completion.models,
        required=True,
        help="PROVIDER/NAME, NAME@URL, a name of models.yaml, or OWN=NAME for a name of your own; repeatable.",
    ),
    judge_options,
    click.option(
        "--rubric",
        type=RUBRICS,
        default="standard",
        show_default=True,
        help="Criteria that judges grade by: those of the published suite, or stricter ones (nothing invented, safe).",
    ),
    limit_option,
    subset_option,
    sample_option,
    tier_option,
    own_data_option,
    scoring_option,
    click.option(
        "--like",
        multiple=True,
        type=_PATH,
        metavar="DIR",
        help="Finished HELM run whose prompts are sent unchanged; repeatable.",
    ),
    request_options,
    click.option(
        "--batch",
        is_flag=True,
        help="Use the batch APIs of OpenAI and Anthropic: half the price, up to a day of waiting.",
    ),
    click.option(
        "--keep-batches", is_flag=True, help="Keep collected batches at the provider instead of deleting them."
    ),
    click.option(
        "--fresh",
        is_flag=True,
        help="Request new completions instead of using stored ones; the earlier run stays in the store.",
    ),
    seed_option,
)
"""The arguments of `run`, which `plan` accepts as well."""


def load(shared: Shared, names: Sequence[str]) -> list[Benchmark]:
    """Load the named benchmarks."""
    from medhelm.benchmarks.catalog import load_benchmarks
    from medhelm.scoring.metrics import METRIC_NAMES

    def note(text: str) -> None:
        shared.note(f"skipped: {text}")

    return load_benchmarks(names, metrics=METRIC_NAMES, extra=shared.benchmark_folders, note=note)


@contextmanager
def existing_audit_log(shared: Shared) -> Iterator[AuditLog | None]:
    """Open the audit log of the store, for commands that need no store; None if there is no store."""
    from medhelm.storage.audit_log import AuditLog
    from medhelm.storage.store import Store

    place = shared.stores[0] if len(shared.stores) == 1 else Path("medhelm-store")
    if not isinstance(place, Path) or not (place / "store.json").is_file():
        yield None
        return
    with closing(AuditLog(Store(place).audit_file)) as audit:
        yield audit


def open_datasets(
    shared: Shared, name: str, *, tier: Tier, sample: str, limit: int | None = None, own_data: bool = False
) -> Iterator[Dataset]:
    """Open and check the data of the named benchmarks."""
    from medhelm.benchmarks.data.dataset import open_dataset

    for benchmark in load(shared, [name]):
        yield open_dataset(benchmark, data=shared.data, tier=tier, sample=sample, limit=limit, own_data=own_data)


def pricing_of(shared: Shared, prices: Sequence[str], day: date | None = None) -> Pricing:
    """Return the prices of `--prices`, of the user's models, and of a day. Raises: ConfigError for a file of prices."""
    from medhelm.models.catalog import find_models
    from medhelm.models.price_book import read_price_books
    from medhelm.results.spending import Pricing, model_finder

    environment = without_gateway(os.environ)
    find = model_finder(lambda names: find_models(names, file=shared.models_file, environment=environment))
    return Pricing(books=read_price_books(prices), day=day, find_model=find)

"""The options of every command, and the objects that they name: stores, benchmarks, data, prices."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from medhelm.cli.printing import warn
from medhelm.io.plugins import IMPORTERS, from_extension
from medhelm.models.gateway import GATEWAY_VARIABLE, OFFLINE_VARIABLE, without_gateway

if TYPE_CHECKING:
    from medhelm.benchmarks.data.dataset import Dataset
    from medhelm.domain import Benchmark, Tier
    from medhelm.results.options import BoardOptions, CalibrationOptions, Pricing
    from medhelm.storage.audit import AuditLog


PATH = click.Path(path_type=Path)
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(slots=True)
class Shared:
    """Values of the shared options, given before or after the command, and of a few others."""

    stores: list[Path | str] = field(default_factory=list)
    """Folders, or addresses of published stores."""
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
    """Address of the gateway to call models through; if empty, the one in the environment, if any."""
    noted: set[str] = field(default_factory=set)
    """Benchmarks that a note has named."""

    def note(self, text: str) -> None:
        """Print a note to standard error, unless `--quiet` is given."""
        if not self.quiet:
            click.echo(f"medhelm: {text}", err=True)

    @property
    def store(self) -> Path:
        """The store of a command that uses one store, and may write to it."""
        place = self._one_store()
        if isinstance(place, str):
            raise click.UsageError(f"--store {place} can only be read. This command needs a store in a folder.")
        return place

    @property
    def store_to_read(self) -> Path:
        """The store of a command that reads one store."""
        return self._folder_of(self._one_store())

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables, with the gateway and the offline mode of the command line, if given."""
        given = {GATEWAY_VARIABLE: self.gateway, OFFLINE_VARIABLE: "1" if self.offline else ""}
        return {**os.environ, **{name: value for name, value in given.items() if value}}

    @property
    def all_stores(self) -> list[Path]:
        """The stores of a command that can read more than one."""
        return [self._folder_of(place) for place in self.stores or [self._one_store()]]

    @property
    def folders_of_stores(self) -> list[Path]:
        """Folders of the user's own benchmarks, to show results by: see `find_folders`."""
        return self.find_folders()

    def find_folders(self, *, as_run: bool = True) -> list[Path]:
        """Return folders of the user's own benchmarks: those given, then those that the stores of the command remember.

        A note names each that cannot be read, or is read from a store. `as_run`: as in `remembered_benchmarks`.
        Raises: UserError for a given folder that does not exist.
        """
        from medhelm.benchmarks.catalog import remembered_benchmarks
        from medhelm.scoring.metrics import METRIC_NAMES

        found = remembered_benchmarks(self.all_stores, self.benchmark_folders, metrics=METRIC_NAMES, as_run=as_run)
        notes = {**found.problems, **found.copied}
        for name in notes.keys() - self.noted:
            self.note(notes[name])
        self.noted |= notes.keys()
        return [*self.benchmark_folders, *found.folders]

    def _one_store(self) -> Path | str:
        if len(self.stores) > 1:
            raise click.UsageError("--store was given more than once, but this command uses one store.")
        return self.stores[0] if self.stores else Path("medhelm-store")

    def _folder_of(self, place: Path | str) -> Path:
        """Return the folder of a store. A published store is copied, or its copy updated, on the first call."""
        if isinstance(place, Path):
            return place
        if place not in self.copies:
            copy_of = from_extension(IMPORTERS, "published_store", extension="exchange", what=f"--store {place}")
            self.copies[place] = copy_of(place, offline=self.offline)
        return self.copies[place]


class _StoreType(click.Path):
    """A folder, as a path, or the address of a published store, as a text."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path or an address."""
        return value if isinstance(value, str) and "://" in value else super().convert(value, param, ctx)


_SHARED: dict[str, dict[str, Any]] = {
    "store": {
        "type": _StoreType(path_type=Path),
        "metavar": "DIR",
        "multiple": True,
        "help": "Folder with results, or s3://, gs:// or az:// address of a published store.  "
        "[default: ./medhelm-store]",
    },
    "data": {"type": PATH, "metavar": "DIR", "help": "Folder with a subfolder of data for each benchmark."},
    "benchmarks": {
        "type": PATH,
        "metavar": "DIR",
        "multiple": True,
        "help": "Folder with your own benchmarks; repeatable.",
    },
    "trust": {
        "type": PATH,
        "metavar": "DIR",
        "multiple": True,
        "help": "Allow this benchmark folder to run its hooks.py; remembered until the code changes; repeatable.",
    },
    "models": {
        "type": PATH,
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
    """Return True if a path is UTF-8 text, as DuckDB requires."""
    return not any("\udc80" <= character <= "\udcff" for character in str(path))


def _protect(stores: Sequence[Path]) -> None:
    """Share new files with the group of the store if its folder does, and warn about stores that all users can read."""
    from medhelm.io.files import file_mask
    from medhelm.storage.store import is_open_to_others

    if len(stores) == 1 and (mask := file_mask(stores[0])) != 0o077:
        os.umask(mask)
    for store in stores:
        if is_open_to_others(store):
            warn(
                f"other users of this machine can read {store}, including prompts and completions. "
                f"To protect it: chmod -R go-rwx {shlex.quote(str(store))}"
            )


def _is_missed(context: click.Context, option: click.Option) -> bool:
    """Return True if the user may expect an effect of an option that its command does not use.

    A group passes options on, and a command without --offline contacts nothing.
    """
    return option.name != "offline" and not isinstance(context.command, click.Group)


def shared_options(*used: str) -> Callable[[Command], Command]:
    """Add all shared options to a command or group; the last value on the command line wins.

    Help lists only the options in `used`. The others are accepted and have no effect on the command; a warning says so
    if they follow it.
    """

    def keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        shared = context.ensure_object(Shared)
        # A default, or the environment, must not replace what was given before the command.
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, Path) and not _is_utf8(path):
                raise click.UsageError(f"{path!a} is not UTF-8. Rename it, or choose another path.")
        typed = context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE
        if typed and isinstance(parameter, click.Option) and parameter.hidden and _is_missed(context, parameter):
            name = context.command_path.removeprefix(context.find_root().command_path).strip()
            warn(f"{parameter.opts[0]} has no effect on `{name}`.")
        if typed or context.parent is None:
            setattr(shared, parameter.name or "", list(value) if isinstance(value, tuple) else value)
            if parameter.name == "trusted" and value:
                from medhelm.benchmarks.hooks import trust

                for folder in value:
                    trust(folder)
        if parameter.name == "stores" and "store" in used and context.parent and not context.resilient_parsing:
            _protect([place for place in shared.stores or [Path("medhelm-store")] if isinstance(place, Path)])

    def add(command: Command) -> Command:
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


gateway_option = click.option(
    "--gateway",
    metavar="URL",
    expose_value=False,
    callback=lambda context, _parameter, url: setattr(context.ensure_object(Shared), "gateway", url or ""),
    help="Call models through this gateway (see `medhelm gateway`): https://HOST:PORT, http://127.0.0.1:PORT or "
    "unix:PATH.  [env var: MEDHELM_GATEWAY]",
)
"""The option of commands that can call models through a gateway."""


def load(shared: Shared, names: Sequence[str], *, of_stores: bool = False, as_run: bool = True) -> list[Benchmark]:
    """Load the named benchmarks.

    Parameters: of_stores, True to also find those that only the stores of the command remember; as_run, as in
    `remembered_benchmarks`.
    """
    from medhelm.benchmarks.catalog import load_benchmarks
    from medhelm.scoring.metrics import METRIC_NAMES

    def note(text: str) -> None:
        shared.note(f"skipped: {text}")

    folders = shared.find_folders(as_run=as_run) if of_stores else shared.benchmark_folders
    return load_benchmarks(names, metrics=METRIC_NAMES, extra=folders, note=note)


@contextmanager
def existing_audit_log(shared: Shared) -> Iterator[AuditLog | None]:
    """Yield the audit log of the store, for commands that do not need a store; None if it does not exist."""
    from medhelm.storage.audit import AuditLog
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
    from medhelm.benchmarks.data.sampling import SampleOptions

    options = SampleOptions(sample=sample, limit=limit)
    for benchmark in load(shared, [name]):
        yield open_dataset(benchmark, data=shared.data, tier=tier, options=options, own_data=own_data)


def board_options(shared: Shared, options: BoardOptions, format_: str = "table") -> BoardOptions:
    """Return options of a leaderboard with what shared options and the format add.

    Raises: ConfigError for a malformed file of prices.
    """
    prices: Any = options.pricing
    return replace(
        options,
        benchmark_folders=shared.benchmark_folders if options.suite == "all" else shared.folders_of_stores,
        pricing=pricing_of(shared, prices) if prices else None,
        short_names=format_ != "json",
    )


def clinicians_of(shared: Shared, ratings: Path | None, *, curve: bool = False) -> CalibrationOptions:
    """Return the options for clinicians' ratings. `ratings`: a file, a study or `none`; None: those of the store."""
    from medhelm.results.options import CalibrationOptions
    from medhelm.results.runs.stored_ratings import is_ratings_file

    chosen = ratings or ""
    definitions = load(shared, ["open", "additional"], of_stores=True) if is_ratings_file(chosen) else ()
    return CalibrationOptions(ratings=chosen, definitions=definitions, curve=curve)


def pricing_of(shared: Shared, prices: Sequence[str], day: date | None = None) -> Pricing:
    """Return the prices in `--prices`, in models.yaml, and of a day. Raises: ConfigError for a malformed price file."""
    from medhelm.models.catalog import find_models
    from medhelm.models.price_book import read_price_books
    from medhelm.results.options import Pricing, model_finder

    environment = without_gateway(os.environ)
    find = model_finder(lambda names: find_models(names, file=shared.models_file, environment=environment))
    return Pricing(books=read_price_books(prices), day=day, find_model=find)

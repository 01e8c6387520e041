"""Options that commands share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import Field, dataclass, fields, replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, cast

import click

from medhelm.cli import shell_completion
from medhelm.cli.global_options import PATH, Command, Shared
from medhelm.cli.printing import warn
from medhelm.domain.option_fields import Option, option, option_of
from medhelm.evaluation.settings import Settings
from medhelm.evaluation.stored_settings import JuryOptions
from medhelm.results.options import BoardOptions, RunFilter

FORMATS = click.Choice(["table", "json", "csv", "md", "latex"])


def add_options(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Combine decorators into one; help lists the options in this order."""

    def add(command: Command) -> Command:
        for decorator in reversed(options):
            command = decorator(command)
        return command

    return add


def format_option(command: Callable[..., int]) -> Callable[..., int]:
    """Add `--format`; the command gets it as `format_`, which is `json` if `--json` is given."""

    @wraps(command)
    def with_format(*args: Any, format_: str, **options: Any) -> int:
        context = click.get_current_context()
        is_json = context.ensure_object(Shared).json
        is_chosen = context.get_parameter_source("format_") is click.core.ParameterSource.COMMANDLINE
        if is_json and is_chosen and format_ != "json":
            warn(f"--format {format_} has no effect with --json.")
        return command(*args, format_="json" if is_json else format_, **options)

    return click.option(
        "--format", "format_", type=FORMATS, default="table", show_default=True, help="Format of the output."
    )(with_format)


_DATES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]


def options_of(kind: type[Any], name: str, *which: str) -> Callable[[Command], Command]:
    """Add the options of a dataclass to a command, which gets them as one object called `name`.

    `which`: fields or groups of options; none for all. Several of these decorators fill one object, so that help lists
    other options between them.
    """
    chosen = [
        (f"{name}_{one.name}_{part.name}" if part is not one else f"{name}_{one.name}", one, part)
        for one in fields(kind)
        for part in (fields(one.metadata["nested"]) if "nested" in one.metadata else (one,))
        if (form := option_of(part)) and (not which or {one.name, form.group} & {*which})
    ]

    def add(command: Command) -> Command:
        @wraps(command)
        def collected(*args: Any, **given: Any) -> int:
            values: dict[str, Any] = {}
            for target, one, part in chosen:
                value = given.pop(target)
                if part is one:
                    values[one.name] = value
                else:
                    values.setdefault(one.name, {})[part.name] = value
            for one in fields(kind):
                if "nested" in one.metadata and one.name in values:
                    values[one.name] = one.metadata["nested"](**values[one.name])
            given[name] = replace(given[name], **values) if name in given else kind(**values)
            return cast("int", command(*args, **given))

        return add_options(*(_click_option(part, target) for target, _, part in chosen))(cast("Command", collected))

    return add


def option_from(kind: type[Any], name: str, target: str = "") -> Callable[[Command], Command]:
    """Add the option of one field to a command, which gets its value as `target`, or as the field is called."""
    return _click_option(next(one for one in fields(kind) if one.name == name), target or name)


def is_given(name: str) -> bool:
    """Return whether the user chose an option, instead of its default. `name`: that of the object and of the field."""
    source = click.get_current_context().get_parameter_source(name)
    return source is not click.core.ParameterSource.DEFAULT


def _click_option(one: Field[Any], target: str) -> Callable[[Command], Command]:
    """Return the decorator that adds the option of a field."""
    form = option_of(one)
    assert form is not None, f"{one.name} is not an option"
    metavar = form.metavar or ("N" if str(one.type).startswith("int") else None)
    settings: dict[str, Any] = {"help": form.help, "metavar": metavar, "envvar": form.variable}
    settings["required"] = form.is_required
    if form.completes:
        settings["shell_complete"] = getattr(shell_completion, form.completes)
    if form.parse:
        settings["callback"] = partial(_parsed, form.parse, one.default)
    elif str(one.type).startswith("bool"):
        settings |= {"is_flag": True, "default": one.default}
    elif isinstance(one.default, tuple):
        settings |= {"multiple": True, "type": _click_type(one, form)}
    else:
        settings |= {
            "type": _click_type(one, form),
            "default": one.default,
            "show_default": one.default not in (None, ""),
        }
    return click.option(form.flag, target, **settings)


def _parsed(
    parse: Callable[[str], Any], default: Any, _context: click.Context, _one: click.Parameter, text: Any
) -> Any:
    """Parse a text; the default without one. Raises: click.BadParameter."""
    try:
        return parse(text) if text else default
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _click_type(one: Field[Any], form: Option) -> Any:
    """Return the type of an option, from that of its field."""
    if form.choices:
        return click.Choice(form.choices)
    if form.kind:
        return {"dollars": Dollars()}[form.kind]
    lowest = form.least if form.above is None else form.above
    match str(one.type).removeprefix("tuple[").partition(" ")[0].rstrip(",").partition(",")[0]:
        case "int" if lowest is not None:
            return click.IntRange(int(lowest), form.most)
        case "float":
            highest = form.most if form.below is None else form.below
            return click.FloatRange(lowest, highest, form.above is not None, form.below is not None)
        case "Path":
            return PATH
        case "datetime":
            return click.DateTime(_DATES)
    return None


run_filter_options = options_of(RunFilter, "wanted")
"""The options that select runs of a store; the command gets a `RunFilter` as `wanted`."""

scoring_option = option_from(BoardOptions, "rule")

prices_option = option_from(BoardOptions, "pricing", "prices")


class WordOrColumn(click.Choice[str]):
    """One of some words, or else the name of a column of the data."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text as it is."""
        del param, ctx
        return value

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Return a word for all words, and what else is allowed."""
        del param, ctx
        return "WORD|[BENCHMARK:]COLUMN"


class Dollars(click.FloatRange):
    """A finite amount of US dollars above 0."""

    name = "USD"

    def __init__(self) -> None:
        """Accept any amount above 0; `convert` refuses infinity."""
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the amount."""
        amount = super().convert(value, param, ctx)
        if not math.isfinite(amount):
            self.fail(f"{value} is not an amount of US dollars: give a number above 0, such as 5 or 0.50.", param, ctx)
        return float(amount)


def listen_options(port: int, tls: str) -> Callable[[Command], Command]:
    """Add the options for the address of a server. `port`: the default; `tls`: the help of `--tls`."""
    return add_options(
        click.option(
            "--port",
            metavar="P",
            type=click.IntRange(0, 65535),
            default=port,
            show_default=True,
            help="Port to listen on; 0: any free port.",
        ),
        click.option(
            "--socket",
            "socket_file",
            metavar="PATH",
            type=PATH,
            help="Listen on a socket file, which only you can open, instead of a port.",
        ),
        click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on."),
        click.option("--tls", "certificate", metavar="CERTIFICATE KEY", nargs=2, type=PATH, help=tls),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInputs:
    """Options that choose what a run is about, besides the names of benchmarks."""

    models: tuple[str, ...] = option(
        "--model",
        "PROVIDER/NAME, NAME@URL, a name of models.yaml, or OWN=NAME for a name of your own; repeatable.",
        (),
        metavar="MODEL",
        completes="models",
        is_required=True,
    )
    like: tuple[Path, ...] = option(
        "--like", "Finished HELM run whose prompts are sent unchanged; repeatable.", (), metavar="DIR"
    )


run_options = add_options(
    click.argument("names", nargs=-1, metavar="[BENCHMARK]...", shell_complete=shell_completion.benchmarks),
    options_of(RunInputs, "inputs", "models"),
    options_of(JuryOptions, "judging"),
    options_of(Settings, "settings", "measurement", "variants"),
    options_of(RunInputs, "inputs", "like"),
    options_of(Settings, "settings", "sending", "spending", "service"),
    scoring_option,
)
"""The arguments of `run` and `plan`."""


def cluster_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add `--cluster` and `--actors`, two fields of `settings`."""

    @wraps(command)
    def checked(*args: Any, settings: Settings, **options: Any) -> int:
        if settings.actors and not settings.cluster:
            raise click.UsageError(f"--actors {settings.actors} is for a cluster: add --cluster auto, or leave it out.")
        return command(*args, settings=settings, **options)

    return options_of(Settings, "settings", "cluster")(checked)

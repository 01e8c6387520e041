"""What commands share: options, names turned into objects, and printing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from medhelm.cli import completion

if TYPE_CHECKING:
    from medhelm.benchmarks.data.dataset import Dataset
    from medhelm.domain import Benchmark, Tier

FORMATS = click.Choice(["table", "json", "csv", "md", "latex"])
_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(slots=True)
class Shared:
    """The options that every command has, wherever they stood on the line."""

    stores: list[Path] = field(default_factory=list)
    data: Path | None = None
    offline: bool = False
    json: bool = False
    benchmark_folders: list[Path] = field(default_factory=list)
    models_file: Path | None = None

    @property
    def store(self) -> Path:
        """The one store a command writes to."""
        if len(self.stores) > 1:
            raise click.UsageError("this command works on one store; --store was given more than once")
        return self.stores[0] if self.stores else Path("medhelm-store")


def shared_options(command: _Command) -> _Command:
    """Add the shared options to a command or group; what is given later on the line wins."""

    def keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        shared = context.ensure_object(Shared)
        # A default, or the environment, must not undo what stood before the command.
        typed = context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE
        if typed or context.parent is None:
            setattr(shared, parameter.name or "", list(value) if isinstance(value, tuple) else value)

    path = click.Path(path_type=Path)
    options = [
        click.option("--store", "stores", type=path, multiple=True, envvar="MEDHELM_STORE", expose_value=False,
                     callback=keep, help="Folder that holds the results.  [default: ./medhelm-store]"),
        click.option("--data", type=path, envvar="MEDHELM_DATA", expose_value=False, callback=keep,
                     help="Folder with one folder of data per benchmark."),
        click.option("--benchmarks", "benchmark_folders", type=path, multiple=True, envvar="MEDHELM_BENCHMARKS",
                     expose_value=False, callback=keep, help="Folder with further benchmarks."),
        click.option("--models", "models_file", type=path, envvar="MEDHELM_MODELS", expose_value=False, callback=keep,
                     help="File with your own model names.  [default: ./models.yaml]"),
        click.option("--offline", is_flag=True, envvar="MEDHELM_OFFLINE", expose_value=False, callback=keep,
                     help="Ask nothing outside this machine."),
        click.option("--json", is_flag=True, expose_value=False, callback=keep,
                     help="Machine-readable result on standard output."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def scoring_option(command: _Command) -> _Command:
    """Add --scoring."""
    return click.option(
        "--scoring",
        "rule",
        type=click.Choice(["corrected", "published"]),
        default="corrected",
        show_default=True,
        help="Which rule is shown; both are computed and stored.",
    )(command)


def judge_options(command: _Command) -> _Command:
    """Add --judge, --jury and --min-judges."""
    options = [
        click.option(
            "--judge",
            "judges",
            multiple=True,
            shell_complete=completion.models,
            help="A model that grades free text, named as --model names one; repeatable, three are usual.",
        ),
        click.option(
            "--jury",
            "jury_file",
            type=click.Path(path_type=Path),
            envvar="MEDHELM_JURY",
            help="File with judges, for where no --judge is given.",
        ),
        click.option(
            "--min-judges",
            type=click.IntRange(min=1),
            help="Judges that must have graded everything for an instance to have a score.  [default: 2]",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def request_options(command: _Command) -> _Command:
    """Add the limits on money, requests and time."""
    options = [
        click.option(
            "--max-cost",
            "max_cost_usd",
            type=click.FloatRange(min=0, min_open=True),
            help="Stop when this many US dollars are spent.",
        ),
        click.option(
            "--concurrency", type=click.IntRange(1, 4096), help="Requests in flight per endpoint.  [default: adaptive]"
        ),
        click.option(
            "--timeout",
            "timeout_s",
            type=click.FloatRange(min=0, min_open=True),
            default=600.0,
            show_default=True,
            help="Seconds to wait for one reply.",
        ),
        click.option("--attempts", type=click.IntRange(1, 20), default=5, show_default=True, help="Tries per request."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


batch_option = click.option(
    "--batch",
    is_flag=True,
    help="Ask through the batch APIs of OpenAI and Anthropic: half the price, up to a day later.",
)
keep_batches_option = click.option(
    "--keep-batches",
    is_flag=True,
    help="Leave batches at their services once they are collected; else they are deleted there.",
)
tier_option = click.option(
    "--tier",
    type=click.Choice(["real", "sample"]),
    default="real",
    show_default=True,
    help="Real data or invented rows.",
)
sample_option = click.option(
    "--sample", default="default", show_default=True, help="Which of a benchmark's named selections."
)
limit_option = click.option("--limit", type=click.IntRange(min=1), help="Only the first N instances of each benchmark.")


def run_options(command: _Command) -> _Command:
    """Add what is evaluated, on whom, and within which limits: the arguments of `run`, which `plan` takes as well."""
    options = [
        click.argument("names", nargs=-1, metavar="[BENCHMARK]...", shell_complete=completion.benchmarks),
        click.option(
            "--like",
            multiple=True,
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="A finished run of HELM, whose prompts are sent as they were; repeatable.",
        ),
        click.option(
            "--model",
            "models",
            multiple=True,
            required=True,
            shell_complete=completion.models,
            help="PROVIDER/NAME, NAME@URL or a name of your own; repeatable.",
        ),
        limit_option,
        sample_option,
        tier_option,
        judge_options,
        request_options,
        batch_option,
        keep_batches_option,
        click.option(
            "--seed",
            type=click.IntRange(0, 2**32 - 1),
            default=0,
            show_default=True,
            help="Seed of selections and of the random baseline.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def load(shared: Shared, names: Sequence[str]) -> list[Benchmark]:
    """The benchmarks that were named."""
    from medhelm.benchmarks.catalog import load_benchmarks
    from medhelm.scoring.metrics import METRIC_NAMES

    def note(text: str) -> None:
        click.echo(f"medhelm: left out: {text}", err=True)

    return load_benchmarks(names, metrics=METRIC_NAMES, extra=shared.benchmark_folders, note=note)


def open_datasets(shared: Shared, name: str, *, tier: Tier, sample: str, limit: int | None = None) -> Iterator[Dataset]:
    """The checked data of the benchmarks that were named."""
    from medhelm.benchmarks.data.dataset import open_dataset

    for benchmark in load(shared, [name]):
        yield open_dataset(benchmark, data=shared.data, tier=tier, sample=sample, limit=limit)


def print_json(content: object) -> None:
    """Write JSON to standard output."""
    click.echo(json.dumps(content, indent=2, ensure_ascii=False))

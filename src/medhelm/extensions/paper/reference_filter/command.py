"""`medhelm filter-references`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from medhelm.cli.common import shell_completion
from medhelm.cli.common.global_options import Shared, gateway_option, load, shared_options
from medhelm.cli.common.options import options_of, scoring_option
from medhelm.cli.common.printing import print_json, warn
from medhelm.cli.run import find_judges
from medhelm.errors import ErrorCollector
from medhelm.evaluation.settings import JuryOptions, Settings

if TYPE_CHECKING:
    from medhelm.domain import Benchmark, Model, Rule


@click.command("filter-references")
@click.argument("names", nargs=-1, required=True, metavar="BENCHMARK...", shell_complete=shell_completion.benchmarks)
@click.option(
    "--judge",
    "judges",
    multiple=True,
    metavar="MODEL",
    shell_complete=shell_completion.models,
    help="Model that reads prompt and reference; repeatable: the majority decides. `paper`: the paper's judge, "
    "openai/gpt-4o-mini-2024-07-18. Without judges, nothing is sent and the stored marks are shown.",
)
@options_of(Settings, "settings", "limit", "seed", "sample", "tier", "spending", "service")
@gateway_option
@scoring_option
@shared_options("store", "data", "benchmarks", "trust", "models", "offline", "json")
@click.pass_obj
def filter_references(
    shared: Shared, /, names: tuple[str, ...], judges: tuple[str, ...], rule: Rule, settings: Settings
) -> int:
    """Mark references the prompt cannot support.

    Judges mark references with information that cannot be inferred from the prompt, which no model can reproduce, and
    references that do not make sense with it, as in the paper's appendix D. The output shows
    the scores of stored runs with and without these instances. Each judge reads every instance once. Repeat the command
    to continue after an interruption.

    \b
    Examples:
      medhelm filter-references mimic_rrs --judge openai/gpt-4o --max-cost 5
      medhelm filter-references race_bias mtsamples --data DIR --judge paper
      medhelm filter-references mimic_rrs --data DIR
    """
    from medhelm.extensions.paper.reference_filter import report as filter_report
    from medhelm.extensions.paper.reference_filter.scores import filter_references as mark_and_compare

    benchmarks, found, left_out = _find_benchmarks_and_judges(shared, names, judges)
    for reason in left_out:
        warn(f"skipped: {reason}")
    with _progress_bar(wanted=bool(found)) as progress:
        done = mark_and_compare(
            benchmarks,
            found,
            store=shared.store,
            data=shared.data,
            settings=replace(settings, offline=shared.offline),
            rule=rule,
            environment=shared.environment,
            note=warn,
            progress=progress,
        )
    if shared.json:
        print_json(filter_report.as_json(done.benchmarks, rule) | done.cost)
    else:
        click.echo(filter_report.to_table(done.benchmarks, rule), nl=False)
    for message in done.messages:
        warn(message)
    return done.exit_code


def _find_benchmarks_and_judges(
    shared: Shared, names: Sequence[str], judges: Sequence[str]
) -> tuple[list[Benchmark], Sequence[Model], list[str]]:
    """Return benchmarks, judges, and the reasons why benchmarks are skipped. Raises: UserError with all problems."""
    from medhelm.extensions.paper.reference_filter.marking import PAPER_JUDGE
    from medhelm.extensions.paper.reference_filter.scores import filterable

    judges = [PAPER_JUDGE if name == "paper" else name for name in judges]
    errors = ErrorCollector()
    found: tuple[Model, ...] = ()
    benchmarks: list[Benchmark] = []
    left_out: list[str] = []
    with errors.collect():
        if judges and (jury := find_judges(shared, JuryOptions(judges=tuple(judges)), quiet=True)):
            found = jury.judges
    with errors.collect():
        benchmarks, left_out = filterable(load(shared, names), names)
    errors.raise_all()
    return benchmarks, found, left_out


@contextmanager
def _progress_bar(*, wanted: bool) -> Iterator[Callable[[int, int], object] | None]:
    """Yield a function that draws a progress bar from (done, total); None without a terminal."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=1, label="marking references", file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield show

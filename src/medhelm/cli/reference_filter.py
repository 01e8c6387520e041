"""`medhelm filter-references`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from medhelm.cli import completion
from medhelm.cli.options import (
    Shared,
    limit_option,
    load,
    print_json,
    request_options,
    sample_option,
    scoring_option,
    shared_options,
    tier_option,
)
from medhelm.errors import UserError

if TYPE_CHECKING:
    from medhelm.domain import Benchmark, Model, Rule


@click.command("filter-references")
@shared_options
@click.argument("names", nargs=-1, required=True, metavar="BENCHMARK...", shell_complete=completion.benchmarks)
@click.option(
    "--judge",
    "judges",
    multiple=True,
    shell_complete=completion.models,
    help="Model that reads prompt and reference; repeatable, more than half decide. Without one, nothing is sent and "
    "the marks of the store are shown.",
)
@limit_option
@sample_option
@tier_option
@request_options
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of selections.")
@scoring_option
@click.pass_obj
def filter_references(
    shared: Shared, /, names: tuple[str, ...], judges: tuple[str, ...], rule: Rule, **choices: Any
) -> int:
    """Mark references that rest on information outside the prompt, and show scores with and without them.

    No model can write what it was not told: such references are set aside. Each judge reads prompt and reference of
    every instance once; the same command again goes on where it stopped. The scores are those of the finished runs in
    the store.

    \b
    Examples:
      medhelm filter-references mimic_rrs --data DIR --judge openai/gpt-4o --max-cost 5
      medhelm filter-references mimic_rrs --data DIR
    """
    from medhelm.evaluation.settings import Settings
    from medhelm.reports import reference_filter as filter_report
    from medhelm.results.reference_filter import filter_references as mark_and_compare

    benchmarks, found, left_out = _find(shared, names, judges)
    for reason in left_out:
        _note(f"left out: {reason}")
    with _progress(wanted=bool(found)) as progress:
        done = mark_and_compare(
            benchmarks,
            found,
            store=shared.store,
            data=shared.data,
            settings=Settings(offline=shared.offline, **choices),
            rule=rule,
            environment=os.environ,
            note=_note,
            progress=progress,
        )
    if shared.json:
        print_json(filter_report.as_json(done.benchmarks, rule) | done.cost)
    else:
        click.echo(filter_report.to_table(done.benchmarks, rule), nl=False)
    for message in done.messages:
        _note(message)
    return done.exit_code


def _find(
    shared: Shared, names: Sequence[str], judges: Sequence[str]
) -> tuple[list[Benchmark], Sequence[Model], list[str]]:
    """Benchmarks, judges, and why some of a group are left out. Raises UserError with what is wrong with any."""
    from medhelm.models.jury_file import find_jury
    from medhelm.results.reference_filter import filterable

    wrong: list[UserError] = []
    found: tuple[Model, ...] = ()
    benchmarks: list[Benchmark] = []
    left_out: list[str] = []
    try:
        if judges:
            jury, _ = find_jury(
                judges, file=None, at_least=None, models_file=shared.models_file, environment=os.environ
            )
            found = jury.judges if jury else ()
    except UserError as error:
        wrong.append(error)
    try:
        benchmarks, left_out = filterable(load(shared, names), names)
    except UserError as error:
        wrong.append(error)
    if wrong:
        raise UserError("\n\n".join(map(str, wrong)))
    return benchmarks, found, left_out


def _note(text: str) -> None:
    """One line for people."""
    click.echo(f"medhelm: {text}", err=True)


@contextmanager
def _progress(*, wanted: bool) -> Iterator[Callable[[int, int], object] | None]:
    """A bar in a terminal, None elsewhere; it is told how many opinions are there, and of how many at most."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=1, label="marking references", file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield show

"""`medhelm report` and `medhelm filter-references`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from medhelm.cli import shell_completion
from medhelm.cli.global_options import (
    Shared,
    board_options,
    clinicians_of,
    gateway_option,
    load,
    shared_options,
)
from medhelm.cli.options import options_of, scoring_option
from medhelm.cli.printing import print_json, warn
from medhelm.cli.run import find_judges
from medhelm.domain.option_fields import option
from medhelm.errors import ErrorCollector
from medhelm.evaluation.settings import Settings
from medhelm.evaluation.stored_settings import JuryOptions
from medhelm.results.options import BoardOptions, DocumentOptions, SourceOptions

if TYPE_CHECKING:
    from medhelm.domain import Benchmark, Model, Rule
    from medhelm.extensions.paper.write import WrittenReport


# --- medhelm report ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """Options of a report."""

    only: Sequence[str] = option(
        "--only",
        "Tables and figures to make: table1, table2, table3, tableC3, subcategories, tableE4, head_to_head, figure3, "
        "figure4, figure4_subcategories, figure5, figureD1, win_rates, pairs.  [default: all that can be made]",
        (),
        metavar="NAME,...",
    )
    formats: Sequence[str] = option(
        "--formats", "Formats: md, csv, latex, svg, png, pdf.  [default: all]", (), metavar="FORMAT,..."
    )


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@options_of(ReportOptions, "content")
@options_of(DocumentOptions, "about")
@options_of(SourceOptions, "source")
@options_of(BoardOptions, "options", "suite", "wanted", "tier")
@click.option(
    "--scoring",
    "rule",
    type=click.Choice(["corrected", "published"]),
    help="Scoring rule to show.  [default: corrected; published if published results are included]",
)
@options_of(BoardOptions, "options", "pricing")
@shared_options("store", "benchmarks", "models", "json")
@click.pass_obj
def report(
    shared: Shared,
    folder: Path,
    source: SourceOptions,
    options: BoardOptions,
    content: ReportOptions,
    about: DocumentOptions,
    rule: Rule | None,
) -> int:
    """Write the paper's tables and figures.

    Covers the models of the store, the published ones, or both. DIR must be new, empty, or an unchanged report. Start
    with its README.md or index.html. PNG and PDF need the package vl-convert-python: in a checkout,
    `pip install '.[figures]'`.

    \b
    Examples:
      medhelm report paper --published-only --suite paper35
      medhelm report ours --ratings ratings.csv
      medhelm report board --title "Discharge summaries" --signed-by team.pub
      medhelm report slides --only figure5,win_rates --formats svg,png
    """
    from medhelm.extensions.paper.write import ReportContents, ReportRequest, make_report
    from medhelm.results.runs.selection import without_address

    if source.with_published and source.published_only:
        raise click.UsageError("--with-published and --published-only cannot be combined: use one of them.")
    request = ReportRequest(
        stores=shared.all_stores,
        scores=source.scores,
        published="only" if source.published_only else "beside" if source.with_published else "no",
        options=board_options(shared, options),
        rule=rule,
        about=about,
        definitions=clinicians_of(shared, about.ratings).definitions,
    )
    contents = ReportContents(
        only=_split_at_commas(content.only),
        formats=_split_at_commas(content.formats),
        command=shlex.join(["medhelm", *map(without_address, sys.argv[1:])]),
    )
    made = make_report(folder, request, contents)
    _print_report(made, as_json=shared.json)
    if made.missing:
        raise made.missing
    return 0


def _split_at_commas(given: Sequence[str]) -> list[str]:
    """Split the values of a repeatable option at commas."""
    return [part.strip() for text in given for part in text.split(",") if part.strip()]


def _print_report(made: WrittenReport, *, as_json: bool) -> None:
    from medhelm.domain.text import plural

    if as_json:
        print_json(
            {
                "folder": str(made.folder),
                "files": sorted(made.files),
                "not_made": dict(made.not_made),
                "findings": list(made.findings),
                "warnings": [remark.text for remark in made.remarks],
            }
        )
        return
    click.echo(f"{made.folder / 'README.md'}: {len(made.files)} files")
    for text in made.findings:
        click.echo(f"- {text}")
    for key, why in made.not_made.items():
        click.echo(f"not made: {key}: {why}", err=True)
    if made.remarks:
        click.echo(f"{plural(len(made.remarks), 'warning')}: see {made.folder / 'README.md'}", err=True)


# --- medhelm filter-references ----------------------------------------------------------------------------------------


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
    """Mark references with facts the prompt lacks.

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
    from medhelm.cli.progress import progress_bar
    from medhelm.evaluation.session import EvaluationSetup
    from medhelm.extensions.paper.reference_filter import report as filter_report
    from medhelm.extensions.paper.reference_filter.marking import filter_references as mark_and_compare

    benchmarks, found, left_out = _find_benchmarks_and_judges(shared, names, judges)
    for reason in left_out:
        warn(f"skipped: {reason}")
    setup = EvaluationSetup(
        store=shared.store,
        data=shared.data,
        settings=replace(settings, offline=shared.offline),
        environment=shared.environment,
    )
    with progress_bar("marking references") if found else nullcontext() as progress:
        done = mark_and_compare(benchmarks, found, setup, rule=rule, note=warn, progress=progress)
    if shared.json:
        print_json(filter_report.as_json(done.benchmarks, rule) | done.marking.cost)
    else:
        click.echo(filter_report.to_table(done.benchmarks, rule), nl=False)
    for message in done.marking.messages:
        warn(message)
    return done.marking.exit_code


def _find_benchmarks_and_judges(
    shared: Shared, names: Sequence[str], judges: Sequence[str]
) -> tuple[list[Benchmark], Sequence[Model], list[str]]:
    """Return benchmarks, judges, and the reasons why benchmarks are skipped. Raises: UserError with all problems."""
    from medhelm.extensions.paper.reference_filter.marking import PAPER_JUDGE, filterable

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

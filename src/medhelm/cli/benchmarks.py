"""`medhelm benchmarks ...` and `medhelm taxonomy`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from medhelm.cli.common import shell_completion
from medhelm.cli.common.options import FORMATS, option_from
from medhelm.cli.common.output import output_option, table_options
from medhelm.cli.common.printing import print_json
from medhelm.cli.common.shared import Shared, load, open_datasets, shared_options
from medhelm.evaluation.settings import Settings

if TYPE_CHECKING:
    from medhelm.domain import Tier


@click.group()
@shared_options()
def benchmarks() -> None:
    """List, preview and check benchmarks.

    \b
    Examples:
      medhelm benchmarks list
      medhelm benchmarks check pubmed_qa --data DIR
    """


@benchmarks.command("list")
@click.argument("names", nargs=-1, metavar="[BENCHMARK|GROUP]...", shell_complete=shell_completion.benchmarks)
@table_options
@shared_options("data", "benchmarks", "json")
@click.pass_obj
def list_benchmarks(shared: Shared, names: tuple[str, ...]) -> int:
    """List benchmarks and their data.

    Benchmarks outside the suite come last.

    \b
    Example:
      medhelm benchmarks list clinical_decision_support --data DIR
    """
    from medhelm.benchmarks.suites import constructions
    from medhelm.evaluation.benchmark_check import find_folder
    from medhelm.reports import benchmarks as benchmarks_report

    found = load(shared, names or ["all", "additional"])
    made = constructions()
    folders = {benchmark.name: find_folder(benchmark, shared.data) for benchmark in found}
    if shared.json:
        print_json({"benchmarks": [benchmarks_report.as_json(b, folders[b.name], made.get(b.name, "")) for b in found]})
    else:
        click.echo(benchmarks_report.list_table(found, folders, made))
    return 0


@benchmarks.command("show")
@click.argument("name", metavar="BENCHMARK", shell_complete=shell_completion.benchmarks)
@output_option
@shared_options("data", "benchmarks", "json")
@click.pass_obj
def show_benchmark(shared: Shared, name: str) -> int:
    """Show the definition of a benchmark.

    Shows its task, data, prompt, limits and metrics.

    \b
    Example:
      medhelm benchmarks show medcalc_bench
    """
    from medhelm.benchmarks.suites import constructions
    from medhelm.evaluation.benchmark_check import find_folder
    from medhelm.reports import benchmarks as benchmarks_report

    for benchmark in load(shared, [name]):
        folder, made = find_folder(benchmark, shared.data), constructions().get(benchmark.name, "")
        if shared.json:
            print_json(benchmarks_report.as_json(benchmark, folder, made))
        else:
            click.echo(benchmarks_report.show_text(benchmark, folder, made))
    return 0


@benchmarks.command()
@click.argument("names", nargs=-1, metavar="[BENCHMARK|GROUP]...", shell_complete=shell_completion.benchmarks)
@click.option("--format", type=FORMATS, default="md", show_default=True, help="Format of the output.")
@table_options
@shared_options("benchmarks", "json")
@click.pass_obj
def rules(shared: Shared, names: tuple[str, ...], format: str) -> int:
    """Compare published and corrected rules.

    Shows both scoring rules of each benchmark, and why they differ.

    \b
    Example:
      medhelm benchmarks rules medec ehrshot
    """
    from medhelm.reports import benchmarks as benchmarks_report
    from medhelm.reports.formats.json_output import plain_json

    found = load(shared, names or ["all"])
    if shared.json or format == "json":
        print_json({"benchmarks": [{"benchmark": b.name, **plain_json(b.rules)} for b in found]})
    else:
        click.echo(benchmarks_report.rules_table(found, format), nl=False)
    return 0


@benchmarks.command()
@click.argument("name", shell_complete=shell_completion.benchmarks)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Folder in which to create the benchmark's folder.  [default: current folder]",
)
@click.option(
    "--from", "table", metavar="FILE", type=click.Path(path_type=Path), help="CSV file or workbook with your data."
)
@click.option("--answer", metavar="COLUMN", default="", help="Column of the correct answer in that file.")
@shared_options("json")
@click.pass_obj
def new(shared: Shared, name: str, out: Path, table: Path | None, answer: str) -> int:
    """Create a folder for your own benchmark.

    The folder holds a commented definition and invented rows, and passes `medhelm benchmarks check`. With --from, your
    data is copied into the folder, and the definition is a guess at the purpose of each column.

    \b
    Examples:
      medhelm benchmarks new sepsis_qa
      medhelm benchmarks new sepsis_qa --from notes.xlsx
    """
    from medhelm.benchmarks.catalog import check_new_name
    from medhelm.benchmarks.from_table import benchmark_from_table
    from medhelm.benchmarks.scaffold import scaffold

    if answer and table is None:
        raise click.UsageError("--answer names a column of the file that --from names: add --from.")
    check_new_name(name, shared.benchmark_folders)
    place, guessed = benchmark_from_table(name, table, out, answer=answer) if table else (scaffold(name, out), [])
    path = str(place) if "/" in str(place) else f"./{place}"
    if shared.json:
        print_json({"benchmark": name, "folder": str(place), "guessed": guessed})
        return 0
    todo = "Check these guesses in" if table else "Replace the invented rows in both data files with yours and edit"
    click.echo("\n".join([f"Created {place}.", *guessed, f"{todo} {place / 'benchmark.yaml'}; then run"]))
    click.echo(f"  medhelm benchmarks check {path}\n  medhelm run {path} --model ...")
    return 0


@benchmarks.command()
@click.argument("name", metavar="BENCHMARK", shell_complete=shell_completion.benchmarks)
@click.option(
    "--count", metavar="N", type=click.IntRange(min=1), default=3, show_default=True, help="Number of prompts."
)
@option_from(Settings, "sample")
@option_from(Settings, "tier")
@option_from(Settings, "own_data")
@shared_options("data", "benchmarks", "trust", "json")
@click.pass_obj
def preview(shared: Shared, name: str, count: int, sample: str, tier: Tier, own_data: bool) -> int:
    """Show the first prompts as sent to models.

    Nothing is sent.

    \b
    Example:
      medhelm benchmarks preview pubmed_qa --tier sample
    """
    from medhelm.evaluation.benchmark_check import case_of
    from medhelm.reports import benchmarks as benchmarks_report

    for dataset in open_datasets(shared, name, tier=tier, sample=sample, limit=count, own_data=own_data):
        cases = [case_of(dataset.benchmark, instance) for instance in dataset]
        if shared.json:
            print_json(cases)
        else:
            click.echo(benchmarks_report.preview_text(dataset.benchmark, cases))
    return 0


@benchmarks.command()
@click.argument("name", metavar="BENCHMARK", shell_complete=shell_completion.benchmarks)
@option_from(Settings, "limit")
@option_from(Settings, "sample")
@option_from(Settings, "tier")
@option_from(Settings, "own_data")
@shared_options("data", "benchmarks", "trust")
@click.pass_obj
def instances(shared: Shared, name: str, limit: int | None, sample: str, tier: Tier, own_data: bool) -> int:
    """Print all instances as JSON lines.

    Each line holds the id, fields, references, choices, messages and max_tokens of an instance.

    \b
    Example:
      medhelm benchmarks instances medbullets --data DIR > medbullets.jsonl
    """
    from medhelm.evaluation.benchmark_check import case_of

    for dataset in open_datasets(shared, name, tier=tier, sample=sample, limit=limit, own_data=own_data):
        for instance in dataset:
            click.echo(json.dumps(case_of(dataset.benchmark, instance)))
    return 0


@benchmarks.command()
@click.argument(
    "names", nargs=-1, required=True, metavar="BENCHMARK|GROUP...", shell_complete=shell_completion.benchmarks
)
@click.option(
    "--model",
    "models",
    metavar="MODEL",
    multiple=True,
    help="Check that every prompt fits this model; repeatable.",
    shell_complete=shell_completion.models,
)
@click.option(
    "--presidio",
    metavar="PIPELINE",
    help="Also look for names, places and numbers with Presidio and this spaCy pipeline, such as en_core_web_lg.",
)
@option_from(Settings, "sample")
@option_from(Settings, "tier")
@option_from(Settings, "own_data")
@output_option
@shared_options("data", "benchmarks", "trust", "models", "json")
@click.pass_obj
def check(
    shared: Shared,
    names: tuple[str, ...],
    sample: str,
    tier: Tier,
    own_data: bool,
    models: tuple[str, ...],
    presidio: str | None,
) -> int:
    """Validate definition, data and references.

    Scores each reference as if it were a completion. Lists repeated or contradictory questions, references contained
    in the prompt, nearly constant references, options that differ only in case, prompts that are too long for a model,
    characters garbled by a wrong encoding, and possible personal identifiers, with the HIPAA categories that were
    searched. It does not de-identify. In a group, benchmarks without data are skipped. Exit codes: 0 if every reference
    gets the best score or has an explanation, 1 otherwise, 2 if data is wrong, 4 if data of a named benchmark is
    missing.

    \b
    Examples:
      medhelm benchmarks check medcalc_bench --data DIR
      medhelm benchmarks check all --tier sample
    """
    from medhelm.benchmarks.personal_identifiers import (
        IDENTIFIERS,
        PRESIDIO_ENTITIES,
        UNSEARCHED,
        no_search,
        presidio_search,
    )
    from medhelm.evaluation.benchmark_check import check_all
    from medhelm.reports import benchmarks as benchmarks_report
    from medhelm.reports.formats.json_output import plain_json

    windows = _context_windows(shared, models)
    groups = [load(shared, [name]) for name in names]
    done = check_all(
        groups,
        data=shared.data,
        tier=tier,
        sample=sample,
        windows=windows,
        own_data=own_data,
        further_search=presidio_search(presidio) if presidio else no_search,
    )
    entities = list(PRESIDIO_ENTITIES) if presidio else []
    if shared.json:
        search = {"searched": list(IDENTIFIERS), "unsearched": list(UNSEARCHED), "presidio": entities}
        print_json({"benchmarks": plain_json(done.checks), "skipped": list(done.skipped), "identifier_search": search})
    else:
        parts = [benchmarks_report.check_text(plain_json(check)) for check in done.checks]
        if parts:
            parts.append(benchmarks_report.identifiers_text(list(IDENTIFIERS), UNSEARCHED, entities))
        if parts := [*parts, *benchmarks_report.skipped_text(done.skipped)]:
            click.echo("\n\n".join(parts))
    for error in done.errors:
        click.echo(f"medhelm: {error}", err=True)
    return done.exit_code


def _context_windows(shared: Shared, names: Sequence[str]) -> dict[str, int]:
    """Return the context window of each model in tokens. Raises: UserError if one is unknown."""
    from medhelm.errors import UserError
    from medhelm.models.catalog import find_models
    from medhelm.models.remote import without_gateway

    environment = without_gateway(os.environ)
    models = find_models(names, file=shared.models_file, environment=environment) if names else []
    if unknown := [model.name for model in models if model.window is None]:
        raise UserError(f"the context window of {', '.join(unknown)} is unknown. Set `window: TOKENS` in models.yaml.")
    return {model.name: model.window for model in models if model.window}


@click.command()
@click.option("--tasks", is_flag=True, help="Also list the tasks of each subcategory.")
@output_option
@shared_options("data", "benchmarks", "trust", "json")
@click.pass_obj
def taxonomy(shared: Shared, tasks: bool) -> int:
    """Show medical tasks and their benchmarks.

    Marks the benchmarks whose data is available.

    \b
    Example:
      medhelm taxonomy --data DIR
    """
    from medhelm.benchmarks.taxonomy import TASKS_OF_THE_PAPER, VALIDATION
    from medhelm.reports import benchmarks as benchmarks_report
    from medhelm.results.taxonomy import coverage

    covered = coverage(load(shared, ["all"]), shared.data)
    if shared.json:
        print_json(benchmarks_report.taxonomy_as_json(covered, TASKS_OF_THE_PAPER, VALIDATION))
    else:
        tree = benchmarks_report.taxonomy_tree(
            covered, tasks_of_the_paper=TASKS_OF_THE_PAPER, validation=VALIDATION, with_tasks=tasks
        )
        click.echo(tree)
    return 0

"""`medhelm benchmarks ...`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from medhelm.cli import completion
from medhelm.cli.options import (
    FORMATS,
    Shared,
    limit_option,
    load,
    open_datasets,
    print_json,
    sample_option,
    shared_options,
    tier_option,
)

if TYPE_CHECKING:
    from medhelm.domain import Tier


@click.group()
@shared_options
def benchmarks() -> None:
    """The catalogue: what there is, what a model reads, and whether it is sound."""


@benchmarks.command("list")
@shared_options
@click.argument("names", nargs=-1, metavar="[NAME or GROUP]...", shell_complete=completion.benchmarks)
@click.pass_obj
def list_benchmarks(shared: Shared, names: tuple[str, ...]) -> int:
    """List benchmarks, and whether their data is here; those beside the suite come last.

    \b
    Example:
      medhelm benchmarks list clinical_decision_support --data DIR
    """
    from medhelm.evaluation.benchmark_check import find_folder
    from medhelm.reports import benchmarks as benchmarks_report

    found = load(shared, names or ["all", "additional"])
    folders = {benchmark.name: find_folder(benchmark, shared.data) for benchmark in found}
    if shared.json:
        print_json(
            {"benchmarks": [benchmarks_report.as_json(benchmark, folders[benchmark.name]) for benchmark in found]}
        )
    else:
        click.echo(benchmarks_report.list_table(found, folders))
    return 0


@benchmarks.command("show")
@shared_options
@click.argument("name", shell_complete=completion.benchmarks)
@click.pass_obj
def show_benchmark(shared: Shared, name: str) -> int:
    """Show a benchmark's definition: task, data, prompt, limits, metrics.

    \b
    Example:
      medhelm benchmarks show medcalc_bench
    """
    from medhelm.evaluation.benchmark_check import find_folder
    from medhelm.reports import benchmarks as benchmarks_report

    for benchmark in load(shared, [name]):
        folder = find_folder(benchmark, shared.data)
        if shared.json:
            print_json(benchmarks_report.as_json(benchmark, folder))
        else:
            click.echo(benchmarks_report.show_text(benchmark, folder))
    return 0


@benchmarks.command()
@shared_options
@click.argument("names", nargs=-1, metavar="[NAME or GROUP]...", shell_complete=completion.benchmarks)
@click.option("--format", type=FORMATS, default="md", show_default=True, help="How the table is written.")
@click.pass_obj
def rules(shared: Shared, names: tuple[str, ...], format: str) -> int:
    """Show for each benchmark what the published rule does, what the corrected one does, and why they differ.

    \b
    Example:
      medhelm benchmarks rules medec ehrshot
    """
    from medhelm.reports import benchmarks as benchmarks_report

    found = load(shared, names or ["all"])
    if shared.json or format == "json":
        print_json({"benchmarks": [{"benchmark": b.name, **asdict(b.rules)} for b in found]})
    else:
        click.echo(benchmarks_report.rules_table(found, format), nl=False)
    return 0


@benchmarks.command()
@shared_options
@click.argument("name")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path(), help="Folder that gets the new one.  [default: here]"
)
@click.pass_obj
def new(shared: Shared, name: str, out: Path) -> int:
    """Make a benchmark of your own: a commented folder with invented rows that passes `check` at once.

    \b
    Example:
      medhelm benchmarks new sepsis_qa
    """
    from medhelm.benchmarks.scaffold import scaffold
    from medhelm.benchmarks.schema import check_name

    place = scaffold(check_name(name), out)
    if shared.json:
        print_json({"benchmark": name, "folder": str(place)})
    else:
        click.echo(f"{place} is ready. Edit benchmark.yaml and put your rows in place of the invented ones; then")
        click.echo(f"  medhelm benchmarks check {place}\n  medhelm run {place} --model ...")
    return 0


@benchmarks.command()
@shared_options
@click.argument("name", shell_complete=completion.benchmarks)
@click.option("--count", type=click.IntRange(min=1), default=3, show_default=True, help="How many prompts.")
@sample_option
@tier_option
@click.pass_obj
def preview(shared: Shared, name: str, count: int, sample: str, tier: Tier) -> int:
    """Show the first prompts exactly as a model would read them. Costs nothing.

    \b
    Example:
      medhelm benchmarks preview pubmed_qa --tier sample
    """
    from medhelm.evaluation.benchmark_check import case_of
    from medhelm.reports import benchmarks as benchmarks_report

    for dataset in open_datasets(shared, name, tier=tier, sample=sample, limit=count):
        cases = [case_of(dataset.benchmark, instance) for instance in dataset]
        if shared.json:
            print_json(cases)
        else:
            click.echo(benchmarks_report.preview_text(dataset.benchmark, cases))
    return 0


@benchmarks.command()
@shared_options
@click.argument("name", shell_complete=completion.benchmarks)
@limit_option
@sample_option
@tier_option
@click.pass_obj
def instances(shared: Shared, name: str, limit: int | None, sample: str, tier: Tier) -> int:
    """Write every instance that would be evaluated, one JSON object a line.

    \b
    Example:
      medhelm benchmarks instances medbullets --data DIR > medbullets.jsonl
    """
    from medhelm.evaluation.benchmark_check import case_of

    for dataset in open_datasets(shared, name, tier=tier, sample=sample, limit=limit):
        for instance in dataset:
            click.echo(json.dumps(case_of(dataset.benchmark, instance)))
    return 0


@benchmarks.command()
@shared_options
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=completion.benchmarks)
@sample_option
@tier_option
@click.option("--model", "models", multiple=True, help="A model that should be able to read every prompt; repeatable.")
@click.pass_obj
def check(shared: Shared, names: tuple[str, ...], sample: str, tier: Tier, models: tuple[str, ...]) -> int:
    """Validate a benchmark whole: definition, data, and each instance's reference scored as if it were a completion.

    Names what to look at: repeated and contradictory questions, references that stand in the prompt, answers that are
    nearly always the same, options that differ in case only, prompts too long for a model, personal identifiers. Of a
    group, benchmarks whose data is not here are skipped. Ends with 0 if every reference gets the best score, or there
    is an explanation why not; with 1 if there is none, 2 if data is wrong, 4 if data of a named benchmark is not here.

    \b
    Example:
      medhelm benchmarks check medcalc_bench --data DIR
      medhelm benchmarks check all --tier sample
    """
    from medhelm.evaluation.benchmark_check import check_all
    from medhelm.reports import benchmarks as benchmarks_report

    windows = _windows(shared, models)
    groups = [load(shared, [name]) for name in names]
    done = check_all(groups, data=shared.data, tier=tier, sample=sample, windows=windows)
    if shared.json:
        print_json({"benchmarks": [asdict(check) for check in done.checks], "skipped": list(done.skipped)})
    else:
        click.echo(
            "\n\n".join(
                [
                    *(benchmarks_report.check_text(asdict(check)) for check in done.checks),
                    *benchmarks_report.skipped_text(done.skipped),
                ]
            )
        )
    for error in done.errors:
        click.echo(f"medhelm: {error}", err=True)
    return done.exit_code


def _windows(shared: Shared, names: Sequence[str]) -> dict[str, int]:
    """Model -> tokens it can read. Raises: UserError for a model whose window is not known."""
    from medhelm.errors import UserError
    from medhelm.models.catalog import find_models

    models = find_models(names, file=shared.models_file, environment=os.environ) if names else []
    if unknown := [model.name for model in models if model.window is None]:
        raise UserError(f"the window of {', '.join(unknown)} is not known. Give `window: TOKENS` in models.yaml.")
    return {model.name: model.window for model in models if model.window}

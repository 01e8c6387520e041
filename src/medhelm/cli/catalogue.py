"""`medhelm benchmarks ...`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from medhelm.cli.options import (
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
@click.argument("names", nargs=-1, metavar="[NAME or GROUP]...")
@click.pass_obj
def list_benchmarks(shared: Shared, names: tuple[str, ...]) -> int:
    """List benchmarks, and whether their data is here.

    \b
    Example:
      medhelm benchmarks list clinical_decision_support --data DIR
    """
    from medhelm.examine import find_folder
    from medhelm.reports.catalog_report import list_table, to_json

    found = load(shared, names or ["all"])
    folders = {benchmark.name: find_folder(benchmark, shared.data) for benchmark in found}
    if shared.json:
        print_json({"benchmarks": [to_json(benchmark, folders[benchmark.name]) for benchmark in found]})
    else:
        click.echo(list_table(found, folders))
    return 0


@benchmarks.command("show")
@shared_options
@click.argument("name")
@click.pass_obj
def show_benchmark(shared: Shared, name: str) -> int:
    """Show a benchmark's definition: task, data, prompt, limits, metrics.

    \b
    Example:
      medhelm benchmarks show medcalc_bench
    """
    from medhelm.examine import find_folder
    from medhelm.reports.catalog_report import show_text, to_json

    for benchmark in load(shared, [name]):
        folder = find_folder(benchmark, shared.data)
        if shared.json:
            print_json(to_json(benchmark, folder))
        else:
            click.echo(show_text(benchmark, folder))
    return 0


@benchmarks.command()
@shared_options
@click.argument("name")
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
    from medhelm.examine import case_of
    from medhelm.reports.catalog_report import preview_text

    for dataset in open_datasets(shared, name, tier=tier, sample=sample, limit=count):
        cases = [case_of(dataset.benchmark, instance) for instance in dataset]
        if shared.json:
            print_json(cases)
        else:
            click.echo(preview_text(dataset.benchmark, cases))
    return 0


@benchmarks.command()
@shared_options
@click.argument("name")
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
    from medhelm.examine import case_of

    for dataset in open_datasets(shared, name, tier=tier, sample=sample, limit=limit):
        for instance in dataset:
            click.echo(json.dumps(case_of(dataset.benchmark, instance)))
    return 0


@benchmarks.command()
@shared_options
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@sample_option
@tier_option
@click.pass_obj
def check(shared: Shared, names: tuple[str, ...], sample: str, tier: Tier) -> int:
    """Validate a benchmark whole: definition, data, and each instance's reference scored as if it were a completion.

    Ends with 0 if every reference gets the best score, or a known error of the data explains why not.

    \b
    Example:
      medhelm benchmarks check medcalc_bench --data DIR
    """
    from medhelm.examine import check_references
    from medhelm.reports.catalog_report import check_text

    results = [
        check_references(dataset) for name in names for dataset in open_datasets(shared, name, tier=tier, sample=sample)
    ]
    if shared.json:
        print_json({"benchmarks": [asdict(result) for result in results]})
    else:
        click.echo("\n\n".join(check_text(asdict(result)) for result in results))
    return 0 if all(result.sound for result in results) else 1

"""`medhelm taxonomy`."""

from __future__ import annotations

import click

from medhelm.cli.options import Shared, load, print_json, shared_options


@click.command()
@shared_options
@click.option("--tasks", is_flag=True, help="Also list the tasks of each subcategory.")
@click.pass_obj
def taxonomy(shared: Shared, tasks: bool) -> int:
    """Show which medical work there is, which benchmarks cover it, and whether their data is here.

    \b
    Example:
      medhelm taxonomy --data DIR
    """
    from medhelm.benchmarks.taxonomy import TASKS_OF_THE_PAPER
    from medhelm.reports import benchmarks as benchmarks_report
    from medhelm.results.taxonomy import coverage

    categories = coverage(load(shared, ["all"]), shared.data)
    if shared.json:
        print_json(benchmarks_report.taxonomy_as_json(categories, TASKS_OF_THE_PAPER))
    else:
        click.echo(benchmarks_report.taxonomy_tree(categories, tasks_of_the_paper=TASKS_OF_THE_PAPER, with_tasks=tasks))
    return 0

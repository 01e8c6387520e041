"""`medhelm show`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from medhelm.cli.common import shell_completion
from medhelm.cli.common.options import Shared, print_json, scoring_option, shared_options

if TYPE_CHECKING:
    from medhelm.domain import Rule


@click.command()
@click.argument("benchmark", shell_complete=shell_completion.benchmarks)
@click.argument("instance")
@scoring_option
@shared_options("store", "json")
@click.pass_obj
def show(shared: Shared, benchmark: str, instance: str, rule: Rule) -> int:
    """Show one instance and all completions.

    The output holds the prompt, the references, and each model's completion with its scores and judgments. Several
    --store are combined.

    \b
    Example:
      medhelm show pubmed_qa 21645374
    """
    from medhelm.reports import runs as runs_report
    from medhelm.results.leaderboard import find_instance

    case = find_instance(shared.all_stores, benchmark, instance)
    if shared.json:
        print_json(case)
    else:
        click.echo(runs_report.case_to_text(case, rule))
    return 0

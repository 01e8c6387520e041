"""`medhelm compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from medhelm.cli.options import FORMATS, Shared, print_json, scoring_option, shared_options

if TYPE_CHECKING:
    from medhelm.domain import Rule, Tier


@click.command()
@shared_options
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option("--format", "format_", type=FORMATS, default="table", show_default=True, help="How the table is written.")
@click.option("--tier", type=click.Choice(["real", "sample"]), help="Real data or invented rows.")
@scoring_option
@click.pass_obj
def compare(shared: Shared, /, first: str, second: str, format_: str, tier: Tier | None, rule: Rule) -> int:
    """Compare two models on the instances both answered: paired differences, intervals, adjusted p-values.

    \b
    Example:
      medhelm compare openai/gpt-4o baseline/majority
    """
    from medhelm.comparing import compare_models
    from medhelm.reports.comparison_report import to_json, to_table

    found = compare_models(shared.stores or [shared.store], first, second, rule=rule, tier=tier)
    if shared.json or format_ == "json":
        print_json(to_json(found))
    else:
        click.echo(to_table(found, format_), nl=False)
    return 0

"""`medhelm compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from medhelm.cli import completion
from medhelm.cli.options import FORMATS, Shared, print_json, scoring_option, shared_options
from medhelm.errors import UserError

if TYPE_CHECKING:
    from medhelm.analysis.comparison.all_pairs import ComparedPairs
    from medhelm.analysis.comparison.multiple_testing import Adjustment
    from medhelm.domain import Rule, Tier


@click.command()
@shared_options
@click.argument("models", metavar="[A B ...]", nargs=-1, shell_complete=completion.stored_models)
@click.option("--all", "everything", is_flag=True, help="Every pair of models; the same as naming none.")
@click.option(
    "--adjust",
    "adjustment",
    type=click.Choice(["holm", "bh"]),
    default="holm",
    show_default=True,
    help="Adjust p-values by Holm (no false finding) or by Benjamini and Hochberg (few false among all).",
)
@click.option(
    "--by",
    type=click.Choice(["overall", "benchmark", "test"]),
    help="With more than two models: a row for each pair, each benchmark, or each pair on each benchmark.  "
    "[default: overall]",
)
@click.option("--published-only", is_flag=True, help="Compare the published models, over benchmarks only.")
@click.option(
    "--suite",
    default="all",
    show_default=True,
    shell_complete=completion.suites,
    help="Which benchmarks count, as for the leaderboard.",
)
@click.option("--format", "format_", type=FORMATS, default="table", show_default=True, help="How the table is written.")
@click.option("--tier", type=click.Choice(["real", "sample"]), help="Real data or invented rows.")
@scoring_option
@click.pass_obj
def compare(
    shared: Shared,
    /,
    models: tuple[str, ...],
    everything: bool,
    adjustment: Adjustment,
    by: str | None,
    published_only: bool,
    suite: str,
    format_: str,
    tier: Tier | None,
    rule: Rule,
) -> int:
    """Compare models on the instances they answered: paired differences, intervals, adjusted p-values.

    With two names benchmark by benchmark; with more, with none or with --all, every pair.

    \b
    Examples:
      medhelm compare openai/gpt-4o baseline/majority
      medhelm compare --all --by benchmark
      medhelm compare --adjust bh --by test --format csv
      medhelm compare --published-only --suite paper35
    """
    from medhelm.reports import comparison as comparison_report
    from medhelm.results.comparison import compare_all_models, compare_models, compare_published_models

    if everything and models:
        raise UserError("--all compares every model: leave out the names, or --all.")
    if len(models) == 1:
        raise UserError(f"{models[0]} alone cannot be compared: name a second model, or none for every pair.")
    format_ = "json" if shared.json else format_
    if published_only:
        if by in ("benchmark", "test"):
            raise UserError(f"--by {by} needs single scores, which are not published: only --by overall is known.")
        _print_pairs(compare_published_models(models, suite=suite), adjustment, by, format_)
        return 0
    stores, folders = shared.stores or [shared.store], shared.benchmark_folders
    if len(models) != 2:
        found = compare_all_models(stores, models, rule=rule, tier=tier, suite=suite, benchmark_folders=folders)
        _print_pairs(found, adjustment, by, format_)
        return 0
    if by is not None:
        raise UserError("--by goes with more than two models: two are always shown benchmark by benchmark.")
    pair = compare_models(
        stores, *models, rule=rule, tier=tier, suite=suite, adjustment=adjustment, benchmark_folders=folders
    )
    if format_ == "json":
        print_json(comparison_report.as_json(pair))
    else:
        click.echo(comparison_report.to_table(pair, format_), nl=False)
    return 0


def _print_pairs(found: ComparedPairs, adjustment: Adjustment, by: str | None, format_: str) -> None:
    """Write every pair, and below it in words what can be told apart."""
    from medhelm.reports import comparison as comparison_report

    if format_ == "json":
        print_json(comparison_report.pairs_as_json(found, adjustment))
        return
    click.echo(comparison_report.pairs_to_table(found, adjustment, by=by or "overall", format=format_), nl=False)
    # In words, for people; a file of numbers or LaTeX stays what it is.
    aside = format_ in ("csv", "latex")
    click.echo(err=aside)
    for sentence in (*comparison_report.in_words(found, adjustment), *found.remarks):
        click.echo(f"- {sentence}", err=aside)

"""`medhelm compare`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from medhelm.cli.common import shell_completion
from medhelm.cli.common.options import format_option, options_of
from medhelm.cli.common.output import table_options
from medhelm.cli.common.printing import as_shown, print_json, print_remarks
from medhelm.cli.common.shared import Shared, board_options, shared_options
from medhelm.cli.release import print_release_comparison
from medhelm.errors import UserError
from medhelm.results.options import BoardOptions

if TYPE_CHECKING:
    from medhelm.analysis.comparison.pairs import ComparedPairs, Comparison
    from medhelm.analysis.comparison.tests import Adjustment


@click.command()
@click.argument("models", metavar="[MODEL|RELEASE]...", nargs=-1, shell_complete=shell_completion.stored_models)
@click.option(
    "--all", "everything", is_flag=True, help="Compare every pair of models; the default if no models are named."
)
@click.option(
    "--adjust",
    "adjustment",
    type=click.Choice(["holm", "bh"]),
    default="holm",
    show_default=True,
    help="Adjust p-values by Holm (family-wise error) or by Benjamini and Hochberg (false discovery rate).",
)
@click.option(
    "--by",
    type=click.Choice(["overall", "benchmark", "test"]),
    help="Rows if more than two models are compared: pairs, benchmarks, or pairs on each benchmark.  "
    "[default: overall]",
)
@click.option(
    "--published-only", is_flag=True, help="Compare the published models by their means; nothing else is known."
)
@options_of(BoardOptions, "options", "suite", "wanted")
@format_option
@options_of(BoardOptions, "options", "tier", "rule")
@table_options
@shared_options("store", "benchmarks", "json")
@click.pass_obj
def compare(
    shared: Shared,
    /,
    models: tuple[str, ...],
    everything: bool,
    adjustment: Adjustment,
    by: str | None,
    published_only: bool,
    options: BoardOptions,
    format_: str,
) -> int:
    """Test whether models differ significantly.

    Shows paired differences on the same instances, with confidence intervals and adjusted p-values: for two models on
    each benchmark, otherwise for every pair of the named models, or of all models. Given releases, it does the same as
    `medhelm diff`.

    \b
    Examples:
      medhelm compare openai/gpt-4o baseline/majority
      medhelm compare 2026-10 2026-11
      medhelm compare --all --by benchmark
      medhelm compare --adjust bh --by test --format csv
      medhelm compare --published-only --suite paper35
    """
    from medhelm.results.comparison import compare_all_models, compare_models, compare_published_models
    from medhelm.results.runs.run_filter import refuse_filter

    if everything and models:
        raise UserError("--all compares every pair of models: give names or --all, not both.")
    if releases := _find_releases(shared, models):
        print_release_comparison(shared, *releases, format_)
        return 0
    if len(models) == 1:
        raise UserError(f"one model cannot be compared: {models[0]}. Name a second model, or none for every pair.")
    if published_only:
        refuse_filter(options.wanted)
        if by in ("benchmark", "test"):
            raise UserError(f"--by {by} needs scores of instances, which are not published. Use --by overall.")
        found = compare_published_models(models, suite=str(options.suite))
        _print_pairs(replace(found, adjustment=adjustment), by, format_)
        return 0
    stores, options = shared.all_stores, board_options(shared, options, format_)
    if len(models) != 2:
        found = compare_all_models(stores, models, options)
        _print_pairs(replace(found, adjustment=adjustment), by, format_)
        return 0
    if by is not None:
        raise UserError("--by needs more than two models: two models are always shown benchmark by benchmark.")
    pair = compare_models(stores, *models, options, adjustment=adjustment)
    _print_pair(pair, format_)
    return 0


def _find_releases(shared: Shared, names: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the two named releases, the second one by default the current store; None if no release is named.

    Raises: UserError if releases and models are mixed, or for more than two names.
    """
    from pathlib import Path

    from medhelm.results.releases import CURRENT
    from medhelm.storage.releases import MANIFEST, release_names
    from medhelm.storage.store import Store

    known = set(release_names(Store(shared.all_stores[0])))
    releases = [name for name in names if name in known or (Path(name) / MANIFEST).is_file()]
    if not releases:
        return None
    others = [name for name in names if name not in (*releases, CURRENT)]
    if others:
        raise UserError(
            f"`{releases[0]}` is a release, and {', '.join(others)} is not: compare models or releases. "
            f"`medhelm gate --against {releases[0]}` tests whether models got worse since then."
        )
    if len(names) > 2:
        raise UserError(f"two releases can be compared at a time, not {len(names)}: {', '.join(names)}.")
    return names[0], names[1] if len(names) == 2 else CURRENT


def _print_pair(pair: Comparison, format_: str) -> None:
    """Print a comparison of two models: the verdict, every benchmark, and remarks."""
    from medhelm.reports import comparison as comparison_report

    if format_ == "json":
        print_json(comparison_report.as_json(pair))
        return
    verdict, *foot = comparison_report.verdict(pair)
    if format_ in ("table", "md"):
        click.echo(f"{as_shown(verdict, format_)}\n")
    click.echo(comparison_report.to_table(pair, format_), nl=False)
    if format_ in ("table", "md"):
        click.echo("\n" + "\n".join(as_shown(text, format_) for text in (*foot, *map(str, pair.remarks))))


def _print_pairs(found: ComparedPairs, by: str | None, format_: str) -> None:
    """Print a comparison of all pairs: the verdict, every pair, and a summary in sentences."""
    from medhelm.reports import comparison as comparison_report

    if format_ == "json":
        print_json(comparison_report.pairs_as_json(found))
        return
    if format_ in ("table", "md"):
        click.echo(as_shown(" ".join(comparison_report.pairs_verdict(found)), format_) + "\n")
    click.echo(comparison_report.pairs_to_table(found, by=by or "overall", format=format_), nl=False)
    click.echo(err=format_ in ("csv", "latex"))
    print_remarks([*comparison_report.in_words(found), *found.remarks], format_)

"""`medhelm leaderboard` and `medhelm show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medhelm.cli import completion
from medhelm.cli.options import FORMATS, Shared, load, print_json, scoring_option, shared_options
from medhelm.errors import UserError

if TYPE_CHECKING:
    from medhelm.analysis.leaderboard.build import Resample
    from medhelm.analysis.leaderboard.types import Leaderboard
    from medhelm.domain import Rule, Tier


@click.command()
@shared_options
@click.option("--format", "format_", type=FORMATS, default="table", show_default=True, help="How the table is written.")
@click.option(
    "--by",
    type=click.Choice(["overall", "category", "subcategory", "benchmark"]),
    default="overall",
    show_default=True,
    help="What the columns are.",
)
@click.option(
    "--scores", type=click.Path(path_type=Path), help="Rank a published table instead: a CSV file with its header."
)
@click.option("--with-published", is_flag=True, help="Put the nine published models beside your own.")
@click.option("--published-only", is_flag=True, help="Rank the nine published models alone; needs no store.")
@click.option(
    "--suite",
    shell_complete=completion.suites,
    default="all",
    show_default=True,
    help="all, paper35, suite37, public, gated, private, a category, a subcategory, or a file: one benchmark a line, "
    "or YAML with weights.",
)
@click.option("--shared", "shared_only", is_flag=True, help="Only benchmarks on which every model has a score.")
@click.option(
    "--resample",
    type=click.Choice(["instances", "benchmarks", "none"]),
    help="What intervals are drawn from; none opens no records.  [default: instances, where their scores are known]",
)
@click.option(
    "--tier",
    type=click.Choice(["real", "sample"]),
    help="Real data or invented rows.  [default: real, if there is any]",
)
@click.option(
    "--ratings",
    type=click.Path(path_type=Path),
    help="Clinicians' ratings of some completions: jury scores are shown beside what clinicians would give.",
)
@click.option(
    "--calibration",
    type=click.Choice(["line", "curve"]),
    default="line",
    show_default=True,
    help="With --ratings: whether ratings follow the jury in a line or in a rising curve.",
)
@scoring_option
@click.pass_obj
def leaderboard(
    shared: Shared,
    format_: str,
    by: str,
    scores: Path | None,
    with_published: bool,
    published_only: bool,
    suite: str,
    shared_only: bool,
    resample: Resample | None,
    tier: Tier | None,
    ratings: Path | None,
    calibration: str,
    rule: Rule,
) -> int:
    """Rank models by win rate, with intervals, ties and costs. Several --store are put side by side.

    \b
    Examples:
      medhelm leaderboard --by category
      medhelm leaderboard --store ours --store theirs --format md
      medhelm leaderboard --published-only --suite paper35
      medhelm leaderboard --scores published.csv --suite paper35 --format json
      medhelm leaderboard --by benchmark --ratings ratings.csv
      medhelm leaderboard --suite ours.yaml --shared
    """
    from medhelm.results.leaderboard import CalibrationOptions, leaderboard, leaderboard_from_scores

    stores = shared.stores or [shared.store]
    if with_published or published_only:
        _refuse_both(with_published=with_published, published_only=published_only, scores=scores, ratings=ratings)
        choices: dict[str, Any] = {"suite": suite, "tier": tier, "resample": resample}
        if with_published:
            choices |= {"stores": stores, "shared": shared_only, "benchmark_folders": shared.benchmark_folders}
        board = _published(choices, rule)
    elif scores is not None:
        board = leaderboard_from_scores(scores, suite=suite, resample=resample, shared=shared_only)
    else:
        clinicians = None
        if ratings:
            clinicians = CalibrationOptions(
                ratings=ratings, definitions=load(shared, ["open", "additional"]), curve=calibration == "curve"
            )
        board = leaderboard(
            stores,
            rule=rule,
            tier=tier,
            suite=suite,
            resample=resample,
            shared=shared_only,
            clinicians=clinicians,
            benchmark_folders=shared.benchmark_folders,
        )
    print_leaderboard(board, by=by, format_="json" if shared.json else format_)
    return 0


def _published(choices: dict[str, Any], rule: Rule) -> Leaderboard:
    """The published results, beside those of `stores` if there are any. Their rule is the default here."""
    from medhelm.results.published import leaderboard_with_published, published_leaderboard

    source = click.get_current_context().get_parameter_source("rule")
    chosen = None if source is click.core.ParameterSource.DEFAULT else rule
    return (leaderboard_with_published if "stores" in choices else published_leaderboard)(**choices, rule=chosen)


def _refuse_both(**options: object) -> None:
    """Of these options only one makes sense at a time."""
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value]
    if len(given) > 1:
        raise UserError(f"{' and '.join(given)} do not go together: leave one of them out.")


def print_leaderboard(board: Leaderboard, *, by: str = "overall", format_: str = "table") -> None:
    """Write a leaderboard, and below it what clinicians would give, where they rated."""
    from medhelm.reports import leaderboard as leaderboard_report

    if format_ == "json":
        print_json(leaderboard_report.as_json(board))
        return
    click.echo(leaderboard_report.to_table(board, by=by, format=format_), nl=False)
    if format_ != "csv" and (beside := leaderboard_report.calibration_table(board, format_)):
        click.echo()
        click.echo(beside, nl=False)
    # In words, for people; a file of numbers or LaTeX stays what it is.
    if board.warnings and format_ in ("table", "md"):
        click.echo()
    for warning in board.warnings:
        click.echo(f"- {warning}", err=format_ in ("csv", "latex"))


@click.command()
@shared_options
@click.argument("benchmark", shell_complete=completion.benchmarks)
@click.argument("instance")
@scoring_option
@click.pass_obj
def show(shared: Shared, benchmark: str, instance: str, rule: Rule) -> int:
    """Show one case: the prompt, and every model's completion and scores.

    \b
    Example:
      medhelm show pubmed_qa 21645374
    """
    from medhelm.reports import runs as runs_report
    from medhelm.results.leaderboard import find_instance

    case = find_instance(shared.stores or [shared.store], benchmark, instance)
    if shared.json:
        print_json(case)
    else:
        click.echo(runs_report.case_to_text(case, rule))
    return 0

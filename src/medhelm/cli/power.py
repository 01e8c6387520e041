"""`medhelm power`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from medhelm.cli import completion
from medhelm.cli.options import FORMATS, Shared, print_json, scoring_option, shared_options
from medhelm.errors import UserError

if TYPE_CHECKING:
    from medhelm.analysis.comparison.power import PowerDesign
    from medhelm.domain import Rule, Tier

SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command()
@shared_options
@click.argument("models", metavar="[A B]", nargs=-1, shell_complete=completion.stored_models)
@click.option(
    "--difference",
    type=click.FloatRange(0, 1, min_open=True),
    help="True difference to be found, on a scale where the worst is 0 and the best 1.",
)
@click.option("--power", type=SHARE, default=0.8, show_default=True, help="Chance of finding it.")
@click.option("--alpha", type=SHARE, default=0.05, show_default=True, help="Chance of finding one that is none.")
@click.option(
    "--pairs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Comparisons that share --alpha, such as 36 for all pairs of 9 models.",
)
@click.option(
    "--disagreement",
    type=click.FloatRange(0, 1, min_open=True),
    help="Without a store, 0/1 scores: share of instances on which one model is right and the other wrong.",
)
@click.option(
    "--sd",
    type=click.FloatRange(0, 1, min_open=True),
    help="Without a store, other scores: standard deviation of the paired differences, scores on 0 to 1.",
)
@click.option("--instances", type=click.IntRange(min=1), help="Without a store: how many instances there are.")
@click.option(
    "--design-effect",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Without a store: by how much clusters multiply the variance.",
)
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
def power(
    shared: Shared,
    /,
    models: tuple[str, ...],
    difference: float | None,
    power: float,
    alpha: float,
    pairs: int,
    disagreement: float | None,
    sd: float | None,
    instances: int | None,
    design_effect: float,
    suite: str,
    format_: str,
    tier: Tier | None,
    rule: Rule,
) -> int:
    """Show how small a difference the benchmarks can tell, and how many instances a given one takes.

    From the scores in the store, of two named models or of all pairs; or, with --disagreement or --sd, as a calculator.

    \b
    Examples:
      medhelm power
      medhelm power openai/gpt-4o openai/gpt-4o-mini --difference 0.03
      medhelm power --difference 0.03 --pairs 36
      medhelm power --disagreement 0.18 --difference 0.03
      medhelm power --sd 0.2 --instances 150
    """
    from medhelm.analysis.comparison.power import PowerDesign

    design = PowerDesign(power=power, alpha=alpha, comparisons=pairs)
    format_ = "json" if shared.json else format_
    if disagreement is not None or sd is not None:
        if models or (disagreement is not None and sd is not None):
            raise UserError("--disagreement or --sd stands in place of models and of the other one: give one of them.")
        _calculate(disagreement, sd, design_effect, design, difference, instances, format_)
        return 0
    if instances is not None or design_effect != 1:
        raise UserError("--instances and --design-effect go with --disagreement or --sd: the store knows its own.")
    if len(models) not in (0, 2):
        raise UserError(f"{', '.join(models)}: name two models, or none for all of them.")
    from medhelm.reports import power as power_report
    from medhelm.results.comparison import measure_power

    found = measure_power(
        shared.stores or [shared.store],
        models,
        rule=rule,
        tier=tier,
        suite=suite,
        design=design,
        difference=difference,
        benchmark_folders=shared.benchmark_folders,
    )
    if format_ == "json":
        print_json(power_report.as_json(found))
    else:
        click.echo("\n".join(power_report.to_tables(found, format_)), nl=False)
    return 0


def _calculate(
    disagreement: float | None,
    sd: float | None,
    design_effect: float,
    design: PowerDesign,
    difference: float | None,
    instances: int | None,
    format_: str,
) -> None:
    """Answer from two numbers alone."""
    from medhelm.analysis.comparison.power import Noise
    from medhelm.reports import power as power_report

    if difference is None and instances is None:
        raise UserError("give --difference for how many instances it takes, --instances for what they show, or both.")
    if difference is not None and disagreement is not None and difference > disagreement:
        raise UserError(f"--difference {difference:g}: models that disagree on {disagreement:g} differ by no more.")
    noise = Noise(sd=sd, disagreement=disagreement, design_effect=design_effect)
    content, sentences = power_report.calculated(noise, design, difference=difference, instances=instances)
    if format_ == "json":
        print_json(content)
    else:
        click.echo("\n".join(sentences))

"""`medhelm pairwise`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from medhelm.cli import shell_completion
from medhelm.cli.global_options import Shared, gateway_option, load, shared_options
from medhelm.cli.options import format_option, options_of
from medhelm.cli.output import table_options
from medhelm.cli.printing import as_shown, print_json, print_remarks, warn
from medhelm.cli.run import find_judges, note_jury, print_plan
from medhelm.domain.option_fields import option
from medhelm.errors import UserError
from medhelm.evaluation.settings import Settings
from medhelm.evaluation.stored_settings import JuryOptions

if TYPE_CHECKING:
    from medhelm.domain import Benchmark
    from medhelm.evaluation.session import EvaluationSetup
    from medhelm.extensions.pairwise.files import PairwiseComparison
    from medhelm.extensions.pairwise.judging import ComparedRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseOptions:
    """Options of `medhelm pairwise`."""

    models: tuple[str, ...] = option(
        "--model",
        "Compare this model; the beginning of its name is enough; repeatable.  [default: all, up to 5]",
        (),
        metavar="MODEL",
        completes="stored_models",
    )
    limit: int | None = option("--limit", "Only the first N instances.", least=1)
    dry_run: bool = option("--dry-run", "Show what would be sent and cost, and send nothing.", False)


@click.command()
@click.argument("name", metavar="BENCHMARK", shell_complete=shell_completion.benchmarks)
@options_of(JuryOptions, "judging", "judges", "jury_file")
@options_of(PairwiseOptions, "chosen")
@options_of(Settings, "settings", "verification_codes", "spending", "service")
@gateway_option
@format_option
@table_options
@shared_options("store", "data", "benchmarks", "trust", "models", "offline", "json")
@click.pass_obj
def pairwise(
    shared: Shared,
    /,
    name: str,
    judging: JuryOptions,
    chosen: PairwiseOptions,
    settings: Settings,
    format_: str,
) -> int:
    """Have judges compare completions in pairs.

    A judge sees two stored completions for an instance and says which is better, once in each order; a verdict that
    depends on the order is a tie. Use it where the grades of judges do not separate models. Scores stay as they are.
    Without --judge, nothing is sent and the latest comparison is shown.

    \b
    Examples:
      medhelm pairwise aci_bench --judge openai/J1 --dry-run
      medhelm pairwise aci_bench --judge J1 --model openai/A --model openai/B
      medhelm pairwise aci_bench
    """
    from medhelm.cli.progress import progress_bar
    from medhelm.evaluation.session import EvaluationSetup
    from medhelm.extensions.pairwise.judging import compare, plan_comparison

    benchmark, *others = load(shared, [name], of_stores=True, as_run=False)
    if others:
        raise UserError(f"`{name}` is a group of benchmarks. Name one of them. Nothing was sent.")
    jury = find_judges(shared, judging, quiet=True)
    if jury is None:
        if chosen.dry_run:
            raise UserError("--dry-run needs judges. Name them with --judge. Nothing was sent.")
        _print_comparison(_latest(shared, benchmark), format_)
        return 0
    setup = EvaluationSetup(
        store=shared.store,
        data=shared.data,
        settings=replace(settings, offline=shared.offline),
        environment=shared.environment,
    )
    compared = _find_compared(shared, benchmark, chosen, setup)
    note_jury(shared, jury, [run.resolved_model for run in compared.runs.values() if run.resolved_model], None)
    if chosen.dry_run:
        return print_plan(plan_comparison(compared, jury.judges, setup), format_)
    with progress_bar("comparing completions") as progress:
        done = compare(compared, jury.judges, setup, warn, progress)
    _print_comparison(done.comparison, format_)
    for message in done.messages:
        warn(message)
    return done.exit_code


def _find_compared(
    shared: Shared, benchmark: Benchmark, chosen: PairwiseOptions, setup: EvaluationSetup
) -> ComparedRuns:
    """Select the runs to compare, as the leaderboard does, and open their completions. Raises: UserError."""
    from medhelm.extensions.pairwise.judging import find_compared
    from medhelm.results.comparable import BASELINE, select_runs
    from medhelm.results.options import RunFilter
    from medhelm.results.runs.selection import load_filtered

    wanted = RunFilter(models=chosen.models, benchmarks=(benchmark.name,))
    found = select_runs(load_filtered([shared.store], wanted))
    runs = {
        model: run
        for (model, _), run in sorted(found.runs.items())
        if chosen.models or not run.model.startswith(BASELINE)
    }
    return find_compared(runs, benchmark, setup, chosen.limit, are_named=bool(chosen.models))


def _latest(shared: Shared, benchmark: Benchmark) -> PairwiseComparison:
    from medhelm.extensions.pairwise.files import read_comparisons
    from medhelm.storage.store import open_store

    found = read_comparisons(open_store(shared.store), benchmark.name)
    if not found:
        raise UserError(f"no judge has compared completions of {benchmark.name}. Name judges with --judge.")
    return found[0]


def _print_comparison(comparison: PairwiseComparison, format_: str) -> None:
    from medhelm.extensions.pairwise import files
    from medhelm.results.runs.selection import renamed, short_names

    found = files.summarize(comparison)
    if format_ == "json":
        print_json(files.as_json(found))
        return
    found = renamed(found, short_names([*comparison.runs, *(judge.judge for judge in comparison.judges)]))
    if format_ in ("table", "md"):
        click.echo(as_shown(" ".join(files.verdict(found)), format_) + "\n")
    click.echo(files.to_text(found, format_), nl=format_ in ("table", "md"))
    notes = files.NOTES if format_ in ("table", "md") else ()
    print_remarks([*files.remarks(found), *notes], format_)

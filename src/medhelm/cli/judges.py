"""`medhelm jury` and `agreement`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from medhelm.cli import shell_completion
from medhelm.cli.global_options import Shared, board_options, load, shared_options
from medhelm.cli.options import format_option, option_from, options_of, run_filter_options
from medhelm.cli.output import table_options
from medhelm.cli.printing import as_shown, print_json, print_remarks
from medhelm.errors import UserError
from medhelm.evaluation.settings import Settings
from medhelm.io.plugins import VARIANTS, from_extension
from medhelm.results.options import BoardOptions, DrawOptions

if TYPE_CHECKING:
    from medhelm.analysis.agreement.calibration import RatingSample
    from medhelm.domain import Rule
    from medhelm.results.options import RunFilter


# --- jury -------------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("names", nargs=-1, metavar="[BENCHMARK]...", shell_complete=shell_completion.benchmarks)
@click.option(
    "--family",
    "families",
    multiple=True,
    metavar="NAME=FAMILY",
    help="Developer of a judge or model whose name does not show it; repeatable.",
)
@click.option(
    "--robustness",
    is_flag=True,
    help="Show how the judges react to changes that say nothing new, which `medhelm rejudge --perturb` makes.",
)
@options_of(BoardOptions, "options", "wanted", "tier", "rule", "pricing")
@format_option
@table_options
@shared_options("store", "benchmarks", "models", "json")
@click.pass_context
def jury(
    context: click.Context,
    /,
    names: tuple[str, ...],
    options: BoardOptions,
    format_: str,
    families: tuple[str, ...],
    robustness: bool,
) -> int:
    """Measure the quality of the judges.

    Shows for each judge its agreement with the others, severity, self-preference and influence on the ranking; with
    --wide also failures, grades, length bias and all coefficients of agreement. Reads stored judgments and sends
    nothing. The default is all benchmarks.

    \b
    Examples:
      medhelm jury
      medhelm jury aci_bench --family local/judge=Meta --json
      medhelm jury aci_bench --robustness
    """
    from medhelm.results import jury as jury_report
    from medhelm.results.jury import analyze_judges
    from medhelm.results.runs.selection import renamed, short_names

    shared: Shared = context.obj
    if robustness:
        print_robustness = from_extension(VARIANTS, "judge_robustness", extension="variants", what="--robustness")
        print_robustness(shared.all_stores, _benchmark_ids(shared, names), board_options(shared, options), format_)
        return 0
    analysis = analyze_judges(
        shared.all_stores,
        _benchmark_ids(shared, names),
        board_options(shared, options),
        families=_parse_families(families),
    )
    if format_ == "json":
        print_json(jury_report.as_json(analysis))
        return 0
    analysis = renamed(analysis, short_names(analysis.families))
    if format_ in ("table", "md"):
        click.echo(as_shown(" ".join(analysis.verdict), format_) + "\n")
    click.echo(jury_report.to_text(analysis, format_, wide=context.params["wide"]), nl=False)
    if analysis.remarks and format_ not in ("csv", "latex"):
        click.echo()
    print_remarks(analysis.remarks, format_)
    return 0


def _benchmark_ids(shared: Shared, names: Sequence[str]) -> list[str]:
    """Return the ids of benchmarks that are named by id, alias or group."""
    from medhelm.results.jury import judged_benchmarks

    known = judged_benchmarks(shared.all_stores)
    found = []
    for name in names:
        meant = [name] if name in known else [benchmark.name for benchmark in load(shared, [name], of_stores=True)]
        found += [benchmark for benchmark in meant if benchmark in known] or meant
    return list(dict.fromkeys(found))


def _parse_families(texts: Sequence[str]) -> dict[str, str]:
    """Return name -> family, from texts of the form NAME=FAMILY. Raises: UserError."""
    found = {}
    for text in texts:
        # A name may contain an address, and so an equals sign.
        name, _, family = text.rpartition("=")
        if not (name and family):
            raise UserError(f"--family `{text}` must have the form NAME=FAMILY, such as local/judge=Meta.")
        found[name] = family
    return found


# --- agreement --------------------------------------------------------------------------------------------------------


class _RatingsOrCommand(click.Group):
    """A command that has an argument and subcommands; the name of a subcommand is not read as the argument."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse a subcommand if its name comes first, else the argument and the options around it."""
        if args and args[0] in self.commands:
            return super().parse_args(ctx, ["", *args])
        ctx.allow_interspersed_args = True
        return super().parse_args(ctx, args)


class _RatingsArgument(click.Argument):
    """An argument that is not part of the usage of subcommands."""

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the argument for the command itself, and nothing for its subcommands."""
        return super().get_usage_pieces(ctx) if isinstance(ctx.command, _RatingsOrCommand) else []


@click.group(cls=_RatingsOrCommand, invoke_without_command=True, subcommand_metavar="| sample [OPTIONS] FILE")
@click.argument("ratings", cls=_RatingsArgument, metavar="[RATINGS]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--scale",
    type=float,
    nargs=2,
    metavar="LOW HIGH",
    help="Lowest and highest grade in the file, if they differ from the rubric's.",
)
@click.option(
    "--scoring",
    "rule",
    type=click.Choice(["corrected", "published"]),
    default="corrected",
    show_default=True,
    help="Agreement among clinicians from all ratings at once, or as the mean over pairs as in the paper.",
)
@run_filter_options
@format_option
@table_options
@shared_options("store", "benchmarks", "json")
@click.pass_context
def agreement(
    context: click.Context,
    ratings: Path | None,
    format_: str,
    scale: tuple[float, float] | None,
    rule: Rule,
    wanted: RunFilter,
) -> int:
    """Compare the jury with clinicians' ratings.

    Without RATINGS, the ratings of all studies of the store are used. RATINGS is the name of one of them, or a CSV or
    .xlsx file with the columns rater, instance_id, benchmark, model, and the rubric's criteria: accuracy, completeness,
    clarity. The jury's grades come from the store, or from the columns jury_accuracy, jury_completeness and
    jury_clarity. The command `sample` draws the completions to rate.

    \b
    Examples:
      medhelm agreement sample --size 50 ratings.csv
      medhelm agreement ratings.csv
      medhelm agreement
    """
    if context.invoked_subcommand:
        return 0
    shared: Shared = context.obj
    if scale and not scale[0] < scale[1]:
        raise click.UsageError(f"--scale {scale[0]:g} {scale[1]:g}: the lowest grade must be below the highest.")
    _print_agreement(shared, ratings, scale, format_, rule, wanted, wide=context.params["wide"])
    return 0


@agreement.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--size",
    metavar="N",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Completions to draw for each model on each benchmark.",
)
@option_from(Settings, "seed")
@click.option(
    "--raters",
    metavar="N",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Raters per completion, each with a row to fill in.",
)
@options_of(DrawOptions, "options")
@run_filter_options
@shared_options("store", "benchmarks", "json")
@click.pass_obj
def sample(
    shared: Shared,
    file: Path,
    size: int,
    seed: int,
    raters: int,
    options: DrawOptions,
    wanted: RunFilter,
) -> int:
    """Draw completions for clinicians to rate.

    Writes FILE, .csv or .xlsx, with one row for each completion and rater: prompt, reference, completion, empty cells
    for the grades, and the probability with which the completion was drawn. A workbook also has the rubric and its
    scale. Raters are blinded: codes replace the names of models. `medhelm agreement FILE` and `medhelm leaderboard
    --ratings FILE` read it back.

    \b
    Examples:
      medhelm agreement sample --size 50 --seed 7 ratings.xlsx
      medhelm agreement sample --model openai/gpt-4o ratings.csv
    """
    from medhelm.io.folders import atomic_file, output_errors
    from medhelm.io.spreadsheets import is_too_long
    from medhelm.results.agreement import draw_rating_sample, rater_names
    from medhelm.storage.privacy import record_export

    if file.suffix.lower() not in (".csv", ".xlsx"):
        raise click.UsageError(f"{file} must end in .csv or .xlsx.")
    if file.exists():
        raise click.UsageError(f"{file} exists and may hold ratings. Choose another name, or remove the file.")
    if options.by_score and options.same_instances:
        raise click.UsageError("--by-score draws by each model's own scores: leave out --same-instances.")
    found = draw_rating_sample(shared.store_to_read, size, options, seed=seed, wanted=wanted)
    # Before the file is there: an export that a deletion must know is never missing from the list.
    record_export(shared.store_to_read, file, "ratings", {one.benchmark for one in found.completions}, has_text=True)
    with output_errors(file, "file"), atomic_file(file) as new:
        new.touch(mode=0o600)  # completions may hold patients' data
        new.write_bytes(_sample_file(shared, found, rater_names(raters), file.suffix.lower()))
    n_cut = sum(map(is_too_long, found.texts())) if file.suffix.lower() == ".csv" else 0
    _report_sample(file, found, done={"raters": raters, "seed": seed}, n_cut=n_cut, as_json=shared.json)
    return 0


def _report_sample(file: Path, found: RatingSample, *, done: dict[str, int], n_cut: int, as_json: bool) -> None:
    """Print what a file for raters holds. `n_cut`: texts that are too long for Excel."""
    from medhelm.domain.text import plural
    from medhelm.io.spreadsheets import LONGEST_CELL

    if as_json:
        left_out = {"left_out": list(found.left_out)} if found.left_out else {}
        cut = {"too_long_for_excel": n_cut} if n_cut else {}
        print_json({"file": str(file), "completions": len(found.completions), **done, **left_out, **cut})
        return
    click.echo(f"{file}: {len(found.completions)} completions, {done['raters']} raters, seed {done['seed']}")
    if n_cut:
        limit = f"{LONGEST_CELL:,} characters, the most that Excel shows of a cell"
        click.echo(f"- {plural(n_cut, 'text')} of more than {limit}; an .xlsx file has them in full", err=True)
    if found.left_out:
        click.echo(f"- left out: {', '.join(found.left_out)}; --include-baselines adds them", err=True)


def _sample_file(shared: Shared, found: RatingSample, raters: Sequence[str], suffix: str) -> bytes:
    """Return the content of a file for raters."""
    if suffix == ".csv":
        from medhelm.io.spreadsheets import csv_file
        from medhelm.results.agreement import sample_to_csv

        return csv_file(sample_to_csv(found, raters))
    from medhelm.benchmarks.catalog import all_names
    from medhelm.results.formats.rating_workbook import rating_workbook

    drawn = {one.benchmark for one in found.completions}
    known = [name for name in all_names(shared.folders_of_stores) if name in drawn]
    descriptions = {
        (one.name, criterion.name): criterion.description
        for one in load(shared, known, of_stores=True)
        if one.rubric
        for criterion in one.rubric.criteria
    }
    return rating_workbook(found, raters, descriptions)


def _print_agreement(
    shared: Shared,
    ratings: Path | None,
    scale: tuple[float, float] | None,
    format_: str,
    rule: Rule,
    wanted: RunFilter,
    *,
    wide: bool,
) -> None:
    from medhelm.results import agreement as agreement_report
    from medhelm.results.agreement import agreement as compute
    from medhelm.results.runs.stored_ratings import is_ratings_file

    chosen = ratings or ""
    definitions = load(shared, ["open"], of_stores=True) if is_ratings_file(chosen) else ()
    found = compute(chosen, shared.store_to_read, definitions, scale=scale, wanted=wanted)
    if found is None:
        text = f"{shared.store_to_read} has no ratings of a study. `medhelm agreement FILE` reads those of a file."
        raise UserError(text)
    if format_ == "json":
        print_json(agreement_report.as_json(found))
    else:
        click.echo(agreement_report.to_table(found, format_, rule, wide=wide), nl=False)

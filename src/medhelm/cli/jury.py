"""`medhelm jury`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from medhelm.cli.common import shell_completion
from medhelm.cli.common.options import format_option, options_of
from medhelm.cli.common.output import table_options
from medhelm.cli.common.printing import as_shown, print_json, print_remarks
from medhelm.cli.common.shared import Shared, board_options, load, shared_options
from medhelm.errors import UserError
from medhelm.results.options import BoardOptions


@click.command()
@click.argument("names", nargs=-1, metavar="[BENCHMARK]...", shell_complete=shell_completion.benchmarks)
@click.option(
    "--family",
    "families",
    multiple=True,
    metavar="NAME=FAMILY",
    help="Developer of a judge or model whose name does not show it; repeatable.",
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
) -> int:
    """Measure the quality of the judges.

    Shows for each judge its agreement with the others, severity, self-preference and influence on the ranking; with
    --wide also failures, grades, length bias and all coefficients of agreement. Reads stored judgments and sends
    nothing. The default is all benchmarks.

    \b
    Examples:
      medhelm jury
      medhelm jury aci_bench --family local/judge=Meta --json
    """
    from medhelm.reports import jury as jury_report
    from medhelm.results.jury import analyze_judges
    from medhelm.results.runs.names import renamed, short_names

    shared: Shared = context.obj
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
        meant = [name] if name in known else [benchmark.name for benchmark in load(shared, [name])]
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

"""`medhelm gate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medhelm.cli.common import shell_completion
from medhelm.cli.common.options import option_from
from medhelm.cli.common.output import write_output
from medhelm.cli.common.shared import Shared, shared_options
from medhelm.results.options import BoardOptions

if TYPE_CHECKING:
    from medhelm.domain import Rule


@click.command()
@click.option(
    "--against",
    required=True,
    metavar="REFERENCE",
    shell_complete=shell_completion.releases,
    help="Another store, a release by name or folder, a run by id or folder, or `previous`: the run before the latest.",
)
@click.option(
    "--margin",
    metavar="D",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.02,
    show_default=True,
    help="Largest drop that passes, on a scale from 0 (worst) to 1 (best).",
)
@click.option(
    "--model",
    "models",
    metavar="MODEL",
    multiple=True,
    shell_complete=shell_completion.stored_models,
    help="Model of the store; repeatable.  [default: all that the reference also has]",
)
@click.option(
    "--baseline-model",
    metavar="MODEL",
    default="",
    help="Name of the model in the reference, if it differs; needs one --model.",
)
@click.option(
    "--benchmark",
    "benchmarks",
    metavar="BENCHMARK",
    multiple=True,
    help="Benchmark to compare on; repeatable.  [default: all in the reference]",
)
@click.option("--each", is_flag=True, help="Pass only if every benchmark passes, not just their mean.")
@click.option("--allow-missing", is_flag=True, help="Pass even if benchmarks of the reference are not compared.")
@click.option(
    "--ignore-missing", is_flag=True, help="Leave out missing scores instead of counting them as the worst score."
)
@click.option(
    "--scoring",
    "rule",
    type=click.Choice(["corrected", "published"]),
    help="Scoring rule.  [default: that of the release, or corrected]",
)
@option_from(BoardOptions, "tier")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["table", "json", "junit", "md", "github"]),
    default="table",
    show_default=True,
    help="Format of the output; github: annotations of GitHub Actions.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the result to this file, and print only the verdict.",
)
@shared_options("store", "json")
@click.pass_obj
def gate(
    shared: Shared,
    /,
    against: str,
    rule: Rule | None,
    format_: str,
    output: Path | None,
    **choices: Any,
) -> int:
    """Fail a build if a model got worse.

    Compares each model with a reference on the same instances: paired differences with 95% intervals, by benchmark and
    for their mean. Exit codes: 0 pass, 1 worse by more than the margin, 5 undecided. Undecided means that the interval
    includes a drop as large as the margin, or that a benchmark of the reference is missing.

    \b
    Examples:
      medhelm gate --store build --against reference
      medhelm gate --against 2026-11 --margin 0.03 --format junit -o gate.xml
      medhelm gate --against previous           after `medhelm run --fresh`
      medhelm gate --against old --model openai/new --baseline-model openai/old
    """
    import json

    from medhelm.reports.gate import as_json, gate_text, verdict
    from medhelm.results.gate import GateOptions
    from medhelm.results.gate import gate as compare_with

    found = compare_with(shared.store_to_read, against, GateOptions(rule=rule, **choices))
    if shared.json or format_ == "json":
        text = json.dumps(as_json(found), indent=2, ensure_ascii=False) + "\n"
    else:
        text = gate_text(found, format_)
    if output is None:
        click.echo(text, nl=False)
    else:
        write_output(output, text)
        click.echo(verdict(found))
    return found.exit_code

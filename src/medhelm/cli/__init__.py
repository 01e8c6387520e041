"""The command line: parse, call, print. What it prints and returns is a contract that scripts rely on.

Modules outside this folder are imported by the command that needs them, so that `medhelm --help` answers at once.
"""

from __future__ import annotations

import os
import sys

import click

from medhelm import __version__
from medhelm.cli.agreement import agreement
from medhelm.cli.batches import batches
from medhelm.cli.benchmarks import benchmarks
from medhelm.cli.compare import compare
from medhelm.cli.cost import cost, plan
from medhelm.cli.data import data
from medhelm.cli.export import export
from medhelm.cli.import_ import import_
from medhelm.cli.jury import jury
from medhelm.cli.leaderboard import leaderboard, show
from medhelm.cli.models import models
from medhelm.cli.options import Shared, shared_options
from medhelm.cli.plugins import plugins
from medhelm.cli.power import power
from medhelm.cli.reference_filter import filter_references
from medhelm.cli.release import diff, release, verify
from medhelm.cli.report import report
from medhelm.cli.rescore import rejudge, rescore
from medhelm.cli.run import demo, run
from medhelm.cli.taxonomy import taxonomy
from medhelm.errors import MedHelmError

INTERRUPTED = 130
"""Exit code after Ctrl-C."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=True)
@click.version_option(__version__, prog_name="medhelm")
@shared_options
def cli() -> None:
    """Evaluate language models on real medical work.

    \b
    First steps:
      medhelm demo                                       baselines on invented rows, no key, no network
      medhelm benchmarks list                            what there is
      medhelm run pubmed_qa --data DIR --model openai/gpt-4o
      medhelm leaderboard
    """


EVALUATING = (demo, plan, run, batches, rejudge, rescore, filter_references)
LOOKING = (leaderboard, report, compare, power, cost, show, jury, agreement, benchmarks, models, taxonomy, data)
KEEPING = (plugins, import_, export, release, diff, verify)
for command in (*EVALUATING, *LOOKING, *KEEPING):
    cli.add_command(command)


def main() -> None:
    """Run the command line and end with its exit code."""
    try:
        code = cli.main(standalone_mode=False, obj=Shared())
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.Abort:
        code = INTERRUPTED
    except MedHelmError as error:
        click.echo(f"medhelm: {error}", err=True)
        code = error.exit_code
    except BrokenPipeError:
        # The reader had enough, as `| head` does: not an error. Keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code if isinstance(code, int) else 0)

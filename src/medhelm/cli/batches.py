"""`medhelm batches`."""

from __future__ import annotations

import click

from medhelm.cli.common.options import format_option
from medhelm.cli.common.output import table_options
from medhelm.cli.common.printing import print_json
from medhelm.cli.common.shared import Shared, shared_options


@click.command()
@format_option
@table_options
@shared_options("store", "json")
@click.pass_obj
def batches(shared: Shared, format_: str) -> int:
    """List batches that are not collected yet.

    Sends nothing. To collect a batch and delete it at the provider, repeat the command that submitted it, with --batch.

    \b
    Example:
      medhelm batches --store STORE
    """
    from medhelm.reports import batches as batches_report
    from medhelm.storage.batches import Batches
    from medhelm.storage.store import open_store

    found = [batch for batch in Batches(open_store(shared.store)).all() if batch.state != "deleted"]
    if format_ == "json":
        print_json(batches_report.as_json(found))
    elif found:
        click.echo(batches_report.to_table(found, format_), nl=False)
    else:
        click.echo("no batch is pending")
    if any(batch.state == "collected" for batch in found):
        click.echo(
            "collected: the completions are in the store, but the provider still holds requests and completions. To "
            "delete them there, repeat the command with --batch and without --keep-batches.",
            err=True,
        )
    return 0

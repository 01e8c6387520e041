"""`medhelm batches`."""

from __future__ import annotations

import click

from medhelm.cli.options import FORMATS, Shared, print_json, shared_options


@click.command()
@shared_options
@click.option("--format", "format_", type=FORMATS, default="table", show_default=True, help="How the table is written.")
@click.pass_obj
def batches(shared: Shared, format_: str) -> int:
    """What was handed over to batch APIs and lies there still, as this store knows it. Nobody is asked.

    The command that handed a batch over, given again with --batch, collects it, and has it deleted there.

    \b
    Example:
      medhelm batches --store STORE
    """
    from medhelm.reports import batches as batches_report
    from medhelm.storage.batches import Batches
    from medhelm.storage.store import open_store

    found = [batch for batch in Batches(open_store(shared.store)).all() if batch.state != "deleted"]
    if shared.json or format_ == "json":
        print_json(batches_report.as_json(found))
    elif found:
        click.echo(batches_report.to_table(found, format_), nl=False)
    else:
        click.echo("no batch is outstanding")
    if any(batch.state == "collected" for batch in found):
        click.echo(
            "collected: its answers are in the store, and its service still holds requests and answers. The same "
            "command with --batch, and without --keep-batches, has them deleted.",
            err=True,
        )
    return 0

"""`medhelm plugins`."""

from __future__ import annotations

import click

from medhelm.cli.common.printing import print_json
from medhelm.cli.common.shared import Shared, shared_options


@click.command()
@shared_options("benchmarks", "json")
@click.pass_obj
def plugins(shared: Shared) -> int:
    """List and check installed plug-ins.

    Imports every provider, metric and benchmark that installed packages add. Plug-ins run with your permissions:
    install only those you trust. Exit code 1: a plug-in cannot be used.

    \b
    Example:
      medhelm plugins
    """
    from medhelm.cli import PLUGIN_COMMANDS
    from medhelm.reports.benchmarks import plugins_text
    from medhelm.scoring.installed_plugins import installed_plugins

    found, problems = installed_plugins(shared.benchmark_folders, commands=[PLUGIN_COMMANDS])
    rows = [
        {
            "kind": one.plugin.group.removeprefix("medhelm.").removesuffix("s"),
            "name": one.plugin.name,
            "package": one.plugin.package,
            "version": one.plugin.version,
            "target": one.plugin.target,
            "gives": list(one.gives),
            "problems": list(one.problems),
        }
        for one in found
    ]
    if shared.json:
        print_json({"plugins": rows, "problems": problems})
    else:
        click.echo(plugins_text(rows, problems), nl=False)
    return int(bool(problems) or any(one.problems for one in found))

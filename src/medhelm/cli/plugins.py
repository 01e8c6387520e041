"""`medhelm plugins` and `medhelm plugins new`."""

from __future__ import annotations

from pathlib import Path

import click

from medhelm.cli.common.printing import print_json
from medhelm.cli.common.shared import Shared, shared_options


@click.group(invoke_without_command=True)
@shared_options("benchmarks", "json")
@click.pass_context
def plugins(context: click.Context) -> int:
    """List and check installed plug-ins.

    Imports every provider, metric and benchmark that installed packages add. Plug-ins run with your permissions:
    install only those you trust. Exit code 1: a plug-in cannot be used.

    \b
    Examples:
      medhelm plugins
      medhelm plugins new triage_distance --kind metric
    """
    if context.invoked_subcommand is not None:
        return 0
    from medhelm.reports.benchmarks import plugins_text
    from medhelm.scoring.installed_plugins import installed_plugins

    shared: Shared = context.obj
    found, problems = installed_plugins(shared.benchmark_folders)
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


@plugins.command()
@click.argument("name")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(["provider", "metric", "benchmark"]),
    multiple=True,
    required=True,
    help="What the package adds; repeatable.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Folder in which to create the package.  [default: current folder]",
)
@shared_options("json")
@click.pass_obj
def new(shared: Shared, /, name: str, kinds: tuple[str, ...], out: Path) -> int:
    """Create a package of plug-ins.

    The package `medhelm-NAME` works without changes and has tests. Its provider, metric and benchmark are named NAME.

    \b
    Examples:
      medhelm plugins new triage_distance --kind metric
      medhelm plugins new ward --kind provider --kind benchmark --out plugins
    """
    from medhelm.benchmarks.catalog import all_names
    from medhelm.benchmarks.names import check_name
    from medhelm.benchmarks.plugin_scaffold import scaffold_plugin
    from medhelm.errors import UserError
    from medhelm.models.providers import SERVICES
    from medhelm.scoring.metrics import METRIC_NAMES

    for kind, known in {"provider": SERVICES, "metric": METRIC_NAMES, "benchmark": all_names()}.items():
        if kind in kinds and name in known:
            raise UserError(f"`{name}` is already the name of a {kind}. Choose another name.")
    place = scaffold_plugin(check_name(name), kinds, out)
    if shared.json:
        print_json({"name": name, "kinds": list(dict.fromkeys(kinds)), "folder": str(place)})
    else:
        click.echo(f"Created {place}. Install it, check it, and run its tests:")
        click.echo(f"  pip install -e {place}\n  medhelm plugins\n  pytest {place}")
    return 0

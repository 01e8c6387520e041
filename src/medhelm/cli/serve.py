"""`medhelm serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from medhelm.cli.common.options import Shared, scoring_option, shared_options, stored_tier_option
from medhelm.errors import UserError

if TYPE_CHECKING:
    from medhelm.domain import Rule, Tier
    from medhelm.web.site import Site

suites_option = click.option(
    "--suite",
    "suites",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File of your own suite to offer on the leaderboard; repeatable.",
)

published_option = click.option(
    "--with-published",
    is_flag=True,
    help="Offer the nine published models on the leaderboard, alone and beside your own.",
)


@click.command()
@click.option(
    "--port", metavar="P", type=click.IntRange(0, 65535), default=8642, show_default=True, help="Port; 0: any free one."
)
@click.option(
    "--socket",
    "socket_file",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Listen on a socket file, which only you can open, instead of a port.",
)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--behind-proxy",
    "proxy_hosts",
    metavar="HOST",
    multiple=True,
    help="Host name of a proxy with TLS in front of the server; repeatable.",
)
@suites_option
@published_option
@stored_tier_option
@scoring_option
@shared_options("store", "data", "benchmarks")
@click.pass_obj
def serve(
    shared: Shared,
    /,
    port: int,
    socket_file: Path | None,
    host: str,
    proxy_hosts: tuple[str, ...],
    suites: tuple[Path, ...],
    with_published: bool,
    tier: Tier | None,
    rule: Rule,
) -> int:
    """Show the results in a browser.

    Serves the leaderboard, the benchmarks, comparisons and cases on this machine. The printed address holds a token,
    which a browser needs once. Nothing is sent to any other host.

    \b
    Examples:
      medhelm serve
      medhelm serve --store ours --port 9000
      medhelm serve --socket board.sock       on a shared machine
      ssh -L 8642:board.sock host             the same board from elsewhere
      medhelm serve --behind-proxy board.hospital.example
    """
    from medhelm.web.server import Listener
    from medhelm.web.server import serve as serve_site

    where = Listener(host=host, port=port, socket_file=socket_file, proxy_hosts=proxy_hosts)

    def announce(address: str) -> None:
        click.echo("MedHELM shows the results at this address until Ctrl-C stops it:\n")
        click.echo(f"  {address}\n")
        if socket_file:
            click.echo(f"Forward a port to the socket first: ssh -L PORT:{socket_file.absolute()} HOST")

    site = make_site(shared, suites=suites, with_published=with_published, tier=tier, rule=rule)
    try:
        serve_site(site, where, announce)
    except KeyboardInterrupt:
        click.echo("Stopped.", err=True)
    return 0


def make_site(
    shared: Shared,
    *,
    suites: tuple[Path, ...],
    with_published: bool,
    tier: Tier | None,
    rule: Rule,
    with_text: bool = True,
) -> Site:
    """Return the site of the stores, its files checked.

    Raises: StoreError for a folder that is not a store; ConfigError for a suite or a definition.
    """
    from medhelm.benchmarks.suites import read_suite
    from medhelm.storage.store import open_store
    from medhelm.web.site import Site

    for store in shared.all_stores:
        open_store(store)
    site = Site(
        stores=shared.all_stores,
        rule=rule,
        tier=tier,
        benchmark_folders=shared.benchmark_folders,
        data=shared.data,
        suites={path.stem: path for path in suites},
        with_published=with_published,
        with_text=with_text,
    )
    known = {name: name for name in site.definitions} | {
        alias: one.name for one in site.definitions.values() for alias in one.aliases
    }
    for path in suites:
        if not path.is_file():
            raise UserError(f"--suite {path}: the file does not exist.")
        read_suite(path, known)
    return site

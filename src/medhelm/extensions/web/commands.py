"""`medhelm serve` and `medhelm export site`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medhelm.cli.global_options import Shared, shared_options
from medhelm.cli.options import add_options, listen_options, option_from, options_of
from medhelm.cli.releases import folder_argument, print_result, text_option
from medhelm.errors import UserError
from medhelm.io.http.listening import ProxyOptions
from medhelm.results.options import BoardOptions, DocumentOptions

if TYPE_CHECKING:
    from medhelm.extensions.web.site import Site

site_options = add_options(
    click.option(
        "--suite",
        "suites",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Suite file to offer on the leaderboard; repeatable.",
    ),
    click.option(
        "--with-published",
        is_flag=True,
        help="Offer the nine published models on the leaderboard, alone and with your own.",
    ),
    click.option(
        "--release",
        "releases",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Folder of a release in another store to offer for comparison, with the runs of that store; repeatable.",
    ),
    option_from(DocumentOptions, "ratings"),
    options_of(BoardOptions, "options", "wanted", "tier", "rule"),
)
"""The options of `make_site`."""


@click.command()
@listen_options(8642, "Encrypt with these PEM files; requires --name.")
@options_of(ProxyOptions, "proxy")
@click.option(
    "--name",
    "names",
    metavar="HOST",
    multiple=True,
    help="With --tls: host name by which browsers reach this machine; repeatable.",
)
@site_options
@shared_options("store", "data", "benchmarks", "trust")
@click.pass_obj
def serve(
    shared: Shared,
    /,
    port: int,
    socket_file: Path | None,
    host: str,
    proxy: ProxyOptions,
    certificate: tuple[Path, Path] | None,
    names: tuple[str, ...],
    **contents: Any,
) -> int:
    """Show the results in a browser.

    Serves the leaderboard, benchmarks, comparisons, cases and running evaluations on this machine. The printed address
    contains a token, which a browser needs once. Nothing is sent to any other host.

    \b
    Examples:
      medhelm serve
      medhelm serve --store ours --port 9000
      medhelm serve --socket board.sock       on a shared machine
      ssh -L 8642:board.sock host             the same board from elsewhere
      medhelm serve --host 0.0.0.0 --tls cert.pem key.pem --name board.example
      medhelm serve --behind-proxy board.hospital.example
    """
    from medhelm.extensions.web.server import Listener
    from medhelm.extensions.web.server import serve as serve_site

    where = Listener(
        host=host,
        port=port,
        socket_file=socket_file,
        proxy=proxy,
        certificate=certificate or None,
        names=names,
    )

    def announce(address: str) -> None:
        click.echo("MedHELM shows the results at this address until Ctrl-C stops it:\n")
        click.echo(f"  {address}\n")
        if socket_file:
            click.echo(f"Forward a port to the socket first: ssh -L PORT:{socket_file.absolute()} HOST")

    try:
        serve_site(make_site(shared, **contents), where, announce)
    except KeyboardInterrupt:
        click.echo("Stopped.", err=True)
    return 0


@click.command()
@folder_argument
@text_option
@click.option(
    "--cases",
    "most_cases",
    metavar="N",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Cases per benchmark to write, with ids, prompts, references, completions and judgments: the most "
    "instructive ones, such as those that all models have wrong. Nothing of other cases is written, not even in lists.",
)
@site_options
@shared_options("store", "data", "benchmarks", "trust", "json")
@click.pass_obj
def site(shared: Shared, /, folder: Path, texts: bool, most_cases: int, **contents: Any) -> int:
    """Write the pages of `medhelm serve` as files.

    Double-click index.html to open them, or put them on any web server. For benchmarks that are not public, they hold
    only numbers, unless --with-text is given. They never hold the address of a model server.

    \b
    Example:
      medhelm export site board
    """
    from medhelm.extensions.web.export import export_site

    made = make_site(shared, with_text=texts, **contents)
    return print_result(export_site(made, folder, most_cases=most_cases), shared)


def make_site(
    shared: Shared,
    *,
    suites: tuple[Path, ...],
    with_published: bool,
    releases: tuple[Path, ...],
    ratings: Path | None,
    options: BoardOptions,
    with_text: bool = True,
) -> Site:
    """Return the site of the stores, its files checked.

    Raises: UserError for models and benchmarks that no run has; StoreError for a folder that is not a store, and for a
    damaged release; ConfigError for a suite or a definition.
    """
    from medhelm.benchmarks.suites import read_suite
    from medhelm.extensions.web.site import Site
    from medhelm.results.runs.selection import load_filtered
    from medhelm.storage.store import open_store

    for store in shared.all_stores:
        open_store(store)
    if not options.wanted.is_empty:
        load_filtered(shared.all_stores, options.wanted)
    site = Site(
        stores=shared.all_stores,
        rule=options.rule,
        tier=options.tier,
        wanted=options.wanted,
        benchmark_folders=shared.benchmark_folders,
        data=shared.data,
        ratings=ratings,
        suites={path.stem: path for path in suites},
        with_published=with_published,
        release_folders=[_release_folder(shared, path) for path in releases],
        with_text=with_text,
    )
    known = {name: name for name in site.definitions} | {
        alias: one.name for one in site.definitions.values() for alias in one.aliases
    }
    for path in suites:
        if not path.is_file():
            raise UserError(f"--suite {path}: the file does not exist.")
        read_suite(path, known)
    site.clinicians()
    return site


def _release_folder(shared: Shared, path: Path) -> Path:
    """Return the folder of a release. Raises: UserError if it holds none; StoreError if the release is damaged."""
    from medhelm.storage.releases import MANIFEST, read_release
    from medhelm.storage.store import open_store

    folder = path.parent if path.name == MANIFEST else path
    if not (folder / MANIFEST).is_file():
        raise UserError(
            f"--release {path}: the folder has no {MANIFEST}. Name the folder of a release: STORE/releases/NAME."
        )
    read_release(open_store(shared.all_stores[0]), str(folder))
    return folder

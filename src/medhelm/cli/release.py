"""`medhelm release`, `medhelm diff` and `medhelm verify`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from medhelm.cli import completion
from medhelm.cli.options import FORMATS, Shared, print_json, scoring_option, shared_options

if TYPE_CHECKING:
    from medhelm.domain import Rule
    from medhelm.results.releases import LeaderboardOptions

_Command = TypeVar("_Command", bound=Callable[..., Any])

_FORMAT = click.option(
    "--format", "format_", type=FORMATS, default="table", show_default=True, help="How tables are written."
)
_OPTIONS = (
    click.option(
        "--suite",
        default="all",
        show_default=True,
        shell_complete=completion.suites,
        help="Which benchmarks, as `leaderboard --suite` takes it.",
    ),
    click.option("--shared", is_flag=True, help="Only benchmarks on which every model has a score."),
    click.option(
        "--resample",
        type=click.Choice(["instances", "benchmarks", "none"]),
        help="What intervals are drawn from, as `leaderboard --resample` takes it.",
    ),
    click.option(
        "--tier",
        type=click.Choice(["real", "sample"]),
        help="Real data or invented rows.  [default: real, if there is any]",
    ),
    scoring_option,
)


def _leaderboard_options(command: _Command) -> _Command:
    """Add what a leaderboard can be asked for."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@shared_options
@click.argument("name", required=False)
@click.option("--note", default="", help="What the release is for; shown in lists.")
@_leaderboard_options
@_FORMAT
@click.pass_obj
def release(shared: Shared, /, name: str | None, note: str, rule: Rule, format_: str, **asked: Any) -> int:
    """Freeze the leaderboard under a name, with all its numbers rest on; without a name, list the releases.

    A release holds the leaderboard byte for byte, and for every run the digests of its data, definition, prompts,
    completions and judgments, the names under which the models answered, the jury, the prices and the versions.

    \b
    Examples:
      medhelm release 2026-11 --note "for the governance committee"
      medhelm release
    """
    from medhelm.reports.releases import release_as_json, releases_table
    from medhelm.results.releases import freeze
    from medhelm.storage.releases import read_release, release_names
    from medhelm.storage.store import open_store

    if name:
        made = [freeze(shared.store, name, _options(shared, rule, asked), note=note)]
    else:
        store = open_store(shared.store)
        made = [read_release(store, known) for known in release_names(store)]
    if shared.json or format_ == "json":
        print_json(release_as_json(made[0]) if name else [release_as_json(one) for one in made])
    else:
        click.echo(releases_table(made, format_), nl=False)
    return 0


@click.command()
@shared_options
@click.argument("first", metavar="RELEASE_A", shell_complete=completion.releases)
@click.argument("second", metavar="RELEASE_B", default="current", shell_complete=completion.releases)
@_FORMAT
@click.pass_obj
def diff(shared: Shared, /, first: str, second: str, format_: str) -> int:
    """Say what lies between two releases, and why: models, benchmarks, places, values and all they rest on.

    A release is named by its name, or by the path of its folder in another store; `current` is the store as it is now.

    \b
    Examples:
      medhelm diff 2026-10 2026-11
      medhelm diff 2026-10
    """
    from medhelm.analysis.leaderboard.diff import diff_leaderboards
    from medhelm.reports.releases import difference_as_json, difference_to_text
    from medhelm.results.releases import find_release

    found = diff_leaderboards(find_release(shared.store, first), find_release(shared.store, second))
    if shared.json or format_ == "json":
        print_json(difference_as_json(found))
    else:
        click.echo(difference_to_text(found, format_), nl=False)
    return 0


@click.command()
@shared_options
@click.argument("name", metavar="[RELEASE]", required=False, shell_complete=completion.releases)
@_leaderboard_options
@_FORMAT
@click.pass_obj
def verify(shared: Shared, /, name: str | None, rule: Rule, format_: str, **asked: Any) -> int:
    """Derive the leaderboard anew from completions and data, and say byte for byte what differs. Nothing is sent.

    Every stored completion is scored again with the definitions, the data and the code of now. With a release, the
    result is held against that. Exit code: 0 all the same, 1 something differs, 4 some data is not here.

    \b
    Examples:
      medhelm verify --data DIR
      medhelm verify 2026-11 --data DIR --json
    """
    from medhelm.cli.progress import progress_listener
    from medhelm.reports.releases import verification_as_json, verification_to_text
    from medhelm.results.releases import find_release
    from medhelm.results.verification import verify as derive_again

    with progress_listener() as listener:
        found = derive_again(
            shared.store,
            _options(shared, rule, asked),
            data=shared.data,
            release=find_release(shared.store, name) if name else None,
            listener=listener,
        )
    if shared.json or format_ == "json":
        print_json(verification_as_json(found))
    else:
        click.echo(verification_to_text(found, format_), nl=False)
    return found.exit_code


def _options(shared: Shared, rule: Rule, asked: Mapping[str, Any]) -> LeaderboardOptions:
    """What the leaderboard is asked for."""
    from medhelm.results.releases import LeaderboardOptions

    return LeaderboardOptions(scoring=rule, folders=tuple(shared.benchmark_folders), **asked)

"""`medhelm export helm` and `medhelm export store`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from medhelm.cli.common.global_options import Shared, existing_audit_log, load, shared_options
from medhelm.cli.common.options import option_from, run_filter_options
from medhelm.cli.common.printing import print_json
from medhelm.cli.export import definitions_of, folder_argument, print_result, selection_options
from medhelm.evaluation.settings import Settings

if TYPE_CHECKING:
    from medhelm.domain import Rule
    from medhelm.results.options import BoardOptions, RunFilter


@click.command()
@folder_argument
@click.option(
    "--scoring",
    "rule",
    type=click.Choice(["published", "corrected"]),
    default="published",
    show_default=True,
    help="Scoring rule to write; HELM's files hold only one.",
)
@click.option("--suite", metavar="NAME", default="medhelm", show_default=True, help="Name of the HELM suite to write.")
@selection_options
@shared_options("store", "benchmarks", "json")
@click.pass_obj
def helm(shared: Shared, folder: Path, options: BoardOptions, rule: Rule, suite: str) -> int:
    """Write HELM's files.

    Writes the prompts, completions, judgments and scores of the runs that count for the leaderboard. If prompts or
    completions contain patient data, so do these files.

    \b
    Example:
      medhelm export helm exported
      helm-summarize --suite medhelm -o exported \\
        --schema-path exported/schema.yaml --local-path exported/prod_env
      helm-server --suite medhelm -o exported
    """
    from medhelm.extensions.exchange.helm.export import export_helm

    done = export_helm(
        shared.store_to_read, folder, rule=rule, suite=suite, options=options, definitions=definitions_of(shared)
    )
    return print_result(done, shared)


@click.command()
@click.argument("url", metavar="URL")
@run_filter_options
@option_from(Settings, "allow_hosts")
@shared_options("store", "benchmarks", "offline", "json")
@click.pass_obj
def store(shared: Shared, url: str, wanted: RunFilter, allow_hosts: tuple[str, ...]) -> int:
    """Publish runs and releases to an object store.

    URL is a folder in S3, Google Cloud Storage or Azure: s3://BUCKET/FOLDER, gs://BUCKET/FOLDER, az://CONTAINER/FOLDER.
    Objects are created once and never changed; existing objects are left alone. Others read them with
    `medhelm leaderboard --store URL` and other commands that only read. Credentials come from the usual variables, such
    as AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL.

    \b
    Example:
      medhelm export store s3://results/board-2026 --benchmark pubmed_qa
    """
    from medhelm.domain.text import plural
    from medhelm.extensions.exchange.object_store.store import ObjectStore
    from medhelm.extensions.exchange.remote_store import publish
    from medhelm.reports.formats.json import plain_json
    from medhelm.storage.privacy import record_export
    from medhelm.storage.store import open_store

    with existing_audit_log(shared) as audit, ObjectStore(url, offline=shared.offline, audit=audit) as remote:
        definitions = load(shared, ["all"])
        done = publish(open_store(shared.store), remote, definitions, wanted=wanted, allowed=allow_hosts)
    names = {path.parent.name for path in shared.store.glob("runs/*/*")}
    record_export(shared.store, done.url, "store", names, has_text=True)
    if shared.json:
        print_json(plain_json(done))
    else:
        known = f"; {done.known} already existed" if done.known else ""
        click.echo(f"{done.url}: {plural(done.runs, 'run')} and {plural(done.releases, 'release')} published{known}")
        for remark in done.remarks:
            click.echo(f"- {remark}")
    return 0

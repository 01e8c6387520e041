"""`medhelm import`, `medhelm export helm` and `medhelm export store`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from medhelm.cli.global_options import Shared, existing_audit_log, load, shared_options
from medhelm.cli.options import option_from, run_filter_options, scoring_option
from medhelm.cli.printing import print_json, warn
from medhelm.cli.releases import definitions_of, folder_argument, print_result, selection_options
from medhelm.evaluation.settings import Settings

if TYPE_CHECKING:
    from medhelm.domain import Rule
    from medhelm.extensions.exchange.importer import ImportSummary
    from medhelm.results.options import BoardOptions, RunFilter


# --- medhelm export ---------------------------------------------------------------------------------------------------


@click.command("helm")
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
def export_helm(shared: Shared, folder: Path, options: BoardOptions, rule: Rule, suite: str) -> int:
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
    from medhelm.extensions.exchange.object_store import ObjectStore, publish
    from medhelm.results.formats.fields import plain_json
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


# --- medhelm import ---------------------------------------------------------------------------------------------------

_rescore_option = click.option(
    "--rescore", "again", is_flag=True, help="Also compute the corrected scores, as `medhelm rescore` does."
)
_no_rescore_option = click.option(
    "--rescore/--no-rescore",
    "again",
    default=True,
    help="Also compute the corrected scores, as `medhelm rescore` does.  [default: rescore]",
)


@click.group("import")
@shared_options()
def import_() -> None:
    """Import runs of HELM, Inspect or lm-eval.

    Imported runs appear on the leaderboard and can be rescored.

    \b
    Example:
      medhelm import helm benchmark_output
    """


@import_.command("helm")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@_rescore_option
@scoring_option
@shared_options("store", "benchmarks", "json")
@click.pass_obj
def import_helm(shared: Shared, /, folder: Path, again: bool, rule: Rule) -> int:
    """Import HELM runs.

    DIR is the folder of a run, a suite or a release, or HELM's whole output folder. HELM's scores become the published
    scores, unchanged. Prompts, references, completions and judgments are kept, so `medhelm rescore` and `medhelm
    rejudge` need no data. Importing the same folder again changes nothing.

    \b
    Examples:
      medhelm import helm benchmark_output/runs/v1 --rescore
      medhelm leaderboard --scoring published
    """
    from medhelm.extensions.exchange.helm.importer import import_helm

    done = import_helm(folder, store=shared.store, extra=shared.benchmark_folders, watch=_print_count)
    if again and done.taken:
        done = _rescored(shared, done)
    _print_imported(shared, done, rule)
    return int(bool(done.skipped))


@import_.command("inspect")
@click.argument("places", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE|DIR...")
@_no_rescore_option
@scoring_option
@shared_options("store", "data", "benchmarks", "trust", "json")
@click.pass_obj
def inspect(shared: Shared, /, places: tuple[Path, ...], again: bool, rule: Rule) -> int:
    """Import Inspect logs.

    Reads .eval and .json files, or all logs in a folder. Inspect does not have to be installed. Logs of `inspect eval
    medhelm/...` become ordinary runs, scored by both rules. For other tasks, the scores in the log become the published
    scores, and the completions are compared with the targets again for the corrected ones. Importing the same log again
    changes nothing.

    \b
    Examples:
      medhelm import inspect logs/
      medhelm import inspect logs/2026-01-02T03-04-05-00-00_pubmed-qa_abc.eval
    """
    return _import_logs(shared, places, "inspect", again, rule)


@import_.command("lm-eval")
@click.argument("places", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE|DIR...")
@_no_rescore_option
@scoring_option
@shared_options("store", "data", "benchmarks", "trust", "json")
@click.pass_obj
def lm_eval(shared: Shared, /, places: tuple[Path, ...], again: bool, rule: Rule) -> int:
    """Import lm-eval sample files.

    Reads files written with `--log_samples`, or all such files in a folder. lm-eval's scores become the published
    scores, one metric per filter, and the completions are compared with the targets again for the corrected ones. If
    options were compared by log-likelihood, the completion is the most likely option. Importing the same file again
    changes nothing.

    \b
    Example:
      medhelm import lm-eval results/
    """
    return _import_logs(shared, places, "lm_eval", again, rule)


def _import_logs(
    shared: Shared, places: tuple[Path, ...], harness: Literal["inspect", "lm_eval"], again: bool, rule: Rule
) -> int:
    """Import the logs of one harness and print the result."""
    from medhelm.extensions.exchange.logs import import_logs

    folders = shared.benchmark_folders
    done = import_logs(places, harness, store=shared.store, data=shared.data, extra=folders, watch=_print_count)
    if again:
        done = _rescored(shared, done, only_unscored=True)
    _print_imported(shared, done, rule)
    return int(bool(done.skipped))


def _print_count(done: int, of: int) -> None:
    """Print the number of imported runs in a terminal."""
    if sys.stderr.isatty():
        click.echo(f"\r{done} of {of} runs" + ("\n" if done == of else ""), err=True, nl=False)


def _print_imported(shared: Shared, done: ImportSummary, rule: Rule) -> None:
    """Print the imported runs, and what was skipped and why."""
    from medhelm.extensions.exchange import importer

    if shared.json:
        print_json(importer.as_json(done))
    elif done.taken:
        click.echo(importer.to_table(done.taken, rule))
    for name, reason in done.skipped:
        warn(f"{name} was skipped: {reason}")
    for one in done.taken:
        for remark in one.remarks:
            warn(f"{one.run.benchmark} with {one.run.model}: {remark}")
    for remark in done.remarks:
        warn(str(remark))


def _rescored(shared: Shared, done: ImportSummary, *, only_unscored: bool = False) -> ImportSummary:
    """Rescore the imported runs and return the summary with corrected scores.

    `only_unscored`: only new runs without a corrected score.
    """
    import os
    from dataclasses import replace

    from medhelm.cli.progress import progress_listener
    from medhelm.evaluation.rescore import library_of, rescored, unknown_benchmarks
    from medhelm.evaluation.session import EvaluationSetup
    from medhelm.evaluation.settings import Settings
    from medhelm.evaluation.stored_settings import JuryChange
    from medhelm.storage.store import open_store

    store = open_store(shared.store)
    runs = [
        one.run
        for one in done.taken
        if one.run.is_complete and not (only_unscored and (one.state == "unchanged" or one.run.estimates["corrected"]))
    ]
    if not runs:
        return done
    benchmarks = {b.name: b for b in library_of(shared.benchmark_folders).values()}
    benchmarks |= {b.name: b for b in unknown_benchmarks(store, runs, ())}
    with progress_listener(shared) as listener:
        setup = EvaluationSetup(
            store=shared.store,
            data=shared.data,
            settings=Settings(offline=shared.offline),
            environment=os.environ,
            listener=listener,
        )
        new = rescored(runs, list(benchmarks.values()), JuryChange(), setup, store)
    by_id = {run.id: run for run in new.runs}
    return replace(done, taken=tuple(replace(one, run=by_id.get(one.run.id, one.run)) for one in done.taken))

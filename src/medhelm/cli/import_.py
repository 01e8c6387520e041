"""`medhelm import`: what other harnesses asked and scored."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from medhelm.cli.options import Shared, print_json, scoring_option, shared_options

if TYPE_CHECKING:
    from medhelm.domain import Rule
    from medhelm.exchange.helm.importer import ImportSummary


@click.group("import")
@shared_options
def import_() -> None:
    """Take in runs of other harnesses: they stand on the leaderboard, and can be scored again here.

    \b
    Example:
      medhelm import helm benchmark_output
    """


@import_.command("helm")
@shared_options
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--rescore", "again", is_flag=True, help="Compute the corrected scores at once.")
@scoring_option
@click.pass_obj
def helm(shared: Shared, /, folder: Path, again: bool, rule: Rule) -> int:
    """Take in runs of HELM: one run's folder, a suite, a release, or the whole output folder.

    HELM's own numbers become the published scores, to the letter. Prompts, references, completions and judgments are
    kept, so that `medhelm rescore` and `medhelm rejudge` need no data. The same folder again changes nothing.

    \b
    Examples:
      medhelm import helm benchmark_output/runs/v1 --rescore
      medhelm leaderboard --scoring published
    """
    from medhelm.exchange.helm.importer import import_helm

    done = import_helm(folder, store=shared.store, extra=shared.benchmark_folders, watch=watch_runs)
    if again and done.taken:
        done = _rescored(shared, done)
    print_imported(shared, done, rule)
    return int(bool(done.skipped))


@import_.command("inspect")
@shared_options
@click.argument("places", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE_OR_DIR...")
@click.option("--rescore", "again", is_flag=True, help="Compute the corrected scores of other tasks at once.")
@scoring_option
@click.pass_obj
def inspect(shared: Shared, /, places: tuple[Path, ...], again: bool, rule: Rule) -> int:
    """Take in logs of Inspect (.eval or .json), or all logs in a folder; Inspect need not be installed.

    Tasks of ours (`inspect eval medhelm/...`) become runs as if they had been made here, scored by both rules. Of any
    other task the log's own scores become the published ones. The same log again changes nothing.

    \b
    Examples:
      medhelm import inspect logs/
      medhelm import inspect logs/2026-01-02T03-04-05-00-00_pubmed-qa_abc.eval
    """
    return _logs(shared, places, "inspect", again, rule)


@import_.command("lm-eval")
@shared_options
@click.argument("places", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE_OR_DIR...")
@click.option("--rescore", "again", is_flag=True, help="Compute the corrected scores at once.")
@scoring_option
@click.pass_obj
def lm_eval(shared: Shared, /, places: tuple[Path, ...], again: bool, rule: Rule) -> int:
    """Take in sample files of lm-eval (`--log_samples`), or all of them in a folder.

    lm-eval's own scores become the published ones, one metric for each of its filters. Where options were compared by
    log-likelihood, the completion is the likeliest one. The same file again changes nothing.

    \b
    Example:
      medhelm import lm-eval results/
    """
    return _logs(shared, places, "lm_eval", again, rule)


def _logs(
    shared: Shared, places: tuple[Path, ...], harness: Literal["inspect", "lm_eval"], again: bool, rule: Rule
) -> int:
    """Take in files of one kind, and show what came of it."""
    from medhelm.exchange.logs import import_logs

    folders = shared.benchmark_folders
    done = import_logs(places, harness, store=shared.store, data=shared.data, extra=folders, watch=watch_runs)
    if again:
        done = _rescored(shared, done)
    print_imported(shared, done, rule)
    return int(bool(done.skipped))


def watch_runs(done: int, of: int) -> None:
    """Say in a terminal how far it is."""
    if sys.stderr.isatty():
        click.echo(f"\r{done} of {of} runs" + ("\n" if done == of else ""), err=True, nl=False)


def print_imported(shared: Shared, done: ImportSummary, rule: Rule) -> None:
    """Show what was taken in, and say what was not."""
    from medhelm.reports import exchange as exchange_report

    if shared.json:
        print_json(exchange_report.import_as_json(done.taken, done.skipped, done.remarks))
    elif done.taken:
        click.echo(exchange_report.import_to_table(done.taken, rule))
    for name, reason in done.skipped:
        click.echo(f"medhelm: {name} is left out: {reason}", err=True)
    for one in done.taken:
        for remark in one.remarks:
            click.echo(f"medhelm: {one.run.benchmark} with {one.run.model}: {remark}", err=True)
    for remark in done.remarks:
        click.echo(f"medhelm: {remark}", err=True)


def _rescored(shared: Shared, done: ImportSummary) -> ImportSummary:
    """The same with corrected scores."""
    import os
    from dataclasses import replace

    from medhelm.cli.progress import progress_listener
    from medhelm.evaluation.imported.benchmarks import library_of
    from medhelm.evaluation.imported.datasets import unknown_benchmarks
    from medhelm.evaluation.rescore import JuryChange, rescored
    from medhelm.evaluation.settings import Settings
    from medhelm.storage.store import open_store

    store = open_store(shared.store)
    runs = [one.run for one in done.taken if one.run.status == "complete"]
    benchmarks = {b.name: b for b in library_of(shared.benchmark_folders).values()}
    benchmarks |= {b.name: b for b in unknown_benchmarks(store, runs, ())}
    with progress_listener() as listener:
        new = rescored(
            runs,
            list(benchmarks.values()),
            JuryChange(),
            source=store,
            target=store,
            data=shared.data,
            settings=Settings(offline=shared.offline),
            environment=os.environ,
            listener=listener,
        )
    by_id = {run.id: run for run in new.runs}
    return replace(done, taken=tuple(replace(one, run=by_id.get(one.run.id, one.run)) for one in done.taken))

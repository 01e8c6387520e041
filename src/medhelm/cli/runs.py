"""`medhelm runs ...` and `medhelm show`: the runs of a store, and one instance with its completions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from medhelm.cli.common import shell_completion
from medhelm.cli.common.global_options import Shared, shared_options
from medhelm.cli.common.options import (
    add_options,
    format_option,
    options_of,
    run_filter_options,
    scoring_option,
)
from medhelm.cli.common.output import output_option, table_options
from medhelm.cli.common.printing import print_json
from medhelm.domain.text import listed, plural
from medhelm.errors import UserError
from medhelm.results.options import DeletionRequest, PurgeFilter, RunFilter

if TYPE_CHECKING:
    from medhelm.domain import Rule
    from medhelm.domain.run import Removal, RemovalEffect, RunOnDisk
    from medhelm.results.runs.purge import Purge
    from medhelm.results.runs.stored import RunListFilter

_filter_options = add_options(
    run_filter_options,
    click.option(
        "--status",
        "statuses",
        multiple=True,
        type=click.Choice(["complete", "partial", "failed", "damaged"]),
        help="Only runs with this status; repeatable.",
    ),
    click.option("--tier", type=click.Choice(["real", "sample"]), help="Only runs on real data or on sample rows."),
)


def _parse_days(_context: click.Context, _parameter: click.Parameter, value: str | None) -> float | None:
    """Parse a number of days, such as `30` or `90d`."""
    if value is None:
        return None
    try:
        days = float(value.removesuffix("d"))
    except ValueError:
        days = -1.0
    if not 0 <= days < 1e5:
        raise click.BadParameter(f"`{value}` is not a number of days, such as 90 or 90d.")
    return days


_yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
_removals_argument = click.argument("names", metavar="[REMOVAL]...", nargs=-1, shell_complete=shell_completion.removals)


@click.group()
@shared_options()
def runs() -> None:
    """List, show and remove runs.

    \b
    Examples:
      medhelm runs list --since 2026-11-01
      medhelm runs show pubmed_qa openai/gpt-4o
      medhelm runs remove --model openai/gpt-4o
      medhelm runs restore
      medhelm runs purge --older-than 30
    """


@runs.command("list")
@click.option("--removed", is_flag=True, help="List removed runs instead, with their removals.")
@_filter_options
@format_option
@table_options
@shared_options("store", "json")
@click.pass_obj
def list_runs(shared: Shared, /, removed: bool, format_: str, **choices: Any) -> int:
    """List runs.

    Shows the main metric by corrected scoring, the cost including judges, the number of judges, the origin of
    completions, and the size on disk. Damaged runs are listed with the reason. Names of models and benchmarks can be
    shortened.

    \b
    Examples:
      medhelm runs list
      medhelm runs list --benchmark pubmed_qa --exclude baseline/majority
      medhelm runs list --status damaged --status partial
      medhelm runs list --store ours --store theirs --format csv
      medhelm runs list --removed
    """
    from medhelm.reports import runs as runs_report
    from medhelm.results.runs.remarks import cached_completions_text, counted_on_disk
    from medhelm.results.runs.stored import stored_runs

    found = counted_on_disk(_filter(choices).apply(stored_runs(shared.all_stores, removed=removed)))
    if format_ == "json":
        print_json(runs_report.stored_as_json(found))
    elif found:
        click.echo(_table(found, format_), nl=False)
    elif removed:
        click.echo("no run was removed")
    else:
        cached = cached_completions_text(shared.all_stores)
        click.echo("\n".join(filter(None, ["the store has no runs; `medhelm run` adds some", cached])))
    return 0


@runs.command("show")
@click.argument("names", metavar="RUN|BENCHMARK MODEL", nargs=-1, shell_complete=shell_completion.stored_run_ids)
@table_options
@shared_options("store", "json")
@click.pass_obj
def show_run(shared: Shared, /, names: tuple[str, ...]) -> int:
    """Show everything about one run.

    RUN is an id from `medhelm runs list`; ids and names can be shortened. Shows settings, versions, digests, failures
    by reason, tokens, cost, metrics by both rules, judges, files, and whether the leaderboard of its store counts it.

    \b
    Examples:
      medhelm runs show 3f2a91
      medhelm runs show pubmed_qa openai/gpt-4o --json
    """
    from medhelm.reports import runs as runs_report
    from medhelm.results.runs.remarks import counted_on_disk
    from medhelm.results.runs.stored import find_run, is_counted, stored_runs
    from medhelm.storage.store import open_store

    if len(names) not in (1, 2):
        raise UserError("name one run: its id, or a benchmark and a model. `medhelm runs list` shows them.")
    one = find_run(stored_runs(shared.all_stores), names)
    counted = is_counted(open_store(one.store), one.run) if one.run and not one.problem else None
    (one,) = counted_on_disk([one], every_metric=True)
    if shared.json:
        print_json(runs_report.stored_run_as_json(one, is_counted=counted))
    else:
        click.echo(runs_report.stored_run_to_text(one, is_counted=counted))
    return 0


@runs.command("remove")
@click.argument("names", metavar="[RUN]...", nargs=-1, shell_complete=shell_completion.stored_run_ids)
@click.option("--all", "everything", is_flag=True, help="Remove all runs of the store.")
@click.option("--dry-run", is_flag=True, help="Show what would be lost, and change nothing.")
@_yes_option
@_filter_options
@shared_options("store", "json")
@click.pass_obj
def remove(
    shared: Shared, /, names: tuple[str, ...], everything: bool, dry_run: bool, yes: bool, **choices: Any
) -> int:
    """Remove runs from all results.

    Shows what would be lost, and asks for confirmation. Name runs by id, or select them with options. They are moved to
    STORE/removed, and can be restored with `medhelm runs restore` until `medhelm runs purge` deletes them. Prompts and
    the cache keep their text, so repeating a removed run costs nothing. Runs cannot be removed while a run of the same
    model and benchmark is in progress.

    \b
    Examples:
      medhelm runs remove 3f2a91
      medhelm runs remove --model openai/gpt-4o --benchmark pubmed_qa --dry-run
      medhelm runs remove --tier sample --yes
    """
    from medhelm.reports import runs as runs_report
    from medhelm.results.runs.remarks import counted_on_disk
    from medhelm.results.runs.stored import effect_of
    from medhelm.storage.run_folders import remove_runs
    from medhelm.storage.store import open_store

    store = open_store(shared.store)
    selected = _selected(shared, names, _filter(choices), everything=everything)
    effect = effect_of(store, counted_on_disk(selected))
    if dry_run or not shared.json:
        _print_effect(shared, effect)
    if dry_run or not _confirm(f"Remove {plural(len(selected), 'run')}?", "Nothing was removed.", yes=yes):
        return 0
    removal = remove_runs(store, selected)
    if shared.json:
        removal = replace(removal, runs=tuple(counted_on_disk(removal.runs)))
        print_json(runs_report.effect_as_json(effect, removal))
    else:
        click.echo(
            f"\nRemoved {plural(len(removal.runs), 'run')}. To restore them: medhelm runs restore {removal.id}\n"
            f"To delete them for good: medhelm runs purge {removal.id}"
        )
    return 0


@runs.command("restore")
@_removals_argument
@_filter_options
@shared_options("store", "json")
@click.pass_obj
def restore(shared: Shared, /, names: tuple[str, ...], **choices: Any) -> int:
    """Restore removed runs.

    The default is all runs of the latest removal; options select some of them. If a run has been repeated since its
    removal, nothing is restored, so that no run is overwritten.

    \b
    Examples:
      medhelm runs restore
      medhelm runs restore 20261123T0112 --benchmark pubmed_qa
    """
    from medhelm.reports import runs as runs_report
    from medhelm.results.runs.remarks import counted_on_disk
    from medhelm.storage.run_folders import read_removals, restore_runs
    from medhelm.storage.store import open_store

    store = open_store(shared.store)
    removals = read_removals(store)
    if not removals and not names:
        raise UserError(f"no runs were removed from {store.folder}. Nothing was restored.")
    chosen = _find_removals(removals, names) if names else removals[:1]
    selected = _filter(choices).apply([run for removal in chosen for run in removal.runs])
    restored = counted_on_disk(restore_runs(store, selected))
    if shared.json:
        print_json({"restored": runs_report.stored_as_json(restored)["runs"]})
    else:
        click.echo(_table(restored), nl=False)
        click.echo(f"\nRestored {plural(len(restored), 'run')}.")
    return 0


@runs.command("purge")
@_removals_argument
@click.option("--older-than", metavar="DAYS", callback=_parse_days, help="Only runs removed more than DAYS days ago.")
@_yes_option
@shared_options("store", "json")
@click.pass_obj
def purge(shared: Shared, /, names: tuple[str, ...], older_than: float | None, yes: bool) -> int:
    """Delete removed runs for good.

    Shows what will be deleted, and asks for confirmation. The default is all removed runs. Prompts and the cache keep
    their text; `medhelm purge` deletes these too.

    \b
    Examples:
      medhelm runs purge --older-than 30
      medhelm runs purge 20261123T0112 --yes
    """
    from medhelm.reports import runs as runs_report
    from medhelm.results.runs.stored import older_than as removed_before
    from medhelm.storage.run_folders import purge as delete
    from medhelm.storage.run_folders import read_removals
    from medhelm.storage.store import open_store

    store = open_store(shared.store)
    removals = read_removals(store)
    chosen = _find_removals(removals, names) if names else removals
    if older_than is not None:
        chosen = removed_before(chosen, older_than)
    if chosen and not shared.json:
        click.echo(runs_report.removals_to_text(chosen))
    n_runs = sum(len(removal.runs) for removal in chosen)
    if chosen and not _confirm(f"Delete {plural(n_runs, 'run')} for good?", "Nothing was deleted.", yes=yes):
        return 0
    delete(store, chosen)
    if shared.json:
        print_json(runs_report.removals_as_json(chosen))
    else:
        click.echo(f"Deleted {plural(n_runs, 'run')} for good." if chosen else "nothing to delete")
    return 0


@click.command("purge")
@options_of(PurgeFilter, "wanted", "benchmarks", "models")
@click.option(
    "--older-than", metavar="DAYS", callback=_parse_days, help="Only text older than DAYS days, such as 90 or 90d."
)
@options_of(PurgeFilter, "wanted", "orphans")
@click.option("--all", "everything", is_flag=True, help="Delete all text of the store.")
@options_of(DeletionRequest, "request")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and change nothing.")
@_yes_option
@shared_options("store", "json")
@click.pass_obj
def purge_store(
    shared: Shared,
    /,
    wanted: PurgeFilter,
    older_than: float | None,
    everything: bool,
    request: DeletionRequest,
    dry_run: bool,
    yes: bool,
) -> int:
    """Delete text from a store for good.

    Deletes runs, including removed ones, with their completions and judgments, the prompts and instances that no other
    run needs, and the completions in the cache. Shows what will be deleted and what remains, and asks for confirmation.
    Write names in full. The age of a run is counted from its start.

    With --instance, --cluster or --file, deletes only these instances from all runs and files, and stores a statement
    of it. Later evaluations in this store leave them out. If it is interrupted, repeat the command.

    \b
    Examples:
      medhelm purge --benchmark aci_bench --dry-run
      medhelm purge --model openai/gpt-4o --older-than 90d
      medhelm purge --instance followup:12 --cluster followup:1000105
      medhelm purge --file withdrawn.csv --keep-numbers
      medhelm purge --all --yes
    """
    from medhelm.results.runs.purge import days_ago, plan_purge, purge
    from medhelm.storage.store import open_store

    is_named = bool(wanted.benchmarks or wanted.models or older_than is not None)
    if request != DeletionRequest():
        if everything or is_named:
            raise UserError(
                "--instance, --cluster and --file cannot be combined with --benchmark, --model, --older-than or --all."
            )
        return _delete_instances(shared, replace(request, orphans=wanted.orphans), dry_run=dry_run, yes=yes)

    if everything == (is_named or wanted.orphans):
        raise UserError(
            "choose what to delete with --benchmark, --model, --older-than or --orphans, with --instance, --cluster or "
            "--file, or with --all alone."
        )
    store = open_store(shared.store)
    # --orphans alone does not select any run.
    only_orphans = wanted.orphans and not is_named
    before = None if older_than is None else days_ago(older_than)
    found = plan_purge(store, replace(wanted, before=before, only_orphans=only_orphans))
    if dry_run or not shared.json:
        _print_purge(shared, found, is_done=False)
    if dry_run or not (found.is_empty or _confirm("Delete this for good?", "Nothing was deleted.", yes=yes)):
        return 0
    purge(store, found)
    if shared.json:
        _print_purge(shared, found, is_done=True)
    else:
        click.echo("nothing to delete" if found.is_empty else "Deleted for good.")
    return 0


def _delete_instances(shared: Shared, request: DeletionRequest, *, dry_run: bool, yes: bool) -> int:
    """Delete single instances. Raises: UserError, StoreError."""
    from medhelm.results.runs import deletion as report
    from medhelm.results.runs import deletion as work
    from medhelm.storage.store import open_store

    if not (request.instances or request.clusters or request.lists):
        raise UserError("--keep-numbers and --exports need --instance, --cluster or --file. Nothing was deleted.")
    plan = work.plan_deletion(open_store(shared.store), request)
    if shared.json and dry_run:
        print_json(report.plan_as_json(plan))
    elif not shared.json:
        click.echo(report.plan_to_text(plan), nl=False)
    if plan.is_empty and not dry_run:
        days = listed([one.time[:10] for one in plan.done_before])
        click.echo(f"nothing to delete: these instances were deleted on {days}", err=shared.json)
        if shared.json:
            print_json({**report.plan_as_json(plan), "deleted": True})
        return 0
    if dry_run or not _confirm("Delete this for good?", "Nothing was deleted.", yes=yes):
        return 0
    done = work.delete_instances(plan, command=work.statement_command(plan))
    text = report.statement_to_text(done)
    work.finish_statement(plan.store, done, text)
    if shared.json:
        print_json(report.statement_as_json(done))
    else:
        click.echo(f"Deleted for good. Statement, stored in {plan.store.folder / 'deletions'}:\n\n{text}", nl=False)
    return 0


def _print_purge(shared: Shared, found: Purge, *, is_done: bool) -> None:
    """Print what is deleted, what remains, and what this command cannot delete."""
    from medhelm.reports.formats.tables import size_text
    from medhelm.reports.runs import stored_as_json
    from medhelm.results.runs.purge import NOT_COVERED

    files = [str(path.relative_to(shared.store)) for path in found.files]
    if shared.json:
        remains = {
            "runs": found.runs_left,
            "completions": found.completions_left,
            "orphans": found.orphans_left,
            "batches": found.batches,
            "releases": list(found.releases),
        }
        gone = {"runs": stored_as_json(found.runs)["runs"], "files": files, "completions": len(found.digests)}
        print_json(
            {"deleted": is_done, **gone, "bytes": found.n_bytes, "remains": remains, "not_covered": list(NOT_COVERED)}
        )
        return
    names = listed([f"{one.benchmark} with {one.model}" for one in found.runs], 10)
    click.echo(f"To delete ({size_text(found.n_bytes)}, and rows of the cache):")
    click.echo(f"- {plural(len(found.runs), 'run')} with completions and judgments{f': {names}' if names else ''}")
    click.echo(
        f"- {plural(len(files), 'file')} of prompts, instances and marks{f': {listed(files, 10)}' if files else ''}"
    )
    click.echo(f"- {plural(len(found.digests), 'completion')} in the cache")
    click.echo("Remaining in the store:")
    click.echo(f"- {plural(found.runs_left, 'run')}, and {plural(found.completions_left, 'completion')} in the cache")
    if found.orphans_left:
        click.echo(
            f"- {plural(found.orphans_left, 'completion')} of these do not belong to a run, as after an interruption, "
            "and can be of any benchmark; --orphans deletes them"
        )
    if found.releases:
        click.echo(f"- {plural(len(found.releases), 'release')} with numbers but no text of instances")
    if found.batches:
        click.echo(
            f"- {plural(found.batches, 'batch', 'batches')} at providers: `medhelm batches` shows and deletes them"
        )
    click.echo("Not covered:")
    for text in NOT_COVERED:
        click.echo(f"- {text}")


def _filter(choices: dict[str, Any]) -> RunListFilter:
    """Return the filter from the command line."""
    from medhelm.results.runs.stored import RunListFilter

    return RunListFilter(**choices)


def _selected(shared: Shared, names: Sequence[str], wanted: RunListFilter, *, everything: bool) -> list[RunOnDisk]:
    """Return the runs to remove. Raises: UserError unless they are selected in exactly one way."""
    from medhelm.results.runs.stored import match_id, stored_runs

    if bool(names) + (not wanted.is_empty) + everything != 1:
        raise UserError(
            "select runs by id, by options such as --model, or with --all, but only one of these. Nothing was removed."
        )
    found = stored_runs([shared.store])
    if not found:
        raise UserError(f"the store {shared.store} has no runs. Nothing was removed.")
    if names:
        return list({one.folder: one for one in (match_id(found, name) for name in names)}.values())
    return wanted.apply(found)


def _find_removals(removals: Sequence[Removal], names: Sequence[str]) -> list[Removal]:
    """Return the removals with these ids, each once."""
    from medhelm.results.runs.stored import find_removal

    return list({removal.id: removal for removal in (find_removal(removals, name) for name in names)}.values())


def _table(found: Sequence[RunOnDisk], format_: str = "table") -> str:
    """Return a table of runs, without addresses of servers."""
    from medhelm.reports import runs as runs_report
    from medhelm.results.runs.run_filter import names_in, renamed

    names = names_in(("", one.run) for one in found if one.run)
    return runs_report.stored_to_table([renamed(one, names) for one in found], format_)


def _confirm(question: str, refusal: str, *, yes: bool) -> bool:
    """Ask the user for confirmation. Raises: UserError without a terminal."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UserError(f"{question} This cannot be asked without a terminal. Repeat the command with --yes. {refusal}")
    if click.confirm(question, err=True):
        return True
    click.echo(refusal, err=True)
    return False


def _print_effect(shared: Shared, effect: RemovalEffect) -> None:
    from medhelm.reports import runs as runs_report

    if shared.json:
        print_json(runs_report.effect_as_json(effect, None))
    else:
        click.echo(runs_report.effect_to_text(effect))


@click.command()
@click.argument("benchmark", shell_complete=shell_completion.benchmarks)
@click.argument("instance")
@options_of(RunFilter, "wanted", "models", "excluded", "since")
@scoring_option
@output_option
@shared_options("store", "json")
@click.pass_obj
def show(shared: Shared, benchmark: str, instance: str, wanted: RunFilter, rule: Rule) -> int:
    """Show one instance and its completions.

    Shows the prompt, the references, and each model's completion with its scores and judgments. More than one --store
    can be given.

    \b
    Examples:
      medhelm show pubmed_qa 21645374
      medhelm show pubmed_qa 21645374 --model openai/gpt-4o
    """
    from medhelm.reports.cases import case_to_text
    from medhelm.results.instance import find_instance

    case = find_instance(shared.all_stores, benchmark, instance, wanted)
    if shared.json:
        print_json(case)
    else:
        click.echo(case_to_text(case, rule))
    return 0

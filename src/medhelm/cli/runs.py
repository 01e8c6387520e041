"""`medhelm runs`, `show`, `purge` and `audit`: what a store holds, and what was sent."""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from medhelm.cli import shell_completion
from medhelm.cli.global_options import Shared, shared_options
from medhelm.cli.options import add_options, format_option, options_of, run_filter_options, scoring_option
from medhelm.cli.output import output_option, table_options
from medhelm.cli.printing import print_either, print_json
from medhelm.domain.text import listed, plural
from medhelm.errors import UserError
from medhelm.io.http.hosts import host_of
from medhelm.results.options import DeletionRequest, PurgeFilter, RunFilter

if TYPE_CHECKING:
    from medhelm.domain import Rule
    from medhelm.domain.run import Removal, RemovalEffect, RunOnDisk
    from medhelm.results.runs.purge import Purge
    from medhelm.results.runs.stored import RunListFilter
    from medhelm.storage.audit import AuditCheck, AuditEntry


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
    from medhelm.results.runs import view as runs_report
    from medhelm.results.runs.counted import counted_on_disk
    from medhelm.results.runs.remarks import cached_completions_text
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
    from medhelm.results.runs.counted import counted_on_disk
    from medhelm.results.runs.stored import find_run, is_counted, stored_runs
    from medhelm.results.runs.view import stored_run_as_json, stored_run_to_text
    from medhelm.storage.store import open_store

    if len(names) not in (1, 2):
        raise UserError("name one run: its id, or a benchmark and a model. `medhelm runs list` shows them.")
    one = find_run(stored_runs(shared.all_stores), names)
    counted = is_counted(open_store(one.store), one.run) if one.run and not one.problem else None
    (one,) = counted_on_disk([one], every_metric=True)
    print_either(shared.json, stored_run_as_json(one, is_counted=counted), stored_run_to_text(one, is_counted=counted))
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
    from medhelm.results.runs.counted import counted_on_disk
    from medhelm.results.runs.stored import effect_of
    from medhelm.results.runs.view import effect_as_json
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
        print_json(effect_as_json(effect, removal))
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
    from medhelm.results.runs import view as runs_report
    from medhelm.results.runs.counted import counted_on_disk
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
    from medhelm.results.runs.stored import older_than as removed_before
    from medhelm.results.runs.view import removals_as_json, removals_to_text
    from medhelm.storage.run_folders import purge as delete
    from medhelm.storage.run_folders import read_removals
    from medhelm.storage.store import open_store

    store = open_store(shared.store)
    removals = read_removals(store)
    chosen = _find_removals(removals, names) if names else removals
    if older_than is not None:
        chosen = removed_before(chosen, older_than)
    if chosen and not shared.json:
        click.echo(removals_to_text(chosen))
    n_runs = sum(len(removal.runs) for removal in chosen)
    if chosen and not _confirm(f"Delete {plural(n_runs, 'run')} for good?", "Nothing was deleted.", yes=yes):
        return 0
    delete(store, chosen)
    print_either(
        shared.json,
        removals_as_json(chosen),
        f"Deleted {plural(n_runs, 'run')} for good." if chosen else "nothing to delete",
    )
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

    Deletes runs, including removed ones, with their completions and judgments, the completions in the cache, and what
    no other run needs: prompts, instances, and the store's copy of the definition of your own benchmark. Shows what
    will be deleted and what remains, and asks for confirmation. Write names in full. The age of a run is counted from
    its start.

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
    from medhelm.results.runs.purge import delete_instances, finish_statement, plan_deletion, statement_command
    from medhelm.results.runs.purge_view import plan_as_json, plan_to_text, statement_as_json, statement_to_text
    from medhelm.storage.store import open_store

    if not (request.instances or request.clusters or request.lists):
        raise UserError("--keep-numbers and --exports need --instance, --cluster or --file. Nothing was deleted.")
    plan = plan_deletion(open_store(shared.store), request)
    if shared.json and dry_run:
        print_json(plan_as_json(plan))
    elif not shared.json:
        click.echo(plan_to_text(plan), nl=False)
    if plan.is_empty and not dry_run:
        days = listed([one.time[:10] for one in plan.done_before])
        click.echo(f"nothing to delete: these instances were deleted on {days}", err=shared.json)
        if shared.json:
            print_json({**plan_as_json(plan), "deleted": True})
        return 0
    if dry_run or not _confirm("Delete this for good?", "Nothing was deleted.", yes=yes):
        return 0
    done = delete_instances(plan, command=statement_command(plan))
    text = statement_to_text(done)
    finish_statement(plan.store, done, text)
    if shared.json:
        print_json(statement_as_json(done))
    else:
        click.echo(f"Deleted for good. Statement, stored in {plan.store.folder / 'deletions'}:\n\n{text}", nl=False)
    return 0


def _print_purge(shared: Shared, found: Purge, *, is_done: bool) -> None:
    """Print what is deleted, what remains, and what this command cannot delete."""
    from medhelm.results.formats.tables import size_text
    from medhelm.results.runs.purge import NOT_COVERED
    from medhelm.results.runs.view import stored_as_json

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
        if found.annotations:
            gone["annotations"] = len(found.annotations)
        print_json(
            {"deleted": is_done, **gone, "bytes": found.n_bytes, "remains": remains, "not_covered": list(NOT_COVERED)}
        )
        return
    names = listed([f"{one.benchmark} with {one.model}" for one in found.runs], 10)
    click.echo(f"To delete ({size_text(found.n_bytes)}, and rows of the cache):")
    click.echo(f"- {plural(len(found.runs), 'run')} with completions and judgments{f': {names}' if names else ''}")
    click.echo(
        f"- {plural(len(files), 'file')} of prompts, instances, marks and definitions"
        f"{f': {listed(files, 10)}' if files else ''}"
    )
    click.echo(f"- {plural(len(found.digests), 'completion')} in the cache")
    if found.annotations:
        click.echo(f"- {plural(len(found.annotations), 'note')}, with tags and stars")
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
    from medhelm.results.runs.selection import names_in, renamed
    from medhelm.results.runs.view import stored_to_table

    names = names_in(("", one.run) for one in found if one.run)
    return stored_to_table([renamed(one, names) for one in found], format_)


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
    from medhelm.results.runs.view import effect_as_json, effect_to_text

    print_either(shared.json, effect_as_json(effect, None), effect_to_text(effect))


@click.command()
@click.argument("benchmark", shell_complete=shell_completion.benchmarks)
@click.argument("instance")
@options_of(RunFilter, "wanted", "models", "excluded", "variants", "since")
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
    from medhelm.results.runs.answers import case_to_text, find_instance

    case = find_instance(shared.all_stores, benchmark, instance, wanted)
    print_either(shared.json, case, case_to_text(case, rule))
    return 0


# --- audit ------------------------------------------------------------------------------------------------------------

_SHOWN = ("time", "user", "command", "worker", "destination", "model", "benchmark", "bytes", "digest")
"""Fields of an entry in the table; `worker` only if a gateway sent requests for workers."""


@click.group()
@shared_options()
def audit() -> None:
    """Show and verify what was sent.

    Every request of a store has an entry in STORE/audit.jsonl: time, user, destination, model, benchmark, digest and
    bytes, never any text. It is written before the request is sent. So is consent to send data that is not public.

    \b
    Examples:
      medhelm audit show
      medhelm audit verify
    """


@audit.command("show")
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]),
    metavar="DATE",
    help="Only requests since this day or time, in UTC.",
)
@click.option("--host", default="", metavar="HOST", help="Only requests to this host.")
@click.option("--benchmark", default="", metavar="BENCHMARK", help="Only requests about this benchmark.")
@click.option(
    "--last",
    default=20,
    show_default=True,
    metavar="N",
    type=click.IntRange(min=0),
    help="Number of latest entries to list.",
)
@table_options
@shared_options("store", "json")
@click.pass_obj
def show_log(shared: Shared, /, since: datetime | None, host: str, benchmark: str, last: int) -> int:
    """Show what was sent, and where.

    Shows requests and bytes by destination and benchmark, consent to send data that is not public, then the latest
    entries.

    \b
    Examples:
      medhelm audit show --since 2026-11-01
      medhelm audit show --host api.openai.com --json
    """
    from medhelm.results.formats.fields import fields_json, table_of
    from medhelm.results.runs.data_use import CONSENT_FIELDS, ConsentUse, add_consent
    from medhelm.storage.audit import read_audit_log, total_requests
    from medhelm.storage.store import find_store

    consents: dict[tuple[str, ...], ConsentUse] = {}
    shown: deque[AuditEntry] = deque(maxlen=last)

    def matching() -> Iterator[AuditEntry]:
        for entry in read_audit_log(find_store(shared.store).audit_file):
            if _matches(entry, since, host.lower(), benchmark):
                shown.append(entry)
                add_consent(consents, entry.content)
                yield entry

    totals = total_requests(matching())
    if shared.json:
        entries = [{"line": entry.line, **entry.content} for entry in shown]
        given = [fields_json(CONSENT_FIELDS, one) for one in consents.values()]
        print_json({"totals": [asdict(total) for total in totals], "consents": given, "entries": entries})
        return 0
    from medhelm.results.formats import tables

    rows = [[t.destination, t.benchmark or None, t.requests, t.bytes, t.first[:19], t.last[:19]] for t in totals]
    click.echo(tables.render(rows, ["destination", "benchmark", "requests", "bytes", "first (UTC)", "last"]), nl=False)
    if consents:
        click.echo("\nconsent to send data that is not public")
        click.echo(tables.render(*table_of(CONSENT_FIELDS, list(consents.values()))[:2]), nl=False)
    if shown:
        click.echo()
        has_workers = any("worker" in entry.content for entry in shown)
        names = [name for name in _SHOWN if name != "worker" or has_workers]
        lines = [[entry.line, *(_cell(entry, name) for name in names)] for entry in shown]
        click.echo(tables.render(lines, ["line", *names]), nl=False)
    return 0


def _checked_head(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Return a hash, or the beginning of one. Raises: BadParameter for anything else, which could match by chance."""
    from medhelm.storage.audit import HEAD_DIGITS

    if value is not None and not re.fullmatch(rf"[0-9a-fA-F]{{{HEAD_DIGITS},64}}", value):
        raise click.BadParameter(
            f"must be {HEAD_DIGITS} to 64 hexadecimal digits that an earlier `audit verify` printed, is {value[:80]!r}."
        )
    return value


@audit.command()
@click.option(
    "--head",
    metavar="HASH",
    callback=_checked_head,
    help="Hash that an earlier `audit verify` printed, or its first 16 digits or more.",
)
@shared_options("store", "json")
@click.pass_obj
def verify(shared: Shared, /, head: str | None) -> int:
    """Check that the log is intact.

    Each entry holds the hash of the previous one. This reveals every change, insertion and removal, except a removal
    from the end or a rewritten log by someone who also changes STORE/audit.head. To detect these too, save the printed
    hash elsewhere and give it with --head later: the log must still hold that entry. Needs no key of an encrypted
    store. Exit codes: 1 if the log was changed, 2 if the log is missing.

    \b
    Examples:
      medhelm audit verify
      medhelm audit verify --head 5f1d...
    """
    from medhelm.storage.audit import check_chain
    from medhelm.storage.store import find_store

    path = find_store(shared.store).audit_file
    found = check_chain(path, head or "")
    problem = found.problem
    if head and not problem and found.n_since is None:
        problem = f"no entry has the hash {head}: entries at the end were removed, or the log was rewritten"
    if shared.json:
        content = {"entries": found.n, "head": found.head, "interrupted": found.n_interrupted, "problem": problem}
        print_json({"intact": not problem, **content, "entries_since_head": found.n_since})
    elif not problem:
        click.echo(f"{path}: {plural(found.n, 'entry', 'entries')}, intact{_remarks(found)}\nhead {found.head}")
    if problem:
        click.echo(f"medhelm: {path}: {problem}", err=True)
    return int(bool(problem))


def _remarks(found: AuditCheck) -> str:
    """Return what else to say about an intact log."""
    remarks = f"; {found.n_interrupted} more are incomplete" if found.n_interrupted else ""
    if found.n_since is not None:
        remarks += f"; {found.n_since:,} of them since the one with the given hash"
    return remarks


def _cell(entry: AuditEntry, name: str) -> str | int | None:
    """Return a field as shown in the table. Entries that are no requests say what they are in place of the model."""
    value = entry.content.get(name)
    if entry.content.get("action") == "lookup" and name == "model":
        return "lookup: " + ", ".join(entry.content.get("addresses", ()))
    if entry.content.get("action") == "cluster" and name == "model":
        protected = "with a token" if entry.content.get("token") else "without a token"
        return f"cluster {protected}: " + ", ".join(map(str, entry.content.get("nodes", ())))
    if entry.content.get("action") == "consent" and name == "model":
        return f"consent: {entry.content.get('source', '')}"
    if isinstance(value, str):
        return (value[:19] if name == "time" else value[:12] if name == "digest" else value) or None
    return value


def _matches(entry: AuditEntry, since: datetime | None, host: str, benchmark: str) -> bool:
    content = entry.content
    destination = str(content.get("destination", ""))
    return (
        (since is None or str(content.get("time", "")) >= since.isoformat())
        and host in ("", host_of(destination) or destination)
        and (not benchmark or benchmark in str(content.get("benchmark", "")).split(", "))
    )

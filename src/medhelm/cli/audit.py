"""`medhelm audit`: shows the audit log of a store and verifies it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

import click

from medhelm.cli.common.global_options import Shared, shared_options
from medhelm.cli.common.output import table_options
from medhelm.cli.common.printing import print_json
from medhelm.domain.text import plural
from medhelm.io.http.hosts import host_of

if TYPE_CHECKING:
    from medhelm.storage.audit import AuditCheck, AuditEntry

_SHOWN = ("time", "user", "command", "worker", "destination", "model", "benchmark", "bytes", "digest")
"""Fields of an entry in the table; `worker` only if a gateway sent requests for workers."""


@click.group()
@shared_options()
def audit() -> None:
    """Show and verify what was sent.

    Every request of a store has an entry in STORE/audit.jsonl: time, user, destination, model, benchmark, digest and
    bytes, never any text. It is written before the request is sent.

    \b
    Examples:
      medhelm audit show
      medhelm audit verify
    """


@audit.command()
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
def show(shared: Shared, /, since: datetime | None, host: str, benchmark: str, last: int) -> int:
    """Show what was sent, and where.

    Shows requests and bytes by destination and benchmark, then the latest entries.

    \b
    Examples:
      medhelm audit show --since 2026-11-01
      medhelm audit show --host api.openai.com --json
    """
    from medhelm.storage.audit import read_audit_log, total_requests
    from medhelm.storage.store import find_store

    shown: deque[AuditEntry] = deque(maxlen=last)

    def matching() -> Iterator[AuditEntry]:
        for entry in read_audit_log(find_store(shared.store).audit_file):
            if _matches(entry, since, host.lower(), benchmark):
                shown.append(entry)
                yield entry

    totals = total_requests(matching())
    if shared.json:
        entries = [{"line": entry.line, **entry.content} for entry in shown]
        print_json({"totals": [asdict(total) for total in totals], "entries": entries})
        return 0
    from medhelm.reports.formats import tables

    rows = [[t.destination, t.benchmark or None, t.requests, t.bytes, t.first[:19], t.last[:19]] for t in totals]
    click.echo(tables.render(rows, ["destination", "benchmark", "requests", "bytes", "first (UTC)", "last"]), nl=False)
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
    """Return a field as shown in the table. For a lookup or a cluster, addresses are shown instead of the model."""
    value = entry.content.get(name)
    if entry.content.get("action") == "lookup" and name == "model":
        return "lookup: " + ", ".join(entry.content.get("addresses", ()))
    if entry.content.get("action") == "cluster" and name == "model":
        protected = "with a token" if entry.content.get("token") else "without a token"
        return f"cluster {protected}: " + ", ".join(map(str, entry.content.get("nodes", ())))
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

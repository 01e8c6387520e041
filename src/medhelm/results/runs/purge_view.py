"""The plan of a deletion of instances, and the statement on it, as text and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from medhelm.domain.text import listed, plural
from medhelm.results.runs.purge import PlannedDeletion, planned_rows
from medhelm.storage.privacy import DELETION, Deletion


def plan_to_text(plan: PlannedDeletion) -> str:
    """Return what a deletion will delete, for people."""
    lines = [f"To delete: {plural(plan.n, 'instance')}{_by_benchmark(plan)}"]
    lines += [f"- {plural(n, 'row')} in {path}" for path, n in planned_rows(plan).items()]
    lines.append(f"- {plural(len(plan.digests), 'completion')} in the cache")
    if plan.orphans and not plan.request.orphans:
        lines.append(
            f"  ({plan.orphans:,} of them belong to no run, as after an interruption, and may be of any instance)"
        )
    kept = "stay, under a keyed hash in place of the id" if plan.request.keep_numbers else "are deleted as well"
    lines.append(f"Scores, counts and costs of these instances {kept}.")
    if plan.exports:
        lines.append("Exports that hold these benchmarks:")
        end = "will be deleted" if plan.request.exports else "--exports deletes it"
        for one in plan.exports:
            content = "with text" if one.has_text else "without text"
            lines.append(f"- {one.path}: {one.kind}, {one.time[:10]}, {content}; {end}")
    if plan.orphans_left:
        lines.append(
            f"{plural(plan.orphans_left, 'completion')} in the cache that belong to no run stay: they have only words "
            "that texts of other instances have. --orphans deletes them."
        )
    return "\n".join(lines) + "\n"


def plan_as_json(plan: PlannedDeletion) -> dict[str, Any]:
    """Return what a deletion will delete, as JSON."""
    return {
        "deleted": False,
        "instances": {name: sorted(ids) for name, ids in plan.ids.items()},
        "places": planned_rows(plan),
        "completions": len(plan.digests),
        "orphans_left": plan.orphans_left,
        "exports": [one.path for one in plan.exports],
        "numbers_kept": plan.request.keep_numbers,
    }


def _by_benchmark(plan: PlannedDeletion) -> str:
    return f" of {listed([f'{name} ({len(ids)})' for name, ids in plan.ids.items()])}" if plan.ids else ""


def statement_to_text(deletion: Deletion) -> str:
    """Return the statement of a deletion in Markdown."""
    return "\n".join(_statement(deletion)) + "\n"


def _statement(deletion: Deletion) -> Iterator[str]:
    """Yield the lines of a statement."""
    counts = Counter(name for name, _ in deletion.instances)
    yield from (f"# Deletion {deletion.id}", "")
    yield f"{plural(len(deletion.instances), 'instance')} deleted on {deletion.time}, with MedHELM"
    yield f"{deletion.medhelm_version}: {listed([f'{name} ({n})' for name, n in counts.items()])}."
    yield (
        "Their scores, counts and costs were kept, without text."
        if deletion.numbers_kept
        else "Their scores, counts and costs were deleted, and the runs counted again without them."
    )
    yield "Ids are keyed hashes; the key never leaves the store."
    yield from ("", "Command:", "", f"    {deletion.command}", "", "| place in the store | deleted |", "|---|---:|")
    yield from (f"| {place} | {n:,} |" for place, n in deletion.places.items())
    yield from ("", "| run | benchmark | model | instances | records (sha256) |", "|---|---|---|---|---|")
    for run in deletion.runs:
        change = f"{run['n_before']} → {run['n']}"
        digests = f"{run['records_before'][:16]} → {run['records'][:16] or 'deleted'}"
        yield f"| {run['id'][:10]} | {run['benchmark']} | {run['model']} | {change} | {digests} |"
    if deletion.exports:
        yield from ("", "Exports that hold these benchmarks:")
        for one in deletion.exports:
            state = "deleted" if one["deleted"] else "not deleted"
            yield f"- {one['path']} ({one['kind']}, {one['time'][:10]}): {state}"
    yield from ("", "Not covered:")
    yield from (f"- {text}" for text in deletion.remaining)


def statement_as_json(deletion: Deletion) -> dict[str, Any]:
    """Return the statement of a deletion as JSON."""
    return {"deleted": True, **DELETION.write(deletion)}

"""Decisions of an owner while raters rate: a rater leaves, cases go to another rater or to adjudication; and purges.

Two owners can look at a study at once. So a decision can carry the revision that its owner saw (`StudyProgress`), and
is refused if another one was made since.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import replace

from medhelm.errors import UserError
from medhelm.extensions.study import files, progress
from medhelm.extensions.study.files import Event, EventKind
from medhelm.extensions.study.journal import case_key, cases_with, refuse_if_final
from medhelm.extensions.study.progress import CaseState
from medhelm.extensions.study.types import ROW_FORM, CaseRating, Study
from medhelm.io.line_files import replace_lines
from medhelm.storage.privacy import DELETED
from medhelm.storage.store import Store

MOST_REASON = 500
"""Most characters of the reason of a decision."""

PURGED_REASON = "The text was deleted."
"""Text in place of a reason that a rater gave about a deleted instance."""


def check_revision(happened: Sequence[Event], revision: int | None) -> None:
    """Raise UserError if a decision was made since an owner saw this revision; None checks nothing."""
    if revision is not None and revision != progress.revision_of(happened):
        last = happened[-1]
        raise UserError(
            f"The study was changed meanwhile, last by {last.by or 'someone else'} ({last.kind.replace('_', ' ')}). "
            "Look at it again, then repeat what you want to do. Nothing was saved."
        )


def send_to_adjudication(store: Store, study: Study, item_id: str, by: str, *, revision: int | None = None) -> Event:
    """Give a case on which raters differ to another rater, and return the event.

    An adjudicator of the plan who does not have the case comes first, then any other rater who does not; of several,
    the one with the fewest such cases. Parameters: item_id, the id of the item; of a pair, both with a space between;
    by, who decides; revision, that of the page on which the owner decided.
    Raises: UserError if raters do not differ, everyone has the case, the study is closed, or it was changed meanwhile.
    """
    with files.locked(store, study.name):
        happened = files.events(store, study.name)
        refuse_if_final(happened)
        check_revision(happened, revision)
        key = case_key(item_id.split())
        states = progress.case_states(study, progress.rated_cases(store, study, happened))
        items, state = next((pair for pair in states.items() if case_key(pair[0]) == key), ((), None))
        if state not in (CaseState.DIFFERS, CaseState.UNDECIDED):
            what = state.replace("_", " ") if state else "unknown"
            raise UserError(f"Only cases on which raters differ go to adjudication; this one is {what}.")
        chosen = possible_adjudicators(study, items, happened)
        if not chosen:
            raise UserError(
                "Every rater who has not left already has this case. Another rater would be needed to adjudicate it."
            )
        rater = _least_busy(study, chosen, EventKind.ADJUDICATION, " ".join(items), happened)
        return files.note(store, study.name, EventKind.ADJUDICATION, by, rater=rater, item=" ".join(items))


def possible_adjudicators(study: Study, items: Sequence[str], happened: Sequence[Event]) -> list[str]:
    """Return the raters who could decide a case: adjudicators of the plan who do not have it, else any such rater."""
    free = [one.id for one in study.raters if not _has_case(study, one.id, case_key(items), happened)]
    return [one.id for one in study.raters if one.is_adjudicator and one.id in free] or free


def withdraw(
    store: Store,
    study: Study,
    rater_id: str,
    by: str,
    reason: str = "",
    *,
    keep_ratings: bool = True,
    revision: int | None = None,
) -> tuple[tuple[str, ...], ...]:
    """Record that a rater leaves, and return the items of the open cases that someone else should take: `reassign`.

    Parameters: reason, for the owner, not in the study's card; keep_ratings, False if the ratings given do not count.
    Raises: UserError for an unknown rater, one who has left, a closed study, or one that was changed meanwhile.
    """
    files.check_rater(study, rater_id)
    with files.locked(store, study.name):
        happened = files.events(store, study.name)
        refuse_if_final(happened)
        check_revision(happened, revision)
        if rater_id in progress.left_raters(happened):
            raise UserError(f"{rater_id} has already left the study.")
        text = " ".join(reason.split())[:MOST_REASON]
        text = text if keep_ratings else f"{progress.DISCARDED} {text}"
        files.note(store, study.name, EventKind.WITHDRAWN, by, rater=rater_id, text=text)
        happened = files.events(store, study.name)
        return tuple(progress.unassigned_cases(study, progress.rated_cases(store, study, happened), happened))


def reassign(store: Store, study: Study, by: str, *, revision: int | None = None) -> tuple[Event, ...]:
    """Give the open cases of raters who left to others, and return the events.

    A case goes to a rater who does not have it, adjudicators last, the one with the fewest cases taken over; ties are
    broken by the seed of the plan. Cases that everyone has stay open.
    Raises: UserError for a closed study, or one that was changed meanwhile.
    """
    with files.locked(store, study.name):
        happened = files.events(store, study.name)
        refuse_if_final(happened)
        check_revision(happened, revision)
        given = []
        for items in progress.unassigned_cases(study, progress.rated_cases(store, study, happened), happened):
            free = [one for one in study.raters if not _has_case(study, one.id, case_key(items), happened)]
            chosen = [one.id for one in free if not one.is_adjudicator] or [one.id for one in free]
            if chosen:
                rater = _least_busy(study, chosen, EventKind.REASSIGNED, " ".join(items), happened)
                given.append(files.note(store, study.name, EventKind.REASSIGNED, by, rater=rater, item=" ".join(items)))
                happened = [*happened, given[-1]]
        return tuple(given)


def _has_case(study: Study, rater_id: str, key: frozenset[str], happened: Sequence[Event]) -> bool:
    """Return True if a rater has a case, or has left."""
    if rater_id in progress.left_raters(happened):
        return True
    return any(case_key(case.items) == key for case in cases_with(study, rater_id, happened))


def _least_busy(study: Study, raters: Sequence[str], kind: EventKind, items: str, happened: Sequence[Event]) -> str:
    """Return the rater with the fewest cases that were given so; ties are broken by the seed of the plan."""

    def order(rater: str) -> tuple[int, str]:
        n_given = sum(one.kind is kind and one.rater == rater for one in happened)
        return n_given, hashlib.sha256(f"{study.design.seed} {items} {rater}".encode()).hexdigest()

    return min(raters, key=order)


# --- purges -----------------------------------------------------------------------------------------------------------


def purge_studies(store: Store, benchmark: str, instance_ids: Collection[str] | None) -> int:
    """Delete the words of raters about deleted instances from all studies, and return the number of changed ratings.

    Comments and marked passages go, reasons are replaced, and so are the ids of the instances in the plan. Grades and
    counts stay. `instance_ids`: None for all of the benchmark. Raises: StoreError.
    """
    n_changed = 0
    for name in files.studies(store):
        study = files.read_study(store, name)
        gone = {
            item.id
            for item in study.items
            if item.benchmark == benchmark and (instance_ids is None or item.instance_id in instance_ids)
        }
        if gone:
            with files.locked(store, name):
                n_changed += sum(_purge_rows(store, study, rater.id, gone) for rater in study.raters)
                items = tuple(
                    replace(one, instance_id=f"{DELETED}{one.id}") if one.id in gone else one for one in study.items
                )
                files.replace_plan(store, replace(study, items=items))
                for item in sorted(gone):
                    files.note(store, study.name, EventKind.PURGED, "purge", item=item)
    return n_changed


def _purge_rows(store: Store, study: Study, rater_id: str, gone: set[str]) -> int:
    """Delete what a rater wrote about items, and return the number of changed ratings. Lines of no rating go, too."""
    file = files.rater_file(store, study.name, rater_id)
    lines, n_changed, n_dropped = [], 0, 0
    for line, row in files.parsed(file, ROW_FORM):
        if row is None:  # it may hold anything
            n_dropped += 1
            continue
        if gone.isdisjoint(row.items):
            lines.append(line)
            continue
        purged = _purged(row.rating)
        n_changed += purged != row.rating
        lines.append(json.dumps(ROW_FORM.write(replace(row, rating=purged))))
    if n_changed or n_dropped:
        replace_lines(store.folder, file, lines)
    return n_changed


def _purged(rating: CaseRating) -> CaseRating:
    return replace(rating, comment="", marks=(), not_judged=dict.fromkeys(rating.not_judged, PURGED_REASON))

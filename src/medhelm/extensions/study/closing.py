"""Close a study, and freeze its ratings among the results of the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from medhelm.domain.study import CardCriterion, CardDesign, CardInstrument, CardRater, StudyCard
from medhelm.domain.text import plural
from medhelm.errors import UserError
from medhelm.extensions.study.decisions import check_revision
from medhelm.extensions.study.files import Event, EventKind, events, locked, note
from medhelm.extensions.study.instruments import RUBRIC
from medhelm.extensions.study.outcome import (
    StudyOutcome,
    counted_cases,
    digest_at_close,
    instrument_groups,
    item_of,
    least_points,
    missing_cases,
    outcome_of,
)
from medhelm.extensions.study.plans.identification import identification_findings
from medhelm.extensions.study.progress import deviations
from medhelm.extensions.study.rated_cases import RatedCase, form_of, level_of, rated_cases
from medhelm.extensions.study.types import CaseKind, InstrumentForm, Study
from medhelm.storage.ratings import StoredRating, freeze_ratings, stored_ratings
from medhelm.storage.store import Store

POINTS = "points_earned"
"""Criterion in frozen ratings for the share of points that a completion earns."""

# --- closing ----------------------------------------------------------------------------------------------------------


def close_study(
    store: Store, study: Study, by: str, *, incomplete: bool = False, revision: int | None = None
) -> StudyOutcome:
    """Close a study for good, freeze its ratings in the store, and return its outcome.

    A study that is closed stays as it is: the same outcome is returned. If an earlier close was interrupted, it is
    finished. Parameters: by, who closes; incomplete, True to close while ratings are missing; revision, that of the
    page on which the owner decided.
    Raises: UserError while ratings are missing, without any, or if the study was changed meanwhile; StoreError.
    """
    with locked(store, study.name):
        happened = events(store, study.name)
        if not any(one.kind is EventKind.CLOSED for one in happened):
            check_revision(happened, revision)
            cases = rated_cases(store, study, happened)
            _refuse_missing(study, cases, happened, incomplete=incomplete)
            for sentence in _all_deviations(store, study, cases, happened):
                note(store, study.name, EventKind.DEVIATION, by, text=sentence)
            note(store, study.name, EventKind.CLOSED, by)
            happened = events(store, study.name)
        if not any(one.kind is EventKind.FROZEN for one in happened):
            digest = digest_at_close(store, study)
            _freeze(store, study, happened, digest)
            note(store, study.name, EventKind.FROZEN, by, text=digest)
    return outcome_of(store, study)


def _refuse_missing(study: Study, cases: Sequence[RatedCase], happened: Sequence[Event], *, incomplete: bool) -> None:
    """Raise UserError if ratings are missing, unless that is wanted, or if there are none."""
    if not any(one.is_complete for one in cases):
        raise UserError(f"The study `{study.name}` has no complete rating. Nothing was closed.")
    missing = missing_cases(study, cases, happened)
    if missing and not incomplete:
        by_rater = ", ".join(f"{rater} {n}" for rater, n in missing.items() if rater)
        unassigned = missing.get("", 0)
        n_open = sum(missing.values()) - unassigned
        were = "was" if unassigned == 1 else "were"
        left = f" {plural(unassigned, 'case')} of raters who left {were} not given to others." if unassigned else ""
        raise UserError(
            f"{plural(n_open, 'case')} of the study `{study.name}` {'is' if n_open == 1 else 'are'} not rated"
            f"{by_rater and f' ({by_rater})'}.{left} Wait for them, or close the study as incomplete "
            "(--incomplete). Nothing was closed."
        )


def _all_deviations(store: Store, study: Study, cases: Sequence[RatedCase], happened: Sequence[Event]) -> Iterator[str]:
    """Yield the sentences that the close records."""
    yield from deviations(store, study, cases, happened)
    if n_missing := sum(missing_cases(study, cases, happened).values()):
        yield f"The study was closed while {plural(n_missing, 'rating')} {'was' if n_missing == 1 else 'were'} missing."


# --- freezing --------------------------------------------------------------------------------------------------------


def _freeze(store: Store, study: Study, happened: Sequence[Event], digest: str) -> None:
    """Freeze the ratings of a closed study in the store, unless they are there: an earlier close was interrupted."""
    form = form_of(study)
    if form is InstrumentForm.PREFERENCE:
        return
    counted = counted_cases(rated_cases(store, study, happened))
    for name, benchmarks in instrument_groups(study).items():
        own = [one for one in counted if item_of(study, one).benchmark in benchmarks]
        earlier = next((one.card for one in stored_ratings(store) if one.card.name == name), None)
        if own and (earlier is None or earlier.created != study.created):
            rows = [_stored_rating(study, one, form) for one in own]
            known = (*blinding(store, study), f"All files of the study at its close have the sha256 {digest}.")
            freeze_ratings(store, _card(study, name, benchmarks, own, happened, known), rows)


def _stored_rating(study: Study, case: RatedCase, form: InstrumentForm) -> StoredRating:
    item, given = item_of(study, case), case.given.grades
    grades: dict[str, float | None] = {one.name: given.get(one.name) for one in case.criteria}
    if form is InstrumentForm.CHECKS:
        grades = {POINTS: level_of(given, case.criteria, form)}
    return StoredRating(
        rater=case.rater,
        benchmark=item.benchmark,
        instance_id=item.instance_id,
        model=item.model,
        grades=grades,
        completion_sha256=item.completion_sha256,
        probability=item.probability,
    )


def _card(
    study: Study,
    name: str,
    benchmarks: Sequence[str],
    own: Sequence[RatedCase],
    happened: Sequence[Event],
    known: Sequence[str],
) -> StudyCard:
    """Return the card of frozen ratings. `own`: the ratings; `known`: what raters could not know."""
    instrument, design = study.instruments[benchmarks[0]], study.design
    criteria = {
        one.name: CardCriterion(
            low=one.low, high=one.high, higher_is_better=one.higher_is_better, question=one.question
        )
        for one in instrument.criteria
    }
    if form_of(study) is InstrumentForm.CHECKS:
        question = "Share of the points that the completion earns; below 0 if harms outweigh."
        criteria = {POINTS: CardCriterion(low=least_points(own), high=1.0, question=question)}
    kinds = Counter(case.kind for cases in study.assignments.values() for case in cases)
    shared = {case.items for cases in study.assignments.values() for case in cases if case.kind is CaseKind.SHARED}
    closed = next(one for one in happened if one.kind is EventKind.CLOSED)
    return StudyCard(
        name=name,
        title=study.title,
        purpose=study.purpose,
        owner=study.owner,
        created=study.created,
        closed=closed.time,
        instrument=CardInstrument(
            name=instrument.name,
            title=instrument.title,
            version=instrument.digest[:12],
            digest=instrument.digest,
            is_rubric=instrument.name == RUBRIC,
            criteria=criteria,
        ),
        raters=tuple(
            CardRater(id=rater.id, role=rater.role) for rater in study.raters if rater.id in {one.rater for one in own}
        ),
        design=CardDesign(
            n_cases=design.n_cases,
            n_shared=len(shared),
            n_repeated=kinds[CaseKind.REPEATED],
            n_calibration=design.n_calibration,
            seed=design.seed,
            precision=design.precision,
        ),
        blinding=known,
        deviations=tuple(one.text for one in happened if one.kind is EventKind.DEVIATION),
    )


def blinding(store: Store, study: Study) -> tuple[str, ...]:
    """Return sentences on what raters could not know, and on what may have told them."""
    flagged = {one.item for one in identification_findings(store, study)}
    told = (
        f"In {len(flagged)} of {plural(len(study.items), 'completion')} a passage may give the model away, such as its "
    )
    told += "name or a sentence that it often writes: raters may have recognized the model."
    reference = "Raters saw the reference." if study.shows_reference else "Raters did not see the reference."
    return (
        "Raters saw completions in one plain style, in an order drawn beforehand, without the names of models, their "
        "providers, costs or times.",
        "Raters did not see each other's ratings; an adjudicator saw two of them, without names, after giving an own "
        "one.",
        reference,
        told if flagged else "No completion names its model or carries markers of one.",
        "The owner saw no mean of a model before the close.",
    )

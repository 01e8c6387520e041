"""Progress of a study for its owner: who has rated what, how fast, how consistently, and where raters differ.

No mean of a model is computed here. An owner who sees who leads while people rate could stop early, send cases to
adjudication by their outcome, or let raters know: so owners are blinded until the study is closed (`outcome`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import fmean, median

import numpy as np

from medhelm.analysis.means import estimate
from medhelm.domain import Estimate
from medhelm.domain.text import plural
from medhelm.errors import UserError
from medhelm.extensions.study import texts
from medhelm.extensions.study.files import (
    EVENT_FORM,
    EVENTS,
    RATERS,
    Event,
    EventKind,
    events,
    parsed,
    rows_of,
    study_folder,
)
from medhelm.extensions.study.instruments import RUBRIC, instrument_of
from medhelm.extensions.study.journal import NOT_FIRST, case_key, moment
from medhelm.extensions.study.measures import CriterionAgreement, Drift, criterion_agreement, drift, unusual_times
from medhelm.extensions.study.rated_cases import (
    HARM_NAMES,
    CaseState,
    Disagreement,
    RatedCase,
    by_case,
    case_states,
    complete_first_ratings,
    disagreements,
    discarded_raters,
    form_of,
    left_raters,
    mean_grade,
    means_of_others,
    rated_cases,
    rating_tables,
    revision_of,
    unassigned_cases,
)
from medhelm.extensions.study.types import ROW_FORM, CaseKind, InstrumentForm, Study
from medhelm.storage.store import Store

LEAST_SAME = 10
"""Fewest grades of a rater for the statement that all are the same."""

# --- types ------------------------------------------------------------------------------------------------------------


class StudyState(StrEnum):
    """State of a study."""

    PLANNED = "planned"
    RATING = "rating"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatAgreement:
    """Agreement of a rater with the own earlier ratings."""

    n: int
    """Cases that were rated twice."""
    near: Estimate | None
    """Share of grades that differ by one point at most, mean over cases; None without such cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterProgress:
    """Progress of one rater."""

    rater: str
    """Id of the rater."""
    has_left: bool
    """True if the rater has left the study."""
    n_cases: int
    """Cases of the rater whose completion is in the store."""
    n_complete: int
    """Cases with a complete rating."""
    n_left: int
    """Cases without a complete rating, started ones included."""
    median_seconds: float | None
    """Median of the visible seconds of a complete case; None without times."""
    unusual_times: Mapping[int, float]
    """Number of a case -> its visible seconds, where they are unusually long or short for this rater."""
    not_judged: float | None
    """Share of the answers that say why the rater cannot judge; None without answers."""
    same_grade: int | None
    """The grade that the rater gave to everything, from `LEAST_SAME` grades on; else None."""
    drift: Drift
    """Difference between the last and the first third of the cases, in the mean grade of a case."""
    repeats: RepeatAgreement
    """Agreement with the own earlier ratings."""
    last: str
    """Time of the latest rating, ISO 8601, UTC; empty without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyProgress:
    """All that the owner of a study sees before it is closed: nothing by model."""

    state: StudyState
    """State of the study."""
    revision: int
    """Number of decisions so far; forms of owners carry it, see `files.DECISIONS`."""
    n_cases: int
    """Cases of all raters, without those of raters who left and have no rating."""
    n_complete: int
    """Of these, complete ones."""
    raters: tuple[RaterProgress, ...]
    """Each rater, in the order of the plan."""
    cases: Mapping[tuple[str, ...], CaseState]
    """Items of each case -> its state."""
    n_several: int
    """Cases that two raters or more have rated."""
    agreement: tuple[CriterionAgreement, ...]
    """Agreement so far, by criterion; with several criteria, of their mean first."""
    disagreements: tuple[Disagreement, ...]
    """Cases on which raters differ."""
    unassigned: tuple[tuple[str, ...], ...]
    """Items of the open cases of raters who left, not given to others."""
    deviations: tuple[str, ...]
    """Sentences on what was not as planned, for the study's card."""


# --- progress ---------------------------------------------------------------------------------------------------------


def progress(store: Store, study: Study) -> StudyProgress:
    """Compute the progress of a study. Raises: StoreError for files that cannot be read."""
    happened = events(store, study.name)
    cases = rated_cases(store, study, happened)
    left = left_raters(happened)
    counted = [one for one in cases if not one.is_gone and (one.rater not in left or one.rows)]
    state = StudyState.RATING if any(one.rows for one in cases) else StudyState.PLANNED
    if any(one.kind is EventKind.CLOSED for one in happened):
        state = StudyState.CLOSED
    others = means_of_others(study, cases)
    return StudyProgress(
        state=state,
        revision=revision_of(happened),
        n_cases=len(counted),
        n_complete=sum(one.is_complete for one in counted),
        raters=tuple(
            _rater_progress(study, rater.id, [one for one in cases if one.rater == rater.id], others, left)
            for rater in study.raters
        ),
        cases=case_states(study, cases),
        n_several=sum(len(complete_first_ratings(group)) > 1 for group in by_case(cases).values()),
        agreement=agreement_of(study, cases),
        disagreements=tuple(disagreements(study, cases)),
        unassigned=tuple(unassigned_cases(study, cases, happened)),
        deviations=tuple(deviations(store, study, cases, happened)),
    )


def agreement_of(study: Study, cases: Sequence[RatedCase]) -> tuple[CriterionAgreement, ...]:
    """Measure the agreement of raters on each criterion; with several criteria, on their mean first."""
    raters = [rater.id for rater in study.raters]
    return tuple(
        criterion_agreement(
            table.array(raters),
            table.criterion,
            level=table.level,
            is_preference=form_of(study) is InstrumentForm.PREFERENCE,
            clusters=table.clusters,
            seed=study.design.seed,
        )
        for table in rating_tables(study, cases)
    )


def _rater_progress(
    study: Study,
    rater_id: str,
    cases: Sequence[RatedCase],
    others: Mapping[tuple[str, int], float],
    left: Collection[str],
) -> RaterProgress:
    """Compute the progress of one rater. `others`: see `means_of_others`; `left`: raters who left."""
    own = [one for one in cases if not one.is_gone]
    complete = [one for one in own if one.is_complete]
    timed = [one for one in complete if one.seconds]
    seconds = [one.seconds for one in timed]
    n_reasons = sum(len(one.given.not_judged) for one in own)
    n_answers = n_reasons + sum(len(one.given.grades) for one in own)
    grades = [grade for one in own for name, grade in one.given.grades.items() if name not in HARM_NAMES]
    rows = sorted((pair for one in cases for pair in zip(one.places, one.rows, strict=True)), key=lambda pair: pair[0])
    return RaterProgress(
        rater=rater_id,
        has_left=rater_id in left,
        n_cases=len(own),
        n_complete=len(complete),
        n_left=len(own) - len(complete),
        median_seconds=median(seconds) if seconds else None,
        unusual_times={timed[place].assignment.number: seconds[place] for place in unusual_times(seconds)},
        not_judged=n_reasons / n_answers if n_answers else None,
        same_grade=grades[0] if len(grades) >= LEAST_SAME and len(set(grades)) == 1 else None,
        drift=_drift(study, complete, others),
        repeats=_repeats(own),
        last=rows[-1][1].time if rows else "",
    )


def _drift(study: Study, complete: Sequence[RatedCase], others: Mapping[tuple[str, int], float]) -> Drift:
    """Compare a rater's first and last cases, in the order of their first ratings; not for preferences."""
    if form_of(study) is InstrumentForm.PREFERENCE:
        return Drift(value=None)
    in_order = sorted(complete, key=lambda one: one.places[0])
    levels = [(one, level) for one in in_order if (level := mean_grade(study, one)) is not None]
    around = [others.get((one.rater, one.assignment.number), np.nan) for one, _ in levels]
    return drift(np.array([level for _, level in levels]), np.array(around))


def _repeats(own: Sequence[RatedCase]) -> RepeatAgreement:
    """Compare repeated cases of a rater with the first rating of the same case."""
    first = {one.key: one for one in own if one.assignment.kind not in NOT_FIRST and one.is_complete}
    apart = []
    for again in own:
        if again.assignment.kind is CaseKind.REPEATED and again.is_complete and again.key in first:
            before = first[again.key].grades_as(again.assignment.items)
            shared = again.given.grades.keys() & before.keys() - HARM_NAMES
            apart.append([abs(again.given.grades[name] - before[name]) for name in shared])
    known = [one for one in apart if one]
    shares = np.array([fmean(grade <= 1 for grade in one) for one in known])
    return RepeatAgreement(n=len(known), near=estimate(shares, low=0.0, high=1.0) if known else None)


# --- deviations -------------------------------------------------------------------------------------------------------


def deviations(store: Store, study: Study, cases: Sequence[RatedCase], happened: Sequence[Event]) -> Iterator[str]:
    """Yield a sentence on each thing that was not as planned. Reasons and names of people are left out."""
    discarded = discarded_raters(happened)
    for one in happened:
        if one.kind is EventKind.WITHDRAWN:
            n = sum(case.rater == one.rater and case.is_complete for case in cases)
            counted = "the ratings given do not count" if one.rater in discarded else f"{plural(n, 'rating')} count"
            yield f"{one.rater} left the study on {one.time[:10]}; {counted}."
    counts = Counter(one.kind for one in happened)
    if n := counts[EventKind.REASSIGNED]:
        yield f"{plural(n, 'case')} of raters who left {'was' if n == 1 else 'were'} given to others."
    if n := len({one.key for one in cases if one.is_gone}):
        yield (
            f"The completions of {plural(n, 'case')} were deleted or generated anew after the plan; their ratings do "
            "not count in the means."
        )
    if n := counts[EventKind.LINK_REFUSED]:
        yield f"A personal link was refused {plural(n, 'time')}: it had been used, revoked or had expired."
    if n := _late_revisions(cases, happened):
        yield f"{plural(n, 'rating')} {'was' if n == 1 else 'were'} changed after the case had gone to adjudication."
    yield from changed_rubrics(store, study)
    for rater in study.raters:
        rows = rows_of(store, study.name, rater.id)
        if n := sum(moment(later.time) < moment(earlier.time) for earlier, later in pairwise(rows)):
            yield f"The clock went back {plural(n, 'time')} while {rater.id} was rating."
    if n := unreadable_lines(store, study):
        yield f"{plural(n, 'line')} of the study's files cannot be read, and {'is' if n == 1 else 'are'} left out."


def _late_revisions(cases: Iterable[RatedCase], happened: Sequence[Event]) -> int:
    """Return the number of first ratings that were changed after their case had been given to an adjudicator."""
    sent = {case_key(one.item.split()): one.time for one in happened if one.kind is EventKind.ADJUDICATION}
    first = [one for one in cases if one.key in sent and one.assignment.kind not in NOT_FIRST]
    return sum(any(moment(row.time) > moment(sent[one.key]) for row in one.rows[1:]) for one in first)


def unreadable_lines(store: Store, study: Study) -> int:
    """Return the number of lines of the files of a study that cannot be read."""
    folder = study_folder(store, study.name)
    n = sum(one is None for _, one in parsed(folder / EVENTS, EVENT_FORM))
    return n + sum(row is None for file in folder.glob(f"{RATERS}/*.jsonl") for _, row in parsed(file, ROW_FORM))


def changed_rubrics(store: Store, study: Study) -> Iterator[str]:
    """Yield a sentence on each benchmark whose rubric is no longer that of the plan, with which raters go on."""
    for name, instrument in study.instruments.items():
        definition = texts.known_definition(store.folder, name) if instrument.name == RUBRIC else None
        if definition is None:
            continue
        now = set()
        for extended in (False, True):
            try:
                now.add(instrument_of(definition, RUBRIC, extended=extended).digest)
            except UserError:
                continue
        if instrument.digest not in now:
            yield f"The rubric of {name} was changed after the plan; raters were asked with the one of the plan."

"""Outcome of a closed study: means by model, agreement, harm, marks, and what was not as planned.

Rules, fixed before anyone rates:

- Of each rater and completion, the last complete rating before the close counts once. Repeats and calibration cases do
  not enter means; calibration cases count for agreement among raters.
- A case that went to adjudication keeps the ratings of both raters, and the adjudicator's final rating counts as that
  of one more rater: the parity method of score resolution (Johnson, Penny and Gordon 2000, Appl. Meas. Educ. 13(2)).
  So no rating is replaced by what someone said who had seen it. Agreement among raters in the study's outcome leaves
  adjudications out, because they were given after seeing the others.
- Criteria that each instance has of its own enter as one number, the share of the points that a completion earns.
- Preferences have no number for a single completion: they stay in the study, and no ratings are frozen.

Decisions of an owner while raters rate: a rater leaves, cases go to another rater or to adjudication; and purges.

Two owners can look at a study at once. So a decision can carry the revision that its owner saw (`StudyProgress`), and
is refused if another one was made since.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import fsum
from pathlib import Path

import numpy as np

from medhelm.analysis.agreement.clinician_means import ClinicianMean, RatedCompletion, mean_of_ratings
from medhelm.analysis.comparison.preferences import PreferenceResult, preferences
from medhelm.analysis.means import estimate
from medhelm.domain import Estimate
from medhelm.domain.study import CardCriterion, CardDesign, CardInstrument, CardRater, StudyCard
from medhelm.domain.text import plural
from medhelm.errors import StoreError, UserError
from medhelm.extensions.study import journal, progress
from medhelm.extensions.study.instruments import RUBRIC
from medhelm.extensions.study.journal import Event, EventKind, case_key, cases_with, refuse_if_final
from medhelm.extensions.study.plans.identification import identification_findings
from medhelm.extensions.study.progress import CaseState, CriterionAgreement, RatedCase, deviations
from medhelm.extensions.study.types import (
    HARM_LIKELIHOOD,
    HARM_SEVERITY,
    ROW_FORM,
    Assignment,
    CaseKind,
    CaseRating,
    InstrumentForm,
    Item,
    MarkKind,
    Study,
)
from medhelm.io.line_files import read_lines, replace_lines
from medhelm.storage.privacy import DELETED
from medhelm.storage.ratings import StoredRating, freeze_ratings, ratings_names, stored_ratings
from medhelm.storage.runs import read_columns
from medhelm.storage.store import NAME, Store, read_run

# --- decisions --------------------------------------------------------------------------------------------------------

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
    with journal.locked(store, study.name):
        happened = journal.events(store, study.name)
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
        return journal.note(store, study.name, EventKind.ADJUDICATION, by, rater=rater, item=" ".join(items))


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
    journal.check_rater(study, rater_id)
    with journal.locked(store, study.name):
        happened = journal.events(store, study.name)
        refuse_if_final(happened)
        check_revision(happened, revision)
        if rater_id in progress.left_raters(happened):
            raise UserError(f"{rater_id} has already left the study.")
        text = " ".join(reason.split())[:MOST_REASON]
        text = text if keep_ratings else f"{progress.DISCARDED} {text}"
        journal.note(store, study.name, EventKind.WITHDRAWN, by, rater=rater_id, text=text)
        happened = journal.events(store, study.name)
        return tuple(progress.unassigned_cases(study, progress.rated_cases(store, study, happened), happened))


def reassign(store: Store, study: Study, by: str, *, revision: int | None = None) -> tuple[Event, ...]:
    """Give the open cases of raters who left to others, and return the events.

    A case goes to a rater who does not have it, adjudicators last, the one with the fewest cases taken over; ties are
    broken by the seed of the plan. Cases that everyone has stay open.
    Raises: UserError for a closed study, or one that was changed meanwhile.
    """
    with journal.locked(store, study.name):
        happened = journal.events(store, study.name)
        refuse_if_final(happened)
        check_revision(happened, revision)
        given = []
        for items in progress.unassigned_cases(study, progress.rated_cases(store, study, happened), happened):
            free = [one for one in study.raters if not _has_case(study, one.id, case_key(items), happened)]
            chosen = [one.id for one in free if not one.is_adjudicator] or [one.id for one in free]
            if chosen:
                rater = _least_busy(study, chosen, EventKind.REASSIGNED, " ".join(items), happened)
                given.append(
                    journal.note(store, study.name, EventKind.REASSIGNED, by, rater=rater, item=" ".join(items))
                )
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
    for name in journal.studies(store):
        study = journal.read_study(store, name)
        gone = {
            item.id
            for item in study.items
            if item.benchmark == benchmark and (instance_ids is None or item.instance_id in instance_ids)
        }
        if gone:
            with journal.locked(store, name):
                n_changed += sum(_purge_rows(store, study, rater.id, gone) for rater in study.raters)
                items = tuple(
                    replace(one, instance_id=f"{DELETED}{one.id}") if one.id in gone else one for one in study.items
                )
                journal.replace_plan(store, replace(study, items=items))
                for item in sorted(gone):
                    journal.note(store, study.name, EventKind.PURGED, "purge", item=item)
    return n_changed


def _purge_rows(store: Store, study: Study, rater_id: str, gone: set[str]) -> int:
    """Delete what a rater wrote about items, and return the number of changed ratings. Lines of no rating go, too."""
    file = journal.rater_file(store, study.name, rater_id)
    lines, n_changed, n_dropped = [], 0, 0
    for line, row in journal.parsed(file, ROW_FORM):
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


# --- outcome ----------------------------------------------------------------------------------------------------------

SERIOUS = 2
"""Least severity of harm that is counted as serious: moderate."""


# --- types ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelGrade:
    """Mean grade of a model on one criterion."""

    benchmark: str
    """Id of the benchmark."""
    model: str
    """Name of the model."""
    criterion: str
    """Id of the criterion, or of a question on harm; "" for the mean of all criteria, high being good."""
    mean: ClinicianMean
    """Mean with its interval: completions and raters vary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HarmCounts:
    """Harm that raters expect if someone acts on the completions of a model."""

    model: str
    """Name of the model."""
    n: int
    """Ratings with an answer on severity."""
    severity: tuple[int, ...]
    """Ratings with severity 0, 1, 2 and 3."""
    n_likely: int
    """Ratings with severity 2 or 3 whose likelihood is 2 or 3."""
    serious: Estimate | None
    """Share of ratings with severity 2 or 3, ratings of one instance not being independent; None without ratings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkCounts:
    """Answers without a grade, and marked passages, in the completions of a model."""

    model: str
    """Name of the model."""
    n: int
    """Ratings."""
    not_judged: float
    """Share of the answers that say why a criterion cannot be judged."""
    marks: Mapping[str, int]
    """Kind of a mark -> marked passages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseNote:
    """Comment and reasons of a rater about a case."""

    rater: str
    """Id of the rater."""
    benchmark: str
    """Id of the benchmark."""
    instance_id: str
    """Id of the instance."""
    models: tuple[str, ...]
    """The model; of a pair, the left one first."""
    comment: str
    """The comment; may be empty."""
    not_judged: Mapping[str, str]
    """Criterion -> why it cannot be judged."""
    n_marks: int
    """Marked passages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOutcome:
    """Result of a closed study."""

    name: str
    """Id of the study."""
    closed: str
    """Time of the close, ISO 8601, UTC."""
    closed_by: str
    """Person or program that closed it."""
    n_ratings: int
    """Complete ratings."""
    n_missing: int
    """Cases without one, which the owner closed over."""
    n_adjudicated: int
    """Cases to which a further rater gave a grade because raters differed."""
    agreement: tuple[CriterionAgreement, ...]
    """Agreement of raters with each other, without adjudications."""
    means: tuple[ModelGrade, ...]
    """Mean grades by benchmark, model and criterion; the mean of all criteria first, the best model first."""
    preference: PreferenceResult | None
    """Preferences between models; None for other forms."""
    harm: tuple[HarmCounts, ...]
    """Harm by model; empty if it was not asked."""
    marks: tuple[MarkCounts, ...]
    """Marked passages and answers without a grade, by model."""
    notes: tuple[CaseNote, ...]
    """Comments, reasons and numbers of marks, by case."""
    deviations: tuple[str, ...]
    """Sentences on what was not as planned."""
    digest: str
    """Sha256, in hex, of the plan, all ratings and all events up to the close."""
    ratings: tuple[str, ...]
    """Names of the frozen ratings in the store."""


# --- ratings that count -----------------------------------------------------------------------------------------------


def counted_cases(cases: Iterable[RatedCase]) -> list[RatedCase]:
    """Return the ratings that enter means: complete, of completions in the store, no repeats, no calibration.

    An adjudication of a calibration case is left out too: it is a rating of the same completion.
    """
    cases = list(cases)
    calibration = {one.key for one in cases if one.assignment.kind is CaseKind.CALIBRATION}
    return [
        one
        for one in cases
        if one.is_complete
        and not one.is_gone
        and one.assignment.kind is not CaseKind.REPEATED
        and one.key not in calibration
    ]


def item_of(study: Study, case: RatedCase) -> Item:
    """Return the item of a case with one completion; of a pair, the left one."""
    return study.item(case.assignment.items[0])


def least_points(own: Sequence[RatedCase]) -> float:
    """Return the lowest possible share of points over cases: all harms, and nothing that earns points."""
    shares = [
        progress.level_of(
            {one.name: float(one.points < 0) for one in case.criteria}, case.criteria, InstrumentForm.CHECKS
        )
        for case in own
    ]
    return min([0.0, *(share for share in shares if share is not None)])


def instrument_groups(study: Study) -> dict[str, list[str]]:
    """Return name of the frozen ratings -> benchmarks whose criteria are the same: one name unless they differ."""
    groups: dict[str, list[str]] = defaultdict(list)
    for benchmark, instrument in study.instruments.items():
        key = [(one.name, one.low, one.high, one.higher_is_better) for one in instrument.criteria]
        groups[json.dumps(key)].append(benchmark)
    if len(groups) == 1:
        return {study.name: [*study.instruments]}
    return {f"{study.name}-{own[0]}": own for own in groups.values()}


def missing_cases(study: Study, cases: Sequence[RatedCase], happened: Sequence[Event]) -> dict[str, int]:
    """Return rater -> cases without a complete rating; "" -> cases of raters who left, not given to others."""
    left = progress.left_raters(happened)
    found = Counter(one.rater for one in cases if not (one.is_complete or one.is_gone or one.rater in left))
    unassigned = len(progress.unassigned_cases(study, cases, happened))
    return dict(found) | ({"": unassigned} if unassigned else {})


# --- outcome ----------------------------------------------------------------------------------------------------------


def outcome_of(store: Store, study: Study) -> StudyOutcome:
    """Compute the outcome of a closed study; the same each time. Raises: UserError before the close; StoreError."""
    happened = journal.events(store, study.name)
    closed = next((one for one in happened if one.kind is EventKind.CLOSED), None)
    if closed is None:
        raise UserError(f"The study `{study.name}` is not closed. Results by model are shown after the close alone.")
    before = happened[: happened.index(closed)]
    cases = progress.rated_cases(store, study, before)
    counted = counted_cases(cases)
    form = progress.form_of(study)
    is_pair = form is InstrumentForm.PREFERENCE
    return StudyOutcome(
        name=study.name,
        closed=closed.time,
        closed_by=closed.by,
        n_ratings=sum(one.is_complete for one in cases),
        n_missing=sum(missing_cases(study, cases, before).values()),
        n_adjudicated=len(
            {
                one.key
                for one in cases
                if one.assignment.kind is CaseKind.ADJUDICATION and one.is_complete and one.given.grades
            }
        ),
        agreement=progress.agreement_of(study, cases),
        means=() if is_pair else tuple(_model_grades(store, study, counted)),
        preference=_preferences(study, counted) if is_pair and counted else None,
        harm=tuple(_harm(study, counted)) if study.asks_harm else (),
        marks=tuple(_marks(study, counted)),
        notes=tuple(_notes(study, cases)),
        deviations=final_deviations(store, study, happened),
        digest=next((one.text for one in happened if one.kind is EventKind.FROZEN), ""),
        ratings=tuple(name for name in instrument_groups(study) if name in ratings_names(store)),
    )


def digest_at_close(store: Store, study: Study) -> str:
    """Return the sha256, in hex, of the plan, of all ratings, and of all events up to the close."""
    folder = journal.study_folder(store, study.name)
    lines = read_lines(folder / journal.PLAN)
    for rater in study.raters:
        lines += [rater.id, *read_lines(journal.rater_file(store, study.name, rater.id))]
    for line in read_lines(folder / journal.EVENTS):
        lines.append(line)
        if f'"kind": "{EventKind.CLOSED}"' in line:
            break
    return journal.digest_of_lines(lines)


def final_deviations(store: Store, study: Study, happened: Sequence[Event]) -> tuple[str, ...]:
    """Return the deviations that the close recorded, and what changed after it: purges, and files of the study."""
    closed = next(place for place, one in enumerate(happened) if one.kind is EventKind.CLOSED)
    recorded = tuple(one.text for one in happened[:closed] if one.kind is EventKind.DEVIATION)
    purged = {one.item for one in happened[closed:] if one.kind is EventKind.PURGED}
    digest = next((one.text for one in happened if one.kind is EventKind.FROZEN), "")
    if purged:
        n_purged = plural(len(purged), "completion")
        return (*recorded, f"The texts of {n_purged} were deleted from the store and from the study.")
    if digest and digest_at_close(store, study) != digest:
        changed = "The files of the study were changed after the close: their sha256 is not the one recorded then."
        return (*recorded, changed)
    return recorded


def _model_grades(store: Store, study: Study, counted: Sequence[RatedCase]) -> list[ModelGrade]:
    """Return the mean grades by benchmark, model and criterion."""
    found = []
    for benchmark, instrument in study.instruments.items():
        own = [one for one in counted if item_of(study, one).benchmark == benchmark]
        scales = {one.name: (one.low, one.high) for one in instrument.criteria}
        whole = (least_points(own), 1.0) if progress.form_of(study) is InstrumentForm.CHECKS else _whole_scale(scales)
        by_criterion = [("", whole), *(scales.items() if len(scales) > 1 else ())]
        if study.asks_harm:
            by_criterion.append((HARM_SEVERITY, (0, 3)))
        for criterion, scale in by_criterion:
            found += _means_on(store, study, benchmark, own, criterion, scale)
    return sorted(
        found, key=lambda one: (one.benchmark, one.criterion != "", -one.mean.value if not one.criterion else 0)
    )


def _whole_scale(scales: Mapping[str, tuple[int, int]]) -> tuple[float, float]:
    """Return the ends of the mean over criteria: 0 and 1 if their scales differ, see `level_of`."""
    return next(iter(scales.values())) if len(set(scales.values())) == 1 else (0, 1)


def _means_on(
    store: Store, study: Study, benchmark: str, own: Sequence[RatedCase], criterion: str, scale: tuple[float, float]
) -> list[ModelGrade]:
    """Return the mean grades of all models on one criterion of a benchmark."""
    given: dict[str, dict[str, float]] = defaultdict(dict)
    for one in own:
        grades, form = one.given.grades, progress.form_of(study)
        value = grades.get(criterion) if criterion else progress.level_of(grades, one.criteria, form)
        if value is not None:
            given[one.assignment.items[0]][one.rater] = float(value)
    items = {name: study.item(name) for name in given}
    rated = {
        name: RatedCompletion(composites=grades, probability=items[name].probability) for name, grades in given.items()
    }
    clusters = _clusters(store, list(items.values()))
    found = []
    for model in study.models:
        names = [name for name, item in items.items() if item.model == model]
        if names:
            mean = mean_of_ratings(
                [rated[name] for name in names],
                list(rated.values()),
                low=scale[0],
                high=scale[1],
                clusters=[clusters[name] for name in names],
            )
            found.append(ModelGrade(benchmark=benchmark, model=model, criterion=criterion, mean=mean))
    return found


def _clusters(store: Store, items: Sequence[Item]) -> dict[str, str]:
    """Return item -> its independent unit: the cluster of its instance in the run, such as a patient, else itself."""
    found = {}
    for item in items:
        file = store.folder / item.run / NAME
        try:
            known = _clusters_of_run(file, file.stat().st_mtime_ns)
        except (OSError, StoreError):
            known = {}
        found[item.id] = known.get(item.instance_id) or item.instance_id
    return found


@lru_cache(maxsize=64)
def _clusters_of_run(file: Path, time: int) -> Mapping[str, str]:
    del time
    columns = read_columns(read_run(file), ["instance_id", "cluster"])
    return dict(zip(columns["instance_id"], columns["cluster"], strict=True))


def _preferences(study: Study, counted: Sequence[RatedCase]) -> PreferenceResult:
    sides = [[study.item(name) for name in one.assignment.items] for one in counted]
    grades = [progress.level_of(one.given.grades, one.criteria, InstrumentForm.PREFERENCE) for one in counted]
    known = [(left, right, grade) for (left, right), grade in zip(sides, grades, strict=True) if grade is not None]
    return preferences(
        [left.model for left, _, _ in known],
        [right.model for _, right, _ in known],
        np.array([grade for _, _, grade in known]),
        [f"{left.benchmark} {left.instance_id}" for left, _, _ in known],
        seed=study.design.seed,
    )


def _by_model(study: Study, cases: Iterable[RatedCase]) -> dict[str, list[RatedCase]]:
    found: dict[str, list[RatedCase]] = {model: [] for model in study.models}
    for one in cases:
        found[item_of(study, one).model].append(one)
    return {model: own for model, own in found.items() if own}


def _harm(study: Study, counted: Sequence[RatedCase]) -> Iterator[HarmCounts]:
    for model, own in _by_model(study, counted).items():
        answered = [one for one in own if HARM_SEVERITY in one.given.grades]
        severities = [one.given.grades[HARM_SEVERITY] for one in answered]
        likely = [one for one in answered if one.given.grades.get(HARM_LIKELIHOOD, 0) >= SERIOUS]
        units = [item_of(study, one).instance_id for one in answered]
        serious = np.array([float(one >= SERIOUS) for one in severities])
        yield HarmCounts(
            model=model,
            n=len(answered),
            severity=tuple(severities.count(grade) for grade in range(4)),
            n_likely=sum(one.given.grades[HARM_SEVERITY] >= SERIOUS for one in likely),
            serious=estimate(serious, units, low=0.0, high=1.0),
        )


def _marks(study: Study, counted: Sequence[RatedCase]) -> Iterator[MarkCounts]:
    """Count by model; of a pair, a mark counts for the model on its side, and answers count for both."""
    marks: dict[str, Counter[str]] = defaultdict(Counter)
    answers: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for one in counted:
        models = [study.item(name).model for name in one.assignment.items]
        for mark in one.given.marks:
            marks[models[mark.side]][mark.kind] += 1
        for model in models:
            answers[model].append((len(one.given.not_judged), len(one.given.grades)))
    for model in study.models:
        if own := answers[model]:
            reasons, grades = (fsum(column) for column in zip(*own, strict=True))
            yield MarkCounts(
                model=model,
                n=len(own),
                not_judged=reasons / ((reasons + grades) or 1),
                marks={str(kind): marks[model][kind] for kind in MarkKind},
            )


def _notes(study: Study, cases: Sequence[RatedCase]) -> Iterator[CaseNote]:
    for one in cases:
        given = one.given
        if given.comment or given.not_judged or given.marks:
            item = item_of(study, one)
            yield CaseNote(
                rater=one.rater,
                benchmark=item.benchmark,
                instance_id=item.instance_id,
                models=_models(study, one.assignment),
                comment=given.comment,
                not_judged=given.not_judged,
                n_marks=len(given.marks),
            )


def _models(study: Study, assignment: Assignment) -> tuple[str, ...]:
    return tuple(study.item(name).model for name in assignment.items)


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
    with journal.locked(store, study.name):
        happened = journal.events(store, study.name)
        if not any(one.kind is EventKind.CLOSED for one in happened):
            check_revision(happened, revision)
            cases = progress.rated_cases(store, study, happened)
            _refuse_missing(study, cases, happened, incomplete=incomplete)
            for sentence in _all_deviations(store, study, cases, happened):
                journal.note(store, study.name, EventKind.DEVIATION, by, text=sentence)
            journal.note(store, study.name, EventKind.CLOSED, by)
            happened = journal.events(store, study.name)
        if not any(one.kind is EventKind.FROZEN for one in happened):
            digest = digest_at_close(store, study)
            _freeze(store, study, happened, digest)
            journal.note(store, study.name, EventKind.FROZEN, by, text=digest)
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
    form = progress.form_of(study)
    if form is InstrumentForm.PREFERENCE:
        return
    counted = counted_cases(progress.rated_cases(store, study, happened))
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
        grades = {POINTS: progress.level_of(given, case.criteria, form)}
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
    if progress.form_of(study) is InstrumentForm.CHECKS:
        question = "Share of the points that the completion earns; below 0 if harms outweigh."
        criteria = {POINTS: CardCriterion(low=least_points(own), high=1.0, question=question)}
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
            n_shared=study.n_shared,
            n_repeated=study.n_repeated,
            n_calibration=design.n_calibration,
            seed=design.seed,
            precision=design.precision,
        ),
        blinding=known,
        deviations=tuple(one.text for one in happened if one.kind is EventKind.DEVIATION),
    )


def blinding(store: Store, study: Study) -> tuple[str, ...]:
    """Return sentences on what raters could not know, and on what may have revealed it."""
    flagged = {one.item for one in identification_findings(store, study)}
    revealing = (
        f"In {len(flagged)} of {plural(len(study.items), 'completion')} a passage may give the model away, such as its "
    )
    revealing += "name or a sentence that it often writes: raters may have recognized the model."
    reference = "Raters saw the reference." if study.shows_reference else "Raters did not see the reference."
    return (
        "Raters saw completions in one plain style, in an order drawn beforehand, without the names of models, their "
        "providers, costs or times.",
        "Raters did not see each other's ratings; an adjudicator saw those of a case, without names, after giving an "
        "own one.",
        reference,
        revealing if flagged else "No completion names its model or carries markers of one.",
        "The owner saw no mean of a model before the close.",
    )

"""Texts on the pages of owners: progress, raters, agreement, differences and events, and the results at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from medhelm.analysis.agreement.reliability import LEAST_UNITS
from medhelm.analysis.comparison.preferences import PreferenceResult
from medhelm.domain import Estimate
from medhelm.domain.text import duration, listed, plural
from medhelm.extensions.study.journal import Event, EventKind
from medhelm.extensions.study.outcome import ModelGrade, StudyOutcome, possible_adjudicators
from medhelm.extensions.study.plans.identification import Finding, FindingKind
from medhelm.extensions.study.progress import (
    CaseState,
    CriterionAgreement,
    Disagreement,
    RaterProgress,
    StudyProgress,
    StudyState,
    form_of,
)
from medhelm.extensions.study.types import InstrumentForm, Study
from medhelm.extensions.study.views import (
    FINDING_TITLES,
    SHARE,
    ResultTable,
    criterion_title,
    ends_text,
    in_brackets,
    result_tables,
)
from medhelm.io.http.pages import url_key
from medhelm.results.formats.fields import Field
from medhelm.results.formats.tables import MISSING, decimal, percent, signed, with_minus

MOST_NAMED = 8
"""Most cases of a rater that a sentence names."""

EVENT_TITLES: Mapping[EventKind, str] = {
    EventKind.LINK_MADE: "Made a link for {rater}",
    EventKind.LINK_USED: "Signed in with a personal link",
    EventKind.LINK_REVOKED: "Revoked the access of {rater}",
    EventKind.LINK_REFUSED: "A link of {rater} was refused",
    EventKind.SIGNED_IN: "Signed in",
    EventKind.SIGNED_OUT: "Signed out",
    EventKind.EXPORTED: "Exported the cases of {rater}",
    EventKind.IMPORTED: "Read in ratings of {rater}",
    EventKind.ADJUDICATION: "Sent {case} to {rater} for adjudication",
    EventKind.WITHDRAWN: "Withdrew {rater}",
    EventKind.REASSIGNED: "Gave {case} to {rater}",
    EventKind.PURGED: "The texts of {case} were deleted from the store",
    EventKind.CLOSED: "Closed the study",
    EventKind.FROZEN: "Froze the ratings",
    EventKind.DEVIATION: "Recorded a deviation from the plan",
}
"""Kind of event -> what happened, for people."""

CASE_STATES: Mapping[CaseState, str] = {
    CaseState.DIFFERS: "Not decided",
    CaseState.IN_ADJUDICATION: "With {adjudicator}",
    CaseState.ADJUDICATED: "Decided by {adjudicator}",
    CaseState.UNDECIDED: "Not decided: {adjudicator} could not judge",
}
"""State of a case on which raters differ -> its name for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Names of the people and cases of a study, as its owner or a reader sees them."""

    study: Study
    """The study."""
    is_owner: bool
    """True if names of raters are shown; readers see pseudonyms alone."""
    titles: Mapping[str, str]
    """Benchmark -> its name for people, as far as it is known."""

    def rater(self, rater_id: str) -> str:
        """Return the name of a rater; the id if there is none, and for ids of other people."""
        named = (one.name for one in self.study.raters if one.id == rater_id and self.is_owner)
        return next(named, "") or rater_id

    def case(self, items: Iterable[str]) -> str:
        """Return the name of a case, which does not show the model: its place among the items of the study."""
        places = {item.id: place for place, item in enumerate(self.study.items, 1)}
        known = sorted(places[one] for one in items if one in places)
        return f"{'Case' if len(known) < 2 else 'Pair'} {' and '.join(map(str, known))}" if known else "A case"

    def benchmark(self, name: str) -> str:
        """Return the name of a benchmark for people."""
        return self.titles.get(name, name)

    def event(self, event: Event) -> dict[str, str]:
        """Return time, person and description of an event."""
        case = self.case(event.item.split())
        case = case[0].lower() + case[1:]
        what = EVENT_TITLES[event.kind].format(rater=self.rater(event.rater) or "someone", case=case)
        details = event.text[:16] if event.kind is EventKind.FROZEN else event.text
        return {
            "time": time_text(event.time),
            "by": self.rater(event.by) or "Unknown",
            "what": f"{what}: {details}" if details else what,
        }


def is_final(happened: Iterable[Event]) -> bool:
    """Return True if a study is closed."""
    return any(one.kind is EventKind.CLOSED for one in happened)


def time_text(time: str) -> str:
    """Return a stored time in minutes, UTC.

    >>> time_text("2026-11-28T06:30:12.345+00:00")
    '2026-11-28 06:30'
    """
    return time[:16].replace("T", " ")


# --- progress ---------------------------------------------------------------------------------------------------------


def tally(found: StudyProgress) -> list[dict[str, object]]:
    """Return the numbers at the top of the page of a study."""
    active = [one for one in found.raters if one.n_cases and not one.has_left]
    n_done = sum(not one.n_left for one in active)
    figures = [
        _figure("ratings", "Cases rated", found.n_complete, total=found.n_cases),
        _figure("finished", "Raters who finished", f"{n_done} of {len(active)}"),
        _figure("differ", "Raters differ", plural(open_differences(found), "case"), note="not decided"),
    ]
    if found.state is StudyState.CLOSED:
        return figures
    left_s = sum((one.median_seconds or 0.0) * one.n_left for one in active)
    is_known = left_s > 0 and all(one.median_seconds for one in active if one.n_left)
    if is_known:
        left, note = duration(left_s), "of all raters, at their pace"
    else:
        left, note = (MISSING, "known once all have begun") if any(one.n_left for one in active) else ("None", "")
    return [*figures, _figure("left", "Work left", left, note=note)]


def _figure(key: str, label: str, value: object, *, total: int | None = None, note: str = "") -> dict[str, object]:
    return {"key": key, "label": label, "value": value, "total": total, "note": note}


def rater_row(one: RaterProgress, names: Names) -> dict[str, object]:
    """Return a rater's progress."""
    rater = names.study.rater(one.rater)
    about = [rater.id if names.rater(rater.id) != rater.id else "", rater.role]
    return {
        "id": one.rater,
        "key": f"rater.{one.rater}",
        "title": names.rater(one.rater),
        "sub": ", ".join(filter(None, [*about, "decides differences" if rater.is_adjudicator else ""])),
        "n_complete": one.n_complete,
        "n_cases": one.n_cases,
        "time": duration(one.median_seconds) if one.median_seconds else MISSING,
        "cannot": MISSING if one.not_judged is None else percent(one.not_judged),
        "notices": list(notices(one)),
        "is_withdrawn": one.has_left,
    }


def notices(one: RaterProgress) -> Iterable[str]:
    """Yield what an owner should know of a rater."""
    if one.has_left:
        yield "Has left the study."
    if one.same_grade is not None:
        yield f"Gave {one.same_grade} to everything. Such ratings say nothing about models; ask what happened."
    if one.unusual_times:
        shown = [f"{number} ({duration(seconds)})" for number, seconds in sorted(one.unusual_times.items())]
        yield f"Unusual time for {plural(len(shown), 'case')}: {listed(shown, MOST_NAMED)}."
    if one.drift.is_flagged and one.drift.value is not None:
        way = "milder" if one.drift.value > 0 else "stricter"
        yield f"Became {way}: last third {signed(one.drift.value, 2)} against the first third."
    if one.repeats.n and one.repeats.near is not None:
        near = percent(one.repeats.near.value)
        yield f"{plural(one.repeats.n, 'case')} rated twice: {near} of the grades within a point."


# --- agreement and differences ----------------------------------------------------------------------------------------


def agreement_view(found: StudyProgress) -> dict[str, object]:
    """Return the agreement of raters by criterion, in words where they can be justified."""
    rows = [
        {
            "title": criterion_title(one.criterion),
            "n": one.n,
            "value": one.alpha.value,
            "low": one.alpha.low,
            "high": one.alpha.high,
            "near": _share(one.near if one.near is not None else one.same),
            "words": agreement_words(one),
        }
        for one in found.agreement
    ]
    first = found.agreement[0] if found.agreement else None
    is_near = form_of(found.study) is InstrumentForm.GRADES
    return {
        "rows": rows if first and any(one.n for one in found.agreement) else [],
        "near": "Within a point" if is_near else "Not on opposite sides" if first and first.near else "The same",
        "sentence": _agreement_sentence(first) if first and first.n else NO_AGREEMENT,
        "caption": "Krippendorff’s alpha: 1 if raters always agree, 0 if no more than by chance.",
    }


def _agreement_sentence(one: CriterionAgreement) -> str:
    rated = f"{plural(one.n, 'case')} rated by two or more"
    if one.n_units < LEAST_UNITS:
        return f"{TOO_FEW}: {rated}, from {plural(one.n_units, 'instance')}. An interval needs {LEAST_UNITS} instances."
    return f"{agreement_words(one)}: {rated}."


TOO_FEW = "Too few ratings yet"
NO_AGREEMENT = f"{TOO_FEW}: no case has been rated by two raters."


def agreement_words(one: CriterionAgreement) -> str:
    """Return what the interval of an agreement allows to say."""
    alpha = one.alpha
    if alpha.value is None or alpha.low is None or alpha.high is None:
        return TOO_FEW
    if alpha.low > 2 / 3:
        return "Raters agree well"
    if alpha.low <= 0:
        return "Not shown to be better than chance"
    if alpha.high < 2 / 3:
        return "Raters agree in part, less than a study should rely on"
    return "Raters agree better than by chance; more ratings would tell how well"


def _share(found: Estimate | None) -> str:
    return MISSING if found is None else percent(found.value)


def difference_row(one: Disagreement, names: Names, happened: Sequence[Event]) -> dict[str, object]:
    """Return a case on which raters differ."""
    is_open = one.state in (CaseState.DIFFERS, CaseState.UNDECIDED) and not is_final(happened)
    can_send = is_open and bool(possible_adjudicators(names.study, one.items, happened))
    state = CASE_STATES[one.state].format(adjudicator=names.rater(one.adjudicator))
    raters = sorted({rater for grades in one.grades.values() for rater in grades})
    by_rater = [
        (rater, ", ".join(with_minus(str(own[rater])) if rater in own else MISSING for own in one.grades.values()))
        for rater in raters
    ]
    return {
        "item": " ".join(one.items),
        "path": one.items[0],
        "title": names.case(one.items),
        "benchmark": names.benchmark(names.study.item(one.items[0]).benchmark),
        "criteria": [criterion_title(name) for name in one.grades],
        "grades": [(names.rater(rater), grades) for rater, grades in by_rater],
        "state": "All raters have it" if one.state is CaseState.DIFFERS and is_open and not can_send else state,
        "can_send": can_send,
    }


def finding_rows(found: Sequence[Finding], names: Names, *, with_model: bool) -> list[dict[str, object]]:
    """Return the passages that can tell the model of a completion, equal ones of a model together.

    `with_model`: False while people rate. Then the cases are named in place of the model, but not those that share a
    sentence of their model: they would show which cases belong together.
    """
    groups: dict[tuple[str, FindingKind, str], list[str]] = {}
    for one in found:
        groups.setdefault((one.model, one.kind, one.text), []).append(one.item)
    rows: list[dict[str, object]] = [
        {
            "model": model if with_model else "",
            "cases": _cases_in_words(kind, list(dict.fromkeys(items)), names),
            "n": len(set(items)),
            "kind": FINDING_TITLES[kind],
            "text": text,
        }
        for (model, kind, text), items in groups.items()
    ]
    return sorted(rows, key=lambda row: (str(row["kind"]), -int(str(row["n"])))) if with_model else rows


def _cases_in_words(kind: FindingKind, items: Sequence[str], names: Names) -> str:
    if kind is FindingKind.SIGNATURE:
        return plural(len(items), "case")
    return listed([names.case([item]) for item in items], MOST_NAMED)


# --- plan and close ---------------------------------------------------------------------------------------------------


def plan_facts(names: Names) -> list[tuple[str, str]]:
    """Return the plan of a study, label by label."""
    study = names.study
    design, instruments = study.design, study.instruments.values()
    several = f"{plural(study.n_shared, 'case')} by {design.raters_per_shared_case} raters each"
    found = [
        ("Name", study.name),
        ("Responsible", study.owner),
        ("Planned", f"{time_text(study.created)} UTC"),
        ("Benchmarks", listed(list(map(names.benchmark, study.benchmarks)))),
        ("Models", listed(study.models)),
        ("Instrument", listed(list(dict.fromkeys(one.title for one in instruments)))),
        ("Cases", f"{design.n_cases:,}, and {plural(design.n_calibration, 'calibration case')} for all raters"),
        ("Rated by several", several if study.n_shared else "no case besides calibration"),
        ("Shown twice to a rater", f"{plural(study.n_repeated, 'case')}, {percent(design.repeated)} wanted"),
        ("Precision wanted", "" if design.precision is None else f"± {decimal(design.precision, 2)} for each mean"),
        ("Reference", "shown" if study.shows_reference else "not shown"),
        ("Harm", "asked" if study.asks_harm else "not asked"),
        ("Seed", str(design.seed)),
    ]
    return [(label, text) for label, text in found if text]


def missing_ratings(found: StudyProgress, names: Names) -> list[str]:
    """Return a sentence on each thing that is missing before a study can be closed as planned."""
    texts = [
        f"{names.rater(one.rater)}: {one.n_left:,} of {plural(one.n_cases, 'case')} not rated"
        for one in found.raters
        if one.n_left and not one.has_left
    ]
    if found.unassigned:
        texts.append(f"{plural(len(found.unassigned), 'case')} of raters who left, that no other rater has")
    return texts


def open_differences(found: StudyProgress) -> int:
    """Return the number of cases on which raters differ, without a decision."""
    return sum(one.state is not CaseState.ADJUDICATED for one in found.disagreements)


def list_row(found: StudyProgress, happened: Sequence[Event], names: Names) -> dict[str, object]:
    """Return the row of a study in the list of all."""
    active = [one for one in found.raters if not one.has_left]
    n_done = sum(one.n_cases > 0 and not one.n_left for one in active)
    closed = next((one.time for one in happened if one.kind is EventKind.CLOSED), "")
    return {
        "name": names.study.name,
        "title": names.study.title,
        "state": found.state,
        "n_complete": found.n_complete,
        "n_cases": found.n_cases,
        "raters": f"{plural(len(active), 'rater')}{f', {n_done} finished' if n_done else ''}",
        "benchmarks": list(map(names.benchmark, names.study.benchmarks)),
        "n_models": len(names.study.models),
        "instrument": listed(list(dict.fromkeys(one.title for one in names.study.instruments.values())), 2),
        "created": time_text(names.study.created),
        "closed": time_text(closed),
        "is_open": found.state is not StudyState.CLOSED,
    }


# --- results ----------------------------------------------------------------------------------------------------------


def results_view(found: StudyOutcome, names: Names) -> dict[str, Any]:
    """Return the results of a closed study, without the jury and the card."""
    return {
        "sentence": _sentence(found, names),
        "tables": [_table(one) for one in result_tables(names.study, found, names.titles)],
        "notes": list(_notes(found)),
        "comments": [
            {
                "case": one.instance_id,
                "address": f"/benchmarks/{quote(one.benchmark)}/cases/{url_key(one.instance_id)}",
                "benchmark": names.benchmark(one.benchmark),
                "model": listed(one.models),
                "rater": names.rater(one.rater),
                "comment": one.comment,
                "reasons": [f"{criterion_title(name)}: {reason}" for name, reason in one.not_judged.items()],
                "n_marks": one.n_marks,
            }
            for one in found.notes
        ],
        "facts": _facts(found),
        "is_frozen": bool(found.ratings),
    }


def _sentence(found: StudyOutcome, names: Names) -> str:
    if found.preference:
        return _most_preferred(found.preference)
    sentences = []
    for name in dict.fromkeys(one.benchmark for one in found.means):
        whole = [one for one in found.means if one.benchmark == name and not one.criterion]
        sentences += [_best_of(whole, names.benchmark(name))] if whole else []
    return " ".join(sentences) or "No case was rated."


def _most_preferred(found: PreferenceResult) -> str:
    """Return a sentence on preferences: a winner only if its interval is apart from all others."""
    best, *others = found.shares
    won = f"{percent(best.value)} of its comparisons{in_brackets(best, percent)}"
    low, highs = best.low, [one.high for one in others]
    if low is None or None in highs:
        return f"{best.model} is preferred in {won}; there are too few ratings for intervals."
    if any(high >= low for high in highs if high is not None):
        return f"No winner: {best.model} is preferred most often, in {won}, but the intervals overlap."
    return f"Clinicians prefer {best.model} most often: in {won}."


def _best_of(means: Sequence[ModelGrade], title: str) -> str:
    """Return a sentence on the means of one benchmark, the best one first: a winner only if its interval is apart."""
    best, *others = means
    mean, ends = decimal(best.mean.value, 2), in_brackets(best.mean, _two_places)
    low, highs = best.mean.low, [one.mean.high for one in others]
    if not others:
        return f"On {title}, clinicians rate {best.model} {mean}{ends}."
    if low is None or None in highs:
        return f"On {title}, {best.model} has the highest mean, {mean}; there are too few ratings for intervals."
    ties = [one.model for one in others if one.mean.high is not None and one.mean.high >= low]
    if ties:
        overlap = f"its interval overlaps with that of {listed(ties, 3)}"
        return f"On {title}, no winner: {best.model} has the highest mean, {mean}, but {overlap}."
    return f"On {title}, clinicians rate {best.model} highest: {mean}{ends}."


def _table(found: ResultTable) -> dict[str, Any]:
    model, *columns = found.fields
    rows = [{"title": model.get(row), "cells": [_cell(column, row) for column in columns]} for row in found.rows]
    return {"title": found.title, "caption": found.caption, "heads": [one.heading for one in columns], "rows": rows}


def _cell(column: Field[Any], row: Any) -> tuple[str, str]:
    """Return the text of a cell, and that of its interval or ""."""
    value = column.get(row)
    if column.kind != "interval" or value is None:
        return MISSING if value is None else str(value), ""
    as_text = percent if column.range == SHARE else _two_places
    return as_text(value.value) or MISSING, ends_text(value, as_text)


def _two_places(value: float) -> str | None:
    return decimal(value, 2)


def _notes(found: StudyOutcome) -> Iterator[str]:
    yield "Calibration cases and second ratings of the same rater do not enter these means."
    if found.n_adjudicated:
        was = "was" if found.n_adjudicated == 1 else "were"
        yield f"{plural(found.n_adjudicated, 'case')} {was} rated by an adjudicator, who counts as one more rater."
    if reasons := {one.mean.reason for one in found.means if one.mean.reason}:
        yield f"{'; '.join(sorted(reasons))}."


def _facts(found: StudyOutcome) -> list[tuple[str, str]]:
    missing = f", {plural(found.n_missing, 'case')} not rated" if found.n_missing else ""
    return [
        ("Closed", f"{time_text(found.closed)} UTC by {found.closed_by}"),
        ("Ratings", f"{found.n_ratings:,}{missing}"),
        *([] if found.ratings else [("sha256 of all files", found.digest)]),
    ]

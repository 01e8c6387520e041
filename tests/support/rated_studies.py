"""Invented studies, with texts of their own in place of a store's, and ratings given by functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from medhelm.extensions.study import texts
from medhelm.extensions.study.instruments import criteria_of
from medhelm.extensions.study.journal import cases_of, record, write_study
from medhelm.extensions.study.types import (
    Assignment,
    CaseKind,
    CaseRating,
    Instrument,
    InstrumentCriterion,
    InstrumentForm,
    Item,
    Rater,
    Study,
    StudyDesign,
)
from medhelm.storage.store import Store, create

COMPLETION = "Take one tablet twice a day. \u2028 Zażyj łyżkę 💊."
"""Completion of every case as shown."""

CRITERIA = tuple(
    InstrumentCriterion(name=name, question=f"Is it {name}?", low=1, high=5, anchors={"1": "no", "5": "yes"})
    for name in ("accurate", "clear")
)
CHECKS = (
    InstrumentCriterion(name="names_dose", question="Names the dose.", low=0, high=1, points=5.0),
    InstrumentCriterion(name="invents_drug", question="Invents a drug.", low=0, high=1, points=-3.0),
)
PREFERENCE = (InstrumentCriterion(name="preference", question="Which is better?", low=-2, high=2),)

_OF_FORM = {InstrumentForm.GRADES: CRITERIA, InstrumentForm.CHECKS: (), InstrumentForm.PREFERENCE: PREFERENCE}


@contextmanager
def shown_texts(gone: Callable[[str], bool] = lambda _: False) -> Iterator[None]:
    """Show the same text for every item. `gone`: returns True for the id of an item that the store no longer has."""

    def completion_of(store: Store, study: Study, item: Item) -> str:
        del store, study
        if gone(item.id):
            raise texts.CaseGoneError("The text of this case was deleted from the store.")
        return COMPLETION

    def case_texts(store: Store, study: Study, assignment: Assignment) -> texts.CaseTexts:
        benchmark = study.item(assignment.items[0]).benchmark
        return texts.CaseTexts(
            material=(),
            question="",
            references=(),
            completions=tuple(completion_of(store, study, study.item(one)) for one in assignment.items),
            criteria=criteria_of(study, benchmark, CHECKS),
        )

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(texts, "completion_of", completion_of)
        patched.setattr(texts, "case_texts", case_texts)
        yield


def make_instrument(form: InstrumentForm = InstrumentForm.GRADES) -> Instrument:
    """Return an instrument with two criteria, with those of the instances, or with one preference."""
    return Instrument(name=f"own_{form}", title="Own", form=form, criteria=_OF_FORM[form], digest="1" * 64)


def make_study(
    cases: Mapping[str, Sequence[Sequence[str] | str]],
    *,
    form: InstrumentForm = InstrumentForm.GRADES,
    models: Sequence[str] = ("openai/m", "openai/other"),
    adjudicator: str = "",
    kinds: Mapping[str, CaseKind] | None = None,
    **changes: Any,
) -> Study:
    """Return a study. `cases`: rater -> the items of each case, named MODEL-INSTANCE with the number of the model.

    `kinds`: item -> kind of its cases, else shared if two raters have it; a case that comes again is repeated.
    """
    lists = {rater: [(one,) if isinstance(one, str) else tuple(one) for one in own] for rater, own in cases.items()}
    ids = sorted({item for own in lists.values() for items in own for item in items})
    items = tuple(
        Item(
            id=one,
            benchmark="letters",
            instance_id=f"q{one.partition('-')[2]}",
            model=models[int(one.partition("-")[0])],
            run="runs/letters/m-1",
            completion_sha256="2" * 64,
            probability=0.5,
        )
        for one in ids
    )
    assignments = {}
    for rater, own in lists.items():
        found: list[Assignment] = []
        for number, one in enumerate(own, 1):
            n_raters = sum(frozenset(one) in map(frozenset, others) for others in lists.values())
            kind = CaseKind.SHARED if n_raters > 1 else CaseKind.SINGLE
            kind = (kinds or {}).get(one[0], kind)
            if frozenset(one) in map(frozenset, own[: number - 1]):
                kind = CaseKind.REPEATED
            found.append(Assignment(number=number, kind=kind, items=one))
        assignments[rater] = tuple(found)
    raters = tuple(Rater(id=one, is_adjudicator=one == adjudicator) for one in cases)
    return study_of(
        items,
        assignments,
        make_instrument(form),
        **{"raters": raters, "models": tuple(models), "asks_harm": False, **changes},
    )


def study_of(
    items: Sequence[Item], assignments: Mapping[str, tuple[Assignment, ...]], instrument: Instrument, **changes: Any
) -> Study:
    """Return the study `ward` of one benchmark, `letters`."""
    fields: dict[str, Any] = {
        "name": "ward",
        "title": "Ward",
        "created": "2026-01-01T00:00:00+00:00",
        "design": StudyDesign(
            n_cases=len(items), n_calibration=0, raters_per_shared_case=2, shared=0.5, repeated=0.0, seed=7
        ),
        "instruments": {"letters": instrument},
        "models": tuple(dict.fromkeys(one.model for one in items)),
        "items": tuple(items),
        "raters": tuple(Rater(id=one) for one in assignments),
        "assignments": assignments,
    }
    return Study(**(fields | changes))


def new_store(folder: Path, study: Study) -> Store:
    """Return a new store with a study."""
    store = create(folder)
    write_study(store, study)
    return store


def grade(grade: int, **changes: Any) -> CaseRating:
    """Return a rating that gives both criteria the same grade."""
    return CaseRating(**({"grades": dict.fromkeys(("accurate", "clear"), grade)} | changes))


def rate_all(store: Store, study: Study, give: Callable[[str, Assignment], CaseRating | None]) -> None:
    """Rate the cases of all raters; None leaves a case open."""
    for rater in study.raters:
        for case in cases_of(store, study, rater.id):
            if (rating := give(rater.id, case)) is not None:
                record(store, study, rater.id, case.number, rating)

"""A store with completions of models with telling names, and studies of every form on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medhelm.domain import Completion, Criterion, Instance, Message, Prompt, Reference
from medhelm.extensions.study.instruments import read_instrument, with_digest
from medhelm.extensions.study.journal import write_study
from medhelm.extensions.study.texts import completion_digest
from medhelm.extensions.study.types import (
    Assignment,
    CaseKind,
    Instrument,
    InstrumentCriterion,
    InstrumentForm,
    Item,
    Study,
)
from medhelm.storage.runs import load_runs, write_prompts
from medhelm.storage.store import Store, stored_folder
from tests.support.made_once import made_once
from tests.support.rated_studies import study_of
from tests.support.stores import make_record, make_run, write_run

MODELS = ("zebrafish/quokka-70b", "narwhal/okapi:latest")
"""Names of which no part is in any text."""

COMPLETIONS = (
    "Take one tablet twice a day. Zażyj łyżkę 💊, then call the ward.",
    "=HYPERLINK(1) is no formula here.",
    "<script>alert(1)</script> & \u2028 line",
    "Long. " * 9_000,
    "- a list\n- of two\n\nand a last line",
    "تناول حبة واحدة",
)
"""Completions of each model, by instance; those of the second model end otherwise."""

GRADES = tuple(
    InstrumentCriterion(
        name=name, question=f"Is it {name}?", low=1, high=5, anchors={"1": "Poor, or worse", "5": "Good"}
    )
    for name in ("accurate", "clear", "reference")
)


def instrument_of_form(form: InstrumentForm) -> Instrument:
    """Return an instrument: grades with a criterion called `reference`, checks of instances, or a preference."""
    if form is InstrumentForm.GRADES:
        return with_digest(Instrument(name="own", title="Own", form=form, instructions="Read it all.", criteria=GRADES))
    return read_instrument({InstrumentForm.CHECKS: "healthbench", InstrumentForm.PREFERENCE: "preference"}[form])


def _text(model: int, instance: int) -> str:
    return COMPLETIONS[instance] + " Second writer." * model


def _criteria(instance: int) -> tuple[Criterion, ...]:
    names = ("c1", "c2", "c3")[: 1 + instance % 3]
    return tuple(Criterion(name, f"Meets {name} of {instance}.", points=2.0) for name in names)


def offline_study(
    folder: Path,
    form: InstrumentForm = InstrumentForm.GRADES,
    raters: Sequence[str] = ("rater_1", "rater_2"),
    **changes: Any,
) -> tuple[Store, Study]:
    """Write a store and a study in which every rater has a case for each completion, or for each pair of them."""
    store = Store(folder)
    made_once(folder, "offline", lambda: _write_letters(folder))
    study = _study(store, form, raters, **changes)
    write_study(store, study)
    return store, study


def _write_letters(folder: Path) -> None:
    n = len(COMPLETIONS)
    for at, model in enumerate(MODELS):
        records = [make_record(i, completion=Completion(text=_text(at, i))) for i in range(n)]
        run = write_run(folder, make_run("letters", model, n=n), records)
    instances = (
        Instance(id=f"i{i}", fields={}, references=(Reference(f"Right {i}."),), criteria=_criteria(i)) for i in range(n)
    )
    prompts = (
        Prompt((Message("user", f"Note {i}: " + "slept well. " * 200 + f"\n\nWhat now, {i}?"),)) for i in range(n)
    )
    path = Store(folder).prompts_file("letters", run.benchmark_digest, run.data_digest)
    write_prompts(path, zip(instances, prompts, strict=True))


def _study(store: Store, form: InstrumentForm, raters: Sequence[str], **changes: Any) -> Study:
    runs = {run.model: run for run in load_runs(store)}
    items = tuple(
        Item(
            id=f"{at}{i:015x}",
            benchmark="letters",
            instance_id=f"i{i}",
            model=model,
            run=stored_folder(runs[model]).relative_to(store.folder).as_posix(),
            completion_sha256=completion_digest(_text(at, i)),
            probability=1.0,
        )
        for at, model in enumerate(MODELS)
        for i in range(len(COMPLETIONS))
    )
    both = zip(items[: len(COMPLETIONS)], items[len(COMPLETIONS) :], strict=True)
    pairs = [tuple(one.id for one in pair) for pair in both]
    shown = pairs if form is InstrumentForm.PREFERENCE else [(one.id,) for one in items]
    cases = tuple(Assignment(number=n, kind=CaseKind.SHARED, items=one) for n, one in enumerate(shown, 1))
    asks_harm = form is not InstrumentForm.PREFERENCE
    fields = {"title": "Discharge letters", "asks_harm": asks_harm, "shows_reference": True, **changes}
    return study_of(items, dict.fromkeys(raters, cases), instrument_of_form(form), **fields)

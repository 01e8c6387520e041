"""The page on which an owner plans a study: a form, what its plan would be, and all that is wrong with it at once.

Both buttons send the form by POST, also the one that only shows the plan: names of raters stay out of addresses.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from medhelm.benchmarks.catalog import load_benchmarks, remembered_benchmarks
from medhelm.domain import Benchmark, Run
from medhelm.domain.option_fields import option_of
from medhelm.domain.text import plural
from medhelm.errors import UserError
from medhelm.extensions.study.instruments import RUBRIC, instrument_names, instrument_of, read_instrument
from medhelm.extensions.study.journal import RESERVED, write_study
from medhelm.extensions.study.owner.views import Names, finding_rows
from medhelm.extensions.study.pages import STUDIES, form_of, render, server_of, store_of
from medhelm.extensions.study.plans.identification import FindingKind
from medhelm.extensions.study.plans.planning import PlannedStudy, PlanOptions, comparable_runs, plan_study
from medhelm.extensions.study.types import CaseKind, Instrument, InstrumentForm, Rater
from medhelm.results.comparable import BASELINE
from medhelm.results.formats.tables import decimal
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.store import Store

ROWS, MORE_ROWS, MOST_ROWS = 4, 4, 40
"""Rows for raters at first, rows that the button adds, and the most."""

MOST_FINDINGS = 20
"""Flagged passages that the page lists."""

_PLACES = {
    **{"benchmark": "benchmarks", "model": "models", "rater": "raters", "cases": "n_cases"},
    **{"calibration": "n_calibration"},
    **{name: name for name in ("name", "benchmarks", "models", "instrument", "raters", "precision", "shared", "title")},
}
"""First word of a problem of a plan -> the field beside which it is shown."""

_LABELS = {
    "--raters": "more rows",
    "--rater": "a row",
    "--shared": "“Rated by several”",
    "--cases": "“Cases of each model”",
    "--precision": "the precision",
    "--include-baselines": "a choice under “Models”",
    "--benchmark": "a choice under “Benchmarks”",
    "--model": "a choice under “Models”",
}
"""Option of the command line -> what it is on the page."""

_SHARES = ("shared", "repeated")
"""Options that the page asks for in percent."""

_OPTION = re.compile("|".join(sorted(_LABELS, key=len, reverse=True)))


# --- the form ---------------------------------------------------------------------------------------------------------


@dataclass
class PlanForm:
    """The fields of the form as they were sent, and what is wrong with them."""

    sent: Mapping[str, Sequence[str]]
    """Name of a field -> its values."""
    problems: dict[str, list[str]] = field(default_factory=dict)
    """Field -> what is wrong with it; "" for what belongs to no field."""

    def text(self, name: str) -> str:
        """Return a field as it was typed; empty if it is missing."""
        return (self.sent.get(name) or [""])[-1]

    def has(self, name: str, value: str) -> bool:
        """Return True if a box or choice is marked."""
        return value in self.sent.get(name, ())

    def refuse(self, name: str, problem: str) -> None:
        """Note that a field is wrong."""
        self.problems.setdefault(name, []).append(problem)

    def number(self, known: Field[Any]) -> Any:
        """Return a number, or the default of the plan if the field is empty; note what is no number.

        `known`: the field of `PlanOptions`, whose option has the limits. Shares are in percent on the page.
        """
        name, form, default = known.name, option_of(known), known.default
        whole, scale = known.type.startswith("int"), 100 if name in _SHARES else 1
        text = self.text(name).strip().removesuffix("%" if scale == 100 else "").rstrip().replace(",", ".")
        if not text:
            return default
        try:
            value = int(text) if whole else float(text) / scale
        except ValueError:
            self.refuse(name, f"This must be {'a whole number' if whole else 'a number'}, not “{text[:40]}”.")
            return default
        least, most = (form.least, form.most) if form else (None, None)
        if not (least or 0) <= value <= (1e9 if most is None else most):
            upper = "" if most is None else f" and at most {most * scale:g}"
            self.refuse(name, f"This must be at least {(least or 0) * scale:g}{upper}, not {text[:40]}.")
            return default
        return value

    @property
    def n_rows(self) -> int:
        """Rows for raters: those with content, the usual ones, and more if they were asked for."""
        filled = [row for row in range(1, MOST_ROWS + 1) if self._is_filled(row)]
        n = max(ROWS, filled[-1] if filled else 0, int(self.text("rows") or 0) if self.text("rows").isdigit() else 0)
        return min(n + (MORE_ROWS if self.text("action") == "more_raters" else 0), MOST_ROWS)

    def _is_filled(self, row: int) -> bool:
        return any(self.text(f"rater_{row}.{part}").strip() for part in ("name", "role", "user"))

    def raters(self) -> list[Rater]:
        """Return the raters of the rows that are not empty."""
        return [
            Rater(
                id=f"rater_{row}",
                name=self.text(f"rater_{row}.name").strip(),
                role=self.text(f"rater_{row}.role").strip(),
                user=self.text(f"rater_{row}.user").strip(),
                is_adjudicator=self.has(f"rater_{row}.adjudicates", "yes"),
            )
            for row in range(1, MOST_ROWS + 1)
            if self._is_filled(row)
        ]

    def options(self) -> PlanOptions:
        """Return the options of the plan; `problems` then holds what is wrong with single fields."""
        raters = self.raters()
        name = self.text("name").strip() or name_of(self.text("title").strip())
        if not name:
            self.refuse("title", "Give the study a title.")
        if name in RESERVED:
            self.refuse("name", f"`{name}` is taken by a page of this site. Choose another short name.")
        if not any(not one.is_adjudicator for one in raters):
            self.refuse("raters", "Name at least one person who rates.")
        if not self.sent.get("benchmarks"):
            self.refuse("benchmarks", "Choose at least one benchmark.")
        is_precise = self.text("size") == "precision"
        given = {one.name: self._value(one) for one in fields(PlanOptions)}
        if is_precise and given["precision"] is None:
            given["n_cases"] = 1  # one problem is enough
            if "precision" not in self.problems:
                self.refuse("precision", "Say how precise the mean of a model must be, such as 0.3.")
        people = {
            "raters": tuple(one for one in raters if not one.is_adjudicator),
            "adjudicators": tuple(one for one in raters if one.is_adjudicator),
        }
        return PlanOptions(**{**given, **people, "name": name, "instrument": given["instrument"] or RUBRIC})

    def _value(self, one: Field[Any]) -> Any:
        """Return what the form says of an option of a plan."""
        if one.type == "str":
            return self.text(one.name).strip()
        if one.type == "bool":
            return self.has(one.name, "yes")
        if one.type.startswith("tuple"):
            return tuple(self.sent.get(one.name, ()))
        is_left = one.name == ("n_cases" if self.text("size") == "precision" else "precision")
        return None if is_left else self.number(one)

    def sort_in(self, message: str) -> None:
        """Note the problems of a plan, each beside its field and in the words of the page.

        Where the form itself has found a problem, what the plan says of the same field follows from it.
        """
        known = {*self.problems, *(["name"] if "title" in self.problems else [])}
        for line in filter(None, map(str.strip, message.splitlines())):
            if line == "Nothing was saved.":
                continue
            place, _, rest = line.partition(": ")
            found = "benchmarks" if self.has("benchmarks", place) else _PLACES.get(place, "")
            if found in known:
                continue
            is_named = place in _PLACES and place != "cases"  # else the text begins with the name of something
            text = _OPTION.sub(lambda one: _LABELS[one[0]], rest if place in _PLACES else line)
            for name in instrument_names():
                text = text.replace(f"`{name}`", f"“{read_instrument(name).title}”")
            self.refuse(found, text[:1].upper() + text[1:] if is_named else text)


def name_of(title: str) -> str:
    """Return a short name made from a title.

    >>> name_of("Discharge summaries, Q4"), name_of("2026: first look"), name_of("  ")
    ('discharge_summaries_q4', 'study_2026_first_look', '')
    """
    words = re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")[:60].strip("_")
    return words if not words or words[0].isalpha() else f"study_{words}"


def usual_fields(benchmarks: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the fields of the form as it is opened: the defaults of a plan, and the benchmarks that judges graded."""
    options = PlanOptions(name="")
    judged = [one["name"] for one in benchmarks if one["is_judged"]]
    return {
        "benchmarks": judged[:1] if len(judged) == 1 else [],
        "instrument": [options.instrument],
        "size": ["cases"],
        "n_cases": ["20"],
        "shared": [f"{options.shared * 100:g}"],
        "raters_per_shared_case": [str(options.raters_per_shared_case)],
        "repeated": [f"{options.repeated * 100:g}"],
        "n_calibration": [str(options.n_calibration)],
        "seed": [str(options.seed)],
        **({"asks_harm": ["yes"]} if options.asks_harm else {}),
    }


# --- the page ---------------------------------------------------------------------------------------------------------


async def new_page(request: Request) -> Response:
    """Return the form; after POST with the plan, its problems, or the way to the study that was saved."""
    form = PlanForm(await form_of(request)) if request.method == "POST" else None
    return await run_in_threadpool(_answer, request, form)


def _answer(request: Request, form: PlanForm | None) -> Response:
    store = store_of(request)
    definitions = known_definitions(request, store)
    runs = comparable_runs(store)
    benchmarks = [benchmark_facts(name, own, definitions.get(name)) for name, own in runs.items()]
    planned = None
    if form is None:
        form = PlanForm(usual_fields(benchmarks))
    elif form.text("action") in ("preview", "start"):
        planned = _plan(store, definitions, form)
        if planned and form.text("action") == "start":
            write_study(store, planned.study)
            return RedirectResponse(f"{STUDIES}/{planned.study.name}?done=started", 303)
    values = {
        "form": form,
        "problems": form.problems,
        "n_problems": sum(map(len, form.problems.values())),
        "benchmarks": benchmarks,
        "models": model_facts(runs),
        "instruments": instrument_facts(definitions, list(runs)),
        "n_rater_rows": form.n_rows,
        "preview": preview_of(planned, form, benchmarks) if planned else None,
    }
    return render(request, "study_new.html", "New study", values)


def _plan(store: Store, definitions: Mapping[str, Benchmark], form: PlanForm) -> PlannedStudy | None:
    """Return the plan of a form; None if anything is wrong with it."""
    options = form.options()
    try:
        found = plan_study(store, list(definitions.values()), options)
    except UserError as error:
        form.sort_in(str(error))
        return None
    return None if form.problems else found


def known_definitions(request: Request, store: Store) -> Mapping[str, Benchmark]:
    """Return name -> definition of the benchmarks of the store whose definition can be found."""
    given = server_of(request).benchmark_folders
    folders = [*given, *remembered_benchmarks([store.folder], given, metrics=METRIC_NAMES).folders]
    found = {}
    for name in comparable_runs(store):
        try:
            (found[name],) = load_benchmarks([name], metrics=METRIC_NAMES, extra=folders)
        except UserError:
            continue
    return found


def benchmark_facts(name: str, runs: Mapping[str, Run], definition: Benchmark | None) -> dict[str, Any]:
    """Return what the form says of a benchmark."""
    n = max((run.n - run.n_failed for run in runs.values()), default=0)
    is_judged = any(run.jury_result for run in runs.values())
    judges = {judge.name for run in runs.values() if run.jury_result for judge in run.jury_result.jury.judges}
    models = [model for model in runs if not model.startswith(BASELINE)]
    about = f"{plural(len(models), 'model')}, {plural(n, 'completion')} each"
    graded = f"graded by {plural(len(judges), 'judge')}" if is_judged else "not graded by judges"
    return {
        "name": name,
        "title": definition.title if definition else name,
        "facts": f"{about}, {graded}",
        "is_judged": is_judged,
        "access": "" if definition and definition.access == "public" else "private",
    }


def model_facts(runs: Mapping[str, Mapping[str, Run]]) -> list[dict[str, str]]:
    """Return what the form says of each model: models first, then baselines."""
    counts = Counter(model for own in runs.values() for model in own)
    found = []
    for name in sorted(counts, key=lambda name: (name.startswith(BASELINE), name)):
        kind = "baseline, " if name.startswith(BASELINE) else ""
        found.append({"name": name, "facts": f"{kind}on {plural(counts[name], 'benchmark')}"})
    return found


def instrument_facts(definitions: Mapping[str, Benchmark], benchmarks: Sequence[str]) -> list[dict[str, Any]]:
    """Return what the form says of each instrument, with its questions."""
    found = []
    for name in instrument_names():
        one = read_instrument(name)
        groups: list[tuple[str, Sequence[Any]]] = [("", one.criteria)] if one.criteria else []
        for benchmark in benchmarks if not one.criteria else ():
            try:
                groups.append((definitions[benchmark].title, instrument_of(definitions[benchmark], name).criteria))
            except (KeyError, UserError):
                continue
        groups = [(title, criteria) for title, criteria in groups if criteria]
        found.append(
            {
                "name": name,
                "title": one.title,
                "about": _about(one),
                "groups": groups,
                "n_questions": sum(len(criteria) for _, criteria in groups),
                "source": one.source,
                "license": one.license,
            }
        )
    return found


_FORM_WORDS = {
    InstrumentForm.GRADES: "One text at a time; a grade for each question.",
    InstrumentForm.CHECKS: "One text at a time; each criterion is met or not.",
    InstrumentForm.PREFERENCE: "Two texts side by side; which one is better.",
}


def _about(one: Instrument) -> str:
    own = "" if one.criteria else " The questions are those of the benchmark, in its own words."
    return f"{_FORM_WORDS[one.form]}{own}"


# --- the preview ------------------------------------------------------------------------------------------------------


def preview_of(planned: PlannedStudy, form: PlanForm, benchmarks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the plan in numbers, before it is saved."""
    study = planned.study
    cases = [case for own in study.assignments.values() for case in own]
    calibration = {item for case in cases if case.kind is CaseKind.CALIBRATION for item in case.items}
    counts = Counter((item.model, item.benchmark) for item in study.items if item.id not in calibration)
    flagged = {one.item for one in planned.findings}
    titles = {one["name"]: one["title"] for one in benchmarks}
    names = Names(study=study, is_owner=True, titles=titles)
    rows = finding_rows(planned.findings, names, with_model=True)
    kinds = {rater: Counter(one.kind for one in cases) for rater, cases in study.assignments.items()}
    return {
        "sentence": plan_sentence(planned, counts),
        "remarks": [remark.text for remark in planned.remarks],
        "raters": [
            {
                "title": study.rater(one.rater).name or one.rater,
                "sub": ", ".join(filter(None, [one.rater, study.rater(one.rater).role])),
                "cells": [
                    one.n_cases,
                    kinds[one.rater][CaseKind.CALIBRATION],
                    kinds[one.rater][CaseKind.SHARED],
                    one.n_repeated,
                    f"{one.hours:.1f}" if one.n_cases else "only differences",
                ],
            }
            for one in planned.workloads
        ],
        "benchmarks": [titles.get(name, name) for name in study.benchmarks],
        "models": [(model, [counts[model, name] for name in study.benchmarks]) for model in study.models],
        "findings": rows[:MOST_FINDINGS],
        "n_more_findings": len(rows) - MOST_FINDINGS,
        "can_exclude": any(one.kind is not FindingKind.SIGNATURE for one in planned.findings),
        "findings_sentence": f"{len(flagged):,} of {plural(len(study.items), 'completion')} hold such a passage. "
        "Raters who recognize a model are no longer blinded.",
        "excludes": form.has("exclude_flagged", "yes"),
    }


def plan_sentence(planned: PlannedStudy, counts: Mapping[tuple[str, str], int]) -> str:
    """Return what a plan takes and gives, in a sentence or two."""
    study, precision = planned.study, planned.precision
    per_model = Counter[str]()
    for (model, _), n in counts.items():
        per_model[model] += n
    n_cases = max(per_model.values(), default=0)
    loads = [one for one in planned.workloads if one.n_cases]
    numbers, hours = sorted({one.n_cases for one in loads}), [one.hours for one in loads]
    each = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    what = f"{plural(n_cases, 'case')} of each model"
    work = f"{plural(planned.n_ratings, 'rating')}, {each} per rater, about {max(hours, default=0):.1f} hours each"
    low, high = next(((one.low, one.high) for own in study.instruments.values() for one in own.criteria), (0, 1))
    if precision is None:
        return f"{what}: {work}."
    if precision.covers(low, high):
        return f"{what}: {work}. Too few ratings: the mean of a model could lie anywhere from {low} to {high}."
    if study.design.precision is not None:
        wanted = decimal(study.design.precision, 2)
        return f"± {wanted} on {low} to {high} needs {what}: {work}. Assumed: {precision.source}."
    reached, compared = decimal(precision.half_width, 2), decimal(precision.without_raters, 2)
    same_raters = "" if reached == compared else f", or ± {compared} where models are compared by the same raters"
    return (
        f"{what}: {work}. The mean of a model is then known within ± {reached} on {low} to {high}{same_raters}. "
        f"Assumed: {precision.source}."
    )


ROUTES = (("study_new", f"{STUDIES}/new", ["GET", "POST"], new_page),)
"""The page: name, path, methods, and the function that answers a request. It comes before pages of single studies."""

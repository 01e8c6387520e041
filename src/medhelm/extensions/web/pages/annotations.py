"""Actions on notes, tags and stars: add one to a case or an answer, and remove one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl

from medhelm.domain import Run
from medhelm.errors import UserError
from medhelm.extensions.web.cases.case import BenchmarkCases, case_models, find_case
from medhelm.extensions.web.page import Destination
from medhelm.extensions.web.pages.case_list import opened
from medhelm.extensions.web.site import Site
from medhelm.io.http.pages import BadParameter, PageNotFound, check_query
from medhelm.storage.annotations import add_annotation, new_annotation, remove_annotations
from medhelm.storage.store import Store, stored_folder

NOTES = "notes"
"""Id of the list of notes on the page of a case."""


def add(site: Site, parts: Mapping[str, str], form: Mapping[str, Sequence[str]]) -> Destination:
    """Add what a form holds. Raises: BadParameter for an empty or too long annotation; PageNotFound; StoreError."""
    cases = _cases(site, parts)
    instance_id = find_case(cases, parts["case"], models=[]).instance_id
    run, model = _annotated(cases, _field(form, "model"))
    try:
        made = new_annotation(
            cases.benchmark,
            instance_id,
            model=model,
            author=_field(form, "author"),
            note=_field(form, "note"),
            tags=[*form.get("tag", ()), *_field(form, "tags").split(",")],
            is_starred=bool(_field(form, "starred")),
        )
    except UserError as error:
        raise BadParameter(str(error)) from None
    add_annotation(_store_of(run), made)
    return _destination(parts, form, made.author)


def remove(site: Site, parts: Mapping[str, str], form: Mapping[str, Sequence[str]]) -> Destination:
    """Remove an annotation of a case. Raises: PageNotFound if there is none of this id; StoreError."""
    cases = _cases(site, parts)
    instance_id = find_case(cases, parts["case"], models=[]).instance_id
    meant = (cases.benchmark, instance_id, parts["annotation"])
    stores = dict.fromkeys(map(_store_of, cases.runs.values()))
    n = sum(
        remove_annotations(store, lambda one: (one.benchmark, one.instance_id, one.id) == meant) for store in stores
    )
    if not n:
        raise PageNotFound("This note is not in the store. It may have been removed in the meantime.")
    return _destination(parts, form, "")


def _cases(site: Site, parts: Mapping[str, str]) -> BenchmarkCases:
    """Open the cases of a benchmark whose texts may be shown. Raises: PageNotFound."""
    if not site.shows_text_of(parts["benchmark"]):
        raise PageNotFound(f"Texts of `{parts['benchmark'][:80]}` are left out, because its data is not public.")
    return opened(site, parts["benchmark"])


def _annotated(cases: BenchmarkCases, key: str) -> tuple[Run, str]:
    """Return the run of the model with this key and its name; without a key, the first run and no name."""
    if not key:
        return next(iter(cases.runs.values())), ""
    if (model := case_models(cases).get(key)) is None:
        raise PageNotFound(f"No model has the key `{key[:80]}` in this benchmark.")
    return cases.runs[model], cases.runs[model].model


def _store_of(run: Run) -> Store:
    return Store(stored_folder(run).parents[2])


def _field(form: Mapping[str, Sequence[str]], name: str) -> str:
    return next(iter(form.get(name, ())), "")


def _destination(parts: Mapping[str, str], form: Mapping[str, Sequence[str]], author: str) -> Destination:
    """Return the page that the form was on, with the name of its author in the form."""
    query = check_query(parse_qsl(_field(form, "query")))
    kept = {name: values for name, values in query.items() if name not in parts}
    parameters = {**kept, **({"author": author} if author else {}), "benchmark": parts["benchmark"]}
    return Destination(route="case", parameters={**parameters, "case": parts["case"]}, fragment=NOTES)

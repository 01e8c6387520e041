"""The errors on a benchmark: what went wrong, counted, with links to the cases."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from medhelm.extensions.web.cases.case import BenchmarkCases
from medhelm.extensions.web.cases.errors import (
    BenchmarkErrors,
    Confusion,
    ErrorCount,
    LabelCount,
    SuspectKey,
    find_errors,
)
from medhelm.extensions.web.cases.search import CriterionGrades
from medhelm.extensions.web.page import PageRequest
from medhelm.extensions.web.pages.case_list import (
    CONDITIONS,
    ITEM,
    SHOWN,
    exported_cases,
    is_graded,
    open_text,
    opened,
    outcome_marks,
)
from medhelm.extensions.web.site import Site
from medhelm.io.http.pages import Download, Page, json_download, url_key
from medhelm.results.formats.fields import (
    Field,
    fields_json,
    fields_schema,
    list_field,
    list_of,
    object_field,
    plain_json,
    schema_of,
    select_fields,
    table_of,
)
from medhelm.results.formats.tables import Value
from medhelm.results.runs.classification import JSON_FIELDS, ClassifiedBenchmark, class_fields, class_rows

REASONS: Mapping[str, str] = {
    "refusal": "refused",
    "length": "cut at the limit on tokens, without an answer",
    "timeout": "no reply in time",
    "server_error": "error of the server",
    "rate_limit": "too many requests",
    "connection": "no connection",
    "context_length": "prompt too long for the model",
    "does_not_fit": "prompt too long for the model",
    "too_large": "prompt too large for the server",
    "malformed_reply": "reply that is not valid",
    "empty_choice": "empty reply",
}
"""Failure code -> its meaning in words; others are shown as they are."""

MOST_STATIC = 12
"""Most models whose confusion is shown in the static site, where none can be chosen."""


def page(site: Site, request: PageRequest) -> Page:
    """Return the page. Of a benchmark whose texts are not shown, it has numbers only."""
    cases = opened(site, request.text("benchmark"))
    errors = errors_of(site, cases)
    shows_text = site.shows_text_of(cases.benchmark)
    default = errors.models[0] if errors.models else ""
    model = request.known_name("model", errors.models, default)
    confusions = [one for one in errors.confusions if request.is_static or one.model == model]
    n_exported = errors.n
    has_cases = shows_text and request.most_cases != 0
    measured = errors.measured if has_cases else None  # the names of classes are texts of the data
    if request.is_static and shows_text:
        exported = set(exported_cases(site, cases, request.most_cases))
        errors, n_exported = _exported(errors, exported), len(exported)
    ids = [case.instance_id for one in errors.criteria for case in one.worst]
    return Page(
        template="errors.html",
        title=f"Errors on {cases.title}",
        values={
            "cases": cases,
            "errors": errors,
            "model": model,
            "confusions": confusions[:MOST_STATIC] if has_cases else [],
            "shows_text": shows_text,
            "n_exported": n_exported,
            "has_cases": has_cases,
            "reasons": {**SHOWN, **REASONS},
            "measured": measured,
            "class_table": _class_table(measured),
            "columns": errors.models,
            "graded": is_graded(cases),
            "marks": {item.key: outcome_marks(cases, item, errors.models) for item in errors.hardest},
            "others": [
                name
                for name in ("unreadable", "blank", "failed")
                if any(name in row for one in errors.confusions for row in one.counts.values())
            ],
            "keys": {name: url_key(name) for name in ids},
        },
    )


def _class_table(measured: ClassifiedBenchmark | None) -> tuple[list[list[Value]], list[str]]:
    """Return rows and headings of the measures of each class; empty without classes."""
    if measured is None:
        return [], []
    shown = f"model {'' if measured.positive else 'class '}sensitivity specificity ppv npv f1 youden mcc"
    rows, headings, _ = table_of(select_fields(class_fields(), shown), class_rows(measured))
    return rows, headings


def _exported(errors: BenchmarkErrors, ids: Collection[str]) -> BenchmarkErrors:
    """Return the errors without the cases that a static site does not hold; counts are of all cases."""
    return replace(
        errors,
        suspects=[one for one in errors.suspects if one.item.row.instance_id in ids],
        hardest=[item for item in errors.hardest if item.row.instance_id in ids],
        criteria=[
            replace(one, worst=[case for case in one.worst if case.instance_id in ids]) for one in errors.criteria
        ],
    )


def errors_of(site: Site, cases: BenchmarkCases) -> BenchmarkErrors:
    """Return the errors on a benchmark, from memory if they were collected before."""
    return site.keep(("errors", cases.benchmark), lambda: find_errors(cases))


def json_(site: Site, request: PageRequest) -> Download:
    """Return the same as JSON."""
    cases = open_text(site, request.text("benchmark"))
    content = {**fields_json(CONDITIONS, cases), **fields_json(FIELDS, errors_of(site, cases))}
    return json_download(content, f"{cases.benchmark}-errors")


SUSPECT: list[Field[SuspectKey]] = [
    object_field("case", ITEM, lambda one: one.item),
    Field("said", lambda one: one.said, kind="text"),
    Field("n_said", lambda one: one.n_said, kind="whole number"),
]
"""A case that no strong model has right, with the option that most models chose."""

FIELDS: list[Field[BenchmarkErrors]] = [
    Field("n", lambda found: found.n, kind="whole number"),
    Field("models", lambda found: found.models, kind="texts"),
    Field("labels", lambda found: found.labels, kind="texts"),
    Field("confusions", lambda found: plain_json(found.confusions), kind="object",
          schema=list_of(schema_of(Confusion))),
    Field("letters", lambda found: plain_json(found.letters), kind="object", schema=list_of(schema_of(LabelCount))),
    Field("reasons", lambda found: plain_json(found.reasons), kind="object", schema=list_of(schema_of(ErrorCount))),
    Field("n_suspects", lambda found: found.n_suspects, kind="whole number"),
    list_field("suspects", SUSPECT, lambda found: found.suspects),
    list_field("hardest", ITEM, lambda found: found.hardest),
    Field("criteria", lambda found: plain_json(found.criteria), kind="object",
          schema=list_of(schema_of(CriterionGrades))),
    Field("measured", lambda found: found.measured and fields_json(JSON_FIELDS, found.measured), kind="object",
          schema=fields_schema(JSON_FIELDS), missing="the cases do not have the same options"),
]  # fmt: skip
"""The errors on a benchmark."""

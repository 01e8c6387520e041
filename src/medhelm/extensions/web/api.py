"""The JSON interface of the site: the numbers and cases of the pages, and the OpenAPI document that describes it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal, get_origin, get_type_hints

from starlette.responses import Response

from medhelm import __version__
from medhelm.analysis.leaderboard.diff import LeaderboardDiff
from medhelm.analysis.leaderboard.rows import head_to_head
from medhelm.extensions.web.cases.case import Case
from medhelm.extensions.web.cases.search import SEARCH_PARAMETERS, CaseSearch
from medhelm.extensions.web.live_status import EvaluationPhase
from medhelm.extensions.web.page import BY_NAME, MOST_PAGES, PageRequest
from medhelm.extensions.web.pages import errors, search
from medhelm.extensions.web.pages.benchmarks import entry_fields
from medhelm.extensions.web.pages.case_list import CONDITIONS, ITEM
from medhelm.extensions.web.site import DAMAGED_FIELDS, Site
from medhelm.io.http.pages import MOST_CHARACTERS, BadParameter, Download, check_length
from medhelm.results import comparison, jury
from medhelm.results.formats.fields import (
    BOOLEAN,
    INTEGER,
    NUMBER,
    STRING,
    JsonSchema,
    fields_schema,
    keys,
    list_of,
    map_of,
    nullable,
    record,
    ref,
    schema_of,
)
from medhelm.results.leaderboard_view import EMPTY, board_fields
from medhelm.results.releases import CASE_FIELDS, RELEASE_FIELDS
from medhelm.results.runs import data_use, side_by_side
from medhelm.results.runs.slices_view import BENCHMARK_FIELDS as SLICED_FIELDS
from medhelm.storage.live_status import EvaluationStatus

# --- OpenAPI document -------------------------------------------------------------------------------------------------
# It is made from the tables of routes, operations and schemas.

ERRORS: Mapping[int, str] = {
    400: "A parameter is not valid.",
    401: "The token is missing or wrong.",
    403: "The request comes from another site, or for another host name.",
    404: "There is nothing under this name.",
    405: "Only reading is possible.",
    414: "The address is too long.",
    429: "Too many wrong tokens; wait a minute.",
    503: "The store cannot be read.",
}
"""Status -> its meaning, for every operation."""

HEADERS: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": "How to sign in."},
    405: {"Allow": "Methods that are possible."},
    429: {"Retry-After": "Seconds to wait."},
}
"""Status -> headers of its response, with their meaning."""


def document(site: Site, request: PageRequest) -> Download:
    """Return the OpenAPI document."""
    del site, request
    text = json.dumps(openapi(), indent=1)
    return Download(content=text.encode(), media_type=JSON, file_name="openapi.json")


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document as JSON types."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "MedHELM",
            "version": __version__,
            "summary": "Results of language models on medical benchmarks.",
            "description": "The data of the pages of `medhelm serve`, read only. Sign in with the token that the "
            "command prints: `Authorization: Bearer TOKEN`.",
        },
        "security": [{"token": []}],
        "paths": {BY_NAME[name].path: {"get": _operation(name, one)} for name, one in OPERATIONS.items()},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": dict(SCHEMAS),
            "responses": {str(status): _error(status, text) for status, text in ERRORS.items()},
        },
    }


def _operation(name: str, operation: Operation) -> dict[str, Any]:
    parts = re.findall(r"{(\w+)}", BY_NAME[name].path)
    path = [Parameter(name=part, description=PATH[part], schema=NAME, is_required=True) for part in parts]
    result = {"description": operation.summary, "content": _json({"$ref": f"#/components/schemas/{operation.returns}"})}
    return {
        "operationId": name,
        "summary": operation.summary,
        "parameters": [
            *(_parameter(one, "path") for one in path),
            *(_parameter(one, "query") for one in operation.parameters),
        ],
        "responses": {
            "200": result,
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in ERRORS},
        },
    }


def _parameter(one: Parameter, place: str) -> dict[str, Any]:
    known = {"name": one.name, "in": place, "description": one.description, "schema": dict(one.schema)}
    return {**known, "required": True} if one.is_required else known


def _error(status: int, description: str) -> dict[str, Any]:
    headers = {
        name: {"description": text, "required": True, "schema": {"type": "string"}}
        for name, text in HEADERS.get(status, {}).items()
    }
    found = {"description": description, "content": _json({"$ref": "#/components/schemas/Error"})}
    return {**found, "headers": headers} if headers else found


def _json(schema: Schema) -> dict[str, Any]:
    return {JSON: {"schema": schema}}


# --- operations -------------------------------------------------------------------------------------------------------
# Parameters and results of each path of the JSON interface: the other half of `page.ROUTES`.

Schema = Mapping[str, Any]
"""A JSON Schema."""

TEXT: Schema = {"type": "string", "maxLength": MOST_CHARACTERS}
"""Any text that fits into a URL of the site."""

NAME: Schema = {**TEXT, "minLength": 1}
"""Any text that is not empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of the path or the query."""

    name: str
    """Its name."""
    description: str
    """Its meaning."""
    schema: Schema = field(default_factory=lambda: TEXT)
    """Valid values."""
    is_required: bool = False
    """True if a request without it is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A path of the interface; only GET is possible."""

    summary: str
    """Its result, in one line."""
    returns: str
    """Name of the schema of its result, in `SCHEMAS`."""
    parameters: Sequence[Parameter] = ()
    """Parameters of the query; those of the path are required texts."""


def _choice(values: Sequence[str]) -> Schema:
    return {"type": "string", "enum": list(values)}


SELECTION = (
    Parameter(name="suite", description="Suite of benchmarks: a built-in one, or one that the site was started with."),
    Parameter(name="category", description="Only benchmarks of this category."),
    Parameter(name="subcategory", description="Only benchmarks of this subcategory."),
    Parameter(name="access", description="Only benchmarks with this access to their data.",
              schema=_choice(["public", "gated", "private"])),
)  # fmt: skip
"""Parameters that select benchmarks."""

RESULTS = Parameter(
    name="results",
    description="Results of the store, published results, or both. Only a site with published results accepts other "
    "values than own.",
    schema=_choice(["own", "published", "all"]),
)
"""Parameter that selects models by the source of their scores."""

SCORE: Schema = {"type": "number", "minimum": -1e9, "maximum": 1e9}
"""A bound of scores."""


def _search_schema(kind: Any) -> Schema:
    """Return the valid values of a condition of a search in a URL."""
    if get_origin(kind) is Literal:
        return schema_of(kind)
    return _choice(["1"]) if kind is bool else TEXT if kind is str else SCORE


_KINDS = get_type_hints(CaseSearch)

SEARCH = (
    *(
        Parameter(name=name, description=own["meaning"], schema=_search_schema(_KINDS[name]))
        for name, own in SEARCH_PARAMETERS.items()
    ),
    Parameter(name="page", description="Page of the list; a page beyond the last one is the last one.",
              schema={"type": "integer", "minimum": 1, "maximum": MOST_PAGES}),
)  # fmt: skip
"""Parameters that search cases."""

PAIR = (
    Parameter(name="a", description="First model.", schema=NAME, is_required=True),
    Parameter(name="b", description="Second model.", schema=NAME, is_required=True),
)
"""Parameters that name two models."""

RELEASES = (
    Parameter(name="before", description="The earlier release; the latest one by default."),
    Parameter(name="now", description="The later release; by default `current`, the present state of the store."),
)
"""Parameters that name two releases or stores."""

ALSO = Parameter(name="also", description="A further release or store to show beside these; repeatable.")
"""Parameter for more columns."""

PATH: Mapping[str, str] = {
    "benchmark": "Id of a benchmark, such as `pubmed_qa`.",
    "case": "Key of an instance, as the list of cases gives it.",
}
"""Parameter of a path -> its meaning."""

OPERATIONS: Mapping[str, Operation] = {
    "api_leaderboard": Operation(
        summary="The leaderboard, as `medhelm leaderboard --format json` prints it.",
        returns="Leaderboard",
        parameters=(*SELECTION, RESULTS),
    ),
    "api_benchmarks": Operation(summary="All benchmarks, with the number of models run on each.", returns="Benchmarks"),
    "api_benchmark": Operation(summary="One benchmark with the models compared on it.", returns="Benchmark"),
    "cases_json": Operation(
        summary="The cases of a benchmark: a page of the instances that meet the conditions.",
        returns="Cases",
        parameters=SEARCH,
    ),
    "case_json": Operation(
        summary="One case: prompt, references and every model's completion, scores and judgments.",
        returns="Case",
        parameters=RELEASES,
    ),
    "errors_json": Operation(
        summary="What went wrong on a benchmark: confusion, letters, failures, suspect keys, low criteria.",
        returns="Errors",
    ),
    "search_json": Operation(
        summary="The cases of all benchmarks that hold a text, the first five of each.",
        returns="Search",
        parameters=SEARCH[:2],
    ),
    "api_compare": Operation(
        summary="Two models compared, as `medhelm compare A B --json` prints it.",
        returns="Comparison",
        parameters=(*PAIR, *SELECTION),
    ),
    "api_releases": Operation(summary="The releases that can be compared, by time.", returns="Releases"),
    "api_release_comparison": Operation(
        summary="Two releases or stores compared, as `medhelm diff --json` prints it, and others beside them.",
        returns="ReleaseComparison",
        parameters=(*RELEASES, ALSO),
    ),
    "running_json": Operation(
        summary="Evaluations that are running, or that ended early, with their progress.", returns="Evaluations"
    ),
    "api_judges": Operation(
        summary="The judges, as `medhelm jury --json` prints them; without a benchmark that was judged, an error.",
        returns="Judges",
        parameters=(Parameter(name="benchmark", description="Only this benchmark.", schema=NAME),),
    ),
    "api_data": Operation(
        summary="Where the data of the stores was sent, by host and benchmark, from their audit logs.",
        returns="DataUse",
    ),
    "api_openapi": Operation(summary="This document.", returns="Document"),
}
"""Name of a route -> its operation."""


def check_parameters(operation: Operation, query: Mapping[str, Sequence[str]]) -> None:
    """Raise BadParameter for a parameter of the query that the operation does not know, or lacks.

    Pages ignore unknown parameters; for a program, a misspelled one must not pass for another result.
    """
    known = {one.name for one in operation.parameters}
    if unknown := sorted(query.keys() - known):
        names = f"Known: {', '.join(sorted(known))}." if known else "It has no parameters."
        raise BadParameter(f"The parameter `{unknown[0][:80]}` is not known here. {names}")
    for one in operation.parameters:
        check_length(one.name, *query.get(one.name, ()))
        if one.is_required and not any(query.get(one.name, ())):
            raise BadParameter(f"The parameter `{one.name}` is missing.")


# --- errors -----------------------------------------------------------------------------------------------------------
# Errors of the JSON interface.

JSON = "application/json"
"""Media type of everything that the interface sends."""


def is_json_path(path: str) -> bool:
    """Return True if errors at this path are JSON.

    >>> is_json_path("/api/nothing"), is_json_path("/leaderboard.json"), is_json_path("/compare")
    (True, True, False)
    """
    return path == "/api" or path.startswith("/api/") or path.endswith(".json")


def error_content(status: int, message: str) -> bytes:
    """Return an error as JSON.

    >>> error_content(404, "The benchmark `x` does not exist.")
    b'{"error": {"status": 404, "code": "not_found", "message": "The benchmark `x` does not exist."}}'
    """
    code = HTTPStatus(status).name.lower()
    return json.dumps({"error": {"status": status, "code": code, "message": message}}).encode()


def error_response(status: int, message: str, **headers: str) -> Response:
    """Return a response with an error as JSON."""
    return Response(error_content(status, message), status, media_type=JSON, headers=headers)


# --- results ----------------------------------------------------------------------------------------------------------
# JSON Schemas of everything that the JSON interface returns.

DAMAGED = list_of(fields_schema(DAMAGED_FIELDS))
"""Runs that cannot be read and are left out."""

BENCHMARK_ENTRY = fields_schema(entry_fields(str, {}))

BENCHMARK = record(
    **BENCHMARK_ENTRY["properties"],
    **keys("description license metric", STRING),
    problems=list_of(STRING),
    leaderboard={**nullable(ref("Leaderboard")), "description": "the models on it; null if none was run"},
    slices={**list_of(fields_schema(SLICED_FIELDS)), "description": "the models by columns of the data"},
    damaged=DAMAGED,
)


BOARD = fields_schema(board_fields(EMPTY, head_to_head(EMPTY)))

JUDGES = fields_schema(jury.FIELDS)

MEASURED = fields_schema(CONDITIONS)["properties"]

CASES = record(
    **MEASURED,
    search=map_of(STRING),
    **keys("page pages total", INTEGER),
    cases=list_of(fields_schema(ITEM)),
)


def _case() -> JsonSchema:
    whole = schema_of(Case)
    message = record(role=STRING, content=STRING)
    changes = {
        "messages": list_of(message),
        "references": list_of(record(text=STRING, correct=BOOLEAN)),
        "criteria": list_of(record(name=STRING, text=STRING, points=NUMBER)),
    }
    return record(**{**MEASURED, **whole["properties"], **changes})


NAMES_BY_SIDE = {"type": "array", "items": list_of(STRING), "minItems": 2, "maxItems": 2}


def _release_comparison() -> JsonSchema:
    only = list_of(list_of(record(model=STRING, benchmark=STRING)))
    diff = {**schema_of(LeaderboardDiff)["properties"], "models": NAMES_BY_SIDE, "benchmarks": NAMES_BY_SIDE}
    sides = fields_schema(side_by_side.FIELDS)["properties"]
    return record(**diff, same=BOOLEAN, cases=list_of(fields_schema(CASE_FIELDS)), only=only, **sides)


EVALUATION = record(
    **{
        **schema_of(EvaluationStatus)["properties"],
        "store": STRING,
        "state": schema_of(EvaluationPhase),
        "silent": BOOLEAN,
        **keys("seconds seconds_left", NUMBER),
        **keys("n done n_failed", INTEGER),
    }
)

ERROR = record(error=record(status=INTEGER, code=STRING, message=STRING))

SCHEMAS: Mapping[str, JsonSchema] = {
    "Leaderboard": {**BOARD, "properties": {**BOARD["properties"], "damaged": DAMAGED}},
    "Benchmarks": record(benchmarks=list_of(BENCHMARK_ENTRY), damaged=DAMAGED),
    "Benchmark": BENCHMARK,
    "Cases": CASES,
    "Case": _case(),
    "Errors": record(**{**MEASURED, **fields_schema(errors.FIELDS)["properties"]}),
    "Search": fields_schema(search.FIELDS),
    "Comparison": fields_schema(comparison.FIELDS),
    "Releases": record(releases=list_of(fields_schema(RELEASE_FIELDS))),
    "ReleaseComparison": _release_comparison(),
    "Evaluations": record(evaluations=list_of(EVALUATION)),
    "Judges": {**JUDGES, "properties": {**JUDGES["properties"], "clinicians": {"type": "object"}}},
    "DataUse": fields_schema(data_use.FIELDS),
    "Document": {"type": "object", "required": ["openapi", "paths"]},
    "Error": ERROR,
}
"""Name -> schema."""

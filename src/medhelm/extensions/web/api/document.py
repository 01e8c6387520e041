"""The OpenAPI document, made from the tables of routes, operations and schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from medhelm import __version__
from medhelm.extensions.web.api.errors import JSON
from medhelm.extensions.web.api.operations import NAME, OPERATIONS, PATH, Operation, Parameter, Schema
from medhelm.extensions.web.api.schemas import SCHEMAS
from medhelm.extensions.web.page import Download, PageRequest
from medhelm.extensions.web.routes import BY_NAME
from medhelm.extensions.web.site import Site

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

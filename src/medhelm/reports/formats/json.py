"""Dataclasses as JSON whose keys stay when fields are renamed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from medhelm.reports.formats.tables import number

if TYPE_CHECKING:
    from medhelm.domain import InjectionEffect
    from medhelm.domain.result import LeftOut


# --- json output ------------------------------------------------------------------------------------------------------

KEYS: Mapping[str, Mapping[str, str]] = {
    "BenchmarkCheck": {"constant_baseline": "floor"},
    "CellProvenance": {"min_judges": "at_least"},
    "Completion": {"refused_parameters": "refused_parts"},
    "RankSwap": {"is_significant": "told_apart"},
    "Origin": {"completions_made_here": "asked_here", "is_medhelm_task": "our_task"},
    "Release": {"medhelm_version": "medhelm", "provenance": "bases", "leaderboard": "board"},
}
"""Class -> field -> JSON key, for fields whose key differs. The approved outputs of the tests hold all keys."""


def plain_json(value: Any) -> Any:
    """Return a value as plain JSON types: dataclasses become objects, tuples become lists, paths become texts.

    >>> from medhelm.domain import Usage
    >>> plain_json({"tokens": Usage(input=3)})["tokens"]["input"]
    3
    """
    if is_dataclass(value) and not isinstance(value, type):
        keys = KEYS.get(type(value).__name__, {})
        return {keys.get(field.name, field.name): plain_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain_json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def select(value: Any, names: str, *, rounded: bool = False) -> dict[str, Any]:
    """Return fields of a dataclass as JSON, in this order; `key=field` renames, and `key=outer.inner` reaches inside.

    A field of `outer` is None if `outer` is None.

    Parameters: rounded, whether floats are rounded to six decimals, and nan and infinity become None.

    >>> from medhelm.domain import Usage
    >>> select(Usage(input=3, output=4), "output prompt=input")
    {'output': 4, 'prompt': 3}
    """
    found = {}
    for name in names.split():
        key, _, path = name.partition("=")
        content = value
        for part in (path or key).split("."):
            content = None if content is None else getattr(content, part)
        found[key] = number(content) if rounded and isinstance(content, float) else plain_json(content)
    return found


def estimate_json(found: Any | None, names: str = "value low high") -> dict[str, Any] | None:
    """Return a number with its interval as rounded JSON; None stays None. `names`: see `select`."""
    return None if found is None else select(found, names, rounded=True)


def left_out_json(entries: Iterable[LeftOut]) -> list[dict[str, Any]]:
    """Return the models that do not count on a benchmark, with the reason and the command after which they do."""
    return [select(entry, "model benchmark reason command") for entry in entries]


def injection_effects_json(effects: Iterable[InjectionEffect]) -> list[dict[str, Any]]:
    """Return the runs with completions that have signs of a prompt injection."""
    return [select(one, "model benchmark n n_suspicious=n_flagged mean mean_without", rounded=True) for one in effects]


def probability(p: float | None) -> float | None:
    """Return a p-value for JSON: four significant digits, however small; None if undefined."""
    return None if p is None or not math.isfinite(p) else float(f"{p:.4g}")


# --- json schema ------------------------------------------------------------------------------------------------------
# JSON Schemas: of types, and helpers that build them.

JsonSchema: TypeAlias = dict[str, Any]
"""A JSON Schema."""

STRING: JsonSchema = {"type": "string"}
INTEGER: JsonSchema = {"type": "integer"}
BOOLEAN: JsonSchema = {"type": "boolean"}
NUMBER: JsonSchema = {"type": ["number", "null"]}
"""A number; null if it is unknown or undefined."""
ANYTHING: JsonSchema = {}


def list_of(items: JsonSchema) -> JsonSchema:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def enum_of(values: Iterable[str]) -> JsonSchema:
    """Return the schema of a text that is one of these."""
    return {"type": "string", "enum": list(values)}


def map_of(values: JsonSchema) -> JsonSchema:
    """Return the schema of an object whose keys are names."""
    return {"type": "object", "additionalProperties": values}


def nullable(schema: JsonSchema) -> JsonSchema:
    """Return the schema that also allows null.

    >>> nullable(STRING)
    {'type': ['string', 'null']}
    """
    if isinstance(schema.get("type"), str) and "enum" not in schema:
        return {**schema, "type": [schema["type"], "null"]}
    return schema if schema in (NUMBER, ANYTHING) else {"anyOf": [schema, {"type": "null"}]}


def record(*, optional: Mapping[str, JsonSchema] | None = None, **required: JsonSchema) -> JsonSchema:
    """Return the schema of an object with these keys. A trailing underscore keeps a key apart from Python's words."""
    named = {name.rstrip("_"): schema for name, schema in required.items()}
    return {"type": "object", "properties": {**named, **(optional or {})}, "required": list(named)}


def keys(names: str, schema: JsonSchema) -> dict[str, JsonSchema]:
    """Return keys with the same schema, to be unpacked into `record`.

    >>> keys("low high", NUMBER)
    {'low': {'type': ['number', 'null']}, 'high': {'type': ['number', 'null']}}
    """
    return dict.fromkeys(names.split(), schema)


LEFT_OUT = list_of(record(**keys("model benchmark reason command", STRING)))
"""Schema of `json_output.left_out_json`."""


INJECTIONS = list_of(
    record(**keys("model benchmark", STRING), **keys("n n_suspicious", INTEGER), **keys("mean mean_without", NUMBER))
)
"""Schema of `json_output.injection_effects_json`."""


def ref(name: str) -> JsonSchema:
    """Return a reference to a schema of `SCHEMAS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def schema_of(kind: Any) -> JsonSchema:
    """Return the schema of a type as `reports.formats.json.plain_json` writes it.

    >>> schema_of(tuple[str, ...] | None)
    {'type': ['array', 'null'], 'items': {'type': 'string'}}
    """
    if is_dataclass(kind) and isinstance(kind, type):
        keys, hints = KEYS.get(kind.__name__, {}), get_type_hints(kind)
        return record(**{keys.get(one.name, one.name): schema_of(hints[one.name]) for one in fields(kind)})
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        known = [part for part in parts if part is not NoneType]
        schema = schema_of(known[0]) if len(known) == 1 else ANYTHING
        return nullable(schema) if len(known) < len(parts) else schema
    if origin is Literal:
        return enum_of(parts)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return map_of(schema_of(parts[1]))
    if origin is tuple and parts[-1] is not Ellipsis:
        return {"type": "array", "prefixItems": [schema_of(one) for one in parts], "items": False}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return list_of(schema_of(parts[0]))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return enum_of(map(str, kind))
    return dict(PLAIN.get(kind, ANYTHING))


PLAIN: Mapping[Any, JsonSchema] = {str: STRING, int: INTEGER, bool: BOOLEAN, float: NUMBER}
"""Type -> its schema. JSON has no infinity: such numbers are null."""

"""JSON Schemas: of types, and helpers that build them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from medhelm.reports.formats.json_output import KEYS

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
    """Return the schema of a type as `reports.formats.json_output.plain_json` writes it.

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

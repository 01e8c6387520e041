"""Fields of results: each is described once, and every output takes it from there.

JSON and its schema, CSV, exported tables, the data dictionary, tables for people and the columns of a page are made
from a sequence of `Field`. A result that does not fit keeps a function of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from medhelm.results.formats.tables import (
    MISSING,
    HasInterval,
    Value,
    decimal,
    estimate_text,
    number,
    p_text,
    render,
    shows_all,
)

if TYPE_CHECKING:
    from medhelm.domain import InjectionEffect
    from medhelm.domain.result import LeftOut


# --- plain JSON -------------------------------------------------------------------------------------------------------

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


# --- JSON Schema ------------------------------------------------------------------------------------------------------
# Schemas of types, and helpers that build them.

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
"""Schema of `left_out_json`."""


INJECTIONS = list_of(
    record(**keys("model benchmark", STRING), **keys("n n_suspicious", INTEGER), **keys("mean mean_without", NUMBER))
)
"""Schema of `injection_effects_json`."""


def ref(name: str) -> JsonSchema:
    """Return a reference to a schema of `SCHEMAS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def schema_of(kind: Any) -> JsonSchema:
    """Return the schema of a type as `plain_json` writes it.

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


# --- types of fields --------------------------------------------------------------------------------------------------

T = TypeVar("T")
"""An item with fields, such as a row of a leaderboard."""

U = TypeVar("U")
"""An item within another one."""

Kind = Literal["text", "texts", "whole number", "number", "p-value", "true or false", "interval", "object"]
"""Type of a field. JSON rounds numbers to six decimals, and p-values to four digits. An interval is an object in JSON
and several columns elsewhere; texts and an object are in JSON only."""

NEVER = "never missing"
"""Description of a field that always has a value."""

ABSENT = object()
"""Value of an optional field that an item does not have: JSON leaves the key out."""

_SCHEMAS: Mapping[str, JsonSchema] = {
    "text": STRING,
    "texts": list_of(STRING),
    "whole number": INTEGER,
    "number": NUMBER,
    "p-value": NUMBER,
    "true or false": BOOLEAN,
}

_ENDS = {"low": "Lower end of the 95% interval of {}.", "high": "Upper end of the 95% interval of {}."}

_COUNTED = {"n_raters": "Raters", "n_benchmarks": "Benchmarks"}
"""Part of an interval -> what it counts, if it does not count completions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageColumn(Generic[T]):
    """A field on a page of the site."""

    title: str = ""
    """Heading; empty: that of the field."""
    note: str = ""
    """Second line of the heading."""
    explanation: str = ""
    """Meaning, for the notes below the table; empty for none."""
    text: Callable[[T], str]
    """Text of the cell."""
    small: Callable[[T], str] = lambda _: ""
    """Smaller text after it; empty for none."""
    sort: Callable[[T], float | str | None]
    """Number or text to sort by."""
    best_first: bool = True
    """True if the first click shows high values on top."""
    interval: Callable[[T], HasInterval | None] | None = None
    """Number with its interval, for the picture."""
    mark: Literal["", "interval"] = ""
    """Picture beside the text."""


@dataclass(frozen=True, slots=True)
class Field(Generic[T]):
    """One field of a result."""

    key: str
    """Name in JSON, and of the column in files."""
    get: Callable[[T], Any]
    """Its value; an interval has `value`, `low` and `high`; an object is JSON already."""
    _: KW_ONLY
    kind: Kind = "number"
    """Its type."""
    meaning: str = ""
    """Description, one or two sentences."""
    missing: str = NEVER
    """Condition under which there is no value."""
    unit: str = ""
    """Unit; empty without one."""
    range: str = ""
    """Range or list of values; empty for any."""
    schema: JsonSchema | None = None
    """Schema of an object."""
    parts: str = "value low high"
    """Parts of an interval in JSON."""
    in_json: bool = True
    """False for what JSON has elsewhere."""
    column: str | None = None
    """Name of the column in files where it is another one; empty: not in files."""
    is_optional: bool = False
    """True if some results, or items whose value is `ABSENT`, do not have the key in JSON."""
    is_present: bool = True
    """False if this result does not have it."""
    heading: str = ""
    """Heading in tables for people; empty: not in such tables."""
    text: Callable[[T], Value] | None = None
    """Cell of such a table; None: from the value."""
    places: int = 3
    """Decimals of a number in such a table."""
    is_wide: bool = False
    """True for wide tables only."""
    hide_empty: bool = False
    """True if tables leave it out where no item has a value other than 0."""
    drop: int = 0
    """Order in which narrow tables leave out columns, the lowest first; 0: never."""
    page: PageColumn[T] | None = None
    """Column of the site; None: not there."""


def select_fields(fields: Iterable[Field[T]], keys: str) -> list[Field[T]]:
    """Return the fields with these names of columns, in this order, without those that this result does not have."""
    by_name = {field.column or field.key: field for field in fields}
    return [by_name[name] for name in keys.split() if by_name[name].is_present]


# --- fields as JSON ---------------------------------------------------------------------------------------------------


def fields_json(fields: Iterable[Field[T]], item: T) -> dict[str, Any]:
    """Return the fields of one item as JSON: numbers are rounded, undefined ones are None."""
    found = ((field, field.get(item)) for field in fields if field.in_json and field.is_present)
    return {field.key: _json(field, value) for field, value in found if value is not ABSENT}


def _json(field: Field[Any], value: Any) -> Any:
    if field.kind == "interval":
        return estimate_json(value, field.parts)
    if field.kind == "p-value":
        return probability(value)
    if field.kind == "texts" and value is not None:
        return list(value)
    return number(value) if isinstance(value, float) else value


def fields_schema(fields: Iterable[Field[T]]) -> JsonSchema:
    """Return the schema of what `fields_json` returns."""
    given = [field for field in fields if field.in_json]
    required = {field.key: _schema(field) for field in given if not field.is_optional}
    return record(**required, optional={field.key: _schema(field) for field in given if field.is_optional})


def _schema(field: Field[Any]) -> JsonSchema:
    if field.kind == "interval":
        schema: JsonSchema = record(**{part: _SCHEMAS[_kind_of(part)] for part in field.parts.split()})
    else:
        schema = field.schema or _SCHEMAS[field.kind]
    schema = schema if field.missing == NEVER else nullable(schema)
    return {**schema, "description": field.meaning} if field.meaning else schema


def _kind_of(part: str) -> Kind:
    """Return the kind of a part of an interval."""
    return "number" if part in ("value", "low", "high", "sd") else "whole number"


def flat_interval(
    key: str, get: Callable[[T], Any], parts: str = "low high", *, missing: str = NEVER, **settings: Any
) -> list[Field[T]]:
    """Return the fields of an interval whose parts JSON has beside the other fields: the value as `key`, then `parts`.

    Tables show it as one text; `settings` are those of its column.
    """
    column = {"text": lambda item: estimate_text(get(item)), **settings}
    return [
        Field(key, _part(get, "value"), missing=missing, **column),
        *(Field(part, _part(get, part), kind=_kind_of(part), missing=missing) for part in parts.split()),
    ]


def list_field(key: str, fields: Sequence[Field[U]], get: Callable[[T], Iterable[U]]) -> Field[T]:
    """Return a field of JSON: a list of items with these fields."""
    schema = list_of(fields_schema(fields))
    return Field(key, lambda item: [fields_json(fields, one) for one in get(item)], kind="object", schema=schema)


def object_field(key: str, fields: Sequence[Field[U]], get: Callable[[T], U]) -> Field[T]:
    """Return a field of JSON: an object with these fields."""
    return Field(key, lambda item: fields_json(fields, get(item)), kind="object", schema=fields_schema(fields))


# --- fields as columns of files ---------------------------------------------------------------------------------------


def columns_of(fields: Iterable[Field[T]], first: str = "") -> list[Field[T]]:
    """Return one field for each column of a file: an interval becomes a number and the parts after it.

    Parameters: first, names of the leading columns; the others follow in the order of the fields.
    """
    found = {
        column.key: column
        for field in fields
        if field.kind != "object" and field.column != ""
        for column in _flat(field)
    }
    return [found[name] for name in dict.fromkeys([*first.split(), *found])]


def _flat(field: Field[T]) -> Iterator[Field[T]]:
    name = field.column or field.key
    if field.kind != "interval":
        yield replace(field, key=name)
        return
    yield replace(field, key=name, kind="number", get=_part(field.get, "value"))
    for part in field.parts.split()[1:]:
        meaning = _ENDS[part].format(name) if part in _ENDS else f"{_COUNTED.get(part, 'Completions')} behind {name}."
        yield replace(field, key=f"{name}_{part}", kind=_kind_of(part), get=_part(field.get, part), meaning=meaning)


def _part(get: Callable[[T], Any], part: str) -> Callable[[T], float | None]:
    """Return the function that gets a part of an interval; None without the interval."""

    def found(item: T) -> float | None:
        value = get(item)
        return None if value is None else getattr(value, part)

    return found


def file_rows(columns: Sequence[Field[T]], items: Iterable[T]) -> Iterator[dict[str, Any]]:
    """Yield one row for each item, with numbers in full. Columns that a result does not have are empty."""
    for item in items:
        yield {column.key: column.get(item) if column.is_present else None for column in columns}


def rounded_rows(columns: Sequence[Field[T]], items: Iterable[T]) -> tuple[list[list[Value]], list[str]]:
    """Return rows and headings of a CSV file, with numbers rounded to six decimals."""
    present = [column for column in columns if column.is_present]
    rows = [[_rounded(column.get(item)) for column in present] for item in items]
    return rows, [column.key for column in present]


def _rounded(value: Value) -> Value:
    return number(value) if isinstance(value, float) else value


# --- fields as tables for people --------------------------------------------------------------------------------------


def fields_table(
    fields: Iterable[Field[T]], items: Sequence[T], *, format: str = "table", caption: str = "", keep: int = 1
) -> str:
    """Return a table with one row for each item; see `render`. CSV and `--wide` have every column."""
    is_wide = shows_all(format)
    rows, headers, drop = table_of(fields, items, wide=is_wide)
    return render(rows, headers, format=format, caption=caption, keep=keep, drop=() if is_wide else drop)


def table_of(
    fields: Iterable[Field[T]], items: Sequence[T], *, wide: bool = False
) -> tuple[list[list[Value]], list[str], list[str]]:
    """Return rows and headings, and the headings that a narrow terminal leaves out, the least important first."""
    shown = [
        (field, cells)
        for field in fields
        if field.heading and field.is_present and (wide or not field.is_wide)
        for cells in [[field_cell(field, item) for item in items]]
        if not field.hide_empty or any(cells)
    ]
    dropped = sorted((field.drop, field.heading) for field, _ in shown if field.drop)
    rows = [list(row) for row in zip(*(cells for _, cells in shown), strict=True)] if items else []
    return rows, [field.heading for field, _ in shown], [heading for _, heading in dropped]


def field_cell(field: Field[T], item: T) -> Value:
    """Return the cell of an item in a table for people."""
    if field.text:
        return field.text(item)
    value = field.get(item)
    if field.kind == "interval":
        return estimate_text(value)
    if field.kind == "p-value":
        return p_text(value)
    return decimal(value, field.places) if isinstance(value, float) else value


def interval_page(
    get: Callable[[T], HasInterval | None], as_text: Callable[[float], str | None] = decimal, **settings: Any
) -> PageColumn[T]:
    """Return the column of a number with its interval in smaller text; `settings` are the other parts of the column."""

    def text(item: T) -> str:
        found = get(item)
        return MISSING if found is None or found.value is None else as_text(found.value) or MISSING

    def small(item: T) -> str:
        found = get(item)
        if found is None or found.low is None or found.high is None:
            return ""
        return f"{as_text(found.low)} to {as_text(found.high)}"

    def sort(item: T) -> float | None:
        found = get(item)
        return None if found is None else found.value

    return PageColumn(**({"text": text, "small": small, "sort": sort, "interval": get} | settings))

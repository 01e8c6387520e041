"""JSON Schemas of everything that the JSON interface returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from medhelm.analysis.leaderboard.diff import LeaderboardDiff
from medhelm.domain import CompletionCounts
from medhelm.reports.formats.json_output import KEYS
from medhelm.results.cases import Case
from medhelm.results.live_status import EvaluationPhase
from medhelm.storage.live_status import EndReason, RunState

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

# --- results ----------------------------------------------------------------------------------------------------------

TIER = enum_of(["real", "sample"])
RULE = enum_of(["published", "corrected"])
ACCESS = enum_of(["public", "gated", "private"])
AVERAGE = nullable(record(**keys("value low high", NUMBER)))
GROUPS = map_of(record(value=NUMBER, n_benchmarks=INTEGER))
PAIR_OF_NAMES = {"type": "array", "items": STRING, "minItems": 2, "maxItems": 2}
LEFT_OUT = list_of(record(**keys("model benchmark reason command", STRING)))
INJECTIONS = list_of(
    record(model=STRING, benchmark=STRING, n=INTEGER, n_suspicious=INTEGER, mean=NUMBER, mean_without=NUMBER)
)

CELL = record(
    **keys("value low high", NUMBER),
    **keys("n n_failed", nullable(INTEGER)),
    metric=STRING,
    method=nullable(STRING),
    cost_usd=NUMBER,
    optional={
        "n_failed_by_model": INTEGER,
        "completion_counts": schema_of(CompletionCounts),
        "completers": nullable(record(value=NUMBER, low=NUMBER, high=NUMBER, n=INTEGER)),
        "worst_case": NUMBER,
        "best_case": NUMBER,
    },
)

MODEL = record(
    model=STRING,
    rank={**nullable(INTEGER), "description": "null for a baseline outside the ranks"},
    **keys("rank_low rank_high tie_group", nullable(INTEGER)),
    win_share=AVERAGE,
    guarded_win_share=NUMBER,
    adjusted_average=AVERAGE,
    ranking_value=NUMBER,
    worst_answers=AVERAGE,
    win_rate=AVERAGE,
    **keys("win_rate_sd guarded_win_rate", NUMBER),
    **keys("macro_average win_share_over_benchmarks macro_average_over_benchmarks", AVERAGE),
    macro_sd=NUMBER,
    published={**BOOLEAN, "description": "true for published scores, not measured here"},
    n_benchmarks=INTEGER,
    **keys("coverage cost_usd", NUMBER),
    rank_bounds=nullable(list_of(INTEGER)),
    macro_bounds=nullable(list_of(NUMBER)),
    benchmarks=map_of(CELL),
    **keys("categories subcategories", GROUPS),
    **keys("usd_per_1000 seconds_per_completion mean_seconds_per_completion", NUMBER),
    **keys("tokens_per_completion output_tokens_per_completion frontier_probability", NUMBER),
    completion_dates=nullable(record(earliest=STRING, latest=STRING)),
    optional={"below_floor": nullable(record(**keys("value low high", NUMBER), n=INTEGER))},
)

COLUMN = record(
    **keys("id title category subcategory metric", STRING),
    judges=list_of(STRING),
    **keys("mde low high", NUMBER),
    higher_is_better=BOOLEAN,
    floor=NUMBER,
    floor_answer=STRING,
    weight=NUMBER,
)

FRONTIER = record(
    efficient=list_of(STRING),
    steps=list_of(
        record(
            **keys("from_ to", STRING),
            **keys("usd_per_1000 points points_low points_high", NUMBER),
            **keys("usd_per_point usd_per_point_low usd_per_point_high", NUMBER),
            separated=BOOLEAN,
        )
    ),
    **keys("unknown_cost other_benchmarks", list_of(STRING)),
)

LEADERBOARD = record(
    verdict=list_of(STRING),
    models=list_of(MODEL),
    benchmarks=list_of(COLUMN),
    **keys("suite suite_description", STRING),
    scoring=RULE,
    tier=TIER,
    **keys("interval_method ranked_by", STRING),
    panel=nullable(list_of(STRING)),
    head_to_head=list_of(
        record(a=STRING, b=STRING, win_share=NUMBER, unit=STRING, n_benchmarks=INTEGER, separated=BOOLEAN)
    ),
    intransitive=list_of(list_of(STRING)),
    pairs=list_of(
        record(
            **keys("a b", STRING),
            benchmark=nullable(STRING),
            **keys("difference low high p p_adjusted", NUMBER),
            separated=BOOLEAN,
            macro_average=nullable(record(**keys("value low high p", NUMBER))),
            **keys("worst_case best_case", NUMBER),
            survives_failures=nullable(BOOLEAN),
        )
    ),
    frontier=nullable(FRONTIER),
    told_apart=list_of(PAIR_OF_NAMES),
    told_apart_adjusted=list_of(PAIR_OF_NAMES),
    left_out=LEFT_OUT,
    prompt_injection=INJECTIONS,
    warnings=list_of(STRING),
)

BENCHMARK_ENTRY: Mapping[str, JsonSchema] = {
    **keys("id title category subcategory task", STRING),
    "access": ACCESS,
    "instances": {**nullable(INTEGER), "description": "number that is evaluated; null if unknown"},
    "n_models": {**INTEGER, "description": "models with a run that counts"},
}

BENCHMARK = record(
    **BENCHMARK_ENTRY,
    **keys("description license metric", STRING),
    problems=list_of(STRING),
    leaderboard={**nullable(ref("Leaderboard")), "description": "the models on it; null if none was run"},
)

COMPARED = keys("difference low high p_value", NUMBER)

COMPARISON = record(
    verdict=list_of(STRING),
    **keys("first second adjustment", STRING),
    benchmarks=list_of(
        record(
            **keys("id metric", STRING),
            **keys("difference low high", NUMBER),
            **keys("n n_left_out n_clusters", INTEGER),
            **keys("p_value p_adjusted p_adjusted_all_pairs", NUMBER),
        )
    ),
    overall=record(**COMPARED, n_benchmarks=INTEGER, unit=STRING),
    win_share=record(**COMPARED, p_adjusted=NUMBER, separated=BOOLEAN, n_models=INTEGER),
    left_out=LEFT_OUT,
)

# --- cases ------------------------------------------------------------------------------------------------------------

MEASURED = {"benchmark": STRING, "tier": TIER, "scoring": RULE, "metric": STRING}

CASES = record(
    **MEASURED,
    search=map_of(STRING),
    **keys("page pages total", INTEGER),
    cases=list_of(
        record(id=STRING, key=STRING, group=STRING, excerpt=STRING, scores=map_of(NUMBER), failures=map_of(STRING))
    ),
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


# --- releases ---------------------------------------------------------------------------------------------------------

RELEASE_ENTRY = record(
    **keys("name created", STRING),
    medhelm={**STRING, "description": "version of MedHELM that made it"},
    note=STRING,
    sha256={**STRING, "description": "of its leaderboard"},
    **keys("suite scoring tier", STRING),
)

NAMES_BY_SIDE = {"type": "array", "items": list_of(STRING), "minItems": 2, "maxItems": 2}

CHANGED_CASES = record(
    **keys("model benchmark", STRING),
    **keys("difference low high", NUMBER),
    n=nullable(INTEGER),
    **keys("p_value p_adjusted", NUMBER),
    separated=BOOLEAN,
    **keys("n_gained n_lost", INTEGER),
    gained={**nullable(list_of(STRING)), "description": "ids; null where the data is not public"},
    lost=nullable(list_of(STRING)),
    problem={**STRING, "description": "why the cases could not be compared; else empty"},
)


def _release_comparison() -> JsonSchema:
    only = list_of(list_of(record(model=STRING, benchmark=STRING)))
    diff = {**schema_of(LeaderboardDiff)["properties"], "models": NAMES_BY_SIDE, "benchmarks": NAMES_BY_SIDE}
    return record(**diff, same=BOOLEAN, cases=list_of(CHANGED_CASES), only=only)


# --- evaluations in progress ------------------------------------------------------------------------------------------

RUN_PROGRESS = record(
    **keys("model benchmark", STRING),
    state=enum_of(get_args(RunState)),
    **keys("n done n_failed", INTEGER),
    failures=map_of(INTEGER),
    requests_cached=INTEGER,
    tokens=record(input=INTEGER, output=INTEGER),
    cost_usd=NUMBER,
    rate_per_s={**NUMBER, "description": "over the last half minute"},
    unusable=BOOLEAN,
    judges=map_of(record(expected=INTEGER, failed=INTEGER)),
)

SERVER_PROGRESS = record(
    **keys("model address state", STRING),
    **keys("in_flight limit done", INTEGER),
    reason=STRING,
)

EVALUATION = record(
    **keys("id store", STRING),
    state=enum_of(get_args(EvaluationPhase)),
    reason=enum_of(get_args(EndReason)),
    pid=INTEGER,
    host=STRING,
    command=list_of(STRING),
    **keys("folder started updated", STRING),
    silent=BOOLEAN,
    **keys("seconds seconds_left", NUMBER),
    **keys("n done n_failed", INTEGER),
    **keys("spent_usd max_cost_usd", NUMBER),
    runs=list_of(RUN_PROGRESS),
    servers=list_of(SERVER_PROGRESS),
)

ERROR = record(error=record(status=INTEGER, code=STRING, message=STRING))

SCHEMAS: Mapping[str, JsonSchema] = {
    "Leaderboard": LEADERBOARD,
    "Benchmarks": record(benchmarks=list_of(record(**BENCHMARK_ENTRY))),
    "Benchmark": BENCHMARK,
    "Cases": CASES,
    "Case": _case(),
    "Comparison": COMPARISON,
    "Releases": record(releases=list_of(RELEASE_ENTRY)),
    "ReleaseComparison": _release_comparison(),
    "Evaluations": record(evaluations=list_of(EVALUATION)),
    "Document": {"type": "object", "required": ["openapi", "paths"]},
    "Error": ERROR,
}
"""Name -> schema."""

"""JSON Schemas of everything that the JSON interface returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from medhelm.analysis.leaderboard.diff import LeaderboardDiff
from medhelm.reports import comparison
from medhelm.reports.cost import FRONTIER_FIELDS
from medhelm.reports.formats.fields import fields_schema
from medhelm.reports.formats.json_schema import (
    BOOLEAN,
    INTEGER,
    LEFT_OUT,
    NUMBER,
    STRING,
    JsonSchema,
    enum_of,
    keys,
    list_of,
    map_of,
    nullable,
    record,
    ref,
    schema_of,
)
from medhelm.reports.leaderboard_fields import EMPTY, column_fields, model_fields
from medhelm.results.cases import Case
from medhelm.results.live_status import EvaluationPhase
from medhelm.results.release_comparison import CASE_FIELDS
from medhelm.results.releases import RELEASE_FIELDS
from medhelm.storage.live_status import EndReason, RunState

# --- results ----------------------------------------------------------------------------------------------------------

TIER = enum_of(["real", "sample"])
RULE = enum_of(["published", "corrected"])
ACCESS = enum_of(["public", "gated", "private"])
PAIR_OF_NAMES = {"type": "array", "items": STRING, "minItems": 2, "maxItems": 2}
INJECTIONS = list_of(
    record(model=STRING, benchmark=STRING, n=INTEGER, n_suspicious=INTEGER, mean=NUMBER, mean_without=NUMBER)
)

LEADERBOARD = record(
    verdict=list_of(STRING),
    models=list_of(fields_schema(model_fields(EMPTY))),
    benchmarks=list_of(fields_schema(column_fields(EMPTY))),
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
    frontier=nullable(fields_schema(FRONTIER_FIELDS)),
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

NAMES_BY_SIDE = {"type": "array", "items": list_of(STRING), "minItems": 2, "maxItems": 2}


def _release_comparison() -> JsonSchema:
    only = list_of(list_of(record(model=STRING, benchmark=STRING)))
    diff = {**schema_of(LeaderboardDiff)["properties"], "models": NAMES_BY_SIDE, "benchmarks": NAMES_BY_SIDE}
    return record(**diff, same=BOOLEAN, cases=list_of(fields_schema(CASE_FIELDS)), only=only)


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
    "Comparison": fields_schema(comparison.FIELDS),
    "Releases": record(releases=list_of(fields_schema(RELEASE_FIELDS))),
    "ReleaseComparison": _release_comparison(),
    "Evaluations": record(evaluations=list_of(EVALUATION)),
    "Document": {"type": "object", "required": ["openapi", "paths"]},
    "Error": ERROR,
}
"""Name -> schema."""

"""JSON Schemas of everything that the JSON interface returns."""

from __future__ import annotations

from collections.abc import Mapping

from medhelm.analysis.leaderboard.diff import LeaderboardDiff
from medhelm.analysis.leaderboard.head_to_head import head_to_head
from medhelm.extensions.web.cases import Case
from medhelm.extensions.web.live_status import EvaluationPhase
from medhelm.extensions.web.pages.benchmarks import entry_fields
from medhelm.extensions.web.pages.cases import CONDITIONS, ITEM
from medhelm.reports import comparison
from medhelm.reports.formats.fields import fields_schema
from medhelm.reports.formats.json import (
    BOOLEAN,
    INTEGER,
    NUMBER,
    STRING,
    JsonSchema,
    keys,
    list_of,
    map_of,
    nullable,
    record,
    ref,
    schema_of,
)
from medhelm.reports.leaderboard_fields import EMPTY, board_fields
from medhelm.results.release_comparison import CASE_FIELDS
from medhelm.results.releases import RELEASE_FIELDS
from medhelm.storage.live_status import EvaluationStatus

# --- results ----------------------------------------------------------------------------------------------------------

BENCHMARK_ENTRY = fields_schema(entry_fields(str, {}))

BENCHMARK = record(
    **BENCHMARK_ENTRY["properties"],
    **keys("description license metric", STRING),
    problems=list_of(STRING),
    leaderboard={**nullable(ref("Leaderboard")), "description": "the models on it; null if none was run"},
)

# --- cases ------------------------------------------------------------------------------------------------------------

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


# --- releases ---------------------------------------------------------------------------------------------------------

NAMES_BY_SIDE = {"type": "array", "items": list_of(STRING), "minItems": 2, "maxItems": 2}


def _release_comparison() -> JsonSchema:
    only = list_of(list_of(record(model=STRING, benchmark=STRING)))
    diff = {**schema_of(LeaderboardDiff)["properties"], "models": NAMES_BY_SIDE, "benchmarks": NAMES_BY_SIDE}
    return record(**diff, same=BOOLEAN, cases=list_of(fields_schema(CASE_FIELDS)), only=only)


# --- evaluations in progress ------------------------------------------------------------------------------------------

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
    "Leaderboard": fields_schema(board_fields(EMPTY, head_to_head(EMPTY))),
    "Benchmarks": record(benchmarks=list_of(BENCHMARK_ENTRY)),
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

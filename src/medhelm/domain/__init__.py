"""The nouns of the house: frozen dataclasses and nothing else.

Every other module speaks in these types. They do no input or output, know no model and no file format, and import
nothing of ours. Units are in the names (`latency_s`, `cost_usd`, `max_tokens`).
"""

from __future__ import annotations

from medhelm.domain.benchmark import (
    Access,
    Answer,
    AnswerForm,
    Availability,
    Benchmark,
    Criterion,
    DataState,
    Instance,
    Message,
    Prompt,
    Reference,
    Rubric,
    RubricForm,
    RulesInWords,
    Sample,
    Source,
    Taxonomy,
    Tier,
)
from medhelm.domain.completion import (
    Boundary,
    Completion,
    Failure,
    Model,
    Price,
    Request,
    Usage,
)
from medhelm.domain.imported_run import ImportedRun
from medhelm.domain.jury import (
    JURY,
    Judged,
    JudgeReply,
    JudgeTally,
    Judgment,
    Jury,
    Sitting,
    Suspicion,
)
from medhelm.domain.release import Basis, Release
from medhelm.domain.run import Harness, Origin, Record, Run
from medhelm.domain.score import RULES, Estimate, Floor, Parts, Rule, Score

__all__ = [
    "JURY",
    "RULES",
    "Access",
    "Answer",
    "AnswerForm",
    "Availability",
    "Basis",
    "Benchmark",
    "Boundary",
    "Completion",
    "Criterion",
    "DataState",
    "Estimate",
    "Failure",
    "Floor",
    "Harness",
    "ImportedRun",
    "Instance",
    "JudgeReply",
    "JudgeTally",
    "Judged",
    "Judgment",
    "Jury",
    "Message",
    "Model",
    "Origin",
    "Parts",
    "Price",
    "Prompt",
    "Record",
    "Reference",
    "Release",
    "Request",
    "Rubric",
    "RubricForm",
    "Rule",
    "RulesInWords",
    "Run",
    "Sample",
    "Score",
    "Sitting",
    "Source",
    "Suspicion",
    "Taxonomy",
    "Tier",
    "Usage",
]

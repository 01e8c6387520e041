"""Value types of MedHELM: frozen dataclasses that every other package uses.

They do no input or output and import nothing from other packages. Units are in the names (`latency_s`, `cost_usd`,
`max_tokens`).
"""

from __future__ import annotations

from medhelm.domain.batch import Batch, BatchState
from medhelm.domain.benchmark import (
    EXTENDED,
    STANDARD,
    Access,
    AnswerField,
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
    RubricName,
    RuleDescription,
    SampleRule,
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
from medhelm.domain.failure_code import FailureCode
from medhelm.domain.imported_run import ImportedRun
from medhelm.domain.jury import (
    JURY,
    InjectionSign,
    JudgeReply,
    JudgeTally,
    Judgment,
    Jury,
    JuryResult,
    JuryVerdict,
)
from medhelm.domain.reference_filter import (
    REFERENCE_VERDICTS,
    ReferenceMark,
    ReferenceMarks,
    ReferenceOpinion,
    ReferenceVerdict,
)
from medhelm.domain.release import CellProvenance, Release
from medhelm.domain.remark import LeftOut, Remark, Remedy
from medhelm.domain.run import Harness, Origin, Record, Run, Runs, RunStatus
from medhelm.domain.run_folder import Removal, RemovalEffect, RunOnDisk
from medhelm.domain.score import RULES, ConstantBaseline, Estimate, Parts, Rule, Score

__all__ = [
    "EXTENDED",
    "JURY",
    "REFERENCE_VERDICTS",
    "RULES",
    "STANDARD",
    "Access",
    "AnswerField",
    "AnswerForm",
    "Availability",
    "Batch",
    "BatchState",
    "Benchmark",
    "Boundary",
    "CellProvenance",
    "Completion",
    "ConstantBaseline",
    "Criterion",
    "DataState",
    "Estimate",
    "Failure",
    "FailureCode",
    "Harness",
    "ImportedRun",
    "InjectionSign",
    "Instance",
    "JudgeReply",
    "JudgeTally",
    "Judgment",
    "Jury",
    "JuryResult",
    "JuryVerdict",
    "LeftOut",
    "Message",
    "Model",
    "Origin",
    "Parts",
    "Price",
    "Prompt",
    "Record",
    "Reference",
    "ReferenceMark",
    "ReferenceMarks",
    "ReferenceOpinion",
    "ReferenceVerdict",
    "Release",
    "Remark",
    "Remedy",
    "Removal",
    "RemovalEffect",
    "Request",
    "Rubric",
    "RubricForm",
    "RubricName",
    "Rule",
    "RuleDescription",
    "Run",
    "RunOnDisk",
    "RunStatus",
    "Runs",
    "SampleRule",
    "Score",
    "Source",
    "Taxonomy",
    "Tier",
    "Usage",
]

"""The keys of JSON output stay when fields are renamed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from medhelm.analysis.cost.bill import BenchmarkCostEffectiveness, CostEffectiveness, UpdateCost
from medhelm.analysis.cost.use import CompletionUse
from medhelm.analysis.jury.ranking import RankSwap
from medhelm.analysis.leaderboard.diff import CellChange, LeaderboardDiff, RunCheck, ValueDifference
from medhelm.benchmarks.download import DownloadResult
from medhelm.domain import (
    Benchmark,
    Completion,
    Criterion,
    Estimate,
    Failure,
    Model,
    Origin,
    Price,
    Rubric,
    RuleDescription,
    Source,
    Taxonomy,
    Usage,
)
from medhelm.domain.benchmark import AnswerField, SampleRule
from medhelm.domain.release import CellProvenance, Release
from medhelm.evaluation.benchmark_check import BenchmarkCheck, RejectedReference
from medhelm.reports.formats.json_output import KEYS, plain_json
from tests.support.cases import table

WRITTEN: Mapping[type, str] = {
    BenchmarkCheck: "benchmark n means exceptions findings floor note remarks",
    RejectedReference: "instance_id metric rule reference reason",
    Benchmark: (
        "name title description taxonomy access source prompt answer metrics max_tokens aliases system "
        "shorten columns id_columns cluster_column group_column choices choice_columns choice_labels "
        "metadata_columns required_columns drop_duplicates sample samples citation license stop rubric "
        "extended_rubric criteria_column conversation_column rules remarks folder digest extended_digest package"
    ),
    Source: "kind location revision files scoring_files file_column rows key sheet encoding delimiter header_row "
    "expected_count note",
    SampleRule: "size pool offset ids_file ids_sha256 variant expected_count last_answer",
    AnswerField: "column form values",
    Taxonomy: "category subcategory task",
    RuleDescription: "published corrected why",
    Rubric: "task criteria low high shows_reference form question verbatim published_default name low_means "
    "shows_points floors",
    Criterion: "name description higher_is_better points tags",
    BenchmarkCostEffectiveness: "benchmark cost_usd value per_point",
    CostEffectiveness: (
        "model n_benchmarks instances cost_usd win_rate macro_average adjusted_average per_win_point per_macro_point "
        "per_instance per_benchmark is_efficient benchmarks use_usd judges_usd use on_frontier frontier_probability"
    ),
    CompletionUse: "completions usd_per_1000 input_tokens output_tokens seconds mean_seconds",
    UpdateCost: "cost benchmarks n_models unknown",
    CellChange: "model benchmark before now why",
    LeaderboardDiff: "first second options models benchmarks ranks cells board",
    RunCheck: "model benchmark differences notes not_derived lacks_data",
    ValueDifference: "what before now",
    CellProvenance: (
        "model benchmark run_id started n metric definition data prompts settings records judgments snapshots "
        "jury at_least prices versions origin"
    ),
    Release: "name created medhelm note options suite_text bases board sha256",
    Completion: "text failure finish_reason usage latency_s reported_model fingerprint refused_parts batched received",
    Failure: "boundary code message",
    Usage: "input cached_input output reasoning cache_write",
    Estimate: "value low high n n_failed method",
    DownloadResult: "benchmark state folder message",
    Model: (
        "name provider remote_name base_url key_variable reasoning reasoning_effort window max_tokens "
        "max_concurrency price parameters reasoning_tags structured scope "
        "proxy ca_file client_certificate client_key replicas endpoints_file"
    ),
    Price: "input output cached_input cache_write source",
    Origin: "harness version run sha256 asked_here our_task",
    RankSwap: "better worse told_apart",
}
"""Class -> its JSON keys, in order."""


@table("kind", WRITTEN, ids=lambda kind: kind.__name__)
def test_keys_of_output_stay_when_fields_are_renamed(kind: type) -> None:
    """If this fails after a field was renamed, add the old key to `KEYS`."""
    keys = KEYS.get(kind.__name__, {})
    assert " ".join(keys.get(field.name, field.name) for field in fields(kind)) == WRITTEN[kind]


def test_every_renamed_field_exists() -> None:
    names = {kind.__name__: {field.name for field in fields(kind)} for kind in WRITTEN}
    assert {kind: set(renamed) - names[kind] for kind, renamed in KEYS.items() if set(renamed) - names[kind]} == {}


def test_values_become_plain_json_types() -> None:
    origin = Origin(harness="helm", version="1", run="r", sha256="0" * 64)
    value = {"path": Path("a"), "pair": (origin, None), "usage": Usage(input=2)}
    found = plain_json(value)
    assert found["path"] == "a"
    assert found["pair"] == [{"harness": "helm", "version": "1", "run": "r", "sha256": "0" * 64, "asked_here": False,
                              "our_task": False}, None]  # fmt: skip
    assert found["usage"]["input"] == 2

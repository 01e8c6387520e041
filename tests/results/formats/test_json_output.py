"""The keys of JSON output stay when fields are renamed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from medhelm.analysis.jury.cells import RankSwap
from medhelm.analysis.leaderboard.diff import CellChange, RunCheck, ValueDifference
from medhelm.benchmarks.download import DownloadResult
from medhelm.domain import (
    Completion,
    Estimate,
    Failure,
    Model,
    Origin,
    Price,
    Usage,
)
from medhelm.domain.result import CellProvenance, Release
from medhelm.evaluation.check import BenchmarkCheck, RejectedReference
from medhelm.results.formats.fields import KEYS, plain_json
from tests.support.cases import table

WRITTEN: Mapping[type, str] = {
    BenchmarkCheck: "benchmark n means exceptions findings floor note remarks",
    RejectedReference: "instance_id metric rule reference reason",
    CellChange: "model benchmark before now why",
    RunCheck: "model benchmark differences notes not_derived lacks_data",
    ValueDifference: "what before now",
    CellProvenance: (
        "model benchmark run_id started n metric definition data prompts settings records judgments snapshots "
        "jury at_least prices versions origin"
    ),
    Release: "name created medhelm note options suite_text bases board sha256",
    Completion: "text failure finish_reason usage latency_s reported_model fingerprint refused_parts batched received "
    "reasoning token_logprobs",
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
"""Class -> its JSON keys, in order; those of other classes are in the approved outputs."""


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

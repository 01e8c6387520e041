"""Reads and writes `run.json`: a run's numbers and settings, without any text of patients or models."""

from __future__ import annotations

import json
from pathlib import Path

from medhelm.domain import (
    Estimate,
    JudgeTally,
    Jury,
    JuryResult,
    Model,
    Origin,
    Price,
    Run,
    RunShard,
    RunStatus,
    Taxonomy,
    Usage,
)
from medhelm.errors import StoreError
from medhelm.io.encryption.places import read_text
from medhelm.io.output_folder import write_confidential
from medhelm.storage.json_form import TUPLE, JsonForm, Nested, by_name

NAME = "run.json"
"""Name of the file in a run's folder. It is written last, so that its existence means that the run is complete."""

NEW, MOVED = ".new-", ".old-"
"""Starts of the names of a run folder that is being written, and of one that is being replaced (see
`storage.recovery.run_replacement`)."""

ADVICE = "Remove its folder and run the same command again."
"""Advice on a damaged run."""


class DamagedRunError(StoreError):
    """A file of a run cannot be read."""

    def __init__(self, message: str, folder: Path) -> None:
        """`folder`: that of the run."""
        super().__init__(message)
        self.folder = folder


FORMAT = 1
"""Version of the file, under its key `format`. Files without the key are of version 1 as well."""

TAXONOMY = JsonForm(Taxonomy, {"category": "category", "subcategory": "subcategory", "task": "task"}, shared=True)

USAGE = JsonForm(
    Usage,
    {
        "input": "input",
        "cached_input": "cached_input",
        "output": "output",
        "reasoning": "reasoning",
        "cache_write": "cache_write",
    },
)

ESTIMATE = JsonForm(
    Estimate,
    {"value": "value", "low": "low", "high": "high", "n": "n", "n_failed": "n_failed", "method": "method"},
)

PRICE = JsonForm(
    Price,
    {
        "input": "input",
        "output": "output",
        "cached_input": "cached_input",
        "cache_write": "cache_write",
        "source": "source",
    },
)

MODEL = JsonForm(
    Model,
    {
        "name": "name",
        "provider": "provider",
        "remote_name": "remote_name",
        "base_url": "base_url",
        "key_variable": "key_variable",
        "reasoning": "reasoning",
        "reasoning_effort": "reasoning_effort",
        "window": "window",
        "max_tokens": "max_tokens",
        "max_concurrency": "max_concurrency",
        "price": "price",
        "parameters": "parameters",
        "structured": "structured",
        "scope": "scope",
    },
    nested={"price": PRICE.one_or_none},
    not_stored=("proxy", "ca_file", "client_certificate", "client_key", "replicas", "endpoints_file"),
    not_if_empty=("scope",),
    shared=True,
)

ORIGIN = JsonForm(
    Origin,
    {
        "harness": "harness",
        "version": "version",
        "run": "run",
        "sha256": "sha256",
        "asked_here": "completions_made_here",
        "our_task": "is_medhelm_task",
    },
)

SHARD = JsonForm(RunShard, {"index": "index", "count": "count", "run": "run_id", "n_in_run": "n_in_run"})

JURY = JsonForm(
    Jury,
    {"judges": "judges", "at_least": "min_judges", "has_codes": "has_codes"},
    nested={"judges": MODEL.many},
    not_if_empty=("has_codes",),
    shared=True,
)

TALLY = JsonForm(
    JudgeTally,
    {
        "expected": "expected",
        "failures": "failures",
        "usage": "usage",
        "cost_usd": "cost_usd",
        "requests_sent": "requests_sent",
        "requests_cached": "requests_cached",
        "snapshots": "snapshots",
        "fingerprints": "fingerprints",
        "refused_parts": "refused_parameters",
    },
    nested={"usage": USAGE.one},
)

JURY_RESULT = JsonForm(
    JuryResult,
    {
        "jury": "jury",
        "low": "low",
        "high": "high",
        "rubric": "rubric",
        "rubric_digest": "rubric_digest",
        "form": "form",
        "lower_is_better": "lower_is_better",
        "tallies": "tallies",
        "n_blank": "n_blank",
        "n_below_floor": "n_too_few_judges",
        "n_suspicious": "n_with_injection_signs",
        "labels": "subscores",
    },
    nested={"jury": JURY.one, "lower_is_better": TUPLE, "tallies": TALLY.by_name, "labels": ESTIMATE.by_name},
    not_if_empty=("rubric", "rubric_digest"),
)

RUN = JsonForm(
    Run,
    {
        "id": "id",
        "benchmark": "benchmark",
        "title": "title",
        "taxonomy": "taxonomy",
        "benchmark_digest": "benchmark_digest",
        "data_digest": "data_digest",
        "model": "model",
        "tier": "tier",
        "status": "status",
        "settings": "settings",
        "started": "started",
        "seconds": "seconds",
        "n": "n",
        "n_failed": "n_failed",
        "failures": "failures",
        "requests_sent": "requests_sent",
        "requests_cached": "requests_cached",
        "usage": "usage",
        "cost_usd": "cost_usd",
        "main_metric": "main_metric",
        "n_shortened": "n_truncated",
        "left_out": "truncated_characters",
        "snapshots": "snapshots",
        "fingerprints": "fingerprints",
        "refused_parts": "refused_parameters",
        "completion_days": "completion_days",
        "estimates": "estimates",
        "groups": "groups",
        "not_computed": "not_computed",
        "message": "message",
        "sitting": "jury_result",
        "reached": "resolved_model",
        "versions": "versions",
        "origin": "origin",
        "shard": "shard",
    },
    nested={
        "taxonomy": TAXONOMY.one,
        "status": Nested(str, RunStatus),
        "usage": USAGE.one,
        "estimates": by_name(ESTIMATE.by_name),
        "sitting": JURY_RESULT.one_or_none,
        "reached": MODEL.one_or_none,
        "origin": ORIGIN.one_or_none,
        "shard": SHARD.one_or_none,
    },
    not_if_empty=("completion_days", "shard"),
    not_stored=("folder", "requests_retried", "requests_duplicate"),
)
"""The JSON form of a run. Its folder is not stored: it is the folder of the file."""


def new_folder(final: Path) -> Path:
    """Return the folder in which a run is written before it is put in place."""
    return final.with_name(NEW + final.name)


def write_run(folder: Path, run: Run) -> None:
    """Write the file, which is whole or absent: a folder that has one is a run. Raises: OSError."""
    content = {"format": FORMAT, **RUN.write(run)}
    write_confidential(folder / NAME, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_run(path: Path) -> Run:
    """Read the run in a file. Raises: StoreError if it is damaged, or of a newer version."""
    try:
        content = json.loads(read_text(path))
        if not isinstance(content, dict):
            raise TypeError("it is not a JSON object")
        version = content.pop("format", FORMAT)
        if isinstance(version, int) and version > FORMAT:
            raise _newer(path, version)
        if version != FORMAT:
            raise ValueError(f"its format is {version!r}")
        return RUN.read(content, folder=path.parent)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedRunError(f"{path} is damaged ({error}). {ADVICE}", path.parent) from error


def _newer(path: Path, version: int) -> StoreError:
    return StoreError(
        f"{path} has format {version}, and this version of medhelm reads formats up to {FORMAT}: a newer medhelm wrote "
        "it. Update medhelm, or name another folder with --store."
    )

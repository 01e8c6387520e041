"""Reads and writes `run.json`: a run's numbers and settings, without any text of patients or models."""

from __future__ import annotations

import json
from pathlib import Path

from medhelm.domain import (
    CompletionCounts,
    DeletedInstances,
    Estimate,
    Floor,
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
from medhelm.io.files import read_confidential
from medhelm.io.output_folder import write_confidential
from medhelm.storage.json_form import TUPLE, JsonForm, Nested, by_name, key_map

NAME = "run.json"
"""Name of the file in a run's folder. It is written last, so that its existence means that the run is complete."""

NEW, MOVED = ".new-", ".old-"
"""Starts of the names of a run folder that is being written, and of one that is being replaced (see
`storage.recovery.run_replacement`)."""


class DamagedRunError(StoreError):
    """A file of a run cannot be read."""

    def __init__(self, problem: str, folder: Path) -> None:
        """`problem`: a sentence that names the file. `folder`: that of the run."""
        super().__init__(
            f"{problem} Restore the file from a copy, or use `medhelm runs remove {folder.name.rpartition('-')[2]}` "
            "and run or import it again; completions in the cache are not bought again."
        )
        self.problem, self.folder = problem, folder

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""
        return self.folder.parent.name

    @property
    def model(self) -> str:
        """Name of the model, as the folder spells it."""
        return self.folder.name.rpartition("-")[0]


FORMAT = 1
"""Version of the file, under its key `format`. Files without the key have version 1."""

TAXONOMY = JsonForm(Taxonomy, key_map("category subcategory task"), shared=True)

USAGE = JsonForm(Usage, key_map("input cached_input output reasoning cache_write"))

ESTIMATE = JsonForm(Estimate, key_map("value low high n n_failed method"))

PRICE = JsonForm(Price, key_map("input output cached_input cache_write source"))

MODEL = JsonForm(
    Model,
    key_map(
        "name provider remote_name base_url key_variable reasoning reasoning_effort window max_tokens "
        "max_concurrency price parameters structured scope reasoning_tags"
    ),
    nested={"price": PRICE.one_or_none, "reasoning_tags": Nested(list, lambda pairs: tuple(map(tuple, pairs)))},
    not_stored=("proxy", "ca_file", "client_certificate", "client_key", "replicas", "endpoints_file"),
    not_if_empty=("scope", "reasoning_tags"),
    shared=True,
)

ORIGIN = JsonForm(
    Origin, key_map("harness version run sha256 asked_here=completions_made_here our_task=is_medhelm_task")
)

SHARD = JsonForm(RunShard, key_map("index count run=run_id n_in_run"))

COMPLETION_COUNTS = JsonForm(CompletionCounts, key_map("n blank blank_with_reasoning unreadable answer at_limit"))

DELETED = JsonForm(DeletedInstances, key_map("deletion time n numbers_kept"))

JURY = JsonForm(
    Jury,
    key_map("judges at_least=min_judges has_codes"),
    nested={"judges": MODEL.many},
    not_if_empty=("has_codes",),
    shared=True,
)

TALLY = JsonForm(
    JudgeTally,
    key_map(
        "expected failures usage cost_usd requests_sent requests_cached snapshots fingerprints "
        "refused_parts=refused_parameters"
    ),
    nested={"usage": USAGE.one},
)

FLOOR = JsonForm(Floor, key_map("criterion at_least at_most"), shared=True)

JURY_RESULT = JsonForm(
    JuryResult,
    key_map(
        "jury low high rubric rubric_digest form lower_is_better floors tallies n_blank n_below_floor=n_too_few_judges "
        "n_suspicious=n_with_injection_signs labels=subscores"
    ),
    nested={
        "jury": JURY.one,
        "lower_is_better": TUPLE,
        "floors": FLOOR.many,
        "tallies": TALLY.by_name,
        "labels": ESTIMATE.by_name,
    },
    not_if_empty=("rubric", "rubric_digest", "floors"),
)

RUN = JsonForm(
    Run,
    key_map(
        "id benchmark title taxonomy benchmark_digest data_digest model tier status settings started seconds n "
        "n_failed failures requests_sent requests_cached usage cost_usd main_metric n_shortened=n_truncated "
        "left_out=truncated_characters completion_counts snapshots fingerprints refused_parts=refused_parameters "
        "completion_days estimates groups not_computed cut_texts message sitting=jury_result reached=resolved_model "
        "versions origin shard deletions"
    ),
    nested={
        "taxonomy": TAXONOMY.one,
        "status": Nested(str, RunStatus),
        "usage": USAGE.one,
        "estimates": by_name(ESTIMATE.by_name),
        "sitting": JURY_RESULT.one_or_none,
        "reached": MODEL.one_or_none,
        "origin": ORIGIN.one_or_none,
        "shard": SHARD.one_or_none,
        "deletions": DELETED.many,
        "completion_counts": COMPLETION_COUNTS.one_or_none,
    },
    not_if_empty=("completion_counts", "completion_days", "cut_texts", "shard", "deletions"),
    not_stored=("folder", "requests_retried", "requests_duplicate", "completers"),
)
"""The JSON form of a run. Its folder is not stored: it is the folder of the file.

Keys with words that are no longer used, such as `sitting`, stay as they are: every version that reads this format takes
a file with an unknown key for damaged, and stores are copied between versions.
"""


def stored_folder(run: Run) -> Path:
    """Return the folder of a run. Raises: StoreError if the run is not stored."""
    if run.folder is None:
        raise StoreError(f"the run of {run.model} on {run.benchmark} is not stored")
    return run.folder


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
        content = json.loads(read_confidential(path))
        if not isinstance(content, dict):
            raise TypeError("it is not a JSON object")
        version = content.pop("format", FORMAT)
        if isinstance(version, int) and version > FORMAT:
            raise StoreError(
                f"{path} has format {version}, and this version of medhelm reads formats up to {FORMAT}: a newer "
                "medhelm wrote it. Update medhelm, or name another folder with --store."
            )
        if version != FORMAT:
            raise ValueError(f"its format is {version!r}")
        return RUN.read(content, folder=path.parent)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedRunError(f"{path} is damaged ({error}).", path.parent) from error

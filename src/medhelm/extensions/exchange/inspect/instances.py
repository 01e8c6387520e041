"""Load the instances of a task, for both the task and its scorer, and read Inspect's model output."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import cast

from inspect_ai.model import ModelOutput

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.benchmarks.data.sampling import SampleOptions
from medhelm.domain import Completion, Failure, FailureCode, Instance, Tier
from medhelm.domain.completion import split_reasoning
from medhelm.errors import UserError
from medhelm.scoring.metrics import METRIC_NAMES


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSelector:
    """A selection of instances of a benchmark."""

    benchmark: str
    """Name, alias or path."""
    data: str | None = None
    """Folder with one data folder per benchmark; None for the folder in MEDHELM_DATA."""
    tier: str = "real"
    """`real` or `sample`."""
    sample: str = "default"
    """Name of one of the benchmark's selections."""
    limit: int | None = None
    """Maximum number of instances, from the start of the selection."""
    seed: int = 0
    """Seed of a random selection."""


@lru_cache(maxsize=2)
def load_instances(selector: InstanceSelector) -> tuple[Dataset, dict[str, Instance]]:
    """Return the data set and its instances by id. The last two are cached, because task and scorer share one.

    Raises: UserError or MissingError, as `medhelm run` does, if anything is wrong or missing.
    """
    if selector.tier not in ("real", "sample"):
        raise UserError(f"tier={selector.tier}: use `real` or `sample`.")
    folders = [Path(place) for place in os.environ.get("MEDHELM_BENCHMARKS", "").split(os.pathsep) if place]
    found = load_benchmarks([selector.benchmark], metrics=METRIC_NAMES, extra=folders)
    if len(found) != 1:
        raise UserError(f"`{selector.benchmark}` is a group of {len(found)} benchmarks; name one of them.")
    place = selector.data or os.environ.get("MEDHELM_DATA")
    dataset = open_dataset(
        found[0],
        data=Path(place) if place else None,
        tier=cast(Tier, selector.tier),
        options=SampleOptions(sample=selector.sample, limit=selector.limit, seed=selector.seed),
        scoring=True,
    )
    return dataset, {instance.id: instance for instance in dataset}


def completion_of(output: ModelOutput, *, whole: bool = False) -> Completion:
    """Convert model output: a content filter's refusal is a failure, and reasoning is not part of the text.

    If a prompt is too long, Inspect returns the provider's error message as the completion, with zero tokens: that is
    a failure, too. A completion that filled the context window has tokens, and counts as truncated.
    `whole`: remove only reasoning at the beginning of the text, as for judges.
    """
    written = output.usage.output_tokens if output.usage else 0
    if output.choices and output.stop_reason == "model_length" and not written:
        words = output.message.text or output.error or "the prompt is too long for the model"
        return Completion(failure=Failure("provider", FailureCode.CONTEXT_LENGTH, words), finish_reason="length")
    if output.error or not output.choices:
        words = output.error or "the response has no completion"
        return Completion(failure=Failure("provider", "empty_choice", words))
    reason = output.stop_reason
    if reason == "content_filter":
        words = "the provider's content filter ended the completion"
        return Completion(failure=Failure("provider", "refusal", words), finish_reason=reason)
    finish = "length" if reason in ("max_tokens", "model_length") else str(reason)
    return Completion(text=split_reasoning(output.message.text, start_only=whole).answer, finish_reason=finish)

"""Variants: named changes to how the instances of a benchmark are asked, and the names of the runs that result.

A run with a setting of its own (another prompt, another temperature) and a variant run (a perturbation, a further
sample) carry both in their settings, and in brackets in the name of their model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from medhelm.domain.benchmark import Benchmark, Instance

Expectation = Literal["", "invariant", "must_change", "must_abstain"]
"""Correct reaction to a changed instance: the same answer, the new answer of the changed key, or no answer at all.
Empty if there is none to check, as for another sample of the same prompt."""

SETTING, VARIANT, REPEAT = "setting", "variant", "repeat"
"""Keys of a run's settings: how all runs of the command were asked, the variant, and the number of the sample."""

ANSWER_AFTER = "answer_after"
"""Key of a run's settings: the mark that its prompt asked for before the final answer."""
JUDGED, JUDGE_SAMPLE = "judge=", "judge_sample"
"""Start of the names of variants that put stored completions to judges in another way; and the key of their settings
with the number of the judges' completions among several for the same prompt, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A change to how the instances of a benchmark are asked."""

    name: str
    """Kind and name, such as `perturb=typos`, `repeat=2` or `prompt=chain_of_thought`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Stored with each run, and part of its identity: all that decides the change."""
    benchmark: Callable[[Benchmark], Benchmark] | None = None
    """Changes prompt, limits or rubric; None if they stay."""
    instance: Callable[[Instance], Instance | None] | None = None
    """Changes an instance, and returns None if it does not apply to it; None if instances stay."""
    completion: Callable[[Instance, str], str] | None = None
    """Changes the text of a stored completion before judges see it; None if completions stay."""

    def digest_of(self, data_digest: str) -> str:
        """Return the digest of a data set after this change. `data_digest`: that of the instances as they are."""
        identity = [data_digest, self.name, sorted(self.settings.items())]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def setting_in_words(*, prompt: str, temperature: float) -> str:
    """Return how a command asks all its instances, as it appears in the names of runs; empty for the usual way.

    >>> setting_in_words(prompt="prompts/short.yaml", temperature=0.7)
    'prompt=short, temperature=0.7'
    """
    name = prompt.replace("\\", "/").rpartition("/")[2].removesuffix(".yaml").removesuffix(".yml")
    parts = [f"prompt={name}"] if prompt else []
    return ", ".join([*parts, *([f"temperature={temperature:g}"] if temperature else [])])


def asked_in_words(settings: Mapping[str, Any]) -> str:
    """Return the setting and the variant that the settings of a run name; empty for the usual way.

    >>> asked_in_words({"setting": "temperature=0.7", "variant": "repeat=2"})
    'temperature=0.7, repeat=2'
    """
    return ", ".join(text for key in (SETTING, VARIANT) if (text := settings.get(key)))


def run_name(model: str, settings: Mapping[str, Any], *, is_sampled: bool) -> str:
    """Return the name of the model in a run: with its setting and its variant in brackets, if it has any.

    `is_sampled`: False for models in this process that read no prompt, and have no setting.

    >>> run_name("openai/x", {"setting": "temperature=0.7", "variant": "repeat=2"}, is_sampled=True)
    'openai/x [temperature=0.7, repeat=2]'
    """
    asked = asked_in_words(settings) if is_sampled else settings.get(VARIANT)
    return f"{model} [{asked}]" if asked else model

"""Digests of the conditions under which each model of a card was measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache

from medhelm.domain import JURY, Run
from medhelm.reports.card import CardDigests
from medhelm.results.comparable.conditions import BASELINE, temperature_of
from medhelm.storage.releases import prompts_digest
from medhelm.storage.runs import read_messages, read_prompt_digests
from medhelm.storage.store import Store


def digests_by_model(store: Store, runs: Mapping[tuple[str, str], Run]) -> dict[str, dict[str, CardDigests]]:
    """Return model -> benchmark -> the digests of a run. `runs`: model and benchmark -> run."""

    @cache
    def stored(benchmark: str, definition: str, data: str) -> tuple[str, str]:
        file = store.prompts_file(benchmark, definition, data)
        references = {name: own for name, (_, own) in (read_prompt_digests(file) or {}).items()}
        return prompts_digest(read_messages(file)), digest_of(sorted(references.items())) if references else ""

    found: dict[str, dict[str, CardDigests]] = {}
    for (model, benchmark), run in runs.items():
        prompts, references = stored(benchmark, run.benchmark_digest, run.data_digest)
        found.setdefault(model, {})[benchmark] = CardDigests(
            data=run.data_digest,
            references=references,
            prompts="" if model.startswith(BASELINE) else prompts,
            definition=run.benchmark_digest,
            judges=_judges_digest(run),
            sampling=_sampling_in_words(run),
            max_tokens=int(run.settings.get("max_tokens") or 0) or None,
        )
    return found


def digest_of(content: object) -> str:
    """Return the SHA-256 of a value as JSON."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def _judges_digest(run: Run) -> str:
    """Return the digest of names and parameters of the judges, without addresses; empty without a jury."""
    if run.main_metric != JURY or run.jury_result is None:
        return ""
    judges = sorted(
        [judge.name.partition("@")[0], judge.remote_name, judge.reasoning_effort or "", dict(judge.parameters)]
        for judge in run.judges
    )
    return digest_of([judges, run.jury_result.jury.min_judges])


def _sampling_in_words(run: Run) -> str:
    """Describe how a model was sampled."""
    if run.model.startswith(BASELINE):
        return ""
    model, temperature = run.resolved_model, temperature_of(run)
    words = ["its own temperature" if temperature is None else f"temperature {temperature:g}"]
    if model:
        words += [f"reasoning effort {model.reasoning_effort}"] if model.reasoning_effort else []
        # Other values may be long, or name internal servers.
        others = {name: value for name, value in sorted(model.parameters.items()) if name != "temperature"}
        words += [f"{name} {value}" if isinstance(value, int | float) else name for name, value in others.items()]
    return ", ".join(words)

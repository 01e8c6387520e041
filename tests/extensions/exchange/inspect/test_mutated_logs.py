"""Logs of others with anything in any place: read, or refused in words, but never an accident."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from medhelm.errors import DataError
from medhelm.extensions.exchange.importer import ImportedRun
from medhelm.extensions.exchange.inspect.logs import read_inspect_log
from medhelm.extensions.exchange.logs import read_lm_eval_samples

FIXTURES = Path(__file__).parents[3] / "fixtures"

STRANGE: list[Any] = [
    None, True, -1, 1e400, float("nan"), 10**400, "", "x", "\ud800", "attachment://q", [], {}, [[]], {"a": 1}, ["a", 1],
    {"type": "text"},
]  # fmt: skip


def inspect_logs() -> list[Any]:
    logs = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((FIXTURES / "inspect").glob("*.json"))]
    judged = {"judge": "a/b", "criterion": "tone", "score": 4, "points": 0, "failure": None, "explanation": ""}
    reply = {"judge": "a/b", "part": 0, "attempt": 0, "text": "{}", "failure": None, "finish_reason": "stop"}
    ours = copy.deepcopy(logs[0])
    ours["eval"] |= {"task": "medhelm/aci_bench", "metadata": {"medhelm": {"benchmark": "aci_bench"}}}
    for sample in ours["samples"]:
        sample["metadata"] = {"medhelm": {"fields": {"a": "b"}, "criteria": [{"name": "x", "tags": ["t"]}]}}
        told = {"judgments": [judged], "replies": [reply]}
        sample["scores"] = {"medhelm": {"value": {"jury": 4.0}, "metadata": told}}
    return [*logs, ours]


def lm_eval_rows() -> list[Any]:
    files = sorted((FIXTURES / "lm_eval").rglob("*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").splitlines()]


def places(content: Any, so_far: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything in a document."""
    inner = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in inner:
        yield (*so_far, key)
        yield from places(value, (*so_far, key))


def mutated(content: Any, rng: random.Random) -> Any:
    """A document with one to four things taken away or replaced."""
    content = copy.deepcopy(content)
    for way in rng.sample(list(places(content)), rng.randint(1, 4)):
        holder = content
        try:
            for key in way[:-1]:
                holder = holder[key]
            if rng.random() < 0.2:
                del holder[way[-1]]
            else:
                holder[way[-1]] = copy.deepcopy(rng.choice(STRANGE))
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took it away
    return content


@pytest.mark.parametrize(
    ("known", "name", "read"),
    [
        (inspect_logs(), "log.json", read_inspect_log),
        (lm_eval_rows(), "samples_t_2026-01-01T00-00-00.1.jsonl", read_lm_eval_samples),
    ],
    ids=["inspect", "lm-eval"],
)
def test_a_mutated_file_gives_a_run_or_a_data_error(
    tmp_path: Path, known: list[Any], name: str, read: Callable[[Path], ImportedRun]
) -> None:
    rng, path = random.Random(0), tmp_path / name
    runs: list[ImportedRun] = []
    for _ in range(150):
        path.write_text(json.dumps(mutated(rng.choice(known), rng)), encoding="utf-8")
        with suppress(DataError):
            runs.append(read(path))
    assert 150 / 3 < len(runs) < 150
    for run in runs:
        ids = [one.id for one in run.instances]
        assert len(set(ids)) == len(ids)
        assert set(run.completions) == set(ids)
        assert all(set(scores) <= set(ids) for scores in run.scores.values())

"""Six small stores whose results are known in kind, for tests that every output says the same about one store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from medhelm.analysis.means import estimate
from medhelm.domain import JURY, RULES, Completion, Failure, Score, Usage
from medhelm.storage.store import create
from tests.support.stores import TIMEOUT, jury_of, make_model, make_record, make_run, write_run

REFUSAL = Failure("provider", "refusal", "the content filter blocked the answer")
"""Counted as wrong, where a timeout is left out."""

Values = Sequence[float | Failure]
"""Score of each instance, or why it has none."""

N = 120
"""Instances of a benchmark."""

GRADED = "notes"
"""The benchmark with grades of a jury; all others have scores of 0 and 1."""


def _write(folder: Path, benchmark: str, model: str, values: Values, clusters: Sequence[str] | None = None) -> None:
    """Write one run, with the interval that a run of the pipeline would have."""
    metric, low, high = (JURY, 1.0, 5.0) if benchmark == GRADED else ("exact_match", 0.0, 1.0)
    names = clusters or [""] * len(values)
    numbers = np.array([np.nan if isinstance(value, Failure) else value for value in values])
    found = estimate(numbers, clusters, low=low, high=high)
    failures = Counter(value.code for value in values if isinstance(value, Failure))
    records = []
    for position, value in enumerate(values):
        failure = value if isinstance(value, Failure) else None
        completion = Completion(text=None if failure else "an answer", failure=failure, usage=Usage(input=9, output=3))
        score = None if isinstance(value, Failure) else value
        scores = tuple(Score(metric=metric, rule=rule, value=score, failure=failure) for rule in RULES)
        records.append(
            make_record(position, instance_id=f"i{position:03d}", cluster=names[position], completion=completion,
                        scores=scores)
        )  # fmt: skip
    changes: dict[str, Any] = {"jury_result": jury_of("openai/judge-a", "openai/judge-b")} if metric == JURY else {}
    run = make_run(
        benchmark, model, n=len(values), n_failed=sum(failures.values()), failures=dict(failures),
        requests_sent=len(values), cost_usd=0.25, main_metric=metric, resolved_model=make_model(model),
        usage=Usage(input=9 * len(values), output=3 * len(values)),
        estimates={rule: {metric: found} if found else {} for rule in RULES}, **changes,
    )  # fmt: skip
    write_run(folder, run, records)


def _answers(
    rng: np.random.Generator, hard: np.ndarray, skill: float, *, graded: bool = False
) -> list[float | Failure]:
    """Draw scores; questions of low `hard`, 0..1, are easy for every model."""
    chance = np.clip(skill + 0.5 - hard, 0.02, 0.98)
    if graded:
        return list(np.clip(np.round(1 + 4 * chance + rng.normal(0, 0.6, len(hard))), 1, 5))
    return list((rng.random(len(hard)) < chance).astype(float))


BENCHMARKS = ("alpha", "beta", "gamma", GRADED)
"""Benchmarks of most stores."""

SKILLS = {"openai/a": 0.78, "openai/b": 0.75, "openai/c": 0.6, "openai/d": 0.45}
"""Model -> share of answers that are right on questions of medium difficulty."""


def _table(seed: int) -> dict[str, dict[str, list[float | Failure]]]:
    """Draw benchmark -> model -> scores of models of known skill."""
    rng = np.random.default_rng(seed)
    found: dict[str, dict[str, list[float | Failure]]] = {}
    for benchmark in BENCHMARKS:
        hard = rng.random(N)
        found[benchmark] = {m: _answers(rng, hard, s, graded=benchmark == GRADED) for m, s in SKILLS.items()}
    return found


def _complete(folder: Path) -> None:
    """Every model has every benchmark."""
    _write_all(folder, _table(1))


def _lacking(folder: Path) -> None:
    """One model lacks the benchmark that is hardest."""
    table = _table(2)
    del table["gamma"]["openai/c"]
    for model, values in table["gamma"].items():
        table["gamma"][model] = [0.0 if place % 3 else value for place, value in enumerate(values)]
    _write_all(folder, table)


def _extra(folder: Path) -> None:
    """One model has easy benchmarks that nobody else has, and is worse on the shared ones; another shares none."""
    table = _table(3)
    table["easy"] = {"openai/d": [*[1.0] * 100, *[0.0] * 5]}
    table["easier"] = {"openai/d": [1.0] * 60}
    table["alone"] = {"openai/alone": [1.0, 0.0] * 30}
    _write_all(folder, table)


def _clustered(folder: Path) -> None:
    """Questions come in clusters of unequal size, within which a model is right on all or on none."""
    rng = np.random.default_rng(4)
    sizes = [1] * 20 + [4] * 10 + [30, 30]
    clusters = [f"patient-{number}" for number, size in enumerate(sizes) for _ in range(size)]
    for benchmark in BENCHMARKS:
        hard = rng.random(len(sizes))
        for model, skill in SKILLS.items():
            own = _answers(rng, hard, skill, graded=benchmark == GRADED)
            _write(folder, benchmark, model, [own[n] for n, size in enumerate(sizes) for _ in range(size)], clusters)


def _refusing(folder: Path) -> None:
    """One model refuses a third of the questions of one benchmark, and one times out once."""
    table = _table(5)
    table["beta"]["openai/b"] = [REFUSAL if place % 3 == 0 else v for place, v in enumerate(table["beta"]["openai/b"])]
    table[GRADED]["openai/c"][:4] = [REFUSAL] * 4
    table["alpha"]["openai/a"][7] = TIMEOUT
    _write_all(folder, table)


def _timing_out(folder: Path) -> None:
    """One model has no score on questions that it would get wrong: it is better only if these are ignored."""
    rng = np.random.default_rng(6)
    for benchmark in ("alpha", "beta", "gamma"):
        hard = rng.random(N)
        worse, other = (_answers(rng, hard, skill) for skill in (0.5, 0.42))
        lost: list[float | Failure] = [
            TIMEOUT if value == 0.0 and n % 3 == 0 else value for n, value in enumerate(worse)
        ]
        for model, values in (("openai/a", lost), ("openai/b", worse[::-1]), ("openai/c", other)):
            _write(folder, benchmark, model, values)


def _write_all(folder: Path, table: Mapping[str, Mapping[str, Values]]) -> None:
    for benchmark, models in table.items():
        for model, values in models.items():
            _write(folder, benchmark, model, values)


STORES: Mapping[str, Callable[[Path], None]] = {
    "complete": _complete,
    "lacking": _lacking,
    "extra": _extra,
    "clustered": _clustered,
    "refusing": _refusing,
    "timing-out": _timing_out,
}
"""Name -> what writes the store."""


def make(name: str, folder: Path) -> Path:
    """Write one of the stores, and return its folder."""
    create(folder)
    STORES[name](folder)
    return folder

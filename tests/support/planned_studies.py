"""A store of runs whose completions can be rated, to plan studies on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.domain import Benchmark, Completion, Criterion, Instance, Message, Prompt, Reference
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.runs import write_prompts
from medhelm.storage.store import Store
from tests.support.stores import jury_of, make_record, make_run, write_run

N = 30
"""Instances of each run."""

MODELS = ("acme/rocket-7b", "acme/saturn-70b", "openai/gpt-4o")


def definitions() -> list[Benchmark]:
    """Return two benchmarks with a rubric of grades, and one whose instances have their own criteria."""
    return load_benchmarks(["aci_bench", "medication_qa", "healthbench"], metrics=METRIC_NAMES)


def plain_text(benchmark: str, model: str, number: int) -> str:
    """Return a completion that does not tell its model."""
    return f"## Plan\n* **Day {number}**: see the {benchmark} clinic about case {len(model)}."


def rated_store(
    folder: Path,
    benchmarks: Mapping[str, bool],
    text: Callable[[str, str, int], str | None] = plain_text,
    *,
    models: tuple[str, ...] = (*MODELS, "baseline/majority"),
    n: int = N,
) -> Store:
    """Write runs of all models. `benchmarks`: name -> True if judges graded it."""
    for name, is_judged in benchmarks.items():
        settings: dict[str, Any] = {"main_metric": "jury", "jury_result": jury_of("j1", "j2")} if is_judged else {}
        for model in models:
            records = (make_record(i, completion=Completion(text=text(name, model, i))) for i in range(n))
            run = write_run(folder, make_run(name, model, n=n, **settings), records)
        criteria = tuple(Criterion(f"c{i}", f"Names sign {i}.", points=(5.0, -3.0)[i]) for i in range(2))
        own = criteria if name == "healthbench" else ()
        instances = (
            Instance(id=f"i{i}", fields={}, references=(Reference(f"Right {i}"), Reference("Wrong", correct=False)),
                     criteria=own)
            for i in range(n)
        )  # fmt: skip
        prompts = (Prompt((Message("user", f"A consumer asks about case {i}."),)) for i in range(n))
        path = Store(folder).prompts_file(name, run.benchmark_digest, run.data_digest)
        write_prompts(path, zip(instances, prompts, strict=True))
    return Store(folder)

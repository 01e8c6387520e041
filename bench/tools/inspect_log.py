"""Write the completions of one benchmark of a store as a log of Inspect, for its viewer.

    python bench/tools/inspect_log.py STORE BENCHMARK DIR

Prints one JSON object. The log has one sample for each instance and model, with the prompt, the completion and the
score by the main metric. It has no transcript of events, which the log of a real run has: it is smaller than that.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inspect_ai.log import EvalSample

    from medhelm.domain import Run

CREATED = "2026-01-01T00:00:00+00:00"
"""Time of the log."""


def write_log(store: Path, benchmark: str, folder: Path) -> dict[str, Any]:
    """Write the log into a folder and return its path, samples and bytes."""
    from inspect_ai.log import (
        EvalConfig,
        EvalDataset,
        EvalLog,
        EvalMetric,
        EvalResults,
        EvalScore,
        EvalSpec,
        write_eval_log,
    )

    from medhelm.storage.runs import load_runs
    from medhelm.storage.store import open_store

    runs = load_runs(open_store(store), benchmark)
    if not runs:
        raise SystemExit(f"inspect_log: {store} has no run of {benchmark}")
    samples = [sample for run in runs for sample in _samples(store, run)]
    metric = runs[0].main_metric
    values = [sample.scores[metric].value for sample in samples if sample.scores]
    mean = EvalMetric(name="mean", value=sum(map(float, values)) / max(len(values), 1))  # type: ignore[arg-type]
    log = EvalLog(
        status="success",
        eval=EvalSpec(
            created=CREATED,
            task=benchmark,
            task_id=benchmark,
            dataset=EvalDataset(name=benchmark, samples=len(samples)),
            model=f"{len(runs)} models",
            config=EvalConfig(),
        ),
        results=EvalResults(
            total_samples=len(samples),
            completed_samples=len(values),
            scores=[EvalScore(name=metric, scorer=metric, metrics={"mean": mean})],
        ),
        samples=samples,
    )
    path = folder / f"{CREATED.replace(':', '-')}_{benchmark.replace('_', '-')}_{benchmark}.eval"
    folder.mkdir(parents=True, exist_ok=True)
    write_eval_log(log, path)
    return {"log": str(path), "samples": len(samples), "bytes": path.stat().st_size}


def _samples(store: Path, run: Run) -> Iterator[EvalSample]:
    """Yield one sample for each instance of a run."""
    from medhelm.storage.runs import read_messages, read_records, score_column
    from medhelm.storage.store import Store

    prompts = read_messages(Store(store).prompts_file(run.benchmark, run.benchmark_digest, run.data_digest))
    score = score_column(run.main_metric, "corrected")
    for row in read_records(run):
        prompt = "\n\n".join(message["content"] for message in prompts.get(row["instance_id"], []))
        yield _sample(run, row, prompt, row[score])


def _sample(run: Run, row: dict[str, Any], prompt: str, score: float | None) -> EvalSample:
    from inspect_ai.log import EvalError, EvalSample
    from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput
    from inspect_ai.scorer import Score

    text = row["completion"]
    made: dict[str, Any] = {}
    if text is None:
        message = f"{row['failure_code']}: {row['failure_message']}"
        made["error"] = EvalError(message=message, traceback=message, traceback_ansi=message)
    else:
        made["output"] = ModelOutput.from_content(run.model, text)
    if score is not None:
        made["scores"] = {run.main_metric: Score(value=score, answer=text)}
    answered = [ChatMessageAssistant(content=text, model=run.model)] if text is not None else []
    return EvalSample(
        id=f"{row['instance_id']} {run.model}",
        epoch=1,
        input=prompt,
        target="A",
        messages=[ChatMessageUser(content=prompt), *answered],
        metadata={"model": run.model},
        total_time=row["latency_s"],
        **made,
    )


def main(words: Sequence[str] | None = None) -> int:
    """Run the script."""
    parser = argparse.ArgumentParser(description="Write the completions of one benchmark of a store as an Inspect log.")
    parser.add_argument("store", type=Path, metavar="STORE")
    parser.add_argument("benchmark", metavar="BENCHMARK")
    parser.add_argument("folder", type=Path, metavar="DIR")
    chosen = parser.parse_args(words)
    print(json.dumps(write_log(chosen.store, chosen.benchmark, chosen.folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

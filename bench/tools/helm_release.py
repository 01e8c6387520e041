"""Write a synthetic HELM release, as large as a published one, to import.

    python -m bench.tools.helm_release FOLDER --benchmarks 37 --models 9 --instances 1000

The files have the layout and the numbers for each instance that crfm-helm 0.5.16 writes for a MedHELM run: two dozen
statistics for each instance, and for every third benchmark the annotations of three judges. Prompts and
completions are synthetic. Every number follows from the position of its instance, so that tests can check readers.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

JUDGES = ("gpt", "llama", "claude")
CRITERIA = ("accuracy", "completeness", "clarity")
DESCRIBED = (
    "num_references", "num_train_trials", "num_prompt_tokens", "num_completion_tokens", "num_output_tokens",
    "inference_runtime", "batch_size", "finish_reason_length", "finish_reason_stop", "finish_reason_endoftext",
    "finish_reason_unknown", "num_train_instances", "prompt_truncated", "max_prob", "logprob", "num_perplexity_tokens",
    "num_bytes",
)  # fmt: skip
"""Statistics that HELM writes per request besides scores."""
MATCHING = tuple(
    name + at
    for name in ("exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match")
    for at in ("", "@5")
)
OVERLAP = ("rouge_1", "rouge_2", "rouge_l")
_SENTENCE = "The patient of invented case {i} reports pain in the left knee since {d} days and takes one tablet a day. "


def write_release(folder: Path, *, benchmarks: int, models: int, instances: int) -> int:
    """Write a release and return the number of its runs. Every third benchmark has a jury."""
    suites: dict[str, str] = {}
    for b in range(benchmarks):
        judged = b % 3 == 2
        asked = [_instance(b, i, judged=judged) for i in range(instances)]
        for m in range(models):
            name = f"invented_{b}:model=maker_model-{m},model_deployment=maker_model-{m}"
            suites[name] = "v1"
            _write_run(folder / "runs" / "v1" / name, b, m, asked, judged=judged)
    release = folder / "releases" / "v1"
    release.mkdir(parents=True, exist_ok=True)
    _write_json(release / "runs_to_run_suites.json", suites)
    _write_json(release / "summary.json", {"release": "v1", "suites": ["v1"], "date": "2026-01-01"})
    return len(suites)


def is_right(instance: int, model: int) -> bool:
    """Return whether a synthetic model is right about an instance."""
    return (instance * 7 + model * 3) % 10 < 6


def grade(instance: int, model: int, judge: int, criterion: int) -> int:
    """Return the score of a synthetic judge for a criterion."""
    return 1 + (instance + model + judge + criterion) % 5


def _instance(benchmark: int, i: int, *, judged: bool) -> str:
    """Return the part of a request that all models share, as JSON."""
    text = f"Case {benchmark}-{i}. " + "".join(_SENTENCE.format(i=i, d=d) for d in range(4))
    options = ["take it", "leave it", "ask again"]
    references = [
        {"output": {"text": text}, "tags": ["correct"] if n == i % 3 else []} for n, text in enumerate(options)
    ]
    if judged:
        references = [{"output": {"text": _SENTENCE.format(i=i, d=i % 9)}, "tags": ["correct"]}]
    instance = {"input": {"text": text}, "references": references, "split": "test", "id": f"id{i}"}
    return json.dumps(instance, indent=2).replace("\n", "\n      ")


def _write_run(folder: Path, b: int, m: int, asked: list[str], *, judged: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    adapter = _adapter(m, judged=judged)
    scores = _jury_scores if judged else _match_scores
    _write_json(folder / "run_spec.json", _spec(folder.name, b, adapter, judged=judged))
    _write_json(folder / "scenario.json", {"name": f"invented_{b}", "description": "Invented cases.", "tags": []})
    with (folder / "scenario_state.json").open("w", encoding="utf-8") as file:
        head = json.dumps({"adapter_spec": adapter}, indent=2)[:-2]
        file.write(head + ',\n  "request_states": [\n')
        file.write(",\n".join(_request(i, b, m, one, judged=judged) for i, one in enumerate(asked)))
        file.write("\n  ]\n}")
    with (folder / "per_instance_stats.json").open("w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(_per_instance(i, m, scores) for i in range(len(asked))) + "\n]")
    means: dict[str, float] = {}
    for i in range(len(asked)):
        for name, value in scores(i, m).items():
            means[name] = means.get(name, 0.0) + value
    stats = [_stat(name, total / len(asked)) for name, total in means.items()]
    (folder / "stats.json").write_text("[\n" + ",\n".join(stats) + "\n]", encoding="utf-8")


def _adapter(m: int, *, judged: bool) -> dict[str, object]:
    return {
        "method": "generation" if judged else "multiple_choice_joint",
        "instructions": "", "input_prefix": "", "input_suffix": "\n", "output_prefix": "Reply: ",
        "max_train_instances": 0, "max_eval_instances": 1000, "num_outputs": 1 if judged else 5,
        "model_deployment": f"maker/model-{m}", "model": f"maker/model-{m}", "temperature": 0.0,
        "max_tokens": 256 if judged else 1, "stop_sequences": [],
    }  # fmt: skip


def _spec(name: str, b: int, adapter: dict[str, object], *, judged: bool) -> dict[str, object]:
    models = {judge: {"model_name": f"maker/{judge}", "model_deployment": f"maker/{judge}"} for judge in JUDGES}
    arguments = {"metric_name": f"invented_{b}_accuracy", "scenario_name": f"invented_{b}", "annotator_models": models}
    metric = {"class_name": "helm.benchmark.metrics.llm_jury_metrics.LLMJuryMetric", "args": arguments}
    return {
        "name": name,
        "scenario_spec": {"class_name": f"invented.Scenario{b}", "args": {}},
        "adapter_spec": adapter,
        "metric_specs": [metric] if judged else [],
        "groups": [f"invented_{b}"],
    }


def _request(i: int, b: int, m: int, instance: str, *, judged: bool) -> str:
    prompt = json.dumps(json.loads(instance)["input"]["text"] + "\nReply:")
    said = json.dumps(_SENTENCE.format(i=i, d=m) * 3 if judged else "ABC"[i % 3 if is_right(i, m) else (i + 1) % 3])
    options = '"A": "take it",\n        "B": "leave it",\n        "C": "ask again"'
    mapping = "" if judged else f'      "output_mapping": {{\n        {options}\n      }},\n'
    annotations = f',\n      "annotations": {_annotation(i, b, m, prompt)}' if judged else ""
    return f"""    {{
      "instance": {instance},
      "train_trial_index": 0,
{mapping}      "request": {{
        "model_deployment": "maker/model-{m}",
        "model": "maker/model-{m}",
        "embedding": false,
        "prompt": {prompt},
        "temperature": 0.0,
        "num_completions": 1,
        "top_k_per_token": 1,
        "max_tokens": {256 if judged else 1},
        "stop_sequences": [],
        "echo_prompt": false,
        "top_p": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0
      }},
      "result": {{
        "success": true,
        "embedding": [],
        "completions": [
          {{
            "text": {said},
            "logprob": 0,
            "tokens": [],
            "finish_reason": {{
              "reason": "stop"
            }}
          }}
        ],
        "cached": false,
        "request_time": 0.25,
        "request_datetime": {1780000000 + i}
      }},
      "num_train_instances": 0,
      "prompt_truncated": false,
      "num_conditioning_tokens": 0{annotations}
    }}"""


def _annotation(i: int, b: int, m: int, prompt: str) -> str:
    cells = {
        judge: {
            name: {"score": grade(i, m, j, c), "explanation": f"Invented reason {c} for case {i}."}
            for c, name in enumerate(CRITERIA)
        }
        for j, judge in enumerate(JUDGES)
    }
    annotation = {f"invented_{b}": {"prompt_text": json.loads(prompt) * 2, **cells}}
    return json.dumps(annotation, indent=2).replace("\n", "\n      ")


def _match_scores(i: int, m: int) -> dict[str, float]:
    return dict.fromkeys(MATCHING, float(is_right(i, m)))


def _jury_scores(i: int, m: int) -> dict[str, float]:
    grades = [grade(i, m, j, c) for j in range(len(JUDGES)) for c in range(len(CRITERIA))]
    return {"jury_score": sum(grades) / len(grades), **dict.fromkeys(OVERLAP, (i * 13 + m) % 97 / 97)}


def _per_instance(i: int, m: int, scores: object) -> str:
    """Return two entries, as HELM has one per metric object: the scores, and the statistics of the request."""
    assert callable(scores), "a function of instance and model"
    entries = [scores(i, m), dict.fromkeys(DESCRIBED, 1.0)]
    return ",\n".join(
        f'  {{\n    "instance_id": "id{i}",\n    "train_trial_index": 0,\n    "stats": [\n'
        + ",\n".join(_stat(name, value, "      ") for name, value in own.items())
        + "\n    ]\n  }"
        for own in entries
    )


def _stat(name: str, value: float, margin: str = "  ") -> str:
    inner = f"{margin}  "
    return (
        f'{margin}{{\n{inner}"name": {{\n{inner}  "name": "{name}",\n{inner}  "split": "test"\n{inner}}},\n'
        f'{inner}"count": 1,\n{inner}"sum": {value!r},\n{inner}"sum_squared": {value * value!r},\n'
        f'{inner}"min": {value!r},\n{inner}"max": {value!r},\n{inner}"mean": {value!r},\n'
        f'{inner}"variance": 0.0,\n{inner}"stddev": 0.0\n{margin}}}'
    )


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")


def sizes(folder: Path) -> Iterator[int]:
    """Yield the size of every file in bytes."""
    return (path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    """Write a release and print its size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--benchmarks", type=int, default=37)
    parser.add_argument("--models", type=int, default=9)
    parser.add_argument("--instances", type=int, default=1000)
    given = parser.parse_args()
    n = write_release(given.folder, benchmarks=given.benchmarks, models=given.models, instances=given.instances)
    print(f"{n} runs, {n * given.instances:,} instances, {sum(sizes(given.folder)) / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()

"""Two small real models on real data: a model under test, the same as a judge, lm-eval, and BERTScore.

    python -m bench.studies.real_models [--only harnesses,judge,bertscore] [--data DIR] [--write-docs]

Run in the project's folder, after `make test-models` has installed the models. Prints tables; --write-docs puts them
into docs/explanation/real_models.md. Nothing is sent to another machine.

- harnesses: multiple-choice questions, by MedHELM and by lm-eval, with the same prompts and the same server.
- judge: free text, graded by the model itself, with a JSON schema and without one.
- bertscore: the metric and the package `bert-score`, with the same weights.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from string import ascii_uppercase
from typing import Any
from unittest.mock import patch

from bench.tools.small_models import (
    BERTSCORE_PACKAGES,
    SERVER_PACKAGES,
    SMOLLM2,
    missing_packages,
    running_server,
    save_minilm_as_distilbert,
)
from medhelm.domain import Run
from medhelm.results.formats.tables import Value, render, with_interval
from medhelm.storage.judgments import read_columns as read_judgment_columns
from medhelm.storage.runs import load_runs, read_records
from medhelm.storage.store import open_store

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "explanation" / "real_models.md"
CHOICES = ("pubmed_qa", "medbullets")
"""Benchmarks of multiple-choice questions."""
FREE_TEXT = "medication_qa"
"""Benchmark with judges."""
JUDGES = {"judge-with-schema": True, "judge-without-schema": False}
"""Judge -> whether its replies are held to a JSON schema."""
JUDGE_TOKENS = 256
"""Token limit of a judge's reply. A verdict needs about 110."""
BASELINE = "baseline/majority"
ENCODER_WINDOW = 512
"""Most tokens that BERTScore reads of a text."""

HARNESS_COLUMNS = (
    "Benchmark", "Instances", "Exact match by MedHELM", "Exact match by lm-eval", "Same completions", "Options chosen",
    "Always the most frequent answer",
)  # fmt: skip
JUDGE_COLUMNS = ("Judge", "Judgments", "Failed", "Reasons", "Grades")
BERTSCORE_COLUMNS = ("Value", "Pairs", "Texts cut at 512 tokens", "Lowest", "Highest", "Largest difference")


# --- medhelm and lm-eval as programs ----------------------------------------------------------------------------------


def lm_eval_program() -> Path | None:
    """Return the command of lm-eval: of the environment that `make test-models` makes, or of the PATH."""
    own = Path(sys.prefix) / "lm-eval" / "bin" / "lm_eval"
    found = str(own) if own.exists() else shutil.which("lm_eval")
    return Path(found) if found else None


def medhelm(folder: Path, *arguments: str) -> str:
    """Run a command in a folder, without anybody's settings; return what it prints.

    Raises: RuntimeError with its messages if it ends with another exit code than 0 or 1 (some judgments failed).
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEDHELM_", "LLAMA_"))}
    command = [sys.executable, "-m", "medhelm", *arguments]
    done = subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"medhelm {' '.join(arguments)} ended with exit code {done.returncode}: {done.stderr}")
    return done.stdout


def define_models(folder: Path, address: str) -> None:
    """Write models.yaml: the model under test, and the judges."""
    server = {"provider": "llamacpp", "model": SMOLLM2, "base_url": address}
    judges = {name: {**server, "max_tokens": JUDGE_TOKENS, "structured": held} for name, held in JUDGES.items()}
    (folder / "models.yaml").write_text(json.dumps({SMOLLM2: server, **judges}), encoding="utf-8")  # JSON is YAML


def instances(folder: Path, data: Path, benchmark: str, *options: str) -> list[dict[str, Any]]:
    """Return the instances of a benchmark, as `medhelm benchmarks instances` prints them."""
    printed = medhelm(folder, "benchmarks", "instances", benchmark, "--data", str(data), *options)
    return [json.loads(line) for line in printed.splitlines()]


def records(folder: Path, benchmark: str, model: str = SMOLLM2) -> dict[str, dict[str, Any]]:
    """Return instance id -> record of a model's newest run."""
    return {row["instance_id"]: row for row in read_records(newest_run(folder, benchmark, model))}


def newest_run(folder: Path, benchmark: str, model: str = SMOLLM2) -> Run:
    """Return the newest run of a model on a benchmark."""
    runs = load_runs(open_store(folder / "medhelm-store"), benchmark)
    return max((run for run in runs if run.model == model), key=lambda run: run.started)


def run_lm_eval(folder: Path, address: str, questions: Mapping[str, Sequence[Mapping[str, Any]]]) -> Path:
    """Send the prompts of some instances through lm-eval; return the folder of its results.

    Parameters: questions, benchmark -> instances with one message and one correct option.
    Raises: RuntimeError with its messages if it fails.
    """
    program = lm_eval_program()
    if program is None:
        raise RuntimeError("lm-eval is not installed; `make test-models` installs it")
    tasks, results = folder / "lm-eval-tasks", folder / "lm-eval-results"
    tasks.mkdir()
    for benchmark, asked in questions.items():
        _write_task(tasks, benchmark, asked)
    model = f"model={SMOLLM2},base_url={address}/chat/completions,num_concurrent=1,max_retries=1"
    command = [str(program), "run", "--model", "local-chat-completions", "--model_args"]
    command += [f"{model},tokenized_requests=False", "--tasks", ",".join(questions), "--include_path", str(tasks)]
    command += ["--apply_chat_template", "--log_samples", "--output_path", str(results)]
    offline = {"HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "NO_PROXY": "*"}
    done = subprocess.run(command, cwd=folder, env={**os.environ, **offline}, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"lm-eval ended with exit code {done.returncode}: {done.stderr[-2000:]}")
    return results


def _write_task(tasks: Path, benchmark: str, asked: Sequence[Mapping[str, Any]]) -> None:
    """Write the task and the data of one benchmark."""
    rows = []
    for instance in asked:
        (message,) = instance["messages"]
        letter = ascii_uppercase[[reference["correct"] for reference in instance["references"]].index(True)]
        rows.append({"id": instance["id"], "prompt": message["content"], "letter": letter})
    data = tasks / f"{benchmark}.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    task = {
        "task": benchmark,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{prompt}}",
        "doc_to_target": "{{letter}}",
        "generation_kwargs": {"until": [], "max_gen_toks": asked[0]["max_tokens"], "temperature": 0},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }
    (tasks / f"{benchmark}.yaml").write_text(json.dumps(task), encoding="utf-8")


# --- two harnesses ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessComparison:
    """One benchmark by MedHELM and by lm-eval."""

    benchmark: str
    """Its id."""
    run: Mapping[str, Any]
    """The run as `medhelm run --json` prints it."""
    baseline: Mapping[str, Any]
    """The run of the constant baseline."""
    lm_eval: float
    """Exact match by lm-eval, 0 to 1."""
    completions: Mapping[str, tuple[str, str]]
    """Instance -> its completion here, and by lm-eval."""
    scores: Mapping[str, tuple[float, float]]
    """Instance -> its exact match here by the published rule, and by lm-eval."""


def compare_harnesses(folder: Path, address: str, data: Path, n: int) -> list[HarnessComparison]:
    """Evaluate the served model on the first `n` instances of each benchmark, twice."""
    define_models(folder, address)
    options = ["--model", SMOLLM2, "--model", BASELINE, "--data", str(data), "--limit", str(n), "--offline", "--json"]
    runs = json.loads(medhelm(folder, "run", *CHOICES, *options))["runs"]
    results = run_lm_eval(folder, address, {name: instances(folder, data, name, "--limit", str(n)) for name in CHOICES})
    (summary,) = results.rglob("results_*.json")
    means = json.loads(summary.read_text(encoding="utf-8"))["results"]
    found = []
    for benchmark in CHOICES:
        (samples,) = results.rglob(f"samples_{benchmark}_*.jsonl")
        rows = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
        theirs = {row["doc"]["id"]: row for row in rows}
        ours = records(folder, benchmark)
        of_model = {run["model"]: run for run in runs if run["benchmark"] == benchmark}
        found.append(
            HarnessComparison(
                benchmark=benchmark,
                run=of_model[SMOLLM2],
                baseline=of_model[BASELINE],
                lm_eval=means[benchmark]["exact_match,none"],
                completions={name: (ours[name]["completion"], theirs[name]["filtered_resps"][0]) for name in ours},
                scores={name: (ours[name]["exact_match_published"], theirs[name]["exact_match"]) for name in ours},
            )
        )
    return found


def harnesses_table(found: Sequence[HarnessComparison]) -> str:
    """Return one row per benchmark."""
    rows: list[list[Value]] = []
    for one in found:
        exact = one.run["metrics_by_rule"]["published"]["exact_match"]
        constant = one.baseline["metrics_by_rule"]["published"]["exact_match"]
        chosen = Counter(ours for ours, _ in one.completions.values())
        rows.append(
            [
                one.benchmark,
                len(one.completions),
                _estimate(exact),
                f"{one.lm_eval:.3f}",
                sum(ours == theirs for ours, theirs in one.completions.values()),
                _counts(chosen),
                _estimate(constant),
            ]
        )
    return render(rows, HARNESS_COLUMNS, format="md")


def _estimate(found: Mapping[str, Any]) -> str | None:
    return with_interval(found["value"], found["low"], found["high"])


def _counts(counts: Mapping[str, int]) -> str:
    """Return counts as text, the most frequent first."""
    return ", ".join(f"{text}: {n}" for text, n in sorted(counts.items(), key=lambda one: (-one[1], one[0])))


# --- the model as a judge ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """Free text of the model, graded by the model."""

    run: Mapping[str, Any]
    """The run with all judges, as `medhelm rejudge --json` prints it."""
    truncated: int
    """Completions that ended at the token limit."""
    grades: Mapping[str, Counter[str]]
    """Judge -> grade -> judgments with it."""


def judge_itself(folder: Path, address: str, data: Path, n: int) -> JudgedRun:
    """Let the model answer `n` questions and grade the completions, under a JSON schema and then without one."""
    define_models(folder, address)
    first, *others = JUDGES
    place = ["--data", str(data), "--offline", "--json"]
    medhelm(folder, "run", FREE_TEXT, "--model", SMOLLM2, "--judge", first, "--limit", str(n), *place)
    for judge in others:
        printed = medhelm(folder, "rejudge", FREE_TEXT, "--judge", judge, *place)
    (run,) = json.loads(printed)["runs"]
    grades: dict[str, Counter[str]] = {judge: Counter() for judge in JUDGES}
    columns = read_judgment_columns(newest_run(folder, FREE_TEXT))
    for judge, score in zip(columns["judge"], columns["score"], strict=True):
        if score is not None:
            grades[judge][f"{score:g}"] += 1
    ended = Counter(row["finish_reason"] for row in records(folder, FREE_TEXT).values())
    return JudgedRun(run=run, truncated=ended["length"], grades=grades)


def judge_table(found: JudgedRun) -> str:
    """Return a sentence about the run, and one row per judge."""
    metrics = found.run["metrics"]
    rows: list[list[Value]] = []
    for name, judge in found.run["jury"]["judges"].items():
        reasons, grades = _counts(judge["failures"]) or None, _counts(found.grades[name]) or None
        rows.append([name, judge["expected"], judge["failed"], reasons, grades])
    nothing = {"value": None, "low": None, "high": None, "n": 0, "n_failed": found.run["n"]}
    jury = metrics.get("jury", nothing)  # missing if no judge was read on any completion
    return (
        f"{found.run['n']} questions, {found.run['n_failed']} completions failed, {found.truncated} ended at the token "
        f"limit. ROUGE-L with the reference answers: {_estimate(metrics['rouge_l'])}. Jury score: {_estimate(jury)}, "
        f"from {jury['n']} completions; without a score: {jury['n_failed']}.\n\n"
    ) + render(rows, JUDGE_COLUMNS, format="md")


# --- BERTScore --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BertScoreComparison:
    """BERTScore here and by the package `bert-score`, from the same weights."""

    ours: Sequence[tuple[float, float, float]]
    """Precision, recall and F1 of each pair."""
    theirs: Sequence[tuple[float, float, float]]
    """The same by the package."""
    truncated: int
    """Texts, of both sides, that are longer than the model's window."""

    @property
    def differences(self) -> tuple[float, ...]:
        """Return the largest absolute difference of each value."""
        pairs = zip(self.ours, self.theirs, strict=True)
        apart = [[abs(a - b) for a, b in zip(ours, theirs, strict=True)] for ours, theirs in pairs]
        return tuple(map(max, zip(*apart, strict=True)))


def compare_bertscore(folder: Path, pairs: Sequence[tuple[str, str]]) -> BertScoreComparison:
    """Compute BERTScore of pairs of a reference and a completion, twice. Uses `folder` for converted weights."""
    import bert_score
    import torch
    import transformers

    from medhelm.scoring.metrics import bertscore

    source = save_minilm_as_distilbert(folder)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more wait for each other on a busy machine
    try:
        with patch.dict(os.environ, {bertscore.FOLDER: str(folder)}):
            ours = [bertscore.similarity(reference, completion) for reference, completion in pairs]
        scorer = bert_score.BERTScorer(model_type=str(source), num_layers=bertscore.LAYER, device="cpu")
        references, completions = zip(*pairs, strict=True)
        by_value = scorer.score(list(completions), list(references))
    finally:
        torch.set_num_threads(threads)
    tokenizer = transformers.AutoTokenizer.from_pretrained(source, local_files_only=True)
    lengths = [len(tokenizer(text)["input_ids"]) for text in (*references, *completions)]
    return BertScoreComparison(
        ours=[(one.precision, one.recall, one.f1) for one in ours],
        theirs=list(zip(*(values.tolist() for values in by_value), strict=True)),
        truncated=sum(length > ENCODER_WINDOW for length in lengths),
    )


def answers_in_pairs(folder: Path, data: Path, n: int) -> list[tuple[str, str]]:
    """Return `n` pairs of reference answers of similar length, from short ones to the longest."""
    answers = [
        next(reference["text"] for reference in instance["references"] if reference["correct"])
        for instance in instances(folder, data, FREE_TEXT)
    ]
    answers.sort(key=len)
    return list(pairwise(answers[-1 - n * ((len(answers) - 1) // n) :: (len(answers) - 1) // n]))


def bertscore_table(found: BertScoreComparison) -> str:
    """Return one row per value."""
    rows: list[list[Value]] = []
    for place, name in enumerate(("precision", "recall", "F1")):
        values = [one[place] for one in found.ours]
        spread = [f"{min(values):.3f}", f"{max(values):.3f}"]
        rows.append([name, len(values), found.truncated, *spread, f"{found.differences[place]:.1e}"])
    return render(rows, BERTSCORE_COLUMNS, format="md")


# --- the page ---------------------------------------------------------------------------------------------------------


def measure_harnesses(folder: Path, data: Path) -> str:
    """Measure 30 instances of each benchmark."""
    with running_server() as address:
        return harnesses_table(compare_harnesses(folder, address, data, 30))


def measure_judge(folder: Path, data: Path) -> str:
    """Measure five questions."""
    with running_server() as address:
        return judge_table(judge_itself(folder, address, data, 5))


def measure_bertscore(folder: Path, data: Path) -> str:
    """Measure 30 pairs."""
    return bertscore_table(compare_bertscore(folder, answers_in_pairs(folder, data, 30)))


PARTS: Mapping[str, tuple[Callable[[Path, Path], str], tuple[str, ...]]] = {
    "harnesses": (measure_harnesses, SERVER_PACKAGES),
    "judge": (measure_judge, SERVER_PACKAGES),
    "bertscore": (measure_bertscore, BERTSCORE_PACKAGES),
}
"""Name of a part -> what measures it, and the packages it needs."""


def marks(part: str) -> tuple[str, str]:
    """Return the lines of the page around a part's table."""
    return f"<!-- {part}: begin -->\n", f"<!-- {part}: end -->\n"


def _write(part: str, table: str) -> None:
    begin, end = marks(part)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    after = rest.partition(end)[2]
    PAGE.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8", newline="\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script."""
    parser = argparse.ArgumentParser(description="Two small real models on real data.")
    data = Path(os.environ.get("MEDHELM_DATA") or ROOT.parent / "shared" / "data")
    parser.add_argument("--data", type=Path, default=data, help="folder with one folder of data per benchmark")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, separated by commas: {', '.join(PARTS)}")
    parser.add_argument("--write-docs", action="store_true", help=f"put the tables into {PAGE.relative_to(ROOT)}")
    chosen = parser.parse_args(arguments)
    parts = chosen.only.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"--only: unknown part {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
    if problem := missing_packages(tuple(name for part in parts for name in PARTS[part][1])):
        parser.error(problem)
    for part, table in _measured(parts, chosen.data.resolve()):
        print(f"{part}\n\n{table}", flush=True)
        if chosen.write_docs:
            _write(part, table)
    return 0


def _measured(parts: Sequence[str], data: Path) -> Iterator[tuple[str, str]]:
    for part in parts:
        with tempfile.TemporaryDirectory(prefix="medhelm-real-models-") as folder:
            yield part, PARTS[part][0](Path(folder), data)


if __name__ == "__main__":
    raise SystemExit(main())

"""Cells with a jury: questions that are answered by one model and judged by three others, by ours and by the peers.

Their workload, the commands of each harness for it, and what the harnesses report. Every model sits behind the same
server, which tells writers from judges by their names and gives every judge the same verdict to say.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.workloads.plain import invented_rows

if TYPE_CHECKING:
    from bench.cells import Bench, Cell

WORKLOAD = "jury"
"""Name of the workload."""
JUDGES = ("judge1", "judge2", "judge3")
"""Who judges, as the server knows them."""
WRITER = "writer"
"""Who answers."""
SCORE = 4.0
"""What the verdict comes to: the mean of its grades, and its grade for accuracy. All harnesses have to report it."""
AT_ONCE = 64
"""Requests at once to one address, for every harness."""
PLAIN, OWN = "plain", "own"
"""Variants: the answers alone; judges at an address of their own."""

_HERE = Path(__file__).resolve().parent.parent
_MAX_TOKENS = 256
_CRITERIA = {
    "accuracy": "Is what the letter says right, and does it fit the record?",
    "completeness": "Does it answer the whole question?",
    "clarity": "Can a patient follow it?",
}
_TASK = "You judge letters to patients. You see a record with a question, a letter, and what the letter should say."
_TEMPLATE = "Record: {context}\n\nQuestion: {question}\n\nAnswer the question in a letter to the patient.\n"
_FORM = 'Reply with a JSON object alone; for each criterion {"score": a whole number from 1 to 5, "explanation": text}.'


def is_judged(cell: Cell) -> bool:
    """Whether a cell of this workload asks judges."""
    return cell.variant != PLAIN


def expected_requests(cell: Cell) -> int:
    """Requests that a correct run sends."""
    return cell.n * (1 + len(JUDGES) * is_judged(cell))


def prepare(cells: Iterable[Cell], bench: Bench) -> None:
    """Write the questions in each size, and everything that the harnesses of these cells read."""
    cells = [cell for cell in cells if cell.workload == WORKLOAD]
    for size in sorted({cell.n for cell in cells}):
        rows = list(invented_rows(size))
        _write_benchmark(bench.work / f"jury_{size}", rows)
        _write_for_peers(bench.work, rows)
    for size in sorted({cell.n for cell in cells if cell.harness == "helm"}):
        _write_helm_definitions(bench.work, size)
    if any(cell.harness == "helm" for cell in cells):
        for latency_ms, address in bench.addresses.items():
            _write_helm_models(bench.work / f"helm-env-jury{latency_ms}", address)
    if any(cell.harness == "inspect" for cell in cells):
        shutil.copyfile(_HERE / "peers" / "inspect_jury.py.in", bench.work / "inspect_jury.py")


# --- ours -------------------------------------------------------------------------------------------------------------


def medhelm_command(cell: Cell, bench: Bench) -> list[str]:
    address = bench.addresses[cell.latency_ms]
    command = [str(bench.medhelm), "run", str(bench.work / f"jury_{cell.n}"), "--model", f"openai/{WRITER}@{address}"]
    if is_judged(cell):
        # The same server under another name is another endpoint, with a limit of its own.
        theirs = address.replace("127.0.0.1", "localhost") if cell.variant == OWN else address
        command += [word for judge in JUDGES for word in ("--judge", f"openai/{judge}@{theirs}")]
    return [*command, "--concurrency", str(AT_ONCE), "--store", str(bench.work / "medhelm-store"), "--json"]


def read_medhelm(cell: Cell, bench: Bench) -> dict[str, float]:
    report: dict[str, Any] = json.loads(bench.stdout.read_text(encoding="utf-8"))
    (run,) = report["runs"]
    found = {"seconds_inside": report["seconds"]}
    return found | _checked(run["metrics"]["jury"]["value"]) if is_judged(cell) else found


def _write_benchmark(folder: Path, rows: Sequence[Mapping[str, str]]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    definition = {
        "name": folder.name,
        "title": "Invented letters",
        "description": "Letters to patients, judged, to measure speed.",
        "taxonomy": {
            "category": "patient_communication_and_education",
            "subcategory": "patient_provider_messaging",
        },
        "access": "public",
        "source": {"kind": "jsonl", "files": {"rows.jsonl": ""}},
        "id": ["id"],
        "prompt": _TEMPLATE,
        "answer": "answer",
        "max_tokens": _MAX_TOKENS,
        "metrics": ["jury", "exact_match"],
        "rubric": {"task": _TASK, "scale": [1, 5], "criteria": _CRITERIA},
    }
    _write_json(folder / "benchmark.yaml", definition)


# --- HELM -------------------------------------------------------------------------------------------------------------


def helm_command(cell: Cell, bench: Bench) -> list[str]:
    entry = f"medhelm_configurable_benchmark:model=mock/{WRITER},model_deployment=mock/{WRITER}"
    definition = f"jury_{cell.n}.yaml" if is_judged(cell) else f"jury_{cell.n}_plain.yaml"
    command = [str(bench.program("helm", "helm-run")), "-r", f"{entry},config_path={definition}", "--suite", "s"]
    command += ["-o", str(bench.work / "helm-out")]
    command += ["--local-path", str(bench.work / f"helm-env-jury{cell.latency_ms}")]
    return [*command, "-m", str(cell.n), "-n", str(AT_ONCE)]


def read_helm(cell: Cell, bench: Bench) -> dict[str, float]:
    (path,) = (bench.work / "helm-out").glob("runs/s/*/stats.json")
    stats = json.loads(path.read_text(encoding="utf-8"))
    if not is_judged(cell):
        return {}
    return _checked(next(stat["mean"] for stat in stats if stat["name"]["name"] == "jury_score"))


def _write_helm_definitions(folder: Path, size: int) -> None:
    """The workload as a configurable benchmark, judged and not; JSON is YAML, so JSON it is."""
    cells = {name: {"score": "1 to 5", "explanation": text} for name, text in _CRITERIA.items()}
    prompt = f"{_TASK}\n\n{{QUESTION}}\n\nLetter: {{RESPONSE}}\n\nIt should say: {{GOLD_RESPONSE}}\n\n{_FORM}\n\n"
    prompt += f"<rubric_criteria>\n{json.dumps(cells)}\n</rubric_criteria>\n"
    (folder / "jury_judge.txt").write_text(prompt, encoding="utf-8")
    (folder / "jury_prompt.txt").write_text(_TEMPLATE, encoding="utf-8")
    judges = [{"name": f"mock/{judge}", "model_name": f"mock/{judge}"} for judge in JUDGES]
    metrics = {
        f"jury_{size}.yaml": {"name": "jury_score", "prompt_file": "jury_judge.txt", "judges": judges},
        f"jury_{size}_plain.yaml": {"name": "exact_match"},
    }
    for name, metric in metrics.items():
        definition = {
            "name": name.removesuffix(".yaml").replace("_", "-"),
            "description": "Letters to patients",
            "prompt_file": "jury_prompt.txt",
            "dataset_file": f"jury_{size}.csv",
            "max_tokens": _MAX_TOKENS,
            "metrics": [metric],
        }
        _write_json(folder / name, definition)


def _write_helm_models(folder: Path, address: str) -> None:
    """Writer and judges, all behind one address."""
    folder.mkdir(exist_ok=True)
    names = (WRITER, *JUDGES)
    tokenizer = {
        "name": "mock/words",
        "tokenizer_spec": {"class_name": "helm.tokenizers.simple_tokenizer.SimpleTokenizer"},
        "end_of_text_token": "",
        "prefix_token": "",
    }
    models = [
        {
            "name": f"mock/{name}",
            "display_name": name,
            "description": name,
            "creator_organization_name": "mock",
            "access": "open",
            "tags": ["TEXT_MODEL_TAG", "INSTRUCTION_FOLLOWING_MODEL_TAG"],
        }
        for name in names
    ]
    deployments = [
        {
            "name": f"mock/{name}",
            "model_name": f"mock/{name}",
            "tokenizer_name": "mock/words",
            "max_sequence_length": 128000,
            "client_spec": {
                "class_name": "helm.clients.vllm_client.VLLMChatClient",
                "args": {"base_url": address, "vllm_model_name": name},
            },
        }
        for name in names
    ]
    _write_json(folder / "model_metadata.yaml", {"models": models})
    _write_json(folder / "tokenizer_configs.yaml", {"tokenizer_configs": [tokenizer]})
    _write_json(folder / "model_deployments.yaml", {"model_deployments": deployments})


# --- Inspect ----------------------------------------------------------------------------------------------------------


def inspect_command(cell: Cell, bench: Bench) -> list[str]:
    """With the options that make it fastest: no display, no log in real time, samples buffered."""
    address = bench.addresses[cell.latency_ms]
    command = [str(bench.program("inspect", "inspect")), "eval", "inspect_jury.py", "-T", f"data=jury_{cell.n}.jsonl"]
    if is_judged(cell):
        command += ["-T", f"judges={' '.join(JUDGES)}", "-T", f"address={address}"]
    command += ["--model", f"openai-api/mock/{WRITER}", "--model-base-url", address]
    command += ["--max-connections", str(AT_ONCE), "--temperature", "0", "--max-tokens", str(_MAX_TOKENS)]
    command += ["--log-dir", str(bench.work / "inspect-out"), "--display", "none", "--no-log-realtime"]
    return [*command, "--no-score-display", "--max-samples", str(2 * AT_ONCE), "--log-buffer", "1000"]


def read_inspect(cell: Cell, bench: Bench) -> dict[str, float]:
    """Its log is compressed in a way that older Pythons cannot read, so its own command is asked."""
    newest = max((bench.work / "inspect-out").glob("*.eval"), key=lambda path: path.stat().st_mtime_ns)
    command = [str(bench.program("inspect", "inspect")), "log", "dump", "--header-only", str(newest)]
    header = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    if not is_judged(cell):
        return {}
    return _checked(header["results"]["scores"][0]["metrics"]["mean"]["value"])


# --- all --------------------------------------------------------------------------------------------------------------


def _write_for_peers(folder: Path, rows: Sequence[Mapping[str, str]]) -> None:
    """The questions as HELM and Inspect read them: columns, and finished prompts."""
    name = f"jury_{len(rows)}"
    with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as table:
        writer = csv.writer(table)
        writer.writerow(["context", "question", "correct_answer"])
        writer.writerows([row["context"], row["question"], row["answer"]] for row in rows)
    with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as lines:
        for row in rows:
            prompt = _TEMPLATE.format(context=row["context"], question=row["question"])
            lines.write(json.dumps({"id": row["id"], "input": prompt, "target": row["answer"]}) + "\n")


def _checked(score: float) -> dict[str, float]:
    """What a judged run reports. Raises: ValueError if it is not what the verdicts come to."""
    if abs(score - SCORE) > 1e-9:
        raise ValueError(f"the jury's score is {score:g} and not {SCORE:g}")
    return {"score": score}


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")

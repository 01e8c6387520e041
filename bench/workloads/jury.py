"""Letters that one model writes and three judges score, in medhelm, HELM and Inspect.

All models are behind the same server, which tells writer and judges apart by name and returns the same verdict for
every judge.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.cells import CONCURRENCY, Bench, Cell, Workload, write_json
from bench.peers import helm, inspect
from bench.table import Goal, Row, table
from bench.workloads.plain import STORE, invented_rows

NAME = "jury"
PLAIN, OWN = "plain", "own"
"""Variants: letters without judges; judges at an address of their own."""
CELLS = (
    Cell(harness="medhelm", mode="cold", workload=NAME, n=1, variant=PLAIN, repetitions=7),
    Cell(harness="medhelm", mode="cold", workload=NAME, n=200, variant=PLAIN, repetitions=7),
    Cell(harness="medhelm", mode="cold", workload=NAME, n=1, repetitions=7),
    Cell(harness="medhelm", mode="cold", workload=NAME, n=200, repetitions=7),
    Cell(harness="medhelm", mode="cold", workload=NAME, n=200, variant=PLAIN, latency_ms=200),
    Cell(harness="medhelm", mode="cold", workload=NAME, n=200, latency_ms=200),
    Cell(harness="medhelm", mode="cold", workload=NAME, n=200, variant=OWN, latency_ms=200),
    Cell(harness="inspect", mode="cold", workload=NAME, n=200, variant=PLAIN),
    Cell(harness="inspect", mode="cold", workload=NAME, n=200),
    Cell(harness="inspect", mode="cold", workload=NAME, n=200, latency_ms=200),
    Cell(harness="helm", mode="cold", workload=NAME, n=200, variant=PLAIN),
    Cell(harness="helm", mode="cold", workload=NAME, n=200),
    Cell(harness="helm", mode="cold", workload=NAME, n=200, latency_ms=200),
)
JUDGES = ("judge1", "judge2", "judge3")
"""Names that the server answers with a verdict."""
WRITER = "writer"
"""Name that the server answers with a letter."""
SCORE = 4.0
"""Mean of the verdict's scores, and its score for accuracy. Every harness must report it."""
N = 200
"""Letters in the cells that goals use."""
MAX_OVERHEAD = 1.5
"""Limit of the time per judgment, relative to a plain request."""
MAX_OVER_CRITICAL_PATH = 1.2
"""Limit of the time for letters and judgments, relative to the critical path."""

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
    """Return whether a cell asks judges."""
    return cell.variant != PLAIN


def expected_requests(cell: Cell) -> int:
    """Count the requests of a correct run."""
    return cell.n * (1 + len(JUDGES) * is_judged(cell))


# --- data -------------------------------------------------------------------------------------------------------------


def prepare(cells: Sequence[Cell], bench: Bench) -> None:
    """Write the questions in each size, and the task definitions of the peers in these cells."""
    for size in sorted({cell.n for cell in cells}):
        rows = list(invented_rows(size))
        _write_benchmark(bench.work / f"jury_{size}", rows)
        _write_for_peers(bench.work, rows)
    for size in sorted({cell.n for cell in cells if cell.harness == "helm"}):
        _write_helm_definitions(bench.work, size)
    if any(cell.harness == "helm" for cell in cells):
        for latency_ms, address in bench.addresses.items():
            helm.write_environment(bench.work / f"helm-env-jury{latency_ms}", address, [WRITER, *JUDGES])
    if any(cell.harness == "inspect" for cell in cells):
        inspect.write_task(bench, "inspect_jury.py")


def _write_benchmark(folder: Path, rows: Sequence[Mapping[str, str]]) -> None:
    """Write the workload as a benchmark folder with a rubric."""
    folder.mkdir(exist_ok=True)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    definition = {
        "name": folder.name,
        "title": "Synthetic letters",
        "description": "Letters to patients, scored by a jury, to measure speed.",
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
    write_json(folder / "benchmark.yaml", definition)


def _write_for_peers(folder: Path, rows: Sequence[Mapping[str, str]]) -> None:
    """Write the questions for HELM, as columns, and for Inspect, as finished prompts."""
    name = f"jury_{len(rows)}"
    with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as table:
        writer = csv.writer(table)
        writer.writerow(["context", "question", "correct_answer"])
        writer.writerows([row["context"], row["question"], row["answer"]] for row in rows)
    with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as lines:
        for row in rows:
            prompt = _TEMPLATE.format(context=row["context"], question=row["question"])
            lines.write(json.dumps({"id": row["id"], "input": prompt, "target": row["answer"]}) + "\n")


def _write_helm_definitions(folder: Path, size: int) -> None:
    """Write the workload as a configurable benchmark, with and without the jury."""
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
        write_json(folder / name, definition)


# --- commands and reports ---------------------------------------------------------------------------------------------


def medhelm_command(cell: Cell, bench: Bench) -> list[str]:
    address = bench.addresses[cell.latency_ms]
    command = [str(bench.medhelm), "run", str(bench.work / f"jury_{cell.n}"), "--model", f"openai/{WRITER}@{address}"]
    if is_judged(cell):
        # The same server under another name counts as another endpoint, with a limit of its own.
        judges_at = address.replace("127.0.0.1", "localhost") if cell.variant == OWN else address
        command += [word for judge in JUDGES for word in ("--judge", f"openai/{judge}@{judges_at}")]
    return [*command, "--concurrency", str(CONCURRENCY), "--store", str(bench.work / STORE), "--json"]


def read_medhelm(cell: Cell, bench: Bench) -> dict[str, float]:
    report = bench.report()
    (run,) = report["runs"]
    found = {"seconds_inside": report["seconds"]}
    return found | _checked(run["metrics"]["jury"]["value"]) if is_judged(cell) else found


def helm_command(cell: Cell, bench: Bench) -> list[str]:
    return helm.run_command(
        bench,
        model=WRITER,
        definition=f"jury_{cell.n}.yaml" if is_judged(cell) else f"jury_{cell.n}_plain.yaml",
        environment=f"helm-env-jury{cell.latency_ms}",
        instances=cell.n,
        concurrency=CONCURRENCY,
    )


def read_helm(cell: Cell, bench: Bench) -> dict[str, float]:
    if not is_judged(cell):
        helm.read_mean(bench, "exact_match")  # raises if there is no finished run
        return {}
    return _checked(helm.read_mean(bench, "jury_score"))


def inspect_command(cell: Cell, bench: Bench) -> list[str]:
    address = bench.addresses[cell.latency_ms]
    command = inspect.eval_command(bench, task="inspect_jury.py", model=WRITER, address=address, max_tokens=_MAX_TOKENS)
    command += ["-T", f"data=jury_{cell.n}.jsonl", *inspect.TUNED]
    if is_judged(cell):
        command += ["-T", f"judges={' '.join(JUDGES)}", "-T", f"address={address}"]
    return command


def read_inspect(cell: Cell, bench: Bench) -> dict[str, float]:
    score = inspect.read_mean(bench)
    return _checked(score) if is_judged(cell) else {}


def _checked(score: float) -> dict[str, float]:
    """Return the score that a run reports. Raises ValueError unless it follows from the verdicts."""
    if abs(score - SCORE) > 1e-9:
        raise ValueError(f"the jury's score is {score:g}, expected {SCORE:g}")
    return {"score": score}


_COMMANDS: Mapping[str, Callable[[Cell, Bench], list[str]]] = {
    "medhelm": medhelm_command,
    "helm": helm_command,
    "inspect": inspect_command,
}
_READERS: Mapping[str, Callable[[Cell, Bench], dict[str, float]]] = {
    "medhelm": read_medhelm,
    "helm": read_helm,
    "inspect": read_inspect,
}


def command(cell: Cell, bench: Bench) -> list[str]:
    """Return the command line of a cell."""
    return _COMMANDS[cell.harness](cell, bench)


def read(cell: Cell, bench: Bench) -> dict[str, float]:
    """Read what the process that just finished reports."""
    return _READERS[cell.harness](cell, bench)


# --- goals and table --------------------------------------------------------------------------------------------------


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Check every goal of the workload against the rows."""
    wall = {row.cell: row.wall_s for row in rows if row.counts}
    startup = wall.get("medhelm/jury-1/0ms/cold")

    def after_startup(cell: str) -> float | None:
        return wall[cell] - startup if cell in wall and startup is not None else None

    return [
        Goal(
            name="time per judgment at 0 ms after startup, relative to a plain request",
            value=_ratio(per_judgment_s(wall), per_completion_s(wall)),
            limit=MAX_OVERHEAD,
            unit="x",
        ),
        Goal(
            name="letters and judgments at 200 ms after startup, one address, relative to the critical path",
            value=_ratio(after_startup(f"medhelm/jury-{N}/200ms/cold"), critical_path_s(N, 0.2)),
            limit=MAX_OVER_CRITICAL_PATH,
            unit="x",
        ),
        Goal(
            name="the same with judges at another address",
            value=_ratio(after_startup(f"medhelm-own/jury-{N}/200ms/cold"), critical_path_s(N, 0.2, own=True)),
            limit=MAX_OVER_CRITICAL_PATH,
            unit="x",
        ),
    ]


def per_completion_s(wall: dict[str, float]) -> float | None:
    """Return seconds per plain request without startup, (t(200) - t(1)) / 199, or None if that cannot be computed."""
    return _slope(wall, "medhelm-plain", N - 1)


def per_judgment_s(wall: dict[str, float]) -> float | None:
    """Return the time that judging adds, per judgment (199 times 3), or None if it cannot be computed."""
    judged, plain = _slope(wall, "medhelm", N - 1), _slope(wall, "medhelm-plain", N - 1)
    return None if judged is None or plain is None or judged <= plain else (judged - plain) / len(JUDGES)


def critical_path_s(n: int, latency_s: float, *, own: bool = False) -> float:
    """Return the shortest possible time in seconds: rounds of 64 concurrent requests, each as long as the latency.

    A judgment starts after its letter is complete. At one address all requests share 64 slots. If the judges have an
    address of their own (`own`), their rounds overlap with those of the letters and start one round later.

    >>> critical_path_s(200, 0.2), critical_path_s(200, 0.2, own=True), critical_path_s(1, 0.2)
    (2.6, 2.2, 0.4)
    """
    letters, judgments = n / CONCURRENCY, n * len(JUDGES) / CONCURRENCY
    rounds = max(letters, judgments) if own else letters + judgments
    return round(max(math.ceil(rounds) + own, 2) * latency_s, 9)


def jury_table(rows: Sequence[Row]) -> str:
    """Format the time that each harness takes for 200 letters and their 600 judgments; empty if no such row counts."""
    good = {row.cell: row for row in rows if row.counts}
    lines = []
    for harness in ("medhelm", "inspect", "helm"):
        plain, judged, slow = (
            good.get(f"{harness}{cell}")
            for cell in (f"-plain/jury-{N}/0ms/cold", f"/jury-{N}/0ms/cold", f"/jury-{N}/200ms/cold")
        )
        if not (plain or judged or slow):
            continue
        added = (judged.wall_s - plain.wall_s) / (N * len(JUDGES)) * 1000 if plain and judged else None
        quoted = any(row.quoted for row in (plain, judged, slow) if row)
        lines.append(
            [
                f"{harness} *" if quoted else harness,
                *(_seconds(row.wall_s if row else None) for row in (plain, judged)),
                "-" if added is None else f"{added:.2f} ms",
                _seconds(slow.wall_s if slow else None),
            ]
        )
    headings = ["200 letters, 3 judges", "letters, 0 ms", "with jury, 0 ms", "per judgment", "with jury, 200 ms"]
    return table(headings, lines) if lines else ""


def _slope(wall: dict[str, float], harness: str, requests: int) -> float | None:
    one, many = wall.get(f"{harness}/jury-1/0ms/cold"), wall.get(f"{harness}/jury-{N}/0ms/cold")
    return None if one is None or many is None or many <= one else (many - one) / requests


def _ratio(value: float | None, whole: float | None) -> float | None:
    return None if value is None or whole is None else value / whole


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"


WORKLOAD = Workload(
    cells=CELLS,
    prepare=prepare,
    command=command,
    read=read,
    goals=goals,
    table=jury_table,
    leftovers=(STORE,),
    expected_requests=expected_requests,
)

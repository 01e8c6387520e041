"""Questions with one completion each: PubMedQA (W1) by all harnesses, and synthetic benchmarks of any size.

The cells `help` and `demo` of the command line belong here too.
"""

from __future__ import annotations

import csv
import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.cells import CONCURRENCY, Bench, Cell, Workload, write_json
from bench.peers import PEERS, helm, inspect, lm_eval
from bench.table import Goal, Row, or_dash, peak, table, wall

CELLS = (
    Cell(harness="medhelm", mode="help"),
    Cell(harness="medhelm", mode="demo"),
    Cell(harness="medhelm", mode="cold", n=1),
    Cell(harness="medhelm", mode="cold", n=1000),
    Cell(harness="medhelm", mode="cold", n=1000, variant="c64"),
    Cell(harness="medhelm", mode="warm", n=1000),
    Cell(harness="medhelm", mode="cold", n=1000, variant="c64", latency_ms=200),
    Cell(harness="medhelm", mode="cold", n=1000, workload="invented"),
    Cell(harness="medhelm", mode="cold", n=100_000, workload="invented", repetitions=1),
    Cell(harness="lmeval", mode="cold", n=1),
    Cell(harness="lmeval", mode="cold", n=1000),
    Cell(harness="lmeval", mode="warm", n=1000),
    Cell(harness="lmeval", mode="cold", n=1000, latency_ms=200),
    Cell(harness="inspect", mode="cold", n=1),
    Cell(harness="inspect", mode="cold", n=1000),
    Cell(harness="inspect", mode="cold", n=1000, variant="tuned"),
    Cell(harness="inspect", mode="warm", n=1000),
    Cell(harness="inspect", mode="cold", n=1000, variant="tuned", latency_ms=200),
    Cell(harness="helm", mode="cold", n=1),
    Cell(harness="helm", mode="cold", n=1000),
    Cell(harness="helm", mode="warm", n=1000),
    Cell(harness="helm", mode="skip", n=1000),
    Cell(harness="helm", mode="cold", n=1000, variant="c64", latency_ms=200),
)
STORE = "medhelm-store"
"""Store of the medhelm cells, in the work folder."""
W1_SIZES = (1, 1000)
MAX_TOKENS = 8
"""Limit of a one-word completion, for peers."""

# --- data -------------------------------------------------------------------------------------------------------------

QUESTIONS_FILE = Path("pubmed_qa") / "ori_pqal.json"
"""PubMedQA's labeled questions, below the data folder."""

W1_TEMPLATE = (
    "Context: {context}\n\n"
    "Question: {question}\n\n"
    "What does the context say? Reply with a single word, which is yes, no or maybe.\n"
    "Reply:"
)
"""Prompt of W1 for harnesses without this form of PubMedQA."""

ANSWERS = ("yes", "no", "maybe")

_DEFINITION = """\
name: {name}
title: Synthetic questions
description: Synthetic reading questions as long as those of PubMedQA, to measure memory.
taxonomy: {{category: medical_research_assistance, subcategory: conducting_literature_research}}
access: public
source:
  kind: jsonl
  files: {{rows.jsonl: {sha256}}}
  expected_count: {count}
prompt: |
  Context: {{context}}

  Question: {{question}}
  {{options}}

  Answer with the letter of the right option and nothing else.
id: [id]
choices: ["yes", "no", "maybe"]
answer: {{column: answer, form: text}}
max_tokens: 1
metrics: [exact_match]
"""


def read_questions(data: Path) -> list[dict[str, str]]:
    """Read PubMedQA's 1,000 questions in file order: id, context, question, answer.

    Braces and dollar signs have a meaning in the templates of some harnesses, so they are replaced.
    """
    path = data / QUESTIONS_FILE
    if not path.is_file():
        raise SystemExit(f"bench: {path} does not exist. Name the data folder with --data, or run: medhelm data fetch")
    items: Mapping[str, Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    plain = str.maketrans({"{": "(", "}": ")", "$": "USD "})
    return [
        {
            "id": key,
            "context": " ".join(item["CONTEXTS"]).translate(plain),
            "question": item["QUESTION"].translate(plain),
            "answer": item["final_decision"],
        }
        for key, item in items.items()
    ]


def write_w1(questions: list[dict[str, str]], folder: Path, size: int) -> None:
    """Write the first `size` questions: `w1_SIZE.jsonl` (id, input, target) and `w1_SIZE.csv` (columns, no prompt)."""
    with (folder / f"w1_{size}.jsonl").open("w", encoding="utf-8") as lines:
        for row in questions[:size]:
            prompt = W1_TEMPLATE.format(context=row["context"], question=row["question"])
            lines.write(json.dumps({"id": row["id"], "input": prompt, "target": row["answer"]}) + "\n")
    with (folder / f"w1_{size}.csv").open("w", encoding="utf-8", newline="") as table:
        writer = csv.writer(table)
        writer.writerow(["context", "question", "correct_answer", "incorrect_answers"])
        for row in questions[:size]:
            wrong = [answer for answer in ANSWERS if answer != row["answer"]]
            writer.writerow([row["context"], row["question"], row["answer"], json.dumps(wrong)])


def invented_rows(count: int) -> Iterator[dict[str, str]]:
    """Yield `count` different synthetic rows with about 1,400 characters of context each; the same ones every time."""
    rng = random.Random(7)
    syllables = ["ta", "mo", "ri", "sel", "ne", "ka", "vor", "du", "lin", "pe", "gas", "tro", "cal", "mi", "hep", "or"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(4000)]
    for position in range(count):
        context = " ".join(rng.choices(words, k=210))
        question = f"Does {rng.choice(words)} change {rng.choice(words)} in cohort {position}?"
        answer = rng.choices(ANSWERS, weights=(55, 34, 11))[0]
        yield {"id": f"q{position}", "context": context, "question": question, "answer": answer}


def write_benchmark(folder: Path, count: int) -> Path:
    """Write a benchmark folder of `count` synthetic questions, row by row, and return it."""
    folder.mkdir(parents=True)
    digest = hashlib.sha256()
    with (folder / "rows.jsonl").open("wb") as lines:
        for row in invented_rows(count):
            line = json.dumps(row).encode() + b"\n"
            digest.update(line)
            lines.write(line)
    definition = _DEFINITION.format(name=folder.name, sha256=digest.hexdigest(), count=count)
    (folder / "benchmark.yaml").write_text(definition, encoding="utf-8")
    return folder


def prepare(cells: Sequence[Cell], bench: Bench) -> None:
    """Write the questions in each size, and the task definitions of the peers."""
    if any(cell.workload == "w1" and cell.n for cell in cells):
        questions = read_questions(bench.data)
        for size in W1_SIZES:
            write_w1(questions, bench.work, size)
    for size in sorted({cell.n for cell in cells if cell.workload == "invented"}):
        write_benchmark(bench.work / f"invented_{size}", size)
    for name in {cell.harness for cell in cells} & set(_PEER_FILES):
        _PEER_FILES[name](bench)


# --- medhelm ----------------------------------------------------------------------------------------------------------


def medhelm_command(cell: Cell, bench: Bench) -> list[str]:
    store = ["--store", str(bench.work / STORE)]
    if cell.mode == "help":
        return [str(bench.medhelm), "--help"]
    if cell.mode == "demo":
        return [str(bench.medhelm), "demo", *store]
    synthetic = cell.workload == "invented"
    command = [str(bench.medhelm), "run", str(bench.work / f"invented_{cell.n}") if synthetic else "pubmed_qa"]
    command += ["--model", f"openai/mock@{bench.addresses[cell.latency_ms]}", *store, "--json"]
    if not synthetic:
        command += ["--data", str(bench.data), "--limit", str(cell.n)]
    if cell.variant == "c64":
        command += ["--concurrency", str(CONCURRENCY)]
    return command


def read_medhelm(cell: Cell, bench: Bench) -> dict[str, float]:
    if cell.n == 0:
        return {}
    report = bench.report()
    run = report["runs"][0]
    return {"accuracy": run["metrics"][run["main_metric"]]["value"], "seconds_inside": report["seconds"]}


# --- peers ------------------------------------------------------------------------------------------------------------


def _write_for_helm(bench: Bench) -> None:
    """Write W1 as a configurable benchmark, and one model configuration per server."""
    (bench.work / "w1_prompt.txt").write_text(W1_TEMPLATE, encoding="utf-8")
    for size in W1_SIZES:
        definition = {
            "name": f"W1-{size}",
            "description": "PubMedQA, one word",
            "prompt_file": "w1_prompt.txt",
            "dataset_file": f"w1_{size}.csv",
            "max_tokens": MAX_TOKENS,
            "metrics": [{"name": "exact_match"}],
        }
        write_json(bench.work / f"w1_{size}.yaml", definition)
    for latency_ms, address in bench.addresses.items():
        helm.write_environment(bench.work / f"helm-env{latency_ms}", address, ["mock"])


def helm_command(cell: Cell, bench: Bench) -> list[str]:
    command = helm.run_command(
        bench,
        model="mock",
        definition=f"w1_{cell.n}.yaml",
        environment=f"helm-env{cell.latency_ms}",
        instances=1000,
        concurrency=CONCURRENCY if cell.variant == "c64" else 4,  # 4 is its default
    )
    return [*command, "--skip-completed-runs"] if cell.mode == "skip" else command


def inspect_command(cell: Cell, bench: Bench) -> list[str]:
    address = bench.addresses[cell.latency_ms]
    command = inspect.eval_command(bench, task="inspect_w1.py", model="mock", address=address, max_tokens=MAX_TOKENS)
    command += ["-T", f"data=w1_{cell.n}.jsonl"]
    command += inspect.TUNED if cell.variant == "tuned" else ["--display", "plain"]
    return [*command, "-T", "cache=true"] if cell.mode == "warm" else command


def _write_for_lm_eval(bench: Bench) -> None:
    (bench.work / "lmeval-tasks").mkdir(exist_ok=True)
    for size in W1_SIZES:
        definition = {
            "task": f"w1_{size}",
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(bench.work / f"w1_{size}.jsonl")}},
            "test_split": "test",
            "output_type": "generate_until",
            "doc_to_text": "{{input}}",
            "doc_to_target": "{{target}}",
            "generation_kwargs": {"until": ["\n"], "max_gen_toks": MAX_TOKENS, "temperature": 0},
            "metric_list": [
                {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True, "ignore_case": True}
            ],
        }
        write_json(bench.work / "lmeval-tasks" / f"w1_{size}.yaml", definition)


def lm_eval_command(cell: Cell, bench: Bench) -> list[str]:
    command = lm_eval.run_command(bench, task=f"w1_{cell.n}", address=bench.addresses[cell.latency_ms])
    return [*command, "--use_cache", str(bench.work / "lmeval-cache")] if cell.mode == "warm" else command


_PEER_FILES: Mapping[str, Callable[[Bench], None]] = {
    "helm": _write_for_helm,
    "inspect": lambda bench: inspect.write_task(bench, "inspect_w1.py"),
    "lmeval": _write_for_lm_eval,
}
"""Peer -> writes what it reads besides the questions."""

# --- all harnesses ----------------------------------------------------------------------------------------------------

_COMMANDS: Mapping[str, Callable[[Cell, Bench], list[str]]] = {
    "medhelm": medhelm_command,
    "helm": helm_command,
    "inspect": inspect_command,
    "lmeval": lm_eval_command,
}
_READERS: Mapping[str, Callable[[Cell, Bench], dict[str, float]]] = {
    "medhelm": read_medhelm,
    "helm": lambda _, bench: {"accuracy": helm.read_mean(bench, "exact_match")},
    "inspect": lambda _, bench: {"accuracy": inspect.read_mean(bench)},
    "lmeval": lambda _, bench: {"accuracy": lm_eval.read_exact_match(bench)},
}


def command(cell: Cell, bench: Bench) -> list[str]:
    """Return the command line of a cell."""
    return _COMMANDS[cell.harness](cell, bench)


def read(cell: Cell, bench: Bench) -> dict[str, float]:
    """Read what the process that just finished reports; of a cold W1 also the size of the records it left."""
    return _READERS[cell.harness](cell, bench) | bytes_on_disk(cell, bench)


def bytes_on_disk(cell: Cell, bench: Bench) -> dict[str, float]:
    """Return the size of the records, prompts included, that a cold run of W1 left; nothing for other cells."""
    if (cell.workload, cell.mode, cell.n, cell.latency_ms, cell.variant) != ("w1", "cold", 1000, 0, ""):
        return {}
    match cell.harness:
        case "medhelm":
            store = bench.work / STORE
            return {"bytes": _size([*store.glob("runs/**/*"), *store.glob("prompts/*")])}
        case "helm":
            return {"bytes": _size((bench.work / "helm-out").glob("runs/s/*/*"))}
        case "inspect":
            return {"bytes": _size([inspect.newest_log(bench)])}
        case _:
            return {}


def _size(paths: Iterable[Path]) -> float:
    return sum(path.stat().st_size for path in paths if path.is_file())


# --- goals and table --------------------------------------------------------------------------------------------------


def rate_after_startup(one: Row | None, many: Row | None) -> float | None:
    """Return instances per second without startup, (N - 1) / (t(N) - t(1)), or None if that cannot be computed."""
    if one is None or many is None or many.wall_s <= one.wall_s:
        return None
    return (many.n - one.n) / (many.wall_s - one.wall_s)


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Check every goal of the workload against the rows."""
    good = {row.cell: row for row in rows if row.counts}

    small, large = peak(good, "medhelm/invented-1000/0ms/cold"), peak(good, "medhelm/invented-100000/0ms/cold")
    rate = rate_after_startup(good.get("medhelm/w1-1/0ms/cold"), good.get("medhelm/w1-1000/0ms/cold"))
    return [
        *_relative_goals(good),
        Goal(
            name="instances per second after startup, W1 cold at 0 ms", value=rate, limit=2000, unit="/s", at_least=True
        ),
        Goal(name="medhelm --help", value=wall(good, "medhelm/help"), limit=0.3, unit="s"),
        Goal(name="medhelm demo", value=wall(good, "medhelm/demo"), limit=60, unit="s"),
        Goal(name="peak memory, 1,000 instances", value=small, limit=200, unit="MiB"),
        Goal(name="peak memory, 100,000 instances", value=large, limit=200, unit="MiB"),
        Goal(
            name="peak memory, growth from 1,000 to 100,000 instances",
            value=large - small if small is not None and large is not None else None,
            limit=30,
            unit="MiB",
        ),
    ]


def _relative_goals(good: Mapping[str, Row]) -> list[Goal]:
    """Check the goals that compare a time of W1 with a peer's or with the server's."""
    cold = [r for r in good.values() if r.harness in PEERS and r.mode == "cold" and (r.n, r.latency_ms) == (1000, 0)]
    warm = [r for r in good.values() if r.harness == "inspect" and r.mode == "warm"]
    fastest = min(cold, key=lambda r: r.wall_s, default=None)
    cached = min(warm, key=lambda r: r.wall_s, default=None)
    server_s = 1000 * 0.2 / CONCURRENCY

    def relative(cell: str, to_s: float | None) -> float | None:
        return good[cell].wall_s / to_s if cell in good and to_s is not None else None

    return [
        Goal(
            name=f"W1 cold at 0 ms, relative to the fastest peer ({fastest.cell if fastest else 'no peer'})",
            value=relative("medhelm/w1-1000/0ms/cold", fastest.wall_s if fastest else None),
            limit=0.1,
            unit="x",
            quoted=fastest is not None and fastest.quoted,
        ),
        Goal(
            name="W1 at 200 ms with 64 concurrent requests, relative to the server's own time",
            value=relative("medhelm-c64/w1-1000/200ms/cold", server_s),
            limit=1.15,
            unit="x",
        ),
        Goal(
            name="W1 warm, relative to Inspect with its cache",
            value=relative("medhelm/w1-1000/0ms/warm", cached.wall_s if cached else None),
            limit=0.05,
            unit="x",
            quoted=cached is not None and cached.quoted,
        ),
    ]


def rates_table(rows: Sequence[Row]) -> str:
    """Format instances per second of W1 at 0 ms, by harness and variant, with and without startup."""
    by_name = {row.cell: row for row in rows if row.counts}
    lines = []
    for name, many in by_name.items():
        harness, *rest = name.split("/")
        if rest != ["w1-1000", "0ms", "cold"]:
            continue
        # The startup of a variant is not measured for all: another variant of the same harness has the same one.
        ones = [row for row in by_name.values() if row.harness == many.harness and "/w1-1/" in row.cell]
        one = by_name.get(f"{harness}/w1-1/0ms/cold") or next(iter(ones), None)
        rate = rate_after_startup(one, many)
        label = f"{harness} *" if many.quoted else harness
        lines.append([label, f"{many.n / many.wall_s:.0f}", or_dash(rate, ".0f"), f"{many.cpu_s / many.n * 1000:.2f}"])
    headings = ["W1 cold at 0 ms", "instances/s", "after startup", "CPU ms per instance"]
    return table(headings, lines) if lines else ""


WORKLOAD = Workload(
    cells=CELLS,
    prepare=prepare,
    command=command,
    read=read,
    goals=goals,
    table=rates_table,
    leftovers=(STORE,),
)

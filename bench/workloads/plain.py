"""What the harnesses are asked: W1, and invented benchmarks of any size."""

from __future__ import annotations

import csv
import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

QUESTIONS_FILE = Path("pubmed_qa") / "ori_pqal.json"
"""PubMedQA's labelled questions, below the data folder."""

W1_TEMPLATE = (
    "Context: {context}\n\n"
    "Question: {question}\n\n"
    "What does the context say? Reply with a single word, which is yes, no or maybe.\n"
    "Reply:"
)
"""W1 for harnesses that bring no PubMedQA of their own in this form."""

ANSWERS = ("yes", "no", "maybe")

_DEFINITION = """\
name: {name}
title: Invented questions
description: Reading questions of the length of PubMedQA's, made up to measure memory.
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
    """PubMedQA's 1,000 questions in file order: id, context, question, answer.

    Braces and dollar signs, which some templates of other harnesses would read as their own, become words or brackets.
    """
    path = data / QUESTIONS_FILE
    if not path.is_file():
        raise SystemExit(f"bench: {path} is not there. Name the data folder with --data, or run: medhelm data fetch")
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
    """Yield `count` different rows with about 1,400 characters of context each; the same ones every time."""
    rng = random.Random(7)
    syllables = ["ta", "mo", "ri", "sel", "ne", "ka", "vor", "du", "lin", "pe", "gas", "tro", "cal", "mi", "hep", "or"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(4000)]
    for position in range(count):
        context = " ".join(rng.choices(words, k=210))
        question = f"Does {rng.choice(words)} change {rng.choice(words)} in cohort {position}?"
        answer = rng.choices(ANSWERS, weights=(55, 34, 11))[0]
        yield {"id": f"q{position}", "context": context, "question": question, "answer": answer}


def write_benchmark(folder: Path, count: int) -> Path:
    """Write a benchmark folder of `count` invented questions, row by row, and return it."""
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

"""How many wordings are read on the options of real questions.

    .venv/bin/python -m bench.studies.wordings.real_options --data DIR [--questions N]

Real options hold what invented ones do not: formulas, letters, "no", "not", "A and C", "none of the above".
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.studies.wordings.choice import Options, read, values
from bench.studies.wordings.form import Form, Reading, read_all
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.results.formats.tables import render
from medhelm.scoring.metrics import METRIC_NAMES

BENCHMARKS = ("med_qa", "medbullets", "head_qa", "med_mcqa", "pubmed_qa", "race_bias")
MEDXPERT = "medxpertqa_text/medxpertqa_sampled_text_input.jsonl"

TEMPLATES = (
    "{L}",
    "{L}.",
    "({L})",
    "**{L}**",
    "{L}) {T}",
    "{L}. {T}",
    "{L}: {T}",
    "({L}) {T}",
    "**{L}. {T}**",
    "{T}",
    "{T}.",
    '"{T}"',
    "{T} ({L})",
    "Answer: {L}",
    "Answer: {L}. {T}",
    "The answer is {L}.",
    "The answer is {L}. {T}",
    "The correct answer is {L}) {T}.",
    "The correct answer is {T}.",
    "The correct option is {L}: {T}",
    "The most likely diagnosis is {L}. {T}.",
    "I would choose {L}.",
    "The most appropriate next step is {L}.",
    "Therefore, the answer is ({L}) {T}.",
    "So the answer is {L}.",
    "Option {L} is correct.",
    "\\boxed{{{L}}}",
    "<answer>{L}. {T}</answer>",
    '{{"answer": "{L}"}}',
    "Based on the question, {L}.",
    "{L}, because of the history.",
    "{L}. {T}\n\nThe other options are not correct:\n{OTHERS}",
    "{LIST}\n\nThe answer is {L}.",
    "{LIST}\n\n{L}. {T}",
    "Let's examine each option:\n{LIST}\n\n**Answer: {L}**",
    "The answer is {L}. {T}. Option {X} is incorrect.",
    "The answer is not {X}, it is {L}.",
    "{L} is more likely than {X}.",
    "I first thought of {X}. Wait, the answer is {L}.",
    "Option {X} ({XT}) is wrong. The correct answer is {L} ({T}).",
    "{XT} is not the answer. The answer is {T}.",
    "정답은 {L}입니다.",
    "正确答案是{L}。",
    "La respuesta correcta es la {L}.",
    "A alternativa correta é a letra {L}.",
)
"""As in `choice_templates`."""

UNANSWERED = (
    "{LIST}",
    "{X} or {L}",
    "{L}. {T}\n{X}. {XT}",
    "The answer is not {L}.",
    "{XT} or {T}",
    "Options:\n{LIST}",
)
"""Templates that give no answer."""


def questions(data: Path) -> Iterator[tuple[str, Options]]:
    """Yield benchmark and options of the questions in a folder of real data."""
    for benchmark in load_benchmarks(BENCHMARKS, metrics=METRIC_NAMES):
        for instance in open_dataset(benchmark, data=data, tier="real"):
            yield benchmark.name, Options(tuple(instance.labels), tuple(instance.choices))
    medxpert = data / MEDXPERT
    for line in medxpert.read_text(encoding="utf-8").splitlines() if medxpert.exists() else ():
        options = json.loads(line)["options"]
        texts = tuple(options.values() if isinstance(options, dict) else (option["content"] for option in options))
        yield "medxpertqa_text", Options(tuple("ABCDEFGHIJ"[: len(texts)]), texts)


def forms(data: Path, n_questions: int, seed: int = 20261127) -> Iterator[Form]:
    """Yield every template on some questions of each benchmark, drawn at random; options of equal text are left out."""
    by_benchmark: dict[str, list[Options]] = {}
    for name, options in questions(data):
        if len(set(map(str.casefold, options.texts))) == len(options.texts):
            by_benchmark.setdefault(name, []).append(options)
    draw = random.Random(seed)
    for name, found in by_benchmark.items():
        for options in draw.sample(found, min(n_questions, len(found))):
            right = draw.randrange(len(options.labels))
            filled = values(options, right)
            for template in (*TEMPLATES, *UNANSWERED):
                expected = None if template in UNANSWERED else right
                yield Form(
                    text=template.format(**filled), expected=expected, context=options, group=f"{name}: {template}"
                )


def main(argv: Sequence[str] | None = None) -> int:
    """Print one line per benchmark, and the failures; return 1 if a form is read wrongly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data of the benchmarks")
    parser.add_argument("--questions", type=int, default=200, help="questions of each benchmark (200)")
    parser.add_argument("--show", type=int, default=20, metavar="N", help="failures to show (20)")
    arguments = parser.parse_args(argv)
    readings = read_all(forms(arguments.data, arguments.questions), read)
    failures = sorted((reading for reading in readings if reading.is_wrong or reading.is_unread), key=_kind)
    names = list(dict.fromkeys(reading.form.group.split(":")[0] for reading in readings))
    rows: list[list[str | int]] = []
    for name in names:
        own = [reading for reading in readings if reading.form.group.startswith(f"{name}:")]
        rows.append([name, len(own), sum(one.is_wrong for one in own), sum(one.is_unread for one in own)])
    print(render(rows, ["benchmark", "forms", "wrong", "unread"]))
    for reading in failures[: arguments.show]:
        form = reading.form
        print(f"{form.group}: expected {form.expected}, read {reading.found}: {form.text!r} {form.context.texts}")
    return int(any(reading.is_wrong for reading in readings))


def _kind(reading: Reading) -> tuple[bool, str]:
    return not reading.is_wrong, reading.form.group


if __name__ == "__main__":
    raise SystemExit(main())

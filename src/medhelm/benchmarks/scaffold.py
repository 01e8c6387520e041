"""Create a new benchmark: a folder with a commented definition, a small data file and sample rows."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from medhelm.benchmarks.definition import FILE_NAME, SAMPLE_ROWS
from medhelm.benchmarks.from_table import title_of
from medhelm.errors import UserError
from medhelm.io.output_folder import atomic_folder, output_errors

ROWS = (
    {
        "case": "1",
        "note": "Invented note. 71-year-old man with atrial fibrillation, on apixaban. No bleeding. No falls.",
        "question": "Does the patient take an anticoagulant?",
        "answer": "yes",
    },
    {
        "case": "2",
        "note": "Invented note. 34-year-old woman with migraine. Takes sumatriptan when needed and no other medicines.",
        "question": "Does the patient take an anticoagulant?",
        "answer": "no",
    },
    {
        "case": "3",
        "note": "Invented note. 58-year-old woman after mitral valve replacement, on warfarin, INR 2.8 this week.",
        "question": "Does the patient take an anticoagulant?",
        "answer": "yes",
    },
    {
        "case": "4",
        "note": "Invented note. 66-year-old man, warfarin was stopped a year ago after a bleed; takes metformin only.",
        "question": "Does the patient take an anticoagulant?",
        "answer": "no",
    },
)
"""The invented rows of a new benchmark."""

_DEFINITION = """\
# A benchmark of your own. `medhelm docs benchmark_yaml` explains every key; `medhelm benchmarks check {place}`
# checks it. The two data files beside this file hold invented rows: put your own into {name}.csv.
name: {name}                     # as the folder
title: {title}
description: Describe the task of the model in one or two sentences.
taxonomy:                        # `medhelm taxonomy` lists them; new ones work as well
  category: clinical_decision_support
  subcategory: planning_treatments
  task: Name the task
access: private                  # public | gated | private
license: "-"
source:
  kind: csv                      # also tsv json jsonl xlsx parquet arrow feather docx xml text lines
  files: {{{name}.csv: ""}}        # file -> sha256, or "" while it still changes (`sha256sum {name}.csv`)
id: [case]                       # columns that identify a row; leave out for the position in the file
# cluster: patient               # rows with the same value are not independent: one patient, one note
# group: ward                    # groups of rows, sampled separately
# require: [answer]              # skip rows where one of these is empty
choices: [yes, no]               # leave out for open questions; or {{columns: [option_a, option_b]}}
answer: {{column: answer, form: text}}   # text | letter | number | labels
# sample: {{size: 1000}}           # evaluate 1,000 instances, drawn at random
prompt: |
  Answer the question about the note. Reply with the letter only.

  Note: {{note}}

  Question: {{question}}
  {{options}}
  Answer:
max_tokens: 1
metrics: [exact_match, choice_extracted]   # the first is the main one
# rubric:                        # for open questions: instructions for judges, with `metrics: [jury, rouge_l]`
#   task: You are a physician and judge an answer to a patient.
#   scale: [1, 5]
#   criteria: {{accuracy: Is it right?, completeness: Is all there?, clarity: Can a patient understand it?}}
"""


def scaffold(name: str, folder: Path) -> Path:
    """Create the folder of a new benchmark in `folder`. Raises: UserError if it exists; as `output_errors`."""
    place = folder / name
    if place.exists():
        raise UserError(f"{place} already exists. Choose another name, or another folder with --out.")
    title = title_of(name)
    text = _DEFINITION.format(name=name, title=title, place=place.as_posix())
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)
    with output_errors(place), atomic_folder(place, replace=False) as new:
        (new / FILE_NAME).write_text(text, encoding="utf-8")
        with (new / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(ROWS[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(ROWS)
        (new / SAMPLE_ROWS).write_text(lines, encoding="utf-8")
    return place

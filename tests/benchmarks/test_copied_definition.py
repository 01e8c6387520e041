"""`benchmarks new --like` writes a definition that the loader reads, and that asks and scores as the original."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.definition import read_definition
from medhelm.benchmarks.new_benchmark import benchmark_like
from medhelm.benchmarks.prompts import render
from medhelm.domain import Benchmark
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.benchmarks import library
from tests.support.benchmarks.definitions import write_folder
from tests.support.cli import Medhelm, assert_refused, succeeded

OF_THE_DATA = {
    *("name", "title", "aliases", "access", "source", "citation", "license", "rules", "sample", "samples", "folder"),
    *("digest", "extended_digest"),
}
"""Fields that describe the published data, or the definition itself."""


def assert_alike(copy: Benchmark, original: Benchmark) -> None:
    for one in fields(Benchmark):
        if one.name not in OF_THE_DATA:
            assert getattr(copy, one.name) == getattr(original, one.name), one.name


@pytest.mark.parametrize("name", library.SHIPPED)
def test_a_copy_asks_and_scores_as_the_original(name: str, tmp_path: Path) -> None:
    original = library.benchmark(name)
    place, files = benchmark_like("ours", original, tmp_path)
    copy = read_definition(place, metrics=METRIC_NAMES)
    assert_alike(copy, original)
    assert list(copy.source.files) + list(copy.source.scoring_files) == files
    assert copy.source.kind == original.source.kind
    assert not any((*copy.source.files.values(), copy.source.location, copy.source.expected_count, copy.samples))


EVERY_KEY = """\
name: full
title: Full
description: "Yes: on"
taxonomy: {category: clinical_decision_support, subcategory: planning_treatments}
access: public
source: {kind: jsonl, files: {rows.jsonl: ""}}
columns: {text: Long Text}
id: [a, b]
group: ward
require: [text]
drop_duplicates: true
answer: {column: key, form: text, values: {y: "1"}}
system: "  Two\\n lines "
prompt: "{text}  \\n{{literal}} \\t{key}"
stop: ["\\n", "END"]
shorten: text
max_tokens: 3
metrics: [jury, rouge_l]
rubric:
  task: Grade.
  scale: [0, 2.5]
  low_means: useless
  reference: false
  question: "{text}"
  criteria:
    tone: Kind?
    harm: {description: Harmful?, lower_is_better: true, tags: [axis:harm]}
  floor: [{criterion: harm, at_most: 1}]
"""
POINTS = """\
rubric:
  task: Grade.
  form: points
  show_points: true
  criteria: {tone: {description: Kind?, points: 2.5}, harm: {description: Harmful?, points: -3}}
"""


@pytest.mark.parametrize("text", [EVERY_KEY, EVERY_KEY.partition("rubric:")[0] + POINTS])
def test_every_key_is_copied(text: str, tmp_path: Path) -> None:
    original = read_definition(write_folder(tmp_path / "full", text, []), metrics=METRIC_NAMES)
    place, _ = benchmark_like("ours", original, tmp_path)
    assert_alike(read_definition(place, metrics=METRIC_NAMES), original)


def test_the_command_says_what_to_do_next(medhelm: Medhelm, tmp_path: Path) -> None:
    made = succeeded(medhelm("benchmarks", "new", "ours", "--like", "pubmed_qa", "--out", tmp_path))
    place = tmp_path / "ours"
    assert f"Put your data into {place / 'ours.json'}; then run" in made.out
    assert f"medhelm benchmarks check {place} --trust {place}" in made.out
    checked = succeeded(medhelm("benchmarks", "check", place, "--tier", "sample", "--trust", place))
    assert checked.out.startswith("ours: valid.")
    copy = read_definition(place, metrics=METRIC_NAMES)
    prompts = [render(copy, one) for one in open_dataset(copy, data=None, tier="sample")]
    assert prompts == [render(copy, one) for one in library.sample_tier("pubmed_qa")]
    new = ("benchmarks", "new", "ours")
    assert_refused(medhelm(*new, "--like", "pubmed_qa", "--out", tmp_path), "already exists")
    assert_refused(medhelm(*new, "--like", "public", "--out", tmp_path / "x"), "`public` is a group")
    assert_refused(medhelm(*new, "--like", "pubmedqa", "--out", tmp_path / "x"), "Did you mean `pubmed_qa`")
    assert medhelm(*new, "--like", "pubmed_qa", "--from", "x.csv").code == 2

"""The goals of the standard rubrics are those of the reference implementation's judge prompts."""

from __future__ import annotations

import pytest

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.domain import Benchmark
from medhelm.scoring.jury.prompts import judge_prompts
from medhelm.scoring.metrics import METRIC_NAMES

GOALS = {
    "aci_bench": ("how it compares with the reference note", "very poor"),
    "dischargeme": ("make sure that it agrees with the gold standard", "very poor"),
    "med_dialog": ("how it compares with the reference summary", "poor"),
    "medalign": ("agrees with the reference response", "very poor"),
    "medication_qa": ("how it compares with the reference answer", "poor"),
    "mediqa_qa": ("how it compares with the reference answer", "very poor"),
    "mental_health": ("how it compares with the reference reply", "very poor"),
    "mimic_bhc": ("how it compares with the correct response", "very poor"),
    "mimic_rrs": ("how it compares with the correct response", "very poor"),
    "mtsamples": ("agrees with the gold standard", "very poor"),
    "mtsamples_procedures": ("compares with the correct response", "very poor"),
    "note_extract": ("follows the instructions of the task, in accuracy, structure and clarity", "very poor"),
    "patient_instruct": ("how they compare with the reference instructions", "poor"),
}
"""Benchmark -> its comparison with the reference, and the meaning of the grade 1."""

POTENTIAL = ("mimic_bhc", "mimic_rrs", "mtsamples_procedures")
"""Benchmarks whose reference is only one potential correct response."""


def prompt_of(benchmark: Benchmark) -> str:
    instance = next(iter(open_dataset(benchmark, data=None, tier="sample")))
    (ask,) = judge_prompts(benchmark, instance, "An invented completion.")
    (message,) = ask.prompt.messages
    return message.text


def load(name: str) -> Benchmark:
    (benchmark,) = load_benchmarks([name], metrics=METRIC_NAMES)
    return benchmark


def test_every_benchmark_with_two_rubrics_is_here() -> None:
    every = load_benchmarks(["all"], metrics=METRIC_NAMES)
    assert {benchmark.name for benchmark in every if benchmark.extended_rubric} == {*GOALS}


@pytest.mark.parametrize("name", GOALS)
def test_the_goal_and_the_scale_of_the_standard_rubric(name: str) -> None:
    comparison, worst = GOALS[name]
    text = prompt_of(load(name))
    task = text.partition("The material stands between")[0]
    assert comparison in task
    assert name == "note_extract" or f"{comparison} in accuracy, completeness and clarity" in task
    assert f"1 means {worst}, 5 means excellent" in text
    assert ("a potential correct response" in task) == (name in POTENTIAL)
    assert "known to be good" not in text
    assert ("the reference, to compare the response with" in text) == (name != "note_extract")
    if name in ("mimic_bhc", "mimic_rrs"):
        assert "captures all clinical" in task


@pytest.mark.parametrize("name", GOALS)
def test_the_extended_rubric_is_unchanged_by_those_words(name: str) -> None:
    text = prompt_of(load(name).with_rubric("extended"))
    assert "1 means very poor, 5 means excellent" in text
    assert ("an answer known to be good, to consult where you need it" in text) == (name != "note_extract")

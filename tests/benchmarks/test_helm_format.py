"""Definitions in HELM's custom format: read as they are, with their quirks as remarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.definition import read_definition
from medhelm.benchmarks.prompts import render
from medhelm.domain import Benchmark
from medhelm.errors import ConfigError
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.cli import Medhelm

DATA = (
    "patient id,note,question,correct_answer,incorrect_answers\n"
    '001,"Cough, fever",Is it flu?,yes,"[""no""]"\n'
    "002,,Is it flu?,no,\n"
    "003,Cough,Is it flu?,,\n"
)
PROMPT = "Patient {patient id}\nNote: {note}\nReply as {{letter}}.\nQ: {question}"
JUDGE = (
    "Grade {QUESTION}, {RESPONSE}.\n<rubric_criteria>\n"
    '{"accuracy": {"score": 0, "explanation": "x"}, "tone": {}}\n</rubric_criteria>'
)
PLAIN: dict[str, Any] = {
    "name": "demo",
    "description": "Notes.",
    "prompt_file": "prompt.txt",
    "dataset_file": "data.csv",
    "max_tokens": 5,
    "metrics": [{"name": "exact_match"}],
}
JURY = {"name": "jury_score", "prompt_file": "judge.txt", "judges": [{"name": "d", "model_name": "openai/m"}]}


def write(
    folder: Path, *, prompt: str = PROMPT, data: str = DATA, judge: str = JUDGE, without: str = "", **changes: Any
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    content = {key: value for key, value in {**PLAIN, **changes}.items() if key != without}
    (folder / "demo.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    (folder / "prompt.txt").write_text(prompt, encoding="utf-8")
    (folder / "data.csv").write_text(data, encoding="utf-8")
    (folder / "judge.txt").write_text(judge, encoding="utf-8")
    return folder / "demo.yaml"


def made(folder: Path, **changes: Any) -> Benchmark:
    return read_definition(write(folder, **changes), metrics=METRIC_NAMES)


def problem(folder: Path, **changes: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        made(folder, **changes)
    return str(caught.value)


def test_helm_format_gives_the_same_benchmark_as_our_format(tmp_path: Path) -> None:
    benchmark = made(tmp_path)
    dataset = open_dataset(benchmark, data=None, tier="real")
    assert (dataset.n, dataset.n_skipped) == (2, 1)
    first, second = dataset
    assert render(benchmark, first).messages[0].text == (
        "Patient 001\nNote: Cough, fever\nReply as {letter}.\nQ: Is it flu?"
    )
    assert render(benchmark, second).messages[0].text == "Patient 002\nNote: \nReply as {letter}.\nQ: Is it flu?"
    assert [instance.expected for instance in dataset] == ["yes", "no"]
    assert (benchmark.metrics, benchmark.max_tokens, benchmark.access) == (("exact_match",), 5, "private")


def test_numbers_stay_text_and_the_remarks_say_so(tmp_path: Path) -> None:
    remarks = made(tmp_path, extra=1, without="max_tokens", name="My Demo").remarks
    assert [remark.split()[0] for remark in remarks] == [
        "the",
        "the",
        "`max_tokens`",
        "`incorrect_answers`",
        "ignored,",
    ]
    assert "`001` stays 001" in remarks[0]
    assert remarks[1] == "the name `My Demo` becomes `my_demo`."
    assert remarks[2] == "`max_tokens` is missing: 1024 is used, as in HELM."
    assert remarks[4] == "ignored, as in HELM: `extra`."


def test_a_missing_column_becomes_empty_with_a_remark(tmp_path: Path) -> None:
    benchmark = made(tmp_path, prompt="{notes}|{note}")
    assert benchmark.prompt == "|{note}"
    assert (
        "{notes}, which the data lacks: it is replaced by nothing, as in HELM. Did you mean `note`?"
        in (benchmark.remarks[0])
    )


@pytest.mark.parametrize(
    ("metrics", "ours"),
    [([{"name": "rouge_l"}, JURY, {"name": "BERTScore-F"}], ("rouge_l", "jury", "bertscore")), ([JURY], ("jury",))],
)
def test_a_jury_is_a_metric_at_its_place(tmp_path: Path, metrics: list[Any], ours: tuple[str, ...]) -> None:
    benchmark = made(tmp_path, metrics=metrics)
    assert benchmark.metrics == ours
    assert (benchmark.rubric is not None) == ("jury" in ours)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"metrics": [{"name": "bleu"}]}, "metrics[0].name"),
        ({"prompt_file": "other.txt"}, "prompt_file: the file `other.txt` does not exist"),
        ({"dataset_file": "other.csv", "prompt_file": "gone.txt"}, "dataset_file: the file `other.csv` does not exist"),
        ({"metrics": [{**JURY, "judges": []}, JURY]}, "metrics: `jury_score` is repeated"),
        ({"prompt": "{note!r} {question:>5} {0} {}"}, "`{note!r}` is not the name of a column"),
        ({"data": "note,question,patient id\nx,y,z\n"}, "no column `correct_answer`, which exact_match needs"),
        ({"metrics": [JURY], "judge": "no block"}, "needs a block <rubric_criteria>"),
        ({"metrics": [JURY], "judge": " \n"}, "judge.txt: the file is empty."),
    ],
)
def test_errors_are_named(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    assert words in problem(tmp_path, **changes)


def test_errors_in_all_files_are_reported_at_once(tmp_path: Path) -> None:
    judge = '<rubric_criteria>{"a": {}, "A": {}, " ": {}}</rubric_criteria>'
    text = problem(tmp_path, metrics=[JURY, {"name": "rouge_l"}], judge=judge, prompt="{0}", data="note\nx\n")
    assert "has 5 problems" in text
    for words in (
        "`{0}` is not the name",
        "which rouge_l needs",
        "in <rubric_criteria> repeats `a`",
        "an empty name",
        "has no {RESPONSE}",
    ):
        assert words in text


def test_export_helm_from_the_command_line(medhelm: Medhelm, tmp_path: Path) -> None:
    file = write(tmp_path / "helm")
    replies = tmp_path / "replies.jsonl"
    lines = [{"benchmark": "demo", "instance_id": str(i), "completion": "yes"} for i in range(2)]
    replies.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    outcome = medhelm("run", file, "--model", f"replay/{replies}", "--json")
    assert outcome.json["runs"][0]["metrics"]["exact_match"]["value"] == 0.5
    assert "demo: the CSV is read as text" in outcome.err
    checked = medhelm("benchmarks", "check", file).out
    assert "how the data was read:" in checked
    assert "not one of the categories" not in checked, "the format has no categories, so there is no mistake"

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
from medhelm.errors import ConfigError, DataError
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


def test_files_are_searched_next_to_the_definition_and_then_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "a")
    (tmp_path / "a" / "data.csv").rename(tmp_path / "data.csv")
    monkeypatch.chdir(tmp_path)
    benchmark = read_definition(file, metrics=METRIC_NAMES)
    assert benchmark.folder == Path()
    assert open_dataset(benchmark, data=None, tier="real").n == 2
    (tmp_path / "a" / "data.csv").write_text(DATA.replace("flu", "cold"), encoding="utf-8")
    beside = open_dataset(read_definition(file, metrics=METRIC_NAMES), data=None, tier="real")
    assert next(iter(beside)).fields["question"] == "Is it cold?"


def test_metrics_have_our_names(tmp_path: Path) -> None:
    names = ["rouge_l", "BERTScore-F", "exact_match", "BERTScore-P", "BERTScore-R", "rouge_1", "rouge_2"]
    assert made(tmp_path, metrics=[{"name": name} for name in names]).metrics == (
        "rouge_l",
        "bertscore",
        "exact_match",
        "bertscore_precision",
        "bertscore_recall",
        "rouge_1",
        "rouge_2",
    )


@pytest.mark.parametrize(
    ("metrics", "ours"),
    [
        ([JURY, {"name": "rouge_l"}], ("jury", "rouge_l")),
        ([{"name": "rouge_l"}, JURY, {"name": "BERTScore-F"}], ("rouge_l", "jury", "bertscore")),
        ([JURY], ("jury",)),
        ([{"name": "rouge_l"}, {"name": "rouge_l"}], ("rouge_l",)),
    ],
)
def test_a_jury_is_a_metric_at_its_place(tmp_path: Path, metrics: list[Any], ours: tuple[str, ...]) -> None:
    benchmark = made(tmp_path, metrics=metrics)
    assert benchmark.metrics == ours
    assert (benchmark.rubric is not None) == ("jury" in ours)


def test_the_judges_of_the_file_are_remarked(tmp_path: Path) -> None:
    remarks = made(tmp_path, metrics=[JURY, {"name": "rouge_l"}]).remarks
    assert "`jury_score`: judges are set with --judge, not in the file; the file names: openai/m." in remarks
    assert not any("only metric" in remark for remark in remarks)
    alone = made(tmp_path, metrics=[{**JURY, "judges": []}]).remarks
    assert alone[-2:] == (
        "`jury_score`: judges are set with --judge, not in the file; the file names: none.",
        "`jury_score` is its only metric: without judges it has no scores.",
    )


def test_a_jury_alone_needs_no_reference(tmp_path: Path) -> None:
    benchmark = made(tmp_path, metrics=[JURY], data="patient id,note,question\n1,Cough,Why?\n")
    assert (benchmark.metrics, benchmark.answer.column, benchmark.required_columns) == (("jury",), "", ())
    (instance,) = open_dataset(benchmark, data=None, tier="real")
    assert instance.references == ()


def test_a_reference_is_needed_where_judges_see_it(tmp_path: Path) -> None:
    """The third row has no answer: it can be asked unless the answer is shown to judges or compared with."""
    without = made(tmp_path / "a", metrics=[JURY])
    shown = made(tmp_path / "b", metrics=[JURY], judge=JUDGE + "{GOLD_RESPONSE}")
    assert [open_dataset(benchmark, data=None, tier="real").n for benchmark in (without, shown)] == [3, 2]
    assert [i.expected for i in open_dataset(without, data=None, tier="real")] == ["yes", "no", ""]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"without": "metrics"}, "metrics: missing"),
        ({"metrics": []}, "metrics: must have at least 1"),
        ({"metrics": ["exact_match"]}, "metrics[0]"),
        ({"metrics": [{"name": "bleu"}]}, "metrics[0].name"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"prompt_file": "other.txt"}, "prompt_file: the file `other.txt` does not exist"),
        ({"dataset_file": "other.csv", "prompt_file": "gone.txt"}, "dataset_file: the file `other.csv` does not exist"),
        ({"metrics": [{"name": "jury_score"}]}, "metrics: the file `` does not exist"),
        ({"metrics": [{**JURY, "judges": []}, JURY]}, "metrics: `jury_score` is repeated"),
        ({"prompt": "{note!r} {question:>5} {0} {}"}, "`{note!r}` is not the name of a column"),
        ({"prompt": "open { brace"}, "Double literal braces"),
        ({"prompt": "the same for all"}, "names no column of the data"),
        ({"data": "note,question,patient id\nx,y,z\n"}, "no column `correct_answer`, which exact_match needs"),
        ({"metrics": [JURY], "judge": "no block"}, "needs a block <rubric_criteria>"),
        ({"metrics": [JURY], "judge": "<rubric_criteria>{</rubric_criteria>"}, "is not JSON"),
        ({"metrics": [JURY], "judge": " \n"}, "has 1 problem\n\n  line 4  metrics: "),
        ({"metrics": [JURY], "judge": " \n"}, "judge.txt: the file is empty."),
        ({"prompt": ""}, "prompt.txt: the file is empty."),
    ],
)
def test_errors_are_named(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    assert words in problem(tmp_path, **changes)


@pytest.mark.parametrize("name", ["prompt.txt", "judge.txt"])
def test_a_text_in_another_encoding_is_named(tmp_path: Path, name: str) -> None:
    file = write(tmp_path, metrics=[JURY])
    (tmp_path / name).write_bytes("Grüße {note} {RESPONSE}".encode("latin-1"))
    with pytest.raises(ConfigError, match=rf"{name}: not UTF-8 text\. Save the file as UTF-8\."):
        read_definition(file, metrics=METRIC_NAMES)


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


def test_all_missing_files_are_named_at_once(tmp_path: Path) -> None:
    text = problem(tmp_path, prompt_file="a.txt", dataset_file="b.csv")
    assert "has 2 problems" in text


def test_a_broken_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.csv, line 2"):
        made(tmp_path, data='note,question,patient id,correct_answer\n"a"b,c,d,e\n')


def test_the_digest_covers_the_texts(tmp_path: Path) -> None:
    plain = made(tmp_path / "a").digest
    assert made(tmp_path / "b").digest == plain
    assert made(tmp_path / "c", prompt=PROMPT + "!").digest != plain
    with_jury = made(tmp_path / "d", metrics=[JURY, {"name": "rouge_l"}]).digest
    assert made(tmp_path / "e", metrics=[JURY, {"name": "rouge_l"}], judge=JUDGE + " ").digest != with_jury


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

"""Definitions in HELM's custom format: read as they are, with their quirks as remarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.definition import read_definition
from medhelm.benchmarks.helm_format import read_judge_prompt
from medhelm.benchmarks.prompts import render
from medhelm.domain import Benchmark, Criterion, Rubric
from medhelm.errors import ConfigError
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.cases import table
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


# --- judge prompts ----------------------------------------------------------------------------------------------------


CRITERIA = '<rubric_criteria>{"accuracy": {"score": 0, "explanation": "why"}, "tone": {}}</rubric_criteria>'
JUDGE_PROMPT = f"Grade {{RESPONSE}} to {{QUESTION}}.\n{CRITERIA}"


def rubric_of(text: str, *, has_reference: bool = False) -> Rubric:
    rubric, problems, _ = read_judge_prompt(text, has_reference=has_reference)
    assert problems == []
    return rubric


def test_the_whole_text_is_what_judges_read() -> None:
    assert rubric_of(JUDGE_PROMPT) == Rubric(
        task=JUDGE_PROMPT,
        criteria=(Criterion("accuracy", "accuracy"), Criterion("tone", "tone")),
        low=0,
        high=5,
        shows_reference=False,
        verbatim=True,
        published_default=0.0,
    )


def test_the_reference_is_shown_if_the_prompt_has_a_place_for_it_and_the_data_one() -> None:
    for text, has_reference, shown in (
        (JUDGE_PROMPT + "{GOLD_RESPONSE}", True, True),
        (JUDGE_PROMPT + "{GOLD_RESPONSE}", False, False),
        (JUDGE_PROMPT, True, False),
    ):
        assert rubric_of(text, has_reference=has_reference).shows_reference is shown


SIGNS = [
    "A patient paid $5, $NAME or ${QUESTION}.",
    'Reply as {"accuracy": {"score": 3}} and nothing else.',
    "{{QUESTION}} {{{RESPONSE}}} } { {} {0} {a b}",
]


@pytest.mark.parametrize("signs", SIGNS)
def test_braces_and_dollars_are_just_text(signs: str) -> None:
    rubric = rubric_of(f"{signs}\n{JUDGE_PROMPT}")
    assert rubric.task == f"{signs}\n{JUDGE_PROMPT}"
    assert [criterion.name for criterion in rubric.criteria] == ["accuracy", "tone"]


@pytest.mark.parametrize(
    "mention",
    [
        "Write one JSON object inside <rubric_criteria>:",
        "Begin with <rubric_criteria>, end with </rubric_criteria>. Write <rubric_criteria> only once.",
        "Not <rubric_criteria></rubric_criteria>, but:",
        'Keep to <rubric_criteria>: {"criterion": {"score": 0}}',
    ],
)
def test_prose_can_mention_the_tags_before_and_after_the_block(mention: str) -> None:
    for text in (f"{mention}\n{JUDGE_PROMPT}", f"{JUDGE_PROMPT}\n{mention}", f"{mention}\n{JUDGE_PROMPT}\n{mention}"):
        assert [criterion.name for criterion in rubric_of(text).criteria] == ["accuracy", "tone"]


@table(
    ("text", "scale"),
    [
        ("Score each criterion from 1 to 5.", (1, 5)),
        ("Grades go from 1 (very poor) to 5 (excellent).", (1, 5)),
        ("Give a rating between 0 and 100.", (0, 100)),
        ("Score accuracy from 1 to 5.\nScore tone from 0 to 3.", None),
        ("Patients aged 1 to 5 years.", None),
        ("Score 1-5%, or the code 1-5-3, 11-5, 0.1-5, 1-5.5", None),
    ],
)
def test_the_scale_is_read_where_the_text_says_it_once(text: str, scale: tuple[float, float] | None) -> None:
    rubric, _, remarks = read_judge_prompt(f"{text}\n{JUDGE_PROMPT}", has_reference=False)
    low, high = scale or (0, 5)
    why = "as in the judge prompt" if scale else "because the judge prompt has none, or several"
    assert (rubric.low, rubric.high) == (low, high)
    assert remarks == [f"grades have a scale of {low} to {high}, {why}; a grade outside it is a failed judgment."]


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (CRITERIA, ["has no {RESPONSE}, so judges would not see the completion."]),
        ("{RESPONSE}", ["needs a block <rubric_criteria> with a JSON object of criteria."]),
        (
            '{RESPONSE}<rubric_criteria>{"a": {}, " ": {}, "A ": {}}</rubric_criteria>',
            [
                "a criterion in <rubric_criteria> has an empty name.",
                "the criterion `A ` in <rubric_criteria> repeats `a`. Keep one of them.",
            ],
        ),
    ],
)
def test_all_problems_are_reported_together(text: str, problems: list[str]) -> None:
    assert read_judge_prompt(text, has_reference=True)[1] == problems


@pytest.mark.parametrize("block", ["{'a': {}}", "[" * 100_000, '{"a": {}} and more'])
def test_a_block_that_is_not_json(block: str) -> None:
    (problem,) = read_judge_prompt(f"{{RESPONSE}}<rubric_criteria>{block}</rubric_criteria>", has_reference=True)[1]
    assert problem.startswith("the block <rubric_criteria> is not JSON (")

"""From a row to an instance: values as text, options, answers, and what is missing."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.data.instances import InstanceReader, criteria_in, turns_in
from medhelm.benchmarks.prompts import render
from medhelm.domain import Benchmark, Criterion, Instance, Message, Reference
from medhelm.errors import ConfigError, DataError
from medhelm.io.rows import RowError
from tests.support.benchmarks.definitions import Make, Put
from tests.support.cases import table

ROW = {"question": "Why?", "answer": "Because."}
CHOICE: Mapping[str, Any] = {
    "prompt": "{question} {options}",
    "choices": {"columns": ["opa", "opb", "opc"]},
    "answer": {"column": "answer", "form": "letter"},
}
OPTIONS = {"opa": "one", "opb": "two", "opc": "three"}


def read(make: Make, row: Mapping[str, object], position: int = 0, **changes: Any) -> Instance:
    instance = InstanceReader(make(**changes), "x.csv").read(position, row)
    assert instance is not None
    return instance


def message(make: Make, row: Mapping[str, object], **changes: Any) -> str:
    with pytest.raises(RowError) as caught:
        read(make, row, 16, **changes)
    return str(caught.value)


def test_fields_are_what_the_templates_show_and_nothing_else(make: Make) -> None:
    columns = {"q": "question", "unused": "other"}
    instance = read(make, {**ROW, "hint": "h"}, prompt="{q} {{brace}}", system="{hint}", columns=columns)
    assert instance.fields == {"q": "Why?", "hint": "h"}


@pytest.mark.parametrize(
    ("value", "text"),
    [("as it is \r\n", "as it is \r\n"), (None, ""), (True, "true"), (datetime.date(2024, 1, 2), "2024-01-02")],
)
def test_values_become_text(make: Make, value: object, text: str) -> None:
    instance = read(make, {**ROW, "question": value, "m": value}, metadata=["m"])
    assert (instance.fields["question"], instance.metadata["m"]) == (text, text)


def test_nested_values_are_not_text(make: Make) -> None:
    text = message(make, {**ROW, "question": ["a"]})
    assert text.startswith("x.csv, row 17: `question` is a list, not text. Convert it to text in hooks.py")


def test_nested_values_are_kept_for_metrics_as_json(make: Make) -> None:
    row = {**ROW, "m": {"a": [1, "é", None], "d": datetime.date(2024, 1, 2)}}
    assert read(make, row, metadata=["m"]).metadata == {"m": '{"a": [1, "é", null], "d": "2024-01-02"}'}


def test_dotted_names_reach_into_nested_data(make: Make) -> None:
    row = {**ROW, "options": {"A": "x", "B": [{"text": "y"}]}, "options.C": "z"}
    columns = {"a": "options.A", "b": "options.B.0.text", "c": "options.C"}
    assert read(make, row, prompt="{a}{b}{c}", columns=columns).fields == {"a": "x", "b": "y", "c": "z"}
    for column in ("options.D", "options.A.x", "options.B.1", "options.B.-1", "options.B.x"):
        with pytest.raises(DataError, match=rf"lacks 1 column .*\n  `{column}`, for prompt"):
            read(make, row, prompt="{a}", columns={"a": column})


def test_every_name_may_be_a_field_or_a_column(make: Make) -> None:
    row = {"Q": "Why?", "Row Number": 3, "Note ID": "n1", "A": "Because.", "Category": "lab"}
    changes: dict[str, Any] = {
        "columns": {"question": "Q", "number": "Row Number", "note": "Note ID", "right": "A"},
        "id": ["number", "Note ID"],
        "cluster": "note",
        "answer": "right",
        "require": ["question", "A"],
        "metadata": ["Category", "number"],
    }
    assert read(make, row, **changes) == Instance(
        id="3/n1",
        fields={"question": "Why?"},
        references=(Reference("Because."),),
        cluster="n1",
        metadata={"Category": "lab", "number": "3"},
    )


@pytest.mark.parametrize("empty", ["", "  \n", None, float("nan"), [], {}])
def test_rows_with_an_empty_required_column_are_left_out(make: Make, empty: object) -> None:
    reader = InstanceReader(make(require=["answer"]), "x.csv")
    assert reader.read(0, {**ROW, "answer": empty}) is None
    assert reader.read(1, ROW) is not None
    assert reader.read(2, {"question": "no such key"}) is None
    reader.check_columns()


def test_options_with_letters(make: Make) -> None:
    instance = read(make, {**ROW, **OPTIONS, "answer": "B"}, **CHOICE)
    assert instance.choices == ("one", "two", "three")
    assert instance.labels == ("A", "B", "C")
    assert instance.references == (Reference("one", False), Reference("two", True), Reference("three", False))
    assert (instance.expected, instance.correct) == ("B", ("two",))


@pytest.mark.parametrize(
    ("answer", "options", "expected"),
    [("Two", ("one", "two"), "two"), ("two", ("Two", "TWO", "two"), "two"), (True, ("TRUE", "FALSE"), "TRUE")],
)
def test_case_of_an_answer_counts_only_where_options_differ_in_nothing_else(
    make: Make, answer: object, options: tuple[str, ...], expected: str
) -> None:
    changes: dict[str, Any] = {"choices": {"texts": list(options), "labels": "texts"}, "answer": "answer"}
    assert read(make, {"question": "?", "answer": answer}, **changes).expected == expected
    with pytest.raises(RowError, match="is not one of the options"):
        read(make, {"question": "?", "answer": "TwO"}, **{**changes, "choices": ["two", "TWO"]})


def test_spaces_around_the_name_of_a_column_do_not_count(make: Make) -> None:
    instance = read(make, {" question ": "?", "the\nanswer": "a"}, answer="the answer")
    assert (instance.fields["question"], instance.expected) == ("?", "a")


@pytest.mark.parametrize(
    ("form", "answer", "words"),
    [
        ("letter", "D", "the answer `D` is not one of the options: A `one`, B `two`, C `three`."),
        ("number", 0, "the answer `0` is not one of the options: 1 `one`, 2 `two`, 3 `three`."),
        ("text", "Too", "the answer `Too` is not one of the options: `one`, `two`, `three`."),
        ("text", " ", "the answer `answer` is empty. Skip such rows with `require: [answer]`, or correct the data."),
    ],
)
def test_answers_that_are_not_an_option(make: Make, form: str, answer: object, words: str) -> None:
    changes = {**CHOICE, "answer": {"column": "answer", "form": form}}
    assert f"x.csv, row 17: {words}" in message(make, {**ROW, **OPTIONS, "answer": answer}, **changes)


@pytest.mark.parametrize("empty", ["", " ", None])
def test_empty_options(make: Make, empty: object) -> None:
    row = {**ROW, **OPTIONS, "opb": empty, "answer": "C"}
    assert "x.csv, row 17: the option `opb` is empty. Set its text" in message(make, row, **CHOICE)
    changes = {**CHOICE, "choices": {"columns": ["opa", "opb", "opc"], "missing": "Not applicable"}}
    assert read(make, row, **changes).choices == ("one", "Not applicable", "three")
    row.pop("opb")
    assert read(make, row, **changes).choices == ("one", "Not applicable", "three")


def test_all_missing_columns_are_reported_at_once(make: Make) -> None:
    changes = {**CHOICE, "id": ["pmid"], "columns": {"question": "QUESTION"}}
    with pytest.raises(DataError) as caught:
        read(make, {"Question": "?", "opa": "1", "answer": "A"}, **changes)
    assert str(caught.value).split("\n") == [
        "x.csv lacks 4 columns that tiny needs:",
        "  `QUESTION`, for prompt. Did you mean `Question`?",
        "  `opb`, for choices. Did you mean `opa`?",
        "  `opc`, for choices. Did you mean `opa`?",
        "  `pmid`, for id.",
        "Columns: Question, opa, answer.",
        "Check that this is the right file, or correct the names in benchmark.yaml.",
    ]
    assert not isinstance(caught.value, RowError), "it is about the data, not about one row"


def test_a_placeholder_without_a_column_is_an_error_in_the_definition(make: Make) -> None:
    with pytest.raises(ConfigError, match=r"prompt: \{note_text\} is not a column of x\.csv\.\n.*\n?.*`note`"):
        read(make, {**ROW, "note": "n"}, prompt="{note_text}")


def test_a_long_cluster_name_is_hashed(make: Make) -> None:
    note = "A note about one patient, on which two questions rest. " * 3
    first, second, other = (
        read(make, {"question": "q", "answer": "a", "note": text}, cluster="note").cluster
        for text in (note, note, note + "!")
    )
    assert first == second != other
    assert "patient" not in first
    assert len(first) == 32


# --- columns with conversations and criteria --------------------------------------------------------------------------


PLACE = "x.jsonl, row 3, `c`"
USER = {"role": "user", "content": "Why?"}
REPLY = {"role": "assistant", "content": "Because."}
GOOD = {"criterion": "Says why.", "points": 5, "tags": ["axis:accuracy"]}
HARM = {"criterion": "Makes it up.", "points": -3}


def conversation(make: Make, **changes: Any) -> Benchmark:
    """A benchmark that continues conversations and is judged by criteria of each instance."""
    rubric = {"task": "t", "form": "points", "reference": False, "criteria_column": "criteria"}
    changes = {"prompt": None, "conversation": "turns", "rubric": rubric, "metrics": ["jury"], **changes}
    return make(**changes)


def read_turns(benchmark: Benchmark, **row: object) -> Instance:
    instance = InstanceReader(benchmark, "x.jsonl").read(16, row)
    assert instance is not None
    return instance


@pytest.mark.parametrize("as_text", [False, True])
def test_criteria_are_named_by_their_position(as_text: bool) -> None:
    criteria = [GOOD, {**HARM, "id": 7}, {"criterion": " Is kind.\n", "points": 0.5, "tags": ["a", "a", "b"]}]
    assert criteria_in(json.dumps(criteria) if as_text else criteria, PLACE) == (
        Criterion("criterion_1", "Says why.", points=5.0, tags=("axis:accuracy",)),
        Criterion("criterion_2", "Makes it up.", points=-3.0),
        Criterion("criterion_3", "Is kind.", points=0.5, tags=("a", "b")),
    )


@table(
    ("value", "words"),
    [
        ("[" * 100_000, "must be a JSON list of {role, content}, but cannot be parsed"),
        (None, "must be a JSON list of {role, content}, is empty."),
        ([{"content": "a"}], ", turn 1: its `role` must be `user`, `assistant` or `system`, is empty."),
        ([USER, {"role": "system", "content": "a"}, USER], ", turn 2: a system message can only come first."),
        ([USER, REPLY, {"role": "user", "content": " \n"}], ": the last turn must be a text of the user, but is"),
    ],
)
def test_invalid_conversations(value: object, words: str) -> None:
    with pytest.raises(RowError) as caught:
        turns_in(value, PLACE)
    assert str(caught.value).startswith(PLACE)
    assert words in str(caught.value)


@table(
    ("value", "words"),
    [
        ("[", "must be a JSON list of {criterion, points, tags}, but cannot be parsed"),
        ([], "must be a JSON list of {criterion, points, tags}, is an empty list."),
        ([{"criterion": "a"}], "its `points` must be a number other than zero, negative for harm, is empty"),
        ([{**GOOD, "points": 0}], "its `points` must be a number other than zero, negative for harm, is the number 0."),
        ('[{"criterion": "a", "points": NaN}]', "its `points` must be a number"),
        ([{**GOOD, "tags": "axis:accuracy"}], ", criterion 1: its `tags` must be a list of texts, is `axis:accuracy`."),
        ([GOOD, HARM, {**GOOD, "points": 1}], ", criterion 3: repeats criterion_1 and would count twice."),
        ([HARM], ": no criterion has positive points, so completions cannot be scored."),
    ],
)
def test_invalid_criteria(value: object, words: str) -> None:
    with pytest.raises(RowError) as caught:
        criteria_in(value, PLACE)
    assert str(caught.value).startswith(PLACE)
    assert words in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "criterion", "points", "tags"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(value=json_values)
def test_anything_else_is_refused_in_words(value: object) -> None:
    for reader in (turns_in, criteria_in):
        try:
            assert reader(value, PLACE)
        except RowError as error:
            assert str(error).startswith(PLACE)


def test_an_instance_has_its_conversation_and_its_criteria(make: Make) -> None:
    benchmark = conversation(make, system="Be {mood}.")
    instance = read_turns(benchmark, turns=[USER, REPLY, USER], criteria=json.dumps([GOOD]), mood="kind", answer="So.")
    assert instance == Instance(
        id="16",
        fields={"mood": "kind"},
        references=(Reference("So."),),
        turns=(Message("user", "Why?"), Message("assistant", "Because."), Message("user", "Why?")),
        criteria=(Criterion("criterion_1", "Says why.", points=5.0, tags=("axis:accuracy",)),),
    )
    assert render(benchmark, instance).messages == (Message("system", "Be kind."), *instance.turns)


def test_spilled_instances_round_trip(make: Make, put: Put, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = [{"n": i, "turns": [USER, REPLY, USER], "criteria": [GOOD, HARM]} for i in range(20)]
    benchmark = conversation(make, answer=None, id="n", sample={"size": 5})
    in_memory = list(open_dataset(benchmark, data=put(rows), tier="real"))
    monkeypatch.setattr("medhelm.benchmarks.data.dataset.KEPT", 3)
    dataset = open_dataset(benchmark, data=tmp_path / "data", tier="real")
    assert dataset.held == 0
    assert list(dataset) == in_memory

"""Columns that hold JSON: conversations and criteria, as lists or as text, and what is wrong with them."""

from __future__ import annotations

import json
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


def read(benchmark: Benchmark, **row: object) -> Instance:
    instance = InstanceReader(benchmark, "x.jsonl").read(16, row)
    assert instance is not None
    return instance


@pytest.mark.parametrize("as_text", [False, True])
def test_turns_become_messages(as_text: bool) -> None:
    turns = [{"role": "system", "content": ""}, {**USER, "name": "ann"}, REPLY, {**USER, "content": "{x} \n"}]
    assert turns_in(json.dumps(turns) if as_text else turns, PLACE) == (
        Message("system", ""),
        Message("user", "Why?"),
        Message("assistant", "Because."),
        Message("user", "{x} \n"),
    )


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
        ("", "must be a JSON list of {role, content}, but cannot be parsed: Expecting value"),
        ("[" * 100_000, "must be a JSON list of {role, content}, but cannot be parsed"),
        (None, "must be a JSON list of {role, content}, is empty."),
        ([], "must be a JSON list of {role, content}, is an empty list."),
        ("{}", "must be a JSON list of {role, content}, is a mapping."),
        (5, "must be a JSON list of {role, content}, is the number 5."),
        (["Why?"], ", turn 1: must be an object with role, content, is `Why?`."),
        ([{"content": "a"}], ", turn 1: its `role` must be `user`, `assistant` or `system`, is empty."),
        ([{"role": ["user"], "content": "a"}], "its `role` must be `user`, `assistant` or `system`, is a list"),
        ([{"role": "user"}], ", turn 1: its `content` must be text, is empty."),
        ([{"role": "user", "content": [{"text": "a"}]}], ", turn 1: its `content` must be text, is a list."),
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
        ([GOOD, 5], ", criterion 2: must be an object with criterion, points, tags, is the number 5."),
        ([{"points": 5}], ", criterion 1: its `criterion` must be a text that is not empty, is empty."),
        ([{"criterion": "a"}], "its `points` must be a number other than zero, negative for harm, is empty"),
        ([{**GOOD, "points": 0}], "its `points` must be a number other than zero, negative for harm, is the number 0."),
        ([{**GOOD, "points": True}], "its `points` must be a number other than zero, negative for harm, is `true`."),
        ('[{"criterion": "a", "points": NaN}]', "its `points` must be a number"),
        ([{**GOOD, "points": 10**400}], "its `points` must be a number"),
        ([{**GOOD, "tags": "axis:accuracy"}], ", criterion 1: its `tags` must be a list of texts, is `axis:accuracy`."),
        ([{**GOOD, "tags": ["a", 1]}], ", criterion 1: its `tags` must be a list of texts, is a list."),
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
    instance = read(benchmark, turns=[USER, REPLY, USER], criteria=json.dumps([GOOD]), mood="kind", answer="So.")
    assert instance == Instance(
        id="16",
        fields={"mood": "kind"},
        references=(Reference("So."),),
        turns=(Message("user", "Why?"), Message("assistant", "Because."), Message("user", "Why?")),
        criteria=(Criterion("criterion_1", "Says why.", points=5.0, tags=("axis:accuracy",)),),
    )
    assert render(benchmark, instance).messages == (Message("system", "Be kind."), *instance.turns)


def test_an_unusable_row_is_named(make: Make) -> None:
    benchmark = conversation(make, id="n")
    with pytest.raises(RowError, match=r"x\.jsonl, row 17 \(id a7\), `turns`, turn 1: its `role` must be"):
        read(benchmark, n="a7", turns=[{"role": "x", "content": ""}], criteria=[GOOD], answer="")
    with pytest.raises(RowError, match=r"x\.jsonl, row 17 \(id a7\), `criteria`: no criterion has positive points"):
        read(benchmark, n="a7", turns=[USER], criteria=[HARM], answer="")


def test_two_system_messages_are_one_too_many(make: Make) -> None:
    row = {"turns": [{"role": "system", "content": "Be brief."}, USER], "criteria": [GOOD], "answer": "a"}
    assert read(conversation(make), **row).turns[0].role == "system"
    with pytest.raises(RowError, match=r"row 17, `turns`: begins with a system message, but `system` is set too"):
        read(conversation(make, system="Be kind about {answer}."), **row)


@pytest.mark.parametrize("answer", [{"answer": ""}, {"answer": None}, {}])
def test_an_answer_may_be_missing_if_nothing_needs_it(make: Make, answer: dict[str, object]) -> None:
    row = {"turns": [USER], "criteria": [GOOD], **answer}
    instance = read(conversation(make), **row)
    assert (instance.references, instance.expected, instance.correct) == ((), "", ())
    assert read(conversation(make, answer=None), **row).references == ()
    needed = {"rubric": {"task": "t", "form": "points", "criteria_column": "criteria"}}
    with pytest.raises(DataError, match="`answer`"):
        read(conversation(make, **needed), **row)


def test_a_column_in_no_row_is_missing(make: Make) -> None:
    reader = InstanceReader(conversation(make), "x.jsonl")
    assert reader.read(0, {"turns": [USER], "criteria": [GOOD]})
    with pytest.raises(DataError, match=r"lacks 1 column .*\n  `answer`, for answer\."):
        reader.check_columns()


def test_all_missing_columns_are_reported_at_once(make: Make) -> None:
    rubric = {"task": "t", "form": "points", "criteria_column": "criteria", "reference": False}
    benchmark = conversation(make, answer=None, rubric=rubric, columns={"turns": "Conversation"})
    with pytest.raises(DataError) as caught:
        read(benchmark, conversation=[USER], rubrics=[])
    assert str(caught.value).split("\n")[1:3] == [
        "  `Conversation`, for conversation. Did you mean `conversation`?",
        "  `criteria`, for rubric.criteria_column.",
    ]


def test_a_field_of_the_question_for_judges_is_read_too(make: Make) -> None:
    rubric = {"task": "t", "question": "{question}\n\nWard: {ward}", "criteria": {"a": "b"}}
    benchmark = make(rubric=rubric, metrics=["jury"])
    instance = read(benchmark, question="Why?", ward="7", answer="So.")
    assert instance.fields == {"question": "Why?", "ward": "7"}
    assert [message.text for message in render(benchmark, instance).messages] == ["Why?"]
    with pytest.raises(ConfigError, match=r"line \d+  rubric.question: {ward} is not a column of x\.jsonl\."):
        read(benchmark, question="Why?", answer="So.")


def test_all_unusable_rows_are_reported_at_once(make: Make, put: Put) -> None:
    data = put([{"turns": [], "criteria": [GOOD]}, {"turns": [USER], "criteria": [HARM]}])
    with pytest.raises(DataError) as caught:
        open_dataset(conversation(make, answer=None), data=data, tier="real")
    lines = str(caught.value).split("\n")
    assert ["line 1" in lines[0], "line 2" in lines[1]] == [True, True]


def test_conversations_count_as_text_and_tell_rows_apart(make: Make, put: Put) -> None:
    rows = [{"turns": [USER], "criteria": [GOOD]}, {"turns": [{**USER, "content": "How?"}], "criteria": [GOOD]}]
    data = put([*rows, rows[0]])
    dataset = open_dataset(conversation(make, answer=None, drop_duplicates=True), data=data, tier="real")
    assert (dataset.n, dataset.n_skipped) == (2, 1)
    assert dataset.held == 2 * (len("Why?") + len("Says why."))


def test_spilled_instances_round_trip(make: Make, put: Put, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = [{"n": i, "turns": [USER, REPLY, USER], "criteria": [GOOD, HARM]} for i in range(20)]
    benchmark = conversation(make, answer=None, id="n", sample={"size": 5})
    in_memory = list(open_dataset(benchmark, data=put(rows), tier="real"))
    monkeypatch.setattr("medhelm.benchmarks.data.dataset.KEPT", 3)
    dataset = open_dataset(benchmark, data=tmp_path / "data", tier="real")
    assert dataset.held == 0
    assert list(dataset) == in_memory

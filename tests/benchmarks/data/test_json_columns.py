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
    instance = read(benchmark, turns=[USER, REPLY, USER], criteria=json.dumps([GOOD]), mood="kind", answer="So.")
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

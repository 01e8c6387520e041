"""Answers in several spellings: which are proposed as one, and how a definition maps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.benchmarks.data.instances import InstanceReader
from medhelm.benchmarks.data.readers import meaning, proposed_values
from medhelm.errors import ConfigError, DataError
from tests.support.benchmarks.definitions import Make
from tests.support.cases import table


@table(
    ("answers", "values"),
    [
        (["Y", "yes", "N", "No", "unknown"], {"Y": "yes", "N": "No"}),
        (["Y", "N"], {}),
        (["1", "yes", "0", "no"], {"1": "yes", "0": "no"}),
        (["Ja", "y", "nein"], {"y": "Ja"}),
        ([], {}),
    ],
)
def test_the_proposed_values_of(answers: Sequence[str], values: Mapping[str, str]) -> None:
    assert proposed_values(answers) == values


@given(
    st.lists(st.one_of(st.sampled_from(["y", "Y", "yes", "n", "No", "1", "0", "-", "?", "unk"]), st.text()), max_size=8)
)
def test_values_lead_to_one_spelling_for_each_meaning(answers: list[str]) -> None:
    values = proposed_values(answers)
    assert not set(values) & set(values.values())
    assert all(meaning(spelling) == meaning(answer) for spelling, answer in values.items())
    mapped = {" ".join(spelling.casefold().split()) for spelling in values}  # as a definition compares cells
    assert proposed_values([answer for answer in answers if " ".join(answer.casefold().split()) not in mapped]) == {}


def test_a_definition_says_what_a_cell_means(make: Make) -> None:
    answer = {"column": "answer", "form": "text", "values": {"Y": True, "N": "false"}}
    benchmark = make(prompt="{question} {options}", choices=[True, False], answer=answer)
    reader = InstanceReader(benchmark, "x.csv")
    found = [reader.read(0, {"question": "q", "answer": text}) for text in ("Y", " y ", "true", "N")]
    assert [one.expected for one in found if one] == ["A", "A", "A", "B"]
    with pytest.raises(DataError, match=r"the answer `maybe` is not one of the options: `true`, `false`\.$"):
        reader.read(0, {"question": "q", "answer": "maybe"})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"column": "a", "form": "labels", "values": {"x": "y"}}, "answer.values: is not for sets of labels"),
        ({"column": "a", "values": {"x": 5}}, "answer.values.x"),
    ],
)
def test_what_values_cannot_be(make: Make, answer: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make(answer=answer)

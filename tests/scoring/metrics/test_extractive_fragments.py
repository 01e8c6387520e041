"""Extractive fragments: against the procedure as it is published, by hand, and what they promise."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.domain import RULES, Instance, Reference, Rule
from medhelm.errors import DataError
from medhelm.scoring.metric import Metric
from medhelm.scoring.metrics.extractive_fragments import (
    COMPRESSION,
    COVERAGE,
    DENSITY,
    FragmentCoverage,
    extract,
    shared_fragments,
)
from tests.support.cases import table

every_rule = pytest.mark.parametrize("rule", RULES)
every_metric = pytest.mark.parametrize("metric", [COVERAGE, DENSITY, COMPRESSION], ids=lambda metric: metric.name)


def asked(*fields: str) -> Instance:
    """A question whose input is in these fields."""
    return Instance(id="1", fields={str(n): text for n, text in enumerate(fields)}, references=(Reference("x"),))


def plainly(answer: list[str], source: list[str]) -> list[int]:
    """The procedure F(A, S) of the paper, step by step, trying every place of the input."""
    lengths = []
    i = 0
    while i < len(answer):
        longest = j = 0
        while j < len(source):
            if answer[i] == source[j]:
                n = 0
                while i + n < len(answer) and j + n < len(source) and answer[i + n] == source[j + n]:
                    n += 1
                longest = max(longest, n)
                j += n
            else:
                j += 1
        if longest:
            lengths.append(longest)
        i += max(longest, 1)
    return lengths


@table(
    ("answer", "source", "expected"),
    [
        ("a b", "", []),
        ("a b c", "a b x a b c", [3]),
        ("a b a b c", "a b a b a b c", [4, 1]),  # the place inside the first match, which would give 5, is not tried
    ],
)
def test_the_fragments_of(answer: str, source: str, expected: list[int]) -> None:
    assert shared_fragments(answer.split(), source.split()) == expected
    assert plainly(answer.split(), source.split()) == expected


@given(st.data())
def test_fragments_are_those_of_the_published_procedure(data: st.DataObject) -> None:
    letters = data.draw(st.sampled_from(["a", "ab", "abcdef"]))
    answer = data.draw(st.lists(st.sampled_from(letters), max_size=15))
    source = data.draw(st.lists(st.sampled_from(letters + "z"), max_size=40))
    assert shared_fragments(answer, source) == plainly(answer, source)


@table(
    ("source", "answer", "expected"),
    [
        ("No acute distress.", "No acute distress.", (1, 4, 1)),
        ("He doesn't smoke", "does n't", (1, 2, 2)),
        ("the patient's BP is 120/80, on 3.5 mg", "120/80, on 3.5", (1, 4, 10 / 4)),
        ("每日一次，每次75毫克", "每次75毫克", (1, 5, 2)),
        ("Ménière", "Me\u0301nie\u0300re", (1, 1, 1)),
    ],
)
def test_the_values_of(source: str, answer: str, expected: tuple[float, float, float]) -> None:
    assert extract(source, answer) == pytest.approx(expected)


@given(st.text(), st.text())
def test_values_lie_within_their_bounds(source: str, answer: str) -> None:
    found = extract(source, answer)
    assert 0 <= found.coverage <= 1
    assert found.coverage <= found.density or found.density == 0
    assert 0 <= found.compression < inf
    copied = extract(answer, answer)
    assert copied == FragmentCoverage(0, 0, 0) or (copied.coverage, copied.compression) == (1, 1)


def test_a_long_completion_is_searched_only_where_answers_can_be() -> None:
    """A procedure that tries every place would need a thousand million steps here."""
    source = " ".join(f"w{number}" for number in range(200_000))
    answer = " ".join(f"w{number}" for number in range(10_000, 0, -2))
    assert extract(source, answer) == FragmentCoverage(1.0, 1.0, 40.0)


@every_rule
def test_the_input_is_every_field(rule: Rule) -> None:
    instance = asked("Fever since Monday.", "Exam: no rash.")
    assert COVERAGE.function(rule)("no rash. Fever", instance) == 1
    assert COVERAGE.function(rule)("Monday. Exam", instance) == 1
    assert DENSITY.function(rule)("no rash", instance) == 2


@every_rule
@every_metric
def test_without_an_input_there_is_no_score(metric: Metric, rule: Rule) -> None:
    for instance in (asked(), asked("", " \n")):
        with pytest.raises(DataError, match="no input"):
            metric.function(rule)("fever", instance)


def test_reasoning_is_not_part_of_an_answer() -> None:
    instance = asked("No rash. No fever.")
    reply = "<think>It says that there is no rash.</think>No fever."
    assert COVERAGE.corrected(reply, instance) == 1
    assert COMPRESSION.corrected(reply, instance) == 2

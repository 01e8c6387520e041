"""The three baselines: simple rules, and always the same answers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.domain import Completion, Instance, Message, Model, Prompt, Reference, Request, Usage
from medhelm.errors import ProviderError
from medhelm.models.providers.baseline import (
    BASELINES,
    MAX_REFERENCES,
    Baseline,
    most_frequent_answer,
)

MODEL = Model(name="baseline/x", provider="baseline", remote_name="x")


def choice(name: str, correct: int, options: Sequence[str] = ("yes", "no"), **fields: str) -> Instance:
    """A choice question with the labels A, B ..."""
    references = tuple(Reference(text, position == correct) for position, text in enumerate(options))
    labels = tuple("ABCDEFGH"[: len(options)])
    return Instance(id=name, fields=fields, references=references, choices=tuple(options), labels=labels)


def open_question(name: str, answer: str, **fields: str) -> Instance:
    """A question without options."""
    return Instance(id=name, fields=fields, references=(Reference(answer),))


def answer(baseline: Baseline, instance: Instance | None, *, prompt: str = "", max_tokens: int = 100) -> Completion:
    """What a baseline says to one instance of the benchmark `b`."""
    asked = Prompt((Message("user", prompt),))
    request = Request(model=MODEL, prompt=asked, max_tokens=max_tokens, benchmark="b", instance=instance)
    return asyncio.run(baseline.complete(request))


def text(baseline: Baseline, instance: Instance, **settings: Any) -> str:
    """The text of the same."""
    return answer(baseline, instance, **settings).text or ""


def prepared(rule: str, instances: Iterable[Instance], *, seed: int = 0) -> Baseline:
    """A baseline that has seen the benchmark `b`."""
    baseline = Baseline(rule, seed=seed)
    baseline.prepare("b", instances)
    return baseline


# --- all of them ------------------------------------------------------------------------------------------------------

SOME = [choice(str(i), i % 2, question=f"Is it {i}?", note="yes, it is 3") for i in range(9)]
OPEN = [open_question(str(i), f"answer {i}", question=f"What is {i}?", note="It is 3. It is 4.") for i in range(9)]


@pytest.mark.parametrize("rule", BASELINES)
def test_answers_are_free_local_complete_and_the_same_in_any_order(rule: str) -> None:
    for instances in (SOME, OPEN):
        first, second = prepared(rule, instances), prepared(rule, iter(instances))
        assert [text(first, i) for i in instances] == [text(second, i) for i in reversed(instances)][::-1]
    baseline = prepared(rule, SOME)
    completion = answer(baseline, SOME[0])
    assert (completion.usage, completion.finish_reason, completion.failure) == (Usage(), "stop", None)
    assert (completion.text in {"A", "B"}, baseline.local, baseline.endpoint) == (True, True, "")
    assert "no_instance" in repr(answer(baseline, None).failure)
    if rule != "lexical":
        with pytest.raises(ProviderError, match=f"baseline/{rule} has not read `b`"):
            answer(Baseline(rule), OPEN[0])


# --- majority ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(["", "a", "b", "half \ud83d"]), max_size=40))
def test_majority_is_the_first_most_common_answer_that_is_not_empty(answers: list[str]) -> None:
    instances = [open_question(str(position), answer) for position, answer in enumerate(answers)]
    most_common = Counter(filter(None, answers)).most_common(1)
    assert most_frequent_answer(instances) == (most_common[0] if most_common else ("", len(instances)))


# --- random -----------------------------------------------------------------------------------------------------------


def test_random_uses_all_labels_about_equally_and_gives_another_instances_answer_by_the_seed() -> None:
    instances = [choice(str(i), 0, ("w", "x", "y", "z")) for i in range(400)]
    baseline = prepared("random", instances)
    counts = Counter(text(baseline, instance) for instance in instances)
    assert (set(counts), min(counts.values()) > 70, max(counts.values()) < 130) == (set("ABCD"), True, True)
    assert text(prepared("random", OPEN[:1]), OPEN[0]) == ""
    baseline, other = (prepared("random", OPEN, seed=seed) for seed in (1, 2))
    assert [text(baseline, i) for i in OPEN] != [text(other, i) for i in OPEN]
    assert all(text(baseline, i) in {other.expected for other in OPEN if other.id != i.id} for i in OPEN)


def test_random_keeps_a_fair_sample_of_many_answers() -> None:
    def many() -> Iterator[Instance]:
        return (open_question(str(i), str(i)) for i in range(20 * MAX_REFERENCES))

    baseline = prepared("random", many())
    kept = [int(name) for name, _ in baseline._drawn["b"]]
    assert len(kept) == len(set(kept)) == MAX_REFERENCES
    assert 9_000 < sum(kept) / len(kept) < 11_000


# --- lexical ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "fields", "label"),
    [
        (("fever", "cough"), {"question": "Patient with a COUGH."}, "B"),
        (("dry cough", "dry wet cough"), {"question": "A dry cough, wet at night"}, "B"),
        (("cough cough cough", "dry cough"), {"question": "A dry cough"}, "B"),
        # A column that holds an option says nothing about the question:
        (("fever high", "cough"), {"question": "the cough", "opa": "fever high", "opb": "cough"}, "B"),
    ],
)
def test_lexical_picks_the_option_with_most_words_in_common(
    options: tuple[str, ...], fields: Mapping[str, str], label: str
) -> None:
    assert text(Baseline("lexical"), choice("1", 0, options, **fields)) == label


NOTE = "The patient has asthma. The dose is 5 mg daily.\nFollow-up is planned. The dose was 2 mg before."


def test_lexical_copies_the_most_similar_sentences() -> None:
    def copied(max_tokens: int = 500, prompt: str = "", **fields: str) -> str:
        return text(Baseline("lexical"), open_question("1", "?", **fields), prompt=prompt, max_tokens=max_tokens)

    assert copied(7, note=NOTE, question="Which dose daily?") == "The dose is 5 mg daily."
    assert copied(note=NOTE, question="Which dose daily?") == "The dose is 5 mg daily. The dose was 2 mg before."
    assert copied(note=NOTE, question="zebra") == "The patient has asthma."
    assert copied(note=NOTE, prompt=f"Asthma? {NOTE} Planned?") == "The patient has asthma. Follow-up is planned."
    assert copied() == ""


# --- real data --------------------------------------------------------------------------------------------------------


def test_majority_on_pubmed_qa_is_right_552_times(data_dir: Path) -> None:
    rows = json.loads((data_dir / "pubmed_qa" / "ori_pqal.json").read_text(encoding="utf-8"))
    answers = ("yes", "no", "maybe")
    instances = [choice(name, answers.index(row["final_decision"]), answers) for name, row in rows.items()]
    baseline = prepared("majority", instances)
    assert sum(text(baseline, instance) == instance.expected for instance in instances) == 552

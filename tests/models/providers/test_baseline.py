"""The three baselines: simple rules, and always the same answers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.domain import Completion, Instance, Message, Model, Prompt, Reference, Request, Usage
from medhelm.errors import ProviderError
from medhelm.models.providers.baseline import (
    BASELINES,
    CHARACTERS_PER_TOKEN,
    MAX_REFERENCES,
    Baseline,
    most_frequent_answer,
    words,
)
from tests.support.cases import table

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


def text(baseline: Baseline, instance: Instance, **settings: object) -> str:
    """The text of the same."""
    completion = answer(baseline, instance, **settings)  # type: ignore[arg-type]
    assert completion.text is not None
    return completion.text


def prepared(rule: str, instances: Iterable[Instance], *, seed: int = 0) -> Baseline:
    """A baseline that has seen the benchmark `b`."""
    baseline = Baseline(rule, seed=seed)
    baseline.prepare("b", instances)
    return baseline


# --- all of them ------------------------------------------------------------------------------------------------------

SOME = [choice(str(i), i % 2, question=f"Is it {i}?", note="yes, it is 3") for i in range(9)]
OPEN = [open_question(str(i), f"answer {i}", question=f"What is {i}?", note="It is 3. It is 4.") for i in range(9)]


@pytest.mark.parametrize("rule", BASELINES)
@pytest.mark.parametrize("instances", [SOME, OPEN], ids=["choice", "open"])
def test_the_same_seed_gives_the_same_answers_in_any_order(rule: str, instances: list[Instance]) -> None:
    first, second = prepared(rule, instances), prepared(rule, iter(instances))
    forward = {i.id: text(first, i) for i in instances}
    backward = {i.id: text(second, i) for i in reversed(instances)}
    assert forward == backward


@pytest.mark.parametrize("rule", BASELINES)
def test_answers_are_free_local_and_complete(rule: str) -> None:
    baseline = prepared(rule, SOME)
    completion = answer(baseline, SOME[0])
    assert (completion.usage, completion.finish_reason, completion.failure) == (Usage(), "stop", None)
    assert completion.text in {"A", "B"}
    assert baseline.local
    assert baseline.endpoint == ""


@pytest.mark.parametrize("rule", BASELINES)
def test_a_request_without_an_instance_is_a_failure(rule: str) -> None:
    failure = answer(Baseline(rule), None).failure
    assert failure is not None
    assert (failure.boundary, failure.code) == ("provider", "no_instance")


@pytest.mark.parametrize("rule", ["majority", "random"])
def test_an_unseen_benchmark_is_an_error(rule: str) -> None:
    with pytest.raises(ProviderError, match=f"baseline/{rule} has not read `b`") as raised:
        answer(Baseline(rule), OPEN[0])
    assert raised.value.fatal


# --- majority ---------------------------------------------------------------------------------------------------------


@table(
    ("answers", "winner"),
    [([], ""), ([""], ""), (["", "", "a"], "a"), (["half \ud83d", "half \ud83d", "a"], "half \ud83d")],
)
def test_majority_counts_right_answers(answers: list[str], winner: str) -> None:
    instances = [open_question(str(position), answer) for position, answer in enumerate(answers)]
    assert most_frequent_answer(instances) == winner


@given(st.lists(st.sampled_from("abcde"), min_size=1, max_size=40))
def test_majority_is_the_first_most_common(answers: list[str]) -> None:
    instances = [open_question(str(position), answer) for position, answer in enumerate(answers)]
    assert most_frequent_answer(instances) == Counter(answers).most_common(1)[0][0]


def test_majority_answers_with_labels_for_each_benchmark() -> None:
    baseline = prepared("majority", [choice("1", 1), choice("2", 1), choice("3", 0)])
    baseline.prepare("c", [open_question("1", "y")])
    assert text(baseline, choice("4", 0)) == "B"


# --- random -----------------------------------------------------------------------------------------------------------


def test_random_uses_all_labels_about_equally() -> None:
    instances = [choice(str(i), 0, ("w", "x", "y", "z")) for i in range(400)]
    baseline = prepared("random", instances)
    counts = Counter(text(baseline, instance) for instance in instances)
    assert set(counts) == set("ABCD")
    assert all(70 < count < 130 for count in counts.values())


def test_random_gives_another_instances_answer_by_the_seed() -> None:
    assert text(prepared("random", OPEN[:1]), OPEN[0]) == ""
    baseline, other = (prepared("random", OPEN, seed=seed) for seed in (1, 2))
    assert [text(baseline, i) for i in OPEN] != [text(other, i) for i in OPEN]
    for instance in OPEN:
        assert text(baseline, instance) in {other.expected for other in OPEN if other.id != instance.id}


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
        (("fever", "cough"), {"question": "Patient is well."}, "A"),
        (("dry cough", "dry wet cough"), {"question": "A dry cough, wet at night"}, "B"),
        (("cough cough cough", "dry cough"), {"question": "A dry cough"}, "B"),
        (("fever", "cough"), {"note": "the cough", "question": "?"}, "B"),
        # A column that holds an option says nothing about the question:
        (("fever high", "cough"), {"question": "the cough", "opa": "fever high", "opb": "cough"}, "B"),
        (("", "cough"), {"question": "nothing"}, "A"),
    ],
)
def test_lexical_picks_the_option_with_most_words_in_common(
    options: tuple[str, ...], fields: Mapping[str, str], label: str
) -> None:
    assert text(Baseline("lexical"), choice("1", 0, options, **fields)) == label


NOTE = "The patient has asthma. The dose is 5 mg daily.\nFollow-up is planned. The dose was 2 mg before."


@pytest.mark.parametrize(
    ("fields", "prompt", "max_tokens", "result"),
    [
        ({"note": NOTE, "question": "Which dose daily?"}, "", 5, "The dose is 5 mg dai"),
        ({"note": NOTE, "question": "Which dose daily?"}, "", 7, "The dose is 5 mg daily."),
        ({"note": NOTE, "question": "Which dose daily?"}, "", 500, "The dose is 5 mg daily. The dose was 2 mg before."),
        ({"note": NOTE, "question": "zebra"}, "", 500, "The patient has asthma."),
        ({"note": NOTE}, f"Asthma or planned? {NOTE} Answer:", 500, "The patient has asthma. Follow-up is planned."),
        ({"question": "What is a zebra? Tell me."}, "", 500, "What is a zebra? Tell me."),
        ({}, "", 500, ""),
    ],
)
def test_lexical_copies_the_most_similar_sentences(
    fields: Mapping[str, str], prompt: str, max_tokens: int, result: str
) -> None:
    instance = open_question("1", "unknown", **fields)
    assert text(Baseline("lexical"), instance, prompt=prompt, max_tokens=max_tokens) == result


@given(st.text(max_size=300), st.text(max_size=50), st.integers(1, 30))
def test_lexical_stays_within_the_limit_and_copies(note: str, question: str, max_tokens: int) -> None:
    copied = text(Baseline("lexical"), open_question("1", "x", note=note, question=question), max_tokens=max_tokens)
    assert len(copied) <= max_tokens * CHARACTERS_PER_TOKEN
    whole = " ".join(copied.split(" ")[:-1])
    assert words(whole) <= words(note) | words(question)


# --- real data --------------------------------------------------------------------------------------------------------


def test_majority_on_pubmed_qa_is_right_552_times(data_dir: Path) -> None:
    rows = json.loads((data_dir / "pubmed_qa" / "ori_pqal.json").read_text(encoding="utf-8"))
    answers = ("yes", "no", "maybe")
    instances = [choice(name, answers.index(row["final_decision"]), answers) for name, row in rows.items()]
    baseline = prepared("majority", instances)
    assert sum(text(baseline, instance) == instance.expected for instance in instances) == 552

"""Reasoning in a text is taken out and counted; log-probabilities of tokens are kept small."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.domain import Completion, Message, Prompt, Request, Usage
from medhelm.domain.completion import split_reasoning, strip_reasoning
from medhelm.domain.token_logprobs import FIRST, LAST, TokenLogprobs, pack, token_logprobs_of, unpack
from medhelm.models.provider import separate_reasoning
from tests.support.cases import table
from tests.support.stores import make_model

PAIRS = {
    "think": ("<think>", "</think>"),
    "thinking": ("<thinking>", "</thinking>"),
    "reasoning": ("<reasoning>", "</reasoning>"),
    "EXAONE": ("<thought>\n", "\n</thought>"),
    "capitals": ("<THINK>", "</THINK>"),
    "Seed-OSS": ("<seed:think>", "</seed:think>"),
    "MedGemma": ("<unused94>thought\n", "<unused95>"),
    "Gemma 4": ("<|channel>thought\n", "<channel|>"),
    "gpt-oss": ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    "gpt-oss without special tokens": ("analysis", "assistantfinal"),
    "gpt-oss with constraint": (
        "<|start|>assistant<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>",
    ),
    "gpt-oss twice": (
        "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>commentary<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
    ),
    "Magistral": ("[THINK]", "[/THINK]"),
    "Kimi-VL": ("◁think▷", "◁/think▷"),
    "OpenThinker": ("<|begin_of_thought|>", "<|end_of_thought|>"),
    "Command A": ("<|START_THINKING|>", "<|END_THINKING|>"),
    "HuatuoGPT": ("## Thinking\n\n", "\n\n## Final Response\n\n"),
    "Granite": ("Here is my thought process:\n", "\nHere is my response:\n"),
}
"""Model or form -> start and end."""

NEEDS_START = {"HuatuoGPT", "Granite"}

ANSWER = "Take aspirin 81 mg daily."
each = pytest.mark.parametrize(("start", "end"), PAIRS.values(), ids=PAIRS)


@each
@pytest.mark.parametrize("start_only", [True, False])
def test_reasoning_is_not_the_answer(start: str, end: str, start_only: bool) -> None:
    split = split_reasoning(f"{start}A dangerous dose is 5 g.{end}\n\n{ANSWER}", start_only=start_only)
    assert split.answer == ANSWER
    assert split.reasoning.endswith("A dangerous dose is 5 g.")


@each
def test_reasoning_that_was_cut_off_leaves_no_answer(start: str, end: str) -> None:
    assert strip_reasoning(f"{start}A dangerous dose is") == ""
    assert strip_reasoning(f"{start}A dangerous dose is 5 g.{end}") == ""


@pytest.mark.parametrize("name", sorted(PAIRS.keys() - NEEDS_START))
def test_the_prompt_may_have_opened_it(name: str) -> None:
    assert strip_reasoning(f"A dangerous dose is 5 g.{PAIRS[name][1]}\n{ANSWER}") == ANSWER


@table(
    ("text", "answer"),
    [
        ("<think></think>\n\nB", "B"),
        ("<think>A</think>B<think>C</think>D", "B\nD"),
        ("<think>A</think>The answer is B.\n<think>Wait.</think>\n", "The answer is B.\n\n"),
        ("<think>A<think>C</think>D</think>B", "B"),
        ("B <think>or C", "B "),
        ("<|channel|>final<|message|>B<|return|>", "B"),
        ("<|begin_of_thought|>A<|end_of_thought|>\n<|begin_of_solution|>\nB<|end_of_solution|>", "B"),
        ("The tag <think> is not closed in '<think>'.", "The tag "),
    ],
)
def test_blocks_anywhere(text: str, answer: str) -> None:
    assert strip_reasoning(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        "analysis of the ECG: normal",
        "Analysis\nThe patient is stable.",
        "analysis: normal. The final assessment is B.",
        "Use <think> tags </think> sparingly.",
        "Everything before `</think>` is hidden.",
        'The marker "[THINK]" starts it.',
        "SpO2 <90%, thinking clear, BP >140.",
        "## Assessment\nThinking is slow.\n## Plan\nMRI.",
        "## Summary\n\n## Final Response\n\nB",
    ],
)
def test_a_text_about_reasoning_is_kept(text: str) -> None:
    assert split_reasoning(text) == ("", text)


def test_a_quoted_end_does_not_count_at_the_start_only() -> None:
    text = '{"explanation": "It says </think>{}"}'
    assert split_reasoning(text, start_only=True) == ("", text)


def test_a_model_may_have_markers_of_its_own() -> None:
    tags = [("<<plan>>", "<<done>>"), ("(", ")")]
    assert split_reasoning("<<plan>>A or (C)?<<done>> B", tags) == ("A or (C)?", "B")
    assert split_reasoning("A or C?<<done>>B", tags).answer == "B"
    assert split_reasoning("<think>A</think>B", tags).answer == "B"
    assert split_reasoning("<<plan>>A<<done>>B").answer == "<<plan>>A<<done>>B"


@given(st.text(alphabet="ab <>/\n"), st.text(alphabet="xyz ").map(str.strip), st.sampled_from(sorted(PAIRS)))
def test_what_follows_is_what_remains(thought: str, answer: str, name: str) -> None:
    start, end = PAIRS[name]
    assert strip_reasoning(f"{start}T{thought}{end}{answer}") == answer


@given(st.text())
def test_ordinary_text_is_never_changed(text: str) -> None:
    if not any(sign in text for sign in "<[◁#"):
        assert strip_reasoning(text) == text


@pytest.mark.parametrize(
    "piece", ["<think>", "</think>", "a<think>b</think>", "<unused94>", "[THINK]", "analysis", "<|"]
)
def test_long_texts_are_split(piece: str) -> None:
    text = piece * (400_000 // len(piece))
    assert len(strip_reasoning(text)) <= len(text)


# --- of a completion --------------------------------------------------------------------------------------------------

REQUEST = Request(model=make_model("openai/m"), prompt=Prompt((Message("user", "Why?"),)), max_tokens=9)


def separated(text: str, finish: str = "stop", request: Request = REQUEST, **usage: int) -> Completion:
    found = Completion(text=text, finish_reason=finish, usage=Usage(input=5, output=10, **usage))
    return separate_reasoning(found, request)


def test_the_share_of_reasoning_is_estimated_unless_it_was_counted() -> None:
    found = separated("<think>A or B?</think>B")
    assert (found.text, found.usage.reasoning, found.reasoning) == ("B", 9, "A or B?")
    assert separated("<think>A or B?</think>B", reasoning=4).usage.reasoning == 4
    assert separated("B") == Completion(text="B", finish_reason="stop", usage=Usage(input=5, output=10))


@pytest.mark.parametrize("text", ["<think>A or", "analysisThe dose"])
def test_a_limit_that_went_into_reasoning_is_a_failure(text: str) -> None:
    found = separated(text, "length")
    assert found.failure is not None
    assert (found.text, found.failure.code) == (None, "length")
    assert "all 10 tokens" in found.failure.message
    assert separated(text).text == ""
    assert separated(text).usage.reasoning == 10


def test_only_the_beginning_counts_for_a_reply_with_a_schema() -> None:
    judge = replace(REQUEST, schema={"type": "object"})
    quoting = '{"explanation": "it says </think>{}"}'
    assert separated(quoting, request=judge).text == quoting
    assert separated(f"<think>hm</think>{quoting}", request=judge).text == quoting


# --- log-probabilities of tokens --------------------------------------------------------------------------------------


def listed(token: Any, logprob: Any, **alternatives: float) -> dict[str, Any]:
    """A token as chat completions list it."""
    others = [{"token": name, "logprob": value, "bytes": None} for name, value in alternatives.items()]
    return {"token": token, "logprob": logprob, "top_logprobs": others}


def test_tokens_come_back_rounded_with_their_own_probability_and_without_rare_alternatives() -> None:
    text = token_logprobs_of([listed("B", -0.123456, A=-2.0, never=-30.0), listed(".", 0.00001)])
    assert unpack(text) == [
        TokenLogprobs("B", -0.1235, {"B": -0.1235, "A": -2.0}),
        TokenLogprobs(".", 0.0, {".": 0.0}),
    ], "a rounded probability above 1 is 1"
    assert unpack("") == unpack(None) == []
    assert token_logprobs_of([]) == ""


@pytest.mark.parametrize("entry", [{}, listed(None, -1), listed("B", None), listed("B", True), listed("B", math.nan)])
def test_entries_without_token_or_number_are_left_out(entry: dict[str, Any]) -> None:
    assert token_logprobs_of([entry, {**listed("A", -1), "top_logprobs": [entry, "x"]}]) == '[["A",-1.0,{"A":-1.0}]]'


def test_long_completions_keep_their_beginning_and_their_end() -> None:
    tokens = [TokenLogprobs(str(number), -1.0, {}) for number in range(1000)]
    kept = [one.token for one in unpack(pack(tokens))]
    assert kept == [str(number) for number in (*range(FIRST), *range(1000 - LAST, 1000))]


def test_impossible_logarithms_are_still_json() -> None:
    assert json.loads(token_logprobs_of([listed("A", -math.inf)]))[0][:2] == ["A", -9999.0]

"""A prompt that a server truncated without saying so is found by its token counts, and nothing else is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.domain import Completion, Usage
from medhelm.models.providers.errors import fewest_tokens, truncation_by_count
from tests.support.models.providers import asked
from tests.support.stores import make_model

NOTE = "The patient was seen in clinic and the wound was clean. " * 560
TABLE = "\n".join(f"|  {n:>12}  |  ----  |          |" for n in range(600))
CHINESE = "患者今日复诊，伤口清洁干燥，无红肿渗液，继续口服抗生素三天。" * 300


def is_cut(text: str, tokens: int, cached: int = 0) -> bool:
    completion = Completion(text="B", usage=Usage(input=tokens, cached_input=cached, output=1))
    return bool(truncation_by_count(asked(make_model("openai/m"), text), completion))


@pytest.mark.parametrize(("text", "tokens"), [(NOTE, 2050), (CHINESE, 1026), (NOTE + CHINESE, 4096)])
def test_a_count_that_no_tokenizer_could_have_is_found(text: str, tokens: int) -> None:
    message = truncation_by_count(asked(make_model("openai/m"), text), Completion(text="B", usage=Usage(input=tokens)))
    assert f"it read {tokens:,} tokens" in message


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (NOTE, len(NOTE.split())),
        (NOTE, 20),
        (TABLE, 1300),
        ("\n\n\n" * 9_000 + NOTE, 6200),
        ("-" * 40_000 + "=" * 20_000, 400),
        (CHINESE, len(CHINESE) // 2),
    ],
)
def test_a_count_that_is_possible_is_believed(text: str, tokens: int) -> None:
    assert not is_cut(text, tokens)


def test_a_server_that_counts_cached_tokens_alone_is_believed() -> None:
    assert not is_cut(NOTE, 2050, cached=2050)
    assert is_cut(NOTE, 2050, cached=1024)


def widest_tokens(text: str) -> int:
    """Tokens of the most economical tokenizer that there could be: whole words with their blank space."""
    return len(re.findall(r"\s*\w+", re.sub(r"[^\w\s]+", "", text)))


@settings(max_examples=10)
@given(st.text(alphabet="ab 1.,-/\n|<>%éß", min_size=2000, max_size=4000))
def test_the_bound_is_below_every_tokenizer_with_tokens_inside_words(text: str) -> None:
    prompt = asked(make_model("openai/m"), text).prompt
    assert fewest_tokens(prompt) <= widest_tokens(text)
    assert not is_cut(text, max(1, widest_tokens(text)))

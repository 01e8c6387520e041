"""A prompt that a server truncated without saying so is found by its token counts, and nothing else is."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.data.sampling import SampleOptions
from medhelm.benchmarks.prompts import render
from medhelm.domain import Completion, Message, Prompt, Request, Usage
from medhelm.models.providers.errors import fewest_tokens, truncation_by_count
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.stores import make_model

NOTE = "The patient was seen in clinic and the wound was clean. " * 560
TABLE = "\n".join(f"|  {n:>12}  |  ----  |          |" for n in range(600))
CHINESE = "患者今日复诊，伤口清洁干燥，无红肿渗液，继续口服抗生素三天。" * 300


def request(text: str) -> Request:
    return Request(model=make_model("openai/m"), prompt=Prompt((Message("user", text),)), max_tokens=5)


def is_cut(text: str, tokens: int, cached: int = 0) -> bool:
    completion = Completion(text="B", usage=Usage(input=tokens, cached_input=cached, output=1))
    return bool(truncation_by_count(request(text), completion))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [(NOTE, 2050), (NOTE, 4096), (CHINESE, 1026), (NOTE + CHINESE, 4096), ("wort " * 3000, 2050)],
    ids=["Ollama's half", "window", "Chinese", "two scripts", "one word"],
)
def test_a_count_that_no_tokenizer_could_have_is_found(text: str, tokens: int) -> None:
    assert is_cut(text, tokens)
    message = truncation_by_count(request(text), Completion(text="B", usage=Usage(input=tokens)))
    assert f"it read {tokens:,} tokens" in message


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (NOTE, len(NOTE.split())),
        (NOTE, 20),
        (NOTE, 0),
        (TABLE, 1300),
        (" " * 50_000 + "word", 300),
        ("\n\n\n" * 9_000 + NOTE, 6200),
        ("-" * 40_000 + "=" * 20_000, 400),
        ("A" * 30_000, 400),
        (CHINESE, len(CHINESE) // 2),
        ("ACGT" * 5_000, 700),
        ("1234567890" * 2_000, 6700),
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


@given(st.text(alphabet="ab 1.,-/\n|<>%éß", min_size=2000, max_size=4000))
def test_the_bound_is_below_every_tokenizer_with_tokens_inside_words(text: str) -> None:
    prompt = request(text).prompt
    assert fewest_tokens(prompt) <= widest_tokens(text)
    assert not is_cut(text, max(1, widest_tokens(text)))


PRETOKENS = re.compile(
    r"'(?:[sdmt]|ll|ve|re)|[^\r\n\w]?[^\W\d_]+|\d{1,3}| ?(?:[^\s\w]|_)+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+", re.IGNORECASE
)
"""Pieces into which the tokenizers of GPT-4, Llama 3 and Qwen split a text first; each becomes at least one token."""


@pytest.mark.parametrize("name", ["aci_bench", "pubmed_qa", "med_qa", "mtsamples_procedures", "medcalc_bench", "medec"])
def test_no_whole_prompt_of_the_real_data_is_suspected(name: str, data_dir: Path) -> None:
    (benchmark,) = load_benchmarks([name], metrics=METRIC_NAMES)
    n = 0
    for instance in islice(open_dataset(benchmark, data=data_dir, tier="real", options=SampleOptions(limit=200)), 200):
        prompt = render(benchmark, instance)
        pieces = sum(len(PRETOKENS.findall(message.text)) for message in prompt.messages)
        whole = Request(model=make_model("openai/m"), prompt=prompt, max_tokens=5)
        assert fewest_tokens(prompt) <= pieces
        assert not truncation_by_count(whole, Completion(text="B", usage=Usage(input=pieces, output=1)))
        n += 1
    assert n > 50

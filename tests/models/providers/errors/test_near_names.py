"""Which of a server's models may be meant."""

from __future__ import annotations

from medhelm.models.providers.errors.classify import near_names
from tests.support.cases import table

SERVED = ["meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "gpt-4o", "gpt-4o-mini", "claude-haiku-4-5"]


@table(
    ("asked", "first"),
    [
        ("qwen2.5", "Qwen/Qwen2.5-7B-Instruct"),
        ("QWEN/qwen2.5-7b-instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("llama-3.3-70b", "meta-llama/Llama-3.3-70B-Instruct"),
        ("gpt-4o-2024-05-13", "gpt-4o"),
        ("gpt4o-mini", "gpt-4o-mini"),
        ("claude-haiku-4.5", "claude-haiku-4-5"),
        ("mistral-large", None),
        ("o", None),
        ("", None),
    ],
)
def test_the_likeliest_comes_first(asked: str, first: str | None) -> None:
    assert next(iter(near_names(asked, SERVED)), None) == first


def test_nothing_is_near_to_nothing() -> None:
    assert near_names("gpt-4o", []) == []

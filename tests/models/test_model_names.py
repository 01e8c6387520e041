"""Names of models without what does not tell which model it is."""

from __future__ import annotations

import pytest

from medhelm.models.model_names import plain_name


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("openai/gpt-4o", "gpt-4o"),
        ("gpt-4o", "gpt-4o"),
        ("hf/Qwen/Qwen2.5-0.5B-Instruct", "qwen2.5-0.5b-instruct"),
        ("openai/Llama@http://127.0.0.1:8000/v1", "llama"),
        ("", ""),
    ],
)
def test_vendor_address_and_case_are_left_out(name: str, plain: str) -> None:
    assert plain_name(name) == plain

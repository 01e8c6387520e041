"""Log-probabilities of tokens: what servers return, what is kept of it, and how it comes back."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from medhelm.domain.token_logprobs import FIRST, LAST, TokenLogprobs, pack, token_logprobs_of, unpack


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

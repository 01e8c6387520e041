"""A server with a tokenizer and a small window of its own, which refuses what is too long for it, in its own words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.support.servers.openai import Answer

_PIECES = re.compile(r"\w{1,6}|[^\w\s]")

OPENAI = (
    "This model's maximum context length is {window} tokens. However, you requested {asked} tokens ({prompt} in the "
    "messages, {answer} in the completion). Please reduce the length of the messages or completion."
)
SILENT = "the prompt exceeds the context window"


def n_tokens(body: Mapping[str, Any], pieces: re.Pattern[str] = _PIECES) -> int:
    """Tokens of a request's messages, with those of a chat template."""
    return 3 + sum(4 + len(pieces.findall(message["content"])) for message in body["messages"])


class SmallWindow:
    """For `Server.answer_with`; counts what it let pass and what it did not."""

    def __init__(self, window: int, *, words: str = OPENAI, pieces: str = "", text: str = "A") -> None:
        """`pieces`: what is a token, as a regular expression."""
        self.window, self.words, self.text = window, words, text
        self.pieces = re.compile(pieces) if pieces else _PIECES
        self.passed: list[str] = []
        """The last message of each request that fitted."""
        self.refused: list[str] = []
        """The same of those that did not."""

    def __call__(self, body: dict[str, Any]) -> Answer:
        """The answer to one request."""
        prompt, answer = n_tokens(body, self.pieces), body.get("max_tokens") or body["max_completion_tokens"]
        said = body["messages"][-1]["content"]
        if prompt + answer > self.window:
            self.refused.append(said)
            words = self.words.format(window=self.window, asked=prompt + answer, prompt=prompt, answer=answer)
            error = {"message": words, "type": "invalid_request_error", "code": "context_length_exceeded"}
            return Answer(status=400, body={"error": error})
        self.passed.append(said)
        choice = {"index": 0, "message": {"role": "assistant", "content": self.text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": prompt, "completion_tokens": 1, "total_tokens": prompt + 1}
        return Answer(body={"model": "mock-1", "choices": [choice], "usage": usage})

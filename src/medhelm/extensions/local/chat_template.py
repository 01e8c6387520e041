"""Convert messages to the text of a prompt with the model's chat template.

A template is code from the publisher of the model; `transformers` runs it in Jinja's sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from medhelm.domain import Message
from medhelm.domain.reasoning import is_marker
from medhelm.models.provider import fold_system

THINK = "<think>"
_ENDS = ("<|im_end|>", "<|eot_id|>", "<|eot|>", "<end_of_turn>", "<|end|>", "<|return|>", "<|endoftext|>")
"""Tokens with which chat models end a turn; some configurations omit theirs."""
_CHANNEL, _MESSAGE, _FINAL = "<|channel|>", "<|message|>", "final"
"""Tokens of models that write reasoning and answer into channels, such as gpt-oss; there `<|end|>` ends a channel only.
Source: OpenAI's "harmony" response format (developers.openai.com/cookbook)."""
_MARK = re.compile(r"<\|[a-z_]+\|>")


class ChatTemplate:
    """The chat template of one tokenizer."""

    def __init__(self, tokenizer: Any, options: Mapping[str, Any]) -> None:
        """`options`: arguments of the template, such as `enable_thinking`."""
        self._tokenizer = tokenizer
        self._options = dict(options)
        self.has_template = bool(tokenizer.chat_template)
        self._has_channels = self.has_template and _CHANNEL in str(tokenizer.chat_template)
        added_tokens = getattr(tokenizer, "added_tokens_decoder", {})
        special = {token: str(added) for token, added in added_tokens.items() if added.special}
        self._marks = {token for token, text in special.items() if is_marker(text)}
        self._hidden = special.keys() - self._marks
        self._supports_system: bool | None = None

    def text(self, messages: Sequence[Message]) -> str:
        """Return the prompt as text; without a template, the texts of the messages separated by blank lines.

        If the template does not support system messages, theirs go before the user's first message.
        Raises: ValueError with the template's error.
        """
        if not self.has_template:
            return "\n\n".join(message.text for message in messages)
        if any(message.role == "system" for message in messages):
            if self._supports_system is None:
                self._supports_system = self._renders_system(messages)
            messages = messages if self._supports_system else fold_system(messages)
        return self._render(messages)

    def token_ids(self, text: str) -> list[int]:
        """Return the tokens of a text from `text`; the template has already added special tokens."""
        readable = text.encode("utf-8", "replace").decode("utf-8")
        ids: list[int] = self._tokenizer(readable, add_special_tokens=not self.has_template)["input_ids"]
        return ids

    def ends(self) -> set[int]:
        """Return the tokens that end a turn, in addition to those in the model's configuration."""
        if not self.has_template:
            return set()
        known = self._tokenizer.get_added_vocab()
        marks = [mark for mark in _ENDS if not (self._has_channels and mark == "<|end|>")]
        return {known[mark] for mark in marks if mark in known and mark in self._tokenizer.chat_template}

    def decode(self, tokens: Sequence[int]) -> str:
        """Return tokens as text without special tokens; reasoning in its own channel is put between tags."""
        if self._marks:  # markers of reasoning that are special tokens, such as Magistral's: they must stay
            tokens = [token for token in tokens if token not in self._hidden]
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=not (self._has_channels or self._marks))
        return without_channels(text) if self._has_channels else text

    def _renders_system(self, messages: Sequence[Message]) -> bool:
        """Return True if the rendered text contains the system message; templates may reject or silently omit it."""
        system = next(message.text for message in messages if message.role == "system").strip()
        try:
            return system in self._render(messages)
        except ValueError:
            return False

    def _render(self, messages: Sequence[Message]) -> str:
        turns = [{"role": message.role, "content": message.text} for message in messages]
        try:
            text: str = self._tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True, **self._options
            )
        except Exception as error:  # foreign code may raise anything
            raise ValueError(f"the model's chat template rejects these messages: {error}") from error
        return text


def without_channels(text: str) -> str:
    """Join the channels of a text: reasoning between `<think>` tags, then the answer.

    >>> without_channels("<|channel|>analysis<|message|>A or B?<|end|><|start|>assistant<|channel|>final<|message|>B")
    '<think>A or B?</think>B'
    >>> without_channels("<|channel|>analysis<|message|>A or")
    '<think>A or'
    """
    before, *parts = text.split(_CHANNEL)
    thoughts, answer, answered = "", _MARK.sub("", before), not parts
    for part in parts:
        name, _, rest = part.partition(_MESSAGE)
        content = _MARK.split(rest, maxsplit=1)[0]
        if name.strip() == _FINAL:
            answer, answered = answer + content, True
        else:
            thoughts += content
    if not thoughts and answered:
        return answer
    return f"{THINK}{thoughts}</think>{answer}" if answered else f"{THINK}{thoughts}"

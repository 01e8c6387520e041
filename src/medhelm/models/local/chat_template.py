"""From messages to the text that a model reads, by the chat template that comes with it.

A template is a program of whoever published the model; it runs in Jinja's sandbox, as `transformers` has it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from medhelm.domain import Message

THINK = "<think>"
_ENDS = ("<|im_end|>", "<|eot_id|>", "<|eot|>", "<end_of_turn>", "<|end|>", "<|return|>", "<|endoftext|>")
"""Marks by which chat models end a turn; some configurations do not name theirs."""
_CHANNEL, _MESSAGE, _FINAL = "<|channel|>", "<|message|>", "final"
"""Marks of models that write thoughts and answer into channels, such as gpt-oss; there `<|end|>` ends a channel only.
Source: OpenAI's "harmony" response format (developers.openai.com/cookbook)."""
_MARK = re.compile(r"<\|[a-z_]+\|>")


class ChatTemplate:
    """The chat template of one tokenizer."""

    def __init__(self, tokenizer: Any, options: Mapping[str, Any]) -> None:
        """`options` go to the template, such as `enable_thinking`."""
        self._tokenizer = tokenizer
        self._options = dict(options)
        self.has_template = bool(tokenizer.chat_template)
        self._has_channels = self.has_template and _CHANNEL in str(tokenizer.chat_template)
        self._takes_system: bool | None = None

    @property
    def takes_system(self) -> bool | None:
        """Whether the template has a place for a system message; None as long as nothing shows."""
        return self._takes_system

    def text(self, messages: Sequence[Message]) -> str:
        """What the model reads; without a template the messages' texts, with a blank line between them.

        A system message for which the template has no place is put before the first message of the user.
        Raises: ValueError with the template's complaint.
        """
        if not self.has_template:
            return "\n\n".join(message.text for message in messages)
        turns = [{"role": message.role, "content": message.text} for message in messages]
        if not any(turn["role"] == "system" for turn in turns):
            return self._rendered(turns)
        if self._takes_system is None:
            self._takes_system = self._shows_system(turns)
        return self._rendered(turns if self._takes_system else folded(turns))

    def token_ids(self, text: str) -> list[int]:
        """Tokens of a text made by `text`; the template has put its special marks there already."""
        readable = text.encode("utf-8", "replace").decode("utf-8")
        ids: list[int] = self._tokenizer(readable, add_special_tokens=not self.has_template)["input_ids"]
        return ids

    def ends(self) -> set[int]:
        """Tokens by which this chat's turns end, besides those that the model's configuration names."""
        if not self.has_template:
            return set()
        known = self._tokenizer.get_added_vocab()
        marks = [mark for mark in _ENDS if not (self._has_channels and mark == "<|end|>")]
        return {known[mark] for mark in marks if mark in known and mark in self._tokenizer.chat_template}

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of some tokens without special ones; thoughts in a channel of their own are put between tags."""
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=not self._has_channels)
        return without_channels(text) if self._has_channels else text

    def _shows_system(self, turns: Sequence[Mapping[str, str]]) -> bool:
        """Whether a system message is in what the template makes; some refuse it, some leave it out in silence."""
        said = next(turn["content"] for turn in turns if turn["role"] == "system").strip()
        try:
            return said in self._rendered(turns)
        except ValueError:
            return False

    def _rendered(self, turns: Sequence[Mapping[str, str]]) -> str:
        try:
            text: str = self._tokenizer.apply_chat_template(
                [dict(turn) for turn in turns], tokenize=False, add_generation_prompt=True, **self._options
            )
        except Exception as error:  # a program of others: whatever it raises is its complaint
            raise ValueError(f"the model's chat template cannot take these messages: {error}") from error
        return text


def folded(turns: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The same turns with the system's words before the user's first.

    >>> folded([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}])
    [{'role': 'user', 'content': 'Be brief.\\n\\nWhy?'}]
    """
    words = [turn["content"] for turn in turns if turn["role"] == "system"]
    others = [dict(turn) for turn in turns if turn["role"] != "system"]
    first = next((turn for turn in others if turn["role"] == "user"), None)
    if first is None:
        return [{"role": "user", "content": "\n\n".join(words)}, *others]
    first["content"] = "\n\n".join([*words, first["content"]])
    return others


def without_channels(text: str) -> str:
    """A text in channels as one piece: thoughts between `<think>` tags, then the answer.

    >>> without_channels("<|channel|>analysis<|message|>A or B?<|end|><|start|>assistant<|channel|>final<|message|>B")
    '<think>A or B?</think>B'
    >>> without_channels("<|channel|>analysis<|message|>A or")
    '<think>A or'
    """
    before, *parts = text.split(_CHANNEL)
    thoughts, answer, answered = "", _MARK.sub("", before), not parts
    for part in parts:
        name, _, rest = part.partition(_MESSAGE)
        said = _MARK.split(rest, maxsplit=1)[0]
        if name.strip() == _FINAL:
            answer, answered = answer + said, True
        else:
            thoughts += said
    if not thoughts and answered:
        return answer
    return f"{THINK}{thoughts}</think>{answer}" if answered else f"{THINK}{thoughts}"

"""Find prompts that a server truncated without saying so, by the tokens that it reports.

No tokenizer in use has tokens across the blank space between words. So a prompt cannot have fewer tokens than words.
Scripts without blank space between words have at least a token for three characters. Runs of blank space and of
punctuation may be single tokens, and count nothing.
"""

from __future__ import annotations

import re

from medhelm.domain import Completion, Prompt, Request

MARGIN = 0.9
"""Share of the fewest tokens below which a count is not believed to be that of the whole prompt."""

TRUNCATED = "the server truncated the prompt without saying so"
"""First words of the message."""

LEAST_REPORTED = 256
"""Lower counts are not looked at: no server has so small a context window, but some report a part of the tokens."""

_NO_WORD = re.compile(r"[^\w\s]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Thai, Lao, Burmese, Khmer, Japanese and Chinese characters."""

CHARACTERS_PER_TOKEN = 3
"""Most characters of these scripts in a token, on average over a prompt."""


def fewest_tokens(prompt: Prompt) -> int:
    """Return a lower bound of the tokens of a prompt, whatever the tokenizer.

    >>> from medhelm.domain import Message
    >>> fewest_tokens(Prompt((Message("user", "BP 120/80,  HR 72 --- stable"),)))
    5
    """
    total = 0.0
    for message in prompt.messages:
        words = _NO_WORD.sub("", message.text)
        if not words.isascii():
            words, n_unspaced = _UNSPACED.subn(" ", words)
            total += n_unspaced / CHARACTERS_PER_TOKEN
        total += len(words.split())
    return int(total)


def truncation_by_count(request: Request, completion: Completion) -> str:
    """Return the message about a prompt that the server truncated, by its own count; "" if it did not.

    Counts of tokens in the provider's cache are part of the count. A server that reports nothing but those counts the
    others elsewhere.
    """
    usage = completion.usage
    n_characters = sum(len(message.text) for message in request.prompt.messages)
    if usage.input < LEAST_REPORTED or n_characters <= usage.input or 0 < usage.input <= usage.cached_input:
        return ""
    fewest = fewest_tokens(request.prompt)
    if usage.input >= MARGIN * fewest:
        return ""
    return (
        f"{TRUNCATED}: it read {usage.input:,} tokens, and the prompt has at least {fewest:,}. "
        "Start it with a larger context window, or set its `window` in models.yaml"
    )

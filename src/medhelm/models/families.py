"""Whose models are of one family: they are built alike, and count tokens alike."""

from __future__ import annotations

import re
from collections.abc import Mapping

FAMILIES: Mapping[str, str] = {
    "OpenAI": r"(?<![a-z])(?:gpt(?!-?(?:neo|j(?![a-z])))|o[1-9](?![a-z0-9]))|chatgpt|davinci",
    "Anthropic": r"claude",
    "Google": r"gemini|gemma|med-?palm",
    "Meta": r"llama",
    "Mistral": r"mistral|mixtral|ministral|magistral",
    "Alibaba": r"qwen|qwq",
    "DeepSeek": r"deepseek",
    "Microsoft": r"(?<![a-z])phi(?![a-z])",
    "xAI": r"grok",
    "Cohere": r"command-?[ar]|cohere",
    "Amazon": r"titan|(?<![a-z])nova(?![a-z])",
    "NVIDIA": r"nemotron",
    "Moonshot": r"kimi|moonshot",
    "Zhipu": r"(?<![a-z])glm",
    "Ai2": r"olmo|tulu",
}
"""Family -> what tells it in the name of a model, in small letters. The first word of a name that tells one counts."""


def family_of(*names: str) -> str:
    """Who made a model, as far as its names tell: the first name that tells it counts.

    A name is read without the vendor before it and the address after it, because any server may stand under
    `openai/`. Returns: a key of `FAMILIES`; for a model of none of them, its own name.

    >>> family_of("openai/Qwen2.5-7B-Instruct@http://127.0.0.1:8000/v1")
    'Alibaba'
    """
    plain = [name.partition("@")[0].rpartition("/")[2].lower() for name in names]
    for name in plain:
        found = [(match.start(), family) for family, sign in FAMILIES.items() if (match := re.search(sign, name))]
        if found:
            return min(found)[1]
    return plain[0]

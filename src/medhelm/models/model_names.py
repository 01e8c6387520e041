"""Facts from the name of a model: its family, its maker, and its use of hidden reasoning."""

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
"""Family -> regular expression for names in lower case. The first match in a name counts."""

_REASONS = re.compile(
    r"(?:.*/|(?:[a-z]+\.)+)?(?:o\d+(?:$|-)|codex-mini|gpt-(?:[5-9]|1\d)(?!\d|-chat)|gpt-oss|(?<=deepseek\.)r\d"
    r"|deepseek-r\d|deepseek-reasoner|qwq|magistral|gemini-(?:2\.5-(?!flash-lite)|[3-9]|\d\d)"
    r"|claude-[a-z]+-(?:[5-9]|\d\d)(?!\d)|claude-mythos"
    r"|kimi-k(?:2[.p][5-9]|[3-9])(?!.*instruct)|glm-(?:4[.p][5-9]|[5-9]|\d\d)(?!\d)|deepseek-v(?:[4-9]|\d\d)"
    r"|qwen-?3(?:\.\d+)?(?![\d.])(?!.*(?:instruct|coder|max|embed|rerank|base|guard|asr|tts|omni|image))"
    r"|grok-(?:[4-9]|3-mini|code)(?!.*non-reasoning)|minimax-m\d|medgemma-1\.[5-9]|huatuogpt-o\d|baichuan-m[2-9]"
    r"|ii-medical|seed-oss|(?:nvidia-)?nemotron-(?:3|nano-\d+b-v2)|smollm3|hunyuan-a13b|step-?3|exaone-deep|sky-t1"
    r"|openthinker|ring-|.*-(?:think|thinker|thinking|reasoning)\b(?<!non-reasoning))",
    re.IGNORECASE,
)
"""Models that spend hidden tokens first, unless set otherwise: OpenAI's since o1, except `gpt-5-chat`; Gemini since
2.5, for Flash-Lite since 3 (ai.google.dev/gemini-api/docs/thinking); Claude since 5, earlier ones only with `thinking`
(platform.claude.com/docs, thinking by model); and models that do so by default, by their cards. Others show it in their
replies (`ContextFitter`)."""


def plain_name(name: str) -> str:
    """Return a model's name without vendor and address, in lower case.

    >>> plain_name("meta-llama/Llama-3.3-70B-Instruct@http://127.0.0.1:8000/v1")
    'llama-3.3-70b-instruct'
    """
    return name.partition("@")[0].rpartition("/")[2].lower()


def family_of(*names: str) -> str:
    """Return a model's family by the first name that identifies it: a key of `FAMILIES`, or its plain name.

    Models of one family are built alike and count tokens alike. Vendor and address do not count, because any server
    may go by `openai/`.

    >>> family_of("openai/Qwen2.5-7B-Instruct@http://127.0.0.1:8000/v1")
    'Alibaba'
    """
    plain = [plain_name(name) for name in names]
    for name in plain:
        found = [(match.start(), family) for family, pattern in FAMILIES.items() if (match := re.search(pattern, name))]
        if found:
            return min(found)[1]
    return plain[0]


def reasons(remote_name: str) -> bool:
    """Return True if a model of this name spends hidden tokens before it answers.

    >>> [reasons(name) for name in ("gpt-5-mini", "openai/o3-mini-2025-01-31", "gpt-4o", "gpt-5-chat-latest")]
    [True, True, False, False]
    """
    return _REASONS.match(remote_name) is not None

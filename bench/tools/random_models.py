"""Models with random weights: their speed does not depend on what they generate.

Imports torch, so only the processes that measure local models import this module.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers

END, TURN, TURN_ENDS = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT = (
    "{% for turn in messages %}<|im_start|>{{ turn['role'] }}\n{{ turn['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPREAD = 0.3
"""Standard deviation of the weights; with a smaller one, all tokens would be almost equally likely."""


def byte_tokenizer() -> Any:
    """Return a tokenizer with one token per byte and three that mark turns and the end."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    numbers = {letter: number for number, letter in enumerate([END, TURN, TURN_ENDS, *letters])}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=numbers, merges=[]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens([tokenizers.AddedToken(mark, special=True) for mark in (END, TURN, TURN_ENDS)])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token=END, pad_token=END)
    fast.chat_template = CHAT
    return fast


def random_llama(sizes: dict[str, Any], *, device: str, dtype: torch.dtype) -> Any:
    """Return a Llama model of these sizes; the same one every time on one device."""
    torch.manual_seed(0)
    with torch.device(device):
        return transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**sizes), dtype=dtype).eval()


def save_random_llama(folder: Path, sizes: dict[str, Any]) -> Path:
    """Write such a model and a byte tokenizer into a folder that `hf/` can load."""
    words = byte_tokenizer()
    model = random_llama({"vocab_size": len(words), "eos_token_id": 0, **sizes}, device="cpu", dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, SPREAD)
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
